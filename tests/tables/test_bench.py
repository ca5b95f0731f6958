"""What draws from a generator that nobody seeded is no longer seeded, and what was seeded need not be again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.build import call
from tracer.names import Backend, Cause, Verdict
from tracer.tables.loading import load_tables
from tracer.tables.rules import load_translations
from tracer.tables.settings import DEFAULTS
from tracer.tables.target_tables import ForwardCalls, TargetTables
from tracer.trace.file import Trace
from tracer.trace.records import CallGroup

GOLDEN = Path(__file__).parent.parent / "golden" / "judgements"


@pytest.fixture
def bench() -> TargetTables:
    return TargetTables(load_tables(), Backend.RECORDED, "2.13.0", {"deterministic_mode": "off"})


def draw(origin: str | None = "machine", generator: str = "cpu", op: str = "aten.rand.default") -> CallGroup:
    facts: dict[str, Any] = {"device": "cpu", "dtype": "float32", "rng.generator": generator}
    return call(op, facts=facts if origin is None else {**facts, "rng.origin": origin})


@pytest.mark.parametrize(
    ("made", "verdict", "asks", "remedy"),
    [
        ({}, Verdict.NONDETERMINISTIC, True, "torch.manual_seed(0)"),
        ({"generator": "passed (cpu)"}, Verdict.NONDETERMINISTIC, True, "`manual_seed(0)`"),
        # Nobody is asked to seed what repeats already.
        ({"origin": "program"}, Verdict.SEEDED, False, "save and restore generator states"),
        ({"origin": "restored"}, Verdict.SEEDED, False, "save and restore generator states"),
        ({"origin": "fixed"}, Verdict.SEEDED, False, "save and restore generator states"),
        ({"origin": "unseen"}, Verdict.SEEDED, True, "save and restore generator states"),
        ({"origin": None}, Verdict.SEEDED, True, "save and restore generator states"),
        ({"op": "aten.add.Tensor"}, Verdict.DETERMINISTIC, False, ""),
    ],
)
def test_a_draw_is_as_seeded_as_its_generator(
    bench: TargetTables, made: dict[str, Any], verdict: Verdict, asks: bool, remedy: str
) -> None:
    ruling = bench.rule_on(draw(**made))
    assert (ruling.verdict, ruling.deterministic_mode) == (verdict, verdict)
    assert remedy in ruling.remedy
    assert ("manual_seed" in ruling.remedy or ruling.remedy.startswith("Seed ")) is asks
    assert ruling.cause is Cause.RNG or ruling.is_safe
    if "generator" in made:
        assert "torch.manual_seed" not in ruling.remedy


def test_calls_that_are_looked_up_alike_have_one_ruling(bench: TargetTables) -> None:
    assert bench.rule_on(draw()) is bench.rule_on(draw())
    assert bench.rule_on(draw()) is not bench.rule_on(draw(generator="passed (cpu)"))
    assert bench.rule_on(draw("program")) == bench.rule_on(draw("fixed"))


@pytest.mark.parametrize(
    ("backend", "name"),
    [(Backend.CPU, "convnet"), (Backend.CUDA, "gpt2"), (Backend.RECORDED, "lstm"), (Backend.NPU, "t5")],
)
def test_calls_that_are_judged_alike_without_looking_again_would_be_judged_alike(backend: Backend, name: str) -> None:
    recorded = Trace.load(GOLDEN / f"{name}.json.gz").calls
    distinct = {(one.op, one.phase, one.node, *one.facts.items()): one for one in recorded}
    rows = load_translations()
    settings = {**DEFAULTS, "deterministic_mode": "on", "cublas_workspace": "unset"}
    kept = TargetTables(load_tables(), backend, "2.9.0", settings, translations=rows)
    kept.look_ahead(ForwardCalls(recorded, rows, backend))
    judged = [(one, kept.rule_on(one)) for one in distinct.values()]
    assert len({id(ruling) for _, ruling in judged}) > 5
    for one, ruling in judged:
        assert kept._judged(one) == ruling, one


def test_a_backward_call_is_judged_by_the_forward_call_of_its_own_line() -> None:
    settings = {"deterministic_mode": "on", "forward.deterministic_mode": "on"}
    bench = TargetTables(load_tables(), Backend.CUDA, "2.13.0", settings)
    facts: dict[str, Any] = {"device": "cuda", "dtype": "float32", "shape.same_size": False}
    direct, through = (
        call("aten.upsample_bilinear2d.default", facts={**facts, **of_call}, location=location)
        for of_call, location in (({"call.direct": True}, "train.py:1"), ({}, "train.py:2"))
    )
    bench.look_ahead(ForwardCalls((direct, through), load_translations(), Backend.CUDA))
    backward = [
        call("aten.upsample_bilinear2d_backward.default", facts=facts, location=forward.location, phase="backward")
        for forward in (direct, through, direct)
    ]
    verdicts = [bench.rule_on(group).verdict for group in backward]
    assert verdicts == [Verdict.RAISES, Verdict.DETERMINISTIC, Verdict.RAISES]
