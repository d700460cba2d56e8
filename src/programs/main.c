/* SPDX-License-Identifier: Apache-2.0
 * fathom: one binary with subcommands, each in its own file (program_<name> in programs/<name>.c).
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "bench/bench.h"
#include "compute/gpu/gpu_program.h"
#include "programs/programs.h"

#define PROGRAM(name, stem, summary)                                                               \
    { name, summary, program_##stem, &stem##_options, NULL }

const struct command programs[] = {
#ifdef FATHOM_SERVING
    PROGRAM("account", account, "manage accounts, API keys and limits"),
    PROGRAM("agent", agent, "run units' ranks on one of several hosts"),
#endif
    {"bench", "measure kernels and the model", .subjects = bench_subjects},
#ifdef FATHOM_SERVING
    PROGRAM("cache", cache, "inspect a KV storage on disk"),
    PROGRAM("chat", chat, "chat with a model in the terminal"),
    PROGRAM("detokenize", detokenize, "turn token ids into text"),
    PROGRAM("eplb", eplb, "place experts on ranks"),
    PROGRAM("fleet", fleet, "run units that scale with the load: here, on hosts or under Slurm"),
    PROGRAM("gateway", gateway, "run an API server for units in other processes"),
#endif
    PROGRAM("generate", generate, "answer a prompt"),
    {"inspect", "show a model, options, the processor", .subjects = inspect_subjects},
#ifdef FATHOM_SERVING
    PROGRAM("keygen", keygen, "make keys for gateways and units on several machines"),
    PROGRAM("ledger", ledger, "report usage, cost and income"),
#endif
    PROGRAM("logits", logits, "print a model's logits for given tokens"),
    PROGRAM("make-checkpoint", make_checkpoint, "write a checkpoint of random weights"),
#ifdef FATHOM_SERVING
    PROGRAM("replay", replay, "replay recorded machines"),
    PROGRAM("plan", plan, "find the cheapest fleet for a load"),
    PROGRAM("serve", serve, "run an API server and a chat page"),
    PROGRAM("sim", sim, "simulate a fleet in virtual time"),
    PROGRAM("template", template, "print the prompt that a chat template makes from a request"),
    PROGRAM("tokenize", tokenize, "turn text into token ids"),
#endif
    PROGRAM("trace", trace, "report a trace's overlap"),
#ifdef FATHOM_SERVING
    PROGRAM("unit", unit, "run a unit that computes for a gateway"),
#endif
    PROGRAM("version", version, "print the version"),
    {.name = NULL},
};

static void print_help(FILE *out) {
    fprintf(out, "usage: fathom COMMAND [options]\n\ncommands:\n");
    for (const struct command *program = programs; program->name; program++)
        fprintf(out, "  %-16s %s\n", program->name, program->summary);
    fprintf(
        out,
        "\n`fathom help COMMAND` describes a command and its everyday "
        "options; --all: all of them.\n`fathom help --help`: manual pages and shell completion.\n");
}

const struct option_table version_options = {
    .command = "version", .arguments = "", .description = "Prints the version."};

int program_version(void *values, const struct option_result *result) {
    printf("fathom %s\n", FATHOM_VERSION);
    return command_end(STATUS_OK, NULL);
}

char **program_arguments;

/* Changes `fathom help COMMAND ...` to `fathom COMMAND ... --help`, in place. */
static void put_help_last(int argc, char **argv) {
    static char help[] = "--help";
    memmove(argv + 1, argv + 2, (size_t)(argc - 2) * sizeof *argv);
    argv[argc - 1] = help;
}

/* Opens file descriptors 0 to 2 if they are closed. Otherwise the next file or socket would get
 * that number, and the output meant for stdout or stderr. A closed stdout is opened read-only, so
 * that lost results are an error. */
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
    signal(SIGXFSZ, SIG_IGN); /* a file size limit is an error like a full disk */
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
    static char version[] = "version";
    if (!strcmp(argv[1], "--version")) argv[1] = version;
    if (!strcmp(argv[1], "completion")) {
        fprintf(stderr, "fathom: unknown command 'completion'; `fathom help --completion bash` "
                        "prints a shell's completion (also zsh, fish)\n");
        return EXIT_CODE_USAGE;
    }
    struct nearest nearest = nearest_begin(bytes_of(argv[1]));
    nearest_try(&nearest, "help");
    return command_dispatch("fathom", "command", programs, &nearest, argc, argv);
}
