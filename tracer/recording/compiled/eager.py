"""Compilation switched off for a recording (``tracer run --eager``): what ``torch.compile`` would compile runs eagerly.

A dispatch mode sees the ops of eager code, each at its line; compiled code hands it kernels.
"""

from __future__ import annotations

import torch

from tracer.recording.torch_private import setting_seams

_switched_off = False


def switch_compilation_off() -> None:
    """Have compiled functions run as they were written from now on; to be called when Dynamo has been loaded.

    Their wrappers stay what they are (parameters keep their names), and no variable is set that children inherit.
    """
    global _switched_off
    _switched_off = True
    if hasattr(torch.compiler, "set_stance"):  # from torch 2.6 on
        torch.compiler.set_stance("force_eager")
    else:
        setting_seams.disable_dynamo()


def is_compilation_off() -> bool:
    """Does compiled code run eagerly because ``switch_compilation_off`` was called? The script may have undone it."""
    return _switched_off and setting_seams.forces_eager()
