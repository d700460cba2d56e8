/* SPDX-License-Identifier: Apache-2.0
 * A model in a GGUF file, or in the files NAME-00001-of-0000N.gguf and so on, as a Hugging Face
 * folder would have it: its texts as JSON and its tensors by their names there. Thus all that reads
 * a folder reads a GGUF file. It maps the files; tensors point into them.
 */
#pragma once

#include "base/json_writer.h"
#include "compute/weights/gguf.h"
#include "compute/weights/shape.h"

#define GGUF_MODEL_PARTS_MAX 4096

struct gguf_part {
    char *path;
    struct bytes map;
    uint64_t header_bytes; /* everything before the data */
    void *memory;          /* of the parsed header */
    size_t memory_bytes;
};

struct gguf_model {
    struct gguf_part *parts;
    uint32_t part_count;
    struct gguf gguf;             /* the metadata of the first part and the tensors of all parts */
    char *names;                  /* of the visited tensors */
    struct tensor_halves *halves; /* of the visited kv_b */
};

/* True for the path of a GGUF file: its name ends in .gguf, and it is no folder. */
bool gguf_model_is(const char *path);

/* Maps all files of the model, given any of them, and parses their headers. Call gguf_model_close
 * also after an error, which names file, expected and found in one line. */
enum status gguf_model_open(const char *path, struct gguf_model *model, struct error *error);
void gguf_model_close(struct gguf_model *model);

/* A writer of one of the texts that a folder would have, as JSON. */
typedef enum status gguf_model_write(const struct gguf *gguf, struct json_writer *writer,
                                     struct error *error);
/* Runs a writer. The caller frees json_out->data, which has a terminator. */
enum status gguf_model_json(const struct gguf_model *model, gguf_model_write *write,
                            struct bytes *json_out, struct error *error);

/* Called with each tensor that a folder would have; it lives as long as the model. `found` is the
 * tensor in the file. */
typedef void gguf_model_visit(void *context, const struct tensor *tensor,
                              const struct gguf_tensor *found);
/* Visits the tensors in the files' order, by their names in a checkpoint of that shape: experts one
 * by one, and the two halves of kv_b as one tensor. Others are left out. Call it once. */
enum status gguf_model_tensors(struct gguf_model *model, const struct shape *shape,
                               gguf_model_visit *visit, void *context, struct error *error);
