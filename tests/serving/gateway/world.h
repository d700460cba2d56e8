/* SPDX-License-Identifier: Apache-2.0
 * An invented world for the gateway: clients that remember what they were told, a host that carries
 * records, an engine whose tokens are a function of (seed, position), and time that goes where the
 * test says. The unit is the real one, or absent (the test plays it by hand). A ledger that sleeps
 * or writes down what it is told: every request has one entry, before its end, and the same figures
 * as its `usage`; with FATHOM_SETTLES set in the environment, or the gateway's option, its end
 * comes behind that.
 */
#pragma once

#include "serving/gateway/gateway.h"
#include "serving/unit/rank_units.h"

enum { WORLD_CLIENTS_MAX = 600 };

struct client {
    bool begun, ended, gone; /* gone: it closed the connection and may get nothing more */
    uint32_t http_status, content_type, retry_after_seconds, allow;
    uint64_t asked_at_ns;
    char *data; /* body, or the stream's bytes so far; terminated */
    size_t count;
    char *headers;              /* that the gateway gives it, as in HTTP, terminated */
    char *receipt;              /* its header's value, terminated; NULL: none */
    bool asks;                  /* at a path that has a dialect: it is to have an entry */
    struct record_usage *usage; /* copy; NULL: none yet */
};

struct queued; /* a record on its way */

struct world {
    struct gateway *gateway;
    struct machine gateway_machine;
    struct unit *unit; /* NULL: none */
    struct machine unit_machine;
    struct tokenizer *tokenizer;
    struct chat_template chat_template;
    struct client clients[WORLD_CLIENTS_MAX];
    uint32_t client_count;
    struct queued *to_gateway, *to_unit; /* queues, first to last */
    struct queued *to_engine;            /* at most one */
    struct queued *to_tokenize, *to_constrain;
    uint32_t submits, cancels, drains, continues, roles; /* seen so far */
    uint32_t last_role;                                  /* enum unit_role */
    struct record_drain last_drain;
    uint32_t cancelled_at; /* a bit for each unit below 32 told a CANCEL; tests may clear it */
    struct record_continue last_continue;
    uint32_t last_continued;  /* its first token */
    struct unit_id speaker;   /* the unit that speaks when a unit speaks; at first unit 1 */
    struct unit_id last_unit; /* the unit that was spoken to last */
    uint32_t submits_to[16];  /* of `submits`, each of the first units */
    struct request_id last_tokenized;
    int64_t constraint_ns;        /* that each takes the thread */
    const char *constraint_fault; /* the verdict about each constraint; NULL: it holds */
    enum constraint_verdict constraint_verdict;
    uint32_t constraints; /* judged so far */
    char last_constraint[1024];
    bool settles, ledger_sleeps; /* entries are settled; not now */
    uint64_t entries, committed; /* told by the gateway, to it */
    uint32_t totals;             /* seen so far */
    struct record_unit_totals last_totals;
    uint32_t fulls;                    /* deliveries answered with FULL */
    struct record_submit *last_submit; /* copy; NULL before the first */
    bool wants_receipts;               /* requests have the header that asks for receipts */
    const char *authorization;         /* requests have this header; NULL: none */
    bool speaks_anthropic;             /* requests are of clients of Anthropic's API */
    bool body_left;                    /* requests have a body that was not read */
    bool swapped; /* operators' paths are asked for on the public listener, others on theirs */
    int64_t now_ns;
    void *memories[12];
    uint32_t memory_count;
};

struct world_options {
    bool no_tokenizer, no_unit;
    struct gateway_options gateway; /* zeros: sensible ones */
    struct unit_options unit;
};

/* Opens models/tiny-r1's tokenizer and template, gateway and unit. FATHOM_SOURCE names the tree. */
struct world *world_open(const struct world_options *options);

/* Another chat template for the requests to come. */
void world_use_template(struct world *world, const char *source);

void world_close(struct world *world);

/* A new client sends a request; its index. */
uint32_t world_request(struct world *world, enum http_method method, const char *path,
                       const char *body, size_t body_bytes);
uint32_t world_get(struct world *world, const char *path);
uint32_t world_post(struct world *world, const char *path, const char *body);
void world_hang_up(struct world *world, uint32_t client);
void world_drain(struct world *world);

/* The ledger has written down all entries up to this one. */
void world_settle_entries(struct world *world, uint64_t sequence);

/* A copy of the record goes to the gateway's queue. */
void world_report_gateway(struct world *world, const void *record);

/* Units come (and say nothing yet) and go. Unit 1 is there from the beginning. */
void world_join(struct world *world, uint32_t unit);
void world_lose(struct world *world, uint32_t unit);

/* One thing each; false if there was nothing to do. Deliveries answered with FULL stay queued. */
bool world_deliver_to_gateway(struct world *world);
bool world_deliver_to_unit(struct world *world);
bool world_compute(struct world *world, bool failed);
bool world_tokenize(struct world *world);
/* Judges the constraint that was asked about, as the world says. */
bool world_constrain(struct world *world);
void world_step(struct world *world);
/* Empties both outboxes; every record is checked. */
void world_carry(struct world *world);

/* All records that are on their way to the gateway now; the host's threads say nothing yet. */
void world_deliver_all(struct world *world);
/* Goes on until nothing moves any more. */
void world_settle(struct world *world);

/* ids_out[room]; how many ids the model's tokenizer makes of the text. */
uint32_t world_encode(const struct world *world, struct bytes text, struct plain_text plain,
                      uint32_t *ids_out, size_t room);

/* The token the engine chooses for choice c of seed s: that of the seed s + c. */
uint32_t world_token(uint64_t seed, uint32_t position);
