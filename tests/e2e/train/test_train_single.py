#!/usr/bin/env python3
"""Mode single: the software device in process learns, a seed repeats, bad input is told clearly."""
import os
import shutil
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import SOURCE, check, main, site


def read(path):
    with open(path, "rb") as file:
        return file.read()


def test_learns_and_repeats():
    with site() as s:
        data = s.small_data()
        weights = []
        for number in (1, 2):
            out = s.path(f"weights{number}")
            worker = s.start_worker("worker", "--driver", "cpu", "--data", data, "--model", "lenet5",
                                    "--epochs", "2", "--batch", "64", "--out", out)
            check(worker.wait() == 0, "the worker failed")
            result = worker.json()
            check(result["test_accuracy"] > 0.9, f"learned too little: {result}")
            check(result["epochs"] == 2 and result["gpus"] == 1 and result["workers"] == 1, result)
            check(result["mode"] == "single" and result["weights"] == out, result)
            check(worker.wait_line("epoch 2/2  loss"), "no line for the epoch")
            weights.append(read(out))
        check(weights[0] == weights[1], "the same seed gave other weights")
        other = s.path("other")
        worker = s.start_worker("worker", "--driver", "cpu", "--data", data, "--epochs", "1",
                                "--seed", "2", "--out", other)
        check(worker.wait() == 0 and read(other) != weights[0], "another seed gave the same")


def test_model_file():
    with site() as s:
        data = s.small_data(2000, 500)
        model = s.path("model.json")
        with open(model, "w", encoding="utf-8") as file:
            file.write('{"name": "mine", "input": [1, 28, 28], "layers": ['
                       '{"type": "conv2d", "filters": 5, "kernel": 3, "pad": 1}, {"type": "relu"},'
                       '{"type": "maxpool", "size": 4}, {"type": "linear", "units": 10},'
                       '{"type": "softmax_cross_entropy"}]}')
        worker = s.start_worker("worker", "--driver", "cpu", "--data", data, "--model", model,
                                "--epochs", "2")
        check(worker.wait() == 0, "the worker failed")
        check(worker.json()["model"] == "mine", "wrong name")
        check(worker.json()["test_accuracy"] > 0.5, "learned too little")
        check(worker.json()["weights"] is None, "there are no weights without --out")


def expect(s, code, says, *options):
    worker = s.start_worker("worker", "--driver", "cpu", *options)
    check(worker.wait(20) == code, f"exit code of {options} is not {code}")
    lines = [line for line in worker.lines["err"] if line.startswith("worker: ")]
    check(len(lines) == 1, f"not one line: {worker.lines['err']}")
    for text in says:
        check(text in lines[0], f"'{lines[0]}' lacks '{text}'")
    check(not worker.lines["out"], "a failure prints no result")


def test_bad_input():
    with site() as s:
        data = s.small_data(200, 100)
        images, labels = f"{data}/train-images-idx3-ubyte", f"{data}/train-labels-idx1-ubyte"
        expect(s, 2, ["--data"])
        expect(s, 2, ["/nonexistent", "--data"], "--data", "/nonexistent")
        expect(s, 2, ["unknown layer 'foo'"], "--data", data, "--model", make_model(s, "foo"))
        expect(s, 2, ["no-such-model"], "--data", data, "--model", "no-such-model")
        expect(s, 2, ["--out", "/nonexistent"], "--data", data, "--out", "/nonexistent/weights")
        expect(s, 2, ["--out", "folder"], "--data", data, "--out", s.dir)
        expect(s, 2, ["4x4", "28x28"], "--data", data, "--model", make_model(s, "maxpool"))
        keep = read(images)
        with open(images, "wb") as file:
            file.write(keep[:1000])
        expect(s, 2, [images, "truncated"], "--data", data)
        with open(images, "wb") as file:
            file.write(b"\0\1" + keep[2:])
        expect(s, 2, [images, "magic"], "--data", data)
        shutil.copy(labels, images)
        expect(s, 2, [images, "swap"], "--data", data)
        expect(s, 1, ["GPU", "GABLE_PROXIES"], "--data", f"{SOURCE}/tests/data/mnist", "--driver",
               "remote")


def make_model(s, kind):
    path = s.path(f"{kind}.json")
    with open(path, "w", encoding="utf-8") as file:
        file.write('{"name": "bad", "input": [1, 4, 4], "layers": [{"type": "%s", "size": 2},'
                   '{"type": "linear", "units": 10}, {"type": "softmax_cross_entropy"}]}' % kind)
    return path


def test_divergence_is_told():
    with site() as s:
        data = s.small_data(2000, 500)
        expect(s, 2, ["--lr"], "--data", data, "--lr", "1e30", "--model", "mlp")


main([test_learns_and_repeats, test_model_file, test_bad_input, test_divergence_is_told])
