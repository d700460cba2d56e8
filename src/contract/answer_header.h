/* SPDX-License-Identifier: Apache-2.0
 * The response headers that describe the request, the account or the service. Code that writes such
 * a header takes its name from this table. Access-Control-Expose-Headers lists the whole table,
 * because browsers hide other headers from pages of the allowed origins. The table does not contain
 * headers of the HTTP transport and CORS-safelisted headers.
 */
#pragma once

/* X(name in the code, name in HTTP) */
#define ANSWER_HEADERS(X)                                                                          \
    X(REQUEST_ID, "X-Request-Id")     /* the name that OpenAI's clients read */                    \
    X(REQUEST_ID_PLAIN, "Request-Id") /* the name that Anthropic's clients read */                 \
    X(RETRY_AFTER, "Retry-After")                                                                  \
    X(ALLOW, "Allow")                                                                              \
    X(ACCEPT_ENCODING, "Accept-Encoding")                                                          \
    X(AUTHENTICATE, "WWW-Authenticate")                                                            \
    X(RECEIPT, "X-Fathom-Receipt")                                                                 \
    X(WARNING, "X-Fathom-Warning")                                                                 \
    X(LIMIT_REQUESTS, "X-RateLimit-Limit-Requests")                                                \
    X(LIMIT_TOKENS, "X-RateLimit-Limit-Tokens")                                                    \
    X(REMAINING_REQUESTS, "X-RateLimit-Remaining-Requests")                                        \
    X(REMAINING_TOKENS, "X-RateLimit-Remaining-Tokens")                                            \
    X(RESET_REQUESTS, "X-RateLimit-Reset-Requests")                                                \
    X(RESET_TOKENS, "X-RateLimit-Reset-Tokens")

enum answer_header {
#define ANSWER_HEADER_NUMBER(number, name) ANSWER_HEADER_##number,
    ANSWER_HEADERS(ANSWER_HEADER_NUMBER)
#undef ANSWER_HEADER_NUMBER
        ANSWER_HEADER_COUNT
};

static inline const char *answer_header_name(enum answer_header header) {
    static const char *const names[ANSWER_HEADER_COUNT] = {
#define ANSWER_HEADER_NAME(number, name) [ANSWER_HEADER_##number] = name,
        ANSWER_HEADERS(ANSWER_HEADER_NAME)
#undef ANSWER_HEADER_NAME
    };
    return names[header];
}
