"""Whether what is drawn ends in a pause, a name or a log: only what the text shows does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command import process
from tracer import Trace, judge
from tracer.report import Report

SCRIPT = """\
import logging, os, random, secrets, time, uuid
import torch

logger = logging.getLogger()

def train(scale):
    parameter = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([parameter])
    (parameter * scale).sum().backward()
    optimizer.step()

class Retrying:
    def __init__(self):
        self._jitter = random.Random()
    def wait(self):
        time.sleep(0.0001 * self._jitter.uniform(0, 1))

def main():
    scale = 2.0
    DRAWS
    train(scale)

main()
"""
ASIDE = {
    "a pause": "time.sleep(0.0001 * random.random())",
    "a pause by a name": "delay = 0.0001 * random.uniform(0, 1); time.sleep(delay)",
    "a run's name": "name = f'run-{uuid.uuid4().hex[:8]}'; os.makedirs(name); print(name)",
    "a log": "logger.info('token %s', secrets.token_hex(4))",
    "a generator for pauses": "Retrying().wait()",
    "a file's name": "torch.save({}, os.path.join('.', f'{uuid.uuid4()}.pt'))",
}
REACHES = {
    "a tensor": "scale = random.random()",
    "a tensor after a log": "scale = random.random(); print(scale)",
    "a seed": "torch.manual_seed(uuid.uuid4().int % 2**32); scale = torch.rand(1)",
    "a choice": "scale = 3.0 if random.random() > 0.5 else 2.0",
    "a list": "numbers = []; numbers.append(random.random()); scale = numbers[0]",
    "another function": "train(random.random())",
    "a logarithm": "import math; scale = math.log(1 + random.random())",
    "an order": "numbers = [1, 2, 3]; random.shuffle(numbers); scale = numbers[0]",
    "a name that is a number again": "name = str(random.random()); print(name); scale = float(name)",
    "a global name": "global SCALE; SCALE = random.random(); print(SCALE)",
    "a generator that draws otherwise too": "r = Retrying(); r.wait(); scale = r._jitter.random()",
}


def report_on(folder: Path, draws: str) -> Report:
    (folder / "train.py").write_text(SCRIPT.replace("DRAWS", draws))
    done = process("run", "-o", "trace.json", "train.py", cwd=folder, module=True)
    assert done.code == 0, done.err
    return judge(Trace.load(folder / "trace.json"))


def risks(report: Report) -> list[str]:
    return [finding.rule for finding in report.findings if finding.verdict.value in ("nondeterministic", "conditional")]


@pytest.mark.slow
@pytest.mark.parametrize("draws", list(ASIDE.values()), ids=list(ASIDE))
def test_what_is_drawn_for_a_pause_a_name_or_a_log_is_a_note(tmp_path: Path, draws: str) -> None:
    report = report_on(tmp_path, draws)
    assert risks(report) == []
    assert "for no tensor, " in report.to_text(width=200, color=False)
    assert "Drawn for a pause, a name or a log alone" in report.to_html()


@pytest.mark.slow
@pytest.mark.parametrize("draws", list(REACHES.values()), ids=list(REACHES))
def test_what_may_reach_a_tensor_is_a_risk(tmp_path: Path, draws: str) -> None:
    assert risks(report_on(tmp_path, draws))
