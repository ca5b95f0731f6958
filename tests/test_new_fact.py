"""Adding a fact is one declaration: the vocabulary, the recorder, the lint and a table's conditions then know it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command import process
from tracer.facts import Fact, Kind, noted
from tracer.facts.every_fact import FACTS


def test_a_declared_fact_is_known_to_the_vocabulary_and_read_by_the_recorder(tmp_path: Path) -> None:
    program = """
import json
from tracer.facts import noted


@noted("shape.has_seven", "Has the tensor seven elements?", "self")
def has_seven(source):
    return source.numel() == 7


import torch
from tracer.recording.recorder import Recorder
from tracer.tables.rules import DOMAINS, UNNOTED, in_words

recorder = Recorder(
    None, variables=(), asked_compiled=dict,
    asked={"aten.sin": frozenset({"shape.has_seven"})},
)
recorder.start()
torch.ones(7).sin()
torch.ones(6).sin()
recorder.stop()
print(json.dumps({
    "domain": DOMAINS["shape.has_seven"],
    "absent": UNNOTED["shape.has_seven"],
    "words": in_words("shape.has_seven", frozenset({True})),
    "recorded": [call.facts.get("shape.has_seven") for call in recorder.trace("").calls if "sin" in call.op],
}))
"""
    done = process("-c", program, cwd=tmp_path)
    assert json.loads(done.out) == {
        "domain": [False, True],
        "absent": False,
        "words": "shape.has_seven: true",
        "recorded": [True, None],
    }


@pytest.mark.parametrize("fact", FACTS.values(), ids=lambda fact: fact.key)
def test_a_declaration_is_whole(fact: Fact) -> None:
    assert fact.about.endswith((".", "?"))
    assert len(set(fact.domain)) == len(fact.domain) > 1
    assert (fact.read is not None) == (fact.kind in (Kind.ASKED, Kind.NOTED, Kind.MARKED))
    assert not fact.of_forward or FACTS[fact.of_forward].kind is Kind.MARKED


def test_no_fact_is_declared_twice() -> None:
    with pytest.raises(ValueError, match="twice"):
        noted("index.distinct", "Is it?")(lambda func, services: None)
