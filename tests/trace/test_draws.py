"""The ledger of random draws, and how two of them differ."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from msgspec.structs import replace

from tests.support.build import call, trace
from tracer.names import GeneratorKind, Phase, SeedOrigin
from tracer.trace.differences import compare_draws
from tracer.trace.file import Trace
from tracer.trace.records import CallGroup, Generator, kind_drawn_from


def dropout(**fields: Any) -> CallGroup:
    drawn = {"rng.generator": "cpu", "rng.origin": "program", "rng.seeded_at": "train.py:3"}
    return call("aten.native_dropout.default", **{"facts": {"device": "cpu", **drawn}, **fields})


def test_a_call_that_drew_is_in_the_ledger_with_its_place_and_one_that_did_not_is_not() -> None:
    (draw,) = trace(dropout(count=3), call()).draws
    assert (draw.generator, draw.op, draw.count) == ("cpu", "aten.native_dropout.default", 3)
    assert (draw.phase, draw.module, draw.location) == (Phase.FORWARD, "net.fc", "train.py:10")
    assert (draw.origin, draw.seeded_at) == (SeedOrigin.PROGRAM, "train.py:3")


@pytest.mark.parametrize(
    ("spelt", "kind"),
    [
        ("cpu", GeneratorKind.TORCH),
        ("cuda:0", GeneratorKind.TORCH),
        ("passed (cpu)", GeneratorKind.PASSED),
        ("passed (cuda:1)", GeneratorKind.PASSED),
        ("passed", GeneratorKind.PASSED),
        ("python", GeneratorKind.PYTHON),
        ("numpy", GeneratorKind.NUMPY),
        ("numpy-objects", GeneratorKind.NUMPY_OBJECTS),
    ],
)
def test_the_kind_of_a_generator_is_read_from_the_words_that_traces_bear(spelt: str, kind: GeneratorKind) -> None:
    assert Generator(name=spelt, origin=SeedOrigin.PROGRAM).kind is kind
    assert kind_drawn_from({"rng.generator": spelt}) is kind
    assert kind_drawn_from({"device": spelt}) is None


def test_a_passed_generator_is_spelt_as_older_traces_have_it() -> None:
    assert GeneratorKind.PASSED.on(torch.device("cpu")) == "passed (cpu)"


def test_a_call_without_an_origin_is_one_on_which_nothing_hangs() -> None:
    (draw,) = trace(dropout(facts={"rng.generator": "cpu"})).draws
    assert draw.origin is SeedOrigin.UNUSED


def test_ledgers_that_agree_do_not_differ_whatever_seeded_them() -> None:
    other = dropout(facts={"rng.generator": "cpu", "rng.origin": "machine"})
    assert compare_draws(trace(dropout()), trace(other)) == ()


def test_the_generator_that_ran_ahead_is_named_with_the_place_from_which_on() -> None:
    first: Trace = trace(dropout(count=2), dropout(module="net.head", location="train.py:20"))
    second: Trace = trace(dropout(count=5), dropout(module="net.head", location="train.py:20"))
    (found,) = compare_draws(first, second)
    assert (found.generator, found.ahead, found.first) == ("cpu", 3, None)
    assert found.second is not None
    assert (found.second.module, found.second.location) == ("net.fc", "train.py:10")


def test_draws_elsewhere_differ_although_as_many() -> None:
    (found,) = compare_draws(trace(dropout()), trace(dropout(location="train.py:30")))
    assert found.ahead == 0
    assert found.first is not None
    assert found.second is not None
    assert (found.first.location, found.second.location) == ("train.py:10", "train.py:30")


def test_each_generator_is_compared_by_itself() -> None:
    passed = dropout(facts={"rng.generator": "passed (cpu)", "rng.origin": "program"})
    found = compare_draws(trace(dropout(), passed), trace(dropout(), replace(passed, count=4)))
    assert [(one.generator, one.ahead) for one in found] == [("passed (cpu)", 3)]
