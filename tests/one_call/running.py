"""Running a written program in this process, as ``python FILE`` would."""

from __future__ import annotations

import contextlib
import io
import sys
from types import ModuleType
from typing import NamedTuple
from unittest import mock

import torch


class Ran(NamedTuple):
    """How a program ended."""

    code: int
    out: str
    err: str


def run_program(text: str, *args: str, file: str = "repro.py") -> Ran:
    """Run ``text`` as a program; threads and modes are put back."""
    module = ModuleType("program")
    module.__file__ = file
    out, err = io.StringIO(), io.StringIO()
    threads = torch.get_num_threads()
    try:
        with mock.patch.object(sys, "argv", [file, *args]):
            exec(compile(text, file, "exec"), module.__dict__)
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                try:
                    module.main()
                    code = 0
                except SystemExit as leaving:
                    code = int(leaving.code or 0)
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(False)
    return Ran(code, out.getvalue(), err.getvalue())
