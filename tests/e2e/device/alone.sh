#!/usr/bin/env bash
# The software device by itself: an ordinary driver-API program, LD_LIBRARY_PATH, nothing of Gable's
# around it. With its kernels cached it needs no compiler; without both it says what is missing.
set -eu
built=$GABLE_BUILD_DIR/lib/gable/cpu
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
mkdir "$place/lib" "$place/home"
cp "$built/libcuda.so.1" "$built/libgable-jit.so" "$place/lib/"
cp "$GABLE_BUILD_DIR/tests/vector_add" "$place/program"
cd /

run() {
    env -i PATH="$PATH" HOME="$place/home" LD_LIBRARY_PATH="$place/lib" "$place/program" 2>&1
}
fail() {
    echo "alone.sh: $1"
    exit 1
}

run | grep -qx PASSED || fail "the program fails: $(run || true)"
count=$(find "$place/home/.cache/gable/kernels" -name '*.kernel' | wc -l)
[ "$count" = 1 ] || fail "$count entries in the kernel cache instead of 1"

mv "$place/lib/libgable-jit.so" "$place/kept"
run | grep -qx PASSED || fail "a cached kernel wants the compiler"

rm -r "$place/home/.cache"
if said=$(run); then
    fail "no compiler and no cache, and yet: $said"
fi
grep -q CUDA_ERROR_JIT_COMPILER_NOT_FOUND <<<"$said" || fail "the wrong error: $said"
grep -q libgable-jit.so <<<"$said" || fail "the message does not name the file: $said"
