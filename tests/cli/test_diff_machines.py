"""``tracer doctor --save`` and ``tracer diff`` of two such files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.hostile.cases import machine
from tests.support.build import trace
from tests.support.command import Command, process
from tracer.names import DeterministicMode

HERE, THERE = "here.doctor.json", "there.doctor.json"


@pytest.fixture
def machines(folder: Path) -> Path:
    """Two machines: the second has eight threads, and deterministic mode on."""
    (folder / HERE).write_bytes(machine(num_threads=2))
    (folder / THERE).write_bytes(machine(num_threads=8, deterministic_mode=DeterministicMode.ON))
    return folder


def test_what_this_process_saves_is_read_again(folder: Path, tracer: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    done = tracer("doctor", "--save", HERE)
    assert done.code == 0
    assert f"tracer: {HERE} keeps" in done.err
    assert "nondeterministic: torch.use_deterministic_algorithms" in done.out
    saved = json.loads((folder / HERE).read_text())
    assert saved["doctor"] == 1
    assert "torch_seed" not in saved["environment"]
    assert tracer("diff", HERE, HERE, "--fail-on", "parted").code == 0
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    tracer("doctor", "--save", THERE)
    differing = tracer("diff", HERE, THERE)
    assert differing.code == 0
    assert "PYTHONHASHSEED" in differing.out


def test_a_machine_is_saved_as_json_is_printed(folder: Path, tracer: Command) -> None:
    done = tracer("doctor", "--format", "json", "--save", HERE)
    assert json.loads(done.out)["torch"]
    assert (folder / HERE).is_file()


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ((), 0),
        (("--fail-on", "parted"), 1),
        (("--fail-on", "nondeterministic"), 0),
        (("--backend", "cpu"), 0),
        (("--format", "json"), 0),
    ],
)
def test_exit_codes_are_those_of_diff(options: tuple[str, ...], code: int, machines: Path, tracer: Command) -> None:
    done = tracer("diff", HERE, THERE, *options)
    assert (done.code, done.err) == (code, "")


def test_a_setting_that_is_worse_on_the_second_machine_fails_where_it_is_named(machines: Path, tracer: Command) -> None:
    assert tracer("diff", THERE, HERE, "--fail-on", "nondeterministic").code == 1
    assert tracer("diff", THERE, HERE, "--fail-on", "new").code == 1
    assert tracer("diff", THERE, HERE, "--fail-on", "raises").code == 0


def test_each_difference_stands_in_json(machines: Path, tracer: Command) -> None:
    document: dict[str, Any] = json.loads(tracer("diff", HERE, THERE, "--format", "json").out)
    assert (document["schema"], document["first"], document["second"]) == (1, HERE, THERE)
    told = {one["name"]: (one["first"], one["second"], one["matters"]) for one in document["differences"]}
    assert told["torch.set_num_threads"] == ("2", "8", "machines")
    assert told["torch.use_deterministic_algorithms"] == ("off", "on", "runs")


def test_files_of_one_name_are_told_apart_by_their_folders(machines: Path, tracer: Command) -> None:
    (machines / "b").mkdir()
    (machines / "b" / HERE).write_bytes((machines / THERE).read_bytes())
    assert f"b/{HERE}" in json.loads(tracer("diff", HERE, f"b/{HERE}", "--format", "json").out)["second"]


def test_a_machine_without_torch_is_a_part(machines: Path, tracer: Command) -> None:
    document = json.loads((machines / HERE).read_text())
    document["outlook"]["has_torch"] = False
    (machines / HERE).write_text(json.dumps(document))
    done = tracer("diff", HERE, THERE)
    assert done.code == 3
    assert f"torch cannot be imported on {HERE}" in done.err


def edited(folder: Path, **fields: Any) -> None:
    document = json.loads((folder / HERE).read_text())
    (folder / HERE).write_text(json.dumps(document | fields))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is not what `tracer doctor --save` wrote"),
        (b"{nothing", "is not what `tracer doctor --save` wrote"),
        (b"\xff\xfe", "cannot read"),
        (b"{}", "missing required field `doctor`"),
        (b'{"doctor": 2}', "schema 2; this release reads schema 1; update"),
        (b'{"doctor": 0}', "this release reads schema 1"),
        (b'{"doctor": 1}', "missing required field `environment`"),
        (b'{"doctor": 1, "environment": {"python": 3}}', "$.environment.python"),
    ],
)
def test_what_is_no_such_file_is_one_line(content: bytes, says: str, machines: Path, tracer: Command) -> None:
    (machines / HERE).write_bytes(content)
    done = tracer("diff", HERE, THERE)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert says in done.err


def test_a_torch_that_is_no_version_is_one_line(machines: Path, tracer: Command) -> None:
    environment = json.loads((machines / HERE).read_text())["environment"]
    edited(machines, environment=environment | {"torch": "mine"})
    done = tracer("diff", HERE, THERE)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "'mine' is not a version" in done.err


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ((HERE, "t.json"), f"{HERE} is a file of `tracer doctor --save`, and t.json is none"),
        (("t.json", HERE), f"{HERE} is a file of `tracer doctor --save`, and t.json is none"),
        ((HERE, "absent.doctor.json"), "there is no file absent.doctor.json"),
        ((HERE,), "one trace and one target do not differ"),
        ((HERE, THERE, "--align-step", "1=0"), "--align-step asks of traces"),
        ((HERE, THERE, "--torch", "2.4"), "--torch asks of traces"),
        ((HERE, THERE, "--settings", "default"), "--settings asks of traces"),
        ((HERE, THERE, "--yardstick", "y"), "--yardstick asks of traces"),
        ((HERE, THERE, "--backend", "cpu,cuda"), "--backend names one backend"),
        ((HERE, THERE, "--backend", "gpu"), "--backend names one backend"),
        ((HERE, THERE, "--fail-on", "bad"), "there is no verdict 'bad'"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(
    line: tuple[str, ...], says: str, machines: Path, tracer: Command
) -> None:
    trace().save(machines / "t.json")
    done = tracer("diff", *line)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert says in done.err


@pytest.mark.parametrize("command", ["report", "check"])
def test_a_trace_is_wanted_elsewhere_and_the_file_is_told(command: str, machines: Path, tracer: Command) -> None:
    done = tracer(command, HERE)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "name two of them to `tracer diff`" in done.err


def test_a_place_that_cannot_be_written_is_told_before_torch_is_imported(folder: Path) -> None:
    code = (
        "import sys\nsys.modules['torch'] = None\nfrom tracer.cli.main import main\n"
        f"main(['doctor', '--save', {str(folder)!r}])"
    )
    done = process("-c", code, cwd=folder)
    assert (done.code, done.out) == (2, "")
    assert "is a folder" in done.err


def test_no_color_is_kept(machines: Path) -> None:
    code = "import sys\nfrom tracer.cli.main import main\nsys.stdout.isatty = lambda: True\nmain(sys.argv[1:])"
    coloured = process("-c", code, "diff", HERE, THERE, cwd=machines, TERM="xterm-256color")
    plain = process("-c", code, "diff", HERE, THERE, cwd=machines, TERM="xterm-256color", NO_COLOR="1")
    assert "\x1b[" in coloured.out
    assert "\x1b" not in plain.out
