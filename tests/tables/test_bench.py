"""What draws from a generator that nobody seeded is no longer seeded, and what was seeded need not be again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.build import call
from tracer.names import Backend, Cause, Verdict
from tracer.tables.loading import load_tables
from tracer.tables.settings import DEFAULTS
from tracer.tables.target_tables import ForwardCalls, TargetTables
from tracer.tables.translation import load_translations
from tracer.trace.file import Trace
from tracer.trace.records import CallGroup

GOLDEN = Path(__file__).parent.parent / "golden" / "judgements"


@pytest.fixture
def bench() -> TargetTables:
    return TargetTables(load_tables(), Backend.RECORDED, "2.13.0", {"deterministic_mode": "off"})


def draw(origin: str | None = "machine", generator: str = "cpu", op: str = "aten.rand.default") -> CallGroup:
    facts: dict[str, Any] = {"device": "cpu", "dtype": "float32", "rng.generator": generator}
    return call(op, facts=facts if origin is None else {**facts, "rng.origin": origin})


def test_a_draw_that_was_left_to_the_machine_is_nondeterministic_both_ways(bench: TargetTables) -> None:
    ruling = bench.rule_on(draw())
    assert (ruling.verdict, ruling.deterministic_mode) == (
        Verdict.NONDETERMINISTIC,
        Verdict.NONDETERMINISTIC,
    )
    assert ruling.cause is Cause.RNG
    assert "torch.manual_seed(0)" in ruling.remedy


def test_a_draw_from_a_passed_generator_says_which_to_seed(bench: TargetTables) -> None:
    ruling = bench.rule_on(draw(generator="passed (cpu)"))
    assert ruling.verdict is Verdict.NONDETERMINISTIC
    assert "manual_seed(0)" in ruling.remedy
    assert "torch.manual_seed" not in ruling.remedy


@pytest.mark.parametrize("origin", ["program", "restored", "fixed", "unseen", None])
def test_any_other_draw_stays_seeded(bench: TargetTables, origin: str | None) -> None:
    ruling = bench.rule_on(draw(origin))
    assert (ruling.verdict, ruling.deterministic_mode) == (Verdict.SEEDED, Verdict.SEEDED)


@pytest.mark.parametrize(
    ("origin", "asks"), [("program", False), ("restored", False), ("fixed", False), ("unseen", True)]
)
def test_nobody_is_asked_to_seed_what_repeats_already(bench: TargetTables, origin: str, asks: bool) -> None:
    remedy = bench.rule_on(draw(origin)).remedy
    assert remedy.startswith("Seed ") is asks
    assert "save and restore generator states" in remedy


def test_calls_that_are_looked_up_alike_have_one_ruling(bench: TargetTables) -> None:
    assert bench.rule_on(draw()) is bench.rule_on(draw())
    assert bench.rule_on(draw()) is not bench.rule_on(draw(generator="passed (cpu)"))
    assert bench.rule_on(draw("program")) == bench.rule_on(draw("fixed"))


def test_a_call_that_is_deterministic_by_its_rule_stays_so(bench: TargetTables) -> None:
    assert bench.rule_on(draw(op="aten.add.Tensor")).is_safe


def like(group: CallGroup) -> list[CallGroup]:
    """``group``, and the same with a fact less or with one more that speaks of every op."""
    less = [{key: value for key, value in group.facts.items() if key != left_out} for left_out in group.facts]
    more: list[dict[str, Any]] = [
        {"rng.origin": "machine"},
        {"rng.origin": "machine", "rng.generator": "passed (cpu)"},
        {"rng.origin": "program"},
        {"subclass": "Wrapped"},
        {"subclass": "Wrapped", "subclass_inner": True},
        {"conv.without_cudnn": True},
        {"module.recurrent": True},
        {"call.direct": True},
        {"ndim": 0},
    ]
    others = [msgspec.structs.replace(group, facts=facts) for facts in (*less, *({**group.facts, **m} for m in more))]
    return [group, *others, msgspec.structs.replace(group, node="IndexBackward0")]


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
    judged = [(one, kept.rule_on(one)) for group in distinct.values() for one in like(group)]
    assert len({id(ruling) for _, ruling in judged}) > 5
    for one, ruling in judged:
        assert kept._judged(one) == ruling, one
