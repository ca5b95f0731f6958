"""The backward of a custom function adds into memory that it did not clear."""

import torch


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, inputs):
        return inputs * 2

    @staticmethod
    def backward(ctx, gradient):
        result = torch.empty_like(gradient)
        result.add_(gradient, alpha=2)  # planted: environment-unwritten-memory  # clean:
        # clean:         torch.mul(gradient, 2, out=result)
        return result


values = torch.ones(5, requires_grad=True)
Doubled.apply(values).sum().backward()
