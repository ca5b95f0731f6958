"""A resumed run: whether it goes on bit for bit, and what it goes on without."""

from __future__ import annotations

from collections.abc import Iterable

from tracer.divergence.omissions import ResumedRun
from tracer.report import blocks as said
from tracer.report.blocks import Reader, first
from tracer.report.words import joined, plural

#: What the first sentence names.
_MOST_NAMED = 3


def resumed_headline(found: ResumedRun) -> str:
    """One sentence: it goes on bit for bit, or where it departs and why."""
    if found.unknown:
        return f"Nothing can be said: {found.unknown}."
    if found.agrees:
        return f"Goes on bit for bit from step {found.step}."
    if found.step == 0 and found.stopped_after:
        return "Departs at step 0: nothing was restored."
    names = [f"{each.what}{f' ({each.location})' if each.location else ''}" for each in found.not_restored]
    more = f"; and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    what = f"{'; '.join(names[:_MOST_NAMED])}{more}."
    if found.departs is None:
        return f"Goes on from step {found.step} in all calls, but not everything was restored: {what}"
    return f"Departs at step {found.departs}: {what}"


def resumed_blocks(found: ResumedRun, reader: Reader) -> Iterable[said.Block]:
    """The answer, how far it goes, and each thing that was not restored with its remedy."""
    yield said.Paragraph(resumed_headline(found), said.Tone.STRONG)
    yield from (said.Paragraph(sentence) for sentence in _sentences(found))
    for title, omissions in (
        ("Not restored", found.not_restored),
        ("Differs too, and is not seen to reach training", found.beside),
    ):
        shown, left_out = first(omissions, reader.rows)
        if shown:
            yield said.Heading(title)
            places = ((said.Code(each.location), " ") if each.location else () for each in shown)
            rows = (
                said.Row((*place, each.what), blocks=said.paragraphs(each.remedy))
                for place, each in zip(places, shown, strict=True)
            )
            yield said.Rows(tuple(rows), left_out=left_out)


def _sentences(found: ResumedRun) -> Iterable[str]:
    if found.step is not None and found.step < found.stopped_after:
        back = plural(found.stopped_after - found.step, "step")
        yield f"The run was ended after step {found.stopped_after}; the resumed one goes back {back} to its checkpoint."
    if found.step is not None and found.step > found.stopped_after:
        yield f"The run was ended after step {found.stopped_after}, and the resumed one begins later."
    if found.calls_compared:
        compared, left = min(found.steps), found.steps[0]
        of = f" of {left:,}" if compared < left else ""
        yield f"{plural(found.calls_compared, 'call')} of {compared:,}{of} further steps were compared."
    if found.processes > 1:
        shown = f": this is {found.process.replace('-', ' ')}" if found.process else ""
        yield f"Each of the {found.processes} processes that train was compared with its own{shown}."
    if found.not_compared:
        started = plural(found.not_compared, "process", "processes")
        yield f"Not compared: {started} that the script started (`--children`)."
    if found.restored:
        yield f"Restored: {joined(list(found.restored))}."
