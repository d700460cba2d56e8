#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The steps on a GPU machine: builds the engine alone, checks it and times it, one step after the other, without
# a network. `bench/gpu.sh help`. Needs bash, coreutils, Python, Meson, ninja, a C compiler, and cmocka
# where it is installed or in the folder of --libs. Also runs without a GPU: on the stand-in for one (--device emulated),
# so that all is known to work but for the device, and on the CPU.
set -uo pipefail
root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd)
device=cpu
[ -e /dev/nvidia0 ] || command -v nvidia-smi >/dev/null && device=cuda
build=$root/build-gpu out=$root/build-gpu/results libs='' limit=540 quick=''
all_steps=(machine build inspect conformance kernels models programs goldens links accuracy sanitize time-kernels time-model time-layer)
named_steps=(time-lite) # only if asked for

usage() {
    cat <<'TEXT'
usage: bench/gpu.sh [options] [STEP...]      all steps but the last, if none is named
       bench/gpu.sh libs [DIR]               what --libs needs, from the packages of this machine

  --device cpu|cuda|emulated  what computes (default: cuda where there is a GPU, else cpu); without cuda the build
                      has no CUDA
  --build DIR         where it is built (default: build-gpu); an existing build is used as it is configured
  --out DIR           where the results go: STEP.txt each, results.csv (default: build-gpu/results)
  --libs DIR          cmocka for a machine without it: DIR/include, DIR/lib (default: .deps, if it is there)
  --limit SECONDS     for each step (default: 540)
  --quick             little of everything: to see that it runs

  machine       what is there: compilers, tools, libraries
  build         the engine alone (-Dserving=disabled), and its tests where there is cmocka
  inspect       the GPUs and their limits, the CPU
  conformance   what each wrapper of a GPU's instructions leaves, compared with the record of the emulator; with
                a GPU also the tests of all kernels for it, which compare them with their C twins
  kernels, models, programs
                the tests of that suite, on the CPU: that the build is sound, and what others are compared with
  goldens       logits, routing, drafts and greedy tokens, compared with DeepSeek's own code, in f32 by their tolerances
  links         with two GPUs or more, or stand-ins: two ranks that are configured as if on different hosts, with rows
                sent by NCCL, give the logits and the answer of one (needs UCX)
  accuracy      the embedded model's 400 questions, in f32, bf16 and fp8
  sanitize      compute-sanitizer over a short answer, where it is installed and the device is a GPU
  time-kernels  fathom bench kernels
  time-model    fathom bench model: the benchmark shape, with random weights
  time-layer    fathom bench layer: one layer at real size, stage by stage, and the table of stage times, layer.csv
  time-lite     fathom bench model: V2-Lite's shape, with random weights; needs 16 GB of disk and as much memory
TEXT
}

# Libraries from a machine with the packages for one without.
gather_libs() {
    local to=$1 name=cmocka
    mkdir -p "$to/include" "$to/lib" || return 1
    echo "#include <$name.h>" | cc -M -x c - | tr ' ' '\n' | grep "/$name[^/]*\.h$" | xargs cp -t "$to/include" &&
        cp -d "$(cc -print-file-name="lib$name.so")"* "$to/lib/" ||
        { echo "gpu.sh: this machine has no $name to compile with; on Debian: apt-get install lib$name-dev" >&2 && return 1; }
}

on_gpu() {
    [ "$device" = cuda ]
}

# --- steps: each prints its results; 77: there is nothing to do here -----------------------------------

fathom() {
    "$program" "$@"
}

# Where a toolkit stands that is not in the usual place.
find_cuda() {
    local nvcc
    nvcc=$(command -v nvcc) && [ -z "${CUDA_PATH:-}" ] || return 0
    CUDA_PATH=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
    export CUDA_PATH
}

do_machine() {
    local tool
    find_cuda
    uname -srm
    nproc
    free -g
    df -h "$root"
    for tool in cc gcc clang python3 meson ninja cmake pkg-config nvcc compute-sanitizer ncu cuobjdump; do
        printf '%-18s %s\n' "$tool" "$(command -v "$tool" >/dev/null && "$tool" --version 2>&1 | grep -m 1 '[0-9]\.[0-9]' || echo none)"
    done
    ! on_gpu || nvidia-smi
    local cuda=${CUDA_PATH:-/usr/local/cuda}
    echo "$cuda: $(find -L "$cuda/lib64" "$cuda/lib" -maxdepth 1 -name 'lib*.so' 2>/dev/null | sed 's|.*/||' |
        grep -E '^lib(cudart|cublasLt|nccl|cudnn)\.' | sort -u | tr '\n' ' ')"
}

# Warnings of a compiler that we do not know stop nothing here.
do_build() {
    local with=(-Dcuda=disabled)
    ! on_gpu || with=(-Dcuda=enabled)
    [ "$device" != cpu ] || with+=(-Dranks=disabled)
    find_cuda
    [ -f "$build/build.ninja" ] ||
        meson setup "$build" "$root" -Dserving=disabled "${with[@]}" -Dwerror=false || return 1
    ninja -C "$build"
}

do_inspect() {
    ! on_gpu || fathom inspect gpu || return 1
    fathom inspect cpu
}

suites() {
    local status=0 named=("${@/#/--suite=}")
    meson test -C "$build" --no-rebuild --print-errorlogs "${named[@]}" || status=1
    # without cmocka there are none
    ! meson test -C "$build" --no-rebuild --list "${named[@]}" 2>&1 | grep -q "No suitable tests" || return 77
    grep -E '^(Ok|Fail|Timeout): ' "$build/meson-logs/testlog.txt" | tr -s ' \n' ' '
    return "$status"
}

do_conformance() {
    local which=(gpu_conformance)
    ! on_gpu || which=(--setup=long --suite=silicon)
    # grep reads to the end: where it left early, meson would seem to have failed.
    meson test -C "$build" --list 2>&1 | grep gpu_conformance >/dev/null || return 77 # no cmocka, or no g++
    meson test -C "$build" --verbose "${which[@]}"
}

do_kernels() { suites kernels; }
do_models() { suites golden model; }
do_programs() { suites programs; }

# Where rounding is the mode's, the CPU's deviations are the measure for another device's.
do_goldens() {
    local mode
    for mode in bf16 fp8 f32; do
        echo "--device $device"
        python3 "$root/bench/goldens.py" --activations "$mode" "$program" --device "$device" || return 1
        [ "$device" != cpu ] && [ "$mode" != f32 ] || continue
        echo "--device cpu"
        python3 "$root/bench/goldens.py" --activations "$mode" "$program" --device cpu || return 1
    done
}

do_links() {
    local count=0
    ! on_gpu || count=$(nvidia-smi -L | grep -c '^GPU')
    [ "$device" != emulated ] || count=2
    [ "$count" -ge 2 ] || { echo "not run: $count GPUs here, and two ranks need one each" && return 77; }
    fathom logits --help | grep -- --rank-meeting >/dev/null && pkg-config --exists ucx ||
        { echo "not run: ranks need UCX" && return 77; }
    python3 "$root/bench/links.py" "$program" --device "$device"
}

do_accuracy() {
    local mode count=()
    [ -z "$quick" ] || count=(--count 20)
    for mode in f32 bf16 fp8; do
        echo "activations $mode"
        python3 "$root/bench/accuracy.py" "${count[@]}" "$program" --device "$device" --activations "$mode" ||
            return 1
    done
}

do_sanitize() {
    local tool
    if ! on_gpu || ! command -v compute-sanitizer >/dev/null; then return 77; fi
    for tool in memcheck racecheck initcheck synccheck; do
        echo "compute-sanitizer $tool"
        compute-sanitizer --tool "$tool" --error-exitcode 1 "$program" generate --device "$device" \
            --tokens '0,4082,296,523,223,27,24;0,4082,818' --greedy --max-new 4 --json || return 1
    done
}

do_time_kernels() {
    local less=()
    [ -z "$quick" ] || less=(--runs 1 --filter rmsnorm)
    fathom bench kernels "${less[@]}"
}

# A named shape with random weights.
time_shape() {
    local model=$build/$1 batch=1,8,64,256
    on_gpu || batch=1,8,32
    [ -f "$model/config.json" ] || fathom make-checkpoint --shape "$1" "$model" || return 1
    fathom bench model --device "$device" --model "$model" --prompt 512 --gen 64 --batch "$batch"
}

do_time_model() {
    if [ -z "$quick" ]; then
        time_shape dsv3b
    else
        fathom bench model --device "$device" --prompt 64 --gen 4 --batch 1,4 --runs 1
    fi
}

do_time_lite() {
    [ -z "$quick" ] || return 77
    time_shape v2-lite
}

do_time_layer() {
    local case=(--tokens 128 --context 4096 --prompt-tokens 4096 --table "$out/layer.csv")
    on_gpu || case=(--table "$out/layer.csv")
    [ -z "$quick" ] || case=(--shape tiny --rounds 1 --table "$out/layer.csv")
    fathom bench layer --device "$device" "${case[@]}"
}

# --- one after the other --------------------------------------------------------------------------------

run_step() {
    local step=$1 began=$SECONDS status said=done
    timeout -k 10 "$limit" "$0" --device "$device" --build "$build" --out "$out" ${quick:+--quick} "--inside=$step" \
        >"$out/$step.txt" 2>&1 </dev/null
    status=$?
    case $status in
    0) ;;
    77) said='nothing to do here' ;;
    124 | 137) said="not done in $limit s" ;;
    *) said=failed ;;
    esac
    echo "$step,$said,$((SECONDS - began))" >>"$out/results.csv"
    printf '%-13s %-20s %4d s  %s\n' "$step" "$said" "$((SECONDS - began))" "$(tail -n 1 "$out/$step.txt")"
    [ "$status" = 0 ] || [ "$status" = 77 ] || failed=1
}

use_libs() {
    libs=$(cd "$libs" && pwd) || exit 2
    export CPATH=$libs/include${CPATH:+:$CPATH} LIBRARY_PATH=$libs/lib${LIBRARY_PATH:+:$LIBRARY_PATH}
    export LD_LIBRARY_PATH=$libs/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
}

inside='' failed=0 steps=()
while [ $# -gt 0 ]; do
    case $1 in
    help | --help) usage && exit ;;
    libs) gather_libs "${2:-$root/.deps}" && exit || exit 1 ;;
    --device | --build | --out | --libs | --limit)
        [ $# -ge 2 ] || { echo "gpu.sh: $1 needs a value" >&2 && exit 2; }
        declare "${1#--}=$2"
        shift
        ;;
    --quick) quick=1 ;;
    --inside=*) inside=${1#--inside=} ;;
    *)
        [[ " ${all_steps[*]} ${named_steps[*]} " == *" $1 "* ]] || { echo "gpu.sh: no step named '$1'; see bench/gpu.sh help" >&2 && exit 2; }
        steps+=("$1")
        ;;
    esac
    shift
done
[ -n "$libs" ] || [ ! -d "$root/.deps/lib" ] || libs=$root/.deps
[ -z "$libs" ] || use_libs
program=$build/fathom
[ "$device" != emulated ] || program=$build/fathom-emulated # which tests have
if [ -n "$inside" ]; then
    "do_${inside//-/_}"
    exit
fi
mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 1
[ ${#steps[@]} -gt 0 ] || steps=("${all_steps[@]}")
echo "step,result,seconds" >"$out/results.csv"
for step in "${steps[@]}"; do run_step "$step"; done
exit "$failed"
