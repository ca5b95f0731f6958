"""A resumed run held against the uninterrupted one: by hand and of programs, what was not restored is named."""

from __future__ import annotations

import copy
import functools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from tests.divergence.recorded import Recorder, Run, program
from tests.support.lines import line_of
from tracer import DeterminismTracer
from tracer.divergence.causes import RootCause
from tracer.divergence.comparing import compare_recordings
from tracer.divergence.cut_lines import RunLines
from tracer.divergence.model import Divergence, NotRestored, read_recording
from tracer.divergence.omissions import hold_against, what_of
from tracer.errors import TraceError
from tracer.names import Phase
from tracer.trace.values import ValueKind

STATES = {
    (ValueKind.OPTIMIZER_STATE, "exp_avg of fc.weight"): "m",
    (ValueKind.SCHEDULER, "StepLR"): "s",
    (ValueKind.SCALER, "GradScaler"): "g",
    (ValueKind.HYPERPARAMETER, "lr of group 0"): "0.1",
}


@pytest.fixture
def record(tmp_path: Path) -> Recorder:
    return Recorder(tmp_path)


def restarted(record: Recorder, align: tuple[int, int] | None = None, **bend: Any) -> Divergence:
    """Six steps at once, against the last four after a restart; ``bend`` is what the restart got wrong."""
    state: dict[str, Any] = {}

    def all_at_once(run: Run) -> None:
        program(run, steps=6, states=STATES, keep=(2, state))

    def after_a_restart(run: Run) -> None:
        run.call("randn.default", line=1, generator=("cpu", "setting up"), numbers="size=[9]")
        program(run, steps=4, **{"begin": 2, "states": STATES, "restored": state, **bend})

    return compare_recordings(record(all_at_once), record(after_a_restart), align_step=align)


@pytest.mark.parametrize("align", [None, (2, 2)], ids=["by itself", "as told"])
def test_a_good_resume_agrees(record: Recorder, align: tuple[int, int] | None) -> None:
    found = restarted(record, align)
    assert found.agrees
    assert found.resumed is not None
    assert (found.resumed.first_step, found.resumed.second_step) == (2, 2)
    assert found.resumed.by_itself == (align is None)
    assert found.resumed.not_restored == ()
    assert found.calls_compared == 4 * 7


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, name in STATES], ids=[kind.value for kind, _ in STATES]
)
@pytest.mark.parametrize("how", ["missing", "another"])
def test_a_state_that_was_not_restored_is_named(record: Recorder, kind: ValueKind, name: str, how: str) -> None:
    states = {key: value for key, value in STATES.items() if key != (kind, name)}
    if how == "another":
        states = {**states, (kind, name): "wrong"}
    found = restarted(record, states=states)
    assert found.resumed is not None
    (missing,) = found.resumed.not_restored
    assert (missing.kind, missing.name) == (kind, name)


def test_steps_that_count_from_0_again_after_the_restart_are_found(record: Recorder) -> None:
    found = restarted(record, renumbered=-2)
    assert found.agrees
    assert found.resumed is not None
    assert (found.resumed.first_step, found.resumed.second_step) == (2, 0)


def test_a_call_too_many_after_the_restart_is_a_root(record: Recorder) -> None:
    for renumbered in (0, -2):
        found = restarted(record, extra_call=3, renumbered=renumbered)
        assert [(one.cause, one.op) for one in found.roots] == [(RootCause.STRUCTURE, "aten.relu.default")]


def test_a_generator_that_was_not_restored_is_named(record: Recorder) -> None:
    found = restarted(record, seed="seeded again")
    assert found.resumed is not None
    assert [(one.kind, one.name) for one in found.resumed.not_restored] == [(ValueKind.GENERATOR, "cpu")]
    assert found.roots[0].cause is RootCause.DRAW


def test_data_that_begin_again_are_named(record: Recorder) -> None:
    found = restarted(record, batches={step: ("batch", step - 2) for step in range(2, 6)})
    assert found.resumed is not None
    assert [one.kind for one in found.resumed.not_restored] == [ValueKind.DATA_POSITION]


def test_parameters_that_were_not_restored_are_named_where_the_step_is_told(record: Recorder) -> None:
    found = restarted(record, (2, 2), weight="other")
    assert found.resumed is not None
    assert [(one.kind, one.name) for one in found.resumed.not_restored] == [(ValueKind.PARAMETER, "fc.weight")]


@pytest.mark.parametrize(
    ("phase", "module", "kind", "cause"),
    [
        (Phase.FORWARD, "bn", ValueKind.OUTSIDE, RootCause.INITIAL_STATE),
        (Phase.OPTIMIZER, "", ValueKind.OPTIMIZER_STATE, RootCause.INITIAL_STATE),
        (Phase.OTHER, "", ValueKind.OUTSIDE, RootCause.INITIAL_STATE),
    ],
)
@pytest.mark.parametrize("made_by", ["call", "entry"])
def test_what_was_made_before_the_restart_and_is_another_one_is_told_by_where_it_is_read(
    record: Recorder, phase: Phase, module: str, kind: ValueKind, cause: RootCause, made_by: str
) -> None:
    def body(run: Run, first_step: int, value: int) -> None:
        run.writer.step(0)
        made = run.call("zeros.default", line=1, numbers=f"{value}")
        if made_by == "entry":
            made = run.enter(ValueKind.OUTSIDE, "", value)
        for step in range(first_step, 5):
            run.writer.step(step - first_step)
            run.call("ones.default", line=2)
            if step >= 3:
                run.call("add.Tensor", made, line=3, phase=phase, module=module)

    whole, resumed = record(body, first_step=0, value=1), record(body, first_step=2, value=2)
    found = compare_recordings(whole, resumed, align_step=(2, 0))
    assert found.resumed is not None
    assert [(one.cause, one.location, one.same_cause) for one in found.roots] == [(cause, "train.py:3", 1)]
    assert [one.kind for one in found.resumed.not_restored] == [kind]


def test_two_runs_from_one_start_are_no_resume(record: Recorder) -> None:
    assert compare_recordings(record(), record(steps=3)).resumed is None


def test_a_step_that_is_not_there_is_one_line(record: Recorder) -> None:
    with pytest.raises(TraceError, match="first recording has no step 77"):
        compare_recordings(record(), record(), align_step=(77, 0))


def test_a_run_that_goes_on_where_the_other_ended_agrees_with_none_of_it(tmp_path: Path) -> None:
    record = Recorder(tmp_path)

    def ended(run: Run) -> None:
        program(run, steps=2)
        run.writer.step(2)
        run.writer.moment(ValueKind.PARAMETER, "fc.weight", 7)

    def goes_on(run: Run) -> None:
        run.writer.moment(ValueKind.PARAMETER, "fc.weight", 7)
        program(run, steps=2, begin=2)

    found = compare_recordings(record(ended), record(goes_on))
    assert not found.agrees
    assert found.resumed is None


def test_whole_runs_of_one_program_are_compared_from_their_beginning(record: Recorder) -> None:
    state: dict[str, Any] = {}

    def whole(run: Run) -> None:
        program(run, steps=6, states=STATES, keep=(2, state))

    def found_a_checkpoint(run: Run) -> None:
        program(run, steps=4, begin=2, states=STATES, restored=state)

    recordings = record(whole), record(found_a_checkpoint)
    assert compare_recordings(*recordings).agrees
    assert not compare_recordings(*recordings, may_resume=False).agrees


def test_what_a_program_goes_on_writing_to_is_a_state_and_no_data(record: Recorder) -> None:
    def averages(run: Run, kept: str, begin: int, steps: int, state: dict[str, Any]) -> None:
        average = run.call("clone.default", line=2, numbers=kept, phase=Phase.OTHER)
        program(run, begin=begin, steps=steps, **state)
        run.call("mul_.Tensor", average, line=30, phase=Phase.OTHER)

    state: dict[str, Any] = {}
    whole = record(lambda run: averages(run, "whole", 0, 6, {"keep": (2, state)}))
    restarted = record(lambda run: averages(run, "begun anew", 2, 4, {"restored": state}))
    found = compare_recordings(whole, restarted)
    (root,) = found.roots
    assert (root.op, root.cause, root.kind) == ("aten.mul_.Tensor", RootCause.INITIAL_STATE, ValueKind.OUTSIDE)
    assert found.resumed is not None
    assert [one.kind for one in found.resumed.not_restored] == [ValueKind.OUTSIDE]


# --- programs ---


HERE = "tests/divergence/test_resuming.py"
Saved = dict[str, Any]
Program = Callable[[Saved, bool], None]
"""Writes its checkpoint where it is not resumed, and goes on from it where it is."""


def recorded(folder: Path, name: str, run: Callable[[], None]) -> Path:
    with DeterminismTracer(values=True) as tracer:
        run()
    tracer.save(folder / f"{name}.trace.json")
    return folder / f"{name}.trace.json"


def resumed(folder: Path, program: Program) -> Divergence:
    saved: Saved = {}
    whole = recorded(folder, "whole", lambda: program(saved, False))
    rest = recorded(folder, "rest", lambda: program(saved, True))
    return compare_recordings(read_recording(whole), read_recording(rest))


def lacks(found: Divergence) -> list[tuple[ValueKind, str]]:
    assert found.resumed is not None
    return [(lack.kind, lack.name) for lack in found.resumed.not_restored]


def lack(found: Divergence) -> NotRestored:
    assert found.resumed is not None
    (one,) = found.resumed.not_restored
    return one


def positional(optimizer: torch.optim.Optimizer, closure: Callable[[], torch.Tensor]) -> None:
    optimizer.step(closure)  # type: ignore[arg-type]


def keyword(optimizer: torch.optim.Optimizer, closure: Callable[[], torch.Tensor]) -> None:
    optimizer.step(closure=closure)  # type: ignore[arg-type]


def in_a_partial(optimizer: torch.optim.Optimizer, closure: Callable[[], torch.Tensor]) -> None:
    optimizer.step(functools.partial(closure))  # type: ignore[arg-type]


def in_a_decorator(optimizer: torch.optim.Optimizer, closure: Callable[[], torch.Tensor]) -> None:
    optimizer.step(torch.enable_grad()(closure))


def before_it(optimizer: torch.optim.Optimizer, closure: Callable[[], torch.Tensor]) -> None:
    closure()
    optimizer.step()


WAYS = [positional, keyword, in_a_partial, in_a_decorator]


def trained(
    step: Callable[..., None], make: Callable[..., torch.optim.Optimizer], saved: Saved, *, again: bool
) -> None:
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(8, 4), nn.Dropout(0.1), nn.Linear(4, 1))
    optimizer = make(net.parameters())
    if again:
        net.load_state_dict(saved["net"])
        optimizer.load_state_dict(saved["optimizer"])
    for number in range(2 if again else 0, 4):
        x = torch.full((3, 8), float(number))

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = net(x).pow(2).mean()  # noqa: B023 (it is called in this turn)
            loss.backward()
            return loss

        step(optimizer, closure)
        if number == 1 and not again:
            saved.update(copy.deepcopy({"net": net.state_dict(), "optimizer": optimizer.state_dict()}))


def adam(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, 1e-2)


def momentum(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, 1e-2, momentum=0.9)


def lbfgs(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.LBFGS(parameters, 1e-2, max_iter=2)


@pytest.mark.parametrize(("step", "make"), [*((way, adam) for way in WAYS), (keyword, momentum), (positional, lbfgs)])
def test_a_step_with_a_closure_is_found_and_its_states_are_restored(
    tmp_path: Path, step: Callable[..., None], make: Callable[..., torch.optim.Optimizer]
) -> None:
    found = resumed(tmp_path, lambda saved, again: trained(step, make, saved, again=again))
    assert found.resumed is not None
    assert (found.resumed.first_step, found.resumed.second_step) == (2, 0)
    assert lacks(found) == [(ValueKind.GENERATOR, "cpu")]


@pytest.mark.parametrize("step", [keyword, in_a_decorator])
def test_a_step_with_a_closure_has_the_states_of_one_whose_loss_came_before(
    tmp_path: Path, step: Callable[..., None]
) -> None:
    def states(name: str, way: Callable[..., None]) -> list[tuple[int, ValueKind, str, int]]:
        path = recorded(tmp_path, name, lambda: trained(way, adam, {}, again=False))
        values = read_recording(path).values
        moments = values.moments
        rows = zip(moments.step.tolist(), moments.name.tolist(), moments.digest.tolist(), strict=True)
        named = [(number, values.names[name], digest) for number, name, digest in rows]
        return [
            (number, name.kind, name.name, digest)
            for number, name, digest in named
            if name.kind not in (ValueKind.GENERATOR, ValueKind.LOSS)
        ]

    plain = states("plain", before_it)
    assert any(kind is ValueKind.GRADIENT for _, kind, *_ in plain)
    assert states("closure", step) == plain


def dropping(advances: Callable[[], object], saved: Saved, *, again: bool, early: bool = False) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    if again:
        net.load_state_dict(saved["net"])
        torch.set_rng_state(saved["state"])
        advances()
    for number in range(2 if again else 0, 4):
        if number == 1 and early:
            saved["state"] = torch.get_rng_state()
        optimizer.zero_grad()
        net(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        if number == 1 and not again:
            saved["net"] = copy.deepcopy(net.state_dict())
            saved.setdefault("state", torch.get_rng_state())


def iterates() -> object:
    return iter(DataLoader(TensorDataset(torch.ones(4, 4)), shuffle=True))


def draws() -> object:
    return torch.rand(3)


def initializes() -> object:
    return nn.Linear(2, 2)


@pytest.mark.parametrize(("advances", "by"), [(iterates, "iter("), (draws, "rand"), (initializes, "Linear")])
def test_a_generator_that_was_restored_and_then_advanced_is_told_with_both_lines(
    tmp_path: Path, advances: Callable[[], object], by: str
) -> None:
    found = resumed(tmp_path, lambda saved, again: dropping(advances, saved, again=again))
    missing = lack(found)
    assert (missing.kind, missing.name) == (ValueKind.GENERATOR, "cpu")
    root = missing.root
    assert root is not None
    assert root.earlier is not None
    assert f"{HERE}:{line_of(advances, by)}" in (root.earlier.location, root.earlier.called_from)
    assert root.seed is not None
    assert root.seed.location == f"{HERE}:{line_of(dropping, 'set_rng_state')}"
    assert "not restored" not in what_of(missing)
    assert "restore it after that" in what_of(missing)


def test_a_generator_that_was_given_a_state_saved_too_early_was_restored(tmp_path: Path) -> None:
    def early(saved: Saved, again: bool) -> None:
        dropping(lambda: None, saved, again=again, early=not again)

    missing = lack(resumed(tmp_path, early))
    assert missing.kind is ValueKind.GENERATOR
    assert "saved at another moment" in what_of(missing)
    assert "not restored" not in what_of(missing)


def test_a_generator_that_was_restored_last_is_right(tmp_path: Path) -> None:
    found = resumed(tmp_path, lambda saved, again: dropping(lambda: None, saved, again=again))
    assert found.agrees
    assert lacks(found) == []


class Jittered(Dataset[torch.Tensor]):
    """Draws from Python's generator, if asked."""

    def __init__(self, *, draws: bool) -> None:
        self.draws = draws

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((4,), float(index) + (random.random() if self.draws else 0.0))


def in_the_middle_of_an_epoch(saved: Saved, *, again: bool, draws: bool, shuffle: bool) -> None:
    random.seed(0)
    torch.manual_seed(0)
    loader = DataLoader(Jittered(draws=draws), batch_size=2, shuffle=shuffle)
    net = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    if again:
        net.load_state_dict(saved["net"])
        torch.set_rng_state(saved["state"])
        if draws:
            random.seed(7)
    for number, x in enumerate(loader):
        if again and number < 2:
            continue
        optimizer.zero_grad()
        net(x).sum().backward()
        optimizer.step()
        if number == 1:
            saved.update(net=copy.deepcopy(net.state_dict()), state=torch.get_rng_state())


def test_another_order_is_said_to_come_from_the_generator_it_was_drawn_from_alone(tmp_path: Path) -> None:
    found = resumed(
        tmp_path, lambda saved, again: in_the_middle_of_an_epoch(saved, again=again, draws=False, shuffle=True)
    )
    missing = lack(found)
    assert missing.kind is ValueKind.DATA_POSITION
    assert missing.root is not None
    loading = missing.root.loading
    assert loading is not None
    assert (loading.indices_agree, loading.order_from) == (False, "cpu")


def test_samples_that_python_draws_otherwise_are_said_to(tmp_path: Path) -> None:
    found = resumed(
        tmp_path, lambda saved, again: in_the_middle_of_an_epoch(saved, again=again, draws=True, shuffle=False)
    )
    loading = found.roots[0].loading
    assert loading is not None
    assert loading.indices_agree is True
    assert "where Python's `random` was in another state" in loading.says


def train(
    saved: Saved,
    net: nn.Module,
    give: Callable[[int], torch.Tensor],
    *,
    again: bool,
    optimizer: torch.optim.Optimizer | None = None,
    keeps: Callable[[str], bool] = lambda name: True,
) -> None:
    """Four steps, with a checkpoint after the second."""
    optimizer = optimizer or torch.optim.SGD(net.parameters(), 1e-3)
    if again:
        net.load_state_dict(saved["net"], strict=False)
        optimizer.load_state_dict(saved["optimizer"])
    for number in range(2 if again else 0, 4):
        x = give(number)
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()
        if number == 1 and not again:
            kept = {name: value for name, value in net.state_dict().items() if keeps(name)}
            saved.update(copy.deepcopy({"net": kept, "optimizer": optimizer.state_dict()}))


def test_a_batch_fetched_one_ahead_is_data_and_no_buffer(tmp_path: Path) -> None:
    def program(saved: Saved, again: bool) -> None:
        torch.manual_seed(0)
        batches = iter(DataLoader(Jittered(draws=False), batch_size=1))
        upcoming = [next(batches)]

        def give(number: int) -> torch.Tensor:
            upcoming.append(next(batches).to(torch.float32))
            return upcoming.pop(0) * 2

        train(saved, nn.Linear(4, 1), give, again=again)

    assert [kind for kind, _ in lacks(resumed(tmp_path, program))] == [ValueKind.DATA_POSITION]


def test_statistics_of_batches_are_named_as_the_buffers_that_they_are(tmp_path: Path) -> None:
    def program(saved: Saved, again: bool) -> None:
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
        give = lambda number: torch.arange(8.0).reshape(2, 4) * (number + 1)  # noqa: E731
        train(saved, net, give, again=again, keeps=lambda name: "running" not in name)

    named = lacks(resumed(tmp_path, program))
    assert {kind for kind, _ in named} == {ValueKind.BUFFER}
    assert all("running_" in name or "num_batches" in name for _, name in named)


def adagrad(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.Adagrad(parameters, 1e-2, foreach=False)


@pytest.mark.parametrize(("make", "key"), [(momentum, "momentum_buffer"), (adagrad, "sum")])
def test_a_state_that_a_load_cast_is_told_with_both_dtypes(
    tmp_path: Path, make: Callable[..., torch.optim.Optimizer], key: str
) -> None:
    def program(saved: Saved, again: bool) -> None:
        torch.manual_seed(0)
        net = nn.Linear(4, 1).to(torch.bfloat16)
        optimizer = make(net.parameters())
        for parameter in net.parameters():
            optimizer.state[parameter][key] = torch.zeros(parameter.shape)
            optimizer.state[parameter].setdefault("step", torch.tensor(0.0))
        give = lambda number: torch.full((2, 4), number + 1.0, dtype=torch.bfloat16)  # noqa: E731
        train(saved, net, give, again=again, optimizer=optimizer)

    missing = lack(resumed(tmp_path, program))
    assert (missing.kind, missing.name) == (ValueKind.OPTIMIZER_STATE, f"{key} of group 0")
    assert (missing.first, missing.second) == ("float32", "bfloat16")


@pytest.mark.parametrize(
    "write",
    [
        lambda target, source: target.copy_(source),
        lambda target, source: torch._foreach_copy_([target], [source]),
        lambda target, source: torch.add(source, source, out=target),
    ],
    ids=["copy", "foreach", "out"],
)
def test_a_target_of_another_dtype_is_an_argument(tmp_path: Path, write: Callable[..., object]) -> None:
    def run(dtype: torch.dtype) -> None:
        source = torch.arange(4.0)
        target = torch.zeros(4, dtype=dtype)
        write(target, source)
        target.sum()

    paths = [recorded(tmp_path, str(dtype), functools.partial(run, dtype)) for dtype in (torch.float32, torch.float64)]
    found = compare_recordings(*map(read_recording, paths))
    causes = [root.cause for root in found.roots if "zeros" not in root.op]
    assert causes[0] is RootCause.ARGUMENT
    assert RootCause.UNKNOWN not in causes


def test_of_steps_that_change_no_parameter_the_one_with_the_other_states_is_taken(tmp_path: Path) -> None:
    """Of four steps, ended after the second, held as ``tracer resume`` does, without lines."""

    def program(saved: Saved, again: bool) -> None:
        torch.manual_seed(0)
        net = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)

        def give(number: int) -> torch.Tensor:
            optimizer.param_groups[0]["lr"] = (0.1, 0.0, 0.0, 0.1)[number]
            return torch.full((2, 4), number + 1.0)

        train(saved, net, give, again=again, optimizer=optimizer)

    saved: Saved = {}
    runs = [recorded(tmp_path, f"{again}", functools.partial(program, saved, again)) for again in (False, True)]
    found = hold_against(*map(read_recording, runs), 2, [RunLines(())] * 3)
    assert (found.step, found.steps) == (2, (2, 2))
    assert not any("optimizer" in omission.what for omission in found.not_restored)
