"""Each circumstance changes what it says, in a process of its own, and leaves alone what it says it does."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
import torch

from tests.support.command import process
from tracer import DeterminismTracer
from tracer.runner.repeated import task
from tracer.runner.repeated.circumstances import environment, memory
from tracer.runner.repeated.circumstances.declared import Circumstance
from tracer.runner.repeated.circumstances.folder import MOST_OF_A_FILE, Snapshot
from tracer.runner.repeated.circumstances.replacing import Replacements

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


@pytest.mark.parametrize("name", [environment.VARIED_NAME, environment.HELD_NAME])
def test_the_name_of_another_host_leads_to_this_one(name: str) -> None:
    """``torchrun`` has its ranks meet at the name of the host."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection((name, server.getsockname()[1]), timeout=10).close()


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


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working directory with a small file, a large one, a link, a folder and what is linked as a whole."""
    here = tmp_path / "here"
    (here / "data").mkdir(parents=True)
    (here / ".git").mkdir()
    (here / "data" / "small.txt").write_text("found")
    (here / "large.bin").write_bytes(bytes(MOST_OF_A_FILE + 1))
    (here / "link.txt").symlink_to("data/small.txt")
    return here


def snapshot(folder: Path) -> Snapshot:
    scratch = folder.parent / "scratch"
    scratch.mkdir()
    return Snapshot(folder, folder / "repeat", scratch)


def test_a_copy_has_what_the_first_run_found_and_nothing_that_a_run_left(folder: Path) -> None:
    found = snapshot(folder)
    assert not found.changed()
    (folder / "repeat").mkdir()
    assert not found.changed()
    (folder / "data" / "small.txt").write_text("written")
    (folder / "left.txt").touch()
    assert found.changed()
    copy = found.copy()
    assert (copy / "data" / "small.txt").read_text() == "found"
    assert not (copy / "left.txt").exists()
    assert (copy / "link.txt").read_text() == "written"  # what it names lies outside the copy
    assert (copy / "large.bin").is_symlink()
    assert (copy / ".git").is_symlink()
    (copy / "data" / "small.txt").write_text("by a run")
    assert (found.copy() / "data" / "small.txt").read_text() == "found"
    assert (folder / "data" / "small.txt").read_text() == "written"
    assert not found.lost()


def test_a_large_file_that_a_run_changed_cannot_be_put_back_and_is_named(folder: Path) -> None:
    found = snapshot(folder)
    (folder / "large.bin").write_bytes(b"other")
    assert found.lost() == "large.bin"


def test_a_folder_of_too_many_files_is_not_copied(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracer.runner.repeated.circumstances.folder.MOST_ENTRIES", 3)
    found = snapshot(folder)
    assert found.is_too_large
    assert not list(found.root.iterdir())


def test_compiled_modules_see_a_datetime_of_their_size_under_a_clock_that_is_held(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    run(
        """
import datetime
from tracer.runner.repeated.circumstances.clock import hold_clock
from tracer.runner.repeated.circumstances.replacing import Replacements
size, replaced = datetime.datetime.__basicsize__, Replacements()
hold_clock(replaced, 1_700_000_000 * 10**9)
assert datetime.datetime.__basicsize__ == size
import warnings
warnings.simplefilter("error")
import pandas
assert datetime.datetime.now().year == 2023
assert pandas.Timestamp(datetime.datetime(2020, 1, 1)) == datetime.datetime(2020, 1, 1)
assert isinstance(pandas.Timestamp(0), datetime.datetime)
replaced.put_back()
""",
        tmp_path,
    )


def test_timers_of_an_event_loop_fire_in_one_order_under_a_clock_that_is_held(tmp_path: Path) -> None:
    run(
        """
import asyncio, time
from tracer.runner.repeated.circumstances.clock import TICK, hold_clock
from tracer.runner.repeated.circumstances.replacing import Replacements
replaced = Replacements()
hold_clock(replaced, 1_700_000_000 * 10**9)

async def late(turns):
    for _ in range(turns):
        burn = sum(range(100_000))
        await asyncio.sleep(0.001)
    return turns

async def some():
    loop = asyncio.get_running_loop()
    jobs = [asyncio.ensure_future(late(turns)) for turns in range(1, 40, 4)]
    done, rest = await asyncio.wait(jobs, timeout=0.0205)
    for job in rest:
        job.cancel()
    read = loop.time()
    fired = []
    loop.call_later(0.05, fired.append, True)
    while not fired:  # never idle
        await asyncio.sleep(0)
    return sorted(job.result() for job in done), loop.time() - read

done, passed = asyncio.run(some())
assert done == [1, 5, 9, 13, 17], done
assert 0.05 <= passed < 0.08, passed
assert replaced.used == {"clock"}
replaced.put_back()

async def now():
    return asyncio.get_running_loop().time() - time.monotonic()

assert abs(asyncio.run(now())) < 10
""",
        tmp_path,
    )


def test_a_clock_that_is_held_ticks_when_it_is_read_and_goes_on_while_somebody_sleeps(tmp_path: Path) -> None:
    run(
        """
import datetime, os, queue, resource, threading, time
from tracer.runner.repeated.circumstances.clock import TICK, hold_clock
from tracer.runner.repeated.circumstances.replacing import Replacements
read, sleep, real, began = time.monotonic, time.sleep, datetime.datetime, time.perf_counter()
replaced = Replacements()
hold_clock(replaced, 1_700_000_000 * 10**9)
tick = TICK / 10**9
assert abs(time.time() - 1_700_000_000 - tick) < 1e-6
assert time.time_ns() == 1_700_000_000 * 10**9 + 2 * TICK
assert datetime.datetime.now(datetime.timezone.utc).timestamp() == 1_700_000_000 + 3 * tick
assert isinstance(datetime.datetime.now(), real) and datetime.date.today().year == 2023
before = time.perf_counter()
time.sleep(0.2)
assert abs(time.perf_counter() - before - 0.2 - tick) < 1e-6
assert replaced.used == {"clock"}
used = resource.getrusage(resource.RUSAGE_SELF).ru_utime
assert 0 < os.times().user - used < 2 * tick
steps, until = 0, time.monotonic() + 1
while time.monotonic() < until:
    steps += 1
assert steps in (99, 100)
seen = []
thread = threading.Thread(target=lambda: seen.append(time.time_ns()))
thread.start()
thread.join()
assert seen == [1_700_000_000 * 10**9 + TICK]
try:
    queue.Queue().get(timeout=0.05)  # waits by the machine's clock
except queue.Empty:
    pass
replaced.put_back()
assert (time.monotonic, time.sleep, datetime.datetime) == (read, sleep, real)
assert 0.2 < time.perf_counter() - began < 60
""",
        tmp_path,
    )


def test_the_systems_random_numbers_are_the_same_in_each_process_when_held(tmp_path: Path) -> None:
    code = """
import os, random, secrets, ssl, tempfile, uuid
from tracer.runner.repeated.circumstances.entropy import hold_entropy
from tracer.runner.repeated.circumstances.replacing import Replacements
hold_entropy(Replacements(), is_new_process=True)
import email.utils, numpy, torch
print(ssl.RAND_bytes(4).hex())
print(os.urandom(4), secrets.token_hex(2), uuid.uuid4(), uuid.uuid1(), os.getpid(), random.random())
print(email.utils.make_msgid(domain="here").split(".")[1])  # the process id
print(random.Random().random(), numpy.random.default_rng().random(), numpy.random.RandomState().rand())
print(torch.rand(1), numpy.random.rand(), torch.seed(), torch.rand(1), os.path.basename(tempfile.mktemp()))
random.seed(); print(random.random(), random.Random(5).random() == random.Random(5).random(), os.urandom(4))
reading, writing = os.pipe()
if not os.fork():
    os.write(writing, os.urandom(4).hex().encode()); os._exit(0)
print(os.read(reading, 99))
"""
    first, second = run(code, tmp_path), run(code, tmp_path)
    assert first == second
    assert len(set(first.split())) > 15


def test_pools_threads_and_queues_answer_in_the_order_of_asking_when_held(tmp_path: Path) -> None:
    run(
        """
import multiprocessing, os, queue, random, threading, time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from tracer.runner.repeated.circumstances.order import answer_in_order
from tracer.runner.repeated.circumstances.replacing import Replacements
replaced = Replacements()
answer_in_order(replaced)

def work(number):
    time.sleep(random.random() / 50)
    return number

numbers = list(range(8))
with ThreadPoolExecutor(4) as pool:
    assert [one.result() for one in as_completed([pool.submit(work, number) for number in numbers])] == numbers
    assert pool.submit(lambda: pool.submit(work, 1).result()).result() == 1  # which no worker is left for
context = multiprocessing.get_context("fork")
with context.Pool(4) as pool:
    assert list(pool.imap_unordered(work, numbers)) == numbers
with ProcessPoolExecutor(4, context) as pool:
    assert [one.result() for one in as_completed([pool.submit(work, number) for number in numbers])] == numbers
out, jobs, done = [], queue.Queue(), queue.Queue()
threads = [threading.Thread(target=lambda number=number: out.append(work(number))) for number in numbers]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert out == numbers

def serve():
    while (job := jobs.get()) is not None:
        done.put(work(job))

workers = [threading.Thread(target=serve) for _ in range(3)]
for worker in workers:
    worker.start()
for job in [*numbers, None, None, None]:
    jobs.put(job)
assert [done.get() for _ in numbers] == numbers
both = threading.Barrier(2)  # threads that wait for each other go on
pair = [threading.Thread(target=both.wait) for _ in range(2)]
for thread in pair:
    thread.start()
for thread in pair:
    thread.join()
assert replaced.used == {"order"}
""",
        tmp_path,
    )


def test_a_method_that_a_class_inherits_is_inherited_again_afterwards() -> None:
    class Loop:
        def time(self) -> int:
            return 1

    class Selecting(Loop):
        pass

    replaced = Replacements()
    replaced.put(Selecting, "time", lambda self: 2)
    assert Selecting().time() == 2
    replaced.put_back()
    assert Selecting().time() == 1
    assert "time" not in vars(Selecting)


def test_children_are_waited_for_in_the_order_in_which_they_were_started(tmp_path: Path) -> None:
    run(
        """
import os, subprocess
from tracer.runner.repeated.circumstances.order import answer_in_order
from tracer.runner.repeated.circumstances.replacing import Replacements
replaced = Replacements()
answer_in_order(replaced, is_new_process=True)
started = []
for seconds in (0.2, 0.1, 0):
    child = os.fork()
    if not child:
        __import__("time").sleep(seconds)
        os._exit(0)
    started.append(child)
assert os.waitpid(-1, os.WNOHANG) == (0, 0)  # the first has not ended
assert [os.wait()[0] for _ in started] == started
programs = [subprocess.Popen(["sleep", seconds]) for seconds in ("0.1", "0")]
assert programs[0].wait() == 0 and os.waitpid(-1, 0)[0] == programs[1].pid
try:
    os.wait()
except ChildProcessError:
    pass
else:
    raise AssertionError("no child is left")
assert replaced.used == {"order"}
""",
        tmp_path,
    )


def test_who_fills_a_bounded_queue_has_refilled_it_before_the_taker_goes_on(tmp_path: Path) -> None:
    run(
        """
import queue, threading, time
from tracer.runner.repeated.circumstances.order import answer_in_order
from tracer.runner.repeated.circumstances.replacing import Replacements
answer_in_order(Replacements(), is_new_process=True)
shared, did = queue.Queue(maxsize=2), []
def fill():
    for number in range(5):
        time.sleep(0.005)
        did.append(f"make {number}")
        shared.put(number)
filling = threading.Thread(target=fill)
filling.start()
for _ in range(5):
    did.append(f"take {shared.get()}")
filling.join()
assert did == [
    "make 0", "make 1", "make 2", "make 3", "take 0", "make 4", "take 1", "take 2", "take 3", "take 4"
], did
""",
        tmp_path,
    )


def test_objects_of_a_later_run_lie_in_holes_and_threads_switch_at_another_interval(tmp_path: Path) -> None:
    run(
        """
import sys
from tracer.runner.repeated.circumstances.chance import move_objects, switch_threads_otherwise
from tracer.runner.repeated.circumstances.replacing import Replacements
class Held:
    __slots__ = ("a", "b", "c", "d")
def steps(number):
    replaced = Replacements()
    move_objects(replaced, number)
    places = [id(held) for held in [Held() for _ in range(200)]]
    replaced.put_back()
    return sum(after < before for before, after in zip(places, places[1:]))
few = steps(0)
assert few < 40 < steps(1), few
first, replaced = sys.getswitchinterval(), Replacements()
for number in range(3):
    switch_threads_otherwise(replaced, number)
    print(sys.getswitchinterval() / first)
replaced.put_back()
assert sys.getswitchinterval() == first
""",
        tmp_path,
    )


def test_runs_with_addresses_or_the_order_of_workers_held_have_neither_changed() -> None:
    def of_run(*held: Circumstance) -> list[str]:
        changed: list[str] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(task, "move_objects", lambda replaced, number: changed.append("objects"))
            patch.setattr(task, "switch_threads_otherwise", lambda replaced, number: changed.append("threads"))
            task.change_circumstances(task.Order(task=task.Task(target="a.py"), output="a.json", number=1, held=held))
        return changed

    assert of_run() == ["objects", "threads"]
    assert of_run(Circumstance.ADDRESSES) == ["threads"]
    assert of_run(Circumstance.HASH_SEED) == ["objects", "threads"]
