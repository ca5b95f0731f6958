"""Following lines changes nothing: no code of the program's is called, and its output and bits are the same."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from tests.support.traced import rows_of, traced
from tracer.recording.lines.recording import LineRecording
from tracer.trace.lines import Entered, LineNote, LineRow, files_beside, read_lines

TELLTALE = dedent("""\
    calls = []
    class Telltale:
        def __init__(self): self.x = 1
        def __getattribute__(self, name):
            calls.append(name)
            return object.__getattribute__(self, name)
        def __repr__(self): calls.append("repr"); return ""
        def __eq__(self, other): calls.append("eq"); return True
        def __hash__(self): calls.append("hash"); return 1
        def __len__(self): calls.append("len"); return 1
        def __iter__(self): calls.append("iter"); return iter(())
        def __bool__(self): calls.append("bool"); return True
        @property
        def p(self): calls.append("p")
    class Several(list):
        def __iter__(self): calls.append("iter of a list"); return list.__iter__(self)
        def __len__(self): calls.append("len of a list"); return 1
    class Table(dict):
        def items(self): calls.append("items"); return dict.items(self)
        def __iter__(self): calls.append("iter of a dictionary"); return dict.__iter__(self)
    t, s, d = Telltale(), Several([1]), Table(a=1)
    held, inside = [t, s, d], {"key": t}
    """)


HALF_MADE = dedent("""\
    import torch
    class Net(torch.nn.Module):
        def __init__(self):
            self_before = 1
            super().__init__()
            self.a = torch.nn.Linear(2, 2)
    net = Net()
    x = 1
    """)
DIES = dedent("""\
    import gc, weakref, torch
    def work():
        t = torch.zeros(4)
        return weakref.ref(t)
    ref = work()
    gone = ref() is None
    t = torch.zeros(3)
    second = weakref.ref(t)
    t = None
    gone = gone and second() is None
    assert gone
    x = 1
    """)


@pytest.mark.parametrize("source", [f"{TELLTALE}x = 1\nassert not calls, calls\n", HALF_MADE, DIES])
def test_no_code_of_the_programs_is_called_no_module_is_half_read_and_no_value_kept_alive(
    tmp_path: Path, source: str
) -> None:
    assert rows_of(traced(tmp_path, source), source[: source.rindex("x = 1\n")].count("\n") + 1) == [{"x": "1"}]


def test_somebody_elses_tracer_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if sys.version_info >= (3, 12):
        pytest.skip("sys.monitoring has room for several")

    def theirs(*_: Any) -> None:
        return None

    before = sys.gettrace()
    lines = LineRecording(tmp_path / "a.lines", [str(tmp_path)])
    sys.settrace(theirs)
    try:
        lines.start()
        lines.stop()
        assert sys.gettrace() is theirs
    finally:
        sys.settrace(before)
    assert [record for record in read_lines(tmp_path / "a.lines") if isinstance(record, LineNote)] == [
        LineNote(lines.problem)
    ]
    assert capsys.readouterr().err.count("\n") == 1


def test_threads_have_rows_of_their_own(tmp_path: Path) -> None:
    source = dedent("""\
        import threading
        def work(k):
            n = k
        for k in range(2):
            t = threading.Thread(target=work, args=(k,))
            t.start()
            t.join()
        """)
    records = traced(tmp_path, source)
    called = [record for record in records if isinstance(record, Entered)]
    assert [(record.thread, record.changed.get("k")) for record in called] == [(0, None), (1, "0"), (2, "1")]
    assert threading.gettrace() is None if hasattr(threading, "gettrace") else True


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="nothing forks here")
def test_a_forked_process_has_a_file_of_its_own(tmp_path: Path) -> None:
    source = dedent("""\
        import os
        def work():
            x = 5
        for k in range(2):
            pid = os.fork()
            if pid == 0:
                work()
                os._exit(0)
            os.waitpid(pid, 0)
        y = 3
        """)
    records = traced(tmp_path, source)
    assert [file.name for file in files_beside(tmp_path / "a.lines")] == ["a.lines", "a.lines.1", "a.lines.2"]
    assert rows_of(records, 3) == []
    assert rows_of(records, 10) == [{"y": "3"}]
    for role in ("1", "2"):
        forked = read_lines(tmp_path / f"a.lines.{role}")
        assert rows_of(forked, 3)[0]["x"] == "5"
        assert [record.parent for record in forked if isinstance(record, Entered)][-1] == 1


@pytest.mark.parametrize("hooks", [("in_child", "moves"), ("moves", "in_child")])
def test_a_forked_process_that_is_recorded_by_itself_leaves_its_parents_lines(
    tmp_path: Path, hooks: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = LineRecording(tmp_path / "a.lines", [str(tmp_path)])
    lines.start()
    monkeypatch.setattr(lines, "_process", -1)  # as if it had been forked
    for hook in hooks:
        lines.in_child() if hook == "in_child" else lines.move_to(tmp_path / "a.child-1.lines")
    lines.write(LineNote("of the child"))
    lines.stop()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.child-1.lines", "a.lines"]
    assert read_lines(tmp_path / "a.child-1.lines")[-1] == LineNote("of the child")


def test_a_decorated_step_has_lines_beside_its_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from tracer import DeterminismTracer

    monkeypatch.chdir(Path(__file__).parent)
    with DeterminismTracer(lines=True) as recorder:
        x = torch.ones(3)
        y = x + 1
    with recorder:
        z = y * 2
    recorder.save(tmp_path / "step.trace.json")
    stored = [
        name for record in read_lines(tmp_path / "step.lines") if isinstance(record, LineRow) for name in record.changed
    ]
    assert [name for name in stored if len(name) == 1] == ["x", "y", "z"]
    assert z.sum() == 12


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="sys.monitoring leaves other code out by itself")
def test_nothing_is_traced_while_a_library_loads_but_what_it_imports_of_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages, own = tmp_path / "site-packages", tmp_path / "own"
    packages.mkdir()
    own.mkdir()
    (packages / "loads_much.py").write_text(
        "import sys\ntracing = sys.gettrace()\nimport of_the_program, fails_to_load\n"
    )
    (packages / "fails_to_load.py").write_text("value = 1\n")
    (own / "of_the_program.py").write_text("y = 2\n")
    for folder in (packages, own):
        monkeypatch.syspath_prepend(folder)
    finders = list(sys.meta_path)
    source = "import loads_much\nis_free = loads_much.tracing is None\n"
    source += "try:\n    import is_nowhere\nexcept ImportError:\n    z = 3\n"
    try:
        records = traced(own, source)
    finally:
        for name in ("loads_much", "fails_to_load", "of_the_program"):
            sys.modules.pop(name, None)
    assert rows_of(records, 2) == [{"is_free": "True"}]
    assert rows_of(records, 6) == [{"z": "3"}]
    assert {"y": "2"} in rows_of(records, 1)
    assert (sys.meta_path, sys.gettrace()) == (finders, None)
