/* SPDX-License-Identifier: Apache-2.0 */
#include "host/process/log/log_request.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <math.h>

#include "base/format.h"
#include "host/process/log/log.h"

#define SUBJECT "access"
#define STAYS_BYTES (USAGE_STAYS_MAX * 24)
#define STATUS_REFUSED 400
#define STATUS_UNKNOWN_PEER 401
#define STATUS_CLIENT_GONE 499
#define STATUS_FAILED 500

const char *log_request_name(struct request_id request, char out[LOG_REQUEST_BYTES]) {
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < 16; i++) {
        out[i] = digits[request.high >> (60 - 4 * i) & 15];
        out[16 + i] = digits[request.low >> (60 - 4 * i) & 15];
    }
    out[LOG_REQUEST_BYTES - 1] = 0;
    return out;
}

/* Milliseconds. NAN: there is no value, and the field is left out. */
static double milliseconds(int64_t ns) {
    return ns < 0 ? NAN : (double)ns * 1e-6;
}

/* Prints units and their ranks in order, such as "2:0,5:3"; "" if one unit did all of it. */
static void log_request_list_stays(const struct record_usage *entry, char out[STAYS_BYTES]) {
    const struct usage_stay *stays = usage_stays(entry);
    size_t used = 0;
    out[0] = 0;
    for (uint32_t i = 0; entry->stay_count > 1 && i < entry->stay_count; i++)
        used += format_text(out + used, STAYS_BYTES - used, "%s%u:%u", i ? "," : "", stays[i].unit,
                            stays[i].rank);
}

/* Prints a client's address; "" if it is unknown. */
static const char *write_peer(const uint8_t peer[16], char out[INET6_ADDRSTRLEN]) {
    static const uint8_t unknown[16], mapped[12] = {[10] = 0xff, [11] = 0xff};
    bool is_ipv4 = memcmp(peer, mapped, sizeof mapped) == 0;
    if (memcmp(peer, unknown, sizeof unknown) == 0) return "";
    return inet_ntop(is_ipv4 ? AF_INET : AF_INET6, is_ipv4 ? peer + sizeof mapped : peer, out,
                     INET6_ADDRSTRLEN);
}

int log_request_given(struct request_id request, struct bytes name) {
    char text[LOG_REQUEST_BYTES];
    const struct bytes own = {log_request_name(request, text), LOG_REQUEST_BYTES - 1};
    return bytes_equal(own, name) ? 0 : (int)name.count;
}

static int given_name_bytes(const struct record_usage *entry) {
    return log_request_given(entry->request, (struct bytes){entry_name(entry), entry->name_bytes});
}

/* Account names of maximum length are not terminated. */
#define NAMED_BY "request=%s x_request_id=%.*s account=%.*s model=%.*s path=%.*s status=%u end=%.*s"
#define NAMES(entry, text)                                                                         \
    log_request_name((entry)->request, text), given_name_bytes(entry), entry_name(entry),          \
        (int)sizeof(entry)->account, (entry)->account, (int)(entry)->model_bytes,                  \
        entry_model(entry), (int)(entry)->path_bytes, entry_path(entry), (entry)->http_status,     \
        (int)(entry)->end_bytes, entry_end(entry)

static void log_request_say_refused(const struct record_usage *entry, enum log_level level) {
    char text[LOG_REQUEST_BYTES];
    char peer[INET6_ADDRSTRLEN];
    log_say(level, SUBJECT, "refused " NAMED_BY " limit=%s peer=%s total_ms=%.1f",
            NAMES(entry, text), record_ledger_usage_limit_name((enum usage_limit)entry->limit),
            entry->http_status == STATUS_UNKNOWN_PEER ? write_peer(entry->peer, peer) : "",
            milliseconds(entry->total_ns));
}

/* The unit's number is a double, so that it can be NAN and left out if no unit had the request. */
static void say_ended(const struct record_usage *entry, enum log_level level) {
    char text[LOG_REQUEST_BYTES], stays[STAYS_BYTES];
    bool is_wanted = entry->stay_count || entry->http_status < STATUS_REFUSED;
    const struct usage_stay *last =
        entry->stay_count ? usage_stays(entry) + entry->stay_count - 1 : NULL;
    log_request_list_stays(entry, stays);
    (is_wanted ? log_say_all : log_say)(
        level, SUBJECT,
        "ended " NAMED_BY " hit=%u miss=%u output=%u queue_ms=%.1f ttft_ms=%.1f tpot_ms=%.2f "
        "total_ms=%.1f unit=%.0f rank=%.0f stays=%s",
        NAMES(entry, text), entry->hit_tokens, entry->miss_tokens, entry->output_tokens,
        milliseconds(entry->queue_ns), milliseconds(entry->ttft_ns), milliseconds(entry->tpot_ns),
        milliseconds(entry->total_ns), last ? (double)last->unit : NAN,
        last ? (double)last->rank : NAN, stays);
}

void log_request_ended(const struct record_usage *entry) {
    enum log_level level = entry->http_status >= STATUS_FAILED ? LOG_WARNING : LOG_INFO;
    bool is_refused = !entry->stay_count && entry->http_status >= STATUS_REFUSED &&
                      entry->http_status != STATUS_CLIENT_GONE;
    if (!log_is_level_written(level)) return;
    if (is_refused)
        log_request_say_refused(entry, level);
    else
        say_ended(entry, level);
}
