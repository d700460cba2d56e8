/* SPDX-License-Identifier: Apache-2.0
 * HTTP requests: heads are read or refused, all slices lie inside, and no Host or Origin of another
 * site is taken for our own; a chunked body decodes to the
 * same bytes whether it comes whole or byte by byte.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/check.h"
#include "host/http/host_allowlist.h"
#include "host/http/http_message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_inside(struct bytes slice, const char *text, size_t count) {
    if (slice.count == 0) return;
    bool literal = slice.count == 1 && slice.data[0] == '/'; /* the path of "http://host" */
    check(literal || (slice.data >= text && slice.data + slice.count <= text + count));
}

/* Whatever is let in to a local listener has a local name, and whatever page asks is its own or
 * none. */
static void check_site(const struct http_head *head) {
    const struct host_allowlist rules = {.is_local = true};
    struct bytes host = head->host, origin = head->origin;
    if (host_allowlist_verify(&rules, host, origin) != ALLOW_YES) return;
    bool is_number = host.count >= 9 && !strncmp(host.data, "127.", 4);
    bool is_name = host.count >= 9 && !strncasecmp(host.data, "localhost", 9);
    bool is_six = host.count >= 5 && !strncmp(host.data, "[::1]", 5);
    check(!host.data || is_number || is_name || is_six);
    for (size_t i = is_name ? 9 : 0; i < host.count; i++)
        check(strchr("0123456789.:", host.data[i]) || (is_six && i < 5));
    check(!origin.data || (host.data && origin.count > 7 && !strncmp(origin.data, "http", 4)));
}

/* Decodes in pieces of `step` bytes; *taken_out bytes belong to the body. */
static size_t decode(struct bytes text, size_t step, char *body, size_t *taken_out,
                     struct http_chunks *chunks) {
    size_t at = 0, count = 0;
    *chunks = (struct http_chunks){0};
    while (at < text.count && !chunks->done && !chunks->broken) {
        size_t left = text.count - at;
        struct bytes piece;
        size_t taken = http_message_chunks_take(
            chunks, (struct bytes){text.data + at, left < step ? left : step}, &piece);
        check(taken > 0 && taken <= left);
        check(piece.count == 0 ||
              (piece.data >= text.data + at && piece.data + piece.count <= text.data + at + taken));
        memcpy(body + count, piece.data, piece.count);
        count += piece.count;
        at += taken;
    }
    *taken_out = at;
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1), *whole = malloc(size + 1), *bytewise = malloc(size + 1);
    check(text && whole && bytewise);
    memcpy(text, data, size);
    size_t head_bytes = http_message_head_bytes((struct bytes){text, size}, 0);
    check(head_bytes <= size);
    if (head_bytes) {
        struct http_head head = {0};
        struct http_refusal refusal =
            http_message_read_head((struct bytes){text, head_bytes}, &head);
        check(refusal.status == 0 || (refusal.status >= 400 && refusal.status < 600));
        check((refusal.status == 0) == (refusal.message == NULL));
        check_inside(head.path, text, head_bytes);
        check_inside(head.host, text, head_bytes);
        check_inside(head.content_type, text, head_bytes);
        check_inside(head.authorization, text, head_bytes);
        check_inside(head.origin, text, head_bytes);
        check_inside(head.if_none_match, text, head_bytes);
        check(!head.chunked || head.body_bytes == 0);
        if (refusal.status == 0) check_site(&head);
        http_message_is_json(head.content_type);
    }
    struct bytes body = {text + head_bytes, size - head_bytes};
    struct http_chunks a, b;
    size_t taken_a, taken_b;
    size_t count_a = decode(body, SIZE_MAX, whole, &taken_a, &a);
    size_t count_b = decode(body, 1, bytewise, &taken_b, &b);
    check(taken_a == taken_b && a.done == b.done && a.broken == b.broken);
    check(count_a == count_b && memcmp(whole, bytewise, count_a) == 0);
    free(text);
    free(whole);
    free(bytewise);
    return 0;
}
