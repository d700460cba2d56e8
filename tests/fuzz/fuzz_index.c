/* SPDX-License-Identifier: Apache-2.0
 * The bytes of a model.safetensors.index.json, beside a config.json and a shard that is no
 * safetensors file: whatever the index says, the checkpoint is opened or refused with one line, and
 * nothing outside its directory is touched.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/format.h"
#include "compute/weights/checkpoint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char config[] =
    "{\"architectures\":[\"DeepseekV2ForCausalLM\"],\"model_type\":\"deepseek_v2\",\"vocab_size\":"
    "64,"
    "\"hidden_size\":16,\"num_hidden_layers\":2,\"num_attention_heads\":2,\"q_lora_rank\":null,"
    "\"kv_lora_rank\":16,\"qk_nope_head_dim\":8,\"qk_rope_head_dim\":8,\"v_head_dim\":8,"
    "\"intermediate_size\":16,\"moe_intermediate_size\":16,\"n_routed_experts\":2,"
    "\"n_shared_experts\":1,\"num_experts_per_tok\":1,\"first_k_dense_replace\":1,\"n_group\":1,"
    "\"topk_group\":1,\"topk_method\":\"greedy\",\"scoring_func\":\"softmax\",\"norm_topk_prob\":"
    "false,"
    "\"routed_scaling_factor\":1.0,\"max_position_embeddings\":256,\"rope_theta\":10000,"
    "\"rms_norm_eps\":1e-06,\"eos_token_id\":1,\"bos_token_id\":0}";

static char directory[128], paths[3][256];
enum { CONFIG, INDEX, SHARD };
static const char *const names[] = {"config.json", "model.safetensors.index.json",
                                    "broken.safetensors"};

static void write_file(int which, const void *data, size_t size) {
    int file = open(paths[which], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    check(file >= 0 && write(file, data, size) == (ssize_t)size && close(file) == 0);
}

static void remove_all(void) {
    for (int i = 0; i < 3; i++)
        unlink(paths[i]);
    rmdir(directory);
}

static void make_directory(void) {
    const char *root = getenv("TMPDIR");
    format_text(directory, sizeof directory, "%s/fathom-fuzz-XXXXXX", root ? root : "/tmp");
    check(mkdtemp(directory) != NULL);
    for (int i = 0; i < 3; i++)
        format_text(paths[i], sizeof paths[i], "%s/%s", directory, names[i]);
    write_file(CONFIG, config, sizeof config - 1);
    write_file(SHARD, "no such thing", 13);
    atexit(remove_all);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct checkpoint *checkpoint = NULL;
    struct error error = {""};
    if (!directory[0]) make_directory();
    write_file(INDEX, data, size);
    for (int parts = CHECKPOINT_WHOLE; parts <= CHECKPOINT_SHAPE_ONLY; parts++) {
        enum status status =
            checkpoint_open(directory, (enum checkpoint_parts)parts, &checkpoint, &error);
        if (status != STATUS_OK) {
            check(error.text[0] && !strchr(error.text, '\n'));
            continue;
        }
        for (uint32_t i = 0; i < checkpoint_tensor_count(checkpoint); i++) {
            const struct tensor *tensor = checkpoint_tensor_at(checkpoint, i);
            check(checkpoint_tensor(checkpoint, tensor->name) == tensor);
        }
        checkpoint_close(checkpoint);
    }
    return 0;
}
