"""Options and fixtures that every part's tests share."""

from __future__ import annotations

import gc
import os
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from tests.forking import FORKING

# Inductor compiles three programs to learn what the processor can do: fifteen seconds in each process that compiles.
os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "1")
# No test fails on a time: a machine that others use too is slow now and then.
_PATIENT = settings(settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("every run", _PATIENT, max_examples=25)
settings.register_profile("make test-all", _PATIENT, max_examples=100)

GOLDEN = Path(__file__).parent / "golden"


def pytest_configure(config: pytest.Config) -> None:
    """Slow tests asked for are asked for in depth: properties are tried on all their examples.

    And on the constants that stand in our sources, as hypothesis likes to: to find them it reads each of our modules.
    """
    if config.getoption("markexpr") == "not slow":
        settings.load_profile("every run")
        if hasattr(providers, "_get_local_constants"):
            providers._get_local_constants = lambda: providers._local_constants
    else:
        settings.load_profile("make test-all")
    FORKING.share(getattr(config, "workerinput", {}).get("forks", ""))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """All workers ask one server for their processes, which this session keeps."""
    node.workerinput["forks"] = FORKING.address(loads=True)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Modules that load the same large thing go to the same worker."""
    if config.getoption("dist") != "loadscope":
        return None
    from tests.spreading import Spread

    return Spread(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Nothing that importing the tests makes is garbage: it is not looked for."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """What is loaded by now stays, so that no test pays for a walk through it; and seeding notes no stack.

    While a device sleeps, torch formats the whole stack at each seed, three times, for an error that no test has.
    """
    gc.freeze()
    for name in ("torch.cuda", "torch.xpu", "torch.mtia"):
        device = sys.modules.get(name)
        if device is not None and hasattr(device, "_lazy_call") and hasattr(device, "traceback"):
            device.traceback = types.SimpleNamespace(format_stack=list)  # type: ignore[attr-defined]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """A worker says of a test what is shown: how its call ended, and what did not pass.

    Six messages a test, two of which are shown, took pytest-xdist's two sides twice as long as pytest itself. The last
    test of a worker is told in full: with it the line of progress ends.
    """
    option = item.config.option
    shows_more = option.durations or option.verbose > 0 or option.xmlpath
    if not hasattr(item.config, "workerinput") or nextitem is None or shows_more:
        return None
    for report in runtestprotocol(item, nextitem=nextitem, log=False):
        if report.when == "call" or not report.passed:
            report.keywords = {}  # that nobody there reads, and that are half of a message
            item.ihook.pytest_runtest_logreport(report=report)
    return True


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the files under tests/golden")


@pytest.fixture(autouse=True)
def _the_process_is_its_own() -> Iterator[None]:
    """What a test of this process has set, and left, the next one does not find; one fixture, as every test pays it.

    Outside ``tests/gpu``, CUDA has not started, whichever test of this worker started it before. Threads, deterministic
    mode and folder are those of the process again after a test that failed or forgot.
    """
    torch = sys.modules.get("torch")
    folder = os.getcwd()
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
