"""What dynamo is told of the recorder's own functions, and when again."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterable
from types import CodeType

import pytest
from torch._dynamo import convert_frame

from tracer.recording.compiled import hiding
from tracer.recording.torch_private import seams

MODULE = "tracer.recording.later"


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[CodeType]:
    """The code that dynamo was told of, where all but the module ``MODULE`` is known."""
    found: list[CodeType] = []

    def skip(codes: Iterable[CodeType], *, with_callees: bool) -> None:
        found.extend(codes)

    hiding.leave_to_python()
    monkeypatch.setattr(hiding, "_told", set(hiding._told))
    monkeypatch.setattr(hiding._Loaded, "newest", hiding._Loaded.newest)
    monkeypatch.setattr(seams, "skip_code", skip)
    return found


def loaded(monkeypatch: pytest.MonkeyPatch) -> CodeType:
    """The code of the only function of a module of ours that was loaded just now."""
    module = types.ModuleType(MODULE)
    exec("def function(): return 1", vars(module))
    module.function.__module__ = MODULE
    monkeypatch.setitem(sys.modules, MODULE, module)
    code: CodeType = module.function.__code__
    return code


def test_code_that_dynamo_saw_is_told_until_a_reset_forgot_it(
    told: list[CodeType], monkeypatch: pytest.MonkeyPatch
) -> None:
    code = loaded(monkeypatch)
    monkeypatch.setattr(convert_frame, "input_codes", {code})
    for _ in range(3):
        hiding.leave_to_python()
    monkeypatch.setattr(convert_frame, "input_codes", set())
    for _ in range(3):
        hiding.leave_to_python()
    assert told == [code] * 4
