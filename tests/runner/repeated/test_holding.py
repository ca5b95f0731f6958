"""Which circumstances are found to explain a divergence, of programs that depend on known ones."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import cast

import pytest

from tests.runner.repeated.comparisons import divergence, repeated, root
from tests.support.build import trace
from tracer.divergence import Recording
from tracer.divergence.causes import RootCause, Shows
from tracer.divergence.model import EndState, Reason, Root, Taken
from tracer.divergence.repeated import Held
from tracer.names import BlindSpotKind, NumberSource
from tracer.report.sections.runs import repeated_headline
from tracer.runner.repeated.circumstances.declared import Circumstance
from tracer.runner.repeated.holding import MOST_RUNS, Holds, Search, Shown, Tried, suspects
from tracer.runner.repeated.repeating import without_luck
from tracer.trace.records import BlindSpot
from tracer.trace.values import ValueKind

C = Circumstance
ALL = tuple(Circumstance)
CHANCE = tuple(one for one in Circumstance if one.is_chance)


class Program:
    """A program that depends on ``causes``, each of which reaches a line of its own; runs are numbered results."""

    def __init__(
        self,
        *causes: Circumstance,
        breaks: Iterable[Circumstance] = (),
        outcomes: int = 10**6,
        varies: bool = False,
        shifts: Iterable[Circumstance] = (),
        relative: Iterable[Circumstance] = (C.ADDRESSES,),
    ) -> None:
        self.relative = frozenset(relative)
        """What these decide hangs on all that is held."""
        self.causes, self.breaks, self.outcomes, self.varies = causes, frozenset(breaks), outcomes, varies
        self.shifts = frozenset(shifts)
        self.runs: list[Holds] = []
        self._numbers = itertools.count(1)
        self._results: dict[int, tuple[object, ...]] = {}

    def run(self, held: Holds) -> Tried:
        number = next(self._numbers)
        self.runs.append(held)
        result: list[object] = []
        for cause in self.causes:
            laid_out = cause is not C.ADDRESSES or C.HASH_SEED in held
            fixed = held if cause in self.relative else frozenset({cause})
            result.append(fixed if cause in held and laid_out else number % self.outcomes)
        result += [number] * self.varies
        result.append(self.shifts & held)
        self._results[number] = tuple(result)
        problem = "the script ends with exit code 1 then" if self.breaks & held else ""
        return Tried(held, cast("Recording", number), problem)

    def compare(self, first: Recording, second: Recording) -> Shown:
        ours, theirs = (self._results[cast("int", recording)] for recording in (first, second))
        lines = [line for line, (a, b) in enumerate(zip(ours, theirs, strict=True), 1) if a != b]
        return Shown(not lines, root(op=f"op{lines[0]}") if lines else None)


def searched(
    program: Program, candidates: Iterable[Circumstance] = CHANCE, **asked: object
) -> tuple[set[str] | None, int]:
    """The circumstances that are found to be the cause, and the further runs that were made."""
    unheld = [program.run(frozenset()) for _ in range(2)]
    found = Search(program, unheld, tuple(candidates), **asked).find()  # type: ignore[arg-type]
    (cause,) = [one for one in found if one.is_cause] or [None]
    return None if cause is None else set(cause.circumstances), len(program.runs) - 2


@pytest.mark.parametrize("cause", [one for one in CHANCE if one is not C.ADDRESSES], ids=str)
def test_a_single_cause_is_found_in_six_runs_without_a_hint(cause: Circumstance) -> None:
    assert searched(Program(cause)) == ({cause.value}, pytest.approx(5, abs=1))


@pytest.mark.parametrize("cause", ALL, ids=str)
def test_a_suspected_cause_is_found_in_six_runs(cause: Circumstance) -> None:
    found, runs = searched(Program(cause), ALL, suspected=[cause], sure=1)
    assert found == {cause.value} | ({"hash-seed"} if cause is C.ADDRESSES else set())
    assert runs <= MOST_RUNS


def test_the_first_run_that_holds_the_suspect_alone_is_enough() -> None:
    assert searched(Program(C.CLOCK), suspected=[C.CLOCK], sure=1) == ({"clock"}, 3)


def test_memory_that_zeros_do_not_reach_is_compared_with_itself_and_no_second_cause_is_named() -> None:
    program = Program(C.MEMORY, relative=[C.MEMORY])
    assert searched(program, [C.ENTROPY, C.MEMORY]) == ({"memory"}, 5)


def test_two_causes_at_two_lines_are_found_to_be_two() -> None:
    found, runs = searched(Program(C.CLOCK, C.ENTROPY), suspected=[C.CLOCK, C.ENTROPY], sure=2)
    assert found == {"clock", "entropy"}
    assert runs == 5


def test_a_circumstance_is_no_second_cause_if_runs_that_hold_it_diverge_elsewhere_by_chance() -> None:
    class Wanders(Program):
        def compare(self, first: Recording, second: Recording) -> Shown:
            shown = super().compare(first, second)
            holds_one = self.runs[cast("int", second) - 1] == {C.ENTROPY}
            return shown._replace(first=root(op="op9")) if holds_one and not shown.agrees else shown

    found, runs = searched(Wanders(C.CLOCK), [C.ENTROPY, C.CLOCK], suspected=[C.ENTROPY, C.CLOCK], sure=2)
    assert (found, runs) == ({"clock"}, 5)


def test_a_program_that_differs_whatever_is_held_has_no_cause_among_them() -> None:
    assert searched(Program(varies=True), ALL) == (None, 4)


def test_a_hold_under_which_the_script_fails_is_no_proof() -> None:
    program = Program(C.HASH_SEED, breaks=[C.FOLDER])
    unheld = [program.run(frozenset()) for _ in range(2)]
    found = Search(program, unheld, CHANCE, [C.HASH_SEED]).find()
    assert (found[0].is_all, found[0].agrees, found[0].no_proof) == (
        True,
        False,
        "the script ends with exit code 1 then",
    )
    assert [one.circumstances for one in found if one.is_cause] == [("hash-seed",)]


@pytest.mark.parametrize("outcomes", [1, 2])
def test_agreement_that_may_be_chance_is_tried_without_the_hold(outcomes: int) -> None:
    """Runs of one outcome or two: what is held agrees with a run in which nothing was."""
    program = Program(C.CLOCK, outcomes=outcomes)
    unheld = [program.run(frozenset()), program.run(frozenset())]
    program._results[1] = (frozenset({C.CLOCK}), frozenset())
    program._results[2] = (1, frozenset())
    if outcomes == 1:
        program.causes = ()
        program._results[1] = (frozenset(),)
        program._results[2] = (frozenset({C.MEMORY}),)
    found = Search(program, unheld, CHANCE, [C.CLOCK], 1).find()
    assert any(set(one.circumstances) == set(CHANCE) - {C.CLOCK, C.ADDRESSES} for one in found)
    assert [one.is_cause for one in found if one.circumstances == ("clock",)] == [outcomes == 2]
    assert bool(found[1].no_proof) == (outcomes == 1)


def test_what_changes_the_computation_is_held_where_runs_part_with_all_else_held() -> None:
    program = Program(C.THREADS)
    found, runs = searched(program, [*CHANCE, C.THREADS])
    assert found == {"threads"}
    assert runs == 6
    assert C.THREADS not in program.runs[2]


def test_a_setting_that_gives_other_results_is_held_against_itself() -> None:
    found, _ = searched(Program(C.SETTINGS, shifts=[C.THREADS]), ALL, suspected=[C.SETTINGS, C.THREADS])
    assert found == {"settings"}


def test_addresses_are_held_with_the_hash_seed() -> None:
    program = Program(C.ADDRESSES)
    assert searched(program, suspected=[C.HASH_SEED]) == ({"hash-seed", "addresses"}, 6)
    assert all(C.HASH_SEED in held for held in program.runs if C.ADDRESSES in held)


def test_what_a_root_was_made_from_is_suspected_before_what_its_cause_suggests() -> None:
    def made_from(source: NumberSource) -> Root:
        taken = Taken(what="", location="train.py:3", source=source)
        return root(cause=RootCause.INPUT_DATA, reason=Reason(shows=Shows.ENTERED, taken=(taken,)))

    assert suspects([made_from(NumberSource.CLOCK)], ALL) == ([C.CLOCK, C.HASH_SEED], 1)
    assert suspects([made_from(NumberSource.HASH)], ALL) == ([C.HASH_SEED], 1)
    assert suspects([root(cause=RootCause.KERNEL)], ALL)[1] == 0
    assert suspects([root(cause=RootCause.ARGUMENT)], ALL) == ([C.HASH_SEED], 0)


def test_what_is_left_of_two_when_no_run_is_left_is_the_cause_by_elimination() -> None:
    program = Program(C.ORDER)
    candidates = (C.HASH_SEED, C.CLOCK, C.ENTROPY, C.ORDER, C.MEMORY)
    found, runs = searched(program, candidates, suspected=[C.MEMORY], most=5)
    assert (found, runs) == ({"order"}, 5)


def test_what_the_program_asked_nothing_of_is_not_tried() -> None:
    class Unused(Program):
        def run(self, held: Holds) -> Tried:
            return super().run(held)._replace(unused=held & {C.CLOCK, C.ENTROPY, C.ORDER})

    program = Unused(C.MEMORY)
    assert searched(program) == ({"memory"}, 4)
    assert not any(C.CLOCK in held for held in program.runs[4:])


def test_runs_that_all_agree_but_for_the_first_read_what_that_left() -> None:
    program = Program()
    unheld = [program.run(frozenset()), program.run(frozenset())]
    program._results[1] = (frozenset({C.FOLDER}),)
    found = Search(program, unheld, CHANCE, [C.HASH_SEED]).find()
    assert [one.circumstances for one in found] == [tuple(one.value for one in CHANCE), ()]
    assert found[1].shows.startswith("run 1 differs by chance")
    assert not any(one.is_cause for one in found)


def test_a_hold_that_sufficed_once_by_chance_is_not_the_cause() -> None:
    """A race that happens to agree in the run that holds the wrong circumstance."""

    class Race(Program):
        def run(self, held: Holds) -> Tried:
            tried = super().run(held)
            if held == {C.ENTROPY}:
                self._results[cast("int", tried.recording)] = (frozenset({C.ORDER}), frozenset())
            return tried

    program = Race(C.ORDER)
    unheld = [program.run(frozenset()) for _ in range(2)]
    held = Search(program, unheld, (C.CLOCK, C.ENTROPY, C.ORDER), [C.CLOCK]).find()
    assert [entry.is_cause for entry in held if entry.circumstances == ("entropy",)] == [False]
    assert [(entry.circumstances, entry.is_cause) for entry in held][-1] == (("order",), True)
    assert len(program.runs) <= 2 + MOST_RUNS


def test_workers_are_suspected_first_where_data_differ_and_no_source_is_seen() -> None:
    spot = BlindSpot(kind=BlindSpotKind.DATALOADER, detail="a DataLoader with 2 worker processes")
    with_workers = trace(blind_spots=(spot,))
    assert suspects([root(cause=RootCause.INPUT_DATA)], ALL, with_workers) == ([C.ORDER, C.HASH_SEED], 0)
    assert C.ORDER not in suspects([root(cause=RootCause.KERNEL)], ALL, with_workers)[0]


@pytest.mark.parametrize(("circumstances", "stays"), [(("addresses",), False), (("order",), True)])
def test_what_cannot_reach_threads_explains_nothing_that_they_train(
    circumstances: tuple[str, ...], stays: bool
) -> None:
    held = Held(circumstances=circumstances, agrees=True, runs=3, is_cause=True, clause="it is held", shows="it")
    left = without_luck(held)
    assert (left.is_cause, left.no_proof == "") == (stays, stays)
    ends = (EndState(kind=ValueKind.PARAMETER, name="Linear.weight (other threads)"),)
    told = repeated_headline(repeated(divergence(ends=ends), held=(left,)))
    assert ("They agree when" in told) == stays
