#!/usr/bin/env bash
# calls.cu as an installed nvcc compiles it, optimised, not optimised and for debuggers, gives the same
# results.
set -eu
nvcc=${CUDA_HOME:-/usr/local/cuda}/bin/nvcc
[ -x "$nvcc" ] || { echo "no nvcc here"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
for flags in "" "-Xcicc -O0" "-G"; do
    # shellcheck disable=SC2086
    "$nvcc" -std=c++17 -arch=compute_75 $flags -ptx -I"$GABLE_SOURCE_DIR" \
        "$GABLE_SOURCE_DIR/tests/ptx/calls.cu" -o "$dir/calls.ptx"
    echo "nvcc $flags"
    PT_CALLS=$dir/calls.ptx "$GABLE_BUILD_DIR/tests/test_ptx_runtime"
done
