"""What older versions of torch did otherwise, judged from recordings of the calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tracer import DeterminismTracer, Trace, judge
from tracer.names import Backend
from tracer.tables.loading import load_tables


def recorded(step: Callable[[], object]) -> Trace:
    with DeterminismTracer() as tracer:
        step()
    return tracer.trace


def verdicts(trace: Trace, version: str, settings: Any, op: str) -> set[str]:
    judged = judge(trace, backend="cuda", torch=version, settings=settings).judged_calls
    return {str(call.ruling.verdict) for call in judged if call.group.op.startswith(op)}


M = torch.ones(5, 3)
MASK = torch.tensor([False, True, False, True, True])
TWO = torch.tensor([1, 3])
#: The index, the value, and the versions from which on deterministic mode takes them.
WRITES = [
    pytest.param((TWO,), torch.tensor(0.0), "1.13", id="a number to rows"),
    pytest.param((None, torch.tensor([0, 2])), torch.tensor(0.0), "1.13", id="a number to columns"),
    pytest.param((torch.tensor([1]),), torch.tensor(0.0), "2.1", id="a number to one row"),
    pytest.param((MASK,), torch.tensor([1.0, 2.0, 3.0]), "2.8", id="a row to those of a mask"),
    pytest.param((TWO,), torch.tensor([1.0, 2.0, 3.0]), "2.8", id="a row to several"),
    pytest.param((TWO,), torch.tensor([[1.0], [2.0]]), "2.8", id="a number for each row"),
    pytest.param((MASK,), torch.tensor(0.0), "1.11", id="a number by a mask"),
    pytest.param((TWO,), torch.ones(2, 3), "1.11", id="rows as they are"),
    pytest.param((MASK,), torch.ones(3, 3), "1.11", id="rows of a mask as they are"),
    pytest.param((TWO, TWO - 1), torch.tensor(0.0), "1.11", id="a number to elements"),
]
RELEASES = ["1.11", "1.12", "1.13", "2.0", "2.1", "2.7", "2.8", "2.13"]


@pytest.mark.parametrize(("index", "value", "since"), WRITES)
@pytest.mark.parametrize("accumulate", [False, True])
def test_a_value_that_is_broadcast_was_refused_by_an_assertion(
    index: tuple[torch.Tensor | None, ...], value: torch.Tensor, since: str, accumulate: bool
) -> None:
    trace = recorded(lambda: torch.ops.aten.index_put_(M.clone(), index, value, accumulate))
    for settings in ("deterministic", "warn"):
        raising = [v for v in RELEASES if "raises" in verdicts(trace, v, settings, "aten.index_put_")]
        assert raising == RELEASES[: RELEASES.index(since)]
    without = {v for v in RELEASES if "raises" in verdicts(trace, v, "default", "aten.index_put_")}
    assert without == (set(RELEASES[: RELEASES.index(since)]) if accumulate else set())


@pytest.mark.parametrize(
    ("version", "verdict"), [("1.11", "raises"), ("1.12", "raises"), ("1.13", "conditional"), ("2.9", "conditional")]
)
@pytest.mark.parametrize(
    ("op", "step"),
    [
        ("aten.addmm", lambda: torch.nn.Linear(4, 4)(torch.ones(2, 4))),
        ("aten.bmm", lambda: torch.ones(2, 3, 3) @ torch.ones(2, 3, 3)),
        ("aten.mm", lambda: torch.ones(3, 3) @ torch.ones(3, 3)),
    ],
)
def test_warn_only_stopped_products_without_a_workspace_before_1_13(
    op: str, step: Callable[[], object], version: str, verdict: str
) -> None:
    trace = recorded(step)
    assert verdicts(trace, version, "warn", op) == {verdict}
    assert verdicts(trace, version, "default", op) == {"conditional"}


def test_warn_only_stopped_a_convolution_without_cudnn_before_1_13() -> None:
    def step() -> None:
        with torch.backends.cudnn.flags(enabled=False):
            torch.nn.Conv2d(2, 2, 3)(torch.ones(1, 2, 5, 5))

    trace = recorded(step)
    sets = {"deterministic_mode": "warn", "cudnn_enabled": False}
    assert verdicts(trace, "1.12", sets, "aten.convolution") == {"raises"}
    assert verdicts(trace, "1.13", sets, "aten.convolution") == {"conditional"}


@pytest.mark.parametrize("backend", list(load_tables()))
def test_seeded_draws_repeat_for_one_version_and_one_kind_of_device(backend: Backend) -> None:
    rules = [rule for rule in load_tables()[backend].rule if rule.id.partition("-")[2].startswith("rng")]
    assert all("for one version of torch" in rule.why for rule in rules)


def test_multinomial_and_exponential_of_a_cpu_are_said_to_have_changed() -> None:
    table = load_tables()[Backend.CPU]
    for op in ("aten.multinomial.default", "aten.exponential_.default"):
        rule = table.find(op)
        assert rule is not None
        assert "2.7" in rule.why


def test_reseeding_did_not_reach_dropout_of_recurrent_layers_before_2_0() -> None:
    rule = load_tables()[Backend.CUDA].find("aten._cudnn_rnn.default")
    assert rule is not None
    assert [case.torch for case in rule.case if "make once in a process" in case.why] == ["<2.0"]
