"""What several runs showed, in a terminal: where they part, the arms, what was made before the first line."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType

from tracer.divergence.repeated import Arm, Repeated, told_with_arms
from tracer.report.terminal.divergence_text import divergence_parts
from tracer.report.terminal.terminal import Prose, hanging, heading, indented
from tracer.report.wording.runs.parting import headline
from tracer.report.wording.runs.repeating import (
    NO_PROOF,
    arm_rows,
    place_of_root,
    repeated_headline,
    reservations,
    sensitive,
    settings_sentence,
)


def repeated_parts(repeated: Repeated) -> Iterator[RenderableType]:
    """The parts, from the top."""
    shown = repeated.as_it_stands if repeated.agrees and repeated.as_it_stands is not None else repeated
    line, second = f"{repeated_headline(repeated)}.", shown.second
    if line != headline(shown.divergence, "run 1", second):
        yield Prose(line, style="bold")
    if repeated.agrees:
        yield Prose(NO_PROOF)
    else:
        for clause in reservations(repeated):
            yield Prose(f"{clause[:1].upper()}{clause[1:]}.")
    if sentence := settings_sentence(repeated):
        yield Prose(sentence)
    if repeated.not_restored:
        yield Prose(f"Not restored between the runs: {'; '.join(repeated.not_restored)}.")
    if not shown.agrees:
        yield from divergence_parts(told_with_arms(shown), "run 1", second)
    rows = arm_rows(repeated)
    if rows:
        yield heading("Under other circumstances")
        for row in rows:
            yield hanging("=" if row.agrees else "≠", f"{row.arm} ({row.changed}): {row.said}")
            if row.note:
                yield indented(row.note, 4, style="dim")
    alone = [root for root in repeated.roots if root.arms and Arm.UNVARIED.value not in root.arms]
    if alone:
        yield heading("Sensitive to circumstances")
        for root in alone:
            yield hanging("-", f"{place_of_root(root)}: {sensitive(root)}")
