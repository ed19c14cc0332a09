#!/usr/bin/env bash
# What an installed nvcc makes of nvcc_features.cu must parse: plain, with debug information and
# relocatable, and as a compressed fat binary.
set -eu
nvcc=${CUDA_HOME:-/usr/local/cuda}/bin/nvcc
[ -x "$nvcc" ] || { echo "no nvcc here"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
src=$GABLE_SOURCE_DIR/tests/ptx/nvcc_features.cu
"$nvcc" -w -arch=compute_90 -ptx "$src" -o "$dir/plain.ptx"
"$nvcc" -w -arch=compute_75 -G -rdc=true -ptx "$src" -o "$dir/debug.ptx"
"$nvcc" -w -fatbin -arch=compute_75 "$src" -o "$dir/zstd.fatbin"
"$GABLE_BUILD_DIR/tests/ptx_parse_files" "$dir"/*
