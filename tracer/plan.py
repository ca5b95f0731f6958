"""The plan: findings -> the numbered changes that would make the step reproducible.

They stand in the order in which they are made: what a shell sets, what must precede deterministic mode, then the fewest
that remove the most, in the order of ``PlanStep``. Each closes a finding at least, and no finding is closed by two.
"""

from __future__ import annotations

import ast
import itertools
import operator
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

from tracer.findings import Finding, Judgement, Need, PlannedChange, Target
from tracer.names import (
    SAFE,
    SEVERITY,
    VARYING,
    About,
    Cause,
    DeterministicMode,
    GeneratorKind,
    HintKind,
    Phase,
    Prerequisite,
    SeedOrigin,
    UnknownReason,
    Verdict,
)
from tracer.ops import spoken
from tracer.plain import literal
from tracer.tables.settings import CUBLAS_VARIABLE, DECLARED, FORWARD, MODE, SEEDS, PlanOrder, declared, variable_line
from tracer.trace.file import Trace
from tracer.trace.records import ORIGIN, SEEDED_AT, FactValue, is_set_up, kind_drawn_from


class PlanStep(IntEnum):
    """Ways to close a finding, in the order in which the plan names them: settings as they are declared."""

    MODE = PlanOrder.MODE
    WORKSPACE = PlanOrder.WORKSPACE
    AUTOTUNE = PlanOrder.AUTOTUNE
    SETTING = PlanOrder.OTHER
    """Another setting or variable."""
    LOADING = 5
    """Data loading."""
    EVALUATION = 6
    """A model in training mode that is used."""
    SEED = 7
    LATE = 8
    """A line to move: it stands too late, or in the middle."""
    RAISES = 9
    MEMORY = 10
    """Memory that is read unwritten or overlaps."""
    NOT_FIXED = 11
    UNKNOWN = 12
    NOTHING = 13
    """Nothing is to be done: it draws from a generator that repeats."""


#: The step of a planned setting, by its name; ``SETTING`` for others.
STEP_OF_SETTING = {
    **{setting.key: PlanStep(setting.place) for setting in DECLARED if setting.place is not PlanOrder.OTHER},
    **dict.fromkeys(SEEDS, PlanStep.SEED),
}
#: Which of the settings that a finding needs is the one that closes it: the one that fewest others share.
_CLOSES_FIRST = (PlanStep.SETTING, PlanStep.AUTOTUNE, PlanStep.WORKSPACE, PlanStep.SEED, PlanStep.MODE)

_LEFT_TO_CHANCE = (SeedOrigin.MACHINE, SeedOrigin.UNSEEN)


def step_of(finding: Finding, target: Target) -> PlanStep:
    """The one kind of change that closes ``finding``."""
    if finding.drops_in_inference:
        return PlanStep.EVALUATION
    of_process = finding.about in (About.LOADER, About.CHANGED, About.GENERATOR)
    if of_process and _hangs_on_a_seed(finding) and finding.facts.get("origin") not in _LEFT_TO_CHANCE:
        return PlanStep.NOTHING
    if finding.about is About.LOADER and not is_settled(finding) and not seeded_by_line(finding):
        return PlanStep.LOADING
    if finding.about in (About.LATE, About.CHANGED):
        return PlanStep.LATE
    if is_settled(finding):
        if finding.settings and not finding.sets:
            return PlanStep.LATE  # the lines that set them, taken out
        names = {STEP_OF_SETTING.get(name, PlanStep.SETTING) for name in finding.sets}
        return next((step for step in _CLOSES_FIRST if step in names), PlanStep.MODE)
    if finding.about in (About.MEMORY, About.OVERLAP) or (
        finding.cause is Cause.UNINITIALIZED_MEMORY and finding.verdict in VARYING
    ):
        return PlanStep.MEMORY
    passed = kind_drawn_from(finding.facts) is GeneratorKind.PASSED and finding.facts.get(ORIGIN) in _LEFT_TO_CHANCE
    # A generator of the program's that is not known to repeat, or a line of its own that leaves one to the machine.
    if finding.about is About.GENERATOR or passed or seeded_by_line(finding):
        return PlanStep.SEED if finding.verdict is not Verdict.UNKNOWN else PlanStep.UNKNOWN
    as_is = is_mode_on(target) and MODE not in finding.settings
    verdicts = (finding.verdict,) if as_is else (finding.verdict, finding.deterministic_mode)
    if Verdict.RAISES in verdicts:
        return PlanStep.RAISES
    if any(verdict in VARYING for verdict in verdicts):
        return PlanStep.NOT_FIXED
    return PlanStep.UNKNOWN if Verdict.UNKNOWN in verdicts else PlanStep.NOTHING


def seeded_by_line(finding: Finding) -> str:
    """The program's own line that leaves to the machine what ``finding`` draws from; a seed before it is undone."""
    if (
        SeedOrigin.MACHINE.value in (finding.facts.get(ORIGIN), finding.facts.get("origin"))
        and SEEDED_AT in finding.facts
    ):
        return str(finding.facts[SEEDED_AT])
    is_seed = finding.about is About.GENERATOR and finding.facts.get("seed.number", "none") != "none"
    return finding.location if is_seed else ""


def is_settled(finding: Finding) -> bool:
    """Return whether the planned settings and seeds leave nothing of ``finding`` to do.

    Of unwritten memory they leave everything: deterministic mode fills it, with NaN where there is one, and runs agree
    on a wrong result.
    """
    if finding.drops_in_inference or (finding.cause is Cause.UNINITIALIZED_MEMORY and finding.verdict not in SAFE):
        return False
    if finding.planned is None:
        # Seeding does not change that the result hangs on a seed.
        return _hangs_on_a_seed(finding) and any(name.startswith("seed.") for name in finding.sets)
    as_is, in_mode = finding.planned
    return as_is in SAFE and (in_mode in SAFE or finding.verdict not in SAFE)


def _hangs_on_a_seed(finding: Finding) -> bool:
    return {finding.verdict, finding.deterministic_mode} <= set(SAFE)


def is_mode_on(target: Target) -> bool:
    """Return whether ``target`` has ``torch.use_deterministic_algorithms(True)`` switched on already."""
    return target.conditions.get(MODE) == DeterministicMode.ON.value


def name_of(op: str) -> str:
    """``op`` as people write it: without the ``.default`` that torch prints behind a sole overload."""
    return op.removesuffix(".default")


def op_of(finding: Finding) -> str:
    """The op that ``finding`` speaks of, as an answer names it; empty for what is of the process.

    An op that a CPU alone has, judged for another backend, is named by what runs there.
    """
    return name_of(spoken(finding.op, finding.runs_as))


def place_of(finding: Finding) -> str:
    """Return the place of ``finding``, as precisely as the trace knows."""
    led_here = f"called from {finding.called_from}" if finding.called_from else ""
    if finding.location:
        return f"{finding.location} ({led_here})" if led_here else finding.location
    if led_here:
        return led_here
    if finding.about is not About.CALL:
        return "the whole process"
    return f"in module {finding.module}" if finding.module else "place not recorded"


#: Ops that one item of the plan names, where nothing is known of them: whom to ask is one question.
_OPS_TO_ASK = 12

_EXPORT = "export "
_TOP = "at the top of the script, before the model runs"
_SHELL = "before torch is imported, or in the shell that starts the script"
#: The line that makes a planned seed, and whose generators it seeds.
SEEDED = {
    "seed.torch": ("torch.manual_seed(0)", "torch's"),
    "seed.python": ("random.seed(0)", "Python's"),
    "seed.numpy": ("numpy.random.seed(0)", "NumPy's"),
}


class Draft(NamedTuple):
    """A change that still lacks its number."""

    title: str
    where: str
    findings: Sequence[Finding] = ()
    remedy: str = ""
    code: str = ""
    sets: dict[str, FactValue] = {}  # noqa: RUF012 (never changed)
    needs: tuple[Prerequisite, ...] = ()
    raises_in_mode: bool = False
    for_mode_alone: bool = False
    """Whether it is needed under deterministic mode alone, which nothing asks for."""


#: Findings that one change closes.
FindingGroup = list[Finding]


class _ByStep:
    def __init__(self, judgement: Judgement) -> None:
        self.trace, self.findings = judgement.trace, judgement.findings
        self.target, self.planned = judgement.target, judgement.planned
        self.by_step: defaultdict[PlanStep, FindingGroup] = defaultdict(list)
        for finding in judgement.findings:
            self.by_step[step_of(finding, judgement.target)].append(finding)


def _groups(findings: Iterable[Finding], key: Callable[[Finding], object]) -> list[FindingGroup]:
    groups: defaultdict[object, FindingGroup] = defaultdict(list)
    for finding in findings:
        groups[key(finding)].append(finding)
    return list(groups.values())


def _line_of(finding: Finding) -> tuple[str, ...]:
    return finding.rule, finding.location, finding.called_from


def _by_site(findings: Iterable[Finding]) -> list[FindingGroup]:
    """Findings that one edit closes, one rule at one place: worst first, then most calls."""
    groups = _groups(findings, lambda finding: (finding.rule, place_of(finding)))
    return sorted(groups, key=lambda group: (SEVERITY.index(group[0].verdict), -_calls(group)))


def make_plan(judgement: Judgement, varied_at: Container[tuple[str, Phase, str]] = ()) -> tuple[PlannedChange, ...]:
    """The numbered changes for ``judgement``, in the order in which they are made; empty where nothing needs one.

    Those that close a finding at a call that was seen to vary come first, behind what they need; ``varied_at`` has op,
    phase and location of these calls.
    """
    plan = _ByStep(judgement)
    writers = (_make_settings, _load_data, _evaluate, _seed, _move_lines, _replace_what_raises, _write_memory)
    drafts = _each_closing([draft for write in (*writers, _change_what_stays, _find_out) for draft in write(plan)])

    def seen(draft: Draft) -> int:
        return sum((finding.op, finding.phase, finding.location) in varied_at for finding in draft.findings)

    mode_leads = any(MODE in draft.sets and seen(draft) for draft in drafts)

    def order(draft: Draft) -> tuple[bool, bool, int]:
        """Seeds of what certainly differs come first, what may stay on the host last, the mode behind what it needs."""
        is_needed = mode_leads and (draft.raises_in_mode or CUBLAS_VARIABLE in draft.sets)
        makes_workspace = CUBLAS_VARIABLE in draft.sets and MODE not in draft.sets
        # It seeds what another state in every run draws from.
        is_certain = any(finding.cause is Cause.RNG and finding.verdict in VARYING for finding in draft.findings)
        before = (is_certain, _is_of_shell(draft), makes_workspace, draft.raises_in_mode, True)
        calls = [finding.may_be_host for finding in draft.findings if finding.about is About.CALL]
        is_last = draft.for_mode_alone or (bool(calls) and all(calls))
        return not (seen(draft) or is_needed), is_last, before.index(True)

    drafts.sort(key=order)
    codes = importing_once(draft.code.strip() for draft in drafts)
    positions = {id(finding): position for position, finding in enumerate(plan.findings)}
    return tuple(
        PlannedChange(
            number=number,
            title=draft.title,
            remedy=draft.remedy,
            code=code,
            where=draft.where,
            closes=len(draft.findings),
            calls=_calls(draft.findings),
            seen=seen(draft),
            rules=tuple(dict.fromkeys(finding.rule for finding in draft.findings)),
            findings=tuple(positions[id(finding)] for finding in draft.findings),
            sets=draft.sets,
            needs=needs,
        )
        for number, (draft, code, needs) in enumerate(zip(drafts, codes, _needs(drafts, plan), strict=True), 1)
    )


def _make_settings(plan: _ByStep) -> Iterator[Draft]:
    """One change for each setting that is planned, and for what its line closes."""
    steps = {name: STEP_OF_SETTING.get(name, PlanStep.SETTING) for name in plan.planned}
    moved = {name for finding in filter(is_settled, plan.by_step[PlanStep.LATE]) for name in finding.sets}
    wanted = {name for finding in _closed_by_settings(plan) for name in finding.sets}
    for name, step in sorted(steps.items(), key=lambda item: item[1]):
        if step is PlanStep.SEED or (name in moved and name not in wanted):
            continue
        closed = plan.by_step[step]
        if step is PlanStep.SETTING:
            others = ([each for each in finding.sets if each not in STEP_OF_SETTING] for finding in closed)
            closed = [finding for finding, own in zip(closed, others, strict=True) if own[:1] == [name]]
        value, setting = plan.planned[name], declared(name)
        title, where = f"Set {name} to {value}", _SHELL if _is_variable(name) else _TOP
        line = variable_line(name, value) if _is_variable(name) else f"{name.removesuffix('()')} = {literal(value)}"
        if setting is not None:
            title, line = setting.title or f"Set {setting.name} to {value}", setting.line(value)
        if name == MODE and plan.target.conditions.get(name) == DeterministicMode.WARN.value:
            title += " without warn_only"
        made_by = setting.made_by.removesuffix("()") if setting is not None else ""
        for finding in plan.findings:
            is_its = finding.about is About.SETTING and finding.sets == {name: value}
            if is_its and finding.code and made_by in finding.code:
                line, where = finding.code, finding.where or where
                break
        where = setting.where or where if setting is not None else where
        yield Draft(title, where, closed, code=line, sets={name: value})


def _closed_by_settings(plan: _ByStep) -> Iterator[Finding]:
    """Findings that settings close, but for those that a line to move closes."""
    for finding in plan.findings:
        if is_settled(finding) and finding.about not in (About.LATE, About.CHANGED):
            yield finding


def _is_variable(name: str) -> bool:
    """Return whether ``name`` is no dotted name of Python's, as variables of any name may be in a trace."""
    parts = name.removesuffix("()").split(".")
    return len(parts) < 2 or not all(map(str.isidentifier, parts))


def _load_data(plan: _ByStep) -> Iterator[Draft]:
    for group in _groups(plan.by_step[PlanStep.LOADING], _line_of):
        first = group[0]
        sets = {name: value for name, value in first.sets.items() if name in plan.planned and is_settled(first)}
        yield Draft(first.subject, place_of(first), group, first.remedy, first.code, sets)


def _evaluate(plan: _ByStep) -> Iterator[Draft]:
    if group := plan.by_step[PlanStep.EVALUATION]:
        title = "Call `model.eval()` before the inference, if it is one: no seed makes two calls in one run agree"
        yield Draft(title, place_of(group[0]), group, code="model.eval()")


def _seed(plan: _ByStep) -> Iterator[Draft]:
    seeding, loading = plan.by_step[PlanStep.SEED], set(map(id, plan.by_step[PlanStep.LOADING]))
    asked = {name for finding in _closed_by_settings(plan) if id(finding) not in loading for name in finding.sets}
    drawn_at = {event.location: event.drawn_at for event in plan.trace.events if event.drawn_at}
    of_seed = {name: line for name in SEEDED if (line := _drawn_for_a_seed(name, plan.trace))}
    settled = list(filter(is_settled, seeding))
    asked -= of_seed.keys()
    if seeds := {name: seed for name, seed in SEEDED.items() if name in plan.planned and name in asked}:
        yield Draft(
            f"Seed {' and '.join(whose for _, whose in seeds.values())} generators",
            "at the top of the script, before the model is built and data is shuffled",
            [finding for finding in settled if of_seed.keys().isdisjoint(finding.sets)],
            code="\n".join(line for line, _ in seeds.values()),
            sets={name: plan.planned[name] for name in seeds},
        )
    # What speaks of the generator first; findings of one line that seeds are closed together.
    left = sorted(itertools.filterfalse(is_settled, seeding), key=lambda finding: finding.about is About.CALL)
    for group in _groups(left, lambda one: seeded_by_line(one) or (one.rule, one.subject, place_of(one))):
        first = group[0]
        about = first.subject or f"the generator that {op_of(first)} draws from"
        line = seeded_by_line(first)
        whose = (first.name or about).replace("generator cpu", "torch's CPU generator")
        constant = f"Seed {whose} with a constant, not with another number in every run"
        title, where = (constant, line) if line else (f"Seed {about}", place_of(first))
        remedy, drawn, sets = first.remedy, drawn_at.get(line, line), {}
        if drawn != line:
            where = f"{drawn} draws the number, and {line} seeds with it"
            remedy = f"write one at {drawn}, in place of the draw. {remedy.partition('. ')[2]}"
            made = [name for name, seeding_line in of_seed.items() if drawn_at[seeding_line] == drawn]
            group += [finding for finding in settled if not finding.sets.keys().isdisjoint(made)]
            sets = {name: plan.planned[name] for name in made if name in plan.planned}
        yield Draft(title, where, group, remedy, first.code, sets, first.needs)


#: The generators whose draws one recording counts and does not place, by the seed that they lack.
UNPLACED_DRAWS = {"seed.python": HintKind.PYTHON_DRAW, "seed.numpy": HintKind.NUMPY_DRAW}


def _drawn_for_a_seed(seed: str, trace: Trace) -> str:
    """The line that seeds this generator with a number that the program's one draw from it gave; empty if none does."""
    drawn = {hint.location for hint in trace.hints if hint.kind is UNPLACED_DRAWS.get(seed)}
    seeds = (event for event in trace.events if f"seed.{event.name}" == seed and event.is_drawn)
    return next((event.location for event in seeds if drawn == {event.drawn_at}), "")


def _move_lines(plan: _ByStep) -> Iterator[Draft]:
    late = plan.by_step[PlanStep.LATE]
    of_blocks = [finding for finding in late if finding.about is About.CALL]
    lines = _groups((finding for finding in late if finding.about is not About.CALL), _line_of)
    for group in lines:
        if group[0].about is About.CHANGED:
            made = [finding for finding in of_blocks if _sets_for(group[0], finding)]
            of_blocks = [finding for finding in of_blocks if not _sets_for(group[0], finding)]
            group += made
    lines += _groups(of_blocks, lambda finding: tuple(sorted(finding.settings)))
    for group in lines:
        first = group[0]
        if first.about is About.CALL:
            keys = dict.fromkeys(key.removeprefix(FORWARD) for key in first.settings)
            made_late = [setting for setting in map(declared, keys) if setting is not None]
            code = "\n".join(setting.line(plan.target.conditions[setting.key]) for setting in made_late)
            title = f"Set {' and '.join(setting.name for setting in made_late)} before {_subject(first)} runs"
            yield Draft(title, place_of(first), group, "These calls ran under another value than the rest.", code)
            continue
        names = [name for finding in filter(is_settled, group) for name in finding.sets]
        sets = {name: plan.planned[name] for name in names if name in plan.planned}
        where = f"{first.where}; it stands at {place_of(first)}" if first.where else place_of(first)
        what = "Move the line" if first.about is About.LATE else "Take the line out"
        yield Draft(f"{what}: {first.subject}", where, group, first.remedy, first.code, sets)


def _sets_for(changed: Finding, call: Finding) -> bool:
    """Return whether ``changed`` is the line that made a setting of ``call``'s own."""
    made = [(setting.name, value) for key, value in call.settings.items() if (setting := declared(key)) is not None]
    return any(name == changed.name and f" to {value}" in changed.subject for name, value in made)


def _replace_what_raises(plan: _ByStep) -> Iterator[Draft]:
    for group in _by_site(plan.by_step[PlanStep.RAISES]):
        first = group[0]
        in_mode = first.verdict is not Verdict.RAISES
        unasked = in_mode and MODE not in plan.planned and all(finding.verdict in SAFE for finding in group)
        when = f", which raises {'under deterministic mode' if in_mode else 'now'}"
        title = f"{_taken_out(first)}{' only if you turn deterministic mode on, which refuses it' if unasked else when}"
        yield Draft(title, place_of(first), group, first.remedy, "", {}, first.needs, in_mode, unasked)


def _taken_out(finding: Finding, verb: str = "Replace") -> str:
    """Return the advice on a call that cannot stay: a line of a library is not the user's to edit."""
    subject = _subject(finding)
    if finding.library and is_set_up(finding.phase, finding.module, finding.place, finding.facts.get("device")):
        return f"Say where {finding.library} runs {subject}"
    return f"Avoid {subject} in {finding.library}" if finding.library else f"{verb} {subject}"


def _write_memory(plan: _ByStep) -> Iterator[Draft]:
    for group in _by_site(plan.by_step[PlanStep.MEMORY]):
        first = group[0]
        what = "Give the write memory of its own"
        if first.cause is Cause.UNINITIALIZED_MEMORY:
            what = "Write before reading" if first.about is About.MEMORY else "Leave no memory unwritten"
        gave = f": {first.subject}" if first.about is About.MEMORY and first.subject else ""
        title = f"{what} in {_subject(first)}{gave}"
        yield Draft(title, place_of(first), group, first.remedy, first.code, needs=first.needs)


def _change_what_stays(plan: _ByStep) -> Iterator[Draft]:
    staying = plan.by_step[PlanStep.NOT_FIXED]
    of_shell = [finding for finding in staying if finding.code.startswith(_EXPORT)]
    for group in _groups(of_shell, lambda finding: finding.code):
        first = group[0]
        variables = " and ".join(line.removeprefix(_EXPORT) for line in first.code.splitlines())
        others = len({op_of(finding) for finding in group}) - 1
        more = f" and {others} more op{'s' * (others > 1)}" if others else ""
        title = f"Set {variables} for {op_of(first)}{more}"
        yield Draft(title, first.where, group, first.remedy, first.code, needs=first.needs)
    for group in _by_site(finding for finding in staying if not finding.code.startswith(_EXPORT)):
        first = group[0]
        mode = f"deterministic mode{' alone' * (Prerequisite.DETERMINISTIC_MODE in first.needs)}"
        does = "varies now" if is_mode_on(plan.target) else f"{mode} does not fix"
        title = f"{_taken_out(first, 'Change')}, which {does}"
        yield Draft(title, place_of(first), group, first.remedy, first.code, needs=first.needs)


def _find_out(plan: _ByStep) -> Iterator[Draft]:
    def key(finding: Finding) -> tuple[UnknownReason | None, str]:
        return finding.reason, "" if finding.about is About.CALL else finding.reason_detail

    for unknowns in sorted(_groups(plan.by_step[PlanStep.UNKNOWN], key), key=lambda group: -_calls(group)):
        reason, detail = key(unknowns[0])
        how = f"{detail[:1].upper()}{detail[1:]}" or (reason or UnknownReason.NO_EVIDENCE).remedy
        subjects = list(dict.fromkeys(name_of(unknown.runs_as) or _subject(unknown) for unknown in unknowns))
        more = f" and {len(subjects) - _OPS_TO_ASK} more" if len(subjects) > _OPS_TO_ASK else ""
        remedies = {unknown.remedy for unknown in unknowns if unknown.remedy}
        remedy = remedies.pop() if len(remedies) == 1 else ""
        if remedy and reason is UnknownReason.NO_EVIDENCE:  # one of the two, the rule's own first
            how, remedy = f"{remedy.removesuffix('.')}, or {how[:1].lower()}{how[1:]}", ""
        yield Draft(how, f"{', '.join(subjects[:_OPS_TO_ASK])}{more}", unknowns, remedy)


def _each_closing(drafts: Sequence[Draft]) -> list[Draft]:
    """Merges each draft that closes nothing by itself, or no call, into the draft that needs it."""

    def asked(draft: Draft) -> bool:
        others = (one for one in drafts if one is not draft and one.sets and not _is_of_shell(one))
        calls = (finding for one in others for finding in one.findings if finding.about is About.CALL)
        return bool(draft.sets) and any(draft.sets.keys() <= finding.sets.keys() for finding in calls)

    closes = [any(finding.about is About.CALL for finding in draft.findings) for draft in drafts]
    helps = [not draft.findings or (not own and asked(draft)) for own, draft in zip(closes, drafts, strict=True)]
    closing = list(itertools.compress(drafts, map(operator.not_, helps)))
    for helper in itertools.compress(drafts, helps):
        asks = [any(helper.sets.keys() & finding.sets.keys() for finding in d.findings) for d in closing]
        place = asks.index(True) if True in asks else next((n for n, d in enumerate(closing) if d.sets), None)
        if place is None or not closing[place].sets or _is_of_shell(helper) is not _is_of_shell(closing[place]):
            closing.append(helper)
            continue
        host = closing[place]
        lines = (helper.code, host.code) if CUBLAS_VARIABLE in helper.sets else (host.code, helper.code)
        title = f"{host.title}, and {helper.title[:1].lower()}{helper.title[1:]}"
        closing[place] = host._replace(
            title=title,
            code="\n".join(importing_once(lines)),
            sets={**host.sets, **helper.sets},
            findings=[*host.findings, *helper.findings],
        )
    return closing


def _is_of_shell(draft: Draft) -> bool:
    return draft.code.startswith(_EXPORT)


def _calls(findings: Sequence[Finding]) -> int:
    """Calls behind ``findings``: those about the process count the same calls again."""
    calls = sum(finding.count for finding in findings if finding.about is About.CALL)
    return calls or sum(finding.count for finding in findings if finding.ops or finding.op)


def _subject(finding: Finding) -> str:
    op, runs_as = op_of(finding), name_of(finding.runs_as)
    return f"{op} (which runs as {runs_as})" if runs_as not in ("", op) else op or finding.subject


#: Settings that are read when code is compiled, beside deterministic mode.
_INDUCTOR = "torch._inductor."


def _needs(drafts: Sequence[Draft], plan: _ByStep) -> Iterator[tuple[Need, ...]]:
    """For each change, in the order of the plan, what it needs; numbers begin at 1."""
    makers = {name: number for number, draft in enumerate(drafts, 1) for name in draft.sets}
    refused = tuple(number for number, draft in enumerate(drafts, 1) if draft.raises_in_mode)
    # A switch of torch works under warn_only as well.
    holds = plan.target.conditions.get(MODE) in (DeterministicMode.ON.value, DeterministicMode.WARN.value)
    for draft in drafts:
        needs = []
        if Prerequisite.DETERMINISTIC_MODE in draft.needs and not draft.for_mode_alone:
            changes = (makers[MODE],) if MODE in makers else ()
            needs.append(Need(kind=Prerequisite.DETERMINISTIC_MODE, setting=MODE, changes=changes, holds=holds))
        read = next((name for name in draft.sets if name == MODE or name.startswith(_INDUCTOR)), "")
        if read and any(finding.regions for finding in draft.findings):
            needs.append(Need(kind=Prerequisite.BEFORE_COMPILING, setting=read))
        if MODE in draft.sets:
            if CUBLAS_VARIABLE in makers and CUBLAS_VARIABLE not in draft.sets:
                changes = (makers[CUBLAS_VARIABLE],)
                needs.append(Need(kind=Prerequisite.NOTHING_RAISES, setting=CUBLAS_VARIABLE, changes=changes))
            if refused:
                needs.append(Need(kind=Prerequisite.NOTHING_RAISES, changes=refused))
        yield tuple(needs)


#: Modules that the plan's own lines speak of by name.
_SPOKEN_OF = ("os", "random", "numpy", "torch")


def importing_once(codes: Iterable[str]) -> Iterator[str]:
    """``codes`` with missing imports added, and without imports that an earlier one has.

    Code that is not Python, such as a shell's ``export``, and other forms than ``import name`` are left unchanged.
    """
    imported: set[str] = set()
    for code in codes:
        try:
            tree = ast.parse(code)
        except SyntaxError:
            yield code
            continue
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import)]
        bound = {alias.asname or alias.name.partition(".")[0] for node in imports for alias in node.names}
        plain = {
            node.lineno: node.names[0].name
            for node in tree.body
            if isinstance(node, ast.Import) and len(node.names) == 1 and node.names[0].asname is None
        }
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        lacking = [f"import {name}" for name in _SPOKEN_OF if name in used - bound - imported]
        lines = [line for number, line in enumerate(code.splitlines(), 1) if plain.get(number) not in imported]
        rest = "\n".join(lines).strip()
        between = "\n" if rest.startswith(("import ", "from ")) else "\n\n"
        yield "\n".join(lacking) + between + rest if lacking else rest
        imported |= (used & set(_SPOKEN_OF)) | set(plain.values())
