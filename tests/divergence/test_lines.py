"""Two runs, line by line: which lines are roots, and what they reach."""

from __future__ import annotations

import asyncio
import functools
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from textwrap import dedent
from threading import Event, Thread
from types import ModuleType
from typing import NamedTuple

import msgspec
import numpy
import pytest
import torch

from tests.support.traced import traced
from tracer.divergence.lines import ComparedLines, LineKind, LineSource, compared_lines
from tracer.divergence.repeated import rows_of
from tracer.errors import TableError
from tracer.runner.repeated.declared import Circumstance
from tracer.tables.rules import parse
from tracer.tables.sources import SOURCES, SourceTable, source_of
from tracer.trace.lines import GENERATOR, RESULT, Entered, LineCode, LineRecord, LineRow, LineText, Text, read_lines


def compared(folder: Path, source: str, second: str = "") -> ComparedLines:
    """Two runs of ``source``, compared; ``second``: what stands for ``A`` in the second run."""
    runs = [
        {"": traced(folder, f"A = {value}\n{dedent(source)}", name=name)}
        for name, value in (("a", "1"), ("b", second or "1"))
    ]
    return compared_lines(*runs)


def two(
    folder: Path,
    source: str,
    k: Sequence[str] = ("K", "K"),
    *,
    calls: Sequence[int] = (),
    before: Callable[[str], object] = lambda run: None,
) -> ComparedLines:
    """Two runs of ``source``, compared; ``k``: what stands for ``K`` in each; ``before``: what comes before a run."""
    runs = []
    for name, own in zip("ab", k, strict=True):
        before(name)
        runs.append({"": traced(folder, dedent(source).replace("K", own), name=name)})
    return compared_lines(*runs, calls)


def reaching(result: ComparedLines) -> list[LineSource]:
    """The roots that reach the calls that were asked for."""
    return [source for source in result.sources if source.reaches]


def at(sources: Iterable[LineSource]) -> list[int]:
    """Their line numbers."""
    return [int(source.location.rpartition(":")[2]) for source in sources]


class Beside(NamedTuple):
    """A folder for programs, beside one of modules that are somebody else's."""

    own: Path
    others: Path
    patch: pytest.MonkeyPatch

    def before(self, run: str) -> None:
        """Each run imports those modules anew, and they know which one it is."""
        self.patch.setenv("RUN", run)
        for path in self.others.glob("*.py"):
            sys.modules.pop(path.stem, None)


@pytest.fixture
def beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Beside]:
    found = Beside(tmp_path / "own", tmp_path / "site-packages", monkeypatch)
    found.own.mkdir()
    found.others.mkdir()
    monkeypatch.syspath_prepend(found.others)
    yield found
    found.before("over")


def lines_of(result: ComparedLines) -> list[tuple[int, LineKind]]:
    """Line and kind of each root."""
    return [(int(source.location.rpartition(":")[2]), source.kind) for source in result.sources]


ROOTS = {
    "a clock": ("import time\nx = 1\ny = time.perf_counter()\nz = x + y\n", [(4, LineKind.LINE)]),
    "two of them": (
        "import os\na = os.urandom(4)\nb = a + b'x'\nc = os.urandom(4)\n",
        [(3, LineKind.LINE), (5, LineKind.LINE)],
    ),
    "a draw": (
        "import random\nx = random.random()\ny = 2 * x\nz = random.random()\n",
        [(3, LineKind.DRAW), (5, LineKind.DRAW)],
    ),
    "a seed": ("import os, random\ns = os.urandom(2)\nrandom.seed(s)\nx = random.random()\n", [(3, LineKind.LINE)]),
    "a draw beside an entry that is called a seed": (
        "import random\nraw = {'seed': None}\ndef use(n): return n\nx = use(raw['seed'] or random.random())\n",
        [(5, LineKind.DRAW)],
    ),
    "a draw beside an attribute that is called a seed": (
        "import random\nclass C:\n    def __init__(self):\n        self.seed = 0\nx = C()\n"
        "y = x.seed + random.random()\n",
        [(7, LineKind.DRAW)],
    ),
    "a seed without a number": ("import random\nrandom.seed()\nx = random.random()\n", [(3, LineKind.LINE)]),
    "a seed of torch's": (
        "import os, torch\ntorch.seed()\ntorch.manual_seed(hash(os.urandom(9)))\nx = torch.rand(2)\n",
        [(3, LineKind.LINE), (4, LineKind.LINE)],
    ),
    "a seed by a function of another name": (
        "import os, random\ndef setup(n): random.seed(n)\nk = os.urandom(3)\nsetup(k)\nx = random.random()\n",
        [(4, LineKind.LINE)],
    ),
    "an attribute of a class": (
        "import os\nclass C:\n    k = 1\n    t = os.urandom(3)\n    def use(self):\n        u = self.t\n"
        "        return u\nx = C().use()\ny = C.t\n",
        [(5, LineKind.LINE)],
    ),
    "an attribute that a class is given": (
        "import os\nclass C:\n    t = 1\nC.t = os.urandom(2)\ndef use(c):\n    return c.t\nx = use(C())\n",
        [(5, LineKind.LINE)],
    ),
    "a seed alike": ("import random\nx = random.random()\nrandom.seed(0)\ny = random.random()\n", [(3, LineKind.DRAW)]),
    "an attribute of a module beside one that differs": (
        "import os, torch\nclass M(torch.nn.Module):\n    def __init__(self, base):\n        super().__init__()\n"
        "        self.base = base\n        self.scale = 2 / 3\n"
        "m = M(torch.nn.Parameter(torch.full((2,), float(int.from_bytes(os.urandom(3), 'big')))))\n",
        [(8, LineKind.LINE)],
    ),
    "seeds of generators": (
        "import numpy\nseeds = numpy.random.SeedSequence().spawn(2)\nr = numpy.random.default_rng(seeds[0])\n",
        [(3, LineKind.LINE)],
    ),
    "a generator of one's own": ("import random\nr = random.Random()\nx = r.random()\n", [(3, LineKind.LINE)]),
    "in a function": (
        "import os\ndef inner():\n    return os.urandom(3)\ndef outer():\n    t = inner()\n    return t\nx = outer()\n",
        [(4, LineKind.LINE)],
    ),
    "an argument": (
        "import os\ndef work(a, b):\n    return a + b\nx = work(b'1', os.urandom(4))\n",
        [(5, LineKind.LINE)],
    ),
    "an attribute": (
        "import os\nclass C:\n    def __init__(self):\n        self.t = os.urandom(3)\n        self.k = 1\n"
        "    def use(self):\n        return self.k\nc = C()\nx = c.use()\n",
        [(5, LineKind.LINE)],
    ),
    "a global of a function": (
        "import os\nseen = []\ndef note():\n    seen.append(os.urandom(2))\nnote()\nx = seen[0]\n",
        [(5, LineKind.LINE)],
    ),
    "the order in which a dict is filled": (
        "import random\nd = dict.fromkeys(random.SystemRandom().sample('abcdefghijklmnop', 16))\nfirst = [*d]\n",
        [(3, LineKind.LINE)],
    ),
    "the order in which things are counted": (
        "import collections, random\nc = collections.Counter()\n"
        "c.update(random.SystemRandom().sample(range(400), 16))\nx = c.most_common(9)\n",
        [(4, LineKind.LINE)],
    ),
    "a comprehension over what differs": (
        "import os\nx = [*os.urandom(5)]\ny = [1000 + k for k in x]\nz = {k: str(k) for k in y}\n",
        [(3, LineKind.LINE)],
    ),
    "a loop over what a function returns": (
        "import os\ndef work():\n    x = os.urandom(9)\n    return [*x]\nfor y in work():\n    z = 1000 + y\n",
        [(4, LineKind.LINE)],
    ),
    "a clock beside another reading of it": (
        "import time\na = time.time()\nb = time.time() + a\n",
        [(3, LineKind.LINE), (4, LineKind.LINE)],
    ),
    "a branch on what differs": (
        "import os\nk = os.urandom(8)\nx = 1\nfor byte in k:\n    if byte % 2:\n        x += byte\ny = x\n",
        [(3, LineKind.LINE)],
    ),
    "numbers of the system in a thread's object": (
        "import threading\nthreads = [threading.Thread(target=int) for k in range(2)]\n"
        "for t in threads:\n    t.start()\n    t.join()\n",
        [],
    ),
    "nothing": ("import random\nrandom.seed(0)\nx = random.random()\n", []),
}


@pytest.mark.parametrize("name", ROOTS)
def test_the_root_is_the_line_whose_values_differ_although_all_that_it_reads_agrees(tmp_path: Path, name: str) -> None:
    source, roots = ROOTS[name]
    assert lines_of(compared(tmp_path, source)) == roots


def test_a_line_that_reads_what_is_not_seen_is_told_from_others(tmp_path: Path) -> None:
    program = """
        import functools, os
        rows = iter(functools.partial(os.urandom, 3), b"")
        x = next(rows)
        y = os.urandom(3)
    """
    assert [(source.names, source.is_blind) for source in compared(tmp_path, program).sources] == [
        (("x",), True),
        (("y",), False),
    ]


def test_of_what_shows_no_value_the_line_that_gave_it_is_told(tmp_path: Path) -> None:
    program = "def made():\n    return iter([K])\nrows = made()\nx = 1\ny = next(rows)\n"
    (root,) = two(tmp_path, program, "12").sources
    assert (root.location, root.opaque) == ("program.py:5", "`rows` (program.py:3)")


#: Programs by which a generator comes to differ, and the row of the line.
GENERATORS = {
    "a dataclass's": (
        "@dataclasses.dataclass\nclass P:\n    r: random.Random = dataclasses.field(default_factory=random.Random)\n"
        "p = P()\nx = p.r.random()\n",
        ("p.r", "own-generator"),
    ),
    "NumPy's": ("g = [numpy.random.default_rng][0]()\nx = g.random()\n", ("g", "own-generator")),
    "returned": ("def made(f):\n    return f()\ng = made(random.Random)\nx = g.random()\n", (RESULT, "own-generator")),
    "one that no line gave a name": (
        "class C: pass\nc = C()\nc.c = C()\nc.c.c = C()\nc.c.c.c = C()\n"
        "c.c.c.c.r = random.Random()\nx = c.c.c.c.r.random()\n",
        ("x", "own-generator-draw"),
    ),
    "one in an object of a list": (
        "@dataclasses.dataclass\nclass P:\n    r: random.Random = dataclasses.field(default_factory=random.Random)\n"
        "ps = [P(random.Random(0))]\nmade = {'p': P}\nps.append(made['p']())\nx = ps[1].r.random()\n",
        ("ps", "own-generator"),
    ),
    "one that a dictionary makes": (
        "import collections\nd = collections.defaultdict(random.Random)\nx = d['a'].random()\n",
        ("d", "own-generator"),
    ),
    "one for none": (
        "class C: pass\nc = C()\nc.r = None\nmake = [numpy.random.default_rng]\nc.r = make[0]()\nx = c.r.random()\n",
        ("c.r", "own-generator"),
    ),
    "one beside what differs": (
        "class C:\n    def __init__(self, k):\n        self.r, self.k = random.Random(0), k\n"
        "cs = []\ncs.append(C(os.read(os.open('/dev/urandom', os.O_RDONLY), 9)))\n",
        ("k", ""),
    ),
    "one that was there": (
        "g = random.Random(0)\ng.seed(os.read(os.open('/dev/urandom', os.O_RDONLY), 4))\nx = g.random()\n",
        ("g", "seed-from-machine"),
    ),
}


@pytest.mark.parametrize("name", GENERATORS)
def test_a_generator_that_was_not_there_before_is_made_without_a_seed(tmp_path: Path, name: str) -> None:
    program, expected = GENERATORS[name]
    found = compared(tmp_path, f"import dataclasses, numpy, os, random\n{program}").sources
    assert [(source.names[0], source.source) for source in found] == [expected]


#: Programs whose call ``op`` differs, and the line that is named first; ``K`` stands for 0 and, in the second run, 256.
WAYS = {
    "state of code written in C": ("rows = iter([os.urandom(3)])\nx = next(rows)\nop(x)\n", 5),
    "a comprehension": ("def pick(k):\n    return os.urandom(2) + b'x' * k\nop([pick(k) for k in range(3)])\n", 6),
    "a comprehension that stores": ("def pick(k):\n    return os.urandom(2)\nx = [pick(k) for k in '12']\nop(x)\n", 6),
    "a generator expression": (
        "class Masker:\n    def __init__(self):\n        self.own = random.Random()\n    def __call__(self):\n"
        "        op(self.own.random())\n        return 1\nown = [Masker(), Masker()]\nx = sum(m() for m in own)\n",
        7,
    ),
    "a default argument": (
        "def rotate(x, by=random.randint(1, 10**9)):\n    y = x + by\n    return y\nrandom.seed(0)\nop(rotate(1))\n",
        5,
    ),
    "a default argument of a method": (
        "class C:\n    def __init__(self, k=os.urandom(1)[0] % 2 + K):\n        self.k = k\nop(C().k)\n",
        6,
    ),
    "a default of a lambda": ("f = lambda x, by=os.urandom(8): by * x\nop(f(2))\n", 5),
    "an exception": (
        "def get():\n    if os.urandom(1)[0] < K:\n        raise OSError\n    return 1\nx = 2\ntry:\n    x = get()\n"
        "except OSError:\n    pass\nop(x)\n",
        6,
    ),
    "an attribute of an alias": (
        "class C:\n    pass\nc = C()\nheld = {'c': c}\nc.rng = random.Random()\nop(held['c'].rng.random())\n",
        9,
    ),
    "a closure": ("def make():\n    k = os.urandom(6)\n    return lambda: k\nf = make()\nop(f())\n", 6),
    "an expression of several lines": (
        "def one():\n    return os.urandom(2)\ndef two():\n    return 2\nop(\n    (one(),\n    two())\n)\n",
        6,
    ),
    "slots": (
        "class C:\n    __slots__ = ('k',)\nc = C()\nc.k = os.urandom(9)\ndef use(c):\n    return c.k\nop(use(c))\n",
        8,
    ),
    "a global that a function first stores": (
        "def begin():\n    global own\n    own = random.Random()\ndef use():\n    return own.random()\n"
        "begin()\nop(use())\n",
        7,
    ),
    "a set whose order was met before": (
        "held = set([2**20, 2**21] if K else [2**21, 2**20])\nfirst = sorted(held, key=lambda k: -k)\n"
        "for k in held:\n    op(k)\n    break\n",
        7,
    ),
    "what a `with` block returns": (
        "def f(k):\n    with open(os.devnull):\n        return [*os.urandom(k)]\nx = f(3)\nop(x)\n",
        7,
    ),
    "what is returned before `finally`": (
        "def f(k):\n    try:\n        return [*os.urandom(k)]\n    finally:\n        k = 2\nx = f(3)\nop(x)\n",
        7,
    ),
    "arguments on lines of their own": (
        "def f(**k):\n    return k\nx = f(\n    a=1,\n    b=(time.perf_counter() * 1e6),\n    c=2,\n)\nop(x)\n",
        9,
    ),
    "a value that a further line of a call hands on": (
        "def f(k):\n    return k\nk = os.urandom(3)\nx = f(\n    k,\n)\nop(x)\n",
        7,
    ),
    "a draw on a further line": ("x = dict(\n    a=1,\n    b=random.random(),\n)\nop(x)\n", 7),
    "a query whose rows show nothing": (
        "import sqlite3\nc = sqlite3.connect(':memory:')\nc.execute('create table t (a)')\n"
        "c.executemany('insert into t values (?)', [(k,) for k in range(40)])\nc.row_factory = sqlite3.Row\n"
        "def batches():\n    cursor = c.execute('select a from t order by random()')\n"
        "    while rows := cursor.fetchmany(9):\n        yield [tuple(row) for row in rows]\n"
        "for batch in batches():\n    op(batch)\n",
        11,
    ),
    "a cursor that an attribute holds": (
        "import sqlite3\nclass Rows:\n    def __init__(self):\n        self.c = sqlite3.connect(':memory:')\n"
        "        self.rows = self.c.execute('select random()')\n    def __iter__(self):\n"
        "        for (k,) in self.rows:\n            yield k\nop(next(iter(Rows())))\n",
        9,
    ),
    "an iterator of a set": (
        "held = set([2**20, 2**21] if K else [2**21, 2**20])\nrows = iter(held)\nx = next(rows)\nop(x)\n",
        6,
    ),
    "a generator expression over a listing": (
        "os.close(os.open(f'{os.getpid()}-{time.time_ns()}', os.O_CREAT))\nentries = os.scandir()\n"
        "names = (entry.name for entry in entries)\nx = sorted(names)\nop(x)\n",
        6,
    ),
    "what another program writes": (
        "import subprocess\np = subprocess.Popen(['head', '-c', '9', '/dev/urandom'], stdout=subprocess.PIPE)\n"
        "x = p.stdout.read()\np.wait()\np.stdout.close()\nop(x)\n",
        6,
    ),
    "a default on a line of its own": (
        "def f(\n    a=1,\n    b=(time.perf_counter() * 1e6),\n):\n    return b\nop(f())\n",
        7,
    ),
    "beside a file that is only written": (
        "log = open(os.devnull, 'w')\nx = (K, log)[0]\nlog.close()\nop(x)\n",
        6,
    ),
    "beside a file that is read": ("file = open(os.devnull)\nx = (K, file)[0]\nfile.close()\nop(x)\n", 5),
    "a method on a further line": (
        "import datetime\nx = (\n    datetime.datetime\n    .now()\n    .isoformat()\n)\nop(x)\n",
        8,
    ),
    "a condition over lines": ("x = (\n    1 if os.urandom(1)[0] < K else\n    2\n)\nop(x)\n", 6),
    "what is asked of a thread": (
        "import threading\nevent = threading.Event()\n(dict if K else event.set)()\nx = 0\n"
        "while not event.wait(0.01) and x < 3:\n    x += 1\nop(x)\n",
        9,
    ),
    "a generator of a seed sequence": (
        "import numpy\ns = numpy.random.SeedSequence()\nrng = numpy.random.default_rng(s)\nop(rng.random())\n",
        6,
    ),
    "a draw that one run makes more often": (
        "random.seed(3)\ndef get():\n    x = random.random()\n    return x if os.urandom(1)[0] >= K else None\n"
        "n = 0\nwhile get() is None and n < 3:\n    n += 1\nop(random.random())\n",
        8,
    ),
    "what raises in a loop": (
        "got = []\nfor k in range(40):\n    try:\n        n = int('x' if os.urandom(1)[0] < 90 else '1')\n"
        "    except ValueError:\n        n = 0\n        continue\n    got.append(k)\nop(got)\n",
        8,
    ),
    "an object of a thread's own": (
        "import threading\nown = threading.local()\nown.k = os.urandom(5)\ndef use():\n    return own.k\nop(use())\n",
        7,
    ),
    "a hash that chooses among what is equal": (
        "class Cache:\n    def __init__(self):\n        self.shards = [{}, {}]\n    def shard(self, k):\n"
        "        return self.shards[hash(str(k)) % 1 + (K > 0)]\n    def put(self, k):\n        self.shard(k)[k] = k\n"
        "c = Cache()\nc.put(3)\nop(c.shards)\n",
        9,
    ),
    "what names a file that is listed": (
        "import tempfile\nfolder = os.path.abspath('made')\nos.makedirs(folder, exist_ok=True)\ndef write():\n"
        "    fd, path = tempfile.mkstemp(dir=folder)\n    with os.fdopen(fd, 'w') as file:\n        file.write('x')\n"
        "write()\nop(sorted(os.listdir(folder)))\n",
        9,
    ),
    "what names a folder that is listed": (
        "folder = f'run-{os.urandom(5).hex()}'\nos.mkdir(folder)\nopen('fixed', 'w').close()\nx = len(CALLS)\n"
        "op(sorted(entry.name for entry in os.scandir()))\n",
        5,
    ),
    "what names a file that C++ writes and that is listed": (
        "import torch\ntime.sleep(0.02)\nname = os.urandom(5).hex()\ntorch.save(1, name)\nop(sorted(os.listdir()))\n",
        7,
    ),
    "what is made of files that merely are listed": (
        "import gzip\nos.makedirs('in', exist_ok=True)\nfor each in 'ab':\n"
        "    open(f'in/{each}', 'wb').write(gzip.compress(each.encode()))\nnames = sorted(os.listdir('in'))\n"
        "def load(names):\n    got = []\n    for k in (range(2) if K else (1, 0)):\n        got.append(names[k])\n"
        "    return got\nop(load(names))\n",
        12,
    ),
    "what is listed beside a file that is gone": (
        "name = os.urandom(5).hex()\nopen(name, 'w').close()\nos.remove(name)\n"
        "open('only' if K else 'other', 'w').close()\nop(sorted(os.listdir()))\n",
        9,
    ),
    "what is listed beside a file of a fixed name": (
        "open('fixed', 'w').close()\nopen('only' if K else 'other', 'w').close()\nx = 1\nop(sorted(os.listdir()))\n",
        8,
    ),
    "the order of classes": (
        "class A: pass\nclass B: pass\nheld = [A, B][:: -1 if K else 1]\nfor each in held:\n    op(each.__name__)\n",
        7,
    ),
    "the order of functions": (
        "def f(): return 1\nheld = [f, lambda: 2, lambda: 3]\nheld[1:] = held[:: -1 if K else 1][:2]\n"
        "for each in held:\n    op(each())\n",
        7,
    ),
    "a default of a method": (
        "class S:\n    def __init__(self, n, rng=random.Random()):\n        self.rng = rng\n    def draw(self):\n"
        "        return self.rng.random()\nop(S(3).draw())\n",
        6,
    ),
    "a default of a method that is named": (
        "class S:\n    def draw(self, n=3, *, seed=os.urandom(4)):\n        return seed * n\n"
        "    def use(self):\n        return self.draw(2)\nop(S().use())\n",
        6,
    ),
    "an attribute of a function": (
        "def timed():\n    timed.at = time.perf_counter()\n"
        "def use():\n    timed()\n    return 2 * timed.at\nop(use())\n",
        6,
    ),
    "what a decorator keeps of a call": (
        "def counted(f):\n    def inner(*a):\n        inner.last = os.urandom(3)\n        return f(*a)\n"
        "    return inner\n@counted\ndef step(k):\n    return k\nstep(3)\nop(step.last)\n",
        7,
    ),
    "what a set gives first": ("held = set([2**20, 2**21] if K else [2**21, 2**20])\nx = held.pop()\nop(x)\n", 6),
    "a function that one of several is called by": (
        "def f(x): return x\ndef g(x): return x + 1\nheld = [f, g][:: -1 if K else 1]\nx = 0\nfor each in held:\n"
        "    x = each(x) * 3\nop(x)\n",
        7,
    ),
    "what a hash was given": (
        "import xxhash\nh = xxhash.xxh64(b'x')\nh.update(os.urandom(4))\nx = 1\nop(h.hexdigest())\n",
        7,
    ),
    "what a hash of an object's own was given": (
        "import hashlib\nclass Name:\n    def __init__(self):\n        self.h = hashlib.blake2b(digest_size=8)\n"
        "    def add(self, k):\n        self.h.update(k)\n        return self\n"
        "name = Name().add(os.urandom(3))\nop(name.h.hexdigest())\n",
        12,
    ),
    "which class it is": ("kind = (int, str)[K > 0]\nmade = kind()\nop(made)\n", 5),
    "a call that one run alone makes inside a library": (
        "import functools\ndef each(k, of):\n    y = k\n    return y\ndef own(f, n):\n    return f(n)\nx = 1\n"
        "op([*map(functools.partial(each, of=0), range(os.urandom(1)[0] % 1 + 2 + K))])\n",
        12,
    ),
    "what a constructor makes, given what differs elsewhere": (
        "class Config:\n    def __init__(self):\n        self.started = time.time()\n        self.size = 1\n"
        "class Viewer:\n    def __init__(self, config):\n        self.config = config\n"
        "        self.own = random.Random(os.urandom(4))\nconfig = Config()\nviewer = Viewer(config)\n"
        "op(viewer.own.random())\n",
        12,
    ),
    "two readings of a clock": ("a = time.time()\nb = time.time() + a\nop(b)\n", 5),
}


@pytest.mark.parametrize("name", WAYS)
def test_the_line_that_is_named_first_is_the_source_however_its_value_flows(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source, line = WAYS[name]
    source = f"import os, random, time\nCALLS = []\nop = CALLS.append\nunused = time.perf_counter()\n{source}"
    found = at(reaching(two(tmp_path, source, ("0", "256"), calls=[0])))
    assert found[0] == line
    assert 4 not in found


#: Programs of which two runs agree, and the lines that decide by the clock there.
TIMED = {
    "a rate that has run out": ("t = time.time()\nrate = max(0.0, t - time.time() - 1e-9)\nop(rate)\n", [5]),
    "a deadline": (
        "end = time.monotonic() + 99\nk = 0\nwhile time.monotonic() < end and k < 3:\n    k += 1\nop(k)\n",
        [6],
    ),
    "a budget in an object": (
        "class B:\n    def __init__(self):\n        self.at = time.perf_counter()\n    def left(self):\n"
        "        return 9 - time.perf_counter() + self.at\nb = B()\nif b.left() <= 0:\n    raise OSError\nop(1)\n",
        [10],
    ),
    "times that are told": (
        "t = time.time()\ndt = time.time() - t / 2\nop(1)\nprint(dt)\nname = time.strftime('%Y')\n",
        [],
    ),
    "a condition that is told": (
        "t = time.time() + 9\nprint('over' if time.time() > t else 'under', len(CALLS))\nop(1)\n",
        [],
    ),
    "a condition on something else": ("t = time.time()\nif len(CALLS) == 0:\n    op(2)\n", []),
    "a batch that may be late": (
        "import queue\nq = queue.Queue()\nq.put(1)\nk = q.get()\nq.put(2)\ntry:\n    k = q.get(timeout=9)\n"
        "except queue.Empty:\n    pass\nop(k)\n",
        [10],
    ),
    "a result that is waited for no longer": (
        "import asyncio\nasync def one():\n    return 1\nasync def main():\n"
        "    return await asyncio.wait_for(one(), 9)\nop(asyncio.run(main()))\n",
        [8],
    ),
    "a result that is waited for no longer, by its place": (
        "from concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(1)\nk = pool.submit(int)\n"
        "n = ''.join(['a'])\nop({}.get(k, 0))\ngot = k.result(9)\nop(got)\npool.shutdown()\n",
        [9],
    ),
    "what is waited for, by its place": (
        "import asyncio, concurrent.futures as cf\ndone = cf.Future()\ndone.set_result(1)\nk, left = cf.wait([done])\n"
        "async def main():\n    return await asyncio.wait([asyncio.create_task(asyncio.sleep(0))])\n"
        "k, left = asyncio.run(main())\nop(len(k))\n",
        [],
    ),
    "a timeout that is handed on": (
        "from concurrent.futures import Future\nclass Client:\n    def __init__(self, timeout):\n"
        "        self.timeout = timeout\n    def get(self, asked, timeout=0):\n        got = asked.result(\n"
        "            timeout=timeout or self.timeout\n        )\n        return got\n"
        "done = Future()\ndone.set_result(1)\nclient = Client(timeout=9)\nkept = dict(timeout=3)\n"
        "op(client.get(done, timeout=8))\n",
        [9],
    ),
    "a timeout of an object of a library's": (
        "import threading\nbarrier = threading.Barrier(1, timeout=9)\nk = barrier.wait()\nop(k)\n",
        [],
    ),
    "what a timer does": (
        "import threading\nover = []\ntimer = threading.Timer(99, over.append, (1,))\ntimer.start()\nop(len(over))\n"
        "timer.cancel()\n",
        [6],
    ),
    "a program that may not be done": (
        "import subprocess, sys\np = subprocess.Popen([sys.executable, '-V'], stdout=-3)\np.wait()\n"
        "done = [q for q in [p] if q.poll() is not None]\nop(len(done))\n",
        [7],
    ),
    "a process that is asked for": (
        "import os, subprocess, sys\np = subprocess.Popen([sys.executable, '-V'], stdout=-3)\n"
        "while not os.waitpid(p.pid, os.WNOHANG)[0]:\n    pass\nop(1)\n",
        [6],
    ),
    "polls": (
        "import queue, threading\ne = threading.Event()\ne.set()\nq = queue.Queue()\nif e.is_set():\n    op(1)\n"
        "q.put_nowait(3)\nk = q.get_nowait()\ne.wait()\nop(k)\n",
        [8, 10, 11],
    ),
    "a file that a date names": (
        "import os\nfrom datetime import datetime\nt = datetime.now()\nlog = open(f'{os.devnull}{t:%Y}'[:9], 'w')\n"
        "name = os.devnull + t.isoformat()\nother = open(name[:9], 'w')\nprint(t, file=log)\nday = t.strftime('%Y')\n",
        [],
    ),
    "a number that a date gives": (
        "from datetime import datetime\nt = datetime.now()\nkey = f'{t:%Y}', t.timestamp() > 0\nop(key)\n",
        [6],
    ),
}


#: Runs that agree take results as they come, all from one worker.
AS_DONE = {
    "in a list": ("got = []\nfor each in as_completed(futures):\n    got.append(each.result())\n", [7]),
    "in a list at once": ("got = [each.result() for each in as_completed(futures)]\n", [6]),
    "numbered as they come": (
        "got = {}\nfor each in as_completed(futures):\n    got[each.result()] = numbers.pop()\n",
        [7],
    ),
    "summed up": ("got = 0\nfor each in as_completed(futures):\n    got += each.result()\n", [7]),
    "the first of them": ("got = next(as_completed(futures)).result()\n", [6]),
    "by their keys": (
        "got = {}\nfor each in as_completed(futures):\n    place = futures[each]\n    got[place] = each.result()\n",
        [],
    ),
    "by their keys at once": ("got = {futures[each]: each.result() for each in as_completed(futures)}\n", []),
    "sorted": ("got = sorted(as_completed(futures), key=futures.get)\n", []),
    "counted": ("got = len(set(as_completed(futures)))\n", []),
}


#: A thread gives something once, which another finds there or not, and the line that asks.
POLLED = {
    "by a method": ("def ready(self):\n        return self.made is not None", "if asked.ready():", 12),
    "by a property": ("@property\n    def ready(self):\n        return self.made is not None", "if asked.ready:", 13),
    "where it is": ("", "if asked.made is not None:", 17),
    "as a flag": ("", "if asked.over:", 17),
    "while it waits": ("", "while asked.made is not None:", 17),
}


#: Seconds after which a thread or a forked process waits no longer: it failed, and so does the test.
PATIENCE = 120


class Gate(ModuleType):
    """What a thread waits for until the program has come to a step: of no file that is followed."""

    def __init__(self, step: int) -> None:
        super().__init__("gate")
        self.step, self.opened = step, Event()

    def wait(self) -> None:
        assert self.opened.wait(PATIENCE)

    def passes(self, step: int, thread: Thread) -> None:
        if step == self.step:
            self.opened.set()
            thread.join()


@pytest.mark.parametrize("name", POLLED)
@pytest.mark.parametrize("steps", [(2, 5), (5, 2)])
def test_what_another_thread_gives_once_differs_by_when_it_is_asked_for(
    tmp_path: Path, name: str, steps: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    method, asks, line = POLLED[name]
    source = f"""\
import gate, os, threading
class Lazy:
    def __init__(self):
        self.made, self.over = None, False
    def load(self):
        scratch = os.urandom(3)
        scratch = b"its own"
        gate.wait()
        self.made = [1.5, scratch]
        self.over = True
    {method or "pass"}
asked, CALLS = Lazy(), []
thread = threading.Thread(target=asked.load)
thread.start()
for step in range(8):
    gate.passes(step, thread)
    {asks}
        CALLS.append(step)
        {"break" if asks.startswith("while") else "pass"}
"""
    gates = {run: Gate(step) for run, step in zip("ab", steps, strict=True)}
    before = lambda run: monkeypatch.setitem(sys.modules, "gate", gates[run])  # noqa: E731
    root, *others = reaching(two(tmp_path, source, calls=[0], before=before))
    assert (root.location, root.source) == (f"program.py:{line}", "done-by-then")
    assert not [each.location for each in others if each.source != "done-by-then"]


@pytest.mark.parametrize("name", AS_DONE)
def test_where_runs_agree_a_line_that_takes_what_is_done_first_is_known_unless_its_order_decides_nothing(
    tmp_path: Path, name: str
) -> None:
    source, lines = AS_DONE[name]
    source = (
        "from concurrent.futures import Future, as_completed\n"
        "futures, numbers = {Future(): 0}, [1]\nfor each in futures:\n    each.set_result(1)\n"
        f"CALLS = []\n{source}CALLS.append(str(got))\n"
    )
    found = two(tmp_path, source).timed
    assert at(found) == lines
    assert {each.source for each in found} <= {"completion-order"}


@pytest.mark.parametrize(("producers", "lines"), [(1, []), (2, [10])])
def test_what_one_thread_puts_into_a_queue_has_one_order(tmp_path: Path, producers: int, lines: list[int]) -> None:
    source = f"""\
        import queue, threading
        q = queue.Queue()
        def fill(k):
            q.put(k)
        for k in range({producers}):
            thread = threading.Thread(target=fill, args=(k,))
            thread.start()
            thread.join()
        for k in range({producers}):
            got = q.get()
        """
    assert at(two(tmp_path, source).timed) == lines


@pytest.mark.parametrize("name", TIMED)
def test_where_runs_agree_a_line_that_decides_by_the_clock_is_known(tmp_path: Path, name: str) -> None:
    source, lines = TIMED[name]
    assert at(two(tmp_path, f"import time\nCALLS = []\nop = CALLS.append\n{source}").timed) == lines


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("k = [sqlite3.connect(':memory:')]\nx = k[0].execute('select random()').fetchone()[0]\n", "database"),
        ("x = sqlite3.connect(':memory:').cursor().execute('select random()').fetchone()\n", "database"),
        ("x = [s.create_server(('', 0)) for s in [socket]][0].getsockname()[1]\n", "port"),
    ],
)
def test_a_method_of_what_no_name_leads_to_is_known(tmp_path: Path, program: str, expected: str) -> None:
    found = compared(tmp_path, f"import socket, sqlite3\n{program}").sources
    assert [source.source for source in found] == [expected]


def test_a_generator_that_is_first_seen_as_it_is_seeded_has_the_seeds_origin(tmp_path: Path) -> None:
    first, second = (
        [*traced(tmp_path, "s = A\nx = s\ny = x\n".replace("A", seed), name=name)]
        for name, seed in (("a", "1"), ("b", "2"))
    )
    states = ("aa.aa", "bb.bb"), (".cc", ".dd")
    runs = []
    for records, state in zip((first, second), zip(*states, strict=True), strict=True):
        rows = [record for record in records if isinstance(record, LineRow)]
        changed = {row.line: {"%generator numpy": own} for row, own in zip(rows[1:], state, strict=True)}
        runs.append(
            {
                "": [
                    msgspec.structs.replace(record, changed={**record.changed, **changed.get(record.line, {})})
                    if isinstance(record, LineRow)
                    else record
                    for record in records
                ]
            }
        )
    assert lines_of(compared_lines(*runs)) == [(1, LineKind.LINE)]


#: Programs with the line that is named first, and where it is held.
HELD = {
    "a condition that raises": (
        "def get():\n    if os.urandom(1)[0] < K:\n        raise OSError\n    return 1\nx = 2\ntry:\n    x = get()\n"
        "except OSError:\n    pass\nop(x)\n",
        (5, "5"),
    ),
    "an argument": ("def train(rate, steps):\n    op(rate * steps)\ntrain(time.perf_counter(), 2)\n", (6, "4()")),
    "an argument of a decorated function": (
        "import contextlib\n@contextlib.contextmanager\ndef at(rate):\n    yield rate\n"
        "with at(rate=os.urandom(3)) as x:\n    op(x)\n",
        (8, "5()"),
    ),
    "what makes a file that is listed": (
        "import tempfile\nos.makedirs('own', exist_ok=True)\nwith tempfile.NamedTemporaryFile(dir='own'):\n"
        "    x = 1\n    names = os.listdir('own')\nop(names)\n",
        (6, "8"),
    ),
    "a number that is returned": (
        "def bucket(k):\n    return time.perf_counter()\nx = [0.0]\nx[0] += bucket(1)\nop(x)\n",
        (5, "7"),
    ),
}


@pytest.mark.parametrize("name", HELD)
def test_a_line_is_held_where_what_it_gives_is_taken(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source, (line, held) = HELD[name]
    source = f"import os, time\nCALLS = []\nop = CALLS.append\n{source}"
    root = two(tmp_path, source, ("0", "256"), calls=[0]).sources[0]
    ways = (root.held_at, *root.path) if root.names == (RESULT,) else (root.held_at,)
    assert root.location == f"program.py:{line}"
    assert f"program.py:{held}" in ways


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="comprehensions have no frames of their own")
@pytest.mark.parametrize(
    "statement",
    [
        "x = {k: [i for i in range(9) if i != k] for k in names}",
        "x = {k: named(k) for k in names}",
        "x = [(k, max(range(9), key=lambda i: (i, k))) for k in names]",
        "x = dict((k, sum(len(k) for i in range(9))) for k in names)",
    ],
)
def test_a_comprehension_is_held_by_what_it_gives_and_not_by_what_it_gives_to_calls(
    tmp_path: Path, statement: str
) -> None:
    """A call that is given another run's variable gives that run's value for a key of this one."""
    source = f"import os\ndef named(k): return [k]\n{statement.replace('names', 'map(str, os.urandom(9))')}\n"
    assert {root.held_at for root in compared(tmp_path, source).sources} == {"program.py:4"}


def test_calls_that_others_make_while_a_generator_waits_are_not_its_own(tmp_path: Path) -> None:
    source = """\
        import os
        CALLS = []
        def rows():
            for k in range(3):
                x = os.urandom(2)
                yield k
        for k in rows():
            x = 1
            CALLS.append(x)
        """
    assert 5 not in at(reaching(two(tmp_path, source, calls=[1])))


def test_a_line_that_seeds_is_held_by_its_generators_state(tmp_path: Path) -> None:
    source = "import os, random\nrandom.seed(os.urandom(3))\nx = random.random()\n"
    assert [root.held_at for root in compared(tmp_path, source).sources] == ["program.py:3"]


@pytest.mark.parametrize("inside", ["random.random()", "rows.append(random.random())", "(own := [random.random()])"])
def test_a_draw_is_held_by_the_state_before_it(tmp_path: Path, inside: str) -> None:
    source = f"import random\nCALLS = []\nrows = []\ndef f(k):\n    return {inside}\nx = f(1)\ny = [*rows]\n"
    root = two(tmp_path, f"{source}CALLS.append((x, y))\n", calls=[0]).sources[0]
    assert (root.location, root.kind, root.held_at) == ("program.py:5", LineKind.DRAW, "program.py:5")


#: What a folder or file of another name in each run leads to, the lines that reach the call, and the first one's row.
NAMED = {
    "files in the order of their names": (
        "for k in range(9):\n    n, path = tempfile.mkstemp(dir='.')\n    os.write(n, bytes([k]))\n    os.close(n)\n"
        "rows = []\nfor name in sorted(os.listdir('.')):\n    if name[:3] == 'tmp':\n"
        "        rows.append(open(name, 'rb').read())\nop(rows)\n",
        [6],
        "temporary-name",
    ),
    "a clock beside it": (
        "folder = tempfile.mkdtemp()\npaths = [os.path.join(folder, str(k)) for k in range(3)]\n"
        "for path in paths:\n    open(path, 'w').write('1')\na = open(paths[0]).read()\nx = a, time.time()\nop(x)\n",
        [10],
        "clock",
    ),
    "a hash of the name": (
        "import zlib\nfrom pathlib import Path\nfolder = Path(tempfile.mkdtemp())\nparts = {'at': folder / 'x'}\n"
        "n = zlib.crc32(str(parts['at']).encode())\nop(n)\n",
        [7],
        "temporary-name",
    ),
}


@pytest.mark.parametrize("name", NAMED)
def test_a_temporary_name_is_the_same_in_each_run_until_a_line_makes_another_value_of_it(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def before(run: str) -> None:
        (tmp_path / run).mkdir()
        monkeypatch.chdir(tmp_path / run)

    source, expected, row = NAMED[name]
    source = f"import os, time\nCALLS = []\nop = CALLS.append\nimport tempfile\n{source}"
    found = reaching(two(tmp_path, source, calls=[0], before=before))
    assert at(found)[: len(expected)] == expected
    assert found[0].source == row


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        ("sum(str(path).encode())", [3]),
        ("max(open(path, 'w').name.split('/'))[:9]", [3]),
        ("sum(str(path).encode()) + os.getpid()", [3, 7]),
        ("os.urandom(3)", [7]),
    ],
)
def test_what_is_made_of_a_temporary_name_comes_from_the_line_that_made_that(
    tmp_path: Path, use: str, expected: list[int]
) -> None:
    source = f"""\
        import os, pathlib, tempfile
        CALLS = []
        folder = pathlib.Path(tempfile.mkdtemp())
        path = folder / "a"
        other = 1
        def of(path):
            return {use}
        x = of(path)
        CALLS.append(x)
        """
    found = reaching(two(tmp_path, source, calls=[0]))
    assert sorted(at(each for each in found if "program.py:7" in (each.location, *each.path))) == expected


def test_a_value_that_is_not_seen_whole_is_held_where_the_clock_makes_it(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    source = """\
        import pandas
        CALLS = []
        seen = pandas.Series(pandas.to_datetime([1, 2], unit="s"))
        age = pandas.Timestamp.now() - seen
        x = age.dt.total_seconds().tolist()
        CALLS.append(x)
        """
    found = reaching(two(tmp_path, source, calls=[0]))[0]
    assert (found.location, found.source, found.held_at) == ("program.py:4", "clock", "program.py:4")


BUDGET = """
import time
CALLS = []
class Budget:
    def __init__(self):
        self.started = time.monotonic()
    def over(self):
        return TEST
budget = Budget()
for k in range(3):
    if budget.over():
        break
    time.sleep(K)
    CALLS.append(k)
"""


@pytest.mark.parametrize(
    ("test", "first", "rows"),
    [
        ("time.monotonic() - self.started > 0.2", 8, ["time-limit"]),
        ("(time.monotonic() - self.started) // 0.2", 6, ["clock"]),
    ],
)
def test_a_decision_by_the_clock_comes_before_the_reading_that_it_compares_with(
    tmp_path: Path, test: str, first: int, rows: list[str]
) -> None:
    found = reaching(two(tmp_path, BUDGET.replace("TEST", test), ("0", "0.3"), calls=[1]))
    assert at(found)[0] == first
    assert [row.id for row in rows_of(found[0])] == rows


#: What coroutines and threads change while a line waits, and the line that does; another one is sooner in run 2.
MEANWHILE = {
    "what coroutines share": (
        "state = {'v': 1.0}\nasync def step(k):\n    await asyncio.sleep(time.order(k) / 20)\n"
        "    state['v'] = state['v'] * 0.5 + k\nasync def main():\n    await asyncio.gather(step(1), step(2))\n"
        "asyncio.run(main())\nop(state['v'])\n",
        7,
    ),
    "a list of a closure": (
        "async def main():\n    out = []\n    async def one(k):\n        await asyncio.sleep(time.order(k) / 20)\n"
        "        out.append(k)\n    await asyncio.gather(one(1), one(2))\n    return out\n"
        "x = asyncio.run(main())\nop(x)\n",
        8,
    ),
    "what tasks of an object share, beside a queue": (
        "class Reader:\n    def __init__(self):\n        self.rows = []\n    async def take(self, todo):\n"
        "        k = await todo.get()\n        await asyncio.sleep(time.order(k) / 20)\n        self.rows.append(k)\n"
        "    async def run(self):\n        todo = asyncio.Queue()\n"
        "        for k in (1, 2):\n            todo.put_nowait(k)\n"
        "        await asyncio.gather(*(self.take(todo) for _ in 'ab'))\n        return [*self.rows]\n"
        "x = asyncio.run(Reader().run())\nop(x)\n",
        10,
    ),
    "a callback of what is done": (
        "from concurrent.futures import ThreadPoolExecutor\nout = []\ndef work(k):\n    time.sleep(time.order(k) / 9)\n"
        "    return k\nwith ThreadPoolExecutor(2) as pool:\n    for k in (1, 2):\n"
        "        pool.submit(work, k).add_done_callback(lambda f: out.append(f.result()))\nop([*out])\n",
        11,
    ),
    "a queue that another thread empties": (
        "import queue, threading\nq, out = queue.Queue(), []\ndef feed(k):\n    time.sleep(time.order(k) / 10)\n"
        "    q.put(k)\ndef take():\n    for _ in range(2):\n        item = q.get()\n        out.append(item)\n"
        "threads = [threading.Thread(target=feed, args=(k,)) for k in (1, 2)] + [threading.Thread(target=take)]\n"
        "[thread.start() for thread in threads]\n[thread.join() for thread in threads]\nop([*out])\n",
        11,
    ),
}


@pytest.mark.parametrize("name", MEANWHILE)
def test_what_others_change_while_a_line_waits_comes_from_their_lines(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def before(run: str) -> None:
        order = {1: 1, 2: 2} if run == "a" else {1: 2, 2: 1}
        monkeypatch.setattr(time, "order", order.get, raising=False)

    source, line = MEANWHILE[name]
    source = f"import asyncio, time\nCALLS = []\nop = CALLS.append\n{source}"
    found = at(reaching(two(tmp_path, source, calls=[0], before=before)))
    assert line in found
    assert found[0] == line or "await" not in source.splitlines()[found[0] - 1]


def test_a_line_that_waits_for_a_lock_is_not_the_one_that_changes_what_it_guards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = """
        import threading, time
        CALLS = []
        lock, todo, got = threading.Lock(), [1, 2, 3], {}
        def take(k):
            time.sleep(time.order(k) / 20)
            with lock:
                item = todo.pop(0)
                time.sleep(0.2)
            got[k] = item, [*todo]
        threads = [threading.Thread(target=take, args=(k,)) for k in (1, 2, 3)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        CALLS.append([got[k] for k in (1, 2, 3)])
        """

    def before(run: str) -> None:
        order = {1: 1, 2: 2, 3: 3} if run == "a" else {1: 3, 2: 2, 3: 1}
        monkeypatch.setattr(time, "order", order.get, raising=False)

    found = at(reaching(two(tmp_path, source, calls=[0], before=before)))
    assert 8 in found
    assert 7 not in found


@pytest.mark.parametrize("own", ["", "self.at = os.urandom(3)"])
def test_tasks_are_paired_by_what_they_are_given_alike_whichever_thread_takes_them(tmp_path: Path, own: str) -> None:
    source = f"""
    import os, threading
    CALLS = []
    class Reader:
        def __init__(self):
            self.rows = 3
            {own}
        def one(self, name):
            return len(name) + self.rows
    reader, names = Reader(), ["a", "bcd", "efghi"]
    for name in names if A == 1 else names[::-1]:
        thread = threading.Thread(target=reader.one, args=(name,))
        thread.start()
        thread.join()
    CALLS.append(names)
    """
    found = compared(tmp_path, source, "2").sources
    assert not [each.location for each in found if each.function == "Reader.one"]


IDLE = {
    "a class": "class Own(http.server.BaseHTTPRequestHandler):\n    pass\n",
    "an object that is returned": "def f():\n    return server\n",
    "functions that are listed": "for seed in (random.seed, random.shuffle):\n    x = seed\n",
    "a set that is handed on": "y = members\n",
    "an attribute": "x = server.server_address\n",
}


@pytest.mark.parametrize("name", IDLE)
def test_a_line_is_of_a_kind_only_by_what_it_calls_or_goes_through(tmp_path: Path, name: str) -> None:
    source = (
        "import http.server, random\nmembers = {1, 2}\n"
        "server = http.server.HTTPServer(('127.0.0.1', 0), http.server.BaseHTTPRequestHandler)\nserver.server_close()\n"
    )
    rows = traced(tmp_path, f"{source}{IDLE[name]}f() if 'f' in globals() else None\n")
    kinds = {row.line: source_of(row.text.calls) for row in rows if isinstance(row, Text)}
    assert {line: kind.id for line, kind in kinds.items() if kind} == {3: "port"}


def test_what_a_package_keeps_of_a_hash_or_fills_from_a_set_is_no_value(beside: Beside) -> None:
    (beside.others / "keeping_hashes.py").write_text(
        "class Facts(dict): pass\nclass Symbol:\n    def __init__(self, n):\n"
        "        self._mhash, self.facts = n, Facts(dict.fromkeys('ab' if n == 1 else 'ba'))\n"
        "        self.names = {'a', 'b'}\n    def order(self): return sorted(self.names, reverse=self._mhash == 1)\n",
        encoding="utf-8",
    )
    source = "import keeping_hashes\nx = keeping_hashes.Symbol(A)\nx.n = 2\ny = x.order()\n"
    assert lines_of(compared(beside.own, source, "2")) == [(1, LineKind.LINE), (5, LineKind.LINE)]


@pytest.mark.parametrize("patterns", [("0010110100", "0110000111"), ("1111100000", "0000011111")])
def test_rounds_of_a_loop_are_held_against_each_other_whichever_way_they_went(
    tmp_path: Path, patterns: tuple[str, str]
) -> None:
    """Lines of a round that one run passes in other rounds shift nothing."""
    source = """\
        got, left = [], []
        for k, way in enumerate("K"):
            if way == "1":
                left.append(k)
                continue
            for j in range(2):
                got.append(k + j)
        """
    assert lines_of(two(tmp_path, source, patterns)) == [(2, LineKind.LINE)]


def test_what_raises_in_one_run_is_held_where_its_function_ends(tmp_path: Path) -> None:
    source = """\
        import asyncio, random
        CALLS = []
        async def read(k):
            await asyncio.sleep(random.SystemRandom().choice([0, 0.2]))
            return k
        async def crawl():
            got = []
            for k in range(12):
                try:
                    page = await asyncio.wait_for(read(k), 0.05)
                except asyncio.TimeoutError:
                    continue
                got.append(page)
            return got
        pages = asyncio.run(crawl())
        CALLS.append(pages)
        """
    found = {root.location: root for root in two(tmp_path, source, calls=[0]).sources}
    root = found["program.py:10"]
    assert (root.source, root.reaches, root.held_at) == ("timeout", True, "program.py:15")
    assert not {"program.py:12", "program.py:8"} & found.keys()


#: Draws as it is imported.
LIBRARY = """\
import os, random
chosen = [random.random()]
class Box:
    def get(self):
        return os.urandom(3)
"""


@pytest.mark.parametrize(
    ("used", "lines"), [("os.urandom(3)", [7]), ("drawing_at_import.chosen.pop()", [7, 5]), ("box.get()", [7])]
)
def test_what_a_library_draws_while_it_is_imported_is_named_only_where_nothing_else_is(
    beside: Beside, used: str, lines: list[int]
) -> None:
    (beside.others / "drawing_at_import.py").write_text(LIBRARY, encoding="utf-8")
    source = f"""\
        import os, random, sys
        CALLS = []


        import drawing_at_import
        box = drawing_at_import.Box()
        x = {used}
        CALLS.append(x)
        """
    assert at(reaching(two(beside.own, source, calls=[0], before=beside.before))) == lines


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        ("numpy.random.random()", [(4, LineKind.DRAW)]),
        ("numpy.random.seed(int.from_bytes(os.urandom(4), 'big'))", [(4, LineKind.LINE)]),
        ("numpy.random.RandomState().rand()", [(4, LineKind.LINE)]),
    ],
)
def test_a_library_that_its_first_use_loads_is_drawn_from_or_seeded_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use: str, expected: list[tuple[int, LineKind]]
) -> None:
    """NumPy 2 loads ``numpy.random`` where it is first named."""
    loaded = numpy.random.mtrand

    def before(run: str) -> None:
        numpy.random.set_state(numpy.random.RandomState().get_state())  # as it is when it is loaded
        monkeypatch.delitem(sys.modules, "numpy.random.mtrand")

    loads = "sys.modules.update({'numpy.random.mtrand': numpy.random.mtrand})"
    source = f"import numpy, os, sys\nx = 1\n\ny = ({loads}, {use})[1]\nz = numpy.random.random()\n"
    assert lines_of(two(tmp_path, source, before=before))[:1] == expected
    assert sys.modules["numpy.random.mtrand"] is loaded


@pytest.mark.parametrize("shared", ["torch.default_generator", "numpy.random.mtrand._rand"])
def test_a_global_generator_under_another_name_is_followed_as_what_it_is(tmp_path: Path, shared: str) -> None:
    draw = "torch.rand(1, generator=own)" if "torch" in shared else "own.rand()"
    source = f"import numpy, torch\ntorch.seed(); numpy.random.seed()\nown = {shared}\nx = {draw}\n"
    assert lines_of(compared(tmp_path, source)) == [(3, LineKind.LINE)]


WAIT = (
    "from concurrent.futures import ThreadPoolExecutor, wait\nwith ThreadPoolExecutor(1) as pool:\n"
    "    done, left = wait([pool.submit(int)]"
)
OBJECTS = "class C: pass\nobjects = [C() for k in range(3)]\n"
HELD_SET = "import weakref\n" + OBJECTS + "held = {'a': KEPT}\nfor each in held.get('a', ()): pass\n"
LOADER = "import torch.utils.data as data\nloader = data.DataLoader([1], num_workers=N)\nx = len(loader)\n"
#: Programs and the row of their last line: of sets by what is taken out of them, of others by what is waited for.
KINDS = {
    "an iterator of a set of texts": (
        "held = set('abc')\nrounds = iter(held)\nhead = next(rounds)\norder = iter(held)\n",
        "set-order",
    ),
    "a weak set that a dictionary gives": (HELD_SET.replace("KEPT", "weakref.WeakSet(objects)"), "set-of-objects"),
    "a set that a dictionary gives": (HELD_SET.replace("KEPT", "set('abc')"), "set-order"),
    "a list that a dictionary gives": (HELD_SET.replace("KEPT", "[*objects]"), None),
    "the first of a set": ("held = {*'abc'}\nx = held.pop()\n", "set-order"),
    "the first of a set of objects": ("held = {object(), object()}\nx = held.pop()\n", "set-of-objects"),
    "the last of a list": ("held = [1]\nx = held.pop()\n", None),
    "a set made at once": (f"{OBJECTS}for each in set(objects): pass\n", "set-of-objects"),
    "a set of pairs": (f"{OBJECTS}for name, each in frozenset(zip('abc', objects)): pass\n", "set-of-objects"),
    "a list of a set": (f"{OBJECTS}order = list(set(objects))\n", "set-of-objects"),
    "a set that is unpacked": (f"{OBJECTS}each, *rest = set(objects)\n", "set-of-objects"),
    "a set of texts of objects": (f"{OBJECTS}for name in set(map(str, objects)): pass\n", "set-order"),
    "a set that a list is made of": ("order = [*set('abc')]\n", "set-order"),
    "a loader": (LOADER.replace("N)", "0)"), None),
    "a loader with workers": (LOADER.replace("N)", "2)"), "loader-workers"),
    "a set that has all that is done": (f"{WAIT})\n", "done-set"),
    "what is done first": (f"{WAIT}, return_when='FIRST_COMPLETED')\n", "completion-order"),
    "what is done in time": (f"{WAIT}, timeout=5)\n", "timeout"),
    "files by when they were written": (
        "import os, pathlib\nfor each in sorted(pathlib.Path().glob('*'), key=os.path.getmtime): pass\n",
        "file-stat",
    ),
    "names of a folder by when they were written": (
        "import os\nfrom os.path import getctime\nlast = max(os.listdir(), key=getctime)\n",
        "file-stat",
    ),
    "entries of a folder by when they were written": (
        "import os\nwith os.scandir() as found:\n    [*sorted(found, key=lambda entry: entry.stat().st_mtime)]\n",
        "file-stat",
    ),
}


@pytest.mark.parametrize("name", KINDS)
def test_a_line_has_the_row_of_what_it_goes_through_or_waits_for(tmp_path: Path, name: str) -> None:
    source, row = KINDS[name]
    texts = [record for record in traced(tmp_path, source) if isinstance(record, Text)]
    found = source_of(next(text.text.calls for text in texts if text.line == source.count("\n")))
    assert (None if found is None else found.id) == row


def test_a_query_that_several_lines_go_through_is_named_once_and_they_are_held_together(tmp_path: Path) -> None:
    source = """\
        import sqlite3
        CALLS = []
        c = sqlite3.connect(":memory:")
        rows = c.execute("select random() from (select 1 union select 2 union select 3)")
        first = next(rows)
        second = next(rows)
        CALLS.append((first, second))
        """
    found = two(tmp_path, source, calls=[0]).sources
    assert [(root.location, root.held_at, root.takers) for root in found] == [
        ("program.py:4", "program.py:5", ("program.py:6",)),
    ]


def peek(module: torch.nn.Linear, go: Event, done: Event, *, is_late: bool) -> float:
    """What a module gives before or after another thread writes to it, which has done so in the end."""
    given = [module.weight.item()]
    go.set()
    done.wait()
    return [*given, module.weight.item()][is_late]


@pytest.mark.parametrize("is_source", [False, True])
def test_what_another_thread_writes_while_a_line_reads_it_is_the_root(tmp_path: Path, is_source: bool) -> None:
    source = """\
        import threading, time, torch
        from tests.divergence.test_lines import peek
        CALLS, scores = [], []
        torch.manual_seed(0)
        m = torch.nn.Linear(1, 1)
        go, done = [[threading.Event() for _ in range(3)] for _ in range(2)]
        def train():
            for k in range(3):
                go[k].wait()
                with torch.no_grad():
                    m.weight.add_(1)
                done[k].set()
        t = threading.Thread(target=train)
        t.start()
        for k in range(3):
            scores.append(peek(m, go[k], done[k], is_late=K))
        t.join()
        CALLS.append(scores)
        """
    source = source.replace("is_late=K)", "is_late=K) * time.time()") if is_source else source
    found = reaching(two(tmp_path, source, ("False", "True"), calls=[0]))
    assert (found[0].source, at(found)[0]) == (("clock", 16) if is_source else ("shared-by-threads", 11))


#: How a function reads an environment variable that a line before it set, and how that set it.
VARIABLES = {
    "by its name": ("os.environ['TRACER_N'] = K", "os.environ['TRACER_N']"),
    "by a function": ("os.environ.update(TRACER_N=K)", "os.getenv('TRACER_N')"),
    "by another name": ("environ['TRACER_N'] = K", "environ.get('TRACER_N', '')"),
}


@pytest.mark.parametrize("name", VARIABLES)
def test_an_environment_variable_comes_of_the_line_that_set_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("TRACER_N", "0")
    sets, reads = VARIABLES[name]
    source = f"import os\nfrom os import environ\nCALLS = []\n{sets}\nfolder = os.getcwd()\n"
    source += f"def read():\n    n = {reads}\n    return n\nCALLS.append(read())\n"
    found = two(tmp_path, source, ("'1'", "'2'"), calls=[0], before=lambda run: monkeypatch.setenv("TRACER_N", "0"))
    assert at(found.sources) == at(reaching(found)) == [4]


#: Something of which no value shows, and the line that filled it: its own result differs, or it reads the clock.
FILLED = {
    "a buffer": "import io, os\no = io.BytesIO()\nn = o.write(K)\no.seek(0)\nx = o.read()\nCALLS.append(x)\n",
    "a clock in a map": "import mmap, time\no = mmap.mmap(-1, 9)\no.write(b'%.6f' % (time.perf_counter() % 10))\n"
    "o.seek(0)\nx = o.read()\nCALLS.append(x)\n",
    "by a function": "import io\ndef fill(at):\n    n = at.write(K)\no = io.BytesIO()\nfill(o)\nx = o.getvalue()\n"
    "CALLS.append(x)\n",
    "read by a function": "import io\ndef take(at):\n    v = at.getvalue()\n    return v\no = io.BytesIO()\n"
    "n = o.write(K)\nx = take(o)\nCALLS.append(x)\n",
}


@pytest.mark.parametrize(
    ("name", "line"), [("a buffer", 4), ("a clock in a map", 4), ("by a function", 4), ("read by a function", 7)]
)
def test_what_nothing_shows_of_comes_of_the_line_that_filled_it(tmp_path: Path, name: str, line: int) -> None:
    found = two(tmp_path, f"CALLS = []\n{FILLED[name]}", ("b'abcdefghi'", "b'abcdefg'"), calls=[0])
    assert at(reaching(found)) == [line]
    assert found.sources[0].takers


def test_what_is_imported_reaches_nothing_where_no_call_differs(tmp_path: Path) -> None:
    (tmp_path / "own_module.py").write_text("", encoding="utf-8")
    source = "import random\nx = random.random()\nimport own_module; random.random()\n"
    assert not any(
        root.reaches for root in compared(tmp_path, f"import sys\nsys.path[:0] = [{str(tmp_path)!r}]\n{source}").sources
    )


@pytest.mark.parametrize(
    ("seed", "seeding"), [("random.seed(k)", [4]), ("random.seed(0)", []), ("random.random()", [])]
)
def test_lines_that_seed_otherwise_are_known_whatever_gave_them_the_number(
    tmp_path: Path, seed: str, seeding: list[int]
) -> None:
    found = two(tmp_path, f"import os, random\nrandom.seed(0)\nk = os.urandom(3)\n{seed}\nx = random.random()\n")
    assert [int(at.rpartition(":")[2]) for at in found.seeding] == seeding


def test_values_that_may_be_shown_are(tmp_path: Path) -> None:
    (root,) = compared(tmp_path, "x = A * 3\n", second="__import__('os').getpid()").sources
    assert (root.names, root.first) == (("A",), "1")
    text = compared(tmp_path, "x = str(A)\n", second="'secret'").sources[0]
    assert "secret" not in (text.first, text.second)


def test_what_one_run_alone_executes_has_the_branch_as_origin(tmp_path: Path) -> None:
    source = """\
        import os, random
        x = 1
        if os.urandom(1)[0] < K:
            x = 2
        y = x
        """
    for k in (("256", "0"), ("0", "256")):
        result = two(tmp_path, source, k)
        assert lines_of(result) == [(3, LineKind.BRANCH)]
        assert [source.calls for source in result.sources] == [1]


def test_one_more_call_of_a_function_shifts_nothing_elsewhere(tmp_path: Path) -> None:
    source = """\
        import random
        random.seed(0)
        def double(n):
            m = 2 * n
            return m
        if A > 1:
            double(7)
        x = [double(n) for n in range(5)]
        """
    assert lines_of(compared(tmp_path, source, second="2")) == [(1, LineKind.LINE)]


def test_a_long_loop_names_the_line_that_stores(tmp_path: Path) -> None:
    source = """\
        import os
        c = 0
        for i in range(3000):
            k = i % 7
            if i == 1500:
                c += os.urandom(7)[0] + os.getpid() % 1 + K
        d = c
        """
    assert lines_of(two(tmp_path, source, ("0", "1000"))) == [(6, LineKind.LINE)]


def test_a_forked_worker_has_roots_of_its_own(tmp_path: Path) -> None:
    source = """\
        import os
        def work():
            x = os.urandom(5)
        pid = os.fork()
        if pid == 0:
            work()
            os._exit(0)
        os.waitpid(pid, 0)
        """
    runs = []
    for name in "ab":
        traced(tmp_path, dedent(source), name=name)
        roles = ("", ".1")
        runs.append({role: read_lines(tmp_path / f"{name}.lines{role}") for role in roles})
    assert (3, LineKind.LINE) in lines_of(compared_lines(*runs))


#: A library by which the thread that gives is first in run a, and the one that takes in run b.
PACING = f"""\
import os, threading
done = threading.Event()
def begins(who):
    if who == ("taker" if os.environ["RUN"] == "a" else "giver"):
        assert done.wait({PATIENCE})
def ends():
    done.set()
"""
#: How a thread takes what another may have ready.
TAKING = {
    "without waiting": "try:\n        x = q.get_nowait()\n    except queue.Empty:\n        x = 0\n",
    "where there is something": "x = 0\n    if not q.empty():\n        x = q.get()\n",
    "a flag": "x = 0\n    x = 8 if flag.is_set() else 9\n",
}


@pytest.mark.parametrize("name", TAKING)
def test_who_was_faster_shows_at_the_line_that_asks_what_is_ready(beside: Beside, name: str) -> None:
    (beside.others / "pacing.py").write_text(PACING, encoding="utf-8")
    source = (
        "import queue, threading\nfrom pacing import begins, ends\n"
        "CALLS, q, flag = [], queue.Queue(), threading.Event()\n"
        "def give():\n    begins('giver')\n    q.put(7)\n    flag.set()\n    ends()\n"
        f"def take():\n    begins('taker')\n    {TAKING[name]}    ends()\n    return x\n"
        "giver = threading.Thread(target=give)\ngiver.start()\nCALLS.append(take())\ngiver.join()\n"
    )
    first = reaching(two(beside.own, source, calls=[0], before=beside.before))[0]
    assert (first.location, first.source) == ("program.py:12", "done-by-then")


#: A library that has a signal come at another step in each run.
RINGING = """\
import os, signal
def rings(step):
    if step == (1 if os.environ["RUN"] == "a" else 2):
        signal.raise_signal(signal.SIGUSR1)
"""


@pytest.mark.parametrize("handler", ["keep", "torch.no_grad()(keep)"])
@pytest.mark.parametrize(
    ("timer", "location", "kind"),
    [("signal.setitimer(signal.ITIMER_REAL, 9999)", "program.py:7", "timeout"), ("pass", "program.py:4", "")],
    ids=["a timer", "somebody else's signal"],
)
def test_what_a_handler_of_a_signal_does_comes_of_the_line_that_sets_the_time(
    beside: Beside, timer: str, location: str, kind: str, handler: str
) -> None:
    (beside.others / "ringing.py").write_text(RINGING, encoding="utf-8")
    source = (
        "import signal, torch\nfrom ringing import rings\nCALLS, state, kept = [], [0], []\n"
        "def keep(number, frame):\n    kept.append(state[0])\n"
        f"signal.signal(signal.SIGUSR1, {handler})\n{timer}\n"
        "for step in range(4):\n    state[0] += 3\n    rings(step)\n    x = step\n"
        "signal.setitimer(signal.ITIMER_REAL, 0)\nsignal.signal(signal.SIGUSR1, signal.SIG_DFL)\n"
        "CALLS.append(sum(kept))\n"
    )
    found = reaching(two(beside.own, source, calls=[0], before=beside.before))
    assert [(each.location, each.source) for each in found] == [(location, kind)]
    if kind:  # it gives nothing itself
        assert (found[0].held_at, found[0].path[0]) == ("program.py:14", "program.py:14")


#: A library's object that has its work done by processes of its own.
FORKING = f"""\
import os, pickle, signal
class Fetched:
    def __init__(self, work):
        self.work = work
    def __iter__(self):
        for k in range(2):
            there, here = os.pipe()
            if os.fork() == 0:
                signal.alarm({PATIENCE})
                try:
                    os.write(here, pickle.dumps(self.work(k)))
                finally:
                    os._exit(0)
            os.wait()
            os.close(here)
            yield pickle.loads(os.read(there, 4096))
"""
#: The work of a process of its own, and its line that is named first, with its kind.
WORK = {
    "entropy": ("def work(k):\n    return k + int.from_bytes(os.urandom(5), 'big') * 1000\n", 5, "entropy"),
    "a seed by the process": (
        "def work(k):\n    random.seed(os.getpid())\n    x = random.random()\n    return x\n",
        5,
        "process-id",
    ),
    "a clock in an object": (
        "class Job:\n    def __init__(self):\n        self.at = time.perf_counter()\ndef work(k):\n"
        "    job = Job()\n    return job.at + k\n",
        6,
        "clock",
    ),
    "a generator that a task makes": (
        "def noise(k):\n    own = random.Random()\n    return own.random()\ndef work(k):\n    return noise(k)\n",
        5,
        "own-generator",
    ),
}


@pytest.mark.parametrize("name", WORK)
def test_what_a_process_gives_comes_from_its_own_line_whoever_takes_it(beside: Beside, name: str) -> None:
    (beside.others / "fetching.py").write_text(FORKING, encoding="utf-8")
    work, line, kind = WORK[name]
    source = f"import os, random, time\nfrom fetching import Fetched\nCALLS = []\n{work}"
    taken_at = source.count("\n") + 1
    source += "for item in Fetched(work):\n    CALLS.append(item)\n"
    runs = []
    for run in "ab":
        traced(beside.own, source, name=run)
        runs.append({role: read_lines(beside.own / f"{run}.lines{role}") for role in ("", ".1", ".2")})
    first, second = reaching(compared_lines(*runs, [0]))
    assert (first.location, first.source) == (f"program.py:{line}", kind)
    assert at([second]) == [taken_at]
    assert second.location in first.path


#: A module whose import registers functions, and a number of which every run has another one.
REGISTERING = """\
import os
NAMES, TABLE = [], {}
def register(function):
    NAMES.append(function.__name__)
    TABLE[function.__name__] = function
    return function
@register
def small():
    return 1
SCALE = os.urandom(2)
@register
def large():
    return 2
BIAS = 4
"""


@pytest.mark.parametrize("seen", [0, 20, 10**6])
def test_a_module_of_a_large_package_is_looked_at_as_its_import_ends(
    tmp_path: Path, seen: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tracer.recording.lines.recording._OF_IMPORTS", seen)
    (tmp_path / "registering.py").write_text(REGISTERING, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    source = "import registering\nCALLS = []\nscale = registering.SCALE\nCALLS.append(scale)\n"
    forget = lambda run: sys.modules.pop("registering", None)  # noqa: E731
    (root,) = reaching(two(tmp_path, source, calls=[0], before=forget))
    assert (root.location, root.source) == ("registering.py:10", "entropy")
    assert (len(read_lines(tmp_path / "a.lines")) > 40) == (seen > 20)


def test_tasks_of_threads_are_paired_by_their_arguments(tmp_path: Path) -> None:
    source = """\
        import threading
        def work(k):
            n = 2 * k
            return n
        for k in (1, 2) if A == 1 else (2, 1):
            t = threading.Thread(target=work, args=(k,))
            t.start()
            t.join()
        """
    assert lines_of(compared(tmp_path, source, second="2")) == [(1, LineKind.LINE)]


def test_a_generator_that_moves_inside_what_differs_is_no_new_difference(tmp_path: Path) -> None:
    source = """\
        import random
        rng = random.Random(0)
        class T:
            def __init__(self, k):
                self.k, self.rng = k, rng
        made = [T(k) for k in ((1, 2) if A == 1 else (2, 1))]
        x = rng.random()
        y = rng.random()
        """
    assert not {8, 9} & {line for line, _ in lines_of(compared(tmp_path, source, second="2"))}


def test_draws_in_rounds_that_the_second_run_alone_makes_come_of_their_branch(tmp_path: Path) -> None:
    source = """\
        import random
        random.seed(0)
        n = 0
        while n < A:
            n += random.random() > -1
        x = random.random()
        """
    assert [line for line, _ in lines_of(compared(tmp_path, source, second="2"))] == [1]


def test_rows_of_which_a_thread_has_enough_are_missing_by_who_did_other_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tracer.recording.lines.recording._MOST_LOOKED", 300)
    source = """\
        from concurrent.futures import ThreadPoolExecutor
        def work(k):
            many = {n for n in range(50) if n > k}
            return len(many)
        pools = [ThreadPoolExecutor(1), ThreadPoolExecutor(1)]
        for k, by in enumerate([0] * 12 + [1] * 4 if A == 1 else [1] * 4 + [0] * 12):
            x = pools[by].submit(work, k).result()
        """
    assert [line for line, _ in lines_of(compared(tmp_path, source, second="2"))] == [1]


def test_what_a_loop_takes_in_rounds_of_which_no_row_is_written_is_its_own(
    beside: Beside, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tracer.recording.lines.recording._MOST_LOOKED", 4000)
    (beside.others / "coming.py").write_text(
        "import os\ndef come(n):\n    for k in range(n):\n"
        "        yield k if not k & (k + 1) else int.from_bytes(os.urandom(4), 'big')\n",
        encoding="utf-8",
    )
    source = (
        "from coming import come\nCALLS = []\ndef load():\n    kept = []\n    for k in come(40):\n"
        "        kept.append([k] * 200)\n        if len(kept) % 5 == 0:\n            print(len(kept))\n"
        "    return kept\n"
        "CALLS.append(sum(map(sum, load())))\n"
    )
    first = reaching(two(beside.own, source, calls=[0], before=beside.before))[0]
    assert first.location == "program.py:5"


def test_what_other_threads_put_into_a_queue_differs_at_the_line_that_takes_it(tmp_path: Path) -> None:
    source = """\
        import os, queue, threading
        def produce(k, q):
            q.put(k)
        def taken(q):
            while not q.empty():
                item = q.get()
                yield item
        q = queue.Queue()
        for k in (1, 2) if A == 1 else (2, 1):
            t = threading.Thread(target=produce, args=(k, q))
            t.start()
            t.join()
        for n, k in enumerate(taken(q)):
            x = k
        """
    found = {int(root.location.rpartition(":")[2]): root for root in compared(tmp_path, source, "2").sources}
    assert found[7].source == "queue"
    assert found.keys().isdisjoint((12, 13, 14)), found


#: What two threads do, each when its turn comes, which is another one in each run; and the line that is named first.
SHARING = {
    "a list": (
        "def work(k):\n    for n in range(3):\n        turn(k)\n        seen.append((k, n))\n",
        "CALLS.append([*seen])\n",
        7,
        "shared-by-threads",
    ),
    "a tensor": (
        "weight = torch.ones(3)\ndef work(k):\n    for n in range(3):\n        turn(k)\n"
        "        grad = weight * weight * (k + 0.5)\n        weight.sub_(grad, alpha=0.1)\n",
        "CALLS.append(weight.tolist())\n",
        9,
        "shared-by-threads",
    ),
    "a list of tensors": (
        "weights, squares = [torch.ones(3)], [torch.zeros(3)]\ndef work(k):\n    for n in range(3):\n        turn(k)\n"
        "        own = [w.clone() for w in weights]\n        targets = []\n"
        "        while len(targets) < 4 * own[0][0]:\n"
        "            targets.append(own[0] * k)\n        for w, s, g in zip(weights, squares, own):\n"
        "            s.mul_(0.9).add_(g * g * (k + 0.5))\n            w.sub_(g / (s + 1), alpha=0.1)\n",
        "CALLS.append(weights[0].tolist())\n",
        13,
        "shared-by-threads",
    ),
    "a model that an optimizer steps": (
        "net = torch.nn.Linear(2, 1)\ndef work(k):\n    opt = torch.optim.SGD(net.parameters(), lr=0.5)\n"
        "    for n in range(3):\n        turn(k)\n        loss = net(torch.ones(2)) * (k + 0.5)\n"
        "        loss.backward()\n        opt.step()\n",
        "CALLS.append([p.tolist() for p in net.parameters()])\n",
        11,
        "shared-by-threads",
    ),
    "a list, by tasks that they take": (
        "todo = [*range(6)]\ndef work(k):\n    for n in range(3):\n        turn(k)\n        x = todo.pop()\n"
        "        turn(k)\n        seen.append(10 * x)\n",
        "CALLS.append([1 + x for x in seen])\n",
        10,
        "shared-by-threads",
    ),
    "a queue, by tasks that they take": (
        "import queue\ntodo, ready = [*range(6)], queue.Queue()\ndef work(k):\n    for n in range(3):\n"
        "        turn(k)\n        x = todo.pop()\n        turn(k)\n        ready.put(x)\n",
        "for n in range(6):\n    taken = ready.get()\n    CALLS.append(10 * taken)\n",
        19,
        "queue",
    ),
    "a dictionary's order": (
        "seen = {}\ndef work(k):\n    turn(k)\n    seen[f'{k}'] = k\n",
        "for name in seen:\n    CALLS.append(name)\n",
        7,
        "shared-by-threads",
    ),
    "a generator": (
        "random.seed(3)\ndef work(k):\n    for n in range(3):\n        turn(k)\n        noise = random.random()\n"
        "        if k:\n            seen.append(noise)\n",
        "CALLS.append(seen)\n",
        8,
        "shared-by-threads",
    ),
    "a generator of the program's own": (
        "class C:\n    def __init__(self):\n        self.own = random.Random(3)\nheld = C()\ndef work(k):\n"
        "    for n in range(3):\n        turn(k)\n        noise = held.own.random()\n"
        "        if k:\n            seen.append(noise)\n",
        "CALLS.append(seen)\n",
        11,
        "shared-by-threads",
    ),
    "what is drawn by itself": (
        "def work(k):\n    turn(k)\n    x = os.urandom(4)\n    seen.append(x)\n",
        "CALLS.append([*seen])\n",
        6,
        "entropy",
    ),
    "what is drawn by itself as it is put in": (
        "def work(k):\n    turn(k)\n    seen.append(os.urandom(4))\n",
        "CALLS.append([*seen])\n",
        6,
        "entropy",
    ),
}
#: A library by which threads take turns: 0 1 1 0 .. in run a, 1 1 .. 0 0 .. in run b; one that is over needs none. A
#: turn lasts until the next one is asked for, so that nothing hangs on who is faster.
TURNS = f"""\
import os, threading
at = threading.Condition()
left = [0, 1, 1, 0] * 9 if os.environ["RUN"] == "a" else [1] * 9 + [0] * 9
over, now = set(), []
def leave(k):
    if now == [k]:
        now.clear()
        left[:] = [n for n in left if n not in over][1:]
        at.notify_all()
def turn(k):
    with at:
        leave(k)
        assert at.wait_for(lambda: not now and next(n for n in left if n not in over) == k, {PATIENCE})
        now.append(k)
def ends(k):
    with at:
        leave(k)
        over.add(k)
        at.notify_all()
"""


@pytest.mark.parametrize("name", SHARING)
def test_the_order_in_which_threads_change_what_they_share_is_named_where_they_do(beside: Beside, name: str) -> None:
    work, taken, line, row = SHARING[name]
    (beside.others / "turns.py").write_text(TURNS, encoding="utf-8")
    source = (
        f"import os, random, threading, torch\nfrom turns import ends, turn\nCALLS, seen = [], []\n{work}    ends(k)\n"
        "threads = [threading.Thread(target=work, args=(k,)) for k in (0, 1)]\n"
        "for thread in threads:\n    thread.start()\nfor thread in threads:\n    thread.join()\n" + taken
    )
    found = reaching(two(beside.own, source, calls=[0], before=beside.before))
    assert (found[0].location, found[0].source) == (f"program.py:{line}", row), found
    assert found[0].is_threads == (row != "queue")
    assert len(found) == 1 or "torch" not in work, "what threads read of a tensor is no root beside the race"


def test_what_tasks_of_one_thread_change_in_turn_is_shared_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = """\
        import asyncio, time
        CALLS = []
        async def fetch(k, into):
            await time.turn(k)
            into.append(k)
        async def main():
            into = []
            await asyncio.gather(*(fetch(k, into) for k in (1, 2, 3)))
            return into
        CALLS.append(asyncio.run(main()))
        """

    async def turn(k: int, order: tuple[int, ...], waiting: dict[int, asyncio.Future[None]]) -> None:
        loop = asyncio.get_running_loop()
        waiting[k] = loop.create_future()
        if len(waiting) == len(order):
            loop.call_soon(lambda: [waiting[n].set_result(None) for n in order])
        await waiting[k]

    def before(run: str) -> None:
        order = (1, 2, 3) if run == "a" else (3, 1, 2)
        monkeypatch.setattr(time, "turn", functools.partial(turn, order=order, waiting={}), raising=False)

    root = reaching(two(tmp_path, source, calls=[0], before=before))[0]
    assert (root.location, root.source) == ("program.py:5", "shared-by-threads")


@pytest.mark.parametrize(
    ("call", "row"), [("random.random", "shared-by-threads"), ("random.Random", "own-generator"), ("time.sleep", "")]
)
def test_a_thread_that_is_the_first_to_see_a_draw_does_not_share_the_generator(call: str, row: str) -> None:
    state = f"{GENERATOR}python"
    runs: list[dict[str, list[LineRecord]]] = [
        {
            "": [
                LineCode(0, "p.py", "<module>", 1),
                LineCode(1, "p.py", "work", 5),
                Entered(0, 1, 0, 1, -1, 0, 0, 0, {state: "5.5"}),
                Entered(1, 2, 1, 1, -1, 0, 0, 0, {}),
                Text(1, 6, LineText((), ("x",), (call,))),
                LineRow(2, 6, 1, 0, {state: f".{run}"}),
                *[LineRow(2, 6, n, 0, {}) for n in (2, 3)],
                Text(0, 2, LineText((), ("y",), ("random.random",))),
                LineRow(1, 2, 1, 0, {state: f".{run}{run}", "y": f"0.{run}"}),
            ]
        }
        for run in "78"
    ]
    assert [source.source for source in compared_lines(*runs).sources] == [row]


def test_a_generator_that_one_run_alone_loads_draws_nothing_there() -> None:
    runs: list[dict[str, list[LineRecord]]] = [
        {
            "": [
                LineCode(0, "p.py", "<module>", 1),
                Entered(0, 1, 0, 1, -1, 0, 0, 0, {f"{GENERATOR}python": "5.5"}),
                Text(0, 2, LineText((), ("x",), ("decides",))),
                LineRow(1, 2, 1, 0, {"x": f"0.{run}"}),
                Text(0, 3, LineText((), ("y",), ("library.load",))),
                *[LineRow(1, 3, 1, 0, {f"{GENERATOR}numpy": state, "y": "1"}) for state in states],
            ]
        }
        for run, states in ((7, ["6.6"]), (8, []))
    ]
    assert {source.kind for source in compared_lines(*runs).sources} == {LineKind.LINE}


POOL = """\
import os, time
from concurrent.futures import ThreadPoolExecutor, as_completed
def work(k):
    wait = 0.1 * (k if os.environ["RUN"] == "a" else 2 - k)
    time.sleep(wait)
    return ANSWER
CALLS, seen = [], []
with ThreadPoolExecutor(3) as pool:
    futures = [pool.submit(work, k) for k in range(3)]
    for future in as_completed(futures):
        seen.append(future.result())
CALLS.append(seen)
"""


@pytest.mark.parametrize(("answer", "line"), [("k", 10), ("k + wait", 4)])
def test_the_order_of_answers_is_the_root_where_only_that_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, line: int
) -> None:
    source = POOL.replace("ANSWER", answer)
    found = reaching(two(tmp_path, source, calls=[0], before=lambda run: monkeypatch.setenv("RUN", run)))
    assert at(found)[0] == line, found


def test_rows_that_a_worker_left_out_are_no_branch(tmp_path: Path) -> None:
    """A worker that had done more writes fewer rows of the same task."""
    source = """\
        from concurrent.futures import ThreadPoolExecutor
        def work(k):
            n = 0
            for i in range(150):
                n += i
            return n
        for tasks in [(0, 1, 2, 3, 4, 5)] if A == 1 else [(0, 1, 2), (3, 4, 5)]:
            with ThreadPoolExecutor(1) as pool:
                results = list(pool.map(work, tasks))
        """
    found = compared(tmp_path, source, second="2")
    assert [kind for line, kind in lines_of(found) if 2 < line < 8] == [], lines_of(found)


def test_a_line_of_a_library_is_named_with_the_programs_line_that_calls_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "site-packages"
    library.mkdir()
    text = "import os\ndef reset(seed=None):\n    state = os.urandom(4) if seed is None else seed\n    return state\n"
    (library / "environments_of_others.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(library)
    source = "from environments_of_others import reset\nx = reset()\n"
    plain = compared(tmp_path, source).sources[0]
    assert plain.location.endswith(":3")
    assert "environments_of_others.reset" in plain.may_call
    runs = [{"": traced(tmp_path, f"A = 1\n{source}", name=name, inside=(plain.location,))} for name in ("a", "b")]
    drilled = compared_lines(*runs).sources[0]
    assert (drilled.location, drilled.called_from) == ("environments_of_others.py:3", plain.location)


@pytest.mark.parametrize(
    ("call", "row"),
    [
        ("time.time", "clock"),
        ("random.Random", "own-generator"),
        ("random.Random.shuffle", "own-generator-draw"),
        ("numpy.random._generator.Generator.normal", "own-generator-draw"),
        ("numpy.random.mtrand.RandomState.seed", "seed-from-machine"),
        ("random.SystemRandom", "system-generator"),
        ("random.SystemRandom.random", "entropy"),
        ("socket.create_server", "port"),
        ("socket.socket.recv", "network"),
        ("os.listdir", "listing"),
        ("builtins.set", "set-order"),
        ("gymnasium.core.Env.reset", "environment-reset"),
        ("somewhere.unheard", None),
        ("torch._C.Generator.seed", "seed-from-machine"),
        ("asyncio.tasks.wait_for", "timeout"),
        ("sqlite3.Cursor.fetchmany", "database"),
        ("sqlite3.connect", None),
        ("pandas._libs.tslibs.timestamps.Timestamp.now", "clock"),
        ("simpy.core.Environment.now", None),
        ("torch.utils.data.dataloader.DataLoader", None),
        ("torch.utils.data.dataloader.DataLoader object", "loader-workers"),
        ("asyncio.tasks.wait", "done-set"),
        ("asyncio.tasks.as_completed", "completion-order"),
        ("asyncio.locks.Event.wait", None),
        ("multiprocessing.synchronize.Event.is_set", "done-by-then"),
        ("multiprocessing.pool.AsyncResult.ready", "done-by-then"),
        ("multiprocessing.context.ForkProcess.exitcode", "done-by-then"),
        ("concurrent.futures._base.Future.running", "done-by-then"),
        ("logging.Logger.info", "log-record"),
        ("logging.getLogger", None),
        ("pyarrow.dataset.dataset", "listing"),
        ("pyarrow.parquet.core.ParquetDataset", "listing"),
        ("pyarrow.dataset.field", None),
    ],
)
def test_a_line_has_the_row_of_its_call(call: str, row: str | None) -> None:
    found = source_of([call])
    assert (None if found is None else found.id) == row


def test_each_row_says_what_to_do() -> None:
    assert all(row.name and row.remedy for row in SOURCES)
    without = [row.id for row in SOURCES if not row.calls and not row.generator]
    assert without == ["time-limit", "seed", "shared-by-threads", "loader-order"]
    assert len({row.id for row in SOURCES}) == len(SOURCES)
    assert {word for row in SOURCES for word in row.circumstances} <= set(Circumstance)


@pytest.mark.parametrize("field", ['circumstance = ["folder"]', 'circumstances = ["moon"]', 'generator = "jax"'])
def test_a_misspelt_row_is_refused_with_its_file_and_id(field: str) -> None:
    text = f'[[source]]\nid = "moon"\nname = "looks up"\nremedy = "look down"\n{field}\n'
    with pytest.raises(TableError, match=r"^sources\.toml: .*`\$\.source\[0\].*` of 'moon'"):
        parse(text, "sources.toml", SourceTable)


OWN_FILES = {
    "a set, dumped": (
        """\
        import json, os
        labels = set(os.urandom(3).hex() for _ in range(1))
        with open(PATH, "w") as file:
            json.dump(sorted(labels), file)
        with open(PATH) as file:
            again = json.load(file)
        """,
        3,
    ),
    "what no line shows": (
        """\
        import os
        k = 1
        with open(PATH, "wb") as file:
            file.write(os.urandom(8))
        k = 2
        def read():
            with open(PATH, "rb") as file:
                return len(file.read().strip(b"x")) and file.seek(0) or file.read()
        again = read()
        """,
        5,
    ),
    "another program": (
        """\
        import subprocess, sys
        k = 1
        subprocess.run([sys.executable, "-S", "-c", f"import os; open({PATH!r}, 'wb').write(os.urandom(9))"])
        again = open(PATH, "rb").read()
        """,
        4,
    ),
    "moved into its place": (
        """\
        import os
        k = os.urandom(5)
        file = open(PATH + ".part", "wb")
        file.write(k)
        file.close()
        os.replace(PATH + ".part", PATH)
        again = open(PATH, "rb").read()
        """,
        3,
    ),
    "an earlier one": (
        """\
        import os
        k = open(os.environ["FOUND"], "rb").read()
        again = k
        """,
        3,
    ),
}


@pytest.mark.parametrize("name", OWN_FILES)
def test_what_a_run_reads_of_its_own_files_comes_from_where_it_was_written(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def before(run: str) -> None:
        found = tmp_path / f"found-{run}"
        found.write_text(run)
        os.utime(found, (1, 1))
        monkeypatch.setenv("FOUND", str(found))

    monkeypatch.chdir(tmp_path)
    source, line = OWN_FILES[name]
    found = two(tmp_path, f"PATH = 'own'\n{dedent(source)}", before=before)
    assert [number for number, _ in lines_of(found) if number < 90] == [line]


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        (
            """\
            import time, torch
            CALLS = []
            class Schedule:
                def __init__(self, opt):
                    self.opt, self.start = opt, time.perf_counter()
                def step(self):
                    used = time.perf_counter() - self.start
                    for group in self.opt.param_groups:
                        group["lr"] = 0.1 * used
            opt = torch.optim.SGD([torch.ones(1)], lr=0.1)
            schedule = Schedule(opt)
            for k in range(2):
                CALLS.append(opt)
                schedule.step()
            """,
            {5, 7},
        ),
        (
            """\
            import os
            CALLS = [0]
            class Collator:
                def __init__(self):
                    self.own = os.urandom(4)
                def __call__(self, k):
                    CALLS.append(self.own)
            def main():
                k = os.urandom(4)
                [*map(Collator(), [k])]
            main()
            """,
            {5},
        ),
        (
            """\
            import os, pathlib
            CALLS = []
            name = os.urandom(4).hex()
            path = pathlib.Path(FOLDER, name)
            CALLS.append(path.write_text(""))
            at = path.stat().st_mtime_ns
            CALLS.append(at)
            """,
            {6},
        ),
        (
            """\
            import logging, os
            CALLS = [0]
            class Handler(logging.Handler):
                def emit(self, record):
                    CALLS.append(record.created)
            log = logging.getLogger(os.urandom(4).hex())
            log.addHandler(Handler())
            log.warning("begun")
            """,
            {8},
        ),
        (
            """\
            import os, time
            CALLS = [0]
            def work(a, b):
                CALLS.append(b)
            x = os.urandom(2)[0] * 1000.5
            work(x + 1, time.perf_counter())
            """,
            {6},
        ),
        (
            """\
            import gzip, os
            CALLS = [0]
            def work(data):
                CALLS.append(data)
            text = os.urandom(9)
            work(gzip.compress(text + b"more"))
            """,
            {6},
        ),
    ],
    ids=["changed by a callee", "given to a method", "a file's time", "a log's record", "an argument", "packed"],
)
def test_a_line_that_reads_what_differs_may_bring_in_a_difference_of_its_own(
    tmp_path: Path, source: str, lines: set[int]
) -> None:
    source = dedent(source).replace("FOLDER", repr(str(tmp_path)))
    assert lines <= {*at(reaching(two(tmp_path, source, calls=[1])))}


@pytest.mark.parametrize(
    ("gives", "is_closed"),
    [
        ("stamped(y)", False),
        ("same(y)", True),
        ("own(y)", True),
        ("sorted(y * 2)", True),
        ("[*map(stamped, y)]", False),
    ],
)
def test_more_may_enter_on_the_way_where_a_library_gives_what_was_nowhere_before(
    beside: Beside, gives: str, is_closed: bool
) -> None:
    text = "def stamped(x):\n    return [x, 'stamp']\ndef same(x):\n    return x\n"
    (beside.others / "stamps_of_others.py").write_text(text, encoding="utf-8")
    source = (
        "import os\nfrom stamps_of_others import same, stamped\nCALLS = []\ndef own(x):\n    return x + ['more']\n"
        f"x = os.urandom(40)\ny = [*x]\nz = {gives}\nCALLS.append(z)\n"
    )
    (found,) = reaching(two(beside.own, source, calls=[0]))
    assert found.location == "program.py:6"
    assert "program.py:8" in found.path
    assert ("program.py:7" in found.closed, "program.py:8" in found.closed) == (True, is_closed)


@pytest.mark.parametrize(
    ("statement", "line", "rows"),
    [
        ("seed = (\n    os.getpid()\n    + time.time_ns()\n)", 2, ["process-id", "clock"]),
        ("seed = os.urandom(4)[0] + time.time_ns()", 2, ["entropy", "clock"]),
        ("seed = (\n    1 +\n    time.time_ns()\n)", 4, ["clock"]),
        ("seed = hash(str(time.time_ns()))", 2, ["clock"]),
    ],
)
def test_a_line_that_takes_from_several_sources_names_all(
    tmp_path: Path, statement: str, line: int, rows: list[str]
) -> None:
    program = f"import os, time; CALLS = []\n{statement}\nCALLS.append(seed)\n"
    (source,) = reaching(two(tmp_path, program, calls=[0]))
    assert (source.location, {row.id for row in rows_of(source)}) == (f"program.py:{line}", {*rows})
    assert source.source in rows
