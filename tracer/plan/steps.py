"""Which kind of change closes a finding."""

from __future__ import annotations

from enum import IntEnum

from tracer.findings import Finding, Target
from tracer.names import About, Cause, DeterministicMode, GeneratorKind, SeedOrigin, Verdict
from tracer.tables.settings.declared import DECLARED, MODE, SEEDS, Place
from tracer.trace.records import ORIGIN, SEEDED_AT, kind_drawn_from


class Step(IntEnum):
    """What closes a finding, in the order in which the plan names them: settings as they are declared."""

    MODE = Place.MODE
    WORKSPACE = Place.WORKSPACE
    AUTOTUNE = Place.AUTOTUNE
    SETTING = Place.OTHER
    """Another setting or variable."""
    LOADING = 5
    """Data loading."""
    SEED = 6
    LATE = 7
    """A line to move: it stands too late, or in the middle."""
    RAISES = 8
    MEMORY = 9
    """Memory that is read unwritten or overlaps."""
    NOT_FIXED = 10
    UNKNOWN = 11
    NOTHING = 12
    """Nothing is to be done: it draws from a generator that repeats."""


#: The step of a planned setting, by its name; ``SETTING`` for others.
STEP_OF_SETTING = {
    **{setting.key: Step(setting.place) for setting in DECLARED if setting.place is not Place.OTHER},
    **dict.fromkeys(SEEDS, Step.SEED),
}
#: Which of the settings that a finding needs is the one that closes it: the one that fewest others share.
_CLOSES_FIRST = (Step.SETTING, Step.AUTOTUNE, Step.WORKSPACE, Step.SEED, Step.MODE)

_AT_RISK = (Verdict.NONDETERMINISTIC, Verdict.CONDITIONAL)
_GOOD = (Verdict.DETERMINISTIC, Verdict.SEEDED)
_LEFT_TO_CHANCE = (SeedOrigin.MACHINE, SeedOrigin.UNSEEN)


def step_of(finding: Finding, target: Target) -> Step:
    """The one kind of change that closes ``finding``."""
    of_process = finding.about in (About.LOADER, About.CHANGED, About.GENERATOR)
    if of_process and _hangs_on_a_seed(finding) and finding.facts.get("origin") not in _LEFT_TO_CHANCE:
        return Step.NOTHING
    if finding.about is About.LOADER and not is_settled(finding):
        return Step.LOADING
    if finding.about in (About.LATE, About.CHANGED):
        return Step.LATE
    if is_settled(finding):
        names = {STEP_OF_SETTING.get(name, Step.SETTING) for name in finding.sets}
        return next((step for step in _CLOSES_FIRST if step in names), Step.MODE)
    if finding.about in (About.MEMORY, About.OVERLAP) or (
        finding.cause is Cause.UNINITIALIZED_MEMORY and finding.verdict in _AT_RISK
    ):
        return Step.MEMORY
    passed = kind_drawn_from(finding.facts) is GeneratorKind.PASSED and finding.facts.get(ORIGIN) in _LEFT_TO_CHANCE
    # A generator of the program's that is not known to repeat, or a line of its own that leaves one to the machine.
    if finding.about is About.GENERATOR or passed or seeded_by_line(finding):
        return Step.SEED if finding.verdict is not Verdict.UNKNOWN else Step.UNKNOWN
    verdicts = (finding.verdict,) if is_mode_on(target) else (finding.verdict, finding.deterministic_mode)
    if Verdict.RAISES in verdicts:
        return Step.RAISES
    if any(verdict in _AT_RISK for verdict in verdicts):
        return Step.NOT_FIXED
    return Step.UNKNOWN if Verdict.UNKNOWN in verdicts else Step.NOTHING


def seeded_by_line(finding: Finding) -> str:
    """The program's own line that leaves to the machine what ``finding`` draws from; a seed before it is undone."""
    if finding.about is About.CALL and finding.facts.get(ORIGIN) == SeedOrigin.MACHINE.value:
        return str(finding.facts.get(SEEDED_AT, ""))
    is_seed = finding.about is About.GENERATOR and finding.facts.get("seed.number", "none") != "none"
    return finding.location if is_seed else ""


def is_settled(finding: Finding) -> bool:
    """Do the planned settings and seeds leave nothing of ``finding`` to do?

    Of unwritten memory they leave everything: deterministic mode fills it, with NaN where there is one, and runs agree
    on a wrong result.
    """
    if finding.cause is Cause.UNINITIALIZED_MEMORY and finding.verdict not in _GOOD:
        return False
    if finding.planned is None:
        # Seeding does not change that the result hangs on a seed.
        return _hangs_on_a_seed(finding) and any(name.startswith("seed.") for name in finding.sets)
    as_is, in_mode = finding.planned
    return as_is in _GOOD and (in_mode in _GOOD or finding.verdict not in _GOOD)


def _hangs_on_a_seed(finding: Finding) -> bool:
    return {finding.verdict, finding.deterministic_mode} <= set(_GOOD)


def is_mode_on(target: Target) -> bool:
    """Does ``target`` have ``torch.use_deterministic_algorithms(True)`` switched on already?"""
    return target.conditions.get(MODE) == DeterministicMode.ON.value


def name_of(op: str) -> str:
    """``op`` as people write it: without the ``.default`` that torch prints behind a sole overload."""
    return op.removesuffix(".default")


def place_of(finding: Finding) -> str:
    """Where ``finding`` is, as precisely as the trace knows."""
    led_here = f"called from {finding.called_from}" if finding.called_from else ""
    if finding.location:
        return f"{finding.location} ({led_here})" if led_here else finding.location
    if led_here:
        return led_here
    if finding.about is not About.CALL:
        return "the whole process"
    return f"in module {finding.module}" if finding.module else "place not recorded"
