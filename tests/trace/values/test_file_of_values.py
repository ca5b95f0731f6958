"""What is written is read again, whatever happened to the process or the disk in between."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.slow import slow_unless
from tracer.errors import TraceError
from tracer.names import Phase
from tracer.trace.file import values_path
from tracer.trace.values import Group, Header, Mark, ValueKind, Values, ValuesWriter, columns, fold, read_values
from tracer.trace.values import writer as writing
from tracer.trace.values.columns import Name, text_digest

MM = Group(op="aten.mm.default", phase=Phase.FORWARD, module="fc", location="train.py:9", function="step")
#: The first of the places of a file that are tried, every third from it on.
EVERY_THIRD = slow_unless({0}, range(3))
ADD = Group(op="aten.add_.Tensor", phase=Phase.OPTIMIZER, location="train.py:12", called_from="train.py:1")


def write(path: Path, calls: int = 40, flush_each: int = 10) -> ValuesWriter:
    """A small recording of two steps, in several blocks."""
    writer = ValuesWriter(path, Header(name="small", rank=1, world_size=2))
    mm, add = writer.group(MM), writer.group(ADD)
    weight = writer.entry(ValueKind.PARAMETER, "fc.weight", 77)
    for index in range(calls):
        if not index % 20:
            writer.step(index // 20 + 1)
        if index % 3 == 1:
            writer.draw("cpu", index)
        if index % 20 == 19:
            writer.moment(ValueKind.PARAMETER, "fc.weight", index, text=f"{index}")
        origins = (weight,) if not index else (index - 1, weight)
        keeps = index - 2 if index % 7 == 2 else None
        group = add if index % 2 else mm
        writer.call(group, index, 2**64 - 1 - index, origins, writer.numbers(f"alpha={index % 4}"), keeps=keeps)
        if index % flush_each == flush_each - 1:
            writer.flush()
    return writer


def written(path: Path) -> Values:
    write(path).close()
    return read_values(path)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    values = written(tmp_path / "run.values")
    assert values.partial == ""
    assert (values.header.name, values.header.rank, values.header.world_size) == ("small", 1, 2)
    assert len(values) == 40
    assert values.groups == (MM, ADD)
    assert values.names == (Name(ValueKind.PARAMETER, "fc.weight"), Name(ValueKind.GENERATOR, "cpu"))
    assert values.group.tolist() == [0, 1] * 20
    assert values.inputs.tolist() == list(range(40))
    assert values.outputs.tolist() == [2**64 - 1 - index for index in range(40)]
    assert values.texts[int(values.numbers[5])] == "alpha=1"
    assert sorted(values.origins_of(0).tolist()) == [-1]
    assert sorted(values.origins_of(9).tolist()) == [-1, 8]
    assert values.keeps.tolist() == [[index, index - 2] for index in range(40) if index % 7 == 2]
    assert (values.entries.digest.tolist(), values.entries.call.tolist()) == ([77], [0])
    assert values.draws[0].tolist() == [index for index in range(40) if index % 3 == 1]
    assert values.moments.step.tolist() == [1, 2]
    assert values.moments.call.tolist() == [19, 39]
    assert [values.step_of(call) for call in (0, 19, 20, 39)] == [1, 1, 2, 2]


@pytest.mark.parametrize("first", EVERY_THIRD)
def test_a_file_that_is_cut_off_anywhere_gives_its_whole_blocks(tmp_path: Path, first: int) -> None:
    whole = written(tmp_path / "run.values")
    data = (tmp_path / "run.values").read_bytes()
    cut = tmp_path / "cut.values"
    lengths: list[int] = []
    for length in range(first, len(data), 3):
        cut.unlink(missing_ok=True)  # to write over a file waits for the disk
        cut.write_bytes(data[:length])
        try:
            values = read_values(cut)
        except TraceError:
            lengths.append(-1)
            continue
        assert values.partial
        assert len(values) % 10 == 0
        assert values.outputs.tolist() == whole.outputs[: len(values)].tolist()
        lengths.append(len(values))
    assert lengths == sorted(lengths)  # once the header is there, the file can be read; more of it gives no less
    assert set(lengths) == {-1, 0, 10, 20, 30, 40}


@pytest.mark.parametrize("first", EVERY_THIRD)
def test_a_byte_that_changed_is_noticed_wherever_it_is(tmp_path: Path, first: int) -> None:
    whole = written(tmp_path / "run.values")
    data = bytearray((tmp_path / "run.values").read_bytes())
    bent = tmp_path / "bent.values"
    for at in range(first, len(data), 3):
        data[at] ^= 0x10
        bent.unlink(missing_ok=True)
        bent.write_bytes(data)
        data[at] ^= 0x10
        try:
            values = read_values(bent)
        except TraceError:
            continue
        assert values.partial, f"byte {at}"
        assert values.outputs.tolist() == whole.outputs[: len(values)].tolist()


_ENDLESS = """
import sys
from tracer.trace.values import Group, Header, ValuesWriter
writer = ValuesWriter(sys.argv[1], Header())
group = writer.group(Group(op="aten.mm.default"))
print("ready", flush=True)
while True:
    writer.call(group, writer.calls, writer.calls + 1, (writer.calls - 1,) if writer.calls else ())
    if not writer.calls % 50:
        writer.flush()
"""


@pytest.mark.parametrize("often", [8, pytest.param(50, marks=pytest.mark.slow)])
def test_a_run_that_is_killed_at_any_moment_leaves_a_file_that_can_be_read(tmp_path: Path, often: int) -> None:
    """One run that writes without pause, stopped and looked at ``often``; at last it is killed."""
    path = tmp_path / "run.values"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[3]), *sys.path])}
    moments = random.Random(7)
    with subprocess.Popen(
        [sys.executable, "-c", _ENDLESS, path], stdout=subprocess.PIPE, text=True, env=environment
    ) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "ready\n"
        seen = 0
        for moment in range(often + 1):
            time.sleep(moments.uniform(0.001, 0.03))
            run.send_signal(signal.SIGSTOP if moment < often else signal.SIGKILL)
            values = read_values(path)
            run.send_signal(signal.SIGCONT)
            assert "cut off" in values.partial
            assert values.inputs.tolist() == list(range(len(values)))
            assert len(values) >= seen
            seen = len(values)
        assert seen


NO_FULL_DISK = pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")


@NO_FULL_DISK
def test_a_full_disk_ends_the_writing_and_keeps_no_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "BLOCK_CALLS", 64)
    writer = write(tmp_path / "run.values")
    assert writer._file is not None
    with open("/dev/full", "wb", buffering=0) as full:
        os.dup2(full.fileno(), writer._file.fileno())
    for _ in range(1000):
        writer.call(0, 1, 2)
    writer.flush()
    assert "space" in writer.failed
    assert len(writer._rows) < 200 * 32
    writer.close()
    assert len(read_values(tmp_path / "run.values")) == 40


def test_a_forked_child_writes_nothing(tmp_path: Path) -> None:
    writer = write(tmp_path / "run.values")
    child = os.fork()
    if not child:
        writer.call(0, 1, 2)
        writer.flush()
        writer.close()
        os._exit(0)
    os.waitpid(child, 0)
    writer.close()
    assert len(read_values(writer.path)) == 40


def test_a_step_that_ends_on_another_thread_writes_nothing_there(tmp_path: Path) -> None:
    writer = write(tmp_path / "a.values", calls=5)
    writer._last = 0.0  # long ago
    thread = threading.Thread(target=writer.step, args=(2,))
    thread.start()
    thread.join()
    assert writer._written == 0
    writer.step(3)
    assert writer._written == 5
    writer.close()
    assert not read_values(tmp_path / "a.values").partial


def test_digests_that_come_later_are_waited_for_and_calls_before_the_first_step_are_of_step_0(tmp_path: Path) -> None:
    writer = ValuesWriter(tmp_path / "run.values", Header())
    group = writer.group(MM)
    batch = writer.entry(ValueKind.BATCH, "loader", 0, 3)
    first = writer.call(group, 0, 0, (batch,), pending=True)
    writer.step(1)
    writer.call(group, 5, 6, (first,))
    writer.flush()
    assert len(read_values(writer.path)) == 0
    writer.settle(first, 1, 2)
    writer.settle_entry(batch, 9)
    writer.flush()
    values = read_values(writer.path)
    assert values.inputs.tolist() == [1, 5]
    assert [values.step_of(0), values.step_of(1)] == [0, 1]
    assert (values.entries.digest.tolist(), values.entries.position.tolist()) == ([9], [3])


def test_digests_that_never_come_are_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "MOST_KEPT_BACK", 100)
    monkeypatch.setattr(writing, "BLOCK_CALLS", 50)
    writer = ValuesWriter(tmp_path / "run.values", Header())
    group = writer.group(MM)
    lost = writer.call(group, 0, 0, mark_bits=int(Mark.COLLECTIVE), pending=True)
    for _ in range(300):
        writer.call(group, 1, 2)
    writer.settle(lost, 1, 1)
    writer.close()
    values = read_values(writer.path)
    assert len(values) == 301
    assert Mark(int(values.mark_bits[0])) == Mark.COLLECTIVE | Mark.INPUT_NOT_DIGESTED | Mark.OUTPUT_NOT_DIGESTED
    assert not values.mark_bits[1:].any()


def test_a_call_takes_at_most_64_bytes_and_steps_that_repeat_fewer(tmp_path: Path) -> None:
    writer = write(tmp_path / "run.values", calls=2000, flush_each=1000)
    writer.close()
    assert writer.raw_bytes / 2000 <= 64
    assert writer.path.stat().st_size < 2000 * 24


@pytest.mark.parametrize("origins", [(5,), (-9,)])
def test_an_origin_that_never_was_is_damage(tmp_path: Path, origins: tuple[int, ...]) -> None:
    writer = ValuesWriter(tmp_path / "run.values", Header())
    writer.call(writer.group(MM), 1, 2, origins)
    writer.close()
    assert "nowhere" in read_values(writer.path).partial


LATER = columns.MAGIC + columns.framed(columns.HEADER, msgspec.msgpack.encode({"schema": 99, "what": "is this"}))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        *((data, "") for data in (b"", b"{}", columns.MAGIC, columns.MAGIC + b"\0" * 50, b"\0" * 200)),
        (LATER, "schema 99"),
        (None, "there is no file"),
    ],
)
def test_what_is_no_file_of_values_is_refused_in_one_line(tmp_path: Path, data: bytes | None, says: str) -> None:
    path = tmp_path / "run.values"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(TraceError, match=says) as refusal:
        read_values(path)
    assert "\n" not in str(refusal.value)
    assert "run.values" in str(refusal.value)


def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="cannot write"):
        ValuesWriter(tmp_path, Header())


@pytest.mark.parametrize(
    "trace", ["run.trace.json", "run.trace.json.gz", "run.json", "run.json.gz", "run.values", "run"]
)
def test_the_file_of_values_stands_beside_the_trace(trace: str) -> None:
    assert values_path(f"some/{trace}") == Path("some/run.values")


def test_a_fold_knows_order_and_number() -> None:
    assert fold(()) == 0
    assert fold((7,)) == 7
    assert len({fold(row) for row in ((1, 2), (2, 1), (1, 2, 2), (1, 1, 2), (3,), ())}) == 6
    assert text_digest("") != 0


CALL = st.tuples(
    st.integers(0, 3),
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**64 - 1),
    st.sets(st.integers(1, 5), max_size=4),
    st.text(max_size=8),
    st.integers(0, 127),
    st.booleans(),
)


@given(calls=st.lists(CALL, max_size=30))
def test_any_recording_comes_back_as_it_was(tmp_path_factory: pytest.TempPathFactory, calls: list[tuple]) -> None:
    path = tmp_path_factory.mktemp("values") / "run.values"
    writer = ValuesWriter(path, Header())
    groups = [writer.group(Group(op=f"aten.op{number}.default")) for number in range(4)]
    given_origins = []
    for index, (group, inputs, outputs, back, text, marks, whole) in enumerate(calls):
        origins = {index - way for way in back if way <= index}
        given_origins.append(origins)
        writer.call(groups[group], inputs, outputs, origins, writer.numbers(text), marks)
        if whole:
            writer.flush()
    writer.close()
    values = read_values(path)
    assert values.partial == ""
    assert [values.groups[group].op for group in values.group] == [f"aten.op{call[0]}.default" for call in calls]
    assert values.inputs.tolist() == [call[1] for call in calls]
    assert values.outputs.tolist() == [call[2] for call in calls]
    assert [set(values.origins_of(index).tolist()) for index in range(len(calls))] == given_origins
    assert [values.texts.get(int(numbers), "") for numbers in values.numbers] == [call[4] for call in calls]
    assert values.mark_bits.tolist() == [call[5] for call in calls]
