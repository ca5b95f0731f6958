import queue
import threading
import torch
from torch import nn

torch.manual_seed(12)
q = queue.Queue()
data = torch.randn(4, 12, 5)


def produce(k):
    for row in data[k]:
        for _ in range(40):
            row = (row * 1.1).sin()
        q.put((row * (k + 1)).softmax(0) @ torch.eye(5))


workers = [threading.Thread(target=produce, args=(k,), daemon=True) for k in range(4)]
for w in workers:
    w.start()
net = nn.Linear(5, 3)
opt = torch.optim.SGD(net.parameters(), lr=0.5, momentum=0.9)
for _ in range(12):
    x = torch.stack([q.get() for _ in range(4)])
    loss = net(x).logsumexp(1).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()

if __name__ == "__main__":
    import os as _os
    if _os.environ.get("FINAL_DIGEST"):
        import hashlib as _h
        _s = net
        _s = list(_s.state_dict().values()) if hasattr(_s, "state_dict") else list(_s)
        open(_os.environ["FINAL_DIGEST"], "a").write(_h.sha256(b"".join(t.detach().numpy().tobytes() for t in _s)).hexdigest() + "\n")
