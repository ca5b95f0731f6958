"""What is taken out of a traceback, and what is not."""

from __future__ import annotations

import builtins
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

import tracer
from tracer.runner.running import trim

OURS = str(Path(tracer.__file__).parent / "recording" / "invented.py")
BUNDLED = str(Path(tracer.__file__).parent / "bundled" / "invented.py")


def call_through(*files: str, last: Callable[[], object]) -> BaseException:
    """The error of ``last``, called through one frame in each of ``files``."""
    function = last
    for file in reversed(files):
        space: dict[str, object] = {"inner": function}
        exec(compile("def outer():\n    return inner()\n", file, "exec"), space)
        function = space["outer"]  # type: ignore[assignment]
    try:
        function()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def fail() -> None:
    raise ValueError("the user's")


def files(error: BaseException) -> list[str]:
    return [Path(frame.filename).name for frame in traceback.extract_tb(error.__traceback__)]


def test_frames_of_ours_go_and_those_of_the_bundled_example_stay() -> None:
    error = call_through("user.py", OURS, "other.py", BUNDLED, last=fail)
    trim(error)
    assert files(error) == ["test_tracebacks.py", "user.py", "other.py", "invented.py", "test_tracebacks.py"]


def test_the_frame_in_which_torch_calls_the_op_for_us_goes_too() -> None:
    error = call_through("user.py", OURS, "/x/torch/_ops.py", "deep.py", last=fail)
    trim(error)
    assert files(error) == ["test_tracebacks.py", "user.py", "deep.py", "test_tracebacks.py"]


def test_an_error_of_our_own_keeps_every_frame() -> None:
    space: dict[str, Callable[[], object]] = {}
    exec(compile("def broken():\n    raise KeyError('ours')\n", OURS, "exec"), space)
    error = call_through("user.py", OURS, last=space["broken"])
    trim(error)
    assert files(error) == ["test_tracebacks.py", "user.py", "invented.py", "invented.py"]


def test_causes_and_contexts_are_trimmed_and_cycles_end() -> None:
    first = call_through("user.py", OURS, last=fail)
    second = call_through("user.py", last=fail)
    second.__cause__ = first
    first.__context__ = second
    trim(second)
    assert "invented.py" not in files(first)


def test_members_of_a_group_are_trimmed() -> None:
    group_type = getattr(builtins, "ExceptionGroup", None)
    if group_type is None:
        pytest.skip("ExceptionGroup came with Python 3.11")
    member = call_through("user.py", OURS, last=fail)
    trim(group_type("several", [member]))
    assert "invented.py" not in files(member)
