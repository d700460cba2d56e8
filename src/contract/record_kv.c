/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/record_kv.h"

#include <string.h>

#include "base/bytes.h"
#include "base/limits.h"
#include "contract/kv_block.h"
bool record_kv_address_valid(const char address[KV_ADDRESS_BYTES]) {
    const char *end = memchr(address, 0, KV_ADDRESS_BYTES);
    return end && record_zeros(end, (size_t)(address + KV_ADDRESS_BYTES - end));
}

/* Checks the fields at the start of all KV records. */
static bool head_valid(const void *record) {
    return record_request_valid(record) && record_kv_rank(record) < LIMIT_RANKS;
}

static bool about_no_request(const void *record) {
    const struct record_kv *kv = record;
    return record_zeros(&kv->request, sizeof kv->request);
}

/* True if the pages are those of blocks from first_block on, up to token_count tokens. */
static bool blocks_valid(uint32_t first_block, uint32_t token_count, uint32_t page_count) {
    return divide_up(token_count, KV_BLOCK_TOKENS) == (uint64_t)first_block + page_count;
}

bool record_kv_expect_valid(const void *record) {
    const struct record_kv_expect *expect = record;
    return head_valid(expect) &&
           blocks_valid(expect->first_block, expect->token_count, expect->page_count);
}

bool record_kv_push_valid(const void *record) {
    const struct record_kv_push *push = record;
    return head_valid(push) && record_kv_address_valid(push->route.address) && push->last <= 1 &&
           push->first <= 1 && push->making_count <= push->page_count && push->reserved == 0 &&
           (push->making_count == 0) == (push->step == 0) &&
           (push->making_count == 0 || !push->last) &&
           blocks_valid(push->first_block, push->token_count, push->page_count);
}

bool record_kv_cancel_valid(const void *record) {
    return head_valid(record) && ((const struct record_kv_cancel *)record)->reserved == 0;
}

bool record_kv_done_valid(const void *record) {
    const struct record_kv_done *done = record;
    return head_valid(done) && done->arrived <= 1 && done->reserved == 0;
}

bool record_kv_find_valid(const void *record) {
    const struct record_kv_find *find = record;
    return head_valid(find) && find->fresh <= 1 && find->reserved == 0;
}

bool record_kv_found_valid(const void *record) {
    const struct record_kv_found *found = record;
    return head_valid(found) && found->host_blocks <= found->blocks && found->reserved == 0;
}

bool record_kv_load_valid(const void *record) {
    const struct record_kv_load *load = record;
    return head_valid(load) && load->slot < LIMIT_UNIT_REQUESTS && load->in_step <= 1 &&
           load->reserved == 0;
}

bool record_kv_loaded_valid(const void *record) {
    const struct record_kv_loaded *loaded = record;
    return head_valid(loaded) && load_end_valid(&loaded->end) && loaded->reserved == 0;
}

bool record_kv_park_valid(const void *record) {
    return head_valid(record) &&
           ((const struct record_kv_park *)record)->slot < LIMIT_UNIT_REQUESTS;
}

bool record_kv_put_valid(const void *record) {
    return head_valid(record) && about_no_request(record) &&
           ((const struct record_kv_put *)record)->block_count > 0;
}

bool record_kv_stored_valid(const void *record) {
    return head_valid(record) && about_no_request(record) &&
           ((const struct record_kv_stored *)record)->writable <= 1;
}

bool record_kv_hello_valid(const void *record) {
    const struct record_kv_hello *hello = record;
    return head_valid(hello) && about_no_request(hello) && hello->reserved == 0 &&
           record_kv_address_valid(hello->address);
}
