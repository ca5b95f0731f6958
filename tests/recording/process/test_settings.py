"""Settings of torch: as they stand, when they change and at which line, and when CUDA was first used."""

from __future__ import annotations

import enum
import os
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
import torch.distributed
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.testing._internal.distributed.fake_pg import FakeStore

from tests.support.command import process
from tests.support.lines import line_of, record
from tracer import DeterminismTracer
from tracer.names import EventKind, Phase
from tracer.recording.calls.groups import CallCounter, OverloadInfo
from tracer.recording.origin import NOWHERE, USER, Site
from tracer.recording.origin.modules import OUTSIDE, Origin
from tracer.recording.process.environment import capture_environment, first_calls, with_first_calls
from tracer.recording.process.settings import read_settings
from tracer.tables.asked import asked
from tracer.tables.loading import named_settings as from_tables
from tracer.tables.loading import named_variables
from tracer.tables.rules import load_rows
from tracer.trace.records import Event

MODE = "torch.use_deterministic_algorithms"

BENCHMARK = "torch.backends.cudnn.benchmark"

CUDNN = torch.backends.cudnn


def settings(tracer: DeterminismTracer, name: str = "") -> list[Event]:
    """The recorded changes of settings, or of one."""
    events = (event for event in tracer.trace.events if event.kind is EventKind.SETTING)
    return [event for event in events if name in ("", event.name)]


def changes(tracer: DeterminismTracer) -> list[tuple[str, str, str]]:
    return [(event.name, event.before, event.value) for event in settings(tracer)]


def some_op() -> None:
    torch.ones(2).sin()


def set_attribute(owner: Any, name: str, value: Any) -> Callable[[], None]:
    return lambda: setattr(owner, name, value)


@pytest.mark.parametrize(
    ("change", "name", "before", "value"),
    [
        (lambda: torch.use_deterministic_algorithms(True, warn_only=True), MODE, "off", "warn"),
        (lambda: torch.set_deterministic_debug_mode("error"), MODE, "off", "on"),
        (set_attribute(CUDNN, "benchmark", True), BENCHMARK, "False", "True"),
        (set_attribute(CUDNN, "enabled", False), "torch.backends.cudnn.enabled", "True", "False"),
        (
            set_attribute(torch.utils.deterministic, "fill_uninitialized_memory", False),
            "torch.utils.deterministic.fill_uninitialized_memory",
            "True",
            "False",
        ),
        (
            lambda: torch.set_float32_matmul_precision("high"),
            "torch.set_float32_matmul_precision",
            "highest",
            "high",
        ),
        (lambda: torch.backends.cuda.enable_math_sdp(False), "torch.backends.cuda.enable_math_sdp", "True", "False"),
        (lambda: [torch.set_num_threads(count) for count in (7, 8)], "torch.set_num_threads", "7", "8"),
    ],
)
def test_a_setting_that_changes_is_an_event_under_the_name_that_users_write(
    change: Callable[[], None], name: str, before: str, value: str
) -> None:
    *_, event = settings(tracer := record(lambda: (some_op(), change())))
    assert changes(tracer)[-1] == (name, before, value)
    assert (event.while_recording, event.after_calls) == (True, False), "an op of no module is no forward call"
    assert event.location.startswith(f"{HERE}:")


@pytest.mark.parametrize(
    "same",
    [
        lambda: torch.set_deterministic_debug_mode(0),
        set_attribute(CUDNN, "benchmark", False),
        lambda: torch.set_num_threads(torch.get_num_threads()),
    ],
)
def test_the_same_value_again_is_no_event(same: Callable[[], None]) -> None:
    assert settings(record(same)) == []


AROUND_BACKWARD = {"backward": (True, True, True), "after": (False, False, False)}


@pytest.mark.parametrize(
    ("steps", "with_optimizer", "modes", "expected"),
    [
        (1, True, AROUND_BACKWARD, [("on", 1, True, True), ("off", 1, False, True)]),
        (1, False, AROUND_BACKWARD, [("on", 1, True, True), ("off", 1, False, True)]),
        (3, True, AROUND_BACKWARD, [("on", 3, True, True), ("off", 3, False, True)]),
        (2, True, {"before": (True, False)}, [("on", 1, False, False), ("off", 1, False, True)]),
    ],
)
def test_a_change_between_forward_and_backward_parts_the_phases_and_one_between_steps_does_not(
    steps: int, with_optimizer: bool, modes: dict[str, tuple[bool, ...]], expected: list[tuple[str, int, bool, bool]]
) -> None:
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def change(when: str, step: int) -> None:
        if when in modes:
            torch.use_deterministic_algorithms(modes[when][step])  # here

    def run() -> None:
        for step in range(steps):
            change("before", step)
            loss = model(torch.ones(1, 2)).sum()
            change("backward", step)
            loss.backward()
            change("after", step)
            if with_optimizer:
                optimizer.step()

    events = settings(record(run))
    assert [(one.value, one.count, one.parts_phases, one.after_calls) for one in events] == expected
    assert {one.location for one in events} == {f"{HERE}:{line_of(change, '# here')}"}


def test_a_block_in_which_nothing_ran_changed_nothing_and_one_in_which_something_ran_did() -> None:
    def probe() -> None:
        some_op()
        torch.use_deterministic_algorithms(True)
        torch.use_deterministic_algorithms(False)
        with CUDNN.flags(enabled=True, benchmark=True, deterministic=True):
            pass
        with CUDNN.flags(enabled=True, benchmark=True):
            some_op()

    assert changes(record(probe)) == [(BENCHMARK, "False", "True"), (BENCHMARK, "True", "False")]


def test_cudnns_other_settings_while_it_is_off_and_attentions_kernels_of_one_block_are_no_settings() -> None:
    query = torch.ones(1, 1, 2, 2)
    CUDNN.deterministic = True

    def blocks() -> None:
        with CUDNN.flags(enabled=False):
            assert not CUDNN.deterministic
            some_op()
        with sdpa_kernel(SDPBackend.MATH):
            torch.nn.functional.scaled_dot_product_attention(query, query, query)

    assert {event.name for event in settings(record(blocks))} == {"torch.backends.cudnn.enabled"}


def test_exceptions_are_the_originals() -> None:
    def errors() -> list[str]:
        found = []
        for call in (
            lambda: torch.set_num_threads(-1),
            lambda: torch._C._set_cudnn_benchmark("yes"),
            lambda: torch.use_deterministic_algorithms("yes"),  # type: ignore[arg-type]
        ):
            with pytest.raises((RuntimeError, TypeError, ValueError)) as caught:
                call()
            found.append(f"{caught.type.__name__}: {caught.value}".splitlines()[0])
        return found

    watched: list[list[str]] = []
    tracer = record(lambda: watched.append(errors()))
    assert watched == [errors()]
    assert settings(tracer) == []


def test_the_phase_is_the_one_in_which_it_happened() -> None:
    class Toggles(torch.nn.Module):
        def forward(self, value: torch.Tensor) -> torch.Tensor:
            torch.use_deterministic_algorithms(True)
            return value.sin()

    def step() -> None:
        value = torch.ones(2, requires_grad=True)
        value.register_hook(lambda grad: torch.use_deterministic_algorithms(False))
        Toggles()(value).sum().backward()

    assert [event.phase for event in settings(record(step))] == [Phase.FORWARD, Phase.BACKWARD]


@pytest.mark.slow
def test_compiled_code_that_sets_deterministic_mode_outlives_the_watch(tmp_path: Path) -> None:
    code = (
        "import torch\n"
        "from tracer import DeterminismTracer\n"
        "@torch.compile(backend='eager')\n"
        "def f(x):\n"
        "    torch.use_deterministic_algorithms(True)\n"
        "    return x.sin()\n"
        "tracer = DeterminismTracer()\n"
        "with tracer:\n"
        "    f(torch.ones(2))\n"
        "torch.use_deterministic_algorithms(False)\n"
        "f(torch.ones(2))\n"
        "print(torch.are_deterministic_algorithms_enabled())"
    )
    done = process("-c", code, cwd=tmp_path)
    assert done.out == "True\n", done.err


def read(name: str) -> Any:
    """What one dotted name gives; ``None`` where it is left out."""
    return read_settings([name]).get(name.removesuffix("()"))


class Loud(str, enum.Enum):
    HIGH = "high"


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    made = types.ModuleType("settings_of_a_test")
    monkeypatch.setitem(sys.modules, made.__name__, made)
    return made


@pytest.mark.parametrize(
    ("held", "told"),
    [
        (True, True),
        (0, 0),
        ("high", "high"),
        (Loud.HIGH, "HIGH"),
        (torch._C._BlasBackend.Cublas, "Cublas"),
        ((False, "auto"), "False, auto"),
        ({"b", "a"}, "a, b"),
        (1.5, "1.5"),
        (object(), "object"),
        ("x" * 1000, "x" * 200),
        (None, None),
    ],
)
def test_a_value_is_told_as_a_trace_can_hold_it(module: types.ModuleType, held: Any, told: Any) -> None:
    module.held = held  # type: ignore[attr-defined]
    found = read("settings_of_a_test.held")
    assert found == told
    assert type(found) is type(told)
    module.asked = lambda: held  # type: ignore[attr-defined]
    assert read("settings_of_a_test.asked()") == told


def test_what_cannot_be_read_is_left_out_and_imports_nothing(module: types.ModuleType) -> None:
    def fails(name: str = "") -> None:
        raise RuntimeError("not in this build, or asked of the module's own __getattr__")

    module.fails = module.__getattr__ = fails  # type: ignore[attr-defined, method-assign]
    names = ["torch.no_such_setting", "torch.get_num_threads.deeper()", "no_such_package.setting", "torch.nn()"]
    assert read_settings([*names, "settings_of_a_test.fails()", "settings_of_a_test.lazy.setting"]) == {}


def test_what_asking_would_settle_is_not_asked_before_calls() -> None:
    before = read_settings(asked().settings, before_calls=True)
    assert "torch.backends.cpu.get_cpu_capability" not in before
    assert "torch.cuda.tunable.is_enabled" not in read_settings(asked().settings)


def test_each_setting_is_asked_once() -> None:
    names = asked().settings
    assert len(set(names)) == len(names)
    assert names == from_tables()


def test_the_environment_of_a_trace_has_what_the_table_names(monkeypatch: pytest.MonkeyPatch) -> None:
    named = [one.variable for one in load_rows().row if one.variable]
    assert named
    assert set(named) <= named_variables()
    read_settings(asked().settings)  # what is read once from a variable is read before a test sets it
    for name in named:
        monkeypatch.setenv(name, "set-by-a-test")
    found = capture_environment()
    assert {name: found.variables[name] for name in named} == dict.fromkeys(named, "set-by-a-test")
    assert found.settings == read_settings(asked().settings)
    assert msgspec.json.decode(msgspec.json.encode(found), type=type(found)) == found


VARIABLE = "CUBLAS_WORKSPACE_CONFIG"


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch's start of CUDA succeeds, and finds no device."""
    monkeypatch.setattr(torch._C, "_cuda_getDeviceCount", lambda: 0, raising=False)
    monkeypatch.setattr(torch._C, "_cuda_init", lambda: None, raising=False)
    monkeypatch.setattr(torch.cuda, "_cudart", object())
    monkeypatch.setattr(torch.cuda, "_queued_calls", [])
    monkeypatch.setattr(torch.cuda, "_initialized", False)
    monkeypatch.delenv(VARIABLE, raising=False)


def told(tracer: DeterminismTracer) -> list[tuple[str, str]]:
    """Kind and name of each event, in order."""
    return [(str(event.kind), event.name) for event in tracer.trace.events]


def first(tracer: DeterminismTracer, name: str) -> Event:
    (event,) = (one for one in tracer.trace.events if one.kind is EventKind.FIRST_USE and one.name == name)
    return event


@pytest.mark.usefixtures("gpu")
def test_the_line_that_started_cuda_is_noted_once() -> None:
    def step() -> None:
        torch.cuda.init()  # here
        torch.cuda.init()

    event = first(record(step), "cuda")
    assert (event.location, event.count) == (f"{HERE}:{line_of(step, '# here')}", 1)


@pytest.mark.usefixtures("gpu")
def test_a_start_that_fails_is_no_use(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_driver() -> None:
        raise RuntimeError("no driver")

    monkeypatch.setattr(torch._C, "_cuda_init", no_driver, raising=False)

    def step() -> None:
        with pytest.raises(RuntimeError, match="no driver"):
            torch.cuda.init()

    assert ("first-use", "cuda") not in told(record(step))


def set_variable() -> None:
    os.environ[VARIABLE] = ":4096:8"


def starts_unseen() -> None:
    torch.cuda._initialized = True


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize(
    ("steps", "events"),
    [
        ((torch.cuda.init, set_variable), ["cuda", VARIABLE]),
        ((set_variable, torch.cuda.init), [VARIABLE, "cuda"]),
        ((starts_unseen, set_variable), ["cuda", VARIABLE]),
    ],
)
def test_a_variable_after_the_start_comes_after_it_though_nobody_saw_it_and_one_before_it_before(
    steps: tuple[Callable[[], object], ...], events: list[str]
) -> None:
    tracer = record(lambda: [step() for step in steps])
    assert [name for _, name in told(tracer)][-2:] == events
    assert (first(tracer, "cuda").location == "") is (starts_unseen in steps)


@pytest.mark.usefixtures("gpu")
def test_what_ran_before_recording_was_used_before() -> None:
    starts_unseen()
    tracer = record(lambda: None)
    assert told(tracer) == [("first-use", "torch"), ("first-use", "cuda")]
    assert not first(tracer, "cuda").while_recording


@pytest.mark.parametrize("how", [("cpu:gloo,cuda:nccl", True), ("NCCL", False)])
def test_a_process_group_starts_its_library(monkeypatch: pytest.MonkeyPatch, how: tuple[str, bool]) -> None:
    c10d: Any = sys.modules["torch.distributed.distributed_c10d"]

    def started(backend: str | None = None, **options: Any) -> None:
        """torch's own needs the library itself."""

    monkeypatch.setattr(c10d, "init_process_group", started)
    monkeypatch.setattr(torch.distributed, "init_process_group", started)
    backend, by_keyword = how

    def step() -> None:
        torch.distributed.init_process_group(backend="gloo")
        if by_keyword:
            torch.distributed.init_process_group(backend=backend)
        else:
            torch.distributed.init_process_group(backend)  # here

    event = first(record(step), "nccl")
    assert by_keyword or event.location == f"{HERE}:{line_of(step, '# here')}"
    assert torch.distributed.init_process_group is started


def test_other_process_groups_and_those_that_fail_start_none_of_them() -> None:
    def step() -> None:
        torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
        torch.distributed.destroy_process_group()
        with pytest.raises((RuntimeError, ValueError)):
            torch.distributed.init_process_group("nccl", init_method="nowhere://", rank=0, world_size=1)
        torch.ones(2, 2).mm(torch.ones(2, 2))

    assert told(record(step)) == [("first-use", "torch")]
    assert not torch.cuda.is_initialized()


class _Device:
    """A device that this build cannot make tensors on."""

    def __init__(self, kind: str) -> None:
        self.type = kind


def cell(op: Any, device: str, line: int) -> tuple[OverloadInfo, CallCounter]:
    """A recorded group of ``op`` at a line."""
    site = Site(os.path.abspath("train.py"), line, "step", USER, os.getcwd())
    raw = (torch.float32, _Device(device), torch.strided, 2)
    made = CallCounter(Origin(Phase.FORWARD, OUTSIDE, site, NOWHERE), raw, None)
    made.count = 1
    return OverloadInfo(op, {}), made


def test_libraries_are_known_by_their_first_call() -> None:
    aten = torch.ops.aten
    cells = [
        cell(aten.mm.default, "cpu", 1),
        cell(aten.add.Tensor, "cuda", 2),
        cell(aten.addmm.default, "cuda", 3),
        cell(aten.mm.default, "cuda", 4),
        cell(aten.convolution.default, "cuda", 5),
        cell(torch.ops.c10d.allreduce_.default, "cuda", 6),
        cell(torch.ops.c10d.allreduce_.default, "npu", 7),
    ]
    found = sorted(first_calls(cells), key=lambda event: event.first)
    lines = [("cuda", 2), ("cublas", 3), ("cudnn", 5), ("nccl", 6), ("npu", 7), ("hccl", 7)]
    assert [(event.name, event.location) for event in found] == [(name, f"train.py:{line}") for name, line in lines]
    assert all(event.while_recording for event in found)


def test_of_two_first_uses_the_earlier_one_stands_and_inductors_compilations_stay_apart() -> None:
    def used(position: int, line: str, name: str = "cuda") -> Event:
        return Event(kind=EventKind.FIRST_USE, name=name, location=line, first=position, last=position)

    other = Event(kind=EventKind.VARIABLE, name="A", first=5, last=5)
    assert with_first_calls([used(3, "start"), other], [used(4, "call")]) == (used(3, "start"), other)
    assert with_first_calls([other, used(9, "seen late")], [used(4, "call")]) == (used(4, "call"), other)
    noted = [used(1, "", "inductor"), used(3, "", "inductor")]
    assert with_first_calls(noted, [used(2, "")]) == (noted[0], used(2, ""), noted[1])


HERE = "tests/recording/process/test_settings.py"
