#!/usr/bin/env bash
# A program that nvcc compiled in separate parts (-rdc=true), on the software device: what nvlink made of
# it is code for a GPU, so the parts' PTX is linked when the program starts. Also from a library.
set -eu
nvcc=${CUDA_HOME:-/usr/local/cuda}/bin/nvcc
[ -x "$nvcc" ] || { echo "no nvcc here"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
src=$GABLE_SOURCE_DIR/tests/e2e/device/rdc
code="-gencode arch=compute_75,code=[compute_75,sm_75]"
for part in main part; do
    "$nvcc" -w -rdc=true $code -c "$src/$part.cu" -o "$dir/$part.o"
done
"$nvcc" -w -cudart shared -rdc=true $code "$dir/main.o" "$dir/part.o" -o "$dir/objects"
ar rc "$dir/libpart.a" "$dir/part.o"
"$nvcc" -w -cudart shared -rdc=true $code "$dir/main.o" -L"$dir" -lpart -o "$dir/library"

built=$GABLE_BUILD_DIR/lib/gable
export LD_LIBRARY_PATH=$built/runtime:$built/cpu GABLE_CPU_CACHE=off
for program in objects library; do
    said=$("$dir/$program" 2>&1) || { echo "$program: $said"; exit 1; }
    [ "$said" = PASSED ] || { echo "$program says: $said"; exit 1; }
done
