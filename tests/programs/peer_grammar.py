# SPDX-License-Identifier: Apache-2.0
"""llama.cpp's grammars beside ours, for check_schemas.py --peer: compiles peer_grammar.cpp against a llama.cpp that stands
on this machine, and gives it the vocabulary of the tokenizer that we use. Nothing of llama.cpp is needed or kept here."""
import glob
import json
import os
import re
import struct
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9  # types of GGUF's values
NORMAL, CONTROL, USER_DEFINED, UNUSED = 1, 3, 4, 5  # kinds of tokens
# What llama.cpp wants to read of a model, though only its vocabulary counts.
SHAPE = {"block_count": 1, "context_length": 4096, "embedding_length": 64, "feed_forward_length": 64,
         "attention.head_count": 1, "rope.dimension_count": 64}


def gguf_string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def gguf_value(kind, value):
    if kind == STRING:
        return gguf_string(value)
    return struct.pack({UINT32: "<I", INT32: "<i", FLOAT32: "<f", BOOL: "<?"}[kind], value)


def gguf_pair(key, kind, value):
    return gguf_string(key) + struct.pack("<I", kind) + gguf_value(kind, value)


def gguf_array(key, kind, values):
    return gguf_string(key) + struct.pack("<IIQ", ARRAY, kind, len(values)) + b"".join(
        gguf_value(kind, value) for value in values)


def write_vocabulary(tokenizer, rows, path):
    """The vocabulary of a tokenizer.json of DeepSeek-V3's family, as a GGUF file without tensors."""
    with open(tokenizer, encoding="utf-8") as file:
        read = json.load(file)
    tokens, kinds = ["[PAD%d]" % number for number in range(rows)], [UNUSED] * rows
    for text, number in read["model"]["vocab"].items():
        tokens[number], kinds[number] = text, NORMAL
    ends = {}
    for added in read["added_tokens"]:
        tokens[added["id"]] = added["content"]
        kinds[added["id"]] = CONTROL if added["special"] else USER_DEFINED
        ends[added["content"]] = added["id"]
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in read["model"]["merges"]]
    pairs = [gguf_pair("general.architecture", STRING, "llama"), gguf_pair("general.name", STRING, "vocabulary")]
    pairs += [gguf_pair("llama." + key, UINT32, value) for key, value in SHAPE.items()]
    pairs += [gguf_pair("llama.attention.layer_norm_rms_epsilon", FLOAT32, 1e-6),
              gguf_pair("llama.vocab_size", UINT32, rows),
              gguf_pair("tokenizer.ggml.model", STRING, "gpt2"),
              gguf_pair("tokenizer.ggml.pre", STRING, "deepseek-v3"),
              gguf_array("tokenizer.ggml.tokens", STRING, tokens),
              gguf_array("tokenizer.ggml.token_type", INT32, kinds),
              gguf_array("tokenizer.ggml.merges", STRING, merges),
              gguf_pair("tokenizer.ggml.bos_token_id", UINT32, ends["<｜begin▁of▁sentence｜>"]),
              gguf_pair("tokenizer.ggml.eos_token_id", UINT32, ends["<｜end▁of▁sentence｜>"]),
              gguf_pair("tokenizer.ggml.add_bos_token", BOOL, False)]
    with open(path, "wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 3, 0, len(pairs)) + b"".join(pairs))


def find_peer(given):
    """The sources and the libraries' folder of a llama.cpp: its checkout with a folder build, or that folder."""
    for build in (given, os.path.join(given, "build")):
        cache = os.path.join(build, "CMakeCache.txt")
        if os.path.isfile(cache) and glob.glob(os.path.join(build, "bin", "libllama-common.so*")):
            with open(cache, encoding="utf-8") as file:
                return re.search(r"^CMAKE_HOME_DIRECTORY:\w+=(.*)$", file.read(), re.MULTILINE).group(1), os.path.join(
                    build, "bin")
    sys.exit("check_schemas: --peer: %s is no build of llama.cpp with its targets llama and llama-common as shared "
             "libraries (cmake -B build && cmake --build build --target llama llama-common)" % given)


def compile_peer(given, path):
    sources, libraries = find_peer(os.path.abspath(given))
    includes = ["-I" + os.path.join(sources, folder) for folder in ("include", "common", "ggml/include", "vendor")]
    subprocess.run([os.environ.get("CXX", "c++"), "-std=c++17", "-O2", *includes, os.path.join(HERE, "peer_grammar.cpp"),
                    "-o", path, "-L" + libraries, "-Wl,-rpath," + libraries, "-lllama-common", "-lllama"], check=True)


def command(given, tokenizer, rows, every, folder):
    """What answers the lines of check_schemas.py as our program does; `folder` takes what it needs."""
    program, vocabulary = os.path.join(folder, "peer_grammar"), os.path.join(folder, "vocabulary.gguf")
    compile_peer(given, program)
    write_vocabulary(tokenizer, rows, vocabulary)
    return [program, vocabulary, str(every)]
