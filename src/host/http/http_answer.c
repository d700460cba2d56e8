/* SPDX-License-Identifier: Apache-2.0 */
#include "host/http/http_answer.h"

#include <strings.h>

#define LENGTH_DIGITS_MAX 18

static struct bytes http_answer_trimmed(struct bytes text) {
    while (text.count && (text.data[0] == ' ' || text.data[0] == '\t'))
        text.data++, text.count--;
    while (text.count && strchr(" \t\r", text.data[text.count - 1]))
        text.count--;
    return text;
}

static bool http_answer_same(struct bytes text, const char *word) {
    return text.count == strlen(word) && !strncasecmp(text.data, word, text.count);
}

/* The next line without its end; *text advances past it. */
static struct bytes http_answer_take_line(struct bytes *text) {
    const char *end = memchr(text->data, '\n', text->count);
    struct bytes line = {text->data, end ? (size_t)(end - text->data) : text->count};
    size_t taken = end ? line.count + 1 : line.count;
    *text = (struct bytes){text->data + taken, text->count - taken};
    return http_answer_trimmed(line);
}

static bool read_status(struct bytes line, struct http_answer_head *head) {
    if (line.count < 12 || memcmp(line.data, "HTTP/1.", 7) || line.data[8] != ' ') return false;
    head->keep_alive = line.data[7] != '0';
    for (int i = 9; i < 12; i++) {
        if (line.data[i] < '0' || line.data[i] > '9') return false;
        head->status = head->status * 10 + (uint32_t)(line.data[i] - '0');
    }
    return head->status >= 100 && (line.count == 12 || line.data[12] == ' ');
}

static bool http_answer_read_length(struct bytes value, struct http_answer_head *head) {
    uint64_t length = 0;
    if (value.count == 0 || value.count > LENGTH_DIGITS_MAX) return false;
    for (size_t i = 0; i < value.count; i++) {
        if (value.data[i] < '0' || value.data[i] > '9') return false;
        length = length * 10 + (uint64_t)(value.data[i] - '0');
    }
    if (head->has_length && head->body_bytes != length) return false;
    head->has_length = true;
    head->body_bytes = length;
    return true;
}

static bool http_answer_read_header(struct bytes name, struct bytes value,
                                    struct http_answer_head *head) {
    if (http_answer_same(name, "content-length")) return http_answer_read_length(value, head);
    if (http_answer_same(name, "transfer-encoding")) {
        head->chunked = http_answer_same(value, "chunked");
        return head->chunked;
    }
    if (http_answer_same(name, "connection")) {
        if (http_answer_same(value, "close")) head->keep_alive = false;
        if (http_answer_same(value, "keep-alive")) head->keep_alive = true;
    }
    return true;
}

bool http_answer_read_head(struct bytes text, struct http_answer_head *head_out) {
    struct http_answer_head head = {0};
    if (text.count == 0 || !read_status(http_answer_take_line(&text), &head)) return false;
    while (text.count) {
        struct bytes line = http_answer_take_line(&text);
        if (line.count == 0) break;
        const char *colon = memchr(line.data, ':', line.count);
        if (!colon) return false;
        struct bytes name = {line.data, (size_t)(colon - line.data)};
        struct bytes value = {colon + 1, line.count - name.count - 1};
        if (!http_answer_read_header(name, http_answer_trimmed(value), &head)) return false;
    }
    if (head.chunked) head.has_length = false; /* RFC 9112, 6.3: chunks take precedence */
    if (head.status == 204 || head.status == 304 || head.status < 200) {
        head.chunked = false;
        head.has_length = true;
        head.body_bytes = 0;
    }
    *head_out = head;
    return true;
}
