"""``tracer tables`` lists, shows and proves, and its exit code tells a script what it found."""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.version import Version

from tests.support.command import Command
from tests.tables.claims import has_op, ops_named_for
from tests.tables.samples import HEAD, rule_text
from tracer.names import Backend
from tracer.tables import loading
from tracer.tables.loading import existing_tables, load_tables
from tracer.tables.rules import load_rows


def test_the_tables_that_ship_are_clean_in_one_line(tracer: Command) -> None:
    done = tracer("tables", "lint")
    assert (done.code, done.err) == (0, "")
    assert re.fullmatch(r"\d+ tables, [\d,]+ rules, [\d,]+ cases: each case can be reached\.\n", done.out)


@pytest.mark.skipif(Version(version("torch")) < Version("2.13"), reason="some ops are newer than this torch")
def test_the_installed_torch_has_what_the_tables_name() -> None:
    named = [*ops_named_for(version("torch").partition("+")[0])]
    assert len(named) > 1000
    assert [(row, op) for row, op in named if not has_op(op)] == []


def linted(tracer: Command, monkeypatch: pytest.MonkeyPatch, folder: Path, text: str) -> tuple[int, str]:
    """Lint a folder of tables that holds the shipped ones, and ``text`` in place of that for CUDA."""
    for path in Path(loading.__file__).parent.glob("*.toml"):
        (folder / path.name).write_bytes(path.read_bytes())
    (folder / "cuda.toml").write_text(text)
    (folder / "cuda_dispatched.toml").unlink()  # it speaks of the rules that ship
    (folder / "rocm.toml").unlink()  # it inherits CUDA's rules, and would repeat the fault
    monkeypatch.setattr(loading, "_FOLDER", folder)
    caches = [name for name in vars(loading).values() if hasattr(name, "cache_clear")]
    for cached in caches:
        cached.cache_clear()
    try:
        done = tracer("tables", "lint")
    finally:
        monkeypatch.undo()
        for cached in caches:
            cached.cache_clear()
    assert done.err == ""
    return done.code, done.out


@pytest.mark.parametrize(
    ("rule", "fault"),
    [
        (
            rule_text('{ when = { deterministic_mode = "off" }, verdict = "nondeterministic" }'),
            "cuda-sample: the last case has conditions: what no other case takes is left without one\n",
        ),
        (rule_text().replace("cause", "course"), "course"),
    ],
)
def test_a_fault_is_one_line_with_file_and_rule_and_exit_code_1(
    tracer: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, rule: str, fault: str
) -> None:
    code, out = linted(tracer, monkeypatch, tmp_path, HEAD + rule)
    assert (code, out.count("\n")) == (1, 1)
    assert out.startswith("cuda.toml: ")
    assert fault in out


def test_every_backend_is_listed_with_its_counts(tracer: Command) -> None:
    done = tracer("tables", "list")
    assert (done.code, done.err) == (0, "")
    for backend, table in load_tables().items():
        (line,) = [line for line in done.out.splitlines() if line.strip().startswith(f"{backend} ")]
        assert str(len(table.rule)) in line.split()


@pytest.mark.parametrize("backend", existing_tables(), ids=str)
def test_every_rule_of_a_table_is_listed(backend: Backend, tracer: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    out = tracer("tables", "list", "--backend", str(backend)).out
    for rule in load_tables()[backend].rule:
        assert f"{rule.id} " in out


def test_a_rule_is_shown_whole(tracer: Command) -> None:
    out = " ".join(tracer("tables", "show", "cuda-cumsum").out.split())
    rule = next(rule for rule in load_tables()[Backend.CUDA].rule if rule.id == "cuda-cumsum")
    for part in (*rule.ops, *rule.apis, f"Cause: {rule.cause}", rule.why, rule.remedy):
        assert part in out
    assert out.count("Evidence, ") == len(rule.evidence)
    for span in ("torch 1.11 to 1.12", "torch 1.13 to 2.5", "torch 2.6 to 2.15"):
        assert span in out


def test_every_row_of_the_table_of_settings_is_listed(tracer: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    rows = load_rows().row
    assert f"{len(rows)} rows" in tracer("tables", "list").out
    out, npu = (tracer("tables", "list", "--settings", *more).out for more in ((), ("--backend", "npu")))
    for row in rows:
        assert f"{row.id}: " in out
        assert (f"{row.id}: " in npu) is (not row.backends or Backend.NPU in row.backends)


def test_a_row_is_shown_whole(tracer: Command) -> None:
    out = " ".join(tracer("tables", "show", "CUBLAS_WORKSPACE_CONFIG").out.split())
    row = next(row for row in load_rows().row if row.id == "environment-cublas-workspace")
    for part in (row.id, row.why, row.remedy, row.where, *row.code.split(), "torch 1.11", "torch 2.10 to 2.15"):
        assert part in out


def test_an_op_shows_the_rule_of_each_table(tracer: Command) -> None:
    out = tracer("tables", "show", "aten.index_put_").out
    assert "cpu-index-put" in out
    assert "cuda-index-put" in out
    assert "cpu-index-put" not in tracer("tables", "show", "aten.index_put_", "--backend", "cuda").out


@pytest.mark.parametrize(
    "args", [("list",), ("list", "--backend", "cuda"), ("list", "--settings"), ("show", "cuda-cublas")]
)
@pytest.mark.parametrize("columns", [30, 50, 80])
def test_every_list_keeps_to_the_width_and_hides_nothing(
    args: tuple[str, ...], columns: int, tracer: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    done = tracer("tables", *args)
    assert (done.code, done.err) == (0, "")
    assert max(map(len, done.out.partition("\n   import torch\n")[0].splitlines())) <= columns  # code is never broken
    assert "…" not in done.out
    assert "\n\n\n" not in done.out
    if args[:2] == ("list", "--backend") and columns > 40:
        rules = [rule.id for rule in load_tables()[Backend.CUDA].rule]
        assert [one for one in rules if one not in done.out] == []  # no id is broken into two lines
