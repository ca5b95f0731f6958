"""Compiled code in a terminal: a few lines a region; and one region whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import RenderableType

from tracer.errors import ReportError
from tracer.plain import one_line, visible
from tracer.report.regions import KernelRow, RegionRow, region_rows, regions_sentence
from tracer.report.terminal.terminal import Prose, heading, indented, printed
from tracer.report.wording.words import VERDICTS, plural

if TYPE_CHECKING:
    from tracer.report.view import ReportView

#: Regions that are listed, and kernels of one.
_REGIONS = 12
_KERNELS = 4
_LONGEST = 240


def compiled_parts(report: ReportView, *, whole: bool = False) -> Iterator[RenderableType]:
    """The section, where something was compiled; ``whole``: every region and kernel."""
    rows = region_rows(report)
    if not rows:
        return
    yield heading("Compiled code")
    if sentence := regions_sentence(report):
        yield indented(sentence)
    shown = rows if whole else rows[:_REGIONS]
    for row in shown:
        yield from _region(row, None if whole else _KERNELS)
    if len(shown) < len(rows):
        yield indented(f"and {plural(len(rows) - len(shown), 'more region')}.", style="dim")
    yield indented("`tracer report TRACE --region ID` shows one region whole.", style="dim")


def region_text(report: ReportView, region: str, *, width: int | None = None, color: bool | None = None) -> str:
    """One region whole: its kernels, its ops, what varies, and the lines of its code where the trace holds them.

    Raises ``ReportError`` in one line for an id that the trace does not have.
    """
    rows = {row.id: row for row in region_rows(report)}
    if region not in rows:
        known = ", ".join(rows)
        raise ReportError(
            f"there is no region {region!r}",
            hint=f"the trace has {one_line(known, _LONGEST)}" if known else "nothing was compiled while recording",
        )
    return printed(lambda _: _whole(rows[region]), width=width, color=color)


def _region(row: RegionRow, kernels: int | None) -> Iterator[RenderableType]:
    words = VERDICTS[row.verdict]
    yield indented(f"{words.sign} {row.id}: {one_line(row.title, _LONGEST)}", style=words.style)
    yield indented(one_line(row.told, 2 * _LONGEST), 4)
    if row.gap:
        yield indented(f"{one_line(row.gap, _LONGEST)}.", 4)
    telling = [kernel for kernel in row.kernels if kernel.varies or kernel.choice] or []
    for kernel in telling if kernels is None else telling[:kernels]:
        yield indented(_kernel(kernel), 4)
    if kernels is not None and len(telling) > kernels:
        yield indented(f"and {plural(len(telling) - kernels, 'more kernel')} to be told of.", 4, style="dim")


def _kernel(kernel: KernelRow) -> str:
    said = "; ".join(filter(None, (kernel.adds or kernel.made_of, kernel.choice)))
    ops = f" ({one_line(kernel.ops, _LONGEST)})" if kernel.ops else ""
    return f"{one_line(kernel.name, _LONGEST)} {said}{ops}"


def _whole(row: RegionRow) -> Iterator[RenderableType]:
    words = VERDICTS[row.verdict]
    yield Prose(f"{words.sign} Region {row.id}: {one_line(row.title, _LONGEST)}", style=f"bold {words.style}")
    yield Prose(one_line(row.told, 4 * _LONGEST))
    if row.gap:
        yield Prose(f"{one_line(row.gap, _LONGEST)}.")
    if row.kernels:
        yield heading(f"Kernels ({len(row.kernels):,})")
    for kernel in row.kernels:
        times = f", called {plural(kernel.calls, 'time')} a run" if kernel.calls != 1 else ""
        yield indented(
            f"{one_line(kernel.name, _LONGEST)}: {kernel.made_of}{times}", style="bold" if kernel.varies else ""
        )
        said = "; ".join(filter(None, (kernel.adds, kernel.choice, kernel.ops and f"made of {kernel.ops}")))
        if said:
            yield indented(one_line(said, 4 * _LONGEST), 4)
        for line in kernel.lines:
            yield indented(visible(line), 6, style="dim")
    if row.ops:
        yield heading(f"Ops ({sum(op.calls for op in row.ops):,} calls)")
    for op in row.ops:
        verdict = VERDICTS[op.verdict]
        then = "" if op.in_mode is op.verdict else f" → {VERDICTS[op.in_mode].label} under the mode"
        yield indented(
            f"{verdict.sign} {one_line(op.op, _LONGEST)} {op.phase}, {plural(op.calls, 'call')}: {verdict.label}{then}",
            style=verdict.style if then or op.verdict.value != "deterministic" else "",
        )
        module = f" in {one_line(op.module, _LONGEST)}" if op.module else ""
        into = f"; into {one_line(op.kernels, _LONGEST)}" if op.kernels else ""
        yield indented(f"{one_line(op.place, _LONGEST)}{module}{into}", 6, style="dim")
