/* SPDX-License-Identifier: Apache-2.0
 * The clients of a simulated fleet. They send API requests and check that each response equals the
 * answer of an undisturbed engine. A breach is a text that describes a wrong response; the first
 * one is kept.
 */
#pragma once

#include "base/arena.h"
#include "base/format.h"
#include "base/random.h"
#include "contract/machine.h"
#include "contract/sampling.h"

/* Names of the units' numerics: those at the start of a run, and those of renewed units. */
extern const char *const fleet_numerics[2];

struct fleet_constraints; /* simulate/engine/fleet_constraints.h */
struct fleet_speech;      /* simulate/engine/fleet_token_oracle.h */
struct fleet_token_oracle;

#define FLEET_UNPAID_CODE "invalid_request_error" /* the code of error 402 */

enum {
    FLEET_TENANTS = 2, /* tenants 1..FLEET_TENANTS; account 0 is the operator's */
    FLEET_GATEWAYS_MAX = 3,
    FLEET_CHOICES_MAX = 3, /* for one prompt; one less for each of several prompts */
    FLEET_PROMPTS_MAX = 3,
    FLEET_ANSWERS_MAX =
        (FLEET_CHOICES_MAX - 1) * FLEET_PROMPTS_MAX, /* every gateway has as many slots */
    FLEET_PROMPT_MAX = 300,
    FLEET_ANSWER_MAX = 150,
    FLEET_CLIENTS_MAX = 400
};

struct fleet_prompt {
    uint32_t tokens[FLEET_PROMPT_MAX];
    uint32_t scores[FLEET_PROMPT_MAX]; /* expected if the prompt is echoed */
    uint32_t count;
};

struct fleet_choice {
    uint32_t expected[FLEET_ANSWER_MAX];
    uint32_t expected_count, count; /* the first `count` have arrived */
    uint32_t echoed;                /* prompt tokens that have arrived */
    bool finished;
    /* For chats: */
    struct fleet_speech *speech;               /* the expected text and calls */
    uint32_t content_reported, calls_reported; /* bytes that have arrived */
    uint32_t calls_begun;
    char last_id[64]; /* id of the last call */
    /* How the received text differs from the expected one, or NULL. It is a breach unless the
     * answer was given up. */
    const char *strays;
};

struct fleet_client {
    uint64_t number;
    bool stream, begun, ended, refused, cut;
    bool gone, abandoned; /* gone: disconnected; abandoned: its gateway died */
    uint64_t tenant;
    int64_t asked_ns;
    /* The gateway of the request, and the number of earlier incarnations of that gateway. */
    uint32_t gateway, gateway_life;
    bool lacks;  /* the account had no balance left when the request was sent */
    bool shares; /* another request of the account ran at the same time */
    struct fleet_prompt prompts[FLEET_PROMPTS_MAX];
    uint32_t prompt_count;
    bool chats, with_tools, one_call;
    bool reports_ids; /* it requests token ids in addition to text */
    bool echo;        /* it requests the prompts and their log probabilities */
    bool bound;       /* its answers must satisfy `constraint` */
    uint32_t constraint;
    uint32_t numerics; /* index of the numerics that the response names */
    struct sampling sampling;
    uint32_t answer_max; /* 0: only the scores of the prompts are requested */
    bool reported_usage;
    int64_t reported_prompt, reported_hits, reported_output; /* usage in the response */
    uint32_t http_status;
    char code[32];         /* code of the error */
    uint32_t choice_count; /* of all prompts, in the order of the prompts */
    struct fleet_choice choices[FLEET_ANSWERS_MAX];
};

struct fleet_clients {
    uint64_t seed;
    bool has_keys;    /* clients send API keys */
    uint64_t flooder; /* the tenant that sends far more requests than the others, or 0 */
    bool scarce;      /* gateways may lack the memory to continue answers on other units */
    const struct fleet_token_oracle
        *token_oracle; /* without a tokenizer there are no chats and no constraints */
    struct fleet_constraints *constraints; /* NULL: no constraints */
    struct fleet_client *clients;          /* [FLEET_CLIENTS_MAX] */
    uint32_t count;
    struct fleet_speech *speeches; /* expected texts of the chat clients */
    uint32_t speech_count;
    char *body;           /* scratch space for a request */
    struct arena scratch; /* for the JSON of one response */
    char breach[200];     /* empty: none so far */
};

bool fleet_clients_open(struct fleet_clients *clients, struct arena *arena,
                        const struct fleet_token_oracle *token_oracle, uint64_t seed);

/* Random number `draw` of the next client, less than `bound`. */
static inline uint32_t fleet_clients_below(const struct fleet_clients *clients, uint32_t draw,
                                           uint32_t bound) {
    return (uint32_t)(random_uniform(clients->seed, 1000 + clients->count, draw) * bound);
}

/* Records a breach: "client 7: text". Only the first one is kept. */
static inline void fleet_clients_breach(struct fleet_clients *clients,
                                        const struct fleet_client *client, const char *text) {
    if (clients->breach[0]) return;
    format_text(clients->breach, sizeof clients->breach, "client %llu: %s",
                (unsigned long long)client->number, text);
}

/* The CLIENT_REQUEST of the next client, valid until the next call. */
const struct record *fleet_clients_ask(struct fleet_clients *clients, int64_t unix_time);

/* Writes the API key of a tenant's account; tenant 0 is the operator. Returns its size in bytes. */
size_t fleet_clients_key(uint64_t tenant, char *out, size_t room);

/* Checks a RESPOND, STREAM_BEGIN, STREAM_DATA or STREAM_END. */
void fleet_clients_receive(struct fleet_clients *clients, const struct record *record);

/* The tenant of a client, which salts its prefix cache keys. */
uint64_t fleet_clients_tenant(const struct fleet_clients *clients, uint64_t number);
