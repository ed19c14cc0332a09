#!/usr/bin/env python3
"""Mode single through a session on a Unix socket gives the bits that it gives in process."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import check, main, site


def train(s, data, model, name, *options, env=None):
    out = s.path(name)
    worker = s.start_worker(name, "--data", data, "--model", model, "--epochs", "1", "--out", out,
                            *options, env=env)
    check(worker.wait() == 0, f"{name} failed")
    with open(out, "rb") as file:
        return worker.json(), file.read()


def test_same_as_in_process():
    with site() as s:
        data = s.small_data()
        s.start_proxy(1, unix=True)
        env = {"GABLE_PROXIES": "unix:" + s.path("proxy1")}
        for model in ("mlp", "lenet5"):
            here, here_weights = train(s, data, model, f"{model}-here", "--driver", "cpu")
            there, there_weights = train(s, data, model, f"{model}-there", env=env)
            check(here["test_accuracy"] == there["test_accuracy"], f"{here} {there}")
            check(here_weights == there_weights, "the weights differ")


main([test_same_as_in_process])
