"""Qualified names of functions, read in a file's text."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tracer.recording.origin.sites import qualified

TEXT = """\
class Net:
    def forward(self, x):
        twice = lambda y: y * 2
        def inner(z):
            return z
        return twice(inner(x))
total = sum(range(3))
"""


@pytest.mark.skipif(sys.version_info < (3, 11), reason="before 3.11, code does not know its qualified name")
@pytest.mark.parametrize(
    ("line", "plain", "name"),
    [
        (6, "forward", "Net.forward"),
        (3, "<lambda>", "Net.forward.<locals>.<lambda>"),
        (5, "inner", "Net.forward.<locals>.inner"),
        (7, "<module>", "<module>"),
        (5, "forward", "forward"),  # another line than it has: the file is not the one that ran
    ],
)
def test_a_function_is_called_as_its_code_object_would_be(tmp_path: Path, line: int, plain: str, name: str) -> None:
    path = tmp_path / "net.py"
    path.write_text(TEXT, encoding="utf-8")
    assert qualified(str(path), line, plain) == name


def test_a_file_that_is_not_there_or_cannot_be_read_leaves_the_plain_name(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text("def f(:", encoding="utf-8")
    for one in (path, tmp_path / "missing.py"):
        assert qualified(str(one), 1, "f") == "f"
