/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/calibrate_service.h"

#include <stdlib.h>

#include "base/format.h"
#include "bench/child.h"
#include "bench/load.h"

#define START_SECONDS_MAX 300
#define WARM 3 /* answers before those that count */
#define TOKEN_LOW 300

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void quartiles(double *figures, size_t count, double *low, double *median, double *high) {
    qsort(figures, count, sizeof *figures, compare);
    *low = figures[count / 4];
    *median = figures[count / 2];
    *high = figures[count - 1 - count / 4];
}

static enum status summarize(const struct load_outcome *outcome,
                             struct calibrate_service *service, struct error *error) {
    size_t count = outcome->request_count - WARM;
    double *first = calloc(count, sizeof *first), *token = calloc(count, sizeof *token);
    enum status status = first && token ? STATUS_OK
                                        : error_set(error, STATUS_NO_MEMORY, "no memory for times");
    for (size_t i = 0; i < count && !status; i++) {
        const struct load_result *result = &outcome->results[i + WARM];
        if (result->failure != LOAD_OK || result->output_tokens != CALIBRATE_SERVICE_TOKENS)
            status = error_set(error, STATUS_IO, "the server's answer %zu is not whole: %s", i,
                               outcome->messages[result->failure]);
        first[i] = (result->first - result->sent) * 1e6;
        token[i] = (result->last - result->first) * 1e6 / (CALIBRATE_SERVICE_TOKENS - 1);
    }
    if (!status) {
        quartiles(first, count, &service->low_first_us, &service->first_us,
                  &service->high_first_us);
        quartiles(token, count, &service->low_token_us, &service->token_us,
                  &service->high_token_us);
    }
    free(first);
    free(token);
    return status;
}

static enum status ask(const char *url, uint32_t answers, uint32_t token_high,
                       struct calibrate_service *service, struct error *error) {
    struct load_request *requests = calloc(answers + WARM, sizeof *requests);
    struct load_options options = {.url = url,
                                   .concurrency = 1,
                                   .ignore_eos = true,
                                   /* A token may be half a letter, which alone is no text. */
                                   .extra = "\"return_token_ids\":true",
                                   .token_low = TOKEN_LOW,
                                   .token_high = token_high,
                                   .stall_ms_max = START_SECONDS_MAX * 1000,
                                   .seed = 1};
    struct load_outcome outcome;
    if (!requests) return error_set(error, STATUS_NO_MEMORY, "no memory for requests");
    for (uint32_t i = 0; i < answers + WARM; i++)
        requests[i] = (struct load_request){.prompt_tokens = CALIBRATE_SERVICE_PROMPT,
                                            .output_tokens = CALIBRATE_SERVICE_TOKENS};
    enum status status = load_run(&options, requests, answers + WARM, &outcome, error);
    free(requests);
    if (status) return status;
    status = summarize(&outcome, service, error);
    load_outcome_free(&outcome);
    return status;
}

enum status calibrate_service_run(const char *const *argv, uint32_t answers, uint32_t token_high,
                                  struct calibrate_service *service_out, struct error *error) {
    struct child child;
    char port[200], url[256];
    enum status status = child_start(argv, "listening on http://127.0.0.1:", START_SECONDS_MAX,
                                     &child, port, sizeof port, error);
    if (status) return status;
    format_text(url, sizeof url, "http://127.0.0.1:%s", port);
    status = ask(url, answers, token_high, service_out, error);
    child_stop(&child);
    return status;
}
