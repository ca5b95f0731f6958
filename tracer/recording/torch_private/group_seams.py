"""``seams``, continued: a process group as ops are handed it. Checked on torch 2.4.1 and 2.13.0."""

from __future__ import annotations

import sys
from typing import Any

from tracer.recording.torch_private.seams import find


def size_of(group: Any) -> int | None:
    """How many ranks are in ``group``, an op's argument: the object of a script, or a name. ``None`` if unknown."""
    module = sys.modules.get("torch._C._distributed_c10d")
    read = find(module, "_resolve_process_group") if isinstance(group, str) else find(module, "ProcessGroup", "unbox")
    try:
        return None if read is None else int(read(group).size())
    except (RuntimeError, TypeError, ValueError):  # the group was destroyed, or is of another kind
        return None
