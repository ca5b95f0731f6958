"""Calls made again: what varies is found, what cannot vary is not accused, and the program does not feel it."""

from __future__ import annotations

import random
import threading
import warnings
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.support.bits import bits, random_state
from tests.support.racing import additions
from tracer import DeterminismTracer, Trials
from tracer.names import Untried
from tracer.trace.records import Tried

LIBRARY = torch.library.Library("tried", "DEF")


def tried_in(tracer: DeterminismTracer) -> dict[str, Tried]:
    """By op, for the groups that were tried or should have been."""
    return {group.op: group.tried for group in tracer.trace.calls if group.tried is not None}


def define(schema: str, function: Any) -> Any:
    """An op of our own, on the CPU; made once a process."""
    name = schema.partition("(")[0]
    if not hasattr(torch.ops.tried, name):
        LIBRARY.define(schema)
        LIBRARY.impl(name, function, "CPU")
    return getattr(torch.ops.tried, name)


class Tosses:
    """An op that gives another answer each time, from a state that nobody sees."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return x + self.calls % 2


TOSSES = Tosses()


def test_additions_that_race_are_found_to_vary_and_how_far(two_threads: None) -> None:
    index, values = additions()
    with DeterminismTracer(trials=8) as tracer:
        torch.zeros(100).index_put_((index,), values, accumulate=True)
    found = tried_in(tracer)["aten.index_put_.default"]
    assert found.calls == 1
    assert found.trials == 8
    assert 1 <= found.varied <= 8
    assert 2 <= found.distinct <= 9
    assert 0 < found.relative <= 1
    assert found.first == 1


def test_only_what_the_tables_hold_for_a_risk_is_tried_unless_all_is_asked_for() -> None:
    x = torch.randn(8, 8)
    with DeterminismTracer(trials=2) as tracer:
        torch.mm(x, x)
    assert tried_in(tracer) == {}
    with DeterminismTracer(trials=Trials(2, all=True)) as tracer:
        torch.mm(x, x)
    assert tried_in(tracer)["aten.mm.default"].trials == 2


def test_an_op_from_outside_that_varies_is_found_and_the_first_call_named() -> None:
    tosses = define("tosses(Tensor x) -> Tensor", TOSSES)
    with DeterminismTracer(trials=3) as tracer:
        tosses(torch.zeros(3))
    found = tried_in(tracer)["tried.tosses.default"]
    assert (found.trials, found.varied, found.distinct, found.first) == (3, 2, 2, 1)
    assert found.relative == 1


def test_an_op_that_keeps_to_its_inputs_agrees_though_it_changes_them() -> None:
    def changes(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)  # its schema does not say so
        return x * 2

    op = define("changes(Tensor x) -> Tensor", changes)
    x = torch.zeros(3)
    with DeterminismTracer(trials=4) as tracer:
        result = op(x)
    assert x.tolist() == [1, 1, 1]
    assert result.tolist() == [2, 2, 2]
    assert tried_in(tracer)["tried.changes.default"].varied == 0


def test_every_generator_is_as_the_call_left_it_and_draws_repeat() -> None:
    def draws(x: torch.Tensor) -> torch.Tensor:
        return x + torch.rand(3) + random.random() + np.random.rand()

    op = define("draws(Tensor x) -> Tensor", draws)

    def program() -> list[Any]:
        own = torch.Generator().manual_seed(3)
        torch.manual_seed(1)
        random.seed(1)
        np.random.seed(1)
        x = torch.zeros(50)
        x.normal_(generator=own)
        found = [op(x[:3]), x, torch.bernoulli(x.abs().clamp(0, 1), generator=own), torch.rand(2)]
        dropped = torch.nn.functional.dropout(x, 0.5)
        return [bits(one) for one in (*found, dropped)] + [own.get_state().tolist(), random_state()]

    plain = program()
    with DeterminismTracer(trials=Trials(3, all=True)) as tracer:
        recorded = program()
    assert recorded == plain
    found = tried_in(tracer)
    for name in ("tried.draws.default", "aten.normal_.default", "aten.bernoulli.default"):
        assert (found[name].trials, found[name].varied) == (3, 0), name
    assert not any(event.while_recording and event.count > 1 for event in tracer.trace.events if event.name == "cpu")


def test_aliased_inputs_in_place_and_out_are_tried_and_left_alone() -> None:
    def program() -> list[Any]:
        whole = torch.arange(12.0)
        whole[:6].add_(whole[6:])
        whole[1:].mul_(whole[:-1].clone())
        torch.add(whole[:3], whole[3:6], out=whole[6:9])
        columns = whole.view(3, 4).t()
        columns.index_add_(0, torch.tensor([0, 0, 3]), columns[:3].clone())
        version = whole._version
        return [bits(whole), bits(columns), version]

    plain = program()
    with DeterminismTracer(trials=Trials(3, all=True)) as tracer:
        recorded = program()
    assert recorded == plain
    found = tried_in(tracer)
    assert {op for op, one in found.items() if one.varied} == set()
    assert found["aten.index_add_.default"].trials == 3
    assert found["aten.add.out"].trials == 3


def test_gradients_versions_and_saved_tensors_do_not_feel_trials() -> None:
    def program() -> list[Any]:
        torch.manual_seed(0)
        w = torch.randn(6, 4, requires_grad=True)
        seen: list[int] = []
        w.register_hook(lambda grad: seen.append(grad._version))
        index = torch.tensor([0, 1, 1, 5])
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
            loss = (w[index] * torch.nn.functional.dropout(w, 0.3).sum(0)).pow(2).sum()
        loss.backward()
        with torch.inference_mode():
            inferred = w.detach() @ w.detach().t()
        return [bits(w.grad), seen, w._version, loss.item(), bits(inferred), random_state()]

    with DeterminismTracer():  # under any mode, torch takes an out-of-place way to some gradients
        plain = program()
    with DeterminismTracer(trials=Trials(2, all=True)) as tracer:
        recorded = program()
    assert recorded == plain
    assert not any(one.varied for one in tried_in(tracer).values())


def test_a_mode_of_the_users_sees_its_own_calls_alone() -> None:
    class Counting(TorchDispatchMode):
        def __init__(self) -> None:
            super().__init__()
            self.calls: list[str] = []

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.calls.append(str(func))
            return func(*args, **(kwargs or {}))

    def program() -> list[str]:
        mode = Counting()
        with mode:
            torch.zeros(4).index_put_((torch.tensor([0, 0, 1]),), torch.ones(3), accumulate=True)
        return mode.calls

    plain = program()
    with DeterminismTracer(trials=Trials(3, all=True)):
        recorded = program()
    assert [name.replace("_", "") for name in recorded] == [name.replace("_", "") for name in plain]


def test_of_many_calls_ever_rarer_ones_are_tried_and_the_others_counted() -> None:
    target, index, values = torch.zeros(4), torch.tensor([0, 0, 1]), torch.ones(3)
    with DeterminismTracer(trials=Trials(2, all=True)) as tracer:
        for _ in range(40):
            target.index_put_((index,), values, accumulate=True)
    found = tried_in(tracer)["aten.index_put_.default"]
    assert found.calls == 7  # the first three, then 4, 8, 16, 32
    assert found.trials == 14
    assert found.untried == {Untried.RARER: 33}


def test_a_call_that_needs_more_memory_than_it_may_take_is_not_tried() -> None:
    with DeterminismTracer(trials=Trials(2, all=True, memory=1000)) as tracer:
        torch.zeros(4000).index_put_((torch.tensor([0, 0]),), torch.ones(2), accumulate=True)
    assert tried_in(tracer)["aten.index_put_.default"].untried == {Untried.MEMORY: 1}


def test_what_cannot_be_put_back_is_named_and_not_done_twice() -> None:
    done: list[int] = []
    effect = define("effect(Tensor x) -> ()", lambda x: done.append(1))
    with DeterminismTracer(trials=Trials(5, all=True)) as tracer:
        effect(torch.zeros(2))
        torch.empty(3).resize_(9)
        torch.zeros(2).sum().item()
    found = tried_in(tracer)
    assert done == [1]
    assert found["tried.effect.default"].untried == {Untried.SIDE_EFFECTS: 1}
    assert found["aten.resize_.default"].untried == {Untried.FRESH_MEMORY: 1}
    assert found["aten._local_scalar_dense.default"].untried == {Untried.NO_RESULT: 1}
    assert "aten.view.default" not in found


def test_a_trial_that_raises_is_counted_and_the_generators_are_as_they_were() -> None:
    calls: list[int] = []

    def once(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        if len(calls) > 1:
            raise ValueError("only once")
        return x + torch.rand(1)

    op = define("once(Tensor x) -> Tensor", once)
    torch.manual_seed(0)
    expected = [torch.rand(1).item(), torch.rand(1).item()]
    torch.manual_seed(0)
    with DeterminismTracer(trials=3) as tracer:
        drawn = op(torch.zeros(1)).item()
        after = torch.rand(1).item()
    assert [drawn, after] == expected
    assert tried_in(tracer)["tried.once.default"].untried == {Untried.FAILED: 1}


def test_a_warning_of_deterministic_mode_is_not_given_again() -> None:
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with warnings.catch_warnings(record=True) as caught, DeterminismTracer(trials=Trials(3, all=True)):
            warnings.simplefilter("always")
            torch.zeros(4).put_(torch.tensor([0, 1]), torch.ones(2), accumulate=False)
    finally:
        torch.use_deterministic_algorithms(False)
    assert len([one for one in caught if "put_" in str(one.message)]) == 1


def test_memory_that_an_op_leaves_unwritten_differs_between_its_trials() -> None:
    op = define("unwritten(Tensor x) -> Tensor", lambda x: torch.empty(1 << 12))
    with DeterminismTracer(trials=5) as tracer:
        op(torch.zeros(1))
    assert tried_in(tracer)["tried.unwritten.default"].varied >= 1


def test_calls_on_another_thread_are_not_tried() -> None:
    x, index, values = torch.zeros(3), (torch.tensor([0]),), torch.ones(1)
    with DeterminismTracer(trials=Trials(2, all=True)) as tracer:
        other = threading.Thread(target=lambda: x.index_put_(index, values, accumulate=True))
        other.start()
        other.join()
    assert tried_in(tracer) == {}


def test_a_tensor_subclass_is_tried_in_its_parts_and_computes_what_it_did() -> None:
    from torch.testing._internal.two_tensor import TwoTensor

    def program() -> list[Any]:
        pair = TwoTensor(torch.arange(3.0), torch.ones(3))
        result = (pair + 1) * pair
        return [bits(result.a), bits(result.b)]

    plain = program()
    with DeterminismTracer(trials=Trials(2, all=True)) as tracer:
        assert program() == plain
    trials = {group.op: group.tried.trials for group in tracer.trace.calls if group.tried is not None}
    assert trials["aten.mul.Tensor"] == 4
