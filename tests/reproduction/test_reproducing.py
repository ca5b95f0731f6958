"""``tracer.reproducible`` makes a step repeat, and leaves the process as it was."""

from __future__ import annotations

import os
import pickle
import random
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

import tracer
from tests.support.command import process
from tracer import reproducing
from tracer.errors import UsageError
from tracer.names import Subsystem
from tracer.recording.events import EventLog
from tracer.recording.origin import Sites
from tracer.recording.process.environment import FirstUses
from tracer.reproducing import Reproducible

WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"


def settings() -> dict[str, Any]:
    """Everything that ``reproducible`` may set, as it stands."""
    from torch._inductor import config

    return {
        "mode": torch.are_deterministic_algorithms_enabled(),
        "warn_only": torch.is_deterministic_algorithms_warn_only_enabled(),
        "inductor": getattr(config, "deterministic", None),
        "cudnn_deterministic": torch.backends.cudnn.deterministic,
        "cudnn_benchmark": torch.backends.cudnn.benchmark,
        "fill": torch.utils.deterministic.fill_uninitialized_memory,  # type: ignore[attr-defined]
        "threads": torch.get_num_threads(),
        "workspace": os.environ.get(WORKSPACE),
    }


def states() -> tuple[bytes, object, bytes, str]:
    """The state of every generator, and the seed that waits for CUDA."""
    return (
        torch.get_rng_state().numpy().tobytes(),
        random.getstate(),
        pickle.dumps(numpy.random.get_state(legacy=False)),
        repr(vars(torch.cuda._lazy_seed_tracker)),  # type: ignore[attr-defined]
    )


@pytest.fixture(autouse=True)
def as_found(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test proves by the way that everything was put back."""
    monkeypatch.delenv(WORKSPACE, raising=False)
    before, drawn = settings(), states()
    yield
    assert settings() == before
    assert states() == drawn


class Pictures(Dataset[torch.Tensor]):
    """Sixteen noisy pictures: each of the three libraries draws in a worker."""

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> torch.Tensor:
        noise = numpy.random.rand(8) + random.random()
        return torch.full((8,), float(index)) + torch.rand(8) + torch.from_numpy(noise).float()


def trained(done: Reproducible) -> bytes:
    """The bits of a small model after an epoch: dropout, a shuffling loader with two workers, NumPy in each item."""
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Dropout(0.5), torch.nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(
        Pictures(),
        batch_size=4,
        shuffle=True,
        num_workers=2,
        worker_init_fn=done.seed_worker,
        generator=done.generator(),
    )
    for batch in loader:
        loss = model(batch).square().mean() * (1 + random.random() + numpy.random.rand())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return b"".join(p.detach().numpy().tobytes() for p in model.parameters())


def test_two_runs_of_a_step_agree_bit_for_bit_and_another_seed_does_not() -> None:
    runs = []
    for seed in (0, 0, 1):
        with tracer.reproducible(seed) as done:
            runs.append(trained(done))
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_the_settings_of_the_plan_hold_inside() -> None:
    with tracer.reproducible(7, fill=False, threads=1):
        assert settings() | {"inductor": None} == {
            "mode": True,
            "warn_only": False,
            "inductor": None,
            "cudnn_deterministic": True,
            "cudnn_benchmark": False,
            "fill": False,
            "threads": 1,
            "workspace": ":4096:8",
        }
        assert torch.initial_seed() == 7
        first = (torch.rand(1).item(), random.random(), numpy.random.rand())
    with tracer.reproducible(7):
        assert (torch.rand(1).item(), random.random(), numpy.random.rand()) == first


def test_none_leaves_a_setting_and_the_generators_alone() -> None:
    before, drawn = settings(), states()
    with tracer.reproducible(None, deterministic=None, cudnn_benchmark=None, cublas_workspace=None) as done:
        assert settings() == before
        assert states() == drawn
        with pytest.raises(UsageError, match="no seed"):
            done.generator()


def test_a_plain_call_sets_until_it_is_restored() -> None:
    done = tracer.reproducible(3)
    try:
        assert torch.are_deterministic_algorithms_enabled()
        assert torch.initial_seed() == 3
    finally:
        done.restore()
    assert not torch.are_deterministic_algorithms_enabled()
    with tracer.reproducible(4):
        done.restore()  # once is enough: a second time touches nothing
        assert torch.initial_seed() == 4


def test_an_exception_restores_too_and_what_the_block_has_changed() -> None:
    def fails() -> None:
        with tracer.reproducible(0, fill=True):
            torch.rand(3)
            random.random()
            torch.use_deterministic_algorithms(False)
            torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
            torch.backends.cudnn.benchmark = True
            os.environ[WORKSPACE] = "nonsense"
            1 / 0

    with pytest.raises(ZeroDivisionError):
        fails()


def test_what_fails_halfway_leaves_nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(seed: int) -> None:
        raise RuntimeError("no seed today")

    monkeypatch.setattr(torch, "manual_seed", fails)
    with pytest.raises(RuntimeError, match="no seed today"):
        tracer.reproducible(0)


def test_blocks_nest_and_each_gives_back_what_it_found() -> None:
    with tracer.reproducible(0, warn_only=True):
        torch.rand(2)
        outer, drawn = settings(), states()
        with tracer.reproducible(5, deterministic=False, cublas_workspace=":16:8") as inner:
            assert not torch.are_deterministic_algorithms_enabled()
            assert os.environ[WORKSPACE] == ":16:8"
            with inner:
                torch.rand(2)
            assert torch.initial_seed() == 5  # the outer of the two blocks still runs
        assert settings() == outer
        assert states() == drawn


def test_a_block_can_be_entered_again() -> None:
    done = tracer.reproducible(9)
    drawn = []
    for _ in range(2):
        with done:
            drawn.append(torch.rand(4).tolist())
    assert drawn[0] == drawn[1]


def test_a_decorated_function_begins_with_the_seed_at_each_call() -> None:
    before = settings()

    @tracer.reproducible(2)
    def step(scale: float) -> list[float]:
        """One step."""
        assert torch.are_deterministic_algorithms_enabled()
        rolled: list[float] = (torch.rand(3) * scale).tolist()
        return rolled

    assert settings() == before
    assert step(2.0) == step(2.0)
    assert step.__doc__ == "One step."


def test_backward_passes_on_any_thread_run_under_it() -> None:
    seen: list[tuple[bool, bool, str]] = []

    def look(grad: torch.Tensor) -> None:
        is_on = torch.are_deterministic_algorithms_enabled()
        seen.append((is_on, torch.backends.cudnn.deterministic, threading.current_thread().name))

    def back() -> None:
        leaf = torch.ones(2, requires_grad=True)
        leaf.register_hook(look)
        (leaf * 2).sum().backward()

    with tracer.reproducible(0):
        thread = threading.Thread(target=back, name="another")
        thread.start()
        thread.join()
        back()
    assert seen == [(True, True, "another"), (True, True, threading.current_thread().name)]


def test_what_torch_keeps_for_each_thread_is_said() -> None:
    from torch._inductor import config

    seen: list[object] = []
    with tracer.reproducible(0) as done:
        thread = threading.Thread(target=lambda: seen.append(getattr(config, "deterministic", True)))
        thread.start()
        thread.join()
        said = any("Inductor's deterministic flag" in sentence for sentence in done.could_not_set)
    assert said is not seen[0]


def test_what_it_cannot_reach_is_said() -> None:
    with tracer.reproducible(0) as done:
        said = " ".join(done.could_not_set)
    for words in ("torch.Generator objects", "numpy.random.default_rng", "worker_init_fn"):
        assert words in said


@pytest.mark.parametrize(
    ("randomizes", "value", "is_said"), [(1, "random", True), (1, None, True), (1, "7", False), (0, "0", False)]
)
def test_a_random_hash_seed_is_said(
    randomizes: int, value: str | None, is_said: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if value is None:
        monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    else:
        monkeypatch.setenv("PYTHONHASHSEED", value)
    flags = SimpleNamespace(hash_randomization=randomizes)
    monkeypatch.setattr(reproducing, "sys", SimpleNamespace(flags=flags, _getframe=sys._getframe, modules=sys.modules))
    with tracer.reproducible(0) as done:
        assert any("PYTHONHASHSEED=0" in sentence for sentence in done.could_not_set) is is_said


def test_a_seed_for_a_device_that_sleeps_waits_and_is_taken_out_again() -> None:
    with tracer.reproducible(11):
        before = states()
        with tracer.reproducible(0):
            assert states()[3] != before[3]
            assert not torch.cuda.is_initialized()
        assert states() == before


@pytest.mark.parametrize("waits", [True, False])
def test_a_device_that_starts_inside_goes_on_as_it_would_have_started(
    waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeded: list[object] = []
    with monkeypatch.context() as patch:
        patch.setattr(torch.cuda, "default_generators", (SimpleNamespace(manual_seed=seeded.append),))
        patch.setattr(torch.cuda.random, "device_count", lambda: 1)
        patch.setattr(torch.cuda, "seed_all", lambda: seeded.append("machine"))
        patch.setattr(torch.cuda, "_lazy_seed_tracker", torch.cuda._LazySeedTracker())  # type: ignore[attr-defined]
        if waits:
            torch.cuda.manual_seed_all(11)
        give_back = reproducing.keep_states()
        torch.cuda.manual_seed_all(0)
        patch.setattr(torch.cuda, "is_initialized", lambda: True)
        give_back()
    assert seeded == (["machine", 11] if waits else ["machine"])


def test_numpy_is_not_imported_for_it_and_that_is_said(tmp_path: Path) -> None:
    code = "import sys, warnings\nwarnings.simplefilter('ignore')\nsys.modules['numpy'] = None\nimport tracer\n"
    done = process("-c", f"{code}print(*tracer.reproducible(0).could_not_set)", cwd=tmp_path)
    assert done.code == 0, done.err
    assert "NumPy was not imported yet" in done.out
    assert "default_rng" not in done.out


@pytest.fixture
def cuda_runs(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """CUDA as it is after its first call, where there is none; what is set meanwhile is undone."""
    with monkeypatch.context() as patch:
        for name, value in {"is_initialized": True, "manual_seed_all": None, "device_count": 0}.items():
            patch.setattr(torch.cuda, name, lambda *_, value=value: value)
        patch.setattr("tracer.recording.process.environment._STARTS.listeners", ())  # nobody watched
        yield patch


def test_a_missing_workspace_is_an_error_that_names_the_line(cuda_runs: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError) as refused:
        tracer.reproducible(0)
    line = sys._getframe().f_lineno - 1
    assert str(refused.value).startswith(f"tests/reproduction/test_reproducing.py:{line}: CUDA has started")
    assert f"start the script with {WORKSPACE}=:4096:8" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_line_that_started_cuda_is_named_where_somebody_watched(cuda_runs: pytest.MonkeyPatch) -> None:
    log = EventLog(Sites())
    watch = FirstUses(log)
    log.first_use(Subsystem.CUDA, sys._getframe())
    line = sys._getframe().f_lineno - 1
    watch.start()
    named = f"^tests/reproduction/test_reproducing.py:{line} started CUDA, and {WORKSPACE}"
    try:
        with pytest.raises(UsageError, match=named):
            tracer.reproducible(0)
    finally:
        watch.stop()


def test_a_value_that_torch_accepts_stays_and_another_is_an_error(cuda_runs: pytest.MonkeyPatch) -> None:
    cuda_runs.setenv(WORKSPACE, ":4096:2")
    with pytest.raises(UsageError, match="is :4096:2"):
        tracer.reproducible(0)
    cuda_runs.setenv(WORKSPACE, ":16:8")
    with tracer.reproducible(0) as done:
        assert os.environ[WORKSPACE] == ":16:8"
        assert any("stays :16:8" in sentence for sentence in done.could_not_set)
    cuda_runs.delenv(WORKSPACE)
    with tracer.reproducible(0, cublas_workspace=None):
        assert WORKSPACE not in os.environ


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: tracer.reproducible(0.5), "a seed is a whole number"),  # type: ignore[arg-type]
        (lambda: tracer.reproducible(True), "a seed is a whole number"),
        (lambda: tracer.reproducible(test_a_block_can_be_entered_again), "a seed is a whole number"),  # type: ignore[arg-type]
        (lambda: tracer.reproducible(2**64), "no seed of 65 bits"),
        (lambda: tracer.reproducible(-(2**63) - 1), "64 bits at most"),
        (lambda: tracer.reproducible(cublas_workspace=":8:8"), "use :16:8 or :4096:8"),
        (lambda: tracer.reproducible(threads=0), "0 threads"),
    ],
)
def test_wrong_arguments_are_one_line_and_set_nothing(call: Any, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        call()


def test_a_generator_function_is_not_decorated() -> None:
    def batches() -> Iterator[int]:
        yield 1

    done = tracer.reproducible(0)
    with done, pytest.raises(UsageError, match="plain functions"):
        done(batches)


def test_without_torch_it_is_one_line(tmp_path: Path) -> None:
    code = (
        "import sys\nsys.modules['torch'] = None\nimport tracer\n"
        "try:\n    tracer.reproducible(0)\nexcept tracer.TracerError as said:\n    print(said)\n"
    )
    done = process("-c", code, cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("torch cannot be imported")
    assert done.out.count("\n") == 1
