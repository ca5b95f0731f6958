"""Programs on fake tensors, against themselves on real ones: the same calls, lines, modules and shapes."""

from __future__ import annotations

import importlib
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.command import SCRIPTS
from tests.support.slow import slow_unless
from tracer import Trace
from tracer.names import BlindSpotKind, Phase

PROGRAMS = SCRIPTS / "on_fake_tensors"
#: Their backward pass goes through a tensor that was written through a view of it.
WRITTEN_VIEWS = ("masked_speech", "padded_again")
ALIKE = sorted(path.stem for path in PROGRAMS.glob("*.py") if path.stem not in WRITTEN_VIEWS)
QUICK = ("experts", "graph", "half_precision", "loaded", "mixed_precision", "recurrent")


def groups(trace: Trace) -> Counter[tuple[Any, ...]]:
    """The groups by what fake tensors do not change: numbers among the arguments may come from values.

    torch detaches a fake tensor that becomes a parameter, and times steps by an op that real tensors do not dispatch.
    """
    counted: Counter[tuple[Any, ...]] = Counter()
    for group in trace.calls:
        is_wrapping = group.op == "aten.detach.default" and group.phase is Phase.OTHER
        if not is_wrapping and not group.op.startswith("profiler."):
            shapes = tuple(getattr(value, "shape", None) for value in group.given.values())
            counted[group.op, group.phase, group.module, group.location, shapes] += group.count
    return counted


@pytest.fixture
def recorded(tracer: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """``recorded(name)``: the traces of a program on real tensors and on fake ones."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    torch.set_num_threads(1)

    def both(name: str) -> tuple[Trace, Trace]:
        program = PROGRAMS / f"{name}.py"
        needed = re.match(r"# needs: (.+)\n", program.read_text(encoding="utf-8"))
        for package in needed[1].split() if needed is not None else ():
            try:
                importlib.import_module(package)
            except Exception as problem:  # absent, or built for another torch
                pytest.skip(f"{package} is needed: {problem}")
        assert tracer("run", "-o", "real.json", program).code == 0
        assert tracer("run", "--fake", "-o", "fake.json", program).code == 0
        return Trace.load("real.json"), Trace.load("fake.json")

    return both


def test_there_are_twelve_that_are_alike() -> None:
    assert len(ALIKE) >= 12


@pytest.mark.parametrize("name", slow_unless(QUICK, ALIKE))
def test_a_program_makes_the_same_calls_on_fake_tensors(recorded: Any, name: str) -> None:
    real, fake = recorded(name)
    assert groups(fake) == groups(real)
    assert len(real.calls) > 40
    assert (fake.sources[0].fake_as, real.sources[0].fake_as) == ("cpu", "")
    assert fake.sources[0].fake_calls > 0.8 * fake.call_count


@pytest.mark.parametrize("name", slow_unless(["padded_again"], WRITTEN_VIEWS))
def test_where_a_view_was_written_its_gradient_is_sliced_by_other_views(recorded: Any, name: str) -> None:
    real, fake = map(groups, recorded(name))
    views = {"aten.as_strided.default", "aten.copy_.default", "aten.new_zeros.default"}
    views |= {"aten.slice.Tensor", "aten.view.default"}
    differ = [*(real - fake), *(fake - real)]
    assert {group[0] for group in differ} <= views
    assert {group[0] for group in real - fake} >= {"aten.as_strided.default"}
    assert len({group[3] for group in differ}) == 1


def test_stand_ins_are_counted_where_a_value_was_not_known(recorded: Any, tracer: Any, folder: Path) -> None:
    Path("train.py").write_text(
        "import torch\n"
        "known = torch.arange(6).reshape(2, 3)\n"
        "assert known.sum().item() == 15 and known.tolist() == [[0, 1, 2], [3, 4, 5]]\n"
        "assert known[known > 2].shape == (3,) and torch.randperm(9).unique().numel() == 9\n"
        "unknown = torch.nn.Linear(64, 64)(torch.ones(2, 64))\n"
        "print(unknown.sum().item(), f'{unknown.mean():.2f}')\n"
        "unknown.tolist()\n"
        "unknown.detach().numpy()\n"
        "(unknown > 0).nonzero()\n"
        "unknown[unknown > 0]\n"
        "unknown.unique()\n"
    )
    result = tracer("run", "--fake", "train.py")
    assert result.code == 0
    assert "1.0 1.00" in result.out
    spots = {
        (spot.detail.partition(":")[0], spot.location): spot.count
        for spot in Trace.load("trace.json").blind_spots
        if spot.kind is BlindSpotKind.FAKE_VALUE
    }
    assert spots == {
        ("aten._local_scalar_dense.default", "train.py:6"): 2,
        ("tolist", "train.py:7"): 1,
        ("numpy", "train.py:8"): 1,
        ("aten.nonzero.default", "train.py:9"): 1,
        ("aten.index.Tensor", "train.py:10"): 1,
        ("aten._unique2.default", "train.py:11"): 1,
    }


@pytest.mark.parametrize(
    ("expression", "shapes"),
    [
        ("x.unique(return_inverse=True, return_counts=True)", [(80_000,), (400, 200), (80_000,)]),
        ("x.unique(dim=1)", [(400, 200)]),
        ("x[0].unique_consecutive()", [(200,)]),
        ("torch.repeat_interleave(x, x[0].long(), dim=1)", [(400, 200)]),
        ("torch.repeat_interleave(x[0].long(), output_size=500)", [(500,)]),
        ("torch.bincount(x[0].long(), minlength=7)", [(7,)]),
        ("x.masked_select(x > 0)", [(80_000,)]),
        ("x.masked_select(torch.arange(200) < 5)", [(2000,)]),
        ("x[torch.arange(400) % 2 == 0]", [(200, 200)]),
        ("(x > 0).nonzero()", [(80_000, 2)]),
        ("torch.tensor([3, 0, 3]).unique()", [(2,)]),
        ("torch.repeat_interleave(x[:3], torch.tensor([3, 0, 4]), dim=0)", [(7, 200)]),
        ("torch.bincount(torch.tensor([9, 1]))", [(10,)]),
    ],
)
def test_a_shape_that_hangs_on_values_is_the_real_one_or_the_stand_in(
    tracer: Any, folder: Path, expression: str, shapes: list[tuple[int, ...]]
) -> None:
    Path("train.py").write_text(
        "import torch\n"
        "x = torch.rand(400, 200)\n"  # too large to be known
        f"result = {expression}\n"
        "result = result if isinstance(result, tuple) else (result,)\n"
        "print([tuple(tensor.shape) for tensor in result])\n"
    )
    result = tracer("run", "--fake", "train.py")
    assert (result.code, result.out) == (0, f"{shapes}\n"), result.err
