"""Options and fixtures that every part's tests share."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from tests.support.command import Command

# Pytest rewrites the asserts of test modules alone; these are called by them, and assert too.
pytest.register_assert_rewrite(
    "tests.planted.planting",
    "tests.recording.compiled.programs",
    "tests.recording.values.reading",
    "tests.report.browser",
    "tests.runner.repeated.planting",
    "tests.support",
    "tests.tables.claims",
)
# Inductor compiles three programs to learn what the processor can do: fifteen seconds in each process that compiles.
os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "1")
# Torch's threads sleep while they wait: two workers' threads that spin on two cores took seven times the processor.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# A run that is to be green or red tries the same examples each time; ``make test-all`` looks for new ones.
# No test fails on a time: a machine that others use too is slow now and then.
_PATIENT = settings(settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("every run", _PATIENT, max_examples=25, derandomize=True)
settings.register_profile("make test-all", _PATIENT, max_examples=250)

GOLDEN = Path(__file__).parent / "golden"


def pytest_configure(config: pytest.Config) -> None:
    """Slow tests asked for are asked for in depth: properties are tried on ten times as many examples."""
    settings.load_profile("every run" if config.getoption("markexpr") == "not slow" else "make test-all")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the files under tests/golden")


def _settings() -> list[tuple[Callable[..., Any], Callable[[], Any], Any]]:
    """Each setting of torch that a recording watches: what sets it, what reads it, and its value."""
    import torch

    from tracer.recording.torch_private import seams

    watched = seams.settings()
    return [(getattr(torch._C, setting.watched[0]), read, read()) for setting, read in watched]


@pytest.fixture(autouse=True)
def _the_process_is_its_own() -> Iterator[None]:
    """What a test of this process has set, and left, the next one does not find; one fixture, as every test pays it.

    Outside ``tests/gpu``, CUDA has not started, whichever test of this worker started it before. Threads, settings of
    torch, variables and folder are those of the process again after a test that failed, forgot, or ran a program that
    sets them.
    """
    torch = sys.modules.get("torch")
    folder = os.getcwd()
    variables = dict(os.environ)
    settings = [] if torch is None else _settings()
    if torch is None:
        threads = None
        yield
    else:
        threads = torch.get_num_threads()
        # Torch's own test modules, which some of ours load, forbid a process to set backend flags: take that back.
        torch.backends.flags_frozen.__globals__["__allow_nonbracketed_mutation_flag"] = True
        if not torch.cuda.is_initialized() or os.environ["PYTEST_CURRENT_TEST"].startswith("tests/gpu/"):
            yield
        else:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(torch.cuda, "_initialized", False)
                patch.setattr(torch.cuda, "_queued_calls", [])
                yield
    os.chdir(folder)
    if {**os.environ, "PYTEST_CURRENT_TEST": ""} != {**variables, "PYTEST_CURRENT_TEST": ""}:
        for name in os.environ.keys() - variables.keys():
            del os.environ[name]
        os.environ.update(variables)
    for setter, read, value in settings:
        if read() != value:
            setter(*(value if isinstance(value, tuple) else (value,)))
    torch = sys.modules.get("torch")
    if torch is None:
        return
    if threads is not None and torch.get_num_threads() != threads:
        torch.set_num_threads(threads)
    if torch.are_deterministic_algorithms_enabled():
        torch.use_deterministic_algorithms(False)


@pytest.fixture
def two_threads() -> Iterator[None]:
    """As many threads as a laptop has: what varies on the CPU happens between threads."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """A function that compares a text with a file under ``tests/golden``, or rewrites the file when asked."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.write_text(text, encoding="utf-8", newline="")
        assert path.is_file(), f"{path} is missing; run pytest with --update-golden and read the diff"
        with path.open(encoding="utf-8", newline="") as stream:
            assert text == stream.read(), f"{name} changed; run pytest with --update-golden and read the diff"

    return compare


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which the test runs in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def tracer(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """``tracer(...)`` runs the command line in this process, in an empty folder and outside any distributed job.

    Below the repository's folder each run would read the code of every module of it that is loaded.
    """
    from tests.support.command import Command

    monkeypatch.chdir(tmp_path)
    for name in ("RANK", "WORLD_SIZE", "TRACER_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    return Command(capsys, monkeypatch)
