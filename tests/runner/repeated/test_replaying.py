"""A call that the tables call deterministic is replayed on the spot before its kernel is blamed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command import Command

#: Torch's sigmoid is another function, which a package can do; it adds what ``other`` is worth.
REPLACED = """\
import os, random, warnings
import torch

warnings.simplefilter("ignore")
library = torch.library.Library("aten", "IMPL")
library.impl("sigmoid", lambda x: torch.exp(x) / (1 + torch.exp(x)) + {other}, "CPU")
torch.manual_seed(0)
model = torch.nn.Linear(4, 4)
torch.sigmoid(model(torch.ones(2, 4))).sum().backward()
"""


@pytest.mark.parametrize(
    ("other", "cause", "contradicts", "says"),
    [
        ("1e-3 * os.getpid()", "unknown", False, "its kernel is not the cause"),
        pytest.param(
            "random.random()", "kernel", True, "it varied when it was replayed on the spot", marks=pytest.mark.slow
        ),
    ],
    ids=["same-in-a-process", "varies"],
)
def test_a_kernel_is_blamed_against_the_tables_only_where_a_replay_varies(
    tracer: Command, other: str, cause: str, contradicts: bool, says: str
) -> None:
    Path("train.py").write_text(REPLACED.format(other=other))
    done = tracer("repeat", "--no-hold", "--format", "text,json", "train.py")
    assert done.code == 1, done.err
    assert "one further run, in which calls are replayed on the spot (aten.sigmoid.default)" in done.err
    root = json.loads(Path("repeat/repeat.json").read_text())["first"]
    assert (root["op"], root["cause"], root["contradicts"]) == ("aten.sigmoid.default", cause, contradicts)
    assert says in root["why"]
