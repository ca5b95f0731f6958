"""Code that runs on the host whatever the target: what is known is judged for the CPU, what is likely is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from msgspec.structs import replace
from torch.utils.data import DataLoader, Dataset

from tests.support.build import call, trace
from tracer import DeterminismTracer, Trace, judge
from tracer.gate import host_lines
from tracer.names import HostCode, Phase, Verdict
from tracer.report.sections.answers import headline
from tracer.report.sections.plan import step_of_plan
from tracer.trace.merging import merged
from tracer.trace.records import GENERATOR, ORIGIN, CallGroup, TraceSource

RISK = {"device": "cpu", "dtype": "float32", "layout": "strided", "ndim": 2}


def risky(**options: Any) -> CallGroup:
    """A call that varies on CUDA and not on a CPU."""
    made = {"phase": "other", "module": "", "location": "data.py:7", "facts": RISK}
    return call("aten.index_add.default", **made | options)


def rules(recorded: Trace, **target: object) -> set[str]:
    return {one.rule for one in judge(recorded, settings="default", **target).findings if one.op}


def test_what_a_loader_fetched_is_judged_for_the_cpu_and_the_report_says_so() -> None:
    recorded = trace(risky(host=HostCode.LOADER, count=3), risky(location="train.py:3"))
    report = judge(recorded, backend="cuda", settings="default")
    assert [one.location for one in report.findings if one.op] == ["train.py:3"]
    assert report.tally["deterministic"] == 3
    said = "3 calls run on the host and were judged for cpu: fetched by a DataLoader."
    assert said in report.banners
    assert "judged for cpu" in report.to_text(width=300)


GRAPH = {"function": "make_graph", "module": "setup.graph"}
ON_CUDA = {"facts": {**RISK, "device": "cuda"}}
THERE = call("aten.add.Tensor", phase="forward", **ON_CUDA)
FAKE_THERE = replace(THERE, count=9, fake=True)
AS_CUDA = TraceSource(name="train.py", optimizer_steps=1, calls=10, fake_calls=10, fake_as="cuda:8.0")


@pytest.mark.parametrize(
    ("recorded", "target", "accused"),
    [
        # A glob names file, line, function or module.
        (trace(risky(**GRAPH)), {"backend": "cuda"}, True),
        *(
            (trace(risky(**GRAPH)), {"backend": "cuda", "host": [glob]}, False)
            for glob in ("data.py", "data.py:7", "d*", "make_graph", "setup.*")
        ),
        (trace(risky(**GRAPH)), {"backend": "cuda", "host": ["other.py"]}, True),
        # Beside calls on the target's device, those on a CPU are the host's.
        (trace(risky(), THERE), {"backend": "cuda"}, False),
        (trace(risky(**ON_CUDA), THERE), {"backend": "cuda"}, True),
        (trace(risky(), THERE), {"backend": "xpu"}, True),
        # One call on the device makes no step on the CPU the host's.
        *(
            (trace(risky(phase=one, count=here), replace(THERE, phase=one, count=there)), {"backend": "cuda"}, here > 1)
            for one in (Phase.BACKWARD, Phase.FORWARD)
            for here, there in ((9, 1), (1, 9))
        ),
        # What fake tensors claim says nothing of real ones; as a GPU, they lie on no host.
        (trace(risky(), FAKE_THERE), {"backend": "cuda"}, True),
        (trace(risky(fake=True), FAKE_THERE), {"backend": "cuda"}, False),
        (trace(risky(fake=True), FAKE_THERE, sources=(AS_CUDA,)), {"backend": "cuda"}, True),
    ],
)
def test_calls_of_the_host_are_judged_for_the_cpu(recorded: Trace, target: dict[str, Any], accused: bool) -> None:
    assert rules(recorded, **target) == ({f"{target['backend']}-index-add"} if accused else set())


def test_a_finding_on_host_code_bears_why_and_its_backend() -> None:
    drawn = call("aten.randn.default", phase="other", location="data.py:7", host=HostCode.LOADER, facts=RISK)
    (finding,) = [one for one in judge(trace(drawn), backend="cuda", settings="default").findings if one.op]
    assert (finding.rule, finding.backend.value, finding.host) == ("cpu-rng", "cpu", HostCode.LOADER)
    document = json.loads(judge(trace(drawn), backend="cuda", settings="default").to_json())
    assert [one["host"] for one in document["judgement"]["findings"] if one["op"]] == ["loader"]


def test_what_is_likely_is_said_and_not_excused() -> None:
    report = judge(trace(risky(), risky(phase="forward", location="train.py:3")), backend="cuda", settings="default")
    assert {one.location for one in report.findings if one.op} == {"data.py:7", "train.py:3"}
    (said,) = [banner for banner in report.banners if "--host" in banner]
    assert "data.py:7" in said
    assert "train.py:3" not in said


SET_UP = {"location": "lib/schedule.py:9", "called_from": "train.py:3", "function": "Schedule.__init__"}


def test_what_a_librarys_constructor_makes_is_told_as_host_code_before_it_is_accused() -> None:
    report = judge(trace(risky(**SET_UP)), backend="cuda", settings="default")
    (finding,) = [found for found in report.findings if found.op]
    assert (finding.verdict, finding.deterministic_mode) == (Verdict.CONDITIONAL, Verdict.DETERMINISTIC)
    assert finding.why.startswith("A library's constructor makes the call")
    assert not [banner for banner in report.banners if "--host" in banner]
    assert rules(trace(risky(**SET_UP)), backend="cuda", host=["lib/schedule.py:9"]) == set()


def test_what_no_setting_of_torch_settles_asks_where_the_library_runs_it() -> None:
    facts = {**RISK, "ndim": 1, "shape.scan_is_whole": True}
    scan = call("aten.cumprod.default", phase="other", module="", facts=facts, **SET_UP)
    report = judge(trace(scan), backend="cuda", settings="default")
    (change,) = [change for change in report.plan if "lib" in change.title]
    assert change.title.startswith("Say where lib runs aten.cumprod")
    assert "--host lib/schedule.py:9" in change.remedy


@pytest.mark.parametrize(
    "other",
    [
        {"function": "Schedule.step"},
        {"module": "net"},
        {"phase": "forward"},
        {"called_from": ""},
        {"facts": {**RISK, "device": "cuda"}},
    ],
    ids=lambda other: next(iter(other)),
)
def test_other_code_of_a_library_is_accused_as_before(other: dict[str, object]) -> None:
    report = judge(trace(risky(**(SET_UP | other))), backend="cuda", settings="default")
    assert [found.verdict for found in report.findings if found.op] == [Verdict.NONDETERMINISTIC]


def test_a_comment_names_its_line(tmp_path: Path) -> None:
    (tmp_path / "data.py").write_text("a = 1\nb = 2  # tracer: host\nc = 3\n", encoding="utf-8")
    calls = [risky(location=f"data.py:{line}") for line in (1, 2, 3)]
    assert host_lines(trace(*calls).calls, tmp_path) == ("data.py:2",)


def test_calls_inside_and_outside_a_loader_stay_apart_and_survive_the_file(tmp_path: Path) -> None:
    recorded = trace(*merged([risky(host=HostCode.LOADER), risky()]))
    recorded.save(tmp_path / "one.json")
    assert [group.host for group in Trace.load(tmp_path / "one.json").calls] == [HostCode.LOADER, None]


GIVEN = torch.tensor([0.1, 0.2, 0.3])


class Rows(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, at: int) -> torch.Tensor:
        return transformed(GIVEN + at)


def transformed(x: torch.Tensor) -> torch.Tensor:
    return torch.zeros(2).index_add(0, torch.tensor([0, 0, 1]), x)


def test_what_a_loader_fetches_in_this_process_is_noted_and_the_same_function_outside_is_not() -> None:
    tracer = DeterminismTracer()
    with tracer:
        for batch in DataLoader(Rows(), batch_size=2):
            transformed(GIVEN)
            batch.mul(2)
        transformed(GIVEN)
    said = {(group.op, group.host, group.count) for group in tracer.trace.calls if "index_add" in group.op}
    assert said == {("aten.index_add.default", HostCode.LOADER, 4), ("aten.index_add.default", None, 3)}
    assert {g.host for g in tracer.trace.calls if g.op.startswith("aten.mul")} == {None}
    assert {g.host for g in tracer.trace.calls if g.op.startswith("aten.stack")} == {HostCode.LOADER}
    assert rules(tracer.trace, backend="cuda") == {"cuda-index-add", "cpu-rng"}  # the loader's own seed


def test_a_loader_that_fails_leaves_nothing_behind() -> None:
    class Broken(Rows):
        def __getitem__(self, at: int) -> torch.Tensor:
            raise ValueError(at)

    tracer = DeterminismTracer()
    with tracer:
        with pytest.raises(ValueError, match="0"):
            next(iter(DataLoader(Broken())))
        transformed(GIVEN)
    assert {group.host for group in tracer.trace.calls if "index_add" in group.op} == {None}


def test_a_module_that_the_data_set_calls_is_left_out() -> None:
    layer = torch.nn.Linear(3, 2)

    class Encoded(Rows):
        def __getitem__(self, at: int) -> torch.Tensor:
            return layer(torch.ones(3)).detach()

    tracer = DeterminismTracer(layer)
    with tracer:
        list(DataLoader(Encoded()))
    assert {group.host for group in tracer.trace.calls if "addmm" in group.op or "linear" in group.op} == {None}


STEPS_OWN = {"phase": "forward", "location": "train.py:3"}
SCAN = {**RISK, "ndim": 1, "shape.scan_is_whole": True}


def test_where_set_up_code_alone_is_at_risk_the_headline_says_if() -> None:
    report = judge(trace(risky(), risky(location="data.py:9")), backend="cuda", settings="default")
    assert headline(report)[0] is Verdict.CONDITIONAL
    assert "if data.py:7 and data.py:9 run on the device" in headline(report)[1]
    beside = judge(trace(risky(), risky(**STEPS_OWN)), backend="cuda", settings="default")
    assert headline(beside) == (Verdict.NONDETERMINISTIC, "Two runs of this step can differ")


def test_a_draw_that_nobody_seeded_needs_no_device_to_differ() -> None:
    drawn = call("aten.randn.default", phase="other", facts={**RISK, GENERATOR: "cpu", ORIGIN: "machine"})
    report = judge(trace(risky(), drawn), backend="cuda", settings="default")
    assert headline(report)[0] is Verdict.NONDETERMINISTIC


def test_a_change_for_set_up_code_alone_stands_behind_those_for_the_step() -> None:
    scan = call("aten.cumprod.default", facts=SCAN, **STEPS_OWN)
    plan = judge(trace(risky(count=90), scan), backend="cuda", settings="default").plan
    assert ["cumprod" in change.title for change in plan] == [True, False]
    assert "deterministic mode" in plan[1].title.lower()


def test_a_change_for_both_names_the_steps_own_lines_first() -> None:
    report = judge(trace(risky(count=90), risky(**STEPS_OWN)), backend="cuda", settings="default")
    (change,) = report.plan
    shown = step_of_plan(change, [report.findings[position] for position in change.findings])
    assert [line.place for line in shown.lines] == ["train.py:3", "data.py:7"]
