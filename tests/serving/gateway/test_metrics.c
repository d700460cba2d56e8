/* SPDX-License-Identifier: Apache-2.0
 * Whatever has been counted, GET /metrics is Prometheus' text format to a reader who forgives
 * nothing.
 */
#include "serving/gateway/metrics.h"

#include <math.h>

#include "base/check.h"
#include "test_case.h"

#define MS ((int64_t)1000000)

static char text[1 << 17];

static void write(const struct metrics *metrics, const struct metrics_gauges *gauges) {
    struct json_writer writer = {.out = text, .room = sizeof text - 1};
    metrics_write(&writer, metrics, gauges);
    assert_true(json_writer_fits(&writer));
    text[writer.count] = 0;
}

static double value_of(const char *sample) {
    char line[256];
    snprintf(line, sizeof line, "\n%s ", sample);
    const char *at = strstr(text, line);
    if (!at) fail_msg("no %s", sample);
    return strtod(at + strlen(line), NULL);
}

/* ---- a strict reader ---- */

struct reader {
    char family[128];
    bool histogram;
    double below, bound; /* of the last bucket */
    double total;        /* of le="+Inf"; -1: not yet */
    uint32_t families, samples;
};

static size_t name_length(const char *at) {
    return strspn(at, "abcdefghijklmnopqrstuvwxyz_0123456789");
}

/* {name="value",…}; leaves le's value in *bound. */
static const char *take_labels(const char *at, double *bound) {
    if (*at != '{') return at;
    do {
        at++;
        size_t name = name_length(at);
        assert_true(name > 0);
        bool is_le = name == 2 && !memcmp(at, "le", 2);
        at += name;
        assert_memory_equal(at, "=\"", 2);
        at += 2;
        if (is_le) *bound = strtod(at, NULL);
        while (*at != '"') {
            assert_true(*at && *at != '\n');
            if (*at == '\\') assert_non_null(strchr("\\\"n", *++at));
            at++;
        }
        at++;
    } while (*at == ',');
    assert_int_equal(*at, '}');
    return at + 1;
}

static void take_bucket(struct reader *reader, double bound, double value) {
    assert_true(bound > reader->bound && value >= reader->below);
    reader->bound = bound;
    reader->below = value;
    if (bound == HUGE_VAL) reader->total = value;
}

static void take_sample(struct reader *reader, const char *line) {
    size_t family = strlen(reader->family), name = name_length(line);
    assert_true(family > 0 && !strncmp(line, reader->family, family));
    char suffix[64] = "";
    memcpy(suffix, line + family, name - family);
    double bound = NAN;
    const char *at = take_labels(line + name, &bound);
    assert_int_equal(*at, ' ');
    char *end;
    double value = strtod(at + 1, &end);
    assert_true(end > at + 1 && *end == 0 && value >= 0);
    reader->samples++;
    if (!reader->histogram) {
        assert_string_equal(suffix, "");
    } else if (!strcmp(suffix, "_bucket")) {
        take_bucket(reader, bound, value);
    } else if (!strcmp(suffix, "_count")) {
        assert_true(value == reader->total);
        reader->histogram = false; /* complete */
        reader->family[0] = 0;
    } else {
        assert_string_equal(suffix, "_sum");
    }
}

static void take_type(struct reader *reader, const char *line) {
    char name[128], type[32];
    assert_false(reader->histogram); /* the one before has its _count */
    assert_int_equal(sscanf(line, "# TYPE %127s %31s", name, type), 2);
    assert_string_equal(name, reader->family);
    reader->histogram = !strcmp(type, "histogram");
    assert_true(reader->histogram || !strcmp(type, "gauge") || !strcmp(type, "counter"));
    if (!strcmp(type, "counter")) assert_string_equal(name + strlen(name) - 6, "_total");
    reader->below = 0;
    reader->bound = reader->total = -1;
    reader->families++;
}

static void read_strictly(struct reader *reader) {
    static char copy[sizeof text];
    memcpy(copy, text, sizeof text);
    assert_int_equal(text[strlen(text) - 1], '\n');
    for (char *rest = copy, *line; (line = strsep(&rest, "\n")) && rest;) {
        if (!strncmp(line, "# HELP ", 7)) {
            size_t name = name_length(line + 7);
            assert_true(name < sizeof reader->family && strlen(line + 7) > name + 1);
            snprintf(reader->family, sizeof reader->family, "%.*s", (int)name, line + 7);
        } else if (line[0] == '#') {
            take_type(reader, line);
        } else {
            take_sample(reader, line);
        }
    }
}

/* ---- tests ---- */

static struct fleet_unit units[LIMIT_FLEET_UNITS];
static const struct fleet fleet = {.units = units, .losses_total = 2};
static const struct metrics_gauges gauges = {
    .fleet = &fleet,
    .uptime_ns = 90 * MS,
    .page_count = 8,
    .model = {"a \"b\" \\ c", 9},
    .version = {"1", 1},
    .numerics_id = {"x", 1},
};

TEST(an_empty_server_is_valid_text) {
    static const struct metrics metrics;
    struct reader reader = {0};
    write(&metrics, &gauges);
    read_strictly(&reader);
    assert_true(reader.families > 25 && reader.samples > 150);
    assert_true(value_of("fathom_request_seconds_count") == 0);
}

/* Two requests, of which one waits 5 ms, has its first token at 30 ms and 4 more until 70 ms; the
 * other is cancelled before it starts. */
TEST(a_life_is_counted) {
    static struct metrics metrics;
    struct metrics_times answered = {.arrived_ns = 0}, cancelled = {.arrived_ns = 50 * MS};
    for (int i = 0; i < 5; i++)
        metrics_count_tokens(&metrics, &answered, (30 + 10 * i) * MS);
    struct record_finished finished = {.reason = FINISH_LENGTH,
                                       .work.prompt_hit_tokens = 64,
                                       .work.prompt_miss_tokens = 36,
                                       .output_tokens = 5,
                                       .work.queue_ns = 5 * MS};
    metrics_count_end(&metrics, &answered, &finished, false, 71 * MS);
    finished = (struct record_finished){
        .reason = FINISH_CANCELLED, .work.prompt_miss_tokens = 10, .work.queue_ns = -1};
    metrics_count_end(&metrics, &cancelled, &finished, false, 80 * MS);
    write(&metrics, &gauges);
    struct reader reader = {0};
    read_strictly(&reader);
    static const struct {
        const char *name;
        double value;
    } wanted[] = {
        {"fathom_time_to_first_token_seconds_count", 1},
        {"fathom_time_to_first_token_seconds_sum", 0.03},
        {"fathom_time_to_first_token_seconds_bucket{le=\"0.025\"}", 0},
        {"fathom_time_to_first_token_seconds_bucket{le=\"0.05\"}", 1},
        {"fathom_time_per_output_token_seconds_sum", 0.01},
        {"fathom_time_per_output_token_seconds_count", 1},
        {"fathom_request_seconds_sum", 0.071},
        {"fathom_request_seconds_count", 1},
        {"fathom_queue_seconds_sum", 0.005},
        {"fathom_queue_seconds_count", 1},
        {"fathom_prompt_length_tokens_bucket{le=\"64\"}", 0},
        {"fathom_prompt_length_tokens_bucket{le=\"128\"}", 1},
        {"fathom_output_length_tokens_sum", 5},
        {"fathom_prompt_tokens_total", 100},
        {"fathom_prompt_cache_hit_tokens_total", 64},
        {"fathom_prompt_cache_miss_tokens_total", 36},
        {"fathom_requests_ended_total{reason=\"cancelled\"}", 1},
    };
    for (size_t i = 0; i < ARRAY_COUNT(wanted); i++)
        if (value_of(wanted[i].name) != wanted[i].value)
            fail_msg("%s is %g", wanted[i].name, value_of(wanted[i].name));
}

/* Load reports also come when nothing was computed: those count no step. */
TEST(each_step_counts_once) {
    static struct metrics metrics;
    struct record_unit_load before = {0}, load = {.totals = {.steps = 1},
                                                  .last_step_ns = 2 * MS,
                                                  .last_step_rows = 3,
                                                  .last_step_tokens = 70};
    metrics_count_step(&metrics, &before, &before);
    metrics_count_step(&metrics, &before, &load);
    metrics_count_step(&metrics, &load, &load);
    write(&metrics, &gauges);
    assert_true(value_of("fathom_step_compute_seconds_count") == 1);
    assert_true(value_of("fathom_step_compute_seconds_sum") == 0.002);
    assert_true(value_of("fathom_step_batch_rows_sum") == 3);
    assert_true(value_of("fathom_step_batch_tokens_sum") == 70);
}
