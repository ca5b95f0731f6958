"""The page that leads a newcomer through the code: a call enters the modules that it names, in that order."""

from __future__ import annotations

import json
import re

import pytest

from docs.making.pages import DOCS, ROOT
from tests.support.command import process

PAGE = (DOCS / "how-it-works.md").read_text(encoding="utf-8")
STAGES = ("Record", "Trace", "Judge", "Report")

#: Follows one call; prints the modules that each stage enters by a function with a name, in order. What importing a
#: module runs is no part of it, so another judgement and page come first.
WALK = """
import inspect, json, os, sys
import torch
import tracer
from tracer import DeterminismTracer, judge

home = os.path.dirname(os.path.dirname(tracer.__file__)) + os.sep
stages = {}


def entered(stage, run):
    modules = stages.setdefault(stage, {})

    def enter(frame, event, _):
        code = frame.f_code
        is_function = code.co_flags & inspect.CO_OPTIMIZED and not code.co_name.startswith("<")
        if event == "call" and is_function and code.co_filename.startswith(home + "tracer"):
            modules.setdefault(code.co_filename.removeprefix(home).replace(os.sep, "/"))

    sys.setprofile(enter)
    try:
        return run()
    finally:
        sys.setprofile(None)


source, index, out = torch.ones(8, 4), torch.tensor([0, 0, 1, 1, 2, 2, 3, 3]), torch.zeros(4, 4)
with DeterminismTracer(torch.nn.Linear(4, 4)) as recorder:
    out.index_add_(0, index, source)
    entered("Record", lambda: out.index_add_(0, index, source))
trace = entered("Trace", lambda: recorder.trace)
judge(trace, backend="cpu").to_html()
report = entered("Judge", lambda: judge(trace, backend="cuda", torch="2.13"))
entered("Report", report.to_html)
print(json.dumps({stage: list(modules) for stage, modules in stages.items()}))
"""


def named(stage: str) -> list[str]:
    """The modules in the table of a section, in order."""
    (section,) = re.findall(rf"^## {stage}\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    return re.findall(r"^\| `(tracer/[\w/]+\.py)` \|", section, re.MULTILINE)


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The modules that one call enters, stage by stage."""
    script = tmp_path_factory.mktemp("walk") / "step.py"
    script.write_text(WALK, encoding="utf-8")
    ended = process(script, cwd=script.parent)
    assert ended.code == 0, ended.err
    stages: dict[str, list[str]] = json.loads(ended.out)
    return stages


def test_each_stage_names_modules_that_exist() -> None:
    assert re.findall(r"^## (.*)$", PAGE, re.MULTILINE) == list(STAGES)
    for stage in STAGES:
        assert len(named(stage)) > 5
        assert [path for path in named(stage) if not (ROOT / path).is_file()] == []


@pytest.mark.parametrize("stage", STAGES)
def test_a_call_enters_the_modules_that_the_page_names_in_that_order(stage: str, walked: dict[str, list[str]]) -> None:
    assert [path for path in walked[stage] if path in named(stage)] == named(stage)
