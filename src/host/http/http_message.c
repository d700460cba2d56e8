/* SPDX-License-Identifier: Apache-2.0 */
#include "host/http/http_message.h"

#include <string.h>
#include <strings.h>

#include "base/url_path.h"

#define CHUNK_OVERHEAD_MAX 16384 /* bytes of chunk extensions and trailers in one body */
#define CHUNK_DIGITS_MAX 12      /* hexadecimal digits of a chunk's size */
#define LENGTH_DIGITS_MAX 18     /* decimal digits of Content-Length */

static const struct http_refusal accepted = {0, NULL};

size_t http_message_head_bytes(struct bytes text, size_t searched) {
    size_t from = searched > 3 ? searched - 3 : 0;
    if (text.count < 4) return 0;
    const char *end = memmem(text.data + from, text.count - from, "\r\n\r\n", 4);
    return end ? (size_t)(end - text.data) + 4 : 0;
}

static bool is_token_character(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c != 0 && strchr("!#$%&'*+-.^_`|~", c));
}

static bool http_message_is_named(struct bytes name, const char *lower_case) {
    return name.count == strlen(lower_case) && !strncasecmp(name.data, lower_case, name.count);
}

static struct bytes http_message_trimmed(struct bytes text) {
    while (text.count && (text.data[0] == ' ' || text.data[0] == '\t'))
        text.data++, text.count--;
    while (text.count && (text.data[text.count - 1] == ' ' || text.data[text.count - 1] == '\t'))
        text.count--;
    return text;
}

/* Returns the text before `end`, or all text if there is no `end`. *text advances past it. */
static struct bytes cut_before(struct bytes *text, char end) {
    if (!text->count) return *text; /* an absent header has a null pointer */
    const char *at = memchr(text->data, end, text->count);
    struct bytes piece = {text->data, at ? (size_t)(at - text->data) : text->count};
    size_t taken = at ? piece.count + 1 : piece.count;
    *text = (struct bytes){text->data + taken, text->count - taken};
    return piece;
}

/* Gets the next line without its CRLF. Returns false if it does not end with CRLF. */
static bool http_message_take_line(struct bytes *text, struct bytes *line_out) {
    struct bytes line = cut_before(text, '\n');
    if (line.count == 0 || line.data[line.count - 1] != '\r') return false;
    line.count--;
    if (memchr(line.data, '\r', line.count) || memchr(line.data, 0, line.count)) return false;
    *line_out = line;
    return true;
}

/* True if the path, or a parent of it, is used only by Anthropic's clients. */
static bool is_anthropics(struct bytes path) {
    static const char *const parts[] = {"/anthropic", "/v1/messages", "/messages"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        size_t count = strlen(parts[i]);
        if (bytes_start_with(path, bytes_of(parts[i])) &&
            (path.count == count || path.data[count] == '/'))
            return true;
    }
    return false;
}

static struct http_refusal read_request_line(struct bytes line, struct http_head *head) {
    static const struct http_refusal bad = {400, "the request line is not HTTP"};
    struct bytes method = cut_before(&line, ' '), target = cut_before(&line, ' '), version = line;
    if (method.count == 0 || target.count == 0) return bad;
    for (size_t i = 0; i < method.count; i++)
        if (!is_token_character(method.data[i])) return bad;
    for (size_t i = 0; i < target.count; i++)
        if ((unsigned char)target.data[i] <= ' ' || target.data[i] == 0x7F) return bad;
    if (version.count != 8 || memcmp(version.data, "HTTP/", 5) || version.data[6] != '.')
        return bad;
    if (version.data[5] != '1' || version.data[7] < '0' || version.data[7] > '9')
        return (struct http_refusal){505, "only HTTP/1.0 and HTTP/1.1 are spoken here"};
    head->minor_version = (uint32_t)(version.data[7] - '0');

    static const char *const names[HTTP_VERB_OTHER] = {"GET", "HEAD", "POST", "OPTIONS"};
    head->verb = HTTP_VERB_OTHER;
    for (int verb = 0; verb < HTTP_VERB_OTHER; verb++)
        if (bytes_equal(method, bytes_of(names[verb]))) head->verb = (enum http_verb)verb;

    /* A proxy's absolute form names the host and takes precedence over the header. */
    if (target.count > 7 && !strncasecmp(target.data, "http://", 7)) {
        struct bytes rest = {target.data + 7, target.count - 7};
        head->host = cut_before(&rest, '/');
        size_t skipped = 7 + head->host.count;
        target = skipped < target.count
                     ? (struct bytes){target.data + skipped, target.count - skipped}
                     : BYTES_LITERAL("/");
    } else if (target.data[0] != '/' && !(head->verb == HTTP_VERB_OPTIONS && target.data[0] == '*'))
        return bad;
    head->path = cut_before(&target, '?');
    if (!url_path_is_valid(head->path))
        return (struct http_refusal){400, "two hexadecimal digits, and not 00, stand behind each "
                                          "percent sign of a path"};
    head->speaks_anthropic = is_anthropics(head->path);
    return accepted;
}

static bool http_message_read_length(struct bytes value, uint64_t *length_out) {
    if (value.count == 0 || value.count > LENGTH_DIGITS_MAX) return false;
    uint64_t length = 0;
    for (size_t i = 0; i < value.count; i++) {
        if (value.data[i] < '0' || value.data[i] > '9') return false;
        length = length * 10 + (uint64_t)(value.data[i] - '0');
    }
    *length_out = length;
    return true;
}

/* Counts of the headers so far. */
struct header_counts {
    uint32_t hosts, lengths, codings;
};

/* Stores a header that may occur only once in a request. */
static struct http_refusal read_only_one(struct bytes value, struct bytes *kept,
                                         const char *complaint) {
    if (kept->data) return (struct http_refusal){400, complaint};
    *kept = value;
    return accepted;
}

/* Adds a Content-Encoding, which is a list: one coding can be decoded. */
static void read_codings(struct bytes value, struct http_head *head) {
    static const struct {
        const char *name;
        enum content_coding coding;
    } known[] = {{"gzip", CODING_GZIP},
                 {"x-gzip", CODING_GZIP},
                 {"deflate", CODING_DEFLATE},
                 {"zstd", CODING_ZSTD}};
    while (value.count) {
        struct bytes name = http_message_trimmed(cut_before(&value, ','));
        if (name.count == 0 || http_message_is_named(name, "identity")) continue;
        enum content_coding coding = CODING_OTHER;
        for (size_t i = 0; i < sizeof known / sizeof *known && !head->coding; i++)
            if (http_message_is_named(name, known[i].name)) coding = known[i].coding;
        head->coding = coding;
    }
}

static struct http_refusal http_message_read_header(struct bytes name, struct bytes value,
                                                    struct http_head *head,
                                                    struct header_counts *counts) {
    if (http_message_is_named(name, "host")) {
        counts->hosts++;
        if (!head->host.data) head->host = value;
    } else if (http_message_is_named(name, "content-length")) {
        if (counts->lengths++ || !http_message_read_length(value, &head->body_bytes))
            return (struct http_refusal){400, "Content-Length must be one decimal number"};
    } else if (http_message_is_named(name, "transfer-encoding")) {
        if (counts->codings++ || !http_message_is_named(value, "chunked"))
            return (struct http_refusal){501, "the only Transfer-Encoding understood is chunked"};
        head->chunked = true;
    } else if (http_message_is_named(name, "connection")) {
        while (value.count) {
            struct bytes option = http_message_trimmed(cut_before(&value, ','));
            if (http_message_is_named(option, "close"))
                head->keep_alive = false;
            else if (http_message_is_named(option, "keep-alive") && head->minor_version == 0)
                head->keep_alive = true;
        }
    } else if (http_message_is_named(name, "expect")) {
        if (!http_message_is_named(value, "100-continue"))
            return (struct http_refusal){417, "the only Expect understood is 100-continue"};
        head->expects_continue = head->minor_version >= 1;
    } else if (http_message_is_named(name, "content-encoding")) {
        read_codings(value, head);
    } else if (http_message_is_named(name, "authorization")) {
        return read_only_one(value, &head->authorization,
                             "a request has at most one Authorization header");
    } else if (http_message_is_named(name, "x-api-key")) {
        return read_only_one(value, &head->api_key, "a request has at most one x-api-key header");
    } else if (http_message_is_named(name, "content-type")) {
        return read_only_one(value, &head->content_type,
                             "a request has at most one Content-Type header");
    } else if (http_message_is_named(name, "origin")) {
        return read_only_one(value, &head->origin, "a request has at most one Origin header");
    } else if (http_message_is_named(name, "if-none-match")) {
        head->if_none_match = value;
    } else if (http_message_is_named(name, "x-fathom-receipt")) {
        head->wants_receipt = value.count && !http_message_is_named(value, "0") &&
                              !http_message_is_named(value, "false");
    } else if (http_message_is_named(name, "anthropic-version")) {
        head->speaks_anthropic = true;
    } else if (http_message_is_named(name, "x-request-id")) {
        head->request_id = value;
    }
    return accepted;
}

static struct http_refusal read_headers(struct bytes text, struct http_head *head) {
    static const struct http_refusal bad = {400, "a header line is not HTTP"};
    struct header_counts counts = {0};
    for (;;) {
        struct bytes line;
        if (!http_message_take_line(&text, &line)) return bad;
        if (line.count == 0) break;
        if (!memchr(line.data, ':', line.count)) return bad;
        struct bytes value = line, name = cut_before(&value, ':');
        if (name.count == 0) return bad;
        for (size_t i = 0; i < name.count;
             i++) /* also refuses folded lines and blanks before ':' */
            if (!is_token_character(name.data[i])) return bad;
        for (size_t i = 0; i < value.count; i++)
            if (((unsigned char)value.data[i] < ' ' && value.data[i] != '\t') ||
                value.data[i] == 0x7F)
                return bad;
        struct http_refusal refusal =
            http_message_read_header(name, http_message_trimmed(value), head, &counts);
        if (refusal.status) return refusal;
    }
    if (counts.lengths && counts.codings)
        return (struct http_refusal){400,
                                     "Content-Length and Transfer-Encoding are mutually exclusive"};
    if (counts.codings && head->minor_version == 0)
        return (struct http_refusal){400, "HTTP/1.0 has no Transfer-Encoding"};
    if (counts.hosts > 1 || (counts.hosts == 0 && head->minor_version >= 1))
        return (struct http_refusal){400, "HTTP/1.1 needs exactly one Host header"};
    return accepted;
}

struct http_refusal http_message_read_head(struct bytes text, struct http_head *head_out) {
    struct http_head head = {0};
    struct bytes line;
    while (text.count >= 2 && !memcmp(text.data, "\r\n", 2))
        text.data += 2, text.count -= 2;
    if (!http_message_take_line(&text, &line))
        return (struct http_refusal){400, "the request line is not HTTP"};
    struct http_refusal refusal = read_request_line(line, &head);
    if (refusal.status) return refusal;
    head.keep_alive = head.minor_version >= 1;
    refusal = read_headers(text, &head);
    if (refusal.status) return refusal;
    *head_out = head;
    return accepted;
}

bool http_message_is_json(struct bytes content_type) {
    return http_message_is_named(http_message_trimmed(cut_before(&content_type, ';')),
                                 "application/json");
}

/* States in a chunked body, named after the expected input. */
enum {
    CHUNK_SIZE,
    CHUNK_EXTENSION,
    CHUNK_SIZE_LF,
    CHUNK_DATA,
    CHUNK_DATA_CR,
    CHUNK_DATA_LF,
    CHUNK_TRAILER, /* at the start of a trailer line, or of the end */
    CHUNK_TRAILER_LINE,
    CHUNK_TRAILER_LF,
    CHUNK_END_LF,
};

static int hexadecimal(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

static bool take_size_character(struct http_chunks *chunks, char c) {
    int digit = hexadecimal(c);
    if (digit >= 0) {
        chunks->left = chunks->left * 16 + (uint64_t)digit;
        return ++chunks->digits <= CHUNK_DIGITS_MAX;
    }
    if (chunks->digits == 0) return false;
    chunks->place = c == '\r' ? CHUNK_SIZE_LF : CHUNK_EXTENSION;
    return c == '\r' || c == ';' || c == ' ' || c == '\t';
}

/* Processes one byte outside of the data. Returns false if the body is invalid. */
static bool http_message_take_character(struct http_chunks *chunks, char c) {
    switch (chunks->place) {
    case CHUNK_SIZE:
        return take_size_character(chunks, c);
    case CHUNK_EXTENSION:
        if (c == '\r') chunks->place = CHUNK_SIZE_LF;
        return c != '\n' && c != 0 && ++chunks->overhead <= CHUNK_OVERHEAD_MAX;
    case CHUNK_SIZE_LF:
        chunks->place = chunks->left ? CHUNK_DATA : CHUNK_TRAILER;
        return c == '\n';
    case CHUNK_DATA_CR:
        chunks->place = CHUNK_DATA_LF;
        return c == '\r';
    case CHUNK_DATA_LF:
        chunks->place = CHUNK_SIZE;
        chunks->digits = 0;
        return c == '\n';
    case CHUNK_TRAILER:
        chunks->place = c == '\r' ? CHUNK_END_LF : CHUNK_TRAILER_LINE;
        return c != '\n' && ++chunks->overhead <= CHUNK_OVERHEAD_MAX;
    case CHUNK_TRAILER_LINE:
        if (c == '\r') chunks->place = CHUNK_TRAILER_LF;
        return c != '\n' && c != 0 && ++chunks->overhead <= CHUNK_OVERHEAD_MAX;
    case CHUNK_TRAILER_LF:
        chunks->place = CHUNK_TRAILER;
        return c == '\n';
    case CHUNK_END_LF:
        chunks->done = true;
        return c == '\n';
    default:
        return false;
    }
}

size_t http_message_chunks_take(struct http_chunks *chunks, struct bytes text,
                                struct bytes *piece_out) {
    size_t taken = 0;
    *piece_out = (struct bytes){text.data, 0};
    while (taken < text.count && !chunks->done && !chunks->broken) {
        if (chunks->place == CHUNK_DATA) {
            size_t there = text.count - taken;
            size_t count = chunks->left < there ? (size_t)chunks->left : there;
            *piece_out = (struct bytes){text.data + taken, count};
            chunks->left -= count;
            if (chunks->left == 0) chunks->place = CHUNK_DATA_CR;
            return taken + count;
        }
        if (!http_message_take_character(chunks, text.data[taken++])) {
            chunks->broken = true;
            chunks->done = false;
        }
    }
    return taken;
}

const char *http_message_phrase(uint32_t status) {
    static const struct {
        uint32_t status;
        const char *phrase;
    } phrases[] = {
        {200, "OK"},
        {204, "No Content"},
        {304, "Not Modified"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {402, "Payment Required"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {408, "Request Timeout"},
        {413, "Content Too Large"},
        {415, "Unsupported Media Type"},
        {417, "Expectation Failed"},
        {421, "Misdirected Request"},
        {422, "Unprocessable Content"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {503, "Service Unavailable"},
        {505, "HTTP Version Not Supported"},
    };
    for (size_t i = 0; i < sizeof phrases / sizeof *phrases; i++)
        if (phrases[i].status == status) return phrases[i].phrase;
    return "Status";
}
