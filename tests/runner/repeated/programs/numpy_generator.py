import numpy
import torch

noise = numpy.random.default_rng().random(8)  # clean: noise = numpy.random.default_rng(0).random(8)
x = torch.from_numpy(noise)
y = x * 2  # parts: input-data
