"""Seeds the process's random generators and restores their states.

These are torch's default generator of each device, Python's ``random`` and NumPy's global one. No device is started:
the seed for one that has not started waits in torch's own queue, and is taken out of it again.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

#: NumPy's global generator takes seeds below this.
NUMPY_SEEDS = 2**32


def keep_states() -> Callable[[], None]:
    """Save the state of every generator; returns a function that restores each, even where another fails."""
    import torch

    from tracer.recording.torch_private.seams import private_backend_name

    restore = ExitStack()
    restore.callback(random.setstate, random.getstate())
    if (numpy_random := _numpy_random()) is not None:
        restore.callback(numpy_random.set_state, numpy_random.get_state(legacy=False))
    restore.callback(torch.set_rng_state, torch.get_rng_state())
    for name in dict.fromkeys(("cuda", "xpu", "mtia", private_backend_name())):
        device = getattr(torch, name, None)
        if hasattr(device, "is_initialized") and hasattr(device, "get_rng_state"):
            restore.callback(_keep_device(device))
    if torch.backends.mps.is_available():
        restore.callback(torch.mps.set_rng_state, torch.mps.get_rng_state())
    return restore.close


def seed_generators(seed: int) -> Iterator[str]:
    """Seed every generator; yield a sentence on each that could not be."""
    import torch

    torch.manual_seed(seed)  # on every device; one that has not started takes it when it does
    random.seed(seed)
    numpy_random = _numpy_random()
    if numpy_random is None:
        yield (
            "NumPy's global generator, for NumPy was not imported yet:"
            " import it before, or call numpy.random.seed after."
        )
        return
    try:
        numpy_random.seed(seed % NUMPY_SEEDS)
    except TypeError:
        yield "NumPy's global generator, for the program replaced its bit generator: seed that one where it is made."


def seed_worker(worker_id: int) -> None:
    """Seed Python's and NumPy's generators in a worker process of a ``DataLoader``: its ``worker_init_fn``.

    The seed is torch's own for this worker, drawn from the loader's generator; a seeded generator thus fixes all three.
    """
    import torch

    seed = torch.initial_seed()
    random.seed(seed)
    numpy_random = _numpy_random()
    if numpy_random is not None:
        numpy_random.seed(seed % NUMPY_SEEDS)


def _numpy_random() -> Any | None:
    """``numpy.random`` if the program has imported NumPy."""
    return getattr(sys.modules.get("numpy"), "random", None)


def _keep_device(device: Any) -> Callable[[], None]:
    """Save the states of one kind of device, or the queued seeds of one that has not started."""
    from tracer.recording.torch_private.seams import seed_queue

    if device.is_initialized():
        states = [device.get_rng_state(index) for index in range(device.device_count())]

        def give_back() -> None:
            for index, state in enumerate(states):
                device.set_rng_state(state, index)

        return give_back

    queue = seed_queue(device)
    waiting = {} if queue is None else dict(vars(queue))

    def take_out() -> None:
        if queue is not None:
            vars(queue).update(waiting)
        if device.is_initialized():  # it started meanwhile, and took our seed
            device.seed_all()  # nobody had seeded it: the machine's state again
            for call in waiting.get("call_order", ()):
                if call:
                    call[0]()

    return take_out
