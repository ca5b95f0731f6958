"""What a library does while it is imported, and what the same library does in a step."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
import torch

from tracer import DeterminismTracer, judge
from tracer.names import HostCode

LIBRARY = """
import torch

library = torch.library.Library("{name}", "DEF")
library.define("version() -> int")
library.define("scale(Tensor x) -> Tensor")
library.impl("version", lambda: 3, "CompositeExplicitAutograd")
library.impl("scale", lambda x: x * 2, "CompositeExplicitAutograd")


def version():
    return torch.ops.{name}.version()


TABLE = torch.ops.{name}.scale(torch.ones(2))
version()
"""


def imported(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = folder / "site-packages"
    home.mkdir()
    (home / f"{name}.py").write_text(LIBRARY.format(name=name), encoding="utf-8")
    monkeypatch.syspath_prepend(str(home))
    monkeypatch.delitem(sys.modules, name, raising=False)
    return home


@pytest.mark.parametrize("backend", ["recorded", "cuda", "npu"])
def test_a_number_that_a_library_asked_for_while_it_was_imported_is_no_finding_and_one_in_a_step_is(
    backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"traced_import_{backend}"
    imported(name, tmp_path, monkeypatch)
    tracer = DeterminismTracer()
    with tracer:
        library = importlib.import_module(name)
    report = judge(tracer.trace, backend=backend, settings="default")
    assert f"{name}.version.default" not in {one.op for one in report.findings}
    assert f"{name}.scale.default" in {one.op for one in report.findings}  # a tensor that a step may use
    assert any("made by a library while it was imported" in banner for banner in report.banners)
    with tracer:
        library.version()
        torch.ones(1).add(1)
    said = {group.host: group.count for group in tracer.trace.calls if group.op == f"{name}.version.default"}
    assert said == {HostCode.IMPORT: 1, None: 1}
    report = judge(tracer.trace, backend=backend, settings="default")
    assert f"{name}.version.default" in {one.op for one in report.findings}
