"""Settings of torch that change while they are watched, each with its line, and what they part."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from tests.support.bits import bits
from tests.support.command import process
from tests.support.lines import line_of, record
from tracer import DeterminismTracer
from tracer.names import EventKind, Phase
from tracer.recording.torch_private import seams
from tracer.trace.records import Event

MODE = "torch.use_deterministic_algorithms"
BENCHMARK = "torch.backends.cudnn.benchmark"
CUDNN = torch.backends.cudnn


@pytest.fixture(autouse=True)
def _settings_as_they_were() -> Iterator[None]:
    before = [(setting.watched[0], read()) for setting, read in seams.settings()]
    warn = torch.is_deterministic_algorithms_warn_only_enabled()
    yield
    for setter, value in before:
        given = value if isinstance(value, tuple) else (value,)
        getattr(torch._C, setter)(*given)
    torch.use_deterministic_algorithms(torch.are_deterministic_algorithms_enabled(), warn_only=warn)


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
        (lambda: torch.use_deterministic_algorithms(True), MODE, "off", "on"),
        (lambda: torch.use_deterministic_algorithms(True, warn_only=True), MODE, "off", "warn"),
        (lambda: torch.set_deterministic_debug_mode("error"), MODE, "off", "on"),
        (lambda: torch.set_deterministic_debug_mode(1), MODE, "off", "warn"),
        (set_attribute(CUDNN, "benchmark", True), BENCHMARK, "False", "True"),
        (set_attribute(CUDNN, "deterministic", True), "torch.backends.cudnn.deterministic", "False", "True"),
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
    ],
)
def test_a_setting_that_changes_is_an_event_under_the_name_that_users_write(
    change: Callable[[], None], name: str, before: str, value: str
) -> None:
    tracer = record(change)
    assert changes(tracer) == [(name, before, value)]
    (event,) = settings(tracer)
    assert event.while_recording
    assert not event.after_calls
    assert event.location.startswith("tests/recording/process/test_setting_events.py:")


def test_the_number_of_threads_is_a_setting() -> None:
    now = torch.get_num_threads()
    tracer = record(lambda: torch.set_num_threads(now + 1))
    assert changes(tracer) == [("torch.set_num_threads", str(now), str(now + 1))]


def test_the_line_is_the_one_that_set_it() -> None:
    def sets() -> None:
        some_op()
        torch.backends.cudnn.benchmark = True  # here

    (event,) = settings(record(sets))
    assert event.location == f"tests/recording/process/test_setting_events.py:{line_of(sets, '# here')}"


@pytest.mark.parametrize(
    "same",
    [
        lambda: torch.use_deterministic_algorithms(False),
        lambda: torch.set_deterministic_debug_mode(0),
        set_attribute(CUDNN, "benchmark", False),
        lambda: torch.set_float32_matmul_precision("highest"),
        lambda: torch.set_num_threads(torch.get_num_threads()),
    ],
)
def test_the_same_value_again_is_no_event(same: Callable[[], None]) -> None:
    assert settings(record(same)) == []


def test_after_calls_says_whether_forward_calls_came_before() -> None:
    model = torch.nn.Linear(2, 2)

    def step() -> None:
        torch.ones(3).sin()  # data preparation is no forward call
        torch.use_deterministic_algorithms(True)
        model(torch.ones(1, 2))
        torch.use_deterministic_algorithms(False)

    assert [event.after_calls for event in settings(record(step))] == [False, True]


@contextmanager
def mode(on: bool) -> Iterator[None]:
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(on)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)


@pytest.mark.parametrize("with_optimizer", [True, False])
def test_a_change_between_forward_and_backward_parts_the_phases(with_optimizer: bool) -> None:
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def step() -> None:
        loss = model(torch.ones(1, 2)).sum()
        with mode(True):
            loss.backward()
        if with_optimizer:
            optimizer.step()

    on, off = settings(record(step))
    assert (on.value, on.parts_phases, on.after_calls) == ("on", True, True)
    assert (off.value, off.parts_phases, off.after_calls) == ("off", False, True)


def test_a_change_between_two_steps_parts_no_phases() -> None:
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def steps() -> None:
        for on in (True, False):
            torch.use_deterministic_algorithms(on)
            model(torch.ones(1, 2)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

    first, second = settings(record(steps))
    assert (first.parts_phases, first.after_calls) == (False, False)
    assert (second.parts_phases, second.after_calls) == (False, True)


def test_a_change_in_every_step_is_one_event_with_its_count() -> None:
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def steps() -> None:
        for _ in range(20):
            loss = model(torch.ones(1, 2)).sum()
            torch.use_deterministic_algorithms(True)
            loss.backward()
            torch.use_deterministic_algorithms(False)
            optimizer.step()

    on, off = settings(record(steps))
    assert (on.count, off.count) == (20, 20)
    assert on.parts_phases
    assert not off.parts_phases
    assert on.first < off.first < on.last < off.last


def test_a_block_in_which_nothing_ran_changed_nothing() -> None:
    def probe() -> None:
        some_op()
        with mode(True):
            pass
        with CUDNN.flags(enabled=True, benchmark=True, deterministic=True):
            pass
        some_op()

    assert settings(record(probe)) == []


def test_a_block_in_which_something_ran_changed_something() -> None:
    def block() -> None:
        with CUDNN.flags(enabled=True, benchmark=True):
            some_op()

    assert changes(record(block)) == [(BENCHMARK, "False", "True"), (BENCHMARK, "True", "False")]


def test_cudnns_other_settings_do_not_matter_while_it_is_off() -> None:
    CUDNN.deterministic = True

    def block() -> None:
        with CUDNN.flags(enabled=False):
            assert not CUDNN.deterministic
            some_op()
        assert CUDNN.deterministic

    assert {event.name for event in settings(record(block))} == {"torch.backends.cudnn.enabled"}


def test_attentions_kernels_of_one_block_are_no_settings() -> None:
    query = torch.ones(1, 1, 2, 2)

    def attend() -> None:
        with sdpa_kernel(SDPBackend.MATH):
            torch.nn.functional.scaled_dot_product_attention(query, query, query)

    assert settings(record(attend)) == []


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


def test_exceptions_and_results_are_the_originals() -> None:
    alone: list[str] = []
    for errors in (alone, watched := []):
        for call in (
            lambda: torch.set_num_threads(-1),
            lambda: torch._C._set_cudnn_benchmark("yes"),
            lambda: torch.use_deterministic_algorithms("yes"),  # type: ignore[arg-type]
        ):

            def one(call: Any = call, errors: list[str] = errors) -> None:
                try:
                    call()
                except Exception as problem:
                    errors.append(f"{type(problem).__name__}: {problem}".splitlines()[0])

            one() if errors is alone else record(one)
    assert alone == watched
    assert len(alone) == 3
    assert settings(record(lambda: None)) == []


def held() -> list[object]:
    """Everything that is replaced while somebody listens."""
    found = [getattr(owner, name) for one, _ in seams.settings() for owner, name in held_by(one.watched[0])]
    found += [torch.cuda._lazy_init, torch.distributed.init_process_group]
    return [*found, *(vars(one).get("setter") for one in vars(type(CUDNN)).values() if hasattr(one, "setter"))]


def held_by(setter: str) -> list[tuple[Any, str]]:
    return [(torch._C, setter), *([(torch, setter)] if hasattr(torch, setter) else [])]


def test_everything_is_put_back_in_any_order() -> None:
    before = held()
    first, second = DeterminismTracer(), DeterminismTracer()
    first.__enter__()
    second.__enter__()
    assert any(now is not then for now, then in zip(held(), before, strict=True))
    first.__exit__(None, None, None)
    CUDNN.benchmark = True
    second.__exit__(None, None, None)
    assert all(now is then for now, then in zip(held(), before, strict=True))
    CUDNN.benchmark = False
    assert [len(settings(one)) for one in (first, second)] == [0, 1]


def test_a_setter_that_was_kept_works_on_when_nobody_listens() -> None:
    kept: list[Callable[..., None]] = []
    tracer = record(lambda: kept.append(torch._C._set_cudnn_benchmark))
    kept[0](True)
    assert CUDNN.benchmark
    assert settings(tracer) == []


def test_a_step_with_settings_that_change_gives_the_same_bits() -> None:
    def run(watched: bool) -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5))

        def step() -> None:
            loss = model(torch.randn(2, 4)).sum()
            with mode(True):
                loss.backward()

        record(step) if watched else step()
        return [*(parameter.grad for parameter in model.parameters() if parameter.grad is not None), torch.rand(3)]

    assert [bits(one) for one in run(True)] == [bits(one) for one in run(False)]


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
