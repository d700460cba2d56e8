/* SPDX-License-Identifier: Apache-2.0
 * fathom bench: measures, one subject a file. Figures go to stdout as a table or, with --json, as
 * one JSON object; both state them as fractions of what the machine can do (machine_limits.h).
 */
#include "programs/bench.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"

static const struct {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
} subjects[] = {
#ifdef FATHOM_SERVING
    {"balance", "DP load balancers on a trace, in virtual time", bench_balance},
#endif
    {"kernels", "matrix products and vector kernels", bench_kernels},
    {"model", "prefill and decode of a whole model", bench_model},
    {"overlap", "what schedules hide of the ranks' communication", bench_overlap},
#ifdef FATHOM_SERVING
    {"mtp", "answers drafted ahead by the MTP layer, and not", bench_mtp},
    {"peers", "llama.cpp and Fathom in turn", bench_peers},
    {"serve", "load on any OpenAI-style server", bench_serve},
#endif
};

const struct option_table *const bench_option_tables[] = {
#ifdef FATHOM_SERVING
    &bench_balance_options,
#endif
    &bench_kernels_options,
    &bench_model_options,
    &bench_overlap_options,
#ifdef FATHOM_SERVING
    &bench_mtp_options,
    &bench_peers_options,
    &bench_serve_options,
#endif
};
const size_t bench_option_table_count = ARRAY_COUNT(bench_option_tables);

static void print_help(FILE *out) {
    fprintf(out, "usage: fathom bench SUBJECT [options]\n\nsubjects:\n");
    for (size_t i = 0; i < ARRAY_COUNT(subjects); i++)
        fprintf(out, "  %-12s %s\n", subjects[i].name, subjects[i].summary);
    fprintf(out, "\n`fathom bench SUBJECT --help` describes a subject and its options.\n");
}

int program_bench(int argc, char **argv) {
    if (argc < 2) {
        print_help(stderr);
        return EXIT_CODE_USAGE;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
        print_help(stdout);
        return EXIT_CODE_OK;
    }
    for (size_t i = 0; i < ARRAY_COUNT(subjects); i++)
        if (!strcmp(argv[1], subjects[i].name)) return subjects[i].run(argc - 1, argv + 1);
    fprintf(stderr, "fathom bench: no subject named '%s'; `fathom bench --help` lists them\n",
            argv[1]);
    return EXIT_CODE_USAGE;
}
