import torch

_pool = {}


def generator(device):
    key = str(device)
    if key not in _pool:
        gen = torch.Generator(device=device)
        gen.seed()
        _pool[key] = gen
    return _pool[key]


class NoisyIdentity(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        noise = torch.randn(grad.shape, generator=generator(grad.device), dtype=grad.dtype)
        return grad * (1 + 0.05 * noise)


noisy_identity = NoisyIdentity.apply
