"""A gate: which findings of a judgement stop a pull request, and which were deselected, silenced or accepted."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from tracer.errors import UsageError, reason_of
from tracer.files import read_text, toml_values
from tracer.findings import Acceptance, Finding
from tracer.gate.baseline import Accepted, BaselineComparison, Risk, compare, file_of, risk_of
from tracer.names import AcceptedBy, Verdict

Item = TypeVar("Item")
#: What ``--fail-on`` takes beside verdicts: any finding that no baseline accepts, whatever its verdict.
NEW = "new"
#: Verdicts that stop by default.
DEFAULT_FAIL_ON = (Verdict.RAISES, Verdict.NONDETERMINISTIC)


class Gate(NamedTuple):
    """The conditions on which a gate fails."""

    verdicts: frozenset[Verdict] = frozenset(DEFAULT_FAIL_ON)
    """Verdicts that stop, unless the baseline accepts the finding."""
    new: bool = False
    """Whether every finding stops that the baseline does not accept."""
    select: tuple[str, ...] = ()
    """Globs of rules, ops, modules or files to look at; empty: all."""
    ignore: tuple[str, ...] = ()
    """Globs of those to pass over."""


class Decision(NamedTuple):
    """The gate's decision on every finding."""

    failing: tuple[Finding, ...]
    """The findings that fail the gate, worst first."""
    passing: tuple[Finding, ...]
    """Found, and let through by the gate's verdicts."""
    ignored: tuple[Finding, ...]
    """Chosen out by ``select`` or ``ignore``."""
    silenced: tuple[Finding, ...]
    """A comment on their line speaks for them."""
    compared: BaselineComparison
    """The rest against the baseline."""
    unlooked: tuple[Accepted, ...] = ()
    """Lines of the baseline about what was chosen out: nothing can be said of them."""


def parse_fail_on(text: str) -> tuple[frozenset[Verdict], bool]:
    """``raises,nondeterministic,new`` as verdicts and whether new findings stop; ``UsageError`` for another word."""
    words = [word.strip().lower() for word in text.split(",") if word.strip()]
    choices = [*(verdict.value for verdict in Verdict if verdict is not Verdict.DETERMINISTIC), NEW]
    hint = f"choose from {', '.join(choices)}"
    for word in words:
        if word not in choices:
            raise UsageError(f"--fail-on: there is no verdict {word!r}", hint=hint)
    if not words:
        raise UsageError("--fail-on names nothing", hint=hint)
    return frozenset(Verdict(word) for word in words if word != NEW), NEW in words


def decide(
    findings: Sequence[Finding],
    gate: Gate,
    *,
    accepted: Iterable[Accepted] = (),
    is_silenced: Callable[[Finding], bool] = lambda finding: False,
    today: datetime.date,
) -> Decision:
    """Put each of ``findings`` through ``gate``; ``accepted`` is the baseline, as of ``today``."""
    selected, ignored = _parted(findings, lambda finding: _is_named(names_of(finding), gate))
    silenced, judged = _parted(selected, is_silenced)
    looked_at, passed_over = set(map(risk_of, selected)), set(map(risk_of, ignored))

    def is_passed_over(risk: Risk) -> bool:
        return risk in passed_over or not _is_named(_names(risk, risk.file), gate)

    unlooked, lines = _parted(accepted, lambda line: line.risk not in looked_at and is_passed_over(line.risk))
    compared = compare(judged, lines, today)
    accepted_ids = set(map(id, compared.accepted))
    unaccepted = (finding for finding in judged if id(finding) not in accepted_ids)
    failing, passing = _parted(unaccepted, lambda finding: gate.new or finding.verdict in gate.verdicts)
    return Decision(failing, passing, ignored, silenced, compared, unlooked)


def _parted(items: Iterable[Item], is_first: Callable[[Item], bool]) -> tuple[tuple[Item, ...], tuple[Item, ...]]:
    """``items`` for which ``is_first`` holds, and the others."""
    parts: tuple[list[Item], list[Item]] = ([], [])
    for item in items:
        parts[not is_first(item)].append(item)
    return tuple(parts[0]), tuple(parts[1])


def acceptances(
    findings: Sequence[Finding],
    decision: Decision,
    accepted: Iterable[Accepted] = (),
    reason_at: Callable[[Finding], str] = lambda finding: "",
) -> tuple[Acceptance, ...]:
    """Return which of ``findings`` the ``decision`` accepts, and why, in their order: ``accepted`` is the baseline,
    ``reason_at`` gives the reasons of comments in the code."""
    reasons = {line.risk: line.reason for line in accepted}
    places = {id(finding): place for place, finding in enumerate(findings)}
    by_group: tuple[tuple[AcceptedBy, tuple[Finding, ...], Callable[[Finding], str]], ...] = (
        (AcceptedBy.BASELINE, decision.compared.accepted, lambda finding: reasons.get(risk_of(finding), "")),
        (AcceptedBy.COMMENT, decision.silenced, reason_at),
        (AcceptedBy.SELECTION, decision.ignored, lambda finding: ""),
    )
    spoken = [(finding, by, reason) for by, group, reason in by_group for finding in group if id(finding) in places]
    spoken.sort(key=lambda accepted: places[id(accepted[0])])
    return tuple(Acceptance(finding=places[id(f)], by=by, reason=reason(f)) for f, by, reason in spoken)


def places_of(findings: Sequence[Finding], some: Iterable[Finding]) -> frozenset[int]:
    """Return the positions of ``some`` among ``findings``, from 0."""
    wanted = set(map(id, some))
    return frozenset(place for place, finding in enumerate(findings) if id(finding) in wanted)


def names_of(finding: Finding) -> tuple[str, ...]:
    """Return the names that a glob may match: rule, op (with and without overload), module, and files."""
    return _names(finding, file_of(finding.location), file_of(finding.called_from))


def _names(named: Finding | Risk, *files: str) -> tuple[str, ...]:
    return tuple(filter(None, (named.rule, named.op, named.op.rpartition(".")[0], named.module, *files)))


def _is_named(names: Sequence[str], gate: Gate) -> bool:
    """Return whether some glob of ``select`` names it (or there is none), and none of ``ignore``."""
    selected, ignored = (
        any(fnmatchcase(name, glob) for glob in globs for name in names) for globs in (gate.select, gate.ignore)
    )
    return (selected or not gate.select) and not ignored


# --- ``[tool.tracer]`` in ``pyproject.toml`` ---------------------------------------------------------------

FILE = "pyproject.toml"


class Configuration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """Options by their names on the command line, which go before these."""

    backend: str = "recorded"
    torch: str = "recorded"
    settings: str = "recorded"
    strict: bool = False
    fail_on: tuple[str, ...] = ()
    """Verdicts, and ``new``; empty: the default of ``tracer check``."""
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    host: tuple[str, ...] = ()
    """Globs of what runs on the host whatever the backend; see ``judge``."""
    allow_no_training: bool = False
    require_training: bool = False
    baseline: str = ""
    """Path of the lock file, relative to ``pyproject.toml``."""


def load_configuration(folder: Path) -> Configuration:
    """The table in ``folder``'s ``pyproject.toml``; defaults where either is missing. Raises ``UsageError`` in one line
    for a key or a value that does not exist."""
    path = folder / FILE
    try:
        text = read_text(path)
    except FileNotFoundError:
        return Configuration()
    except (OSError, ValueError) as problem:
        raise UsageError(f"cannot read {FILE}: {reason_of(problem)}", hint="check the file") from problem
    try:
        tools = toml_values(text).get("tool", {})
        table = tools.get("tracer", {}) if isinstance(tools, dict) else {}
        return msgspec.convert(table, Configuration, strict=True)
    except (ValueError, RecursionError) as problem:
        keys = ", ".join(field.encode_name for field in msgspec.structs.fields(Configuration))
        raise UsageError(f"{FILE}, [tool.tracer]: {problem}", hint=f"it takes {keys}") from problem
