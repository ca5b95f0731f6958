"""Proves the translations: no op in two rows, no call without a candidate, known ops, a source for every row."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from itertools import islice

from tracer.names import TORCH_NAMESPACES, Backend
from tracer.tables.conditions import uncovered, wanted_values
from tracer.tables.lint.rule_lint import bad_references, empty_fields, is_sentence, repeated
from tracer.tables.rules import RuleEvidence, Table
from tracer.tables.translation import STAYS, TargetOp, Translation, Translations
from tracer.tables.versions import reviewed_releases, speaks_of
from tracer.tables.vocabulary import DOMAINS, in_words

Resolves = Callable[[str], bool]


def lint_translations(
    table: Translations, tables: Mapping[Backend, Table], resolves: Resolves | None = None, torch: str = ""
) -> list[str]:
    """Every fault of translations that load, one line each. ``tables`` judge the candidates.
    ``resolves`` says whether the torch of version ``torch`` has an overload or a packet; without it no op is looked
    up."""
    releases = reviewed_releases(table.reviewed)
    faults = [] if releases else [f"translations: `{table.reviewed}` contains no release of torch"]
    ids = repeated([*(row.id for row in table.translation), *(note.id for note in table.note)])
    faults += [f"{id}: {times} rows have this id" for id, times in ids]
    for row in table.translation:
        faults += [f"{row.id}: {fault}" for fault in _faults(row, releases, tables)]
        if resolves is not None:
            faults += [f"{row.id}: torch {torch} has no {op}" for op in _unresolved(row, resolves, torch)]
    for note in table.note:
        wrong = (*empty_fields(note, "to", "evidence"), *_unspoken((note.says,), note.evidence))
        faults += [f"{note.id}: {fault}" for fault in wrong]
        if resolves is not None:
            faults += [f"{note.id}: torch {torch} has no {op}" for op in note.seen if not resolves(op)]
    return [*faults, *_claimed_twice(table)]


def _faults(row: Translation, releases: tuple[str, ...], tables: Mapping[Backend, Table]) -> Iterator[str]:
    yield from empty_fields(row, "to", "ops", "becomes", "evidence")
    yield from _unspoken((row.why, *(c.why for c in row.becomes if c.why)), row.evidence)
    for number, candidate in enumerate(row.becomes):
        yield from _faults_of_candidate(number, candidate, row, releases)
    yield from _unjudged(row, tables)
    yield from _gaps(row, releases)


def _unresolved(row: Translation, resolves: Resolves, torch: str) -> Iterator[str]:
    """torch's own ops that the row names for version ``torch``, but that this version does not have."""
    recorded = row.ops if speaks_of(row.recorded_by, torch) else ()
    named = (*recorded, *(c.op for c in row.becomes if c.op not in ("", STAYS) and speaks_of(c.torch, torch)))
    return (op for op in dict.fromkeys(named) if op.partition(".")[0] in TORCH_NAMESPACES and not resolves(op))


def _unspoken(texts: tuple[str, ...], evidence: tuple[RuleEvidence, ...]) -> Iterator[str]:
    yield from (f"not a plain sentence: {text!r}" for text in texts if not is_sentence(text))
    yield from bad_references(evidence)


def _faults_of_candidate(
    number: int, candidate: TargetOp, row: Translation, releases: tuple[str, ...]
) -> Iterator[str]:
    if not candidate.op and not candidate.why:
        yield f"candidate {number} names no op and does not say why"
    if candidate.op and candidate.why:
        yield f"candidate {number} has an op; its rule says why"
    for key in candidate.when:
        if len(wanted_values(candidate, key)) == len(DOMAINS[key]):
            yield f"candidate {number} lists every value of {key}; leave the key out"
    live = [release for release in releases if speaks_of(candidate.torch, release)]
    if not live:
        yield f"candidate {number} is dead: `{candidate.torch}` contains no reviewed release"
    for earlier, other in enumerate(row.becomes[:number]):
        shared = [release for release in live if speaks_of(other.torch, release)]
        is_same = (other.op, other.facts) == (candidate.op, candidate.facts)
        if is_same and shared and _within(candidate, other):
            yield f"overlap in torch {shared[0]}: candidate {number} holds only where {earlier} does, for the same op"


def _within(inner: TargetOp, outer: TargetOp) -> bool:
    """Return whether ``outer`` holds whenever ``inner`` does."""
    return all(wanted_values(inner, key) <= wanted_values(outer, key) for key in outer.when)


def _unjudged(row: Translation, tables: Mapping[Backend, Table]) -> Iterator[str]:
    """Candidates that have no rule, unless the table is a deny list."""
    ops = dict.fromkeys(candidate.op for candidate in row.becomes if candidate.op not in ("", STAYS))
    for table in (tables[backend] for backend in row.to if backend in tables):
        for op in ops:
            if table.find(op) is None and not (table.deny_list and op.partition(".")[0] in TORCH_NAMESPACES):
                yield f"the {table.backend} table has no rule for {op}"


def _gaps(row: Translation, releases: tuple[str, ...]) -> Iterator[str]:
    """Calls without a candidate, each with the first release in which they have none."""
    holes: dict[str, str] = {}
    for release in releases:
        live = [candidate for candidate in row.becomes if speaks_of(candidate.torch, release)]
        asked = [(candidate, {key: wanted_values(candidate, key) for key in candidate.when}) for candidate in live]
        for hole in uncovered(when for _, when in asked):
            where = ", ".join(in_words(key, values) for key, values in hole.items()) or "any call"
            holes.setdefault(where, release)
    yield from (f"gap in torch {release}: no candidate for {where}" for where, release in islice(holes.items(), 1))


def _claimed_twice(table: Translations) -> Iterator[str]:
    """Ops that two rows translate for one target, a packet and its overload included."""
    for backend in dict.fromkeys(b for row in table.translation for b in row.to):
        claims: defaultdict[str, list[str]] = defaultdict(list)
        for row in (row for row in table.translation if backend in row.to):
            for op in row.ops:
                claims[op].append(row.id)
        for op, ids in claims.items():
            both = [*ids, *(claims.get(op.rpartition(".")[0], []) if op.count(".") == 2 else [])]
            if len(both) > 1:
                yield f"{op}: claimed by {' and '.join(both)} for {backend}"
