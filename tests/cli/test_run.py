"""``tracer run``: the script runs as Python would run it, and its trace is there however it ends, in every mode."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.recording.values.reading import entries, moments, rows
from tests.support.command import SCRIPTS, Command, Finished, both, process, tracer_process
from tests.support.slow import slow_unless
from tracer.names import BlindSpotKind
from tracer.runner.outcome import ScriptRecording
from tracer.runner.script import StepRange, Task
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
    tracer: Command, options: tuple[str, ...], steps_recorded: int, losses: int, partial: str
) -> None:
    done = tracer("run", *options, "-o", "t.json.gz", SCRIPTS / "train.py")
    assert done.code == 0
    assert len(done.out.splitlines()) == losses
    trace = Trace.load("t.json.gz")
    assert trace.partial == partial
    assert trace.sources[0].optimizer_steps == steps_recorded
    # Each step runs the forward of the last layer once, and its weight's gradient once.
    for op in ("aten.addmm.default", "aten.embedding_dense_backward.default"):
        assert sum(one.count for one in trace.calls if one.op == op) == steps_recorded


SCRIPT = """\
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
"""


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """What Python itself makes of it."""
    return process("-c", SCRIPT, cwd=tmp_path_factory.mktemp("plain"))


@pytest.mark.parametrize("options", [(), ("--values", "--data-facts"), ("--lines",)], ids=" ".join)
def test_output_and_exit_code_stay(plain: Finished, folder: Path, tracer: Command, options: tuple[str, ...]) -> None:
    (folder / "train.py").write_text(SCRIPT)
    done = tracer("run", *options, "-o", "a.json", "train.py")
    assert (done.code, done.out) == (7, plain.out)
    assert plain.code == 7
    assert done.err.endswith("4 optimizer steps; next: tracer report a.json\n")
    trace = Trace.load("a.json")
    assert trace.sources[0].name == "train.py"
    assert {one.location for one in trace.calls if one.op == "aten.addmm.default"} == {"train.py:10"}
    assert (folder / "a.values").is_file() is bool(options)
    if "--lines" in options:
        calls = [record.call for record in read_lines(folder / "a.lines") if isinstance(record, LineRow)]
        assert calls == sorted(calls)
        assert calls[-1] > 100


def test_a_script_without_steps_is_told_so(folder: Path, tracer: Command) -> None:
    (folder / "s.py").write_text("import torch\ntorch.ones(2) + 1\n")
    done = tracer("run", "--steps", "0:1", "s.py")
    assert done.code == 0
    assert "no optimizer step ended, so --steps 0:1 was never over" in done.err
    trace = Trace.load("trace.json")
    assert trace.call_count == 2
    assert trace.partial


def test_a_mode_of_the_scripts_own_stays_its_own(tracer: Command) -> None:
    done = tracer("run", "--steps", "1:2", SCRIPTS / "hooks_torch.py")
    assert done.code == 0, done.err
    assert [line.split() for line in done.out.splitlines()] == [["162", "1"], ["162", "0"], ["162", "0"]]
    assert Trace.load("trace.json").sources[0].optimizer_steps == 1


def test_torch_is_imported_by_the_script_and_the_settings_are_those_of_the_step(tmp_path: Path) -> None:
    done = tracer_process("run", SCRIPTS / "sets_threads.py", cwd=tmp_path)
    assert done.out == "1\n", done.err
    environment = Trace.load(tmp_path / "trace.json").environment
    assert (environment.deterministic_mode, environment.torch_seed, environment.num_threads) == ("on", 1234, 1)


def test_each_rank_writes_files_of_its_own_and_says_which(tracer: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    done = tracer("run", "--values", "-o", "out/t.json.gz", SCRIPTS / "train.py", "1")
    assert "out/t.rank1.json.gz" in done.err
    header = read_values(Path("out/t.rank1.values")).header
    for of_rank in (Trace.load("out/t.rank1.json.gz").sources[0], header):
        assert (of_rank.rank, of_rank.world_size, of_rank.name) == (1, 2, "train.py")


@pytest.mark.parametrize(
    ("script", "steps", "says"),
    [
        ("trains_on_thread.py", ":", "ended on another thread, which is not recorded"),
        ("steps_in_backward.py", "1:2", "ended inside the backward pass"),
    ],
)
def test_steps_that_recording_cannot_follow_are_said(tracer: Command, script: str, steps: str, says: str) -> None:
    done = tracer("run", "--steps", steps, SCRIPTS / script)
    assert done.code == 0, done.err
    assert says in done.err
    assert says in Trace.load("trace.json").partial


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (("--rows", "s.py", "--rows", "4"), "--rows 4"),
        (("--rows", "3", "s.py"), ""),
        (("--rows=3", "--steps", ":", "s.py", "--rows"), "--rows"),
    ],
)
def test_rows_take_the_next_word_if_a_number(folder: Path, tracer: Command, words: tuple[str, ...], given: str) -> None:
    program = "import sys, torch\nprint(*sys.argv[1:])\ntorch.nn.BatchNorm1d(5)(torch.randn(6, 5)).tanh()\n"
    (folder / "s.py").write_text(program)
    done = tracer("run", *words)
    assert (done.code, done.out.strip()) == (0, given)
    rows = {trial.op: trial.outcome for trial in Trace.load("trace.json").rows}
    assert rows == {"aten.native_batch_norm.default": "mixed", "aten.tanh.default": "equal"}


#: Ends at once, before a trace is written: that would import torch, which takes seconds.
SOURCE = (SCRIPTS / "show_main.py").read_text() + "\nsys.stdout.flush()\nos._exit(0)\n"


@pytest.fixture
def workplace(tmp_path: Path) -> Path:
    """A folder with one script in every form that Python runs."""
    for name in ("show.py", "folder/__main__.py", "package/__main__.py", "package/__init__.py", "package/inner.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("" if "__init__" in name else SOURCE)
    (tmp_path / "link.py").symlink_to(tmp_path / "show.py")
    with zipfile.ZipFile(tmp_path / "packed.zip", "w") as packed:
        packed.writestr("__main__.py", SOURCE)
    return tmp_path


@pytest.mark.parametrize(
    "line",
    slow_unless(
        lambda line: line.startswith(("show", "-m")),
        [
            "show.py --lr 3 -o x --help -- -m",
            "./folder/../link.py",
            "folder a",
            "packed.zip",
            "-m package --steps 1:2",
            "-m package.inner -h",
        ],
    ),
)
def test_the_script_sees_what_python_shows_it(workplace: Path, line: str) -> None:
    plain, traced = both(workplace, *line.split())
    assert plain.code == traced.code == 0, traced.err
    assert json.loads(traced.out) == json.loads(plain.out)


def test_a_class_of_main_pickles_and_reaches_a_spawned_process(tmp_path: Path) -> None:
    traced = tracer_process("run", SCRIPTS / "pickles.py", cwd=tmp_path)
    assert traced.out == "[Sample(number=2), Sample(number=4)]\n"


def test_an_error_has_the_exit_code_and_the_traceback_that_python_gives_it(tmp_path: Path, tracer: Command) -> None:
    plain = process(SCRIPTS / "fails.py", "op", cwd=tmp_path)
    traced = tracer("run", "-o", "t.json", SCRIPTS / "fails.py", "op")
    assert traced.code == plain.code == 1
    assert traced.err.splitlines()[:-1] == plain.err.splitlines()
    assert traced.err.splitlines()[-1].startswith("tracer: t.json (partial): 12 calls ")
    assert Trace.load("t.json").partial == "RuntimeError"


@pytest.mark.parametrize(("how", "code", "says"), [("exit3", 3, ""), ("message", 1, "the data is gone\n")])
def test_a_script_that_leaves_keeps_exit_code_and_message(tracer: Command, how: str, code: int, says: str) -> None:
    done = tracer("run", SCRIPTS / "fails.py", how)
    assert done.code == code
    assert done.err.startswith(f"{says}tracer: trace.json: 9 calls ")
    assert Trace.load("trace.json").partial == ""


@pytest.mark.parametrize(
    ("how", "code", "partial"),
    [
        pytest.param("raise", 1, "KeyError", marks=pytest.mark.slow),
        pytest.param("SIGINT", -signal.SIGINT, "interrupted", marks=pytest.mark.slow),
        ("SIGTERM", -signal.SIGTERM, "ended by SIGTERM"),
    ],
)
def test_what_cuts_a_script_short_leaves_partial_recordings(tmp_path: Path, how: str, code: int, partial: str) -> None:
    done = tracer_process("run", "--values", SCRIPTS / "fails.py", how, cwd=tmp_path)
    assert done.code == code
    values = read_values(tmp_path / "trace.values")
    assert values.partial == Trace.load(tmp_path / "trace.json").partial == partial
    assert len(values.group) > 5
    assert f"(partial): 9 calls in 9 groups, 1 optimizer step; {partial}" in done.err


def test_a_traceback_of_the_tracers_users_is_not_trimmed_to_nothing(folder: Path, tracer: Command) -> None:
    (folder / "s.py").write_text("from tracer import Trace\nTrace.load('nope.json')\n")
    done = tracer("run", "s.py")
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


def test_the_trace_goes_where_the_script_was_started(folder: Path, tracer: Command) -> None:
    (folder / "elsewhere").mkdir()
    (folder / "s.py").write_text("import os\nos.chdir('elsewhere')\n")
    assert tracer("run", "s.py").code == 0
    assert (folder / "trace.json").exists()


@pytest.mark.slow
def test_a_compiled_module_warns_of_nothing_that_is_not_the_scripts(tmp_path: Path) -> None:
    (tmp_path / "compiles.py").write_text(
        "import torch\n"
        'compiled = torch.compile(torch.nn.Linear(2, 2), backend="eager")\n'
        "compiled(torch.ones(1, 2)).sum().backward()\n"
    )
    plain, traced = both(tmp_path, "compiles.py")
    assert traced.code == 0
    warned, expected = ([line for line in done.err.splitlines() if "Warning" in line] for done in (traced, plain))
    assert warned == expected


def training(folder: Path, *end: str) -> str:
    """A script that trains for four steps and then does ``end``."""
    (folder / "s.py").write_text("\n".join(("import os, signal", (SCRIPTS / "train.py").read_text(), *end)))
    return "s.py"


#: What is left of the script is lost: neither exit handlers nor ``finally`` run.
@pytest.mark.parametrize(
    ("line", "code"),
    [
        pytest.param("os._exit(7)", 7, marks=pytest.mark.slow),
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
    ],
)
def test_what_kills_the_script_after_its_recorded_steps_leaves_the_trace(tmp_path: Path, line: str, code: int) -> None:
    done = tracer_process("run", "--with-source", "--steps", "1:2", training(tmp_path, line), cwd=tmp_path)
    assert done.code == code, done.err
    assert done.err.count("next: tracer report trace.json") == 1
    trace = Trace.load(tmp_path / "trace.json")
    assert (trace.partial, trace.sources[0].optimizer_steps, trace.generators[0].name) == ("", 1, "cpu")
    assert "loss.backward()" in trace.source_lines.values()
    assert [path.name for path in tmp_path.glob(".trace.json*")] == []


def test_what_a_script_does_after_its_recorded_steps_is_in_the_trace_at_last(folder: Path, tracer: Command) -> None:
    end = (
        "from pathlib import Path",
        "early = Path('trace.json').read_bytes()",
        "Path('early.json').write_bytes(early)",
        "torch.backends.cudnn.benchmark = True",
        "for _ in torch.utils.data.DataLoader(torch.arange(4.0), shuffle=True): pass",
    )
    done = tracer("run", "--steps", "0:1", training(folder, *end))
    assert done.code == 0, done.err
    assert done.err.count("next: tracer report trace.json") == 1, "said once, though it was written twice"
    early, late = Trace.load("early.json"), Trace.load("trace.json")
    assert early.calls == late.calls
    assert early.partial == late.partial == ""
    assert not early.loaders
    assert late.loaders[0].shuffles
    name = "torch.backends.cudnn.benchmark"
    assert [[one.name for one in trace.events if one.name == name] for trace in (early, late)] == [[], [name]]


class _Full:
    """A window whose steps were recorded."""

    complete = True


@pytest.fixture
def recording(request: pytest.FixtureRequest, tmp_path: Path) -> ScriptRecording:
    """One whose steps are over, to be written early."""
    place = tmp_path / "t.json"
    made = ScriptRecording(Task(target="s", steps=StepRange(0, 1)), place)
    made._window = _Full()  # type: ignore[assignment]
    return made


def test_a_signal_that_comes_while_the_trace_is_written_early_waits_and_then_does_its_work(
    recording: ScriptRecording, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing, sent = [], []

    def write(self: ScriptRecording, window: object, partial: str, *, rescue: bool) -> None:
        writing.append(self.is_writing)
        self.waiting.append(signal.SIGTERM)

    monkeypatch.setattr(ScriptRecording, "_write", write)
    monkeypatch.setattr(ScriptRecording, "_closing_line", lambda *_: "")
    monkeypatch.setattr(os, "kill", lambda process, number: sent.append((process, number, recording.is_writing)))
    recording._write_early()
    assert writing == [True]
    assert sent == [(os.getpid(), signal.SIGTERM, False)]


def test_a_pipe_gets_one_trace(recording: ScriptRecording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "t.json")
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


ODD = os.fsdecode(b"\xe9")


@pytest.fixture
def odd_folder(tmp_path: Path) -> Path:
    """A folder whose name is no UTF-8, with such a script."""
    made = tmp_path / f"d{ODD}r"
    try:
        made.mkdir()
    except OSError:
        pytest.skip("this file system takes names in UTF-8 alone")
    (made / f"tr{ODD}.py").write_text(
        "import torch\ntorch.zeros(3).index_add_(0, torch.tensor([0, 0, 0]), torch.ones(3))\nprint('trained')\n"
    )
    return made


@pytest.mark.parametrize("options", [(), ("--values", "--with-source", "--data-facts", "--keep-inputs", "index_add_")])
def test_a_run_below_any_folder_leaves_its_trace(odd_folder: Path, tracer: Command, options: tuple[str, ...]) -> None:
    os.chdir(odd_folder)
    output = f"o{ODD}.trace.json"
    done = tracer("run", *options, "-o", output, f"tr{ODD}.py")
    assert (done.code, done.out) == (0, "trained\n"), done.err
    assert "o\\udce9.trace.json: " in done.err
    places = {call.location for call in Trace.load(output).calls}
    assert "tr\\udce9.py:2" in places
    if options:
        read = read_values(odd_folder / f"o{ODD}.values")
        assert (read.partial, {group.location for group in read.groups} <= places) == ("", True)
    for line in ("report", output), ("check", output), ("diff", output, output):
        again = tracer(*line)
        assert (again.code in (0, 1), "error" in again.err) == (True, False)


def test_a_path_of_any_name_from_outside_leaves_its_trace(odd_folder: Path, tracer: Command) -> None:
    done = tracer("run", "--values", odd_folder / f"tr{ODD}.py")
    assert (done.code, done.out) == (0, "trained\n"), done.err
    assert "d\\udce9r/tr\\udce9.py:2" in {call.location for call in Trace.load("trace.json").calls}
    assert Path("trace.values").stat().st_size


def test_a_run_whose_folder_goes_away_names_where_its_trace_is(tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text(
        "import shutil, torch\ntorch.ones(2) + 1\nshutil.rmtree('out')\nopen('out', 'w').close()\nprint('trained')\n"
    )
    (tmp_path / "out").mkdir()
    done = tracer_process("run", "-o", "out/t.json", "s.py", cwd=tmp_path)  # what cannot be saved stays open
    assert (done.code, done.out) == (2, "trained\n")
    found = re.fullmatch(r".*cannot write \S+t\.json: File exists; it is in (\S+) instead.*\n", done.err)
    assert found, done.err
    assert Trace.load(found[1]).call_count == 2
    Path(found[1]).unlink()


def test_a_killed_run_leaves_the_rows_before(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import os\nx = 1\nif x:\n    os.kill(os.getpid(), 9)\n")
    tracer_process("run", "--lines", "-o", "a.json", "train.py", cwd=tmp_path)
    assert [record.line for record in read_lines(tmp_path / "a.lines") if isinstance(record, LineRow)] == [1, 2, 3]


def test_diff_names_the_line_where_both_recordings_have_lines(folder: Path, tracer: Command) -> None:
    (folder / "train.py").write_text(
        "import os, sys, torch\nseed = len(sys.argv[1])\nx = torch.ones(3) * seed\ny = x + 1\n"
    )
    for name, argument in (("a", "one"), ("b", "three")):
        tracer("run", "--lines", "-o", f"{name}.json", "train.py", argument)
    told = json.loads(tracer("diff", "--format", "json", "a.json", "b.json").out)
    (source,) = (source for source in told["sources"] if source["reaches"])
    assert (source["location"], source["first"], source["second"]) == ("train.py:2", "3", "5")
    said = " ".join(tracer("diff", "a.json", "b.json").out.split())
    assert said.startswith("train.py:2")
    assert "begin to differ" in said


COMPILED = """
import torch

compiled = []

def backend(graph, inputs):
    compiled.append(graph)
    return graph

net = torch.compile(torch.nn.Linear(4, 2), backend=backend, fullgraph=True)
for _ in range(2):
    net(torch.ones(3, 4)).sin().sum().backward()
print(len(compiled), sorted(net.state_dict()))
"""


def test_compiled_code_runs_eagerly_and_keeps_its_names_and_the_trace_says_so(folder: Path) -> None:
    (folder / "s.py").write_text(COMPILED)
    done = tracer_process("run", "--eager", "s.py", cwd=folder)  # a process that runs eagerly stays so
    assert done.code == 0, done.err
    assert done.out == "0 ['_orig_mod.bias', '_orig_mod.weight']\n"
    trace = Trace.load("trace.json")
    assert trace.sources[0].eager
    assert sum(call.count for call in trace.calls if call.op == "aten.addmm.default") == 2
    told = [spot for spot in trace.blind_spots if spot.kind is BlindSpotKind.COMPILE_FELL_BACK]
    assert [spot.detail for spot in told] == ["Linear is compiled, and ran eagerly because --eager was asked for"]
    assert BlindSpotKind.COMPILED not in {spot.kind for spot in trace.blind_spots}
    assert any("--eager" in banner for banner in judge(trace, backend="cuda").banners)


def test_nothing_is_kept_or_said_unasked(folder: Path, tracer: Command) -> None:
    assert tracer("run", SCRIPTS / "train.py").code == 0
    trace = Trace.load("trace.json")
    assert (trace.sources[0].values, trace.sources[0].eager) == (False, False)
    assert not any("--eager" in banner for banner in judge(trace).banners)
    assert [path.name for path in folder.iterdir()] == ["trace.json"]


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


def seeded(values: Values) -> dict[Any, int]:
    """Every moment but the states of generators that the script does not seed, or has not yet."""
    found = moments(values).items()
    return {
        key: digest
        for key, digest in found
        if key[1] not in ("python", "numpy") and not (key[0] == "generator" and not key[3])
    }


@pytest.mark.parametrize("workers", ["2", "0"])
def test_batches_states_and_calls_agree_in_a_second_run(folder: Path, tracer: Command, workers: str) -> None:
    (folder / "s.py").write_text(LOADER)

    def run() -> Values:
        done = tracer("run", "--values", "s.py", workers)
        assert done.code == 0, done.err
        return read_values(folder / "trace.values")

    first, second = run(), run()
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
    assert {position for kind, _, position, _ in moments(first) if kind == "batch"} == {0, 1, 2, 3, 4}
    assert "outside-change" not in {kind for kind, _, _ in entries(first)}
    if workers == "2":
        assert ("batch", "DataLoader at s.py:9, [1]", 4) in entries(first)
    assert first.steps[1].tolist() == [0, 1, 2, 3, 4, 5]


def test_the_trace_and_the_report_say_that_digests_were_kept(folder: Path, tracer: Command) -> None:
    assert tracer("run", "--values", "--steps", "1:3", SCRIPTS / "train.py").code == 0
    values, trace = read_values(folder / "trace.values"), Trace.load("trace.json")
    assert (trace.sources[0].values, trace.sources[0].optimizer_steps, values.partial) == (True, 2, "")
    assert {step for *_, step in moments(values)} == {1, 2, 3}  # as in the whole run; 3: as recording ended
    assert "`tracer diff`" in " ".join(tracer("report", "trace.json").out.split())
    assert len(values.group) > 0
    places = {(group.op, group.location, group.module) for group in trace.calls}
    assert {(group.op, group.location, group.module) for group in values.groups} <= places


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


def killed_after(seconds: float, folder: Path, *since: str) -> Values | None:
    (folder / "s.py").write_text(ENDLESS)
    (folder / "trace.values").unlink(missing_ok=True)
    done = tracer_process("run", "--values", "s.py", str(seconds), *since, cwd=folder)
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


@pytest.mark.slow
def test_a_run_that_is_killed_at_any_moment_leaves_a_readable_file(tmp_path: Path) -> None:
    draw = random.Random(0)
    left = [killed_after(draw.uniform(0.0, 4.0), tmp_path, "now") for _ in range(50)]
    assert sum(values is not None and len(values.group) > 0 for values in left) > 10
