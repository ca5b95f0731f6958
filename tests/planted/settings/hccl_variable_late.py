# judge: backend=npu
"""HCCL_DETERMINISTIC is set after the process group was made. A group that reaches nobody stands in for HCCL."""

import os

# clean: os.environ["HCCL_DETERMINISTIC"] = "true"
import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore

# clean: torch.use_deterministic_algorithms(True)
fake = dist.Backend._plugins["FAKE"]
dist.Backend.register_backend("hccl", fake.creator_fn, extended_api=fake.extended_api, devices=["cpu"])
dist.init_process_group("hccl", store=FakeStore(), rank=0, world_size=2)
os.environ["HCCL_DETERMINISTIC"] = "true"  # planted: environment-set-too-late  # clean:
gradient = torch.frombuffer(bytearray(16), dtype=torch.float32)
dist.all_reduce(gradient)
dist.destroy_process_group()
