#!/usr/bin/env python3
"""A benchmark that is killed leaves none of the servers running that it has started."""
import os
import shutil
import subprocess
import sys
import time

BUILD = os.environ["GABLE_BUILD_DIR"]
SLOW = 4 if os.environ.get("GABLE_SANITIZE") else 1


def wait_for(what, condition, seconds):
    end = time.monotonic() + seconds * SLOW
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > end:
            sys.exit(f"FAILED: waited in vain for {what}")
        time.sleep(0.02)


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(child) for child in file.read().split()]


def runs(pid, program):
    """Does the process run that program (and not, still, a copy of its parent)?"""
    try:
        return os.readlink(f"/proc/{pid}/exe") == os.path.realpath(f"{BUILD}/bin/{program}")
    except OSError:
        return False


def socket_folder(pid):
    """Of the proxy's socket: what is killed cannot remove it."""
    with open(f"/proc/{pid}/cmdline", encoding="ascii") as file:
        words = file.read().split("\0")
    return os.path.dirname(words[words.index("--unix") + 1])


bench = subprocess.Popen([f"{BUILD}/bench/remote_overhead", "--smoke"], stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL)
try:
    proxy = wait_for("the benchmark's proxy",
                     lambda: next((c for c in children(bench.pid) if runs(c, "gpu-proxy")), None), 20)
    folder = socket_folder(proxy)
finally:
    bench.kill()
    bench.wait()
wait_for("the proxy's end", lambda: not runs(proxy, "gpu-proxy"), 10)
shutil.rmtree(folder)
print("ok: the proxy ended with its benchmark")
