#!/usr/bin/python3
"""gable against a real ps-server and two gpu-proxy: lists, run, certificates."""
import os
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cluster import BUILD, SANITIZED, SLOW, Cluster, Process, wait_for  # noqa: E402

# A CUDA program of a few lines: opens a context on device 0 and holds it until told to end.
HOLDER = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
assert cuda.cuInit(0) == 0
count = ctypes.c_int()
assert cuda.cuDeviceGetCount(ctypes.byref(count)) == 0
context = ctypes.c_void_p()
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
print("devices", count.value, flush=True)
import signal
signal.pause()
"""


class Lists(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.c = Cluster()
        cls.c.start_server()
        cls.c.start_proxy("alpha")
        cls.c.start_proxy("beta")
        cls.c.wait_devices(2)

    @classmethod
    def tearDownClass(cls):
        cls.c.close()

    def test_status(self):
        status = self.c.list("status")
        self.assertEqual(status["server"], self.c.address)
        self.assertEqual((status["proxies"], status["devices"], status["devices_free"]), (2, 2, 2))
        self.assertEqual(status["data"], self.c.data)
        text = self.c.gable("status").stdout
        self.assertIn("devices free   2", text)

    def test_devices(self):
        devices = self.c.list("devices")
        self.assertEqual([d["id"] for d in devices], ["alpha/0", "beta/0"])
        for d in devices:
            self.assertEqual(d["driver"], "null")
            self.assertEqual((d["leases"], d["leases_max"], d["sessions"]), (0, 1, 0))
        self.assertEqual(devices[0]["endpoint"], self.c.proxies["alpha"].fields["data"])
        lines = self.c.gable("devices").stdout.splitlines()
        self.assertTrue(lines[0].startswith("DEVICE"))
        self.assertEqual(len(lines), 3)

    def test_empty_lists(self):
        for name in ("sessions", "params", "jobs"):
            self.assertEqual(self.c.list(name), [])
            self.assertTrue(self.c.gable(name).stdout.startswith("no "))

    def test_wrong_usage(self):
        for args in (["nonsense"], [], ["devices", "extra"], ["status", "--no-such-option"],
                     ["sessions", "kill"], ["sessions", "kill", "xyz"], ["run"],
                     ["run", "--gpus", "0", "--", "true"], ["ca"], ["ca", "issue"]):
            result = self.c.gable(*args)
            self.assertEqual(result.returncode, 2, (args, result.stderr))
            self.assertTrue(result.stderr)

    def test_help(self):
        for args in (["--help"], ["status", "--help"], ["run", "--help"], ["ca", "--help"],
                     ["ca", "issue", "--help"]):
            result = self.c.gable(*args)
            self.assertEqual(result.returncode, 0)
            self.assertIn("Usage: gable", result.stdout)

    def test_not_a_ps_server(self):
        result = self.c.gable("status", "--server", self.c.proxies["alpha"].fields["grpc"])
        self.assertEqual(result.returncode, 1)
        self.assertIn("is no ps-server", result.stderr)

    def test_run_environment(self):
        result = self.c.gable("run", "--gpus", "2", "--", "sh", "-c",
                              "cat $GABLE_LEASE; echo lib=$LD_LIBRARY_PATH; "
                              "stat -c mode=%a $GABLE_LEASE; echo file=$GABLE_LEASE; exit 7")
        self.assertEqual(result.returncode, 7, result.stderr)
        out = result.stdout
        self.assertTrue(out.startswith("gable-lease 1\nlease "))
        # Both proxies are on this machine: their Unix sockets are the faster way.
        self.assertEqual(out.count("\nproxy unix:"), 2)
        self.assertEqual(out.count("\nshard 127.0.0.1:"), 1)
        self.assertIn("lib/gable/remote", out)
        self.assertIn("mode=600", out)
        file = out.split("file=")[1].strip()
        self.assertFalse(os.path.exists(file))
        self.assertEqual(self.c.list("status")["leases"], 0)

    def test_run_exit_codes(self):
        self.assertEqual(self.c.gable("run", "--", "true").returncode, 0)
        self.assertEqual(self.c.gable("run", "--", "sh", "-c", "kill -9 $$").returncode, 137)
        self.assertEqual(self.c.gable("run", "--", "no-such-program").returncode, 127)
        self.assertEqual(self.c.gable("run", "--", "/etc/passwd").returncode, 126)
        self.assertEqual(self.c.gable("run", "--local", "--", "sh", "-c",
                                      "case $LD_LIBRARY_PATH in *gable/cpu*) exit 3;; esac").returncode, 3)

    def test_run_refused(self):
        result = self.c.gable("run", "--gpus", "3", "--", "true")
        self.assertEqual(result.returncode, 1)
        self.assertIn("3 GPUs asked, 2 of 2 free", result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 1)

    def test_run_wait_is_interrupted(self):
        run = Process(self.c, "waiting", [f"{BUILD}/bin/gable", "run", "--gpus", "3", "--wait", "60",
                                          "--", "true"])
        self.addCleanup(run.kill)
        # It blocks the signals before it waits: only then is this one worth sending. SIGCHLD tells,
        # since the kernel shows those that sigtimedwait waits for as not blocked.
        blocked = 1 << (signal.SIGCHLD - 1)
        def waits():
            with open(f"/proc/{run.popen.pid}/status") as f:
                masks = [line.split()[1] for line in f if line.startswith("SigBlk")]
            return int(masks[0], 16) & blocked
        wait_for("the blocked signal", waits)
        run.popen.send_signal(signal.SIGTERM)
        self.assertEqual(run.popen.wait(20 * SLOW), 1)
        self.assertIn("interrupted", run.err())

    def test_run_passes_signals(self):
        script = "trap 'exit 9' TERM; echo up; while :; do sleep 0.05; done"
        run = Process(self.c, "signalled",
                      [f"{BUILD}/bin/gable", "run", "--device", "beta/0", "--", "sh", "-c", script])
        self.addCleanup(run.kill)
        wait_for("the program", lambda: "up" in run.out())
        self.assertEqual(self.c.list("devices")[1]["leases"], 1)
        run.popen.send_signal(signal.SIGTERM)
        self.assertEqual(run.popen.wait(20 * SLOW), 9)
        self.assertEqual(self.c.list("devices")[1]["leases"], 0)

    @unittest.skipIf(SANITIZED, "a sanitized libcuda does not load into a plain python")
    def test_session_and_kill(self):
        run = Process(self.c, "holder", [f"{BUILD}/bin/gable", "run", "--device", "alpha/0", "--",
                                         sys.executable, "-c", HOLDER])
        self.addCleanup(run.kill)
        wait_for("the session", lambda: "devices 1" in run.out() or run.popen.poll() is not None)
        self.assertIsNone(run.popen.poll(), run.err())
        sessions = wait_for("the list", lambda: self.c.list("sessions"))
        self.assertEqual(len(sessions), 1)
        self.assertEqual(sessions[0]["proxy"], "alpha")
        self.assertTrue(sessions[0]["client"].startswith("gable@"))
        self.assertIn(sessions[0]["id"], self.c.gable("sessions").stdout)
        result = self.c.gable("sessions", "kill", sessions[0]["id"])
        self.assertEqual(result.returncode, 0, result.stderr)
        wait_for("the session's end", lambda: not self.c.list("sessions"))
        self.assertFalse(os.path.exists(f"/proc/{sessions[0]['pid']}"))
        self.assertEqual(self.c.gable("sessions", "kill", sessions[0]["id"]).returncode, 1)
        run.popen.send_signal(signal.SIGTERM)
        run.popen.wait(20 * SLOW)


class Certificates(unittest.TestCase):
    def setUp(self):
        self.c = Cluster()
        self.dir = lambda name: os.path.join(self.c.folder, name)
        self.assertEqual(self.c.gable("ca", "init", "--dir", self.dir("ca")).returncode, 0)
        for role in ("server", "proxy", "worker", "admin"):
            result = self.c.gable("ca", "issue", role, "--role", role, "--dir", self.dir("ca"),
                                  "--out", self.dir(role), "--host", "localhost,127.0.0.1")
            self.assertEqual(result.returncode, 0, result.stderr)

    def tearDown(self):
        self.c.close()

    def test_cluster_with_certificates(self):
        self.c.server_args = ["--tls-dir", self.dir("server")]
        self.c.start_server()
        self.c.env["GABLE_TLS_DIR"] = self.dir("admin")
        self.c.start_proxy("alpha", ["--tls-dir", self.dir("proxy")])
        self.c.wait_devices(1)
        self.assertEqual(self.c.list("status")["certificates"], "yes")
        worker = ["--tls-dir", self.dir("worker")]
        self.assertEqual(self.c.gable("run", *worker, "--", "true").returncode, 0)
        self.assertEqual(self.c.gable("devices", *worker).returncode, 0)
        result = self.c.gable("sessions", "kill", "1", *worker)
        self.assertEqual(result.returncode, 1)
        self.assertIn("role worker", result.stderr)
        result = self.c.gable("devices", "--tls-dir", self.dir("proxy"))
        self.assertEqual(result.returncode, 1)
        self.assertIn("role proxy", result.stderr)
        # No certificate, and one of another CA.
        result = self.c.gable("devices", "--tls-dir", "")
        self.assertEqual(result.returncode, 1)
        self.assertIn("--tls-dir", result.stderr)
        self.c.gable("ca", "init", "--dir", self.dir("other"))
        self.c.gable("ca", "issue", "eve", "--role", "admin", "--dir", self.dir("other"), "--out",
                     self.dir("eve"))
        result = self.c.gable("devices", "--tls-dir", self.dir("eve"))
        self.assertEqual(result.returncode, 1)
        self.assertIn("certificates of one CA", result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 1)
        self.assertIn("refused a peer", self.c.server.err())

    def refused_proxy(self, words, *args):
        """A proxy that the server does not want ends with one line."""
        proxy = self.c.launch_proxy("refused", args)
        self.assertEqual(proxy.popen.wait(30 * SLOW), 1, proxy.err())
        lines = proxy.err().splitlines()
        self.assertEqual(len(lines), 1, lines)
        self.assertTrue(lines[0].startswith("gpu-proxy: "))
        self.assertIn(words, lines[0])
        self.assertEqual(proxy.out(), "")
        del self.c.proxies["refused"]
        os.unlink(proxy.err_path)

    def test_foreign_proxy_ends(self):
        self.c.server_args = ["--tls-dir", self.dir("server")]
        self.c.start_server()
        self.c.gable("ca", "init", "--dir", self.dir("other"))
        self.c.gable("ca", "issue", "eve", "--role", "proxy", "--dir", self.dir("other"), "--out",
                     self.dir("eve"))
        self.refused_proxy("certificates of one CA", "--tls-dir", self.dir("eve"))
        self.refused_proxy("give --tls-dir", "--insecure")
        self.c.server.stop()
        self.c.server_args = []
        self.c.start_server()
        self.refused_proxy("does not speak TLS", "--tls-dir", self.dir("proxy"))

    def test_wrong_role_does_not_start(self):
        for program, args in (("ps-server", ["--state-dir", self.dir("s")]),
                              ("gpu-proxy", ["--server", "127.0.0.1:1", "--driver", "null"])):
            result = subprocess.run([f"{BUILD}/bin/{program}", "--listen", "127.0.0.1:0",
                                     "--data-listen", "127.0.0.1:0", "--tls-dir",
                                     self.dir("worker"), *args], env=self.c.env, text=True,
                                    capture_output=True, timeout=60 * SLOW)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn("has role worker", result.stderr)


if __name__ == "__main__":
    unittest.main()
