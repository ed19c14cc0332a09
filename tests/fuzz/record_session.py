#!/usr/bin/env python3
"""record_session.py BUILD_DIR: makes the inputs of fuzz_session anew, into tests/fuzz/corpus/session.

Runs programs of the tests through a relay in front of a gpu-proxy with the software device, and keeps what
each of their sessions has sent: its preamble, the frames that every session begins with, and of every
operation the first few frames that are not long. To be run when the protocol has changed (fuzz_session_inputs
fails then)."""

import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import threading

PREAMBLE, HEADER = 88, 16
OFTEN, LONG, WHOLE = 3, 1500, 12 << 10  # frames of an operation, bytes of one, bytes of an input
HELLO, WINDOW, SET_CONTEXT, ACK = 0x8000, 0x8001, 0x8002, 0xFF03

PROGRAMS = ["test_dev_copy", "test_dev_array", "test_dev_batch", "test_dev_capture", "test_dev_context",
            "test_dev_graph", "test_dev_graph_host", "test_dev_ipc", "test_dev_launch", "test_dev_link",
            "test_dev_managed", "test_dev_memory", "test_dev_module", "test_dev_pool", "test_dev_stream",
            "test_dev_texture", "test_dev_vmm"]

# What no test program does on its own: copies between two proxies, fills of managed memory, rows to page-locked memory.
PEERS = """
import ctypes, sys
cu = ctypes.CDLL(sys.argv[1])
u64, p = ctypes.c_uint64, ctypes.c_void_p
def do(name, *args):
    result = getattr(cu, name)(*args)
    assert result == 0, (name, result)
do("cuInit", 0)
contexts, memory, streams, events = [], [], [], []
for device in range(2):
    context, address, stream, event = p(), u64(), p(), p()
    do("cuCtxCreate_v2", ctypes.byref(context), 0, device)
    do("cuMemAlloc_v2", ctypes.byref(address), u64(1 << 16))
    do("cuStreamCreate", ctypes.byref(stream), 1)
    do("cuEventCreate", ctypes.byref(event), 0)
    contexts.append(context); memory.append(address); streams.append(stream); events.append(event)
for a, b in ((0, 1), (1, 0)):
    do("cuCtxSetCurrent", contexts[a])
    do("cuMemcpyPeerAsync", memory[a], contexts[a], memory[b], contexts[b], u64(4096), streams[a])
    do("cuEventRecord", events[a], streams[a])
    do("cuCtxSetCurrent", contexts[b])
    do("cuStreamWaitEvent", streams[b], events[a], 0)
    do("cuMemcpyPeer", memory[a], contexts[a], memory[b], contexts[b], u64(64))
    do("cuCtxSynchronize")
managed = u64()
do("cuMemAllocManaged", ctypes.byref(managed), u64(1 << 16), 1)
for value in range(2):
    ctypes.memset(managed.value, 7, 5000)
    do("cuMemsetD2D8Async", managed, u64(64), 3, u64(16), u64(4), streams[0])
    do("cuCtxSynchronize")
    assert ctypes.string_at(managed.value, 1) == bytes([3])
class Rows(ctypes.Structure):  # CUDA_MEMCPY2D, in words
    _fields_ = [("words", u64 * 16)]
host = p()
do("cuMemHostAlloc", ctypes.byref(host), u64(1 << 16), 0)
rows = Rows((u64 * 16)(0, 0, 2, 0, memory[0].value, 0, 64, 0, 0, 1, host.value, 0, 0, 100, 64, 8))
do("cuMemcpy2DAsync_v2", ctypes.byref(rows), streams[0])
do("cuMemcpyDtoHAsync_v2", host, memory[0], u64(4096), streams[0])
do("cuStreamSynchronize", streams[0])
for context in contexts:
    do("cuCtxDestroy_v2", context)
"""


def pump(source, target, kept):
    while True:
        try:
            data = source.recv(65536)
        except OSError:
            data = b""
        if kept is not None:
            kept += data
        if not data:
            try:
                target.shutdown(socket.SHUT_WR)
            except OSError:
                pass
            return
        target.sendall(data)


def relay(listener, port, streams):
    while True:
        try:
            caller, _ = listener.accept()
        except OSError:
            return
        target = socket.create_connection(("127.0.0.1", port))
        kept = bytearray()
        streams.append(kept)
        for args in ((caller, target, kept), (target, caller, None)):
            threading.Thread(target=pump, args=args, daemon=True).start()


def context_operations(build):
    """Those that make and end contexts, which the rest stands on."""
    with open(os.path.join(build, "gen/gb_cuda_ops.h"), encoding="utf-8") as ops:
        found = re.findall(r"GB_OP_(?:cuCtxCreate|cuCtxDestroy|cuDevicePrimaryCtx)\w* = (\d+)", ops.read())
    return {int(number) for number in found}


def shorten(stream, always):
    out, seen, at = bytearray(stream[:PREAMBLE]), {}, PREAMBLE
    while len(stream) >= at + HEADER and len(out) < WHOLE:
        length, operation = struct.unpack_from("<IH", stream, at)
        frame = stream[at:at + HEADER + length]
        at += HEADER + length
        seen[operation] = seen.get(operation, 0) + 1
        if operation == ACK:  # what the program has received is not what a test will send
            continue
        if operation in always or (seen[operation] <= OFTEN and length <= LONG):
            out += frame
    return bytes(out)


class Proxy:
    def __init__(self, build, folder):
        self.process = subprocess.Popen(
            [os.path.join(build, "bin/gpu-proxy"), "--data-listen", "127.0.0.1:0", "--driver", "cpu",
             "--insecure", "--unix", os.path.join(folder, "unix")], stdout=subprocess.PIPE, text=True,
            env={**os.environ, "GABLE_CPU_MEMORY": "256M", "GABLE_CPU_CACHE": "off",
                 "GABLE_LOG": "error"})
        ready = next(line for line in self.process.stdout if ": ready" in line)
        self.port = int(re.search(r"data=127\.0\.0\.1:(\d+)", ready).group(1))


def record(build, command, proxies):
    """What each of the program's sessions has sent."""
    streams, listeners = [], []
    for proxy in proxies:
        listeners.append(socket.create_server(("127.0.0.1", 0)))
        threading.Thread(target=relay, args=(listeners[-1], proxy.port, streams), daemon=True).start()
    remote = os.path.join(build, "lib/gable/remote")
    endpoints = ",".join("127.0.0.1:%d" % listener.getsockname()[1] for listener in listeners)
    env = {**os.environ, "GABLE_PROXIES": endpoints, "PT_DRIVER": "remote", "LD_LIBRARY_PATH": remote,
           "GABLE_TEST_DRIVER": os.path.join(remote, "libcuda.so.1"), "GABLE_CPU_CACHE": "off"}
    subprocess.run(command, env=env, stdout=subprocess.DEVNULL, check=True)
    for listener in listeners:
        listener.close()
    return streams


def main():
    build = os.path.abspath(sys.argv[1])
    corpus = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus/session")
    always = {HELLO, WINDOW, SET_CONTEXT} | context_operations(build)
    os.makedirs(corpus, exist_ok=True)

    def keep(name, stream):
        with open(os.path.join(corpus, name), "wb") as out:
            out.write(shorten(stream, always))

    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        proxies = [Proxy(build, one), Proxy(build, two)]
        try:
            for name in PROGRAMS:
                streams = record(build, [os.path.join(build, "tests", name)], proxies[:1])
                keep(name.removeprefix("test_dev_"), max(streams, key=len))
            driver = os.path.join(build, "lib/gable/remote/libcuda.so.1")
            # The proxies dial each other through the relays as well: those connections are of another service.
            streams = [stream for stream in record(build, [sys.executable, "-c", PEERS, driver], proxies)
                       if struct.unpack_from("<H", stream, 10)[0] == 1]
            for number, stream in enumerate(streams):
                keep("peer%d" % number, stream)
        finally:
            for proxy in proxies:
                proxy.process.terminate()
                proxy.process.wait(20)


main()
