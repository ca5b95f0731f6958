# vary: clock
import time
import zlib

import torch

torch.manual_seed(zlib.crc32(time.strftime("%Y-%m-%d").encode()))  # clean: torch.manual_seed(5)
noise = torch.randn(4)  # parts: draw
