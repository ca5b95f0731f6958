import enum
import torch
from torch import nn


class Task(enum.Enum):
    SEG = "seg"
    CLS = "cls"
    DET = "det"
    POSE = "pose"
    FLOW = "flow"
    OCR = "ocr"


torch.manual_seed(3)
schedule = [t for t in {*Task}] * 2
trunk = nn.Linear(5, 5)
heads = {t: nn.Linear(5, 1) for t in Task}
params = [*trunk.parameters()] + [p for t in Task for p in heads[t].parameters()]
opt = torch.optim.Adam(params, lr=0.02)
x = torch.randn(7, 5)
for task in schedule:
    loss = heads[task](trunk(x).tanh()).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
