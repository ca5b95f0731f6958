"""``tracer run`` and signals: while torch is imported, sent twice, while a trace is written, and at random moments."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.command import PLAIN
from tests.support.slow import slow_unless
from tracer.runner.interrupts import interrupt_held
from tracer.runner.outcome import ScriptRecording
from tracer.runner.running import trace_before_dying
from tracer.runner.script import Task
from tracer.trace import Trace
from tracer.trace.values import read_values

#: Sends itself a signal as a module is about to be imported.
SENDS = """\
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
class Sends:
    def find_spec(self, name, path, target=None):
        if name == sys.argv[1] and self in sys.meta_path:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), getattr(signal, sys.argv[2]))
sys.meta_path.insert(0, Sends())
import torch
torch.ones(2) + 1
"""


def run(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """``tracer run script.py ARGS`` in ``folder``."""
    return subprocess.run(
        [sys.executable, "-m", "tracer", "run", "script.py", *args],
        cwd=folder,
        env=PLAIN,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("torch.nn", "SIGINT"),
        ("torch.nn", "SIGTERM"),
        pytest.param("torch._utils", "SIGINT", marks=pytest.mark.slow),
        pytest.param("torch.optim", "SIGINT", marks=pytest.mark.slow),
        pytest.param("torch.optim", "SIGHUP", marks=pytest.mark.slow),
    ],
)
def test_a_script_that_ends_before_torch_is_whole_ends_as_python_ends_it(
    tmp_path: Path, module: str, name: str
) -> None:
    (tmp_path / "script.py").write_text(SENDS)
    done = run(tmp_path, module, name)
    assert done.returncode == -getattr(signal, name), done.stderr
    assert "internal error" not in done.stderr
    assert done.stderr.count("torch was not imported") == 1
    assert ('script.py", line 9, in <module>' in done.stderr) == (name == "SIGINT")
    assert done.stderr.count("Traceback") == (name == "SIGINT")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["script.py"]


def test_a_script_whose_import_of_torch_failed_keeps_its_exit_code(tmp_path: Path) -> None:
    tries = "try:\n    import torch\nexcept KeyboardInterrupt:\n    sys.exit(5)\n"
    (tmp_path / "script.py").write_text(SENDS.partition("import torch\n")[0] + tries)
    done = run(tmp_path, "torch.nn", "SIGINT")
    assert done.returncode == 5, done.stderr
    assert "torch was not imported" in done.stderr


BUSY = """\
import os, signal, tempfile
import torch
torch.ones(2) + 1
find = tempfile._get_default_tempdir
tempfile._get_default_tempdir = lambda: os.kill(os.getpid(), signal.SIGTERM) or find()
tempfile._name_sequence = tempfile.tempdir = None
tempfile.gettempdir()
"""


def test_a_signal_that_comes_while_python_looks_for_a_temporary_folder_leaves_the_trace(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(BUSY)
    done = run(tmp_path)
    assert done.returncode == -signal.SIGTERM, done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["script.py", "trace.json"]


def in_a_fork(what: Callable[[], None]) -> int:
    """The exit code of a forked process that does ``what``; 0 where it comes to its end."""
    child = os.fork()
    if child == 0:
        try:
            what()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def recording(folder: Path) -> ScriptRecording:
    """One that was not begun."""
    return ScriptRecording(Task(target="s"), folder / "t.json")


def test_a_signal_that_comes_again_while_the_trace_is_written_waits_for_its_end(tmp_path: Path) -> None:
    class Slow(ScriptRecording):
        def finish(self, ended_by: str = "", **_: bool) -> str:
            os.kill(os.getpid(), signal.SIGTERM)
            (tmp_path / "written").write_text(ended_by)
            return ""

    def dies() -> None:
        written = recording(tmp_path)
        written.__class__ = Slow
        with trace_before_dying(written):
            os.kill(os.getpid(), signal.SIGTERM)

    assert in_a_fork(dies) == -signal.SIGTERM
    assert (tmp_path / "written").read_text() == "ended by SIGTERM"


def test_a_signal_ends_the_process_where_nothing_can_be_written_or_said(tmp_path: Path) -> None:
    class Fails(ScriptRecording):
        def finish(self, ended_by: str = "", **_: bool) -> str:
            raise RuntimeError("reentrant call inside a stream")

    class Busy:
        def write(self, text: str) -> None:
            raise RuntimeError("reentrant call")

    def dies() -> None:
        failing = recording(tmp_path)
        failing.__class__ = Fails
        sys.stderr = Busy()
        with trace_before_dying(failing):
            os.kill(os.getpid(), signal.SIGTERM)

    assert in_a_fork(dies) == -signal.SIGTERM


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no process is forked here")
def test_a_forked_child_ends_by_a_signal_as_without_a_recording(tmp_path: Path) -> None:
    """A handler of Python's would not be called in a call of the system that begins just after the signal came."""
    trace = tmp_path / "t.json"
    with trace_before_dying(ScriptRecording(Task(target="script.py"), trace)):
        handler = signal.getsignal(signal.SIGTERM)
        if (child := os.fork()) == 0:
            os._exit(signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL)
        assert os.waitpid(child, 0)[1] == 0
        assert signal.getsignal(signal.SIGTERM) is handler is not signal.SIG_DFL


@pytest.fixture
def _listens() -> None:
    """Control-C reaches this process, though a shell's background jobs ignore it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.mark.usefixtures("_listens")
def test_an_interrupt_is_held_until_the_block_is_over() -> None:
    reached = []

    def held() -> None:
        with interrupt_held():
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGINT)
            reached.append(True)

    with pytest.raises(KeyboardInterrupt):
        held()
    assert reached
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("_listens")
def test_an_interrupt_that_the_program_handles_itself_is_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    came = []
    before = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        with interrupt_held():
            os.kill(os.getpid(), signal.SIGINT)
            assert came == [signal.SIGINT]
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_trace_is_finished_once(tmp_path: Path) -> None:
    once = recording(tmp_path)
    assert "torch was not imported (ended by SIGTERM)" in once.finish("ended by SIGTERM", dying=True)
    assert once.finish("interrupted") == ""
    assert not (tmp_path / "t.json").exists()


def test_an_interrupt_while_the_command_line_loads_leaves_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import os, signal, sys\n"
        "class Interrupts:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'tracer.cli.main':\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupts())\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    done = subprocess.run(
        [sys.executable, "-m", "tracer", "--version"], env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == -signal.SIGINT
    assert (done.stdout, done.stderr) == ("", "")


def test_a_signal_while_the_recorder_loads_ends_the_script_as_python_does(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "import os, signal, sys\n"
        "class Ends:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'tracer.recording.memory_observers':\n"
        "            os.kill(os.getpid(), signal.SIGTERM)\n"
        "sys.meta_path.insert(0, Ends())\n"
        "import torch\n"
    )
    done = run(tmp_path)
    assert done.returncode == -signal.SIGTERM, done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert "no trace was written: recording had not begun (ended by SIGTERM)" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["script.py"]


def test_the_trace_of_a_run_is_not_left_in_a_folder_of_devices(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import torch\ntorch.ones(2).sin()\n")
    before = set(os.listdir("/dev"))
    done = subprocess.run(
        [sys.executable, "-m", "tracer", "run", "-o", "/dev/full", "script.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 2, done.stderr
    assert set(os.listdir("/dev")) == before
    assert len(list(tmp_path.glob("tracer-rescued-*"))) == 1


# --- signals at random moments ---


COMMANDS = {
    "run": ("run", "-o", "out/trace.json", "--values", "train.py"),
    "repeat": ("repeat", "-o", "out", "--format", "text,json", "--vary", "environment", "train.py"),
}
#: Seconds that the commands take on a quiet machine.
ABOUT = {"run": 5.0, "repeat": 14.0}
SCRIPT = """\
import time
import torch
print("begins", flush=True)
torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.arange(160.0).reshape(40, 4)
for batch in torch.utils.data.DataLoader(data, batch_size=2, num_workers=1):
    optimizer.zero_grad()
    model(batch).pow(2).mean().backward()
    optimizer.step()
    time.sleep(0.05)
print("ends", flush=True)
"""
#: Seconds after which nothing is waited for any more.
HANGS = 60.0
_MOMENTS = random.Random(20)
#: A command, a signal, and where between the start and the end of an undisturbed run it is sent, from 0 to 1.
TRIALS = [
    (command, name, round(_MOMENTS.random(), 3))
    for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGKILL")
    for command in COMMANDS
]


def _hears_signals() -> None:
    """The signals reach it, though ``nohup`` and a shell's background jobs ignore some."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def _session(number: int) -> list[int]:
    """The processes of a session that run."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            fields = Path("/proc", name, "stat").read_bytes().rpartition(b")")[2].split()
            if int(fields[3]) == number and fields[0] != b"Z":
                found.append(int(name))
    return found


def _codes(command: str, name: str, was_over: bool, out: str, err: str) -> set[int]:
    """What Python alone would end with; 3 for a repeat that was cut short once it had begun."""
    number = getattr(signal, name)
    fits = {-number}
    if name == "SIGINT" and "Fatal Python error: init_" in err:  # Python's own start was interrupted
        fits |= {1}
    if command == "repeat" and name != "SIGKILL":
        fits |= {3}
        if "tracer: run 1" in err:
            fits -= {-number}
    if was_over or "tracer: wrote" in err or ("ends" in out and command == "run"):
        fits |= {0, -number}  # everything was done by then
    return fits


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are listed in /proc")
@pytest.mark.parametrize(("command", "name", "moment"), slow_unless(TRIALS[:1], TRIALS))
def test_a_signal_at_a_random_moment_ends_all_with_the_right_code_and_leaves_nothing(
    tmp_path: Path, command: str, name: str, moment: float
) -> None:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "train.py").write_text(SCRIPT)
    started = subprocess.Popen(
        [sys.executable, "-m", "tracer", *COMMANDS[command]],
        cwd=tmp_path,
        env={**PLAIN, "TMPDIR": str(tmp_path / "tmp"), "TORCH_WARM_POOL": "0"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=_hears_signals,
    )
    time.sleep(moment * ABOUT[command])
    was_over = started.poll() is not None
    with suppress(ProcessLookupError):
        started.send_signal(getattr(signal, name))
    began = time.monotonic()
    with suppress(subprocess.TimeoutExpired):
        started.wait(HANGS)
    while _session(started.pid) and time.monotonic() - began < HANGS:
        time.sleep(0.05)
    left = _session(started.pid)
    for number in left:
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)
    out, err = started.communicate()
    assert not left, out + err
    assert "internal error" not in err
    assert started.returncode in _codes(command, name, was_over, out, err), out + err
    for path in (tmp_path / "out").iterdir():
        is_of_lines = re.search(r"\.lines(\.\d+)*$", path.name) is not None
        assert not path.name.startswith(".")
        assert is_of_lines or path.suffix in (".json", ".values")
        if path.suffix == ".values" and path.stat().st_size:
            read_values(path)
        elif path.suffix == ".json" and path.name != "repeat.json":
            Trace.load(path)
    trained = not was_over and out.count("begins") > out.count("ends")
    if command == "run" and trained and name != "SIGKILL":
        assert (tmp_path / "out" / "trace.json").exists(), out + err
    if name != "SIGKILL":  # which leaves nobody to take it away
        assert not list((tmp_path / "tmp").glob("tracer-*"))
