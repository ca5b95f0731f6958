"""What stands for a function shows itself as it, changes no call, and is put back; which are replaced at all."""

from __future__ import annotations

import contextlib
import copy
import inspect
import json
import linecache
import os
import pickle
import random
import sys
import threading
import traceback
import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tracer
from tests.support.command import process, tracer_process
from tracer import DeterminismTracer, judge
from tracer.names import EventKind
from tracer.recording import blind_spots
from tracer.recording.patching import Watch, WatchedCall, WatchedFunction, Watchers, held_by, original_of, place
from tracer.recording.randomness.host_generators import HOST
from tracer.recording.torch_private import seams
from tracer.runner import running


class Greeter:
    """Somebody else's class."""

    def __init__(self, name: str) -> None:
        self.name = name

    def greet(self, word: str = "hello", *, loudly: bool = False) -> str:
        """Greet."""
        if word == "nothing":
            raise ValueError(word)
        return f"{word} {self.name}{'!' if loudly else ''}"

    @staticmethod
    def shout(word: str) -> str:
        return word.upper()


def greet(word: str) -> str:
    """Greet nobody."""
    return word


HERE = sys.modules[__name__]


@contextlib.contextmanager
def lifted(lift: Any) -> Iterator[None]:
    assert lift is not None
    try:
        yield
    finally:
        lift()


def watched(owner: Any, name: str, told: list[WatchedCall]) -> AbstractContextManager[None]:
    """Have calls of ``owner.name`` appended to ``told``."""
    return lifted(place([(owner, name)], Watch(after=told.append)))


def test_a_call_is_made_as_it_was_asked_for_and_told_with_its_frame_and_result() -> None:
    told: list[WatchedCall] = []
    with watched(Greeter, "greet", told):
        assert Greeter("Ada").greet("hi", loudly=True) == "hi Ada!"
    assert Greeter("Ada").greet() == "hello Ada"
    (call,) = told
    assert call.frame.f_code is sys._getframe().f_code
    assert (call.first.name, call.args[1:], call.kwargs, call.result) == ("Ada", ("hi",), {"loudly": True}, "hi Ada!")


def test_what_a_function_raises_is_its_own_and_a_watch_that_stumbles_is_nobodys() -> None:
    def stumble(_: WatchedCall) -> None:
        raise RuntimeError("a note")

    told: list[WatchedCall] = []
    with watched(Greeter, "greet", told), lifted(place([(Greeter, "greet")], Watch(before=stumble, after=told.append))):
        with pytest.raises(ValueError, match="nothing"):
            Greeter("Ada").greet("nothing")
        assert not told
        assert Greeter("Ada").greet() == "hello Ada"
        assert len(told) == 1, "the one that stumbled before the call is not told after it"


@pytest.mark.parametrize("first", [0, 1])
def test_watches_end_in_any_order_and_the_last_one_puts_the_function_back(first: int) -> None:
    before = vars(Greeter)["greet"]
    told: tuple[list[WatchedCall], list[WatchedCall]] = ([], [])
    lifts: list[Any] = [place([(Greeter, "greet")], Watch(after=one.append)) for one in told]
    lifts[first]()
    Greeter("Ada").greet()
    assert (len(told[first]), len(told[1 - first])) == (0, 1)
    assert vars(Greeter)["greet"] is not before
    lifts[1 - first]()
    assert vars(Greeter)["greet"] is before
    lifts[first]()
    assert vars(Greeter)["greet"] is before


def test_what_somebody_else_put_over_it_stays_and_tells_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[WatchedCall] = []
    with watched(HERE, "greet", told):
        ours = HERE.greet
        theirs = lambda word: ours(word)  # noqa: E731
        monkeypatch.setattr(HERE, "greet", theirs)
    assert HERE.greet is theirs
    assert HERE.greet("hi") == "hi"
    assert not told
    monkeypatch.undo()
    assert HERE.greet is ours
    with watched(HERE, "greet", told):
        pass
    assert HERE.greet is original_of(ours), "what they put back is put back by whoever comes next"


def standing() -> list[object]:
    """What stands where a recording has something stand in: settings, seeds, loaders, scripted code, warnings."""
    cudnn = vars(type(torch.backends.cudnn)).values()
    modules = [vars(module) for module in (random, np.random, torch._C)]
    return [
        *(found[name] for found in modules for name in sorted(found) if not name.startswith("__")),
        *(getattr(torch, setting.watched[0], None) for setting, _ in seams.settings()),
        *(vars(each).get("setter") for each in cudnn if hasattr(each, "setter")),
        *(torch.cuda._lazy_init, torch.distributed.init_process_group),
        vars(np.random.PCG64)["state"],
        torch.utils.data.dataloader._BaseDataLoaderIter.__next__,
        vars(torch._C.ScriptFunction).get("__call__"),
        *warnings.filters,
    ]


def test_everything_is_put_back_whatever_recorder_ends_first_and_the_other_is_told() -> None:
    before, cudnn = standing(), torch.backends.cudnn
    first, second = DeterminismTracer(), DeterminismTracer()
    first.__enter__()
    second.__enter__()
    assert any(now is not then for now, then in zip(standing(), before, strict=True))
    first.__exit__(None, None, None)
    cudnn.benchmark = True
    np.random.rand()
    second.__exit__(None, None, None)
    assert all(now is then for now, then in zip(standing(), before, strict=True))
    assert HOST.is_asleep()
    assert not blind_spots.WATCHES.placed
    kinds = [[event.kind for event in each.trace.events if event.kind is EventKind.SETTING] for each in (first, second)]
    assert kinds == [[], [EventKind.SETTING]]
    drew = [[made.drew for made in each.trace.generators if made.name == "numpy"] for each in (first, second)]
    assert drew == [[False], [True]]


def test_an_inherited_method_leaves_nothing_in_the_class_that_it_was_watched_in() -> None:
    class Child(Greeter):
        pass

    told: list[WatchedCall] = []
    with watched(Child, "greet", told):
        assert Child("Ada").greet() == "hello Ada"
        assert Greeter("Bob").greet() == "hello Bob"
    assert [call.first.name for call in told] == ["Ada"]
    assert "greet" not in vars(Child)


def test_a_static_method_stays_one() -> None:
    told: list[WatchedCall] = []
    before = vars(Greeter)["shout"]
    with watched(Greeter, "shout", told):
        assert Greeter("Ada").shout("hi") == Greeter.shout("hi") == "HI"
    assert [call.args for call in told] == [("hi",), ("hi",)]
    assert vars(Greeter)["shout"] is before


def test_one_function_in_two_places_is_one_thing_in_both() -> None:
    face = types.SimpleNamespace(greet=greet)
    told: list[WatchedCall] = []
    with lifted(place([(HERE, "greet"), (face, "greet")], Watch(after=told.append))):
        assert face.greet is HERE.greet
        face.greet("hi")
        assert len(told) == 1
    assert face.greet is HERE.greet is original_of(greet)


FUNCTIONS = {
    "a function": (HERE, "greet"),
    "a method": (threading.Thread, "start"),
    "a bound method": (random, "shuffle"),
    "a method of a C object": (random, "random"),
    "a C function": (os, "putenv"),
    "a method of a C class": (torch._C.Generator, "manual_seed"),
}

#: They take their object along, which is another one then.
COPIED = ("a bound method", "a method of a C object")


def by_identity(owner: Any, name: str) -> dict[str, Any]:
    """What a program may ask of a function."""
    function = getattr(owner, name)
    asked: dict[str, Callable[[], Any]] = {
        "kind": lambda: type(original_of(function)),
        "isinstance": lambda: isinstance(function, type(original_of(function))),
        "names": lambda: [function.__name__, function.__qualname__, function.__doc__],
        "module": lambda: getattr(function, "__module__", None),
        "repr": lambda: [repr(function), hash(function)],
        "inspect": lambda: [inspect.isfunction(function), inspect.isroutine(function)],
        "copied": lambda: copy.copy(function) == function,
        "signature": lambda: str(inspect.signature(function)),
        "file": lambda: inspect.getfile(function),
    }
    answers: dict[str, Any] = {}
    for question, answer in asked.items():
        with contextlib.suppress(AttributeError, ValueError, TypeError):
            answers[question] = answer()
    return answers


@pytest.mark.parametrize("which", FUNCTIONS)
def test_it_shows_itself_as_the_function_and_is_found_by_it(which: str) -> None:
    owner, name = FUNCTIONS[which]
    plain, before, pickled = getattr(owner, name), by_identity(owner, name), pickle.dumps(getattr(owner, name))
    with watched(owner, name, []):
        placed = getattr(owner, name)
        assert placed is not plain
        assert by_identity(owner, name) == before
        assert {plain: "found"}[placed] == {placed: "found"}[plain] == "found"
        assert placed == plain
        assert plain == placed
        assert placed in [plain]
        assert placed != print
        if which != "a C function":  # which names another module than the one that holds it
            assert pickle.dumps(placed) == pickled
        if which not in COPIED:
            assert pickle.loads(pickle.dumps(placed)) == plain
    assert getattr(owner, name) is plain
    if which not in COPIED:
        assert pickle.loads(pickle.dumps(placed)) == plain, "who kept it can still pickle it"


def test_a_method_that_is_told_of_when_it_is_asked_for_is_the_method_itself() -> None:
    asked: list[Any] = []
    plain, tensor = torch.Tensor.numpy, torch.ones(2)
    with lifted(place([(torch.Tensor, "numpy")], Watch(asked=asked.append))):
        assert torch.Tensor.numpy is plain
        assert asked == [None]
        assert type(tensor.numpy) is types.BuiltinMethodType
        assert asked[1] is tensor
    assert "numpy" not in vars(torch.Tensor)


def test_listeners_share_what_is_replaced() -> None:
    told: list[tuple[str, str]] = []
    watchers: Watchers[str] = Watchers(
        lambda: [
            WatchedFunction(
                [(HERE, "greet"), (None, "missing")], after=lambda who, call: told.append((who, call.result))
            ),
            WatchedFunction([(HERE, "not_there")], before=lambda who, call: told.append((who, "never"))),
        ]
    )
    watchers.add("one")
    watchers.add("two")
    HERE.greet("hi")
    watchers.discard("one")
    HERE.greet("ho")
    watchers.discard("two")
    HERE.greet("he")
    assert told == [("one", "hi"), ("two", "hi"), ("two", "ho")]
    assert held_by(HERE, "greet") is HERE.greet


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork")
def test_in_a_forked_child_nobody_is_told() -> None:
    told: list[WatchedCall] = []
    with watched(HERE, "greet", told):
        HERE.greet("hi")
        child = os.fork()
        HERE.greet("hi")
        if not child:
            os._exit(len(told))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    assert len(told) == 2


def test_what_an_object_holds_is_what_python_finds_without_asking_it() -> None:
    class Plain:
        held = staticmethod(len)

    class Answers:
        """Would give something else to whoever asks it."""

        def __getattribute__(self, name: str) -> Any:
            raise AssertionError(name)

    class Property:
        held = property(lambda self: pytest.fail("asked"))

    class Child(Plain):
        pass

    class Slots:
        __slots__ = ("held",)

    owners: list[Any] = [kind() for kind in (Plain, Answers, Property, Child, Slots)]
    for owner in owners[:-1]:
        object.__getattribute__(owner, "__dict__")["held"] = abs
    owners += [Plain(), Answers(), *(type(owner) for owner in owners)]
    for owner in owners:
        found = inspect.getattr_static(owner, "held", None)
        assert held_by(owner, "held") is (found.__func__ if isinstance(found, staticmethod) else found), owner


def test_dynamo_loads_its_rules_while_functions_with_defaults_are_replaced() -> None:
    """Two of them that it treats in two ways were one object to it, with two rules: an ``AssertionError``."""
    import torch.autograd
    from torch._dynamo import trace_rules

    rules = trace_rules.get_torch_obj_rule_map()
    names = ("backward", "grad")
    with lifted(place([(torch.autograd, name) for name in names], Watch())):
        found = trace_rules.get_torch_obj_rule_map.__wrapped__()
        replaced = [getattr(torch.autograd, name) for name in names]
        assert all(type(one) is not type(original_of(one)) for one in replaced)
        assert [found[one] for one in replaced] == [rules[one] for one in replaced]
        assert rules[replaced[0]] is not rules[replaced[1]]
        assert [one._torchdynamo_inline for one in replaced] == [original_of(one) for one in replaced]


def read_only() -> torch.Tensor:
    array = np.zeros(2)
    array.flags.writeable = False
    return torch.from_numpy(array)


@pytest.mark.parametrize(
    ("warns", "text"),
    [
        pytest.param(read_only, "torch.from_numpy(array)", id="C code, of its caller"),
        pytest.param(lambda: torch.tensor(torch.ones(2)), "torch.tensor(torch.ones(2))", id="C code, of a lambda"),
        pytest.param(
            lambda: torch.optim.lr_scheduler.StepLR(torch.optim.SGD([torch.ones(1)], 1.0), 1).step(),
            "torch.optim.lr_scheduler",
            id="a library that replaces functions too",
        ),
    ],
)
def test_a_warning_names_the_programs_line_as_it_does_unrecorded(warns: Callable[[], object], text: str) -> None:
    def told() -> list[tuple[str, str, str]]:
        torch.set_warn_always(True)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            for _ in range(2):  # the second is told apart by the place of the first
                warns()
        torch.set_warn_always(False)
        return [(str(each.message), each.filename, linecache.getline(each.filename, each.lineno)) for each in caught]

    plain = told()
    globals().pop("__warningregistry__", None)
    with DeterminismTracer(values=True):
        recorded = told()
    assert recorded == plain
    assert text in plain[0][2]


def test_an_error_of_c_code_has_the_programs_frames_alone() -> None:
    with watched(torch, "tensor", []), pytest.raises(TypeError) as caught:
        torch.tensor([1, "a"])
    running.trim(caught.value)
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert [frame.line for frame in frames] == ['torch.tensor([1, "a"])']


def step() -> None:
    """Forward and backward of a look-up, which adds at indices backwards."""
    torch.randn(4, 3, requires_grad=True).index_select(0, torch.tensor([0, 0])).exp().sum().backward()


@pytest.mark.parametrize(("goes_on", "times"), [(False, 1), (False, 3), (True, 1)])
def test_settings_that_are_put_back_are_a_change_where_calls_go_on(goes_on: bool, times: int) -> None:
    with DeterminismTracer() as recording:
        for _ in range(times):
            with tracer.reproducible(0):
                step()
        if goes_on:
            step()
    rules = {finding.rule for finding in judge(recording.trace, backend="cuda").findings}
    assert ("environment-mode-changed" in rules) is goes_on


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


@pytest.mark.parametrize("options", [pytest.param((), marks=pytest.mark.slow), ("--values",)], ids=["plain", "values"])
def test_a_recorded_script_finds_the_standard_library_as_it_was(tmp_path: Path, options: tuple[str, ...]) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    plain = process("script.py", "plain.json", cwd=tmp_path)
    assert plain.code == 0, plain.err
    recorded = tracer_process("run", *options, "-o", "trace.json", "script.py", "recorded.json", cwd=tmp_path)
    assert recorded.code == 0, recorded.err
    before, now = (json.loads((tmp_path / name).read_text()) for name in ("plain.json", "recorded.json"))
    assert {"time.time", "os.listdir", "os.urandom", "queue.Queue.get", "socket.socket.accept"} <= now.keys()
    assert {path for path, found in now.items() if before.get(path, found) != found} == SEEDS | STARTS_AND_ENDS
    assert now["hooks"] == str([None] * 4)
