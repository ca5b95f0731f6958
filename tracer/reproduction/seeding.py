"""The process's own random generators: seeded, and put back as they were.

Torch's default generator of each device, Python's ``random`` and NumPy's global one. No device is started: a seed for
one that sleeps waits in torch's own queue, and is taken out of it again.
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
    """Keep the state of every generator; the function returned gives each its state back, whatever failed between."""
    kept = ExitStack()
    for keep in (_keep_python, _keep_numpy, _keep_torch):
        kept.callback(keep())
    return kept.close


def seed_generators(seed: int) -> Iterator[str]:
    """Seed every generator; yield a sentence on each that could not be."""
    import torch

    torch.manual_seed(seed)  # and every device: those that sleep take it when they start
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
    """NumPy's module of generators where the program has NumPy loaded; loading it is not ours to do."""
    numpy: Any = sys.modules.get("numpy")
    return None if numpy is None else getattr(numpy, "random", None)


def _keep_python() -> Callable[[], None]:
    state = random.getstate()
    return lambda: random.setstate(state)


def _keep_numpy() -> Callable[[], None]:
    numpy_random = _numpy_random()
    if numpy_random is None:
        return _nothing
    state = numpy_random.get_state(legacy=False)
    return lambda: numpy_random.set_state(state)


def _keep_torch() -> Callable[[], None]:
    import torch

    from tracer.recording.torch_private.seams import private_backend_name

    state = torch.get_rng_state()
    kept = ExitStack()
    kept.callback(lambda: torch.set_rng_state(state))
    for name in dict.fromkeys(("cuda", "xpu", "mtia", private_backend_name())):
        device = getattr(torch, name, None)
        if hasattr(device, "is_initialized") and hasattr(device, "get_rng_state"):
            kept.callback(_keep_device(device))
    if torch.backends.mps.is_available():
        on_mps = torch.mps.get_rng_state()
        kept.callback(lambda: torch.mps.set_rng_state(on_mps))
    return kept.close


def _keep_device(device: Any) -> Callable[[], None]:
    """Keep the states of one kind of device, or, where it sleeps, the seeds that wait for it."""
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


def _nothing() -> None:
    return None
