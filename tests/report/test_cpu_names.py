"""What a CPU alone has is named, in answers for another backend, by what runs there."""

from __future__ import annotations

import re

import pytest

from tests.support.build import call, environment, trace
from tracer import judge
from tracer.ops import rows
from tracer.plan import op_of
from tracer.report import Report
from tracer.report.words import subject_of
from tracer.trace.records import CallGroup

FACTS = {"device": "cpu", "dtype": "float32", "layout": "strided", "ndim": 4}
NAMED = {row.name: row.on_cpu_for for row in rows() if row.on_cpu_for}
#: Calls that choose no kernel: whoever wrote them wrote this name.
OWN = {name for name, public in NAMED.items() if public.endswith(name)}
ELSEWHERE = ["cuda", "rocm", "xpu", "mps", "npu"]


def recorded(name: str) -> CallGroup:
    space = "mkldnn" if "pointwise" in name else "aten"
    backward = {"phase": "backward", "node": "FBackward0"} if "backward" in name else {}
    return call(f"{space}.{name}.default", facts=FACTS, **backward)


def judged(backend: str, *names: str, torch: str = "2.13.0") -> Report:
    return judge(trace(*map(recorded, names), environment=environment(num_threads=8)), backend=backend, torch=torch)


@pytest.mark.parametrize("backend", ELSEWHERE)
@pytest.mark.parametrize("name", NAMED)
def test_no_op_of_a_cpu_alone_is_held_for_safe_elsewhere_under_its_own_name(name: str, backend: str) -> None:
    for torch in ("2.13.0", "1.11.0"):
        for finding in judged(backend, name, torch=torch).findings:
            assert finding.runs_as or not finding.op, torch
            assert name in OWN or name not in f"{subject_of(finding)} {finding.ops} {finding.reason_detail}"
    at_home = judged("cpu", name)
    assert {finding.runs_as for finding in at_home.findings} <= {""}


@pytest.mark.parametrize("backend", ELSEWHERE)
@pytest.mark.parametrize("name", [name for name in NAMED if "mkldnn_" in name and "conv" not in name])
def test_an_op_that_the_target_lacks_is_unknown_there(name: str, backend: str) -> None:
    if "rnn" in name and backend in ("cuda", "rocm"):
        assert all(finding.runs_as.startswith("aten.") for finding in judged(backend, name).findings if finding.op)
        return
    (finding,) = (finding for finding in judged(backend, name).findings if finding.op)
    assert (finding.verdict, finding.deterministic_mode) == ("unknown", "unknown")


@pytest.mark.parametrize("backend", ELSEWHERE)
@pytest.mark.parametrize("settings", ["default", "deterministic"])
def test_no_format_that_people_read_names_an_op_of_the_cpu(backend: str, settings: str) -> None:
    chosen = [name for name in NAMED if name not in OWN]
    report = judge(trace(*map(recorded, chosen)), backend=backend, settings=settings)
    from tracer.report.junit import render as junit
    from tracer.report.render.markdown import render as markdown
    from tracer.report.sarif import render as sarif

    shown = {
        "text": report.to_text(width=200, color=False, limit=None),
        "brief": report.to_text(width=200, color=False),
        "html": report.to_html(),
        "markdown": markdown(report),
        "sarif": sarif(report),
        "junit": junit(report),
    }
    names = re.compile(rf"\b(?:aten|mkldnn)\.(?:{'|'.join(map(re.escape, chosen))})\b")
    assert {name: names.findall(text.replace("<wbr>", "").replace("\\", "")) for name, text in shown.items()} == {
        name: [] for name in shown
    }
    assert names.search(" ".join(change.title + change.where + change.remedy for change in report.plan)) is None


def test_the_recorded_name_stays_in_files_for_programs() -> None:
    report = judged("cuda", "_scaled_dot_product_flash_attention_for_cpu_backward")
    (finding,) = (finding for finding in report.findings if finding.op)
    assert "_for_cpu" in finding.op
    assert "_for_cpu" not in op_of(finding)
    assert "_for_cpu_backward" in report.to_csv()
