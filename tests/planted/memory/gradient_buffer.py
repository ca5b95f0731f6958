"""Gradients of two batches are added up in a buffer that was never cleared."""

import torch

torch.manual_seed(0)
weight = torch.ones(6, requires_grad=True)
buffer = weight.new_empty(6)
for _ in range(2):  # clean: for number in range(2):
    (weight * torch.arange(6.0)).sum().backward()
    with torch.no_grad():
        buffer += weight.grad  # planted: environment-unwritten-memory  # clean:
    # clean:         if number == 0:
    # clean:             buffer.copy_(weight.grad)
    # clean:         else:
    # clean:             buffer += weight.grad
    weight.grad = None
print(buffer.shape)
