"""Whether anything asks for a gradient, by autograd's sequence numbers at the edges of outermost modules.

A number that advanced means a node: autograd recorded a graph. Inside a module in training mode whose parameters can be
trained, that is a training's forward pass; inside one in evaluation mode, an evaluation that left gradients on. Outside
modules, a graph counts where no module made one before: a head of the program's own on a model that is frozen. What
comes before the first module's call prepares the model (adapters that are merged), unless no module is called at all.
"""

from __future__ import annotations

import weakref

import torch

from tracer.names import Gradients
from tracer.recording.torch_private import seams


class GradientWatch:
    """Follows one recording, on its thread."""

    def __init__(self) -> None:
        self._is_asked = False
        self._has_run = False
        """Whether a module was called."""
        self._before_modules = False
        """Whether a graph was made before any module was called."""
        self._by_modules = False
        """Whether a module made a graph."""
        self._number = 0
        """The next node's number at the last edge of an outermost module."""
        self._is_running = False
        self._evaluating: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()
        """Modules that were looked through, and train nothing."""

    def start(self) -> None:
        """Begin, or go on."""
        self._number = seams.next_sequence_number()
        self._is_running = True

    def stop(self) -> None:
        """The recording ends, or pauses."""
        self._look_outside()
        self._is_running = False

    def enters(self) -> None:
        """An outermost module is called."""
        if not self._is_asked:
            self._look_outside()
            self._has_run = True

    def leaves(self, module: torch.nn.Module) -> None:
        """An outermost module has returned, or failed."""
        if self._is_asked:
            return
        number = seams.next_sequence_number()
        if number == self._number:
            return
        self._number = number
        self._by_modules = True
        self._is_asked = torch.is_grad_enabled() and self._trains(module)

    @property
    def asked(self) -> Gradients:
        """Whether anything asked for a gradient so far."""
        if not seams.HAS_FORWARD_LINK:
            return Gradients.UNKNOWN
        if self._is_running:
            self._look_outside()
        if self._is_asked or (self._before_modules and not self._has_run):
            return Gradients.ASKED
        return Gradients.EVALUATING if self._by_modules else Gradients.NONE

    def _look_outside(self) -> None:
        """Nodes that were made outside modules; behind a module's own graph they are what is computed of its output."""
        number = seams.next_sequence_number()
        if number != self._number and not self._by_modules:
            if not self._has_run:
                self._before_modules = True
            elif torch.is_grad_enabled():  # a custom function takes a number under ``no_grad`` too
                self._is_asked = True
        self._number = number

    def _trains(self, module: torch.nn.Module) -> bool:
        """Return whether a part of ``module`` in training mode has a parameter to train; losses have none."""
        if not module.training and module in self._evaluating:
            return False
        for part in module.modules():
            if part.training and any(
                parameter is not None and parameter.requires_grad for parameter in part._parameters.values()
            ):
                return True
        self._evaluating.add(module)
        return False
