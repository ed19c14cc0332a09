#!/usr/bin/env bash
# Shows Gable working on one machine: one parameter server, GPU proxies with the software device,
# and workers that train MNIST together, each on the GPU of another proxy. Everything it starts, it
# stops. The last line printed is one JSON object.
set -eu
cd "$(dirname "$0")/.."

usage() {
    cat <<'T'
Usage: deploy/demo.sh [options]

Installs what is missing, builds, starts a parameter server, GPU proxies and workers on loopback,
trains MNIST synchronously, writes the weights, and prints the result as one JSON line.

  --model lenet5|mlp   what to train                         [lenet5]
  --epochs N           passes over the training set          [3]
  --workers N          worker processes                      [2]
  --proxies N          GPU proxies, one software GPU each     [as many as workers]
  --data DIR           folder with the four IDX files        [tests/data/mnist]
  --out DIR            where weights and logs go             [build/demo]
  --help               this text
T
}

model=lenet5 epochs=3 workers=2 proxies='' data=tests/data/mnist out=build/demo
while [ $# -gt 0 ]; do
    case "$1" in
    --help | -h) usage && exit 0 ;;
    --model | --epochs | --workers | --proxies | --data | --out)
        [ $# -ge 2 ] || { echo "demo.sh: $1 wants a value: see deploy/demo.sh --help" >&2; exit 2; }
        printf -v "${1#--}" '%s' "$2"
        shift 2
        ;;
    *)
        echo "demo.sh: unknown option '$1': see deploy/demo.sh --help" >&2
        exit 2
        ;;
    esac
done
for n in "$epochs" "$workers" "${proxies:=$workers}"; do
    [[ "$n" =~ ^[1-9][0-9]{0,3}$ ]] || { echo "demo.sh: '$n' is not a count of 1 or more" >&2; exit 2; }
done
if [ "$proxies" -lt "$workers" ]; then
    echo "demo.sh: each worker needs a GPU: give --proxies $workers or more" >&2
    exit 2
fi

deploy/setup.sh
mkdir -p build/log "$out"
if ! { cmake --preset release && cmake --build --preset release -j "$(nproc)"; } \
    >build/log/demo-build.log 2>&1; then
    tail -n 40 build/log/demo-build.log >&2
    echo "demo.sh: the build failed: the whole log is build/log/demo-build.log" >&2
    exit 1
fi

bin=$PWD/build/release/bin
run=$(mktemp -d)
pids=()

stop_all() { # in reverse order of starting; a process gets 5 s to end by itself
    local i pid
    for ((i = ${#pids[@]} - 1; i >= 0; i--)); do
        pid=${pids[$i]}
        kill -TERM "$pid" 2>/dev/null || continue
        timeout 5 tail --pid="$pid" -f /dev/null 2>/dev/null || kill -KILL "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    pids=()
    rm -rf "$run"
}
trap stop_all EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

start() { # start NAME command...: in the background, output to NAME.log and NAME.err
    local name=$1
    shift
    "$@" >"$run/$name.log" 2>"$out/$name.err" &
    pids+=($!)
}

wait_ready() { # wait_ready NAME FIELD: waits for "ready", prints the value of FIELD=
    local name=$1 field=$2 deadline=$((SECONDS + 30)) pid=${pids[-1]}
    until grep -q ': ready' "$run/$name.log" 2>/dev/null; do
        if ! kill -0 "$pid" 2>/dev/null || [ $SECONDS -ge $deadline ]; then
            cat "$out/$name.err" >&2
            echo "demo.sh: $name did not start: its log is $out/$name.err" >&2
            exit 1
        fi
        read -rt 0.05 <> <(:) || true
    done
    sed -n "s/.*: ready.* $field=\([^ ]*\).*/\1/p" "$run/$name.log"
}

echo "starting ps-server, $proxies gpu-proxy, $workers worker ($model, $epochs epochs)"
start ps-server "$bin/ps-server" --listen 127.0.0.1:0 --data-listen 127.0.0.1:0 --insecure \
    --state-dir "$run/state"
wait_ready ps-server grpc >"$run/server" # not $(...): a failure there must end this script
server=$(cat "$run/server")

# Each software GPU gets its part of the cores: on one machine they would only fight over them.
threads=$(($(nproc) / proxies))
[ $threads -ge 1 ] || threads=1
for ((p = 1; p <= proxies; p++)); do
    start "gpu-proxy$p" env GABLE_CPU_THREADS=$threads "$bin/gpu-proxy" --server "$server" \
        --listen 127.0.0.1:0 --data-listen 127.0.0.1:0 --insecure --driver cpu
    wait_ready "gpu-proxy$p" data >"$run/proxy"
done

# Worker 1 writes through tee, so it cannot see that this is a terminal.
[ -t 2 ] && export GABLE_PROGRESS=bar

weights=$out/$model.safetensors
rm -f "$weights"
for ((w = 1; w <= workers; w++)); do
    args=(--server "$server" --insecure --model "$model" --data "$data" --epochs "$epochs"
        --gpus 1 --mode bsp --job demo --workers "$workers")
    if [ "$w" -eq 1 ]; then
        "$bin/worker" "${args[@]}" --out "$weights" --json 2> >(tee "$out/worker1.err" >&2) \
            >"$run/worker1.log" &
        pids+=($!)
    else
        GABLE_PROGRESS=none start "worker$w" "$bin/worker" "${args[@]}"
    fi
done

# The first failure ends the demo: the other workers would wait for the one that is gone.
status=0
declare -A training
for pid in "${pids[@]:proxies+1}"; do training[$pid]=1; done
while [ ${#training[@]} -gt 0 ] && [ $status -eq 0 ]; do
    wait -n -p ended "${!training[@]}" || status=$?
    unset "training[$ended]"
done
if [ $status -ne 0 ]; then
    for ((w = 2; w <= workers; w++)); do # what worker 1 had to say is on the screen
        sed "s/^/worker $w: /" "$out/worker$w.err" | tail -n 2 >&2
    done
    echo "demo.sh: a worker failed: the logs are in $out" >&2
    exit 1
fi
stop_json=$(tail -n 1 "$run/worker1.log")
stop_all
trap - EXIT
echo "$stop_json"
