"""Hints of what one recording holds: a line each, no verdict, and none where there is nothing to hint at."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tests.support.build import call, environment, loader, trace
from tracer import judge
from tracer.names import HintKind, SeedOrigin
from tracer.report.sections.process import hint_words
from tracer.trace.differences import RankComparison, SettingDifference
from tracer.trace.records import CodeHint

OWN = CodeHint(kind=HintKind.OWN_GENERATOR, location="data.py:7", name="Photos")
SET = CodeHint(kind=HintKind.HASH_ORDER, location="text.py:3", name="a set")
FETCHES = {"fetched_by": "Photos.__getitem__", "workers": 2, "location": "train.py:9"}


def hinted(**fields: Any) -> tuple[str, ...]:
    return hint_words(judge(trace(call("aten.add.Tensor"), **fields), backend="cuda"))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (
            {"hints": (OWN,), "loaders": (loader(**FETCHES),)},
            "data.py:7: each of 2 workers of the DataLoader at train.py:9",
        ),
        ({"hints": (OWN,), "loaders": (loader(**FETCHES | {"workers": 0}),)}, ""),
        ({"hints": (OWN,), "loaders": (loader(**FETCHES, has_worker_init=True),)}, ""),
        ({"hints": (OWN,), "loaders": (loader(**FETCHES | {"fetched_by": "Others.__getitem__"}),)}, ""),
        ({"loaders": (loader(location="train.py:9", epoch_set=False, iterations=2),)}, "train.py:9: `set_epoch`"),
        ({"loaders": (loader(location="train.py:9", epoch_set=False, iterations=1),)}, ""),
        ({"loaders": (loader(location="train.py:9", epoch_set=True, iterations=2),)}, ""),
        ({"hints": (SET,)}, "text.py:3: put the set in `sorted(...)`"),
        ({"hints": (msgspec.structs.replace(SET, name="hash"),)}, "text.py:3: `hash` of a string"),
        ({"hints": (SET,), "environment": environment(variables={"PYTHONHASHSEED": "0"})}, ""),
    ],
)
def test_a_hint_needs_its_line_and_what_makes_it_matter(fields: dict[str, Any], words: str) -> None:
    told = hinted(**fields)
    assert len(told) == bool(words)
    assert not words or told[0].startswith(words)


@pytest.mark.parametrize(
    ("generator", "module", "is_told"), [("cuda:0", "", True), ("cuda:0", "net", False), ("cpu", "", False)]
)
def test_data_drawn_on_a_gpu_are_another_gpus_others(generator: str, module: str, is_told: bool) -> None:
    facts = {"device": generator, "rng.generator": generator}
    group = call("aten.randn.default", facts=facts, location="train.py:5", module=module)
    assert bool(hint_words(judge(trace(group), backend="recorded"))) is is_told


def test_ranks_with_one_seed_draw_the_same_numbers() -> None:
    facts = {"device": "cpu", "rng.generator": "cpu", "rng.origin": SeedOrigin.PROGRAM.value}
    group = call("aten.native_dropout.default", facts=facts, module="drop", location="net.py:4")
    made = judge(trace(group), backend="recorded")
    ranks = RankComparison(ranks=(0, 1), alike=((0, 1),), settings=(), calls=())
    assert hint_words(replace(made, ranks=ranks))[0].startswith("net.py:4: all ranks draw the same numbers")
    seeds = SettingDifference(name="torch_seed", values=("0", "1"))
    assert hint_words(replace(made, ranks=msgspec.structs.replace(ranks, settings=(seeds,)))) == ()
