"""What the README shows works as it stands: its commands one after another, its Python, its answer of `repeat`."""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path

import pytest

from docs.making.pages import ROOT, written_pages
from tests.support.command import Command, tracer_process

README = (ROOT / "README.md").read_text(encoding="utf-8")
#: What makes the commands below it possible: the environment that the tests run in has had it.
INSTALL = "pip install ."
#: Where the reader has seen the commands that people come for.
FIRST_PART = README[: README.index("## Which command answers what")]

SCRIPT = """\
import sys

import torch

torch.manual_seed(0)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    table = torch.zeros(4, 4).index_add(0, torch.tensor([0, 1, 1, 1]), model(torch.ones(4, 4)))
    table.pow(2).sum().backward()
    optimizer.step()
assert sys.argv[1:] in ([], ["--epochs", "1"], ["--config", "small.yaml"], ["--attention", "eager"])
"""
#: The names that the README's Python takes for the reader's own.
NAMES = """\
import torch

model, batch = torch.nn.Linear(4, 4), torch.ones(2, 4)
loader = [batch]


def train_step(model, batch):
    model(batch).sum().backward()


def train(model, loader):
    for batch in loader:
        train_step(model, batch)


"""


def commands(text: str) -> list[str]:
    """The commands in blocks of a console, and the steps of a workflow, without what only remarks on them."""
    blocks = re.findall(r"^```(?:console|yaml)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    lines = (line for block in blocks for line in re.findall(r"(?m)^(?:\$| *- run:) (.*)$", block))
    return [re.sub(r" +#.*", "", line) for line in lines]


def ours(shown: list[str]) -> list[str]:
    return [command for command in shown if command.startswith("tracer ")]


def test_every_command_is_ours_or_installs() -> None:
    shown = commands(README)
    assert [command for command in shown if command not in ours(shown)] == [INSTALL]
    assert shown[:2] == ["tracer repeat train.py", INSTALL]
    assert len(shown) == 8


def test_the_commands_that_people_come_for_run_as_they_stand(tracer: Command) -> None:
    shown = ours(commands(FIRST_PART))
    assert {command.split()[1] for command in shown} == {"demo", "run", "report", "repeat", "check"}
    Path("train.py").write_text(SCRIPT, encoding="utf-8")
    assert shown.pop(0) == "tracer repeat train.py"  # stands below with options, and takes as long
    for command in shown:  # one after another in one folder, as a reader would
        done = tracer(*shlex.split(command)[1:])
        assert done.code == 0, (command, done)
    assert Path("report.html").is_file()


def test_the_python_of_the_readme_runs_as_it_stands(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    assert len(blocks) == 2
    (folder / "loop.py").write_text(NAMES + "\n".join(blocks), encoding="utf-8")
    runpy.run_path("loop.py", run_name="__main__")
    assert capsys.readouterr().err == ""
    assert {path.name for path in folder.iterdir()} == {"loop.py", "report.html", "step.trace.json"}


EXAMPLE = """\
import torch

torch.manual_seed(0)
text = "to be or not to be that is the question".split()
vocabulary = {word: number for number, word in enumerate(set(text))}
embedding = torch.nn.Embedding(len(vocabulary), 8)
head = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD([*embedding.parameters(), *head.parameters()], lr=0.1)
for step in range(3):
    ids = torch.tensor([vocabulary[word] for word in text])
    loss = head(embedding(ids)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.slow
def test_the_answer_on_the_first_screen_is_what_repeat_prints(tmp_path: Path) -> None:
    (shown,) = re.findall(r"^```text\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    sentences = [line.partition(" <- ")[0].strip() for line in shown.splitlines()]
    assert len(sentences) <= 20
    (tmp_path / "train.py").write_text(EXAMPLE, encoding="utf-8")
    done = tracer_process("repeat", "--steps", "0:3", "train.py", cwd=tmp_path, COLUMNS="100")
    assert done.code == 1, done.err
    printed = done.out.partition("Where they diverge")[0]
    losses = re.compile(r"[0-9.]+ in run 1.*|at step 2.*|[0-9.]+$", re.DOTALL)  # another set order gives other losses
    assert (
        losses.sub("", " ".join(printed.split())).strip()
        == losses.sub("", " ".join(" ".join(sentences).split())).strip()
    )


@pytest.mark.parametrize("page", written_pages(), ids=lambda page: page.name)
def test_no_page_installs_what_no_index_has_or_calls_a_recorder_as_the_package_is_called(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert re.findall(r"pip install [^`\n]*(?<![./])determinism-tracer", text) == []
    assert re.findall(r"(?m)^ *(?:tracer = |with .* as tracer:|with tracer:)", text) == []
