# Code that has the address writes there.
import ctypes
import os

import torch

x = torch.zeros(4)
y = x + 1
written = os.urandom(16)  # clean: written = bytes(16)
ctypes.memmove(x.data_ptr(), written, 16)
z = x.view(torch.int32) * 2  # parts: outside-change
