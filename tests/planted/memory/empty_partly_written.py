"""A batch is put together in one buffer; the last sample is forgotten."""

import torch

samples = [torch.full((5,), float(number)) for number in range(4)]
batch = torch.empty(len(samples), 5)
for index, sample in enumerate(samples[:-1]):
    batch[index] = sample
print(batch.exp().shape)  # planted: environment-unwritten-memory
