#!/usr/bin/env python3
"""Peer of mnist_epoch: the same models, data and batch in PyTorch on the CPU.

usage: mnist_epoch_torch.py MODEL DATA_DIR BATCH THREADS   prints the seconds of one epoch
"""
import gzip
import struct
import sys
import time

try:
    import torch
except ImportError:
    sys.exit(3)
from torch import nn


def load(path, header):
    with gzip.open(path, "rb") as file:
        data = file.read()
    return torch.frombuffer(bytearray(data[header:]), dtype=torch.uint8)


def make(name):
    if name == "mlp":
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512),
                             nn.ReLU(), nn.Linear(512, 10))
    return nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(),
                         nn.Linear(84, 10))


def epoch(model, optimizer, images, labels, batch):
    order = torch.randperm(len(labels))
    for first in range(0, len(labels), batch):
        index = order[first:first + batch]
        x = (images[index].float() / 255 - 0.1307) / 0.3081
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), labels[index]).backward()
        optimizer.step()


def main():
    name, folder, batch, threads = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    images = load(folder + "/train-images-idx3-ubyte.gz", 16).reshape(-1, 1, 28, 28)
    labels = load(folder + "/train-labels-idx1-ubyte.gz", 8).long()
    model = make(name)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    epoch(model, optimizer, images[:2048], labels[:2048], batch)
    start = time.perf_counter()
    epoch(model, optimizer, images, labels, batch)
    print(time.perf_counter() - start)


main()
