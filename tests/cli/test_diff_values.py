"""``tracer diff`` on recordings with values: where they part comes first, then what it said before."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from tests.divergence.recorded import Run, program
from tests.support.build import call, environment, trace
from tests.support.command import Command
from tracer.trace import Trace
from tracer.trace.values import ValueKind

PLACE = {"op": "aten.index_put_.default", "location": "train.py:14", "module": "", "function": "step"}


def record(folder: Path, name: str, *, with_trace: bool = True, **bend: object) -> str:
    """A trace and its values, or the values of a killed run."""
    header = bend.pop("header", {})
    run = Run(folder / f"{name}.values", **header)  # type: ignore[arg-type]
    program(run, **bend)  # type: ignore[arg-type]
    run.values()
    if not with_trace:
        return str(folder / f"{name}.values")
    facts = {"device": "cpu", "dtype": "float32", "arg.accumulate": True, "index.is_mask": False}
    facts["shape.numel_ge_32768"] = True
    trace(call(**PLACE, facts=facts), call("aten.add.Tensor"), environment=environment(num_threads=2)).save(
        folder / f"{name}.trace.json"
    )
    return str(folder / f"{name}.trace.json")


def words(text: str) -> str:
    return " ".join(text.split())


def test_the_call_that_parts_is_told_with_its_cause_and_what_the_tables_say(tmp_path: Path, tracer: Command) -> None:
    done = tracer("diff", record(tmp_path, "a"), record(tmp_path, "b", kernel=2))
    assert (done.code, done.err) == (0, "")
    said = words(done.out)
    assert (
        "diverges from the first run in step 2, forward, at train.py:14 (aten.index_put_.default), by its kernel."
        in said
    )
    assert "the table expects it (rule cpu-index-put" in said
    assert "1 root, 9 more differ and follow" in said
    assert "0 findings changed" in said or "No finding changed" in said


def test_json_has_the_fields_of_a_repeated_run_and_those_of_a_comparison(tmp_path: Path, tracer: Command) -> None:
    done = tracer("diff", record(tmp_path, "a"), record(tmp_path, "b", kernel=2), "--format", "json")
    told = json.loads(done.out)
    assert (told["schema"], told["agrees"], told["runs"], told["calls_compared"]) == (1, False, 2, 28)
    assert told["first"] == told["roots"][0]
    root = told["first"]
    assert root["cause"] == "kernel"
    assert {"step", "call", "op", "phase", "module", "location", "called_from", "rule", "verdict", "arms"} <= set(root)
    assert root["verdict"] == "nondeterministic"
    assert told["arms"] == {}
    assert {"before", "after", "same"} <= set(told)


def test_two_runs_that_agree_are_told_so_and_that_it_is_no_proof(tmp_path: Path, tracer: Command) -> None:
    done = tracer("diff", record(tmp_path, "a"), record(tmp_path, "b"), "--fail-on", "parted")
    assert done.code == 0
    assert "agrees with the first run in all 28 compared calls" in words(done.out)
    assert "no proof" in done.out


def test_a_gate_on_values_fails_where_they_part(tmp_path: Path, tracer: Command) -> None:
    one, two = record(tmp_path, "a"), record(tmp_path, "b", kernel=2)
    assert tracer("diff", one, two, "--fail-on", "parted").code == 1
    assert tracer("diff", one, two, "--fail-on", "raises,parted").code == 1
    assert tracer("diff", one, two, "--fail-on", "raises").code == 0


def test_runs_that_were_killed_are_compared_by_their_values_alone(tmp_path: Path, tracer: Command) -> None:
    one, two = record(tmp_path, "a", with_trace=False), record(tmp_path, "b", with_trace=False, kernel=2)
    Path(two).write_bytes(Path(two).read_bytes()[:-3])
    done = tracer("diff", one, two)
    assert done.code == 0
    said = words(done.out)
    assert "no call in common" not in said
    assert "cut off" in said
    assert "findings were not compared" in said


def test_a_resumed_run_is_one_command(tmp_path: Path, tracer: Command) -> None:
    state: dict[str, object] = {}
    states = {(ValueKind.OPTIMIZER_STATE, "exp_avg of fc.weight"): "m"}
    whole = record(tmp_path, "whole", steps=6, states=states, keep=(2, state))
    resumed = record(tmp_path, "resumed", steps=4, begin=2, restored=state)
    done = tracer("diff", whole, resumed, "--align-step", "2=2")
    said = words(done.out)
    assert "Step 2 of the second run is compared with step 2 (as asked)" in said
    assert "the optimizer's states were not restored: it has none where the run resumes" in said
    assert "found by its parameters" in words(tracer("diff", whole, resumed).out)


def test_two_ranks_are_held_against_each_other_as_replicas(tmp_path: Path, tracer: Command) -> None:
    one, two = (record(tmp_path, f"r{n}", header={"rank": n, "world_size": 2}, kernel=n) for n in range(2))
    done = tracer("diff", one, two)
    assert "Ranks 0 and 1 of one job drift apart: by step" in words(done.out)


def test_calls_that_only_one_run_makes_are_shown_with_both_continuations(tmp_path: Path, tracer: Command) -> None:
    whole = record(tmp_path, "a")
    assert "1 call that one run alone makes (train.py:9)" in words(
        tracer("diff", whole, record(tmp_path, "b", extra_call=1)).out
    )
    said = words(tracer("diff", whole, record(tmp_path, "c", steps=3)).out)
    assert (
        "the first run continues with aten.mm.default at train.py:10, the second ends (7 calls of the first run" in said
    )


@pytest.mark.parametrize("text", ["1", "a=b", "1=2=3", "-1=2", "1=" + "9" * 30])
def test_steps_that_are_no_two_steps_are_refused_in_one_line(tmp_path: Path, tracer: Command, text: str) -> None:
    done = tracer("diff", record(tmp_path, "a"), record(tmp_path, "b"), f"--align-step={text}")
    assert done.code == 2
    assert len(done.err.splitlines()) == 1


def test_what_needs_values_says_which_recording_has_none(tmp_path: Path, tracer: Command) -> None:
    one, two = record(tmp_path, "a"), record(tmp_path, "b")
    (tmp_path / "b.values").unlink()
    for arguments in (["--align-step", "1=1"], ["--fail-on", "parted"]):
        done = tracer("diff", one, two, *arguments)
        assert done.code == 2
        assert "b.trace.json has none" in done.err
    assert tracer("diff", one, two).code == 0


def test_a_broken_file_of_values_is_one_line(tmp_path: Path, tracer: Command) -> None:
    one, two = record(tmp_path, "a"), record(tmp_path, "b")
    (tmp_path / "b.values").write_bytes(b"nothing of the kind")
    done = tracer("diff", one, two)
    assert done.code == 2
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize("gone", ["a", "b"])
def test_values_that_a_trace_promises_and_that_are_missing_are_told(tmp_path: Path, tracer: Command, gone: str) -> None:
    one, two = record(tmp_path, "a"), record(tmp_path, "b")
    for path in (one, two):
        made = Trace.load(path)
        sources = tuple(msgspec.structs.replace(source, values=True) for source in made.sources)
        msgspec.structs.replace(made, sources=sources).save(path)
    (tmp_path / f"{gone}.values").unlink()
    done = tracer("diff", one, two)
    assert done.code == 3
    assert f"{gone}.trace.json was recorded with values, and there is no file" in done.err
