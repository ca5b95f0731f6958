"""Triton kernels that a program launches by itself. With Triton at hand its interpreter runs them for real."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import types
import weakref
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.recording.values.reading import recorded, rows
from tests.support.lines import groups, line_of, record
from tracer import DeterminismTracer, judge
from tracer.divergence.causes import RootCause
from tracer.divergence.comparing import compare_recordings
from tracer.divergence.model import Recording
from tracer.names import BlindSpotKind, KernelLanguage, Phase, Verdict
from tracer.recording.launched import adds_in_any_order

ROOT = Path(__file__).parents[3]
tl: Any = types.SimpleNamespace()


def add_into(x_ptr: Any, out_ptr: Any, n: int) -> None:
    tl.atomic_add(out_ptr, tl.load(x_ptr))


def doubled(x_ptr: Any, out_ptr: Any, n: int) -> None:
    tl.store(out_ptr, tl.load(x_ptr) * 2)


class JITFunction:
    """What stands for Triton's: runs ``work``, past torch."""

    def __init__(self, fn: Any, work: Any = lambda *_: None) -> None:
        self.fn, self.work = fn, work
        self.arg_names = ["x_ptr", "out_ptr", "n"]

    def run(self, *args: object, grid: object = None, warmup: bool = False, **kwargs: object) -> int:
        self.work(*args)
        return 7


class Autotuner:
    def __init__(self, fn: JITFunction) -> None:
        self.fn = fn
        self.configs = [types.SimpleNamespace(kwargs={"BLOCK": size}, num_warps=4) for size in (64, 128)]

    def _bench(self, *args: Any) -> float:
        torch.ones(4).cos()  # as it empties caches
        self.fn.run(*args)
        return 1.0

    def run(self, *args: Any) -> Any:
        for config in self.configs:
            self._bench(*args)
            self.best_config = config
        return self.fn.run(*args)


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, member in (("triton.runtime.jit", JITFunction), ("triton.runtime.autotuner", Autotuner)):
        module = types.ModuleType(name)
        setattr(module, member.__name__, member)
        monkeypatch.setitem(sys.modules, name, module)
    for name in ("triton.runtime.interpreter", "triton.compiler.compiler"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))


def launched(function: Any, dtype: torch.dtype = torch.float32) -> DeterminismTracer:
    x, out = torch.ones(4), torch.ones(4, dtype=dtype)
    kernel = JITFunction(function)

    def step() -> None:
        for _ in range(3):
            assert kernel.run(x, out, 4, grid=(1,)) == 7  # launches
        kernel.run(x, out, 4, grid=(1,), warmup=True)

    return record(step)


def test_a_launch_bears_its_line_and_what_its_source_shows() -> None:
    tracer = launched(add_into)
    (call,) = groups(tracer, "triton.add_into")
    assert (call.count, call.phase, call.kernels, call.region) == (3, Phase.OTHER, ("add_into",), None)
    assert int(call.location.rpartition(":")[2]) == line_of(launched, "# launches")
    (kernel,) = tracer.trace.launched
    assert (kernel.language, kernel.atomic) == (KernelLanguage.USER_TRITON, True)
    assert not tracer.trace.blind_spots


def test_one_that_adds_atomically_is_a_finding_that_deterministic_mode_leaves() -> None:
    (finding,) = (one for one in judge(launched(add_into).trace, backend="cuda").findings if one.op)
    assert (finding.verdict, finding.deterministic_mode) == (Verdict.NONDETERMINISTIC, Verdict.NONDETERMINISTIC)
    assert (finding.rule, finding.kernels) == ("launched-cuda-adds-atomically", ("add_into",))
    assert finding.location.partition(":")[0].endswith("test_triton_launches.py")
    for tracer in (launched(doubled), launched(add_into, torch.int64)):
        assert not [one for one in judge(tracer.trace, backend="cuda").findings if one.op]


def test_a_kernel_whose_source_cannot_be_had_is_a_blind_spot_and_unknown() -> None:
    tracer = launched(eval("lambda x_ptr, out_ptr, n: 0"))
    (spot,) = (spot for spot in tracer.trace.blind_spots if spot.kind is BlindSpotKind.TRITON)
    assert spot.count == 3
    (finding,) = (one for one in judge(tracer.trace, backend="cuda").findings if one.op)
    assert finding.verdict is Verdict.UNKNOWN


def test_launches_that_time_configurations_are_not_counted_and_the_choice_is_told() -> None:
    x = torch.ones(4)
    tuned = Autotuner(JITFunction(doubled))
    tracer = record(lambda: tuned.run(x, x, 4))
    (call,) = groups(tracer, "triton.doubled")
    assert not groups(tracer, "aten.cos")
    (kernel,) = tracer.trace.launched
    assert (call.count, kernel.choice, kernel.by_stopwatch) == (1, "BLOCK=128, num_warps=4", True)
    (finding,) = (one for one in judge(tracer.trace, backend="cuda").findings if one.op)
    assert finding.verdict is Verdict.CONDITIONAL


def test_a_kernel_that_is_given_whole_numbers_here_and_others_there_is_two() -> None:
    x, whole = torch.ones(4), torch.ones(4, dtype=torch.int64)
    kernel = JITFunction(add_into)
    tracer = record(lambda: [kernel.run(x, out, 4) for out in (x, whole, whole)])
    assert {call.kernels: call.count for call in groups(tracer, "triton.add_into")} == {
        ("add_into",): 1,
        ("add_into (whole numbers)",): 2,
    }


def test_a_launch_is_a_call_of_the_values_and_where_runs_part_by_its_additions_it_is_the_root(tmp_path: Path) -> None:
    """Whoever reads what it wrote would else be told that no op had changed these bytes."""
    sums = iter((1.0, 2.0))
    kernel = JITFunction(add_into, lambda x, out, n: out.numpy().fill(next(sums)))

    def step() -> None:
        x, out = torch.arange(4.0), torch.zeros(4)
        kernel.run(x, out, 4, grid=(1,))  # adds
        out * 2

    runs = [Recording(name=str(run), values=recorded(tmp_path / f"{run}.values", step)) for run in range(2)]
    found = rows(runs[0].values)
    (launch,) = (place for place, row in enumerate(found) if row.op == "triton.add_into")
    assert found[launch].numbers == "n=4"
    assert found[launch + 1].origins == (launch,)
    root = compare_recordings(*runs).first
    assert root is not None
    assert (root.op, root.cause) == ("triton.add_into", RootCause.KERNEL)
    assert int(root.location.rpartition(":")[2]) == line_of(step, "# adds")


def test_a_launch_that_fails_keeps_no_tensor_alive_and_memory_for_its_result_is_no_input(tmp_path: Path) -> None:
    kernel, fails, left = JITFunction(doubled), JITFunction(doubled, lambda *_: next(iter(()))), []

    def step() -> None:
        x = torch.ones(4)
        left.append(weakref.ref(x))
        kernel.run(x, torch.empty(4), 4)
        with pytest.raises(StopIteration):
            fails.run(x, torch.empty(4), 4)

    found = [row for row in rows(recorded(tmp_path / "step.values", step)) if row.op.startswith("triton.")]
    assert [len(row.origins) for row in found] == [1]
    assert left[0]() is None


# --- what a source shows: Triton itself is not needed to read it ---


def jitted(function: Any) -> Any:
    """What stands for ``triton.jit``."""
    return types.SimpleNamespace(fn=function)


def adds(x_ptr: Any, out_ptr: Any, n: Any) -> None:
    at = tl.program_id(0) + tl.arange(0, 8)
    into = out_ptr + tl.load(x_ptr + at)
    tl.atomic_add(into, 1.0, mask=at < n)


def stores(x_ptr: Any, out_ptr: Any, n: Any) -> None:
    """``tl.atomic_add`` in a text is none."""
    tl.store(out_ptr + tl.arange(0, 8), tl.load(x_ptr))
    tl.atomic_max(out_ptr, 1)


@jitted
def helper(ptr: Any, x: Any) -> None:
    tl.atomic_add(ptr, x)


def calls_helper(x_ptr: Any, out_ptr: Any, n: Any) -> None:
    helper(out_ptr, tl.load(x_ptr))


def locks(x_ptr: Any, out_ptr: Any, n: Any) -> None:
    while tl.atomic_cas(out_ptr, 0, 1) == 1:
        pass
    tl.store(x_ptr, tl.load(x_ptr) + 1)


def takes_a_ticket(x_ptr: Any, out_ptr: Any, n: Any) -> None:
    ticket = tl.atomic_add(out_ptr, 1)
    tl.store(x_ptr, ticket)


def assembles(x_ptr: Any, out_ptr: Any, n: Any) -> None:
    tl.inline_asm_elementwise("red.global.add.f32 [$1], $2;", "=r,l,f", [out_ptr, x_ptr], dtype=int)


renamed_add: Any = types.SimpleNamespace(__name__="atomic_add")


def adds_by_another_name(x_ptr: Any, out_ptr: Any, n: Any) -> None:
    renamed_add(out_ptr, tl.load(x_ptr))


unread: Any = jitted(eval("lambda ptr: 0"))


def calls_what_has_no_source(x_ptr: Any, out_ptr: Any, n: Any) -> None:
    unread(out_ptr)


FLOATS = {"x_ptr": False, "out_ptr": False}
WHOLE = {"x_ptr": False, "out_ptr": True}


@pytest.mark.parametrize(
    ("function", "numbers", "says"),
    [
        (adds, FLOATS, True),
        (adds, WHOLE, False),
        (adds, {"x_ptr": True, "out_ptr": False}, True),
        (adds, {}, True),
        (stores, FLOATS, False),
        (calls_helper, FLOATS, True),
        (locks, WHOLE, True),
        (takes_a_ticket, WHOLE, None),
        (assembles, FLOATS, None),
        (adds_by_another_name, FLOATS, True),
        (calls_what_has_no_source, FLOATS, None),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_adds_in_an_order_that_varies_is_told(function: Any, numbers: dict[str, bool], says: bool | None) -> None:
    assert adds_in_any_order(function, numbers) is says


# --- Triton's own interpreter ---

PROGRAM = """
import json, torch, triton, triton.language as tl
from tracer import DeterminismTracer, judge

@triton.jit
def helper(ptr, x, mask):
    tl.atomic_add(ptr, x, mask=mask)

@triton.jit
def gathers(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    helper(out_ptr + at % 7, x, at < n)

class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2
    @staticmethod
    def backward(ctx, g):
        out = torch.zeros_like(g)
        gathers[(2,)](g.contiguous(), out, 200, BLOCK=128)
        return out

x = torch.ones(200, requires_grad=True)
with DeterminismTracer() as tracer:
    Gather.apply(x).sum().backward()
trace = tracer.trace
(call,) = [one for one in trace.calls if one.op == "triton.gathers"]
said = {on: [one.verdict for one in judge(trace, backend=on).findings if one.op] for on in ("cpu", "cuda")}
print(json.dumps([x.grad.sum().item(), call.phase, call.count, trace.launched[0].atomic, said, len(trace.blind_spots)]))
"""


@pytest.mark.slow
@pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed: pip install triton==3.6.0")
def test_under_tritons_interpreter_a_launch_in_a_backward_is_the_backwards(tmp_path: Path) -> None:
    """The interpreter adds in one order, and a device does not."""
    path = tmp_path / "program.py"
    path.write_text(PROGRAM, encoding="utf-8")
    environment = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join((str(ROOT), *sys.path))}
    done = subprocess.run(
        [sys.executable, str(path)], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [200.0, "backward", 1, True, {"cpu": [], "cuda": ["nondeterministic"]}, 0]
