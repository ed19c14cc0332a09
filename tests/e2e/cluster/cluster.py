"""cluster.py - starts real ps-server and gpu-proxy processes for the tests of the control plane.

Everything listens on free ports of 127.0.0.1 and lives in one temporary folder; close() ends it all and
checks that whoever was asked to end did so with exit code 0.
"""
import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

BUILD = os.environ["GABLE_BUILD_DIR"]
SANITIZED = bool(os.environ.get("GABLE_SANITIZE"))
SLOW = 8 if SANITIZED else 1


def die_with_parent():
    """In the child: a test that is killed leaves nothing running (PR_SET_PDEATHSIG, SIGKILL)."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def wait_for(what, condition, seconds=10):
    """Polls until condition() gives something true, which is returned."""
    end = time.monotonic() + seconds * SLOW
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > end:
            raise AssertionError(f"waited in vain for {what}")
        time.sleep(0.02)


class Process:
    """A program with its output in files, so that it can be read while it runs."""

    def __init__(self, cluster, name, args, env=None):
        self.name = name
        self.out_path = os.path.join(cluster.folder, name + ".out")
        self.err_path = os.path.join(cluster.folder, name + ".err")
        with open(self.out_path, "w") as out, open(self.err_path, "a") as err:
            self.popen = subprocess.Popen(args, stdout=out, stderr=err, stdin=subprocess.DEVNULL,
                                          env=env or cluster.env, preexec_fn=die_with_parent)

    def out(self):
        with open(self.out_path) as f:
            return f.read()

    def err(self):
        with open(self.err_path) as f:
            return f.read()

    def ready(self):
        """Fields of the readiness line."""
        def look():
            assert self.popen.poll() is None, f"{self.name} ended: {self.err()}"
            return ": ready " in self.out() and self.out().endswith("\n")
        wait_for(f"{self.name} to be ready", look, 20)
        return dict(f.split("=", 1) for f in self.out().split(": ready ")[1].split())

    def stop(self):
        if self.popen.poll() is None:
            self.popen.send_signal(signal.SIGTERM)
        return self.popen.wait(20 * SLOW)

    def kill(self):
        self.popen.kill()
        self.popen.wait()


class Cluster:
    def __init__(self, server_args=()):
        self.folder = tempfile.mkdtemp(prefix="gable-e2e-")
        self.env = dict(os.environ)
        for name in ("GABLE_SERVER", "GABLE_TLS_DIR", "GABLE_LEASE", "GABLE_STATE_DIR"):
            self.env.pop(name, None)
        supp = os.path.join(os.environ["GABLE_SOURCE_DIR"], "tests", "tsan.supp")
        self.env["TSAN_OPTIONS"] = f"suppressions={supp}"
        self.server_args = list(server_args)
        self.server = None
        self.proxies = {}
        self.address = None

    def start_server(self, listen="127.0.0.1:0"):
        args = [f"{BUILD}/bin/ps-server", "--listen", listen, "--data-listen", "127.0.0.1:0",
                "--state-dir", os.path.join(self.folder, "state")] + self.server_args
        self.server = Process(self, "ps-server", args)
        fields = self.server.ready()
        self.address = fields["grpc"]
        self.data = fields["data"]
        self.env["GABLE_SERVER"] = self.address

    def launch_proxy(self, name, args=("--insecure",)):
        """Starts one and does not wait for it."""
        command = [f"{BUILD}/bin/gpu-proxy", "--server", self.address, "--listen", "127.0.0.1:0",
                   "--data-listen", "127.0.0.1:0", "--unix", os.path.join(self.folder, name + ".s"),
                   "--name", name, "--driver", "null"] + list(args)
        proxy = Process(self, name, command)
        self.proxies[name] = proxy
        return proxy

    def start_proxy(self, name, args=("--insecure",)):
        proxy = self.launch_proxy(name, args)
        proxy.fields = proxy.ready()
        return proxy

    def gable(self, *args, env=None):
        return subprocess.run([f"{BUILD}/bin/gable", *args], env=env or self.env, text=True,
                              capture_output=True, stdin=subprocess.DEVNULL, timeout=60 * SLOW)

    def list(self, *args):
        result = self.gable(*args, "--json")
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    def wait_devices(self, count, seconds=10):
        wait_for(f"{count} devices", lambda: len(self.list("devices")) == count, seconds)

    def close(self):
        codes = {}
        for process in list(self.proxies.values()) + [self.server]:
            if process and process.popen.returncode is None:
                codes[process.name] = process.stop()
        logs = {p.name: p.err() for p in list(self.proxies.values()) + [self.server] if p}
        shutil.rmtree(self.folder, ignore_errors=True)
        for name, code in codes.items():
            assert code == 0, f"{name} ended with {code}: {logs[name]}"


def send_garbage(address, data):
    """Sends bytes; returns what comes until the other side closes."""
    host, port = address.rsplit(":", 1)
    got = b""
    with socket.create_connection((host, int(port)), timeout=10 * SLOW) as s:
        try:
            s.sendall(data)
            while True:
                piece = s.recv(4096)
                if not piece:
                    return got
                got += piece
        except ConnectionError:
            return got
