"""A gate: which findings of a judgement stop a pull request, and which were deselected, silenced or accepted.

The baseline is a lock file that people review: a line accepts a rule at one op, phase, module, file and function, up to
a verdict; no line numbers or counts.
"""

from __future__ import annotations

import ast
import datetime
import glob
import hashlib
import io
import os
import re
import tokenize
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from tracer.errors import BaselineError, UsageError, reason_of
from tracer.files import read_text, toml_values, write_whole
from tracer.findings import Acceptance, Finding, Judgement, Target
from tracer.names import SAFE, SEVERITY, AcceptedBy, Verdict, Word
from tracer.ops import spoken
from tracer.tables.versions import speaks_of
from tracer.trace.differences import SettingDifference, differing_settings
from tracer.trace.records import CallGroup, Draw, split_place

#: The lock file's first line; the number is its format's.
HEADER = "# determinism.lock 1: findings that were looked at and accepted, one a line, sorted."
COLUMNS = ("rule", "op", "phase", "module", "file", "function", "verdict", "until", "reason")
LEGEND = f"# {' | '.join(COLUMNS)}"
#: What `--update-baseline` writes for a finding that nobody has spoken about yet.
NO_REASON = "not reviewed"


class Risk(NamedTuple):
    """An accepted or present risk, without anything that changes when code moves."""

    rule: str
    op: str
    phase: str
    module: str
    file: str
    """Path of the file that the op was called in, relative as in the trace; empty where no line is known."""
    function: str

    @property
    def fingerprint(self) -> str:
        """Thirty-two hexadecimal digits that stay while the risk does."""
        return hashlib.sha256("\0".join(self).encode("utf-8")).hexdigest()[:32]


class Accepted(NamedTuple):
    risk: Risk
    verdict: Verdict
    """The worst verdict that is accepted."""
    until: datetime.date | None = None
    """The day from which it is accepted no longer."""
    reason: str = NO_REASON
    line: int = 0
    """Its line in the file, from 1."""


class BaselineComparison(NamedTuple):
    """A judgement's findings against a baseline: each finding is in one of the first four."""

    accepted: tuple[Finding, ...]
    """Accepted, and no worse than was accepted."""
    new: tuple[Finding, ...]
    worsened: tuple[Finding, ...]
    """Accepted with a better verdict than they have now."""
    expired: tuple[Finding, ...]
    """Accepted until a day that has come."""
    fixed: tuple[Accepted, ...]
    """Accepted, and found no longer: stale lines."""


def risk_of(finding: Finding) -> Risk:
    """Return the risk of ``finding``, whatever its line and count."""
    what, file = finding.op or finding.name or finding.subject, file_of(finding.location)
    cells = (finding.rule, what, finding.phase.value, finding.module, file, finding.function)
    # A file's name may hold what no text file can: it becomes a question mark here as in the lock file.
    return Risk(*(cell.encode("utf-8", "replace").decode("utf-8") for cell in cells))


def file_of(location: str) -> str:
    """``train.py:10`` without its line."""
    return split_place(location)[0]


def compare(findings: Iterable[Finding], accepted: Iterable[Accepted], today: datetime.date) -> BaselineComparison:
    """Hold ``findings`` against what was ``accepted``, as of ``today``."""
    lines = {line.risk: line for line in accepted}
    still_accepted, new, worsened, expired = [], [], [], []
    met = set()
    for finding in findings:
        risk = risk_of(finding)
        line = lines.get(risk)
        met.add(risk)
        if line is None:
            new.append(finding)
        elif line.until is not None and line.until <= today:
            expired.append(finding)
        elif SEVERITY.index(finding.verdict) < SEVERITY.index(line.verdict):
            worsened.append(finding)
        else:
            still_accepted.append(finding)
    fixed = tuple(line for risk, line in lines.items() if risk not in met)
    return BaselineComparison(tuple(still_accepted), tuple(new), tuple(worsened), tuple(expired), fixed)


def updated(findings: Iterable[Finding], accepted: Iterable[Accepted]) -> tuple[Accepted, ...]:
    """The baseline that accepts every one of ``findings``: reasons and days of the lines that stay are kept."""
    lines = {line.risk: line for line in accepted}
    worst: dict[Risk, Verdict] = {}
    for finding in findings:
        risk = risk_of(finding)
        worst[risk] = min(worst.get(risk, finding.verdict), finding.verdict, key=SEVERITY.index)
    return tuple(lines.get(risk, Accepted(risk, worst[risk]))._replace(verdict=worst[risk]) for risk in sorted(worst))


def read_baseline(path: str | os.PathLike[str]) -> tuple[Accepted, ...]:
    """Read a lock file; ``BaselineError`` in one line, with the line's number, for what is none."""
    try:
        text = read_text(path)
    except FileNotFoundError as problem:
        hint = "write it with --update-baseline"
        raise BaselineError(f"there is no baseline {os.fspath(path)}", hint=hint) from problem
    except (OSError, ValueError) as problem:
        raise BaselineError(f"cannot read {os.fspath(path)}: {reason_of(problem)}", hint="check the file") from problem
    return parse_baseline(text, os.fspath(path))


def parse_baseline(text: str, source: str) -> tuple[Accepted, ...]:
    """The lines of a lock file's ``text``; ``source`` names it in errors."""
    lines = text.split("\n")
    if lines[0].strip() != HEADER:
        hint = "write it with --update-baseline; a newer release may have written this one"
        raise BaselineError(f"{source} is no baseline of this release: its first line is not its header", hint=hint)
    accepted: dict[Risk, Accepted] = {}
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.startswith("#"):
            where, cells = f"{source}:{number}", _split(line)
            if len(cells) != len(COLUMNS):
                raise BaselineError(f"{where} has {len(cells)} columns in place of {len(COLUMNS)}", hint=LEGEND[2:])
            *risk, verdict, until, reason = cells
            if verdict not in SEVERITY:
                hint = f"choose one of {', '.join(SEVERITY)}"
                raise BaselineError(f"{where}: there is no verdict {verdict!r}", hint=hint)
            try:
                day = datetime.date.fromisoformat(until) if until else None
            except ValueError as problem:
                hint = "write it as 2027-01-31, or leave it empty"
                raise BaselineError(f"{where}: {until!r} is no day", hint=hint) from problem
            entry = Accepted(Risk(*risk), Verdict(verdict), day, reason, number)
            if (earlier := accepted.setdefault(entry.risk, entry)) is not entry:
                raise BaselineError(f"{where} accepts what line {earlier.line} accepts", hint="drop one")
    return tuple(accepted.values())


def format_baseline(accepted: Iterable[Accepted]) -> str:
    """The lock file's text, sorted; the same findings give the same bytes."""
    lines = [HEADER, LEGEND]
    for entry in sorted(accepted, key=lambda line: line.risk):
        until = entry.until.isoformat() if entry.until else ""
        lines.append(" | ".join(map(_escape, (*entry.risk, entry.verdict.value, until, entry.reason))))
    return "\n".join(lines) + "\n"


def write_baseline(path: str | os.PathLike[str], accepted: Iterable[Accepted]) -> None:
    write_whole(path, format_baseline(accepted).encode("utf-8"), error=BaselineError)


_ESCAPES = str.maketrans({"\\": "\\\\", "|": "\\|", "\n": "\\n", "\r": "\\r"})
_CELL = re.compile(r"(?:^|\|)((?:\\.?|[^\\|])*)", re.DOTALL)
_ESCAPED = re.compile(r"\\(.?)", re.DOTALL)
_MEANINGS: Mapping[str, str] = {"n": "\n", "r": "\r", "s": " "}


def _escape(cell: str) -> str:
    """``cell`` on one line, bars escaped; spaces at its ends are spelt out, for those around a bar do not count."""
    return re.sub("^ +| +$", lambda spaces: "\\s" * len(spaces[0]), cell.translate(_ESCAPES))


def _split(line: str) -> list[str]:
    """Cells between bars; a backslash takes the next character for itself."""
    cells = (cell.strip(" ") for cell in _CELL.findall(line))
    return [_ESCAPED.sub(lambda match: _MEANINGS.get(match[1], match[1]), cell) for cell in cells]


# --- the gate ---


ItemT = TypeVar("ItemT")
#: What ``--fail-on`` takes beside verdicts: any finding that no baseline accepts, whatever its verdict.
NEW = "new"
#: Verdicts that stop by default.
DEFAULT_FAIL_ON = (Verdict.RAISES, Verdict.NONDETERMINISTIC)


class Gate(NamedTuple):
    verdicts: frozenset[Verdict] = frozenset(DEFAULT_FAIL_ON)
    """Verdicts that stop, unless the baseline accepts the finding."""
    new: bool = False
    """Whether every finding stops that the baseline does not accept."""
    select: tuple[str, ...] = ()
    """Globs of rules, ops, modules or files to look at; empty: all."""
    ignore: tuple[str, ...] = ()
    """Globs of those to pass over."""

    def looks_at(self, named: Finding | Risk, *files: str) -> bool:
        """Return whether a glob of ``select`` (or there is none), and none of ``ignore``, matches its rule, its op with
        or without overload, its module or one of ``files``."""
        names = [*filter(None, (named.rule, named.op, named.op.rpartition(".")[0], named.module, *files))]
        selected, ignored = (
            any(fnmatchcase(name, glob) for glob in globs for name in names) for globs in (self.select, self.ignore)
        )
        return (selected or not self.select) and not ignored


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
    unlooked: tuple[Accepted, ...]
    """Lines of the baseline about what was chosen out: nothing can be said of them."""
    reasons: Mapping[int, tuple[AcceptedBy, str]]
    """By the ``id`` of a finding that is let through: by what, and the reason that stands there."""

    def acceptances(self, findings: Sequence[Finding]) -> tuple[Acceptance, ...]:
        """Return which of ``findings`` are let through, and why, in their order."""
        return tuple(
            Acceptance(finding=place, by=self.reasons[id(finding)][0], reason=self.reasons[id(finding)][1])
            for place, finding in enumerate(findings)
            if id(finding) in self.reasons
        )


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
    reason_for: Callable[[Finding], str | None] = lambda finding: None,
    today: datetime.date,
) -> Decision:
    """Put each of ``findings`` through ``gate``; ``accepted`` is the baseline, as of ``today``, and
    ``reason_for`` gives the reason of the comment in the code that silences a finding."""
    selected, ignored = _parted(
        findings, lambda finding: gate.looks_at(finding, file_of(finding.location), file_of(finding.called_from))
    )
    reasons = {id(finding): (AcceptedBy.SELECTION, "") for finding in ignored}
    for finding in selected:
        if (reason := reason_for(finding)) is not None:
            reasons[id(finding)] = AcceptedBy.COMMENT, reason
    silenced, judged = _parted(selected, lambda finding: id(finding) in reasons)
    looked_at, passed_over = set(map(risk_of, selected)), set(map(risk_of, ignored))
    lines, unlooked = _parted(
        accepted,
        lambda line: (
            line.risk in looked_at or (line.risk not in passed_over and gate.looks_at(line.risk, line.risk.file))
        ),
    )
    compared = compare(judged, lines, today)
    baseline = {line.risk: line.reason for line in lines}
    reasons |= {id(finding): (AcceptedBy.BASELINE, baseline[risk_of(finding)]) for finding in compared.accepted}
    unaccepted = (finding for finding in judged if id(finding) not in reasons)
    failing, passing = _parted(unaccepted, lambda finding: gate.new or finding.verdict in gate.verdicts)
    return Decision(failing, passing, ignored, silenced, compared, unlooked, reasons)


def _parted(items: Iterable[ItemT], is_first: Callable[[ItemT], bool]) -> tuple[tuple[ItemT, ...], tuple[ItemT, ...]]:
    parts: tuple[list[ItemT], list[ItemT]] = ([], [])
    for item in items:
        parts[not is_first(item)].append(item)
    return tuple(parts[0]), tuple(parts[1])


# --- ``[tool.tracer]`` in ``pyproject.toml`` ---------------------------------------------------------------

FILE = "pyproject.toml"


class ConfiguredOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
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


def load_configuration(folder: Path) -> ConfiguredOptions:
    """The table in ``folder``'s ``pyproject.toml``; defaults where either is missing. Raises ``UsageError`` in one line
    for a key or a value that does not exist."""
    path = folder / FILE
    try:
        text = read_text(path)
    except FileNotFoundError:
        return ConfiguredOptions()
    except (OSError, ValueError) as problem:
        raise UsageError(f"cannot read {FILE}: {reason_of(problem)}", hint="check the file") from problem
    try:
        tools = toml_values(text).get("tool", {})
        table = tools.get("tracer", {}) if isinstance(tools, dict) else {}
        return msgspec.convert(table, ConfiguredOptions, strict=True)
    except (ValueError, RecursionError) as problem:
        keys = ", ".join(field.encode_name for field in msgspec.structs.fields(ConfiguredOptions))
        raise UsageError(f"{FILE}, [tool.tracer]: {problem}", hint=f"it takes {keys}") from problem


# --- comments in the user's code: ``# tracer: ignore[rule] reason`` speaks for a finding, ``# tracer: host`` says that
# --- the line's calls run on the host; at the end of a statement over several lines a comment counts for all of these

_HOST = re.compile(r"#\s*tracer:\s*host\b")
_COMMENT = re.compile(r"#\s*tracer:\s*ignore\[([^\]]*)\]\s*(.*)$")


def host_lines(calls: Iterable[CallGroup], root: Path) -> tuple[str, ...]:
    """The lines of ``calls`` that a comment names as the host's, as ``judge(..., host=...)`` takes them."""
    comments = Suppressions(root)
    lines = dict.fromkeys(place for group in calls for place in (group.location, group.called_from) if place)
    return tuple(glob.escape(place) for place in lines if any(_HOST.search(line) for line in comments.lines_at(place)))


class Suppressions:
    """The comments at the lines that findings name, below ``root``; each file is read once."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()
        self._files: dict[str, Mapping[int, tuple[str, ...]]] = {}

    def reason_for(self, finding: Finding) -> str | None:
        """The reason in the comment at the finding's line, or at the user's line that led to it, that names its rule;
        ``None`` where there is no such comment."""
        for line in (*self.lines_at(finding.location), *self.lines_at(finding.called_from)):
            comment = _COMMENT.search(line)
            if comment and any(fnmatchcase(finding.rule, rule.strip()) for rule in comment[1].split(",")):
                return comment[2].strip()
        return None

    def lines_at(self, location: str) -> tuple[str, ...]:
        """The comments that speak for the line ``location``."""
        path, number = split_place(location)
        return self._speaking_for(path).get(number, ()) if number is not None else ()

    def _speaking_for(self, path: str) -> Mapping[int, tuple[str, ...]]:
        """The file's comments by the lines that they speak for; none where it is not below the root, or is no text."""
        if path not in self._files:
            try:
                file = (self._root / path).resolve()
                text = read_text(file, encoding="utf-8-sig") if file.is_relative_to(self._root) else ""
            except (OSError, ValueError, RuntimeError):  # the last: links in a circle, on Python 3.12 and older
                text = ""
            self._files[path] = _by_line(text)
        return self._files[path]


def _by_line(text: str) -> Mapping[int, tuple[str, ...]]:
    lines = enumerate(text.split("\n"), 1)
    comments = {number: line for number, line in lines if _COMMENT.search(line) or _HOST.search(line)}
    if not comments:
        return {}
    speaking = {number: (line,) for number, line in comments.items()}
    try:
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        comments = {token.start[0]: token.string for token in tokens if token.type == tokenize.COMMENT}
        statements = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.stmt)]
    except (SyntaxError, ValueError, RecursionError, MemoryError, tokenize.TokenError):
        return speaking  # a notebook's cell, or another Python's file: its lines must do
    speaking = {number: (comment,) for number, comment in comments.items()}
    for statement in statements:
        first, last = statement.lineno, statement.end_lineno or statement.lineno
        if first < last and last in comments and not hasattr(statement, "body") and not hasattr(statement, "cases"):
            for number in range(first, last):
                speaking[number] = (*speaking.get(number, ()), comments[last])
    return speaking


# --- what changed between two judgements: two traces, or one trace for two targets; findings are matched by op, phase,
# --- module, file and function, never by rule: other backends have other rules


class ChangeKind(Word):
    """The kinds of changes of a finding, worst first."""

    NEW = "new"
    WORSENED = "worsened"
    MODE_WORSENED = "worse under deterministic mode"
    IMPROVED = "improved"
    GONE = "gone"
    RECOUNTED = "other count"


class Difference(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One finding that is not the same before and after."""

    kind: ChangeKind
    op: str
    """The op, or what of the process it speaks of."""
    phase: str
    module: str = ""
    place: str = ""
    """``path:line`` as it is after, or was before."""
    before: Verdict | None = None
    """``None``: it was not found."""
    after: Verdict | None = None
    mode_before: Verdict | None = None
    mode_after: Verdict | None = None
    calls_before: int = 0
    calls_after: int = 0
    rule: str = ""
    """The rule after, or before where it is gone."""
    why: str = ""
    remedy: str = ""


class GateComparison(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Two judgements side by side."""

    before: Target
    after: Target
    differences: tuple[Difference, ...] = ()
    """Worst first."""
    same: int = 0
    """Findings that are the same in both, but for draws that repeat: what a report of the later counts."""
    settings: tuple[SettingDifference, ...] = ()
    tally_before: dict[Verdict, int] = {}
    tally_after: dict[Verdict, int] = {}
    draws: tuple[str, ...] = ()
    """The differences of random draws: of their ledgers, a sentence a generator, and of the two versions of torch."""


def compare_judgements(
    before: Judgement,
    after: Judgement,
    draws: Iterable[tuple[str, int, Draw | None]] = (),
    redrawn: Iterable[tuple[str, str]] = (),
) -> GateComparison:
    """Compare ``after`` with ``before``.

    ``draws``: by generator, how many ``after`` is ahead, and where first; ``redrawn``: ops of ``after``, each with the
    release of torch since which one seed gives it other numbers.
    """
    torches = (before.target.torch, after.target.torch)
    changed = {
        op: since
        for op, since in redrawn
        if since and len({speaks_of(f">={since}", torch) for torch in torches}) > 1  # it lies between them
    }
    alike = defaultdict[tuple[str, ...], tuple[list[Finding], list[Finding]]](lambda: ([], []))
    for side, judgement in enumerate((before, after)):
        for finding in judgement.findings:
            alike[risk_of(finding)[1:]][side].append(finding)
    differences = []
    same = 0
    for ours, theirs in alike.values():
        if (difference := _difference(ours, theirs)) is not None:
            differences.append(difference)
        else:
            same += sum(not {finding.verdict, finding.deterministic_mode} <= SAFE for finding in theirs)
    sentences = []
    for generator, ahead, place in draws:
        where = f", first at {place.location or place.module or place.op} ({place.op})" if place is not None else ""
        more = f"{abs(ahead):,} draws {'more' if ahead > 0 else 'fewer'}" if ahead else "as many draws, at other places"
        sentences.append(f"{generator}: {more}{where}")
    sentences += (f"{op}: other numbers from one seed since torch {since}" for op, since in sorted(changed.items()))
    return GateComparison(
        before=before.target,
        after=after.target,
        differences=tuple(sorted(differences, key=_order)),
        same=same,
        settings=tuple(differing_settings((before.trace.environment, after.trace.environment))),
        tally_before=before.tally.as_is,
        tally_after=after.tally.as_is,
        draws=tuple(sentences),
    )


def _difference(before: Sequence[Finding], after: Sequence[Finding]) -> Difference | None:
    """What changed of findings that are matched: on each side the worst verdicts and all calls count."""
    verdicts: Sequence[Any]
    modes: Sequence[Any]
    verdicts, modes = (
        [
            min((getattr(finding, name) for finding in side), key=SEVERITY.index, default=None)
            for side in (before, after)
        ]
        for name in ("verdict", "deterministic_mode")
    )
    calls = [sum(finding.count for finding in side) for side in (before, after)]
    kind = ChangeKind.RECOUNTED
    if not (before and after):
        kind = ChangeKind.GONE if before else ChangeKind.NEW
    elif verdicts[0] is not verdicts[1]:
        kind = ChangeKind.WORSENED if min(verdicts, key=SEVERITY.index) is verdicts[1] else ChangeKind.IMPROVED
    elif modes[0] is not modes[1]:
        kind = ChangeKind.MODE_WORSENED if min(modes, key=SEVERITY.index) is modes[1] else ChangeKind.IMPROVED
    elif calls[0] == calls[1]:
        return None
    finding = (after or before)[0]
    return Difference(
        kind=kind,
        op=spoken(finding.op, finding.runs_as) or finding.subject,
        phase=finding.phase.value,
        module=finding.module,
        place=finding.location or finding.called_from,
        before=verdicts[0],
        after=verdicts[1],
        mode_before=modes[0],
        mode_after=modes[1],
        calls_before=calls[0],
        calls_after=calls[1],
        rule=finding.rule,
        why=finding.why,
        remedy=finding.remedy,
    )


def _order(difference: Difference) -> tuple[object, ...]:
    verdict = difference.after or difference.before or Verdict.DETERMINISTIC
    calls = difference.calls_after or difference.calls_before
    place = (difference.place, difference.op, difference.phase, difference.module)
    return (list(ChangeKind).index(difference.kind), SEVERITY.index(verdict), -calls, *place)
