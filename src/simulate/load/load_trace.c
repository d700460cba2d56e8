/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/load/load_trace.h"

#include "base/random.h"
#include "base/real.h"
#include "base/tree.h"

#define COLUMNS_MAX 64
#define TREE_BYTES_PER_BYTE 64
#define SCRATCH_BYTES_MIN 4096
#define DRAW_SAMPLE 0x5A3B1E

/* The state while reading. */
struct trace_reading {
    struct load_trace trace;
    char *scratch; /* [scratch_bytes] of one row's tree */
    size_t scratch_bytes;
    const char *name;
    size_t line;
    double first;
    struct error *error;
};

static enum status bad(const struct trace_reading *reading, const char *what) {
    return error_set(reading->error, STATUS_INVALID, "%s, line %zu: %s", reading->name,
                     reading->line, what);
}

static enum status load_trace_add_row(struct trace_reading *reading, double time, int64_t prompt,
                                      int64_t output) {
    struct load_trace *trace = &reading->trace;
    if (prompt < 1 || prompt > LOAD_TRACE_TOKENS_MAX)
        return bad(reading, "the prompt's tokens are not in 1..1048576");
    if (output < 0 || output > LOAD_TRACE_TOKENS_MAX)
        return bad(reading, "the answer's tokens are not in 0..1048576");
    if (trace->count == 0) reading->first = time;
    double arrival = time - reading->first;
    if (trace->count && !(arrival >= trace->rows[trace->count - 1].arrival))
        return bad(reading, "it comes before the row above; sort the trace by time");
    trace->rows[trace->count++] = (struct load_trace_row){
        .arrival = arrival,
        .prompt_tokens = (uint32_t)prompt,
        .output_tokens = output ? (uint32_t)output : 1, /* an answer has at least one token */
        .block_index = trace->block_count,
    };
    return STATUS_OK;
}

/* Takes the next line, without its line end. Returns false at the end of the text. */
static bool load_trace_take_line(struct bytes *text, struct bytes *line_out) {
    if (text->count == 0) return false;
    const char *end = memchr(text->data, '\n', text->count);
    struct bytes line = {text->data, end ? (size_t)(end - text->data) : text->count};
    size_t taken = end ? line.count + 1 : line.count;
    *text = (struct bytes){text->data + taken, text->count - taken};
    if (line.count && line.data[line.count - 1] == '\r') line.count--;
    *line_out = line;
    return true;
}

/* ---- CSV ---- */

enum { TIME, PROMPT, OUTPUT, FIELD_COUNT };

static size_t load_trace_split(struct bytes line, struct bytes fields[COLUMNS_MAX]) {
    size_t count = 0;
    for (;;) {
        const char *comma = line.count ? memchr(line.data, ',', line.count) : NULL;
        size_t bytes = comma ? (size_t)(comma - line.data) : line.count;
        if (count < COLUMNS_MAX) fields[count++] = (struct bytes){line.data, bytes};
        if (!comma) return count;
        line = (struct bytes){comma + 1, line.count - bytes - 1};
    }
}

static bool load_trace_read_number(struct bytes field, double *out) {
    double number;
    if (field.count >= 64 || !real_read(field, &number) || !(number >= 0 && number < 1e15))
        return false;
    *out = number;
    return true;
}

/* Days from 1970-01-01, in the Gregorian calendar (Howard Hinnant, "chrono-compatible low-level
 * date algorithms"). */
static double days_from_civil(int year, int month, int day) {
    year -= month <= 2;
    int era = year / 400, of_era = year % 400;
    int of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    int days = of_era * 365 + of_era / 4 - of_era / 100 + of_year;
    return era * 146097.0 + days - 719468;
}

/* Reads at most digits_max digits at the start of the text, and then the character `behind` ('\0':
 * none). */
static bool load_trace_take_digits(struct bytes *text, size_t digits_max, char behind, int *out) {
    size_t at = 0;
    int number = 0;
    for (; at < text->count && at < digits_max; at++) {
        if (text->data[at] < '0' || text->data[at] > '9') break;
        number = 10 * number + text->data[at] - '0';
    }
    if (at == 0) return false;
    if (behind) {
        if (at == text->count) return false;
        char found = text->data[at++];
        if (found != behind && !(behind == ' ' && found == 'T')) return false;
    }
    *text = (struct bytes){text->data + at, text->count - at};
    *out = number;
    return true;
}

/* Reads "2023-11-16 18:15:46.6805900", or a plain number of seconds. The separator may also be 'T',
 * and a time zone at the end is ignored. */
static bool load_trace_read_time(struct bytes field, double *out) {
    int year, month, day, hour, minute;
    double second;
    if (load_trace_read_number(field, out)) return true;
    if (field.count >= 64 || !load_trace_take_digits(&field, 4, '-', &year) ||
        !load_trace_take_digits(&field, 2, '-', &month) ||
        !load_trace_take_digits(&field, 2, ' ', &day) ||
        !load_trace_take_digits(&field, 2, ':', &hour) ||
        !load_trace_take_digits(&field, 2, ':', &minute))
        return false;
    size_t digits = 0;
    while (digits < field.count &&
           (field.data[digits] == '.' || (field.data[digits] >= '0' && field.data[digits] <= '9')))
        digits++;
    if (!real_read((struct bytes){field.data, digits}, &second) || second >= 61 || year < 1970 ||
        month < 1 || month > 12 || day < 1 || day > 31 || hour > 23 || minute > 59)
        return false;
    *out = days_from_civil(year, month, day) * 86400 + hour * 3600 + minute * 60 + second;
    return true;
}

static enum status read_csv_head(struct trace_reading *reading, struct bytes line,
                                 int columns[FIELD_COUNT]) {
    static const char *const names[FIELD_COUNT][3] = {
        [TIME] = {"TIMESTAMP", "arrived_at", "timestamp"},
        [PROMPT] = {"ContextTokens", "num_prefill_tokens", "input_length"},
        [OUTPUT] = {"GeneratedTokens", "num_decode_tokens", "output_length"},
    };
    struct bytes fields[COLUMNS_MAX];
    size_t count = load_trace_split(line, fields);
    for (int field = 0; field < FIELD_COUNT; field++) {
        columns[field] = -1;
        for (size_t i = 0; i < count; i++)
            for (int name = 0; name < 3; name++)
                if (bytes_equal(fields[i], bytes_of(names[field][name]))) columns[field] = (int)i;
    }
    reading->trace.has_arrivals = columns[TIME] >= 0;
    if (columns[PROMPT] >= 0 && columns[OUTPUT] >= 0) return STATUS_OK;
    return bad(reading,
               "no trace: expected JSON Lines, or CSV with a first line that names the columns "
               "TIMESTAMP,ContextTokens,GeneratedTokens (or num_prefill_tokens, "
               "num_decode_tokens)");
}

static enum status read_csv_row(struct trace_reading *reading, struct bytes line,
                                const int columns[FIELD_COUNT]) {
    struct bytes fields[COLUMNS_MAX];
    int count = (int)load_trace_split(line, fields);
    double time = 0, prompt, output;
    for (int field = 0; field < FIELD_COUNT; field++)
        if (columns[field] >= count) return bad(reading, "it has too few columns");
    if (columns[TIME] >= 0 && !load_trace_read_time(fields[columns[TIME]], &time))
        return bad(reading, "its time is neither seconds nor like 2023-11-16 18:15:46.68");
    if (!load_trace_read_number(fields[columns[PROMPT]], &prompt) ||
        !load_trace_read_number(fields[columns[OUTPUT]], &output))
        return bad(reading, "a number of tokens is no number");
    return load_trace_add_row(reading, time, (int64_t)prompt, (int64_t)output);
}

/* ---- JSON Lines ---- */

static enum status add_blocks(struct trace_reading *reading, const struct tree *ids) {
    struct load_trace *trace = &reading->trace;
    struct load_trace_row *row = &trace->rows[trace->count - 1];
    for (size_t i = 0; i < tree_count(ids); i++) {
        int64_t id;
        if (!tree_get_integer(tree_at(ids, i), &id)) return bad(reading, "a hash id is no integer");
        trace->blocks[trace->block_count++] = (uint64_t)id;
        row->block_count++;
    }
    return STATUS_OK;
}

static enum status read_json_row(struct trace_reading *reading, struct bytes line) {
    struct arena arena;
    const struct tree *root;
    double ms = 0;
    int64_t prompt, output;
    arena_over(&arena, reading->scratch, reading->scratch_bytes);
    struct error why;
    enum status status = STATUS_OK;
    if (tree_parse(&arena, line, "row", &root, &why)) status = bad(reading, why.text);
    if (!status && (!tree_get_integer(tree_member(root, "input_length"), &prompt) ||
                    !tree_get_integer(tree_member(root, "output_length"), &output)))
        status = bad(reading, "no whole numbers input_length and output_length");
    if (!status) {
        bool timed = tree_get_number(tree_member(root, "timestamp"), &ms);
        if (reading->trace.count && timed != reading->trace.has_arrivals)
            status = bad(reading, "some rows have a timestamp and some have none");
        else if (ms < 0 || ms > 1e18)
            status = bad(reading, "its timestamp is no time in milliseconds");
        reading->trace.has_arrivals = timed;
    }
    if (!status) status = load_trace_add_row(reading, ms / 1e3, prompt, output);
    if (!status) status = add_blocks(reading, tree_member(root, "hash_ids"));
    return status;
}

/* ---- both formats ---- */

static bool load_trace_is_blank(struct bytes line) {
    for (size_t i = 0; i < line.count; i++)
        if (line.data[i] != ' ' && line.data[i] != '\t') return false;
    return true;
}

static enum status read_lines(struct trace_reading *reading, struct bytes text) {
    struct bytes line;
    int columns[FIELD_COUNT];
    bool json = false, begun = false;
    while (load_trace_take_line(&text, &line)) {
        reading->line++;
        if (load_trace_is_blank(line)) continue;
        enum status status;
        if (!begun) json = line.data[0] == '{';
        if (json)
            status = read_json_row(reading, line);
        else if (!begun)
            status = read_csv_head(reading, line, columns);
        else
            status = read_csv_row(reading, line, columns);
        if (status) return status;
        begun = true;
    }
    if (reading->trace.count) return STATUS_OK;
    return error_set(reading->error, STATUS_INVALID, "%s: no requests in it", reading->name);
}

/* Upper limits for what a text can contain. */
struct trace_room {
    size_t rows, blocks, scratch_bytes;
};

static struct trace_room room_for(struct bytes text) {
    struct trace_room room = {0};
    struct bytes line;
    bool json = false, begun = false;
    while (load_trace_take_line(&text, &line)) {
        if (load_trace_is_blank(line)) continue;
        if (!begun) json = line.data[0] == '{';
        begun = true;
        room.rows++;
        if (!json) continue;
        size_t scratch = line.count * TREE_BYTES_PER_BYTE + SCRATCH_BYTES_MIN;
        if (scratch > room.scratch_bytes) room.scratch_bytes = scratch;
        const char *at = line.data, *end = line.data + line.count;
        for (; at && at < end; room.blocks++)
            if ((at = memchr(at, ',', (size_t)(end - at)))) at++;
    }
    return room;
}

size_t load_trace_bytes(struct bytes text) {
    struct trace_room room = room_for(text);
    return room.rows * sizeof(struct load_trace_row) + room.blocks * sizeof(uint64_t) +
           room.scratch_bytes + 64;
}

enum status load_trace_read(struct arena *arena, struct bytes text, const char *name,
                            struct load_trace *trace_out, struct error *error) {
    struct trace_room room = room_for(text);
    struct trace_reading reading = {.name = name, .error = error};
    reading.trace.rows = arena_take(arena, room.rows * sizeof *reading.trace.rows);
    reading.trace.blocks = arena_take(arena, room.blocks * sizeof *reading.trace.blocks);
    reading.scratch = arena_take(arena, room.scratch_bytes);
    reading.scratch_bytes = room.scratch_bytes;
    if (!reading.trace.rows || !reading.trace.blocks || !reading.scratch)
        return error_set(error, STATUS_NO_MEMORY, "%s: no memory for its rows", name);
    enum status status = read_lines(&reading, text);
    if (status) return status;
    struct load_trace *trace = &reading.trace;
    if (trace->count > 1 && trace->rows[trace->count - 1].arrival == 0)
        trace->has_arrivals = false; /* all at once: as fast as they are consumed */
    *trace_out = *trace;
    return STATUS_OK;
}

uint32_t load_trace_scale(uint32_t tokens, uint32_t block_tokens) {
    uint64_t scaled =
        ((uint64_t)tokens * block_tokens + LOAD_TRACE_BLOCK_TOKENS / 2) / LOAD_TRACE_BLOCK_TOKENS;
    if (scaled > LOAD_TRACE_TOKENS_MAX) return LOAD_TRACE_TOKENS_MAX;
    return scaled ? (uint32_t)scaled : 1;
}

static bool is_drawn(const struct load_trace *trace, size_t index, uint64_t one_in, uint64_t seed) {
    const struct load_trace_row *row = &trace->rows[index];
    uint64_t what = index;
    if (row->block_count) what = trace->blocks[row->block_index + (row->block_count > 1)];
    uint32_t counter[4] = {(uint32_t)what, (uint32_t)(what >> 32), DRAW_SAMPLE, 0}, out[4];
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    random_philox(counter, key, out);
    return (((uint64_t)out[0] << 32) | out[1]) % one_in == 0;
}

void load_trace_sample(struct load_trace *trace, uint64_t one_in, uint64_t seed) {
    size_t kept = 0;
    if (one_in <= 1) return;
    for (size_t i = 0; i < trace->count; i++)
        if (is_drawn(trace, i, one_in, seed)) trace->rows[kept++] = trace->rows[i];
    trace->count = kept;
    double first = kept ? trace->rows[0].arrival : 0;
    for (size_t i = 0; i < kept; i++)
        trace->rows[i].arrival -= first;
}
