/* SPDX-License-Identifier: Apache-2.0
 * The subcommands: program_<name> in programs/<name>.c (programs/<name>_program.c where another
 * room has a <name>.c; `bench` has its own room), one row each in main.c. argv[0] is the
 * subcommand's name. Results go to stdout, everything else to stderr.
 */
#pragma once

#include "command/command.h"

/* The rows of main.c. */
extern const struct command programs[];

command_action program_account, program_agent, program_cache, program_detokenize, program_eplb,
    program_fleet, program_gateway, program_generate, program_keygen, program_ledger,
    program_logits, program_make_checkpoint, program_chat, program_replay, program_plan,
    program_serve, program_sim, program_template, program_tokenize, program_trace, program_unit,
    program_version;

extern const struct option_table account_options, agent_options, cache_options, detokenize_options,
    eplb_options, fleet_options, gateway_options, generate_options, keygen_options, ledger_options,
    logits_options, make_checkpoint_options, chat_options, replay_options, plan_options,
    serve_options, sim_options, template_options, tokenize_options, trace_options, unit_options,
    version_options;

/* The subjects of `fathom inspect`: inspect_<subject> in programs/inspect_<subject>.c, one row each
 * in inspect.c. */
extern const struct command inspect_subjects[];

command_action inspect_cpu, inspect_gpu, inspect_model;

extern const struct option_table inspect_cpu_options, inspect_gpu_options, inspect_model_options;

/* `fathom help --man DIR` and `fathom help --completion bash`: writes manual pages or the shell
 * completion of all programs. argv[0] is "help". Returns the exit code. */
int manual_run(int argc, char **argv);
