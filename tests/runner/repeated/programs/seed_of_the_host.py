# vary: environment
import socket
import zlib

import torch

torch.manual_seed(zlib.crc32(socket.gethostname().encode()))  # clean: torch.manual_seed(5)
noise = torch.randn(4)  # parts: draw
