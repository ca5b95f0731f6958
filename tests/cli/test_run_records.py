"""``tracer run``: what the script did is in the trace, for the steps that were asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command import SCRIPTS, Command, process, tracer_process
from tracer.trace import Trace


@pytest.mark.parametrize(
    ("options", "steps_recorded", "losses", "partial"),
    [
        (("--steps", "0:1"), 1, 4, ""),
        (("--steps", "1:3"), 2, 4, ""),
        (("--steps", "2:"), 2, 4, ""),
        (("--steps", "1:2", "--exit-after-steps"), 1, 1, ""),
        (("--steps", "3:9"), 1, 4, "the script ended after 4 optimizer steps, before 3:9 was over"),
    ],
)
def test_steps_are_a_window_of_optimizer_steps(
    folder: Path, tracer: Command, options: tuple[str, ...], steps_recorded: int, losses: int, partial: str
) -> None:
    done = tracer("run", *options, "-o", "t.json.gz", SCRIPTS / "train.py")
    assert done.code == 0
    assert len(done.out.splitlines()) == losses
    trace = Trace.load(folder / "t.json.gz")
    assert trace.partial == partial
    assert trace.sources[0].optimizer_steps == steps_recorded
    # Each step runs the forward of the last layer once, and its weight's gradient once.
    assert sum(one.count for one in trace.calls if one.op == "aten.addmm.default") == steps_recorded
    assert sum(one.count for one in trace.calls if one.op == "aten.embedding_dense_backward.default") == (
        steps_recorded
    )


def test_losses_are_the_same_with_and_without(tmp_path: Path) -> None:
    plain = process(SCRIPTS / "train.py", "3", cwd=tmp_path)
    traced = tracer_process("run", "-o", "t.json", SCRIPTS / "train.py", "3", cwd=tmp_path)
    assert traced.out == plain.out
    trace = Trace.load(tmp_path / "t.json")
    assert trace.sources[0].name == "train.py"
    assert {one.location for one in trace.calls if one.op == "aten.addmm.default"} != {""}
    assert traced.err.endswith("3 optimizer steps; next: tracer report t.json\n")


def test_a_script_without_steps_is_told_so(folder: Path, tracer: Command) -> None:
    (folder / "s.py").write_text("import torch\ntorch.ones(2) + 1\n")
    done = tracer("run", "--steps", "0:1", "s.py")
    assert done.code == 0
    assert "no optimizer step ended, so --steps 0:1 was never over" in done.err
    trace = Trace.load(folder / "trace.json")
    assert trace.call_count == 2
    assert trace.partial


@pytest.mark.slow
def test_a_mode_of_the_scripts_own_stays_its_own(tmp_path: Path) -> None:
    plain = process(SCRIPTS / "hooks_torch.py", cwd=tmp_path)
    traced = tracer_process("run", "--steps", "1:2", SCRIPTS / "hooks_torch.py", cwd=tmp_path)
    assert traced.code == 0, traced.err
    flops = [line.split() for line in traced.out.splitlines()]
    assert [one[0] for one in flops] == [line.split()[0] for line in plain.out.splitlines()]
    assert [one[1] for one in flops] == ["1", "0", "0"]
    assert Trace.load(tmp_path / "trace.json").sources[0].optimizer_steps == 1


def test_torch_is_imported_by_the_script_and_the_settings_are_those_of_the_step(tmp_path: Path) -> None:
    done = tracer_process("run", SCRIPTS / "sets_threads.py", cwd=tmp_path)
    assert done.out == "1\n", done.err
    environment = Trace.load(tmp_path / "trace.json").environment
    assert environment.deterministic_mode == "on"
    assert environment.torch_seed == 1234
    assert environment.num_threads == 1


def test_each_rank_writes_a_file_of_its_own(folder: Path, tracer: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    done = tracer("run", "-o", "out/t.json.gz", SCRIPTS / "train.py", "1")
    assert "out/t.rank1.json.gz" in done.err
    source = Trace.load(folder / "out" / "t.rank1.json.gz").sources[0]
    assert (source.rank, source.world_size) == (1, 2)


@pytest.mark.parametrize(
    ("script", "steps", "says"),
    [
        ("trains_on_thread.py", ":", "ended on another thread, which is not recorded"),
        ("steps_in_backward.py", "1:2", "ended inside the backward pass"),
    ],
)
def test_steps_that_recording_cannot_follow_are_said_to_be_so(
    folder: Path, tracer: Command, script: str, steps: str, says: str
) -> None:
    done = tracer("run", "--steps", steps, SCRIPTS / script)
    assert done.code == 0, done.err
    assert says in done.err
    assert says in Trace.load(folder / "trace.json").partial


@pytest.mark.slow
def test_two_ranks_of_torchrun_write_two_traces_that_merge(tmp_path: Path) -> None:
    launch = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "tracer")
    line = ("run", "-o", "t.json", "--steps", "1:2", SCRIPTS / "two_ranks.py")
    done = process(*launch, *line, cwd=tmp_path)
    assert done.code == 0, done.err
    traces = [Trace.load(tmp_path / f"t.rank{rank}.json") for rank in (0, 1)]
    assert traces[0].calls == traces[1].calls
    assert [one.sources[0].rank for one in traces] == [0, 1]
    merged = tracer_process("report", "t.rank0.json", "t.rank1.json", "--format", "json", cwd=tmp_path)
    assert merged.code == 0, merged.err


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (("--rows", "s.py", "--rows", "4"), "--rows 4"),
        (("--rows", "3", "s.py"), ""),
        (("--rows=3", "--steps", ":", "s.py", "--rows"), "--rows"),
    ],
)
def test_rows_take_the_next_word_only_if_it_is_a_number(
    folder: Path, tracer: Command, words: tuple[str, ...], given: str
) -> None:
    program = "import sys, torch\nprint(*sys.argv[1:])\ntorch.nn.BatchNorm1d(5)(torch.randn(6, 5)).tanh()\n"
    (folder / "s.py").write_text(program)
    done = tracer("run", *words)
    assert (done.code, done.out.strip()) == (0, given)
    rows = {trial.op: trial.outcome for trial in Trace.load(folder / "trace.json").rows}
    assert rows == {"aten.native_batch_norm.default": "mixed", "aten.tanh.default": "equal"}


def test_rows_that_are_no_number_are_a_usage_error(folder: Path, tracer: Command) -> None:
    (folder / "s.py").write_text("")
    done = tracer("run", "--rows=many", "s.py")
    assert done.code == 2
    assert "--rows" in done.err
