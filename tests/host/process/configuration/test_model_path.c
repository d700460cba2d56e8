/* SPDX-License-Identifier: Apache-2.0
 * Protects what a user reads after a wrong --model: whatever was given, the message names it and
 * the remedy; and a folder of the hub's cache is as good as the snapshot in it.
 */
#include <sys/stat.h>
#include <unistd.h>

#include "host/process/configuration/model_path.h"
#include "host/process/private_room.h"
#include "test_case.h"

static char root[64], found[PATH_MAX];
static struct error error;

static int make_root(void **state) {
    snprintf(root, sizeof root, "/tmp/fathom_path_XXXXXX");
    return mkdtemp(root) ? chdir(root) : -1;
}

static int remove_root(void **state) {
    private_room_remove(root);
    return chdir("/");
}

#define TEST_HERE(name) TEST_AROUND(name, make_root, remove_root)

/* Writes a file below the root, with its folders. NULL: the folder of that name. */
static void put(const char *path, const char *text) {
    char whole[256];
    snprintf(whole, sizeof whole, "%s/%s%s", root, path, text ? "" : "/");
    for (char *slash = whole + strlen(root); (slash = strchr(slash + 1, '/'));) {
        *slash = 0;
        mkdir(whole, 0700);
        *slash = '/';
    }
    FILE *file = text ? fopen(whole, "w") : NULL;
    if (!text) return;
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void expect(const char *given, const char *resolved) {
    if (model_path_find(given, found, &error)) fail_msg("%s", error.text);
    assert_string_equal(found, resolved);
}

static void refuse(const char *given, const char *words) {
    assert_int_not_equal(model_path_find(given, found, &error), STATUS_OK);
    if (!strstr(error.text, words) || !strstr(error.text, given))
        fail_msg("expected '%s' and '%s' in: %s", given, words, error.text);
}

TEST_HERE(a_checkpoint_is_its_folder) {
    put("v3/config.json", "{}");
    put("v3/model.safetensors", "");
    expect("v3", "v3");
    expect("./v3/", "./v3/");
    put("texts/config.json", "{}"); /* a gateway needs no weights */
    expect("texts", "texts");
    put("words/tokenizer.json", "{}"); /* enough to tokenize */
    expect("words", "words");
}

TEST_HERE(a_hubs_name_is_downloaded_by_hand) {
    static const char *const names[] = {
        "deepseek-ai/DeepSeek-V3", "https://huggingface.co/deepseek-ai/DeepSeek-V3",
        "https://hf.co/deepseek-ai/DeepSeek-V3/tree/main", "hf.co/deepseek-ai/DeepSeek-V3"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        refuse(names[i], "run `hf download deepseek-ai/DeepSeek-V3 --local-dir DeepSeek-V3`");
}

TEST_HERE(a_typo_gets_the_similar_name) {
    put("models/DeepSeek-V3/config.json", "{}");
    refuse("models/DeepSeek-v3", "did you mean models/DeepSeek-V3?");
    refuse("model/DeepSeek-V3/", "did you mean models?");
    refuse("model/DeepSeek-V3", "did you mean models?");
    refuse("/nowhere/at/all", "no such folder");
    refuse("~/DeepSeek-V3", "~ is a shell's");
}

/* The names that other programs take for a model. */
TEST_HERE(names_that_are_no_folders_are_explained) {
    refuse("", "expected the folder of a checkpoint; leave out --model for the embedded model");
    refuse("deepseek-r1:8b", "a name of Ollama's library");
    refuse("deepseek-r1", "no such folder; expected the folder of a checkpoint");
    put("deepseek-r1:8b/config.json", "{}");
    expect("deepseek-r1:8b", "deepseek-r1:8b");
}

TEST_HERE(an_adapter_is_merged_first) {
    put("lora/adapter_config.json", "{}");
    put("lora/adapter_model.safetensors", "");
    refuse("lora", "a LoRA adapter; merge it into its model");
    put("merged/adapter_config.json", "{}");
    put("merged/config.json", "{}");
    put("merged/model.safetensors", "");
    expect("merged", "merged");
}

TEST_HERE(a_cached_repository_is_its_snapshot) {
    char name[256];
    put("models--o--DeepSeek-V3/snapshots/abc/config.json", "{}");
    put("models--o--DeepSeek-V3/snapshots/abc/model.safetensors", "");
    put("models--o--DeepSeek-V3/blobs/x", "");
    expect("models--o--DeepSeek-V3", "models--o--DeepSeek-V3/snapshots/abc");
    model_path_name(found, name);
    assert_string_equal(name, "DeepSeek-V3");
    put("models--o--DeepSeek-V3/snapshots/def/config.json", "{}");
    refuse("models--o--DeepSeek-V3", "give one of its snapshots");
    put("models--o--DeepSeek-V3/refs/main", "def");
    expect("models--o--DeepSeek-V3", "models--o--DeepSeek-V3/snapshots/def");
    put("models--o--R1/snapshots", NULL);
    refuse("models--o--R1", "hf download");
    put("R1/config.json", "{}");
    model_path_name("R1", name);
    assert_string_equal(name, "R1");
}

TEST_HERE(a_gguf_file_is_a_model) {
    char name[256];
    put("q4/V3-Q4.gguf", "GGUF");
    put("q4/mmproj-V3.gguf", "GGUF");
    expect("q4/V3-Q4.gguf", "q4/V3-Q4.gguf");
    expect("q4", "q4/V3-Q4.gguf");
    model_path_name(found, name);
    assert_string_equal(name, "V3-Q4");
    put("q4/V3-Q8.gguf", "GGUF");
    refuse("q4", "several models in GGUF files, such as V3-Q");
    put("split/R1-00002-of-00002.gguf", "GGUF");
    put("split/R1-00001-of-00002.gguf", "GGUF");
    put("split/config.json", "{}");
    expect("split", "split/R1-00001-of-00002.gguf");
    model_path_name(found, name);
    assert_string_equal(name, "R1");
    put("both/V3.gguf", "GGUF");
    put("both/config.json", "{}");
    put("both/model.safetensors", "");
    expect("both", "both");
}

TEST_HERE(weights_of_other_forms_are_named) {
    put("old/config.json", "{}");
    put("old/pytorch_model-00001-of-00002.bin", "");
    refuse("old", "PyTorch weights; Fathom reads safetensors");
    refuse("old/pytorch_model-00001-of-00002.bin", "PyTorch weights");
    put("llama/consolidated.00.pth", "");
    refuse("llama", "PyTorch weights");
    put("v3/config.json", "{}");
    put("v3/model.safetensors", "");
    refuse("v3/model.safetensors", "is a file; give its folder, v3");
    put("v3.tar", "");
    refuse("v3.tar", "is a file; expected the folder");
}

TEST_HERE(files_that_were_not_downloaded_are_named) {
    put("lfs/config.json", "{}");
    put("lfs/model.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n");
    refuse("lfs", "model.safetensors: a Git LFS pointer in place of the file: run `git lfs pull`");
    put("page/config.json", "<!doctype html>\n<html>");
    refuse("page", "config.json: a web page in place of the file");
    put("half/model-00001-of-00002.safetensors", "");
    refuse("half", "config.json: not found, though there are weights");
    put("cut/config.json", "{}");
    assert_int_equal(symlink("../blobs/gone", "cut/model.safetensors"), 0);
    refuse("cut", "model.safetensors: a link to a file that is not there");
}

TEST_HERE(a_folder_above_the_model_and_an_empty_one_are_named) {
    put("all/DeepSeek-V3/config.json", "{}");
    refuse("all", "one level below: give all/DeepSeek-V3");
    put("all/DeepSeek-R1/config.json", "{}");
    refuse("all", "give all/DeepSeek-R1, or one of its neighbours");
    put("empty", NULL);
    refuse("empty", "an empty folder; download a model into it");
    put("notes/readme.txt", "");
    refuse("notes", "config.json: not found; expected the folder");
}
