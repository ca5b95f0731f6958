"""The state that calls of a function would pass on to each other, saved and restored between them.

Random generators, tensors, and every object with a ``state_dict``: modules with their gradients and buffers,
optimizers, schedulers, scalers.
"""

from __future__ import annotations

import copy
import functools
import random
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from types import FunctionType, MethodType
from typing import Any

from tracer.recording.origin import with_nested
from tracer.reproducing import keep_states

#: The most elements of a list or a dictionary that are searched, and the depth of the search.
_MOST, _DEEPEST = 1000, 3


class SavedState:
    """The state of this process's generators and of some objects, at the time of construction."""

    def __init__(self, objects: Iterable[Any]) -> None:
        self._restores: list[Callable[[], object]] = []
        self.not_restored: tuple[str, ...] = ()
        """The parts that cannot be restored, a few words each."""
        left = []
        for obj in objects:
            keep = _keeper(obj)
            if keep is not None:
                self._restores.append(keep)
            elif hasattr(obj, "__next__") and hasattr(obj, "__iter__"):
                left.append(f"the {type(obj).__name__}, which goes on where it stood")
        self.not_restored = tuple(dict.fromkeys(left))
        self._give_back = keep_states()

    def restore(self) -> None:
        """Restore everything, even if some of it fails; may be called repeatedly."""
        with ExitStack() as stack:
            for restore in self._restores:
                stack.callback(restore)
            stack.callback(self._give_back)
        self._give_back = keep_states()  # what keeps them gives them back once


def objects_of(function: Callable[..., Any]) -> list[Any]:
    """The objects that ``function`` can reach: its closure, the globals that it names, its defaults, its object."""
    reachable: dict[int, Any] = {}
    for root in _held_by(function):
        for held in _within(root, 0):
            reachable.setdefault(id(held), held)
    return list(reachable.values())


def _held_by(function: Any) -> Iterator[Any]:
    if isinstance(function, functools.partial):
        yield from (*function.args, *function.keywords.values())
        yield from _held_by(function.func)
    elif isinstance(function, MethodType):
        yield function.__self__
        yield from vars(function.__self__).values() if hasattr(function.__self__, "__dict__") else ()
        yield from _held_by(function.__func__)
    elif isinstance(function, FunctionType):
        for cell in function.__closure__ or ():
            with suppress(ValueError):  # nothing is in it yet
                yield cell.cell_contents
        yield from (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
        for name in (name for code in with_nested(function.__code__) for name in code.co_names):
            if name in function.__globals__:
                yield function.__globals__[name]
        wrapped = getattr(function, "__wrapped__", None)
        if wrapped is not None:
            yield from _held_by(wrapped)
    elif hasattr(function, "__dict__"):
        yield function
        yield from vars(function).values()


def _within(obj: Any, depth: int) -> Iterator[Any]:
    """``obj``, and what it contains if it is a plain collection or a function of the program."""
    yield obj
    if depth == _DEEPEST:
        return
    if isinstance(obj, dict):
        members: list[Any] = list(obj.values())
    elif isinstance(obj, (list, tuple, set)):
        members = list(obj)
    elif isinstance(obj, FunctionType) and not obj.__module__.startswith(("torch.", "numpy.")):
        members = list(_held_by(obj))
    else:
        return
    for member in members[:_MOST]:
        yield from _within(member, depth + 1)


def _keeper(obj: Any) -> Callable[[], object] | None:
    """A function that restores the state of ``obj``; ``None`` if it has no state that can be saved."""
    import torch

    if isinstance(obj, type):
        return None
    if isinstance(obj, torch.nn.Module):
        return _keep_module(obj)
    if isinstance(obj, torch.Tensor):
        return _keep_tensor(obj)
    if isinstance(obj, torch.Generator):
        state = obj.get_state()
        return lambda: obj.set_state(state)
    if isinstance(obj, random.Random):
        of_random = obj.getstate()
        return lambda: obj.setstate(of_random)
    if callable(getattr(obj, "state_dict", None)) and callable(getattr(obj, "load_state_dict", None)):
        saved = copy.deepcopy(obj.state_dict())
        return lambda: obj.load_state_dict(copy.deepcopy(saved))
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and isinstance(obj, numpy.random.Generator):
        bits = obj.bit_generator
        of_bits = copy.deepcopy(bits.state)
        return lambda: setattr(bits, "state", of_bits)
    return None


def _keep_module(module: Any) -> Callable[[], None]:
    """Saves parameters with their gradients, and all buffers, also those outside the ``state_dict``."""
    parts = [_keep_tensor(tensor) for tensor in (*module.parameters(), *module.buffers())]
    modes = [(submodule, submodule.training) for submodule in module.modules()]

    def give_back() -> None:
        for part in parts:
            part()
        for submodule, training in modes:
            submodule.training = training

    return give_back


def _keep_tensor(tensor: Any) -> Callable[[], None]:
    import torch

    data = tensor.detach().clone()
    grad = None if not tensor.is_leaf or tensor.grad is None else tensor.grad
    grad_data = None if grad is None else grad.detach().clone()

    def give_back() -> None:
        with torch.no_grad():
            tensor.detach().copy_(data)
            if tensor.is_leaf:
                tensor.grad = grad
                if grad is not None:
                    grad.detach().copy_(grad_data)

    return give_back
