/* SPDX-License-Identifier: Apache-2.0
 * fathom agent: starts a unit's ranks on one host (host/process/agent/agent.h). The units'
 * supervisor starts it over a remote shell. It is not for users.
 */
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "host/process/agent/agent.h"
#include "programs/log_options.h"
#include "programs/programs.h"

struct agent_values {
    struct log_values log;
};

static const struct option agent_rows[] = {
    LOG_OPTIONS(struct agent_values),
};

const struct option_table agent_options = {
    .command = "agent",
    .arguments = "",
    .description =
        "Launches a unit's ranks on this host. `fathom serve` and `fathom unit` start it "
        "themselves, with --hosts over a remote shell, and speak with it over its "
        "standard input and output.",
    .options = agent_rows,
    .option_count = ARRAY_COUNT(agent_rows),
};

int program_agent(void *given, const struct option_result *result) {
    struct agent_values *values = given;
    struct error error;
    struct stat input;
    if (fstat(STDIN_FILENO, &input) || !(S_ISFIFO(input.st_mode) || S_ISSOCK(input.st_mode)))
        return command_misused("`fathom serve` and `fathom unit` start it on each host of --hosts "
                               "and speak with it over its standard input");
    log_start(values->log.format, values->log.level, true);
    int in = dup(STDIN_FILENO), out = dup(STDOUT_FILENO);
    check(in >= 0 && out >= 0);
    bool kept = freopen("/dev/null", "r", stdin) && dup2(STDERR_FILENO, STDOUT_FILENO) >= 0;
    check(kept); /* nothing else in this process writes between the frames */
    return agent_run(in, out, &error) ? command_failed(STATUS_IO, &error) : EXIT_CODE_OK;
}
