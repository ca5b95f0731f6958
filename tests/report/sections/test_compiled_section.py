"""What was compiled has its place on the page, in the terminal, in CSV and JSON, and none where nothing was."""

from __future__ import annotations

import json

import pytest

from tests.report.sections.test_process_sections import section
from tests.support import build
from tracer import judge
from tracer.names import (
    Detail,
    DeterministicMode,
    Direction,
    KernelLanguage,
    Phase,
    RegionGap,
    RegionInside,
    RegionOrigin,
    Verdict,
)
from tracer.report import Report
from tracer.report.render.terminal import to_text
from tracer.report.sections.answers import headline
from tracer.report.sections.calls import adding_of, regions_inside, regions_sentence
from tracer.trace import Trace

PUT = "aten.index_put.default"
KERNEL = "cpp_fused_index_add_0"
FLOAT = {"device": "cpu", "dtype": "float32"}


def compiled_trace() -> Trace:
    """A region with a kernel that adds atomically and one that is called, and a region that was not seen."""
    seen = build.region(
        deterministic_mode=DeterministicMode.OFF,
        direction=Direction.FORWARD,
        executions=30,
        ops=2,
        kernels=(
            build.kernel(original_ops=("aten.index_add",)),
            build.kernel(
                "extern_kernels.mm", language=KernelLanguage.EXTERN, atomic=None, ops=("aten.mm.default",), calls=2
            ),
        ),
    )
    unseen = build.region(
        "1/0",
        inside=RegionInside.UNSEEN,
        why=RegionGap.EARLIER,
        origin=RegionOrigin.EARLIER,
        kernels=(),
        ops=0,
        function="attend",
    )
    calls = (
        build.call(PUT, facts=FLOAT | {"arg.accumulate": True}, region=seen.id, kernels=(KERNEL,), count=30),
        build.call("aten.mm.default", facts=FLOAT, region=seen.id, kernels=("extern_kernels.mm",), count=60),
        build.call("aten.add.Tensor", facts=FLOAT, phase=Phase.OPTIMIZER),
    )
    return build.trace(*calls, regions=(seen, unseen), environment=build.environment(num_threads=2))


@pytest.fixture(scope="module")
def made() -> Report:
    return judge(compiled_trace())


def test_the_worst_region_stands_first_with_its_kernels_and_ops(made: Report) -> None:
    first, second = regions_inside(made)
    assert (first.region.id, first.verdict, first.gap) == ("0/0 forward", Verdict.CONDITIONAL, "")
    assert [(kernel.name, adding_of(kernel)) for kernel in first.kernels] == [
        (KERNEL, "adds atomically"),
        ("extern_kernels.mm", ""),
    ]
    assert [(call.group.op, call.group.count, call.ruling.verdict) for call in first.calls] == [
        (PUT, 30, Verdict.CONDITIONAL),
        ("aten.mm.default", 60, Verdict.DETERMINISTIC),
    ]
    assert (second.verdict, second.calls) == (Verdict.UNKNOWN, ())
    assert second.gap == "Its inside was not seen: it was compiled before recording began"
    assert regions_sentence(made) == (
        "2 regions of compiled code, the inside of 1 seen, 1 with a kernel that adds atomically."
    )


def test_the_page_and_the_terminal_tell_of_regions_and_of_nothing_where_nothing_was_compiled(made: Report) -> None:
    brief = made.to_text(width=200, color=False)
    assert "1/0: Its inside was not seen: it was compiled before recording began" in brief
    for text in (section(made, "compiled"), to_text(made, width=200, color=False, limit=None, detail=Detail.WHOLE)):
        assert "Compiled code" in text
        assert KERNEL in text
        assert "adds atomically" in text
        assert "Its inside was not seen: it was compiled before recording began." in text
    eager = judge(build.trace())
    assert section(eager, "compiled") == ""
    assert "Compiled code" not in eager.to_text(width=200, color=False)


def test_a_finding_names_region_and_kernel_in_every_format(made: Report) -> None:
    said = f"compiled, region 0/0 forward: {KERNEL}"
    assert said in made.to_text(width=300, color=False)
    (found,) = [one for one in json.loads(made.to_json())["judgement"]["findings"] if one["op"] == PUT]
    assert (found["regions"], found["kernels"], found["shown"]) == (["0/0 forward"], [KERNEL], "adds-atomically")
    assert [region["id"] for region in json.loads(made.to_json())["judgement"]["regions"]] == ["0/0 forward", "1/0"]
    assert f"`{KERNEL}` adds atomically." in found["why"]


def test_a_report_that_is_whole_has_every_kernel_and_call(made: Report) -> None:
    assert made.to_dataframe("calls")["region"].tolist() == ["0/0 forward", "0/0 forward", ""]
    text = to_text(made, width=200, color=False, limit=None, detail=Detail.WHOLE)
    assert "extern_kernels.mm: what it is eager kernel, called, called 2 times a run" in text
    assert "aten.index_put forward, 30 calls: verdict ≈ conditional → = deterministic under the mode" in text


def test_a_region_that_was_not_seen_stands_in_the_headline_although_nothing_else_says_so() -> None:
    unseen = build.region(inside=RegionInside.UNSEEN, kernels=(), ops=0)
    call = build.call("aten.add.Tensor", facts=FLOAT, phase=Phase.OPTIMIZER)
    made = judge(build.trace(call, regions=(unseen,), watched_from_start=True))
    assert headline(made)[1] == (
        "No risk found in 1 call; not seen: compiled code; not judged: files and clocks that Python reads; `tracer"
        " repeat` judges both"
    )
