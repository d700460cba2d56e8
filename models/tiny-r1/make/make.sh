#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make.sh FOLDER: makes the model from nothing, with the tokenizer of models/tiny-r1:
# data, training, export, evaluation, card. README.md lists the packages. Data, sets of questions and trained
# weights that are in the folder already are not made again.
#
#   TOKENS=36000000  the length of the training; MINUTES=110 sets a time instead
#   THREADS=2        cores of the training
#   RESUME=FILE      a checkpoint to begin with, as load_checkpoint.py writes it
#   FATHOM=FILE      the program whose server is evaluated (default: build/fathom)
#   PYTHON=FILE      a Python that has PyTorch (default: /usr/bin/python3)
set -eu
make=$(cd "$(dirname "$0")" && pwd)
out=${1:?usage: make.sh FOLDER}
tokens=${TOKENS:-36000000}
threads=${THREADS:-2}
python=${PYTHON:-/usr/bin/python3}
fathom=${FATHOM:-$make/../../../build/fathom}
port=${PORT:-8391}
mkdir -p "$out"

# Data: a document is seen once. 45000 documents are some 5.2 million tokens.
parts=$((tokens / 5000000 + 1))
data=
for part in $(seq "$parts"); do
    folder=$out/data$part
    [ -e "$folder/train.npz" ] || "$python" "$make/generate.py" --out "$folder" --seed "$part"
    data=${data:+$data,}$folder
done
[ -e "$out/eval_chat.jsonl" ] || "$python" "$make/evaluation_sets.py" --training "$data" --out "$out"
"$python" "$make/leak.py" --training "$data" "$make/../eval.jsonl" "$out/eval_tools.jsonl"

# Training. The variables of malloc keep large tensors in the process: otherwise each one costs page faults.
export OMP_NUM_THREADS="$threads" OPENBLAS_NUM_THREADS="$threads"
export MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=17179869184 MALLOC_TOP_PAD_=268435456
cc -O3 -march=native -mprefer-vector-width=512 -ffast-math -fopenmp -shared -fPIC "$make/fused.c" \
    -o "$out/fused.so" -lm
if [ ! -e "$out/trained.pt" ]; then
    "$python" "$make/train.py" --data "$data" --fused "$out/fused.so" --out "$out/training.pt" \
        --tokens "$tokens" ${MINUTES:+--minutes "$MINUTES"} ${RESUME:+--resume "$RESUME"}
    mv "$out/training.pt" "$out/trained.pt"
fi
"$python" "$make/export.py" "$out/trained.pt" "$out/model"

# Evaluation of a server, and of the plain implementation where the server has no figures.
"$fathom" serve --model "$out/model" --port "$port" --admin-port $((port + 1)) --threads "$threads" \
    >"$out/serve.log" 2>&1 &
server=$!
trap 'kill "$server"' EXIT
until grep -q '^listening on' "$out/serve.log"; do
    kill -0 "$server"
    sleep 1
done
url=http://127.0.0.1:$port
"$python" "$make/evaluate.py" --url "$url" --out "$out/single.json" "$make/../eval.jsonl"
"$python" "$make/evaluate.py" --url "$url" --out "$out/tools.json" "$out/eval_tools.jsonl"
"$python" "$make/evaluate.py" --url "$url" --out "$out/chats.json" "$out/eval_chat.jsonl"
"$python" "$make/expert_load.py" "$out/model" "$make/../eval.jsonl" --out "$out/load.json"
"$python" "$make/card.py" "$out" >"$out/model/MODEL_CARD.md"
