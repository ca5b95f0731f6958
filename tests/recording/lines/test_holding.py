"""What a line gave in one run is given to another one, in what the program has there."""

from __future__ import annotations

import gc
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy
import pytest
import torch

from tracer.recording.lines import holding
from tracer.recording.lines.holding import Unkeepable, given, kept_form, problem_of
from tracer.recording.lines.recording import LineRecording
from tracer.recording.options import LineOptions
from tracer.recording.origin import USER, Site, spell
from tracer.trace.lines import RESULT


def run(
    folder: Path,
    source: str,
    line: int | str,
    *,
    gives: bool,
    name: str = "a",
    is_branch: bool = False,
    is_chosen: bool = False,
    draws: str = "",
) -> dict[str, Any]:
    """Run ``source``, whose line is held; return its names."""
    file, names = folder / "program.py", {"__name__": "__main__"}
    file.write_text(source, encoding="utf-8")
    at = held_at(folder, line)
    drawing = (f"{draws} {at}",) if draws else ()
    asked = LineOptions(
        held=(at,),
        branches=(at,) * is_branch,
        chosen=(at,) * is_chosen,
        draws=drawing,
        folder=str(folder),
        gives=gives,
    )
    lines = LineRecording(folder / f"{name}.lines", [str(folder)], asked)
    lines.start()
    try:
        exec(compile(source, str(file), "exec"), names)
    finally:
        lines.stop()
    names["problem"] = problem_of(folder, at)
    return names


def held_at(folder: Path, line: int | str) -> str:
    """A line of the program in ``folder``, as locations spell it."""
    program = spell(Site(str(folder / "program.py"), 0, "", USER, str(Path.cwd())))
    return f"{program.rpartition(':')[0]}:{line}"


@pytest.mark.parametrize("own", [[5, 6, 107], [107, 6, 5], [127, 83, 5], [107, 107, 83], [127, 107, 83]])
def test_objects_of_a_list_that_hold_what_another_place_is_given_are_no_others(tmp_path: Path, own: list[int]) -> None:
    source = "class C:\n    def __init__(self, k): self.x = k\nc = [C(k) for k in OWN]\ny = [each.x for each in c]\n"
    first = [83, 107, 127]
    run(tmp_path, source.replace("OWN", str(first)), 3, gives=False)
    assert run(tmp_path, source.replace("OWN", str(own)), 3, gives=True)["y"] == first


@pytest.mark.parametrize("line", [2, 4])
def test_an_environment_variable_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: int) -> None:
    source = "import os\nos.environ['TRACER_N'] = OWN\nenviron = os.environ\nenviron['TRACER_N'] += OWN\n"
    source += "y = os.popen('echo $TRACER_N').read().strip()\n"
    monkeypatch.setenv("TRACER_N", "0")
    run(tmp_path, source.replace("OWN", "'1'"), line, gives=False)
    monkeypatch.setenv("TRACER_N", "0")
    assert run(tmp_path, source.replace("OWN", "'2'"), line, gives=True)["y"] == {2: "12", 4: "11"}[line]


def test_each_child_process_is_given_its_own_values(tmp_path: Path) -> None:
    source = "import os\nx = os.urandom(4)\ny = x\n"
    kept = {role: run(tmp_path, source, 2, gives=False, name=f"kept.child-{role}")["y"] for role in ("1", "2")}
    given = {role: run(tmp_path, source, 2, gives=True, name=f"given.child-{role}")["y"] for role in ("2", "1")}
    assert given == kept


#: What draws from a generator that nothing seeded, and on which line.
DRAWS = {
    "a function of which nothing is seen": ("python", "t = (random.random() for _ in range(9))\ny = [*t]\n", 3),
    "a statement that goes on": ("numpy", "y = [\n    1,\n    *numpy.random.rand(3),\n]\n", 4),
    "a loop": ("torch", "y = []\nfor _ in range(3):\n    y += torch.rand(2).tolist()\n", 4),
    "a first line": ("python", "def f():\n    return random.random(), random.random()\ny = f()\n", 3),
}


@pytest.mark.parametrize("name", DRAWS)
def test_what_a_line_draws_follows_from_the_state_before_it(tmp_path: Path, name: str) -> None:
    generator, source, line = DRAWS[name]
    source = f"import numpy, random, torch\n{source}"
    ys = []
    for gives in (False, True):
        numpy.random.seed(), torch.seed()
        ys.append(run(tmp_path, source, line, gives=gives, draws=generator)["y"])
    assert [*ys[0]] == [*ys[1]]


def test_a_name_of_another_run_is_given_as_what_it_is_in_this_one(tmp_path: Path) -> None:
    source = "import os, tempfile\nfolder = tempfile.mkdtemp()\npaths = [os.path.join(folder, k) for k in ORDER]\n"
    source += "open(paths[0], 'w').close()\ny = [os.path.relpath(path, folder) for path in paths]\n"
    run(tmp_path, source.replace("ORDER", "'ab'"), 3, gives=False)
    assert run(tmp_path, source.replace("ORDER", "'ba'"), 3, gives=True)["y"] == ["a", "b"]


@pytest.mark.parametrize(
    "made",
    [
        "pandas.Timestamp(SEED, unit='s') - frame['seen']",
        "pandas.Index([SEED, 2])",
        "pandas.Series([SEED, 2], index=frame['seen'].index)",
        "frame['seen'].groupby([SEED, 2]).first().index",
    ],
)
def test_what_a_package_can_only_pickle_as_a_whole_is_given(tmp_path: Path, made: str) -> None:
    pytest.importorskip("pandas")
    source = "import pandas\nframe = pandas.DataFrame({'seen': pandas.to_datetime([1, 2], unit='s')})\n"
    source += f"made = {made}\ny = [str(each) for each in made]\n"
    kept, given, own = (
        run(tmp_path, source.replace("SEED", seed), line, gives=gives)
        for seed, line, gives in (("5", 3, False), ("7", 3, True), ("7", 4, False))
    )
    assert (given["y"], given["problem"]) == (kept["y"], "")
    assert own["y"] != kept["y"]


def test_a_file_that_a_line_opens_is_given_wholly_or_not_at_all(tmp_path: Path) -> None:
    source = "class Reply(__import__('io').BytesIO):\n    pass\nr = Reply(b'abc')\nr.size = SIZE\ny = r.size\n"
    source += "def make():\n    made = Reply(b'')\n    made.size = SIZE\n    return made\nr = make()\ny = r.size\n"
    run(tmp_path, source.replace("SIZE", "3"), 10, gives=False)
    given = run(tmp_path, source.replace("SIZE", "4"), 10, gives=True)
    assert (given["y"], "Reply" in given["problem"]) == (4, True)


#: Two threads, of which another one is first in each run, and what their line gives.
THREADS = {
    "by their names": "def work():\n    x = os.urandom(4)\n    y[threading.current_thread().name] = x\n",
    "in an object of their own": (
        "class T(threading.Thread):\n    def __init__(self, k):\n        super().__init__()\n        self.k = k\n"
        "    def run(self):\n        x = os.urandom(4)\n        y[self.k] = x\n"
    ),
    "by their tasks": "def work(k):\n    x = os.urandom(4)\n    y[k] = x\n",
}
STARTS = {
    "by their names": "threads = [threading.Thread(target=work, name=k) for k in 'ab']\n",
    "in an object of their own": "threads = [T(0), T(1)]\n",
    "by their tasks": "threads = [threading.Thread(target=work, args=(k,), name='') for k in (ORDER)]\n",
}


@pytest.mark.parametrize("name", THREADS)
def test_a_thread_is_given_what_it_had_itself_whichever_is_first(tmp_path: Path, name: str) -> None:
    ys = []
    for gives, order in ((False, "0, 1"), (True, "1, 0")):
        source = (
            f"import os, threading\ny = {{}}\n{THREADS[name]}{STARTS[name].replace('ORDER', order)}"
            f"for k in {order}:\n    threads[k].start()\n    threads[k].join()\n"
        )
        ys.append(
            run(tmp_path, source, THREADS[name][: THREADS[name].index("urandom")].count("\n") + 3, gives=gives)["y"]
        )
    assert len(ys[0]) == 2
    assert ys[0] == ys[1]


def test_a_thread_that_nothing_was_kept_of_says_so(tmp_path: Path) -> None:
    source = "import os, threading\ndef work():\n    x = os.urandom(4)\nt = threading.Thread(target=work, name=NAME)\n"
    source += "t.start(); t.join()\n"
    run(tmp_path, source.replace("NAME", "'a'"), 3, gives=False)
    assert "other threads" in run(tmp_path, source.replace("NAME", "'b'"), 3, gives=True)["problem"]


def test_what_cannot_be_kept_matters_where_it_is_what_differs(tmp_path: Path) -> None:
    source = "import os, threading\nopened = [threading.Lock()]; n = os.urandom(1)[0]\n"
    run(tmp_path, source, 2, gives=False)
    at = held_at(tmp_path, 2)
    assert problem_of(tmp_path, at).startswith("opened holds a _thread.lock")
    assert problem_of(tmp_path, at, ("opened",)) == problem_of(tmp_path, at)
    assert not problem_of(tmp_path, at, ("n",))


SOURCES = {
    "a number": ("import time\nx = time.perf_counter()\ny = x * 2\n", 2),
    "an order": ("import os\nx = [*os.urandom(20)]\ny = x[::-1]\n", 2),
    "a generator of Python's": ("import random\nx = random.Random()\ny = [x.random() for i in range(3)]\n", 2),
    "a generator among a function's defaults": (
        "import numpy\ndef x(own=numpy.random.default_rng()): return list(own.integers(0, 99, 9))\ny = x()\n",
        2,
    ),
    "a generator of NumPy's": ("import numpy\nx = numpy.random.default_rng()\ny = list(x.integers(0, 99, 9))\n", 2),
    "a state of NumPy's": ("import numpy\nx = numpy.random.RandomState()\ny = list(x.randint(0, 99, 9))\n", 2),
    "a generator of torch's": (
        "import torch\nx = torch.Generator(); x.seed()\ny = torch.rand(4, generator=x).tolist()\n",
        2,
    ),
    "an array": ("import numpy\nx = numpy.random.default_rng().random(4)\ny = list(x)\n", 2),
    "a tensor": (
        "import torch\nx = torch.rand(4, generator=(g := torch.Generator()), out=None) + g.seed()\ny = x.tolist()\n",
        2,
    ),
    "the global generator": ("import random\nrandom.seed()\ny = random.random()\n", 2),
    "a loop's variable": ("import os\ny = []\nfor x in os.urandom(8):\n    y.append(x)\n", 3),
    "a local": ("import os\ndef work():\n    x = os.urandom(8)\n    return x\ny = work()\n", 3),
    "a cell": (
        "import os\ndef work():\n    x = os.urandom(8)\n    def inner(): return x\n    return inner\ny = work()()\n",
        3,
    ),
    "an attribute": ("import os\nclass C:\n    def __init__(self): self.x = os.urandom(8)\nc = C()\ny = c.x\n", 3),
    "a global of a function": ("import os\ndef work():\n    global x\n    x = os.urandom(8)\nwork()\ny = x\n", 4),
    "slots": (
        "import os\nclass C:\n    __slots__ = ('x',)\n    def __init__(self): self.x = os.urandom(8)\ny = C().x\n",
        4,
    ),
    "objects that a list makes": (
        "import os\nclass C:\n    def __init__(self, k): self.x = k\nc = [C(k) for k in os.urandom(3)]\n"
        "y = [each.x for each in c]\n",
        4,
    ),
    "a default argument": ("import os\ndef work(x=os.urandom(8)): return x\ny = work()\n", 2),
    "state of C's": (
        "import functools, os\nx = functools.partial(max, os.urandom(8), b'')\ny = x()\n",
        2,
    ),
    "an object that a call changes, and that leads back to itself": (
        "import random\nclass C: pass\nc = C(); c.me = c; c.d = {k: {} for k in range(9)}\n"
        "random.SystemRandom().shuffle(c.__dict__.setdefault('k', [*range(30)]))\ny = c.k\n",
        4,
    ),
    "the order of a dict": (
        "import random\nx = dict.fromkeys(random.SystemRandom().sample('abcdefghijklmnop', 16))\ny = [*x]\n",
        2,
    ),
    "a list that others hold": (
        "import random\nclass C: pass\nc = C(); c.order = order = [*range(40)]\nd = C(); d.c = c; d.own = [c]\n"
        "random.SystemRandom().shuffle(c.order)\ny = [*order]\n",
        5,
    ),
    "an object that a loop takes out of a set": (
        "import random\nclass C:\n    def __init__(self, k): self.k = k\nheld = [C(k) for k in range(30)]\ny = []\n"
        "for c in random.SystemRandom().sample(held, 30):\n    y.append(c.k)\n    c.seen = len(y)\n"
        "y += [c.seen for c in held]\n",
        6,
    ),
    "a module that a loop takes": (
        "import random, torch\nheld = [torch.nn.Linear(1, k) for k in range(1, 9)]\ny = []\n"
        "for m in random.SystemRandom().sample(held, 8): y.append(m.out_features)\n",
        4,
    ),
    "a parameter that a loop takes": (
        "import random, torch\nheld = [torch.nn.Parameter(torch.ones(2) * k) for k in range(9)]\ny = []\n"
        "for p in random.SystemRandom().sample(held, 9): y.append([each is p for each in held])\n",
        4,
    ),
    "the order of parameters in a list": (
        "import random, torch\nheld = [torch.nn.Parameter(torch.ones(2) * k) for k in range(9)]\norder = [*held]\n"
        "random.SystemRandom().shuffle(order)\ny = [[each is p for each in held] for p in order]\n"
        "y += [p.tolist() for p in held]\n",
        4,
    ),
    "the order of objects in a list": (
        "import random\nclass C:\n    def __init__(self, k): self.k = k\nheld = [C(k) for k in range(30)]\n"
        "order = [*held]\nrandom.SystemRandom().shuffle(order)\n"
        "y = [c.k for c in order] + [held.index(c) for c in order]\n",
        6,
    ),
    "what is awaited, however often it waits": (
        "import asyncio, random\nasync def read():\n    n = random.SystemRandom().randrange(1, 10**6)\n"
        "    for k in range(n % 7): await asyncio.sleep(0)\n    return n\n"
        "async def main():\n    x = await read()\n    return x\ny = asyncio.run(main())\n",
        7,
    ),
    "an object that is returned at once": (
        "import os\nclass C:\n    def __init__(self, k): self.k = [k]\ndef make():\n    return C(os.urandom(5))\n"
        "y = make().k\n",
        5,
    ),
    "a list that is returned at once": (
        "import os\ndef make():\n    return list(os.urandom(5))\ny = [*make()]\n",
        3,
    ),
    "a tensor that is returned with others": (
        "import os, torch\ndef make(k):\n    return torch.ones(3) * int.from_bytes(os.urandom(5), 'big'), k\n"
        "y = make(1)[0].tolist()\n",
        3,
    ),
    "an array that is returned": (
        "import os, numpy\ndef make():\n    return numpy.arange(3) + sum(os.urandom(99)) * os.urandom(1)[0]\n"
        "y = [*make()]\n",
        3,
    ),
    "bytes that others hold": ("import os\nb = bytearray()\nt = [b]\nb.extend(os.urandom(9))\ny = bytes(t[0])\n", 4),
    "a generator in an object that leads to others": (
        "import threading, torch\nclass C: pass\nc = C(); c.g = torch.Generator(); c.d = C(); c.d.c = c; c.d.k = 0\n"
        "def f():\n    c.g.seed()\n    c.d.k += 1\n    return torch.rand(3, generator=c.g).tolist()\ny = f()\n",
        5,
    ),
    "a generator of a module": (
        "import torch\nclass M(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.g, self.p = torch.Generator(), torch.nn.Parameter(torch.zeros(2))\n        self.g.seed()\n"
        "m = M()\ny = torch.rand(3, generator=m.g).tolist()\n",
        6,
    ),
    "what a module counts by": (
        "import os, torch\nclass M(torch.nn.Module):\n    def set(self):\n"
        "        self.k, self.z.data[0] = [*os.urandom(3)], 5\n"
        "m = M()\nm.z = torch.zeros(2)\nm.set()\ny = m.k\n",
        4,
    ),
    "a module": ("import torch\ntorch.seed()\nx = torch.nn.Linear(3, 2)\ny = x.weight.tolist()\n", 3),
    # What a call is given: the arguments of the function at that line.
    "numbers and texts of a call": (
        "import os\ndef work(a, b='x', *c, **d):\n    return a, b, c, d\n"
        "y = work(os.urandom(3), os.urandom(3).hex(), *os.urandom(2), k=[*os.urandom(2)])\n",
        "2()",
    ),
    "an argument that an inner function reads": (
        "import os\ndef work(a):\n    def inner(): return a\n    return inner()\ny = work(os.urandom(3))\n",
        "2()",
    ),
    "an argument of a generator": ("import os\ndef work(a):\n    yield a\ny = [*work(os.urandom(3))]\n", "2()"),
    "an argument of the program's own kind": (
        "import os\nclass C:\n    def __init__(self, k): self.k = k\ndef work(c): return c.k\n"
        "y = work(C(os.urandom(3)))\n",
        "4()",
    ),
    "an argument beside what cannot be given": (
        "import os, threading\ndef work(a, lock):\n    return a\ny = work(os.urandom(3), threading.Lock())\n",
        "2()",
    ),
}


def test_a_branch_that_ends_inside_its_line_cannot_be_given(tmp_path: Path) -> None:
    source = "import os\ndef work():\n    if os.urandom(9)[0] < K: return 1\n    return 2\ny = work()\n"
    run(tmp_path, source.replace("K", "256"), 3, gives=False, is_branch=True)
    found = run(tmp_path, source.replace("K", "0"), 3, gives=True, is_branch=True)
    assert found["y"] == 2
    assert found["problem"]


@pytest.mark.parametrize("name", SOURCES)
def test_a_run_that_is_given_a_lines_values_agrees(tmp_path: Path, name: str) -> None:
    source, line = SOURCES[name]
    first = run(tmp_path, source, line, gives=False)
    free: dict[str, Any] = {}
    exec(source, free)
    assert free["y"] != first["y"]
    second = run(tmp_path, source, line, gives=True)
    assert second["y"] == first["y"]
    is_late = "a list makes" in name  # a name of the comprehension: the list is given
    assert bool(second["problem"]) is ("cannot be given" in name or is_late)


@pytest.mark.parametrize("place", ["", "def work():\n    global x\n    ", "class C: pass\nc = C()\n"])
def test_a_value_that_is_by_chance_the_one_before_is_given(tmp_path: Path, place: str) -> None:
    name, indent = ("c.x" if "class" in place else "x"), "    " if "def" in place else ""
    loop = f"for {name} in drawn:\n{indent}    y.append({name})\n"
    source = f"y = []\ndrawn = {{}}\n{place}{loop}" + ("work()\n" if indent else "")
    at = source[: source.index("for ")].count("\n") + 1
    first = run(tmp_path, source.format("[3, 3, 5, 5, 5]"), at, gives=False)
    second = run(tmp_path, source.format("[3, 4, 5, 6, 7]"), at, gives=True)
    assert second["y"] == first["y"] == [3, 3, 5, 5, 5]


def test_what_a_name_is_bound_to_anew_stays_as_it_is(tmp_path: Path) -> None:
    source = "import os\nlists = [[1, 2], [3, 4]]\nx = lists[DRAWN]\ny = (lists, x)\n"
    run(tmp_path, source.replace("DRAWN", "0"), 3, gives=False)
    assert run(tmp_path, source.replace("DRAWN", "1"), 3, gives=True)["y"] == ([[1, 2], [3, 4]], [1, 2])


def test_an_object_that_only_holds_what_the_line_names_is_not_given(tmp_path: Path) -> None:
    source = (
        "import os\nclass C: pass\nc = C(); d = C(); c.rows = []; d.inner = c; d.told = TOLD\n"
        "c.rows.append(os.urandom(3))\ny = (c.rows, d.told, d.inner is c)\n"
    )
    rows = run(tmp_path, source.replace("TOLD", "1"), 4, gives=False)["y"][0]
    assert run(tmp_path, source.replace("TOLD", "2"), 4, gives=True)["y"] == (rows, 2, True)


@pytest.mark.parametrize("drawn", [["[1]", "[1, 2, 3]"], ["[]", "[1, 2]"], ["[1, 2]", "[]"]])
def test_a_comprehension_that_runs_more_often_is_given_its_result(tmp_path: Path, drawn: list[str]) -> None:
    source = "def work():\n    x = [k * 2 for k in {}]\n    return x\ny = work()\n"
    first = run(tmp_path, source.format(drawn[0]), 2, gives=False)
    assert run(tmp_path, source.format(drawn[1]), 2, gives=True)["y"] == first["y"]


def test_what_cannot_be_held_says_so(tmp_path: Path) -> None:
    source = "import socket\nx = socket.socket()\nx.close()\n"
    names = run(tmp_path, source, 2, gives=False)
    assert "socket" in names["problem"]


@pytest.mark.parametrize("made", ["int(os.urandom(1)[0])", "tuple(os.urandom(3))", "KEPT[0]"])
def test_a_result_that_is_no_object_of_its_own_is_not_given_where_it_is_returned(tmp_path: Path, made: str) -> None:
    source = f"import os\nKEPT = [[1]]\ndef work():\n    return {made}\ny = work()\n"
    run(tmp_path, source, 4, gives=False)
    assert problem_of(tmp_path, held_at(tmp_path, 4), (RESULT,))


def test_a_line_that_stores_nothing_gives_nothing(tmp_path: Path) -> None:
    source = "def work(k):\n    return k * 2\ny = work(3)\n"
    assert run(tmp_path, source, 2, gives=False)["problem"] == "nothing of it could be kept"


def test_an_object_that_reads_from_a_file_is_not_given(tmp_path: Path) -> None:
    source = "import io, os\nx = [open(__file__)]\nx[0].close()\n".replace("__file__", "os.devnull")
    names = run(tmp_path, source, 2, gives=False)
    assert names["problem"] == "x holds a _io.TextIOWrapper, of which no copy can be kept"


def test_parameters_stay_the_same_objects(tmp_path: Path) -> None:
    source = dedent("""\
        import torch
        torch.seed()
        net = torch.nn.Linear(2, 1)
        before = [id(p) for p in net.parameters()]
        """)
    run(tmp_path, source, 3, gives=False)
    second = run(tmp_path, source, 3, gives=True)
    assert second["before"] == [id(p) for p in second["net"].parameters()]


def test_a_module_of_another_shape_is_not_given() -> None:
    with pytest.raises(Unkeepable):
        given(kept_form(torch.nn.Linear(2, 3)), torch.nn.Linear(2, 2))


def test_no_code_is_kept() -> None:
    with pytest.raises(Unkeepable):
        kept_form(open)


@pytest.mark.parametrize(
    "value", [1.5, "a", (1, [2, {"b": None}]), {3}, numpy.arange(3), torch.ones(2, dtype=torch.bfloat16)]
)
def test_values_come_back_as_they_were(value: Any) -> None:
    back = given(kept_form(value), None)
    assert type(back) is type(value)
    assert repr(back) == repr(value)


#: A loop that ends by the clock, and one that goes on by chance: what decides has no name.
DECIDING = {
    "a deadline": (
        "import time\nend = time.monotonic() + 0.02\ndef left():\n    return end - time.monotonic()\ny = 0\n"
        "while y < 10**6:\n    if left() <= 0:\n        break\n    y += 1\n",
        7,
    ),
    "chance": (
        "import random\nr, y = random.Random(), 0\ndef goes_on():\n    return r.random() < 0.99\n"
        "while y < 3 or goes_on():\n    y += 1\n",
        5,
    ),
}


@pytest.mark.parametrize("name", DECIDING)
def test_a_branch_is_taken_as_often_as_in_the_run_that_was_kept(tmp_path: Path, name: str) -> None:
    source, line = DECIDING[name]
    first, second = (run(tmp_path, source, line, gives=gives, is_branch=True) for gives in (False, True))
    assert (second["y"], second["problem"]) == (first["y"], "")


#: Sets that are gone through in the order in which they were filled, ``OWN``.
SETS = {
    "numbers": "s = {*OWN}\ny = [*s]\n",
    "numbers, of which the first is taken": "s = {*OWN}\ny = s.pop()\n",
    "objects of which no copy can be kept": (
        "import threading\nclass C:\n    def __init__(self, k): self.k, self.lock = k, threading.Lock()\n"
        "    def __hash__(self): return 1\ns = {C(k) for k in OWN}\ny = [each.k for each in s]\n"
    ),
}


@pytest.mark.parametrize("name", SETS)
def test_a_set_is_gone_through_in_the_order_that_was_kept(tmp_path: Path, name: str) -> None:
    source = SETS[name]
    line = source.count("\n")
    first = run(tmp_path, source.replace("OWN", "[0, 8, 16]"), line, gives=False, is_chosen=True)["y"]
    free: dict[str, Any] = {}
    exec(source.replace("OWN", "[16, 8, 0]"), free)
    given = run(tmp_path, source.replace("OWN", "[16, 8, 0]"), line, gives=True, is_chosen=True)
    assert free["y"] != given["y"] == first
    assert type(given["s"]) is set
    assert len(given["s"]) == (2 if "pop" in source else 3)
    assert not problem_of(tmp_path, held_at(tmp_path, line), [RESULT])


NAMED = "import threading\nthreads = [threading.Thread(name=NAMES[n]) for n in range(3)]\n"
NAMED += "y = threads[OWN]\nplace = threads.index(y)\n"


@pytest.mark.parametrize(("names", "is_told"), [("'abc'", True), ("'aba'", False)])
def test_an_object_without_a_copy_is_the_one_of_its_class_that_it_was(
    tmp_path: Path, names: str, is_told: bool
) -> None:
    source = NAMED.replace("NAMES", names)
    first = run(tmp_path, source.replace("OWN", "2"), 3, gives=False, is_chosen=True)["place"]
    gc.collect()
    given = run(tmp_path, source.replace("OWN", "1"), 3, gives=True, is_chosen=True)
    assert (first, given["place"], not given["problem"]) == (2, 2 if is_told else 1, is_told)


def test_a_line_that_is_executed_too_often_is_not_followed_any_further(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holding, "_MOST", 20)
    lines: list[LineRecording] = []
    monkeypatch.setattr(LineRecording, "stop", lambda self, stop=LineRecording.stop: (lines.append(self), stop(self)))
    source = "def work(k):\n    x = k\n    return x\nfor k in range(30):\n    y = work(k)\n"
    assert "more often" in run(tmp_path, source, 2, gives=False)["problem"]
    assert not any(code.held for code in lines[0]._codes.values())


def test_a_condition_that_calls_nothing_decides_by_what_it_read(tmp_path: Path) -> None:
    source = "due = OWN\ndef work():\n    if due: return 1\n    return 2\ny = work()\n"
    run(tmp_path, source.replace("OWN", "True"), 3, gives=False, is_branch=True)
    found = run(tmp_path, source.replace("OWN", "False"), 3, gives=True, is_branch=True)
    assert (found["y"], found["due"], found["problem"]) == (1, True, "")
