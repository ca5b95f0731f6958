"""Two runs' lines from where one of them resumes: what it holds otherwise there, and what hangs on that."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from tests.support.traced import traced
from tracer.divergence.cut_lines import RunLines, cut
from tracer.divergence.lines import LineKind, ReadOtherwise, read_otherwise

#: A loop that makes one call, its update, in each round, and resumes with the third.
LOOP = """
CALLS, DONE = [], 0
class Thing: pass
def update(): CALLS.append(0)
{setup}
if RESUMES:
    DONE = 2
{restore}
for step in range(DONE, 4):
{body}
"""


def otherwise(folder: Path, source: str, calls: tuple[int, int] = (2, 0)) -> tuple[RunLines, list[ReadOtherwise]]:
    """The resumed run's lines, and what it holds otherwise that the first common update, or one after it, hangs on."""
    runs = [RunLines(traced(folder, f"RESUMES = {value}\n{source}", name=value)) for value in ("False", "True")]
    both = cut(runs[0], runs[1], calls)
    assert both is not None
    by_call, _ = read_otherwise(both.records, range(calls[0], 4))
    found = (each for several in by_call.values() for each in several)
    return runs[1], [each for each in dict.fromkeys(found) if "CALLS" not in each.names[0:1] + (each.root.name,)]


def loop(folder: Path, setup: str, restore: str, body: str) -> tuple[RunLines, list[ReadOtherwise]]:
    def indented(text: str) -> str:
        return "".join(f"    {line}\n" for line in dedent(text).strip().splitlines() or ["pass"])

    return otherwise(folder, LOOP.format(setup=dedent(setup), restore=indented(restore), body=indented(body)))


#: What is set up, restored and done in each round, and what is lost: its name and both values, if they are numbers.
LOST = {
    "a number": ("best = 9", "", "best -= 1\nupdate() or best", ("best", "7", "9")),
    "a number behind a branch": (
        "best, rate = 9, 1",
        "",
        "if best < 8:\n    rate = 2\nbest -= 1\nupdate() or rate",
        ("best", "7", "9"),
    ),
    "a list in another order": (
        "items = [1, 2, 3]",
        "",
        "items.reverse() or items.append(0)\nupdate() or items",
        ("items", "", ""),
    ),
    "an attribute": ("t = Thing()\nt.n = 0", "", "t.n += 1\nupdate() or t", ("t.n", "2", "0")),
    "a generator of the process": (
        "import random\nrandom.seed(1)",
        "",
        "x = random.random()\nupdate() or x",
        ("%generator python", "", ""),
    ),
    "a generator of the program's": (
        "import random\nown = random.Random(1)",
        "",
        "x = own.random()\nupdate() or x",
        ("own", "", ""),
    ),
    "what another value of the program's is made of": (
        "n = 0",
        "",
        "n += 1\nk = 2 * n\nupdate() or k",
        ("n", "2", "0"),
    ),
}


@pytest.mark.parametrize("case", LOST)
def test_what_was_lost_is_named_with_both_values(tmp_path: Path, case: str) -> None:
    *parts, (name, first, second) = LOST[case]
    _, found = loop(tmp_path, *parts)
    assert [(each.root.kind, each.root.name, each.first, each.second) for each in found] == [
        (LineKind.STATE, name, first, second)
    ]


#: What is restored, or needs no restoring.
KEPT = {
    "a number that is given back": ("best = 9", "best = 7", "best -= 1\nupdate() or best"),
    "a generator that each round seeds": ("import random", "", "random.seed(step)\nx = random.random()\nupdate() or x"),
    "an argument that differs": ("", "", "update() or RESUMES or DONE"),
    "what is made anew in each round": ("x = 0", "x = 5", "x = step\nupdate() or x"),
    "what each round forgets": ("x = 0", "", "x = 0\nx += step\nupdate() or x"),
}


@pytest.mark.parametrize("case", KEPT)
def test_what_was_kept_or_is_no_state_is_not_named(tmp_path: Path, case: str) -> None:
    assert loop(tmp_path, *KEPT[case])[1] == []


def test_a_loop_that_begins_again_is_named_itself(tmp_path: Path) -> None:
    source = """
    CALLS = []
    def update(): CALLS.append(0)
    for epoch in range(3 if RESUMES else 4):
        update() or epoch
    """
    _, (found,) = otherwise(tmp_path, dedent(source))
    assert (found.root.kind, found.names, found.first, found.second) == (LineKind.LINE, ("epoch",), "2", "0")


def test_of_values_that_share_a_name_only_the_one_that_is_read_is_named(tmp_path: Path) -> None:
    setup = "a, b = Thing(), Thing()\na.n, b.n = 0, 0"
    _, found = loop(tmp_path, setup, "a.n = 2", "a.n += 1\nb.n += 1\nupdate() or a.n")
    assert found == []
    _, found = loop(tmp_path, setup, "", "a.n += 1\nb.n += 1\nupdate() or a.n")
    assert [each.root.name for each in found] == ["a.n"]


IN_A_CLASS = """
CALLS = []
class Trainer:
    def __init__(self):
        self.step, self.best = 0, 9
    def load(self, state):
        self.step = state["step"]
    def update(self):
        CALLS.append(self.best)
    def fit(self):
        while self.step < 4:
            self.step += 1
            self.best -= 1
            self.update()
def main():
    trainer = Trainer()
    if RESUMES:
        trainer.load({"step": 2})
    trainer.fit()
main()
"""


def test_in_an_object_whose_method_loops_the_attribute_is_named_and_the_line_that_gave_it(tmp_path: Path) -> None:
    run, found = otherwise(tmp_path, IN_A_CLASS)
    assert [(each.root.name, each.first, each.second) for each in found] == [("self.best", "7", "9")]
    assert run.gave("self.best", "9", "Trainer.fit") == "program.py:6"


@pytest.mark.parametrize(("restores", "line"), [("", 3), ("x = [5]", 5), ("x = [2]\n    x = [5]\n    x.sort()", 6)])
def test_the_line_that_made_a_value_so_is_the_last_that_changed_it(tmp_path: Path, restores: str, line: int) -> None:
    restore = f"if RESUMES:\n    {restores or 'pass'}\n"
    source = f"CALLS = []\nx = [1]\n{restore}for _ in range(4):\n    CALLS.append(len(x))\n    x.append(0)\n"
    run, _ = otherwise(tmp_path, source)
    digest = [change.changed["x"] for change in run.changes() if "x" in change.changed][-1]
    assert run.gave("x", digest, "<module>") == f"program.py:{line}"
