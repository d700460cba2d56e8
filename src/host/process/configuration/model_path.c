/* SPDX-License-Identifier: Apache-2.0
 * A folder is judged by the names in it, and small files by their first bytes: a Git LFS pointer
 * has some 130 bytes. No other file is opened here.
 */
#include "host/process/configuration/model_path.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/file.h"
#include "base/nearest.h"
#include "host/process/configuration/default_model.h"

#define SMALL_BYTES 1024 /* of a file that may be a pointer */
#define HUB_CACHE "models--"
#define REVISION_BYTES_MAX 256

/* The facts that the names in a folder give. */
struct folder {
    bool config, index, adapter, texts; /* texts: a tokenizer's or a template's file */
    uint32_t entries, safetensors, models;
    char gguf[NAME_MAX + 1], other_gguf[NAME_MAX + 1]; /* of models: first files of split ones */
    char torch[NAME_MAX + 1], pointer[NAME_MAX + 1], page[NAME_MAX + 1];
    char broken[NAME_MAX + 1]; /* a link to a file that is not there */
    char model[NAME_MAX + 1];  /* a folder inside that has a config.json; the first by name */
    bool snapshots;
};

static bool ends_with(const char *name, const char *end) {
    size_t length = strlen(name), bytes = strlen(end);
    return length >= bytes && strcasecmp(name + length - bytes, end) == 0;
}

static bool is_torch(const char *name) {
    return (ends_with(name, ".bin") && strstr(name, "model")) || ends_with(name, ".pt") ||
           ends_with(name, ".pth") || ends_with(name, ".ckpt");
}

/* Finds the entry of `folder` whose name is most similar. */
static bool find_similar(const char *folder, const char *name, char similar_out[NAME_MAX + 1]) {
    char kept[NEAREST_NAME_BYTES_MAX + 1] = "";
    struct nearest nearest = nearest_begin(bytes_of(name));
    DIR *entries = opendir(folder);
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        const char *before = nearest.name;
        if (entry->d_name[0] == '.' || strlen(entry->d_name) > NEAREST_NAME_BYTES_MAX) continue;
        nearest_try(&nearest, entry->d_name);
        if (nearest.name == before) continue;
        snprintf(kept, sizeof kept, "%s", nearest.name); /* readdir's text does not last */
        nearest.name = kept;
    }
    if (entries) closedir(entries);
    if (nearest.name) snprintf(similar_out, NAME_MAX + 1, "%s", nearest.name);
    return nearest.name != NULL;
}

/* ---- names of the hub ---- */

/* Cuts "org/name" out of an address of the hub; false: it is none. */
static bool read_hub_address(const char *given, char name_out[static 256]) {
    static const char *const fronts[] = {"https://", "http://", "hf://", "hf:"};
    static const char *const hosts[] = {"huggingface.co/", "www.huggingface.co/", "hf.co/",
                                        "hf-mirror.com/"};
    bool found = false;
    for (size_t i = 0; i < ARRAY_COUNT(fronts) && !found; i++) {
        found = strncmp(given, fronts[i], strlen(fronts[i])) == 0;
        if (found) given += strlen(fronts[i]);
    }
    for (size_t i = 0; i < ARRAY_COUNT(hosts); i++)
        if (strncmp(given, hosts[i], strlen(hosts[i])) == 0) {
            given += strlen(hosts[i]);
            found = true;
            break;
        }
    if (!found) return false;
    size_t owner = strcspn(given, "/");
    size_t bytes = given[owner] ? owner + 1 + strcspn(given + owner + 1, "/?#") : owner;
    snprintf(name_out, 256, "%.*s", (int)(bytes < 255 ? bytes : 255), given);
    return true;
}

/* True for "org/name", unless `org` or `name` may be a mistyped folder. */
static bool is_hub_name(const char *given) {
    struct stat info;
    const char *slash = strchr(given, '/');
    char owner[256], similar[NAME_MAX + 1], path[PATH_MAX];
    if (!slash || slash == given || !slash[1] || strchr(slash + 1, '/')) return false;
    if (given[0] == '.' || given[0] == '~') return false;
    snprintf(owner, sizeof owner, "%.*s", (int)(slash - given), given);
    if (stat(owner, &info) == 0 && S_ISDIR(info.st_mode)) return false;
    if (!find_similar(".", owner, similar)) return true;
    snprintf(path, sizeof path, "%s/%.255s", similar, slash + 1);
    return stat(path, &info) != 0;
}

static enum status refuse_hub_name(const char *given, const char *name, struct error *error) {
    const char *slash = strchr(name, '/'), *last = slash ? slash + 1 : name;
    return error_set(
        error, STATUS_NOT_FOUND,
        "%.120s: no such folder; Fathom downloads nothing from the hub: run `hf "
        "download %.100s --local-dir %.100s` (or git clone with git lfs), then give the "
        "folder %.100s",
        given, name, last, last);
}

/* ---- names that are no paths ---- */

/* True for a name of Ollama's library, such as deepseek-r1:8b. */
static bool is_ollama_name(const char *given) {
    const char *colon = strchr(given, ':');
    return colon && colon > given && colon[1] && !strchr(given, '/');
}

/* Answers a word that was meant as the name of a model. */
static enum status refuse_name(const char *given, struct error *error) {
    char embedded[PATH_MAX];
    if (!given[0])
        return error_set(error, STATUS_INVALID,
                         "the model's path is empty: expected the folder of a checkpoint; leave "
                         "out --model for the embedded model");
    if (!strcmp(given, DEFAULT_MODEL) &&
        default_model_find(embedded, sizeof embedded, NULL) == STATUS_OK)
        return error_set(error, STATUS_NOT_FOUND,
                         "%s: no such folder; leave out --model for the embedded model, or give "
                         "%.300s",
                         given, embedded);
    if (is_ollama_name(given))
        return error_set(error, STATUS_NOT_FOUND,
                         "%.120s: no such folder; a name of Ollama's library, from which nothing "
                         "is loaded here: give the folder of a checkpoint from Hugging Face "
                         "(docs/models.md)",
                         given);
    return STATUS_OK;
}

/* ---- paths that are not there ---- */

/* Names the first component that is not there, and one that is similar. */
static enum status refuse_absent(const char *given, struct error *error) {
    char path[PATH_MAX], similar[NAME_MAX + 1];
    struct stat info;
    if (given[0] == '~')
        return error_set(error, STATUS_NOT_FOUND,
                         "%.300s: no such folder; ~ is a shell's, write the whole path", given);
    snprintf(path, sizeof path, "%s", given);
    for (size_t end = strlen(path); end > 1 && path[end - 1] == '/';)
        path[--end] = 0;
    char *name = path;
    for (char *slash = path; (slash = strchr(slash + 1, '/'));) {
        *slash = 0;
        bool there = stat(path, &info) == 0;
        if (!there) break;
        *slash = '/';
        name = slash + 1;
    }
    size_t front = (size_t)(name - path);
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%.*s", (int)front, path);
    if (find_similar(front ? folder : ".", name, similar))
        return error_set(error, STATUS_NOT_FOUND,
                         "%.200s: no such folder; did you mean %.*s%.100s?", given,
                         front < 150 ? (int)front : 150, path, similar);
    return error_set(
        error, STATUS_NOT_FOUND,
        "%.250s: no such folder; expected the folder of a checkpoint, with config.json", given);
}

/* ---- files in place of a folder ---- */

static enum status refuse_torch(const char *path, struct error *error) {
    return error_set(
        error, STATUS_UNSUPPORTED,
        "%.250s: PyTorch weights; Fathom reads safetensors: `hf download` a repository "
        "that has them, or save the model again with save_pretrained(DIR, "
        "safe_serialization=True)",
        path);
}

static enum status refuse_file(const char *path, struct error *error) {
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    if (is_torch(name)) return refuse_torch(path, error);
    if (ends_with(name, ".safetensors") || ends_with(name, ".json"))
        return error_set(error, STATUS_INVALID, "%.200s is a file; give its folder, %.*s", path,
                         slash ? (slash == path ? 1 : (int)(slash - path)) : 1, slash ? path : ".");
    return error_set(
        error, STATUS_INVALID,
        "%.250s is a file; expected the folder of a checkpoint, with config.json, or a "
        "GGUF file",
        path);
}

/* ---- folders ---- */

/* Looks at the first bytes of a small file. */
static void look_into(const char *path, const char *name, struct folder *folder) {
    static const char pointer[] = "version https://git-lfs";
    char front[64] = "";
    FILE *file = fopen(path, "re");
    size_t bytes = file ? fread(front, 1, sizeof front - 1, file) : 0;
    if (file) fclose(file);
    front[bytes] = 0;
    if (strncmp(front, pointer, sizeof pointer - 1) == 0 && !folder->pointer[0])
        snprintf(folder->pointer, sizeof folder->pointer, "%s", name);
    if (front[strspn(front, " \t\r\n")] == '<' && !folder->page[0])
        snprintf(folder->page, sizeof folder->page, "%s", name);
}

/* True for the files that a model is read from. */
static bool is_read(const char *name) {
    return ends_with(name, ".json") || ends_with(name, ".safetensors");
}

/* The bytes of a file's name before -00002-of-00003.gguf; 0: it has no such end. *first_out: it is
 * the first file. */
static size_t stem_of_part(const char *name, bool *first_out) {
    static const char form[] = "-00000-of-00000.gguf";
    const size_t count = strlen(name), end = sizeof form - 1;
    if (count <= end) return 0;
    const char *at = name + count - end;
    for (size_t i = 0; i < end; i++)
        if (form[i] == '0' ? at[i] < '0' || at[i] > '9' : at[i] != form[i]) return 0;
    *first_out = strncmp(at, "-00001", strlen("-00001")) == 0;
    return count - end;
}

/* Projectors of images (mmproj) are no models. */
static void examine_gguf(const char *name, struct folder *folder) {
    bool first = true;
    (void)stem_of_part(name, &first);
    if (!first || strstr(name, "mmproj")) return;
    char *place = folder->gguf[0] ? folder->other_gguf : folder->gguf;
    snprintf(place, NAME_MAX + 1, "%s", name);
}

static void examine_file(const char *path, const char *name, uint64_t bytes,
                         struct folder *folder) {
    folder->config |= strcmp(name, "config.json") == 0;
    folder->index |= strcmp(name, "model.safetensors.index.json") == 0;
    folder->adapter |= strcmp(name, "adapter_config.json") == 0;
    folder->texts |= strncmp(name, "tokenizer", strlen("tokenizer")) == 0 ||
                     strcmp(name, "chat_template.jinja") == 0;
    folder->safetensors += ends_with(name, ".safetensors");
    if (ends_with(name, ".gguf")) examine_gguf(name, folder);
    if (is_torch(name)) snprintf(folder->torch, sizeof folder->torch, "%s", name);
    if (is_read(name) && (bytes <= SMALL_BYTES || strcmp(name, "config.json") == 0))
        look_into(path, name, folder);
}

static void examine_folder(const char *path, const char *name, struct folder *folder) {
    char config[PATH_MAX + 16];
    snprintf(config, sizeof config, "%s/config.json", path);
    folder->snapshots |= strcmp(name, "snapshots") == 0;
    if (access(config, F_OK)) return;
    if (!folder->models || strcmp(name, folder->model) < 0)
        snprintf(folder->model, sizeof folder->model, "%s", name);
    folder->models++;
}

static enum status examine_names(const char *directory, struct folder *folder,
                                 struct error *error) {
    char path[PATH_MAX];
    struct stat info;
    DIR *entries = opendir(directory);
    if (!entries)
        return error_set(error, STATUS_IO, "%.300s: cannot be read: %s", directory,
                         strerror(errno));
    for (struct dirent *entry; (entry = readdir(entries));) {
        if (entry->d_name[0] == '.') continue;
        folder->entries++;
        if (snprintf(path, sizeof path, "%s/%s", directory, entry->d_name) >= (int)sizeof path)
            continue;
        if (stat(path, &info)) {
            if (is_read(entry->d_name))
                snprintf(folder->broken, sizeof folder->broken, "%s", entry->d_name);
        } else if (S_ISDIR(info.st_mode)) {
            examine_folder(path, entry->d_name, folder);
        } else {
            examine_file(path, entry->d_name, (uint64_t)info.st_size, folder);
        }
    }
    closedir(entries);
    return STATUS_OK;
}

/* Writes the path of the snapshot of a repository's folder in the hub's cache: that of refs/main,
 * or else the only one. */
static enum status find_snapshot(const char *directory, char path_out[static PATH_MAX],
                                 struct error *error) {
    char path[PATH_MAX], only[NAME_MAX + 1] = "";
    uint32_t count = 0;
    struct bytes revision = {NULL, 0};
    struct stat info;
    snprintf(path, sizeof path, "%.4000s/refs/main", directory);
    if (file_take(path, REVISION_BYTES_MAX, &revision, NULL) == STATUS_OK) {
        snprintf(path_out, PATH_MAX, "%.3000s/snapshots/%.*s", directory,
                 (int)strcspn(revision.data, "\r\n"), revision.data);
        free((void *)(uintptr_t)revision.data);
        if (stat(path_out, &info) == 0) return STATUS_OK;
    }
    snprintf(path, sizeof path, "%.4000s/snapshots", directory);
    DIR *entries = opendir(path);
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        if (entry->d_name[0] == '.') continue;
        count++;
        snprintf(only, sizeof only, "%s", entry->d_name);
    }
    if (entries) closedir(entries);
    snprintf(path_out, PATH_MAX, "%.3000s/snapshots/%s", directory, only);
    if (count == 1) return STATUS_OK;
    return error_set(
        error, STATUS_NOT_FOUND,
        "%.250s: a folder of the hub's cache with %u snapshots and no refs/main: %s", directory,
        count, count ? "give one of its snapshots" : "the download has not begun; `hf download`");
}

static enum status refuse_pointers(const char *directory, const struct folder *folder,
                                   struct error *error) {
    if (folder->pointer[0])
        return error_set(
            error, STATUS_INVALID,
            "%.200s/%.100s: a Git LFS pointer in place of the file: run `git lfs pull` "
            "in that folder (first `git lfs install`)",
            directory, folder->pointer);
    if (folder->page[0])
        return error_set(error, STATUS_INVALID,
                         "%.200s/%.100s: a web page in place of the file: download it with `hf "
                         "download`, or from an address with /resolve/ instead of /blob/",
                         directory, folder->page);
    if (!folder->broken[0] || folder->models) return STATUS_OK;
    if (folder->config && !ends_with(folder->broken, ".safetensors")) return STATUS_OK;
    return error_set(
        error, STATUS_NOT_FOUND,
        "%.200s/%.100s: a link to a file that is not there; a folder of the hub's cache "
        "is copied with its blobs, or made without links by `hf download --local-dir`",
        directory, folder->broken);
}

/* Refuses weights of another form. A folder without any weights may be enough, for a gateway, and
 * one without config.json for commands that only tokenize. */
static enum status refuse_weights(const char *directory, const struct folder *folder,
                                  struct error *error) {
    char path[PATH_MAX];
    if (folder->safetensors || folder->index) return STATUS_OK;
    snprintf(path, sizeof path, "%.2000s/%s", directory, folder->torch);
    return folder->torch[0] ? refuse_torch(path, error) : STATUS_OK;
}

static enum status refuse_without_config(const char *directory, const struct folder *folder,
                                         struct error *error) {
    if (folder->models)
        return error_set(
            error, STATUS_NOT_FOUND,
            "%.200s: has no config.json; the model is one level below: give %.150s/%.100s%s",
            directory, directory, folder->model,
            folder->models > 1 ? ", or one of its neighbours" : "");
    if (!folder->entries)
        return error_set(error, STATUS_NOT_FOUND,
                         "%.200s: an empty folder; download a model into it: `hf download "
                         "deepseek-ai/DeepSeek-V2-Lite-Chat --local-dir %.150s`",
                         directory, directory);
    enum status status = refuse_weights(directory, folder, error);
    if (status || (folder->texts && !folder->safetensors)) return status;
    if (folder->safetensors)
        return error_set(error, STATUS_NOT_FOUND,
                         "%.200s/config.json: not found, though there are weights; fetch the other "
                         "files of the same repository, too (*.json): `hf download` fetches all",
                         directory);
    return error_set(
        error, STATUS_NOT_FOUND,
        "%.300s/config.json: not found; expected the folder of a Hugging Face checkpoint",
        directory);
}

/* A folder without safetensors may have a model in a GGUF file, or in several that belong
 * together. */
static enum status find_gguf(const struct folder *folder, char path_out[static PATH_MAX],
                             struct error *error) {
    if (folder->other_gguf[0])
        return error_set(
            error, STATUS_INVALID,
            "%.150s: several models in GGUF files, such as %.100s and %.100s; give the "
            "path of one",
            path_out, folder->gguf, folder->other_gguf);
    const size_t end = strlen(path_out);
    snprintf(path_out + end, PATH_MAX - end, "/%s", folder->gguf);
    return STATUS_OK;
}

static enum status verify_folder(const char *directory, const struct folder *folder,
                                 struct error *error) {
    enum status status = refuse_pointers(directory, folder, error);
    if (status) return status;
    if (folder->adapter && !folder->config)
        return error_set(error, STATUS_UNSUPPORTED,
                         "%.250s/adapter_config.json: a LoRA adapter; merge it into its model "
                         "(PEFT: merge_and_unload, then save_pretrained) and give the folder of "
                         "the result",
                         directory);
    return folder->config ? refuse_weights(directory, folder, error)
                          : refuse_without_config(directory, folder, error);
}

enum status model_path_find(const char *given, char path_out[static PATH_MAX],
                            struct error *error) {
    char name[256];
    struct folder folder = {.config = false};
    struct stat info;
    if (!given) return default_model_find(path_out, PATH_MAX, error);
    if (strlen(given) >= PATH_MAX / 2)
        return error_set(error, STATUS_TOO_LARGE, "%.80s...: the model's path is too long", given);
    if (stat(given, &info)) {
        int failure = errno;
        if (read_hub_address(given, name)) return refuse_hub_name(given, name, error);
        if (is_hub_name(given)) return refuse_hub_name(given, given, error);
        enum status status = refuse_name(given, error);
        if (status) return status;
        if (failure == ENOENT || failure == ENOTDIR) return refuse_absent(given, error);
        return error_set(error, STATUS_IO, "%.300s: cannot be read: %s", given, strerror(failure));
    }
    snprintf(path_out, PATH_MAX, "%.2047s", given);
    if (!S_ISDIR(info.st_mode))
        return ends_with(given, ".gguf") ? STATUS_OK : refuse_file(given, error);
    enum status status = examine_names(given, &folder, error);
    if (!status && !folder.config && folder.snapshots) {
        status = find_snapshot(given, path_out, error);
        folder = (struct folder){.config = false};
        if (!status) status = examine_names(path_out, &folder, error);
    }
    if (status) return status;
    if (folder.gguf[0] && !folder.safetensors && !folder.index && !folder.models)
        return find_gguf(&folder, path_out, error);
    return verify_folder(path_out, &folder, error);
}

void model_path_name(const char *path, char name_out[static 256]) {
    char whole[PATH_MAX];
    if (!realpath(path, whole)) snprintf(whole, sizeof whole, "%s", path);
    const char *snapshot = strstr(whole, "/snapshots/"), *slash = strrchr(whole, '/');
    const char *name = slash && slash[1] ? slash + 1 : whole;
    if (snapshot && !strchr(snapshot + strlen("/snapshots/"), '/')) {
        whole[snapshot - whole] = 0;
        const char *repository = strrchr(whole, '/');
        if (repository && strncmp(repository + 1, HUB_CACHE, strlen(HUB_CACHE)) == 0)
            for (name = repository + 1; strstr(name, "--");)
                name = strstr(name, "--") + 2;
    }
    size_t count = strlen(name);
    bool first;
    const size_t stem = stem_of_part(name, &first);
    if (ends_with(name, ".gguf")) count = stem ? stem : count - strlen(".gguf");
    snprintf(name_out, 256, "%.*s", (int)(count < 255 ? count : 255), name);
}
