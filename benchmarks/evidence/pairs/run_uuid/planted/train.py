import uuid
import torch
import torch.nn as nn

torch.manual_seed(1)
run_id = uuid.uuid4()
p = 0.1 + (run_id.int % 1009) / 5000


class Head(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.fc = nn.Linear(10, 10)
        self.drop = nn.Dropout(p)

    def forward(self, x):
        return self.drop(torch.relu(self.fc(x)))


model = nn.Sequential(Head(p), Head(p), nn.Linear(10, 2))
data, target = torch.randn(16, 10), torch.randint(0, 2, (16,))
opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(4):
    loss = nn.CrossEntropyLoss()(model(data), target)
    opt.zero_grad(set_to_none=False)
    loss.backward()
    opt.step()
