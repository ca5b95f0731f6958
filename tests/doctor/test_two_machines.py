"""Two machines side by side: what differs, whether it matters, and what no table knows."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.build import environment
from tracer.doctor import Outlook
from tracer.doctor.two_machines import (
    Machine,
    MachineComparison,
    MachineDifference,
    compare_machines,
    comparison_blocks,
)
from tracer.names import Backend, Differs, Verdict
from tracer.report.render.terminal import drawn, printed
from tracer.tables.rules import load_rows
from tracer.trace.records import CudaDevice

H100 = CudaDevice(name="NVIDIA H100", capability="9.0")
A100 = CudaDevice(name="NVIDIA A100", capability="8.0")


def machine(*backends: str, **fields: Any) -> Machine:
    """A machine whose torch was built for ``backends``, with the fields of its outlook and its environment."""
    seen = {"has_torch": True} | {name: fields.pop(name) for name in ("has_torch", "devices") if name in fields}
    versions = {"torch": "2.13.0"} | fields.pop("versions", {})
    outlook = Outlook(backends=tuple(map(Backend, backends or ("cuda",))), versions=versions, **seen)
    return Machine(doctor=1, environment=environment(**{"cudnn_enabled": True} | fields), outlook=outlook)


def compared(first: Machine, second: Machine, **how: Any) -> MachineComparison:
    return compare_machines(load_rows(), first, second, names=("a", "b"), **how)


def only(first: Machine, second: Machine) -> MachineDifference:
    (difference,) = compared(first, second).differences
    return difference


def test_two_files_of_one_machine_have_no_difference_and_no_proof() -> None:
    same = compared(machine(), machine())
    assert same.differences == ()
    assert same.same > 10
    assert "no proof" in text(same)


def test_a_setting_that_makes_runs_differ_names_the_machine_and_the_remedy() -> None:
    difference = only(machine(cudnn_benchmark=False), machine(cudnn_benchmark=True))
    assert (difference.name, difference.first, difference.second) == ("torch.backends.cudnn.benchmark", "False", "True")
    assert difference.matters is Differs.RUNS
    assert difference.verdicts == (Verdict.DETERMINISTIC, Verdict.NONDETERMINISTIC)
    assert all((difference.why, difference.remedy, difference.code))
    assert "On b." in text(compared(machine(cudnn_benchmark=False), machine(cudnn_benchmark=True)))


def test_a_setting_that_bears_on_no_backend_of_the_two_is_a_difference_and_no_more() -> None:
    workspace = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
    difference = only(machine("cpu"), machine("cpu", variables=workspace))
    assert (difference.name, difference.second) == ("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    assert difference.matters is None
    assert "cpu" in difference.why
    (on_cuda,) = compared(machine("cuda"), machine("cuda", variables=workspace)).differences
    assert on_cuda.matters is Differs.RUNS


@pytest.mark.parametrize(
    ("first", "second", "name", "row"),
    [
        ({"num_threads": 8}, {"num_threads": 64}, "torch.set_num_threads", "environment-threads"),
        ({"versions": {"cuDNN": "91002"}}, {"versions": {"cuDNN": "90100"}}, "cuDNN", "environment-library-versions"),
        ({"versions": {"flash-attn": "2.7"}}, {}, "flash-attn", "environment-library-versions"),
        ({"versions": {"processor": "A"}}, {"versions": {"processor": "B"}}, "processor", "environment-mkl-cbwr"),
        ({"devices": (H100,)}, {"devices": (A100,)}, "devices", "environment-gpu-model"),
        ({"devices": (H100,)}, {"devices": (H100,) * 8}, "devices", "environment-world-size"),
    ],
)
def test_what_makes_machines_differ_has_its_row(
    first: dict[str, Any], second: dict[str, Any], name: str, row: str
) -> None:
    difference = only(machine("cpu", "cuda", **first), machine("cpu", "cuda", **second))
    assert (difference.name, difference.row, difference.matters) == (name, row, Differs.MACHINES)
    assert all((difference.why, difference.remedy))


@pytest.mark.parametrize(
    ("first", "second", "says"),
    [
        ({"versions": {"Python": "3.11.9"}}, {"versions": {"Python": "3.12.1"}}, "3.12.1"),
        ({"devices": (H100,)}, {}, "none listed"),
        ({"versions": {"processor": "A"}}, {}, "could not be read"),
        ({"variables": {"PYTHONHASHSEED": "1"}}, {"variables": {"PYTHONHASHSEED": "2"}}, "2"),
        ({"cudnn_benchmark": True}, {"cudnn_benchmark": None}, "could not be read"),
    ],
    ids=["no row", "no device listed", "not read", "two repeating values", "setting not read"],
)
def test_what_no_table_knows_is_not_known(first: dict[str, Any], second: dict[str, Any], says: str) -> None:
    difference = only(machine(**first), machine(**second))
    assert difference.matters is None
    assert difference.second == says
    assert "not say" in text(compared(machine(**first), machine(**second)))


def test_differences_are_ordered_by_what_they_matter_for() -> None:
    first = machine("cpu", "cuda", versions={"Python": "3.11.9"}, devices=(H100,), num_threads=8, cudnn_benchmark=True)
    versions = {"Python": "3.12.1", "torch": "2.12.0"}
    second = machine("cpu", "cuda", versions=versions, devices=(A100,), num_threads=64, cudnn_benchmark=False)
    names = [difference.name for difference in compared(first, second).differences]
    assert names == ["torch.backends.cudnn.benchmark", "devices", "torch", "torch.set_num_threads", "Python"]


def test_without_what_decides_a_difference_is_not_known() -> None:
    difference = only(machine(cudnn_enabled=None, cudnn_benchmark=False), machine(cudnn_benchmark=True))
    assert difference.matters is Differs.RUNS
    both = [machine(cudnn_enabled=None, cudnn_benchmark=is_on) for is_on in (False, True)]
    assert only(*both).matters is None


def test_a_setting_of_a_backend_that_one_machine_lacks_is_told_without_a_verdict() -> None:
    difference = only(machine("cpu", "cuda", cudnn_benchmark=True), machine("cpu", cudnn_benchmark=False))
    assert (difference.matters, difference.verdicts, difference.why) == (None, None, "It bears on a alone.")
    (for_cuda,) = compared(
        machine("cpu", cudnn_benchmark=False), machine("cpu", cudnn_benchmark=True), backend=Backend.CUDA
    ).differences
    assert for_cuda.matters is Differs.RUNS


def test_a_machine_without_torch_is_named() -> None:
    differing = compared(machine(), machine(has_torch=False, torch=""))
    assert differing.without_torch == ("b",)
    assert any(banner.startswith("b: torch cannot be imported") for banner in differing.banners)


def text(comparison: MachineComparison, width: int = 80) -> str:
    """What a terminal shows, on one line."""
    return " ".join(printed(drawn(comparison_blocks(comparison)), width=width, color=False).split())


@pytest.mark.parametrize("width", [20, 40, 63, 64, 80, 200])
def test_lines_fit_every_terminal_and_lose_no_value(width: int) -> None:
    first = machine("cpu", num_threads=8, variables={"MKL_CBWR": "COMPATIBLE"})
    comparison = compared(first, machine("cpu", num_threads=64))
    lines = printed(drawn(comparison_blocks(comparison)), width=width, color=False)
    assert max(map(len, lines.splitlines())) <= width
    assert "\x1b" not in lines
    for value in ("8", "64", "COMPATIBLE"):
        assert value in "".join(lines.split())
