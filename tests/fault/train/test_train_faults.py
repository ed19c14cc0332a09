#!/usr/bin/env python3
"""Bad days of a training run: lost devices, lost workers, a server that is killed and comes back."""
import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.environ["GABLE_SOURCE_DIR"], "tests/e2e/train"))
from harness import SLOW, check, main, site


def options(s, data, epochs, *more):
    return ["--server", s.grpc, "--insecure", "--data", data, "--epochs", str(epochs), "--batch",
            "64", "--model", "lenet5", *more]


def sessions_of(proxy):
    """Process ids of the sessions that a proxy has started."""
    with open(f"/proc/{proxy.process.pid}/task/{proxy.process.pid}/children",
              encoding="ascii") as file:
        return [int(pid) for pid in file.read().split()]


def expect_lost(worker, start):
    check(worker.wait(10) == 1, f"{worker.name} did not end with 1")
    seconds = time.monotonic() - start
    check(seconds < 5 * SLOW, f"{worker.name} took {seconds:.1f} s to notice")
    last = worker.lines["err"][-1]
    check(last.startswith("worker: ") and "lost" in last, f"unclear: {last}")


def test_killed_session():
    with site() as s:
        data = s.small_data(2000, 500)
        proxy = s.start_proxy(1, unix=True)
        worker = s.start_worker("worker", "--data", data, "--epochs", "1000",
                                env={"GABLE_PROXIES": "unix:" + s.path("proxy1")})
        worker.wait_line("epoch 1/")
        start = time.monotonic()
        for pid in sessions_of(proxy):
            os.kill(pid, signal.SIGKILL)
        expect_lost(worker, start)
        check(proxy.process.poll() is None, "the proxy died with its session")


def test_killed_proxy():
    with site() as s:
        data = s.small_data(2000, 500)
        s.start_server()
        proxy = s.start_proxy(1)
        worker = s.start_worker("worker", *options(s, data, 1000))
        worker.wait_line("epoch 1/")
        start = time.monotonic()
        proxy.kill()
        expect_lost(worker, start)


def test_killed_worker():
    with site() as s:
        data = s.small_data(2000, 500)
        s.start_server()
        s.start_proxy(1)
        s.start_proxy(2)
        one = s.start_worker("worker1", *options(s, data, 8, "--workers", "2"))
        two = s.start_worker("worker2", *options(s, data, 8, "--workers", "2"))
        one.wait_line("epoch 2/")
        two.kill()
        check(one.wait(120) == 0, "the other worker did not finish")
        result = one.json()
        check(result["epochs"] == 8 and result["workers"] == 1, result)
        check(result["test_accuracy"] > 0.8, result)


def test_killed_server():
    with site() as s:
        data = s.small_data(2000, 500)
        s.start_server()
        s.start_proxy(1)
        worker = s.start_worker("worker", *options(s, data, 12, "--server-wait", "60"))
        worker.wait_line("epoch 3/")
        s.server.kill()
        s.start_server(s.grpc, s.data_port)
        check(worker.wait(120) == 0, "the worker did not finish")
        check(worker.json()["epochs"] == 12 and worker.json()["test_accuracy"] > 0.8,
              worker.json())


def test_server_stays_away():
    with site() as s:
        data = s.small_data(2000, 500)
        s.start_server()
        s.start_proxy(1)
        worker = s.start_worker("worker", *options(s, data, 1000, "--server-wait", "2"))
        worker.wait_line("epoch 1/")
        s.server.kill()
        check(worker.wait(40) == 1, "the worker did not give up")
        last = worker.lines["err"][-1]
        check(last.startswith("worker: ") and "ps-server" in last, f"unclear: {last}")


def test_no_server():
    with site() as s:
        data = s.small_data(200, 100)
        worker = s.start_worker("worker", "--server", "127.0.0.1:1", "--insecure", "--data", data)
        check(worker.wait(30) == 1, "not exit code 1")
        check(len(worker.lines["err"]) == 1 and "127.0.0.1:1" in worker.lines["err"][0],
              worker.lines["err"])


def test_no_device():
    with site() as s:
        data = s.small_data(200, 100)
        s.start_server()
        worker = s.start_worker("worker", *options(s, data, 1))
        check(worker.wait(30) == 1, "not exit code 1")
        check(len(worker.lines["err"]) == 1 and "GPU" in worker.lines["err"][0],
              worker.lines["err"])


def test_interrupted():
    with site() as s:
        data = s.small_data(2000, 500)
        worker = s.start_worker("worker", "--driver", "cpu", "--data", data, "--epochs", "1000")
        worker.wait_line("epoch 1/")
        worker.process.send_signal(signal.SIGINT)
        check(worker.wait(10) == 1, "not exit code 1")
        check("interrupted" in worker.lines["err"][-1], worker.lines["err"][-1])


main([test_killed_session, test_killed_proxy, test_killed_worker, test_killed_server,
      test_server_stays_away, test_no_server, test_no_device, test_interrupted])
