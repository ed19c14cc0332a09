#!/usr/bin/env bash
# spin.cu as an installed nvcc compiles it gives the same results.
set -eu
nvcc=${CUDA_HOME:-/usr/local/cuda}/bin/nvcc
[ -x "$nvcc" ] || { echo "no nvcc here"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"$nvcc" -std=c++17 -arch=compute_75 -ptx -I"$GABLE_SOURCE_DIR" \
    "$GABLE_SOURCE_DIR/tests/ptx/spin.cu" -o "$dir/spin.ptx"
PT_SPIN=$dir/spin.ptx "$GABLE_BUILD_DIR/tests/test_ptx_spin"
