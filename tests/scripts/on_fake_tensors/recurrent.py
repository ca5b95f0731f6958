import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

torch.manual_seed(0)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(50, 16, padding_idx=0)
        self.lstm = nn.LSTM(16, 16, num_layers=2, bidirectional=True, batch_first=True, dropout=0.1)
        self.gru = nn.GRU(16, 8, batch_first=True)
        self.head = nn.Linear(8, 5)

    def forward(self, words, lengths):
        packed = pack_padded_sequence(self.words(words), lengths, batch_first=True, enforce_sorted=False)
        _, (last, _) = self.lstm(packed)
        return self.head(self.gru(last.transpose(0, 1))[0][:, -1])


model = Classifier()
optimizer = torch.optim.RMSprop(model.parameters())
for _ in range(2):
    words, labels = torch.randint(0, 50, (4, 10)), torch.randint(0, 5, (4,))
    nn.functional.cross_entropy(model(words, torch.tensor([10, 7, 9, 4])), labels).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
