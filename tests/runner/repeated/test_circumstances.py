"""What the arms change, and what is concluded from who differed in which."""

from __future__ import annotations

import json
import re

import pytest

from tests.runner.repeated.comparisons import divergence, repeated, root
from tracer.cli.repeat import EXAMPLES
from tracer.divergence.causes import RootCause
from tracer.errors import UsageError
from tracer.plain import json_text
from tracer.report.blocks import PAGE
from tracer.report.compared import repeated_json
from tracer.report.render.terminal import drawn, printed
from tracer.report.sections.runs import repeated_blocks, repeated_headline
from tracer.runner.repeated.declared import Circumstance, Start, parse_held, parse_varied
from tracer.runner.repeated.launching import _own_store


def test_all_is_every_circumstance_and_another_word_is_refused_with_those_that_can_be_varied() -> None:
    assert parse_varied("all") == tuple(one for one in Circumstance if one.varied is not None)
    assert parse_held("all") == tuple(Circumstance)
    assert parse_varied("threads, memory") == (Circumstance.MEMORY, Circumstance.THREADS)
    with pytest.raises(UsageError, match=r"unknown circumstance 'sound' for --vary") as refused:
        parse_varied("memory,sound")
    assert refused.value.hint.startswith("choose from hash-seed, memory")


def test_the_help_shows_circumstances_that_exist() -> None:
    (held,) = re.findall(r"--hold (\S+)", EXAMPLES)
    assert len(parse_held(held)) == held.count(",") + 1


@pytest.mark.parametrize("one", list(Circumstance), ids=str)
def test_each_circumstance_says_how_it_is_held_what_that_shows_and_what_it_cannot_reach(one: Circumstance) -> None:
    assert one.held is not None
    assert all((one.held_clause, one.shows, one.remedy, one.held.words, one.held.cannot))


@pytest.mark.parametrize("one", [Circumstance.MEMORY, Circumstance.THREADS, Circumstance.HASH_SEED])
@pytest.mark.parametrize("threads", [1, 8])
def test_what_a_variable_changes_is_another_value_than_the_process_has(one: Circumstance, threads: int) -> None:
    assert one.varied is not None
    once = one.varied.variables(Start({}, threads, {}))
    assert once
    if one is Circumstance.THREADS:
        assert set(once.values()) == {"1" if threads == 8 else "2"}
    else:
        again = one.varied.variables(Start(once, threads, {}))
        assert all(again[name] != value for name, value in once.items())


def test_a_root_of_the_unvaried_runs_is_the_program_itself_and_one_of_an_arm_alone_is_sensitive_to_it() -> None:
    found = repeated(
        divergence(root(10)),
        {Circumstance.THREADS.value: divergence(root(10, RootCause.SETTING), root(20, op="aten.sum"))},
    )
    assert [(one.location, one.arms, one.cause) for one in found.roots] == [
        ("train.py:10", ("unvaried", "threads"), RootCause.KERNEL),
        ("train.py:20", ("threads",), RootCause.KERNEL),
    ]
    text = " ".join(printed(drawn(repeated_blocks(found, PAGE)), width=100, color=False).split())
    assert "Seen in: unvaried, threads. It differs with nothing varied: it is the program itself." in text
    assert "Seen in: threads. It differs in threads only: it is sensitive to that." in text
    assert found.arms[Circumstance.THREADS.value].alone == 1


def test_runs_that_part_in_an_arm_alone_do_not_agree_and_the_headline_says_which() -> None:
    found = repeated(divergence(), {Circumstance.MEMORY.value: divergence(root(7, RootCause.DRAW))})
    assert not found.agrees
    assert found.first is not None
    assert found.first.location == "train.py:7"
    assert repeated_headline(found) == (
        "2 runs agree in all 120 calls; under other circumstances (memory) they diverge at train.py:7"
        " (aten.index_put_, by a random draw)"
    )


def test_the_json_has_the_contracts_fields() -> None:
    found = repeated(divergence(root()), {Circumstance.MEMORY.value: divergence(root())})
    told = json.loads(json_text(repeated_json(found)))
    assert {"schema": 1, "agrees": False, "runs": 2, "calls_compared": 120}.items() <= told.items()
    assert told["first"] == told["roots"][0]
    assert {
        "cause": "kernel",
        "step": 3,
        "call": 41,
        "op": "aten.index_put_.default",
        "phase": "forward",
        "module": "net.table",
        "location": "train.py:41",
        "called_from": "",
        "rule": "",
        "verdict": None,
        "arms": ["unvaried", "memory"],
    }.items() <= told["first"].items()
    assert {name: arm["agrees"] for name, arm in told["arms"].items()} == {"unvaried": False, "memory": False}


def test_under_the_plan_the_headline_says_both() -> None:
    before = repeated(divergence(root()))
    found = repeated(divergence(calls=12_408), settings="planned", as_it_stands=before)
    assert repeated_headline(found) == (
        "As you have it the runs diverge at train.py:41 (aten.index_put_, by its kernel);"
        " under the plan they agree in all 12,408 calls"
    )


def test_runs_of_a_distributed_job_do_not_meet_in_one_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    assert _own_store(1) == {}
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("MASTER_PORT", "65535")
    assert _own_store(0) == {}
    ports = [_own_store(number)["MASTER_PORT"] for number in (1, 2, 3)]
    assert ports == ["1024", "1025", "1026"]
    assert _own_store(1)["TORCHELASTIC_USE_AGENT_STORE"] == "False"


def test_roots_at_one_line_are_listed_each_with_its_own_cause() -> None:
    several = divergence(root(41, RootCause.UNKNOWN), root(41, RootCause.STRUCTURE, call=9))
    assert [each.cause for each in repeated(several).numbered] == [RootCause.UNKNOWN, RootCause.STRUCTURE]
