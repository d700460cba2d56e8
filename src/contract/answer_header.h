/* SPDX-License-Identifier: Apache-2.0
 * The headers of our answers that say something of the request, the account or the API. Who writes one
 * takes its name from this table, and pages of other sites that may ask here may read them all
 * (Access-Control-Expose-Headers): a browser hides those that are not named. Headers of HTTP's own
 * transport, and those that any page may read, are not here.
 */
#ifndef CONTRACT_ANSWER_HEADER_H
#define CONTRACT_ANSWER_HEADER_H

/* X(name in the code, name in HTTP) */
#define ANSWER_HEADERS(X)                                                                          \
    X(REQUEST_ID, "X-Request-Id")     /* read by OpenAI's clients */                               \
    X(REQUEST_ID_PLAIN, "Request-Id") /* by Anthropic's */                                         \
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

#endif
