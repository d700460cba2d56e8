/* SPDX-License-Identifier: Apache-2.0
 * The first half of the conversion of value sets to shapes. It builds a graph with a node for each
 * conjunction that some value has to satisfy. The array sets and object sets of a node become array
 * nodes and object nodes, with nodes as items and properties. A least fixpoint then determines the
 * live (productive) nodes, which have at least one finite value. The second half, shape_build.c,
 * writes the live nodes as a program.
 */
#pragma once

#include "serving/grammar/schema/schema_state.h"

#define NODE_NONE UINT32_MAX /* no value is allowed */

struct array_node {
    struct shape_item *items; /* [prefix_count + 1] nodes; the last one is for all further items */
    uint32_t prefix_count;
    uint32_t length_min, length_max;
    uint32_t counted_min, counted_max;
    enum shape_unique unique;
    const struct automaton *listed;
};

struct object_node {
    const struct object_set *set;
    /* [name_count] listed properties in the order of the schema, and their nodes */
    uint32_t *names, *name_nodes;
    bool *possible; /* [name_count] the property can exist in a finite object */
    uint32_t name_count;
    const struct automaton *rest; /* DFA of other keys, label - 1 is a class; NULL: none */
    uint32_t *class_nodes;
    uint32_t class_count;
};

struct shape_node {
    const struct value_set *set;
    struct array_node *arrays;   /* one for each of set->arrays */
    struct object_node *objects; /* one for each of set->objects */
    bool live;
};

struct shape_graph {
    struct schema_state *state;
    struct shape_node *nodes;
    uint32_t *conjunctions; /* [node_count] */
    uint32_t *node_of;      /* [node_of_count] by conjunction */
    uint32_t node_count, node_capacity, conjunction_capacity, node_of_count;
    uint32_t *seen; /* [seen_count] by name: the last object node with it */
    uint32_t seen_count, object_count;
};

/* Builds the graph of all nodes that the root conjunction needs. *root_out is its node. */
enum status shape_graph_grow(struct shape_graph *graph, struct schema_state *state,
                             uint32_t root_conjunction, uint32_t *root_out) MUST_USE;
/* Sets `live` of each node. */
enum status shape_graph_find_live(struct shape_graph *graph) MUST_USE;

/* True if some finite value exists, given the nodes that are known to be live. */
bool shape_graph_array_is_live(const struct shape_graph *graph, const struct array_node *node);
enum status shape_graph_object_is_live(const struct shape_graph *graph, struct object_node *node,
                                       bool *out) MUST_USE;
static inline bool node_is_live(const struct shape_graph *graph, uint32_t node) {
    return node != NODE_NONE && graph->nodes[node].live;
}

/* The DFA of the other keys with a live class; label - 1 is the class. */
enum status shape_graph_object_rest(const struct shape_graph *graph, const struct object_node *node,
                                    const struct automaton **out) MUST_USE;

/* ---- the program: shape_build.c ---- */

/* Writes the live nodes as a program in `arena`. `root` must be live. */
enum status shape_build(struct arena *arena, struct shape_graph *graph, uint32_t root,
                        const struct shape_program **out) MUST_USE;
