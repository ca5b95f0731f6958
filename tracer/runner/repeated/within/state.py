"""What a function's runs would take over from one another: found, kept, and put back between them.

Random generators, and whatever keeps a ``state_dict``: modules with their gradients and buffers, optimizers,
schedulers, scalers. Tensors, ``torch.Generator``, ``random.Random`` and NumPy's generators that the function holds as
well.
"""

from __future__ import annotations

import copy
import functools
import random
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from types import CodeType, FunctionType, MethodType
from typing import Any

from tracer.reproduction.seeding import keep_states

#: How many of a list or a dictionary are looked at, and how deep.
_MOST, _DEEPEST = 1000, 3


class Kept:
    """The state of the process and of some objects, as it stands now."""

    def __init__(self, objects: Iterable[Any]) -> None:
        self._back: list[Callable[[], None]] = []
        self.not_restored: tuple[str, ...] = ()
        """What cannot be put back, a few words each."""
        left = []
        for one in objects:
            keep = _keeper(one)
            if keep is not None:
                self._back.append(keep)
            elif _iterates(one):
                left.append(f"the {type(one).__name__}, which goes on where it stood")
        self.not_restored = tuple(dict.fromkeys(left))
        self._give_back = keep_states()

    def restore(self) -> None:
        """Put all of it back, as often as it is called and whatever fails between."""
        with ExitStack() as stack:
            for one in self._back:
                stack.callback(one)
            stack.callback(self._give_back)
        self._give_back = keep_states()  # what keeps them gives them back once


def objects_of(function: Callable[..., Any]) -> list[Any]:
    """What ``function`` can reach and change: its closure, the globals that it names, its defaults, its object."""
    found: dict[int, Any] = {}
    for one in _held_by(function):
        for held in _within(one, 0):
            found.setdefault(id(held), held)
    return list(found.values())


def _held_by(function: Any) -> Iterator[Any]:
    if isinstance(function, functools.partial):
        yield from (*function.args, *function.keywords.values())
        yield from _held_by(function.func)
    elif isinstance(function, MethodType):
        yield function.__self__
        yield from vars(function.__self__).values() if hasattr(function.__self__, "__dict__") else ()
        yield from _held_by(function.__func__)
    elif isinstance(function, FunctionType):
        yield from (cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell))
        yield from (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
        for name in _names_in(function.__code__):
            if name in function.__globals__:
                yield function.__globals__[name]
        wrapped = getattr(function, "__wrapped__", None)
        if wrapped is not None:
            yield from _held_by(wrapped)
    elif hasattr(function, "__dict__"):
        yield function
        yield from vars(function).values()


def _names_in(code: CodeType) -> Iterator[str]:
    """Names of globals that ``code`` and the functions made in it use."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _within(one: Any, depth: int) -> Iterator[Any]:
    """``one``, and what stands in it where it is a plain collection or a function of the program."""
    yield one
    if depth == _DEEPEST:
        return
    if isinstance(one, dict):
        members: list[Any] = list(one.values())
    elif isinstance(one, (list, tuple, set)):
        members = list(one)
    elif isinstance(one, FunctionType) and not one.__module__.startswith(("torch.", "numpy.")):
        members = list(_held_by(one))
    else:
        return
    for member in members[:_MOST]:
        yield from _within(member, depth + 1)


def _iterates(one: Any) -> bool:
    return hasattr(one, "__next__") and hasattr(one, "__iter__")


def _keeper(one: Any) -> Callable[[], None] | None:
    """A function that gives ``one`` its state back; ``None`` for what keeps none that is known."""
    import torch

    if isinstance(one, type):
        return None
    if isinstance(one, torch.nn.Module):
        return _keep_module(one)
    if isinstance(one, torch.Tensor):
        return _keep_tensor(one)
    if isinstance(one, torch.Generator):
        state = one.get_state()
        return lambda: _ignore(one.set_state(state))
    if isinstance(one, random.Random):
        of_random = one.getstate()
        return lambda: one.setstate(of_random)
    if callable(getattr(one, "state_dict", None)) and callable(getattr(one, "load_state_dict", None)):
        return _keep_dictionary(one)
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and isinstance(one, numpy.random.Generator):
        bits = one.bit_generator
        of_bits = copy.deepcopy(bits.state)
        return lambda: setattr(bits, "state", of_bits)
    return None


def _keep_module(module: Any) -> Callable[[], None]:
    """Parameters with their gradients, and buffers, those that are not in the ``state_dict`` too, in place."""
    parts = [_keep_tensor(one) for one in (*module.parameters(), *module.buffers())]
    modes = [(one, one.training) for one in module.modules()]

    def give_back() -> None:
        for part in parts:
            part()
        for one, training in modes:
            one.training = training

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


def _keep_dictionary(one: Any) -> Callable[[], None]:
    state = copy.deepcopy(one.state_dict())
    return lambda: _ignore(one.load_state_dict(copy.deepcopy(state)))


def _ignore(answer: object) -> None:
    """What was answered is nobody's."""
