/* SPDX-License-Identifier: Apache-2.0
 * Protects attributes that lead into items, and sorting by them. */
#include "../agreement.h"

/* clang-format off */

static const struct agreement rows_0[] = {
    {"{{ objs|map(attribute='n')|list }}", "['b', 'A', 'a', Undefined]"},
    {"{{ nums|map(attribute='n')|list }}", "[Undefined, Undefined, Undefined, Undefined, Undefined]"},
    {"{{ 12|map(attribute='n')|list }}", NULL},
    {"{{ objs|map(attribute='n',default='D')|list }}", "['b', 'A', 'a', 'D']"},
    {"{{ nums|map(attribute='n',default='D')|list }}", "['D', 'D', 'D', 'D', 'D']"},
    {"{{ 12|map(attribute='n',default='D')|list }}", NULL},
    {"{{ objs|map(attribute='k.z.0')|list }}", NULL},
    {"{{ e|map(attribute='k.z.0')|list }}", "[]"},
    {"{{ objs|map(attribute='k.z.0',default=9)|list }}", "[1, 2, 0, 9]"},
    {"{{ nums|map(attribute='k.z.0',default=9)|list }}", "[9, 9, 9, 9, 9]"},
    {"{{ 12|map(attribute='k.z.0',default=9)|list }}", NULL},
    {"{{ objs|map(attribute=0)|list }}", "[Undefined, Undefined, Undefined, Undefined]"},
    {"{{ nums|map(attribute=0)|list }}", "[Undefined, Undefined, Undefined, Undefined, Undefined]"},
    {"{{ 12|map(attribute=0)|list }}", NULL},
    {"{{ objs|map(attribute='n',foo=1)|list }}", NULL},
    {"{{ e|map(attribute='n',foo=1)|list }}", "[]"},
    {"{{ objs|rejectattr('v','==',2)|map(attribute='v')|list }}", "[1, 3, 0]"},
    {"{{ nums|rejectattr('v','==',2)|map(attribute='v')|list }}", "[Undefined, Undefined, Undefined, Undefined, Undefined]"},
    {"{{ 12|rejectattr('v','==',2)|map(attribute='v')|list }}", NULL},
};

TEST(attributes_lead_into_items) {
    AGREES(rows_0);
}

static const struct agreement rows_1[] = {
    {"{{ u|dictsort }}", NULL},
    {"{{ d|dictsort }}", "[('A', [1, 2]), ('b', 1), ('c', None)]"},
    {"{{ {'a':'x y','b':'/?é','c':3}|dictsort }}", "[('a', 'x y'), ('b', '/?é'), ('c', 3)]"},
    {"{{ u|sort }}", "[' ', ' ', ' ', ' ', ' ', ' ', '.', 'd', 'h', 'l', 'l', 'l', 'o', 'r', 'W', 'ß', 'é', 'ö', 'ǅ', 'Α', 'Α', 'Σ', 'Σ', 'Σ', 'ﬁ']"},
    {"{{ s|sort }}", "['\\t', '\\n', ' ', ' ', ' ', ' ', '-', 'a', 'a', 'b', 'b', 'd', 'e', 'f', 'H', 'l', 'l', 'l', 'o', 'o', 'o', 'o', 'r', 'r', 'W', 'z']"},
    {"{{ n|sort }}", NULL},
    {"{{ objs|sort(true) }}", NULL},
    {"{{ nums|sort(true) }}", "[3, 1.5, True, 0, -2]"},
    {"{{ words|sort(true) }}", "['Á', 'c', 'b', 'B', 'A', 'a']"},
    {"{{ objs|sort(reverse=true) }}", NULL},
    {"{{ nums|sort(reverse=true) }}", "[3, 1.5, True, 0, -2]"},
    {"{{ words|sort(reverse=true) }}", "['Á', 'c', 'b', 'B', 'A', 'a']"},
    {"{{ objs|sort(false,true) }}", NULL},
    {"{{ nums|sort(false,true) }}", "[-2, 0, True, 1.5, 3]"},
    {"{{ words|sort(false,true) }}", "['A', 'B', 'a', 'b', 'c', 'Á']"},
    {"{{ objs|sort(attribute='v') }}", "[{'v': 0}, {'n': 'A', 'v': 1, 'k': {'z': [2]}}, {'n': 'b', 'v': 2, 'k': {'z': [1]}}, {'n': 'a', 'v': 3, 'k': {'z': [0]}}]"},
    {"{{ nums|sort(attribute='v') }}", "[3, 1.5, True, -2, 0]"},
    {"{{ n|sort(attribute='v') }}", NULL},
    {"{{ objs|sort(attribute='n') }}", NULL},
    {"{{ nums|sort(attribute='n') }}", "[3, 1.5, True, -2, 0]"},
    {"{{ words|sort(attribute='n') }}", "['b', 'A', 'c', 'B', 'a', 'Á']"},
    {"{{ objs|sort(attribute='k.z') }}", NULL},
    {"{{ e|sort(attribute='k.z') }}", "[]"},
    {"{{ objs|sort(case_sensitive=true,attribute='n') }}", NULL},
    {"{{ nums|sort(case_sensitive=true,attribute='n') }}", "[3, 1.5, True, -2, 0]"},
    {"{{ words|sort(case_sensitive=true,attribute='n') }}", "['b', 'A', 'c', 'B', 'a', 'Á']"},
    {"{{ objs|sort(attribute=0) }}", "[{'n': 'b', 'v': 2, 'k': {'z': [1]}}, {'n': 'A', 'v': 1, 'k': {'z': [2]}}, {'n': 'a', 'v': 3, 'k': {'z': [0]}}, {'v': 0}]"},
    {"{{ nums|sort(attribute=0) }}", "[3, 1.5, True, -2, 0]"},
    {"{{ mix|sort(attribute=0) }}", NULL},
    {"{{ objs|sort(attribute='0') }}", "[{'n': 'b', 'v': 2, 'k': {'z': [1]}}, {'n': 'A', 'v': 1, 'k': {'z': [2]}}, {'n': 'a', 'v': 3, 'k': {'z': [0]}}, {'v': 0}]"},
    {"{{ nums|sort(attribute='0') }}", "[3, 1.5, True, -2, 0]"},
    {"{{ mix|sort(attribute='0') }}", NULL},
    {"{{ [[1,'b'],[1,'a'],[0,'c']]|sort(attribute=0) }}", "[[0, 'c'], [1, 'b'], [1, 'a']]"},
    {"{{ [[1,'b'],[1,'a'],[0,'c']]|sort(reverse=true,attribute='0') }}", "[[1, 'b'], [1, 'a'], [0, 'c']]"},
    {"{{ ['b','B','a','A']|sort }}", "['a', 'A', 'b', 'B']"},
    {"{{ ['b','B','a','A']|sort(true) }}", "['b', 'B', 'a', 'A']"},
    {"{{ [1,'a']|sort }}", NULL},
    {"{{ [nope,nope]|sort }}", "[Undefined, Undefined]"},
};

TEST(what_is_equal_keeps_its_order) {
    AGREES(rows_1);
}

/* clang-format on */
