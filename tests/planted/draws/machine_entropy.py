"""Numbers that come from the machine itself, each at its line."""

import os
import secrets
import ssl
import uuid
from os import urandom

import torch

numbers = [
    os.urandom(1)[0],  # planted: environment-machine-number
    urandom(1)[0],  # planted: environment-machine-number
    uuid.uuid4().int % 100,  # planted: environment-machine-number
    uuid.uuid1().int % 100,  # planted: environment-machine-number
    secrets.randbelow(100),  # planted: environment-machine-number
    secrets.choice(range(100)),  # planted: environment-machine-number
    secrets.token_bytes(1)[0],  # planted: environment-machine-number
    ssl.RAND_bytes(1)[0],  # planted: environment-machine-number
]
weight = torch.ones(len(numbers), requires_grad=True)
optimizer = torch.optim.SGD([weight], 0.1)
(torch.tensor(numbers, dtype=torch.float32) @ weight).backward()
optimizer.step()
