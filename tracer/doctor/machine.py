"""A machine as ``tracer doctor --save`` writes it: its process's settings, versions and devices, to be compared later.

It holds what was read and no verdict: whoever compares two machines judges both by the same tables.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import msgspec

from tracer.doctor.diagnosis import Outlook
from tracer.errors import TraceError, of_another_schema, reason_of
from tracer.files import open_plain, read_text, write_whole
from tracer.plain import json_text
from tracer.tables.versions import release
from tracer.trace.records import Environment

#: Number of the file format. It has a name of its own, so that no reader takes such a file for a trace.
SCHEMA = 1
#: How such files are called.
SUFFIX = ".doctor.json"
#: Bytes of such a file: some hundred settings and versions. Anything larger is none.
MAX_BYTES = 4 * 1024 * 1024

_AGAIN = f"save it again with `tracer doctor --save NAME{SUFFIX}`"
_HEAD = re.compile(rb'\s*\{\s*"doctor"\s*:')


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """A machine's description by one of its processes; no host name, no user name."""

    doctor: int
    """Number of the file format."""
    tracer_version: str = ""
    """The release that saved it."""
    environment: Environment
    """Versions and settings; without seeds, which are a program's."""
    outlook: Outlook


class _Header(msgspec.Struct):
    doctor: int


_header_decoder = msgspec.json.Decoder(_Header)
_decoder = msgspec.json.Decoder(Machine)


def save_machine(path: str | os.PathLike[str], environment: Environment, outlook: Outlook, *, version: str) -> None:
    """Write what ``read_process`` gave to ``path``, whole or not at all; ``version`` is this release's.

    Raises ``TraceError`` if it cannot be written.
    """
    environment = msgspec.structs.replace(environment, torch_seed=None, cuda_seed=None)
    machine = Machine(doctor=SCHEMA, tracer_version=version, environment=environment, outlook=outlook)
    write_whole(path, f"{json_text(machine)}\n".encode(), error=TraceError)


def is_machine(path: str | os.PathLike[str]) -> bool:
    """Return whether ``path`` begins as such a file does, or is called so. A trace is not read for that."""
    if os.fspath(path).endswith(SUFFIX):
        return True
    try:
        with open_plain(path) as stream:
            return _HEAD.match(stream.read(64)) is not None
    except (OSError, ValueError):
        return False


def load_machine(path: str | os.PathLike[str]) -> Machine:
    """Read and check such a file. Raises ``TraceError`` in one line for anything else."""
    try:
        text = read_text(path, limit=MAX_BYTES)
    except FileNotFoundError as problem:
        hint = f"save one with `tracer doctor --save NAME{SUFFIX}`"
        raise TraceError(f"there is no file {Path(path)}", hint=hint) from problem
    except (OSError, ValueError) as problem:
        hint = "check the file and its permissions"
        raise TraceError(f"cannot read {Path(path)}: {reason_of(problem)}", hint=hint) from problem
    try:
        schema = _header_decoder.decode(text).doctor
        if schema != SCHEMA:
            raise of_another_schema(f"{path} is a doctor file", schema, SCHEMA)
        machine = _decoder.decode(text)
        if machine.outlook.has_torch:
            release(machine.environment.torch)
    except (msgspec.DecodeError, ValueError, RecursionError) as problem:
        what = f"{path} is not what `tracer doctor --save` wrote: {problem}"
        raise TraceError(what, hint=_AGAIN) from problem
    return machine
