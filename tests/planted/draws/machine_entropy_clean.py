"""Numbers that repeat, beside what the standard library takes from the machine for itself."""

import hashlib
import tempfile
import uuid
from multiprocessing import Lock

import torch

name = uuid.uuid5(uuid.NAMESPACE_URL, "https://example.invalid")
numbers = [name.int % 100, hashlib.sha256(b"text").digest()[0]]
lock = Lock()
with tempfile.TemporaryDirectory() as folder, tempfile.NamedTemporaryFile(dir=folder):
    weight = torch.ones(len(numbers), requires_grad=True)
    optimizer = torch.optim.SGD([weight], 0.1)
    (torch.tensor(numbers, dtype=torch.float32) @ weight).backward()
    optimizer.step()
