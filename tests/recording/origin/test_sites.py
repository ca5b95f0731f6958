"""Where a call came from."""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import typing_extensions
from torch import nn

from tests.support.lines import groups, line_of, lines, one, record
from tracer.recording.origin import LIBRARY, NOWHERE, USER, Site, Sites, spell

HERE = "tests/recording/origin/test_sites.py"


def weight_norm() -> None:
    nn.utils.weight_norm(nn.Linear(3, 3))  # passed over


def own() -> None:
    @typing_extensions.deprecated("for a test")
    def doubled() -> None:
        torch.ones(3).mul(2)  # passed over

    doubled()


def from_a_pool() -> None:
    @contextlib.contextmanager
    def around() -> Iterator[None]:
        yield

    list(map(functools.partial(around()(torch.Tensor.mul), torch.ones(3)), [2]))  # passed over


@pytest.mark.filterwarnings("ignore:.*deprecated|for a test")
@pytest.mark.parametrize("step", [weight_norm, own, from_a_pool])
def test_a_wrapper_of_the_standard_library_or_its_like_is_passed_over(step: Callable[[], None]) -> None:
    found = {group.location for group in record(step).trace.calls if group.op.split(".")[1] != "uniform_"}
    assert found == {f"{HERE}:{line_of(step, '# passed over')}"}


def test_a_module_of_torch_is_passed_over_and_the_line_that_called_it_stands() -> None:
    stack = nn.Sequential(nn.Sequential(nn.Linear(3, 3), nn.ReLU()), nn.Linear(3, 3))

    def step() -> None:
        stack(torch.ones(1, 3))  # the call
        stack[0][0](torch.ones(1, 3))  # the inner one alone

    products = groups(record(step, stack), "aten.addmm")
    whole, alone = line_of(step, "# the call"), line_of(step, "# the inner")
    found = {(*lines([group]), group.module, group.count) for group in products}
    assert found == {(whole, "0.0", 1), (whole, "1", 1), (alone, "0.0", 1)}


def test_a_callable_given_to_a_module_of_torch_names_its_own_line() -> None:
    def activation(x: torch.Tensor) -> torch.Tensor:
        return nn.functional.silu(x)  # the activation

    layer = nn.TransformerEncoderLayer(4, 1, 4, dropout=0.0, activation=activation)

    def step() -> None:
        layer(torch.ones(2, 1, 4)).sum().backward()

    assert lines([one(record(step), "aten.silu")]) == {line_of(activation, "# the activation")}


SOURCE = """
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 3)

    def forward(self, x):
        return self.inner(x).relu()

def helper(x):
    return x.sin()
"""


def test_library_code_counts_for_location_and_the_users_own_frame_for_called_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "a_library_of_blocks.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(folder)
    library: Any = importlib.import_module("a_library_of_blocks")

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = library.Block()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.block(x)  # into the library
            x = library.helper(x)  # once
            return library.helper(x)  # type: ignore[no-any-return]  # twice

    net = Net()
    tracer = record(lambda: net(torch.ones(1, 3)).sum().backward(), net)
    relu = one(tracer, "aten.relu")
    assert (relu.location, relu.module) == ("a_library_of_blocks.py:10", "block")
    assert int(relu.called_from.rpartition(":")[2]) == line_of(Net.forward, "# into the library")
    for op in ("aten.sin", "aten.cos"):  # and its gradient
        found = groups(tracer, op)
        assert [(group.location, group.count) for group in found] == [("a_library_of_blocks.py:13", 1)] * 2
        called_from = {int(group.called_from.rpartition(":")[2]) for group in found}
        assert called_from == {line_of(Net.forward, "# once"), line_of(Net.forward, "# twice")}


def test_further_packages_can_be_named_as_not_the_users(tmp_path: Path) -> None:
    code = compile("def run(x):\n    return x.cos()\n", str(tmp_path / "ops_of_a_lab" / "ops.py"), "exec")
    names: dict[str, object] = {}
    exec(code, names)

    def step() -> None:
        names["run"](torch.ones(1))  # type: ignore[operator]  # from here

    group = one(record(step, library=["ops_of_a_lab"]), "aten.cos")
    assert group.function == "run"
    assert int(group.called_from.rpartition(":")[2]) == line_of(step, "# from here")
    assert one(record(step), "aten.cos").called_from == ""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/work/models/net.py", "models/net.py:3"),
        ("/venv/lib/python3.11/site-packages/transformers/models/gpt2.py", "transformers/models/gpt2.py:3"),
        ("/home/ada/secret/elsewhere.py", "elsewhere.py:3"),
    ],
)
def test_paths_are_relative_and_never_name_a_user(path: str, expected: str) -> None:
    assert spell(Site(path, 3, "f", 2, "/work")) == expected
    assert spell(NOWHERE) == ""


def test_a_subclasss_own_wrapper_is_passed_over() -> None:
    class Tagged(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return super().__torch_function__(func, types, args, kwargs or {})  # the wrapper

    weight = torch.ones(3).as_subclass(Tagged).requires_grad_()

    def step() -> None:
        y = weight.sin()  # the line
        y.sum().backward()

    tracer = record(step)
    for op in ("aten.sin", "aten.cos"):
        group = one(tracer, op)
        assert (group.location, group.called_from) == (f"{HERE}:{line_of(step, '# the line')}", "")


def test_a_package_installed_to_a_folder_of_the_path_is_a_library_and_elsewhere_it_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_of = tmp_path / "blocks-1.0.dist-info" / "RECORD"
    record_of.parent.mkdir()
    record_of.write_text("blocks/__init__.py,sha256=abc,10\nalone.py,,\nblocks-1.0.dist-info/RECORD,,\n")
    paths = [str(tmp_path / name) for name in ("blocks/nn.py", "alone.py", "train.py", "mine/nn.py")]
    assert {Sites().kind_of(path) for path in paths} == {USER}
    monkeypatch.syspath_prepend(str(tmp_path))
    sites = Sites()
    assert [sites.kind_of(path) for path in paths] == [LIBRARY, LIBRARY, USER, USER]
    assert spell(Site(paths[0], 3, "f", LIBRARY, "/elsewhere")) == "blocks/nn.py:3"
