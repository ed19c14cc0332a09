#!/usr/bin/env bash
# groups.cu, which uses the toolkit's cooperative groups, libcu++ and CUB, runs on the device.
set -eu
nvcc=${CUDA_HOME:-/usr/local/cuda}/bin/nvcc
[ -x "$nvcc" ] || { echo "no nvcc here"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"$nvcc" -std=c++17 -arch=compute_75 -ptx "$GABLE_SOURCE_DIR/tests/ptx/groups.cu" -o "$dir/groups.ptx"
PT_GROUPS=$dir/groups.ptx "$GABLE_BUILD_DIR/tests/test_ptx_grid"
