"""``tracer run``: the script runs as Python would run it, and its trace is there however it ends, in every mode."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import zipfile
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from tests.recording.values.reading import entries, moments, rows
from tests.support.command import SCRIPTS, Command, both, process, tracer_process
from tests.support.slow import slow_unless
from tracer.names import BlindSpotKind
from tracer.runner.outcome import ScriptRecording
from tracer.runner.script import StepRange
from tracer.session import judge
from tracer.trace import Trace
from tracer.trace.lines import LineRow, read_lines
from tracer.trace.values import Values, read_values


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


#: Ends at once, before a trace is written: that would import torch, which takes seconds.
SOURCE = (SCRIPTS / "show_main.py").read_text() + "\nsys.stdout.flush()\nos._exit(0)\n"


def folder_with_main(where: Path) -> Path:
    where.mkdir()
    (where / "__main__.py").write_text(SOURCE)
    return where


@pytest.fixture
def workplace(tmp_path: Path) -> Path:
    """A folder with one script in every form that Python runs."""
    (tmp_path / "show.py").write_text(SOURCE)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "link.py").symlink_to(tmp_path / "show.py")
    folder_with_main(tmp_path / "folder")
    with zipfile.ZipFile(tmp_path / "packed.zip", "w") as packed:
        packed.writestr("__main__.py", SOURCE)
    package = folder_with_main(tmp_path / "package")
    (package / "__init__.py").touch()
    (package / "inner.py").write_text(SOURCE)
    return tmp_path


@pytest.mark.parametrize(
    "line",
    [
        ("show.py", "--lr", "3", "-o", "x", "--help", "--", "-m"),
        pytest.param(("./sub/../sub/link.py",), marks=pytest.mark.slow),
        pytest.param(("folder", "a b"), marks=pytest.mark.slow),
        pytest.param(("packed.zip",), marks=pytest.mark.slow),
        ("-m", "package", "--steps", "1:2"),
        ("-m", "package.inner", "-h"),
    ],
    ids=["file", "link", "folder", "zip", "package", "module"],
)
def test_the_script_sees_what_python_shows_it(workplace: Path, line: tuple[str, ...]) -> None:
    plain, traced = both(workplace, *line)
    assert plain.code == traced.code == 0, traced.err
    assert json.loads(traced.out) == json.loads(plain.out)


def test_a_class_of_main_pickles_and_reaches_a_spawned_process(tmp_path: Path) -> None:
    traced = tracer_process("run", SCRIPTS / "pickles.py", cwd=tmp_path)
    assert traced.out == "[Sample(number=2), Sample(number=4)]\n"


def test_an_error_has_the_exit_code_and_the_traceback_that_python_gives_it(tmp_path: Path) -> None:
    plain = process(SCRIPTS / "fails.py", "op", cwd=tmp_path)
    traced = tracer_process("run", "-o", "t.json", SCRIPTS / "fails.py", "op", cwd=tmp_path)
    assert traced.code == plain.code == 1
    assert traced.err.splitlines()[:-1] == plain.err.splitlines()
    assert traced.err.splitlines()[-1].startswith("tracer: t.json (partial): 12 calls ")
    assert Trace.load(tmp_path / "t.json").partial == "RuntimeError"


@pytest.mark.parametrize(
    ("how", "code", "says"),
    [pytest.param("exit3", 3, "", marks=pytest.mark.slow), ("message", 1, "the data is gone\n")],
)
def test_a_script_that_leaves_keeps_its_exit_code_and_its_message(
    tmp_path: Path, how: str, code: int, says: str
) -> None:
    done = tracer_process("run", SCRIPTS / "fails.py", how, cwd=tmp_path)
    assert done.code == code
    assert done.err.startswith(f"{says}tracer: trace.json: 9 calls ")
    assert Trace.load(tmp_path / "trace.json").partial == ""


@pytest.mark.parametrize(
    ("how", "code", "partial"),
    [
        pytest.param("SIGINT", -signal.SIGINT, "interrupted", marks=pytest.mark.slow),
        ("SIGTERM", -signal.SIGTERM, "ended by SIGTERM"),
    ],
)
def test_a_signal_leaves_a_partial_trace(tmp_path: Path, how: str, code: int, partial: str) -> None:
    done = tracer_process("run", SCRIPTS / "fails.py", how, cwd=tmp_path)
    assert done.code == code
    assert Trace.load(tmp_path / "trace.json").partial == partial
    assert f"(partial): 9 calls in 9 groups, 1 optimizer step; {partial}" in done.err


def test_a_traceback_of_the_tracers_users_is_not_trimmed_to_nothing(tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text("from tracer import Trace\nTrace.load('nope.json')\n")
    done = tracer_process("run", "s.py", cwd=tmp_path)
    assert done.code == 1
    assert "s.py" in done.err
    assert "TraceError: there is no file nope.json" in done.err


def test_a_forked_child_that_falls_off_the_end_writes_no_trace(tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text(
        "import os, torch\ntorch.ones(1) + 1\nchild = os.fork()\nif child:\n    os.waitpid(child, 0)\n"
        "    torch.ones(1) + 1\n    print(os.path.exists('trace.json'))\n"
    )
    done = tracer_process("run", "s.py", cwd=tmp_path)
    assert done.out == "False\n"
    assert done.err.count("tracer: ") == 1
    assert Trace.load(tmp_path / "trace.json").call_count == 4


def test_the_trace_goes_where_the_script_was_started(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "s.py").write_text("import os\nos.chdir('elsewhere')\n")
    assert tracer_process("run", "s.py", cwd=tmp_path).code == 0
    assert (tmp_path / "trace.json").exists()


@pytest.mark.slow
def test_a_compiled_module_warns_of_nothing_that_is_not_the_scripts(tmp_path: Path) -> None:
    script = tmp_path / "compiles.py"
    script.write_text(
        "import torch\n"
        'compiled = torch.compile(torch.nn.Linear(2, 2), backend="eager")\n'
        "compiled(torch.ones(1, 2)).sum().backward()\n"
    )
    done = tracer_process("run", "-o", "trace.json", "compiles.py", cwd=tmp_path)
    assert done.code == 0
    plain = process("compiles.py", cwd=tmp_path)
    assert [line for line in done.err.splitlines() if "Warning" in line] == [
        line for line in plain.err.splitlines() if "Warning" in line
    ]


#: What is left of the script is lost: neither exit handlers nor ``finally`` run.
ENDS = {
    "os._exit": ("os._exit(7)", 7),
    "SIGKILL": ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
}


def training(tmp_path: Path, *end: str) -> Path:
    """A script that trains for four steps and then does ``end``."""
    script = tmp_path / "s.py"
    script.write_text("\n".join(("import os, signal", (SCRIPTS / "train.py").read_text(), *end)))
    return script


@pytest.mark.parametrize("how", slow_unless({"SIGKILL"}, ENDS))
def test_what_kills_the_script_after_its_recorded_steps_leaves_the_trace(tmp_path: Path, how: str) -> None:
    line, code = ENDS[how]
    done = tracer_process("run", "--with-source", "--steps", "1:2", training(tmp_path, line).name, cwd=tmp_path)
    assert done.code == code, done.err
    assert done.err.count("next: tracer report trace.json") == 1
    trace = Trace.load(tmp_path / "trace.json")
    assert trace.partial == ""
    assert trace.sources[0].optimizer_steps == 1
    assert trace.generators[0].name == "cpu"
    assert "loss.backward()" in trace.source_lines.values()
    assert [path.name for path in tmp_path.glob(".trace.json*")] == []


def test_what_the_script_does_after_its_recorded_steps_is_in_the_trace_at_the_end(tmp_path: Path) -> None:
    end = (
        "from pathlib import Path",
        "early = Path('trace.json').read_bytes()",
        "Path('early.json').write_bytes(early)",
        "torch.backends.cudnn.benchmark = True",
        "for _ in torch.utils.data.DataLoader(torch.arange(4.0), shuffle=True): pass",
    )
    done = tracer_process("run", "--steps", "0:1", training(tmp_path, *end).name, cwd=tmp_path)
    assert done.code == 0, done.err
    assert done.err.count("next: tracer report trace.json") == 1, "said once, though it was written twice"
    early, late = Trace.load(tmp_path / "early.json"), Trace.load(tmp_path / "trace.json")
    assert early.calls == late.calls
    assert early.partial == late.partial == ""
    assert not early.loaders
    assert late.loaders[0].shuffles
    name = "torch.backends.cudnn.benchmark"
    assert [one.name for one in late.events if one.name == name] == [name]
    assert [one for one in early.events if one.name == name] == []


class _Full:
    """A window whose steps were recorded."""

    complete = True


def test_a_signal_that_comes_while_the_trace_is_written_early_waits_and_then_does_its_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = ScriptRecording("s", tmp_path / "t.json", Path("t.json"), StepRange(0, 1), rank=None, exit_after=False)
    recording._window = _Full()  # type: ignore[assignment]
    writing = []

    def write(self: ScriptRecording, window: object, partial: str, *, rescue: bool) -> None:
        writing.append(self.is_writing)
        self.waiting.append(signal.SIGTERM)

    sent = []
    monkeypatch.setattr(ScriptRecording, "_write", write)
    monkeypatch.setattr(ScriptRecording, "_closing_line", lambda *_: "")
    monkeypatch.setattr(os, "kill", lambda process, number: sent.append((process, number, recording.is_writing)))
    recording._write_early()
    assert writing == [True]
    assert sent == [(os.getpid(), signal.SIGTERM, False)]


def test_a_pipe_gets_one_trace_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    recording = ScriptRecording("s", pipe, pipe, StepRange(0, 1), rank=None, exit_after=False)
    recording._window = _Full()  # type: ignore[assignment]
    monkeypatch.setattr(ScriptRecording, "_write", lambda *_: pytest.fail("a pipe was written to early"))
    recording._write_early()


def test_a_script_that_is_killed_leaves_no_trace_of_an_earlier_run(tmp_path: Path) -> None:
    (tmp_path / "trace.json").write_text("of an earlier run")
    (tmp_path / "s.py").write_text("import os\nos._exit(7)")
    assert tracer_process("run", "s.py", cwd=tmp_path).code == 7
    assert not (tmp_path / "trace.json").exists()
    (tmp_path / "trace.json").write_text("of an earlier run")
    assert tracer_process("run", "missing.py", cwd=tmp_path).code == 2
    assert (tmp_path / "trace.json").exists(), "nothing was run"


NET = """\
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        return torch.zeros(3).index_add_(0, torch.tensor([0, 0, 0]), x)
"""

ODD = os.fsdecode(b"\xe9")


@pytest.fixture
def odd_folder(tmp_path: Path) -> Path:
    """A folder whose name is no UTF-8, with a script, and a module beside it."""
    made = tmp_path / f"d{ODD}r"
    try:
        made.mkdir()
    except OSError:
        pytest.skip("this file system takes names in UTF-8 alone")
    (made / f"tr{ODD}.py").write_text(NET + "\nNet()(torch.ones(3))\nprint('trained')\n")
    return made


@pytest.mark.parametrize(
    "values",
    [
        pytest.param((), marks=pytest.mark.slow),
        ("--values", "--with-source", "--data-facts", "--keep-inputs", "index_add_"),
    ],
)
def test_a_run_below_a_folder_of_any_name_leaves_its_trace(odd_folder: Path, values: tuple[str, ...]) -> None:
    output = f"o{ODD}.trace.json"
    done = tracer_process("run", *values, "-o", output, f"tr{ODD}.py", cwd=odd_folder)
    assert (done.code, done.out) == (0, "trained\n"), done.err
    assert "o\\udce9.trace.json: " in done.err
    places = {call.location for call in Trace.load(odd_folder / output).calls}
    assert "tr\\udce9.py:5" in places
    if values:
        read = read_values(odd_folder / f"o{ODD}.values")
        assert (read.partial, {group.location for group in read.groups} <= places) == ("", True)
    for line in ("report", output), ("check", output), ("diff", output, output):
        again = tracer_process(*line, cwd=odd_folder)
        assert (again.code in (0, 1), "error" in again.err) == (True, False)


def test_a_path_of_any_name_from_outside_leaves_its_trace(odd_folder: Path) -> None:
    done = tracer_process("run", "--values", odd_folder / f"tr{ODD}.py", cwd=odd_folder.parent)
    assert (done.code, done.out) == (0, "trained\n"), done.err
    assert "d\\udce9r/tr\\udce9.py:5" in {call.location for call in Trace.load(odd_folder.parent / "trace.json").calls}
    assert (odd_folder.parent / "trace.values").stat().st_size


def test_a_run_whose_folder_goes_away_names_where_its_trace_is(tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text(
        "import shutil, torch\ntorch.ones(2) + 1\nshutil.rmtree('out')\nopen('out', 'w').close()\nprint('trained')\n"
    )
    (tmp_path / "out").mkdir()
    done = tracer_process("run", "-o", "out/t.json", "s.py", cwd=tmp_path)
    assert (done.code, done.out) == (2, "trained\n")
    (line,) = done.err.splitlines()
    found = re.search(r"cannot write \S+t\.json: File exists; it is in (\S+) instead", line)
    assert found, line
    assert Trace.load(found[1]).call_count == 2
    Path(found[1]).unlink()


SCRIPT = dedent("""\
    import random, sys
    import numpy, torch
    random.seed(0); numpy.random.seed(0); torch.manual_seed(0)
    class Set(torch.utils.data.Dataset):
        def __len__(self): return 8
        def __getitem__(self, i): return torch.full((2,), float(i)) + random.random()
    net = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 1))
    opt = torch.optim.Adam(net.parameters())
    for x in torch.utils.data.DataLoader(Set(), batch_size=2, shuffle=True):
        loss = net(x).sum() * float(numpy.random.rand())
        opt.zero_grad(); loss.backward(); opt.step()
    print(loss.item().hex(), random.random().hex(), numpy.random.rand().hex(), torch.rand(1).item().hex())
    sys.exit(7)
    """)


def test_the_output_and_the_exit_code_are_the_same(tmp_path: Path, tracer: Command) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    plain = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    followed = tracer("run", "--lines", "-o", tmp_path / "a.json", script)
    assert (followed.code, followed.out) == (plain.returncode, plain.stdout)
    records = read_lines(tmp_path / "a.lines")
    calls = [record.call for record in records if isinstance(record, LineRow)]
    assert calls == sorted(calls)
    assert calls[-1] > 100
    assert (tmp_path / "a.values").is_file()


def test_a_killed_run_leaves_the_rows_before(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import os\nx = 1\nif x:\n    os.kill(os.getpid(), 9)\n")
    tracer_process("run", "--lines", "-o", tmp_path / "a.json", script, cwd=tmp_path)
    assert [record.line for record in read_lines(tmp_path / "a.lines") if isinstance(record, LineRow)] == [1, 2, 3]


def test_packages_are_named_with_lines_alone(tmp_path: Path, tracer: Command) -> None:
    script = tmp_path / "train.py"
    script.write_text("import torch\n")
    assert tracer("run", "--library", "numpy", script).code == 2


def test_diff_names_the_line_where_both_recordings_have_lines(tmp_path: Path, tracer: Command) -> None:
    script = tmp_path / "train.py"
    script.write_text("import os, sys, torch\nseed = len(sys.argv[1])\nx = torch.ones(3) * seed\ny = x + 1\n")
    for name, argument in (("a", "one"), ("b", "three")):
        tracer("run", "--lines", "-o", tmp_path / f"{name}.json", script, argument)
    told = json.loads(tracer("diff", "--format", "json", tmp_path / "a.json", tmp_path / "b.json").out)
    (source,) = (source for source in told["sources"] if source["reaches"])
    assert (source["location"].rpartition("/")[2], source["first"], source["second"]) == ("train.py:2", "3", "5")
    said = "".join(tracer("diff", tmp_path / "a.json", tmp_path / "b.json").out.split())
    assert said.startswith(source["location"])
    assert "begintodiffer" in said


COMPILED = """
import sys
import torch

compiled = []

def backend(graph, inputs):
    compiled.append(graph)
    return graph

torch.manual_seed(0)
net = torch.compile(torch.nn.Linear(4, 2), backend=backend, fullgraph=True)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    net(torch.ones(3, 4)).sin().sum().backward()
    optimizer.step()
print(len(compiled), sorted(net.state_dict()))
"""


def test_compiled_code_runs_eagerly_and_keeps_its_names_and_the_trace_says_so(folder: Path) -> None:
    (folder / "s.py").write_text(COMPILED)
    done = tracer_process("run", "--eager", "s.py", cwd=folder)  # a process that runs eagerly stays so
    assert done.code == 0, done.err
    assert done.out == "0 ['_orig_mod.bias', '_orig_mod.weight']\n"
    trace = Trace.load(folder / "trace.json")
    assert trace.sources[0].eager
    assert sum(call.count for call in trace.calls if call.op == "aten.addmm.default") == 2
    told = [spot for spot in trace.blind_spots if spot.kind is BlindSpotKind.COMPILE_FELL_BACK]
    assert [spot.detail for spot in told] == ["Linear is compiled, and ran eagerly because --eager was asked for"]
    assert BlindSpotKind.COMPILED not in {spot.kind for spot in trace.blind_spots}
    assert any("--eager" in banner for banner in judge(trace, backend="cuda").banners)


def test_without_the_option_nothing_says_so(folder: Path, tracer: Command) -> None:
    (folder / "s.py").write_text("import torch\ntorch.ones(2) + 1\n")
    done = tracer("run", "s.py")
    assert done.code == 0, done.err
    trace = Trace.load(folder / "trace.json")
    assert not trace.sources[0].eager
    assert not any("--eager" in banner for banner in judge(trace).banners)


LOADER = """
import sys, torch
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 160), torch.nn.BatchNorm1d(160), torch.nn.Linear(160, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
data = TensorDataset(torch.randn(40, 8), torch.randn(40, 2))
for x, y in DataLoader(data, batch_size=8, shuffle=True, num_workers=int(sys.argv[1])):
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
    scheduler.step()
"""

#: Trains until it is killed.
ENDLESS = """
import os, signal, sys, threading, time, torch
timer = threading.Timer(float(sys.argv[1]), lambda: os.kill(os.getpid(), signal.SIGKILL))
if "now" in sys.argv:
    timer.start()
torch.set_num_threads(1)
model = torch.nn.Linear(50, 50)
optimizer = torch.optim.Adam(model.parameters())
while True:
    optimizer.zero_grad()
    model(torch.randn(20, 50)).square().sum().backward()
    optimizer.step()
    if timer.ident is None:
        timer.start()
"""


def run(folder: Path, *args: str | Path, **environ: str) -> Values:
    done = process("run", "--values", *args, cwd=folder, module=True, **environ)
    assert done.code == 0, done.err
    return read_values(folder / "trace.values")


def seeded(values: Values) -> dict[Any, int]:
    """Every moment but the states of generators that the script does not seed, or has not yet."""
    unseeded = ("python", "numpy")
    found = moments(values).items()
    return {
        key: digest for key, digest in found if key[1] not in unseeded and not (key[0] == "generator" and not key[3])
    }


@pytest.mark.parametrize("workers", ["2", pytest.param("0", marks=pytest.mark.slow)])
def test_batches_states_and_calls_are_kept_and_agree_in_a_second_run(tmp_path: Path, workers: str) -> None:
    script = tmp_path / "s.py"
    script.write_text(LOADER)
    first, second = (run(tmp_path, script.name, workers) for _ in range(2))
    assert first.partial == second.partial == ""
    assert rows(first) == rows(second)
    assert seeded(first) == seeded(second)
    kinds = {(kind, name) for kind, name, _, _ in moments(first)}
    assert {
        ("batch", "DataLoader at s.py:9"),
        ("parameter", "Sequential.0.weight"),
        ("gradient", "Sequential.0.weight"),
        ("buffer", "Sequential.1.running_mean"),
        ("generator", "cpu"),
        ("generator", "python"),
        ("hyperparameter", "lr of group 0"),
        ("scheduler", "StepLR"),
    } <= kinds
    positions = {position for kind, _, position, _ in moments(first) if kind == "batch"}
    assert positions == {0, 1, 2, 3, 4}
    assert "outside-change" not in {kind for kind, _, _ in entries(first)}
    if workers == "2":
        assert ("batch", "DataLoader at s.py:9, [1]", 4) in entries(first)
    assert first.steps[1].tolist() == [0, 1, 2, 3, 4, 5]


def test_the_trace_and_the_report_say_that_digests_were_kept(folder: Path, tracer: Command) -> None:
    assert tracer("run", "--values", SCRIPTS / "train.py").code == 0
    values, trace = read_values(folder / "trace.values"), Trace.load(folder / "trace.json")
    assert trace.sources[0].values
    assert len(values.group) > 0
    assert "`tracer diff`" in " ".join(tracer("report", folder / "trace.json").out.split())
    assert {group.op for group in values.groups} <= {group.op for group in trace.calls}
    assert {(group.location, group.module) for group in values.groups} <= {
        (group.location, group.module) for group in trace.calls
    }


def test_nothing_is_kept_unasked(folder: Path, tracer: Command) -> None:
    assert tracer("run", SCRIPTS / "train.py").code == 0
    assert not Trace.load(folder / "trace.json").sources[0].values
    assert [path.name for path in folder.iterdir()] == ["trace.json"]


def test_chosen_steps_keep_their_numbers_and_the_file_is_whole(folder: Path, tracer: Command) -> None:
    assert tracer("run", "--values", "--steps", "1:3", training(folder, "").name).code == 0
    values = read_values(folder / "trace.values")
    assert values.partial == ""
    assert Trace.load(folder / "trace.json").sources[0].optimizer_steps == 2
    assert {step for *_, step in moments(values)} == {1, 2, 3}  # 3: as recording ended


@pytest.mark.parametrize("rank", [0, 1])
def test_each_rank_has_a_file_and_says_which(
    folder: Path, tracer: Command, monkeypatch: pytest.MonkeyPatch, rank: int
) -> None:
    monkeypatch.setenv("RANK", str(rank))
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert tracer("run", "--values", SCRIPTS / "train.py").code == 0
    header = read_values(folder / f"trace.rank{rank}.values").header
    assert (header.rank, header.world_size, header.name) == (rank, 2, "train.py")


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        pytest.param("raise ValueError", "ValueError", marks=pytest.mark.slow),
        ("os.kill(os.getpid(), signal.SIGTERM)", "ended by SIGTERM"),
    ],
)
def test_what_cut_the_script_short_is_said_in_the_file(tmp_path: Path, end: str, reason: str) -> None:
    process("run", "--values", training(tmp_path, end).name, cwd=tmp_path, module=True)
    values = read_values(tmp_path / "trace.values")
    assert values.partial == Trace.load(tmp_path / "trace.json").partial == reason
    assert len(values.group) > 20


def killed_after(seconds: float, folder: Path, *since: str) -> Values | None:
    script = folder / "s.py"
    script.write_text(ENDLESS)
    (folder / "trace.values").unlink(missing_ok=True)
    done = process("run", "--values", script.name, str(seconds), *since, cwd=folder, module=True)
    assert done.code == -signal.SIGKILL, done.err
    if not (folder / "trace.values").exists():
        return None  # before the first call
    values = read_values(folder / "trace.values")
    assert values.partial
    assert len(values.inputs) == len(values.group)
    return values


def test_a_run_that_is_killed_leaves_what_it_had(tmp_path: Path) -> None:
    values = killed_after(1.6, tmp_path)
    assert values is not None
    assert len(values.group) > 20
    killed_after(0.1, tmp_path, "now")  # reads the file, if there is one


@pytest.mark.slow
def test_a_run_that_is_killed_at_any_moment_leaves_a_readable_file(tmp_path: Path) -> None:
    draw = random.Random(0)
    left = [killed_after(draw.uniform(0.0, 4.0), tmp_path, "now") for _ in range(50)]
    assert sum(values is not None and len(values.group) > 0 for values in left) > 10
