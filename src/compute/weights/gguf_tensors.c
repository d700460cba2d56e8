/* SPDX-License-Identifier: Apache-2.0 */
#include "compute/weights/gguf_tensors.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

struct gguf_name {
    const char *name; /* in a layer: behind blk.N. */
    enum tensor_name id;
    enum gguf_form form;
};

static const struct gguf_name outside[] = {
    {"token_embd.weight", NAME_EMBEDDING, GGUF_WHOLE},
    {"output_norm.weight", NAME_FINAL_NORM, GGUF_WHOLE},
    {"output.weight", NAME_HEAD, GGUF_WHOLE},
};

static const struct gguf_name in_layer[] = {
    {"attn_norm.weight", NAME_ATTENTION_NORM, GGUF_WHOLE},
    {"attn_q_a.weight", NAME_Q_A, GGUF_WHOLE},
    {"attn_q_a_norm.weight", NAME_Q_A_NORM, GGUF_WHOLE},
    {"attn_q_b.weight", NAME_Q_B, GGUF_WHOLE},
    {"attn_q.weight", NAME_Q, GGUF_WHOLE},
    {"attn_kv_a_mqa.weight", NAME_KV_A, GGUF_WHOLE},
    {"attn_kv_a_norm.weight", NAME_KV_A_NORM, GGUF_WHOLE},
    {"attn_kv_b.weight", NAME_KV_B, GGUF_WHOLE},
    {"attn_k_b.weight", NAME_KV_B, GGUF_KEY_HALVES},
    {"attn_v_b.weight", NAME_KV_B, GGUF_VALUE_HALVES},
    {"attn_output.weight", NAME_O, GGUF_WHOLE},
    {"ffn_norm.weight", NAME_MLP_NORM, GGUF_WHOLE},
    {"ffn_gate_inp.weight", NAME_ROUTER, GGUF_WHOLE},
    {"exp_probs_b.bias", NAME_ROUTER_BIAS, GGUF_WHOLE},
    {"exp_probs_b", NAME_ROUTER_BIAS, GGUF_WHOLE},
    {"ffn_gate_exps.weight", NAME_EXPERT_GATE, GGUF_EXPERTS},
    {"ffn_up_exps.weight", NAME_EXPERT_UP, GGUF_EXPERTS},
    {"ffn_down_exps.weight", NAME_EXPERT_DOWN, GGUF_EXPERTS},
    {"ffn_gate_up_exps.weight", NAME_EXPERT_GATE, GGUF_GATES_UPS},
    {"ffn_gate_shexp.weight", NAME_SHARED_GATE, GGUF_WHOLE},
    {"ffn_up_shexp.weight", NAME_SHARED_UP, GGUF_WHOLE},
    {"ffn_down_shexp.weight", NAME_SHARED_DOWN, GGUF_WHOLE},
    {"ffn_gate.weight", NAME_DENSE_GATE, GGUF_WHOLE},
    {"ffn_up.weight", NAME_DENSE_UP, GGUF_WHOLE},
    {"ffn_down.weight", NAME_DENSE_DOWN, GGUF_WHOLE},
    {"nextn.embed_tokens.weight", NAME_MTP_EMBEDDING, GGUF_WHOLE},
    {"nextn.enorm.weight", NAME_MTP_EMBEDDING_NORM, GGUF_WHOLE},
    {"nextn.hnorm.weight", NAME_MTP_HIDDEN_NORM, GGUF_WHOLE},
    {"nextn.eh_proj.weight", NAME_MTP_PROJECTION, GGUF_WHOLE},
    {"nextn.shared_head_norm.weight", NAME_MTP_HEAD_NORM, GGUF_WHOLE},
    {"nextn.shared_head_head.weight", NAME_MTP_HEAD, GGUF_WHOLE},
};

static bool find_row(const struct gguf_name *rows, size_t count, const char *name, uint32_t layer,
                     struct gguf_place *out) {
    for (size_t i = 0; i < count; i++)
        if (!strcmp(rows[i].name, name)) {
            *out = (struct gguf_place){rows[i].form, rows[i].id, layer};
            return true;
        }
    return false;
}

bool gguf_tensors_find(const char *name, struct gguf_place *out) {
    static const char front[] = "blk.";
    const size_t front_bytes = sizeof front - 1;
    if (strncmp(name, front, front_bytes) != 0)
        return find_row(outside, ARRAY_COUNT(outside), name, LAYOUT_NONE, out);
    const char *digits = name + front_bytes;
    const size_t count = strspn(digits, "0123456789");
    if (count < 1 || count > 4 || digits[count] != '.') return false;
    return find_row(in_layer, ARRAY_COUNT(in_layer), digits + count + 1,
                    (uint32_t)strtoul(digits, NULL, 10), out);
}
