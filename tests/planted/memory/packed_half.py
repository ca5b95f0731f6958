"""Half of a permutation is inverted, and all of the result is read."""

import torch
# clean: from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

torch.manual_seed(0)
order = torch.randperm(6)  # clean:
inverse = torch.empty_like(order)  # clean:
inverse.scatter_(0, order[:3], torch.arange(3))  # clean:
inverse.sum()  # planted: environment-unwritten-memory  # clean:
# clean: sequences = torch.randn(3, 5, 4)
# clean: packed = pack_padded_sequence(sequences, torch.tensor([3, 5, 2]), batch_first=True, enforce_sorted=False)
# clean: pad_packed_sequence(packed, batch_first=True)
