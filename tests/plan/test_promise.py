"""A plan's settings, applied to the target, give exactly the report that the plan promises."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.build import call, environment, event, generator, loader, read, trace
from tests.support.promise import identity_of, promised, settings_of
from tests.support.slow import slow_unless
from tests.tables.samples import reaching, releases_of, split
from tracer import Trace, judge
from tracer.bundled import make_training
from tracer.names import Backend, Cause, DeterministicMode, Phase, Prerequisite, SeedOrigin, Verdict
from tracer.report import Report
from tracer.report.sections.answers import headline
from tracer.session import DeterminismTracer
from tracer.tables.loading import load_tables
from tracer.tables.rules import LibraryRule, Rule, load_rows
from tracer.trace.records import Allocation, CallGroup, Environment

ON_CUDA = {"device": "cuda", "dtype": "float32", "layout": "strided", "ndim": 3}
STEPS = sorted((Path(__file__).parents[1] / "golden" / "judgements").glob("*.json.gz"))
BACKENDS = [str(backend) for backend in Backend]
PROCESSES: Mapping[str, dict[str, Any]] = {
    "torch's defaults": {},
    "nothing readable": {"cudnn_enabled": None, "cudnn_benchmark": None, "fill_uninitialized_memory": None},
    "benchmark": {"cudnn_benchmark": True},
    "benchmark, mode on": {"cudnn_benchmark": True, "deterministic_mode": DeterministicMode.ON},
    "warn, no fill": {"deterministic_mode": DeterministicMode.WARN, "fill_uninitialized_memory": False},
    "mode on, no fill": {"deterministic_mode": DeterministicMode.ON, "fill_uninitialized_memory": False},
    "without cuDNN": {"cudnn_enabled": False},
    "a workspace": {"variables": {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}},
    "cudnn.deterministic, no switches": {"cudnn_deterministic": True, "variables": {"NCCL_NVLS_ENABLE": "0"}},
}


def process(**fields: Any) -> Environment:
    """A process with torch's flags as they are by default, on a machine with two threads."""
    flags = {"cudnn_enabled": True, "cudnn_deterministic": False, "cudnn_benchmark": False}
    return environment(**{**flags, "fill_uninitialized_memory": True, "num_threads": 2} | fields)


def keeps_its_promise(recorded: Trace, **target: str) -> Report:
    """Judge, apply the plan's settings, and compare what is left with what was promised."""
    report = judge(recorded, **target)
    assert settings_of(report.plan) == report.judgement.planned
    after = judge(recorded, **target, settings=report.planned_settings)
    left = frozenset((identity_of(one), one.verdict) for one in after.findings)
    assert left == promised(report.judgement, report.plan)
    assert not after.judgement.planned, "a plan that was applied asks for nothing more"
    closed = [place for change in report.plan for place in change.findings]
    assert sorted(closed) == [place for place, one in enumerate(report.findings) if one in report.open_findings]
    for change in report.plan:
        assert change.closes == len(change.findings)
        for need in change.needs:
            makers = [other for other in report.plan if other.number in need.changes and need.setting in other.sets]
            assert need.kind is not Prerequisite.DETERMINISTIC_MODE or need.holds or makers, change.title
    by_settings = {place for change in report.plan if change.sets for place in change.findings}
    # Settings fill unwritten memory, and the plan has it written all the same.
    written = [one for one in report.findings if one.cause is Cause.UNINITIALIZED_MEMORY]
    gone = {identity_of(one) for one in report.findings} - {identity for identity, _ in left}
    gone -= set(map(identity_of, written))
    assert {identity_of(report.findings[place]) for place in by_settings} >= gone
    return after


@cache
def bundled_step() -> Trace:
    """The recording of it."""
    training = make_training()
    with DeterminismTracer(training.model) as tracer:
        training.step()
    return tracer.trace


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_bundled_step_keeps_what_its_plan_promises(backend: str) -> None:
    after = keeps_its_promise(bundled_step(), backend=backend)
    assert not [one for one in after.findings if one.sets], "nothing is left that a setting would settle"


@pytest.mark.parametrize("torch", slow_unless({"2.13"}, ["1.11", "2.6", "2.13"]))
@pytest.mark.parametrize("step", STEPS, ids=lambda path: path.name.partition(".")[0])
def test_a_models_step_keeps_what_its_plan_promises(step: Path, torch: str) -> None:
    recorded = Trace.load(step)
    for backend in ("cuda", "rocm", "npu", "recorded"):
        keeps_its_promise(recorded, backend=backend, torch=torch)


@cache
def every_call(backend: Backend) -> tuple[CallGroup, ...]:
    """For each rule of the backend's table and each of its cases, a call that the case speaks of."""
    table = load_tables()[backend]
    device = "cuda" if backend is Backend.ROCM else str(backend)
    groups = []
    for line, (rule, case) in enumerate((one, case) for one in _rules(table) for case in one.case):
        minors = releases_of(table, rule, case)
        met, _ = split(reaching(rule, case, minors[-1])) if minors else ({}, {})
        facts = {"device": device, "dtype": "float32", "layout": "strided", "ndim": 2, **met}
        op = rule.ops[0] if not rule.ops[0].endswith("*") else rule.ops[0].replace("*", "any")
        name = op if op.count(".") > 1 else f"{op}.default"
        groups.append(call(name, location=f"a.py:{line}", facts=facts, count=line % 7 + 1))
    return tuple(groups)


def _rules(table: Any) -> tuple[Rule | LibraryRule, ...]:
    return (*table.rule, *table.libraries)


#: Every process on CUDA, which has the most settings, and of the others the first and two that differ most.
EVERY_RUN = {"torch's defaults", "benchmark, mode on", "warn, no fill"}


@pytest.mark.parametrize("mode", list(DeterministicMode))
@pytest.mark.parametrize(
    "op", ["index_reduce", "reflection_pad1d_backward", "upsample_linear1d_backward", "grid_sampler_2d_backward"]
)
def test_an_edit_that_works_under_the_mode_alone_has_the_mode_planned(op: str, mode: DeterministicMode) -> None:
    recorded = trace(call(f"aten.{op}.default", facts=ON_CUDA), environment=process(deterministic_mode=mode))
    keeps_its_promise(recorded, backend="cuda", torch="2.13")
    plan = judge(recorded, backend="cuda", torch="2.13").plan
    assert {Prerequisite.DETERMINISTIC_MODE} <= {need.kind for change in plan for need in change.needs}
    assert any("deterministic_mode" in change.sets for change in plan) is (mode is not DeterministicMode.ON)


def test_a_line_that_changes_the_mode_stays_in_the_promise_where_the_plan_sets_the_mode() -> None:
    toggled = event(
        kind="setting",
        name="torch.use_deterministic_algorithms",
        before="off",
        value="on",
        while_recording=True,
        after_calls=True,
    )
    recorded = trace(call(facts=ON_CUDA), environment=process(), events=(toggled,))
    after = keeps_its_promise(recorded, backend="cuda", torch="2.13")
    assert "environment-mode-changed" in {one.rule for one in after.findings}


@pytest.mark.parametrize(
    ("backend", "settings", "torch"),
    slow_unless(
        lambda case: case[2] == "2.13" and (case[0] is Backend.CUDA or case[1] in EVERY_RUN),
        product([one for one in Backend if one is not Backend.RECORDED], PROCESSES, ("2.0", "2.6", "2.13")),
    ),
)
def test_every_rule_of_every_table_keeps_what_a_plan_promises(backend: Backend, settings: str, torch: str) -> None:
    recorded = trace(*every_call(backend), environment=process(**PROCESSES[settings]))
    keeps_its_promise(recorded, backend=str(backend), torch=torch)


# --------------------------------------------------------------------------- any trace, and what no op shows

ORIGINS = st.sampled_from(list(SeedOrigin))
OPS = [
    "aten.index_add_.default",
    "aten.convolution.default",
    "aten.convolution_backward.default",
    "aten.mm.default",
    "aten._cudnn_rnn.default",
    "aten.lstm.input",
    "aten.bernoulli_.float",
    "aten.native_dropout.default",
    "aten.put_.default",
    "aten.resize_.default",
    "aten.avg_pool3d_backward.default",
    "aten._scaled_dot_product_flash_attention_for_cpu.default",
    "c10d.allreduce_.default",
    "mine.op.default",
]


@st.composite
def drawn_facts(draw: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {"device": draw(st.sampled_from(["cpu", "cuda", "npu"])), "dtype": "float32"}
    facts |= {"layout": "strided", "ndim": 2}
    if draw(st.booleans()):
        facts |= {"rng.generator": draw(st.sampled_from(["cpu", "cuda:0", "passed (cpu)"]))}
        facts |= {"rng.origin": draw(ORIGINS).value}
    for name in ("arg.accumulate", "arg.dropout", "shape.grows", "shape.windows_overlap", "module.recurrent"):
        if draw(st.booleans()):
            facts[name] = draw(st.booleans())
    return facts


CALLS = st.builds(
    call,
    op=st.sampled_from(OPS),
    phase=st.sampled_from([Phase.FORWARD, Phase.BACKWARD]),
    location=st.sampled_from(["a.py:1", "a.py:2"]),
    count=st.integers(1, 5),
    facts=drawn_facts(),
)
LOADERS = st.builds(
    loader,
    location=st.sampled_from(["data.py:1", "data.py:2"]),
    workers=st.sampled_from([0, 2]),
    has_worker_init=st.booleans(),
    shuffles=st.booleans(),
    has_generator=st.booleans(),
    origin=ORIGINS,
    in_order=st.booleans(),
)
NAMES = [
    "CUBLAS_WORKSPACE_CONFIG",
    "PYTHONHASHSEED",
    "NCCL_ALGO",
    "torch.use_deterministic_algorithms",
    "cublas",
    "cpu",
]
EVENTS = st.builds(
    event,
    kind=st.sampled_from(["first-use", "variable", "setting", "seed"]),
    name=st.sampled_from(NAMES),
    before=st.sampled_from(["", "off"]),
    value=st.sampled_from(["", ":4096:8", "on"]),
    location=st.sampled_from(["a.py:5", "a.py:6"]),
    while_recording=st.booleans(),
    after_calls=st.booleans(),
    parts_phases=st.booleans(),
    first=st.integers(1, 9),
)
MADE = st.fixed_dictionaries(
    {},
    optional={
        "deterministic_mode": st.sampled_from(list(DeterministicMode)),
        "fill_uninitialized_memory": st.sampled_from([None, False, True]),
        "cudnn_enabled": st.sampled_from([None, False, True]),
        "cudnn_benchmark": st.sampled_from([None, False, True]),
        "cudnn_deterministic": st.booleans(),
        "variables": st.dictionaries(
            st.sampled_from(sorted({row.variable for row in load_rows().row if row.variable})),
            st.sampled_from(["0", "1", ":4096:8", ":16:8", "true", "Ring"]),
            max_size=4,
        ),
    },
)
TRACES = st.builds(
    lambda calls, made, **observed: trace(*calls, environment=process(**made), **observed),
    st.lists(CALLS, min_size=1, max_size=8),
    MADE,
    events=st.lists(EVENTS, max_size=5).map(tuple),
    loaders=st.lists(LOADERS, max_size=2).map(tuple),
    unwritten_reads=st.sampled_from([(), (read(),)]),
    generators=st.sampled_from([(), (generator("python", drew=True),)]),
    watched_from_start=st.booleans(),
)


@given(TRACES, st.sampled_from(BACKENDS), st.sampled_from(["1.11", "2.6", "2.13", "2.20"]))
def test_any_trace_keeps_what_its_plan_promises(recorded: Trace, backend: str, torch: str) -> None:
    keeps_its_promise(recorded, backend=backend, torch=torch)


# ------------------------------------------------------------------------------------- single interactions


def plan_for(*calls: CallGroup, torch: str = "2.13", backend: str = "cuda", **made: Any) -> dict[str, Any]:
    """The planned settings for ``calls`` in a process where ``made`` was set."""
    return dict(judge(trace(*calls, environment=process(**made)), backend=backend, torch=torch).planned_settings)


CUDA = {"device": "cuda", "dtype": "float32", "layout": "strided", "ndim": 2}


PRODUCT, CONVOLUTION, RECURRENT = ("aten.mm", {}), ("aten.convolution", {}), ("aten._cudnn_rnn", {"arg.dropout": False})


@pytest.mark.parametrize(
    ("ops", "target", "planned"),
    [
        ([CONVOLUTION], {"cudnn_benchmark": True}, {"deterministic_mode": "on", "cudnn_benchmark": False}),
        ([CONVOLUTION], {}, {"deterministic_mode": "on"}),
        ([PRODUCT], {"torch": "2.6"}, {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}),
        ([PRODUCT], {}, {}),
        ([PRODUCT, RECURRENT], {"torch": "2.6"}, {"CUBLAS_WORKSPACE_CONFIG": ":16:8"}),
    ],
)
def test_settings_are_planned_where_a_call_needs_them(
    ops: list[tuple[str, dict[str, Any]]], target: dict[str, Any], planned: dict[str, Any]
) -> None:
    calls = [call(f"{op}.default", facts={**CUDA, **facts}) for op, facts in ops]
    assert plan_for(*calls, **target) == planned


def test_a_generator_that_the_program_seeded_is_not_to_be_seeded_again() -> None:
    draws = {**CUDA, "rng.generator": "cuda:0"}
    unseeded = (SeedOrigin.MACHINE, SeedOrigin.UNSEEN, SeedOrigin.DEVICE)
    for origin in SeedOrigin:
        planned = plan_for(call("aten.bernoulli_.float", facts={**draws, "rng.origin": origin.value}))
        assert planned == ({"seed.torch": True} if origin in unseeded else {}), origin


def test_seeding_turns_draws_from_the_machines_state_into_seeded_ones() -> None:
    facts = {**CUDA, "rng.generator": "cuda:0", "rng.origin": "machine"}
    recorded = trace(call("aten.bernoulli_.float", facts=facts), environment=process())
    report = judge(recorded, backend="cuda")
    assert {one.verdict for one in report.findings} == {Verdict.NONDETERMINISTIC}
    (left,) = judge(recorded, backend="cuda", settings={"seed.torch": True}).findings
    assert (left.op, left.verdict) == ("aten.bernoulli_.float", Verdict.SEEDED)


def test_no_change_of_a_plan_closes_nothing() -> None:
    given_memory = Allocation(op="aten.empty.memory_format", count=3, bytes=3 << 20)
    recorded = trace(call(facts=CUDA), environment=process(), allocations=(given_memory,))
    for traced in (recorded, bundled_step()):
        for backend in BACKENDS:
            assert all(change.closes for change in judge(traced, backend=backend).plan)


def test_unwritten_memory_asks_for_no_setting() -> None:
    (change,) = judge(trace(environment=process(), unwritten_reads=(read(),)), backend="cpu").plan
    assert (change.sets, change.code) == ({}, "")
    assert "torch.zeros" in change.remedy


def test_the_seed_that_a_loader_draws_for_its_workers_asks_for_no_seed() -> None:
    base_seed = call("aten.random_.default", facts={"device": "cpu", "rng.generator": "cpu"})
    seeded = call("aten.uniform_.default", facts={"device": "cpu", "rng.generator": "cpu", "rng.origin": "program"})
    report = judge(trace(base_seed, seeded, environment=process()), backend="cpu")
    assert (report.planned_settings, [one for one in report.plan if one.closes]) == ({}, [])
    assert headline(report)[0] is Verdict.SEEDED
    assert headline(report)[1].endswith("; draws that were seen are seeded")
