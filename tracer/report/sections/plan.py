"""What to change, numbered: what each change is worth, and what it needs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from msgspec.structs import replace

from tracer.findings import Finding, Need, PlannedChange
from tracer.names import SAFE, SEVERITY, About, Phase, Prerequisite, Verdict
from tracer.plain import visible
from tracer.plan import SEEDED, UNPLACED_DRAWS, name_of
from tracer.report import Report
from tracer.report import blocks as said
from tracer.report.blocks import Reader, Section, first
from tracer.report.words import consecutive, first_sentence, is_call, joined, plural, some, subject_of
from tracer.tables.settings import MODE
from tracer.trace.records import CodeHint

_NOTHING = "Nothing that was recorded asks for a change"
#: Lines of one change, and ops of one line, that are named.
_LINES, _OPS = 3, 2


def plan(report: Report, reader: Reader) -> Section | None:
    """The numbered changes; where there are none, a page says so."""
    shown, left_out = first(listed(report, reader), reader.changes)
    if not shown and not reader.is_whole:
        return None
    if report.diverged:
        lead = "First what runs were seen to differ by, root for root; then what else can make them differ."
    elif any(change.closes for change in report.plan):
        lead = "The fewest changes that remove the most, in the order in which to make them."
    else:
        lead = f"{_NOTHING}; what follows is a suggestion."
    if not shown:
        seen_only = "What the runs differ by stands above; the tables know of no change for it."
        lead = seen_only if report.diverged else f"{_NOTHING}."
    blocks: tuple[said.Block, ...] = (said.lead(lead),) if reader.is_whole else ()
    if shown:
        closed = ([report.findings[position] for position in change.findings] for change in shown)
        trace = report.judgement.trace
        steps = (
            step_of_plan(change, findings, trace.source_lines, trace.hints)
            for change, findings in zip(shown, closed, strict=True)
        )
        blocks += (said.Steps(tuple(steps), left_out),)
        if not report.diverged:
            blocks += (said.quiet("The proof is two runs, compared bit by bit: `tracer repeat`."),)
    return Section(anchor="plan", title="What to change", label="Plan", blocks=blocks)


def listed(report: Report, reader: Reader) -> Sequence[PlannedChange]:
    """The plan as ``reader`` is shown it: unless everything is read, edits that are alike, at several places, are one,
    numbered anew; one screen leaves out what deterministic mode alone would ask for where nothing asks for the mode."""
    if reader.is_whole:
        return report.plan
    several: defaultdict[object, list[PlannedChange]] = defaultdict(list)
    for change in report.plan:
        closed = [report.findings[position] for position in change.findings]
        is_for_mode = all(one.verdict in SAFE and one.deterministic_mode is Verdict.RAISES for one in closed)
        if asks_for_mode(report) or not reader.is_one_screen or not (closed and is_for_mode):
            alone = change.number if change.sets or change.roots else 0
            several[change.title, change.remedy, change.code, change.needs, alone].append(change)
    numbers = {change.number: number for number, same in enumerate(several.values(), 1) for change in same}
    return [
        replace(
            same[0],
            number=number,
            where=f"{len(same)} places, first {same[0].where}" if len(same) > 1 else same[0].where,
            closes=sum(change.closes for change in same),
            calls=sum(change.calls for change in same),
            seen=sum(change.seen for change in same),
            findings=tuple(position for change in same for position in change.findings),
            needs=tuple(
                replace(need, changes=tuple(dict.fromkeys(numbers[change] for change in need.changes)))
                for need in same[0].needs
            ),
        )
        for number, same in enumerate(several.values(), 1)
    ]


#: Draws that fill parameters, mostly: those that choose data are named first.
_FILLS = ("aten.uniform_.", "aten.normal_.")


def step_of_plan(
    change: PlannedChange,
    closed: Sequence[Finding] = (),
    sources: Mapping[str, str] = MappingProxyType({}),
    hints: Sequence[CodeHint] = (),
) -> said.Step:
    """A change, with what it needs and is worth in words, and the lines of the findings that it closes."""
    at: defaultdict[str, list[Finding]] = defaultdict(list)
    calls = list(filter(is_call, closed))
    for finding in calls or closed:
        at[finding.called_from or finding.location].append(finding)
    at.pop("", None)
    last = {
        place
        for place, found in at.items()
        if any(one.may_be_host or (one.phase is Phase.OTHER and one.op.startswith(_FILLS)) for one in found)
    }
    ordered = sorted(at, key=lambda place: (place in last, -sum(finding.count for finding in at[place]), place))
    leading: dict[str, str] = {}  # of each reason its first line
    for place in ordered:
        for finding in at[place] if place not in last else ():
            leading.setdefault(finding.why, place)
    ordered = list(dict.fromkeys((*leading.values(), *ordered)))
    is_told = len(ordered) == 1 and ordered[0] in change.where and ordered[0] not in sources
    shown = [] if is_told else ordered[:_LINES]
    lines = tuple(_line_of(place, at[place], sources.get(place, "")) for place in shown)
    drawn = []  # where the program's code draws from Python's or NumPy's global generator, for findings about these
    for name in dict.fromkeys(finding.name for finding in closed if finding.about is About.GENERATOR):
        whose, kind = _GLOBAL.get(name, ("", None))
        if places := [f"{hint.location} `{hint.name}`" for hint in hints if hint.kind is kind]:
            drawn.append(f"{whose} global generator, which nobody seeded, is drawn from at {some(places, _LINES)}.")
    others = [finding for finding in closed if not drawn or finding.name not in _GLOBAL]
    return said.Step(
        number=change.number,
        title=change.title,
        remedy=change.remedy,
        code=change.code,
        where=change.where,
        needs=tuple(map(_in_words, change.needs)),
        worth=worth(change),
        whys=(*_whys_of([finding for place in shown for finding in at[place] if calls] or others), *drawn),
        lines=lines,
        more_lines=len(ordered) - len(lines) if lines else 0,
    )


def _line_of(place: str, found: Sequence[Finding], source: str) -> said.StepLine:
    """``place`` with its ops and calls, the library's line that it leads to, if it is one, and what it hangs on."""
    ops: Counter[str] = Counter()
    for finding in found:
        ops[_ran_as(finding)] += finding.count
    what = some([op for op, _ in ops.most_common()], _OPS)
    what += f", {plural(ops.total(), 'call')}" if is_call(found[0]) else ""
    inside = {finding.location for finding in found}
    what += f" (in {inside.pop()})" if len(inside) == 1 and place not in inside else ""
    what += " (if it runs on the device)" if any(finding.may_be_host for finding in found) else ""
    return said.StepLine(place, what, " ".join(visible(source).split()))


def _whys_of(findings: Sequence[Finding]) -> tuple[str, ...]:
    """The first sentence of each reason, the worst and most frequent first; of several, each led by its op."""
    whys: dict[str, str] = {}
    for finding in sorted(findings, key=lambda one: (SEVERITY.index(one.verdict), -is_call(one), -one.count)):
        whys.setdefault(first_sentence(finding.why), _ran_as(finding))
    several = len(whys) > 1 and all(map(is_call, findings))
    told = [f"{op}: {why}" if several else why for why, op in whys.items() if why]
    return tuple(told[: _LINES if several else 1])


def _ran_as(finding: Finding) -> str:
    return name_of(finding.runs_as) or subject_of(finding)


#: The generators whose draws one recording counts and does not place, by the name of their finding.
_GLOBAL = {f"generator {seed.partition('.')[2]}": (SEEDED[seed][1], kind) for seed, kind in UNPLACED_DRAWS.items()}


def asks_for_mode(report: Report) -> bool:
    """Return whether the plan turns deterministic mode on."""
    return any(MODE in change.sets for change in report.plan)


def worth(change: PlannedChange) -> str:
    """Return the worth of ``change``: ``closes 2 findings, 24 calls``."""
    if not change.closes and change.roots:
        return f"for {_numbered('root', change.roots)}"
    if not change.closes:
        return "needed with the others" if change.sets else "a suggestion: it closes no finding"
    calls = f", {plural(change.calls, 'call')}" if change.calls else ""
    varied = f", {change.seen:,} of them seen to differ" if change.seen else ""
    roots = f"; for {_numbered('root', change.roots)}" if change.roots else ""
    return f"closes {plural(change.closes, 'finding')}{varied}{calls}{roots}"


def _numbered(noun: str, numbers: Sequence[int]) -> str:
    """``change 3``, ``roots 1 to 3 and 5``."""
    parts: list[str] = []
    for run in consecutive(numbers):
        parts += [f"{run[0]} to {run[-1]}"] if len(run) > 2 else map(str, run)
    return f"{noun}{'s' * (len(numbers) > 1)} {joined(parts)}"


def _in_words(need: Need) -> str:
    if need.kind is Prerequisite.BEFORE_COMPILING:
        return "Make it before anything is compiled: what was compiled without it must be compiled anew"
    changes = _numbered("change", need.changes)
    if need.kind is Prerequisite.NOTHING_RAISES:
        if need.setting:
            return f"Make {changes} with it: without {need.setting} calls raise"
        what = "it replaces" if len(need.changes) == 1 else "they replace"
        return f"Make {changes} first: what {what} raises under deterministic mode"
    needed = "Needs deterministic mode too"
    if need.changes:
        return f"{needed}: make {changes} with it"
    return f"{needed}: leave it on" if need.holds else f"{needed}: switch it on with this change"
