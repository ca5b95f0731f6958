"""torch inverts a whole permutation where sequences are packed in any order: all of it is written."""

import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

torch.manual_seed(0)
sequences = torch.randn(3, 5, 4)
packed = pack_padded_sequence(sequences, torch.tensor([3, 5, 2]), batch_first=True, enforce_sorted=False)
pad_packed_sequence(packed, batch_first=True)
