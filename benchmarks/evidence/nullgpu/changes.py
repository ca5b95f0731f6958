"""What changed between two releases, from what is kept of both: refusals, ops dispatched, kernels launched."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from benchmarks.evidence.nullgpu.recording import MODES, Outcome, Recording, Row, family

_MODE = {
    "off": "with the mode off",
    "on": "in deterministic mode",
    "warn": "under warn_only",
    "bare": "in deterministic mode without a workspace",
}


def changes(older: Recording, newer: Recording) -> Iterator[str]:
    """One line for each way in which samples that both releases ran alike went another way; entries with it last."""
    before = {row.key: row for row in older.rows}
    told: defaultdict[str, dict[str, None]] = defaultdict(dict)
    paired = 0
    for row in newer.rows:
        known = before.get(row.key)
        if known is None or known.inputs != row.inputs or row.crashed or known.crashed:
            continue
        paired += 1
        for line in _differences(older, known, newer, row):
            told[line][row.entry] = None
    unpaired = len(newer.rows) - paired
    yield f"{paired:,} samples in both, {unpaired:,} new, changed or without an outcome"
    for line, entries in sorted(told.items(), key=lambda item: (-len(item[1]), item[0])):
        names = list(entries)
        more = f" and {len(names) - 6} more" if len(names) > 6 else ""
        yield f"{line}: {', '.join(names[:6])}{more}"


def _differences(older: Recording, was: Row, newer: Recording, now: Row) -> Iterator[str]:
    if was.is_usable != now.is_usable:
        yield "fails in any mode now" if was.is_usable else "no longer fails in every mode"
        return
    if not was.is_usable:
        return
    for mode in MODES[1:]:
        if was.fails(mode) != now.fails(mode):
            yield f"{'refused now' if now.fails(mode) else 'no longer refused'} {_MODE[mode]}"
    for mode in ("off", "on"):
        if was.fails(mode) or now.fails(mode):
            continue
        ops, kernels = ((names(older, was, mode), names(newer, now, mode)) for names in (_ops, _kernels))
        if ops[0] != ops[1]:
            yield f"other ops {_MODE[mode]}: {_exchange(*ops)}"
        elif kernels[0] != kernels[1]:
            yield f"other kernels {_MODE[mode]}: {_exchange(*kernels)}"


def _exchange(was: frozenset[str], now: frozenset[str]) -> str:
    lost, won = sorted(was - now), sorted(now - was)
    return " ".join(part for part in (f"-({', '.join(lost)})" * bool(lost), f"+({', '.join(won)})" * bool(won)) if part)


def _launches(outcome: Outcome) -> tuple[int, ...]:
    return (*outcome.forward, *outcome.backward)


def _ops(recording: Recording, row: Row, mode: str) -> frozenset[str]:
    return frozenset(recording.op_of(launch) for launch in _launches(row.under(mode)))


def _kernels(recording: Recording, row: Row, mode: str) -> frozenset[str]:
    launches = _launches(row.under(mode))
    return frozenset(family(kernel) for launch in launches for kernel in recording.kernels_of(launch))
