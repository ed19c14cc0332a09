#!/usr/bin/env python3
"""The exchange end to end, by real processes: a shard, workers over the software device in their own
process and through shim, proxy and session. Every worker checks its weights against the reference bit
for bit; where the engine runs in the session, the gradients must not have crossed the worker's link.

exchange_test.py local|remote|mixed
"""
import os
import shutil
import subprocess
import sys
import tempfile

BUILD = os.environ["GABLE_BUILD_DIR"]
TIMEOUT = 40 * (4 if os.environ.get("GABLE_SANITIZE") else 1)
STEPS = 20


def shard(folder, workers):
    process = subprocess.Popen([f"{BUILD}/tests/params_shard", folder, "1", "0", "1000000",
                                str(workers)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline().startswith("clock 0"), "the shard does not start"
    return process


def proxy(folder, name):
    path = f"{folder}/{name}.sock"
    process = subprocess.Popen([f"{BUILD}/bin/gpu-proxy", "--data-listen", "none", "--unix", path,
                                "--driver", "cpu", "--insecure"],
                               stdout=subprocess.PIPE, text=True)
    assert "ready" in process.stdout.readline(), "the proxy does not start"
    return process, path


def run(mode):
    folder = tempfile.mkdtemp(prefix="gable-exchange-")
    kinds = {"local": ["cpu"] * 2, "remote": ["remote"] * 2, "mixed": ["cpu", "remote", "cpu"]}[mode]
    programs = [shard(folder, len(kinds))]
    try:
        workers = []
        for i, kind in enumerate(kinds):
            env = dict(os.environ)
            if kind == "remote":
                process, path = proxy(folder, f"proxy{i}")
                programs.append(process)
                env["GABLE_PROXIES"] = f"unix:{path}"
            workers.append(subprocess.Popen(
                [f"{BUILD}/tests/exchange_device", kind, f"unix:{folder}/shard.sock", str(i + 1),
                 str(len(kinds)), str(STEPS)], env=env, stdout=subprocess.PIPE, text=True))
        programs += workers
        for kind, worker in zip(kinds, workers):
            out, _ = worker.communicate(timeout=TIMEOUT)
            assert worker.returncode == 0, f"a worker over {kind} failed"
            words = out.split()
            facts = dict(zip(words[::2], map(int, words[1::2])))
            assert facts["remote"] == (kind == "remote"), facts
            # who came later pulled the initial weights as well
            assert facts["pushes"] == STEPS and STEPS <= facts["pulls"] <= STEPS + 1, facts
            assert facts["sent"] >= STEPS * 246824 and facts["received"] >= STEPS * 246824, facts
    finally:
        for program in programs:
            program.kill()
            program.wait()
        shutil.rmtree(folder)


run(sys.argv[1])
