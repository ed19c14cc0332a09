#!/usr/bin/env bash
# Everything that an installed nvcc makes of nvcc_features.cu must parse: several architectures,
# debug information, relocatable code, and fat binaries in all compressions.
set -eu
nvcc=${CUDA_HOME:-/usr/local/cuda}/bin/nvcc
[ -x "$nvcc" ] || { echo "no nvcc here"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
src=$GABLE_SOURCE_DIR/tests/ptx/nvcc_features.cu
for arch in 75 90; do
    "$nvcc" -w -arch=compute_$arch -ptx "$src" -o "$dir/plain_$arch.ptx"
done
"$nvcc" -w -arch=compute_75 -G -ptx "$src" -o "$dir/debug.ptx"
"$nvcc" -w -arch=compute_80 -rdc=true -lineinfo -ptx "$src" -o "$dir/rdc.ptx"
"$nvcc" -w -fatbin -arch=compute_75 "$src" -o "$dir/zstd.fatbin"
"$nvcc" -w -fatbin -arch=compute_75 -compress-mode=speed "$src" -o "$dir/lz4.fatbin"
"$nvcc" -w -fatbin -arch=compute_75 -no-compress "$src" -o "$dir/raw.fatbin"
"$GABLE_BUILD_DIR/tests/ptx_parse_files" "$dir"/*
