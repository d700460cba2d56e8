/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/receipt.h"

#include "base/check.h"
#include "base/number.h"
#include "serving/gateway/api/agent_habits.h"

bool receipt_is_credible(const struct unit_work *work, uint32_t prompt_tokens) {
    uint64_t obtained = (uint64_t)work->device_tokens + work->host_tokens + work->disk_tokens +
                        work->transferred_tokens + work->computed_tokens;
    return (uint64_t)work->prompt_hit_tokens + work->prompt_miss_tokens == prompt_tokens &&
           obtained <= prompt_tokens;
}

void receipt_note(struct receipt *receipt, enum request_part part, const struct unit_work *work) {
    receipt->parts[part].reported = true;
    receipt->parts[part].work = *work;
    if (receipt->parts[part].counts) receipt->first = *work;
}

void receipt_choose(struct receipt *receipt, enum request_part part) {
    if (receipt->is_final) return;
    receipt->is_final = receipt->parts[part].counts = true;
    receipt->first = receipt->parts[part].work;
}

void receipt_end(struct receipt *receipt) {
    for (int part = PART_COUNT; part-- > 0;)
        if (receipt->parts[part].reported) receipt_choose(receipt, (enum request_part)part);
}

/* Adds the additional work of a unit, beyond the first computation of the prompt. */
static void receipt_add_extras(struct unit_work *sum, const struct unit_work *work, bool counts) {
    sum->transferred_tokens += work->transferred_tokens;
    sum->reloaded_tokens += work->reloaded_tokens;
    sum->recomputed_tokens += work->recomputed_tokens;
    sum->drafts_made += work->drafts_made;
    sum->drafts_right += work->drafts_right;
    sum->preemptions += work->preemptions;
    sum->transfer_ns += work->transfer_ns;
    if (counts) return;
    sum->reloaded_tokens += work->host_tokens + work->disk_tokens;
    sum->recomputed_tokens += work->computed_tokens;
}

void receipt_leave(struct receipt *receipt, enum request_part part, struct receipt_stay stay) {
    const struct unit_work *work = &receipt->parts[part].work;
    if (!receipt->parts[part].reported) return;
    receipt_add_extras(&receipt->sum, work, receipt->parts[part].counts);
    stay.rank = work->rank;
    receipt->stays[receipt->stay_count++ % RECEIPT_STAYS_MAX] = stay;
    memset(&receipt->parts[part], 0, sizeof receipt->parts[part]);
}

struct unit_work receipt_total(const struct receipt *receipt, uint32_t prompt_tokens) {
    struct unit_work total = {.prompt_miss_tokens = prompt_tokens, .queue_ns = -1};
    struct unit_work extras = receipt->sum;
    bool is_final = receipt->is_final;
    if (is_final) total = receipt->first;
    for (int part = PART_COUNT; part-- > 0;) {
        if (!receipt->parts[part].reported) continue;
        bool counts = receipt->parts[part].counts || !is_final; /* it may have no token */
        if (!is_final) total = receipt->parts[part].work;
        is_final = true;
        receipt_add_extras(&extras, &receipt->parts[part].work, counts);
    }
    total.transferred_tokens = extras.transferred_tokens;
    total.reloaded_tokens = extras.reloaded_tokens;
    total.recomputed_tokens = extras.recomputed_tokens;
    total.drafts_made = extras.drafts_made;
    total.drafts_right = extras.drafts_right;
    total.preemptions = extras.preemptions;
    total.transfer_ns = extras.transfer_ns;
    return total;
}

/* ---- as JSON ---- */

/* Writes a time in milliseconds, with microsecond resolution. */
static void write_ms(struct json_writer *writer, const char *name, int64_t ns) {
    uint64_t us = ns > 0 ? (uint64_t)ns / 1000 : 0;
    json_writer_print(writer, "%s%lu.%03lu", name, us / 1000, us % 1000);
}

/* queue + load + prefill = ttft, ttft + transfer + decode = total. A unit measures times by its own
 * clock, so they are clamped to the time that passed here. */
static void receipt_write_times(struct json_writer *writer, const struct metrics_times *times,
                                int64_t ended_ns, const struct unit_work *work) {
    int64_t total = ended_ns - times->arrived_ns;
    int64_t first = times->has_token ? times->first_token_ns - times->arrived_ns : total;
    int64_t prefill = min_i64(work->prefill_ns, first),
            load = min_i64(work->load_ns, first - prefill);
    int64_t transfer = min_i64(work->transfer_ns, total - first);
    write_ms(writer, ",\"ms\":{\"queue\":", first - prefill - load);
    write_ms(writer, ",\"load\":", load);
    write_ms(writer, ",\"prefill\":", prefill);
    write_ms(writer, ",\"transfer\":", transfer);
    write_ms(writer, ",\"decode\":", total - first - transfer);
    write_ms(writer, ",\"ttft\":", first);
    write_ms(writer, ",\"total\":", total);
    json_writer_text(writer, "}");
}

static void write_stays(struct json_writer *writer, const struct receipt *receipt) {
    uint32_t count = receipt->stay_count, first = 0;
    if (count > RECEIPT_STAYS_MAX) first = count - RECEIPT_STAYS_MAX;
    json_writer_text(writer, ",\"ran\":[");
    for (uint32_t i = first; i < count; i++) {
        const struct receipt_stay *stay = &receipt->stays[i % RECEIPT_STAYS_MAX];
        json_writer_print(writer, "%s{\"unit\":%u,\"rank\":%u,\"role\":\"%s\"}",
                          i > first ? "," : "", stay->unit, stay->rank,
                          record_unit_role_name(stay->role));
    }
    json_writer_text(writer, "]");
}

/* Writes what was left out of the prompt and where it differs from the most similar earlier one. */
static void write_causes(struct json_writer *writer, const struct receipt_head *head) {
    const char *before = ",\"left_out\":[\"";
    for (int habit = 0; habit < AGENT_HABIT_COUNT; habit++) {
        if (!(head->left_out >> habit & 1)) continue;
        json_writer_text(writer, before);
        json_writer_text(writer, agent_habits_name((enum agent_habit)habit));
        before = "\",\"";
    }
    if (head->left_out) json_writer_text(writer, "\"]");
    if (head->differs_at == 0) return;
    if (head->differs_at == 1)
        json_writer_text(writer, ",\"differs\":\"tools\"");
    else
        json_writer_print(writer, ",\"differs\":\"message %u (%s)\"", head->differs_at - 1,
                          head->differs_role);
}

void receipt_write(struct json_writer *writer, const struct receipt *receipt,
                   const struct receipt_head *head) {
    struct unit_work work = receipt_total(receipt, head->prompt_tokens);
    json_writer_print(writer, "{\"request\":\"%016lx%016lx\",\"index\":%u,\"finish_reason\":\"%s\"",
                      head->request.high, head->request.low, head->index, head->finish);
    receipt_write_times(writer, head->times, receipt->ended_ns, &work);
    write_stays(writer, receipt);
    json_writer_print(writer,
                      ",\"prompt\":{\"tokens\":%u,\"hit\":%u,\"miss\":%u,\"device\":%u,\"host\":%u,"
                      "\"disk\":%u,\"computed\":%u},\"transferred\":%u,\"reloaded\":%u,"
                      "\"recomputed\":%u",
                      head->prompt_tokens, work.prompt_hit_tokens, work.prompt_miss_tokens,
                      work.device_tokens, work.host_tokens, work.disk_tokens, work.computed_tokens,
                      work.transferred_tokens, work.reloaded_tokens, work.recomputed_tokens);
    json_writer_print(writer,
                      ",\"output\":%u,\"drafts\":{\"made\":%u,\"right\":%u},"
                      "\"restarts\":{\"units\":%u,\"preemptions\":%u}",
                      head->output_tokens, work.drafts_made, work.drafts_right,
                      receipt->attempts ? receipt->attempts - 1 : 0, work.preemptions);
    write_causes(writer, head);
    json_writer_text(writer, "}");
}
