"""Decorated functions: recorded while they run; generators and coroutines not while they wait."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine, Generator
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import msgspec

F = TypeVar("F", bound=Callable[..., Any])


def recorded_while_running(recording: AbstractContextManager[Any], function: F) -> F:
    """``function``, of whatever kind, with ``recording`` entered whenever its body runs."""

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def recorded_coroutine(*args: Any, **kwargs: Any) -> Any:
            return await _Awaited(recording, function(*args, **kwargs))

        return recorded_coroutine  # type: ignore[return-value]
    if inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def recorded_generator(*args: Any, **kwargs: Any) -> Any:
            return (yield from _resumed(recording, function(*args, **kwargs)))

        return recorded_generator  # type: ignore[return-value]

    @functools.wraps(function)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        with recording:
            return function(*args, **kwargs)

    return recorded  # type: ignore[return-value]


class _Awaited(msgspec.Struct, frozen=True):
    """A coroutine as it is awaited."""

    recording: AbstractContextManager[Any]
    coroutine: Coroutine[Any, Any, Any]

    def __await__(self) -> Generator[Any, Any, Any]:
        return _resumed(self.recording, self.coroutine)


def _resumed(
    recording: AbstractContextManager[Any], body: Generator[Any, Any, Any] | Coroutine[Any, Any, Any]
) -> Generator[Any, Any, Any]:
    """``body`` with ``recording`` entered for each of its turns: other tasks and threads run between them."""
    resume: Callable[[Any], Any] = body.send
    value: Any = None
    while True:
        with recording:
            try:
                yielded = resume(value)
            except StopIteration as end:
                return end.value
        try:
            resume, value = body.send, (yield yielded)
        except GeneratorExit:
            with recording:
                body.close()
            raise
        except BaseException as problem:
            resume, value = body.throw, problem
