"""Batch invariance: calls that were made again on a part of their rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tracer.names import RowOutcome
from tracer.plan import name_of
from tracer.report import blocks as said
from tracer.report.blocks import Reader, Section, first
from tracer.report.report import Report
from tracer.report.words import joined, plural
from tracer.trace.records import RowTrial

_REMEDY = (
    "To keep a row the same whatever stands beside it, give every batch the same number of rows (pad it to one size),"
    " or use kernels that split their work alike for every number of rows."
)


def rows(report: Report, reader: Reader) -> Section | None:
    """Which calls depend on the rows beside a row, where calls were made again on a part of theirs."""
    if not report.judgement.trace.rows:
        return None
    by: dict[RowOutcome, list[RowTrial]] = {outcome: [] for outcome in RowOutcome}
    for trial in report.judgement.trace.rows:
        by[trial.outcome].append(trial)
    counts = {outcome: sum(trial.count for trial in trials) for outcome, trials in by.items()}
    equal, apart = counts[RowOutcome.EQUAL], counts[RowOutcome.ROUNDING]
    if not equal + apart:
        why = "" if any(counts.values()) else ": no module was handed a batch of two samples or more"
        why = f"No call was made again on a part of its rows{why}."
        return Section(anchor="rows", title="Rows beside a row", blocks=(said.lead(why),), gist=why)
    again = (
        f"{plural(equal + apart, 'call')} {'was' if equal + apart == 1 else 'were'} made again on a part of the rows"
    )
    gist = f"{again}: {equal:,} equal, bit by bit" + (f", {apart:,} differ by rounding" if apart else "")
    blocks: list[said.Block] = [said.lead(f"{gist}.")]
    if apart:
        shown, left_out = first(sorted(by[RowOutcome.ROUNDING], key=lambda trial: -trial.count), reader.rows)
        figures = ("Rows", "Relative", "Calls")
        columns = said.columns("Op", "Phase", "Module", "Place", *figures, brief="Phase", figures=figures)
        cells = tuple(
            (
                said.Code(name_of(trial.op)),
                trial.phase.value,
                said.Code(trial.module),
                said.Code(trial.location),
                f"{trial.part:,} of {trial.of:,}",
                f"{trial.relative:.1e}",
                f"{trial.count:,}",
            )
            for trial in shown
        )
        blocks += [said.Table(columns, cells, noun="place", left_out=left_out), said.Paragraph(_REMEDY)]
    if places := [trial for trial in by[RowOutcome.MIXED] if trial.location]:
        shown, left_out = first(places, reader.rows)
        blocks.append(said.Heading("Made of several rows together, and left out"))
        blocks.append(said.Bullets(tuple(f"`{name_of(trial.op)}` at `{trial.location}`" for trial in shown), left_out))
    for outcome, why in (
        (RowOutcome.UNKNOWN, "Which arguments hold rows is not known"),
        (RowOutcome.UNTRIED, "Left out, since they draw, vary by themselves or could not be made again"),
    ):
        if by[outcome]:
            blocks.append(said.Paragraph(f"{why}: {_by_op(by[outcome])}.", said.Tone.QUIET))
    return Section(anchor="rows", title="Rows beside a row", blocks=tuple(blocks), gist=gist)


def _by_op(trials: Iterable[RowTrial]) -> str:
    counts = Counter[str]()
    for trial in trials:
        counts[name_of(trial.op)] += trial.count
    return joined([f"`{op}` ({count:,})" for op, count in counts.most_common()])
