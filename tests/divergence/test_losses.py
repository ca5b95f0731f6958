"""Losses of two runs, what both leave and NaN in it; what differs without effect is no divergence where that agrees."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from tests.divergence.recorded import Run
from tests.runner.repeated.comparisons import divergence, repeated, root
from tests.support.build import report
from tracer import DeterminismTracer
from tracer.divergence.comparing import compare_recordings
from tracer.divergence.families import compare_families
from tracer.divergence.model import Divergence, Loss, Outputs, Recording, read_recording
from tracer.names import Phase
from tracer.report.blocks import PAGE
from tracer.report.sections.runs import (
    divergence_blocks,
    divergence_headline,
    losses_sentence,
    repeated_headline,
    reservations,
)
from tracer.runner.repeated.holding import Comparing
from tracer.trace.values import ValueKind

NAN = math.nan


def trained(path: Path, scale: Callable[[int], float]) -> None:
    """Four steps, whose losses are a scale of one another."""
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([weight], lr=0.0)
    with DeterminismTracer(values=str(path.with_suffix(".values"))) as tracer:
        for step in range(4):
            (weight.sum() * scale(step)).backward()
            optimizer.step()
    tracer.trace.save(path)


def compared(folder: Path, second: Callable[[int], float]) -> tuple[Loss, ...]:
    trained(folder / "one.json", float)
    trained(folder / "two.json", second)
    one, two = (read_recording(folder / f"{name}.json") for name in ("one", "two"))
    return compare_recordings(one, two, may_resume=False).losses


def test_the_loss_of_each_step_is_recorded(tmp_path: Path) -> None:
    losses = compared(tmp_path, float)
    assert [(loss.step, loss.first, loss.second, loss.differs) for loss in losses] == [
        (step, 3.0 * step, 3.0 * step, False) for step in range(4)
    ]


def test_what_another_thread_differentiates_is_no_loss_of_the_step(tmp_path: Path) -> None:
    weight = torch.nn.Parameter(torch.ones(3))
    with DeterminismTracer(values=str(tmp_path / "one.values")):
        thread = threading.Thread(target=lambda: (weight.sum() * 7).backward())
        thread.start()
        thread.join()
        weight.sum().backward()
        torch.optim.SGD([weight], lr=0.0).step()
    run = read_recording(tmp_path / "one.values")
    assert [loss.first for loss in compare_recordings(run, run).losses] == [3.0]


def test_the_step_at_which_losses_part_is_named(tmp_path: Path) -> None:
    losses = compared(tmp_path, lambda step: step + (step > 1))
    assert [loss.differs for loss in losses] == [False, False, True, True]
    assert losses_sentence(losses, "run 2").startswith("The losses diverge at step 2: 6 in run 1, 9 in run 2")


@pytest.mark.parametrize(
    ("numbers", "said"), [([NAN, NAN], "NaN in every step"), ([1.0, NAN], "NaN from step 1 on"), ([NAN, 1.0], "")]
)
def test_runs_that_agree_in_nan_say_so(numbers: list[float], said: str) -> None:
    losses = tuple(Loss(step=at, first=one, second=one, differs=False) for at, one in enumerate(numbers))
    headline = repeated_headline(repeated(divergence(losses=losses)))
    assert ("NaN" in headline) is bool(said)
    assert said in headline


@pytest.mark.parametrize(("other", "says"), [(0.5, "5.5 in run 2"), (None, "none in run 2")])
def test_the_page_says_where_the_losses_part(other: float | None, says: str) -> None:
    at_5 = Loss(step=5, first=5.0, second=other and 5 + other, differs=True)
    losses = (*(Loss(step=at, first=float(at), second=float(at), differs=False) for at in range(5)), at_5)
    html = replace(report(), repeated=repeated(divergence(root(), losses=losses))).to_html()
    assert "The losses diverge at step 5" in html
    assert says in html


# --- NaN in what both leave ---
def runs(folder: Path, poison: Any) -> Divergence:
    """Two runs of one step; ``poison(run, model, optimizer)`` comes after it."""
    for run in range(2):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        with DeterminismTracer(model, values=True) as tracer:
            model(torch.ones(4, 3)).sum().backward()
            optimizer.step()
            with torch.no_grad():
                poison(run, model, optimizer)
        tracer.save(folder / f"{run}.trace.json")
    return compare_recordings(*(read_recording(folder / f"{run}.trace.json") for run in range(2)))


def a_parameter(run: int, model: Any, optimizer: Any) -> None:
    model[0].weight[0, 1] = float("nan")


def a_buffer(run: int, model: Any, optimizer: Any) -> None:
    model[1].running_mean[0] = float("nan")


def an_optimizers_state(run: int, model: Any, optimizer: Any) -> None:
    optimizer.state[model[0].bias]["momentum_buffer"][0] = float("nan")


def one_run_alone(run: int, model: Any, optimizer: Any) -> None:
    model[0].weight[0, 1] = float("nan") if run else 1.0


def nothing(run: int, model: Any, optimizer: Any) -> None:
    model[0].weight[0, 1] = float("inf")


@pytest.mark.parametrize(
    ("poison", "nan"),
    [
        (a_parameter, ("parameter 0.weight",)),
        (a_buffer, ("buffer 1.running_mean",)),
        (an_optimizers_state, ("optimizer state momentum_buffer of 0.bias",)),
        (one_run_alone, ()),
        (nothing, ()),
    ],
)
def test_what_ends_in_nan_in_both_runs_is_named(tmp_path: Path, poison: Any, nan: tuple[str, ...]) -> None:
    divergence = runs(tmp_path, poison)
    assert tuple(name.replace("Sequential.", "") for name in divergence.nan) == nan
    assert divergence.differs is (poison is one_run_alone)


@pytest.mark.parametrize(
    ("states", "words"),
    [
        ((), ()),
        (("parameter fc.weight",), ("parameter fc.weight holds NaN at the end",)),
        (("parameter a", "buffer b", "buffer c"), ("parameter a and 2 more states hold NaN at the end",)),
    ],
)
def test_the_sentence_counts_them(states: tuple[str, ...], words: tuple[str, ...]) -> None:
    assert reservations(repeated(divergence(nan=states))) == words


Left = tuple[ValueKind, str, int, int]

WEIGHT, FILE, TEXT, OUTPUT = ValueKind.PARAMETER, ValueKind.FILE, ValueKind.TEXT, ValueKind.OUTPUT

RETURNED = ValueKind.RETURNED

LINES: list[Left] = [(OUTPUT, "line 1", 1, -1), (OUTPUT, "line 2", 2, -1)]


def ends_compared(
    folder: Path, first: Sequence[Left], second: Sequence[Left], partial: str = "", *, batches: tuple[int, int] = (1, 1)
) -> Divergence:
    """Two runs of one call that leave ``first`` and ``second``: kind, name, digest and position."""
    recordings = []
    for name, left, batch in (("one", first, batches[0]), ("two", second, batches[1])):
        run = Run(folder / f"{name}.values")
        run.call("mm.default", run.enter(ValueKind.BATCH, "batch", batch), line=10)
        for kind, what, digest, position in left:
            run.writer.moment(kind, what, digest, position)
        if partial and name == "two":
            run.writer.close(partial)
        recordings.append(Recording(name=name, values=run.values()))
    return compare_recordings(*recordings, may_resume=False)


@pytest.mark.parametrize(
    ("first", "second", "names", "notes"),
    [
        ([(WEIGHT, "fc.weight", 1, -1)], [(WEIGHT, "fc.weight", 1, -1)], [], []),
        ([(WEIGHT, "fc.weight", 1, -1)], [(WEIGHT, "fc.weight", 2, -1)], ["fc.weight"], []),
        ([(WEIGHT, "fc.weight", 0, -1)], [(WEIGHT, "fc.weight", 2, -1)], [], []),
        ([(FILE, "out.npy", 1, -1)], [(FILE, "out.npy", 2, -1)], ["out.npy"], []),
        ([(TEXT, "out.csv", 1, -1)], [(TEXT, "out.csv", 2, -1)], [], ["out.csv"]),
        ([(FILE, "out.npy", 1, -1)], [], [], ["out.npy"]),
        ([(FILE, "at-05.pt", 1, -1)], [(FILE, "at-06.pt", 1, -1)], [], []),
        ([(FILE, "at-05.pt", 1, -1)], [(FILE, "at-06.pt", 2, -1)], ["at-05.pt"], []),
        ([(FILE, "at-05.pt", 1, -1)] * 2, [(FILE, "at-06.pt", 1, -1)], ["at-05.pt"], []),
        ([(FILE, "log", 1, -1), (FILE, "log", 7, 1)], [(FILE, "log", 2, -1), (FILE, "log", 7, 1)], [], []),
        ([(FILE, "log", 1, -1), (FILE, "log", 7, 1)], [(FILE, "log", 2, -1), (FILE, "log", 8, 1)], ["log"], []),
        ([(FILE, "log", 1, -1)], [(FILE, "log", 2, -1), (FILE, "log", 7, 1)], [], []),
        (LINES, [(OUTPUT, "line 1", 2, -1), (OUTPUT, "line 2", 1, -1)], [], []),
        (LINES, [(OUTPUT, "line 1", 1, -1), (OUTPUT, "line 2", 3, -1)], [], ["line 2"]),
        ([(OUTPUT, "line 1", 1, -1)], [(OUTPUT, "line 1", 1, -1), (OUTPUT, "line 2", 1, -1)], [], ["line 2"]),
        ([(RETURNED, "tokens", 1, -1)] * 2, [(RETURNED, "tokens", 1, -1)] * 2, [], []),
        ([(RETURNED, "tokens", 1, -1)] * 2, [(RETURNED, "tokens", 1, -1), (RETURNED, "tokens", 2, -1)], ["tokens"], []),
        ([(RETURNED, "tokens", 1, -1)] * 2, [(RETURNED, "tokens", 1, -1)], ["tokens"], []),
        ([(RETURNED, "tokens", 0, -1)], [(RETURNED, "tokens", 2, -1)], [], []),
    ],
    ids=[
        "same", "parameter", "not-digested", "file", "text", "only-one-wrote", "dated", "dated-otherwise",
        "written-twice",
        "appended-the-same", "appended-otherwise", "only-one-appended", "order-of-lines", "another-line",
        "one-more-line", "returned", "returned-otherwise", "returned-once-less", "returned-not-digested",
    ],
)  # fmt: skip
def test_what_differs_at_the_end_is_named(
    tmp_path: Path, first: list[Left], second: list[Left], names: list[str], notes: list[str]
) -> None:
    found = ends_compared(tmp_path, first, second)
    assert [end.name for end in found.ends] == names
    assert [end.name for end in found.notes] == notes
    assert not found.roots
    assert found.agrees == {WEIGHT, RETURNED}.isdisjoint(end.kind for end in found.ends)


def test_ends_of_a_run_that_was_cut_short_are_not_compared(tmp_path: Path) -> None:
    found = ends_compared(tmp_path, [(WEIGHT, "fc.weight", 1, -1)], [(WEIGHT, "fc.weight", 2, -1)], "killed")
    assert found.agrees
    assert (found.ends, found.ends_compared) == ((), 0)


def test_outputs_are_counted_by_what_they_are(tmp_path: Path) -> None:
    left: list[Left] = [(RETURNED, "tokens", 1, -1), (RETURNED, "tokens", 2, -1), *LINES, (FILE, "out.csv", 1, -1)]
    assert ends_compared(tmp_path, left, left).outputs == Outputs(returned=2, printed=2, files=1)


@pytest.mark.parametrize(
    ("left", "more", "says"),
    [
        ([(WEIGHT, "fc.weight", 1, -1)], [], True),
        ([(FILE, "out.csv", 1, -1)], [], False),
        ([(WEIGHT, "fc.weight", 1, -1)], [(WEIGHT, "Linear#2.weight", 1, -1)], False),
        ([(WEIGHT, "fc.weight", 1, -1), (WEIGHT, "fc.bias", 0, -1)], [], False),
    ],
    ids=["the-same", "files-alone", "one-model-more", "one-not-digested"],
)
def test_final_states_are_said_to_agree_only_where_all_were_compared(
    tmp_path: Path, left: list[Left], more: list[Left], says: bool
) -> None:
    diverging = ends_compared(tmp_path, left, [*left, *more], batches=(1, 2))
    assert diverging.roots
    blocks = divergence_blocks(diverging, PAGE)
    assert ("Both runs nevertheless end with the same parameters" in str(blocks)) == says


def test_of_an_inference_the_words_speak_of_outputs(tmp_path: Path) -> None:
    left: list[Left] = [(RETURNED, "tokens", 1, -1), *LINES]
    agree = msgspec.structs.replace(ends_compared(tmp_path, left, left), is_inference=True)
    said = "The second run agrees with the first run in all 1 compared call"
    assert divergence_headline(agree) == f"{said} and in their outputs (1 returned and 2 printed lines)."
    assert divergence_headline(msgspec.structs.replace(agree, is_inference=False)) == f"{said}."
    other = msgspec.structs.replace(
        ends_compared(tmp_path, left, [(RETURNED, "tokens", 2, -1), *LINES]), is_inference=True
    )
    assert divergence_headline(other) == f"{said}, but they return different outputs (tokens)."


def test_lines_that_differ_count_where_calls_differ_that_reach_nothing(tmp_path: Path) -> None:
    left: list[Left] = [(WEIGHT, "fc.weight", 1, -1), (OUTPUT, "line 1", 1, -1)]
    agree, differ = (
        compare_families(
            {"": one}, {"": other}, lambda ours, theirs: compare_recordings(ours, theirs, may_resume=False)
        )
        for one, other in (
            drawing(tmp_path / "same", left, left),
            drawing(tmp_path / "other", left, [*left[:1], (OUTPUT, "line 1", 2, -1)]),
        )
    )
    assert (agree.agrees, agree.roots) == (True, ())
    assert not differ.agrees
    assert differ.roots


def drawing(folder: Path, first: Sequence[Left], second: Sequence[Left]) -> tuple[Recording, Recording]:
    """Two runs that draw other numbers, which no call reads."""
    folder.mkdir()
    recordings = []
    for name, left in (("one", first), ("two", second)):
        run = Run(folder / f"{name}.values")
        run.call("rand.default", line=10, generator=("cpu", name), numbers="size=[2]")
        for kind, what, digest, position in left:
            run.writer.moment(kind, what, digest, position)
        recordings.append(Recording(name=name, values=run.values()))
    return recordings[0], recordings[1]


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [(5.932961, 5.932962, "5.932961 in run 1, 5.932962 in run 2"), (0.5, 0.25, "0.5 in run 1, 0.25 in run 2"),
     (1.0, 1.0 + 2**-52, "1 in run 1, 1.0000000000000002 in run 2"), (3.0, 3.0, "3 in run 1, 3 in run 2")],
)  # fmt: skip
def test_losses_have_as_many_digits_as_tell_them_apart(first: float, second: float, said: str) -> None:
    loss = Loss(step=0, first=first, second=second, differs=True)
    assert losses_sentence([loss], "run 2") == f"The losses diverge at step 0: {said}"


DATED, OTHER_DATE, STAYS = "runs/of-0308/mf.pt", "runs/of-0309/mf.pt", "mf.pt"


@pytest.mark.parametrize(
    ("unheld", "held", "agrees"),
    [
        (({DATED: 1}, {OTHER_DATE: 2}), ({"runs/of-0310/mf.pt": 3}, {"runs/of-0311/mf.pt": 4}), False),
        (({DATED: 1}, {OTHER_DATE: 2}), ({"runs/of-0310/mf.pt": 3}, {"runs/of-0311/mf.pt": 3}), True),
        (({STAYS: 1}, {STAYS: 2}), ({STAYS: 3}, {STAYS: 3}), True),
        (({STAYS: 1}, {STAYS: 2}), ({STAYS: 3}, {STAYS: 4}), False),
        (({STAYS: 1}, {STAYS: 2}), ({}, {}), False),
        (({DATED: 1}, {OTHER_DATE: 2}), ({}, {}), False),
        (({STAYS: 1, DATED: 5}, {STAYS: 2, DATED: 5}), ({STAYS: 1}, {STAYS: 1}), False),
    ],
)
def test_a_hold_explains_what_runs_leave_where_all_that_differed_was_compared_again(
    unheld: tuple[dict[str, int], ...], held: tuple[dict[str, int], ...], agrees: bool, tmp_path: Path
) -> None:
    families = []
    for number, files in enumerate((*unheld, *held)):
        run = Run(tmp_path / f"{number}.values")
        run.call("relu.default", run.enter(ValueKind.BATCH, "b", 0), line=3)
        for name, digest in files.items():
            run.writer.moment(ValueKind.FILE, name, digest)
        families.append({"": Recording(name=f"{number}", values=run.values(), trace=None)})
    comparing = Comparing(families[:2], lambda: None)
    assert comparing.divergence.ends
    assert comparing.compare(*families[2:]).agrees is agrees


# --- what has no effect ---


def of_draws(
    folder: Path,
    *,
    is_read: bool = False,
    leaves: bool = True,
    ends: tuple[int, int] = (1, 1),
    printed: tuple[int, int] = (1, 1),
    optimizes: bool = False,
) -> Divergence:
    """Two runs with a draw each, from another state."""
    recordings = []
    for name, end, line in zip(("one", "two"), ends, printed, strict=True):
        run = Run(folder / f"{name}.values")
        drawn = run.call("uniform_.default", line=9, generator=("cpu", name))
        run.call("mm.default", drawn if is_read else run.enter(ValueKind.BATCH, "batch", 1), line=10)
        if optimizes:
            run.call("add_.default", run.enter(ValueKind.BATCH, "batch", 1), line=11, phase=Phase.OPTIMIZER)
        if leaves:
            run.writer.moment(ValueKind.PARAMETER, "fc.weight", end)
            run.writer.moment(ValueKind.OUTPUT, "line 1", line)
        recordings.append({"": Recording(name=name, values=run.values())})
    return compare_families(*recordings, compare_recordings)


def test_a_draw_that_nothing_reads_is_a_note(tmp_path: Path) -> None:
    found = of_draws(tmp_path)
    assert (found.agrees, found.roots, len(found.without_effect)) == (True, (), 1)
    assert divergence_headline(found) == (
        "The second run agrees with the first run in all 2 compared calls but 1 draw (train.py:9), which reach"
        " nothing that trains; parameters, buffers, optimizer states and printed lines agree."
    )


@pytest.mark.parametrize(
    "bend", [{"is_read": True}, {"leaves": False}, {"ends": (1, 2)}], ids=["read", "nothing left", "ends differ"]
)
def test_a_draw_that_is_read_or_may_have_been_is_a_root(tmp_path: Path, bend: dict[str, object]) -> None:
    found = of_draws(tmp_path, **bend)  # type: ignore[arg-type]
    assert (found.agrees, len(found.roots), found.without_effect) == (False, 1, ())


def test_of_a_draw_that_is_printed_alone_the_line_that_differs_comes_first(tmp_path: Path) -> None:
    found = of_draws(tmp_path, printed=(1, 2))
    assert (found.agrees, len(found.roots)) == (False, 1)
    assert divergence_headline(found) == (
        "The second run and the first run print different lines (line 1), and train alike. They diverge in step 0,"
        " forward, at train.py:9 (aten.uniform_.default), by a random draw; it reaches nothing that trains."
    )


@pytest.mark.parametrize(
    ("optimizes", "says"),
    [
        (True, "and train alike: no optimizer updates these parameters. They diverge in step 0"),
        (False, "The second run diverges from the first run in step 0"),
    ],
    ids=["beside an optimizer", "without one"],
)
def test_parameters_that_no_optimizer_updates_differ_while_runs_train_alike(
    tmp_path: Path, optimizes: bool, says: str
) -> None:
    found = of_draws(tmp_path, ends=(1, 2), optimizes=optimizes)
    assert not found.agrees
    assert says in divergence_headline(found)


def loaded(
    folder: Path,
    *,
    is_used: bool = False,
    phase: Phase = Phase.OTHER,
    ends: tuple[int, int] = (1, 1),
    writes: bool = False,
) -> Divergence:
    """Two runs of which one alone makes a call, and may write what it gives into a file."""
    recordings = []
    for name, end in zip(("one", "two"), ends, strict=True):
        run = Run(folder / f"{name}.values")
        batch = run.enter(ValueKind.BATCH, "batch", 1)
        if name == "two":
            read = run.call("empty.memory_format", line=7, phase=phase)
            batch = run.call("add_.Tensor", batch, read, line=8, phase=phase) if is_used else batch
        run.call("mm.default", batch, line=10)
        run.writer.moment(ValueKind.PARAMETER, "fc.weight", end)
        if writes and name == "two":
            run.writer.moment(ValueKind.TEXT, "cache/stats.json", 5)
        recordings.append({"": Recording(name=name, values=run.values())})
    return compare_families(*recordings, compare_recordings)


def test_what_one_run_alone_computed_and_wrote_is_a_note(tmp_path: Path) -> None:
    found = loaded(tmp_path, writes=True)
    assert (found.agrees, found.roots, len(found.without_effect), len(found.notes)) == (True, (), 1, 1)


def test_calls_of_one_run_alone_that_nothing_reads_are_a_note(tmp_path: Path) -> None:
    found = loaded(tmp_path)
    assert (found.agrees, found.roots, len(found.without_effect), found.only) == (True, (), 1, (0, 1))
    assert divergence_headline(found) == (
        "The second run agrees with the first run in all 1 compared call but 1 call that one run alone makes"
        " (train.py:7), which reach nothing that trains; parameters, buffers and optimizer states agree."
    )


@pytest.mark.parametrize(
    "bend",
    [
        {"is_used": True},
        {"is_used": True, "writes": True},
        {"phase": Phase.BACKWARD},
        {"phase": Phase.OPTIMIZER},
        {"ends": (1, 2)},
    ],
    ids=["used", "used and written", "a backward", "an optimizer", "ends differ"],
)
def test_calls_of_one_run_alone_that_reach_something_or_train_diverge(tmp_path: Path, bend: dict[str, object]) -> None:
    found = loaded(tmp_path, **bend)  # type: ignore[arg-type]
    assert (found.agrees, bool(found.roots), found.without_effect) == (False, True, ())
