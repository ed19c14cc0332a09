#!/usr/bin/env python3
"""gpu-proxy from outside: ways in, what it refuses, what it costs."""
import os
import socket
import subprocess
import sys
import time

sys.dont_write_bytecode = True
from proxy_support import BUILD, SLOW, check, main, wait_until


def unix_socket(bench):
    path = bench.path("p")
    proxy = bench.proxy("--insecure", "--data-listen", "none", "--unix", path, "--driver", "cpu")
    check(proxy.ready["unix"] == path and proxy.ready["grpc"] == "-", proxy.ready)
    client = bench.client(f"unix:{path}")
    check(client.ask("init") == 0, "init")
    check(client.ask("copy") == 0, "copy")
    check(len(proxy.sessions()) == 1, "one session")
    check(client.end() == 0, "client")
    wait_until(lambda: not proxy.sessions(), 2, "the session is gone")
    check(proxy.stop() == 0, "the proxy ends in good order")
    check(not os.path.exists(path), "the socket file is removed")


def tls_with_a_key(bench):
    proxy = bench.proxy("--key-file", bench.key_file(), "--data-listen", "127.0.0.1:0",
                        "--driver", "cpu")
    data = proxy.ready["data"]
    client = bench.client(data, {"GABLE_KEY_FILE": bench.key_file()})
    check(client.ask("init") == 0, "init")
    check(client.ask("copy") == 0, "copy")
    stranger = bench.client(data, {"GABLE_KEY_FILE": bench.key_file("ff" * 32)})
    check(stranger.ask("init") != 0, "a wrong key")
    nobody = bench.client(data)
    check(nobody.ask("init") != 0, "no key")
    wait_until(lambda: any("wrong key" in line for line in proxy.err), 5, "a log line")
    check(client.ask("copy") == 0, "the client with the key is not disturbed")
    check(len(proxy.sessions()) == 1, "one session")


def plain_tcp_is_for_insecure_only(bench):
    proxy = bench.proxy("--insecure", "--data-listen", "127.0.0.1:0", "--driver", "null")
    client = bench.client(proxy.ready["data"])
    check(client.ask("init") == 0, "init")
    check(client.end() == 0, "client")


def over_a_wan(bench):
    path = bench.path("p")
    bench.proxy("--insecure", "--data-listen", "none", "--unix", path, "--driver", "cpu")
    client = bench.client(f"unix:{path}", {"GABLE_LINK_EMULATE": "rtt=20ms,bw=1Gbit,drop=0.001"})
    check(client.ask("init") == 0, "init")
    check(client.ask("copy") == 0, "copy")


def refusals(bench):
    taken = socket.create_server(("127.0.0.1", 0))
    port = taken.getsockname()[1]
    cases = [
        (["--driver", "null"], 2, "--insecure"),
        (["--insecure", "--data-listen", "0.0.0.0:0", "--driver", "null"], 2, "--key-file"),
        (["--insecure", "--data-listen", "none", "--driver", "null"], 2, "--unix"),
        (["--insecure", "--data-listen", "what:ever:1"], 2, "what:ever:1"),
        (["--server", "127.0.0.1:1"], 2, "--tls-dir"),
        (["--insecure", "--sessions", "0"], 2, "--sessions"),
        (["--bogus"], 2, "--bogus"),
        (["--insecure", "operand"], 2, "operand"),
        (["--key-file", bench.path("missing")], 1, "missing"),
        (["--key-file", bench.key_file("rubbish")], 2, "hexadecimal"),
        (["--insecure", "--data-listen", f"127.0.0.1:{port}", "--driver", "null"], 1,
         f"127.0.0.1:{port} is in use"),
        (["--insecure", "--data-listen", "127.0.0.1:0", "--driver", "/nonexistent.so"], 1,
         "/nonexistent.so"),
    ]
    for options, code, word in cases:
        done = subprocess.run([f"{BUILD}/bin/gpu-proxy", *options], capture_output=True, text=True,
                              timeout=30 * SLOW, check=False)
        last = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else ""
        check(done.returncode == code and word in last and last.startswith("gpu-proxy: "),
              f"{options}: code {done.returncode}, '{done.stderr}'")
    by_hand = subprocess.run([f"{BUILD}/bin/gpu-session"], capture_output=True, text=True,
                             timeout=30 * SLOW, check=False)
    check(by_hand.returncode == 2 and "gpu-proxy" in by_hand.stderr, by_hand.stderr)


def an_idle_proxy_is_small(bench):
    proxy = bench.proxy("--insecure", "--data-listen", "127.0.0.1:0", "--driver", "cpu")
    client = bench.client(proxy.ready["data"])
    check(client.ask("init") == 0 and client.end() == 0, "a client")
    with open(f"/proc/{proxy.pid}/status", encoding="ascii") as f:
        rss = next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))
    print(f"   idle proxy: {rss / 1024:.1f} MiB (at most 40)")
    if not os.environ.get("GABLE_SANITIZE"):
        check(rss <= 40 * 1024, f"{rss} KiB")


def the_session_is_confined(bench):
    proxy = bench.proxy("--insecure", "--data-listen", "127.0.0.1:0", "--driver", "cpu")
    client = bench.client(proxy.ready["data"])
    check(client.ask("init") == 0, "init")
    session = proxy.sessions()[0]
    with open(f"/proc/{session}/status", encoding="ascii") as f:
        status = f.read()
    check("NoNewPrivs:\t1" in status, "no new privileges")
    check("Seccomp:\t2" in status, "a system call filter")
    check(client.ask("copy") == 0 and client.ask("spin") == 0, "copies and the JIT work under it")
    with open(f"/proc/{session}/cmdline", "rb") as f:
        check(b"key" not in f.read(), "no key among the arguments")


def ticks(pid):
    """CPU time of all threads, in clock ticks."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def spare_sessions(bench):
    path = bench.path("p")
    proxy = bench.proxy("--insecure", "--data-listen", "none", "--unix", path, "--driver", "cpu",
                        "--spare", "2")
    wait_until(lambda: len(proxy.sessions()) == 2, 5, "two spares")
    spares = set(proxy.sessions())
    client = bench.client(f"unix:{path}")
    check(client.ask("init") == 0 and client.ask("copy") == 0, "a client of a spare")
    wait_until(lambda: len(proxy.sessions()) == 3, 5, "the spare is replaced")
    check(spares < set(proxy.sessions()), "the client got one that was there")
    time.sleep(0.3)  # what the new one does to get ready
    before = sum(ticks(pid) for pid in proxy.sessions())
    time.sleep(1)
    check(sum(ticks(pid) for pid in proxy.sessions()) - before <= 1,
          "spares and idle sessions use no CPU")
    check(client.end() == 0, "client")
    wait_until(lambda: len(proxy.sessions()) == 2, 2, "the session is gone, the spares are not")
    check(proxy.stop() == 0, "the proxy ends in good order")
    check(not proxy.sessions(), "and takes the spares along")


if __name__ == "__main__":
    main([unix_socket, tls_with_a_key, plain_tcp_is_for_insecure_only, over_a_wan, refusals,
          an_idle_proxy_is_small, the_session_is_confined, spare_sessions])
