"""Starts real servers, proxies and workers on loopback for the training tests, and stops them.

Every wait has a deadline; on failure (or with GABLE_TEST_LOGS=1) the logs of all programs are printed.
"""
import contextlib
import gzip
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time

BUILD = os.environ["GABLE_BUILD_DIR"]
SOURCE = os.environ["GABLE_SOURCE_DIR"]
SLOW = 4 if os.environ.get("GABLE_SANITIZE") else 1


class Failure(Exception):
    pass


def check(condition, message):
    if not condition:
        raise Failure(message)


class Program:
    """A running program; its output is collected by threads."""

    def __init__(self, name, argv, env=None):
        self.name = name
        self.lines = {"out": [], "err": []}
        self.changed = threading.Condition()
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, env={**os.environ, **(env or {})})
        self.readers = []
        for key, pipe in (("out", self.process.stdout), ("err", self.process.stderr)):
            reader = threading.Thread(target=self.read, args=(key, pipe), daemon=True)
            reader.start()
            self.readers.append(reader)

    def read(self, key, pipe):
        for line in pipe:
            with self.changed:
                self.lines[key].append(line.rstrip("\n"))
                self.changed.notify_all()

    def wait_line(self, text, key="err", seconds=30):
        """The first line that contains text."""
        end = time.monotonic() + seconds * SLOW
        with self.changed:
            while True:
                for line in self.lines[key]:
                    if text in line:
                        return line
                if self.process.poll() is not None and not any(r.is_alive() for r in self.readers):
                    raise Failure(f"{self.name} ended without saying '{text}'")
                left = end - time.monotonic()
                check(left > 0, f"{self.name} does not say '{text}'")
                self.changed.wait(min(left, 0.2))

    def wait(self, seconds=60):
        """Exit code, negative for a signal."""
        try:
            code = self.process.wait(seconds * SLOW)
        except subprocess.TimeoutExpired:
            raise Failure(f"{self.name} does not end") from None
        for reader in self.readers:
            reader.join()
        return code

    def kill(self):
        self.process.kill()
        self.wait()

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(5 * SLOW)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def text(self):
        return "\n".join(f"[{self.name}] {line}" for key in ("out", "err")
                         for line in self.lines[key])

    def json(self):
        check(self.lines["out"], f"{self.name} printed no JSON line")
        return json.loads(self.lines["out"][-1])


def field(line, key):
    for word in line.split():
        if word.startswith(key + "="):
            return word[len(key) + 1:]
    raise Failure(f"no {key}= in '{line}'")


class Site:
    """A folder, a small data set, and the programs of one test."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="gable-train-")
        self.programs = []
        self.server = None
        self.grpc = None

    def path(self, name):
        return os.path.join(self.dir, name)

    def start(self, name, argv, env=None):
        argv[0] = os.path.join(BUILD, argv[0])
        program = Program(name, argv, env)
        self.programs.append(program)
        return program

    def small_data(self, train=6000, test=1000):
        """The first samples of MNIST, as plain IDX files."""
        folder = self.path("data")
        os.mkdir(folder)
        for prefix, count in (("train", train), ("t10k", test)):
            for kind, header, size in (("images-idx3", 16, 784), ("labels-idx1", 8, 1)):
                name = f"{prefix}-{kind}-ubyte"
                with gzip.open(f"{SOURCE}/tests/data/mnist/{name}.gz") as file:
                    data = bytearray(file.read(header + count * size))
                data[4:8] = struct.pack(">I", count)
                with open(f"{folder}/{name}", "wb") as file:
                    file.write(data)
        return folder

    def start_server(self, grpc="127.0.0.1:0", data="127.0.0.1:0"):
        self.server = self.start("ps-server", [
            "bin/ps-server", "--listen", grpc, "--data-listen", data, "--insecure",
            "--state-dir", self.path("state")])
        ready = self.server.wait_line("ready", "out")
        self.grpc, self.data_port = field(ready, "grpc"), field(ready, "data")
        return self.server

    def start_proxy(self, number, unix=False):
        argv = ["bin/gpu-proxy", "--insecure", "--driver", "cpu"]
        if unix:
            argv += ["--data-listen", "none", "--unix", self.path(f"proxy{number}")]
        else:
            argv += ["--server", self.grpc, "--listen", "127.0.0.1:0", "--data-listen",
                     "127.0.0.1:0", "--name", f"proxy{number}"]
        proxy = self.start(f"gpu-proxy{number}", argv, {"GABLE_CPU_THREADS": "1"})
        proxy.wait_line("ready", "out")
        return proxy

    def start_worker(self, name, *options, env=None):
        return self.start(name, ["bin/worker", "--json", *options],
                          {"GABLE_PROGRESS": "lines", "GABLE_CPU_THREADS": "1", **(env or {})})

    def close(self, failed):
        for program in reversed(self.programs):
            program.stop()
        if failed or os.environ.get("GABLE_TEST_LOGS"):
            for program in self.programs:
                print(program.text(), file=sys.stderr)
        shutil.rmtree(self.dir, ignore_errors=True)


@contextlib.contextmanager
def site():
    s = Site()
    failed = True
    try:
        yield s
        failed = False
    finally:
        s.close(failed)


def main(tests):
    """Runs every test; the exit code tells."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    wanted = sys.argv[1:]
    for test in tests:
        if wanted and test.__name__ not in wanted:
            continue
        start = time.monotonic()
        try:
            test()
        except Failure as failure:
            print(f"FAILED {test.__name__}: {failure}", file=sys.stderr)
            sys.exit(1)
        print(f"ok {test.__name__} ({time.monotonic() - start:.1f} s)")
