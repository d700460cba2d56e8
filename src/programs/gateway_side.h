/* SPDX-License-Identifier: Apache-2.0
 * The gateway's part of a program: its options and those of the HTTP server, the tokenizer and chat
 * template, the gateway machine, and the work of the tokenizer's thread. Needs no weights.
 */
#pragma once

#include "command/command.h"
#include "host/ledger/ledger_thread.h"
#include "host/loop.h"
#include "host/process/constraint_validator.h"
#include "host/process/lazy_memory.h"
#include "host/process/model_text.h"
#include "programs/drain_option.h"
#include "programs/priced_tokens.h"
#include "programs/recorded_machine.h"
#include "serving/gateway/gateway.h"
#include "serving/gateway/models.h"

struct gateway_side_values {
    uint64_t port, connections_per_address;
    const char *host, *admin_host, *admin_port;
    const char *served_name, *allow_host, *allow_origin, *accounts, *database, *prices;
    uint64_t prefix_blocks;
    const char *roles, *content_specials, *agent_habits, *chat_template, *tools_template;
    bool share_port;
    double role_seconds, idle_timeout, drain_timeout;
    double ttft_limit;       /* seconds; 0: none */
    uint64_t kv_ttl;         /* seconds; 0: no limit */
    uint64_t request_memory; /* bytes; 0: the gateway's own default */
};

/* Rows for an option table of struct `owner` with a member struct gateway_side_values `gateway`. */
#define GATEWAY_SIDE_OPTIONS(owner)                                                                \
    OPTION_ROW("host", OPTION_TEXT, "127.0.0.1", "address to listen on; 0.0.0.0: all networks",    \
               .offset = offsetof(owner, gateway.host)),                                           \
        OPTION_ROW("port", OPTION_COUNT, "8000", "port to listen on; 0: a free one",               \
                   .offset = offsetof(owner, gateway.port), .maximum = 65535),                     \
        OPTION_ROW("share-port", OPTION_FLAG, NULL,                                                \
                   "share --port with other gateways of this machine that have this option; the "  \
                   "kernel distributes connections among them",                                    \
                   .offset = offsetof(owner, gateway.share_port), .group = OPTION_GROUP_FLEET),    \
        OPTION_ROW("admin-host", OPTION_TEXT, "127.0.0.1",                                         \
                   "address of the operator's listener with /metrics and /debug, which --host "    \
                   "does not serve",                                                               \
                   .offset = offsetof(owner, gateway.admin_host)),                                 \
        OPTION_ROW("admin-port", OPTION_TEXT, NULL,                                                \
                   "port of --admin-host; 0: a free one. Default: --port + 1, or a free one with " \
                   "--port 0",                                                                     \
                   .offset = offsetof(owner, gateway.admin_port)),                                 \
        OPTION_ROW("served-name", OPTION_LIST, NULL,                                               \
                   "the model's names in the API, separated by commas; answers use the first; "    \
                   "* among them: any name is answered, under that name; default: the "            \
                   "directory's name",                                                             \
                   .offset = offsetof(owner, gateway.served_name)),                                \
        OPTION_ROW("accounts", OPTION_TEXT, NULL,                                                  \
                   "a YAML file of accounts and their API keys (docs/api.md), read again on "      \
                   "SIGHUP; without it no key is needed",                                          \
                   .offset = offsetof(owner, gateway.accounts)),                                   \
        OPTION_ROW("database", OPTION_TEXT, NULL,                                                  \
                   "a file of accounts, keys and the ledger (`fathom account`, `fathom ledger`), " \
                   "created if missing; replaces --accounts",                                      \
                   .offset = offsetof(owner, gateway.database)),                                   \
        OPTION_ROW(                                                                                \
            "prices", OPTION_TEXT, NULL,                                                           \
            "with --database: prices of tokens by hour and model name: a YAML file, or the name "  \
            "of built-in prices (`fathom sim --list`); without it tokens are free",                \
            .offset = offsetof(owner, gateway.prices), .needs = "database"),                       \
        OPTION_ROW("allow-host", OPTION_LIST, NULL,                                                \
                   "host names, separated by commas, that clients (Host) and pages (Origin) may "  \
                   "use for this server. On loopback addresses they are added to localhost, "      \
                   "127.x.x.x and [::1]; on others any name is accepted if none is given",         \
                   .offset = offsetof(owner, gateway.allow_host)),                                 \
        OPTION_ROW("allow-origin", OPTION_LIST, NULL,                                              \
                   "origins of pages that may use the API (CORS), separated by commas; * for "     \
                   "any; without it none",                                                         \
                   .offset = offsetof(owner, gateway.allow_origin)),                               \
        OPTION_ROW("idle-timeout", OPTION_NUMBER, "120",                                           \
                   "seconds until an idle client connection is closed; keep it longer than that "  \
                   "of a proxy in front (nginx: 60, Go: 90)",                                      \
                   .offset = offsetof(owner, gateway.idle_timeout), .minimum = 1,                  \
                   .maximum = 86400),                                                              \
        DRAIN_TIMEOUT_OPTION(owner, gateway.drain_timeout),                                        \
        CONTENT_SPECIALS_OPTION(owner, gateway.content_specials),                                  \
        OPTION_ROW("agent-habits", OPTION_CHOICE, "on",                                            \
                   "on: leave out of prompts what agents send and no model reads, such as Claude " \
                   "Code's billing line, which changes with each request and keeps the prompt "    \
                   "from being found in the cache (docs/api.md)",                                  \
                   .offset = offsetof(owner, gateway.agent_habits), .choices = "on|off"),          \
        CHAT_TEMPLATE_OPTION(owner, gateway.chat_template),                                        \
        TOOLS_TEMPLATE_OPTION(owner, gateway.tools_template),                                      \
        OPTION_ROW("roles", OPTION_CHOICE, "fixed",                                                \
                   "fixed: prefill and decode units keep their roles until POST "                  \
                   "/debug/fleet/role; auto: roles follow the load",                               \
                   .offset = offsetof(owner, gateway.roles), .choices = "fixed|auto",              \
                   .needs = "prefill-units", .group = OPTION_GROUP_FLEET),                         \
        OPTION_ROW("role-seconds", OPTION_NUMBER, "2",                                             \
                   "with --roles auto: seconds of an excess of prompts or answers before a unit "  \
                   "changes its role; the next change takes five times as long",                   \
                   .offset = offsetof(owner, gateway.role_seconds), .needs = "roles",              \
                   .minimum = 0.001, .maximum = 86400, .group = OPTION_GROUP_FLEET),               \
        OPTION_ROW("ttft-limit", OPTION_NUMBER, "0",                                               \
                   "refuse a request, with the time to retry, if its first token would take "      \
                   "longer than these seconds (half at low priority, twice at high); 0: never",    \
                   .offset = offsetof(owner, gateway.ttft_limit), .maximum = 86400,                \
                   .group = OPTION_GROUP_FLEET),                                                   \
        OPTION_ROW("kv-ttl", OPTION_COUNT, "0",                                                    \
                   "lifetime of a prompt's cached KV blocks in seconds, however often they are "   \
                   "used; 0: no limit",                                                            \
                   .offset = offsetof(owner, gateway.kv_ttl), .maximum = UINT32_MAX,               \
                   .group = OPTION_GROUP_FLEET),                                                   \
        OPTION_ROW("prefix-blocks", OPTION_COUNT, "262144",                                        \
                   "size of the table of recent blocks of 64 tokens and the unit that computed "   \
                   "each, 80 bytes per block: prompts with such a prefix go to that unit unless "  \
                   "it is much busier than others; 0: none",                                       \
                   .offset = offsetof(owner, gateway.prefix_blocks), .maximum = 1 << 24,           \
                   .group = OPTION_GROUP_FLEET),                                                   \
        OPTION_ROW(                                                                                \
            "connections-per-address", OPTION_COUNT, "1024",                                       \
            "connections of one address (IPv6: one /64) that are idle or send a request without "  \
            "a known API key; beyond this limit the idlest are closed; 0: no limit",               \
            .offset = offsetof(owner, gateway.connections_per_address), .maximum = 1 << 20,        \
            .group = OPTION_GROUP_TUNING)

struct gateway_side {
    const struct gateway_side_values *values;
    const struct recorded_values *record;
    struct recorder *recorder; /* NULL: nothing is recorded */
    struct gateway *gateway;
    struct model_text text;
    struct tokenizer_scratch *scratch;   /* used by the tokenizer's thread */
    struct record_tokenized *tokenized;  /* the same thread's; room for a long text's tokens */
    struct constraint_validator *verify; /* used by the thread that validates constraints */
    struct record_accounts *accounts;    /* the latest that were read; NULL: none */
    struct ledger *ledger;               /* NULL: no ledger */
    struct priced_tokens *priced;        /* prices for the ledger; NULL: tokens are free */
    bool is_keyless;                     /* at the start the database had no API key */
    struct error accounts_fault;         /* of the latest read of the accounts; empty: none */
    struct lazy_memory text_memory, memory;
    char name[256];                /* of the model's directory */
    char served[256 + 2];          /* that name and "*", if "*" is the only served name */
    char names[MODELS_LIST_BYTES]; /* the names of all models, to which accounts refer */
};

/* Opens the loop and binds the client and operator addresses. Call this first, since the rest takes
 * time. `requests`: the most that run at the same time, each with its own connection. */
enum status gateway_side_open_loop(const struct gateway_side_values *values, uint64_t requests,
                                   struct loop **loop_out, struct error *error) MUST_USE;

/* `requests`: the most that the units hold. `values` must outlive `side`. */
enum status gateway_side_open(struct gateway_side *side, const struct gateway_side_values *values,
                              const struct recorded_values *record, const char *directory,
                              const struct shape *shape, uint64_t requests,
                              struct error *error) MUST_USE;
/* gateway_side_open with the shape from the checkpoint's config.json. Units that connect must use
 * the same checkpoint. If its weights are absent here, only the vocabulary must be the same. */
enum status gateway_side_open_alone(struct gateway_side *side,
                                    const struct gateway_side_values *values,
                                    const struct recorded_values *record, const char *directory,
                                    uint64_t requests, struct error *error) MUST_USE;
/* Also allowed on a zeroed struct, and after gateway_side_open failed. */
void gateway_side_close(struct gateway_side *side);

/* Fills in the gateway, its threads and their contexts. */
void gateway_side_join(struct gateway_side *side, struct loop_parts *parts);

/* Logs the chat format and the operator's address, then prints the clients' address to stdout.
 * urls[HTTP_LISTENER_COUNT] */
void gateway_side_say(const struct gateway_side *side, const char *const *urls);
