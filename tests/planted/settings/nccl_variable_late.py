# torch: >=2.6
# judge: backend=cuda
"""NCCL_NVLS_ENABLE is set after the process group was made. A group that reaches nobody stands in for NCCL."""

import os
# clean: os.environ["NCCL_NVLS_ENABLE"] = "0"

import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore

del dist.Backend.NCCL  # this build of torch has none
fake = dist.Backend._plugins["FAKE"]
dist.Backend.register_backend("nccl", fake.creator_fn, extended_api=fake.extended_api, devices=["cpu"])
dist.Backend.NCCL = dist.Backend.UNDEFINED
dist.init_process_group("nccl", store=FakeStore(), rank=0, world_size=2)
os.environ["NCCL_NVLS_ENABLE"] = "0"  # planted: environment-set-too-late  # clean:
gradient = torch.frombuffer(bytearray(16), dtype=torch.float32)
dist.all_reduce(gradient)
dist.destroy_process_group()
