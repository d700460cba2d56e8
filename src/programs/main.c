/* SPDX-License-Identifier: Apache-2.0
 * fathom: one binary, one subcommand a file (program_<name> in programs/<name>.c).
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "bench/bench.h"
#include "compute/gpu/gpu_program.h"
#include "programs/inspect.h"
#include "programs/manual.h"
#include "programs/programs.h"

#define OPTIONS(table) (table), ARRAY_COUNT(table), NULL, NULL
#define SUBJECTS(of) NULL, 0, of##_subjects, &of##_subject_count

const struct program programs[] = {
#ifdef FATHOM_SERVING
    {"account", "manage accounts, API keys and limits", program_account, OPTIONS(account_options)},
    {"agent", "run units' ranks on one of several hosts", program_agent, OPTIONS(agent_options)},
#endif
    {"bench", "measure kernels and the model", bench_run, SUBJECTS(bench)},
#ifdef FATHOM_SERVING
    {"cache", "inspect a KV storage on disk", program_cache, OPTIONS(cache_options)},
    {"chat", "chat with a model in the terminal", program_chat, OPTIONS(chat_options)},
    {"detokenize", "turn token ids into text", program_detokenize, OPTIONS(detokenize_options)},
    {"eplb", "place experts on ranks", program_eplb, OPTIONS(eplb_options)},
    {"fleet", "run units that scale with the load: here, on hosts or under Slurm", program_fleet,
     OPTIONS(fleet_options)},
    {"gateway", "run an API server for units in other processes", program_gateway,
     OPTIONS(gateway_options)},
#endif
    {"generate", "answer a prompt", program_generate, OPTIONS(generate_options)},
    {"inspect", "show a model, options, the processor", program_inspect, SUBJECTS(inspect)},
#ifdef FATHOM_SERVING
    {"keygen", "make keys for gateways and units on several machines", program_keygen,
     OPTIONS(keygen_options)},
    {"ledger", "report usage, cost and income", program_ledger, OPTIONS(ledger_options)},
#endif
    {"logits", "print a model's logits for given tokens", program_logits, OPTIONS(logits_options)},
    {"make-checkpoint", "write a checkpoint of random weights", program_make_checkpoint,
     OPTIONS(make_checkpoint_options)},
#ifdef FATHOM_SERVING
    {"replay", "replay recorded machines", program_replay, OPTIONS(replay_options)},
    {"plan", "find the cheapest fleet for a load", program_plan, OPTIONS(plan_options)},
    {"serve", "run an API server and a chat page", program_serve, OPTIONS(serve_options)},
    {"sim", "simulate a fleet in virtual time", program_sim, OPTIONS(sim_options)},
    {"template", "print the prompt that a chat template makes from a request", program_template,
     OPTIONS(template_options)},
    {"tokenize", "turn text into token ids", program_tokenize, OPTIONS(tokenize_options)},
#endif
    {"trace", "report a trace's overlap", program_trace, OPTIONS(trace_options)},
#ifdef FATHOM_SERVING
    {"unit", "run a unit that computes for a gateway", program_unit, OPTIONS(unit_options)},
#endif
    {"version", "print the version", program_version, OPTIONS(version_options)},
};
const size_t program_count = ARRAY_COUNT(programs);

static void print_help(FILE *out) {
    fprintf(out, "usage: fathom COMMAND [options]\n\ncommands:\n");
    for (size_t i = 0; i < program_count; i++)
        fprintf(out, "  %-16s %s\n", programs[i].name, programs[i].summary);
    fprintf(out, "\n`fathom help COMMAND` describes a command and its options, "
                 "`fathom help --help` what else\nthere is of help.\n");
}

const struct option_table version_options[1] = {
    {.command = "version", .arguments = "", .description = "Prints the version."},
};

int program_version(int argc, char **argv) {
    struct option_result result;
    int exit_code;
    if (!command_begin(version_options, argc, argv, NULL, &result, &exit_code)) return exit_code;
    printf("fathom %s\n", FATHOM_VERSION);
    return command_end(version_options);
}

char **program_arguments;

/* Makes `fathom COMMAND ... --help` of `fathom help COMMAND ...`, in place. */
static void put_help_last(int argc, char **argv) {
    static char help[] = "--help";
    memmove(argv + 1, argv + 2, (size_t)(argc - 2) * sizeof *argv);
    argv[argc - 1] = help;
}

/* Opens closed ones of the files 0 to 2. Otherwise the next file or socket would get that number
 * and with it the output meant for stdout or stderr. A closed stdout is opened for reading only,
 * so that lost results are an error. */
static void open_standard_streams(void) {
    static const int modes[] = {O_RDONLY, O_RDONLY, O_WRONLY};
    for (int number = 0; number < (int)ARRAY_COUNT(modes); number++)
        if (fcntl(number, F_GETFD) < 0 && open("/dev/null", modes[number]) != number)
            _exit(EXIT_CODE_FAILED);
}

int main(int argc, char **argv) {
    open_standard_streams();
    program_arguments = argv;
    compute_gpu_offer(&gpu_program);
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow any more is an error like a full disk */
    if (argc < 2) {
        print_help(stderr);
        return EXIT_CODE_USAGE;
    }
    if (argc > 2 && !strcmp(argv[1], "help")) {
        if (argv[2][0] == '-') return manual_run(argc - 1, argv + 1);
        put_help_last(argc, argv);
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
        print_help(stdout);
        return EXIT_CODE_OK;
    }
    if (!strcmp(argv[1], "--version")) return program_version(argc - 1, argv + 1);
    struct nearest nearest = nearest_begin(bytes_of(argv[1]));
    for (size_t i = 0; i < program_count; i++) {
        if (!strcmp(argv[1], programs[i].name)) return programs[i].run(argc - 1, argv + 1);
        nearest_try(&nearest, programs[i].name);
    }
    nearest_try(&nearest, "help");
    return command_unknown("fathom", "command", &nearest);
}
