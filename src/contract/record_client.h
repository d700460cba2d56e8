/* SPDX-License-Identifier: Apache-2.0
 * Records between a gateway and the host of its clients: HTTP requests and responses, long texts
 * for the tokenizer, and checks of constraints.
 */
#pragma once

#include "base/bytes.h"
#include "base/limits.h"
#include "contract/record.h"

enum http_method { HTTP_GET, HTTP_POST, HTTP_OTHER, HTTP_METHOD_COUNT };

/* The listener that accepted a request. */
enum http_listener { HTTP_PUBLIC, HTTP_ADMIN, HTTP_LISTENER_COUNT };

/* The gateway's decision after the head of a request. */
enum admission {
    ADMISSION_NO_BODY, /* the response needs no body: the request is refused, or takes none */
    ADMISSION_KEYLESS, /* read the body; no key is required */
    ADMISSION_KNOWN    /* read the body; the key is valid */
};

/* A complete HTTP request. */
struct record_client_request {
    struct record record;
    struct connection_id connection;
    /* random bits from the host for the request id, and for its seed if needed */
    uint64_t random[2];
    int64_t unix_time; /* seconds, for the answer's "created" */
    uint32_t method;   /* enum http_method */
    uint32_t path_bytes;
    uint32_t authorization_bytes;
    uint32_t body_bytes;
    uint32_t wants_receipt;    /* 1: the request header X-Fathom-Receipt asks for a receipt */
    uint32_t listener;         /* enum http_listener */
    uint16_t body_left;        /* 1: the request has a body that was not read (ADMISSION_NO_BODY) */
    uint16_t speaks_anthropic; /* 1: the client uses Anthropic's API */
    uint32_t name_bytes;
    uint8_t peer[16]; /* client's address: IPv6, or IPv4 mapped into IPv6; zeros: unknown */
};
RECORD_TAIL(record_client_request, 0, char,
            client_request_path) /* [path_bytes] without the query */
RECORD_TAIL(record_client_request, 1, char,
            client_request_authorization) /* [authorization_bytes] value of the header */
RECORD_TAIL(record_client_request, 2, char, client_request_body) /* [body_bytes] */
/* [name_bytes] value of X-Request-Id, or the generated one of the response; visible ASCII */
RECORD_TAIL(record_client_request, 3, char, client_request_name)

struct record_client_gone {
    struct record record;
    struct connection_id connection;
};

/* The start of CLIENT_GONE and of every record to a client. */
static inline struct connection_id record_connection(const struct record *record) {
    return ((const struct record_client_gone *)record)->connection;
}

enum content_type {
    CONTENT_JSON,
    CONTENT_TEXT,
    CONTENT_METRICS,
    CONTENT_EVENTS,
    CONTENT_LINES, /* of JSON */
    CONTENT_TYPE_COUNT
};

/* A complete response. */
struct record_respond {
    struct record record;
    struct connection_id connection;
    uint32_t http_status;
    uint32_t content_type;        /* enum content_type */
    uint32_t retry_after_seconds; /* 0: no Retry-After header */
    uint32_t body_bytes;
    uint32_t header_bytes;
    uint32_t allow; /* with status 405: 1 << method for each allowed method, for the header Allow */
};
RECORD_TAIL(record_respond, 0, char, respond_body) /* [body_bytes] */
/* [header_bytes] additional headers in HTTP's format: "Name: value\r\n" each; visible ASCII and
 * blanks in the value */
RECORD_TAIL(record_respond, 1, char, respond_headers)

/* The head of a streamed response, with status 200. */
struct record_stream_begin {
    struct record record;
    struct connection_id connection;
    uint32_t content_type; /* enum content_type */
    uint32_t header_bytes;
};
RECORD_TAIL(record_stream_begin, 0, char, stream_headers) /* [header_bytes] as respond_headers */

/* The next piece of a streamed response. */
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

/* Requests tokenization of a long text on a thread of the host. */
struct record_tokenize {
    struct record record;
    struct request_id request;
    uint32_t text_bytes;
    uint32_t plain_count;
    uint32_t tokens_max; /* the text is refused if it has more tokens */
    uint32_t reserved;   /* zero */
};
RECORD_TAIL(record_tokenize, 0, char, tokenize_text) /* [text_bytes] */
/* [plain_count] spans in which no added token is recognized (serving/text/tokenizer.h): ascending,
 * not empty, inside the text */
RECORD_TAIL(record_tokenize, 1, struct text_span, tokenize_plain)

/* Answers a TOKENIZE. Without tokens, the text could not be tokenized, or has more than
 * tokens_max. */
struct record_tokenized {
    struct record record;
    struct request_id request;
    uint32_t token_count;
    /* tokens counted when tokens_max was exceeded, without the tokens; 0: not exceeded */
    uint32_t too_many;
};
RECORD_TAIL(record_tokenized, 0, uint32_t, tokenized_tokens) /* [token_count] */

/* Requests a check whether a constraint can be enforced. A thread of the host compiles it. */
struct record_constrain {
    struct record record;
    struct request_id request;
    uint64_t client;     /* identifies the client; equal for its requests */
    uint32_t text_bytes; /* 1..LIMIT_CONSTRAINT_BYTES */
    uint32_t reserved;   /* zero */
};
RECORD_TAIL(record_constrain, 0, char, constrain_text) /* [text_bytes] a constraint as in SUBMIT */

enum constraint_verdict {
    CONSTRAINT_HOLDS,
    CONSTRAINT_INVALID,     /* malformed */
    CONSTRAINT_UNSUPPORTED, /* uses a feature that is not supported */
    CONSTRAINT_TOO_LARGE,   /* exceeds the limit of work or states */
    CONSTRAINT_NO_MEMORY,   /* not enough memory at present */
    CONSTRAINT_VERDICT_COUNT
};

/* Answers a CONSTRAIN. */
struct record_constrained {
    struct record record;
    struct request_id request;
    int64_t took_ns;        /* time that the thread needed */
    uint32_t verdict;       /* enum constraint_verdict */
    uint32_t message_bytes; /* 0 with CONSTRAINT_HOLDS */
};
/* [message_bytes] one line for the client; it names the keyword and its position */
RECORD_TAIL(record_constrained, 0, char, constrained_message)

/* Validate the fields, for record_forms.c. */
bool record_client_request_valid(const void *record);
bool record_client_respond_valid(const void *record);
bool record_client_stream_begin_valid(const void *record);
bool record_client_stream_data_valid(const void *record);
bool record_client_tokenize_valid(const void *record);
bool record_client_tokenized_valid(const void *record);
bool record_client_constrain_valid(const void *record);
bool record_client_constrained_valid(const void *record);
