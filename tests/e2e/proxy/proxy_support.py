"""Starts gpu-proxy and CUDA clients on loopback for the tests of the proxy. Every wait has a deadline."""
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback

BUILD = os.environ["GABLE_BUILD_DIR"]
SLOW = 5 if os.environ.get("GABLE_SANITIZE") else 1
KEY = "00112233445566778899aabbccddeeff" * 2


def check(condition, message):
    if not condition:
        raise AssertionError(message)


def wait_until(condition, seconds, what):
    """Polls until condition() holds; returns the seconds it took."""
    start = time.monotonic()
    while not condition():
        check(time.monotonic() - start < seconds * SLOW, f"not within {seconds} s: {what}")
        time.sleep(0.01)
    return time.monotonic() - start


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
            return [int(word) for word in f.read().split()]
    except FileNotFoundError:
        return []


class Program:
    def __init__(self, argv, env=None):
        self.argv = argv
        self.err = []
        self.process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            bufsize=1, env={**os.environ, "TSAN_OPTIONS": "atexit_sleep_ms=0", **(env or {})})
        self.out = []
        self.threads = [threading.Thread(target=self._read, args=pair, daemon=True) for pair in
                        ((self.process.stdout, self.out), (self.process.stderr, self.err))]
        for thread in self.threads:
            thread.start()

    @staticmethod
    def _read(pipe, lines):
        for line in pipe:
            lines.append(line.rstrip("\n"))

    @property
    def pid(self):
        return self.process.pid

    def line(self, number, seconds=20):
        """Line `number` of stdout."""
        def there():
            if len(self.out) > number:
                return True
            check(self.process.poll() is None or self.threads[0].is_alive(),
                  f"{self.argv[0]} ended: {self.err}")
            return False
        wait_until(there, seconds, f"line {number} of {self.argv[0]}, stderr: {self.err}")
        return self.out[number]

    def wait(self, seconds=10):
        code = self.process.wait(seconds * SLOW)
        for thread in self.threads:
            thread.join(5 * SLOW)
        return code

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


class Proxy(Program):
    def __init__(self, *options, env=None):
        # without spares every child is somebody's session
        super().__init__([f"{BUILD}/bin/gpu-proxy", "--spare", "0", *options], env)
        self.ready = dict(word.split("=", 1) for word in self.line(0, 60).split() if "=" in word)

    def sessions(self):
        return [pid for pid in children(self.pid) if alive(pid)]

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.wait()


class Client(Program):
    """proxy_client: a CUDA program that does what it is told."""

    def __init__(self, endpoint, env=None):
        super().__init__([f"{BUILD}/tests/proxy_client"], {"GABLE_PROXIES": endpoint, **(env or {})})
        self.asked = 0

    def tell(self, command):
        self.process.stdin.write(command + "\n")
        self.asked += 1
        return self.asked - 1

    def answer(self, number, seconds=20):
        return int(self.line(number, seconds).rsplit(" ", 1)[1])

    def ask(self, command, seconds=20):
        return self.answer(self.tell(command), seconds)

    def end(self):
        self.process.stdin.close()
        return self.wait()


class Bench:
    """A temporary folder and the programs of one test; all of them end with it."""

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="gable-test-")
        self.programs = []
        return self

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def start(self, program):
        self.programs.append(program)
        return program

    def proxy(self, *options, env=None):
        return self.start(Proxy(*options, env=env))

    def client(self, endpoint, env=None):
        return self.start(Client(endpoint, env))

    def key_file(self, text=KEY):
        path = self.path(f"key{len(os.listdir(self.folder.name))}")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as f:
            f.write(text + "\n")
        return path

    def __exit__(self, kind, value, trace):
        for program in reversed(self.programs):
            program.kill()
        if kind:
            for program in self.programs:
                print(program.argv, "stdout:", program.out, "stderr:", *program.err, sep="\n  ")
        self.folder.cleanup()


def main(tests):
    failed = 0
    for test in tests:
        start = time.monotonic()
        try:
            with Bench() as bench:
                test(bench)
            print(f"ok {test.__name__} {time.monotonic() - start:.1f} s", flush=True)
        except Exception:
            failed += 1
            print(f"FAILED {test.__name__}", flush=True)
            traceback.print_exc()
    sys.exit(1 if failed else 0)
