"""Native code that is no registered op: its calls are blind spots, and it may write what it allocates or is given."""

from __future__ import annotations

import operator
import shutil
import sys
import types
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from tests.support.lines import line_of, record
from tracer import DeterminismTracer
from tracer.names import BlindSpotKind
from tracer.recording.storage import native_code
from tracer.trace.records import BlindSpot


def natives(tracer: DeterminismTracer) -> list[BlindSpot]:
    return [spot for spot in tracer.trace.blind_spots if spot.kind is BlindSpotKind.NATIVE]


def names(function: Callable[[], object]) -> list[str]:
    """The functions of the blind spots of ``function()``, without what is said of them."""
    return [spot.detail.partition(":")[0] for spot in natives(record(function))]


@pytest.fixture
def extension(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """A module that looks like an extension that is built on torch, with functions that are written in C."""
    library = tmp_path / f"fused{native_code.EXTENSION_SUFFIXES[0]}"
    library.write_bytes(b"\x7fELF needs libc10.so")
    module: Any = types.ModuleType("fused_kernels")
    module.__file__ = str(library)
    module.wave, module.version = operator.methodcaller("sin"), "1.0".upper
    monkeypatch.setattr(native_code, "_loaded_modules", 0)
    monkeypatch.setattr(native_code, "_extensions", ())
    monkeypatch.setitem(sys.modules, "fused_kernels", module)
    return module


def test_a_called_function_of_an_extension_is_named_with_its_line_and_count_and_no_other(
    extension: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    user: Any = types.ModuleType("uses_fused_kernels")  # another module took it
    user.apply = extension.wave
    monkeypatch.setitem(sys.modules, "uses_fused_kernels", user)

    def step() -> None:
        extension.version()  # asked for no tensor
        for _ in range(3):
            extension.wave(torch.ones(3))
        user.apply(torch.ones(3))  # taken

    used, taken = natives(record(step))
    assert (used.detail.partition(":")[0], used.count, taken.count) == ("fused_kernels.wave", 3, 1)
    assert used.location.endswith(f":{line_of(step, 'extension.wave')}")
    assert taken.location.endswith(f":{line_of(step, '# taken')}")
    assert type(user.apply) is operator.methodcaller
    assert user.apply is extension.wave
    assert names(lambda: extension.version()) == []


@pytest.mark.parametrize("hold", [lambda wave: [wave], lambda wave: SimpleNamespace(function=wave)])
def test_a_function_that_an_object_holds_may_have_been_called(monkeypatch: pytest.MonkeyPatch, hold: Any) -> None:
    module: Any = types.ModuleType("held_kernels")
    module.__file__ = "held_kernels.so"
    module.total = [].__len__  # a function written in C that nothing else holds
    kept = hold(module.total)
    monkeypatch.setattr(native_code, "is_new", lambda afresh=False: True)
    monkeypatch.setattr(native_code, "_extensions", (module,))
    assert native_code.held_elsewhere() == {"held_kernels.total"}
    del kept
    assert native_code.held_elsewhere() == set()


def test_what_runs_inside_a_librarys_op_is_that_ops(extension: Any) -> None:
    library = torch.library.Library("tracer_test_native", "DEF")
    library.define("wave(Tensor x) -> Tensor")
    library.impl("wave", lambda x: extension.wave(x), "CPU")
    assert names(lambda: torch.ops.tracer_test_native.wave(torch.ones(3))) == []
    library._destroy()


def test_an_extension_loaded_while_a_model_runs_may_be_called(extension: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "fused_kernels")

    class Lazy(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x * 1.0
            monkeypatch.setitem(sys.modules, "fused_kernels", extension)
            return x + 1.0

    assert names(lambda: Lazy()(torch.ones(3))) == ["fused_kernels"]


# --- one that is built ---

_SOURCE = """
#include <torch/extension.h>
struct Store {
  at::Tensor kept;
  Store(int64_t size) : kept(at::zeros({size})) {}
  void add(at::Tensor x) { kept.add_(x); }
  double total() { return kept.sum().item<double>(); }
};
at::Tensor squared(at::Tensor x) {
  auto result = at::empty_like(x);
  for (int64_t i = 0; i < x.numel(); i++) result.data_ptr<float>()[i] = x.data_ptr<float>()[i] * x.data_ptr<float>()[i];
  return result;
}
void fill(at::Tensor x) { for (int64_t i = 0; i < x.numel(); i++) x.data_ptr<float>()[i] = 1; }
at::Tensor lengths() { return at::tensor({3, 4, 5}); }
int64_t version() { return 3; }
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("squared", &squared); m.def("fill", &fill); m.def("lengths", &lengths); m.def("version", &version);
  pybind11::class_<Store> store(m, "Store");
  store.def(pybind11::init<int64_t>()).def("add", &Store::add).def("total", &Store::total);
}
"""


@pytest.fixture(scope="module")
def built() -> Any:
    if shutil.which("g++") is None:
        pytest.skip("there is no g++")
    from torch.utils.cpp_extension import load_inline

    return load_inline("tracer_test_native", _SOURCE)


def _filled(built: Any) -> None:
    values = torch.empty(8)
    built.fill(values)
    values.sum()


def _stored(built: Any) -> float:
    store = built.Store(3)
    store.add(torch.ones(3))
    return float(store.total())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "called"),
    [
        (lambda built: built.squared(torch.ones(8)).sum(), ["squared"]),
        (_filled, ["fill"]),
        (lambda built: built.lengths() * 2, ["lengths"]),
        (_stored, ["Store.__init__", "Store.add", "Store.total"]),
        (lambda built: built.version(), []),
        (lambda built: torch.ones(3).sum(), []),
    ],
)
def test_a_built_extension_is_named_where_it_is_called_and_accused_of_no_memory(
    built: Any, step: Callable[[Any], object], called: list[str]
) -> None:
    tracer = record(lambda: step(built))
    assert [spot.detail.partition(":")[0] for spot in natives(tracer)] == [
        f"tracer_test_native.{name}" for name in called
    ]
    assert not tracer.trace.unwritten_reads


@pytest.mark.skipif(not Path(native_code._LIBRARIES).exists(), reason="this system lists no mapped files")
def test_behind_a_link_no_library_of_torch_is_foreign(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    link = tmp_path / "torch"
    link.symlink_to(Path(torch.__file__).parent.resolve())
    monkeypatch.setattr(native_code, "_TORCH", str(link))
    libraries = native_code._mapped_files()
    assert libraries
    assert not [path for path in libraries if "/torch/lib/" in path]
