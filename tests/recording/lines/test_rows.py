"""What a row says of a line: what it changed, of whatever kind, and when."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from textwrap import dedent
from types import ModuleType

import pytest
import torch

import tracer
from tests.support.traced import calls_of, rows_of, traced
from tracer.recording.lines.recording import LineRecording
from tracer.recording.lines.variable_digests import VariableDigests
from tracer.recording.options import LineOptions
from tracer.recording.patching import Watch, place
from tracer.trace.lines import (
    NO_DIGEST,
    TIME_IS_UP,
    Entered,
    LineCode,
    LineNote,
    LineRow,
    LinesHeader,
    Text,
    follows_to_the_end,
    read_lines,
)


def test_a_line_has_what_it_changed_and_nothing_else(tmp_path: Path) -> None:
    records = traced(tmp_path, "x = 1\ny = 2\nx = x + y\n")
    assert [rows_of(records, line) for line in (1, 2, 3)] == [[{"x": "1"}], [{"y": "2"}], [{"x": "3"}]]


def test_numbers_are_their_own_digest_and_texts_are_not(tmp_path: Path) -> None:
    records = traced(tmp_path, "a, b, c = 0.1, True, 'secret'\n")
    (changed,) = rows_of(records, 1)
    assert (changed["a"], changed["b"]) == ("0.1", "True")
    assert "secret" not in (tmp_path / "a.lines").read_text()
    assert changed["c"].startswith("s")


def test_a_function_has_its_parameters_its_result_and_the_line_that_called_it(tmp_path: Path) -> None:
    records = traced(tmp_path, "def double(n):\n    m = 2 * n\n    return m\nr = double(4)\n")
    entered = [record for record in records if isinstance(record, Entered)][1]
    assert (entered.parent_line, entered.parent_n, calls_of(records)[1]) == (4, 1, {"n": "4"})
    assert rows_of(records, 3) == [{"%return": "8"}]


def test_what_stands_between_a_line_and_c_code_is_no_function_of_the_programs(tmp_path: Path) -> None:
    lift = place([(torch, "tensor")], Watch(after=lambda call: None))
    assert lift is not None
    records = traced(tmp_path, "import torch\nx = torch.tensor(1.0)\n")
    lift()
    assert [record.function for record in records if isinstance(record, LineCode)] == ["<module>"]


def test_the_state_of_a_generator_is_a_value(tmp_path: Path) -> None:
    source = "import random\nown = random.Random(0)\nx = own.random()\ny = random.random()\n"
    records = traced(tmp_path, source)
    assert {"own", "x"} <= rows_of(records, 3)[0].keys()
    drawn = [record for record in records if isinstance(record, LineRow) and "%generator python" in record.changed]
    assert drawn[-1].line == 4


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ("o.rate = 2", "o.rate"),
        ("o.names.append(3)", "o.names"),
        ("o.inner['a'] = 4", "o.inner"),
        ("o.seen.add(9)", "o.seen"),
        ("o.own.random()", "o.own"),
        ("d['x'] = 5", "d.x"),
    ],
)
def test_a_change_inside_an_object_is_that_of_its_attribute(tmp_path: Path, change: str, path: str) -> None:
    source = dedent(f"""\
        import random
        class O:
            def __init__(self):
                self.rate, self.names, self.inner, self.seen, self.own = 1, [], {{}}, set(), random.Random(0)
        o, d = O(), {{"x": 1, "y": 2}}
        {change}
        """)
    assert [*rows_of(traced(tmp_path, source), 6)[0]] == [path]


def test_times_of_pandas_are_values(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    source = "import pandas\na = pandas.Timestamp(5)\na = pandas.Timestamp(6)\na = pandas.Timedelta(6)\n"
    records = traced(tmp_path, source)
    digests = [rows_of(records, line)[0]["a"] for line in (2, 3, 4)]
    assert len({*digests}) == 3
    assert NO_DIGEST not in "".join(digests)


#: Tables of pandas, of which one value, ``K``, differs.
TABLES = {
    "a number": "pandas.DataFrame({'a': [1.0, K], 'b': ['x', 'y']})",
    "a text": "pandas.DataFrame({'a': [1.0, 2.0], 'b': ['x', str(K)]})['b']",
    "a date": "pandas.Series(pandas.to_datetime([0, K], unit='s'))",
    "a category": "pandas.Series(['a', str(K)], dtype='category')",
    "a number that may lack": "pandas.Series([None, K], dtype='Int64')",
    "an index": "pandas.Series([0.5, 1.5], index=[1, K])",
    "an index of several levels": "pandas.MultiIndex.from_tuples([(1, 'a'), (2, str(K))])",
    "a name": "pandas.Series([0.5], name=str(K))",
    "objects": "pandas.Series(['a', K], dtype=object)",
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_pandas_are_values(tmp_path: Path, name: str) -> None:
    pytest.importorskip("pandas")
    records = traced(tmp_path, "import pandas\n" + "".join(f"a = {TABLES[name].replace('K', k)}\n" for k in "334"))
    first, same, other = (rows_of(records, line)[0].get("a") for line in (2, 3, 4))
    assert first is not None
    assert NO_DIGEST not in first
    assert same is None
    assert other not in (None, first)


def test_a_logger_is_its_name_and_not_what_it_knows_of_others(tmp_path: Path) -> None:
    records = traced(tmp_path, "import logging\na = logging.getLogger('a')\nb = logging.getLogger(f'{id(a)}')\n")
    assert "a" in rows_of(records, 2)[0]
    assert [*rows_of(records, 3)[0]] == ["b"]


def test_objects_in_an_array_that_are_no_texts_are_not_seen(tmp_path: Path) -> None:
    records = traced(tmp_path, "import numpy\na = numpy.array([object()], dtype=object)\n")
    assert rows_of(records, 2)[0]["a"] == NO_DIGEST


def test_scalars_of_numpy_are_values_and_their_texts_are_not_shown(tmp_path: Path) -> None:
    source = "import numpy\na = numpy.datetime64(5, 'ns')\na = numpy.datetime64(5, 's')\na = numpy.str_('secret')\n"
    records = traced(tmp_path, source + "a = numpy.float32(0.5)\n")
    digests = [rows_of(records, line)[0]["a"] for line in (2, 3, 4, 5)]
    assert len({*digests}) == 4
    assert digests[3] == "0.5"
    assert "secret" not in (tmp_path / "a.lines").read_text()


def test_a_set_is_digested_as_a_set(tmp_path: Path) -> None:
    records = traced(tmp_path, "a = {'x', 'y', 'z'}\nb = {'z', 'y', 'x'}\nc = list(a)\n")
    assert rows_of(records, 1)[0]["a"] == rows_of(records, 2)[0]["b"]


def test_tensors_arrays_and_modules_have_digests_of_their_bytes(tmp_path: Path) -> None:
    source = dedent("""\
        import numpy, torch
        t, a = torch.zeros(3), numpy.zeros(3)
        net = torch.nn.Linear(2, 1)
        t[1] = 1
        a[1] = 1
        with torch.no_grad(): net.weight.fill_(2)
        t = t + 0
        """)
    records = traced(tmp_path, source)
    assert [*rows_of(records, 4)[0]] == ["t"]
    assert [*rows_of(records, 5)[0]] == ["a"]
    assert [*rows_of(records, 6)[-1]] == ["net"]
    assert rows_of(records, 7) == [{}], "another tensor of the same bytes"


def test_a_global_that_a_function_changes_belongs_to_its_line(tmp_path: Path) -> None:
    source = "seen = []\ndef note(x):\n    seen.append(x)\n    global last\n    last = x\nnote(7)\n"
    records = traced(tmp_path, source)
    assert [*rows_of(records, 3)[0]] == ["%global seen"]
    assert rows_of(records, 5)[0]["%global last"] == "7"


def test_a_generator_goes_on_in_its_frame(tmp_path: Path) -> None:
    source = "def numbers():\n    for i in range(3):\n        yield i\ntotal = 0\nfor n in numbers():\n    total += n\n"
    records = traced(tmp_path, source)
    assert len(calls_of(records)) == 2
    assert rows_of(records, 6) == [{}, {"total": "1"}, {"total": "3"}]


def test_a_line_that_raises_ends_its_frame(tmp_path: Path) -> None:
    source = "def fail():\n    raise ValueError\ntry:\n    fail()\nexcept ValueError:\n    x = 1\n"
    records = traced(tmp_path, source)
    assert rows_of(records, 6) == [{"x": "1"}]
    assert [record.returns for record in records if isinstance(record, LineRow) and record.line == 2] == [True]


def test_rows_of_a_long_loop_are_bounded_and_its_end_is_seen(tmp_path: Path) -> None:
    source = "c = 0\nfor i in range(5000):\n    c += i\nd = c\n"
    records = traced(tmp_path, source)
    rows = [record for record in records if isinstance(record, LineRow) and record.line in (2, 3)]
    assert len(rows) < 820
    assert [row.n for row in rows if row.line == 3 and row.n <= 400] == [*range(1, 401)]
    assert all(row.is_sampled for row in rows if row.n > 400)
    assert rows[-1].changed["c"] == str(sum(range(5000)))
    assert rows_of(records, 4) == [{"d": str(sum(range(5000)))}]


def test_the_step_that_is_asked_for_has_all_its_rows(tmp_path: Path) -> None:
    source = "def one(x):\n    return x\nc = 0\nfor i in range(3000):\n    c += one(i)\n    STEP(i)\n"
    file = tmp_path / "program.py"
    file.write_text(source, encoding="utf-8")
    lines = LineRecording(tmp_path / "a.lines", [str(tmp_path)], LineOptions(anew_at=2500))
    lines.start()
    exec(compile(source, str(file), "exec"), {"__name__": "__main__", "STEP": lines.step_ended})
    lines.stop()
    records = read_lines(tmp_path / "a.lines")
    values = [int(row["c"]) for row in rows_of(records, 5) if "c" in row]
    assert {sum(range(end)) for end in (*range(2, 400), *range(2502, 2900))} <= {*values}
    assert [call["x"] for call in calls_of(records)[1:] if int(call["x"]) in range(2501, 2890)] == [
        str(x) for x in range(2501, 2890)
    ]


def test_calls_of_a_function_are_bounded(tmp_path: Path) -> None:
    records = traced(tmp_path, "def one(x):\n    return x\nfor i in range(3000):\n    one(i)\n")
    counts = [record.count for record in records if isinstance(record, Entered)][1:]
    assert counts == [*range(1, 401), 512, 1024, 2048]


def test_a_line_says_what_it_reads_stores_and_may_call(tmp_path: Path) -> None:
    source = dedent("""\
        import time, random
        from time import time as now
        class C: pass
        c = C()
        c.t = now() + time.time()
        r = random.Random()
        for k in {1, 2}: pass
        q = r.random()
        """)
    texts = {record.line: record.text for record in traced(tmp_path, source) if isinstance(record, Text)}
    assert texts[5].stores == ("c.t",)
    assert set(texts[5].reads) == {"now", "time.time"}
    assert set(texts[5].calls) >= {"time.time"}
    assert "random.Random" in texts[6].calls
    assert "iterates" in texts[7].calls
    assert "random.Random.random" in texts[8].calls


def test_a_line_says_what_statement_it_is_part_of(tmp_path: Path) -> None:
    source = dedent("""\
        import os
        def f(k):
            while k:
                try:
                    k = max(
                        k - 1,
                        0)
                except ValueError:
                    pass
            return k
        x = f(1)
        """)
    texts = {record.line: record.text for record in traced(tmp_path, source) if isinstance(record, Text)}
    assert {line: (texts[line].first, texts[line].loop) for line in (3, 5, 6, 10, 11)} == {
        3: (0, 0),
        5: (5, 3),
        6: (5, 3),
        10: (0, 0),
        11: (0, 0),
    }
    assert ("imports" in texts[1].calls, "returns" in texts[10].calls) == (True, True)


def test_only_own_files_have_rows(tmp_path: Path) -> None:
    records = traced(tmp_path, "import json\nx = json.loads('[1]')\n")
    assert [record.file for record in records if isinstance(record, LineCode)] == [_spelled(records)]
    named = traced(tmp_path, "import pytest\nx = pytest.approx(1)\n", library=("_pytest",))
    module = pytest.approx.__module__.replace(".", "/")  # another one in pytest 9.2 than before
    assert any(record.file == f"{module}.py" for record in named if isinstance(record, LineCode))


def test_files_that_the_recorder_opens_are_read_by_no_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    caching = ModuleType("caching")
    code = "def cached(path):\n    open(path).close()\n"
    exec(compile(code, Path(tracer.__file__).with_name("caching.py"), "exec"), vars(caching))
    monkeypatch.setitem(sys.modules, "caching", caching)
    monkeypatch.chdir(tmp_path)
    source = "import time\ntime.sleep(0.02)\nopen('made', 'w').close()\nfrom caching import cached\ncached('made')\n"
    records = traced(tmp_path, f"{source}open('made').close()\n")
    files = {row.line: len(row.files) for row in records if isinstance(row, LineRow)}
    assert (files[5], files[6]) == (0, 1)


def _spelled(records: list[object]) -> str:
    return next(record.file for record in records if isinstance(record, LineCode))


def test_a_file_that_was_cut_off_has_the_rows_before(tmp_path: Path) -> None:
    traced(tmp_path, "x = 1\ny = 2\n")
    file = tmp_path / "a.lines"
    whole = read_lines(file)
    file.write_bytes(file.read_bytes()[:-7])
    assert read_lines(file) == whole[:-1]
    assert isinstance(whole[0], LinesHeader)


def test_after_the_time_for_them_no_lines_are_followed_and_a_note_says_so(tmp_path: Path) -> None:
    source = "import time\nx = 1\nwhile time.thread_time() < UNTIL: pass\ny = 2\nz = 3\n"
    source = source.replace("UNTIL", str(time.thread_time() + 0.3))
    records = traced(tmp_path, source, seconds=0.2)
    assert (rows_of(records, 2), rows_of(records, 5)) == ([{"x": "1"}], [])
    assert records[-1] == LineNote(TIME_IS_UP)
    assert not follows_to_the_end(tmp_path / "a.json")
    traced(tmp_path, source, name="whole")
    assert follows_to_the_end(tmp_path / "whole.json")


def test_what_does_not_change_for_long_is_looked_at_where_a_line_names_it(tmp_path: Path) -> None:
    """A container of many values costs a look nothing at lines of a loop that do not name it; none of its changes is
    missed."""
    source = """\
        many = [[k, k] for k in range(120)]
        alias, seen = many[3], 0
        for k in range(200):
            seen += 1
            if k == 150:
                many.append([k])
        last = many[3]
        """
    records = traced(tmp_path, dedent(source))
    assert [sorted(changed) for changed in rows_of(records, 6)] == [["many"]]
    looked: list[int] = []
    counted = VariableDigests._several

    def several(self: VariableDigests, values: list[object], *rest: object) -> str:
        looked.append(len(values))
        return counted(self, values, *rest)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(VariableDigests, "_several", several)
        traced(tmp_path, dedent(source), name="b")
    assert looked.count(120) < 60


def test_the_digest_of_a_set_hangs_on_no_order_however_many_values_it_holds() -> None:
    class Node:
        def __init__(self, k: int) -> None:
            self.k, self.links = k, [[k], [k + 1], {"k": [k]}]

    first, second = ({Node(k) for k in range(200)} for _ in "ab")
    assert VariableDigests().of(first) == VariableDigests().of(second) == "{}200?"
    assert VariableDigests().of({str(k) for k in range(2000)}) == "{}2000?"
    assert VariableDigests().of({1, 2}) != VariableDigests().of({1, 3})
