"""Each circumstance changes what it says, in a process of its own, and leaves alone what it says it does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from tests.support.command import process
from tracer import DeterminismTracer
from tracer.runner.repeated.circumstances import memory

if not hasattr(os, "fork"):
    pytest.skip("circumstances are tried in forks", allow_module_level=True)


def run(code: str, folder: Path) -> str:
    (folder / "script.py").write_text(code, encoding="utf-8")
    done = process("script.py", cwd=folder)
    assert done.code == 0, done.err
    return done.out


def test_the_clock_is_ahead_wherever_python_reads_it_and_moments_stay_usable(tmp_path: Path) -> None:
    run(
        """
import copy, datetime, pickle, time
real, day, was = datetime.datetime, datetime.date, datetime.date.today()
before = (time.time(), time.time_ns(), time.localtime(), time.monotonic())
from tracer.runner.repeated.circumstances.clock import AHEAD, shift_clock
from tracer.runner.repeated.circumstances.replacing import Replacements
shift_clock(Replacements())
assert AHEAD <= time.time() - before[0] < AHEAD + 60
assert AHEAD <= (time.time_ns() - before[1]) / 1e9 < AHEAD + 60
assert time.monotonic() - before[3] < 60
assert time.localtime().tm_yday != before[2].tm_yday
assert time.strftime("%d") != time.strftime("%d", before[2])
assert time.localtime(0) == time.localtime(0.0) and time.strftime("%Y", time.gmtime(0)) == "1970"
assert time.ctime() != time.ctime(before[0]) and time.asctime(time.gmtime(0)).endswith("1970")
now = datetime.datetime.now()
assert AHEAD <= (now - real.now()).total_seconds() + 60 < AHEAD + 120
assert datetime.date.today() > was and datetime.datetime.today().date() == datetime.date.today()
assert abs(datetime.datetime.now(datetime.timezone.utc).timestamp() - time.time()) < 60
assert isinstance(now, real) and isinstance(real.now(), datetime.datetime) and isinstance(now, datetime.date)
assert issubclass(real, datetime.datetime) and not isinstance(day.today(), datetime.datetime)
for moment in (now, real(2020, 1, 2, 3), day(2020, 1, 2), datetime.date(2020, 1, 2)):
    assert pickle.loads(pickle.dumps(moment)) == moment == copy.deepcopy(moment)
assert now + datetime.timedelta(1) > now and datetime.datetime(2020, 1, 1) == real(2020, 1, 1)
assert datetime.datetime.fromisoformat("2020-01-02") == real(2020, 1, 2)
assert datetime.datetime.fromtimestamp(0, datetime.timezone.utc).year == 1970
""",
        tmp_path,
    )


def test_another_host_bears_another_name_and_lists_folders_backwards(tmp_path: Path) -> None:
    run(
        """
import glob, os, pathlib, platform, shutil, socket, tempfile
from tracer.runner.repeated.circumstances.environment import VARIED_NAME as NAME, become_another_host
from tracer.runner.repeated.circumstances.replacing import Replacements
os.mkdir("d")
for name in "acb":
    open(f"d/{name}", "w").close()
become_another_host(Replacements())
assert socket.gethostname() == platform.node() == os.uname().nodename == os.uname()[1] == NAME
assert os.listdir("d") == ["c", "b", "a"] and [one.name for one in os.scandir("d")] == ["c", "b", "a"]
assert [one.name for one in pathlib.Path("d").iterdir()] == ["c", "b", "a"]
assert glob.glob("d/*") == ["d/c", "d/b", "d/a"] and [one[2] for one in os.walk("d")] == [["c", "b", "a"]]
with os.scandir("d") as entries:
    assert next(entries).is_file()
with tempfile.TemporaryDirectory() as folder:
    pathlib.Path(folder, "x").touch()
shutil.rmtree("d")
assert not os.path.exists(folder) and not os.path.exists("d")
""",
        tmp_path,
    )


def test_whoever_was_asked_first_answers_last_and_every_answer_is_right(tmp_path: Path) -> None:
    run(
        """
import multiprocessing, threading
from concurrent.futures import ThreadPoolExecutor, as_completed
from tracer.runner.repeated.circumstances.delays import hold_up_workers
from tracer.runner.repeated.circumstances.replacing import Replacements
hold_up_workers(Replacements())
import multiprocessing.pool
with ThreadPoolExecutor(2) as pool:
    asked = [pool.submit(pow, 2, number) for number in range(2)]
    assert [one.result() for one in as_completed(asked)] == [2, 1]
    assert list(pool.map(abs, [-1, -2, -3])) == [1, 2, 3]
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert pool.map(abs, [-1, -2, -3]) == [1, 2, 3]
    assert sorted(pool.imap_unordered(abs, [-1, -2])) == [1, 2]
""",
        tmp_path,
    )


@pytest.mark.skipif(not hasattr(os, "confstr_names") or "CS_GNU_LIBC_VERSION" not in os.confstr_names, reason="glibc")
def test_fresh_memory_holds_other_bytes(tmp_path: Path) -> None:
    run(
        """
import torch
from tracer.runner.repeated.circumstances.memory import fill_fresh_memory
from tracer.runner.repeated.circumstances.replacing import Replacements
fill_fresh_memory(Replacements())
for size in (64, 5_000, 3_000_000):
    assert torch.empty(size, dtype=torch.uint8).unique().tolist() == [0x55]
""",
        tmp_path,
    )


def test_the_plans_settings_are_made_before_the_script_and_the_rest_are_variables(tmp_path: Path) -> None:
    from tracer.runner.repeated.circumstances.planned import variables_among

    assert variables_among({"CUBLAS_WORKSPACE_CONFIG": ":4096:8", "deterministic_mode": "on", "seed.torch": True}) == {
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8"
    }
    run(
        """
import random
from tracer.runner.repeated.circumstances.planned import make_before_the_script
from tracer.runner.repeated.circumstances.replacing import Replacements
make_before_the_script(Replacements(), {"deterministic_mode": "on", "cudnn_benchmark": False,
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    "seed.torch": True, "seed.python": True, "seed.numpy": True})
import numpy, torch
assert torch.are_deterministic_algorithms_enabled() and torch.initial_seed() == 0
assert (numpy.random.rand(), random.random()) == (numpy.random.RandomState(0).rand(), random.Random(0).random())
""",
        tmp_path,
    )


def test_filling_a_devices_memory_is_no_call_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA starts in the middle of a recorded program; here another device stands in for it."""
    full, filled = torch.full, []
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (0, 0))
    monkeypatch.setattr(torch, "full", lambda *args, device, **kwargs: filled.append(full(*args, **kwargs)))
    with DeterminismTracer() as tracer:
        torch.ones(2)
        memory._fill_device(1)
    assert len(filled) == memory._SMALL_BLOCKS
    assert [group.op for group in tracer.trace.calls] == ["aten.ones.default"]
