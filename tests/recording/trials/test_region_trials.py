"""Compiled regions run again: functions of our own stand for what Inductor makes; the compiler is met elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tracer.names import Direction, Untried
from tracer.recording.compiled.compilations import CompiledCode
from tracer.recording.compiled.executions import RegionRun
from tracer.recording.compiled.listing import RegionList
from tracer.recording.origin.modules import OUTSIDE
from tracer.recording.origin.sites import Sites
from tracer.recording.process.environment import capture_environment
from tracer.recording.trials.call_trials import RegionTrials, RiskyCall
from tracer.recording.trials.replay import Replay
from tracer.trace.records import Tried

MUL = 'out: "f32[4][1]cpu" = torch.ops.aten.mul.Tensor(x, 2)'
CUSTOM = 'out: "f32[4][1]cpu" = torch.ops.mine.op.default(x)'


def text_of(*lines: str, returns: str = "out") -> str:
    body = "".join(f"        {line}\n" for line in (*lines, f"return ({returns},)"))
    return f'class GraphModule(torch.nn.Module):\n    def forward(self, x: "f32[4][1]cpu"):\n{body}'


class Compiled:
    """As Inductor's object, as far as it is looked at."""

    def __init__(self, function: Callable[[list[Any]], Any], *mutated: int) -> None:
        self.current_callable = function
        self.mutated_input_idxs = set(mutated)


class Region:
    """One region of a recording with trials."""

    def __init__(
        self,
        function: Callable[[list[Any]], Any],
        *mutated: int,
        text: str = "",
        direction: Direction = Direction.FORWARD,
        tries_all: bool = True,
        limit: int = 1 << 20,
    ) -> None:
        self.compiled = Compiled(function, *mutated)
        code = CompiledCode(None, direction, "0/0")
        code.text = text or text_of(MUL)
        code.devices = ("cpu",)
        self.run = RegionRun(code, OUTSIDE, in_engine=False, in_optimizer=False)
        self.list = RegionList(Sites(()), dict)
        self.trials = RegionTrials(Replay(3, limit), self.list, tries_all=tries_all)
        self.trials.risk = RiskyCall(capture_environment())

    def __call__(self, *inputs: Any) -> Any:
        begun = self.trials.before(self.run, self.compiled, given := list(inputs))
        result = self.compiled.current_callable(given)
        self.trials.after(begun, result)
        self.run.count += 1
        return result

    def tried(self) -> Tried | None:
        region, groups, _ = self.list.one_execution(self.run)
        return self.trials.tried((region,), tuple(groups))[0][0].tried


def tried(region: Region) -> Tried:
    found = region.tried()
    assert found is not None
    return found


class Counts:
    """Adds one more each time: what it gives varies."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, inputs: list[Any]) -> list[torch.Tensor]:
        self.calls += 1
        (x,) = inputs
        inputs.clear()
        return [x + self.calls]


def test_a_region_that_varies_is_seen_and_its_own_result_is_handed_on() -> None:
    region = Region(Counts())
    (result,) = region(torch.zeros(4))
    assert result.tolist() == [1, 1, 1, 1]
    assert (tried(region).calls, tried(region).trials, tried(region).varied, tried(region).distinct) == (1, 3, 3, 4)


def test_a_region_that_writes_its_input_starts_each_time_from_what_stood_there_and_shared_memory_stays_shared() -> None:
    def writes(inputs: list[Any]) -> list[torch.Tensor]:
        whole, part = inputs
        inputs.clear()
        whole.add_(1)
        return [part * 2, part]  # ``part`` lies on ``whole``

    region = Region(writes, 0)
    whole = torch.arange(4.0)
    result, _ = region(whole, whole[1:])
    assert whole.tolist() == [1, 2, 3, 4]
    assert result.tolist() == [4, 6, 8]
    assert (tried(region).trials, tried(region).varied) == (3, 0)


def test_a_write_that_varies_is_seen_though_nothing_is_returned() -> None:
    def writes(inputs: list[Any]) -> list[torch.Tensor]:
        inputs[0].add_(next(numbers))
        return []

    numbers = iter(range(9))
    region = Region(writes, 0)
    assert region(torch.zeros(4)) == []
    assert tried(region).varied == 3


def test_a_backward_that_reuses_the_memory_of_its_inputs_agrees_and_frees_them_when_it_likes() -> None:
    def reuses(inputs: list[Any]) -> list[torch.Tensor]:
        (x,) = inputs
        inputs.clear()
        return [x.mul_(2)]  # no schema and no list of inputs says so

    region = Region(reuses, direction=Direction.BACKWARD)
    (result,) = region(torch.ones(4))
    assert result.tolist() == [2, 2, 2, 2]
    assert (tried(region).trials, tried(region).varied) == (3, 0)


def test_draws_repeat_and_every_generator_is_left_as_the_region_left_it() -> None:
    def draws(inputs: list[Any]) -> list[torch.Tensor]:
        return [torch.rand(3), torch.rand(3, generator=inputs[1])]

    region, own = Region(draws), torch.Generator().manual_seed(1)
    torch.manual_seed(0)
    first = region(torch.zeros(4), own)
    after = torch.rand(3), torch.rand(3, generator=own)
    torch.manual_seed(0)
    own.manual_seed(1)
    expected = (torch.rand(3), torch.rand(3, generator=own), torch.rand(3), torch.rand(3, generator=own))
    assert all(map(torch.equal, (*first, *after), expected))
    assert (tried(region).trials, tried(region).varied) == (3, 0)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('out: "f32[4]" = torch.ops._c10d_functional.all_reduce.default(x, "sum", "0")', Untried.COLLECTIVE),
        ('out: "f32[4]" = torch.ops.higher_order.with_effects(x)', Untried.SIDE_EFFECTS),
        ('out: "f32[4]" = torch.ops.aten.empty.memory_format([4])', Untried.FRESH_MEMORY),
        ("out = torch.ops.aten.mkldnn_rnn_layer.default(x)", Untried.FRESH_MEMORY),
    ],
)
def test_what_cannot_be_put_back_is_named_and_runs_once(line: str, reason: Untried) -> None:
    function = Counts()
    region = Region(function, text=text_of(line))
    region(torch.zeros(4))
    assert function.calls == 1
    assert tried(region).untried == {reason: 1}


def test_a_region_of_cuda_graphs_and_one_whose_inside_is_not_known_are_named() -> None:
    graphs, unknown = Region(Counts()), Region(Counts(), text="...")
    graphs.run.code.uses_cuda_graphs = True
    for region in (graphs, unknown):
        region(torch.zeros(4))
    assert tried(graphs).untried == {Untried.CAPTURED: 1}
    assert tried(unknown).untried == {Untried.COMPILED: 1}


def test_of_many_executions_ever_rarer_ones_are_tried_and_large_ones_not_at_all() -> None:
    region = Region(lambda inputs: [inputs[0] * 2])
    for _ in range(20):
        region(torch.zeros(4))
    assert (tried(region).calls, tried(region).untried) == (6, {Untried.RARER: 14})
    large = Region(lambda inputs: [inputs[0] * 2], limit=8)
    large(torch.zeros(4))
    assert tried(large).untried == {Untried.MEMORY: 1}


def test_a_region_that_raises_when_it_runs_again_is_counted_and_one_that_raises_at_once_raises() -> None:
    def once(inputs: list[Any]) -> list[torch.Tensor]:
        if next(calls):
            raise ValueError("only once")
        return [inputs[0]]

    calls = iter(range(9))
    region = Region(once)
    region(torch.zeros(4))
    assert tried(region).untried == {Untried.FAILED: 1}
    calls = iter(range(1, 9))
    with pytest.raises(ValueError, match="only once"):
        region(torch.zeros(4))


def test_where_nothing_is_at_risk_nothing_is_tried_unless_all_is_asked_for() -> None:
    safe, risky = Region(Counts(), tries_all=False), Region(Counts(), text=text_of(CUSTOM), tries_all=False)
    for region in (safe, risky):
        region(torch.zeros(4))
    assert safe.tried() is None
    assert (tried(risky).varied, tried(risky).together) == (3, 1)
    asked = Region(Counts())
    asked(torch.zeros(4))
    assert (tried(asked).varied, tried(asked).together) == (3, 0)


def test_calls_that_may_vary_bear_what_their_region_showed_and_others_do_not() -> None:
    region = Region(Counts(), text=text_of(CUSTOM, 'more: "f32[4][1]cpu" = torch.ops.aten.mul.Tensor(out, 2)'))
    region(torch.zeros(4))
    told, groups, _ = region.list.one_execution(region.run)
    regions, with_outcomes = region.trials.tried((told,), tuple(groups))
    found = {group.op: group.tried for group in with_outcomes}
    assert found == {"mine.op.default": regions[0].tried, "aten.mul.Tensor": None}
