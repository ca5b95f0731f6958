"""The Triton kernel gives the sums that plain torch gives: proven by Triton's interpreter, without a device."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import types
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from tracer.recording.values import digests

ROOT = Path(__file__).parents[4]
PROGRAM = """
import torch
from tracer.recording.values import digests
from tracer.recording.values.triton_mix import add_mixed_sum
torch.manual_seed(0)
for dtype in (torch.uint8, torch.bool, torch.bfloat16, torch.float32, torch.float64, torch.complex64):
    for shape in ((0,), (1,), (3,), (8,), (5, 3), (4097,), (9000,), (70, 61)):
        whole = torch.randn(shape).mul(50).to(dtype)
        for tensor in (whole, whole.reshape(-1)[1:], whole.t() if whole.ndim == 2 else whole):
            total = torch.zeros(1, dtype=torch.int64)
            if tensor.numel():
                add_mixed_sum(tensor, total)
            assert int(total) == int(digests.mixed_sum(tensor)), (dtype, shape)
one = torch.complex(torch.tensor([3.0]), torch.tensor([4.0])).imag  # contiguous, with a stride of two
totals = torch.zeros(9, dtype=torch.int64)
add_mixed_sum(one, totals, 7)
assert totals.tolist() == [0] * 7 + [int(digests.mixed_sum(one.clone())), 0]
print("equal")
"""


@pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed: pip install triton==3.9.0")
def test_the_kernel_gives_the_sums_of_plain_torch() -> None:
    environment = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join((str(ROOT), *sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.stdout.strip() == "equal", done.stderr


COMPILES = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from tracer.recording.values import triton_mix
types = {"words": "*i64", "data": "*u8", "totals": "*i64", "place": "i32", "count": "i64", "left": "i32"}
types["BLOCK"] = "constexpr"
source = ASTSource(fn=triton_mix.mixed_sum_kernel, signature=types, constexprs={"BLOCK": 4096})
print(*triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm)
"""


@pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed: pip install triton==3.9.0")
def test_the_kernel_compiles_for_a_gpu_that_is_not_here(tmp_path: Path) -> None:
    """The interpreter runs what no compiler takes: annotations with names of the module, say."""
    path = os.pathsep.join((str(ROOT), *sys.path))
    environment = os.environ | {"PYTHONPATH": path, "TRITON_CACHE_DIR": str(tmp_path)}
    environment.pop("TRITON_INTERPRET", None)
    done = subprocess.run(
        [sys.executable, "-c", COMPILES], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600
    )
    assert "ptx" in done.stdout.split(), done.stderr


class Compiled:
    """What stands for a compiled kernel: launched as it is, it adds ``off`` too much, or refuses its arguments."""

    def __init__(self, off: int | None) -> None:
        self.off, self.launched = off, 0

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        def launch(words: Any, data: Any, totals: Any, place: int, count: int, left: int, block: int) -> None:
            if self.off is None:
                raise TypeError("function takes exactly 19 arguments")
            self.launched += 1
            add(data, totals, place, count * 8 + left, self.off)

        return launch


def add(data: Any, totals: Any, place: int, size: int, off: int = 0) -> None:
    memory = torch.frombuffer(bytearray(ctypes.string_at(data.data_ptr(), size)), dtype=torch.uint8)
    sums = ctypes.c_int64.from_address(totals.data_ptr() + 8 * place)
    sums.value += int(digests.mixed_sum(memory)) + off


@pytest.mark.parametrize(("off", "is_used"), [(0, True), (1, False), (None, False)])
def test_the_compiled_kernel_is_launched_as_it_is_where_that_was_seen_to_give_the_same(
    monkeypatch: pytest.MonkeyPatch, off: int | None, is_used: bool
) -> None:
    """Other releases of Triton want other arguments, and a sum that is wrong would part runs that agree."""
    compiled = Compiled(off)

    class Function:
        def __getitem__(self, grid: tuple[int, ...]) -> Any:
            def launch(words: Any, data: Any, totals: Any, place: int, count: int, left: int, BLOCK: int) -> Compiled:
                add(data, totals, place, count * 8 + left)
                return compiled

            return launch

    name = "tracer.recording.values.triton_mix"
    language = types.SimpleNamespace(constexpr=lambda value: value)
    triton = types.SimpleNamespace(jit=lambda given=None, **_: (lambda _: Function()) if given is None else Function())
    monkeypatch.setitem(sys.modules, "triton", triton)
    monkeypatch.setitem(sys.modules, "triton.language", language)
    triton.language = language
    monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    try:
        mix = import_module(name)
        for size in (9, 3, 9, 5000, 9, 5000, 4):
            x, totals = torch.randn(size), torch.zeros(3, dtype=torch.int64)
            for tensor in (x, x[1:]):  # the second lies where another kernel is needed
                totals.zero_()
                mix.add_mixed_sum(tensor, totals, 2)
                assert totals.tolist() == [0, 0, int(digests.mixed_sum(tensor))]
    finally:
        sys.modules.pop(name, None)
    assert (compiled.launched > 1) is is_used
