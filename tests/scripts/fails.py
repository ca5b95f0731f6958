"""Train one step, then fail as the first argument says."""

import os
import signal
import sys

import torch

weight = torch.ones(3, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
weight.sum().backward()
optimizer.step()


def fail(how):
    """Leave the process in one of the ways in which scripts do."""
    if how == "exit3":
        sys.exit(3)
    if how == "message":
        sys.exit("the data is gone")
    if how == "op":
        torch.ones(2) @ torch.ones(3)
    if how == "raise":
        raise KeyError("no such batch")
    if how in ("SIGINT", "SIGTERM"):
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell's background jobs inherit it
            signal.signal(signal.SIGINT, signal.default_int_handler)
        os.kill(os.getpid(), getattr(signal, how))
        signal.pause()


fail(sys.argv[1])
