/* SPDX-License-Identifier: Apache-2.0
 * What a gateway and the host of its clients tell each other: HTTP requests and answers, long texts
 * on their way through the tokenizer, and whether constraints can be held.
 */
#ifndef CONTRACT_RECORD_CLIENT_H
#define CONTRACT_RECORD_CLIENT_H

#include "base/bytes.h"
#include "base/limits.h"
#include "contract/record.h"

enum http_method { HTTP_GET, HTTP_POST, HTTP_OTHER, HTTP_METHOD_COUNT };

/* On which listener a request came. */
enum http_listener { HTTP_PUBLIC, HTTP_ADMIN, HTTP_LISTENER_COUNT };

/* The gateway's answer about a request of which only the head has arrived. */
enum admission {
    ADMISSION_NO_BODY, /* it will be answered without one: refused, or it takes none */
    ADMISSION_KEYLESS, /* its body is wanted; no key is needed */
    ADMISSION_KNOWN    /* its body is wanted, and it has a key */
};

/* One whole HTTP request. */
struct record_client_request {
    struct record record;
    struct connection_id connection;
    uint64_t random[2]; /* fresh bits from the host, for the request's id and, if asked, its seed */
    int64_t unix_time;  /* seconds, for the answer's "created" */
    uint32_t method;    /* enum http_method */
    uint32_t path_bytes;
    uint32_t authorization_bytes;
    uint32_t body_bytes;
    uint32_t wants_receipt;    /* 1: the header X-Fathom-Receipt asks for one */
    uint32_t listener;         /* enum http_listener */
    uint16_t body_left;        /* 1: it has a body that was not read: ADMISSION_NO_BODY */
    uint16_t speaks_anthropic; /* 1: its client is one of Anthropic's API */
    uint32_t name_bytes;
    uint8_t
        peer[16]; /* who asks: an IPv6 address, or an IPv4 one mapped into it; zeros: not known */
};
RECORD_TAIL(record_client_request, 0, char,
            client_request_path) /* [path_bytes], without the query */
RECORD_TAIL(record_client_request, 1, char,
            client_request_authorization) /* [authorization_bytes], the header's value */
RECORD_TAIL(record_client_request, 2, char, client_request_body) /* [body_bytes] */
/* [name_bytes] what its X-Request-Id says, or what it is called in its answer's; visible ASCII */
RECORD_TAIL(record_client_request, 3, char, client_request_name)

struct record_client_gone {
    struct record record;
    struct connection_id connection;
};

/* CLIENT_GONE, and every record to a client, begins so. */
static inline struct connection_id record_connection(const struct record *record) {
    return ((const struct record_client_gone *)record)->connection;
}

enum content_type {
    CONTENT_JSON,
    CONTENT_TEXT,
    CONTENT_METRICS,
    CONTENT_EVENTS,
    CONTENT_TYPE_COUNT
};

/* A whole answer. */
struct record_respond {
    struct record record;
    struct connection_id connection;
    uint32_t http_status;
    uint32_t content_type;        /* enum content_type */
    uint32_t retry_after_seconds; /* 0: no such header */
    uint32_t body_bytes;
    uint32_t header_bytes;
    uint32_t allow; /* with 405: 1 << each method that the path takes, for the header Allow */
};
RECORD_TAIL(record_respond, 0, char, respond_body) /* [body_bytes] */
/* [header_bytes], more headers, as HTTP writes them: "Name: value" and "\r\n" for each, the value
 * in visible ASCII and blanks */
RECORD_TAIL(record_respond, 1, char, respond_headers)

/* Head of an answer that comes in pieces, with status 200. */
struct record_stream_begin {
    struct record record;
    struct connection_id connection;
    uint32_t content_type; /* enum content_type */
    uint32_t header_bytes;
};
RECORD_TAIL(record_stream_begin, 0, char, stream_headers) /* [header_bytes], as respond_headers */

/* More of that answer. */
struct record_stream_data {
    struct record record;
    struct connection_id connection;
    uint32_t data_bytes;
    uint32_t reserved;
};
RECORD_TAIL(record_stream_data, 0, char, stream_data) /* [data_bytes] */

struct record_stream_end {
    struct record record;
    struct connection_id connection;
};

/* Long text is tokenized by the host, on a thread of its own. */
struct record_tokenize {
    struct record record;
    struct request_id request;
    uint32_t text_bytes;
    uint32_t plain_count;
    uint32_t tokens_max; /* more are of no use */
    uint32_t reserved;   /* zero */
};
RECORD_TAIL(record_tokenize, 0, char, tokenize_text) /* [text_bytes] */
/* [plain_count], where no added token is recognized (serving/text/tokenizer.h): in order, none
 * empty, none beyond the text */
RECORD_TAIL(record_tokenize, 1, struct text_span, tokenize_plain)

/* One for each TOKENIZE. No token at all: the text could not be tokenized, or has more than
 * tokens_max. */
struct record_tokenized {
    struct record record;
    struct request_id request;
    uint32_t token_count;
    uint32_t too_many; /* the text has at least so many tokens, more than tokens_max: none follows;
                        * 0: all follow */
};
RECORD_TAIL(record_tokenized, 0, uint32_t, tokenized_tokens) /* [token_count] */

/* Can an answer be bound to this? The host compiles it, on a thread of its own. */
struct record_constrain {
    struct record record;
    struct request_id request;
    uint64_t client;     /* requests of one number are one client's */
    uint32_t text_bytes; /* 1..LIMIT_CONSTRAINT_BYTES */
    uint32_t reserved;   /* zero */
};
RECORD_TAIL(record_constrain, 0, char, constrain_text) /* [text_bytes]: a constraint (SUBMIT) */

enum constraint_verdict {
    CONSTRAINT_HOLDS,
    CONSTRAINT_INVALID,     /* it says nothing that a text could be */
    CONSTRAINT_UNSUPPORTED, /* it asks for what cannot be held */
    CONSTRAINT_TOO_LARGE,   /* it takes more work or states than one may */
    CONSTRAINT_NO_MEMORY,   /* there is none for now */
    CONSTRAINT_VERDICT_COUNT
};

/* One for each CONSTRAIN. */
struct record_constrained {
    struct record record;
    struct request_id request;
    int64_t took_ns;        /* of the thread */
    uint32_t verdict;       /* enum constraint_verdict */
    uint32_t message_bytes; /* 0 if it holds */
};
/* [message_bytes] one line for who asked; it names the keyword and its place */
RECORD_TAIL(record_constrained, 0, char, constrained_message)

/* Check the fields' values, for record_forms.c. */
bool record_client_request_valid(const void *record);
bool record_client_respond_valid(const void *record);
bool record_client_stream_begin_valid(const void *record);
bool record_client_stream_data_valid(const void *record);
bool record_client_tokenize_valid(const void *record);
bool record_client_tokenized_valid(const void *record);
bool record_client_constrain_valid(const void *record);
bool record_client_constrained_valid(const void *record);

#endif
