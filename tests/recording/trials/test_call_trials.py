"""Calls made again: what varies is found, what cannot vary is not accused, and the program feels none of it."""

from __future__ import annotations

import itertools
import random
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tests.support.bits import bits, random_state, seed_everything
from tests.support.modes import CountingMode
from tests.support.racing import additions
from tests.support.samples import UNWRITTEN, Sample, operator_database, samples_of
from tracer import DeterminismTracer, Trials
from tracer.names import Untried
from tracer.recording.values import digest
from tracer.trace.records import Tried

LIBRARY = torch.library.Library("tried", "DEF")


def define(schema: str, function: Any) -> Any:
    """An op of our own, on the CPU; made once a process."""
    name = schema.partition("(")[0]
    if not hasattr(torch.ops.tried, name):
        LIBRARY.define(schema)
        LIBRARY.impl(name, function, "CPU")
    return getattr(torch.ops.tried, name)


def test_additions_that_race_are_found_to_vary_and_how_far(two_threads: None) -> None:
    index, values = additions()
    program = lambda: torch.zeros(100).index_put_((index,), values, accumulate=True)  # noqa: E731
    found = traced(program, 8)["aten.index_put_.default"]
    assert (found.calls, found.trials, found.first) == (1, 8, 1)
    assert 1 <= found.varied <= 8
    assert 2 <= found.distinct <= 9
    assert 0 < found.relative <= 1


def test_only_what_the_tables_hold_for_a_risk_is_tried_unless_all_is_asked_for() -> None:
    x = torch.randn(8, 8)
    assert traced(lambda: torch.mm(x, x), 2) == {}
    assert traced(lambda: torch.mm(x, x), Trials(2, all=True))["aten.mm.default"].trials == 2


def test_an_op_from_outside_that_varies_is_found_and_the_first_call_named() -> None:
    tosses = itertools.count(1)
    op = define("tosses(Tensor x) -> Tensor", lambda x: x + next(tosses) % 2)
    found = traced(lambda: op(torch.zeros(3)), 3)["tried.tosses.default"]
    assert (found.trials, found.varied, found.distinct, found.first, found.relative) == (3, 2, 2, 1, 1)


def test_an_op_that_keeps_to_its_inputs_agrees_though_it_changes_them() -> None:
    def changes(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)  # its schema does not say so
        return x * 2

    op = define("changes(Tensor x) -> Tensor", changes)

    def program() -> list[Any]:
        x = torch.zeros(3)
        return [op(x).tolist(), x.tolist()]

    assert feels_nothing(program)["tried.changes.default"].varied == 0


def test_every_generator_is_as_the_call_left_it_and_draws_repeat() -> None:
    def draws(x: torch.Tensor) -> torch.Tensor:
        return x + torch.rand(3) + random.random() + np.random.rand()

    op = define("draws(Tensor x) -> Tensor", draws)

    def program() -> list[Any]:
        own = torch.Generator().manual_seed(3)
        seed_everything(1)
        x = torch.zeros(50)
        x.normal_(generator=own)
        found = [op(x[:3]), x, torch.bernoulli(x.abs().clamp(0, 1), generator=own), torch.rand(2)]
        dropped = torch.nn.functional.dropout(x, 0.5)
        return [bits(one) for one in (*found, dropped)] + [own.get_state().tolist(), random_state()]

    found = feels_nothing(program)
    for name in ("tried.draws.default", "aten.normal_.default", "aten.bernoulli.default"):
        assert (found[name].trials, found[name].varied) == (3, 0), name


def test_aliases_writes_in_place_gradients_versions_and_saved_tensors_do_not_feel_trials() -> None:
    def program() -> list[Any]:
        whole = torch.arange(12.0)
        whole[:6].add_(whole[6:])
        whole[1:].mul_(whole[:-1].clone())
        torch.add(whole[:3], whole[3:6], out=whole[6:9])
        columns = whole.view(3, 4).t()
        columns.index_add_(0, torch.tensor([0, 0, 3]), columns[:3].clone())
        w = torch.randn(6, 4, generator=torch.Generator().manual_seed(0), requires_grad=True)
        seen: list[int] = []
        w.register_hook(lambda grad: seen.append(grad._version))
        torch.manual_seed(0)
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
            loss = (w[torch.tensor([0, 1, 1, 5])] * torch.nn.functional.dropout(w, 0.3).sum(0)).pow(2).sum()
        loss.backward()
        with torch.inference_mode():
            inferred = w.detach() @ w.detach().t()
        return [*map(bits, (whole, columns, w.grad, inferred)), whole._version, w._version, seen, random_state()]

    found = feels_nothing(program)
    assert {op for op, one in found.items() if one.varied} == set()
    assert found["aten.index_add_.default"].trials == found["aten.add.out"].trials == 3


def test_a_mode_of_the_users_sees_its_own_calls_alone() -> None:
    def program() -> list[str]:
        with CountingMode() as mode:
            torch.zeros(4).index_put_((torch.tensor([0, 0, 1]),), torch.ones(3), accumulate=True)
        return [f"{op} {count}" for op, count in mode.counts.items()]

    feels_nothing(program)


def test_of_many_calls_ever_rarer_ones_are_tried_and_the_others_counted() -> None:
    target, index, values = torch.zeros(4), torch.tensor([0, 0, 1]), torch.ones(3)
    program = lambda: [target.index_put_((index,), values, accumulate=True) for _ in range(40)]  # noqa: E731
    found = traced(program, Trials(2, all=True))["aten.index_put_.default"]
    assert (found.calls, found.trials) == (7, 14)  # the first three, then 4, 8, 16, 32
    assert found.untried == {Untried.RARER: 33}


def test_what_needs_more_memory_than_it_may_take_or_is_on_another_thread_is_not_tried() -> None:
    x, index, values = torch.zeros(4000), (torch.tensor([0]),), torch.ones(1)

    def on_another_thread() -> None:
        other = threading.Thread(target=lambda: x.index_put_(index, values, accumulate=True))
        other.start()
        other.join()

    large = traced(lambda: x.index_put_(index, values, accumulate=True), Trials(2, all=True, memory=1000))
    assert large["aten.index_put_.default"].untried == {Untried.MEMORY: 1}
    assert traced(on_another_thread, Trials(2, all=True)) == {}


def test_what_cannot_be_put_back_is_named_and_not_done_twice() -> None:
    done: list[int] = []
    effect = define("effect(Tensor x) -> ()", lambda x: done.append(1))
    program = lambda: [effect(torch.zeros(2)), torch.empty(3).resize_(9), torch.zeros(2).sum().item()]  # noqa: E731
    found = traced(program, Trials(5, all=True))
    assert done == [1]
    assert found["tried.effect.default"].untried == {Untried.SIDE_EFFECTS: 1}
    assert found["aten.resize_.default"].untried == {Untried.FRESH_MEMORY: 1}
    assert found["aten._local_scalar_dense.default"].untried == {Untried.NO_RESULT: 1}


def test_a_trial_that_raises_is_counted_and_the_generators_are_as_they_were() -> None:
    calls: list[int] = []

    def once(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        if len(calls) > 1:
            raise ValueError("only once")
        return x + torch.rand(1)

    op = define("once(Tensor x) -> Tensor", once)
    torch.manual_seed(0)
    expected = torch.rand(2).tolist()
    torch.manual_seed(0)
    drawn: list[float] = []
    found = traced(lambda: drawn.extend([op(torch.zeros(1)).item(), torch.rand(1).item()]), 3)
    assert drawn == expected
    assert found["tried.once.default"].untried == {Untried.FAILED: 1}


def test_a_warning_of_deterministic_mode_is_not_given_again() -> None:
    torch.use_deterministic_algorithms(True, warn_only=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        traced(lambda: torch.zeros(4).put_(torch.tensor([0, 1]), torch.ones(2)), Trials(3, all=True))
    assert len([one for one in caught if "put_" in str(one.message)]) == 1


def test_memory_that_an_op_leaves_unwritten_differs_between_its_trials() -> None:
    op = define("unwritten(Tensor x) -> Tensor", lambda x: torch.empty(1 << 12))
    assert traced(lambda: op(torch.zeros(1)), 5)["tried.unwritten.default"].varied >= 1


def test_a_tensor_subclass_is_tried_in_its_parts_and_computes_what_it_did() -> None:
    from torch.testing._internal.two_tensor import TwoTensor

    def program() -> list[Any]:
        pair = TwoTensor(torch.arange(3.0), torch.ones(3))
        result = (pair + 1) * pair
        return [bits(result.a), bits(result.b)]

    assert feels_nothing(program, 2)["aten.mul.Tensor"].trials == 4


#: As often as a call is made again, and as often as it is repeated without.
TIMES = 30


def test_what_varies_rarely_is_told_apart() -> None:
    made = itertools.count(1)
    op = define("rarely(Tensor x) -> Tensor", lambda x: x + float(next(made) % 20 == 10))
    seen = traced(lambda: op(torch.zeros(1)), 40)["tried.rarely.default"]
    assert (seen.trials, seen.varied) == (40, 2)
    assert seen.is_rare


def _outcome(sample: Sample) -> list[Any]:
    """Digests of what a sample gives and of what it was given, and the generator's state; nothing where it raises."""
    run = sample.prepared()
    try:
        given = run()
    except Exception:  # some entries have no kernel here
        return []
    return [*(digest(one) for one in given), torch.get_rng_state().tolist()]


def _varied(sample: Sample) -> bool:
    """Do plain repetitions of it differ?"""
    first = _outcome(sample)
    return any(_outcome(sample) != first for _ in range(TIMES - 1))


@pytest.mark.slow
def test_of_torchs_ops_what_varies_is_found_nothing_else_is_accused_and_nothing_is_felt(two_threads: None) -> None:
    missed, accused, felt, samples, trials = set(), set(), set(), 0, 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for entry in operator_database():
            if torch.float32 not in entry.dtypes:
                continue
            for sample in samples_of(entry, "cpu", torch.float32, 2):
                samples += 1
                varies = _varied(sample) and entry.name not in UNWRITTEN
                with DeterminismTracer():  # any mode makes torch take other ways to some results
                    plain = _outcome(sample)
                with DeterminismTracer(trials=Trials(TIMES, all=True)) as tracer:
                    recorded = _outcome(sample)
                tried = [(group.op, group.tried) for group in tracer.trace.calls if group.tried is not None]
                found = {(entry.name, op) for op, seen in tried if seen.varied}
                trials += sum(seen.trials for _, seen in tried)
                if varies and not found:
                    missed.add(entry.name)
                if not varies:
                    accused |= found
                    if plain != recorded and entry.name not in UNWRITTEN:
                        felt.add(entry.name)
    assert trials > 30 * samples > 20_000
    assert missed == set()
    assert accused == set()
    assert felt == set()


def traced(program: Callable[[], Any], trials: Trials | int) -> dict[str, Tried]:
    """By op, for the groups of ``program`` that were tried or should have been."""
    with DeterminismTracer(trials=trials) as tracer:
        program()
    return {group.op: group.tried for group in tracer.trace.calls if group.tried is not None}


def feels_nothing(program: Callable[[], Any], times: int = 3) -> dict[str, Tried]:
    """What was tried of ``program``, which gives the same with trials and without."""
    with DeterminismTracer():  # under any mode, torch takes an out-of-place way to some gradients
        plain = program()
    recorded: list[Any] = []
    tried = traced(lambda: recorded.append(program()), Trials(times, all=True))
    assert recorded == [plain]
    return tried
