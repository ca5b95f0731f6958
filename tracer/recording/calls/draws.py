"""Which calls draw random numbers, from which generator, and where its state came from.

Torch tags the overloads that may draw; whether a call does depends on its arguments: none is drawn at a dropout rate of
0, in evaluation, or for no elements.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from itertools import islice
from types import FrameType
from typing import Any

import torch

from tracer.facts.fact import (
    MISSING,
    ArgumentReader,
    Getter,
    argument_getter,
    dropout_reader,
    training_reader,
)
from tracer.ops import packet_of, row_of
from tracer.recording.origin.sites import outwards, spell
from tracer.recording.randomness.generators import SEEDS
from tracer.recording.randomness.host_generators import MOVED_ON, UNUSED, Drawn
from tracer.recording.torch_private import seams
from tracer.recording.torch_private.storages import claimed_device
from tracer.trace.records import ELSEWHERE, GENERATOR, ORIGIN, SEEDED_AT, FactValue

#: The key of an overload's reader of draws: one reading gives three facts.
DRAW = "rng"

_TAG = getattr(torch.Tag, "nondeterministic_seeded", None)
_LOADER_FILE = os.path.join(os.path.dirname(torch.__file__), "utils", "data", "dataloader.py")
#: The most frames of the recorder between a reader and the code that made the call.
_STEPS_TO_CALLER = 4


def may_draw(func: Any) -> bool:
    """Return whether some call of the overload ``func`` draws from a generator."""
    draws = row_of(packet_of(str(func))).draws
    return (_TAG is not None and _TAG in getattr(func, "tags", ())) if draws is None else draws


def draw_reader(func: Any) -> ArgumentReader | None:
    """A reader of the generator that a call of ``func`` draws from, if any; ``None`` if no call draws."""
    if not may_draw(func):
        return None
    generator = argument_getter(func, "generator")
    asks = dropout_reader(func, *(("p",) if generator is None else ())) or training_reader(func)
    size: Getter = argument_getter(func, "size", "n") or (lambda args, kwargs: None)

    def read(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        if asks is not None and not asks(args, kwargs):
            return MISSING
        tensor = next((value for value in args if isinstance(value, torch.Tensor)), None)
        if tensor is None:
            tensor = kwargs.get("out")
        wanted: Any = size(args, kwargs)
        if wanted is None:
            if tensor is not None and tensor.numel() == 0:
                return MISSING
        elif wanted == 0 or (type(wanted) is not int and 0 in wanted):
            return MISSING
        passed = None if generator is None else generator(args, kwargs)
        if passed is not None:
            return SEEDS.passed(passed)
        device = kwargs.get("device")
        claimed = claimed_device(tensor) if device is None and tensor is not None else None
        if claimed is not None:
            device = torch.device(claimed)
        elif device is None:
            device = tensor.device if tensor is not None else seams.default_device()
        if device.type == "meta":
            return MISSING
        drawn = SEEDS.default(device)
        if seams.graph_task_id() != -1 and _is_recomputed_anew(sys._getframe(1)):
            return drawn[0], MOVED_ON, ()
        return drawn if claimed is None else (*drawn[:2], ())  # there, and nowhere else

    return read if str(func) != "aten.random_.default" else _without_base_seeds(read)


def _without_base_seeds(read: ArgumentReader) -> ArgumentReader:
    """``DataLoader`` draws a number for its workers each time: the loader's record says what they do with it."""

    def read_but_base_seeds(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        drawn = read(args, kwargs)
        if drawn is not MISSING and args[0].ndim == 0 and _is_in_loader(sys._getframe(1)):
            return drawn[0], UNUSED, ()
        return drawn

    return read_but_base_seeds


def _is_recomputed_anew(frame: FrameType | None) -> bool:
    """Return whether a checkpoint runs its forward again from another state than the first time."""
    for walked in outwards(frame):
        if walked.f_code.co_filename == seams.CHECKPOINT_FILE:
            saved = walked.f_locals.get("preserve_rng_state")
            saved = getattr(walked.f_locals.get("ctx"), "preserve_rng_state", None) if saved is None else saved
            if saved is not None:
                return not saved
    return False


def _is_in_loader(frame: FrameType | None) -> bool:
    codes = (walked.f_code for walked in islice(outwards(frame), _STEPS_TO_CALLER))
    return next((code.co_name for code in codes if code.co_filename == _LOADER_FILE), "") == "__init__"


def draw_facts(drawn: Drawn) -> dict[str, FactValue]:
    """A reading as facts of the trace."""
    name, provenance, elsewhere = drawn
    if provenance is UNUSED:
        return {GENERATOR: name}
    facts: dict[str, FactValue] = {GENERATOR: name, ORIGIN: str(provenance.origin)}
    if provenance.site.path:
        facts[SEEDED_AT] = spell(provenance.site)
    same = provenance.origin
    for kind, there in elsewhere:  # that of every device first
        if there.origin is not same:
            facts[f"{ELSEWHERE}.{kind}" if kind else ELSEWHERE] = str(there.origin)
        same = same if kind else there.origin
    return facts
