#!/usr/bin/env python3
"""run_app.py APP: runs a sample program on the software device in process, then over one gpu-proxy,
then over two, and compares what it prints with what it must print."""

import os
import subprocess
import sys
import tempfile

BUILD = os.environ["GABLE_BUILD_DIR"]
HERE = os.path.dirname(os.path.abspath(__file__))
APP = sys.argv[1]
TIMEOUT = 50 if not os.environ.get("GABLE_SANITIZE") else 200


def run_app(kind, **more):
    env = dict(os.environ, LD_LIBRARY_PATH=os.path.join(BUILD, "lib/gable", kind), **more)
    done = subprocess.run([os.path.join(BUILD, "tests/apps", APP)], env=env, text=True,
                          stdout=subprocess.PIPE, timeout=TIMEOUT)
    if done.returncode:
        sys.exit(f"{APP} on {kind} {more}: exit code {done.returncode}\n{done.stdout}")
    return done.stdout


class Proxy:
    """A gpu-proxy with one software device on a Unix socket."""

    def __init__(self, folder, name):
        self.path = os.path.join(folder, name)
        self.process = subprocess.Popen(
            [os.path.join(BUILD, "bin/gpu-proxy"), "--unix", self.path, "--data-listen", "none",
             "--driver", "cpu", "--insecure"], stdout=subprocess.PIPE, text=True)
        for line in self.process.stdout:
            if ": ready" in line:
                return
        sys.exit(f"gpu-proxy ended with {self.process.wait()} before it was ready")

    def stop(self):
        self.process.terminate()
        if self.process.wait(10):
            sys.exit(f"gpu-proxy ended with {self.process.returncode}")


def compare(where, expected, got):
    if got != expected:
        sys.exit(f"{APP} {where} prints\n{got}\nbut must print\n{expected}")


def main():
    with open(os.path.join(HERE, APP + ".expected")) as f:
        expected = f.read()
    compare("in process", expected, run_app("cpu"))
    with tempfile.TemporaryDirectory() as folder:
        proxies = [Proxy(folder, "a"), Proxy(folder, "b")]
        paths = ["unix:" + p.path for p in proxies]
        compare("over one proxy", expected, run_app("remote", GABLE_PROXIES=paths[0]))
        compare("over two proxies", expected, run_app("remote", GABLE_PROXIES=",".join(paths)))
        for p in proxies:
            p.stop()


main()
