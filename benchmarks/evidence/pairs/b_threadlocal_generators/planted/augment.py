import threading

import torch


class Augmenter:
    def __init__(self, seed):
        self.seed, self.started = seed, 0
        self.local, self.lock = threading.local(), threading.Lock()

    def generator(self, index):
        if not hasattr(self.local, "gen"):
            with self.lock:
                self.local.gen = torch.Generator().manual_seed(self.seed + self.started)
                self.started += 1
        return self.local.gen

    def __call__(self, index, x):
        gen = self.generator(index)
        spectrum = torch.fft.rfft(x)
        phase = torch.rand(spectrum.shape, generator=gen)
        keep = (phase > 0.1).to(x.dtype)
        noise = 0.1 * torch.randn(x.shape, generator=gen)
        return torch.fft.irfft(spectrum * keep, n=x.shape[-1]) + noise
