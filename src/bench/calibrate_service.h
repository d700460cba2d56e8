/* SPDX-License-Identifier: Apache-2.0
 * What lies around steps when they are served: a server of this program is started, and one client
 * after another asks it. Between two tokens of one answer there is a step and a gap; before the
 * first there are the gateway, the prompt's step and the way back. The client runs on the same
 * machine, so its own part is in these times, as it is in those of `bench serve`.
 */
#ifndef BENCH_CALIBRATE_SERVICE_H
#define BENCH_CALIBRATE_SERVICE_H

#include <stdint.h>

#include "base/status.h"

#define CALIBRATE_SERVICE_TOKENS 65 /* of an answer */
#define CALIBRATE_SERVICE_PROMPT 32 /* tokens: contexts are 64 in the mean */

struct calibrate_service {
    double token_us; /* between two tokens of an answer that is alone: median over answers */
    double first_us; /* from a request to its first token */
    double low_token_us, high_token_us, low_first_us, high_first_us; /* quartiles */
};

/* argv: the server's command line (bench/child.h). Prompts draw ids in 300..token_high. */
enum status calibrate_service_run(const char *const *argv, uint32_t answers, uint32_t token_high,
                                  struct calibrate_service *service_out,
                                  struct error *error) MUST_USE;

#endif
