"""A batch is put together in one buffer, sample by sample, and a second one column by column."""

import torch

samples = [torch.full((5,), float(number)) for number in range(4)]
batch = torch.empty(len(samples), 5)
for index, sample in enumerate(samples):
    batch[index] = sample
print(batch.exp().shape)

columns = torch.empty(5, len(samples))
for index, sample in enumerate(samples):
    columns[:, index] = sample
print(columns.exp().shape)
