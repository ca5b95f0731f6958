"""Each trainer asks the local coordinator for its next shard; replicas are averaged at the end."""
import argparse
import socketserver
import socket
import threading

import torch
from torch import nn


class Coordinator(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, total):
        super().__init__(("127.0.0.1", 0), Handler)
        self.total, self.given, self.lock = total, 0, threading.Lock()


class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        rank, asked = (int(v) for v in self.rfile.readline().split())
        with self.server.lock:
            shard = self.server.given
            self.server.given += 1
        self.wfile.write(f"{shard if shard < self.server.total else -1}\n".encode())


def ask(addr, rank, n):
    with socket.create_connection(addr) as s:
        s.sendall(f"{rank} {n}\n".encode())
        return int(s.makefile().readline())


def trainer(rank, addr, model, lr):
    opt = torch.optim.SGD(model.parameters(), lr=lr)
    n = 0
    while (shard := ask(addr, rank, n)) >= 0:
        x = torch.randn(32, 6, generator=torch.Generator().manual_seed(shard))
        loss = nn.functional.mse_loss(model(x)[:, 0], x.sum(1) * (shard % 4))
        opt.zero_grad()
        loss.backward()
        opt.step()
        n += 1


ap = argparse.ArgumentParser()
ap.add_argument("--shards", type=int, default=60)
ap.add_argument("--lr", type=float, default=0.02)
args = ap.parse_args()
torch.manual_seed(0)
models = [nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 1)) for _ in range(2)]
server = Coordinator(args.shards)
threading.Thread(target=server.serve_forever, daemon=True).start()
ts = [threading.Thread(target=trainer, args=(r, server.server_address, m, args.lr)) for r, m in enumerate(models)]
[t.start() for t in ts]
[t.join() for t in ts]
server.shutdown()
x = torch.randn(100, 6)
with torch.no_grad():
    for a, b in zip(models[0].parameters(), models[1].parameters()):
        a.add_(b).div_(2)
    print("averaged model loss", nn.functional.mse_loss(models[0](x)[:, 0], x.sum(1)).item())
