"""Proves a table: each case can be reached, the last takes what is left, no op has two rules, each claim a source."""

from __future__ import annotations

import re
import types
import typing
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import TypeVar

from tracer.facts.fact import Value
from tracer.names import OF_A_RUN, About, Backend, Differs, EventKind, EvidenceKind, Verdict
from tracer.tables.compilers import ITSELF, CompiledRule, CompilerTable
from tracer.tables.conditions import pieces, wanted_values
from tracer.tables.rules import Cased, ClassTable, LibraryTable, Rule, RuleEvidence, Table
from tracer.tables.settings.declared import FORWARD, MODE, SEEDS
from tracer.tables.settings.rows import NARROWING, RESERVED, EnvironmentTable, SettingRow
from tracer.tables.versions import reviewed_releases, speaks_of
from tracer.tables.vocabulary import DOMAINS, PROCESS_FACTS, RECORDED_FACTS, SETTINGS
from tracer.trace.records import Environment

NameType = TypeVar("NameType", bound=Hashable)

_FILE = re.compile(r"[\w/{},-]+\.(cu|cuh|cpp|h|py|mm|metal|yaml|csv|md)\b")
#: Verdicts that a class of ops may have: what varies on one device need not vary on another.
_SAFE = (Verdict.DETERMINISTIC, Verdict.UNKNOWN)
_THREAD = re.compile(r"\b(PR|issue) ([\w.-]+/[\w.-]+)?#\d+\b")
_ROUTE = re.compile(r"(torch(\.[A-Za-z_]\w*)+|aten(\.\w+){1,2})(\([\w=, ]*\))?")
#: A release, or, for a project without releases, a commit.
_VERSION = re.compile(r"\b\d+\.\d+|\bat [0-9a-f]{7,40}\b")


def lint_table(table: Table) -> list[str]:
    """Every fault of a table that loads, one line each; empty if there is none."""
    return [
        *faults_of_rules(str(table.backend), table.reviewed, table.rule),
        *claimed_twice(table.rule),
        *lint_dispatched(table),
    ]


def lint_libraries(table: LibraryTable) -> list[str]:
    """As ``lint_table``, for the rules for libraries: an op may have one rule on each backend."""
    faults = faults_of_rules("libraries", table.reviewed, table.rule)
    for rule in table.rule:
        faults += [f"{rule.id}: {backend} is listed {n} times" for backend, n in repeated(rule.backends)]
        asked = sorted({key for case in rule.case for key in case.when if key in RECORDED_FACTS})
        if asked and any(op.endswith(".*") for op in rule.ops):  # recorded by the op's name, so never for these
            faults.append(f"{rule.id}: asks {' and '.join(asked)} of a whole namespace")
    claimed = (claimed_twice(table.speaking_of(b)) for b in Backend if b is not Backend.RECORDED)
    return [*faults, *dict.fromkeys(fault for faults_there in claimed for fault in faults_there)]


def lint_classes(table: ClassTable) -> list[str]:
    """As ``lint_table``, for classes of ops, whose calls are deterministic or unknown."""
    faults = [*faults_of_rules("classes", table.reviewed, table.rule), *claimed_twice(table.rule)]
    verdicts = ((rule.id, case.verdict) for rule in table.rule for case in rule.case)
    return [*faults, *(f"{id}: a class of ops cannot be {v} on every device" for id, v in verdicts if v not in _SAFE)]


def lint_compiler(table: CompilerTable) -> list[str]:
    """As ``lint_table``, for a compiler's table: the ops that its cases call must be judged by another table."""
    faults = faults_of_rules(table.compiler, table.reviewed, table.rule)
    for backend in table.backends:
        faults += claimed_twice(table.speaking_of(backend))
    return [*faults, *(f"{rule.id}: {fault}" for rule in table.rule for fault in _bad_calls(rule))]


def faults_of_rules(name: str, reviewed: str, rules: tuple[Rule, ...]) -> list[str]:
    """Faults of ``rules``, and duplicate ids; ``name`` leads faults of the file."""
    releases = reviewed_releases(reviewed)
    faults = [] if releases else [f"{name}: `{reviewed}` contains no release of torch"]
    faults += [f"{rule.id}: {fault}" for rule in rules for fault in _faults(rule, releases)]
    return faults + [f"{id}: {n} rules have this id" for id, n in repeated(r.id for r in rules)]


def claimed_twice(rules: tuple[Rule, ...]) -> Iterator[str]:
    """Ops that more than one of ``rules`` names."""
    claims: dict[str, list[str]] = {}
    for rule in rules:
        for op in dict.fromkeys(rule.ops):
            claims.setdefault(op, []).append(rule.id)
    return (f"{op}: claimed by {' and '.join(ids)}" for op, ids in claims.items() if len(ids) > 1)


def _faults(rule: Rule, releases: tuple[str, ...]) -> Iterator[str]:
    yield from empty_fields(rule, "ops")
    yield from incomplete(rule)
    yield from _bad_ops(rule)
    yield from _bad_routes(rule)
    yield from _bad_kernels(rule)
    yield from unreached(rule, releases)


def unreached(rule: Cased, releases: tuple[str, ...]) -> Iterator[str]:
    """Cases that no call comes to, and calls for which no case is left."""
    reached = {id(case) for release in releases for case, _ in pieces(rule.case, release)}
    for number, case in enumerate(rule.case):
        for key in case.when:
            if len(wanted_values(case, key)) == len(DOMAINS[key]):
                yield f"case {number} lists every value of {key}; leave the key out"
        if not any(speaks_of(case.torch, release) for release in releases):
            yield f"case {number} is dead: `{case.torch}` contains no reviewed release"
        elif id(case) not in reached and case is not rule.case[-1]:
            yield f"case {number} can never be reached"
    if rule.case and (rule.case[-1].when or rule.case[-1].torch):
        yield "the last case has conditions: what no other case takes is left without one"


def incomplete(rule: Cased) -> Iterator[str]:
    """Missing fields, and text that is not a sentence."""
    yield from empty_fields(rule, "case", "evidence", "why", "remedy")
    texts = [rule.why, rule.remedy, *(t for case in rule.case for t in (case.why, case.remedy) if t)]
    for text in texts:
        if text.strip() and not is_sentence(text):
            yield f"not a plain sentence: {text!r}"
    yield from bad_references(rule.evidence)


def empty_fields(row: object, *names: str) -> Iterator[str]:
    """Those of the fields ``names`` that are empty or blank."""
    for name in names:
        value = getattr(row, name)
        if not (value.strip() if isinstance(value, str) else value):
            yield f"{name} is empty"


def is_sentence(text: str) -> bool:
    """Return whether ``text`` is one line that ends like a sentence."""
    return bool(text) and text == " ".join(text.split()) and text[-1] in ".`)"


def bad_references(evidence: tuple[RuleEvidence, ...]) -> Iterator[str]:
    """Faults of references that no reader could follow."""
    return (f"evidence {row.ref!r} {fault}" for row in evidence if (fault := _bad_reference(row)))


def _bad_reference(evidence: RuleEvidence) -> str:
    ref = evidence.ref
    if ref != " ".join(ref.split()) or not ref:
        return "is not one line of text"
    if ref.startswith(("/", "~", "..")):
        return "is a path on somebody's machine"
    if evidence.kind in OF_A_RUN:
        return "is evidence from a single run, which a table cannot cite"
    if evidence.kind is EvidenceKind.DISPATCHED and not _VERSION.search(ref):
        return "names no version of the builds"
    pages = (EvidenceKind.DOCUMENTED, EvidenceKind.VENDOR_KERNEL_LIST)
    if evidence.kind in pages and not (_VERSION.search(ref) or _THREAD.search(ref)):
        return "names no version of the page"
    if evidence.kind is EvidenceKind.SOURCE and not (_THREAD.search(ref) or _FILE.search(ref)):
        return "names neither a source file nor a pull request or issue"
    if evidence.kind is EvidenceKind.SOURCE and not (_THREAD.search(ref) or _VERSION.search(ref)):
        return "names no version of the source"
    return ""


def _bad_ops(rule: Rule) -> Iterator[str]:
    yield from (f"{op} is listed {times} times" for op, times in repeated(rule.ops))
    beside = (op for op in rule.ops if op.count(".") == 2 and op.rpartition(".")[0] in rule.ops)
    yield from (f"{op} is listed beside its packet" for op in beside)


def _bad_calls(rule: CompiledRule) -> Iterator[str]:
    """Cases of a compiler's rule that repeat what the called op's table says, or say too little."""
    for number, case in enumerate(rule.case):
        if case.calls and case.verdict is not Verdict.UNKNOWN:
            yield f"case {number} has a verdict and calls {case.calls}, which has a table of its own"
        if not case.calls and case.verdict is Verdict.UNKNOWN and not case.why:
            yield f"case {number} says neither what is called nor why the verdict is unknown"
        if case.facts and case.calls in ("", ITSELF):
            yield f"case {number} has facts, but calls no other op"
        if case.route:
            yield f"case {number} has a route; use `calls` for what runs instead"


def _bad_kernels(rule: Rule) -> Iterator[str]:
    """Kernels of ops that the rule does not name; ops without a kernel if the rule rests on a list of kernels."""
    yield from (f"{op} has a kernel, but the rule does not name the op" for op in rule.kernels if op not in rule.ops)
    if {row.kind for row in rule.evidence} == {EvidenceKind.VENDOR_KERNEL_LIST}:
        yield from (f"{op} rests on a list of kernels, but has no kernel" for op in rule.ops if op not in rule.kernels)


def _bad_routes(rule: Rule) -> Iterator[str]:
    """Routes that are invalid, that no mode takes, or that do not mention a direct call."""
    for number, case in enumerate(rule.case):
        if not case.route:
            continue
        if not _ROUTE.fullmatch(case.route):
            yield f"case {number}: route {case.route!r} is neither a function of torch nor an op"
        if "off" in wanted_values(case, MODE) & wanted_values(case, FORWARD + MODE):
            yield f"case {number}: a route is for deterministic mode, but the case holds without it"
        if case.route.startswith("torch.") and "direct call" not in (case.why or rule.why):
            yield f"case {number}: why does not say what a direct call of the op does"


def repeated(names: Iterable[NameType]) -> Iterator[tuple[NameType, int]]:
    """Each name that occurs more than once, and how often."""
    return ((name, times) for name, times in Counter(names).items() if times > 1)


def lint_dispatched(table: Table) -> Iterator[str]:
    """Entries for rules that do not exist, for ops that a rule names, or duplicates."""
    dispatched = table.dispatched
    if dispatched is None:
        return
    ids = {rule.id for rule in table.rule}
    yield from (f"dispatched: rule {id} does not exist" for id in dispatched.rules if id not in ids)
    vouched = [(op, entry.first) for entry in dispatched.vouched for op in entry.ops]
    for op, _ in vouched:
        if (rule := table.find(op)) is not None:
            yield f"dispatched: {op} is listed as safe, but {rule.id} names it"
    yield from (f"dispatched: {op} is listed as safe twice from {first} on" for (op, first), _ in repeated(vouched))


#: Facts that the cases of a row may use, besides settings.
KEYS: Mapping[About, frozenset[str]] = {
    About.SETTING: frozenset({"value"}),
    About.LATE: frozenset({"late"}),
    About.CHANGED: frozenset({"change", "origin"}),
    About.GENERATOR: frozenset({"origin", "seed.number", "by.library", "made.often", "made.drew"}),
    About.MEMORY: frozenset(),
    About.OVERLAP: frozenset({"overlap"}),
    About.LOADER: frozenset({"origin", *(key for key in PROCESS_FACTS if key.startswith("loader."))}),
    About.COMPILED: frozenset({"value", "compiled"}),
}

_SHELL = "export "


def lint_rows(table: EnvironmentTable) -> list[str]:
    """Every fault of a table of settings that loads, one line each; empty if there is none."""
    releases = reviewed_releases(table.reviewed)
    faults = [] if releases else [f"rows: `{table.reviewed}` contains no release of torch"]
    for row in table.row:
        own = tuple(release for release in releases if speaks_of(row.torch, release))
        faults += [f"{row.id}: {fault}" for fault in _faults_of_row(row, own)]
    faults += [f"{id}: {n} rows have this id" for id, n in repeated(row.id for row in table.row)]
    faults += _read_twice(table.row)
    return faults + list(_bad_groups(table))


def _faults_of_row(row: SettingRow, releases: tuple[str, ...]) -> Iterator[str]:
    yield from (*incomplete(row), *empty_fields(row, "name"))
    if not releases:
        yield f"`{row.torch}` contains no reviewed release"
    yield from unreached(row, releases)
    for number, case in enumerate(row.case):
        for key in case.when:
            if key not in KEYS[row.about] and key not in SETTINGS:
                yield f"case {number} asks {key}, which a row about {row.about} does not have"
        if row.differs is Differs.MACHINES and case.verdict is not Verdict.DETERMINISTIC:
            yield f"case {number} is {case.verdict}, but the row differs between machines only"
    yield from _bad_reading(row)
    yield from _bad_happening(row)
    yield from _bad_remedy(row)


def _bad_reading(row: SettingRow) -> Iterator[str]:
    """Conditions on a value that nothing provides, and values of another type than the setting's."""
    is_read = bool(row.field or row.variable or row.read)
    if is_read and row.about not in (About.SETTING, About.COMPILED):
        yield f"a row about {row.about} reads no setting"
    if not is_read:
        if any("value" in case.when for case in row.case):
            yield "has a condition on its value, but reads none"
        if row.default is not None or row.safe:
            yield "has values, but reads no setting"
    if row.read_by and row.about not in (About.SETTING, About.COMPILED, About.LATE):
        yield f"a row about {row.about} cannot have read_by"
    is_risky = any(case.verdict is not Verdict.DETERMINISTIC for case in row.case)
    if row.about is About.SETTING and not is_read and not row.needs and is_risky:
        yield "would be a finding in every step: a row that reads nothing needs calls, or `unseen`"
    wanted = field_type(row.field) if row.field else str if row.variable else None
    if row.field and wanted is None:
        yield f"{row.field!r} is not a field of Environment"
    if wanted is not None:
        source = row.field or row.variable
        wrong = [value for value in (*row.safe, row.default) if value is not None and type(value) is not wanted]
        yield from (f"{value!r} does not have the type of {source}" for value in wrong)


def _bad_happening(row: SettingRow) -> Iterator[str]:
    """Faults in the events and generators that a row watches."""
    watches = row.about in (About.LATE, About.CHANGED)
    if watches and row.watches not in (EventKind.VARIABLE, EventKind.SETTING, EventKind.SEED):
        yield "does not say which kind of event it watches"
    if not watches and (row.watches or row.events):
        yield f"a row about {row.about} watches no event"
    if bool(row.generator) is not (row.about is About.GENERATOR):
        yield "must name generators if it is about them, and only then"


def _bad_remedy(row: SettingRow) -> Iterator[str]:
    """Code that cannot be pasted, and settings that no target has."""
    if row.code and not row.where:
        yield "has code, but does not say where it belongs"
    if row.where and not row.code and row.about is not About.LATE:
        yield "says where its code belongs, but has no code"
    if row.sets and not row.code:
        yield "has `sets`, but no code"
    if row.code.startswith(_SHELL):
        if any(not line.startswith(_SHELL) for line in row.code.splitlines()):
            yield "mixes shell lines with Python"
    elif row.code:
        try:
            compile(row.code, row.id, "exec")
        except SyntaxError as problem:
            yield f"its code does not compile: {problem.msg}"
    for name, value in row.sets.items():
        if fault := _bad_setting(name, value):
            yield f"sets {name!r}: {fault}"


def _bad_setting(name: str, value: Value) -> str:
    """Return why ``judge(..., settings=...)`` would refuse it; empty if it would not."""
    if name in SEEDS:
        return "" if value is True else "a seed is set to `true`"
    if name in Environment.__struct_fields__:
        wanted = field_type(name)
        return "" if type(value) is wanted else "not of the field's type"
    if name.isupper() or name.replace("_", "").isupper():
        return "" if isinstance(value, str) else "a variable's value is text"
    return "" if "." in name else "neither a field, a variable, a dotted name nor a seed"


def field_type(name: str) -> type | None:
    """The plain type of a field of ``Environment``, ``str`` for words and tuples of words; ``None`` for other names."""
    hint = typing.get_type_hints(Environment).get(name)
    if hint is None:
        return None
    plain = next(member for member in typing.get_args(hint) or (hint,) if member is not types.NoneType)
    return plain if plain in (bool, int) else str


def _read_twice(rows: tuple[SettingRow, ...]) -> Iterator[str]:
    """Variables or names that two rows read for the same calls."""
    claims: defaultdict[tuple[str, frozenset[str]], list[str]] = defaultdict(list)
    for row in rows:
        for name in filter(None, (row.variable, row.read)):
            claims[name, frozenset(row.needs)].append(row.id)
    return (f"{name}: read by {' and '.join(ids)}" for (name, _), ids in claims.items() if len(ids) > 1)


def _bad_groups(table: EnvironmentTable) -> Iterator[str]:
    needed = {group for row in table.row for group in row.needs}
    for group in table.group:
        if group.name in RESERVED:
            yield f"group {group.name}: the name is reserved"
        if group.name not in needed and group.name not in NARROWING:
            yield f"group {group.name}: no row uses it"
        if not group.ops and not group.when:
            yield f"group {group.name}: contains every call"
        yield from (f"group {group.name}: {op} is listed {n} times" for op, n in repeated(group.ops))
        beside = [op for op in group.ops if op.count(".") == 2 and op.rpartition(".")[0] in group.ops]
        yield from (f"group {group.name}: {op} is listed beside its packet" for op in beside)
    yield from (f"group {name}: there are {n} of them" for name, n in repeated(group.name for group in table.group))
