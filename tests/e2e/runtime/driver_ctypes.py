#!/usr/bin/env python3
"""The driver API as array frameworks use it from Python: ctypes, PTX made at run time, the `extra` form
of a launch, page-locked memory, asynchronous copies, events, a captured graph."""

import array
import ctypes
import os
import sys
import unittest

BUILD = os.environ["GABLE_BUILD_DIR"]
LIBRARY = os.path.join(BUILD, "lib", "gable", os.environ.get("GABLE_TEST_DRIVER", "cpu"),
                       "libcuda.so.1")
cu = ctypes.CDLL(LIBRARY)
PTR, U64, SIZE = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t
PARAM_END, PARAM_POINTER, PARAM_SIZE = 0, 1, 2


def check(result):
    if result != 0:
        name = ctypes.c_char_p()
        cu.cuGetErrorName(result, ctypes.byref(name))
        raise RuntimeError(f"{result} {name.value}")


def elementwise(name, body):
    """PTX of out[i] = body(x[i], y[i]) for i < n; the body computes %f3 from %f1 and %f2."""
    return f"""
.version 7.5
.target sm_70
.address_size 64
.visible .entry {name}(.param .u64 out, .param .u64 x, .param .u64 y, .param .u32 n)
{{
    .reg .pred %p<2>; .reg .b32 %r<6>; .reg .f32 %f<4>; .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [x]; ld.param.u64 %rd3, [y]; ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
    mad.lo.u32 %r5, %r2, %r3, %r4;
    setp.ge.u32 %p1, %r5, %r1;
    @%p1 bra END;
    mul.wide.u32 %rd4, %r5, 4;
    add.u64 %rd5, %rd2, %rd4; add.u64 %rd6, %rd3, %rd4; add.u64 %rd7, %rd1, %rd4;
    ld.global.f32 %f1, [%rd5]; ld.global.f32 %f2, [%rd6];
    {body}
    st.global.f32 [%rd7], %f3;
END:
    ret;
}}
""".encode()


class DriverTest(unittest.TestCase):
    N = 5000

    @classmethod
    def setUpClass(cls):
        check(cu.cuInit(0))
        device = ctypes.c_int()
        check(cu.cuDeviceGet(ctypes.byref(device), 0))
        cls.context = PTR()
        check(cu.cuCtxCreate_v2(ctypes.byref(cls.context), 0, device))
        major, minor = ctypes.c_int(), ctypes.c_int()
        check(cu.cuDeviceComputeCapability(ctypes.byref(major), ctypes.byref(minor), device))
        assert major.value >= 7

    @classmethod
    def tearDownClass(cls):
        check(cu.cuCtxDestroy_v2(cls.context))

    def setUp(self):
        self.stream = PTR()
        check(cu.cuStreamCreate(ctypes.byref(self.stream), 1))
        self.buffers = []

    def tearDown(self):
        check(cu.cuStreamDestroy_v2(self.stream))
        for buffer in self.buffers:
            check(cu.cuMemFree_v2(buffer))

    def device(self, values=None):
        p = U64()
        check(cu.cuMemAlloc_v2(ctypes.byref(p), SIZE(4 * self.N)))
        self.buffers.append(p)
        if values is not None:
            data = array.array("f", values)
            check(cu.cuMemcpyHtoDAsync_v2(p, PTR(data.buffer_info()[0]), SIZE(4 * self.N), self.stream))
        return p

    def host(self, p):
        data = array.array("f", bytes(4 * self.N))
        check(cu.cuStreamSynchronize(self.stream))
        check(cu.cuMemcpyDtoH_v2(PTR(data.buffer_info()[0]), p, SIZE(4 * self.N)))
        return data

    def function(self, name, body):
        module, function = PTR(), PTR()
        check(cu.cuModuleLoadData(ctypes.byref(module), elementwise(name, body)))
        check(cu.cuModuleGetFunction(ctypes.byref(function), module, name.encode()))
        return function

    def launch(self, function, out, x, y):
        """Packed arguments, as frameworks keep them."""
        packed = (U64 * 4)(out.value, x.value, y.value, self.N)
        size = SIZE(28)
        extra = (PTR * 5)(PARAM_POINTER, ctypes.addressof(packed), PARAM_SIZE,
                          ctypes.addressof(size), PARAM_END)
        check(cu.cuLaunchKernel(function, (self.N + 127) // 128, 1, 1, 128, 1, 1, 0, self.stream,
                                None, extra))

    def test_fused_kernels(self):
        x = [i * 0.5 for i in range(self.N)]
        dx, dy, out = self.device(x), self.device([2.0] * self.N), self.device()
        add = self.function("add", "add.f32 %f3, %f1, %f2;")
        mul = self.function("mul", "mul.f32 %f3, %f1, %f2;")
        self.launch(add, out, dx, dy)
        self.launch(mul, out, out, dy)
        self.assertEqual(list(self.host(out)), [(v + 2) * 2 for v in x])

    def test_events_and_pinned_memory(self):
        begin, end, ms = PTR(), PTR(), ctypes.c_float(-1)
        pinned = PTR()
        check(cu.cuMemHostAlloc(ctypes.byref(pinned), SIZE(4 * self.N), 0))
        ctypes.memset(pinned, 0, 4 * self.N)
        dx, out = self.device([3.0] * self.N), self.device()
        square = self.function("square", "mul.f32 %f3, %f1, %f1;")
        check(cu.cuEventCreate(ctypes.byref(begin), 0))
        check(cu.cuEventCreate(ctypes.byref(end), 0))
        check(cu.cuEventRecord(begin, self.stream))
        self.launch(square, out, dx, dx)
        check(cu.cuMemcpyDtoHAsync_v2(pinned, out, SIZE(4 * self.N), self.stream))
        check(cu.cuEventRecord(end, self.stream))
        check(cu.cuEventSynchronize(end))
        check(cu.cuEventElapsedTime(ctypes.byref(ms), begin, end))
        self.assertGreaterEqual(ms.value, 0)
        values = (ctypes.c_float * self.N).from_address(pinned.value)
        self.assertTrue(all(v == 9.0 for v in values))
        check(cu.cuMemFreeHost(pinned))

    def test_captured_graph(self):
        graph, executable = PTR(), PTR()
        dx, out = self.device([1.0] * self.N), self.device([0.0] * self.N)
        add = self.function("add", "add.f32 %f3, %f1, %f2;")
        check(cu.cuStreamSynchronize(self.stream))
        result = cu.cuStreamBeginCapture_v2(self.stream, 1)
        if result == 801:
            self.skipTest("this driver has no capture")
        check(result)
        for _ in range(4):
            self.launch(add, out, out, dx)
        check(cu.cuStreamEndCapture(self.stream, ctypes.byref(graph)))
        check(cu.cuGraphInstantiateWithFlags(ctypes.byref(executable), graph, ctypes.c_uint64(0)))
        for _ in range(5):
            check(cu.cuGraphLaunch(executable, self.stream))
        self.assertEqual(set(self.host(out)), {20.0})
        check(cu.cuGraphExecDestroy(executable))
        check(cu.cuGraphDestroy(graph))

    def test_bad_ptx_says_where(self):
        module = PTR()
        log = ctypes.create_string_buffer(2000)
        options = (ctypes.c_int * 2)(5, 6)  # CU_JIT_ERROR_LOG_BUFFER, _SIZE_BYTES
        values = (PTR * 2)(ctypes.addressof(log), len(log))
        text = elementwise("bad", "frobnicate.f32 %f3, %f1;")
        self.assertEqual(cu.cuModuleLoadDataEx(ctypes.byref(module), text, 2, options, values), 218)
        self.assertIn(b"frobnicate", log.value)
        self.assertIn(b"line", log.value)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=1))
