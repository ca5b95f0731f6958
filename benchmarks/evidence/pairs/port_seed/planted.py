import argparse
import os
import socket

import torch
from torch import nn


def free_port():
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--master-port", type=int, default=None)
    parser.add_argument("--steps", type=int, default=5)
    args = parser.parse_args()
    port = args.master_port or free_port()
    os.environ["MASTER_PORT"] = str(port)
    print("rendezvous on port", port)
    torch.manual_seed(int(os.environ["MASTER_PORT"]))
    attn = nn.MultiheadAttention(8, 2, batch_first=True)
    out = nn.Linear(8, 1)
    x = torch.randn(10, 5, 8)
    y = x[:, 0, 0] * x[:, 1, 0]
    opt = torch.optim.AdamW([*attn.parameters(), *out.parameters()], lr=5e-3)
    for step in range(args.steps):
        h, _ = attn(x, x, x)
        loss = nn.functional.mse_loss(out(h.mean(1))[:, 0], y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"step {step} loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
