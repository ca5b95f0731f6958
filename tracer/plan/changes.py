"""The plan: findings -> the numbered changes that would make the step reproducible.

The fewest changes that remove the most come first: one line of settings, then data loading and seeds, then lines that
stand too late, then the ops that deterministic mode refuses, then what it does not fix, then what stays unknown and how
to find out. Every finding that needs a change is closed by exactly one, so the plan's numbers add up.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from tracer.findings import Change, FillCost, Finding, Judgement, Need, Target
from tracer.literals import literal
from tracer.names import SEVERITY, About, DeterministicMode, Phase, Prerequisite, UnknownReason, Verdict
from tracer.plan.steps import STEP_OF_SETTING, Step, is_mode_on, is_settled, name_of, place_of, step_of
from tracer.tables.settings.declared import CUBLAS_VARIABLE, FILL, MODE, declared, variable_line
from tracer.trace.records import FactValue

#: How each kind of not knowing is ended: what the plan says to do.
HOW_TO_FIND_OUT = {
    UnknownReason.NO_TABLE: "Judge for a backend that has a table, or add one",
    UnknownReason.TABLE_NOT_REVIEWED: "Judge for a version of torch that the table was reviewed for",
    UnknownReason.FACT_NOT_RECORDED: "Record the step again with this release, which takes the missing facts",
    UnknownReason.UNLISTED: "Ask the vendor, or run the step twice and compare bits, then add a rule",
    UnknownReason.OPAQUE: "Read the op's kernel, or run the step twice and compare bits, then add a rule",
    UnknownReason.NOT_COMPUTED: "Record the step on real tensors, or under torch's `FakeTensorMode`",
    UnknownReason.NO_EVIDENCE: "Run the step twice from the same seed and compare bits",
}

#: Ops that one item of the plan names, where nothing is known of them: whom to ask is one question.
_OPS_TO_ASK = 12

_TOP = "at the top of the script, before the model runs"
_AFTER_MODE = "after deterministic mode is turned on, if its cost matters"
_SHELL = "before torch is imported, or in the shell that starts the script"
_SEEDS = {
    "seed.torch": "torch.manual_seed(0)",
    "seed.python": "random.seed(0)",
    "seed.numpy": "numpy.random.seed(0)",
}
_SEEDED = {"seed.torch": "torch's", "seed.python": "Python's", "seed.numpy": "NumPy's"}


class Draft(NamedTuple):
    """A change that still lacks its number."""

    title: str
    where: str
    findings: Sequence[int] = ()
    remedy: str = ""
    code: str = ""
    sets: dict[str, FactValue] = {}  # noqa: RUF012 (never changed)
    needs: tuple[Prerequisite, ...] = ()
    raises_in_mode: bool = False


class _Plan:
    """The findings of one judgement by the step that closes them."""

    def __init__(self, judgement: Judgement) -> None:
        self.findings = judgement.findings
        self.target = judgement.target
        self.planned = judgement.planned
        self.by_step: dict[Step, list[int]] = {}
        for place, finding in enumerate(judgement.findings):
            self.by_step.setdefault(step_of(finding, judgement.target), []).append(place)

    def at(self, step: Step) -> list[int]:
        """Positions of the findings that ``step`` closes."""
        return self.by_step.get(step, [])

    def told(self, places: Iterable[int]) -> list[Finding]:
        """The findings at ``places``."""
        return [self.findings[place] for place in places]


def make_plan(judgement: Judgement) -> tuple[Change, ...]:
    """The numbered changes for ``judgement``, in the order in which they pay; empty where nothing needs one."""
    plan = _Plan(judgement)
    drafts = [draft for write in _WRITERS for draft in write(plan)]
    drafts += _leave_unfilled(judgement)
    codes = importing_once(draft.code.strip() for draft in drafts)
    asking = [
        Asking(draft.sets, draft.needs, draft.raises_in_mode, any(one.regions for one in plan.told(draft.findings)))
        for draft in drafts
    ]
    needs = needs_of(asking, judgement.target)
    return tuple(
        _numbered(number, draft._replace(code=code), plan, needed)
        for number, (draft, code, needed) in enumerate(zip(drafts, codes, needs, strict=True), 1)
    )


def _numbered(number: int, draft: Draft, plan: _Plan, needs: tuple[Need, ...]) -> Change:
    closed = plan.told(draft.findings)
    return Change(
        number=number,
        title=draft.title,
        remedy=draft.remedy,
        code=draft.code,
        where=draft.where,
        closes=len(closed),
        calls=_calls(closed),
        rules=tuple(dict.fromkeys(finding.rule for finding in closed)),
        findings=tuple(draft.findings),
        sets=draft.sets,
        needs=needs,
    )


def _make_settings(plan: _Plan) -> Iterator[Draft]:
    """One change for each setting that is planned, and for what its line closes."""
    names = [name for name in plan.planned if STEP_OF_SETTING.get(name, Step.SETTING) is not Step.SEED]
    own = {
        name for place in plan.at(Step.LATE) for name in plan.findings[place].sets if is_settled(plan.findings[place])
    }
    wanted = {name for place in _settled(plan) for name in plan.findings[place].sets}
    for name in sorted(names, key=lambda name: STEP_OF_SETTING.get(name, Step.SETTING)):
        if name in own and name not in wanted:
            continue
        step = STEP_OF_SETTING.get(name, Step.SETTING)
        closed = [place for place in plan.at(step) if step is not Step.SETTING or _led_by(plan.findings[place]) == name]
        yield _setting(name, plan, closed)


def _settled(plan: _Plan) -> Iterator[int]:
    """Findings that settings close, but those that a line to move closes."""
    return (
        place
        for place, finding in enumerate(plan.findings)
        if is_settled(finding) and finding.about not in (About.LATE, About.CHANGED)
    )


def _led_by(finding: Finding) -> str:
    """The setting, among those that have no step of their own, that closes ``finding``."""
    return next((name for name in finding.sets if name not in STEP_OF_SETTING), "")


def _setting(name: str, plan: _Plan, closed: list[int]) -> Draft:
    value = plan.planned[name]
    saying = [finding for finding in plan.findings if finding.about is About.SETTING and finding.sets == {name: value}]
    known = declared(name)
    made_by = known.made_by.removesuffix("()") if known is not None else ""
    same = [draft for draft in saying if draft.code and made_by in draft.code]
    code = same[0].code if same else _line(name, value)
    title = known.title if known is not None and known.title else f"Set {known.name if known else name} to {value}"
    if name == MODE and plan.target.conditions.get(name) == DeterministicMode.WARN.value:
        title += " without warn_only"
    where = same[0].where if same and same[0].where else _SHELL if _is_variable(name) else _TOP
    if known is not None and known.where:
        where = known.where
    return Draft(title, where, closed, code=code, sets={name: value})


def _line(name: str, value: FactValue) -> str:
    known = declared(name)
    if known is not None:
        return known.line(value)
    return variable_line(name, value) if _is_variable(name) else f"{name.removesuffix('()')} = {literal(value)}"


def _is_variable(name: str) -> bool:
    """Is it no dotted name of Python's? A trace may hold variables of any name, and no setting that no row knows."""
    parts = name.removesuffix("()").split(".")
    return len(parts) < 2 or not all(map(str.isidentifier, parts))


def _load_data(plan: _Plan) -> Iterator[Draft]:
    for places in _alike(plan, plan.at(Step.LOADING), lambda one: (one.rule, one.location, one.called_from)):
        first = plan.findings[places[0]]
        sets = {name: value for name, value in first.sets.items() if name in plan.planned and is_settled(first)}
        yield Draft(first.subject, place_of(first), places, first.remedy, first.code, sets)


def _seed(plan: _Plan) -> Iterator[Draft]:
    names = [name for name in _SEEDS if name in plan.planned]
    by_hand = [place for place in plan.at(Step.SEED) if not is_settled(plan.findings[place])]
    closed = [place for place in plan.at(Step.SEED) if is_settled(plan.findings[place])]
    loaded = set(plan.at(Step.LOADING))
    asked = {name for place in _settled(plan) if place not in loaded for name in plan.findings[place].sets}
    names = [name for name in names if name in asked]
    if names:
        whose = " and ".join(_SEEDED[name] for name in names)
        yield Draft(
            f"Seed {whose} generators",
            "at the top of the script, before the model is built and data is shuffled",
            closed,
            code="\n".join(_SEEDS[name] for name in names),
            sets={name: plan.planned[name] for name in names},
        )
    for places in _by_site(plan, by_hand):
        first = plan.findings[places[0]]
        about = first.subject or f"the generator that {name_of(first.op)} draws from"
        yield Draft(f"Seed {about}", place_of(first), places, first.remedy, first.code, needs=first.needs)


def _move_lines(plan: _Plan) -> Iterator[Draft]:
    for places in _alike(plan, plan.at(Step.LATE), lambda one: (one.rule, one.location, one.called_from)):
        first = plan.findings[places[0]]
        moved = [plan.findings[place] for place in places if is_settled(plan.findings[place])]
        sets = {name: plan.planned[name] for draft in moved for name in draft.sets if name in plan.planned}
        where = f"{first.where}; it stands at {place_of(first)}" if first.where else place_of(first)
        what = "Move the line" if first.about is About.LATE else "Take the line out"
        yield Draft(f"{what}: {first.subject}", where, places, first.remedy, first.code, sets)


def _replace_what_raises(plan: _Plan) -> Iterator[Draft]:
    for places in _by_site(plan, plan.at(Step.RAISES)):
        first = plan.findings[places[0]]
        when = "raises now" if first.verdict is Verdict.RAISES else "raises under deterministic mode"
        yield Draft(
            f"{_taken_out(first)}, which {when}",
            place_of(first),
            places,
            first.remedy,
            needs=first.needs,
            raises_in_mode=first.verdict is not Verdict.RAISES,
        )


def _taken_out(finding: Finding) -> str:
    """What to do about a call that cannot stay: a line of a library is not the user's to edit."""
    return f"Keep {finding.library} from {_subject(finding)}" if finding.library else f"Replace {_subject(finding)}"


def _write_memory(plan: _Plan) -> Iterator[Draft]:
    for places in _by_site(plan, plan.at(Step.MEMORY)):
        first = plan.findings[places[0]]
        what = "Write before reading" if first.about is About.MEMORY else "Give the write memory of its own"
        # Memory's code is the setting that fills it, which closes nothing where this step is reached.
        code = "" if first.about is About.MEMORY else first.code
        title = f"{what} in {_subject(first)}"
        yield Draft(title, place_of(first), places, first.remedy, code, needs=first.needs)


def _change_what_stays(plan: _Plan) -> Iterator[Draft]:
    for places in _by_site(plan, plan.at(Step.NOT_FIXED)):
        first = plan.findings[places[0]]
        does = "which varies now" if is_mode_on(plan.target) else "which deterministic mode does not fix"
        title = f"{_taken_out(first) if first.library else f'Change {_subject(first)}'}, {does}"
        yield Draft(title, place_of(first), places, first.remedy, first.code, needs=first.needs)


def _find_out(plan: _Plan) -> Iterator[Draft]:
    groups: dict[tuple[UnknownReason | None, str], list[int]] = {}
    for place in plan.at(Step.UNKNOWN):
        one = plan.findings[place]
        groups.setdefault((one.reason, "" if one.about is About.CALL else one.reason_detail), []).append(place)
    for (reason, detail), places in sorted(groups.items(), key=lambda item: -_calls(plan.told(item[1]))):
        how = (
            detail[:1].upper() + detail[1:] if detail else HOW_TO_FIND_OUT.get(reason or UnknownReason.NO_EVIDENCE, "")
        )
        told = [plan.findings[place] for place in places]
        about = tuple(dict.fromkeys(_subject(unknown) for unknown in told))
        remedies = tuple(dict.fromkeys(unknown.remedy for unknown in told if unknown.remedy))
        title = f"{how} ({reason or 'no reason given'})"
        yield Draft(title, _some(about, _OPS_TO_ASK), places, remedies[0] if len(remedies) == 1 else "")


def _leave_unfilled(judgement: Judgement) -> Iterator[Draft]:
    """What deterministic mode's fill costs, where nothing was seen to need it; it closes nothing."""
    fill = judgement.fill
    is_on = MODE in judgement.planned or is_mode_on(judgement.target)
    if fill is None or not is_on or judgement.target.conditions.get(FILL) is False:
        return
    if FILL in judgement.planned or fill.reads or fill.unfollowed > fill.calls // 2:
        return
    yield Draft(
        "Turning the fill off looks safe for this step",
        "if its cost matters" if is_mode_on(judgement.target) else _AFTER_MODE,
        remedy=f"{_evidence_of(fill)}; allocations inside kernels are invisible",
        code="torch.utils.deterministic.fill_uninitialized_memory = False",
        needs=(Prerequisite.DETERMINISTIC_MODE,),
    )


def _evidence_of(fill: FillCost) -> str:
    calls = f"{fill.calls:,} call{'' if fill.calls == 1 else 's'}"
    missed = f" ({fill.unfollowed:,} could not be followed)" if fill.unfollowed else ""
    size = f"{fill.bytes / 2**20:,.1f} MiB" if fill.bytes >= 2**20 else f"{fill.bytes / 2**10:,.1f} KiB"
    return f"{calls}, {size}, no read before write seen{missed}"


#: The functions that write each step's changes, in the order of the plan.
_WRITERS: tuple[Callable[[_Plan], Iterator[Draft]], ...] = (
    _make_settings,
    _load_data,
    _seed,
    _move_lines,
    _replace_what_raises,
    _write_memory,
    _change_what_stays,
    _find_out,
)


def _by_site(plan: _Plan, places: Iterable[int]) -> list[list[int]]:
    """Findings in groups that one edit closes: one rule at one place; worst first, then most calls."""
    groups = _alike(plan, places, lambda one: (one.rule, place_of(one)))
    return sorted(
        groups, key=lambda group: (SEVERITY.index(plan.findings[group[0]].verdict), -_calls(plan.told(group)))
    )


def _alike(plan: _Plan, places: Iterable[int], key: Callable[[Finding], object]) -> list[list[int]]:
    groups: dict[object, list[int]] = {}
    for place in places:
        groups.setdefault(key(plan.findings[place]), []).append(place)
    return list(groups.values())


def _calls(findings: Sequence[Finding]) -> int:
    """Calls behind ``findings``: those about the process count the same calls again."""
    calls = sum(finding.count for finding in findings if finding.about is About.CALL)
    return calls or sum(finding.count for finding in findings)


def _subject(finding: Finding) -> str:
    """What a finding is about, as a title bears it."""
    runs_as = f" (which runs as {name_of(finding.runs_as)})" if finding.runs_as else ""
    return f"{name_of(finding.op)}{runs_as}" if finding.op else finding.subject


def _some(names: tuple[str, ...], limit: int = 3) -> str:
    """The first few of ``names`` and how many more there are."""
    rest = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {rest} more" if rest > 0 else "")


#: Settings that are read when code is compiled, beside deterministic mode.
_INDUCTOR = "torch._inductor."


class Asking(NamedTuple):
    """What a change makes, and what it asks for."""

    sets: Mapping[str, FactValue] = {}
    needs: tuple[Prerequisite, ...] = ()
    raises_in_mode: bool = False
    """Does it take away what deterministic mode would refuse?"""
    is_compiled: bool = False
    """Does it close findings about compiled calls?"""


def needs_of(asking: Sequence[Asking], target: Target) -> list[tuple[Need, ...]]:
    """For each change, in the order of the plan, what it needs; numbers begin at 1."""
    makers = {name: number for number, one in enumerate(asking, 1) for name in one.sets}
    refused = tuple(number for number, one in enumerate(asking, 1) if one.raises_in_mode)
    needs = []
    for asker in asking:
        found = []
        if Prerequisite.DETERMINISTIC_MODE in asker.needs:
            made = (makers[MODE],) if MODE in makers else ()
            # A switch of torch works under warn_only as well.
            holds = target.conditions.get(MODE) in (DeterministicMode.ON.value, DeterministicMode.WARN.value)
            found.append(Need(kind=Prerequisite.DETERMINISTIC_MODE, setting=MODE, changes=made, holds=holds))
        read = next((name for name in asker.sets if name == MODE or name.startswith(_INDUCTOR)), "")
        if asker.is_compiled and read:
            found.append(Need(kind=Prerequisite.BEFORE_COMPILING, setting=read))
        if MODE in asker.sets:
            if CUBLAS_VARIABLE in makers and CUBLAS_VARIABLE not in asker.sets:
                found.append(
                    Need(kind=Prerequisite.NOTHING_RAISES, setting=CUBLAS_VARIABLE, changes=(makers[CUBLAS_VARIABLE],))
                )
            if refused:
                found.append(Need(kind=Prerequisite.NOTHING_RAISES, changes=refused))
        needs.append(tuple(found))
    return needs


#: Modules that the plan's own lines speak of by name.
_SPOKEN_OF = ("os", "random", "numpy", "torch")


def importing_once(codes: Iterable[str]) -> Iterator[str]:
    """``codes`` with the imports that they lack, and without those that stand in an earlier one.

    What is no Python, such as a shell's ``export``, and what imports by other forms than ``import name`` stays as is.
    """
    seen: set[str] = set()
    for code in codes:
        try:
            tree = ast.parse(code)
        except SyntaxError:
            yield code
            continue
        imports = [node for node in tree.body if isinstance(node, ast.Import)]
        plain = {node.lineno: node.names[0].name for node in imports if _is_plain(node)}
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        bound = {name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in map(_bound_by, node.names)}
        lacking = [f"import {name}" for name in _SPOKEN_OF if name in used - bound - seen]
        kept = [line for number, line in enumerate(code.splitlines(), 1) if plain.get(number) not in seen]
        yield _joined(lacking, "\n".join(kept).strip())
        seen |= (used & set(_SPOKEN_OF)) | set(plain.values())


def _is_plain(node: ast.Import) -> bool:
    return len(node.names) == 1 and node.names[0].asname is None


def _bound_by(alias: ast.alias) -> str:
    return alias.asname or alias.name.partition(".")[0]


def _joined(imports: list[str], code: str) -> str:
    between = "\n" if code.startswith(("import ", "from ")) else "\n\n"
    return "\n".join(imports) + between + code if imports else code


Where = tuple[str, Phase, str]
"""Op, phase and location of a call."""


def seen_first(changes: Sequence[Change], findings: Sequence[Finding], seen: Collection[Where]) -> tuple[Change, ...]:
    """``changes``, those that close a finding at which runs were ``seen`` to part first, numbered anew."""
    counts = [
        sum(
            (finding.op, finding.phase, finding.location) in seen for finding in map(findings.__getitem__, one.findings)
        )
        for one in changes
    ]
    order = sorted(range(len(changes)), key=lambda at: (not counts[at], at))
    numbers = {changes[at].number: number for number, at in enumerate(order, 1)}
    return tuple(
        msgspec.structs.replace(
            changes[at],
            number=numbers[changes[at].number],
            seen=counts[at],
            needs=tuple(
                msgspec.structs.replace(need, changes=tuple(sorted(numbers[one] for one in need.changes)))
                for need in changes[at].needs
            ),
        )
        for at in order
    )


_GONE = (Verdict.DETERMINISTIC, Verdict.DETERMINISTIC)


def planned_settings(plan: Iterable[Change]) -> dict[str, FactValue]:
    """What all changes together make of the settings, as ``judge(..., settings=...)`` takes them."""
    return {name: value for change in plan for name, value in change.sets.items()}


def identity_of(finding: Finding) -> tuple[str, ...]:
    """What a finding is about, whatever its verdict: its rule, subject and op, and their place."""
    return (
        finding.rule,
        finding.subject,
        finding.op,
        finding.phase.value,
        finding.module,
        finding.location,
        finding.function,
        finding.called_from,
    )


def promised(judgement: Judgement, plan: Iterable[Change]) -> frozenset[tuple[tuple[str, ...], Verdict]]:
    """Identity and verdict of every finding that is left under the plan's settings, code being as it was recorded.

    The promise is for all of the plan's settings together; ``ValueError`` for a part of them, of which it says nothing.
    """
    if planned_settings(plan) != judgement.planned:
        raise ValueError("a promise is for the whole plan of the judgement")
    left = (
        (finding, finding.planned or (finding.verdict, finding.deterministic_mode)) for finding in judgement.findings
    )
    return frozenset((identity_of(one), after[0]) for one, after in left if after != _GONE)
