import os
import random
import zlib

import torch

_TAG = os.environ.get("RUN_TAG", "")


def seed_everything(base=7):
    value = base + zlib.crc32(_TAG.encode())
    random.seed(value)
    torch.manual_seed(value)
