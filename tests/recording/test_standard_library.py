"""Nothing of the standard library is replaced while a script is recorded, but what seeds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command import process, tracer_process

#: What a recorded script finds otherwise than another one: functions that seed.
SEEDS = {"random.seed", "random.setstate", "random.Random.seed", "random.Random.setstate", "random.SystemRandom.seed"}
#: What starts or ends a process or a thread, and gives the program nothing: nothing else tells of them.
STARTS_AND_ENDS = {
    *("os._exit", "os.execv", "os.execve", "subprocess.Popen._execute_child"),
    "multiprocessing.process.BaseProcess.start",
    *("threading.Thread._bootstrap_inner", "concurrent.futures.thread._WorkItem.run"),
}

#: Imports each public module, and tells of each function and method its type and where its code stands.
SCRIPT = """
import importlib, json, sys, threading, warnings

import numpy, torch

warnings.simplefilter("ignore")
LEFT_OUT = {"antigravity", "this", "idlelib", "turtle", "turtledemo", "tkinter", "lib2to3", "msilib", "test"}
found = {"hooks": str([sys.gettrace(), sys.getprofile(), threading.gettrace(), threading.getprofile()])}


def tell(path, value):
    value = getattr(value, "__func__", value)
    code = getattr(value, "__code__", None)
    found[path] = f"{type(value).__name__} {getattr(code, 'co_filename', '')} {getattr(code, 'co_firstlineno', '')}"


for name in sorted(sys.stdlib_module_names - LEFT_OUT):
    if name.startswith("_"):
        continue
    try:
        importlib.import_module(name)
    except ImportError:
        continue
    for module in [sys.modules[each] for each in sorted(sys.modules) if each == name or each.startswith(name + ".")]:
        for key, value in list(vars(module).items()):
            if key.startswith("__") or not callable(value):
                continue
            path = f"{module.__name__}.{key}"
            tell(path, value)
            if isinstance(value, type) and value.__module__ == module.__name__:
                for own, method in list(vars(value).items()):
                    if callable(getattr(method, "__func__", method)):
                        tell(f"{path}.{own}", method)
torch.ones(2, requires_grad=True).sum().backward()
with open(sys.argv[1], "w") as out:
    json.dump(found, out)
"""


@pytest.mark.parametrize("options", [(), ("--values",)], ids=["plain", "values"])
def test_a_recorded_script_finds_every_function_of_the_standard_library_as_it_was(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    plain = process("script.py", "plain.json", cwd=tmp_path)
    assert plain.code == 0, plain.err
    recorded = tracer_process("run", *options, "-o", "trace.json", "script.py", "recorded.json", cwd=tmp_path)
    assert recorded.code == 0, recorded.err
    before, now = (json.loads((tmp_path / name).read_text()) for name in ("plain.json", "recorded.json"))
    assert {"time.time", "os.listdir", "os.urandom", "queue.Queue.get", "socket.socket.accept"} <= now.keys()
    assert {path for path, found in now.items() if before.get(path, found) != found} == SEEDS | STARTS_AND_ENDS
    assert now["hooks"] == str([None] * 4)
