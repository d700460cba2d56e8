/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/metrics.h"

#include "base/check.h"

static const uint32_t statuses[METRICS_STATUS_COUNT] = {200, 400, 401, 402, 403, 404, 405, 413,
                                                        422, 429, 499, 500, 503, 0 /* any other */};

void metrics_count_answer(struct metrics *metrics, enum endpoint_number endpoint,
                          uint32_t http_status) {
    check(endpoint < ENDPOINT_COUNT);
    uint32_t column = 0;
    while (column < METRICS_STATUS_COUNT - 1 && statuses[column] != http_status)
        column++;
    metrics->answers[endpoint][column]++;
}

void metrics_count_prompt(struct metrics *metrics, uint64_t tokens, uint32_t answers) {
    metrics->arrived_answers += answers;
    metrics->arrived_tokens += tokens;
}

void metrics_count_tokens(struct metrics *metrics, struct metrics_times *times, int64_t now_ns) {
    if (!times->has_token) {
        times->has_token = true;
        times->first_token_ns = now_ns;
        histogram_add(&metrics->first_token_ns, &histogram_times,
                      (uint64_t)(now_ns - times->arrived_ns));
    }
    times->last_token_ns = now_ns;
}

void metrics_count_end(struct metrics *metrics, const struct metrics_times *times,
                       const struct record_finished *record, bool stopped, int64_t now_ns) {
    metrics->ended[record->reason]++;
    metrics->output_tokens += record->output_tokens;
    if (record->work.queue_ns >= 0) { /* otherwise no unit has begun the prompt */
        metrics->prompt_hit_tokens += record->work.prompt_hit_tokens;
        metrics->prompt_miss_tokens += record->work.prompt_miss_tokens;
        histogram_add(&metrics->queue_ns, &histogram_times, (uint64_t)record->work.queue_ns);
    }
    if (!stopped && record->reason != FINISH_STOP_TOKEN && record->reason != FINISH_LENGTH) return;
    histogram_add(&metrics->whole_ns, &histogram_times, (uint64_t)(now_ns - times->arrived_ns));
    histogram_add(&metrics->prompt_lengths, &histogram_counts,
                  (uint64_t)record->work.prompt_hit_tokens + record->work.prompt_miss_tokens);
    histogram_add(&metrics->output_lengths, &histogram_counts, record->output_tokens);
    if (record->output_tokens > 1 && times->has_token)
        histogram_add(&metrics->token_ns, &histogram_times,
                      (uint64_t)(times->last_token_ns - times->first_token_ns) /
                          (record->output_tokens - 1));
}

void metrics_count_step(struct metrics *metrics, const struct record_unit_load *before,
                        const struct record_unit_load *load) {
    if (load->totals.steps == before->totals.steps) return;
    histogram_add(&metrics->step_ns, &histogram_times, (uint64_t)load->last_step_ns);
    histogram_add(&metrics->step_rows, &histogram_counts, load->last_step_rows);
    histogram_add(&metrics->step_tokens, &histogram_counts, load->last_step_tokens);
}

static void metrics_write_family(struct json_writer *writer, const char *name, const char *type,
                                 const char *help) {
    json_writer_print(writer, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void write_sample(struct json_writer *writer, const char *name, uint64_t value) {
    json_writer_print(writer, "%s %lu\n", name, value);
}

static void metrics_write_one(struct json_writer *writer, const char *name, const char *type,
                              const char *help, uint64_t value) {
    metrics_write_family(writer, name, type, help);
    write_sample(writer, name, value);
}

static void write_seconds(struct json_writer *writer, const char *name, const char *help,
                          int64_t ns) {
    metrics_write_family(writer, name, "gauge", help);
    json_writer_print(writer, "%s %ld.%06ld\n", name, ns / 1000000000, ns % 1000000000 / 1000);
}

#define NS_PER_SECOND 1000000000ull

/* Writes a Prometheus histogram with cumulative buckets. `unit`: 1, or NS_PER_SECOND to show
 * nanoseconds as seconds. */
static void write_histogram(struct json_writer *writer, const char *name, const char *help,
                            const struct histogram *histogram, const struct histogram_scale *scale,
                            uint64_t unit) {
    uint64_t below = 0, total = histogram_total(histogram), sum = histogram->sum;
    metrics_write_family(writer, name, "histogram", help);
    for (uint32_t i = 0; i < scale->bound_count; i++) {
        below += histogram->counts[i];
        json_writer_print(writer, "%s_bucket{le=\"%.9g\"} %lu\n", name,
                          (double)scale->bounds[i] / (double)unit, below);
    }
    json_writer_print(writer, "%s_bucket{le=\"+Inf\"} %lu\n%s_sum %lu", name, total, name,
                      sum / unit);
    if (unit == NS_PER_SECOND) json_writer_print(writer, ".%09lu", sum % unit);
    json_writer_print(writer, "\n%s_count %lu\n", name, total);
}

static void metrics_write_times(struct json_writer *writer, const char *name, const char *help,
                                const struct histogram *histogram) {
    write_histogram(writer, name, help, histogram, &histogram_times, NS_PER_SECOND);
}

static void metrics_write_counts(struct json_writer *writer, const char *name, const char *help,
                                 const struct histogram *histogram) {
    write_histogram(writer, name, help, histogram, &histogram_counts, 1);
}

static void write_histograms(struct json_writer *writer, const struct metrics *metrics) {
    metrics_write_times(writer, "fathom_time_to_first_token_seconds",
                        "From a request's arrival to its first token.", &metrics->first_token_ns);
    metrics_write_times(writer, "fathom_time_per_output_token_seconds",
                        "Mean time from token to token of each answer, after its first.",
                        &metrics->token_ns);
    metrics_write_times(writer, "fathom_request_seconds",
                        "From a request's arrival to its answer's end.", &metrics->whole_ns);
    metrics_write_times(writer, "fathom_queue_seconds",
                        "From a request's submission to the first step that computes it.",
                        &metrics->queue_ns);
    metrics_write_counts(writer, "fathom_prompt_length_tokens",
                         "Prompt tokens of each answered request.", &metrics->prompt_lengths);
    metrics_write_counts(writer, "fathom_output_length_tokens", "Tokens of each answer.",
                         &metrics->output_lengths);
    metrics_write_times(writer, "fathom_step_compute_seconds", "Time each step took to compute.",
                        &metrics->step_ns);
    metrics_write_counts(writer, "fathom_step_batch_rows", "Requests in each step.",
                         &metrics->step_rows);
    metrics_write_counts(writer, "fathom_step_batch_tokens", "Tokens in each step.",
                         &metrics->step_tokens);
}

static void metrics_write_answers(struct json_writer *writer, const struct metrics *metrics) {
    metrics_write_family(writer, "fathom_http_requests_total", "counter",
                         "Answers by endpoint and HTTP status (499: the client left before).");
    for (uint32_t endpoint = 0; endpoint < ENDPOINT_COUNT; endpoint++)
        for (uint32_t i = 0; i < METRICS_STATUS_COUNT; i++) {
            if (metrics->answers[endpoint][i] == 0) continue;
            json_writer_print(writer,
                              "fathom_http_requests_total{endpoint=\"%s\",status=\"%u\"} %lu\n",
                              endpoint_name(endpoint), statuses[i], metrics->answers[endpoint][i]);
        }
}

static void write_ended(struct json_writer *writer, const struct metrics *metrics) {
    metrics_write_family(writer, "fathom_requests_ended_total", "counter",
                         "Requests that left the unit, by reason.");
    for (uint32_t i = 0; i < FINISH_REASON_COUNT; i++)
        json_writer_print(writer, "fathom_requests_ended_total{reason=\"%s\"} %lu\n",
                          record_unit_finish_reason_name((enum finish_reason)i), metrics->ended[i]);
}

/* Label values are escaped like JSON strings, which is the same for the characters of names. */
static void write_one_info(struct json_writer *writer, const struct metrics_gauges *gauges,
                           struct bytes numerics_id) {
    json_writer_print(writer, "fathom_info{model=\"%.*s\",version=\"%.*s\",numerics=\"%.*s\"} 1\n",
                      PRINT_BYTES(gauges->model), PRINT_BYTES(gauges->version),
                      PRINT_BYTES(numerics_id));
}

/* Writes a line for each of the numerics that units have. */
static void write_info(struct json_writer *writer, const struct metrics_gauges *gauges) {
    const struct fleet *fleet = gauges->fleet;
    metrics_write_family(writer, "fathom_info", "gauge", "What is served.");
    write_one_info(writer, gauges, gauges->numerics_id);
    for (uint32_t i = 0; i < fleet->numerics_count; i++)
        if (i != fleet->main_numerics && fleet_count_numerics(fleet, i))
            write_one_info(writer, gauges, bytes_of(fleet->numerics[i]));
}

static void metrics_write_fleet(struct json_writer *writer, const struct metrics_gauges *gauges) {
    static const char *const states[] = {[FLEET_JOINING] = "joining",
                                         [FLEET_SERVING] = "serving",
                                         [FLEET_SILENT] = "silent",
                                         [FLEET_REFUSED] = "refused"};
    uint32_t counts[ARRAY_COUNT(states)] = {0}, draining = 0;
    for (uint32_t i = 0; i < LIMIT_FLEET_UNITS; i++) {
        bool drains = fleet_drains(gauges->fleet, i);
        counts[gauges->fleet->units[i].state] += !drains;
        draining += drains;
    }
    metrics_write_family(writer, "fathom_units", "gauge",
                         "Units that are connected, by what they do.");
    for (uint32_t state = FLEET_JOINING; state < ARRAY_COUNT(states); state++)
        json_writer_print(writer, "fathom_units{state=\"%s\"} %u\n", states[state], counts[state]);
    write_sample(writer, "fathom_units{state=\"draining\"}", draining);
    metrics_write_one(writer, "fathom_unit_losses_total", "counter",
                      "Units that were lost, or fell silent, while they served.",
                      gauges->fleet->losses_total);
    metrics_write_one(writer, "fathom_units_refused_total", "counter",
                      "Units that serve another model, or broke the rules.",
                      gauges->fleet->refused_total);
    metrics_write_one(writer, "fathom_requests_queued", "gauge", "Requests that wait for a unit.",
                      gauges->requests_queued);
    metrics_write_one(writer, "fathom_requests_resumed_total", "counter",
                      "Times that a request went on at another unit.", gauges->requests_resumed);
}

/* Writes nothing if no unit has a storage. */
static void metrics_write_storage(struct json_writer *writer, const struct record_unit_load *load,
                                  const struct fleet *fleet) {
    uint32_t ranks[KV_STORAGE_COUNT] = {0};
    if (load->kv_storage == KV_STORAGE_NONE) return;
    for (uint32_t i = 0; i < LIMIT_FLEET_UNITS; i++)
        for (uint32_t r = 0; fleet_is_member(fleet, i) && r < fleet->units[i].hello.rank_count; r++)
            ranks[fleet->units[i].ranks[r].load.kv_storage]++;
    metrics_write_family(writer, "fathom_kv_storage_ranks", "gauge",
                         "Ranks with a KV storage; a rank with a full or failing disk only reads.");
    write_sample(writer, "fathom_kv_storage_ranks{state=\"on\"}", ranks[KV_STORAGE_ON]);
    write_sample(writer, "fathom_kv_storage_ranks{state=\"read only\"}",
                 ranks[KV_STORAGE_READ_ONLY]);
    metrics_write_one(
        writer, "fathom_kv_storage_writable", "gauge",
        "1: the storage takes blocks; 0: of one rank at least, the disk is full or fails, or its "
        "directory is not used.",
        load->kv_storage == KV_STORAGE_ON);
}

static void metrics_write_counters(struct json_writer *writer,
                                   const struct record_unit_load *load) {
    for (size_t i = 0; i < unit_counter_count; i++) {
        const struct unit_counter *counter = &unit_counter_table[i];
        if (counter->where == COUNTED_WITH_STORAGE && load->kv_storage == KV_STORAGE_NONE) continue;
        if (counter->help[0])
            metrics_write_family(writer, counter->metric, "counter", counter->help);
        json_writer_print(writer, "%s%s %lu\n", counter->metric, counter->labels,
                          unit_counters_value(&load->totals, counter));
    }
}

static void metrics_write_load(struct json_writer *writer, const struct metrics_gauges *gauges) {
    const struct record_unit_load *load = &gauges->load;
    metrics_write_one(writer, "fathom_requests_running", "gauge",
                      "Requests that hold KV pages, or await their constraint.",
                      load->requests_running);
    metrics_write_one(writer, "fathom_requests_waiting", "gauge",
                      "Requests that wait for KV pages.", load->requests_waiting);
    metrics_write_family(writer, "fathom_kv_pages", "gauge",
                         "KV pages; free + held + cached = total.");
    write_sample(writer, "fathom_kv_pages{state=\"free\"}", load->pages_free);
    write_sample(writer, "fathom_kv_pages{state=\"held\"}", load->pages_held);
    write_sample(writer, "fathom_kv_pages{state=\"cached\"}", load->pages_cached);
    metrics_write_one(writer, "fathom_kv_pages_capacity", "gauge", "KV pages in all.",
                      gauges->page_count);
    metrics_write_counters(writer, load);
    metrics_write_storage(writer, load, gauges->fleet);
    metrics_write_one(writer, "fathom_step_rows", "gauge", "Requests in the last step.",
                      load->last_step_rows);
    metrics_write_one(writer, "fathom_step_tokens", "gauge", "Tokens in the last step.",
                      load->last_step_tokens);
    write_seconds(writer, "fathom_step_seconds", "Time the last step took to compute.",
                  load->last_step_ns);
}

/* Writes a sample of a unit and, unless `layer` is LIMIT_LAYERS, a layer. `value` is in
 * millionths. */
static void write_millionths(struct json_writer *writer, const char *name, uint32_t unit,
                             uint32_t layer, uint64_t value) {
    json_writer_print(writer, "%s{unit=\"%u\"", name, unit);
    if (layer < LIMIT_LAYERS) json_writer_print(writer, ",layer=\"%u\"", layer);
    json_writer_print(writer, "} %lu.%06lu\n", value / 1000000, value % 1000000);
}

struct expert_family {
    const char *name, *type, *help;
    size_t offset; /* offset of a uint64_t in struct record_experts */
    bool seconds;  /* the field holds nanoseconds */
};

#define AT(field) offsetof(struct record_experts, field)

static const struct expert_family expert_families[] = {
    {"fathom_expert_maps_total", "counter", "New maps of experts to ranks carried out.",
     AT(rebalances_total), false},
    {"fathom_experts_moved_total", "counter", "Experts that came to another rank.", AT(moves_total),
     false},
    {"fathom_experts_moved_bytes_total", "counter", "Bytes of their weights.", AT(bytes_total),
     false},
    {"fathom_expert_moves_failed_total", "counter", "Experts that did not arrive as they were.",
     AT(failures_total), false},
    {"fathom_expert_stall_seconds_total", "counter", "Time that steps waited for new maps.",
     AT(stall_ns_total), true},
    {"fathom_expert_stall_seconds_max", "gauge", "Longest time that steps waited for a new map.",
     AT(stall_ns_max), true},
};

static void write_expert_family(struct json_writer *writer, const struct fleet *fleet,
                                const struct expert_family *family) {
    metrics_write_family(writer, family->name, family->type, family->help);
    for (uint32_t i = 0; i < LIMIT_FLEET_UNITS; i++) {
        const struct fleet_unit *unit = &fleet->units[i];
        uint64_t value;
        if (!fleet_is_member(fleet, i) || !unit->experts.ranks) continue;
        memcpy(&value, (const char *)&unit->experts + family->offset, sizeof value);
        if (family->seconds)
            write_millionths(writer, family->name, unit->number, LIMIT_LAYERS, value / 1000);
        else
            json_writer_print(writer, "%s{unit=\"%u\"} %lu\n", family->name, unit->number, value);
    }
}

static void metrics_write_balances(struct json_writer *writer, const struct fleet *fleet) {
    metrics_write_family(writer, "fathom_expert_balance", "gauge",
                         "Mean load of ranks by the largest, over all layers or of one.");
    for (uint32_t i = 0; i < LIMIT_FLEET_UNITS; i++) {
        const struct fleet_unit *unit = &fleet->units[i];
        if (!fleet_is_member(fleet, i) || !unit->experts.balance) continue;
        write_millionths(writer, "fathom_expert_balance", unit->number, LIMIT_LAYERS,
                         unit->experts.balance);
        for (uint32_t layer = 0; layer < unit->experts.layer_count; layer++)
            if (unit->experts.layer_balance[layer])
                write_millionths(writer, "fathom_expert_balance", unit->number, layer,
                                 unit->experts.layer_balance[layer]);
    }
}

static void write_experts(struct json_writer *writer, const struct fleet *fleet) {
    bool any = false;
    for (uint32_t i = 0; i < LIMIT_FLEET_UNITS; i++)
        any |= fleet_is_member(fleet, i) && fleet->units[i].experts.ranks;
    if (!any) return;
    metrics_write_balances(writer, fleet);
    for (size_t i = 0; i < ARRAY_COUNT(expert_families); i++)
        write_expert_family(writer, fleet, &expert_families[i]);
}

void metrics_write(struct json_writer *writer, const struct metrics *metrics,
                   const struct metrics_gauges *gauges) {
    write_info(writer, gauges);
    write_seconds(writer, "fathom_uptime_seconds", "Time since the first event.",
                  gauges->uptime_ns);
    metrics_write_answers(writer, metrics);
    metrics_write_one(writer, "fathom_requests_held", "gauge", "Requests the gateway holds.",
                      gauges->requests_held);
    metrics_write_one(writer, "fathom_requests_cancelled_total", "counter",
                      "Requests ended because the client left.", metrics->cancelled);
    write_ended(writer, metrics);
    metrics_write_one(writer, "fathom_arrived_answers_total", "counter",
                      "Answers that were asked for, of prompts that fit; refused ones, too.",
                      metrics->arrived_answers);
    metrics_write_one(writer, "fathom_arrived_prompt_tokens_total", "counter",
                      "Tokens of those prompts.", metrics->arrived_tokens);
    metrics_write_one(writer, "fathom_prompt_tokens_total", "counter",
                      "Prompt tokens of ended requests.",
                      metrics->prompt_hit_tokens + metrics->prompt_miss_tokens);
    metrics_write_one(writer, "fathom_prompt_cache_hit_tokens_total", "counter",
                      "Prompt tokens found in the cache, of ended requests.",
                      metrics->prompt_hit_tokens);
    metrics_write_one(writer, "fathom_prompt_cache_miss_tokens_total", "counter",
                      "Prompt tokens that had to be computed, of ended requests.",
                      metrics->prompt_miss_tokens);
    metrics_write_one(writer, "fathom_output_tokens_total", "counter",
                      "Tokens generated for ended requests.", metrics->output_tokens);
    if (gauges->accounts) accounts_write_metrics(writer, gauges->accounts);
    metrics_write_fleet(writer, gauges);
    metrics_write_load(writer, gauges);
    write_experts(writer, gauges->fleet);
    write_histograms(writer, metrics);
}
