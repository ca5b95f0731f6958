"""Where a call came from."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import typing_extensions
from torch import nn

from tests.support.lines import groups, line_of, lines, one, record
from tracer.recording.origin import LIBRARY, NOWHERE, USER, Site, Sites, spell


def test_location_is_the_innermost_frame_outside_torch() -> None:
    def step() -> None:
        nn.functional.layer_norm(torch.ones(2, 4), (4,))  # the norm

    group = one(record(step), "aten.native_layer_norm")
    assert group.location == f"tests/recording/origin/test_sites.py:{line_of(step, '# the norm')}"
    assert group.function.endswith("step")
    assert group.called_from == ""


def weight_norm() -> None:
    nn.utils.weight_norm(nn.Linear(3, 3))  # wrapped by typing_extensions


def functional_call() -> None:
    nn.utils.stateless.functional_call(nn.Linear(3, 3), {}, (torch.ones(3),))  # wrapped by typing_extensions


def own() -> None:
    @typing_extensions.deprecated("for a test")
    def doubled() -> None:
        torch.ones(3).mul(2)  # wrapped by typing_extensions

    doubled()


def from_a_pool() -> None:
    @contextlib.contextmanager
    def around() -> Iterator[None]:
        yield

    list(map(functools.partial(around()(torch.Tensor.mul), torch.ones(3)), [2]))  # wrapped by typing_extensions


@pytest.mark.filterwarnings("ignore:.*deprecated|for a test")
@pytest.mark.parametrize("step", [weight_norm, functional_call, own, from_a_pool])
def test_a_wrapper_of_the_standard_library_or_its_like_is_passed_over(step: Callable[[], None]) -> None:
    here = f"tests/recording/origin/test_sites.py:{line_of(step, '# wrapped by typing_extensions')}"
    found = {group.location for group in record(step).trace.calls if group.op.split(".")[1] != "uniform_"}
    assert found == {here}


def test_each_line_is_its_own_group_and_repeats_are_counted() -> None:
    def step() -> None:
        x = torch.ones(3)
        for _ in range(5):
            x.sin()  # in a loop
        x.sin()  # once

    found = {group.location.rpartition(":")[2]: group.count for group in record(step).trace.calls if "sin" in group.op}
    assert found == {str(line_of(step, "in a loop")): 5, str(line_of(step, "# once")): 1}


def test_a_module_of_torch_is_passed_over_and_the_line_that_called_it_stands() -> None:
    stack = nn.Sequential(nn.Sequential(nn.Linear(3, 3), nn.ReLU()), nn.Linear(3, 3))

    def step() -> None:
        stack(torch.ones(1, 3))  # the call
        stack[0][0](torch.ones(1, 3))  # the inner one alone

    tracer = record(step, stack)
    found = {
        (group.location.rpartition(":")[2], group.module, group.count)
        for group in tracer.trace.calls
        if "addmm" in group.op
    }
    whole, alone = str(line_of(step, "# the call")), str(line_of(step, "# the inner"))
    assert found == {(whole, "0.0", 1), (whole, "1", 1), (alone, "0.0", 1)}


def test_a_callable_given_to_a_module_of_torch_names_its_own_line() -> None:
    def activation(x: torch.Tensor) -> torch.Tensor:
        return nn.functional.silu(x)  # the activation

    layer = nn.TransformerEncoderLayer(4, 1, 4, dropout=0.0, activation=activation)

    def step() -> None:
        layer(torch.ones(2, 1, 4)).sum().backward()

    assert lines([one(record(step), "aten.silu")]) == {line_of(activation, "# the activation")}


def _library(tmp_path: Path, name: str) -> object:
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / f"{name}.py").write_text(
        textwrap.dedent(
            """
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
        )
    )
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def test_library_code_counts_for_location_and_the_users_own_frame_for_called_from(tmp_path: Path) -> None:
    library = _library(tmp_path, "a_library_of_blocks")

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = library.Block()  # type: ignore[attr-defined]

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.block(x)  # into the library

    net = Net()

    def step() -> None:
        net(torch.ones(1, 3))
        library.helper(torch.ones(1))  # type: ignore[attr-defined]  # a plain function

    tracer = record(step, net)
    relu = one(tracer, "aten.relu")
    assert relu.location == "a_library_of_blocks.py:10"
    assert relu.module == "block"
    assert int(relu.called_from.rpartition(":")[2]) == line_of(Net.forward, "# into the library")
    sine = one(tracer, "aten.sin")
    assert sine.location == "a_library_of_blocks.py:13"
    assert int(sine.called_from.rpartition(":")[2]) == line_of(step, "# a plain function")


def test_a_librarys_function_has_the_line_of_the_users_module_that_calls_it(tmp_path: Path) -> None:
    library = _library(tmp_path, "a_library_of_functions")

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = library.helper(self.inner(x))  # type: ignore[attr-defined]  # once
            return library.helper(x)  # type: ignore[attr-defined, no-any-return]  # twice

    net = Net()
    tracer = record(lambda: net(torch.ones(1, 3)).sum().backward(), net)
    forward = {line_of(Net.forward, "# once"), line_of(Net.forward, "# twice")}
    for op in ("aten.sin", "aten.cos"):  # and its gradient
        found = groups(tracer, op)
        assert {int(group.called_from.rpartition(":")[2]) for group in found} == forward
        assert [group.count for group in found] == [1, 1]


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


def test_the_standard_library_is_passed_over() -> None:
    import functools

    def step() -> None:
        list(map(functools.partial(torch.add, 1), [torch.ones(1)]))  # mapped

    assert lines([one(record(step), "aten.add")]) == {line_of(step, "# mapped")}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/work/train.py", "train.py:3"),
        ("/work/models/net.py", "models/net.py:3"),
        ("/venv/lib/python3.11/site-packages/transformers/models/gpt2.py", "transformers/models/gpt2.py:3"),
        ("/home/ada/secret/elsewhere.py", "elsewhere.py:3"),
    ],
)
def test_paths_are_relative_and_never_name_a_user(path: str, expected: str) -> None:
    assert spell(Site(path, 3, "f", 2, "/work")) == expected


def test_no_place_is_an_empty_string() -> None:
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
        assert group.location == f"tests/recording/origin/test_sites.py:{line_of(step, '# the line')}"
        assert group.called_from == ""


def test_a_package_installed_to_a_folder_of_the_path_is_a_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_of = tmp_path / "blocks-1.0.dist-info" / "RECORD"
    record_of.parent.mkdir()
    record_of.write_text("blocks/__init__.py,sha256=abc,10\nalone.py,,\nblocks-1.0.dist-info/RECORD,,\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    sites = Sites()
    kinds = [sites.kind_of(str(tmp_path / name)) for name in ("blocks/nn.py", "alone.py", "train.py", "mine/nn.py")]
    assert kinds == [LIBRARY, LIBRARY, USER, USER]
    assert spell(Site(str(tmp_path / "blocks" / "nn.py"), 3, "f", LIBRARY, "/elsewhere")) == "blocks/nn.py:3"


def test_a_folder_that_is_not_on_the_path_holds_no_library(tmp_path: Path) -> None:
    (tmp_path / "blocks-1.0.dist-info").mkdir()
    (tmp_path / "blocks-1.0.dist-info" / "RECORD").write_text("blocks/__init__.py,,\n")
    assert Sites().kind_of(str(tmp_path / "blocks" / "nn.py")) == USER
