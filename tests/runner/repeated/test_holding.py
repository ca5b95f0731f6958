"""Which circumstance decides: what is held, in how few runs, and what each outcome shows."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from tracer.divergence.causes import RootCause
from tracer.divergence.model import Family, Root
from tracer.findings import Finding
from tracer.names import Backend, Phase, Verdict
from tracer.runner.repeated.declared import Circumstance
from tracer.runner.repeated.holding import (
    MOST_RUNS,
    ComparedRuns,
    HeldRun,
    Holds,
    find_circumstance,
    hangs_on_settings_alone,
    suspects,
)

HASH, MEMORY, FOLDER, THREADS = Circumstance.HASH_SEED, Circumstance.MEMORY, Circumstance.FOLDER, Circumstance.THREADS


class Laboratory:
    """Runs agree if all that ``decides`` is held; else each is another one."""

    def __init__(self, decides: Iterable[Circumstance], *, fails: bool = False) -> None:
        self.decides, self.fails = frozenset(decides), fails
        self.runs: list[Holds] = []

    def run(self, held: Holds) -> HeldRun:
        """Note what was held."""
        self.runs.append(held)
        return HeldRun(held, {str(len(self.runs)): None}, "it fails" if self.fails else "")  # type: ignore[dict-item]

    def compare(self, first: Family, second: Family) -> ComparedRuns:
        """Return whether both runs held what decides."""
        (one,), (two,) = first, second
        return ComparedRuns(agrees=all(self.decides <= self.runs[int(run) - 1] for run in (one, two)))


def root(cause: RootCause) -> Root:
    """A root with this cause."""
    return Root(cause=cause, step=0, call=0, op="aten.add.Tensor", phase=Phase.FORWARD)


@pytest.mark.parametrize("decides", [HASH, MEMORY])
def test_a_suspect_that_decides_is_the_cause(decides: Circumstance) -> None:
    laboratory = Laboratory([decides])
    held = find_circumstance(laboratory, [HASH, MEMORY, FOLDER], [HASH, MEMORY])
    assert [each.is_cause for each in held] == [False] * (decides is MEMORY) + [True]
    assert held[-1].circumstances == (decides.value,)
    assert held[-1].remedy
    assert len(laboratory.runs) <= MOST_RUNS


def test_without_a_suspect_all_are_held_and_then_single_ones() -> None:
    laboratory = Laboratory([MEMORY])
    held = find_circumstance(laboratory, [HASH, MEMORY, THREADS], [])
    assert [(each.circumstances, each.agrees, each.is_cause) for each in held] == [
        ((HASH.value, MEMORY.value), True, False),
        ((HASH.value,), False, False),
        ((MEMORY.value,), True, True),
    ]
    assert len(laboratory.runs) == MOST_RUNS


def test_what_nothing_explains_costs_two_runs() -> None:
    laboratory = Laboratory([Circumstance.SETTINGS])
    held = find_circumstance(laboratory, [HASH, MEMORY, FOLDER], [])
    assert [each.agrees for each in held] == [False]
    assert len(laboratory.runs) == 2


def test_what_a_user_names_is_held_together_first() -> None:
    laboratory = Laboratory([THREADS])
    held = find_circumstance(laboratory, [HASH, THREADS], [HASH], are_named=True)
    assert [each.is_all for each in held] == [True, False, False]
    assert held[-1].circumstances == (THREADS.value,)


def test_a_run_that_fails_proves_nothing() -> None:
    (held,) = find_circumstance(Laboratory([], fails=True), [HASH], [HASH])
    assert (held.is_cause, held.no_proof, held.runs) == (False, "it fails", 1)


def test_addresses_are_held_with_the_hash_seed() -> None:
    laboratory = Laboratory([Circumstance.ADDRESSES])
    (held,) = find_circumstance(laboratory, [Circumstance.ADDRESSES], [Circumstance.ADDRESSES])
    assert laboratory.runs[0] == {HASH, Circumstance.ADDRESSES}
    assert held.is_cause


@pytest.mark.parametrize(
    ("cause", "suspected"),
    [
        (RootCause.KERNEL, [Circumstance.SETTINGS, THREADS]),
        (RootCause.STRUCTURE, [HASH, FOLDER]),
        (RootCause.UNWRITTEN_MEMORY, [MEMORY]),
        (RootCause.COLLECTIVE, []),
    ],
)
def test_the_first_roots_cause_suggests_circumstances(cause: RootCause, suspected: list[Circumstance]) -> None:
    assert suspects([root(cause)], [*Circumstance]) == suspected


@pytest.mark.parametrize(
    ("cause", "backend", "holds"),
    [
        (RootCause.KERNEL, Backend.CUDA, True),
        (RootCause.KERNEL, Backend.CPU, False),
        (RootCause.STRUCTURE, Backend.CUDA, False),
    ],
)
def test_threads_of_the_process_do_not_explain_a_kernel_of_a_device(
    cause: RootCause, backend: Backend, holds: bool
) -> None:
    verdict = Verdict.NONDETERMINISTIC
    found = Finding(
        rule="r",
        verdict=verdict,
        deterministic_mode=verdict,
        op="aten.add.Tensor",
        phase=Phase.BACKWARD,
        backend=backend,
    )
    assert hangs_on_settings_alone([replace(root(cause), rule="r")], [found]) is holds
    assert not hangs_on_settings_alone([root(cause)], [found])
