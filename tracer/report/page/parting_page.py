"""What the page shows of runs that were compared: what happened, the picture, the roots, the arms."""

from __future__ import annotations

from typing import Any, NamedTuple

from tracer.divergence.model import Root
from tracer.divergence.repeated import Repeated
from tracer.names import Verdict
from tracer.plain import one_line
from tracer.report.page.calls_strip import picture_of
from tracer.report.wording.runs.parting import CAUSES, short_call_of
from tracer.report.wording.runs.repeating import (
    NO_PROOF,
    arm_rows,
    repeated_headline,
    reservations,
    sensitive,
    settings_sentence,
)
from tracer.report.wording.runs.states import STATES
from tracer.report.wording.words import plural

#: Roots that the table lists; places of a structure's continuation.
MOST_ROOTS = 60
_LONGEST = 400


class RootRow(NamedTuple):
    """A root, as the page's table tells it."""

    number: int
    root: Root
    op: str
    place: str
    cause: str
    step: str
    sentences: tuple[str, ...]
    """Evidence, one sentence each."""
    arms: str


def parting_context(repeated: Repeated) -> dict[str, Any]:
    """What ``report.html`` names of a comparison, as its ``parting``."""
    shown = repeated.as_it_stands if repeated.agrees and repeated.as_it_stands is not None else repeated
    divergence = shown.divergence
    roots = _in_order(shown)
    return {
        "headline": repeated_headline(repeated),
        "verdict": None if repeated.agrees and shown is repeated else Verdict.NONDETERMINISTIC,
        "no_proof": NO_PROOF if repeated.agrees else "",
        "settings": settings_sentence(repeated),
        "compared": _compared(shown),
        "roots": [_row(number, root) for number, root in enumerate(roots[:MOST_ROOTS], 1)],
        "roots_more": max(0, len(roots) - MOST_ROOTS),
        "picture": picture_of(divergence),
        "states": STATES,
        "arms": arm_rows(repeated),
        "structure": divergence.structure,
        "changed": divergence.settings,
        "second": shown.second,
        "not_restored": repeated.not_restored,
        "reservations": () if repeated.agrees else reservations(repeated),
    }


def _in_order(repeated: Repeated) -> list[Root]:
    """The roots of the comparison that is drawn, whose numbers its marks bear, then those that others showed."""
    told = {root.key[1:]: root for root in repeated.roots}
    drawn = [told.get(root.key[1:], root) for root in repeated.divergence.roots]
    mine = {root.key[1:] for root in drawn}
    return [*drawn, *(root for root in repeated.roots if root.key[1:] not in mine)]


def _compared(repeated: Repeated) -> str:
    """The figures of the comparison that is drawn."""
    divergence = repeated.divergence
    parts = [f"run 1 and {repeated.second}: {plural(divergence.calls_compared, 'call')} compared"]
    if divergence.roots:
        parts += [plural(len(divergence.roots), "root"), f"{divergence.follows:,} that follow"]
    if any(divergence.only):
        parts.append(f"{sum(divergence.only):,} that only one run made")
    if divergence.not_digested:
        parts.append(f"{divergence.not_digested:,} of which agreement is not known")
    return "; ".join(parts)


def _row(number: int, root: Root) -> RootRow:
    sentences = [f"{root.why[:1].upper()}{root.why[1:]}." if root.why else ""]
    if root.follows:
        verb = "differs" if root.follows == 1 else "differ"
        sentences.append(f"{plural(root.follows, 'call')} {verb} only because of it.")
    if root.same_cause:
        sentences.append(f"The same cause shows at {plural(root.same_cause, 'further call')}.")
    if said := sensitive(root):
        sentences.append(said)
    return RootRow(
        number=number,
        root=root,
        op=short_call_of(root),
        place=_where(root.location, root.called_from),
        cause=CAUSES[root.cause],
        step=f"step {root.step}, {root.phase}, call {root.call:,}",
        sentences=tuple(dict.fromkeys(one_line(sentence, _LONGEST) for sentence in sentences if sentence)),
        arms=", ".join(root.arms),
    )


def _where(location: str, called_from: str) -> str:
    if location and called_from:
        return f"{location} (called from {called_from})"
    return location or called_from
