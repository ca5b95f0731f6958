"""Torch's generators: which calls draw, who seeded what they draw from, and that watching changes nothing."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import _utils as testing
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader

from tests.recording.test_opinfo import _one_thread as _one_thread  # an autouse fixture
from tests.recording.test_opinfo import first_samples
from tests.recording.test_special_tensors import Wrapped
from tests.support.lines import groups, line_of, one, record
from tests.support.samples import copied, operator_database
from tracer import DeterminismTracer, Report, Trace, judge
from tracer.names import EventKind, Phase, SeedOrigin, Verdict
from tracer.recording import patching
from tracer.recording.call_record import drawn_by
from tracer.recording.calls import DRAW, may_draw
from tracer.recording.events import EventLog
from tracer.recording.origin import Sites
from tracer.recording.randomness.generators import FIXED_SEED, SEEDS, state_of
from tracer.recording.randomness.host_generators import Provenance
from tracer.recording.randomness.seed_calls import Newest
from tracer.trace.records import Draw, Event


@pytest.fixture(autouse=True)
def _own_random_state() -> Iterator[None]:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        yield


def drawn(tracer: DeterminismTracer | Trace, op: str = "") -> list[Draw]:
    trace = tracer if isinstance(tracer, Trace) else tracer.trace
    return [draw for draw in trace.draws if draw.op.startswith(op)]


def seeds(tracer: DeterminismTracer) -> list[Event]:
    return [event for event in tracer.trace.events if event.kind is EventKind.SEED]


def places(draws: list[Draw]) -> list[tuple[str, SeedOrigin, int]]:
    """Generator, origin and the line that seeded it; 0 where it was not seen."""
    return [(draw.generator, draw.origin, int(draw.seeded_at.rpartition(":")[2] or 0)) for draw in draws]


# --- which calls draw ---


def disagreements(count: int, entries: list[Any]) -> Iterator[str]:
    """Samples of torch's operator database of which the ledger and the generator's own state tell otherwise."""
    for begin in range(0, len(entries), 100):
        some = entries[begin : begin + 100]
        samples = [sample for op in some for sample in first_samples(op, count)]
        with DeterminismTracer() as tracer:  # what makes samples seeds around each, which is not looked at
            for sample in samples:
                args, kwargs = copied((sample.args, sample.kwargs))
                state, drawn_before = state_of(torch.default_generator), calls_that_drew(tracer)
                with contextlib.suppress(Exception), unseeded():
                    sample.function(*args, **kwargs)
                moved = state_of(torch.default_generator) != state
                if moved != (calls_that_drew(tracer) > drawn_before):
                    yield f"{sample.name}: the state {'moved' if moved else 'stood'}"


def calls_that_drew(tracer: DeterminismTracer) -> int:
    """As the trace's ledger has them, without building one for each sample."""
    infos = [info for info in tracer._session.recorder.mode.infos.values() if DRAW in info.readers]
    pairs = [(info, counter) for info in infos for counter in info.counters.values()]
    return sum(counter.count for info, counter in pairs for drawn in drawn_by([(info, counter)]) if drawn[0] == "cpu")


@contextlib.contextmanager
def unseeded() -> Iterator[None]:
    """The database seeds some ops around each call and puts the state back: not here."""
    freeze, seed = testing.freeze_rng_state, torch.manual_seed
    testing.freeze_rng_state, torch.manual_seed = contextlib.nullcontext, lambda _: torch.default_generator
    try:
        yield
    finally:
        testing.freeze_rng_state, torch.manual_seed = freeze, seed


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("count", "every"), [(1, 3), pytest.param(1000, 1, marks=pytest.mark.slow)])
def test_a_call_is_in_the_ledger_if_and_only_if_the_generator_moved(count: int, every: int) -> None:
    assert list(disagreements(count, operator_database()[::every])) == []


@pytest.mark.parametrize(
    ("draws", "call"),
    [
        (True, lambda: nn.init.kaiming_uniform_(torch.empty(2, 2))),
        (True, lambda: torch.svd_lowrank(torch.ones(4, 4), q=2)),
        (True, lambda: nn.functional.rrelu(-torch.ones(3), training=True)),
        (False, lambda: nn.functional.rrelu(torch.ones(3))),
        (True, lambda: nn.functional.gumbel_softmax(torch.ones(3))),
        (False, lambda: nn.functional.dropout(torch.ones(3), training=False)),
        (False, lambda: nn.functional.dropout(torch.ones(3), p=0.0)),
        (False, lambda: nn.functional.dropout(torch.ones(0))),
        (True, lambda: nn.functional.scaled_dot_product_attention(*[torch.ones(1, 2, 4)] * 3, dropout_p=0.5)),
        (False, lambda: nn.functional.scaled_dot_product_attention(*[torch.ones(1, 2, 4)] * 3)),
        (True, lambda: nn.LSTM(2, 2, 2, dropout=0.5)(torch.ones(3, 1, 2))),
        (False, lambda: torch.rand(2, device="meta")),
        (True, lambda: torch.rand(2, out=torch.empty(2))),
        (True, lambda: torch.distributions.Gamma(torch.ones(2), torch.ones(2)).sample()),
    ],
)
def test_what_draws_is_counted_for_the_default_generator(draws: bool, call: Any) -> None:
    before = torch.get_rng_state()
    tracer = record(call)
    assert (not torch.equal(before, torch.get_rng_state())) is draws
    assert {draw.generator for draw in drawn(tracer)} == ({"cpu"} if draws else set())


def test_every_overload_of_this_build_that_takes_a_generator_or_bears_the_tag_is_placed() -> None:
    unplaced = []
    for name in torch._C._dispatch_get_all_op_names():
        space, _, rest = name.partition("::")
        packet, _, overload = rest.partition(".")
        try:
            func = getattr(getattr(getattr(torch.ops, space), packet), overload or "default")
        except (AttributeError, RuntimeError):
            continue
        takes_one = any("Generator" in str(argument.type) for argument in func._schema.arguments)
        if takes_one and not may_draw(func):
            unplaced.append(str(func))
    assert unplaced == []


def test_what_a_subclass_hands_to_its_inner_calls_is_counted_once() -> None:
    tracer = record(lambda: torch.bernoulli(Wrapped(torch.ones(3))))
    assert sum(draw.count for draw in drawn(tracer)) == 1


# --- who seeded ---


def test_a_draw_names_the_line_that_seeded_its_generator() -> None:
    def step() -> None:
        torch.manual_seed(5)  # by the program
        given = torch.Generator()
        given.seed()  # by the machine
        torch.rand(2)
        torch.rand(2, generator=given)
        torch.rand(2, generator=torch.Generator())
        torch.rand(2, generator=torch.default_generator)
        torch.rand(2, generator=torch.Generator().manual_seed(5))  # the same number

    found = places(drawn(record(step)))
    program = line_of(step, "by the program")
    assert found == [
        ("cpu", SeedOrigin.PROGRAM, program),
        ("passed (cpu)", SeedOrigin.MACHINE, line_of(step, "by the machine")),
        ("passed (cpu)", SeedOrigin.FIXED, 0),
        ("cpu", SeedOrigin.PROGRAM, program),
        ("passed (cpu)", SeedOrigin.PROGRAM, line_of(step, "the same number")),
    ]


def test_a_name_taken_before_recording_and_another_threads_seed_are_seen_too() -> None:
    from torch import manual_seed as taken_before

    def seed() -> None:
        taken_before(3)  # here

    def step() -> None:
        thread = threading.Thread(target=seed)
        thread.start()
        thread.join()
        torch.rand(1)

    tracer = record(step)
    assert places(drawn(tracer)) == [("cpu", SeedOrigin.PROGRAM, line_of(seed, "# here"))]
    assert [(event.name, event.value, event.count) for event in seeds(tracer)] == [("torch", "program", 1)]


def test_a_fork_gives_back_where_the_state_came_from_and_a_state_saved_before_recording_is_restored() -> None:
    state = torch.Generator().manual_seed(2**60 + 1).get_state()

    def step() -> None:
        torch.manual_seed(5)  # outside
        torch.rand(1)
        with torch.random.fork_rng():
            torch.seed()  # inside
            torch.rand(1)
        torch.rand(1)
        torch.set_rng_state(state)  # saved
        torch.rand(1)

    tracer = record(step)
    outside, inside, saved = (line_of(step, f"# {mark}") for mark in ("outside", "inside", "saved"))
    assert [line for *_, line in places(drawn(tracer))] == [outside, inside, outside, saved]
    assert places(drawn(tracer))[-1][1] is SeedOrigin.RESTORED
    events = [(event.name, event.value) for event in seeds(tracer)]
    assert events == [("torch", "program"), ("torch", "machine"), ("cpu", "restored")]


def test_a_sampler_inherits_from_the_default_generator_and_a_loaders_own_draws_make_no_finding() -> None:
    def step() -> None:
        torch.manual_seed(4)  # here
        list(DataLoader(list(range(4)), shuffle=True))  # type: ignore[arg-type]

    tracer = record(step)
    (order,) = drawn(tracer, "aten.randperm")
    assert places([order]) == [("cpu", SeedOrigin.PROGRAM, line_of(step, "# here"))]
    assert len(seeds(tracer)) == 1, "the sampler's own is none"
    tracer = record(lambda: (torch.seed(), list(DataLoader(list(range(4))))))  # type: ignore[arg-type]
    (draw,) = drawn(tracer, "aten.random_")  # a number for workers
    assert (draw.generator, draw.origin) == ("cpu", SeedOrigin.UNUSED)
    (call,) = groups(tracer, "aten.random_")
    assert "rng.origin" not in call.facts


@pytest.mark.parametrize(
    ("seed", "origin"),
    [
        (FIXED_SEED, SeedOrigin.FIXED),
        (0, SeedOrigin.PROGRAM),
        (2**32 - 1, SeedOrigin.PROGRAM),
        (2**64 - 3, SeedOrigin.PROGRAM),
        (7055483808133689556, SeedOrigin.MACHINE),
    ],
)
def test_a_seed_that_nobody_saw_is_told_by_its_size(seed: int, origin: SeedOrigin) -> None:
    torch.manual_seed(seed)
    assert places(drawn(record(lambda: torch.rand(1)))) == [("cpu", origin, 0)]


# --- law 1, 2, 3 ---


def test_seeding_at_one_line_for_ever_takes_no_memory() -> None:
    newest = Newest()
    provenance, other = Provenance(SeedOrigin.PROGRAM), Provenance(SeedOrigin.MACHINE)
    for value in range(10_000):
        newest.note(value, provenance)
        newest.note(-1, other)
    assert len(newest) < 5_000
    assert [newest.get(value) for value in (9_999, -1, 0)] == [provenance, other, None]

    def step() -> None:
        for value in range(300):
            torch.manual_seed(value)
            np.random.seed(value)
            torch.rand(1)

    tracer = record(step)
    assert len(seeds(tracer)) == 2
    assert [draw.count for draw in drawn(tracer)] == [300]
    assert not SEEDS._of_defaults


def test_a_refused_seed_raises_as_before_and_is_no_event() -> None:
    def step() -> None:
        for seed in (2**70, "one"):
            with pytest.raises((RuntimeError, TypeError, ValueError)):
                torch.Generator().manual_seed(seed)  # type: ignore[arg-type]

    assert seeds(record(step)) == []


def test_the_default_generator_and_a_call_say_what_was_drawn_from() -> None:
    def step() -> None:
        torch.manual_seed(6)  # here
        torch.rand(1)

    tracer = record(step)
    (cpu,) = [one for one in tracer.trace.generators if one.name == "cpu"]
    here = f"tests/recording/randomness/test_generators.py:{line_of(step, '# here')}"
    assert (cpu.origin, cpu.drew, cpu.seeded_at, len(cpu.before)) == (SeedOrigin.PROGRAM, True, here, 16)
    assert cpu.before != cpu.after
    facts = one(tracer, "aten.rand.default").facts
    assert (facts["rng.generator"], facts["rng.origin"], facts["rng.seeded_at"]) == ("cpu", "program", here)
    (idle,) = [one for one in record(lambda: torch.ones(1)).trace.generators if one.name == "cpu"]
    assert (idle.drew, idle.before) == (False, idle.after)


def test_without_access_to_the_class_torchs_own_functions_are_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise TypeError

    monkeypatch.setattr(patching, "_set_in_class", refuse)
    before = torch.manual_seed

    def step() -> None:
        torch.manual_seed(12)  # here
        torch.rand(1)

    tracer = record(step)
    assert not SEEDS.sees_lines
    assert places(drawn(tracer)) == [("cpu", SeedOrigin.PROGRAM, line_of(step, "# here"))]
    assert [event.name for event in seeds(tracer)] == ["torch"]
    assert torch.manual_seed is before


# --- generators of devices that this machine lacks ---


@pytest.fixture
def _watched_from_start() -> Iterator[None]:
    log = EventLog(Sites())
    torch.seed()
    SEEDS.start(log, from_torch_import=True)
    yield
    SEEDS.stop(log)


def drawing_after(seed: Callable[[], object]) -> Trace:
    with DeterminismTracer() as tracer:
        seed()
        batch = torch.randn(4, 8)
        F.dropout(nn.Linear(8, 8)(batch), 0.5).sum().backward()
    return tracer.trace


def verdicts_of(report: Report) -> tuple[Verdict, Verdict]:
    """Of a call that may run on the host, and of one that runs where the model does."""
    found = {finding.op: finding.verdict for finding in report.findings if finding.op}
    return found["aten.randn.default"], found["aten.bernoulli_.float"]


def with_saved_state() -> None:
    torch.set_rng_state(torch.Generator().manual_seed(3).get_state())


def in_a_fork() -> None:
    torch.default_generator.manual_seed(0)
    with torch.random.fork_rng():
        torch.manual_seed(1)


def of_each_by_itself() -> None:
    torch.default_generator.manual_seed(0)
    torch.cuda.manual_seed(0)


def undone() -> None:
    torch.manual_seed(0)
    torch.cuda.seed_all()


SEEDED, VARIES, EITHER = Verdict.SEEDED, Verdict.NONDETERMINISTIC, Verdict.CONDITIONAL


@pytest.mark.usefixtures("_watched_from_start")
@pytest.mark.parametrize(
    ("seed", "on_cuda", "on_cpu"),
    [
        (lambda: torch.default_generator.manual_seed(0), (EITHER, VARIES), (SEEDED, SEEDED)),
        (with_saved_state, (EITHER, VARIES), (SEEDED, SEEDED)),
        (in_a_fork, (EITHER, VARIES), (SEEDED, SEEDED)),
        (lambda: torch.cuda.manual_seed_all(0), (EITHER, SEEDED), (VARIES, VARIES)),
        (undone, (EITHER, VARIES), (SEEDED, SEEDED)),
        (lambda: torch.manual_seed(0), (SEEDED, SEEDED), (SEEDED, SEEDED)),
        (of_each_by_itself, (SEEDED, SEEDED), (SEEDED, SEEDED)),
        (torch.seed, (VARIES, VARIES), (VARIES, VARIES)),
    ],
)
def test_a_draw_on_a_device_is_judged_by_the_seed_of_its_own_generator(
    seed: Callable[[], object], on_cuda: tuple[Verdict, Verdict], on_cpu: tuple[Verdict, Verdict]
) -> None:
    trace = drawing_after(seed)
    assert verdicts_of(judge(trace, backend="cuda")) == on_cuda
    assert verdicts_of(judge(trace, backend="cpu")) == on_cpu
    assert verdicts_of(judge(trace)) == on_cpu


@pytest.mark.usefixtures("_watched_from_start")
def test_the_seed_of_one_kind_of_device_reaches_no_other() -> None:
    trace = drawing_after(lambda: torch.cuda.manual_seed_all(0))
    assert verdicts_of(judge(trace, backend="xpu"))[1] is VARIES
    assert verdicts_of(judge(trace, backend="rocm"))[1] is SEEDED, "ROCm's devices are torch's cuda"


@pytest.mark.usefixtures("_watched_from_start")
def test_one_seed_for_all_devices_closes_what_one_for_the_host_left() -> None:
    report = judge(drawing_after(lambda: torch.default_generator.manual_seed(0)), backend="cuda")
    (change,) = [change for change in report.plan if "torch.manual_seed(0)" in change.code]
    assert len(change.findings) == len([finding for finding in report.findings if finding.verdict is not SEEDED])


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("preserves", [True, False])
def test_a_checkpoint_that_draws_other_numbers_than_its_forward_is_a_finding(reentrant: bool, preserves: bool) -> None:
    batch = torch.ones(2, 8, requires_grad=True)
    how: dict[str, Any] = {"use_reentrant": reentrant, "preserve_rng_state": preserves}

    def step() -> None:
        torch.manual_seed(0)
        checkpoint(lambda x: F.dropout(x, 0.5) * x, batch, **how).sum().backward()

    tracer = record(step)
    assert len(seeds(tracer)) == 1, "what checkpointing restores is no event"
    assert {draw.origin for draw in drawn(tracer)} - {SeedOrigin.PROGRAM} == (
        set() if preserves else {SeedOrigin.MOVED_ON}
    )
    found = {finding.phase: finding for finding in judge(tracer.trace).findings if finding.op}
    assert found[Phase.RECOMPUTE].verdict is (Verdict.SEEDED if preserves else Verdict.CONDITIONAL)
    assert ("preserve_rng_state" in found[Phase.RECOMPUTE].remedy) is not preserves
