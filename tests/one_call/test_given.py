"""What a trace says that a call was given is read back as it was."""

from __future__ import annotations

from typing import Any

import pytest

from tracer.one_call.given import Tensor, Unknown, Word, given_by, has_unknown


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("float32[10, 4]", Tensor("float32", (10, 4))),
        ("int64[()]", Tensor("int64", ())),
        ("float32[3][0]", Tensor("float32", (3,), (0,))),
        ("float32[4, 3][1, 4].cuda", Tensor("float32", (4, 3), (1, 4), device="cuda")),
        ("float32[3, 3].sparse_coo", Tensor("float32", (3, 3), layout="sparse_coo")),
        ("float32[None, 4][4, 1]", Tensor("float32", (16, 4), is_unfixed=True)),
        ("[None, int64[2]]", [None, Tensor("int64", (2,))]),
        ("-3", -3),
        ("-inf", float("-inf")),
        ("(1+2j)", 1 + 2j),
        ("torch.float64", Word("torch.float64")),
        ("torch.device('cpu')", Word("torch.device('cpu')")),
        ("'sum'", "sum"),
        ("...", Unknown()),
    ],
)
def test_each_kind_of_argument(text: str, value: Any) -> None:
    assert given_by(f"first={text}, then=True") == {"first": value, "then": True}


def test_a_name_that_python_keeps_for_itself_comes_back() -> None:
    assert given_by("from_=0.0, other_=1") == {"from": 0.0, "other_": 1}


def test_what_was_not_kept_is_found_in_lists_too() -> None:
    assert has_unknown(given_by("many=[float32[2], ...]")["many"])
    assert not has_unknown(given_by("many=[float32[2], 3]")["many"])


@pytest.mark.parametrize(
    "text",
    ["float32[3]", "x=float32", "x=y+", "x=__import__('os').system('true')[0]", "x=os.system('true')", "x=os.abort"],
)
def test_another_form_is_refused_and_nothing_is_run(text: str) -> None:
    with pytest.raises((ValueError, KeyError)):
        given_by(text)
