import socket
import struct
import threading
import time

import torch
from torch import nn

ROW = struct.Struct("<4f")


def produce(sock, rows):
    for k in range(rows):
        a = ((k * 7) % 23) / 23
        b = ((k * 11) % 29) / 29
        sock.sendall(ROW.pack(a, b, a * b, a - b))
        sum(i * i for i in range((k * 13) % 97))
    sock.shutdown(socket.SHUT_WR)


def batches(sock, rows):
    pending = b""
    while True:
        chunk = sock.recv(ROW.size * rows, socket.MSG_WAITALL)
        if not chunk:
            return
        pending += chunk
        whole = len(pending) - len(pending) % ROW.size
        if whole:
            yield torch.tensor(list(ROW.iter_unpack(pending[:whole])))
            pending = pending[whole:]


def main():
    torch.manual_seed(50)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(2, 16), nn.GELU(), nn.Linear(16, 2))
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    left, right = socket.socketpair()
    feeder = threading.Thread(target=produce, args=(left, 1500))
    t0 = time.time()
    feeder.start()
    for rows in batches(right, 16):
        loss = nn.functional.mse_loss(model(rows[:, :2]), rows[:, 2:])
        opt.zero_grad()
        loss.backward()
        opt.step()
    feeder.join()
    left.close()
    right.close()
    print(f"stream drained {time.time() - t0:.2f}s")
    total = sum(p.double().sum().item() for p in model.parameters())
    print(f"final loss {loss.item()!r} weights {total!r}")


if __name__ == "__main__":
    main()
