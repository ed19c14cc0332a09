#!/usr/bin/env python3
"""over_proxy.py PROXIES PROGRAM [ARG...]: runs a program whose CUDA driver is the remote client, over so
many gpu-proxy processes with one software device each (more with GABLE_CPU_DEVICES) on Unix sockets.

Test programs of the software device take the client for their driver (GABLE_TEST_DRIVER, PT_DRIVER),
others find it through LD_LIBRARY_PATH. The settings of the device reach it through the proxies. Ends as
the program ends; fails too if a proxy does not end cleanly or a sanitizer reports on it."""

import os
import subprocess
import sys
import tempfile

BUILD = os.environ["GABLE_BUILD_DIR"]
DEVICE = {"GABLE_CPU_THREADS": "2", "GABLE_CPU_MEMORY": "256M"}


class Proxy:
    def __init__(self, folder, name):
        self.path = os.path.join(folder, name)
        self.log = open(self.path + ".log", "w+")
        env = {**DEVICE, **os.environ, "GABLE_LOG": "warn"}
        self.process = subprocess.Popen(
            [os.path.join(BUILD, "bin/gpu-proxy"), "--unix", self.path, "--data-listen", "none",
             "--driver", "cpu", "--insecure"],
            stdout=subprocess.PIPE, stderr=self.log, text=True, env=env)
        for line in self.process.stdout:
            if ": ready" in line:
                return
        self.show()
        sys.exit(f"gpu-proxy ended with {self.process.wait()} before it was ready")

    def show(self):
        self.log.seek(0)
        text = self.log.read()
        sys.stderr.write(text)
        return text

    def stop(self):
        """What is wrong with the proxy or a session, if anything."""
        self.process.terminate()
        code = self.process.wait(20)
        text = self.show()
        if code:
            return f"gpu-proxy ended with {code}"
        if "Sanitizer" in text or "runtime error" in text:
            return "a sanitizer reports on gpu-proxy or a session"
        return None


def main():
    count, command = int(sys.argv[1]), sys.argv[2:]
    remote = os.path.join(BUILD, "lib/gable/remote")
    with tempfile.TemporaryDirectory() as folder:
        proxies = [Proxy(folder, str(i)) for i in range(count)]
        env = dict(os.environ, GABLE_PROXIES=",".join("unix:" + p.path for p in proxies),
                   GABLE_TEST_DRIVER=os.path.join(remote, "libcuda.so.1"), PT_DRIVER="remote",
                   LD_LIBRARY_PATH=remote + ":" + os.path.join(BUILD, "lib/gable/runtime"))
        code = subprocess.run(command, env=env, check=False).returncode
        wrong = [w for w in [p.stop() for p in proxies] if w]
    if code < 0:
        sys.exit(f"{command[0]} was ended by signal {-code}")
    sys.exit(code or "; ".join(wrong) or 0)


main()
