"""Runs that were compared: where they diverge, why, what follows, and under which circumstances."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile

import msgspec

from tracer.divergence.causes import RootCause
from tracer.divergence.comparing import OF_TRAINING, kept_otherwise
from tracer.divergence.model import Divergence, EndState, Loss, Replicas, Root
from tracer.divergence.omissions import what_of
from tracer.divergence.repeated import UNVARIED, Repeated, next_steps
from tracer.findings import Finding, PlannedChange
from tracer.names import VARYING, Phase, Verdict
from tracer.plan import name_of
from tracer.report import blocks as said
from tracer.report.blocks import Reader, Words, first
from tracer.report.sections.plan import step_of_plan
from tracer.report.sections.root_lines import line_clause, line_sentence, root_line_blocks
from tracer.report.words import joined, plural
from tracer.trace.differences import SettingDifference
from tracer.trace.values import ValueKind

#: How two runs differ in what they leave behind.
_LEFT = {
    ValueKind.PARAMETER: "end with different parameters",
    ValueKind.BUFFER: "end with different buffers",
    ValueKind.OPTIMIZER_STATE: "end with different optimizer states",
    ValueKind.FILE: "write different files",
    ValueKind.TEXT: "write different text",
    ValueKind.OUTPUT: "print different lines",
    ValueKind.RETURNED: "return different outputs",
}
NO_PROOF = "Agreement proves nothing: another run may differ."
#: The most next steps that a text lists; the JSON has all.
_MOST_STEPS = 6
#: The most roots and places that are listed.
_MOST = 60
_BOTH = ("first", "second")
_AGREES = said.Badge(Verdict.DETERMINISTIC, "agrees")
_DIVERGES = said.Badge(Verdict.NONDETERMINISTIC, "diverges")


def head_of_runs(head: said.Head, repeated: Repeated) -> said.Head:
    """The head of a report on the first of several runs: what they showed, then what the tables say of it."""
    shown = _shown(repeated)
    headline, *more_of_it = _headline(repeated)
    agrees = repeated.agrees and shown is repeated
    others, more = "", head.tally.total - shown.divergence.calls[0]
    if more > 0:
        others = (
            f". The report counts {plural(more, 'call')} more: views, and what torch notes for itself, which have no"
            " values of their own, and the calls inside compiled regions"
        )
    return msgspec.structs.replace(
        head,
        verdict=head.verdict if agrees else Verdict.NONDETERMINISTIC,
        headline=headline,
        caveats=tuple(more_of_it),
        kicker=f"{head.kicker} on runs that were compared",
        compared=f"Run 1 and {shown.second}: {_counts(shown.divergence)}{others}",
        of_tables=(head.verdict, "; ".join((head.headline, *head.caveats))),
    )


def repeated_blocks(
    repeated: Repeated, reader: Reader, plan: Sequence[PlannedChange] | None = None, findings: Sequence[Finding] = ()
) -> tuple[said.Block, ...]:
    """The same without a report on the first run; ``plan`` and ``findings`` are those of such a report, if any."""
    blocks = [said.Paragraph(f"{repeated_headline(repeated)}.", said.Tone.STRONG), *happened_blocks(repeated, reader)]
    if repeated.agrees:
        if risky := [finding for finding in findings if finding.verdict in VARYING]:
            at_risk, left_out = first(risky, min(_MOST_STEPS, reader.rows))
            rows = (
                said.Row(
                    (said.Code(each.called_from or each.location), " ", said.Code(each.op), f" {each.verdict.value}"),
                    blocks=said.paragraphs(each.why),
                )
                for each in at_risk
            )
            blocks += [said.Heading("What can differ all the same"), said.Rows(tuple(rows), left_out=left_out)]
        return tuple(blocks)
    changes = [
        change for change in (next_steps(repeated) if plan is None else plan) if not change.closes or change.roots
    ]
    shown, left_out = first(changes, reader.changes or _MOST_STEPS)
    return (*blocks, said.Heading("What to change"), said.Steps(tuple(map(step_of_plan, shown)), left_out))


def divergence_blocks(divergence: Divergence, reader: Reader) -> tuple[said.Block, ...]:
    """Return the blocks on two compared recordings."""
    line = line_clause(divergence.sources, divergence.roots)
    return (
        said.Paragraph(". ".join(filter(None, (line, divergence_headline(divergence)))), said.Tone.STRONG),
        said.Paragraph(f"{_capital(_counts(divergence))}."),
        *root_line_blocks(divergence.sources, reader),
        *_compared(divergence, divergence.roots, ("the first run", "the second run"), reader, {}),
    )


def _compared(
    divergence: Divergence, roots: Sequence[Root], names: tuple[str, str], reader: Reader, source: Mapping[str, str]
) -> Iterable[said.Block]:
    """Everything of one comparison below its headline."""
    yield from said.paragraphs(*caveats(divergence))
    if (resumed := divergence.resumed) is not None:
        how = f"{resumed.first_step} ({'found by its parameters' if resumed.by_itself else 'as asked'})"
        yield said.Paragraph(f"Step {resumed.second_step} of {names[1]} is compared with step {how}.")
        if resumed.not_restored:
            yield said.Heading("Not restored")
            yield said.Bullets(tuple(map(what_of, resumed.not_restored)))
    if divergence.ends and not roots:
        ends, left_out = first(divergence.ends, min(_MOST, reader.rows))
        only = {end: f", in the {'second' if end.only_second else 'first'} run only" for end in ends if end.only_one}
        yield said.Heading("What the runs leave behind that differs")
        yield said.Bullets(tuple(f"{end.kind.of(end.name)}{only.get(end, '')}" for end in ends))
        if left_out:
            yield said.quiet(f"{left_out:,} more.")
    elif roots and divergence.is_inference:
        if divergence.ends:
            yield said.Paragraph(f"In the end {left_otherwise(divergence.ends)}.")
        elif outputs := _outputs(divergence):
            yield said.Paragraph(f"Their outputs nevertheless agree ({outputs}).")
    elif roots and divergence.states_compared and not any(end.kind in OF_TRAINING for end in divergence.ends):
        yield said.Paragraph("Both runs nevertheless end with the same parameters, buffers and optimizer states.")
    if roots:
        shown, left_out = first(roots, min(_MOST, reader.rows))
        yield said.Heading("Where they diverge")
        if reader.is_whole:
            yield said.quiet("In order of execution, one row per cause.")
        rows = tuple(_root(root, source) for root in shown)
        yield said.Rows(rows, anchor="root", left_out=left_out, is_numbered=True)
    if divergence.settings:
        yield _changed(divergence.settings)


def _shown(repeated: Repeated) -> Repeated:
    """The comparison to report: the program as it stands, if it agrees only under the plan."""
    return repeated.as_it_stands if repeated.agrees and repeated.as_it_stands is not None else repeated


def happened_blocks(repeated: Repeated, reader: Reader) -> Iterable[said.Block]:
    """Yield what several runs showed, below the headline."""
    shown = _shown(repeated)
    divergence = shown.divergence
    if repeated.agrees:
        yield said.lead(NO_PROOF)
    else:
        yield from said.paragraphs(*(f"{_capital(clause)}." for clause in reservations(repeated)))
    if repeated.sets:
        settings = ", ".join(f"{name} = {value}" for name, value in repeated.sets.items())
        yield said.lead(f"Set before the program's first line: {settings}.")
    elif repeated.as_it_stands is not None:
        yield said.lead("The plan changes no setting.")
    if repeated.not_restored:
        yield said.lead(f"Not restored between the runs: {'; '.join(repeated.not_restored)}.")
    if not shown.agrees and not reader.is_whole:
        yield said.Paragraph(f"{_capital(_counts(divergence))}.")
    yield from root_line_blocks(
        shown.sources,
        reader,
        second=shown.second,
        texts=shown.texts,
        held=shown.held_lines,
        note=shown.lines_note,
        possible=shown.possible,
    )
    if divergence.losses:
        if reader.is_whole:
            yield said.Heading("The loss")
        yield said.Paragraph(f"{losses_sentence(divergence.losses, shown.second)}.")
    if not shown.agrees:
        if any(held.agrees for held in shown.held_lines) and not reader.is_whole:  # a proven line says why
            reader = msgspec.structs.replace(reader, rows=min(reader.rows, 3))
        yield from _compared(divergence, shown.numbered, ("run 1", shown.second), reader, shown.source)
    elif divergence.settings:
        yield _changed(divergence.settings)
    if repeated.held or repeated.not_held:
        yield said.Heading("With circumstances held")
    if repeated.held:
        yield from _held(repeated, reader)
    elif repeated.not_held:
        yield said.Paragraph(f"Nothing was held: {repeated.not_held}.")
    if set(repeated.arms) == {UNVARIED}:
        return
    yield said.Heading("Under other circumstances")
    if reader.is_whole:
        yield said.quiet(
            "Each arm is one more run, compared with run 1. A difference in one arm only is sensitivity to what it"
            " varies; a difference with nothing varied is the program's own."
        )
    rows: list[tuple[Words, ...]] = []
    for arm, outcome in repeated.arms.items():
        shows = f"in {_all_calls(outcome.calls_compared)}"
        if not outcome.agrees and outcome.first is not None:
            alone = f"; {plural(outcome.alone, 'root')} in this arm only" if outcome.alone else ""
            shows = f"at {place_of_root(outcome.first)}{alone}"
        verdict = _AGREES if outcome.agrees else _DIVERGES
        rows.append((said.Strong(arm), (outcome.changed, said.Soft(outcome.note)), (verdict, " ", shows)))
    yield said.Table(said.columns("Arm", "Changed", "Showed", brief="Arm", long="Showed"), tuple(rows), noun="arm")


def _held(repeated: Repeated, reader: Reader) -> Iterable[said.Block]:
    """Yield what was held in further runs, and their outcome."""
    if reader.is_whole:
        yield said.quiet(
            "Each row is one or two runs with these circumstances held, compared with each other and with the runs that"
            " hold all of them. The cause is what makes the runs agree while it is held, and no longer when it is free."
        )
    if repeated.cause is not None and repeated.cause.remedy:
        yield said.Paragraph(f"{_capital(repeated.cause.remedy)}.")
    rows: list[tuple[Words, ...]] = []
    for held in repeated.held:
        badge, shows = _AGREES if held.agrees else _DIVERGES, ""
        if held.no_proof:
            badge, shows = said.Badge(Verdict.UNKNOWN, "no proof"), held.no_proof
        elif not held.agrees:
            place = f"at {place_of_root(held.first)}" if held.first is not None else ""
            shows = "; ".join(filter(None, (place, f"not reached: {held.cannot}" if held.cannot else "")))
        name = "all" if held.is_all and len(held.circumstances) > 2 else " and ".join(held.circumstances) or "nothing"
        rows.append((said.Strong(name), f"{held.runs}", (badge, " ", shows)))
    yield said.Table(said.columns("Held", "Runs", "Showed", brief="Held", long="Showed"), tuple(rows), noun="hold")
    if repeated.not_held:
        yield said.quiet(f"{_capital(repeated.not_held)}.")


def _counts(divergence: Divergence) -> str:
    """The figures of a comparison."""
    follow = f", {divergence.follows:,} more differ and follow"
    parts = (
        f"{plural(divergence.calls_compared, 'call')} compared",
        f"{plural(len(divergence.roots), 'root')}{follow}" if divergence.roots else "",
        *(f"{count:,} only in the {run}" if count else "" for run, count in zip(_BOTH, divergence.only, strict=True)),
        f"agreement unknown for {divergence.not_digested:,}" if divergence.not_digested else "",
    )
    return "; ".join(filter(None, parts))


def _root(root: Root, source: Mapping[str, str]) -> said.Row:
    """A root: its place, how the runs diverge there, the evidence, its lines, and what the tables say of the call."""
    lines = source.get(root.called_from) or source.get(root.location, "")
    place = root.location or root.called_from or root.module or "a place that was not recorded"
    called = f" (called from {root.called_from})" if root.location and root.called_from else ""
    of = " of the second run" if root.only_second else ""
    process = f" of {root.process}" if root.process else ""
    follows = plural(root.follows, "call follows", "calls follow") if root.follows else "Nothing follows"
    again = f"; the same cause shows at {plural(root.same_cause, 'further call')}" if root.same_cause else ""
    sentences = [f"{_capital(root.why)}." if root.why else "", f"{follows} from it{again}."]
    if root.arms and root.arms != (UNVARIED,):
        arms = ", ".join(root.arms)
        sensitive = f"It differs in {arms} only: it is sensitive to that."
        if UNVARIED in root.arms:
            sensitive = "It differs with nothing varied: it is the program itself."
        sentences.append(f"Seen in: {arms}. {sensitive}")
    tables: Words = ""
    if root.verdict is not None:
        tables = ("In the tables: ", (said.Badge(root.verdict), " ", said.Code(root.rule)))
    return said.Row(
        (said.Code(f"{place}{called}"), " ", said.Code(short_call_of(root))),
        aside=(
            f"step {root.step}{of}{process}, {root.phase}, call {root.call:,}",
            said.Soft(("in ", said.Code(root.module)) if root.module else ""),
        ),
        blocks=(
            said.Paragraph(said.Strong(f"Diverges {root.cause.words}.")),
            *said.paragraphs(*dict.fromkeys(sentences)),
            *((said.Sample(lines, "the lines around it"),) if lines else ()),
            *said.paragraphs(tables),
        ),
    )


def _changed(settings: Sequence[SettingDifference]) -> said.Fold:
    """Settings and versions that differ."""
    summary = plural(len(settings), "setting or version that differs", "settings or versions that differ")
    pairs = tuple((setting.name, " → ".join(setting.values)) for setting in settings)
    brief = "; ".join(f"{name}: {values}" for name, values in pairs[:20])
    return said.Fold(summary, (said.Pairs(pairs, "The first run, then the other"),), brief)


# --- sentences --------------------------------------------------------------------------------------------


def divergence_headline(divergence: Divergence, first: str = "the first run", second: str = "the second run") -> str:
    """One sentence: where they diverge, or that they agree and how far that goes."""
    root = divergence.first
    if divergence.replicas is not None:
        return _of_replicas(divergence.replicas)
    if root is not None:
        diverges = f"in {place_of(root, has_steps=not divergence.is_inference)}, {root.cause.words}"
        kept = kept_otherwise((*divergence.ends, *divergence.notes))
        untrained = divergence.has_optimizer and not divergence.not_digested  # parameters that no optimizer updates
        trained = [kind for kind in OF_TRAINING if not (untrained and kind is ValueKind.PARAMETER)]
        if divergence.spares_training and kept and not any(end.kind in trained for end in kept):
            left = left_otherwise(kept).removeprefix("they ")
            beside = any(end.kind is ValueKind.PARAMETER for end in kept)
            both = f"{_capital(second)} and {first} {left}, and train alike"
            both += ": no optimizer updates these parameters" if beside else ""
            return f"{both}. They diverge {diverges}; it reaches nothing that trains."
        return f"{_capital(second)} diverges from {first} {diverges}."
    if not divergence.calls_compared:
        return f"{_capital(second)} and {first} have no call in common to compare."
    calls = plural(divergence.calls_compared, "compared call")
    undigested = divergence.not_digested
    digested = f", as far as they were digested ({undigested:,} were not)" if undigested else ""
    lacking = divergence.resumed is not None and divergence.resumed.not_restored
    but = ", but not everything was restored" if lacking else ""
    left = f", but {left_otherwise(divergence.ends)}" if divergence.ends else _and_in_outputs(divergence)
    return f"{_capital(second)} agrees with {first} in all {calls}{_but_beside(divergence)}{digested}{but}{left}."


def _but_beside(divergence: Divergence) -> str:
    """``, 9 of them in another order``, which threads decide, or what differs and reaches nothing; empty if nothing."""
    both = [root for root in divergence.without_effect if root.other_call is not None]
    alone = [root for root in divergence.without_effect if root.other_call is None]
    if not (both or alone):
        return f", {divergence.reordered:,} of them in another order" if divergence.reordered else ""

    def at(roots: Sequence[Root]) -> str:
        return joined(list(dict.fromkeys(root.called_from or root.location for root in roots))[:_MOST_STEPS])

    are_draws = all(root.cause is RootCause.DRAW and not root.follows for root in both)
    differing = plural(sum(1 + root.same_cause + root.follows for root in both), "draw" if are_draws else "call")
    named = [f"{differing} ({at(both)})"] if both else []
    named += [f"{plural(sum(divergence.only), 'call')} that one run alone makes ({at(alone)})"] if alone else []
    left = ["parameters", "buffers", "optimizer states", *(["files"] if divergence.outputs.files else [])]
    left += ["printed lines"] if divergence.outputs.printed else []
    return f" but {joined(named)}, which reach nothing that trains; {joined(left)} agree"


def _and_in_outputs(divergence: Divergence) -> str:
    """`` and in their outputs (9 returned, 1 printed line)``, of inferences whose outputs were compared and agree."""
    agree = divergence.is_inference and not (divergence.ends or divergence.notes)
    return f" and in their outputs ({outputs})" if agree and (outputs := _outputs(divergence)) else ""


def _outputs(divergence: Divergence) -> str:
    """``9 returned, 1 printed line and 2 files``; empty if no output was compared."""
    outputs = divergence.outputs
    counts = (
        f"{outputs.returned:,} returned" if outputs.returned else "",
        plural(outputs.printed, "printed line") if outputs.printed else "",
        plural(outputs.files, "file") if outputs.files else "",
    )
    return joined(list(filter(None, counts)))


def left_otherwise(ends: Sequence[EndState]) -> str:
    """``they end with different parameters (fc.weight and 3 more) and write different files (out.csv)``."""
    by_kind: dict[ValueKind, list[str]] = {}
    for end in ends:
        only = f", only in the {'second' if end.only_second else 'first'}" if end.only_one else ""
        by_kind.setdefault(end.kind, []).append(f"{end.name}{only}")
    clauses = [
        f"{_LEFT[kind]} ({names[0]}{f' and {len(names) - 1:,} more' if len(names) > 1 else ''})"
        for kind, names in by_kind.items()
    ]
    return f"they {' and '.join(clauses)}"


def place_of(root: Root, *, has_steps: bool = True) -> str:
    """``step 3, forward, at train.py:41 (aten.index_put_.default)``; an inference has no steps."""
    phase = f", {root.phase}" if root.phase is not Phase.OTHER else ""
    where = f", at {root.location}" if root.location else ""
    of = " of the second run" if root.only_second else ""
    call = short_call_of(root) if root.region else root.op
    process = f" of {root.process}" if root.process else ""
    step = f"step {root.step}" if has_steps else f"call {root.call:,}"
    return f"{step}{of}{process}{phase}{where} ({call})"


def short_call_of(root: Root) -> str:
    """The op as people call it, ``aten.index_put_``, or the compiled region that differed as a whole."""
    return f"compiled region {root.region}" if root.region else name_of(root.op) or "the sequence of calls"


def caveats(divergence: Divergence) -> list[str]:
    """Return the caveats of the comparison."""
    open_points = [
        f"The {run} recording is incomplete: {why}." for run, why in zip(_BOTH, divergence.partial, strict=True) if why
    ]
    if divergence.not_digested and divergence.first is not None:
        calls = plural(divergence.not_digested, "call")
        open_points.append(f"{calls} could not be digested: whether they agree is unknown.")
    if note := _note(divergence):
        open_points.append(f"{_capital(note)}.")
    if divergence.agrees and not divergence.ends and divergence.calls_compared and divergence.replicas is None:
        open_points.append("Agreement of two runs is no proof that a third agrees.")
    return open_points


def _of_replicas(replicas: Replicas) -> str:
    ranks = f"Ranks {' and '.join(map(str, replicas.ranks))}"
    if not replicas.steps:
        return f"{ranks} of one job: their parameters were not recorded, so nothing is known."
    if not replicas.are_replicas:
        return f"{ranks} of one job start with different parameters: they are not replicas, and nothing is claimed."
    drift, differ = replicas.drift, [f"{name} (by step {step})" for name, step in replicas.buffers_differ.items()]
    steps = plural(replicas.steps, "compared step")
    buffers = f"no buffer differs, of {replicas.buffers:,}" if replicas.buffers else "no buffers were recorded"
    if differ:
        named = joined([*differ[:_MOST_STEPS], *(["others"] if len(differ) > _MOST_STEPS else [])])
        buffers = f"{len(differ):,} of {plural(replicas.buffers, 'buffer')} differ: {named}"
    if drift is None:
        return f"{ranks} of one job have the same {plural(replicas.parameters, 'parameter')} in all {steps}; {buffers}."
    others = f"and {drift.parameters - 1:,} more differ" if drift.parameters > 1 else "differs"
    gradients = {True: "differed", False: "agreed", None: ""}[drift.gradients_differ]
    gradient = f"; its gradients {gradients} in the step before" if gradients else ""
    drifts = f"by step {drift.step} {drift.name} {others}{gradient}"
    return f"{ranks} of one job drift apart: {drifts}; {buffers}."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def repeated_headline(repeated: Repeated) -> str:
    """Everything in one sentence, without a full stop."""
    return ". ".join(_headline(repeated))


def _headline(repeated: Repeated) -> tuple[str, ...]:
    """The same as sentences: what to read first, then what says more of it."""
    if repeated.as_it_stands is not None:
        planned = ". ".join(_headline(msgspec.structs.replace(repeated, as_it_stands=None)))
        return f"As you have it: {'. '.join(_headline(repeated.as_it_stands))}", f"Under the plan: {planned}"
    unvaried, parted = repeated.arms[UNVARIED], repeated.ended_apart
    who = "they" if all(run in repeated.failed for run in repeated.runs) else "one"
    if not unvaried.agrees and unvaried.first is not None:
        diverges = divergence_headline(repeated.divergence, "run 1", repeated.second).rstrip(".")
        return tuple(filter(None, (line_sentence(repeated), diverges, held_sentence(repeated), _capital(parted))))
    calls = f"{_all_calls(unvaried.calls_compared)}{_but_beside(repeated.divergence)}"
    if repeated.ended_by:
        calls = f"the calls that were compared ({unvaried.calls_compared:,})"
    if repeated.failed:
        calls = f"the calls that both made before {who} failed ({unvaried.calls_compared:,})"
    of_inference = " of this inference" if repeated.divergence.is_inference else ""
    whole = "" if repeated.ended_by or repeated.failed else _and_in_outputs(repeated.divergence)
    recorded = " recorded" if repeated.otherwise else ""
    agree = f"{unvaried.runs + 1}{recorded} runs{of_inference} agree in {calls}{whole}"
    if not unvaried.calls_compared:
        failed = ": the script failed before it made one" if repeated.failed and not parted else ""
        agree = f"{unvaried.runs + 1} runs made no call that could be compared{failed}"
    if repeated.otherwise:
        return line_sentence(repeated), f"{agree}, but one that was not recorded {repeated.otherwise}"
    if repeated.ends and not unvaried.agrees:
        different = "; ".join((f"{agree}, but {left_otherwise(repeated.ends)}", *reservations(repeated)))
        return tuple(filter(None, (line_sentence(repeated), different, held_sentence(repeated))))
    for arm, outcome in repeated.arms.items():
        if outcome.first is not None:
            return (f"{agree}; under other circumstances ({arm}) they diverge at {place_of_root(outcome.first)}",)
    if parted:
        return _capital(parted), "; ".join((agree, *reservations(repeated)))
    if len(repeated.arms) > 1:
        agree = f"{agree}, and so do those of {plural(len(repeated.arms) - 1, 'arm')}"
    return ("; ".join((agree, *reservations(repeated))),)


def held_sentence(repeated: Repeated) -> str:
    """Return the outcome of holding circumstances, without a full stop; empty if nothing was held."""
    cause, first = repeated.cause, repeated.first
    if cause is not None:
        place = first.called_from or first.location if first else ""
        where = f", first at {place}" if place else ""
        agree = "They agree when" if cause.is_certain else "No run was left to confirm it, but they may agree when"
        shows = cause.shows if first is not None else ""  # of the step; all of its calls agree
        return f"{agree} {cause.clause}{f': {shows}{where}' if shows else ''}"
    if settled := next((held for held in repeated.held if not held.circumstances and held.shows), None):
        return f"Every further run agrees with run 2, with or without anything held: {settled.shows}"
    with_all = [held for held in repeated.held if held.is_all]
    if not with_all:
        return ""
    proofs = [held for held in with_all if not held.no_proof]
    names = ", ".join(with_all[-1].circumstances)
    if not proofs:
        return f"Holding circumstances ({names}) proves nothing here: {with_all[-1].no_proof}"
    agreeing = [held for held in repeated.held if held.agrees and not held.no_proof and held.circumstances]
    if proofs[-1].agrees and agreeing:
        names = ", ".join(min(agreeing, key=lambda held: len(held.circumstances)).circumstances)
        return f"They agree when all of {names} are held; which of them decides was not determined"
    return f"They also diverge when everything that can be held is held ({', '.join(proofs[-1].circumstances)})"


def reservations(repeated: Repeated) -> tuple[str, ...]:
    """Return what was not compared, so that the runs are not said to agree without it."""
    divergence, orders, nan = repeated.divergence, "", ""
    if repeated.orders and not repeated.otherwise:
        lines = joined(repeated.orders[:3])
        orders = f"what is done first is taken first at {lines}, in an order that these runs may share by luck"
    if repeated.agrees:
        nan = nan_clause(divergence.losses)
        if divergence.nan and not nan:
            more = f" and {plural(len(divergence.nan) - 1, 'more state')}" if len(divergence.nan) > 1 else ""
            nan = f"{divergence.nan[0]}{more} hold{'s' * (len(divergence.nan) == 1)} NaN at the end"
    clauses = (
        f"{repeated.ended_by} before all runs were made" if repeated.ended_by else "",
        repeated.not_followed_clause,
        timed_clause(repeated),
        orders,
        nan,
        _note(divergence),
    )
    return tuple(filter(None, clauses))


def timed_clause(repeated: Repeated) -> str:
    """``what timing decides at train.py:8 ...``; empty where nothing does, or that is the answer."""
    lines = joined(repeated.timed[:3])
    if not lines or repeated.otherwise:
        return ""
    if repeated.otherwise is None:
        return f"what timing decides at {lines} may be decided otherwise where nothing is recorded"
    return f"a run that was not recorded prints and writes the same, though timing decides at {lines}"


def _note(divergence: Divergence) -> str:
    """What the runs print and write otherwise although no call differs; empty for nothing."""
    if divergence.roots or not divergence.notes:
        return ""
    return f"{left_otherwise(divergence.notes)}, which is compared as it is and decides nothing"


def place_of_root(root: Root) -> str:
    """``train.py:41 (aten.index_put_, by its kernel)``."""
    place = root.called_from or root.location or root.module or "a place that was not recorded"
    process = f" in {root.process}" if root.process else ""
    return f"{place}{process} ({short_call_of(root)}, {root.cause.words})"


def _all_calls(calls: int) -> str:
    return f"all {calls:,} calls" if calls != 1 else "the one call"


def losses_sentence(losses: Sequence[Loss], second: str) -> str:
    """``The losses diverge at step 3: 0.41 in run 1, 0.39 in run 2``, without its full stop."""

    def both(loss: Loss) -> Sequence[str]:
        """Both values, with as many digits as tell them apart."""
        values = loss.first, loss.second
        pairs = [["none" if value is None else f"{value:.{digits}g}" for value in values] for digits in (6, 9, 17)]
        return next((pair for pair in pairs if pair[0] != pair[1]), pairs[0])

    also = f"; {nan}" if (nan := nan_clause(losses)) else ""
    loss, last = next((loss for loss in losses if loss.differs), None), losses[-1]
    if loss is None:
        return f"The losses of both runs agree in {plural(len(losses), 'step')}{also}"
    ends = "; at step {} they are {} and {}".format(last.step, *both(last)) if last != loss else ""
    return "The losses diverge at step {}: {} in run 1, {} in {}{}{}".format(loss.step, *both(loss), second, ends, also)


def nan_clause(losses: Sequence[Loss]) -> str:
    """Since when both losses are NaN, so that agreement says nothing; empty where the last ones are numbers."""
    lost = takewhile(lambda loss: all(math.isnan(value or 0) for value in (loss.first, loss.second)), reversed(losses))
    begins = [loss.step for loss in lost]
    if not begins:
        return ""
    return (
        "the loss is NaN in every step" if len(begins) == len(losses) else f"the loss is NaN from step {begins[-1]} on"
    )
