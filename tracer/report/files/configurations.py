"""A comparison of two configurations as files: ``compare.json`` and ``compare.html``."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

import tracer
from tracer.divergence.magnitudes import CompareVerdict, Comparison, PlaceDifference
from tracer.errors import ReportError
from tracer.files import write_whole
from tracer.plain import json_text
from tracer.report.blocks import PAGE
from tracer.report.sections.configurations import SEVERITY, configuration_blocks, headline

SCHEMA = 1
#: Exit codes: somewhere the difference is larger than rounding explains; nobody can say, or a recording is not whole.
FAILED, UNDECIDED = 1, 3


def write_comparison(comparison: Comparison, folder: Path, wanted: Iterable[str], script: str) -> list[Path]:
    """Write what is ``wanted`` of ``json`` and ``html`` into ``folder``, and return the paths.

    Raises ``ReportError`` in one line for what cannot be written.
    """
    written = []
    for name in wanted:
        if name == "json":
            text = json_text(comparison_json(comparison))
        else:
            text = _page(comparison, script)
        written.append(write_whole(folder / f"compare.{name}", text.encode("utf-8"), error=ReportError))
    return written


def _page(comparison: Comparison, script: str) -> str:
    """``comparison`` as one HTML page that opens offline; it has no script."""
    from markupsafe import Markup

    from tracer.report.render.page import assets, page_environment

    style = assets()
    return (
        page_environment()
        .get_template("compare.html")
        .render(
            verdict=SEVERITY[comparison.verdict],
            headline=headline(comparison),
            script_name=script,
            blocks=list(configuration_blocks(comparison, PAGE))[1:],
            version=tracer.__version__,
            style=Markup(style["style.css"] + style["compare.css"]),
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
    return {
        "schema": SCHEMA,
        "verdict": comparison.verdict.value,
        "compared": list(comparison.compared),
        "rows": list(comparison.rows),
        "places": comparison.places,
        "differing": comparison.differing,
        "largest": _place(comparison.largest),
        "first": _place(comparison.first),
        "call": msgspec.to_builtins(comparison.call),
        "significant": [_place(one) for one in comparison.significant],
        "following": comparison.following,
        "is_given": comparison.is_given,
        "split_steps": list(comparison.split_steps),
        "row_steps": list(comparison.row_steps),
        "not_finite": comparison.not_finite,
        "only": msgspec.to_builtins(comparison.only),
        "only_count": comparison.only_count,
        "unjudged": comparison.unjudged,
        "draws": msgspec.to_builtins(comparison.draws),
        "unrepeated": _place(comparison.unrepeated),
        "flips": msgspec.to_builtins(comparison.flips),
        "steps": list(comparison.steps),
        "yardstick": msgspec.to_builtins(comparison.yardstick),
        "factor": comparison.factor,
        "scaled": list(comparison.scaled),
        "undone": comparison.undone,
        "partial": comparison.partial,
        "processes": comparison.processes,
    }


def _place(one: PlaceDifference | None) -> dict[str, Any] | None:
    if one is None:
        return None
    document: dict[str, Any] = msgspec.to_builtins(one)
    if not math.isfinite(one.relative):
        document["relative"] = None
    return document
