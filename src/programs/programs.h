/* SPDX-License-Identifier: Apache-2.0
 * The subcommands: program_<name> in programs/<name>.c (programs/<name>_program.c where another
 * room has a <name>.c; `bench` is a room of its own), one row each in main.c. argv[0] is the
 * subcommand's name. Results go to stdout, everything else to stderr.
 */
#ifndef PROGRAMS_PROGRAMS_H
#define PROGRAMS_PROGRAMS_H

#include "command/command.h"

/* The rows of main.c. */
extern const struct program programs[];
extern const size_t program_count;

int program_account(int argc, char **argv);
int program_agent(int argc, char **argv);
int program_cache(int argc, char **argv);
int program_detokenize(int argc, char **argv);
int program_eplb(int argc, char **argv);
int program_fleet(int argc, char **argv);
int program_gateway(int argc, char **argv);
int program_generate(int argc, char **argv);
int program_inspect(int argc, char **argv);
int program_keygen(int argc, char **argv);
int program_ledger(int argc, char **argv);
int program_logits(int argc, char **argv);
int program_make_checkpoint(int argc, char **argv);
int program_chat(int argc, char **argv);
int program_replay(int argc, char **argv);
int program_plan(int argc, char **argv);
int program_serve(int argc, char **argv);
int program_sim(int argc, char **argv);
int program_template(int argc, char **argv);
int program_tokenize(int argc, char **argv);
int program_trace(int argc, char **argv);
int program_unit(int argc, char **argv);
int program_version(int argc, char **argv);

extern const struct option_table account_options[1];
extern const struct option_table agent_options[1];
extern const struct option_table cache_options[1];
extern const struct option_table detokenize_options[1];
extern const struct option_table eplb_options[1];
extern const struct option_table fleet_options[1];
extern const struct option_table gateway_options[1];
extern const struct option_table generate_options[1];
extern const struct option_table keygen_options[1];
extern const struct option_table ledger_options[1];
extern const struct option_table logits_options[1];
extern const struct option_table make_checkpoint_options[1];
extern const struct option_table chat_options[1];
extern const struct option_table replay_options[1];
extern const struct option_table plan_options[1];
extern const struct option_table serve_options[1];
extern const struct option_table sim_options[1];
extern const struct option_table template_options[1];
extern const struct option_table tokenize_options[1];
extern const struct option_table trace_options[1];
extern const struct option_table unit_options[1];
extern const struct option_table version_options[1];

#endif
