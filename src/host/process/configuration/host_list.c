/* SPDX-License-Identifier: Apache-2.0 */
#include "host/process/configuration/host_list.h"

#include "base/limits.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS_MAX 9 /* for a number in a range */

static bool host_list_is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool host_list_is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r';
}

static bool may_stand_in_name(char c) {
    return host_list_is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c && strchr(".-_@", c));
}

/* The length of a text in a message. */
static int shown(struct bytes text) {
    return text.count < 100 ? (int)text.count : 100;
}

static struct bytes trim(struct bytes text) {
    while (text.count && host_list_is_blank(text.data[0])) {
        text.data++;
        text.count--;
    }
    while (text.count && host_list_is_blank(text.data[text.count - 1]))
        text.count--;
    return text;
}

/* Cuts off the text up to `mark`, or all of it; the rest begins after the mark. */
static struct bytes host_list_cut(struct bytes *rest, char mark) {
    const char *found = rest->count ? memchr(rest->data, mark, rest->count) : NULL;
    struct bytes one = {rest->data, found ? (size_t)(found - rest->data) : rest->count};
    size_t taken = one.count + (found != NULL);
    *rest = (struct bytes){rest->data + taken, rest->count - taken};
    return one;
}

/* Parses a number 1..LIMIT_RANKS that has digits only. */
static bool host_list_read_slots(struct bytes text, uint32_t *slots_out) {
    uint32_t slots = 0;
    if (!text.count || text.count > DIGITS_MAX) return false;
    for (size_t i = 0; i < text.count; i++) {
        if (!host_list_is_digit(text.data[i])) return false;
        slots = slots * 10 + (uint32_t)(text.data[i] - '0');
    }
    *slots_out = slots;
    return slots > 0 && slots <= LIMIT_RANKS;
}

static enum status open_list(struct host_list *list, struct error *error) {
    *list = (struct host_list){malloc(HOST_LIST_MAX * sizeof *list->names),
                               malloc(HOST_LIST_MAX * sizeof *list->slots), 0};
    if (list->names && list->slots) return STATUS_OK;
    return error_set(error, STATUS_NO_MEMORY, "no memory for the list of hosts");
}

void host_list_free(struct host_list *list) {
    free(list->names);
    free(list->slots);
    *list = (struct host_list){NULL, NULL, 0};
}

enum status host_list_check_name(struct bytes name, struct error *error) {
    if (!name.count || name.count >= HOST_NAME_BYTES || name.data[0] == '-')
        return error_set(error, STATUS_INVALID, "\"%.*s\" is not a host's name", shown(name),
                         name.data);
    for (size_t i = 0; i < name.count; i++)
        if (!may_stand_in_name(name.data[i]))
            return error_set(error, STATUS_INVALID,
                             "\"%.*s\" is not a host's name: expected letters, digits and .-_@",
                             shown(name), name.data);
    return STATUS_OK;
}

static enum status add(struct host_list *list, struct bytes name, uint32_t slots,
                       struct error *error) {
    enum status status = host_list_check_name(name, error);
    if (status) return status;
    for (uint32_t i = 0; i < list->count; i++)
        if (bytes_equal(name, bytes_of(list->names[i])))
            return error_set(error, STATUS_INVALID, "the host %s is named twice", list->names[i]);
    if (list->count == HOST_LIST_MAX)
        return error_set(error, STATUS_TOO_LARGE, "at most %d hosts", HOST_LIST_MAX);
    memcpy(list->names[list->count], name.data, name.count);
    list->names[list->count][name.count] = 0;
    list->slots[list->count++] = slots;
    return STATUS_OK;
}

/* Adds a host "NAME:8" or "NAME". */
static enum status add_counted(struct host_list *list, struct bytes text, struct error *error) {
    struct bytes rest = text, name = host_list_cut(&rest, ':');
    uint32_t slots = 1;
    if (name.count < text.count && !host_list_read_slots(rest, &slots))
        return error_set(error, STATUS_INVALID,
                         "host %.*s: \"%.*s\" is not a number of ranks, 1 to %d", shown(name),
                         name.data, shown(rest), rest.data, LIMIT_RANKS);
    return add(list, name, slots, error);
}

static enum status done(struct host_list *list, enum status status, struct host_list *list_out,
                        struct error *error) {
    if (!status && !list->count) status = error_set(error, STATUS_INVALID, "no host is named");
    if (status)
        host_list_free(list);
    else
        *list_out = *list;
    return status;
}

enum status host_list_parse(struct bytes text, struct host_list *list_out, struct error *error) {
    struct host_list list;
    enum status status = open_list(&list, error);
    while (!status && text.count)
        status = add_counted(&list, trim(host_list_cut(&text, ',')), error);
    return done(&list, status, list_out, error);
}

/* Adds a host "NAME slots=8 max-slots=8". Other fields, which Open MPI uses, are ignored. */
static enum status add_line(struct host_list *list, struct bytes line, struct error *error) {
    const struct bytes slots_are = BYTES_LITERAL("slots=");
    struct bytes text = trim(host_list_cut(&line, '#'));
    for (size_t i = 0; i < text.count; i++)
        if (host_list_is_blank(text.data[i])) {
            struct bytes name = {text.data, i}, rest = {text.data + i, text.count - i};
            uint32_t slots = 1;
            while (rest = trim(rest), rest.count) {
                struct bytes word = host_list_cut(&rest, ' ');
                if (!bytes_start_with(word, slots_are)) continue;
                struct bytes number = {word.data + slots_are.count, word.count - slots_are.count};
                if (!host_list_read_slots(number, &slots))
                    return error_set(error, STATUS_INVALID,
                                     "\"%.*s\": a number of ranks is expected, 1 to %d",
                                     shown(word), word.data, LIMIT_RANKS);
            }
            return add(list, name, slots, error);
        }
    return text.count ? add_counted(list, text, error) : STATUS_OK;
}

enum status host_list_parse_file(struct bytes text, const char *path, struct host_list *list_out,
                                 struct error *error) {
    struct host_list list;
    struct error why;
    enum status status = open_list(&list, error);
    for (uint32_t line = 1; !status && text.count; line++) {
        status = add_line(&list, host_list_cut(&text, '\n'), &why);
        if (status) status_error_write(error, "%.200s, line %u: %.200s", path, line, why.text);
    }
    return done(&list, status, list_out, error);
}

/* ---- Slurm ---- */

struct slurm { /* the rest of SLURM_TASKS_PER_NODE */
    struct host_list *list;
    struct bytes tasks;
    uint32_t slots, times; /* the next `times` hosts have `slots` slots each */
};

static enum status not_read(const char *what, struct bytes text, struct error *error) {
    return error_set(error, STATUS_INVALID, "%s \"%.*s\" cannot be read", what, shown(text),
                     text.data);
}

/* Parses the next "8(x3)" or "8". */
static enum status next_tasks(struct slurm *slurm, struct error *error) {
    struct bytes whole = host_list_cut(&slurm->tasks, ','), rest = whole,
                 number = host_list_cut(&rest, '(');
    slurm->times = 1;
    if (!host_list_read_slots(number, &slurm->slots))
        return not_read("SLURM_TASKS_PER_NODE", whole, error);
    if (number.count == whole.count) return STATUS_OK;
    if (rest.count < 3 || rest.data[0] != 'x' || rest.data[rest.count - 1] != ')' ||
        !host_list_read_slots((struct bytes){rest.data + 1, rest.count - 2}, &slurm->times))
        return not_read("SLURM_TASKS_PER_NODE", whole, error);
    return STATUS_OK;
}

static enum status host_list_add_node(struct slurm *slurm, const char *name, struct error *error) {
    enum status status = STATUS_OK;
    if (!slurm->times) status = next_tasks(slurm, error);
    if (status) return status;
    slurm->times--;
    return add(slurm->list, bytes_of(name), slurm->slots, error);
}

static enum status host_list_expand(struct slurm *slurm, const char *before, struct bytes pattern,
                                    struct error *error);

/* Adds the hosts of a range "01-03": numbers have the width of the first one. */
static enum status expand_range(struct slurm *slurm, const char *before, struct bytes range,
                                struct bytes behind, struct error *error) {
    struct bytes rest = range, low = host_list_cut(&rest, '-');
    struct bytes high = low.count == range.count ? low : rest;
    char name[HOST_NAME_BYTES];
    uint32_t from = 0, to = 0;
    for (size_t i = 0; i < low.count || i < high.count; i++) {
        if ((i < low.count && !host_list_is_digit(low.data[i])) ||
            (i < high.count && !host_list_is_digit(high.data[i])))
            return not_read("SLURM_JOB_NODELIST's", range, error);
        if (i < low.count) from = from * 10 + (uint32_t)(low.data[i] - '0');
        if (i < high.count) to = to * 10 + (uint32_t)(high.data[i] - '0');
        if (i == DIGITS_MAX) return not_read("SLURM_JOB_NODELIST's", range, error);
    }
    if (!low.count || !high.count || from > to || to - from >= HOST_LIST_MAX)
        return not_read("SLURM_JOB_NODELIST's", range, error);
    for (uint32_t number = from; number <= to; number++) {
        int length =
            snprintf(name, sizeof name, "%s%0*u", before, (int)low.count, (unsigned)number);
        if (length < 0 || (size_t)length >= sizeof name)
            return not_read("SLURM_JOB_NODELIST's", range, error);
        enum status status = host_list_expand(slurm, name, behind, error);
        if (status) return status;
    }
    return STATUS_OK;
}

/* Adds the hosts of one pattern, with at most a few ranges in it: "n[01-03,7]-ib". */
static enum status host_list_expand(struct slurm *slurm, const char *before, struct bytes pattern,
                                    struct error *error) {
    const struct bytes whole = pattern;
    struct bytes plain = host_list_cut(&pattern, '[');
    char name[HOST_NAME_BYTES];
    int length = snprintf(name, sizeof name, "%s%.*s", before,
                          (int)(plain.count < sizeof name ? plain.count : sizeof name), plain.data);
    if (length < 0 || (size_t)length >= sizeof name)
        return not_read("SLURM_JOB_NODELIST's", whole, error);
    if (plain.count == whole.count) return host_list_add_node(slurm, name, error);
    struct bytes ranges = host_list_cut(&pattern, ']');
    if (plain.count + ranges.count + 2 + pattern.count != whole.count)
        return not_read("SLURM_JOB_NODELIST's", whole, error); /* missing bracket */
    enum status status = STATUS_OK;
    do
        status = expand_range(slurm, name, host_list_cut(&ranges, ','), pattern, error);
    while (!status && ranges.count);
    return status;
}

/* Cuts off the text up to the next comma outside of brackets. */
static struct bytes cut_node(struct bytes *rest) {
    size_t end = 0;
    for (bool within = false; end < rest->count; end++) {
        if (rest->data[end] == '[') within = true;
        if (rest->data[end] == ']') within = false;
        if (rest->data[end] == ',' && !within) break;
    }
    struct bytes one = {rest->data, end};
    size_t taken = end + (end < rest->count);
    *rest = (struct bytes){rest->data + taken, rest->count - taken};
    return one;
}

enum status host_list_parse_slurm(struct bytes nodes, struct bytes tasks,
                                  struct host_list *list_out, struct error *error) {
    struct host_list list;
    struct slurm slurm = {&list, tasks, 0, 0};
    enum status status = open_list(&list, error);
    while (!status && nodes.count)
        status = host_list_expand(&slurm, "", cut_node(&nodes), error);
    return done(&list, status, list_out, error);
}
