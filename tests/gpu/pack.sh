#!/bin/sh
# Packs what is needed to try Gable on a machine with an NVIDIA GPU: proxy, session, the two CUDA libraries,
# tests and bench/remoting with their shared libraries. There: unpack it anywhere and start run.sh.
# usage: tests/gpu/pack.sh BUILD_FOLDER OUT.tar.gz
set -eu
[ $# -eq 2 ] || { echo "usage: tests/gpu/pack.sh BUILD_FOLDER OUT.tar.gz" >&2; exit 2; }
build=$(cd "$1" && pwd)
out=$2
here=$(cd "$(dirname "$0")" && pwd)
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
top=$stage/gable-gpu
mkdir -p "$top/bin" "$top/bench" "$top/tests" "$top/lib/gable" "$top/shared"
cp "$build/bin/gpu-proxy" "$build/bin/gpu-session" "$top/bin/"
cp -r "$build/lib/gable/remote" "$build/lib/gable/runtime" "$top/lib/gable/"
cp "$build/bench/remoting" "$top/bench/"
for test in test_remote_calls_null test_remote_threads_null gpu_windows; do
    cp "$build/tests/$test" "$top/tests/"
done
cp "$here/run.sh" "$top/"
echo "$build" > "$top/build-folder" # the tests look for the programs there
# All libraries but those that belong to the system's loader.
for program in "$top"/bin/* "$top"/bench/* "$top"/tests/* "$top"/lib/gable/*/*.so.*; do
    ldd "$program" 2>/dev/null | awk '$3 ~ /^\// { print $3 }'
done | sort -u | grep -Ev '/(libc|libm|libdl|librt|libpthread|ld-linux-x86-64)\.so' |
    while read -r library; do cp -L "$library" "$top/shared/"; done
tar -C "$stage" -czf "$out" gable-gpu
echo "$out: $(du -h "$out" | cut -f1)"
