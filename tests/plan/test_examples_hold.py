"""The plan of each rule's example and each setting's code, put into the program: it runs, agrees, and has no new NaN.

Two runs of one process are compared as ``tracer repeat`` compares those of two. A plan for another backend is put into
the program that this CPU runs: its text must at least run there.
"""

from __future__ import annotations

import os
import random
import shlex
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import torch

from tests.support.command import process
from tests.support.examples import RUN, code_of, first_op, groups_of_gloo
from tests.support.slow import slow_unless
from tracer import DeterminismTracer, Report, Trace, judge
from tracer.divergence.comparing import compare_recordings
from tracer.divergence.model import Divergence, read_recording
from tracer.names import Backend, Verdict
from tracer.recording.process.settings import make, read_now, read_settings
from tracer.tables.explaining import Example, program
from tracer.tables.rules import SettingRow, load_rows
from tracer.tables.settings import DECLARED, declared

EXPORT = "export "
ROWS = [row for row in load_rows().row if row.code]
#: Lines that name what stands in the user's own program, or a package that is not torch's.
OF_A_PROGRAM = {
    "environment-loader-workers",
    "environment-loader-shuffle",
    "environment-loader-order",
    "environment-loader-epoch",
    "environment-sdpa-backends",
    "environment-file-order",
    "environment-image-libraries",
}
ROOT = Path(__file__).parents[2]
RECORDS = """
import sys
from pathlib import Path
from tests.support.examples import RUN, first_op, recorded
for example in RUN:
    if first_op(example) in sys.argv[2:]:
        recorded(example).save(Path(sys.argv[1]) / f"{first_op(example)}.json")
"""
STEP = """
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Conv1d(2, 4, 3), torch.nn.Flatten(), torch.nn.Linear(24, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for index in range(2):
    optimizer.zero_grad()
    loss = model(torch.randn(4, 2, 8)).square().mean()
    loss.backward()
    optimizer.step()
"""
#: A few of every kind are tried in each run of the tests.
QUICK = {
    *("aten.index_add_", "aten.index_put_", "aten.scatter_add_", "aten.put_", "aten.cumsum", "aten.empty"),
    *("aten.feature_dropout", "aten.bernoulli_", "aten.sort", "aten.nll_loss2d_forward", "aten.mm"),
}


@pytest.fixture(autouse=True)
def _settings_as_before() -> Iterator[None]:
    """What a plan's text sets in this process is undone."""
    before = [(setting, read_now(setting)) for setting in DECLARED]
    environ = dict(os.environ)
    yield
    for setting, value in before:
        if value is not None and read_now(setting) != value:
            make(setting, value)
    os.environ.clear()
    os.environ.update(environ)


Traces = Callable[[Example], Trace]


@pytest.fixture(scope="module")
def traces(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Traces:
    """Records the examples of this run in a process in which nobody seeded a generator: one for all."""
    folder = tmp_path_factory.mktemp("examples")
    calls = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
    asked = {first_op(given["example"]) for given in calls if isinstance(given.get("example"), Example)}
    done = process("-W", "ignore", "-c", RECORDS, folder, *sorted(asked), cwd=ROOT)
    assert done.code == 0, done.err
    return lambda example: Trace.load(folder / f"{first_op(example)}.json")


class Run:
    """One run of a program: what it leaves under its names, and its recording."""

    def __init__(self, text: str, path: Path) -> None:
        random.seed()
        np.random.seed(None)
        torch.seed()
        self.names: dict[str, Any] = {}
        with groups_of_gloo(), DeterminismTracer(values=True) as tracer:
            exec(code_of(text), self.names)
        tracer.save(path)
        self.recording = read_recording(path)

    @property
    def with_nan(self) -> set[str]:
        """Names of the tensors that hold NaN."""
        tensors = {name: value for name, value in self.names.items() if type(value) is torch.Tensor}
        return {
            name
            for name, value in tensors.items()
            if value.layout is torch.strided and value.is_floating_point() and bool(value.isnan().any())
        }


@cache
def with_nan(example: Example) -> set[str]:
    """Names of the tensors that are NaN without any plan."""
    with TemporaryDirectory() as folder:
        return Run(program(example, Backend.CPU), Path(folder) / "before.trace.json").with_nan


def twice(text: str, folder: Path) -> tuple[Divergence, set[str]]:
    """Two runs compared, and the names of tensors that are NaN in the second."""
    runs = [Run(text, folder / f"{number}.trace.json") for number in range(2)]
    return compare_recordings(runs[0].recording, runs[1].recording), runs[1].with_nan


def with_plan(report: Report, example: Example) -> str:
    """The example's program on this CPU with the plan's text at its top; what a shell sets is in the environment."""
    lines = []
    for change in report.plan:
        if change.code.startswith(EXPORT):
            os.environ.update(exported(change.code))
        elif change.code and not change.code.startswith("model."):  # an example has no name for its model
            lines.append(change.code)
    return "\n\n".join([*lines, program(example, Backend.CPU)])


def exported(code: str) -> dict[str, str]:
    """The variables of ``export NAME=VALUE`` lines."""
    words = [word for line in code.splitlines() for word in shlex.split(line.removeprefix(EXPORT), comments=True)]
    return dict(word.split("=", 1) for word in words)


def refused(problem: RuntimeError, report: Report) -> bool:
    """Is it a refusal of deterministic mode that the report told?"""
    return "deterministic" in str(problem) and any(
        finding.deterministic_mode is Verdict.RAISES for finding in report.findings
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("example", slow_unless(lambda example: first_op(example) in QUICK, RUN), ids=first_op)
def test_an_examples_plan_makes_runs_agree_without_a_new_nan(example: Example, traces: Traces, tmp_path: Path) -> None:
    report = judge(traces(example), backend="cpu")
    before = with_nan(example)
    try:
        divergence, after = twice(with_plan(report, example), tmp_path)
    except RuntimeError as problem:
        if refused(problem, report):
            return
        raise
    open_ones = [change.title for change in report.plan if not change.sets]
    assert not divergence.differs or open_ones, divergence.first
    assert after <= before


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", ["cuda", "rocm", "npu"])
@pytest.mark.parametrize("example", slow_unless(lambda example: first_op(example) in QUICK, RUN), ids=first_op)
def test_an_examples_plan_for_other_backends_runs(
    example: Example, backend: str, traces: Traces, tmp_path: Path
) -> None:
    trace = traces(example)
    before = with_nan(example)
    text = with_plan(judge(trace, backend=backend), example)
    try:
        assert Run(text, tmp_path / "after.trace.json").with_nan <= before
    except RuntimeError as problem:
        if not refused(problem, judge(trace, backend="cpu")):
            raise


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "row", [pytest.param(row, id=row.id) for row in ROWS if not (row.code.startswith(EXPORT) or row.id in OF_A_PROGRAM)]
)
def test_a_settings_code_makes_what_it_says_and_steps_agree_without_nan(row: SettingRow, tmp_path: Path) -> None:
    if row.id == "environment-tunable-op" and not hasattr(torch._C, "_cuda_tunableop_enable"):
        pytest.skip("this build of torch has no TunableOp")
    divergence, are_nan = twice(f"{row.code}{STEP}", tmp_path)
    assert not divergence.differs
    assert divergence.calls_compared > 20
    assert not are_nan
    settings = read_settings([*row.sets, *(f"{name}()" for name in row.sets)])
    for name, value in row.sets.items():
        if name.startswith("seed.") or ((setting := declared(name)) is None and name not in settings):
            continue
        assert (settings[name] if setting is None else read_now(setting)) == value


@pytest.mark.parametrize("row", [pytest.param(row, id=row.id) for row in ROWS if row.code.startswith(EXPORT)])
def test_a_settings_line_for_the_shell_sets_its_variables(row: SettingRow) -> None:
    assert exported(row.code) == row.sets
