/* SPDX-License-Identifier: Apache-2.0
 * Protects the command line's promises: values land where the table says, flags win over files, and
 * whatever is wrong is refused with a message that names the flag and the cure.
 */
#include "base/check.h"
#include "base/options.h"
#include "test_case.h"

struct values {
    const char *config, *model, *mode, *order, *hosts;
    struct option_texts traces;
    uint64_t port, kv_bytes, shuffle;
    double temperature;
    bool json, progress;
};

#define AT(field) .offset = offsetof(struct values, field)

static const struct option rows[] = {
    {"config", OPTION_TEXT, NULL, "a YAML file", AT(config)},
    {"model", OPTION_TEXT, "models/tiny-r1", "directory", AT(model)},
    {"activations", OPTION_CHOICE, "bf16", "precision", AT(mode),
     .choices = "f32|bf16|fp8|fp8-f32"},
    {"port", OPTION_COUNT, "8000", "TCP port", AT(port), .minimum = 0, .maximum = 65535},
    {"order", OPTION_CHOICE, "late", "who goes first", AT(order), .choices = "late|early",
     .group = OPTION_GROUP_EXPERIMENTS},
    {"kv-memory", OPTION_BYTES, "1GiB", "memory for the KV cache", AT(kv_bytes),
     .group = OPTION_GROUP_STORAGE},
    {"temperature", OPTION_NUMBER, NULL, "randomness", AT(temperature), .minimum = 0, .maximum = 2},
    {"hosts", OPTION_LIST, NULL, "names of hosts", AT(hosts)},
    {"trace", OPTION_TEXTS, NULL, "a file of requests", AT(traces)},
    {"json", OPTION_FLAG, NULL, "print JSON", AT(json), .needs = "=progress"},
    {"progress", OPTION_FLAG, "true", "show progress", AT(progress)},
    {"experiment", OPTION_EXPERIMENT, NULL, "compare ways", .group = OPTION_GROUP_EXPERIMENTS},
    {"shuffle", OPTION_COUNT, NULL, "lie elsewhere", AT(shuffle), .maximum = 9,
     .group = OPTION_GROUP_EXPERIMENTS, .needs = "ranks|json|port"},
};

static const struct option_table table = {
    .command = "sample",
    .arguments = "[PROMPT]",
    .description = "An example.",
    .options = rows,
    .option_count = ARRAY_COUNT(rows),
    .positional_max = 1,
};

static struct values values;
static struct option_result result;
static struct error error;

#define PARSE(...) parse((const char *[]){"sample", ##__VA_ARGS__, NULL}, NULL)

static enum status parse(const char **words, options_read_config *reader) {
    int count = 0;
    while (words[count])
        count++;
    memset(&values, 0xA5, sizeof values);
    memset(&error, 0, sizeof error);
    memset(&result, 0, sizeof result);
    return options_parse(&table, count, (char **)words, &values, reader, &result, &error);
}

static void refuses(enum status status, const char *needle) {
    assert_int_equal(status, STATUS_INVALID);
    if (!strstr(error.text, needle)) fail_msg("'%s' lacks '%s'", error.text, needle);
}

TEST(fallbacks_fill_every_field) {
    assert_int_equal(PARSE(), STATUS_OK);
    assert_null(values.config);
    assert_string_equal(values.model, "models/tiny-r1");
    assert_string_equal(values.mode, "bf16");
    assert_string_equal(values.order, "late");
    assert_int_equal(values.shuffle, 0);
    assert_int_equal(values.port, 8000);
    assert_int_equal(values.kv_bytes, 1 << 30);
    assert_true(values.temperature == 0);
    assert_false(values.json);
    assert_true(values.progress);
    assert_int_equal(result.positional_count, 0);
    assert_false(result.help);
}

TEST(values_are_read_in_both_spellings) {
    assert_int_equal(PARSE("--model", "d", "--port=0", "--kv-memory", "1.5GB", "hello", "--json",
                           "--no-progress", "--temperature", "0.25", "--activations=fp8-f32"),
                     STATUS_OK);
    assert_string_equal(values.model, "d");
    assert_string_equal(values.mode, "fp8-f32");
    assert_int_equal(values.port, 0);
    assert_int_equal(values.kv_bytes, 1500000000);
    assert_true(values.temperature == 0.25);
    assert_true(values.json);
    assert_false(values.progress);
    assert_int_equal(result.positional_count, 1);
    assert_string_equal(result.positional[0], "hello");
    assert_int_equal(PARSE("--json=false", "--progress=true", "--", "--json"), STATUS_OK);
    assert_false(values.json);
    assert_string_equal(result.positional[0], "--json");
    assert_int_equal(PARSE("-"), STATUS_OK); /* standard input, by custom */
    assert_string_equal(result.positional[0], "-");
}

TEST(bytes_know_their_units) {
    static const struct {
        const char *text;
        uint64_t bytes;
    } cases[] = {{"0", 0},
                 {"4096", 4096},
                 {"512KiB", 524288},
                 {"2GiB", 2ull << 30},
                 {"1.5MiB", 1572864},
                 {"3TB", 3000000000000},
                 {"7B", 7},
                 {"1TiB", 1ull << 40},
                 {".5KiB", 512}};
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        assert_int_equal(PARSE("--kv-memory", cases[i].text), STATUS_OK);
        assert_int_equal(values.kv_bytes, cases[i].bytes);
    }
    static const char *const bad[] = {"",    "-1",    "2G",          "GiB", "1 GiB", "1e9",
                                      "0x4", "1.2.3", "99999999TiB", "nan", "inf",   "2gib"};
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++)
        refuses(PARSE("--kv-memory", bad[i]), "--kv-memory: expected bytes such as");
}

TEST(numbers_keep_their_bounds) {
    refuses(PARSE("--port", "65536"), "option --port: expected 0 to 65535, found '65536'");
    static const char *const bad[] = {"", "-1", "+1", " 1", "1x", "1.5", "99999999999999999999"};
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++)
        refuses(PARSE("--port", bad[i]), "option --port: expected a whole number");
    refuses(PARSE("--temperature", "2.01"), "expected 0 to 2");
    refuses(PARSE("--temperature", "nan"), "expected a number");
    refuses(PARSE("--temperature", ""), "expected a number");
    refuses(PARSE("--activations", "bf"), "expected one of f32|bf16|fp8|fp8-f32, found 'bf'");
    refuses(PARSE("--activations", ""), "expected one of");
    refuses(PARSE("--json=1"), "expected true or false, found '1'");
}

TEST(unknown_names_are_fatal_and_named) {
    refuses(PARSE("--kv-memroy", "1GiB"), "'--kv-memroy'; did you mean --kv-memory?");
    refuses(PARSE("--prt=1"), "'--prt'; did you mean --port?");
    refuses(PARSE("--frobnicate"), "'--frobnicate'; `fathom sample --help` lists");
    refuses(PARSE("--no-port"), "'--no-port'"); /* only flags have a no- form */
    refuses(PARSE("--no-json=true"), "'--no-json'");
    refuses(PARSE("-p", "1"), "unknown option '-p'");
    char *long_name = malloc(5000); /* longer than any buffer of ours */
    memset(long_name, '-', 2);
    memset(long_name + 2, 'x', 4997);
    long_name[4999] = '\0';
    refuses(PARSE(long_name), "unknown option '--xxx");
    free(long_name);
}

/* Without these rows `--max-tokens` leads to an option that is only spelled alike. */
TEST(options_of_other_servers_lead_to_ours) {
    refuses(PARSE("-m", "d"), "unknown option '-m'; in Fathom it is --model DIRECTORY");
    refuses(PARSE("--model-path=d"), "unknown option '--model-path'; in Fathom it is --model");
    refuses(PARSE("--temp", "1"), "unknown option '--temp'; in Fathom it is --temperature");
    refuses(PARSE("--gpu-memory-utilization", ".9"), "it is --kv-memory, a size such as 8GiB");
    refuses(PARSE("--quantization", "fp8"), "weights are used as the checkpoint has them");
    /* the table has no such option */
    refuses(PARSE("-c", "4096"), "put an argument that begins with a dash after '--'");
    refuses(PARSE("--ctx-size", "4096"), "'--ctx-size'; `fathom sample --help` lists");
    assert_int_equal(PARSE("--", "-m"), STATUS_OK);
    assert_string_equal(result.positional[0], "-m");
}

TEST(a_missing_value_is_not_the_next_flag) {
    refuses(PARSE("--model"), "--model needs a value");
    refuses(PARSE("--model", "--json"), "--model needs a value: --model=VALUE");
    assert_int_equal(PARSE("--model=--json"), STATUS_OK);
    assert_string_equal(values.model, "--json");
}

TEST(arguments_are_counted) {
    refuses(PARSE("a", "b"), "unexpected argument 'b'; a model is given with --model; usage: ");
    static const struct option_table needy = {.command = "needy",
                                              .arguments = "DIR",
                                              .description = "",
                                              .positional_min = 1,
                                              .positional_max = 1};
    char *words[] = {"needy", NULL};
    assert_int_equal(options_parse(&needy, 1, words, NULL, NULL, &result, &error), STATUS_INVALID);
    assert_non_null(strstr(error.text, "usage: fathom needy DIR"));
}

/* As a flag, as a word of its own, again, and several at once. */
TEST(experiments_are_set_by_name) {
    assert_int_equal(PARSE("--experiment", "order=early", "--port=1"), STATUS_OK);
    assert_string_equal(values.order, "early");
    assert_int_equal(values.shuffle, 0);
    assert_int_equal(PARSE("--experiment=shuffle=3", "--experiment", "order=early"), STATUS_OK);
    assert_int_equal(values.shuffle, 3);
    assert_string_equal(values.order, "early");
    assert_int_equal(PARSE("--experiment", "shuffle=3, order=early"), STATUS_OK);
    assert_int_equal(values.shuffle, 3);
    assert_string_equal(values.order, "early");
}

/* Of two values one would be dropped, and nobody could see which. */
TEST(an_option_that_is_given_twice_is_refused_by_name) {
    refuses(PARSE("--port", "1", "--json", "--port=2"), "option --port is given twice");
    refuses(PARSE("--port", "1", "--port", "1"), "option --port is given twice");
    refuses(PARSE("--model=a", "--model=b"), "option --model is given twice");
    refuses(PARSE("--activations=f32", "--activations=f32"), "--activations is given twice");
    refuses(PARSE("--kv-memory=1", "--kv-memory=2"), "option --kv-memory is given twice");
    refuses(PARSE("--temperature=1", "--temperature=0"), "option --temperature is given twice");
    refuses(PARSE("--json", "--no-json"), "option --json is given twice");
    refuses(PARSE("--experiment", "shuffle=3,order=early,shuffle=4"),
            "option --experiment shuffle is given twice");
    refuses(PARSE("--experiment", "shuffle=3", "--experiment", "shuffle=3"),
            "option --experiment shuffle is given twice");
    refuses(options_set(&table, "experiment", "shuffle=3,shuffle=4", &values, &error),
            "option --experiment shuffle is given twice");
    assert_int_equal(PARSE("--port", "1", "--", "--port=2"), STATUS_OK);
}

TEST(a_list_that_is_given_twice_has_all_items) {
    assert_int_equal(PARSE("--hosts", "a,b"), STATUS_OK);
    assert_string_equal(values.hosts, "a,b");
    assert_int_equal(PARSE("--hosts", "a,b", "--json", "--hosts=c", "--hosts", "d"), STATUS_OK);
    assert_string_equal(values.hosts, "a,b,c,d");
    assert_int_equal(PARSE("--trace", "a", "--trace=b"), STATUS_OK);
    assert_int_equal(values.traces.count, 2);
    assert_string_equal(values.traces.texts[1], "b");
}

TEST(a_wrong_experiment_is_reported_what_there_is) {
    refuses(PARSE("--experiment", "odrer=early"),
            "unknown experiment 'odrer'; there are: order, shuffle");
    refuses(PARSE("--experiment", "port=1"), "unknown experiment 'port'"); /* not an experiment */
    refuses(PARSE("--experiment="), "unknown experiment ''; there are: order, shuffle");
    refuses(PARSE("--experiment", "shuffle=1,"), "unknown experiment ''");
    refuses(PARSE("--experiment", "order"), "--experiment order needs a value: order=VALUE");
    refuses(PARSE("--experiment", "order=soon"),
            "option --experiment order: expected one of late|early, found 'soon'");
    refuses(PARSE("--experiment", "shuffle=10"),
            "option --experiment shuffle: expected 0 to 9, found '10'");
    refuses(PARSE("--experiment", "shuffle=1 "), "--experiment shuffle: expected a whole number");
    refuses(PARSE("--experiment"), "option --experiment needs a value: --experiment=NAME=VALUE");
}

/* Also where a file says it, and whatever its value is. */
TEST(an_experiment_is_no_option_of_its_own) {
    refuses(PARSE("--order", "early"), "--order is now --experiment order=VALUE");
    refuses(PARSE("--order=sideways"), "--order is now --experiment order=VALUE");
    refuses(PARSE("--shuffle"), "--shuffle is now --experiment shuffle=VALUE");
    refuses(PARSE("--ordr=early"), "`fathom sample --help`"); /* and no hint leads there */
    refuses(options_set(&table, "order", "early", &values, &error), "is now --experiment order=");
    assert_int_equal(options_set(&table, "experiment", "order=early", &values, &error), STATUS_OK);
    assert_string_equal(values.order, "early");
}

static enum status read_fake(const char *path, const struct option_table *known, void *out,
                             struct error *cause) {
    assert_string_equal(path, "x.yaml");
    assert_int_equal(options_set(known, "port", "1", out, cause), STATUS_OK);
    assert_int_equal(options_set(known, "progress", "false", out, cause), STATUS_OK);
    assert_int_equal(options_set(known, "hosts", "x,y", out, cause), STATUS_OK);
    return options_set(known, "kv-memory", "8", out, cause);
}

TEST(flags_win_over_the_file) {
    const char *words[] = {"sample", "--port", "2", "--config", "x.yaml", NULL};
    assert_int_equal(parse(words, read_fake), STATUS_OK);
    assert_int_equal(values.port, 2);     /* the flag, though it stands before --config */
    assert_int_equal(values.kv_bytes, 8); /* the file */
    assert_string_equal(values.hosts, "x,y");
    assert_false(values.progress);
    assert_string_equal(values.mode, "bf16"); /* the fallback */
    const char *other[] = {"sample", "--config=x.yaml", "--hosts=a", "--hosts=b", NULL};
    assert_int_equal(parse(other, read_fake), STATUS_OK);
    assert_string_equal(values.hosts, "a,b");
    const char *none[] = {"sample", "--", "--config=x.yaml", NULL};
    assert_int_equal(parse(none, read_fake), STATUS_OK);
    assert_int_equal(values.port, 8000);
    const char *wrong[] = {"sample", "--confg", "x.yaml", NULL};
    refuses(parse(wrong, read_fake), "did you mean --config?");
}

/* Until the next call. */
static const char *help_of(const struct option_table *of) {
    static char text[8192];
    FILE *file = fmemopen(text, sizeof text, "w");
    options_print(of, true, file);
    fclose(file);
    return text;
}

/* --help wins over every mistake beside it and names each option with its default. */
TEST(help_shows_every_row) {
    const char *text = help_of(&table);
    assert_non_null(strstr(text, "usage: fathom sample [options] [PROMPT]\n"));
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        assert_non_null(strstr(text, rows[i].name));
        assert_non_null(strstr(text, rows[i].help));
    }
    assert_non_null(strstr(text, "--port N"));
    assert_non_null(strstr(text, "TCP port (0 to 65535; default: 8000)\n"));
    assert_non_null(strstr(text, "randomness (0 to 2)\n"));
    assert_non_null(strstr(text, "directory (default: models/tiny-r1)\n"));
    assert_non_null(strstr(text, "show progress (default: on)\n"));
    assert_non_null(strstr(text, "print JSON\n"));
    assert_non_null(strstr(text, "f32|bf16|fp8|fp8-f32"));
    assert_non_null(strstr(text, "--[no-]progress"));
}

static size_t place_of(const char *text, const char *part) {
    const char *found = strstr(text, part);
    if (!found) fail_msg("'%s' lacks '%s'", text, part);
    return (size_t)(found - text);
}

/* Without --all a command's help stays short: its everyday options, and the number of the
 * others. */
TEST(help_leaves_the_other_groups_to_all) {
    static char text[8192];
    FILE *file = fmemopen(text, sizeof text, "w");
    options_print(&table, false, file);
    fclose(file);
    assert_non_null(strstr(text, "\neveryday options:\n"));
    assert_null(strstr(text, "\nstorage:\n"));
    assert_null(strstr(text, "--kv-memory"));
    assert_non_null(strstr(text, "`fathom help sample --all` lists "));
    assert_non_null(strstr(text, "more: storage, experiments.\n"));
}

/* A row's group says where it is printed, not its place in the table. */
TEST(help_has_groups_in_order) {
    static const char *const order[] = {"\neveryday options:\n", "--config ",
                                        "--[no-]progress ",      "\nstorage:\n",
                                        "--kv-memory ",          "\nexperiments:\n",
                                        "  order=late|early ",   "--experiment NAME=VALUE ",
                                        "  shuffle=N "};
    const char *text = help_of(&table);
    for (size_t i = 1; i < ARRAY_COUNT(order); i++)
        assert_true(place_of(text, order[i - 1]) < place_of(text, order[i]));
    assert_null(strstr(text, "fleet:")); /* a group without options */
    static const struct option one[] = {{"json", OPTION_FLAG, NULL, "print JSON", AT(json)}};
    static const struct option_table plain = {
        .command = "plain", .arguments = "", .description = "", .options = one, .option_count = 1};
    text = help_of(&plain);
    place_of(text, "\noptions:\n  --json ");
    assert_null(strstr(text, "everyday"));
}

/* Each line has at most a hundred columns, and no choice is torn. */
TEST(help_is_wrapped_between_choices) {
    static const struct option many[] = {
        {"order", OPTION_CHOICE, "the-first-of-them", "who goes first", AT(order),
         .choices = "the-first-of-them|the-second-of-them|the-third-of-them|the-fourth-of-them|"
                    "the-fifth-of-them"}};
    static const struct option_table wordy = {
        .command = "wordy", .arguments = "", .options = many, .option_count = 1, .description = ""};
    place_of(help_of(&wordy), "|the-fourth-of-them|\n  the-fifth-of-them\n");
}

TEST(help_is_wrapped_between_words) {
    static const struct option wide[] = {
        {"model", OPTION_TEXT, NULL,
         "one two three four five six seven eight nine ten eleven twelve thirteen fourteen",
         AT(model)},
        {"activations", OPTION_CHOICE, "bf16", "ten letters", AT(mode),
         .choices = "f32|bf16|fp8|fp8-f32"},
    };
    static const struct option_table wordy = {
        .command = "wordy",
        .arguments = "",
        .description =
            "What the command does stands here, in more words than one line of a hundred "
            "columns has room for, so it takes two.\n\nexamples:\n  fathom wordy     so   far",
        .options = wide,
        .option_count = ARRAY_COUNT(wide)};
    const char *text = help_of(&wordy);
    place_of(text, "mns has room for, so\nit takes two.\n\nexamples:\n"
                   "  fathom wordy     so   far\n");
    place_of(text, "  --model VALUE               one two three four five six seven eight nine ten "
                   "eleven twelve\n                              thirteen fourteen\n");
    place_of(text,
             "  --activations f32|bf16|fp8|fp8-f32\n                              ten letters "
             "(default: bf16)\n");
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
        assert_true(strcspn(line, "\n") <= 100);
}

/* What is formatted is read back as it was: how a program hands its options to another. */
TEST(values_can_be_handed_on) {
    assert_int_equal(PARSE("--port", "77", "--kv-memory", "3MiB", "--no-progress",
                           "--activations=fp8", "--temperature", "0.7", "--experiment=order=early",
                           "--hosts=a", "--hosts=b"),
                     STATUS_OK);
    static char texts[ARRAY_COUNT(rows)][256];
    const char *handed[ARRAY_COUNT(rows) + 2] = {"sample"};
    int count = 1;
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        size_t bytes = options_format(&rows[i], &values, texts[i], sizeof texts[i]);
        assert_true(bytes < sizeof texts[i]);
        if (bytes) handed[count++] = texts[i];
    }
    /* all but --config and --trace, which were not given, and --experiment, which is its
     * experiments */
    assert_int_equal(count, ARRAY_COUNT(rows) - 2);
    struct values before = values;
    assert_int_equal(parse(handed, NULL), STATUS_OK);
    assert_int_equal(values.port, before.port);
    assert_int_equal(values.kv_bytes, before.kv_bytes);
    assert_true(values.temperature == 0.7);
    assert_false(values.progress);
    assert_string_equal(values.mode, "fp8");
    assert_string_equal(values.order, "early");
    assert_string_equal(values.hosts, "a,b");
    assert_ptr_equal(options_find(&table, "port"), &rows[3]);
    assert_null(options_find(&table, "por"));
}

/* "ranks" is no row of this table; a value that is the fallback asks for nothing. */
TEST(an_option_that_does_nothing_is_named_with_what_it_needs) {
    char text[OPTION_IDLE_BYTES];
    assert_int_equal(PARSE("--experiment", "shuffle=3"), STATUS_OK);
    const struct option *idle = options_next_idle(&table, &values, NULL);
    assert_string_equal(idle->name, "shuffle");
    options_say_idle(&table, idle, text);
    assert_string_equal(text, "without --json or --port");
    assert_null(options_next_idle(&table, &values, idle));
    assert_int_equal(PARSE("--experiment", "shuffle=3", "--port", "8000"), STATUS_OK);
    assert_non_null(options_next_idle(&table, &values, NULL));
    assert_int_equal(PARSE("--experiment", "shuffle=3", "--port", "8001"), STATUS_OK);
    assert_null(options_next_idle(&table, &values, NULL));
    assert_int_equal(PARSE("--experiment", "shuffle=3", "--json"), STATUS_OK);
    assert_null(options_next_idle(&table, &values, NULL));
    assert_int_equal(PARSE("--json", "--no-progress"), STATUS_OK);
    idle = options_next_idle(&table, &values, NULL);
    assert_string_equal(idle->name, "json");
    options_say_idle(&table, idle, text);
    assert_string_equal(text, "without --progress");
    assert_int_equal(PARSE("--experiment", "shuffle=0"), STATUS_OK);
    assert_null(options_next_idle(&table, &values, NULL));
}
