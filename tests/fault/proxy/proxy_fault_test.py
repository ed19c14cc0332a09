#!/usr/bin/env python3
"""The bad days of client, session and proxy: who is left gets an error in bounded time, and nothing
stays behind."""
import os
import signal
import socket
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["GABLE_SOURCE_DIR"], "tests/e2e/proxy"))
from proxy_support import alive, check, main, wait_until


def start_pair(bench, kind="unix"):
    path = bench.path("p")
    options = ("--data-listen", "none", "--unix", path) if kind == "unix" else (
        "--data-listen", "127.0.0.1:0", "--unix", path)
    proxy = bench.proxy("--insecure", *options, "--driver", "cpu")
    endpoint = f"unix:{path}" if kind == "unix" else proxy.ready["data"]
    client = bench.client(endpoint)
    check(client.ask("init") == 0, "init")
    return proxy, client, proxy.sessions()[0], endpoint


def client_killed_while_a_kernel_never_ends(bench):
    for kind in ("unix", "tcp"):
        proxy, client, session, _ = start_pair(bench, kind)
        check(client.ask("alloc 100000000") == 0, "memory")
        check(client.ask("spin") == 0, "the kernel that never ends")
        client.tell("sync")
        client.kill()
        took = wait_until(lambda: not alive(session), 2, "the session and its memory are gone")
        print(f"   {kind}: session gone after {took:.2f} s")
        check(proxy.stop() == 0, "the proxy")


def client_stops_reading_and_dies(bench):
    proxy, client, session, _ = start_pair(bench)
    os.kill(client.pid, signal.SIGSTOP)
    client.kill()
    wait_until(lambda: not alive(session), 2, "the session is gone")
    check(proxy.process.poll() is None, "the proxy lives")


def session_killed(bench):
    proxy, client, session, endpoint = start_pair(bench)
    other = bench.client(endpoint)
    check(other.ask("init") == 0, "init")
    os.kill(session, signal.SIGKILL)
    start = time.monotonic()
    check(client.ask("copy", 5) != 0, "the client is told")
    print(f"   client told after {time.monotonic() - start:.2f} s")
    check(other.ask("copy") == 0, "others go on")
    again = bench.client(endpoint)
    check(again.ask("init") == 0 and again.ask("copy") == 0, "a new session works")
    wait_until(lambda: any("crashed" in line for line in proxy.err), 5, "a log line")


def session_killed_under_a_waiting_client(bench):
    _, client, session, _ = start_pair(bench)
    check(client.ask("spin") == 0, "the kernel that never ends")
    waiting = client.tell("sync")
    os.kill(session, signal.SIGKILL)
    check(client.answer(waiting, 5) != 0, "the waiting call fails")


def proxy_killed(bench):
    proxy, client, session, endpoint = start_pair(bench)
    check(client.ask("spin") == 0, "the kernel that never ends")
    waiting = client.tell("sync")
    proxy.kill()
    check(client.answer(waiting, 5) != 0, "the client is told")
    wait_until(lambda: not alive(session), 2, "the session goes with its proxy")
    # the second run after the crash: the same socket path
    proxy = bench.proxy("--insecure", "--data-listen", "none", "--unix", bench.path("p"),
                        "--driver", "cpu")
    again = bench.client(endpoint)
    check(again.ask("init") == 0 and again.ask("copy") == 0, "a new proxy on the same path works")


def garbage_on_the_data_port(bench):
    proxy, client, _, endpoint = start_pair(bench, "tcp")
    host, port = endpoint.rsplit(":", 1)
    lines = len(proxy.err)
    for rubbish in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\x00\x01" + bytes(200),
                    os.urandom(4096), b"GABLELNK" + os.urandom(80), b"\0"):
        with socket.create_connection((host, int(port)), 5) as s:
            s.sendall(rubbish)
            s.settimeout(10)
            try:
                while s.recv(4096):
                    pass
            except ConnectionResetError:
                pass
        check(client.ask("copy") == 0, "the client is not disturbed")
    wait_until(lambda: len(proxy.err) >= lines + 5, 5, "one line each")
    check(len(proxy.err) == lines + 5, f"one line each: {proxy.err[lines:]}")


def is_closed(s):
    """The other end has closed; a reset, if our byte was still unread, says the same."""
    try:
        return s.recv(1) == b""
    except ConnectionResetError:
        return True


def slow_loris(bench):
    proxy, client, _, endpoint = start_pair(bench, "tcp")
    host, port = endpoint.rsplit(":", 1)
    crowd = [socket.create_connection((host, int(port)), 5) for _ in range(200)]
    for s in crowd:
        s.send(b"G")
    check(client.ask("copy") == 0, "the client is not disturbed")
    late = bench.client(endpoint)
    check(late.ask("init") == 0, "and a new one gets in")
    for s in crowd:
        s.settimeout(10)
        check(is_closed(s), "every silent connection is closed")
        s.close()
    check(proxy.process.poll() is None, "the proxy lives")


if __name__ == "__main__":
    main([client_killed_while_a_kernel_never_ends, client_stops_reading_and_dies, session_killed,
          session_killed_under_a_waiting_client, proxy_killed, garbage_on_the_data_port, slow_loris])
