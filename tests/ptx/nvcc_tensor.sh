#!/usr/bin/env bash
# What CUDA's headers make of tensor cores, pipelines, barriers and atomic references runs as it should.
set -eu
nvcc=${CUDA_HOME:-/usr/local/cuda}/bin/nvcc
[ -x "$nvcc" ] || { echo "no nvcc here"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
source=$GABLE_SOURCE_DIR/tests/ptx/nvcc_tensor.cu
device=$GABLE_BUILD_DIR/lib/gable/cpu
"$nvcc" -std=c++17 -arch=compute_80 "$source" -o "$dir/run" -L"$device" -l:libcuda.so.1
for arch in 80 90; do
    "$nvcc" -std=c++17 -arch=compute_$arch -ptx "$source" -o "$dir/$arch.ptx"
    LD_LIBRARY_PATH=$device "$dir/run" "$dir/$arch.ptx" || { echo "compute_$arch fails"; exit 1; }
done
