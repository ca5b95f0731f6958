"""What a judgement says: findings, the tally, and the target it was made for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import msgspec

from tracer import names
from tracer.trace.file import Trace
from tracer.trace.records import Child, Draw, FactValue, Place, Placed, Tried


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """The evidence of a claim."""

    kind: names.EvidenceKind
    ref: str
    """A page, a source file with function and version, or a measurement file."""

    def __str__(self) -> str:
        return f"{self.kind}: {self.ref}"


class Condition(msgspec.Struct, frozen=True, gc=False):
    """One question of a rule's case, and the answers for which the case holds."""

    asks: str
    """A fact or setting of the tables' vocabulary (``arg.reduction``, ``deterministic_mode``), or ``torch``."""
    holds_for: tuple[FactValue, ...]
    """Its answers, in the vocabulary's order; for ``torch`` the range of versions."""


class Deciding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The cases of its rule that decided a finding's verdicts, each with its conditions; empty if no case decided."""

    as_is: tuple[tuple[Condition, ...], ...] = ()
    deterministic_mode: tuple[tuple[Condition, ...], ...] = ()

    @classmethod
    def joined(cls, several: Iterable[Deciding]) -> Deciding:
        """The cases of all of ``several``, each once."""
        each = tuple(several)
        return cls(
            as_is=tuple(dict.fromkeys(case for one in each for case in one.as_is)),
            deterministic_mode=tuple(dict.fromkeys(case for one in each for case in one.deterministic_mode)),
        )


class Statement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What is said of calls or of a setting: a verdict with and without deterministic mode, and the reason."""

    rule: str
    """The rule's permanent id, ``cuda-index-add``; ``cuda-unlisted`` or ``cuda-opaque`` where no rule covers it."""
    verdict: names.Verdict
    """The verdict for the target's settings."""
    deterministic_mode: names.Verdict
    """The verdict under ``torch.use_deterministic_algorithms(True)``, all else as the target has it."""
    cause: names.Cause | None = None
    """The mechanism; ``None`` where no rule names one."""
    why: str = ""
    """The reason why two runs can differ, in one to three sentences."""
    remedy: str = ""
    """The replacement to write, or the question to ask."""
    needs: tuple[names.Prerequisite, ...] = ()
    """Further conditions for ``remedy`` to work."""
    route: str = ""
    """What runs in the op's stead where the whole step, forward included, runs in deterministic mode."""
    runs_as: str = ""
    """What the op becomes on the target, where that is another op, or a name for it that holds on every device."""
    evidence: tuple[Evidence, ...] = ()
    """The claim's evidence; empty where no rule applies."""
    decided: Deciding = Deciding()
    """The conditions under which the rule's verdicts stand."""
    reason: names.UnknownReason | None = None
    """The reason for an ``unknown`` verdict; ``None`` for any other."""
    reason_detail: str = ""
    """The fact, op or version that ``reason`` speaks of."""
    extrapolated: bool = False
    """The target's torch is newer than the table was reviewed for; the newest reviewed verdict stands."""
    backend: names.Backend = names.Backend.RECORDED
    """The backend whose table was asked."""
    shown: names.Shown | None = None
    """The result that the generated code shows of compiled calls, if that decided the verdict."""
    refuted: names.Verdict | None = None
    """What the table says of calls of which trials showed that it is wrong; ``None`` everywhere else."""

    @property
    def both(self) -> tuple[names.Verdict, names.Verdict]:
        """The verdict under the target's settings, and in deterministic mode."""
        return self.verdict, self.deterministic_mode

    @property
    def is_safe(self) -> bool:
        """Whether it is deterministic with and without deterministic mode, so that there is nothing to report."""
        return self.verdict is self.deterministic_mode is names.Verdict.DETERMINISTIC


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """The target of a judgement."""

    backend: names.Backend
    torch: str
    """A torch version without its local part, ``2.13.0``."""
    settings: names.Settings
    conditions: dict[str, FactValue] = {}
    """Every setting that conditions may read, as this target has it; see ``tables.rules.SETTINGS``."""
    sets: dict[str, FactValue] = {}
    """Settings that were asked for in place of the recorded ones, by name; see ``tables.rows.Row.sets``."""
    host: tuple[str, ...] = ()
    """Globs of files, lines (``path:line``), functions and modules whose calls run on the host whatever the backend."""


class Need(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A further condition for a change of the plan to work."""

    kind: names.Prerequisite
    setting: str = ""
    """The setting that must be made, as ``judge(..., settings=...)`` names it; empty where changes to code must be."""
    changes: tuple[int, ...] = ()
    """Numbers of the plan's changes that make it so; empty where none does, or where it is so already."""
    holds: bool = False
    """Whether it holds already."""


class Finding(Statement, Placed, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A rule, or the lack of one, at one op, phase, module and site."""

    op: str
    """The overload as it was recorded; see ``CallGroup``."""
    phase: names.Phase
    """The phase of the step: forward, backward, recompute, optimizer or other."""
    module: str = ""
    """Module path; empty outside modules."""
    _: ClassVar[Place]
    count: int = 1
    """Number of calls."""
    library: str = ""
    """The package whose line ``location`` is, where the user's own line led there: ``remedy`` edits nothing in it."""
    switch: str = ""
    """The place where that package says so, for a ``remedy`` that turns a switch of it."""
    facts: dict[str, FactValue] = {}
    """The recorded facts of the call that conditions may read."""
    settings: dict[str, FactValue] = {}
    """Settings, by ``Setting.key``, that a block made for these calls otherwise than the target has them."""
    host: names.HostCode | None = None
    """The reason why the call is known to run on the host, and was judged for the CPU; ``None`` if it is not."""
    regions: tuple[str, ...] = ()
    """Ids of the regions that the calls ran in, ``Region.id``; empty for eager calls."""
    kernels: tuple[str, ...] = ()
    """Kernels that they went into: those that show what ``shown`` says, else all; empty for eager calls."""
    node: str = ""
    """Name of the autograd node that made the call, for backward calls."""
    about: names.About = names.About.CALL
    """The subject of the finding: a call, or something of the process that no op shows."""
    subject: str = ""
    """For the process: the setting and its value, the generator, the ``DataLoader``; empty for a call."""
    name: str = ""
    """For the process: what ``subject`` names, without its value or state. Lock files hold it."""
    ops: dict[str, int] = {}
    """For the process: the ops that make it matter, with their calls; ``count`` is the sum, or what was counted."""
    code: str = ""
    """The lines to paste that close it, where there are any."""
    where: str = ""
    """The place where those lines must stand."""
    sets: dict[str, FactValue] = {}
    """The settings that those lines make; for a call, those by which its verdict is as good as settings can make it."""
    planned: tuple[names.Verdict, names.Verdict] | None = None
    """The two verdicts once all of ``Judgement.planned`` is set; ``None`` where that changes neither."""
    may_be_host: bool = False
    """Whether it is set-up code, recorded on a CPU, which mostly stays on the host and varies on the target alone."""
    drops_in_inference: bool = False
    """Whether it drops activations though nothing asks for a gradient: ``model.eval()`` closes it, and no seed does."""
    tried: Tried | None = None
    """What making the calls again showed; ``None`` where nobody asked, or another device is judged."""
    data: dict[names.DataShown, int] = {}
    """Calls by what their data showed; empty where nobody looked."""

    @classmethod
    def of(cls, statement: Statement, **fields: Any) -> Finding:
        """The finding that says what ``statement`` does, unless ``fields`` say otherwise."""
        return cls(**{name: getattr(statement, name) for name in Statement.__struct_fields__} | fields)


class Note(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A setting that makes no two runs differ, and to which other machines or versions would answer otherwise."""

    rule: str
    subject: str
    """The setting and its value."""
    why: str
    remedy: str = ""
    differs: names.Differs = names.Differs.MACHINES
    ops: dict[str, int] = {}
    """Calls that depend on it."""
    evidence: tuple[Evidence, ...] = ()
    backend: names.Backend = names.Backend.RECORDED


class FillCost(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of filling unwritten memory in deterministic mode, and whether the step needs it."""

    calls: int
    """Calls that ``fill_uninitialized_memory`` would fill after."""
    bytes: int
    """Bytes that it would write."""
    reads: int
    """Calls that were seen to read before writing."""
    unfollowed: int
    """Calls whose memory could not be followed."""
    is_on: bool
    """Whether unwritten memory is filled under the target's settings."""


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """Calls by verdict, each counted exactly once in each mapping; findings about the process are none."""

    as_is: dict[names.Verdict, int]
    """Under the target's settings."""
    deterministic_mode: dict[names.Verdict, int]
    """Under deterministic mode."""
    by_phase: dict[names.Phase, dict[names.Verdict, int]]
    """Phase to the same, under the target's settings."""
    by_module: dict[str, dict[names.Verdict, int]]
    """Module path, empty for calls outside modules."""

    @property
    def total(self) -> int:
        """All recorded calls."""
        return sum(self.as_is.values())

    def __getitem__(self, verdict: names.Verdict | str) -> int:
        return self.as_is.get(names.Verdict(verdict), 0)


class PlannedChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One numbered step of the plan."""

    number: int
    title: str
    """The action, an imperative sentence without its full stop."""
    remedy: str = ""
    """The way, in the words of the rule that asks for it; empty where the title says all."""
    code: str = ""
    """Ready to paste, where there is a line to paste."""
    where: str = ""
    """Its place, or the site that it is about."""
    closes: int = 0
    """Findings that the change closes."""
    calls: int = 0
    """Calls behind those findings, each once: findings about the process repeat those of calls."""
    seen: int = 0
    """Findings among them at whose calls two runs were seen to part; 0 where no runs were compared."""
    rules: tuple[str, ...] = ()
    findings: tuple[int, ...] = ()
    """Positions in the judgement's findings, from 0, of those that it closes."""
    roots: tuple[int, ...] = ()
    """Roots of runs that diverged that it is the next step for, by their numbers, from 1."""
    sets: dict[str, FactValue] = {}
    """The settings that it makes, as ``judge(..., settings=...)`` takes them; empty for an edit elsewhere."""
    needs: tuple[Need, ...] = ()
    """Further conditions for it to work."""


class SizeBound(msgspec.Struct, frozen=True, kw_only=True):
    """Calls of one op that are deterministic at their sizes, and are not known to be at others."""

    op: str
    why: str
    """How they vary at other sizes."""
    is_settled_by_mode: bool
    """Whether they repeat at every size under deterministic mode."""
    calls: dict[str, int]
    """By line, the user's own where one led there."""


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """A trace held against tables for one target."""

    trace: Trace
    """The judged trace: the environment, the recordings, what could not be seen."""
    target: Target
    findings: tuple[Finding, ...]
    """Worst first; then by calls, most first; then by location and op."""
    tally: Tally
    banners: tuple[str, ...] = ()
    """Warnings for every reader: an extrapolated table, a partial trace, a missing forward link."""
    tables: Mapping[str, str] = {}
    """Tables that were used: backend to the versions of torch that its table was reviewed for."""
    notes: tuple[Note, ...] = ()
    """Settings that matter between machines only."""
    draws: tuple[Draw, ...] = ()
    """The ledger of random draws."""
    fill: FillCost | None = None
    """``None`` where nothing was allocated without being written, or nobody looked."""
    planned: dict[str, FactValue] = {}
    """The settings and seeds that together settle every finding that settings can settle."""
    observed: tuple[Finding, ...] = ()
    """What the tables accuse and the data of this run settle: deterministic for these data alone, and in the tally."""
    meta_calls: int = 0
    """Calls on ``meta`` tensors that computed nothing and would have on a device."""
    nothing_computed: bool = False
    """Whether every call of the step was one of them."""
    at_this_size: tuple[SizeBound, ...] = ()
    """Deterministic calls that at other sizes take other kernels, which may not be; the most called first."""
    unnamed: dict[names.EvidenceKind, int] = {}
    """Deterministic calls of ops that no rule names, by the evidence for them."""
    training: names.Training = names.Training.UNKNOWN
    """Whether the recording holds an optimizer's step."""
    watched_from_start: bool | None = None
    """Whether the process was watched from its start, so that every seed was seen; ``None`` if unknown."""


class Acceptance(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One finding that stands and that somebody accepted."""

    finding: int
    """Position in the judgement's findings, from 0."""
    by: names.AcceptedBy
    reason: str = ""
    """In the words of whoever accepted it."""


class Process(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One of several processes whose recordings were judged together."""

    name: str
    """``main process``, ``child 2``."""
    child: Child | None = None
    """Its start and its end; ``None`` for the process that the user started."""
    findings: tuple[int, ...] = ()
    """Positions of the findings that its own recording shows, from 0."""
