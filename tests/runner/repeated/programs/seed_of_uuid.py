import uuid

import torch

generator = torch.Generator()
generator.manual_seed(uuid.uuid4().int % 2**63)  # clean: generator.manual_seed(7)
noise = torch.randn(8, generator=generator)  # parts: draw
noise.sum()
