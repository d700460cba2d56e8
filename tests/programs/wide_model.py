# SPDX-License-Identifier: Apache-2.0
"""A checkpoint as wide as V3 and as small as can be, for tests with very many ranks."""
import json
import subprocess

EXPERTS, REDUNDANT, MOE_LAYERS, VOCAB = 256, 32, 2, 256
# V3's numbers of experts, groups and choices; all else is small.
SHAPE = {
    "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "hidden_size": 64, "intermediate_size": 64,
    "moe_intermediate_size": 16, "num_hidden_layers": 1 + MOE_LAYERS, "first_k_dense_replace": 1, "moe_layer_freq": 1,
    "n_routed_experts": EXPERTS, "n_shared_experts": 1, "num_experts_per_tok": 8, "n_group": 8, "topk_group": 4,
    "topk_method": "noaux_tc", "scoring_func": "sigmoid", "norm_topk_prob": True, "routed_scaling_factor": 2.5,
    "num_attention_heads": 2, "num_key_value_heads": 2, "q_lora_rank": 32, "kv_lora_rank": 32, "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8, "v_head_dim": 16, "rms_norm_eps": 1e-6, "rope_theta": 10000, "max_position_embeddings": 1024,
    "vocab_size": VOCAB, "hidden_act": "silu", "tie_word_embeddings": False, "num_nextn_predict_layers": 0,
    "bos_token_id": 0, "eos_token_id": 1}


def make_model(fathom, room):
    """In a folder of the room. A router without favourites chooses all of its experts."""
    with open(room + "/config.json", "w", encoding="utf-8") as file:
        json.dump(SHAPE, file)
    subprocess.run([fathom, "make-checkpoint", "--shape", room + "/config.json", "--weights", "fp8",
                    "--bias-deviation", "0", room + "/model"], check=True)
    return room + "/model"
