"""Further runs follow lines where runs diverge, and hold those that reach a call that differs."""

from __future__ import annotations

import math
import os
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from msgspec.structs import replace

from tests.runner.repeated.comparisons import divergence
from tests.runner.repeated.comparisons import repeated as compared
from tests.support.traced import traced
from tracer.divergence.causes import RootCause
from tracer.divergence.lines import ComparedLines, LineKind, LineSource
from tracer.divergence.model import CallPlace, Divergence, Family, Loss, Root, Seed
from tracer.divergence.repeated import Held, HeldLine, Repeated, next_steps
from tracer.names import Phase
from tracer.recording.lines.variable_digests import digest_text
from tracer.recording.options import LineOptions
from tracer.report.compared import repeated_json
from tracer.report.sections.root_lines import proof_of, what_it_does
from tracer.report.sections.runs import repeated_headline
from tracer.runner.repeated import root_lines
from tracer.runner.repeated.repeating import Asked, repeat_script
from tracer.runner.repeated.root_lines import (
    MOST_RUNS,
    FoundLines,
    LineRun,
    _as_seed,
    _by_proof,
    _ends_early,
    _Holding,
    certain,
    compared_traces,
    find_lines,
    with_allocations,
    with_diverging,
    with_left,
)
from tracer.runner.script import Task
from tracer.trace.lines import RESULT

#: By name: a script whose runs diverge, the line that does it, its row in the table of sources, and whether it is
#: proven by holding it.
SCRIPTS = {
    "clock": (
        """\
        import time
        import torch
        def number():
            return time.time_ns() % 1000
        seed = number()
        began = time.time()
        g = torch.Generator().manual_seed(seed)
        y = torch.rand(4, generator=g) * 2
        """,
        (4, "clock", True),
    ),
    "numpy": (
        """\
        import numpy, torch
        torch.manual_seed(0)
        def split(x):
            return x[numpy.random.permutation(len(x))]
        x = split(torch.arange(40.0))
        y = x * 2
        """,
        (4, "draw-numpy", True),
    ),
    "set": (
        """\
        import torch
        names = {f"name {i}" for i in range(40)}
        order = [name for name in names]
        x = torch.tensor([float(name[5:]) for name in order])
        y = x * 2
        """,
        (3, "set-order", True),
    ),
    "own generator": (
        """\
        import random
        import torch
        class Transform:
            def __init__(self):
                self.own = random.Random()
            def __call__(self, x):
                return x * self.own.random()
        transform = Transform()
        for i in range(3):
            x = transform(torch.ones(3))
        """,
        (5, "own-generator", True),
    ),
    "branch": (
        """\
        import os
        import torch
        x = torch.ones(3)
        if os.path.exists("left"):
            x = torch.exp(x)
        open("left", "w").close()
        y = x * 2
        """,
        (4, "file-exists", True),
    ),
    "draw in a library": (
        """\
        import numpy, torch
        from others import split
        torch.manual_seed(0)
        a, b = split(numpy.arange(40.0))
        y = torch.from_numpy(a) * 2
        """,
        ("others.py:12", "draw-numpy", True),
    ),
    "library": (
        """\
        import torch
        from others import Environment
        env = Environment()
        x = env.reset()
        y = torch.from_numpy(x) * 2
        """,
        (4, "", True),
    ),
    "workers of a loader that a library wraps": (
        """\
        import os, numpy, torch
        from others import Wrapped; torch.manual_seed(0)
        class Data(torch.utils.data.Dataset):
            def __len__(self): return 8
            def __getitem__(self, i):
                return torch.ones(2) * numpy.random.rand()
        def seeded(worker):
            numpy.random.seed(os.getpid() * 7 % 2**32)
        loader = torch.utils.data.DataLoader(Data(), 4, num_workers=2, worker_init_fn=seeded)
        for x in Wrapped(loader):
            y = x * 2
        """,
        (8, "process-id", True),
    ),
    "folder that goes": (
        """\
        import tempfile, torch
        with tempfile.TemporaryDirectory() as folder:
            torch.save(torch.ones(2), folder + "/a.pt")
            number = sum(map(ord, folder))
        y = torch.ones(3) * number * 2
        """,
        (2, "temporary-name", True),
    ),
}
#: A package of somebody else's, which the scripts below import.
LIBRARY = """\
import numpy
class Environment:
    def reset(self, seed=None):
        self.generator = numpy.random.default_rng(seed)
        return self.generator.random(4)
class Wrapped:
    def __init__(self, loader):
        self.loader = loader
    def __iter__(self):
        yield from self.loader
def split(x):
    order = numpy.random.permutation(len(x))
    return x[order[: len(x) // 2]], x[order[len(x) // 2 :]]
"""


def repeated(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch, **options: object) -> Repeated:
    """Run the script ``name`` as often as it takes."""
    (folder / "train.py").write_text(dedent(SCRIPTS[name][0]), encoding="utf-8")
    packages = folder.parent / f"{folder.name}-packages" / "site-packages"
    packages.mkdir(parents=True)
    (packages / "others.py").write_text(LIBRARY, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(packages), os.environ.get("PYTHONPATH")))))
    monkeypatch.syspath_prepend(packages)
    monkeypatch.chdir(folder)
    return repeat_script(Asked(task=Task(target="train.py"), folder=folder / "runs", **options)).repeated  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in SCRIPTS if name != "library"])
def test_the_line_is_named_and_proven(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    line, row, is_proven = SCRIPTS[name][1]
    found = repeated(tmp_path, name, monkeypatch)
    first = found.sources[0]
    at = line if isinstance(line, str) else f"train.py:{line}"
    assert (first.location, first.source, first.reaches) == (at, row, True)
    assert any(held.agrees for held in found.held_lines) == is_proven
    assert len(list((tmp_path / "runs").glob("run-*.values"))) <= MOST_RUNS


def test_a_run_that_failed_refutes_nothing() -> None:
    sources = [LineSource(location=at, reaches=True) for at in ("a.py:1", "a.py:2")]
    held = HeldLine(lines=("a.py:1",), agrees=False, runs=1, problem="the run that was given it failed")
    ordered = _by_proof(sources, (held,))
    assert [(source.location, source.reaches) for source in ordered] == [("a.py:2", True), ("a.py:1", True)]
    assert "something else" not in proof_of(
        cast(
            "Repeated", SimpleNamespace(cause=None, otherwise="", diverging_held=None, reaching=(), held_lines=(held,))
        )
    )
    refuted = msgspec.structs.replace(held, problem="")
    assert "something else" in proof_of(
        cast(
            "Repeated",
            SimpleNamespace(cause=None, otherwise="", diverging_held=None, reaching=(), held_lines=(refuted,)),
        )
    )
    ordered = _by_proof(sources, (refuted,))  # the other one, which was not held
    assert [source.location for source in ordered] == ["a.py:2", "a.py:1"]


@pytest.mark.parametrize(
    ("is_blind", "source", "is_first"), [(True, "port", True), (False, "port", False), (True, "", False)]
)
def test_a_proven_line_that_reads_what_is_not_seen_may_follow_from_one_that_differs_by_itself(
    is_blind: bool, source: str, is_first: bool
) -> None:
    sources = [
        LineSource(location="a.py:1", reaches=True, source=source),
        LineSource(location="a.py:2", reaches=True, is_blind=is_blind),
    ]
    held = [
        HeldLine(lines=("a.py:1",), agrees=False, runs=1, problem="the run that was given it failed"),
        HeldLine(lines=("a.py:2",), agrees=True, runs=1),
    ]
    assert (_by_proof(sources, held)[0].location == "a.py:1") == is_first
    assert _by_proof(sources[::-1], held)[0].location == "a.py:2"


class _Calls(list[int]):
    """The steps of a run's calls."""

    step_of = list.__getitem__


class _Laboratory:
    """Runs as a test wants them: ``outcomes`` by the place that is held."""

    def __init__(self, folder: Path, outcomes: dict[str, list[str]], left: int = 6) -> None:
        self.folder, self.outcomes, self.left = folder, outcomes, left
        self.given: list[tuple[str, ...]] = []
        self.until: list[int | None] = []
        self.steps = 1

    def values_folder(self) -> Path:
        return self.folder

    def follow(self, name: str, lines: LineOptions, last_step: int | None, *, anew: bool = False) -> LineRun | None:
        self.left -= 1
        self.until.append(last_step)
        family = {"": SimpleNamespace(values=_Calls([0, self.steps - 1]), agrees=True)}
        if not lines.gives:
            for at in lines.held:
                (self.folder / digest_text(at)).touch()
            return LineRun(self.folder, cast("Family", family))
        self.given.append(lines.held)
        outcome = self.outcomes[lines.held[0]].pop(0)
        if outcome not in ("same", "nothing"):
            (self.folder / f"{digest_text(lines.held[0])}.others").touch()
        family[""].agrees = outcome not in ("differs", "nothing")
        return None if outcome == "fails" else LineRun(self.folder, cast("Family", family))

    def compare(self, first: Family, second: Family) -> Divergence:
        roots = () if cast("Any", second[""]).agrees else (cast("Root", SimpleNamespace(call=0, step=0, key=())),)
        return Divergence(agrees=not roots, calls_compared=2, calls=(2, 2), roots=roots)

    def meets(self, family: Family, last_step: int | None) -> bool:
        return False


@pytest.mark.parametrize("only_second", [False, True])
def test_both_values_of_a_line_are_told_in_the_order_of_the_runs(tmp_path: Path, only_second: bool) -> None:
    """A call that the second run alone makes is looked for in its lines."""
    for name, number in (("one", 3), ("two", 7)):
        traced(tmp_path, f"CALLS = []\nk = {number}\nCALLS.append(k)\n", name=name)
    cause = RootCause.STRUCTURE
    root = Root(cause=cause, step=0, call=0, op="aten.mul.Tensor", phase=Phase.FORWARD, only_second=only_second)
    found = Divergence(agrees=False, calls_compared=1, calls=(1, 1), roots=(root,))
    compared = compared_traces(tmp_path / "one.json", tmp_path / "two.json", found)
    assert [(each.location, each.first, each.second) for each in compared.sources] == [("program.py:2", "3", "7")]


BEGAN = LineSource(
    location="a.py:1", held_at="a.py:1", names=("t",), source="clock", path=("train.py:9",), reaches=True
)
ASKED = {
    "a decision": replace(BEGAN, location="b.py:1", held_at="b.py:1", names=(), kind=LineKind.BRANCH),
    "a second reading": replace(BEGAN, location="b.py:1", held_at="b.py:1", names=("now",)),
    "what comes of both": replace(BEGAN, location="b.py:1", held_at="b.py:1", names=("took",)),
}


@pytest.mark.parametrize(
    ("asked", "outcomes", "proven"),
    [
        ("a decision", {"b.py:1": ["agrees"]}, "b.py:1"),
        ("a decision", {"b.py:1": ["differs"], "a.py:1": ["agrees", "agrees"]}, "a.py:1+b.py:1"),
        ("a second reading", {"a.py:1": ["agrees", "agrees"], "b.py:1": ["agrees"]}, "a.py:1+b.py:1"),
        ("a second reading", {"a.py:1": ["differs", "agrees"], "b.py:1": ["agrees"]}, "a.py:1+b.py:1"),
        ("what comes of both", {"a.py:1": ["agrees"], "b.py:1": ["agrees"]}, "b.py:1+a.py:1"),
    ],
)
def test_a_time_that_is_given_proves_nothing_where_the_run_reads_the_clock_again(
    tmp_path: Path, asked: str, outcomes: dict[str, list[str]], proven: str
) -> None:
    """A run that takes its own time from another's makes something that neither had, and may agree by luck."""
    began = replace(BEGAN, path=("b.py:1", "train.py:9")) if asked == "what comes of both" else BEGAN
    found = _Holding(_Laboratory(tmp_path, outcomes), [began, ASKED[asked]], (), 0, ()).held()
    assert ["+".join(each.lines) for each in found if each.agrees] == [proven]
    assert not any(outcomes.values())


WAY = ("a.py:2", "b.py:3", "c.py:4", "train.py:9")
PORT = LineSource(location="a.py:1", held_at="a.py:1", reaches=True, names=("port",), path=WAY, closed=WAY)
OTHER = LineSource(location="b.py:8", held_at="b.py:8", reaches=True, path=WAY[2:], closed=WAY[2:])


@pytest.mark.parametrize(
    ("outcomes", "held"),
    [
        ({"a.py:1": ["fails"], "b.py:3": ["agrees"]}, [("a.py:1", "b.py:3", True)]),
        ({"a.py:1": ["fails"], "b.py:3": ["fails"], "c.py:4": ["agrees"]}, [("a.py:1+b.py:8", "c.py:4", True)]),
        (
            {"a.py:1": ["fails"], "b.py:3": ["differs"], "a.py:2": ["differs"], "c.py:4": ["agrees"]},
            [("a.py:1+b.py:8", "c.py:4", True)],
        ),
        (
            {"a.py:1": ["fails"], "b.py:3": ["fails"], "c.py:4": ["differs"], "b.py:8": ["agrees"]},
            [("a.py:1", "c.py:4", False), ("b.py:8", "", True)],
        ),
        ({"a.py:1": ["differs"], "b.py:8": ["agrees"]}, [("a.py:1", "", False), ("b.py:8", "", True)]),
        ({"a.py:1": ["nothing"], "a.py:2": ["agrees"]}, [("a.py:1", "a.py:2", True)]),
        ({"a.py:1": ["same", "same", "agrees"]}, [("a.py:1", "", True)]),
        ({"a.py:1": ["same", "same", "same"], "b.py:8": ["agrees"]}, [("a.py:1", "", False), ("b.py:8", "", True)]),
    ],
)
def test_a_line_is_held_further_on_its_way_where_a_run_cannot_go_on_with_what_it_gives(
    tmp_path: Path, outcomes: dict[str, list[str]], held: list[tuple[str, str, bool]]
) -> None:
    """What is proven there is proven of every line that leads there; what a run gives by itself is tried again."""
    laboratory = _Laboratory(tmp_path, outcomes)
    found = _Holding(laboratory, [PORT, OTHER], (), 0, ()).held()
    assert [("+".join(each.lines), each.at, each.agrees) for each in found] == held
    assert not any(outcomes.values())
    assert laboratory.left >= 0


def test_where_more_may_enter_on_the_way_the_later_line_is_what_is_proven(tmp_path: Path) -> None:
    laboratory = _Laboratory(tmp_path, {"a.py:1": ["fails"], "b.py:3": ["agrees"]})
    sources = [msgspec.structs.replace(PORT, closed=WAY[:1])]
    held = _Holding(laboratory, sources, (), 0, ()).held()
    assert [(each.lines, each.at, each.agrees) for each in held] == [(("b.py:3",), "", True)]
    ordered = _by_proof(sources, held)
    assert [(each.location, each.reaches, each.comes_of) for each in ordered] == [
        ("a.py:1", True, ()),
        ("b.py:3", True, ("a.py:1",)),
    ]
    assert "train.py:9" not in what_it_does(ordered[1])
    said = proof_of(cast("Repeated", SimpleNamespace(sources=ordered, otherwise="", reaching=ordered, held_lines=held)))
    assert "there" not in said
    assert "b.py:3, which takes what comes of it" in said


def test_lines_beyond_those_of_which_values_are_kept_say_so(tmp_path: Path) -> None:
    places = [f"a.py:{number}" for number in range(1, 19)]
    sources = [LineSource(location=at, held_at=at, reaches=True, path=("train.py:9",)) for at in places]
    laboratory = _Laboratory(tmp_path, {at: ["differs"] * 9 for at in places}, left=9)
    held = _Holding(laboratory, sources, (), 0, ()).held()
    beyond = [each for each in held if "more lines reach" in each.problem]
    assert [each.lines for each in beyond] == [("a.py:17",), ("a.py:18",)]


@pytest.mark.parametrize(
    ("seeds", "numbers", "source", "comes_of"),
    [(True, ("100", "101"), "seed", ()), (False, ("100", "101"), "", ("a.py:1",)), (True, ("", "7"), "", ("a.py:1",))],
)
@pytest.mark.parametrize("closed", [(), WAY], ids=["open", "closed"])
def test_what_enters_behind_a_line_that_was_held_in_vain_is_named_before_it(
    tmp_path: Path,
    seeds: bool,
    numbers: tuple[str, str],
    source: str,
    comes_of: tuple[str, ...],
    closed: tuple[str, ...],
) -> None:
    """The line seeds by a property that its library reads from a folder, say, of an object that differs otherwise."""
    laboratory = _Laboratory(tmp_path, {"a.py:1": ["differs"], "a.py:2": ["agrees"]})
    line = replace(PORT, closed=closed)
    held = _Holding(laboratory, [line], (), 0, ()).held()
    assert [(each.lines, each.agrees) for each in held] == [(("a.py:1",), False), (("a.py:2",), True)]
    ordered = _by_proof([line], held)
    assert [each.location for each in ordered] == ["a.py:2", "a.py:1"]
    known = ComparedLines(seeding=frozenset(["a.py:2"] if seeds else []))
    named = _as_seed(ordered[0], known, [_root(0, seed=Seed(location="lib.py:9", first=numbers[0], second=numbers[1]))])
    assert (named.source, named.comes_of) == (source, comes_of)
    assert numbers == (named.first, named.second) or not source


def test_a_line_that_was_held_in_vain_leaves_runs_to_hold_circumstances(tmp_path: Path) -> None:
    laboratory = _Laboratory(tmp_path, {"a.py:1": ["differs"]}, left=4)
    found = FoundLines((PORT,), _Holding(laboratory, [PORT], (), 0, ()).held())
    assert (found.refuted, laboratory.left) == ({"a.py:1"}, 2)


ASKS = {"kind": LineKind.BRANCH, "may_call": ("decides", "builtins.property.exists")}


@pytest.mark.parametrize(
    ("line", "text", "source", "is_told"),
    [
        (ASKS, 'return self.root / "last.pt"', "file-exists", True),
        (ASKS, "return self.root / 'ckpt' / name", "file-exists", True),
        (ASKS, 'return self.root / "last.pth"', "", False),
        ({"kind": LineKind.BRANCH, "may_call": ("mine.is_new",)}, 'torch.save(model, "last.pt")', "", False),
        ({"kind": LineKind.BRANCH, "source": "clock"}, 'return self.root / "last.pt"', "clock", False),
        ({"source": "listing"}, 'names = os.listdir("ckpt")', "listing", True),
        ({"source": "seed"}, 'logger = Logger("ckpt")', "seed", True),
        ({}, 'logger = Logger("ckpt")', "", False),
    ],
)
def test_a_file_that_the_first_run_left_is_told_where_the_line_may_look_at_it(
    line: dict[str, Any], text: str, source: str, is_told: bool
) -> None:
    found = FoundLines((LineSource(location="a.py:1", reaches=True, **line),), note="before")
    told = with_left(found, text, ["other.txt", "ckpt/last.pt"])
    assert told.sources[0].source == source
    assert ("ckpt/last.pt" in told.note, told.note[:6]) == (is_told, "before")
    assert with_left(found, text, []) == found
    assert with_left(FoundLines(), text, ["ckpt/last.pt"]) == FoundLines()


MADE = msgspec.structs.replace(PORT, location="a.py:7", source="own-generator", is_blind=True, path=WAY[1:])


@pytest.mark.parametrize(
    ("others", "first"),
    [
        ((MADE,), "a.py:7"),
        ((MADE, PORT), "a.py:7"),
        ((PORT,), "a.py:1"),
        ((msgspec.structs.replace(PORT, is_blind=True),), "b.py:3"),
        ((msgspec.structs.replace(PORT, is_followed=False),), "b.py:3"),
        ((MADE, msgspec.structs.replace(PORT, source="port")), "b.py:3"),
        ((PORT, msgspec.structs.replace(PORT, location="a.py:6")), "b.py:3"),
    ],
)
def test_a_line_that_takes_what_one_line_gives_comes_behind_that_one(
    others: tuple[LineSource, ...], first: str
) -> None:
    proven = HeldLine(lines=("b.py:3",), agrees=True, runs=1)
    assert _by_proof(others, (proven,))[0].location == first
    in_vain = HeldLine(lines=(first,), agrees=False, runs=1)
    assert _by_proof(others, (in_vain, proven))[0].location != first or first == "b.py:3"


def test_a_line_that_is_held_where_others_lead_is_proven_with_them_unless_these_were_held_in_vain(
    tmp_path: Path,
) -> None:
    own = LineSource(location="b.py:3", held_at="b.py:3", reaches=True, path=WAY[2:], closed=WAY[2:])
    for outcome, lines in (("fails", ("b.py:3", "a.py:1")), ("differs", ("b.py:3",))):
        laboratory = _Laboratory(tmp_path / outcome, {"a.py:1": [outcome], "a.py:2": ["differs"], "b.py:3": ["agrees"]})
        (tmp_path / outcome).mkdir()
        held = _Holding(laboratory, [PORT, own], (), 0, ()).held()
        assert held[-1].lines == lines
        assert all(each.reaches for each in _by_proof([PORT, own], held))


def test_what_a_proven_line_explains_is_no_item_of_its_own() -> None:
    sources = [
        LineSource(location="a.py:1", reaches=True, path=("a.py:2",)),
        LineSource(location="a.py:2", reaches=True, is_blind=True),
        LineSource(location="a.py:3", reaches=True, source="clock"),
        LineSource(location="a.py:4", reaches=True, source="done-by-then"),
        LineSource(location="a.py:5", reaches=True, kind=LineKind.BRANCH),
    ]
    ordered = _by_proof(sources, (HeldLine(lines=("a.py:1",), agrees=True, runs=1),))
    assert [each.location for each in ordered if each.reaches] == ["a.py:1", "a.py:4", "a.py:5"]
    assert all(each.reaches for each in _by_proof(sources, ()))


@pytest.mark.parametrize(("is_threads", "runs"), [(False, 1), (True, 2)])
def test_a_line_of_another_thread_is_proven_by_two_runs_that_agree(tmp_path: Path, is_threads: bool, runs: int) -> None:
    line = msgspec.structs.replace(PORT, is_threads=is_threads)
    held = _Holding(_Laboratory(tmp_path, {"a.py:1": ["agrees", "agrees"]}), [line], (), 0, ()).held()
    assert [(each.agrees, each.runs) for each in held] == [(True, runs)]


@pytest.mark.parametrize(
    ("kind", "path", "first"),
    [("done-by-then", "a.py:1", 2), ("completion-order", "a.py:1", 2), ("", "a.py:1", 1), ("done-by-then", "", 1)],
)
def test_a_line_that_asks_who_is_ready_is_named_before_the_one_that_reads_from_it(
    kind: str, path: str, first: int
) -> None:
    sources = [
        LineSource(location="a.py:1", reaches=True, is_blind=True),
        LineSource(location="a.py:2", reaches=True, source=kind, path=(path,)),
    ]
    ordered = _by_proof(sources, (HeldLine(lines=("a.py:1",), agrees=True, runs=1),))
    assert ordered[0].location == f"a.py:{first}"


@pytest.mark.parametrize("trains", [False, True])
def test_what_a_line_computed_before_it_was_given_values_must_not_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trains: bool
) -> None:
    """Calls that a held line makes are left out, and so would be all that merely follow from them."""
    inside = cast("Root", SimpleNamespace(call=0, step=0, key=(), reaches_training=trains))
    differs = Divergence(agrees=False, calls_compared=2, calls=(2, 2), roots=(inside,))
    laboratory = _Laboratory(tmp_path, {"b.py:8": ["agrees"], "c.py:4": ["differs"]})
    monkeypatch.setattr(laboratory, "compare", lambda first, second: differs)
    (tmp_path / f"{digest_text('b.py:8')}.calls").write_text("0 1\n", encoding="utf-8")
    (held,) = _Holding(laboratory, [OTHER], (), 0, ()).held()
    assert held.agrees != trains


def test_rows_of_a_query_are_held_where_they_are_taken(tmp_path: Path) -> None:
    query = LineSource(location="a.py:1", held_at="a.py:2", reaches=True, names=(RESULT,), path=WAY, closed=WAY[1:])
    laboratory = _Laboratory(tmp_path, {"b.py:3": ["agrees"]})
    held = _Holding(laboratory, [query], (), 0, ()).held()
    assert [(each.lines, each.at, each.agrees) for each in held] == [(("a.py:1",), "b.py:3", True)]


@pytest.mark.parametrize(("second", "until"), [(None, None), (0.5, 5)])
def test_runs_are_not_ended_where_the_number_of_steps_differs(
    tmp_path: Path, second: float | None, until: int | None
) -> None:
    root = Root(cause=RootCause.STRUCTURE, step=5, call=0, op="aten.mm.default", phase=Phase.FORWARD)
    losses = (Loss(step=5, first=0.5, second=second, differs=True),)
    divergence = Divergence(agrees=False, calls_compared=1, calls=(2, 1), roots=(root,), losses=losses)
    laboratory = _Laboratory(tmp_path, {"b.py:8": ["agrees"]})
    laboratory.steps = 6
    find_lines(laboratory, divergence, ComparedLines(sources=(OTHER,)))
    assert {*laboratory.until} == {until}


@pytest.mark.parametrize(
    ("known", "named"),
    [
        ((), ["a.py:11"]),
        ((("a.py:9", "unwritten-memory"), ("train.py:8", "")), ["a.py:11", "train.py:8"]),
        ((("a.py:11", ""),), ["a.py:11"]),
        ((("train.py:3", "draw-numpy"),), ["train.py:3"]),  # which fills it unseen
    ],
)
def test_unwritten_memory_is_the_line_that_allocates_it(known: tuple[tuple[str, str], ...], named: list[str]) -> None:
    root = Root(
        cause=RootCause.UNWRITTEN_MEMORY,
        step=0,
        call=4,
        op="aten.clamp.default",
        phase=Phase.FORWARD,
        earlier=CallPlace(op="aten.empty.memory_format", location="a.py:11"),
    )
    sources = tuple(LineSource(location=at, source=row, reaches=True) for at, row in known)
    found = with_allocations(ComparedLines(sources=sources, first=frozenset(at for at, _ in known)), [root])
    assert [source.location for source in found.sources if source.reaches] == named
    assert (found.sources[0].source == "unwritten-memory") == (named[0] == "a.py:11")


#: The rate is none in every run whose lines are followed, as these take time; and in any other, if it takes long.
RATE = """\
import time, torch
start = time.monotonic()
w = torch.ones(3, requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
rate = max(0.0, start + 1e-9 - time.monotonic())
for group in optimizer.param_groups:
    group["lr"] = rate
w.sum().backward()
optimizer.step()
"""


@pytest.mark.slow
def test_runs_that_agree_are_undecided_where_a_line_decides_by_the_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SCRIPTS, "rate", (RATE, ()))
    found = repeated(tmp_path, "rate", monkeypatch)
    assert (found.agrees, found.timed, len(found.runs)) == (True, ("train.py:5",), 3)
    assert "train.py:5" in repeated_headline(found)
    assert [*repeated_json(found)["timed"]] == ["train.py:5"]


def test_an_order_that_luck_may_have_made_alike_is_named_and_no_reason_to_doubt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = """\
        import torch
        from concurrent.futures import ThreadPoolExecutor, as_completed
        with ThreadPoolExecutor(1) as pool:
            numbers = [each.result() for each in as_completed([pool.submit(float)])]
        y = torch.tensor(numbers) * 2
        print("numbers", len(numbers))
        """
    monkeypatch.setitem(SCRIPTS, "order", (source, ()))
    found = repeated(tmp_path, "order", monkeypatch)
    assert (found.agrees, found.otherwise, found.timed, found.orders) == (True, "", (), ("train.py:4",))
    assert "train.py:4" in repeated_headline(found)
    assert [*repeated_json(found)["orders"]] == ["train.py:4"]


#: A run that is not recorded decides otherwise by the clock, however fast it is.
PLAIN = """\
import sys, time, torch
start = time.monotonic()
limit = {limit}
w, k = torch.ones(3, requires_grad=True), 0
if time.monotonic() < start + limit:
    k = 1
(w * k).sum().backward()
print("time 3 s, loss", k)
"""


@pytest.mark.parametrize(
    ("limit", "otherwise"),
    [
        ("""1e6 - 2e6 * ('"is_plain":true' in str(sys.orig_argv))""", "prints `~, loss 0` in place of `~, loss 1`"),
        pytest.param("1e6", "", marks=pytest.mark.slow),
    ],
)
def test_runs_that_agree_are_held_against_one_that_is_not_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, otherwise: str
) -> None:
    monkeypatch.setitem(SCRIPTS, "plain", (PLAIN.format(limit=limit), ()))
    found = repeated(tmp_path, "plain", monkeypatch)
    assert (found.agrees, found.otherwise, found.timed) == (not otherwise, otherwise, ("train.py:5",))
    assert len(found.runs) == 2
    assert [*repeated_json(found)["timed"]] == ["train.py:5"]
    assert [source.location for source in found.sources] == (["train.py:5"] if otherwise else [])
    assert "train.py:5" in repeated_headline(found)
    assert found.proven_lines == (("train.py:5",) if otherwise else ())
    assert ("Given the recorded runs' values there" in repeated_headline(found)) == bool(otherwise)


@pytest.mark.parametrize(
    ("base", "given", "compared", "only", "until", "proves"),
    [
        ([0, 0, 1, 1, 2, 2], [0], 1, (0, 0), 2, False),  # it ended at once: an old clock was given to a budget
        ([0, 0, 1, 1, 2, 2], [0, 0, 1, 1], 4, (0, 0), 2, False),
        ([0, 0, 1, 1], [0, 0, 1, 1, 2, 2], 4, (0, 0), 2, False),
        ([0] * 6, [0] * 3, 3, (0, 0), math.inf, False),  # without optimizer
        ([0, 0, 1, 1, 2, 2], [0, 0, 1, 1], 4, (0, 0), 1, True),  # ended after the step, as it was asked to
        ([0, 0, 0, 1, 1], [0, 0, 1, 1], 4, (1, 0), 1, True),  # the line itself made another number of calls
        ([0, 0, 1, 1], [0, 0, 1, 1], 4, (0, 0), math.inf, True),
    ],
)
def test_a_run_that_makes_fewer_calls_than_the_one_that_gave_its_values_proves_nothing(
    base: list[int], given: list[int], compared: int, only: tuple[int, int], until: float, proves: bool
) -> None:
    families = [{"": SimpleNamespace(values=_Calls(steps))} for steps in (base, given)]
    agreeing = Divergence(agrees=True, calls_compared=compared, calls=(len(base), len(given)), only=only)
    problem = _ends_early(agreeing, cast("Family", families[0]), cast("Family", families[1]), until)
    assert (not problem) == proves


@pytest.mark.slow
def test_a_librarys_line_is_named_with_the_programs_that_calls_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = repeated(tmp_path, "library", monkeypatch)
    first = found.sources[0]
    assert (first.location, first.called_from, first.source) == ("others.py:4", "train.py:4", "own-generator")
    assert any(held.agrees and held.lines == (first.location,) for held in found.held_lines)
    assert repeated_headline(found).startswith("`x = env.reset()` (train.py:4, which leads to others.py:4) makes")
    assert len(list((tmp_path / "runs").glob("run-*.values"))) <= MOST_RUNS


@pytest.mark.slow
def test_nothing_further_is_run_where_nothing_is_to_be_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = repeated(tmp_path, "clock", monkeypatch, hold=())
    assert not found.sources
    assert len(list((tmp_path / "runs").glob("*.values"))) == 2


@pytest.mark.slow
def test_a_generator_that_nobody_seeded_needs_no_further_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "train.py"
    script.write_text("import torch\nx = torch.ones(3)\ny = torch.rand(3) * x\n")
    monkeypatch.chdir(tmp_path)
    found = repeat_script(Asked(task=Task(target="train.py"), folder=tmp_path / "runs")).repeated
    assert [(source.location, source.kind) for source in found.sources] == [("train.py:3", LineKind.DRAW)]
    assert len(list((tmp_path / "runs").glob("*.values"))) == 2


#: A number that the last run left as it ended decides.
COUNTED = """\
import os, torch
def runs_before():
    return int(open("count").read()) if os.path.exists("count") else 7
n = runs_before()
x = torch.ones(3, requires_grad=True)
optimizer = torch.optim.SGD([x], lr=0.1)
(x * n).sum().backward()
optimizer.step()
with open("count", "w") as file:
    file.write(str(n + 1))
"""


@pytest.mark.parametrize("seconds", [60.0, pytest.param(1e-9, marks=pytest.mark.slow)])
def test_what_a_run_leaves_as_it_ends_is_named_by_the_line_that_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """Also where lines are followed in runs of their own: those that end with the step leave nothing."""
    monkeypatch.setattr("tracer.runner.repeated.repeating._LINE_SECONDS", seconds)
    monkeypatch.setitem(SCRIPTS, "counted", (COUNTED, ()))
    found = repeated(tmp_path, "counted", monkeypatch)
    first = found.sources[0]
    assert (first.location, first.first, first.second, first.reaches) == ("train.py:3", "7", "8", True)
    assert [held.agrees for held in found.held_lines] == [True]
    assert repeated_headline(found).startswith("`")
    assert repeated_json(found)["sources"][0]["location"] == first.location
    followed = {path.stem for path in (tmp_path / "runs").glob("*.lines")}
    whole = {"run-1", "run-2"} if seconds > 1 else {"run-1", "run-lines-3", "run-lines-4"}
    assert whole <= followed
    assert len(list((tmp_path / "runs").glob("run-*.values"))) <= MOST_RUNS


def _root(call: int, step: int = 0, **fields: Any) -> Root:
    return Root(cause=RootCause.INPUT_DATA, step=step, call=call, op="aten.add.Tensor", phase=Phase.FORWARD, **fields)


#: What a draw fills is loaded over; what is read of a number goes on.
OVERWRITTEN = """\
CALLS = []
weights = {first}
CALLS.append(weights is None)
weights = 5
CALLS.append(weights is None)
batch = {second}
CALLS.append(batch is None)
"""


@pytest.mark.parametrize("lasts", [(False, True), (True, False), (False, False), (True, True)])
def test_a_difference_that_is_gone_before_training_is_named_after_one_that_lasts(
    tmp_path: Path, lasts: tuple[bool, bool]
) -> None:
    for name, number in (("one", 300), ("two", 400)):
        traced(tmp_path, OVERWRITTEN.format(first=number, second=number + 1), name=name)
    roots = tuple(_root(call, reaches_training=last) for call, last in zip((0, 2), lasts, strict=True))
    found = Divergence(agrees=False, calls_compared=3, calls=(3, 3), roots=roots)
    compared = compared_traces(tmp_path / "one.json", tmp_path / "two.json", found)
    first = "program.py:6" if lasts == (False, True) else "program.py:2"
    assert compared.sources[0].location == first
    assert compared.first == {first}, "the first to be held alone"


def test_a_draw_that_trains_is_certain_before_one_that_is_loaded_over() -> None:
    seed = Seed(is_machines=True)
    made = replace(_root(0, location="model.py:3"), cause=RootCause.DRAW, name="cpu", seed=seed)
    dropped = replace(made, call=9, location="model.py:7", reaches_training=True)
    assert [source.location for source in certain((made, dropped))] == ["model.py:7", "model.py:3"]


@pytest.mark.parametrize("lasts", [True, False])
def test_runs_are_followed_to_the_step_in_which_a_difference_lasts(tmp_path: Path, lasts: bool) -> None:
    roots = (_root(0), _root(5, step=4, reaches_training=lasts))
    divergence = Divergence(agrees=False, calls_compared=1, calls=(2, 1), roots=roots)
    laboratory = _Laboratory(tmp_path, {"b.py:8": ["agrees"]})
    find_lines(laboratory, divergence, ComparedLines(sources=(OTHER,)))
    assert {*laboratory.until} == {4 if lasts else 0}


@pytest.mark.parametrize(("line", "named"), [("", "library.py:9"), ("unwritten-memory", "library.py:5")])
def test_memory_that_a_library_fills_is_not_why_its_call_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, named: str
) -> None:
    inside = tuple(
        LineSource(location=at, called_from="train.py:4", source=row, reaches=True)
        for at, row in (("library.py:5", "unwritten-memory"), ("library.py:9", "clock"))
    )
    monkeypatch.setattr(root_lines, "_followed", lambda *_: (ComparedLines(sources=inside), None))
    called = LineSource(location="train.py:4", source=line, may_call=("pytest.main",), reaches=True)
    drilled = root_lines._drilled(_Laboratory(tmp_path, {}), called, 0)
    assert drilled is not None
    assert (drilled.location, drilled.path[0]) == (named, "train.py:4")


@pytest.mark.parametrize(
    ("root", "leads"),
    [
        ({"name": "cpu"}, True),
        ({"name": "cuda:0", "seed": Seed(is_machines=True)}, True),
        ({"name": "cpu", "seed": Seed(location="train.py:2", first="3", second="4")}, False),
        ({"name": "cpu", "reaches_training": False}, False),
        ({"name": "cpu", "cause": RootCause.INPUT_DATA}, False),
    ],
)
@pytest.mark.parametrize(("problem", "is_shown"), [("", True), ("the script makes other calls then", False)])
def test_a_draw_that_a_leftover_hid_is_named_before_the_line_that_asks_for_it(
    root: dict[str, Any], leads: bool, problem: str, is_shown: bool
) -> None:
    shown = replace(_root(7, location="head.py:5"), **{"cause": RootCause.DRAW, "reaches_training": True, **root})
    asks = LineSource(location="load.py:2", source="file-exists", kind=LineKind.BRANCH, reaches=True)
    held = Held(
        circumstances=("folder",), agrees=False, runs=2, clause="the folder is new", first=shown, no_proof=problem
    )
    sources = with_diverging((asks,), [held])
    is_led = leads and is_shown
    assert [source.location for source in sources] == ["head.py:5", "load.py:2"][not is_led :]
    found = replace(compared(divergence(_root(1, location="load.py:3"))), sources=sources, held=(held,))
    assert ("differs first when the folder is new" in proof_of(found)) == is_led
    wheres = [step.where for step in next_steps(found)]
    assert wheres[: 1 + is_led] == [source.location for source in sources]
    assert ("load.py:3" in wheres) == (not is_led)
