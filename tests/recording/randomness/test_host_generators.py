"""Python's and NumPy's global generators: seeds and draws with their lines, states at the edges, nothing disturbed."""

from __future__ import annotations

import copy
import marshal
import pickle
import random
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.support.command import Command, tracer_process
from tests.support.lines import line_of, record
from tracer import DeterminismTracer, Trace
from tracer.names import EventKind, GeneratorKind, SeedOrigin
from tracer.recording.randomness.host_generators import host_generators
from tracer.trace.records import Event, Generator


@pytest.fixture(autouse=True)
def _own_random_state() -> Iterator[None]:
    python, numpy = random.getstate(), np.random.get_state()
    yield
    random.setstate(python)
    np.random.set_state(numpy)


def generator(tracer: DeterminismTracer, name: str) -> Generator:
    (found,) = [one for one in tracer.trace.generators if one.name == name]
    return found


def seeds(tracer: DeterminismTracer) -> list[Event]:
    return [event for event in tracer.trace.events if event.kind is EventKind.SEED]


def test_numpys_own_generators_are_noted_where_they_are_made_without_a_seed() -> None:
    def step() -> None:
        for _ in range(2):
            np.random.default_rng().random()  # unseeded
        np.random.default_rng(None).random()
        np.random.default_rng(0).random()
        np.random.default_rng(seed=np.random.default_rng(1)).random()

    tracer = record(step)
    made = tracer.trace.own_generators
    assert [(one.kind, one.is_seeded, one.count) for one in made] == [
        (GeneratorKind.NUMPY_OBJECTS, False, 2),
        (GeneratorKind.NUMPY_OBJECTS, False, 1),
    ]
    assert made[0].location.endswith(f":{line_of(step, '# unseeded')}")
    assert generator(tracer, "numpy").drew is False
    assert pickle.loads(pickle.dumps(np.random.default_rng)) is np.random.default_rng


@pytest.mark.parametrize("seed", [lambda: random.seed(), lambda: random.seed(None), lambda: np.random.seed()])
def test_a_seed_without_a_number_is_the_machines(seed: Callable[[], None]) -> None:
    (event,) = seeds(record(seed))
    assert event.value == "machine"


@pytest.mark.parametrize("draw", [np.random.rand, np.random.mtrand._rand.rand, lambda: np.random.permutation(3)])
def test_a_draw_is_told_by_the_state(draw: Callable[[], object]) -> None:
    tracer = record(draw)
    found = generator(tracer, "numpy")
    assert (found.drew, len(found.before), found.before == found.after) == (True, 16, False)
    assert generator(tracer, "python").drew is False


@pytest.mark.parametrize("name", ["python", "numpy"])
def test_a_state_that_was_read_takes_the_same_memory_whichever_numbers_it_has(name: str) -> None:
    (found,) = [one for one in host_generators() if one.name == name]
    sizes = set()
    for _ in range(20):
        found.module.seed()
        sizes.add(len(marshal.dumps(found.state(), 2)))
    assert len(sizes) == 1


def test_a_state_that_was_read_and_put_back_keeps_its_provenance_and_one_from_elsewhere_is_restored() -> None:
    elsewhere = random.Random(3).getstate()

    def step() -> None:
        random.seed(1)  # first
        kept = random.getstate()
        random.seed()
        random.setstate(kept)
        random.random()

    def restores() -> None:
        random.setstate(elsewhere)
        random.random()

    found = generator(record(step), "python")
    assert found.origin is SeedOrigin.PROGRAM
    assert found.seeded_at.endswith(f":{line_of(step, '# first')}")
    assert generator(record(restores), "python").origin is SeedOrigin.RESTORED


@pytest.mark.parametrize("name", ["python", "numpy"])
@pytest.mark.parametrize("first", [0, 1])
def test_of_several_states_that_were_drawn_from_the_one_that_the_machine_chose_counts(name: str, first: int) -> None:
    module: Any = {"python": random, "numpy": np.random}[name]

    def step() -> None:
        for seed in [(0,), ()][first:] + [(0,), ()][:first]:
            module.seed(*seed)
            module.random()

    assert generator(record(step), name).origin is SeedOrigin.MACHINE


@pytest.mark.parametrize("draws_after", [False, True])
def test_delays_of_a_launcher_are_no_draw_of_the_program(draws_after: bool) -> None:
    from torch.distributed.elastic.rendezvous import utils

    def waits() -> None:
        utils._delay((0.0, 1e-6))
        if draws_after:
            random.uniform(0, 1)

    assert generator(record(waits), "python").drew is draws_after


@pytest.mark.filterwarnings("ignore")
def test_compiled_code_draws_as_ever() -> None:
    def run() -> list[Any]:
        torch._dynamo.reset()
        compiled = torch.compile(lambda x: x * random.uniform(0, 1), fullgraph=True, backend="eager")
        random.seed(0)
        return [*compiled(torch.ones(2)).tolist(), random.random()]

    plain, traced = run(), []
    record(lambda: traced.extend(run()))
    assert traced == plain


@pytest.mark.parametrize("name", ["python", "numpy"])
def test_a_draw_names_the_line_that_seeded_and_seeding_alone_is_no_draw(name: str) -> None:
    module: Any = {"python": random, "numpy": np.random}[name]

    def before() -> None:
        module.random()
        module.seed(3)

    def after() -> None:
        module.seed(1)  # seeds
        module.random()

    assert generator(record(lambda: module.seed(3)), name).drew is False
    found = generator(record(before), name)
    assert (found.drew, found.origin) == (True, SeedOrigin.UNSEEN)
    found = generator(record(after), name)
    assert (found.drew, found.origin) == (True, SeedOrigin.PROGRAM)
    assert found.seeded_at.endswith(f":{line_of(after, '# seeds')}")


def test_a_watch_from_the_processs_start_knows_that_nobody_seeded(tmp_path: Path) -> None:
    script = "from random import random\nimport torch, numpy\n"
    script += "random()\nnumpy.random.rand()\nnumpy.random.seed(1)\nnumpy.random.rand()\n"
    (tmp_path / "script.py").write_text(script)
    done = tracer_process("run", "-o", "trace.json", "script.py", cwd=tmp_path)
    assert done.code == 0, done.err
    trace = Trace.load(tmp_path / "trace.json")
    assert trace.watched_from_start
    found = {each.name: (each.drew, each.origin, each.seeded_at) for each in trace.generators}
    assert found["python"] == found["numpy"] == (True, SeedOrigin.MACHINE, "")


@pytest.mark.parametrize("draws_too", [False, True], ids=["library", "program too"])
def test_what_a_library_draws_as_it_is_imported_is_no_draw(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, draws_too: bool
) -> None:
    package = tmp_path / "site-packages" / f"drawing_{draws_too}"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(f"from {package.name} import numbers, others\n")
    draw = "random.uniform(0, 1), numpy.random.uniform(0, 1)\n"
    (package / "numbers.py").write_text(f"import random, numpy.random\nNUMBERS = {draw}")
    (package / "others.py").write_text("")
    monkeypatch.chdir(tmp_path)
    script = f"import sys\nsys.path.insert(0, {str(package.parent)!r})\nimport random, numpy.random, torch\n"
    Path("script.py").write_text(f"{script}{draw if draws_too else ''}import {package.name}\n")
    assert Command(capsys, monkeypatch)("run", "-o", "trace.json", "script.py").code == 0
    found = {each.name: each.drew for each in Trace.load("trace.json").generators}
    assert found["python"] is found["numpy"] is draws_too


@pytest.mark.filterwarnings("ignore")
def test_what_the_compiler_puts_back_is_no_seed_of_the_program() -> None:
    def run() -> None:
        torch._dynamo.reset()
        random.random()
        torch.compile(lambda x: x.cos(), backend="eager")(torch.ones(2))
        random.random()

    random.seed(0)
    tracer = record(run)
    assert [event for event in tracer.trace.events if event.kind is EventKind.SEED] == []
    assert generator(tracer, "python").origin is SeedOrigin.UNSEEN


def made_by(make: Callable[[], object]) -> list[tuple[GeneratorKind, int]]:
    return [(made.kind, made.count) for made in record(make).trace.own_generators]


def seeded_by_the_clock() -> np.random.RandomState:
    (made := np.random.RandomState(0)).seed(time.time_ns() % 2**32)
    return made


def seeded_at_last(*seed: int) -> np.random.RandomState:
    (made := np.random.RandomState(0)).seed(*seed)
    return made


NUMPYS, PYTHONS = GeneratorKind.NUMPY_OBJECTS, GeneratorKind.PYTHON_OBJECTS


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (np.random.default_rng, NUMPYS),
        (lambda: np.random.Generator(np.random.PCG64(np.random.SeedSequence())), NUMPYS),
        (np.random.RandomState, NUMPYS),
        (random.Random, PYTHONS),
        (lambda: seeded_at_last(), NUMPYS),
        (lambda: seeded_by_the_clock(), NUMPYS),
        (lambda: np.random.default_rng().spawn(1)[0], NUMPYS),  # children draw for themselves
        (lambda: np.random.RandomState(0), None),
        (lambda: np.random.RandomState([1, 2]), None),
        (lambda: np.random.RandomState(np.random.MT19937(5)), None),
        (lambda: np.random.Generator(np.random.PCG64(5)), None),
        (lambda: seeded_at_last(42), None),
    ],
)
def test_a_generator_that_nobody_seeded_is_a_risk_where_it_draws_and_one_with_a_seed_is_none(
    make: Callable[[], Any], kind: GeneratorKind | None
) -> None:
    """One that never drew is dead by the end, as those of environments are that are seeded later."""

    def drawing() -> None:
        (made := make()).shuffle([1, 2, 3])
        made.shuffle([1, 2, 3])

    assert made_by(lambda: isinstance(make(), object)) == []
    assert made_by(lambda: (make(), drawing())) == ([] if kind is None else [(kind, 1)])


def restored(made: Any, source: Any) -> Any:
    """``made`` with another generator's state."""
    if isinstance(made, np.random.Generator):
        made.bit_generator.state = source.bit_generator.state
    elif isinstance(made, np.random.RandomState):
        made.set_state(source.get_state())
    else:
        made.setstate(source.getstate())
    return made


@pytest.mark.parametrize(
    "make",
    [
        np.random.default_rng,
        np.random.RandomState,
        random.Random,
        lambda *seed: np.random.Generator(np.random.SFC64(*seed)),
    ],
)
def test_a_generator_is_as_seeded_as_the_state_that_it_is_given(make: Callable[..., Any]) -> None:
    def drawn_before() -> None:
        made = make()
        made.random()
        restored(made, make(3)).random()

    assert made_by(lambda: restored(make(), make(3)).random()) == []
    assert made_by(lambda: copy.deepcopy(make(3)).random()) == []
    for unseeded in (
        drawn_before,
        lambda: restored(make(), make()).random(),
        lambda: restored(make(3), make()).random(),
        lambda: copy.deepcopy(make()).random(),
    ):
        assert [count for _, count in made_by(unseeded)] == [1]


def from_a_drawn_generator(number: int | None = None) -> None:
    np.random.seed()
    number = int(np.random.randint(2**31)) if number is None else number
    np.random.seed(number)
    torch.manual_seed(number)


@pytest.mark.parametrize("legacy", [True, False])
def test_states_go_between_global_generators_and_others(legacy: bool) -> None:
    def of_the_global_one() -> None:
        np.random.seed()
        np.random.RandomState().set_state(np.random.get_state())
        (made := random.Random()).setstate(random.Random(0).getstate())
        made.random()

    def to_the_global_one() -> None:
        random.setstate(random.Random().getstate())
        random.random()

    def drawn() -> None:
        np.random.seed()
        (made := np.random.RandomState()).set_state(np.random.get_state(legacy=legacy))
        made.rand()

    def put_back() -> None:
        state = np.random.get_state(legacy=legacy)
        np.random.rand(3)
        np.random.set_state(state)
        np.random.rand()

    assert made_by(of_the_global_one) == made_by(put_back) == []
    assert made_by(drawn) == [(GeneratorKind.NUMPY_OBJECTS, 1)]
    assert generator(record(to_the_global_one), "python").origin is SeedOrigin.MACHINE


def from_python() -> None:
    random.seed()
    torch.manual_seed(random.randint(0, 9999))


def after_a_state_is_put_back() -> None:
    np.random.seed()
    state = np.random.get_state()
    number = int(np.random.randint(2**31))
    np.random.set_state(state)
    torch.manual_seed(number)


def inside_a_block() -> None:
    torch.seed()
    with torch.random.fork_rng():
        number = int(torch.randint(2**31, ()))
    torch.manual_seed(number)


def before_it_is_seeded() -> None:
    np.random.seed()
    number = int(np.random.randint(2**31))
    np.random.seed(0)
    torch.manual_seed(number)


def all_but_torch() -> None:
    random.seed(0)
    np.random.seed(0)


def before_another_function_seeds() -> None:
    random.seed()
    number = random.randrange(2**31)
    other = number + 1
    all_but_torch()
    all_but_torch()
    torch.manual_seed(other)


def with_numpy_fixed(number: int) -> None:
    np.random.seed(0)
    torch.manual_seed(number)


def before_it_is_passed_on() -> None:
    np.random.seed()
    with_numpy_fixed(int(np.random.randint(2**31)))


def drawn_number() -> int:
    number = random.randrange(2**31)
    return number + 1


def by_a_function_before_it_is_seeded() -> None:
    random.seed()
    number = drawn_number()
    random.seed(0)
    torch.manual_seed(number)


@pytest.mark.parametrize(
    ("step", "line"),
    [
        (before_it_is_passed_on, 2),
        (by_a_function_before_it_is_seeded, 1),
        (from_python, 2),
        (from_a_drawn_generator, 2),
    ],
)
def test_an_event_names_the_line_that_drew_its_seed(step: Callable[[], None], line: int) -> None:
    drawn = record(step).trace.events[-1]
    code = (drawn_number if step is by_a_function_before_it_is_seeded else step).__code__
    assert drawn.is_drawn
    number = int(drawn.drawn_at.rpartition(":")[2]) - code.co_firstlineno
    assert (Path(drawn.drawn_at.rpartition(":")[0]).name, number) == (Path(__file__).name, line)


def from_numpy_seeded_after_it_drew() -> None:
    from_a_drawn_generator()
    np.random.seed(0)
    torch.manual_seed(int(np.random.randint(9)))


def torchs_where_none_is_given(number: int | None = None) -> None:
    torch.manual_seed(1)
    torch.seed()
    with torch.random.fork_rng():
        torch.manual_seed(0)
    number = int(torch.randint(9, ())) if number is None else number
    torch.manual_seed(number)


def by_a_function_after_it_is_seeded() -> None:
    random.seed()
    drawn_number()
    random.seed(0)
    torch.manual_seed(drawn_number())


def in_every_round() -> None:
    np.random.seed()
    np.random.rand()
    for round_number in range(3):
        np.random.seed(round_number)
        number = int(np.random.randint(99))
        np.random.seed(round_number + 1)
        torch.manual_seed(number)


OF_THE_MACHINE: list[Callable[[], object]] = [
    before_it_is_seeded,
    before_another_function_seeds,
    before_it_is_passed_on,
    by_a_function_before_it_is_seeded,
    from_a_drawn_generator,
    after_a_state_is_put_back,
    inside_a_block,
    lambda: (torch.seed(), torch.manual_seed(torch.initial_seed() + 1)),
    from_python,
    lambda: (torch.seed(), torch.manual_seed(torch.randint(0, 10**6, (1,)).item())),  # type: ignore[arg-type]
    lambda: torch.manual_seed(torch.Generator().seed()),
    lambda: torch.manual_seed(int(np.random.default_rng().integers(1000))),
]
OF_THE_PROGRAM: list[Callable[[], object]] = [
    by_a_function_after_it_is_seeded,
    in_every_round,
    lambda: (random.seed(0), torch.manual_seed(random.randint(0, 9999))),
    lambda: (torch.manual_seed(3), torch.manual_seed(torch.initial_seed() + 1)),
    lambda: torch.manual_seed(int(np.random.RandomState(0).randint(9))),
    from_numpy_seeded_after_it_drew,
    lambda: from_a_drawn_generator(7),
    lambda: torchs_where_none_is_given(7),
]


@pytest.mark.parametrize(
    ("step", "origin"),
    [*product(OF_THE_MACHINE, [SeedOrigin.MACHINE]), *product(OF_THE_PROGRAM, [SeedOrigin.PROGRAM])],
)
def test_a_drawn_seed_is_as_seeded_as_what_it_was_drawn_from(step: Callable[[], object], origin: SeedOrigin) -> None:
    with torch.random.fork_rng():
        (*_, draw) = [
            draw for draw in record(lambda: (step(), torch.rand(2))).trace.draws if draw.op.startswith("aten.rand.")
        ]
    assert draw.origin is origin
