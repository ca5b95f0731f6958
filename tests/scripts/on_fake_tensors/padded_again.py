import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

torch.manual_seed(0)
lstm, head = nn.LSTM(8, 16, batch_first=True), nn.Linear(16, 3)
optimizer = torch.optim.SGD([*lstm.parameters(), *head.parameters()], lr=0.1)
for _ in range(2):
    packed = pack_padded_sequence(torch.randn(4, 10, 8), [9, 7, 5, 2], batch_first=True)
    hidden, lengths = pad_packed_sequence(lstm(packed)[0], batch_first=True)
    (head(hidden).sum((1, 2)) / lengths).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
