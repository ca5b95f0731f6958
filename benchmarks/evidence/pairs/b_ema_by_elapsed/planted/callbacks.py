import time

import torch


class CallbackList(list):
    def fire(self, hook, *args):
        for cb in self:
            getattr(cb, hook)(*args)


class Progress:
    def __init__(self):
        self.marks = [time.perf_counter()]

    def after_step(self, model, step):
        self.marks.append(time.perf_counter())

    def mean_ms(self):
        return 1e3 * (self.marks[-1] - self.marks[0]) / (len(self.marks) - 1)


class Ema:
    def __init__(self, model, half_life):
        self.half_life = half_life
        self.shadow = {k: v.detach().clone() for k, v in model.state_dict().items() if v.is_floating_point()}
        self.last = time.monotonic()

    @torch.no_grad()
    def after_step(self, model, step):
        now = time.monotonic()
        decay = 0.5 ** ((now - self.last) / self.half_life)
        self.last = now
        state = model.state_dict()
        for k, v in self.shadow.items():
            v.lerp_(state[k], 1 - decay)

    def swap_into(self, model):
        model.load_state_dict(self.shadow, strict=False)
