"""Real training runs of Lightning and Transformers under the callbacks."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack
from torch.utils.data import DataLoader, Dataset

from tracer.errors import UsageError
from tracer.integrations import chosen_steps
from tracer.integrations.chosen_steps import ChosenSteps
from tracer.names import Training
from tracer.trace import Trace

WIDTH = 8
#: A trainer of Lightning's that says nothing and keeps nothing.
QUIET = {
    "accelerator": "cpu",
    "devices": 1,
    "logger": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
}


class Rows(Dataset[dict[str, torch.Tensor]]):
    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        generator = torch.Generator().manual_seed(index)
        return {"x": torch.randn(WIDTH, generator=generator), "labels": torch.tensor(float(index % 2))}


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.drop = nn.Dropout(0.5)
        self.last = nn.Linear(WIDTH, 1)

    def forward(self, x: torch.Tensor, labels: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        out = self.last(self.drop(self.first(x).relu())).squeeze(-1)
        assert labels is not None
        return {"loss": nn.functional.mse_loss(out, labels), "logits": out}


def weights_of(net: nn.Module) -> list[torch.Tensor]:
    return [one.detach().clone() for one in net.parameters()]


def callback_of(library: str, folder: Path, **options: Any) -> Any:
    """The library's callback, which writes to ``found`` in the folder; skips where the library is not installed."""
    ours = pytest.importorskip(f"tracer.integrations.{library}", reason=f"{library} is not installed")
    return ours.DeterminismCallback(output=folder / "found", **options)


def lightning_module(breaks_at: int | None = None) -> Any:
    lightning = pytest.importorskip("lightning.pytorch", reason="Lightning is not installed")

    class Module(lightning.LightningModule):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.net = Net()

        def training_step(self, batch: dict[str, torch.Tensor], index: int) -> torch.Tensor:
            if index == breaks_at:
                raise RuntimeError("no more")
            loss: torch.Tensor = self.net(**batch)["loss"]
            return loss

        def forward(self, batch: dict[str, torch.Tensor], *_: int) -> torch.Tensor:
            return self.net(**batch)["logits"]  # type: ignore[no-any-return]

        validation_step = test_step = predict_step = forward

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.AdamW(self.parameters(), lr=0.1)

    return Module()


def in_lightning(loop: str, module: Any, callback: Any | None, **options: Any) -> None:
    lightning = pytest.importorskip("lightning.pytorch", reason="Lightning is not installed")
    trainer = lightning.Trainer(callbacks=[callback] if callback else [], **QUIET, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        getattr(trainer, loop)(module, DataLoader(Rows(), batch_size=4))


def fit_lightning(folder: Path, callback: Any | None, breaks_at: int | None = None) -> list[torch.Tensor]:
    torch.manual_seed(0)
    module = lightning_module(breaks_at)
    in_lightning("fit", module, callback, default_root_dir=folder, max_steps=3, enable_checkpointing=False)
    return weights_of(module)


def fit_transformers(folder: Path, callback: Any | None, accumulation: int = 1) -> list[torch.Tensor]:
    transformers = pytest.importorskip("transformers", reason="Transformers is not installed")
    pytest.importorskip("accelerate", reason="Accelerate is not installed")
    torch.manual_seed(0)
    net = Net()
    quiet = {"report_to": [], "save_strategy": "no", "logging_strategy": "no", "use_cpu": True, "disable_tqdm": True}
    steps = {"max_steps": 3, "per_device_train_batch_size": 4, "gradient_accumulation_steps": accumulation}
    arguments = transformers.TrainingArguments(output_dir=str(folder / "out"), seed=0, **quiet, **steps)
    callbacks = [callback] if callback else []
    transformers.Trainer(model=net, args=arguments, train_dataset=Rows(), callbacks=callbacks).train()
    return weights_of(net)


def same_bits(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize(
    ("library", "fit", "steps", "formats", "dropped"),
    [
        ("lightning", fit_lightning, [0, 2], ["html", "csv"], ("net.drop", 2)),
        ("transformers", fit_transformers, [1], ["json"], ("drop", 1)),
        ("transformers", partial(fit_transformers, accumulation=2), [1], ["json"], ("drop", 2)),
    ],
    ids=["lightning", "transformers", "accumulating"],
)
def test_a_run_yields_the_report_of_its_chosen_steps(
    tmp_path: Path, library: str, fit: Any, steps: list[int], formats: list[str], dropped: tuple[str, int]
) -> None:
    callback = callback_of(library, tmp_path, steps=steps, formats=formats, backend="cuda")
    recorded = fit(tmp_path, callback)
    trace = Trace.load(tmp_path / "found" / "trace.json")
    assert trace.sources[0].optimizer_steps == len(steps)
    drops = [one for one in trace.calls if one.op.startswith(("aten.native_dropout", "aten.bernoulli_"))]
    assert {(one.module, one.count) for one in drops} == {dropped}
    assert callback.report.target.backend == "cuda"
    reports = {f"report.{suffix}" for suffix in formats}
    assert {path.name for path in (tmp_path / "found").iterdir()} == {"trace.json", *reports}
    assert same_bits(recorded, fit(tmp_path, None))


@pytest.mark.parametrize("loop", ["validate", "test", "predict"])
def test_a_lightning_loop_without_training_is_an_inference_beside_the_training(tmp_path: Path, loop: str) -> None:
    callback = callback_of("lightning", tmp_path, steps=[1], formats="json", backend="cuda")
    in_lightning(loop, lightning_module(), callback)
    trace = Trace.load(tmp_path / "found" / f"trace.{loop}.json")
    assert trace.training is Training.INFERENCE
    assert {call.module for call in trace.calls} >= {"net.first", "net.last"}
    assert {path.name for path in (tmp_path / "found").iterdir()} == {f"trace.{loop}.json", f"report.{loop}.json"}


def test_a_transformers_evaluation_alone_says_that_it_was_not_recorded(tmp_path: Path) -> None:
    callback = callback_of("transformers", tmp_path)
    transformers = pytest.importorskip("transformers", reason="Transformers is not installed")
    arguments = transformers.TrainingArguments(output_dir=str(tmp_path), report_to=[], use_cpu=True, disable_tqdm=True)
    trainer = transformers.Trainer(model=Net(), args=arguments, eval_dataset=Rows(), callbacks=[callback])
    with pytest.warns(UserWarning, match="records no evaluate"):
        trainer.evaluate()


def test_steps_that_never_came_are_said(tmp_path: Path) -> None:
    chosen = ChosenSteps([5], output=tmp_path / "found")
    chosen.before(0, None, "step")
    with pytest.warns(UserWarning, match="none of the steps 5 was run"):
        assert chosen.finish() is None
    assert not (tmp_path / "found").exists()


@pytest.mark.parametrize("arguments", [{"steps": []}, {"steps": [-1]}, {"formats": ["docx"]}])
def test_what_cannot_be_recorded_is_refused_before_training(arguments: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        ChosenSteps(**arguments)


def test_an_exception_leaves_the_tracer_and_marks_the_trace(tmp_path: Path) -> None:
    chosen = ChosenSteps([0], output=tmp_path / "found", formats=())
    chosen.before(0, None, "step")
    torch.ones(2).sum()
    chosen.after(ValueError("boom"))
    chosen.finish()
    assert Trace.load(tmp_path / "found" / "trace.json").partial == "ValueError"


@pytest.mark.parametrize(("step", "partial"), [(0, ""), (1, "RuntimeError")])
def test_a_lightning_run_that_breaks_off_leaves_what_it_recorded(tmp_path: Path, step: int, partial: str) -> None:
    callback = callback_of("lightning", tmp_path, steps=[step], formats="json", backend="cuda")
    with pytest.raises(RuntimeError, match="no more"):
        fit_lightning(tmp_path, callback, breaks_at=1)
    assert Trace.load(tmp_path / "found" / "trace.json").partial == partial
    assert callback.report.judgement.target.backend == "cuda"
    assert (tmp_path / "found" / "report.json").is_file()


def test_a_transformers_run_that_breaks_off_is_left_when_the_next_begins(tmp_path: Path) -> None:
    callback = callback_of("transformers", tmp_path, steps=[0], formats=())
    state = type("State", (), {"global_step": 0})
    callback.on_step_begin(None, state, None, model=Net())
    callback.on_train_begin(None, state, None)
    assert not _get_current_dispatch_mode_stack()


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_loop_that_breaks_off_waits_for_no_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ranks: int) -> None:
    waits: list[int] = []
    job = SimpleNamespace(get_rank=lambda: 0, get_world_size=lambda: ranks)
    monkeypatch.setattr(chosen_steps, "_job", lambda: job)
    monkeypatch.setattr(chosen_steps, "_wait_for_all", lambda: waits.append(1))
    chosen = ChosenSteps([0], output=tmp_path / "found", formats=("json",))
    chosen.before(0, None, "step")
    report = chosen.break_off(ValueError("boom"))
    assert not waits
    assert (report is not None) is (ranks == 1)
    assert {path.suffix for path in (tmp_path / "found").iterdir()} == {".json"}


def test_a_rank_that_recorded_nothing_keeps_no_other_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[int] = []
    monkeypatch.setattr(chosen_steps, "_wait_for_all", lambda: waits.append(1))
    with pytest.warns(UserWarning, match="nothing was recorded"):
        ChosenSteps([0], output=tmp_path / "found").finish()
    assert waits
