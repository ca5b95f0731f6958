"""Reads an op's arguments by their schema names. Positions are looked up once per overload."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Args = tuple[Any, ...]
Kwargs = Mapping[str, Any]
Getter = Callable[[Args, Kwargs], Any]
ArgumentReader = Getter

#: A fact that could not be read; it is omitted from the trace.
MISSING = object()


def argument_getter(func: Any, *names: str) -> Getter | None:
    """A getter for the first of ``names`` in ``func``'s schema; ``None`` if it has none. It returns the default for a
    trailing argument that the dispatcher omits."""
    schema = getattr(func, "_schema", None)
    for position, argument in enumerate(schema.arguments if schema is not None else ()):
        if (name := argument.name) in names:
            default = argument.default_value if argument.has_default_value() else None
            if argument.kwarg_only:
                return lambda args, kwargs: kwargs.get(name, default)
            return lambda args, kwargs: args[position] if len(args) > position else kwargs.get(name, default)
    return None


def takes_lists(func: Any, name: str) -> bool:
    """Return whether the argument is a list, as the indices of ``index_put`` are and an embedding's backward's not."""
    schema = getattr(func, "_schema", None)
    arguments = schema.arguments if schema is not None else ()
    return any(argument.name == name and "List" in str(argument.type) for argument in arguments)


def dropout_reader(func: Any, *further: str) -> ArgumentReader | None:
    """Return a reader of whether dropout is active: not at rate 0, nor in evaluation. ``further``: other rate names."""
    rate = argument_getter(func, "dropout_p", "dropout", *further)
    trains = argument_getter(func, "train", "training")
    if rate is None or trains is None:
        return None if rate is None else lambda args, kwargs: (rate(args, kwargs) or 0.0) > 0.0
    return lambda args, kwargs: (rate(args, kwargs) or 0.0) > 0.0 and trains(args, kwargs) is not False


def training_reader(func: Any) -> ArgumentReader | None:
    """Return a reader of whether an op that has no rate runs in training."""
    trains = argument_getter(func, "train", "training")
    return None if trains is None else lambda args, kwargs: bool(trains(args, kwargs))


def getters(func: Any, *names: str) -> tuple[Getter, ...] | None:
    """A getter for each of ``names``, or ``None`` if ``func`` lacks one; ``self|input`` for either."""
    getters_by_name = [argument_getter(func, *name.split("|")) for name in names]
    present = tuple(get for get in getters_by_name if get is not None)
    return present if len(present) == len(getters_by_name) else None


def of_arguments(*names: str) -> Callable[[Callable[..., Any]], Callable[[Any, object], ArgumentReader | None]]:
    """Turns a test of the values of these arguments into a reader; none for an overload that lacks one of them. A name
    that ends in ``?`` is optional, and comes last."""

    def decorate(question: Callable[..., Any]) -> Callable[[Any, object], ArgumentReader | None]:
        def make(func: Any, services: object) -> ArgumentReader | None:
            values = getters(func, *(name for name in names if not name.endswith("?")))
            if values is None:
                return None
            optional = [
                argument_getter(func, name[:-1]) or (lambda args, kwargs: None) for name in names if name.endswith("?")
            ]
            every = (*values, *optional)
            return lambda args, kwargs: question(*[get(args, kwargs) for get in every])

        return make

    return decorate
