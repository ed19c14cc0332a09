#!/usr/bin/python3
"""Bad days of the control plane: what is in the way, what dies, what sends rubbish."""
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../e2e/cluster"))
from cluster import BUILD, SLOW, Cluster, Process, send_garbage, wait_for  # noqa: E402


def run(cluster, *args):
    return subprocess.run(args, env=cluster.env, text=True, capture_output=True,
                          stdin=subprocess.DEVNULL, timeout=60 * SLOW)


class Start(unittest.TestCase):
    """Programs that cannot start say why in one line, and leave nothing behind."""

    def setUp(self):
        self.c = Cluster()

    def tearDown(self):
        self.c.close()

    def refuse(self, code, word, *args):
        result = run(self.c, *args)
        self.assertEqual(result.returncode, code, result.stderr)
        lines = result.stderr.splitlines()
        self.assertIn(word, lines[-1])
        self.assertTrue(lines[-1].startswith(os.path.basename(args[0]) + ": "))
        self.assertNotIn("ready", result.stdout)

    def test_ports_in_use(self):
        self.c.start_server()
        state = os.path.join(self.c.folder, "second")
        server = [f"{BUILD}/bin/ps-server", "--state-dir", state]
        self.refuse(1, f"port {self.c.address} is in use", *server, "--listen", self.c.address,
                    "--data-listen", "127.0.0.1:0")
        self.refuse(1, self.c.data, *server, "--listen", "127.0.0.1:0", "--data-listen",
                    self.c.data)
        self.refuse(1, f"port {self.c.address} is in use", f"{BUILD}/bin/gpu-proxy", "--server",
                    self.c.address, "--listen", self.c.address, "--data-listen", "127.0.0.1:0",
                    "--insecure", "--driver", "null")

    def test_state_folder_in_use(self):
        self.c.start_server()
        self.refuse(1, "another ps-server runs on this state folder", f"{BUILD}/bin/ps-server",
                    "--listen", "127.0.0.1:0", "--data-listen", "127.0.0.1:0", "--state-dir",
                    os.path.join(self.c.folder, "state"))

    def test_state_that_is_no_database(self):
        state = os.path.join(self.c.folder, "state")
        os.mkdir(state)
        with open(os.path.join(state, "leases.db"), "wb") as f:
            f.write(b"this is not a database" * 100)
        self.refuse(2, "is not a database", f"{BUILD}/bin/ps-server", "--listen", "127.0.0.1:0",
                    "--data-listen", "127.0.0.1:0", "--state-dir", state)

    def test_wrong_options(self):
        server = [f"{BUILD}/bin/ps-server", "--state-dir", os.path.join(self.c.folder, "s")]
        self.refuse(2, "--tls-dir", *server, "--listen", "0.0.0.0:0")
        self.refuse(2, "--advertise", *server, "--listen", "0.0.0.0:0", "--insecure")
        self.refuse(2, "--role", *server, "--role", "king")
        self.refuse(2, "--heartbeat", *server, "--heartbeat", "1")
        self.refuse(2, "nonsense", *server, "nonsense")
        self.refuse(1, "192.0.2.1", *server, "--insecure", "--listen", "192.0.2.1:0")
        config = os.path.join(self.c.folder, "conf")
        with open(config, "w") as f:
            f.write("heartbeat = 1 # too fast\n")
        self.refuse(2, "--heartbeat 1", *server, "--config", config)

    def test_unreachable_server(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{s.getsockname()[1]}"
        for command in (["status"], ["devices"], ["run", "--", "true"]):
            result = self.c.gable(*command, "--server", address) if command[0] != "run" else \
                self.c.gable("run", "--server", address, "--", "true")
            self.assertEqual(result.returncode, 1)
            self.assertIn(f"no server answers at {address}", result.stderr)
            self.assertEqual(len(result.stderr.splitlines()), 1)
        self.assertEqual(self.c.gable("status", "--server", "nonsense").returncode, 2)

    def test_ready_means_usable(self):
        """Who has read a proxy's ready line gets its device, also if the server comes late."""
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.c.address = f"127.0.0.1:{s.getsockname()[1]}"
        early = self.c.launch_proxy("early")
        wait_for("the proxy's complaint", lambda: "no connection to the server" in early.err())
        self.assertEqual(early.out(), "")
        self.c.start_server(self.c.address)
        early.ready()
        self.assertEqual([d["id"] for d in self.c.list("devices")], ["early/0"])
        self.c.start_proxy("late")
        self.assertEqual(self.c.gable("run", "--gpus", "2", "--", "true").returncode, 0)


class Garbage(unittest.TestCase):
    def test_garbage_disturbs_nobody(self):
        c = Cluster()
        self.addCleanup(c.close)
        c.start_server()
        c.start_proxy("alpha")
        c.wait_devices(1)
        for data in (b"GET / HTTP/1.1\r\n\r\n", os.urandom(4096), b"\x16\x03\x01" + b"x" * 200,
                     b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 500):
            send_garbage(c.address, data)
        wait_for("a line in the log", lambda: c.server.err().count("not gRPC") >= 3)
        send_garbage(c.data, os.urandom(300))
        send_garbage(c.proxies["alpha"].fields["data"], os.urandom(300))
        self.assertEqual(c.gable("run", "--", "true").returncode, 0)

    def test_many_silent_connections(self):
        c = Cluster()
        self.addCleanup(c.close)
        c.start_server()
        host, port = c.address.split(":")
        idle = [socket.create_connection((host, int(port))) for _ in range(300)]
        self.assertEqual(c.gable("status").returncode, 0)
        for s in idle:
            s.close()


class Deaths(unittest.TestCase):
    def setUp(self):
        self.c = Cluster(["--heartbeat", "200", "--proxy-return", "1000"])
        self.c.start_server()
        self.c.start_proxy("alpha")
        self.c.start_proxy("beta")
        self.c.wait_devices(2)

    def tearDown(self):
        self.c.close()

    def holder(self, name, *args):
        """A program that holds a lease until told to end."""
        script = "trap 'exit 5' TERM; echo up; while :; do sleep 0.05; done"
        process = Process(self.c, name, [f"{BUILD}/bin/gable", "run", *args, "--", "sh", "-c",
                                         script])
        self.addCleanup(process.kill)
        wait_for("the program", lambda: "up" in process.out())
        return process

    def end(self, process):
        process.popen.send_signal(signal.SIGTERM)
        self.assertEqual(process.popen.wait(20 * SLOW), 5)

    def test_proxy_killed(self):
        lease = self.holder("lease", "--device", "alpha/0")
        self.c.proxies["alpha"].kill()
        self.c.wait_devices(1)
        wait_for("the lease's end", lambda: self.c.list("status")["leases"] == 0)
        self.assertIn("proxy alpha is gone", self.c.server.err())
        self.end(lease)
        # It may come back, and is used again.
        self.c.start_proxy("alpha")
        self.c.wait_devices(2)
        self.assertEqual(self.c.gable("run", "--device", "alpha/0", "--", "true").returncode, 0)

    def test_proxy_stopped_is_silent(self):
        proxy = self.c.proxies["alpha"]
        os.kill(proxy.popen.pid, signal.SIGSTOP)
        try:
            self.c.wait_devices(1)
        finally:
            os.kill(proxy.popen.pid, signal.SIGCONT)
        self.c.wait_devices(2)

    def test_proxy_ended_in_good_order(self):
        begin = time.monotonic()
        self.assertEqual(self.c.proxies["alpha"].stop(), 0)
        self.c.wait_devices(1)
        self.assertLess(time.monotonic() - begin, 5 * SLOW)
        self.assertIn("proxy alpha says goodbye", self.c.server.err())

    def test_server_killed_and_restarted(self):
        lease = self.holder("lease", "--device", "alpha/0")
        self.c.server.kill()
        result = self.c.gable("status")
        self.assertEqual(result.returncode, 1)
        self.c.start_server(self.c.address)
        self.c.wait_devices(2)
        status = self.c.list("status")
        self.assertEqual((status["generation"], status["leases"], status["devices_free"]),
                         (2, 1, 1))
        # The lease goes on: its device is not given to another, and its end is heard.
        result = self.c.gable("run", "--device", "alpha/0", "--", "true")
        self.assertIn("0 of 1 free", result.stderr)
        self.end(lease)
        wait_for("a free device", lambda: self.c.list("status")["devices_free"] == 2)

    def test_holder_killed(self):
        self.c.server.stop()
        self.c.server_args += ["--lease-ttl", "1000"]
        self.c.start_server(self.c.address)
        self.c.wait_devices(2)
        lease = self.holder("lease", "--device", "beta/0")
        self.assertEqual(self.c.list("status")["devices_free"], 1)
        children = subprocess.run(["pgrep", "-P", str(lease.popen.pid)], text=True,
                                  capture_output=True).stdout.split()
        with open(f"/proc/{children[0]}/environ") as f:
            file = [v for v in f.read().split("\0") if v.startswith("GABLE_LEASE=")][0]
        self.addCleanup(shutil.rmtree, os.path.dirname(file.split("=", 1)[1]))
        lease.kill()
        for child in children:
            os.kill(int(child), signal.SIGKILL)
        wait_for("a free device", lambda: self.c.list("status")["devices_free"] == 2)


if __name__ == "__main__":
    unittest.main()
