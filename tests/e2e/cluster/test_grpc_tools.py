#!/usr/bin/python3
"""Another gRPC implementation looks in: health, reflection, and a call made from what it learnt.

Needs Debian's python3-grpcio and python3-protobuf; the messages of health and reflection are built here
from their field numbers, so that nothing but those two packages is used.
"""
import os
import sys
import unittest

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cluster import SLOW, Cluster  # noqa: E402

TIMEOUT = 10 * SLOW


def varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def text_field(number, text):
    data = text.encode()
    return varint(number << 3 | 2) + varint(len(data)) + data


def fields(data):
    """(number, value) pairs of a message; values are ints or bytes."""
    at, out = 0, []

    def take():
        nonlocal at
        shift = value = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    while at < len(data):
        key = take()
        if key & 7 == 0:
            out.append((key >> 3, take()))
        else:
            assert key & 7 == 2, key
            size = take()
            out.append((key >> 3, data[at:at + size]))
            at += size
    return out


class Tools(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.c = Cluster()
        cls.c.start_server()
        cls.channel = grpc.insecure_channel(cls.c.address)

    @classmethod
    def tearDownClass(cls):
        cls.channel.close()
        cls.c.close()

    def health(self, service):
        call = self.channel.unary_unary("/grpc.health.v1.Health/Check")
        return fields(call(text_field(1, service), timeout=TIMEOUT))

    def reflect(self, version, *requests):
        call = self.channel.stream_stream(
            f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo")
        return [dict(fields(r)) for r in call(iter(requests), timeout=TIMEOUT)]

    def test_health(self):
        self.assertEqual(self.health(""), [(1, 1)])  # SERVING
        self.assertEqual(self.health("gable.v1.Leases"), [(1, 1)])
        with self.assertRaises(grpc.RpcError) as caught:
            self.health("no.Such")
        self.assertEqual(caught.exception.code(), grpc.StatusCode.NOT_FOUND)

    def test_unknown_method(self):
        for method in ("/gable.v1.Admin/Nothing", "/grpc.health.v1.Health/Watch", "/x/y"):
            with self.assertRaises(grpc.RpcError) as caught:
                self.channel.unary_unary(method)(b"", timeout=TIMEOUT)
            self.assertEqual(caught.exception.code(), grpc.StatusCode.UNIMPLEMENTED)

    def test_services_are_listed(self):
        for version in ("v1alpha", "v1"):
            answer, = self.reflect(version, text_field(7, ""))
            names = {dict(fields(s))[1].decode() for n, s in fields(answer[6]) if n == 1}
            self.assertLessEqual({"gable.v1.Cluster", "gable.v1.Leases", "gable.v1.Jobs",
                                  "gable.v1.Admin", "grpc.health.v1.Health",
                                  "grpc.reflection.v1.ServerReflection"}, names)

    def test_files_and_errors(self):
        answers = self.reflect("v1alpha", text_field(3, "gable.proto"),
                               text_field(4, "gable.v1.Admin"), text_field(4, "gable.v1.Nothing"),
                               text_field(3, "nothing.proto"),
                               text_field(4, "grpc.reflection.v1.ServerReflection"),
                               text_field(4, "grpc.health.v1.HealthCheckResponse.ServingStatus"))
        self.assertEqual(answers[0][4], answers[1][4])
        for bad in answers[2:4]:
            self.assertEqual(dict(fields(bad[7]))[1], 5)  # NOT_FOUND
        for good in answers[4:]:
            self.assertIn(4, good)

    def test_call_from_reflection(self):
        answer, = self.reflect("v1", text_field(4, "gable.v1.Admin"))
        file = descriptor_pb2.FileDescriptorProto.FromString(dict(fields(answer[4]))[1])
        pool = descriptor_pool.DescriptorPool()
        pool.Add(file)
        method = pool.FindServiceByName("gable.v1.Admin").FindMethodByName("Status")
        factory = message_factory.MessageFactory(pool)
        request = factory.GetPrototype(method.input_type)
        reply = factory.GetPrototype(method.output_type)
        call = self.channel.unary_unary("/gable.v1.Admin/Status",
                                        request_serializer=request.SerializeToString,
                                        response_deserializer=reply.FromString)
        status = call(request(), timeout=TIMEOUT)
        self.assertEqual(status.generation, 1)
        self.assertEqual(status.data_endpoint, self.c.data)

    def test_large_and_broken_messages(self):
        call = self.channel.unary_unary("/gable.v1.Leases/Acquire")
        for data, code in ((b"\x00" * (5 << 20), grpc.StatusCode.RESOURCE_EXHAUSTED),
                           (b"\xff" * 100, grpc.StatusCode.INVALID_ARGUMENT)):
            with self.assertRaises(grpc.RpcError) as caught:
                call(data, timeout=TIMEOUT)
            self.assertEqual(caught.exception.code(), code)
        self.assertEqual(self.health(""), [(1, 1)])


if __name__ == "__main__":
    unittest.main()
