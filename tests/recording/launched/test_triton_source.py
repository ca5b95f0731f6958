"""Whether a Triton kernel adds atomically, read in its source: Triton itself is not needed to read it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tracer.recording.launched import adds_in_any_order

tl: Any = SimpleNamespace()


def kernel(function: Any) -> Any:
    """What stands for ``triton.jit``."""
    return SimpleNamespace(fn=function)


def adds(x_ptr: Any, out_ptr: Any, n: Any) -> None:
    at = tl.program_id(0) + tl.arange(0, 8)
    into = out_ptr + tl.load(x_ptr + at)
    tl.atomic_add(into, 1.0, mask=at < n)


def stores(x_ptr: Any, out_ptr: Any, n: Any) -> None:
    """``tl.atomic_add`` in a text is none."""
    tl.store(out_ptr + tl.arange(0, 8), tl.load(x_ptr))
    tl.atomic_max(out_ptr, 1)


@kernel
def helper(ptr: Any, x: Any) -> None:
    tl.atomic_add(ptr, x)


def calls_helper(x_ptr: Any, out_ptr: Any, n: Any) -> None:
    helper(out_ptr, tl.load(x_ptr))


def locks(x_ptr: Any, out_ptr: Any, n: Any) -> None:
    while tl.atomic_cas(out_ptr, 0, 1) == 1:
        pass
    tl.store(x_ptr, tl.load(x_ptr) + 1)


def takes_a_ticket(x_ptr: Any, out_ptr: Any, n: Any) -> None:
    ticket = tl.atomic_add(out_ptr, 1)
    tl.store(x_ptr, ticket)


def assembles(x_ptr: Any, out_ptr: Any, n: Any) -> None:
    tl.inline_asm_elementwise("red.global.add.f32 [$1], $2;", "=r,l,f", [out_ptr, x_ptr], dtype=int)


renamed_add: Any = SimpleNamespace(__name__="atomic_add")


def adds_by_another_name(x_ptr: Any, out_ptr: Any, n: Any) -> None:
    renamed_add(out_ptr, tl.load(x_ptr))


unread: Any = kernel(eval("lambda ptr: 0"))


def calls_what_has_no_source(x_ptr: Any, out_ptr: Any, n: Any) -> None:
    unread(out_ptr)


FLOATS = {"x_ptr": False, "out_ptr": False}
WHOLE = {"x_ptr": False, "out_ptr": True}


@pytest.mark.parametrize(
    ("function", "numbers", "says"),
    [
        (adds, FLOATS, True),
        (adds, WHOLE, False),
        (adds, {"x_ptr": True, "out_ptr": False}, True),
        (adds, {}, True),
        (stores, FLOATS, False),
        (calls_helper, FLOATS, True),
        (locks, WHOLE, True),
        (takes_a_ticket, WHOLE, None),
        (assembles, FLOATS, None),
        (adds_by_another_name, FLOATS, True),
        (calls_what_has_no_source, FLOATS, None),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_adds_in_an_order_that_varies_is_told(function: Any, numbers: dict[str, bool], says: bool | None) -> None:
    assert adds_in_any_order(function, numbers) is says


def test_a_kernel_without_source_is_not_read() -> None:
    with pytest.raises(LookupError):
        adds_in_any_order(eval("lambda x_ptr: 0"), {})
