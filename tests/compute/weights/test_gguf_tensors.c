/* SPDX-License-Identifier: Apache-2.0
 * Protects the table of names: the tensors that llama.cpp's converter writes for deepseek2 are
 * known, and names that only look alike are not.
 */
#include "test_case.h"

#include "compute/weights/gguf_tensors.h"

TEST(names_are_known) {
    struct gguf_place place;
    assert_true(gguf_tensors_find("token_embd.weight", &place));
    assert_true(place.id == NAME_EMBEDDING && place.layer == LAYOUT_NONE);
    assert_true(gguf_tensors_find("blk.60.ffn_down_exps.weight", &place));
    assert_true(place.id == NAME_EXPERT_DOWN && place.layer == 60 && place.form == GGUF_EXPERTS);
    assert_true(gguf_tensors_find("blk.3.attn_k_b.weight", &place));
    assert_true(place.id == NAME_KV_B && place.form == GGUF_KEY_HALVES);
    assert_true(gguf_tensors_find("blk.47.nextn.eh_proj.weight", &place));
    assert_true(place.id == NAME_MTP_PROJECTION && place.layer == 47);
}

TEST(other_names_are_not) {
    static const char *const names[] = {"blk.x.attn_norm.weight",
                                        "blk..attn_norm.weight",
                                        "blk.12345.attn_norm.weight",
                                        "blk.1attn_norm.weight",
                                        "blk.1.attn_norm",
                                        "rope_freqs.weight",
                                        "attn_norm.weight",
                                        ""};
    struct gguf_place place;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        assert_false(gguf_tensors_find(names[i], &place));
}
