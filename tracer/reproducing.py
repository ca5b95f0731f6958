"""``reproducible``: makes a plan's settings in one line, and undoes them at the end of a block.

Its settings belong to the process: backward passes run under them too, whichever thread the autograd engine takes. What
torch keeps per thread is named in ``could_not_set``.
"""

from __future__ import annotations

import contextvars
import functools
import inspect
import os
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from tracer.errors import UsageError
from tracer.recording.process.settings import make
from tracer.tables.settings import CUBLAS_VARIABLE, CUBLAS_WORKSPACES, DECLARED, FILL, MODE

if TYPE_CHECKING:
    import torch

F = TypeVar("F", bound=Callable[..., Any])

HASH_SEED = "PYTHONHASHSEED"
_SETTINGS = {setting.key: setting for setting in DECLARED}


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


# --- settings ------------------------------------------------------------------------------------------------


class _Wanted(NamedTuple):
    seed: int | None
    deterministic: bool | None
    warn_only: bool
    cudnn_benchmark: bool | None
    fill: bool | None
    cublas_workspace: str | None
    threads: int | None


class Reproducible:
    """Settings and seeds in force until ``restore()`` or the end of a ``with`` block."""

    seed_worker = staticmethod(seed_worker)
    """For ``DataLoader(worker_init_fn=...)``: seeds Python's and NumPy's generators in each worker."""

    def __init__(self, wanted: _Wanted, frame: FrameType | None) -> None:
        """Use ``reproducible(...)``. ``frame`` is the caller's, for an error to name its line."""
        self._wanted = wanted
        self._undo: ExitStack | None = None
        self._depth = 0
        self.could_not_set: tuple[str, ...] = ()
        """Settings that could not be made, a sentence each."""
        self._apply(frame)

    def __enter__(self) -> Reproducible:
        if self._undo is None:  # entered again after it was restored
            self._apply(sys._getframe(1))
        self._depth += 1
        return self

    def __exit__(self, *problem: object) -> None:
        self._depth = max(0, self._depth - 1)
        if self._depth == 0:
            self.restore()

    def __call__(self, function: F) -> F:
        """Decorate ``function``: each call of it runs under the settings, and begins with the seed."""
        if not callable(function) or inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
            raise UsageError("reproducible(...) decorates plain functions", hint="use it in a `with` inside this one")
        self.restore()  # it is set again at each call

        @functools.wraps(function)
        def repeated(*args: Any, **kwargs: Any) -> Any:
            with Reproducible(self._wanted, sys._getframe(1)):
                return function(*args, **kwargs)

        return repeated  # type: ignore[return-value]

    def restore(self) -> None:
        """Put back every setting and generator as it stood before; a second call does nothing."""
        undo, self._undo = self._undo, None
        self._depth = 0
        if undo is not None:
            undo.close()

    def generator(self) -> torch.Generator:
        """A new generator with the seed, for ``DataLoader(generator=...)``: it fixes order and worker seeds."""
        import torch

        if self._wanted.seed is None:
            raise UsageError("there is no seed to make a generator with", hint="give reproducible(...) one")
        return torch.Generator().manual_seed(self._wanted.seed)

    def _apply(self, frame: FrameType | None) -> None:
        try:
            import torch  # noqa: F401
        except ImportError as problem:
            raise UsageError("torch cannot be imported", hint="reproducible(...) sets torch's settings") from problem
        _refuse_late_workspace(self._wanted.cublas_workspace, frame)
        with ExitStack() as undo:
            self.could_not_set = tuple(_set(self._wanted, undo))
            self._undo = undo.pop_all()


def reproducible(
    seed: int | None = 0,
    *,
    deterministic: bool | None = True,
    warn_only: bool = False,
    cudnn_benchmark: bool | None = False,
    fill: bool | None = None,
    cublas_workspace: str | None = ":4096:8",
    threads: int | None = None,
) -> Reproducible:
    """Make this process's runs repeat: seeds, deterministic mode, cuDNN, cuBLAS. No device is initialized.

    After a plain call the settings stay. As a context manager it restores everything at the end, also after an
    exception: settings, the variable, and the state of every generator. As a decorator it does so around each call. The
    settings apply to the whole process: on all threads, in forward and backward.

    Parameters
    ----------
    seed
        For torch on every device, Python and NumPy (modulo 2**32); ``None`` leaves generators alone.
    deterministic
        ``torch.use_deterministic_algorithms`` and ``torch.backends.cudnn.deterministic``; ``None`` leaves both.
    warn_only
        Ops without a deterministic kernel warn instead of raising.
    cudnn_benchmark
        Whether cuDNN may choose its algorithms by timing them; ``None`` leaves it.
    fill
        Whether deterministic mode fills unwritten memory; ``None`` leaves it.
    cublas_workspace
        ``:4096:8`` or ``:16:8`` for ``CUBLAS_WORKSPACE_CONFIG``; ``None`` leaves the variable.
    threads
        The number of intra-op threads, by which sums on a CPU may be split; ``None`` leaves it.

    Raises
    ------
    UsageError
        CUDA was initialized without the variable, which cuBLAS reads once; the message names the line that initialized
        CUDA if it is known, else the caller's. Or an argument has an invalid value.

    Examples
    --------
    ```python
    with tracer.reproducible(0) as done:
        loader = DataLoader(
            data, shuffle=True, num_workers=2, worker_init_fn=done.seed_worker, generator=done.generator()
        )
        train(loader)
    ```
    """
    if seed is not None and (not isinstance(seed, int) or isinstance(seed, bool)):
        raise UsageError(f"a seed is a whole number, not {type(seed).__name__}", hint="write reproducible(0)")
    if seed is not None and not -(2**63) <= seed < 2**64:
        raise UsageError(f"torch takes no seed of {seed.bit_length()} bits", hint="give one of 64 bits at most")
    if cublas_workspace is not None and cublas_workspace not in CUBLAS_WORKSPACES:
        workspaces = " or ".join(sorted(CUBLAS_WORKSPACES))
        raise UsageError(
            f"cuBLAS does not repeat itself with {CUBLAS_VARIABLE}={cublas_workspace}", hint=f"use {workspaces}"
        )
    if threads is not None and threads < 1:
        raise UsageError(f"{threads} threads compute nothing", hint="give one or more")
    wanted = _Wanted(seed, deterministic, warn_only, cudnn_benchmark, fill, cublas_workspace, threads)
    return Reproducible(wanted, sys._getframe(1))


def _set(wanted: _Wanted, undo: ExitStack) -> Iterator[str]:
    """Make every setting, with ``undo`` putting it back; yield what could not be set."""
    import torch

    if wanted.cublas_workspace is not None and torch.version.hip is None:
        was = os.environ.get(CUBLAS_VARIABLE)
        if not torch.cuda.is_initialized():
            undo.callback(make(_SETTINGS[CUBLAS_VARIABLE], wanted.cublas_workspace))
        elif was != wanted.cublas_workspace:  # the other accepted value, or this would have been refused
            yield f"{CUBLAS_VARIABLE}, which stays {was}: CUDA started with it, and it serves as well."
    if wanted.deterministic is not None:
        yield from _set_mode(wanted.deterministic, wanted.warn_only, undo)
    flags = {
        "cudnn_deterministic": wanted.deterministic,
        "cudnn_benchmark": wanted.cudnn_benchmark,
        FILL: wanted.fill,
        "num_threads": wanted.threads,
    }
    for key, value in flags.items():
        if value is not None:
            undo.callback(make(_SETTINGS[key], value))
    if wanted.threads is not None:
        yield "The number of threads on Python threads that already computed: each keeps its own."
    if wanted.seed is not None:
        undo.callback(keep_states())
        yield from seed_generators(wanted.seed)
    yield from _out_of_reach(wanted)


def _set_mode(mode: bool, warn_only: bool, undo: ExitStack) -> Iterator[str]:
    from tracer.recording.torch_private.seams import inductor_settings

    inductor = inductor_settings()
    if inductor is not None:  # the mode overwrites this flag
        undo.callback(setattr, inductor, "deterministic", inductor.deterministic)
    undo.callback(make(_SETTINGS[MODE], ("warn" if warn_only else "on") if mode else "off"))
    if mode and inductor is not None and not contextvars.Context().run(lambda: inductor.deterministic):
        yield (
            "Inductor's deterministic flag on other threads, for torch keeps it for each thread:"
            " start the script with TORCHINDUCTOR_DETERMINISTIC=1."
        )


def _refuse_late_workspace(value: str | None, frame: FrameType | None) -> None:
    """Raise if CUDA runs and cuBLAS may have read the variable without an accepted value."""
    import torch

    now = os.environ.get(CUBLAS_VARIABLE)
    if value is None or torch.version.hip is not None or not torch.cuda.is_initialized() or now in CUBLAS_WORKSPACES:
        return
    from tracer.recording.origin import Sites
    from tracer.recording.process.environment import where_cuda_started

    started = where_cuda_started()
    where = f"{started} started CUDA" if started else f"{Sites().location(frame)}: CUDA has started"
    raise UsageError(
        f"{where}, and {CUBLAS_VARIABLE} is {now or 'not set'}; cuBLAS reads it once",
        hint=f"call reproducible(...) before the first CUDA call, or start the script with {CUBLAS_VARIABLE}={value}",
    )


def _out_of_reach(wanted: _Wanted) -> Iterator[str]:
    """Yield the generators that nobody but the program can reach, and settings that were read before this line."""
    if wanted.seed is not None:
        yield "torch.Generator objects that the program made: give each its seed where it is made."
        if sys.modules.get("numpy") is not None:
            yield "NumPy's Generator objects (numpy.random.default_rng): give each its seed where it is made."
        yield (
            "Worker processes of a DataLoader: pass worker_init_fn=done.seed_worker and generator=done.generator(),"
            " where `done` is what reproducible(...) gave."
        )
    if sys.flags.hash_randomization and not os.environ.get(HASH_SEED, "").isdigit():
        yield f"Python's string hashes, and with them the order of sets: start the script with {HASH_SEED}=0."
    if wanted.deterministic and "torch._inductor.compile_fx" in sys.modules:
        yield "Code that torch.compile compiled before: it keeps the settings that it was compiled under."
    if wanted.deterministic and "torch_npu" in sys.modules:
        yield (
            "Ascend's deterministic mode on threads that already ran an op: the first effective setting stays."
            " Call reproducible(...) before."
        )
