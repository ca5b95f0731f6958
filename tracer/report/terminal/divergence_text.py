"""A comparison of two recordings with values, in a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType

from tracer.divergence import Divergence, Parting, Place, Root
from tracer.plain import one_line
from tracer.report.terminal.terminal import Prose, hanging, heading, indented
from tracer.report.wording.runs.parting import CAUSES, caveats, consequence, headline, not_restored, place_of
from tracer.report.wording.words import plural

#: Roots and partings that are printed; JSON has them all.
_SHOWN = 20


def divergence_parts(
    found: Divergence, first: str = "the first run", second: str = "the second run"
) -> Iterator[RenderableType]:
    """What is printed, from the top."""
    yield Prose(one_line(headline(found, first, second), 400), style="bold")
    yield Prose(_counts(found))
    for caveat in caveats(found):
        yield Prose(one_line(caveat, 400))
    if found.resumed is not None:
        resumed = found.resumed
        how = "found by its parameters" if resumed.by_itself else "as asked"
        yield Prose(f"Step {resumed.second_step} of {second} was held against step {resumed.first_step} ({how}).")
        if resumed.not_restored:
            yield heading("Not restored")
            for one in resumed.not_restored:
                yield hanging("-", one_line(not_restored(one), 400))
    if found.roots:
        yield heading("Where they part")
        for number, root in enumerate(found.roots[:_SHOWN], 1):
            yield from _root(number, root)
        if len(found.roots) > _SHOWN:
            yield indented(f"and {len(found.roots) - _SHOWN:,} more; --format json has them all")
    partings = [parting for parting in found.structure if parting.is_root]
    if partings:
        yield heading("Calls that only one has")
        for parting in partings[:_SHOWN]:
            yield from _parting(parting)
    if found.settings:
        yield heading("Settings that differ")
        for setting in found.settings[:_SHOWN]:
            yield indented(one_line(f"{setting.name}: {setting.first}, {setting.second}", 400))


def _counts(found: Divergence) -> str:
    told = [f"{plural(found.calls_compared, 'call')} compared"]
    if found.roots:
        told.append(f"{plural(len(found.roots), 'root')}, {found.follows:,} more differ and follow")
    only = [
        f"{count:,} only in the {which}" for which, count in zip(("first", "second"), found.only, strict=True) if count
    ]
    return "; ".join((*told, *only)) + "."


def _root(number: int, root: Root) -> Iterator[RenderableType]:
    module = f" in {root.module}" if root.module else ""
    called = f", called from {root.called_from}" if root.called_from else ""
    yield hanging(f"{number}.", one_line(f"{place_of(root)}{module}{called}, {CAUSES[root.cause]}", 400), style="bold")
    why = root.why[:1].upper() + root.why[1:]
    yield indented(one_line(f"{why}.", 600), 5)
    if root.arms:
        yield indented(f"It differed in: {', '.join(root.arms)}.", 5)
    yield indented(f"{consequence(root)}.", 5, style="dim")


def _parting(parting: Parting) -> Iterator[RenderableType]:
    after = f"after {_call(parting.after)}" if parting.after is not None else "at the beginning"
    yield indented(one_line(f"Step {parting.step}, {after}:", 400))
    for which, places, only in (
        ("first", parting.first, parting.only_first),
        ("second", parting.second, parting.only_second),
    ):
        alone = f" ({only:,} of its own)" if only else ""
        yield indented(one_line(f"{which}{alone}: {_calls(places)}", 500), 4)


def _calls(places: Sequence[Place]) -> str:
    return ", ".join(_call(place) for place in places) or "ends"


def _call(place: Place) -> str:
    return f"{place.op} at {place.location}" if place.location else place.op
