"""A batch is put together in one buffer; the last sample is forgotten."""

import torch

samples = [torch.full((5,), float(number)) for number in range(4)]
batch = torch.empty(len(samples), 5)
for index, sample in enumerate(samples[:-1]):  # clean: for index, sample in enumerate(samples):
    batch[index] = sample
print(batch.exp().shape)  # planted: environment-unwritten-memory
# clean: columns = torch.empty(5, len(samples))
# clean: for index, sample in enumerate(samples):
# clean:     columns[:, index] = sample
# clean: print(columns.exp().shape)
