"""Proving a table: no overlap, no gap, no dead case, nothing claimed twice, everything with its source.

Domains are finite, so this is enumeration, not opinion. Only the keys that a rule uses are enumerated, and
values that no case of the rule tells apart are taken together, which keeps the product small.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import product

from tracer.facts.fact import Value
from tracer.names import OF_A_RUN, Backend, EvidenceKind, Verdict
from tracer.tables.conditions import wanted_values
from tracer.tables.rules import Case, Cased, ClassTable, LibraryTable, Rule, RuleEvidence, Table
from tracer.tables.versions import reviewed_releases, speaks_of
from tracer.tables.vocabulary import DOMAINS, RECORDED_FACTS

#: A product above this means that a rule asks too much at once and should be two.
LIMIT = 100_000

_FILE = re.compile(r"[\w/{},-]+\.(cu|cuh|cpp|h|py|mm|yaml|csv|md)\b")
#: What a class of ops may say: what varies on one device need not vary on another.
_SAFE = (Verdict.DETERMINISTIC, Verdict.UNKNOWN)
_THREAD = re.compile(r"\b(PR|issue) ([\w.-]+/[\w.-]+)?#\d+\b")
_ROUTE = re.compile(r"(torch(\.[A-Za-z_]\w*)+|aten(\.\w+){1,2})(\([\w=, ]*\))?")
#: A release, or a commit: what a project without releases is pinned by.
_VERSION = re.compile(r"\b\d+\.\d+|\bat [0-9a-f]{7,40}\b")


def lint_table(table: Table) -> list[str]:
    """Everything that is wrong with a table that loads, one line each; an empty list for a sound one."""
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
        if asked and any(op.endswith(".*") for op in rule.ops):  # recorded by an op's name, so never for these
            faults.append(f"{rule.id}: asks {' and '.join(asked)} of a whole namespace")
    claimed = (claimed_twice(table.speaking_of(b)) for b in Backend if b is not Backend.RECORDED)
    return [*faults, *dict.fromkeys(fault for faults_there in claimed for fault in faults_there)]


def lint_classes(table: ClassTable) -> list[str]:
    """As ``lint_table``, for the classes of ops: of some calls nothing may be known, of none that they vary."""
    faults = [*faults_of_rules("classes", table.reviewed, table.rule), *claimed_twice(table.rule)]
    verdicts = ((rule.id, case.verdict) for rule in table.rule for case in rule.case)
    return [*faults, *(f"{id}: a class of ops cannot be {v} on every device" for id, v in verdicts if v not in _SAFE)]


def faults_of_rules(name: str, reviewed: str, rules: tuple[Rule, ...]) -> list[str]:
    """What is wrong with each of ``rules``, and ids that several bear; ``name`` leads what is wrong with the file."""
    releases = reviewed_releases(reviewed)
    faults = [] if releases else [f"{name}: `{reviewed}` holds no release of torch"]
    faults += [f"{rule.id}: {fault}" for rule in rules for fault in _faults(rule, releases)]
    return faults + [f"{id}: the id is borne by {n} rules" for id, n in repeated(r.id for r in rules)]


def claimed_twice(rules: tuple[Rule, ...]) -> Iterator[str]:
    """Ops that several of ``rules`` name."""
    claims: dict[str, list[str]] = {}
    for rule in rules:
        for op in dict.fromkeys(rule.ops):
            claims.setdefault(op, []).append(rule.id)
    return (f"{op}: claimed by {' and '.join(ids)}" for op, ids in claims.items() if len(ids) > 1)


def _faults(rule: Rule, releases: tuple[str, ...]) -> Iterator[str]:
    if not rule.ops:
        yield "ops is empty"
    yield from incomplete(rule)
    yield from _bad_ops(rule)
    yield from _bad_routes(rule)
    yield from _bad_kernels(rule)
    yield from unproven(rule, releases)


def unproven(rule: Cased, releases: tuple[str, ...]) -> Iterator[str]:
    """Cases that say nothing, and what overlaps or is left out in any of ``releases``."""
    for number, case in enumerate(rule.case):
        for key in case.when:
            if len(wanted_values(case, key)) == len(DOMAINS[key]):
                yield f"case {number} asks {key} for every value that it can have; leave the key out"
        if not any(speaks_of(case.torch, release) for release in releases):
            yield f"case {number} is dead: `{case.torch}` holds no reviewed release"
    yield from _overlaps_and_gaps(rule, releases)


def incomplete(rule: Cased) -> Iterator[str]:
    """Missing parts, and sentences that are none."""
    for name in ("case", "evidence"):
        if not getattr(rule, name):
            yield f"{name} is empty"
    for name in ("why", "remedy"):
        if not getattr(rule, name).strip():
            yield f"{name} is empty"
    texts = [rule.why, rule.remedy, *(t for case in rule.case for t in (case.why, case.remedy) if t)]
    for text in texts:
        if text.strip() and not is_sentence(text):
            yield f"not a plain sentence: {text!r}"
    for evidence in rule.evidence:
        if fault := bad_reference(evidence):
            yield f"evidence {evidence.ref!r} {fault}"


def is_sentence(text: str) -> bool:
    """Whether ``text`` is one line that ends as a sentence does."""
    return bool(text) and text == " ".join(text.split()) and text[-1] in ".`)"


def bad_reference(evidence: RuleEvidence) -> str:
    """What is wrong with a reference; empty for one that a reader can follow."""
    ref = evidence.ref
    if ref != " ".join(ref.split()) or not ref:
        return "is not one line of text"
    if ref.startswith(("/", "~", "..")):
        return "is a path on somebody's machine"
    if evidence.kind in OF_A_RUN:
        return "is what one run shows, which no table can"
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
    for op, times in repeated(rule.ops):
        yield f"{op} is listed {times} times"
    for op in rule.ops:
        if op.count(".") == 2 and op.rpartition(".")[0] in rule.ops:
            yield f"{op} is listed beside its packet"


def _bad_kernels(rule: Rule) -> Iterator[str]:
    """Kernels of ops that the rule does not name, and ops whose kernel the rule's one source does not name."""
    yield from (f"{op} has a kernel and is none of its ops" for op in rule.kernels if op not in rule.ops)
    if {row.kind for row in rule.evidence} == {EvidenceKind.VENDOR_KERNEL_LIST}:
        yield from (f"{op} rests on a list of kernels and names none" for op in rule.ops if op not in rule.kernels)


def _bad_routes(rule: Rule) -> Iterator[str]:
    """Routes that are spelt wrongly, that no mode takes, or whose reader is not warned of a direct call."""
    for number, case in enumerate(rule.case):
        if not case.route:
            continue
        if not _ROUTE.fullmatch(case.route):
            yield f"case {number}: route {case.route!r} is neither a function of torch nor an op"
        if "off" in wanted_values(case, "deterministic_mode"):
            yield f"case {number}: its route is for deterministic mode, and it holds without"
        if case.route.startswith("torch.") and "direct call" not in (case.why or rule.why):
            yield f"case {number}: why does not say what a direct call of the op does"


def _overlaps_and_gaps(rule: Cased, releases: tuple[str, ...]) -> Iterator[str]:
    """One line for each pair of cases that meet and for the first hole of each set of live cases."""
    told: set[tuple[int, ...]] = set()
    for release in releases:
        live = tuple(i for i, case in enumerate(rule.case) if speaks_of(case.torch, release))
        if live in told:
            continue
        told.add(live)
        yield from _check(rule.case, live, release)


def _check(cases: tuple[Case, ...], live: tuple[int, ...], release: str) -> Iterator[str]:
    keys = list(dict.fromkeys(key for i in live for key in cases[i].when))
    wanted = {i: [wanted_values(cases[i], key) for key in keys] for i in live}
    choices = [told_apart(key, [wanted[i][k] for i in live]) for k, key in enumerate(keys)]
    size = 1
    for choice in choices:
        size *= len(choice)
    if size > LIMIT:
        yield f"its conditions have {size:,} combinations; split the rule"
        return
    met: set[tuple[int, ...]] = set()
    gap = False
    for values in product(*choices):
        holding = tuple(i for i in live if all(v in w for v, w in zip(values, wanted[i], strict=True)))
        where = ", ".join(f"{key} = {value}" for key, value in zip(keys, values, strict=True)) or "always"
        if not holding and not gap:
            gap = True
            yield f"gap in torch {release}: no case for {where}"
        elif len(holding) > 1 and holding not in met:
            met.add(holding)
            yield f"overlap in torch {release}: cases {' and '.join(map(str, holding))} both hold for {where}"


def told_apart(key: str, sets: list[frozenset[Value]]) -> list[Value]:
    """One value of ``key`` for each way in which the cases answer it."""
    seen: dict[tuple[bool, ...], Value] = {}
    for value in DOMAINS[key]:
        seen.setdefault(tuple(value in wanted for wanted in sets), value)
    return list(seen.values())


def repeated(names: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Each name that occurs more than once, and how often."""
    return ((name, times) for name, times in Counter(names).items() if times > 1)


def lint_dispatched(table: Table) -> Iterator[str]:
    """What the file says of rules that are not there, of ops that a rule names, or twice."""
    dispatched = table.dispatched
    if dispatched is None:
        return
    known = {rule.id for rule in table.rule}
    for id in dispatched.rules:
        if id not in known:
            yield f"dispatched: there is no rule {id}"
    told: set[tuple[str, str]] = set()
    for entry in dispatched.vouched:
        for op in entry.ops:
            rule = table.find(op)
            if rule is not None:
                yield f"dispatched: {op} is vouched for, and {rule.id} names it"
            if (op, entry.first) in told:
                yield f"dispatched: {op} is vouched for twice from {entry.first} on"
            told.add((op, entry.first))
