"""``tracer diff``: two judgements, two machines, two recordings with values, with child processes and ranks."""

from __future__ import annotations

import json
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from tests.divergence.recorded import Run, program
from tests.hostile.cases import machine
from tests.support.build import call, environment, finding, judgement, trace
from tests.support.command import Command
from tracer import DeterminismTracer
from tracer.gate import ChangeKind, compare_judgements
from tracer.names import DeterministicMode, Phase
from tracer.trace import Trace
from tracer.trace.records import Draw
from tracer.trace.values import ValueKind


def words(text: str) -> str:
    return " ".join(text.split())


def kinds(before: list[Any], after: list[Any]) -> list[ChangeKind]:
    compared = compare_judgements(judgement(*before), judgement(*after))
    return [one.kind for one in compared.differences]


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ([], [finding()], [ChangeKind.NEW]),
        ([finding()], [], [ChangeKind.GONE]),
        ([finding()], [finding()], []),
        ([finding()], [finding(location="train.py:99")], []),
        ([finding()], [finding("npu-unlisted")], []),
        ([finding(verdict="conditional")], [finding()], [ChangeKind.WORSENED]),
        ([finding()], [finding(verdict="seeded")], [ChangeKind.IMPROVED]),
        ([finding()], [finding(deterministic_mode="raises")], [ChangeKind.MODE_WORSENED]),
        ([finding(count=2)], [finding(count=5)], [ChangeKind.RECOUNTED]),
        ([finding()], [finding(module="net.other")], [ChangeKind.NEW, ChangeKind.GONE]),
        ([finding()], [finding(phase="backward")], [ChangeKind.NEW, ChangeKind.GONE]),
    ],
)
def test_a_finding_is_matched_by_what_was_recorded(before: list[Any], after: list[Any], kind: list[ChangeKind]) -> None:
    assert kinds(before, after) == kind


def test_findings_of_one_place_are_one_with_the_worst_verdict_and_all_calls() -> None:
    lines = [finding(location="train.py:1", verdict="conditional", count=2), finding(location="train.py:2", count=3)]
    (one,) = compare_judgements(judgement(), judgement(*lines)).differences
    assert (one.after, one.calls_after) == ("nondeterministic", 5)


def test_settings_and_versions_that_differ_are_named() -> None:
    old = judgement(environment=environment(torch="2.4.0", variables={"NCCL_ALGO": "Ring"}))
    new = judgement(environment=environment(torch="2.13.0", cudnn_benchmark=True))
    told = {one.name: one.values for one in compare_judgements(old, new).settings}
    assert told == {
        "torch": ("2.4.0", "2.13.0"),
        "cudnn_benchmark": ("not set", "True"),
        "NCCL_ALGO": ("Ring", "not set"),
    }


def test_a_ledger_that_ran_ahead_is_a_sentence() -> None:
    draw = Draw(generator="cpu", op="aten.rand.default", phase=Phase.FORWARD, location="train.py:3")
    (said,) = compare_judgements(judgement(), judgement(), [("cpu", 4, draw)]).draws
    assert said == "cpu: 4 draws more, first at train.py:3 (aten.rand.default)"


@pytest.mark.parametrize(
    ("op", "device", "versions", "is_told"),
    [
        ("aten.multinomial.default", "cpu", "2.6,2.13", True),
        ("aten.exponential_.default", "cpu", "2.7,2.6", True),
        ("aten.exponential_.default", "cpu", "2.7,2.13", False),
        ("aten.multinomial.default", "cpu", "2.4,2.6", False),
        ("aten.multinomial.default", "cuda", "2.6,2.13", False),
        ("aten.randn.default", "cpu", "2.6,2.13", False),
    ],
)
def test_numbers_that_another_version_draws_from_one_seed_are_told(
    tracer: Command, tmp_path: Any, op: str, device: str, versions: str, is_told: bool
) -> None:
    facts = {"device": device, "dtype": "float32", "rng.generator": device, "rng.origin": "program"}
    trace(call(op, facts=facts)).save(tmp_path / "t.json")
    done = tracer("diff", str(tmp_path / "t.json"), "--torch", versions, "--format", "json")
    draws = json.loads(done.out).get("draws", [])
    assert draws == ([f"{op.removesuffix('.default')}: other numbers from one seed since torch 2.7"] if is_told else [])


def test_two_traces_or_one_for_two_targets_are_compared_on_the_command_line(tracer: Command) -> None:
    trace(call("aten.add.Tensor")).save("old.json")
    trace(call("aten.add.Tensor"), call("aten.index_add_.default", count=3)).save("new.json")
    done = tracer("diff", "old.json", "new.json", "--backend", "cuda")
    assert (done.code, done.err) == (0, "")
    said = "train.py:10 aten.index_add_.default forward in net.fc: no finding -> nondeterministic, 3 calls"
    assert said in words(done.out)
    for *names, fail_on, code in (
        ("old.json", "new.json", "nondeterministic", 1),
        ("old.json", "new.json", "raises", 0),
        ("new.json", "old.json", "new", 0),
    ):
        assert tracer("diff", *names, "--backend", "cuda", "--fail-on", fail_on).code == code
    done = tracer("diff", "new.json", "--backend", "cpu,cuda")
    assert (done.code, "before: cpu" in done.out, "after: cuda" in done.out) == (0, True, True)


HERE, THERE = "here.doctor.json", "there.doctor.json"


@pytest.fixture
def machines(folder: Path) -> Path:
    """Two machines: the second has eight threads, and deterministic mode on."""
    (folder / HERE).write_bytes(machine(num_threads=2))
    (folder / THERE).write_bytes(machine(num_threads=8, deterministic_mode=DeterministicMode.ON))
    return folder


def test_what_this_process_saves_is_read_again(folder: Path, tracer: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    done = tracer("doctor", "--format", "json", "--save", HERE)
    assert (done.code, f"tracer: {HERE} keeps" in done.err, bool(json.loads(done.out)["torch"])) == (0, True, True)
    saved = json.loads((folder / HERE).read_text())
    assert saved["doctor"] == 1
    assert "torch_seed" not in saved["environment"]
    assert tracer("diff", HERE, HERE, "--fail-on", "parted").code == 0
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    assert "nondeterministic: torch.use_deterministic_algorithms" in tracer("doctor", "--save", THERE).out
    differing = tracer("diff", HERE, THERE)
    assert differing.code == 0
    assert "PYTHONHASHSEED" in differing.out


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ((HERE, THERE), 0),
        ((HERE, THERE, "--fail-on", "parted"), 1),
        ((HERE, THERE, "--fail-on", "nondeterministic"), 0),
        ((HERE, THERE, "--backend", "cpu"), 0),
        # The mode is off on the second machine.
        ((THERE, HERE, "--fail-on", "nondeterministic"), 1),
        ((THERE, HERE, "--fail-on", "new"), 1),
        ((THERE, HERE, "--fail-on", "raises"), 0),
    ],
)
def test_exit_codes_are_those_of_diff(line: tuple[str, ...], code: int, machines: Path, tracer: Command) -> None:
    done = tracer("diff", *line)
    assert (done.code, done.err) == (code, "")


def test_each_difference_stands_in_json(machines: Path, tracer: Command) -> None:
    document: dict[str, Any] = json.loads(tracer("diff", HERE, THERE, "--format", "json").out)
    assert (document["schema"], document["first"], document["second"]) == (1, HERE, THERE)
    told = {one["name"]: (one["first"], one["second"], one["matters"]) for one in document["differences"]}
    assert told["torch.set_num_threads"] == ("2", "8", "machines")
    assert told["torch.use_deterministic_algorithms"] == ("off", "on", "runs")


def test_files_of_one_name_are_told_apart_by_their_folders(machines: Path, tracer: Command) -> None:
    (machines / "b").mkdir()
    (machines / "b" / HERE).write_bytes((machines / THERE).read_bytes())
    assert f"b/{HERE}" in json.loads(tracer("diff", HERE, f"b/{HERE}", "--format", "json").out)["second"]


@pytest.mark.parametrize(
    ("part", "fields", "code", "says"),
    [
        ("outlook", {"has_torch": False}, 3, f"torch cannot be imported on {HERE}"),
        ("environment", {"torch": "mine"}, 2, "'mine' is not a version"),
    ],
)
def test_a_machine_without_torch_is_a_part_and_one_of_no_version_none(
    machines: Path, tracer: Command, part: str, fields: dict[str, Any], code: int, says: str
) -> None:
    document = json.loads((machines / HERE).read_text())
    document[part] |= fields
    (machines / HERE).write_text(json.dumps(document))
    done = tracer("diff", HERE, THERE)
    assert done.code == code
    assert says in done.err.splitlines()[-1]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is not what `tracer doctor --save` wrote"),
        (b"{nothing", "is not what `tracer doctor --save` wrote"),
        (b"\xff\xfe", "cannot read"),
        (b"{}", "missing required field `doctor`"),
        (b'{"doctor": 2}', "schema 2; this release reads schema 1; update"),
        (b'{"doctor": 0}', "this release reads schema 1"),
        (b'{"doctor": 1}', "missing required field `environment`"),
        (b'{"doctor": 1, "environment": {"python": 3}}', "$.environment.python"),
    ],
)
def test_what_is_no_such_file_is_one_line(content: bytes, says: str, machines: Path, tracer: Command) -> None:
    (machines / HERE).write_bytes(content)
    done = tracer("diff", HERE, THERE)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert says in done.err


@pytest.mark.parametrize(("variable", "is_coloured"), [("OTHER", True), ("NO_COLOR", False)])
def test_no_color_is_kept(
    machines: Path, tracer: Command, monkeypatch: pytest.MonkeyPatch, variable: str, is_coloured: bool
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv(variable, "1")
    assert ("\x1b" in tracer("diff", HERE, THERE).out) is is_coloured


def train(seed: int) -> None:
    torch.manual_seed(seed)
    weight = torch.rand(3, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for _ in range(2):
        weight.sum().backward()
        optimizer.step()


def test_diff_holds_child_processes_against_their_own(tmp_path: Path, tracer: Command) -> None:
    for seed in range(2):
        with DeterminismTracer(children=True, values=True) as recorder:
            child = get_context("fork").Process(target=train, args=(seed,))
            child.start()
            child.join()
        recorder.save(tmp_path / f"{seed}.json")
    same = tracer("diff", tmp_path / "0.json", tmp_path / "0.json", "--fail-on", "parted")
    assert same.code == 0, same.err
    other = tracer("diff", tmp_path / "0.json", tmp_path / "1.json", "--fail-on", "parted", "--format", "json")
    assert other.code == 1, other.err
    assert {root["process"] for root in json.loads(other.out)["roots"]} == {"child 1"}


def job(folder: Path, name: str, seeds: tuple[int, ...]) -> Path:
    """The name of a recorded job whose ranks had these seeds."""
    for rank, seed in enumerate(seeds):
        with DeterminismTracer(values=True) as recorder:
            train(seed)
        recorder.save(folder / f"{name}.rank{rank}.json")
    return folder / f"{name}.json"


def test_diff_holds_each_rank_of_a_job_against_its_own(tmp_path: Path, tracer: Command) -> None:
    first, same = job(tmp_path, "first", (0, 1, 2)), job(tmp_path, "same", (0, 1, 2))
    agreed = tracer("diff", first, same, "--fail-on", "parted", "--format", "json")
    assert agreed.code == 0, agreed.err
    parted = tracer("diff", first, job(tmp_path, "other", (0, 1, 7)), "--fail-on", "parted", "--format", "json")
    assert parted.code == 1, parted.err
    assert {root["process"] for root in json.loads(parted.out)["roots"]} == {"rank 2"}
    assert json.loads(parted.out)["calls_compared"] == json.loads(agreed.out)["calls_compared"]


def test_diff_of_jobs_with_other_ranks_is_not_whole(tmp_path: Path, tracer: Command) -> None:
    first, fewer = job(tmp_path, "first", (0, 1)), job(tmp_path, "fewer", (0,))
    compared = tracer("diff", first, fewer, "--format", "json")
    assert "the runs had different ranks" in json.loads(compared.out)["partial"]
    one = tracer("diff", first, tmp_path / "fewer.rank0.json")
    assert (one.code, len(one.err.strip().splitlines())) == (2, 1)
    assert "stands for several ranks" in one.err
    (tmp_path / "first.rank1.values").unlink()
    assert "first.rank1.json has no values beside it" in tracer("diff", first, first).err


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


def test_the_call_that_parts_is_told_with_its_cause_and_what_the_tables_say(tmp_path: Path, tracer: Command) -> None:
    line = ("diff", record(tmp_path, "a"), record(tmp_path, "b", kernel=2))
    done = tracer(*line)
    assert (done.code, done.err) == (0, "")
    for part in (
        "diverges from the first run in step 2, forward, at train.py:14 (aten.index_put_.default), by its kernel.",
        "the table expects it (rule cpu-index-put",
        "1 root, 9 more differ and follow",
    ):
        assert part in words(done.out)
    assert "0 findings changed" in words(done.out) or "No finding changed" in words(done.out)
    told = json.loads(tracer(*line, "--format", "json").out)
    assert (told["schema"], told["agrees"], told["runs"], told["calls_compared"]) == (1, False, 2, 28)
    root = told["first"]
    assert root == told["roots"][0]
    assert (root["cause"], root["verdict"], told["arms"]) == ("kernel", "nondeterministic", {})
    assert {"step", "call", "op", "phase", "module", "location", "called_from", "rule", "verdict", "arms"} <= set(root)
    assert {"before", "after", "same"} <= set(told)
    for fail_on, code in {"parted": 1, "raises,parted": 1, "raises": 0}.items():
        assert tracer(*line, "--fail-on", fail_on).code == code


def test_two_runs_that_agree_are_told_so_and_that_it_is_no_proof(tmp_path: Path, tracer: Command) -> None:
    done = tracer("diff", record(tmp_path, "a"), record(tmp_path, "b"), "--fail-on", "parted")
    assert done.code == 0
    assert "agrees with the first run in all 28 compared calls" in words(done.out)
    assert "no proof" in done.out


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
    assert "the optimizer's states were not restored: there are none where the run resumes" in said
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
