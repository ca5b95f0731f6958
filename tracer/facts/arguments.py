"""Reading an op's arguments by their schema names: where each stands is worked out once an overload."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Args = tuple[Any, ...]
Kwargs = Mapping[str, Any]
Reader = Callable[[Args, Kwargs], Any]
Getter = Callable[[Args, Kwargs], Any]

#: What stands for a fact that could not be read; it is left out of the trace.
MISSING = object()


def argument_getter(func: Any, *names: str) -> Getter | None:
    """A function that reads the first of ``names`` that ``func``'s schema has, or ``None`` if it has none.

    The dispatcher leaves out trailing arguments that equal their defaults, so the default is part of it.
    """
    schema = getattr(func, "_schema", None)
    if schema is None:
        return None
    for position, argument in enumerate(schema.arguments):
        if argument.name in names:
            name = argument.name
            default = argument.default_value if argument.has_default_value() else None
            if argument.kwarg_only:
                return lambda args, kwargs: kwargs.get(name, default)
            return lambda args, kwargs: args[position] if len(args) > position else kwargs.get(name, default)
    return None


def takes_lists(func: Any, name: str) -> bool:
    """Is the argument a list, as the indices of ``index_put`` are and those of an embedding's backward are not?"""
    schema = getattr(func, "_schema", None)
    return schema is not None and any(one.name == name and "List" in str(one.type) for one in schema.arguments)


def dropout_reader(func: Any, *further: str) -> Reader | None:
    """Is anything dropped? Not at a rate of 0, and not in evaluation, where the op says so.

    ``further``: other names of the rate.
    """
    rate = argument_getter(func, "dropout_p", "dropout", *further)
    training = argument_getter(func, "train", "training")
    if rate is None:
        return None
    get: Getter = rate
    if training is None:
        return lambda args, kwargs: (get(args, kwargs) or 0.0) > 0.0
    trains: Getter = training
    return lambda args, kwargs: (get(args, kwargs) or 0.0) > 0.0 and trains(args, kwargs) is not False


def training_reader(func: Any) -> Reader | None:
    """Does an op that has no rate run in training?"""
    training = argument_getter(func, "train", "training")
    if training is None:
        return None
    get: Getter = training
    return lambda args, kwargs: bool(get(args, kwargs))


def getters(func: Any, *names: str) -> tuple[Getter, ...] | None:
    """A getter for each of ``names``, or ``None`` where ``func`` lacks one."""
    found = [argument_getter(func, name) for name in names]
    known = tuple(get for get in found if get is not None)
    return known if len(known) == len(found) else None
