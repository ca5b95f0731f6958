"""What the tables say of real models' steps is held to files that were read line by line.

Each trace under ``golden/judgements`` is one training step on a CPU, made by ``make_traces.py`` there. A change in a
table or in a translation shows here as a diff over real code, version by version.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tracer import Trace, judge
from tracer.findings import Finding, Judgement
from tracer.names import SEVERITY, UnknownReason, Verdict

FOLDER = Path(__file__).parents[1] / "golden" / "judgements"
TRACES = sorted(path.name.removesuffix(".json.gz") for path in FOLDER.glob("*.json.gz"))
VERSIONS = ("1.11", "2.0", "2.6", "2.13", "2.15")
SHORT = {
    Verdict.DETERMINISTIC: "det",
    Verdict.SEEDED: "seeded",
    Verdict.CONDITIONAL: "cond",
    Verdict.NONDETERMINISTIC: "nondet",
    Verdict.RAISES: "raises",
    Verdict.UNKNOWN: "unknown",
}
LEGEND = """\
One row: rule, op as recorded, phase, and for each torch the calls with two verdicts, as things stand > in deterministic
mode. Two runs differ: nondet; only on some data: cond; by the seed alone: seeded; torch refuses: raises.
"""

Key = tuple[str, str, str, str]


@cache
def recorded(name: str) -> Trace:
    return Trace.load(FOLDER / f"{name}.json.gz")


@cache
def judgement(name: str, version: str, settings: str) -> Judgement:
    return judge(recorded(name), backend="cuda", torch=version, settings=settings).judgement


def rows(findings: Iterable[Finding], cell: Callable[[Finding], str]) -> dict[Key, Counter[str]]:
    """Findings at every site together: rule, op, what it runs as and phase, to calls by verdict."""
    found: dict[Key, Counter[str]] = {}
    for one in findings:
        key = (one.rule, one.op, one.runs_as, str(one.phase))
        found.setdefault(key, Counter())[cell(one)] += one.count
    return found


def matrix(name: str, settings: str, cell: Callable[[Finding], str]) -> Iterator[str]:
    columns = [rows(judgement(name, version, settings).findings, cell) for version in VERSIONS]
    keys = sorted({key for column in columns for key in column})
    yield f"{'':84}" + "".join(f"{version:>20}" for version in VERSIONS).rstrip()
    told = ""
    for key in keys:
        rule, op, runs_as, phase = key
        cells = [
            ", ".join(f"{n} {what}" for what, n in sorted(column.get(key, {}).items())) or "." for column in columns
        ]
        if rule != told:
            yield rule
        told = rule
        yield f"  {f'{op} {phase}':82}" + "".join(f"{text:>20}" for text in cells)
        if runs_as:
            yield f"    runs as {runs_as}"


def tally(name: str, settings: str) -> Iterator[str]:
    for version in VERSIONS:
        calls = judgement(name, version, settings).tally.as_is
        counts = ", ".join(f"{calls[v]} {SHORT[v]}" for v in SEVERITY if calls.get(v))
        yield f"  {version:5} {counts}"


def text_of(name: str) -> str:
    trace = recorded(name)
    lines = [f"{name}: {trace.call_count} calls in {len(trace.calls)} groups, recorded with {trace.environment.torch}"]
    said = dict.fromkeys(b for v in VERSIONS for b in judgement(name, v, "default").banners)
    lines += [*said, "", LEGEND, "torch's default settings", ""]
    lines += matrix(name, "default", lambda f: f"{SHORT[f.verdict]}>{SHORT[f.deterministic_mode]}")
    lines += ["", "calls", *tally(name, "default"), ""]
    lines += ["deterministic mode on, CUBLAS_WORKSPACE_CONFIG set: what is left", ""]
    lines += matrix(name, "deterministic", lambda f: SHORT[f.verdict])
    lines += ["", "calls", *tally(name, "deterministic"), ""]
    return "\n".join(line.rstrip() for line in lines)


@pytest.mark.parametrize("name", TRACES)
def test_a_models_step_is_judged_as_it_was_read(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"judgements/{name}.txt", text_of(name))


@pytest.mark.parametrize("name", TRACES)
def test_no_verdict_is_missing_for_want_of_a_fact(name: str) -> None:
    """A table that asks for a new fact needs the traces made again: see ``make_traces.py``."""
    for version in VERSIONS:
        lacking = {
            (finding.op, finding.reason_detail)
            for settings in ("default", "deterministic")
            for finding in judgement(name, version, settings).findings
            if finding.reason is UnknownReason.FACT_NOT_RECORDED
        }
        assert not lacking


def test_ten_transformers_a_convolutional_net_and_a_recurrent_one_are_there() -> None:
    assert len(TRACES) == 12
    assert {"convnet", "lstm"} < set(TRACES)
