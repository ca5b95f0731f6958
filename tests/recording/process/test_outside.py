"""What the program takes in from outside is noted with its line, changes nothing, and tells nobody's name."""

from __future__ import annotations

import asyncio
import builtins
import ctypes
import datetime
import email.utils
import getpass
import http.client
import http.server
import importlib
import inspect
import io
import multiprocessing
import multiprocessing.pool
import os
import platform
import queue
import select
import signal
import socket
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager, suppress
from multiprocessing import cpu_count
from pathlib import Path
from typing import Any

import msgspec
import numpy
import pytest
import torch
import torch.utils.benchmark

from tracer import DeterminismTracer
from tracer.names import OutsideKind
from tracer.recording.process import foreign_calls
from tracer.recording.process.outside import spelt
from tracer.trace.records import OutsideInput
from tracer.trace.values import read_values

TEXT = "one two three"
WRITTEN = numpy.ones(2)
BYTES = ctypes.create_string_buffer(b"abcdef")
LOOP = asyncio.new_event_loop()
TIMER = torch.utils.benchmark.Timer("pass")
with torch.profiler.profile() as PROFILE:
    torch.ones(2)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a file and a directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SCALE", "a-secret-value")
    Path("a.txt").write_text(TEXT, encoding="utf-8")
    Path("data").mkdir()
    for name in "bca":
        Path("data", name).touch()
    return tmp_path


def taken_in(program: Callable[[], Any]) -> tuple[OutsideInput, ...]:
    with DeterminismTracer() as recorder:
        program()
    return recorder.trace.outside


@pytest.mark.skipif(sys.platform != "linux", reason="the C library of Linux")
def test_unwritten_memory_is_compared_by_what_it_holds() -> None:
    assert foreign_calls.unwritten_memory("malloc", ctypes.addressof(BYTES), (3,)) == b"abc"
    assert foreign_calls.unwritten_memory("aligned_alloc", ctypes.addressof(BYTES), (8, ctypes.c_size_t(2))) == b"ab"


@pytest.mark.parametrize(
    ("name", "result", "args"), [("malloc", None, (3,)), ("malloc", 0, (3,)), ("malloc", 8, ()), ("getpid", 8, (3,))]
)
def test_where_no_memory_was_given_none_is_read(name: str, result: int | None, args: tuple[int, ...]) -> None:
    assert foreign_calls.unwritten_memory(name, result, args) is None


def test_what_a_random_device_gives_differs_in_each_run() -> None:
    first, second = (taken_in(lambda: os.close(os.open("/dev/urandom", os.O_RDONLY))) for _ in range(2))
    assert [one.name for one in first] == ["/dev/urandom"]
    assert first[0].digest != second[0].digest


def connect() -> None:
    with socket.socket() as listening, socket.socket() as asking:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        asking.connect(listening.getsockname())


def test_the_port_of_a_server_of_its_own_is_no_other_connection_in_each_run() -> None:
    first, second = ([one for one in taken_in(connect) if one.kind is OutsideKind.CONNECTION] for _ in range(2))
    assert [one.name for one in first] == ["a server of its own"]
    assert (first[0].name, first[0].digest) == (second[0].name, second[0].digest)


def asks_port() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.getsockname()


def set_timer() -> None:
    """A timer whose signal comes at once."""
    done: list[int] = []
    former = signal.signal(signal.SIGALRM, lambda number, frame: done.append(number))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.001)
        while not done:
            time.sleep(0.001)
    finally:
        signal.signal(signal.SIGALRM, former)


def get_signal() -> None:
    former = signal.signal(signal.SIGUSR1, lambda number, frame: None)
    try:
        os.kill(os.getpid(), signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, former)


def read_pipe() -> None:
    reads, writes = os.pipe()
    os.write(writes, b"1")
    os.read(reads, 8)


def receive() -> None:
    receives, sends = multiprocessing.Pipe()
    sends.send(1)
    receives.recv()


def receive_bytes() -> None:
    reads, writes = socket.socketpair()
    with reads, writes:
        writes.send(b"1")
        reads.recv(8)


class Answers(http.server.BaseHTTPRequestHandler):
    """Answers each request with one byte."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"1")

    def log_message(self, *args: object) -> None:
        """Print nothing."""


@contextmanager
def answer() -> Iterator[http.client.HTTPResponse]:
    """The answer of a server of this process."""
    with http.server.HTTPServer(("127.0.0.1", 0), Answers) as server:
        serving = threading.Thread(target=server.handle_request)
        serving.start()
        asking = http.client.HTTPConnection("127.0.0.1", server.server_port)
        asking.request("GET", "/")
        yield asking.getresponse()
        asking.close()
        serving.join()


def read_body() -> None:
    with answer() as answered:
        answered.read()


def ask_for_header() -> None:
    with answer() as answered:
        assert answered.headers["Date"]


def ask_for_header_by_name() -> None:
    with answer() as answered:
        assert answered.getheader("Date")


def allocate() -> None:
    libc = ctypes.CDLL("libc.so.6")
    libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    address = libc.malloc(64)
    libc.free(address)


def run_beside() -> None:
    go_on = threading.Event()
    beside = threading.Thread(target=lambda: go_on.wait())
    beside.start()
    torch.ones(2)
    go_on.set()
    beside.join()


def wait_for_child() -> None:
    if not os.fork():
        os._exit(0)
    os.wait()


def wait_for_program() -> None:
    started = subprocess.Popen(["true"])
    assert os.waitpid(-1, 0)[0] == started.pid


def wait_for_future() -> None:
    with futures.ThreadPoolExecutor(1) as pool:
        futures.wait([pool.submit(abs, 1)])


def take_as_completed() -> None:
    with futures.ThreadPoolExecutor(1) as pool:
        assert [done.result() for done in futures.as_completed([pool.submit(abs, -1)])] == [1]


def add_function() -> None:
    with futures.ThreadPoolExecutor(1) as pool:
        pool.submit(abs, 1).add_done_callback(repr)


def add_function_to_pool() -> None:
    with multiprocessing.pool.ThreadPool(1) as pool:
        pool.apply_async(abs, (1,), callback=repr).get()


def take_unordered() -> None:
    with multiprocessing.pool.ThreadPool(1) as pool:
        assert list(pool.imap_unordered(abs, [-1])) == [1]


def wait_for_reader() -> None:
    reads, writes = os.pipe()
    os.write(writes, b"1")
    select.select([reads], [], [])


def read_stream() -> None:
    async def reads() -> bytes:
        stream = asyncio.StreamReader()
        stream.feed_data(b"1\n")
        return await stream.readline()

    assert asyncio.run(reads()) == b"1\n"


def wait_for_task() -> None:
    async def waits() -> None:
        await asyncio.wait([asyncio.create_task(asyncio.sleep(0))])

    asyncio.run(waits())


def take_tasks_as_completed() -> None:
    async def takes() -> list[int]:
        return [await done for done in asyncio.as_completed([asyncio.sleep(0, 1)])]

    assert asyncio.run(takes()) == [1]


def take_from_queue() -> None:
    async def takes() -> int:
        waiting: asyncio.Queue[int] = asyncio.Queue()
        waiting.put_nowait(1)
        return await waiting.get()

    assert asyncio.run(takes()) == 1


def archive() -> None:
    with tarfile.open("a.tar", "w") as made:
        made.add("a.txt")


def wait_for_result() -> None:
    with futures.ThreadPoolExecutor(1) as pool, suppress(futures.TimeoutError):
        pool.submit(time.sleep, 0.01).result(timeout=0)


def wait_for_item() -> None:
    with suppress(queue.Empty):
        queue.Queue().get(timeout=0.001)


def wait_for_coroutine() -> None:
    async def waits() -> None:
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.sleep(1), 0.001)

    asyncio.run(waits())


def wait_for_end() -> None:
    thread = threading.Thread(target=time.sleep, args=(0.01,))
    thread.start()
    thread.join(0.001)


TAKES: list[tuple[OutsideKind, str, Callable[[], Any]]] = [
    (OutsideKind.FILE, "a.txt", lambda: open("a.txt").read()),  # noqa: SIM115
    (OutsideKind.FILE, "a.txt", lambda: open(file="a.txt").read()),  # noqa: SIM115
    (OutsideKind.FILE, "a.txt", lambda: Path("a.txt").read_bytes()),
    (OutsideKind.FILE, "a.txt", lambda: os.close(os.open("a.txt", os.O_RDONLY))),
    (OutsideKind.FILE, "a.txt", lambda: io.open("a.txt", mode="r+")),  # noqa: UP020, SIM115
    (OutsideKind.DIRECTORY, "data", lambda: os.listdir("data")),
    (OutsideKind.DIRECTORY, ".", lambda: os.listdir()),
    (OutsideKind.DIRECTORY, "data", lambda: list(os.scandir("data"))),
    (OutsideKind.DIRECTORY, "data", lambda: list(Path("data").glob("*"))),
    (OutsideKind.DATABASE, "my.db", lambda: sqlite3.connect("my.db")),
    (OutsideKind.PROGRAM, "true", lambda: subprocess.run(["true"], check=True)),
    (OutsideKind.PROGRAM, "true", lambda: os.system("true")),
    (OutsideKind.LIBRARY, "libc.so.6", lambda: ctypes.CDLL("libc.so.6")),
    (OutsideKind.CONNECTION, "a", connect),
    (OutsideKind.VARIABLE, "SCALE", lambda: os.environ["SCALE"]),
    (OutsideKind.VARIABLE, "SCALE", lambda: os.environ.get("SCALE")),
    (OutsideKind.VARIABLE, "SCALE", lambda: os.getenv("SCALE")),
    (OutsideKind.VARIABLE, "NO_SUCH_VARIABLE", lambda: "NO_SUCH_VARIABLE" in os.environ),
    (OutsideKind.USER, "getpass.getuser", lambda: getpass.getuser()),
    (OutsideKind.HOST, "socket.gethostname", lambda: socket.gethostname()),
    (OutsideKind.HOST, "platform.node", lambda: platform.node()),
    (OutsideKind.MACHINE_NUMBER, "os.cpu_count", lambda: os.cpu_count()),
    (OutsideKind.MACHINE_NUMBER, "os.cpu_count", lambda: cpu_count()),
    (OutsideKind.MACHINE_NUMBER, "sys.getallocatedblocks", lambda: sys.getallocatedblocks()),
    (OutsideKind.MACHINE_NUMBER, "os.getpid", lambda: os.getpid()),
    (OutsideKind.MACHINE_NUMBER, "os.getpid", lambda: email.utils.make_msgid(domain="here")),
    (OutsideKind.FILE_TIME, "a.txt", lambda: Path("a.txt").stat().st_mtime_ns),
    (OutsideKind.FILE_TIME, "a.txt", lambda: os.stat("a.txt").st_mtime),
    (OutsideKind.PORT, "socket.socket.getsockname", asks_port),
    (OutsideKind.TIMER, "signal.setitimer", set_timer),
    (OutsideKind.TIMER, "SIGUSR1", get_signal),
    (OutsideKind.FOREIGN_CALL, "getpid", lambda: ctypes.CDLL("libc.so.6").getpid()),
    (OutsideKind.FILE_TIME, "os.fstat", lambda: os.fstat(0).st_ctime_ns),
    (OutsideKind.FILE_TIME, "a.txt", lambda: os.path.getmtime("a.txt")),
    (OutsideKind.TEMPORARY_NAME, "tempfile.mkdtemp", lambda: tempfile.mkdtemp()),
    (OutsideKind.THREAD, "<lambda>", run_beside),
    (OutsideKind.QUEUE, "os.read", read_pipe),
    (OutsideKind.QUEUE, "multiprocessing.connection._ConnectionBase.recv", receive),
    (OutsideKind.QUEUE, "multiprocessing.pool.IMapUnorderedIterator.next", take_unordered),
    (OutsideKind.QUEUE, "asyncio.queues.Queue.get", take_from_queue),
    (OutsideKind.COMPLETION, "os.wait", wait_for_child),
    (OutsideKind.COMPLETION, "os.waitpid", wait_for_program),
    (OutsideKind.COMPLETION, "concurrent.futures._base.wait", wait_for_future),
    (OutsideKind.COMPLETION, "concurrent.futures.as_completed", take_as_completed),
    (OutsideKind.COMPLETION, "concurrent.futures._base.Future.add_done_callback", add_function),
    (OutsideKind.COMPLETION, "multiprocessing.pool.Pool.apply_async", add_function_to_pool),
    (OutsideKind.COMPLETION, "threading.Barrier.wait", lambda: threading.Barrier(1).wait()),
    (OutsideKind.COMPLETION, "select.select", wait_for_reader),
    (OutsideKind.COMPLETION, "asyncio.tasks.wait", wait_for_task),
    (OutsideKind.COMPLETION, "asyncio.as_completed", take_tasks_as_completed),
    (OutsideKind.ANSWER, "bytes", read_stream),
    (OutsideKind.READINESS, "concurrent.futures._base.Future.result", wait_for_result),
    (OutsideKind.READINESS, "queue.Queue.get", wait_for_item),
    (OutsideKind.READINESS, "asyncio.wait_for", wait_for_coroutine),
    (OutsideKind.READINESS, "threading.Thread.join", wait_for_end),
    (OutsideKind.READINESS, "threading.Event.is_set", lambda: threading.Event().is_set()),
    (OutsideKind.READINESS, "threading.Event.wait", lambda: threading.Event().wait(0.001)),
    (OutsideKind.EXISTENCE, "b.txt", lambda: os.path.exists("b.txt")),
    (OutsideKind.EXISTENCE, "data", lambda: Path("data").is_dir()),
    (OutsideKind.FILE_TIME, "a.txt", archive),
    (OutsideKind.CLOCK, "asyncio.base_events.BaseEventLoop.time", lambda: LOOP.time()),
    (OutsideKind.UNWRITTEN_MEMORY, "numpy.empty", lambda: numpy.empty(4)),
    (OutsideKind.UNWRITTEN_MEMORY, "numpy.empty_like", lambda: numpy.empty_like(WRITTEN)),
    (OutsideKind.UNWRITTEN_MEMORY, "malloc", allocate),
    (OutsideKind.ANSWER, "bytes", receive_bytes),
    (OutsideKind.ANSWER, "the", read_body),
    (OutsideKind.ANSWER, "header", ask_for_header),
    (OutsideKind.ANSWER, "header", ask_for_header_by_name),
    (OutsideKind.CLOCK, "torch.profiler.profiler._KinetoProfile.key_averages", lambda: PROFILE.key_averages()),
    (OutsideKind.CLOCK, "torch.utils.benchmark.Timer.timeit", lambda: TIMER.timeit(1)),
    (OutsideKind.CLOCK, "time.time", lambda: time.time()),
    (OutsideKind.CLOCK, "time.strftime", lambda: time.strftime("%H")),
    (OutsideKind.CLOCK, "datetime.datetime.now", lambda: datetime.datetime.now()),
    (OutsideKind.CLOCK, "datetime.datetime.now", lambda: datetime.datetime.now(tz=datetime.timezone.utc)),
]


@pytest.mark.skipif(sys.platform != "linux", reason="names of Linux's programs and libraries")
@pytest.mark.parametrize(("kind", "name", "program"), TAKES, ids=lambda one: str(one) if isinstance(one, str) else "")
def test_each_kind_is_noted_with_its_name_and_line(kind: OutsideKind, name: str, program: Callable[[], Any]) -> None:
    found = [one for one in taken_in(program) if one.kind is kind]
    assert [one.name.split()[0] for one in found] == [name]
    assert f"{found[0].called_from or found[0].location}".endswith(f"test_outside.py:{lines_of(program)}")
    assert not found[0].by_import


def lines_of(program: Callable[[], Any]) -> int:
    """The line of what is called in ``program``."""
    code = program.__code__  # type: ignore[attr-defined]
    return int(code.co_firstlineno) + {
        connect: 4,
        asks_port: 3,
        set_timer: 5,
        get_signal: 1,
        run_beside: 3,
        read_pipe: 3,
        receive: 3,
        receive_bytes: 4,
        allocate: 3,
        read_body: 2,
        ask_for_header: 2,
        ask_for_header_by_name: 2,
        take_unordered: 2,
        take_from_queue: 4,
        wait_for_child: 3,
        wait_for_program: 2,
        wait_for_future: 2,
        take_as_completed: 2,
        add_function: 2,
        add_function_to_pool: 2,
        wait_for_reader: 3,
        wait_for_task: 2,
        take_tasks_as_completed: 2,
        read_stream: 4,
        archive: 2,
        wait_for_result: 2,
        wait_for_item: 2,
        wait_for_coroutine: 3,
        wait_for_end: 3,
    }.get(program, 0)


@pytest.mark.parametrize(
    "program",
    [
        lambda: time.localtime(0),
        lambda: time.strftime("%H", time.gmtime(0)),
        lambda: torch.load(save_model()),
        lambda: (Path("b.txt").write_text("b"), Path("b.txt").read_text()),
        lambda: sqlite3.connect(":memory:"),
        lambda: inspect.getsource(connect),
    ],
    ids=["a given moment", "a moment in words", "torch saved it", "Python wrote it", "in memory", "its own source"],
)
def test_what_does_not_come_from_outside_is_not_noted(program: Callable[[], Any]) -> None:
    assert taken_in(program) == ()


def save_model() -> str:
    torch.save({"a": torch.ones(2)}, "model.pt")
    return "model.pt"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="starts children by fork")
def test_which_child_ended_first_is_told_by_when_it_was_started() -> None:
    def ends_first(number: int) -> str:
        def waits() -> None:
            ends = [os.pipe() for _ in range(2)]
            for read, _ in ends:
                if not os.fork():
                    for _, end in ends:
                        os.close(end)
                    os.read(read, 1)  # until the parent closes the other end
                    os._exit(0)
            for write in (ends[number][1], ends[1 - number][1]):
                os.close(write)
                os.wait()

        return next(taken.digest for taken in taken_in(waits) if taken.kind is OutsideKind.COMPLETION)

    assert ends_first(0) == ends_first(0) != ends_first(1)


@pytest.mark.parametrize(
    ("early", "late"),
    [
        (lambda: futures_result(0), lambda: futures_result(5)),
        (lambda: event_wait(is_set=False), lambda: event_wait(is_set=True)),
    ],
    ids=["raises", "returns"],
)
def test_whether_it_was_done_in_time_is_told_apart(early: Callable[[], None], late: Callable[[], None]) -> None:
    def digest(program: Callable[[], None]) -> str:
        return next(taken.digest for taken in taken_in(program) if taken.kind is OutsideKind.READINESS)

    assert digest(early) == digest(early) != digest(late)


def futures_result(limit: float) -> None:
    with futures.ThreadPoolExecutor(1) as pool, suppress(futures.TimeoutError):
        pool.submit(time.sleep, 0.02).result(limit)


def event_wait(*, is_set: bool) -> None:
    event = threading.Event()
    if is_set:
        event.set()
    event.wait(0.001)


def file_digest(text: str) -> str:
    Path("a.txt").write_text(text, encoding="utf-8")
    (found,) = taken_in(lambda: Path("a.txt").read_text())
    assert found.size == len(text)
    return found.digest


def test_a_file_is_known_by_its_bytes_and_not_by_its_time() -> None:
    first, again, other = file_digest(TEXT), file_digest(TEXT), file_digest(TEXT.upper())
    assert first == again != other


def test_digesting_leaves_the_position_of_the_file_where_it_is() -> None:
    def reads() -> None:
        with open("a.txt", "rb", buffering=0) as stream:
            assert stream.tell() == 0
            assert stream.read(3) == b"one"
            assert os.lseek(stream.fileno(), 0, os.SEEK_CUR) == 3

    assert len(taken_in(reads)) == 1


def test_a_file_that_changes_between_two_reads_is_another_input() -> None:
    def reads_twice() -> None:
        for text in (TEXT, TEXT.upper()):
            subprocess.run(["cp", "/dev/stdin", "a.txt"], input=text, text=True, check=True)
            Path("a.txt").read_text()

    def reads_once() -> None:
        for _ in range(2):
            Path("a.txt").read_text()

    (changed,) = (one for one in taken_in(reads_twice) if one.kind is OutsideKind.FILE)
    (unchanged,) = taken_in(reads_once)
    assert changed.count == unchanged.count == 2
    assert changed.digest != unchanged.digest


def test_a_large_file_is_digested_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    with open("large.bin", "wb") as stream:
        stream.truncate((32 << 20) + 1)
    (found,) = taken_in(lambda: open("large.bin", "rb").close())
    assert found.is_partial
    assert found.digest


def test_the_order_of_a_directory_is_told_apart_from_its_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    listdir = os.listdir
    (first,) = taken_in(lambda: os.listdir("data"))
    monkeypatch.setattr(os, "listdir", lambda path: sorted(listdir(path)))
    (in_order,) = taken_in(lambda: os.listdir("data"))
    monkeypatch.setattr(os, "listdir", lambda path: sorted(listdir(path), reverse=True))
    (backwards,) = taken_in(lambda: os.listdir("data"))
    assert first.digest == in_order.digest == backwards.digest
    assert in_order.order != backwards.order
    assert first.size == 3


def test_what_a_program_answers_is_part_of_its_digest() -> None:
    def answer(number: int) -> str:
        Path("answer.sh").write_text(f"echo {number}\n")
        (found,) = (
            one
            for one in taken_in(lambda: subprocess.check_output(["sh", "answer.sh"]))
            if one.kind is OutsideKind.PROGRAM
        )
        assert (found.count, found.is_partial) == (1, False)
        return found.digest

    assert answer(1) == answer(1) != answer(2)


@pytest.mark.parametrize("program", [lambda: os.system("true"), lambda: subprocess.run(["true"], check=True), connect])
def test_what_was_not_seen_to_answer_alike_is_not_said_to_agree(program: Callable[[], Any]) -> None:
    found = next(taken for taken in taken_in(program) if taken.kind is not OutsideKind.PORT)
    assert found.is_partial


def test_many_files_of_one_line_are_few_records_that_count_them_all() -> None:
    for number in range(200):
        Path(f"data/{number}.txt").write_text(str(number))

    def reads() -> None:
        for number in range(200):
            Path(f"data/{number}.txt").read_text()

    first, again = taken_in(reads), taken_in(reads)
    assert len(first) < 50
    assert sum(one.count for one in first) == 200
    assert first == again
    Path("data/199.txt").write_text("another")
    assert [one.name for one, other in zip(first, taken_in(reads), strict=True) if one.digest != other.digest] == [""]


def test_a_loop_that_waits_for_a_clock_is_one_record() -> None:
    def waits() -> None:
        for _ in range(1000):
            time.perf_counter()

    (found,) = taken_in(waits)
    assert found.count == 1000


def test_no_name_no_absolute_path_and_no_contents_are_in_the_trace(here: Path) -> None:
    def everything() -> None:
        for _, _, program in TAKES:
            program()
        Path(here, "a.txt").read_text()

    text = msgspec.json.encode(taken_in(everything)).decode()
    for secret in (TEXT, "a-secret-value", socket.gethostname(), str(here), os.path.expanduser("~")):
        assert secret not in text


@pytest.mark.parametrize(
    ("path", "spelling"),
    [
        ("/work/project/data/a.txt", "data/a.txt"),
        ("/work/project", "."),
        ("/work/data/a.txt", "../data/a.txt"),
        ("/opt/python/site-packages/timm/a.json", "timm/a.json"),
        ("/proc/meminfo", "/proc/meminfo"),
        ("/mnt/bob/a.txt", ".../a.txt"),
        (os.path.expanduser("~/.cache/a.txt"), "~/.cache/a.txt"),
        ("/work/project/tmpa1b2c3d4/x", "tmp*/x"),
        (os.path.join(tempfile.gettempdir(), "tmpa1b2c3d4"), "<temporary>/tmp*"),
    ],
)
def test_a_path_is_spelt_without_what_names_a_user(path: str, spelling: str) -> None:
    assert spelt(path, "/work/project") == spelling


def test_a_path_below_a_working_directory_that_is_temporary_is_spelt_from_there() -> None:
    here = os.path.join(tempfile.gettempdir(), "tmpa1b2c3d4", "project")
    assert spelt(os.path.join(here, "data", "a.txt"), here) == "data/a.txt"
    assert spelt(os.path.join(os.path.dirname(here), "a.txt"), here) == "<temporary>/tmp*/a.txt"


def test_what_an_import_opens_by_itself_is_told_apart(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = here / "site-packages" / "reads_at_import.py"
    package.parent.mkdir()
    package.write_text("import time\nTEXT = open('a.txt').read()\nBEGAN = time.time()\n")
    monkeypatch.syspath_prepend(package.parent)
    (found,) = taken_in(lambda: importlib.import_module("reads_at_import"))
    assert (found.name, found.location, found.by_import) == ("a.txt", "reads_at_import.py:2", True)


def test_what_a_library_reads_of_the_host_is_its_own_affair(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = here / "site-packages" / "asks_the_host.py"
    package.parent.mkdir()
    package.write_text("import os, time\ndef ask():\n    return os.environ.get('SCALE'), time.time(), os.getpid()\n")
    monkeypatch.syspath_prepend(package.parent)
    asks: Any = importlib.import_module("asks_the_host")
    assert taken_in(asks.ask) == ()


def test_calls_before_it_are_counted() -> None:
    def reads_after_two_calls() -> None:
        torch.ones(2) + 1
        Path("a.txt").read_text()

    (found,) = taken_in(reads_after_two_calls)
    assert found.calls == 2


def test_the_functions_are_pythons_own_again_after_the_recording() -> None:
    names = [name.split() for kind in OutsideKind for name in kind.functions]
    before = (builtins.open, os.listdir, time.time, os.environ.__class__.__getitem__, names)
    taken_in(lambda: None)
    assert before[0] is builtins.open is io.open
    assert before[1:4] == (os.listdir, time.time, os.environ.__class__.__getitem__)


def test_a_class_method_written_in_c_is_watched_and_its_own_again() -> None:
    class Moment(datetime.datetime):
        pass

    def reads() -> None:
        assert type(Moment.now()) is Moment
        assert Moment.now().now().year > 2000
        with pytest.raises(TypeError, match="tzinfo"):
            datetime.datetime.now(1)  # type: ignore[arg-type]

    before = vars(datetime.datetime)["now"]
    (found,) = {one.name for one in taken_in(reads)}
    assert found == "datetime.datetime.now"
    assert vars(datetime.datetime)["now"] is before


def test_a_database_that_was_not_there_is_another_one_than_that_which_is() -> None:
    first, second = (taken_in(lambda: connect_and_write("new.db")) for _ in range(2))
    assert first[0].digest != second[0].digest
    assert first[0].digest


def connect_and_write(path: str) -> None:
    with sqlite3.connect(path) as database:
        database.execute("create table if not exists runs (n int)")


def test_errors_are_the_programs_own() -> None:
    def fails() -> None:
        with pytest.raises(KeyError):
            os.environ["NO_SUCH_VARIABLE"]
        with pytest.raises(FileNotFoundError):
            open("no-such-file")  # noqa: SIM115
        with pytest.raises(TypeError):
            open()  # type: ignore[call-overload]  # noqa: SIM115

    assert [one.name for one in taken_in(fails)] == ["NO_SUCH_VARIABLE"]


@pytest.mark.slow
@pytest.mark.parametrize("fullgraph", [True, False])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * float(os.environ.get("SCALE_NUMBER", "2")),
        lambda x: x * 3 if "SCALE" in os.environ else x,
        lambda x: x * (os.cpu_count() or 1),
        lambda x: x * (time.perf_counter() > 0),
        lambda x: x * len(os.listdir("data")),
        lambda x: x * datetime.datetime.now().year,
    ],
    ids=["variable", "is it set", "processors", "clock", "directory", "date"],
)
def test_dynamo_compiles_what_reads_from_outside_as_it_would_without(
    function: Callable[[torch.Tensor], torch.Tensor], fullgraph: bool
) -> None:
    from torch._dynamo.testing import CompileCounter

    def outcome() -> tuple[str, int]:
        torch._dynamo.reset()
        counter = CompileCounter()
        try:
            torch.compile(function, fullgraph=fullgraph, backend=counter)(torch.ones(2))
        except torch._dynamo.exc.Unsupported as problem:
            return type(problem).__name__, counter.frame_count
        return "", counter.frame_count

    plain = outcome()
    with DeterminismTracer():
        assert outcome() == plain


def test_a_thread_that_ends_before_the_next_call_is_no_input() -> None:
    def program() -> None:
        alone = threading.Thread(target=lambda: None)
        alone.start()
        alone.join()
        torch.ones(2)

    assert taken_in(program) == ()


def test_a_thread_that_runs_on_is_noted_with_the_calls_beside_it() -> None:
    go_on = threading.Event()

    def program() -> None:
        threading.Thread(target=lambda: go_on.wait()).start()
        torch.ones(2)
        torch.ones(2)

    (beside,) = taken_in(program)
    go_on.set()
    assert (beside.kind, beside.size) == (OutsideKind.THREAD, 2)


def test_a_queue_that_several_threads_fill_is_told_by_the_order_of_their_items() -> None:
    def taken(*orders: str) -> tuple[OutsideInput, ...]:
        def program() -> None:
            shared: queue.Queue[str] = queue.Queue()
            for name in orders:
                thread = threading.Thread(target=shared.put, args=("item",), name=name)
                thread.start()
                thread.join()
            for _ in orders:
                shared.get()

        return taken_in(program)

    (first,), (same,), (other,) = taken("one", "two", "one"), taken("one", "two", "one"), taken("two", "one", "one")
    assert (first.kind, first.name, first.count) == (OutsideKind.QUEUE, "queue.Queue.get", 3)
    assert first.digest == same.digest != other.digest
    assert taken("one", "one") == ()


@pytest.mark.parametrize("method", ["Queue", "SimpleQueue"])
def test_a_queue_of_processes_is_told_by_what_came_and_by_its_order(method: str) -> None:
    def taken(*items: object) -> OutsideInput:
        shared = getattr(multiprocessing.get_context("fork"), method)()
        for item in items:
            shared.put(item)
        (source,) = taken_in(lambda: [shared.get() for _ in items])
        return source

    first, same, ordered, other = (
        taken(*[(name, torch.full((2,), name), numpy.ones(2)) for name in names])
        for names in ([1, 2, 3], [1, 2, 3], [1, 3, 2], [1, 2, 4])
    )
    assert (first.kind, first.name, first.count) == (OutsideKind.QUEUE, f"multiprocessing.queues.{method}.get", 3)
    assert (first.digest, first.order) == (same.digest, same.order)
    assert (first.digest == ordered.digest, first.order == ordered.order) == (True, False)
    assert first.digest != other.digest


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("select a from sample order by random()", "random"),
        ("select julianday('now') - a from sample", "'now'"),
        ("select a, datetime() from sample", "datetime"),
        ("select a, CURRENT_DATE from sample", "current_date"),
    ],
)
def test_a_statement_in_which_the_database_draws_is_told_and_no_other(statement: str, named: str) -> None:
    def program() -> None:
        with sqlite3.connect(":memory:") as database:
            database.execute("create table sample (a)")
            database.execute("select date(a), 'nowhere' from sample")
            database.execute(statement)

    assert [(taken.kind, taken.name) for taken in taken_in(program)] == [(OutsideKind.RANDOM_QUERY, named)]


def test_an_array_that_numpy_itself_allocates_and_writes_is_none_of_the_programs() -> None:
    generator = numpy.random.default_rng(0)
    written = [lambda: generator.uniform(size=4), lambda: generator.permutation(9), lambda: WRITTEN.mean(0)]
    assert [taken for program in written for taken in taken_in(program)] == []


def test_a_path_that_is_only_looked_for_is_no_time_of_a_file() -> None:
    taken = taken_in(lambda: (Path("a.txt").exists(), os.path.exists("a.txt"), Path("data").is_dir()))
    assert {source.kind for source in taken} == {OutsideKind.EXISTENCE}


def test_an_input_stands_among_the_calls_that_have_values(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    with DeterminismTracer(values=tmp_path / "one.values") as recorder:
        ones = torch.ones(4)
        ones.view(2, 2).t().add(1)
        (tmp_path / "a.txt").read_text()
    (file,) = recorder.trace.outside
    assert file.calls == len(read_values(tmp_path / "one.values")) == 2


class Moment(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


@pytest.mark.parametrize(
    ("program", "differs", "is_partial"),
    [
        (lambda libc: libc.abs(-3), False, True),
        (lambda libc: libc.clock(), True, False),
        (lambda libc: libc.clock_gettime(1, ctypes.byref(Moment())), True, True),
        (lambda libc: address_of(libc, 8), False, True),
    ],
    ids=["the same", "clock", "left in a structure", "an address"],
)
def test_what_a_compiled_function_answers_is_compared_where_it_is_no_address(
    program: Callable[[Any], Any], differs: bool, is_partial: bool
) -> None:
    found = []
    for _ in range(2):
        (called,) = [
            one for one in taken_in(lambda: program(ctypes.CDLL("libc.so.6"))) if one.kind is OutsideKind.FOREIGN_CALL
        ]
        found.append(called)
        burn = [b"" for _ in range(200_000)]  # the clock of the processor goes on
        assert burn
    assert (found[0].digest != found[1].digest) == differs
    assert found[0].is_partial == is_partial


def address_of(libc: Any, size: int) -> None:
    libc.calloc.restype = ctypes.c_void_p
    libc.calloc(1, size)


def test_a_handler_for_a_signal_is_found_by_identity() -> None:
    def handle(number: int, frame: object) -> None:
        pass

    before = {number: signal.getsignal(number) for number in (signal.SIGALRM, signal.SIGUSR1)}
    try:
        with DeterminismTracer():
            for number in before:
                signal.signal(number, handle)
                assert signal.getsignal(number) is handle
                assert signal.signal(number, handle) is handle
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
