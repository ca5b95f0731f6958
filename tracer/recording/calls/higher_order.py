"""Higher-order ops: ``cond``, ``while_loop``, ``flex_attention`` and their like take functions as arguments.

torch runs them with the mode taken off the stack, so their bodies would go unseen. For those whose eager kernel
simply calls its bodies, each body is handed over in a wrapper that puts the mode back while it runs; all others
run exactly as they came, and the trace says that their body was not seen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracer.recording.calls.groups import CallCounter

#: Ops whose eager kernel calls its bodies as plain functions (checked on torch 2.13).
_CALLS_BODIES = frozenset({"cond", "while_loop", "flex_attention", "flex_attention_backward", "map_impl", "scan"})


def with_bodies_seen(mode: Any, counter: CallCounter, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the higher-order op; its bodies run under ``mode`` where that changes nothing."""
    if func.name() not in _CALLS_BODIES:
        return func(*args, **kwargs)

    def seen(body: Callable[..., Any]) -> Callable[..., Any]:
        def run(*inputs: Any, **named: Any) -> Any:
            counter.inner_seen = True
            with mode:
                return body(*inputs, **named)

        return run

    wrapped = tuple(seen(value) if _is_body(value) else value for value in args)
    return func(*wrapped, **{name: seen(value) if _is_body(value) else value for name, value in kwargs.items()})


def _is_body(value: Any) -> bool:
    return callable(value) and not isinstance(value, type)
