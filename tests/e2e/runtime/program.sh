#!/usr/bin/env bash
# program.sh NAME [nvcc options]: builds apps/NAME.cu with an installed nvcc and runs it, unchanged, on the
# software device with our CUDA runtime: in process, and over as many proxies as GABLE_OVER says, with the
# same output. Skipped (77) where there is no nvcc.
set -eu
nvcc=${CUDA_HOME:-/usr/local/cuda}/bin/nvcc
[ -x "$nvcc" ] || { echo "skipped: no nvcc in ${CUDA_HOME:-/usr/local/cuda}/bin"; exit 77; }
name=$1
shift
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
source=$GABLE_SOURCE_DIR/tests/e2e/runtime/apps/$name.cu
lib=$GABLE_BUILD_DIR/lib/gable
case " $* " in *" -arch="*) ;; *) set -- -arch=compute_75 "$@" ;; esac
"$nvcc" -std=c++17 -cudart shared "$@" -o "$dir/app" "$source"
# The runtime of the toolkit must not be found first: it would refuse the driver.
LD_LIBRARY_PATH=$lib/cpu:$lib/runtime "$dir/app" > "$dir/local"
cat "$dir/local"
for proxies in ${GABLE_OVER:-}; do
    "$GABLE_SOURCE_DIR/tests/e2e/remoting/over_proxy.py" "$proxies" "$dir/app" > "$dir/remote"
    cmp "$dir/local" "$dir/remote" || { echo "$name prints something else over $proxies proxies"; exit 1; }
done
echo "$name: right with libcudart.so.13"
