import argparse
import os
import zlib
from datetime import datetime

import torch
from torch import nn


def make_run_name(args):
    stamp = datetime.now().strftime("%m%d-%H%M%S.%f")
    return f"mlp-w{args.width}-lr{args.lr:g}-{stamp}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=24)
    parser.add_argument("--lr", type=float, default=0.03)
    parser.add_argument("--logdir", default="logs")
    args = parser.parse_args()
    name = make_run_name(args)
    os.makedirs(args.logdir, exist_ok=True)
    log = open(os.path.join(args.logdir, name + ".txt"), "w")
    torch.manual_seed(zlib.crc32(name.encode()))
    net = nn.Sequential(nn.Linear(7, args.width), nn.ELU(), nn.Linear(args.width, 7))
    opt = torch.optim.SGD(net.parameters(), lr=args.lr, momentum=0.8)
    x = torch.eye(7)
    for i in range(6):
        opt.zero_grad()
        loss = nn.functional.mse_loss(net(x), x.roll(1, 0))
        loss.backward()
        opt.step()
        log.write(f"{i},{loss.item()}\n")
        print(i, loss.item())
    log.close()


main()
