#!/usr/bin/env bash
# The ways to build and run a CUDA program that docs/cuda-programs.md tells of, and the one that it says
# does not work. Skipped (77) where there is no nvcc.
set -eu
nvcc=${CUDA_HOME:-/usr/local/cuda}/bin/nvcc
[ -x "$nvcc" ] || { echo "skipped: no nvcc in ${CUDA_HOME:-/usr/local/cuda}/bin"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
lib=$GABLE_BUILD_DIR/lib/gable
source=$GABLE_SOURCE_DIR/tests/e2e/runtime/apps/variables.cu
fail() { echo "ways.sh: $*" >&2; exit 1; }

"$nvcc" -std=c++17 -cudart shared -arch=compute_75 -o "$dir/shared" "$source"
LD_LIBRARY_PATH=$lib/cpu:$lib/runtime "$dir/shared" || fail "-cudart shared with LD_LIBRARY_PATH"
"$GABLE_BUILD_DIR/bin/gable" run --local -- "$dir/shared" || fail "gable run --local"

# Our runtime inside the program: only the driver is found at run time.
"$nvcc" -std=c++17 -cudart none -arch=compute_75 -o "$dir/archive" "$source" \
    "$lib/runtime/libgable_cudart.a" -ldl -lpthread
LD_LIBRARY_PATH=$lib/cpu "$dir/archive" || fail "-cudart none with the archive"
"$GABLE_BUILD_DIR/bin/gable" run --local -- "$dir/archive" || fail "gable run --local, archive"
! readelf -d "$dir/archive" | grep -q libcudart || fail "the archive's program wants libcudart"

# nvcc's default puts PTX beside machine code: that is enough.
"$nvcc" -std=c++17 -cudart shared -o "$dir/default" "$source"
LD_LIBRARY_PATH=$lib/cpu:$lib/runtime "$dir/default" || fail "without -arch"

# NVIDIA's own runtime, nvcc's default, refuses any driver but NVIDIA's.
"$nvcc" -std=c++17 -arch=compute_75 -o "$dir/nvidia" "${source%/*}/pools.cu"
if said=$(LD_LIBRARY_PATH=$lib/cpu "$dir/nvidia" 2>&1); then
    fail "NVIDIA's runtime accepts the software device: the documentation is out of date"
fi
case $said in
*cudaErrorInvalidValue* | *cudaErrorSoftwareValidityNotEstablished*) ;;
*) fail "NVIDIA's runtime says '$said'" ;;
esac
echo "all ways work"
