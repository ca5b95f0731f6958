"""Each circumstance changes what it says, in a process of its own, and leaves alone what it says it does."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
import torch

from tests.support.command import process
from tracer import DeterminismTracer
from tracer.runner.repeated import declared, launching
from tracer.runner.repeated.declared import Circumstance
from tracer.runner.repeated.folder import MOST_OF_A_FILE, Snapshot
from tracer.runner.script import Task

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
