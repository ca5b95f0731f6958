"""Two configurations that were compared: rounding or not, and where they begin to differ."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from tracer.divergence.joined_ranks import ROUNDING, SIGNIFICANT, Lack, OtherDraws
from tracer.divergence.magnitudes import CompareVerdict, Comparison, Flip, PlaceDifference
from tracer.names import Phase, PlaceKind, Verdict
from tracer.ops import row_of
from tracer.report import blocks as said
from tracer.report.blocks import Reader, Words, columns
from tracer.report.words import plural
from tracer.trace.values.places import REGION_DRAW

#: The colour of each verdict, as that of a verdict of the tables.
SEVERITY = {
    CompareVerdict.EQUAL: Verdict.DETERMINISTIC,
    CompareVerdict.ROUNDING: Verdict.DETERMINISTIC,
    CompareVerdict.UNDECIDED: Verdict.UNKNOWN,
    CompareVerdict.NOT_JUDGED: Verdict.UNKNOWN,
    CompareVerdict.SIGNIFICANT: Verdict.NONDETERMINISTIC,
}
_WHAT = {
    PlaceKind.INITIAL: "before the first call",
    PlaceKind.INPUT: "its input",
    PlaceKind.OUTPUT: "output",
    PlaceKind.REGION: "of a compiled region",
    PlaceKind.LOSS: "the loss",
    PlaceKind.OUTPUT_GRADIENT: "gradient of its output",
    PlaceKind.GRADIENT: "gradient",
    PlaceKind.PARAMETER: "after the optimizer's step",
    PlaceKind.STATE: "of the optimizer",
    PlaceKind.DECISION: "what it decides by",
}
#: Settings that differ which are named.
_MOST_SETTINGS = 6
#: A ratio above it says no more than that.
_FAR = 1_000
_LACKS = {
    Lack.OTHER_SHAPE: "Of another shape",
    Lack.OTHER_KIND: "Of another kind: floating-point numbers, and whole numbers or truth values",
    Lack.NOT_IN_SECOND: "In the first configuration alone",
    Lack.NOT_IN_FIRST: "In the second configuration alone",
    Lack.PART_MISSING: "Of which other ranks hold the rest (give the recordings of all ranks)",
    Lack.NO_YARDSTICK: "Different, and without a yardstick (no shaken run has them in that size, or they overflow)",
    Lack.OTHER_PARTS: "One number of each part of a batch (their parts may be unequal: neither sum nor mean agrees)",
    Lack.OTHER_POSITION: "Of other positions, while what a module that is given them returns agrees",
    Lack.OTHER_ORDER: "Of the same numbers in another order, while what the module around returns agrees",
    Lack.NOT_READ: "Of a kind that is not read (sparse, quantized, nested, without data)",
}


def headline(comparison: Comparison) -> str:
    """The first sentence."""
    unjudged = comparison.unjudged if comparison.verdict is not CompareVerdict.NOT_JUDGED else 0
    words = _answer(comparison)
    if comparison.draws is not None and comparison.unrepeated is None and not comparison.is_drawn_otherwise:
        words = f"{_draws_in_words(comparison.draws)}. {words}"
    have = "has" if unjudged == 1 else "have"
    return f"{words}; {plural(unjudged, 'place')} where they differ {have} no yardstick" if unjudged else words


def _draws_in_words(draws: OtherDraws) -> str:
    """How they draw otherwise, which comes before whatever differs."""
    one, other = _draw(draws.op, draws.location), _draw(draws.second_op, draws.second_location)
    if draws.in_another_way:
        return f"they draw random numbers in two ways, the first by {one}, the second by {other}"
    changes = f"; the draw at {draws.changes} gives other numbers for it" if draws.changes else ""
    if one or other:
        return f"Only the {'first' if one else 'second'} draws random numbers by {one or other}{changes}"
    return f"They draw other random numbers from {draws.changes} on: seed both alike"


def _draw(op: str, location: str) -> str:
    words = "compiled code" if op == REGION_DRAW else f"`{op}`"
    return f"{words}{f' at {location}' if location else ''}" if op else ""


def _answer(comparison: Comparison) -> str:
    verdict, largest, first = comparison.verdict, comparison.largest, comparison.first
    if (place := comparison.unrepeated) is not None:
        drawn = comparison.draws.changes if comparison.draws is not None else ""
        seed = f"it draws other random numbers from {drawn} on: seed it first" if drawn else "make it repeat first"
        return (
            f"The first configuration does not repeat, so that nothing can be said of the second: two runs of it differ"
            f" at {_where(place)} by {_part(place)} of its norm; {seed}"
        )
    if comparison.is_drawn_otherwise and comparison.draws is not None and first is not None:
        return (
            f"They are not comparable: {_draws_in_words(comparison.draws)}. What differs"
            f" after that, first {_where(first)}, says nothing of a fault. Let both draw alike"
            " (`fallback_random` of Inductor for compiled code), or draw nothing (dropout with p = 0)"
        )
    if verdict is CompareVerdict.EQUAL:
        if share := _share(comparison):
            return f"The two configurations are equal as far as they could be compared: {share}"
        return f"The two configurations are equal at all {plural(comparison.places, 'place')} of the step"
    if verdict is CompareVerdict.ROUNDING:
        share = f"; {share}" if (share := _share(comparison)) else ""
        they = f"{_flipped(comparison.flips[0])}. Apart from that, they" if comparison.flips else "They"
        if largest is None:  # another one of several equal numbers was chosen
            return f"{they} are equal{share}"
        most = f"nowhere more than {_times(largest)} what rounding does to this step"
        return f"{they} differ by rounding alone: {most}{share}"
    if verdict is CompareVerdict.UNDECIDED and comparison.lacks_ends:
        return f"Undecided: {_share(comparison) or 'nothing that the program computes was recorded'}"
    if verdict is CompareVerdict.NOT_JUDGED and largest is not None:
        return (
            f"They differ by at most {_part(largest)} of its norm, at {_where(largest)}; without a yardstick nobody can"
            " say whether that is rounding"
        )
    if verdict is CompareVerdict.NOT_JUDGED:
        return "Nobody can say whether they differ by rounding: no place that differs has a yardstick"
    if verdict is CompareVerdict.UNDECIDED and largest is not None and (largest.ratio or 0) <= ROUNDING:
        return (
            f"Undecided: of {plural(comparison.differing + comparison.unjudged, 'place')} that differ only"
            f" {comparison.differing:,} can be judged, and there it is rounding (at most {_times(largest)})"
        )
    if verdict is CompareVerdict.UNDECIDED and largest is not None:
        return (
            f"Undecided: {_where(largest)} differs by {_times(largest)} what rounding does there, which is neither"
            f" rounding (up to {ROUNDING:g}) nor significant (from {SIGNIFICANT:g})"
        )
    if first is None:
        return "They differ" if comparison.draws is None else "What differs from then on follows from that"
    if comparison.is_given:
        return _given_in_words(first, comparison)
    if first.kind is PlaceKind.GRADIENT and first.phase is Phase.OPTIMIZER:
        return f"They diverge after backward{_line(first)}, in step {first.step}: {_scaled(first, comparison)}"
    if first.kind is PlaceKind.OUTPUT_GRADIENT or first.is_own_code:
        return f"They diverge in {_own_code(first)}"
    if first.kind is PlaceKind.GRADIENT:
        how = _size(first) if comparison.factor is None else _scaled(first, comparison)
        return f"They diverge at {_where(first)}: {how}{_given(first, comparison)}"
    return f"They diverge at {_where(first)}: {_size(first)}{_given(first, comparison)}"


def _given_in_words(first: PlaceDifference, comparison: Comparison) -> str:
    """What differs that the program is given: rows, parameters, inputs."""
    if first.shapes:
        return f"They are given other rows: {_where(first)}"
    if first.kind is not PlaceKind.INITIAL:
        return f"They are given different inputs: {_where(first)} differs by {_part(first)} of its norm"
    for one in comparison.only:
        if one.kind is PlaceKind.INITIAL and one.lack is Lack.OTHER_SHAPE:
            ours, *_, theirs = map(_shape, one.shapes)
            return f"They are different models: `{one.place}` is {ours} in the first and {theirs} in the second"
    others = sum(one.kind is PlaceKind.INITIAL for one in comparison.significant) - 1
    more = f" and {others:,} more differ" if others else " differs"
    return f"They begin with different parameters: `{first.place}`{more} before the first call, by {_part(first)}"


def _flipped(flip: Flip) -> str:
    """A decision that rounding makes otherwise."""
    place = f"`{flip.module}`" if flip.module else "the program's own code"
    what = "changed its sign" if row_of(flip.op).bends == ((1, 0.0),) else f"was decided otherwise by `{flip.op}`"
    if flip.count > 1:
        what = what.replace("its", "their").replace("was", "were")
    line = f", {flip.location}" if flip.location else ""
    return (
        f"{place} in step {flip.step}, {flip.phase}{line}: {flip.count:,} of {flip.of:,} values {what} within rounding"
    )


def _share(comparison: Comparison) -> str:
    """How much of what the program computed was compared; empty: all of it."""
    (count, of), (rows, all_rows) = comparison.compared, comparison.rows
    if count == of and rows == all_rows:
        return ""
    if not count:
        return f"nothing that the program computed could be compared (0 of {plural(of, 'result')})"
    in_rows = f", in {rows:,} of {plural(all_rows, 'row')}" if rows < all_rows else ""
    ends = ", none of them one that leaves the model" if comparison.lacks_ends else ""
    return f"{count:,} of {plural(of, 'result')} {'was' if count == 1 else 'were'} compared{ends}{in_rows}"


def _own_code(first: PlaceDifference) -> str:
    """A fault in the code of a module between those that it calls, or of the program outside all modules."""
    code = f"the code of `{first.module}`" if first.module else "the program's own code, outside all modules,"
    makes = "the loss" if first.kind is PlaceKind.LOSS else f"what it gives `{first.place}`"
    if first.kind is PlaceKind.DECISION:
        makes = f"what `{first.place}` decides by"
    if first.kind is PlaceKind.OUTPUT_GRADIENT:
        code = f"the backward of {code if first.is_own_code else f'`{first.module}`'}"
        makes = f"the gradient of what `{first.place}` returned"
    if first.shapes:
        one, *_, other = map(_shape, first.shapes)
        makes = f"{makes} is {one} in the first and {other} in the second; what comes of it"
    return f"{code} in step {first.step}, {first.phase}{_line(first)}: {makes} {_differs(first)}"


def _scaled(first: PlaceDifference, comparison: Comparison) -> str:
    """A gradient that differs, and whether most do by the same factor."""
    count, of = comparison.scaled
    if comparison.factor is None:
        return f"the gradient of `{first.place}` {_differs(first)}"
    several = f"all {of:,} gradients" if count == of else f"{count:,} of {of:,} gradients"
    if first.factor is not None:
        often = "a division by parts that are accumulated, by the world size or by a count of tokens, or a clipped norm"
        return f"{several} differ by one factor: {_factor(comparison.factor)}; often {often}"
    by = f"{several} differ by one factor ({_factor(comparison.factor)})"
    return f"{by}, that of `{first.place}` otherwise: {_size(first)}"


def _is_far(place: PlaceDifference) -> bool:
    return place.ratio is not None and place.ratio > _FAR


def _differs(place: PlaceDifference) -> str:
    return f"differs {'' if _is_far(place) else 'by '}{_size(place)}"


def _factor(factor: float) -> str:
    part = round(1 / factor) if factor else 0
    fraction = f" (1/{part:,})" if 1 < part <= 65536 and abs(part * factor - 1) < 1e-3 else ""
    number = f"{factor:,.2f}" if factor >= 1 else f"{factor:.4g}"
    return f"the second is {number}{fraction} times the first"


def _given(first: PlaceDifference, comparison: Comparison) -> str:
    if first.ranks_differ:
        return "; ranks that should hold the same there do not"
    if first.is_alone:
        return "; all before it agrees bit for bit"
    if first.kind is PlaceKind.OUTPUT:
        return "; all that it was given agrees" if first.inputs_agree else "; not all that it was given was compared"
    if first.kind is PlaceKind.GRADIENT and comparison.split_steps == comparison.row_steps:
        return "; outputs agree" if comparison.row_steps else "; outputs and losses agree"
    return ""


def _where(place: PlaceDifference) -> str:
    what = "" if place.kind is PlaceKind.OUTPUT else f" ({_WHAT.get(place.kind, place.kind.value)})"
    name = "the loss" if place.kind is PlaceKind.LOSS else f"`{place.place}`{what}"
    return f"{name} in step {place.step}, {place.phase}{_line(place)}"


def _line(place: PlaceDifference) -> str:
    return "".join(f", {part}" for part in (place.location, place.process) if part)


def _position(place: PlaceDifference) -> str:
    return "" if place.position is None else f"from position {place.position:,} on"


def _size(place: PlaceDifference) -> str:
    if place.kind is PlaceKind.GRADIENT and "" in place.dtypes:
        return f"only the optimizer of the {'first' if place.dtypes[0] else 'second'} is given a gradient there"
    stretch = f", most at `{place.stretch}`" if place.stretch else ""
    stretch += f", {_position(place)}" if place.position is not None else ""
    if not math.isfinite(place.relative):
        return "one has elements that are not finite, and the other has not"
    if place.ratio is None and place.is_whole:
        return f"whole numbers, which nothing rounds, differ by {_part(place)} of their norm{stretch}"
    factor = "" if place.factor is None else f" ({_factor(place.factor)})"
    if _is_far(place):
        return f"far beyond rounding, {_part(place)} of its size{factor}{stretch}"
    return f"{_times(place)} what rounding does there, {_part(place)} of its norm{factor}{stretch}"


def _times(place: PlaceDifference) -> str:
    if place.ratio is None:
        return "far more than"
    return f"{place.ratio:,.1f} times" if place.ratio < 100 else f"{place.ratio:,.0f} times"


def _part(place: PlaceDifference) -> str:
    return f"{place.relative:.2g}" if math.isfinite(place.relative) else "all"


def configuration_blocks(comparison: Comparison, reader: Reader) -> Iterator[said.Block]:
    """Yield the text of a comparison, its first sentence included."""
    yield said.Paragraph(f"{headline(comparison)}.", said.Tone.STRONG)
    if comparison.partial:
        yield said.Paragraph(f"A recording is not whole: {comparison.partial}. The rest was not judged.")
    if (call := comparison.call) is not None:
        at = f", {call.location}" if call.location else ""
        if call.op == call.second_op:
            times = "" if call.ratio is None else f": {call.ratio:,.0f} times rounding"
            times = ": far beyond rounding" if call.ratio is not None and call.ratio > _FAR else times
            yield said.Paragraph(f"The first call there that differs is `{call.op}`{at}{times}.")
        else:
            side, op = ("first", call.op) if call.op else ("second", call.second_op)
            calls = f"only the {side} configuration calls `{op}`"
            if call.op and call.second_op:
                calls = f"the first configuration calls `{call.op}` where the second calls `{call.second_op}`"
            yield said.Paragraph(f"There, {calls}{at}.")
    if comparison.settings and comparison.verdict is not CompareVerdict.EQUAL:
        changed = [f"`{each.name}` ({' and '.join(each.values)})" for each in comparison.settings[:_MOST_SETTINGS]]
        left = len(comparison.settings) - len(changed)
        more = f", and {plural(left, 'more setting', 'more settings')}" if left else ""
        yield said.Paragraph(f"Beside their code, these differ: {', '.join(changed)}{more}.")
    listed = () if comparison.is_drawn_otherwise else comparison.significant
    if listed:
        yield from _places("What was given differs" if comparison.is_given else "Where it begins", listed, reader)
    if comparison.following:
        yield said.Paragraph(f"{plural(comparison.following, 'further place')} of these steps follow from that.")
    if not listed and comparison.unequal:
        yield from _places("The first places that are not equal", comparison.unequal, reader)
    has_largest = comparison.verdict is CompareVerdict.ROUNDING or comparison.is_open
    if has_largest and comparison.largest is not None:
        largest = comparison.largest
        yield said.Paragraph(f"The largest difference: {_where(largest)}, {_size(largest)}.")
    if comparison.undone is not None:
        yield said.Paragraph(
            f"The loss and what backward makes of it differ by one factor ({_factor(comparison.undone)}), which is gone"
            " when the optimizer reads the gradients."
        )
    if comparison.flips:
        yield said.Paragraph(
            f"{plural(len(comparison.flips), 'call')} of the second decided otherwise within rounding, first in"
            f" {_flipped(comparison.flips[0])}. A run of the first that decides as the second does was compared."
        )
    if comparison.names:
        one, other = next(iter(comparison.names.items()))
        more = f", and {len(comparison.names) - 1:,} more are named otherwise" if len(comparison.names) > 1 else ""
        yield said.Paragraph(f"Paired by parameters: `{one}` is `{other}` in the second configuration{more}.")
    yield from _not_compared(comparison)
    places = plural(comparison.places, "place")
    if comparison.processes > 1:
        places += f" of {comparison.processes:,} processes"
    yardstick, runs, inside = comparison.yardstick, plural(comparison.yardstick.runs, "run"), ""
    if comparison.verdict is CompareVerdict.EQUAL or comparison.unrepeated is not None:
        yield said.quiet(f"{places} compared.")
    elif not yardstick.runs:
        yield said.quiet("No yardstick: give shaken recordings, or use `tracer compare`.")
    else:
        seeds = ", ".join(map(str, sorted(set(yardstick.seeds))))
        second = f", {yardstick.of_second} of them of the second configuration" if yardstick.of_second else ""
        if yardstick.inside:
            inside = f" (in some of them inside `{yardstick.inside}` alone: all before that agrees bit for bit)"
        yield said.quiet(
            f"{places} compared, {comparison.differing:,} differ. The yardstick is {runs} (seeds {seeds}){second} in"
            f" which each result was changed by up to half a unit in the last place{inside}; compiled code ran eagerly"
            " there."
        )


def _places(title: str, listed: Sequence[PlaceDifference], reader: Reader) -> Iterator[said.Block]:
    has_processes = any(place.process for place in listed)
    process = ["Process"] if has_processes else []
    figures = ("Ratio", "Relative")
    heads = columns("Place", "Kind", *process, "Step", "Line", *figures, "Where", figures=figures)
    rows: list[tuple[Words, ...]] = []
    for place in listed[: reader.rows]:
        ratio = "not finite"
        if _is_far(place):
            ratio = f"> {_FAR:,}"
        elif place.ratio is not None:
            ratio = f"{place.ratio:,.1f}"
        elif place.kind is PlaceKind.GRADIENT and "" in place.dtypes:
            ratio = "lost"
        elif place.shapes and not place.is_own_code:
            ratio = "other rows"
        elif place.is_whole:
            ratio = "whole numbers"
        name = said.Code(place.place), _WHAT.get(place.kind, place.kind.value)
        of_process = [place.process or "main process"] if has_processes else []
        at = said.Code(place.location) if place.location else ""
        where = said.Code(place.stretch) if place.stretch and place.position is None else _position(place)
        rows.append((*name, *of_process, str(place.step), at, ratio, _part(place), where))
    yield said.Heading(title)
    yield said.Table(heads, tuple(rows), noun="place", left_out=max(0, len(listed) - reader.rows))


def _not_compared(comparison: Comparison) -> Iterator[said.Block]:
    if comparison.split_steps:
        rest = (
            "losses by their sum or mean, outputs row by row where both were given the same rows, and nothing else is."
            if comparison.row_steps
            else "and outputs are not: they were given no row that is the same."
        )
        yield said.Paragraph(
            "The batch is split, padded, packed or sorted otherwise, or shared among other ranks: gradients, parameters"
            f" and the optimizer's state are compared, {rest}"
        )
    if comparison.not_finite:
        yield said.Paragraph(
            f"The first configuration has elements that are not finite, first at `{comparison.not_finite}`; they are"
            " left out of every difference."
        )
    if comparison.steps[0] != comparison.steps[1]:
        yield said.Paragraph(
            f"The first recording has {plural(comparison.steps[0], 'step')}, the second {comparison.steps[1]}."
        )
    if not comparison.only_count:
        return
    yield said.Heading("Not compared")
    items = []
    for lack, words in _LACKS.items():
        several = [one for one in comparison.only if one.lack is lack]
        if several:
            names = list(dict.fromkeys(one.place for one in several))
            of_first = f" ({' and '.join(map(_shape, several[0].shapes))})" if several[0].shapes else ""
            more = f", and {len(names) - 1:,} more" if len(names) > 1 else ""
            items.append(f"{words}: `{names[0]}`{of_first}{more}")
    yield said.Bullets(
        tuple(items), left_out=comparison.only_count - len(comparison.only), elsewhere="the recordings have"
    )


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "one number"
