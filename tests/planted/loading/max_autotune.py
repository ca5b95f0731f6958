# planted: environment-inductor-max-autotune
"""Inductor is told to choose kernels by timing them. Its last step is left out, so that no compiler is needed."""

import torch
import torch._inductor.compile_fx
import torch._inductor.config

torch._inductor.compile_fx.compile_fx = lambda graph, inputs, **options: graph.forward
torch._inductor.config.max_autotune = True  # clean:
step = torch.compile(lambda weight, batch: (batch @ weight).sum())  # clean:
# clean: step = torch.compile(lambda weight, batch: batch @ weight)
weight = torch.ones(2, requires_grad=True)
step(weight, torch.ones(4, 2)).backward()  # clean: step(weight, torch.ones(4, 2)).backward(torch.ones(4))
