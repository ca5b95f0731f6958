"""Each circumstance changes what it says and nothing else; what is concluded from who differed in which."""

from __future__ import annotations

import json
import os
import re
import socket
from pathlib import Path

import pytest
import torch

from tests.runner.repeated.comparisons import divergence, repeated, root
from tests.support.command import process
from tracer import DeterminismTracer
from tracer.cli.repeat import EXAMPLES
from tracer.divergence.causes import RootCause
from tracer.errors import UsageError
from tracer.plain import json_text
from tracer.report.blocks import PAGE
from tracer.report.compared import repeated_json
from tracer.report.render.terminal import drawn, printed
from tracer.report.sections.runs import repeated_blocks, repeated_headline
from tracer.runner.repeated import declared, launching
from tracer.runner.repeated.declared import Circumstance, Start, parse_held, parse_varied
from tracer.runner.repeated.folder import MOST_OF_A_FILE, Snapshot
from tracer.runner.repeated.launching import _own_store
from tracer.runner.script import Task


def test_all_is_every_circumstance_and_another_word_is_refused_with_those_that_can_be_varied() -> None:
    assert parse_varied("all") == tuple(one for one in Circumstance if one.varied is not None)
    assert parse_held("all") == tuple(Circumstance)
    assert parse_varied("threads, memory") == (Circumstance.MEMORY, Circumstance.THREADS)
    with pytest.raises(UsageError, match=r"unknown circumstance 'sound' for --vary") as refused:
        parse_varied("memory,sound")
    assert refused.value.hint.startswith("choose from hash-seed, memory")


def test_the_help_shows_circumstances_that_exist() -> None:
    (held,) = re.findall(r"--hold (\S+)", EXAMPLES)
    assert len(parse_held(held)) == held.count(",") + 1


@pytest.mark.parametrize("one", list(Circumstance), ids=str)
def test_each_circumstance_says_how_it_is_held_what_that_shows_and_what_it_cannot_reach(one: Circumstance) -> None:
    assert one.held is not None
    assert all((one.held_clause, one.shows, one.remedy, one.held.words, one.held.cannot))


@pytest.mark.parametrize("one", [Circumstance.MEMORY, Circumstance.THREADS, Circumstance.HASH_SEED])
@pytest.mark.parametrize("threads", [1, 8])
def test_what_a_variable_changes_is_another_value_than_the_process_has(one: Circumstance, threads: int) -> None:
    assert one.varied is not None
    once = one.varied.variables(Start({}, threads, {}))
    assert once
    if one is Circumstance.THREADS:
        assert set(once.values()) == {"1" if threads == 8 else "2"}
    else:
        again = one.varied.variables(Start(once, threads, {}))
        assert all(again[name] != value for name, value in once.items())


def test_a_root_of_the_unvaried_runs_is_the_program_itself_and_one_of_an_arm_alone_is_sensitive_to_it() -> None:
    found = repeated(
        divergence(root(10)),
        {Circumstance.THREADS.value: divergence(root(10, RootCause.SETTING), root(20, op="aten.sum"))},
    )
    assert [(one.location, one.arms, one.cause) for one in found.roots] == [
        ("train.py:10", ("unvaried", "threads"), RootCause.KERNEL),
        ("train.py:20", ("threads",), RootCause.KERNEL),
    ]
    text = " ".join(printed(drawn(repeated_blocks(found, PAGE)), width=100, color=False).split())
    assert "Seen in: unvaried, threads. It differs with nothing varied: it is the program itself." in text
    assert "Seen in: threads. It differs in threads only: it is sensitive to that." in text
    assert found.arms[Circumstance.THREADS.value].alone == 1


def test_runs_that_part_in_an_arm_alone_do_not_agree_and_the_headline_says_which() -> None:
    found = repeated(divergence(), {Circumstance.MEMORY.value: divergence(root(7, RootCause.DRAW))})
    assert not found.agrees
    assert found.first is not None
    assert found.first.location == "train.py:7"
    assert repeated_headline(found) == (
        "2 runs agree in all 120 calls; under other circumstances (memory) they diverge at train.py:7"
        " (aten.index_put_, by a random draw)"
    )


def test_the_json_has_the_contracts_fields() -> None:
    found = repeated(divergence(root()), {Circumstance.MEMORY.value: divergence(root())})
    told = json.loads(json_text(repeated_json(found)))
    assert {"schema": 1, "agrees": False, "runs": 2, "calls_compared": 120}.items() <= told.items()
    assert told["first"] == told["roots"][0]
    assert {
        "cause": "kernel",
        "step": 3,
        "call": 41,
        "op": "aten.index_put_.default",
        "phase": "forward",
        "module": "net.table",
        "location": "train.py:41",
        "called_from": "",
        "rule": "",
        "verdict": None,
        "arms": ["unvaried", "memory"],
    }.items() <= told["first"].items()
    assert {name: arm["agrees"] for name, arm in told["arms"].items()} == {"unvaried": False, "memory": False}


def test_under_the_plan_the_headline_says_both() -> None:
    before = repeated(divergence(root()))
    found = repeated(divergence(calls=12_408), settings="planned", as_it_stands=before)
    assert repeated_headline(found) == (
        "As you have it: Run 2 diverges from run 1 in step 3, forward, at train.py:41 (aten.index_put_.default),"
        " by its kernel. Under the plan: 2 runs agree in all 12,408 calls"
    )


def test_runs_of_a_distributed_job_do_not_meet_in_one_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    assert _own_store(1) == {}
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("MASTER_PORT", "65535")
    assert _own_store(0) == {}
    ports = [_own_store(number)["MASTER_PORT"] for number in (1, 2, 3)]
    assert ports == ["1024", "1025", "1026"]
    assert _own_store(1)["TORCHELASTIC_USE_AGENT_STORE"] == "False"


def test_roots_at_one_line_are_listed_each_with_its_own_cause() -> None:
    several = divergence(root(41, RootCause.UNKNOWN), root(41, RootCause.STRUCTURE, call=9))
    assert [each.cause for each in repeated(several).numbered] == [RootCause.UNKNOWN, RootCause.STRUCTURE]


# --- in processes of their own ---


if not hasattr(os, "fork"):
    pytest.skip("circumstances are tried in forks", allow_module_level=True)


def run(code: str, folder: Path, **variables: str) -> str:
    (folder / "script.py").write_text(code, encoding="utf-8")
    done = process("script.py", cwd=folder, **variables)
    assert done.code == 0, done.err
    return done.out


@pytest.mark.parametrize("name", [declared.VARIED_NAME, declared.HELD_NAME])
def test_the_name_of_another_host_leads_to_this_one(name: str) -> None:
    """``torchrun`` has its ranks meet at the name of the host."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection((name, server.getsockname()[1]), timeout=10).close()


@pytest.mark.skipif(not hasattr(os, "confstr_names") or "CS_GNU_LIBC_VERSION" not in os.confstr_names, reason="glibc")
def test_fresh_memory_holds_other_bytes(tmp_path: Path) -> None:
    run(
        """
import torch
from tracer.runner.repeated.declared import fill_fresh_memory
fill_fresh_memory()
for size in (64, 5_000, 3_000_000):
    assert torch.empty(size, dtype=torch.uint8).unique().tolist() == [0x55]
""",
        tmp_path,
        GLIBC_TUNABLES="glibc.malloc.tcache_count=0",  # as runs are started: from 2.38 on aligned memory is cached too
    )


def test_the_plans_settings_are_made_before_the_script_and_the_rest_are_variables(tmp_path: Path) -> None:
    from tracer.runner.repeated.declared import variables_among

    assert variables_among({"CUBLAS_WORKSPACE_CONFIG": ":4096:8", "deterministic_mode": "on", "seed.torch": True}) == {
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8"
    }
    run(
        """
import random
from tracer.runner.repeated.declared import make_before_the_script
make_before_the_script({"deterministic_mode": "on", "cudnn_benchmark": False,
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
        declared._fill_device(1)
    assert len(filled) == declared._SMALL_BLOCKS
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
    assert found.why_not_copied() == "no run changed anything in the working directory"
    (folder / "repeat").mkdir()
    assert found.why_not_copied() == "no run changed anything in the working directory"
    (folder / "data" / "small.txt").write_text("written")
    (folder / "left.txt").touch()
    assert not found.why_not_copied()
    copy = found.copy()
    assert (copy / "data" / "small.txt").read_text() == "found"
    assert not (copy / "left.txt").exists()
    assert (copy / "link.txt").read_text() == "written"  # what it names lies outside the copy
    assert (copy / "large.bin").is_symlink()
    assert (copy / ".git").is_symlink()
    (copy / "data" / "small.txt").write_text("by a run")
    assert (found.copy() / "data" / "small.txt").read_text() == "found"
    assert (folder / "data" / "small.txt").read_text() == "written"
    assert not found.why_not_copied()


def test_a_large_file_that_a_run_changed_cannot_be_put_back_and_is_named(folder: Path) -> None:
    found = snapshot(folder)
    (folder / "large.bin").write_bytes(b"other")
    assert found.why_not_copied() == "large.bin was changed by a run, and is too large to be put back"


def test_a_folder_of_too_many_files_is_not_copied(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracer.runner.repeated.folder.MOST_ENTRIES", 3)
    found = snapshot(folder)
    assert found.why_not_copied() == "the working directory holds too many files to be copied"
    assert not list(found.root.iterdir())


def test_objects_of_a_later_run_lie_in_holes_and_threads_switch_at_another_interval(tmp_path: Path) -> None:
    run(
        """
import sys
from tracer.runner.repeated.launching import move_objects, switch_threads_otherwise
class Held:
    __slots__ = ("a", "b", "c", "d")
def steps(number):
    move_objects(number)
    places = [id(held) for held in [Held() for _ in range(200)]]
    return sum(after < before for before, after in zip(places, places[1:]))
full = [Held() for _ in range(20_000)]  # whatever holes the imports left are filled
few = steps(0)
assert 2 * few < steps(1), few
first = sys.getswitchinterval()
switch_threads_otherwise(0)
assert sys.getswitchinterval() == first
switch_threads_otherwise(1)
assert sys.getswitchinterval() < first
""",
        tmp_path,
    )


def test_a_run_with_addresses_held_has_its_objects_where_they_come() -> None:
    def of_run(*held: Circumstance) -> list[str]:
        changed: list[str] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(launching, "move_objects", lambda number: changed.append("objects"))
            patch.setattr(launching, "switch_threads_otherwise", lambda number: changed.append("threads"))
            launching.change_circumstances(
                launching.Order(task=Task(target="a.py"), output="a.json", number=1, held=held)
            )
        return changed

    assert of_run() == ["objects", "threads"]
    assert of_run(Circumstance.ADDRESSES) == ["threads"]
    assert of_run(Circumstance.HASH_SEED) == ["objects", "threads"]
