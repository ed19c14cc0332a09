#!/usr/bin/env bash
# Sets up, builds and tests Gable.
#
#   deploy/test.sh          packages, release build, every test
#   deploy/test.sh --all    the same, and: formatting, the PTX tests on the AVX2 target, the tests
#                           under ASan+UBSan and TSan, and a smoke run of the benchmarks
#
# What a step prints goes to build/log/STEP.log; a step that fails shows its end.
set -eu
cd "$(dirname "$0")/.."

all=0
case "${1-}" in
"") ;;
--all) all=1 ;;
*)
    echo "test.sh: unknown option '$1': usage: deploy/test.sh [--all]" >&2
    exit 2
    ;;
esac

jobs=$(nproc)
mkdir -p build/log

step() { # step NAME command...: runs it, shows the log's end when it fails
    local name=$1 start=$SECONDS
    shift
    printf '%-34s' "$name"
    if "$@" >"build/log/$name.log" 2>&1; then
        printf 'ok %4d s\n' $((SECONDS - start))
    else
        printf 'FAILED\n'
        tail -n 80 "build/log/$name.log" >&2
        echo "test.sh: $name failed: the whole log is build/log/$name.log" >&2
        exit 1
    fi
}

build() { # build PRESET
    cmake --preset "$1" && cmake --build --preset "$1" -j "$jobs"
}

# Tests that only compute share the cores; those that start processes and watch clocks run alone.
# A label expression that matches nothing is an error: it would be a test that cannot fail.
tests() { # tests PRESET LABELS JOBS
    ctest --preset "$1" -L "$2" -j "$3" --no-tests=error --timeout 300
}

format_check() {
    git ls-files '*.c' '*.h' '*.cu' '*.cuh' | xargs clang-format-19 --dry-run --Werror
}

bench_smoke() {
    local b
    for b in build/release/bench/*; do
        [ -x "$b" ] && [ -f "$b" ] || continue
        echo "== $b"
        "$b" --json --smoke
    done
}

step setup deploy/setup.sh
step build-release build release
step test-unit tests release '^(unit|ptx|fuzz|gpu)$' "$jobs"
step test-e2e tests release '^(e2e|fault)$' 1

if [ $all -eq 1 ]; then
    step format format_check
    step test-ptx-avx2 env GABLE_CPU_TARGET=x86-64-v3 ctest --preset release -L '^ptx$' \
        -j "$jobs" --no-tests=error --timeout 300
    step bench-smoke bench_smoke
    step build-asan build asan
    step test-asan tests asan '^(unit|ptx|fuzz)$' "$jobs"
    step test-asan-e2e tests asan '^(e2e|fault)$' 1
    step build-tsan build tsan
    step test-tsan tests tsan '^unit$' "$jobs"
fi

count() { grep -ho 'tests passed.*out of [0-9]*' build/log/test-*.log | grep -o '[0-9]*$' |
    awk '{ n += $1 } END { print n + 0 }'; }
echo "$(count) passed, 0 failed"
