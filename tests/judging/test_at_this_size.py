"""A verdict that hangs on sizes says so: its large sibling takes another kernel, and no line changes."""

from __future__ import annotations

import pytest

from tests.support.build import call, trace
from tracer import judge
from tracer.report.sections.answers import headline


@pytest.mark.parametrize(
    ("op", "facts", "settings", "hangs"),
    [
        ("aten.embedding_dense_backward.default", {"shape.rows_repeat_long": False}, "default", True),
        ("aten.embedding_dense_backward.default", {"shape.rows_repeat_long": False}, "deterministic", False),
        ("aten.cumsum.default", {"shape.scan_is_whole": False, "dtype": "float32"}, "default", True),
        ("aten.add.Tensor", {"shape.same_size": True}, "default", False),
    ],
)
def test_what_is_safe_by_its_sizes_alone_is_so_at_this_size_only(
    op: str, facts: dict[str, bool | str], settings: str, hangs: bool
) -> None:
    made = judge(trace(call(op, facts={"device": "cuda", **facts}, count=3)), backend="cuda", settings=settings)
    assert made.tally.as_is == {"deterministic": 3}
    assert made.judgement.at_this_size == ({f"{op.removesuffix('.default')} at train.py:10": 3} if hangs else {})
    assert ("at this size only: 3 calls of" in headline(made)[1]) is hangs


def test_a_call_that_varies_at_its_size_is_a_finding_and_no_caveat() -> None:
    facts = {"device": "cuda", "shape.rows_repeat_long": True}
    made = judge(trace(call("aten.embedding_dense_backward.default", facts=facts)), backend="cuda", settings="default")
    assert made.tally["nondeterministic"] == 1
    assert made.judgement.at_this_size == {}
