"""Training scripts of seventeen kinds, as libraries have people write them: nothing changes, one screen, nothing false.

Models are tiny, their weights drawn from a configuration; nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.command import SCRIPTS, Finished, both, process, tracer_process
from tracer import Report, Trace, judge
from tracer.names import Verdict

pytestmark = pytest.mark.slow

SCREEN, COLUMNS = 40, 100
CONVOLUTION = "aten.convolution_backward"
ATTENTION = "aten._scaled_dot_product_efficient_attention_backward"


class Truth(NamedTuple):
    """What is known of one script on CUDA in float32, with torch's default settings."""

    vary: frozenset[str] = frozenset()
    """Ops of which two runs can differ whatever the data, as CUDA runs them."""
    needs: tuple[str, ...] = ()
    """Packages that torch does not bring."""


def of(*vary: str, needs: tuple[str, ...] = ()) -> Truth:
    return Truth(frozenset(vary), needs)


TRUTHS = {
    "accelerate_loop": of(ATTENTION, needs=("accelerate",)),
    "checkpointing": of(ATTENTION),
    "compiled": of("aten._unsafe_masked_index_put_accumulate"),
    "custom_function": of("aten.index_add_"),
    "ddp": of(),
    "diffusers_unet": of(CONVOLUTION, ATTENTION, needs=("diffusers",)),
    "faster_rcnn": of(CONVOLUTION, "torchvision._roi_align_backward", needs=("torchvision",)),
    "gan": of(CONVOLUTION, "aten.convolution"),
    "gpt2_trainer": of(ATTENTION, needs=("transformers", "accelerate")),
    "lightning_fit": of(CONVOLUTION, needs=("lightning",)),
    "peft_lora": of(needs=("peft", "transformers")),
    "ppo": of("aten.cumsum"),
    "pyg_graph": of("aten.index_add", "aten.scatter_add_", needs=("torch_geometric",)),
    "resume": of(),
    "t5_trainer": of(ATTENTION, needs=("transformers", "accelerate")),
    "timm_amp": of(CONVOLUTION, needs=("timm", "torchvision")),
    "workers": of(),
}


class Training(NamedTuple):
    """A script that ran plainly and recorded."""

    name: str
    folder: Path
    plain: Finished
    recorded: Finished

    def report(self, backend: str) -> Report:
        return judge(Trace.load(self.folder / "t.json"), backend=backend, settings="default")


@pytest.fixture(scope="module", params=sorted(TRUTHS))
def training(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Training]:
    name, folder = request.param, tmp_path_factory.mktemp(request.param)
    for package in TRUTHS[name].needs:
        loaded = process("-c", f"import {package}", cwd=folder)
        if loaded.code:
            pytest.skip(f"{package} cannot be imported: {loaded.err.strip().splitlines()[-1]}")
    return Training(name, folder, *both(folder, SCRIPTS / "trainings" / f"{name}.py"))


def test_every_script_has_its_truth() -> None:
    assert {path.stem for path in (SCRIPTS / "trainings").glob("*.py")} == set(TRUTHS)
    assert len(TRUTHS) == 17


def test_losses_and_exit_code_are_those_without_the_recorder(training: Training) -> None:
    assert (training.plain.code, training.recorded.code) == (0, 0), training.recorded.err
    assert len(training.plain.out.splitlines()) >= 2
    assert training.recorded.out == training.plain.out


@pytest.mark.parametrize("backend", ["recorded", "cuda"])
def test_the_answer_fits_one_screen_and_a_page_can_be_written(training: Training, backend: str) -> None:
    shown = tracer_process("report", "t.json", "--backend", backend, cwd=training.folder, COLUMNS=str(COLUMNS))
    assert (shown.code, shown.err) == (0, "")
    lines = shown.out.splitlines()
    assert len(lines) <= SCREEN, shown.out
    assert max(map(len, lines)) <= COLUMNS
    written = tracer_process("report", "t.json", "--backend", backend, "-o", "r.html", cwd=training.folder)
    assert written.code == 0
    assert (training.folder / "r.html").stat().st_size > 10_000


def test_on_cuda_exactly_what_varies_is_called_nondeterministic(training: Training) -> None:
    findings = [finding for finding in training.report("cuda").findings if finding.op]
    varies = {
        (finding.runs_as or finding.op).removesuffix(".default")
        for finding in findings
        if finding.verdict is Verdict.NONDETERMINISTIC
    }
    assert varies == TRUTHS[training.name].vary
    assert not [finding for finding in findings if finding.verdict is Verdict.RAISES]


def test_on_the_cpu_it_was_recorded_on_nothing_is_called_nondeterministic(training: Training) -> None:
    findings = training.report("recorded").findings
    assert not [finding for finding in findings if finding.verdict in (Verdict.NONDETERMINISTIC, Verdict.RAISES)]


def test_each_finding_on_a_call_leads_to_a_line(training: Training) -> None:
    assert all(finding.location for finding in training.report("cuda").open_findings if finding.op)
