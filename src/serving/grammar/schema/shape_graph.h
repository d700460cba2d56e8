/* SPDX-License-Identifier: Apache-2.0
 * Converts value sets to shapes, the first half: each set of conjunction that a value may have to
 * satisfy becomes a node, each array set and object set a form with nodes as items and properties.
 * Then nodes without any finite value are found, as a least fixpoint: a node is live if one of its
 * forms can be filled with live ones. shape_build.c writes the live ones.
 */
#ifndef SERVING_GRAMMAR_SCHEMA_SHAPE_GRAPH_H
#define SERVING_GRAMMAR_SCHEMA_SHAPE_GRAPH_H

#include "serving/grammar/schema/schema_state.h"

#define NODE_NONE UINT32_MAX /* nothing may stand there */

struct array_node {
    struct shape_item *items; /* nodes; [prefix_count + 1], the last is that of the rest */
    uint32_t prefix_count;
    uint32_t length_min, length_max;
    uint32_t counted_min, counted_max;
    enum shape_unique unique;
    const struct automaton *listed;
};

struct object_node {
    const struct object_set *set;
    uint32_t *names, *name_nodes; /* properties, in the schema's order */
    bool *possible;               /* of a name: it may stand in a finite object */
    uint32_t name_count;
    const struct automaton *rest; /* other keys, label - 1 is a class; NULL: there are none */
    uint32_t *class_nodes;
    uint32_t class_count;
};

struct shape_node {
    const struct value_set *set;
    struct array_node *arrays;   /* of the set's arrays */
    struct object_node *objects; /* of the set's objects */
    bool live;
};

struct shape_graph {
    struct schema_state *state;
    struct shape_node *nodes;
    uint32_t *conjunctions; /* of each node */
    uint32_t *node_of;      /* [conjunction] */
    uint32_t node_count, node_capacity, conjunction_capacity, node_of_count;
    uint32_t *seen; /* [names] the form that named it last */
    uint32_t seen_count, form_count;
};

enum status shape_graph_grow(struct shape_graph *graph, struct schema_state *state,
                             uint32_t root_conjunction, uint32_t *root_out) MUST_USE;
enum status shape_graph_find_live(struct shape_graph *graph) MUST_USE;

/* Whether a form can be filled with what is live. */
bool shape_graph_array_is_live(const struct shape_graph *graph, const struct array_node *form);
enum status shape_graph_object_is_live(const struct shape_graph *graph, struct object_node *form,
                                       bool *out) MUST_USE;
static inline bool node_is_live(const struct shape_graph *graph, uint32_t node) {
    return node != NODE_NONE && graph->nodes[node].live;
}

/* The keys of the classes that are live, label - 1 is a class. */
enum status shape_graph_object_rest(const struct shape_graph *graph, const struct object_node *form,
                                    const struct automaton **out) MUST_USE;

/* ---- the program: shape_build.c ---- */

/* `root` must be live. The program is in `arena`. */
enum status shape_build(struct arena *arena, struct shape_graph *graph, uint32_t root,
                        const struct shape_program **out) MUST_USE;

#endif
