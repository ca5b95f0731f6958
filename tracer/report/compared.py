"""Runs and configurations that were compared, as JSON and as the files that they leave: ``repeat.*``, ``compare.*``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

import tracer
from tracer.divergence.lines import LineSource
from tracer.divergence.magnitudes import CompareVerdict, Comparison
from tracer.divergence.model import Divergence, Root
from tracer.divergence.omissions import ResumedRun, what_of
from tracer.divergence.repeated import UNVARIED, Held, Repeated, next_steps
from tracer.errors import ReportError
from tracer.files import write_whole
from tracer.findings import PlannedChange
from tracer.names import Verdict
from tracer.plain import json_text
from tracer.report import Report
from tracer.report.blocks import PAGE, Block
from tracer.report.sections.configurations import SEVERITY, configuration_blocks, headline
from tracer.report.sections.resumed import resumed_blocks, resumed_headline

SCHEMA = 1
#: How everything that was held together is called.
ALL = "all"


def write_repeated(
    repeated: Repeated, judged: Callable[[], Report | None], folder: Path, wanted: Iterable[str]
) -> list[Path]:
    """Write those ``wanted`` of ``json`` and ``html``; only a page, and a plan of runs that differ, ask ``judged``."""

    def page() -> str:
        if (report := judged()) is None:
            raise ReportError("run 1 left no trace, so there is no page", hint="ask for --format text,json")
        return replace(report, repeated=repeated).to_html()

    made = {"json": lambda: json_text(repeated_json(repeated, plan_after(repeated, judged))), "html": page}
    return _write(folder, "repeat", wanted, made)


def _write(folder: Path, name: str, wanted: Iterable[str], made: Mapping[str, Callable[[], str]]) -> list[Path]:
    texts = ((form, made[form]().encode("utf-8")) for form in wanted)
    return [write_whole(folder / f"{name}.{form}", text, error=ReportError) for form, text in texts]


def plan_after(repeated: Repeated, judged: Callable[[], Report | None]) -> tuple[PlannedChange, ...]:
    """Return the changes once runs differed; without a report on the first, those that the runs themselves ask for."""
    if repeated.agrees:
        return ()
    report = judged()
    return next_steps(repeated) if report is None else replace(report, repeated=repeated).plan


def divergence_json(divergence: Divergence) -> dict[str, Any]:
    """Return the JSON of two recordings: the fields that several runs have too, and the rest."""
    document = _leading(divergence, runs=2, arms={})
    rest: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(divergence, roots=(), without_effect=()))
    rest["sources"] = [_fields(source) for source in divergence.sources]
    if divergence.resumed is not None:
        lacks = ((lack.kind.value, lack.name, what_of(lack)) for lack in divergence.resumed.not_restored)
        rest["resumed"]["not_restored"] = [{"kind": kind, "name": name, "why": why} for kind, name, why in lacks]
    return document | {name: value for name, value in rest.items() if name not in document}


#: What is told as it stands: of the runs, and of the comparison that diverges first.
_OF_RUNS = (
    *("name", "partial", "ended_by", "not_followed", "ends", "settings", "sets"),
    *("lines_note", "timed", "orders", "otherwise", "not_held"),
)
_OF_FIRST = ("notes", "ends_compared", "is_inference", "outputs", "not_digested", "follows")


def repeated_json(repeated: Repeated, plan: Sequence[PlannedChange] = ()) -> dict[str, Any]:
    """The result of several runs, as ``repeat.json`` holds it; ``plan``: what to change."""
    divergence = repeated.divergence
    document = _leading(
        repeated,
        runs=len([run for run in repeated.runs if run.arm == UNVARIED and not run.held]),
        arms={
            arm: msgspec.to_builtins(outcome) | {"first": outcome.first and _fields(outcome.first)}
            for arm, outcome in repeated.arms.items()
        },
    )
    held = [
        {"line": "+".join(each.lines), "agrees": each.agrees, "runs": each.runs, "no_proof": each.problem}
        | ({"at": each.at} if each.at else {})
        for each in repeated.held_lines
    ]
    rest = {
        **{name: getattr(repeated, name) for name in _OF_RUNS},
        **{name: getattr(divergence, name) for name in _OF_FIRST},
        "recordings": repeated.runs,
        "threads_not_followed": repeated.unrecorded[1],
        "sources": [_fields(source) for source in repeated.sources],
        "held": [*held, *map(_held, repeated.held)],
        "plan": plan,
        **({"not_restored": repeated.not_restored} if repeated.not_restored else {}),
    }
    document |= msgspec.to_builtins(rest)
    if repeated.as_it_stands is not None:
        document["as_it_stands"] = repeated_json(repeated.as_it_stands)
    return document


def _leading(compared: Divergence | Repeated, *, runs: int, arms: Mapping[str, Any]) -> dict[str, Any]:
    """Return the first part of every comparison's JSON."""
    return {
        "schema": SCHEMA,
        "agrees": compared.agrees,
        "runs": runs,
        "calls_compared": compared.calls_compared,
        "first": compared.first and _fields(compared.first),
        "roots": [_fields(root) for root in compared.roots],
        "without_effect": [_fields(root) for root in compared.without_effect],
        "arms": dict(arms),
    }


#: What only the comparing needs of a root, of a line, and of a comparison of configurations.
_INNER = {
    Root: ("shows", "seed", "loading", "reaches_training"),
    LineSource: ("closed", "held_at", "may_call", "is_threads", "takers"),
    Comparison: ("second_is_narrower", "parts_in", "agreeing", "lacks_ends"),
}


def _fields(told: Root | LineSource | Comparison) -> dict[str, Any]:
    """The fields that a reader is told; infinite numbers are ``None``."""
    fields: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(told))
    return {name: value for name, value in fields.items() if name not in _INNER[type(told)]}


def _held(held: Held) -> dict[str, Any]:
    """Return the circumstances that were held: one, several joined by ``+``, or ``all``."""
    name = ALL if held.is_all and len(held.circumstances) > 1 else "+".join(held.circumstances)
    return {"circumstance": name, **msgspec.to_builtins(held), "first": held.first and _fields(held.first)}


# --- two configurations: ``compare.json`` and ``compare.html`` ---------------------------------------------

#: Exit codes: somewhere the difference is larger than rounding explains; nobody can say, or a recording is not whole.
FAILED, UNDECIDED = 1, 3


def write_comparison(comparison: Comparison, folder: Path, wanted: Iterable[str], script: str) -> list[Path]:
    """Write what is ``wanted`` of ``json`` and ``html`` into ``folder``, and return the paths."""
    blocks = configuration_blocks(comparison, PAGE)
    about = SEVERITY[comparison.verdict], headline(comparison), "Two configurations", script
    made = {"json": lambda: json_text(comparison_json(comparison)), "html": lambda: _page_of(*about, blocks)}
    return _write(folder, "compare", wanted, made)


def write_resumed(found: ResumedRun, folder: Path, wanted: Iterable[str]) -> list[Path]:
    """Write what is ``wanted`` of ``json`` and ``html`` into ``folder``, and return the paths."""
    verdict = Verdict.DETERMINISTIC if found.agrees else Verdict.NONDETERMINISTIC
    verdict = Verdict.UNKNOWN if found.unknown else verdict
    fields = {**msgspec.to_builtins(found), "roots": list(map(_fields, found.roots))}
    about = verdict, resumed_headline(found), "A resumed run", found.name
    made = {
        "json": lambda: json_text({"schema": SCHEMA, "agrees": found.agrees, **fields}),
        "html": lambda: _page_of(*about, resumed_blocks(found, PAGE)),
    }
    return _write(folder, "resume", wanted, made)


def _page_of(verdict: Verdict, headline: str, kicker: str, script: str, blocks: Iterable[Block]) -> str:
    """One HTML page that opens offline; it has no script. The first block is its headline."""
    from markupsafe import Markup

    from tracer.report.render.page import assets, page_environment

    return (
        page_environment()
        .get_template("compare.html")
        .render(
            verdict=verdict,
            headline=headline,
            kicker=kicker,
            script_name=script,
            blocks=list(blocks)[1:],
            version=tracer.__version__,
            style=Markup(assets()["style.css"]),
            bundle=None,
        )
    )


def code_of(comparison: Comparison) -> int:
    """The exit code of a comparison: 0 for equal and rounding."""
    if comparison.verdict is CompareVerdict.SIGNIFICANT:
        return FAILED
    if comparison.partial or comparison.verdict in (CompareVerdict.UNDECIDED, CompareVerdict.NOT_JUDGED):
        return UNDECIDED
    return 0


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """The comparison as ``compare.json`` holds it. Infinite numbers are ``null``."""
    return {"schema": SCHEMA, **_fields(comparison)}
