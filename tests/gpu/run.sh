#!/bin/sh
# Runs on the machine with the GPU, from the unpacked folder: the remote tests and bench/remoting against
# NVIDIA's driver over loopback, in under five minutes. Ends with 0 if all passed; results in results.txt.
set -u
here=$(cd "$(dirname "$0")" && pwd)
out=${OUT:-$here}/results.txt
build=$(cat "$here/build-folder")
export LD_LIBRARY_PATH="$here/shared${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" GABLE_HOME="$here"
failed=0
: > "$out"

say() { echo "$*" | tee -a "$out"; }

# The tests were built with the path of the build folder.
if [ ! -e "$build" ]; then
    mkdir -p "$(dirname "$build")" && ln -s "$here" "$build" ||
        { say "run.sh: $build cannot be made: run this as a user who can"; exit 2; }
fi
nvidia-smi -L 2>&1 | tee -a "$out"
"$here/bin/gpu-session" --probe --driver nvidia >> "$out" 2>&1 ||
    { say "run.sh: NVIDIA's driver has no device here: see $out"; exit 1; }

step() {
    name=$1
    shift
    if timeout 100 "$@" >> "$out" 2>&1; then say "ok     $name"; else say "FAILED $name"; failed=1; fi
}
step calls "$here/tests/test_remote_calls_null" nvidia
step threads "$here/tests/test_remote_threads_null" nvidia

# Do the windows of addresses hold on this driver?
"$here/bin/gpu-proxy" --insecure --data-listen none --unix "$here/proxy" --driver nvidia \
    > "$here/proxy.log" 2>&1 &
proxy=$!
for _ in $(seq 100); do grep -q ready "$here/proxy.log" && break; sleep 0.1; done
step windows env GABLE_PROXIES="unix:$here/proxy" "$here/tests/gpu_windows"
kill "$proxy"
wait "$proxy" 2> /dev/null

for link in shm unix tcp tls; do
    step "remoting over $link" "$here/bench/remoting" --json --rounds 5 --driver nvidia \
        --link "$link" --placement split --only 2
    for what in sync launch step p2p open; do
        step "remoting over $link: $what" "$here/bench/remoting" --json --rounds 5 --driver nvidia \
            --link "$link" --placement split --only "$what"
    done
done
exit $failed
