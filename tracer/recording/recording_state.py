"""What one recording knows of itself as it runs: its phase, its counts, and whether anything asks for a gradient."""

from __future__ import annotations

import os
import weakref
from _thread import get_ident
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import torch

from tracer.names import Gradients, Phase
from tracer.recording.mode import RecordingMode
from tracer.recording.options import RecordOptions
from tracer.recording.origin.attribution import Attribution
from tracer.recording.process import environment as process
from tracer.recording.process_watch import ProcessWatch
from tracer.recording.torch_private import seams
from tracer.trace.records import CallGroup, Environment, TraceSource

if TYPE_CHECKING:  # loaded where it is asked for
    from tracer.trace.values import Header

#: The algorithms behind the digests: on the host, and on devices.
DIGEST = "xxh3-64-by-content mix-64"
_FORWARD = (Phase.FORWARD, Phase.RECOMPUTE)
_TRAINING = (*_FORWARD, Phase.BACKWARD)


class RecordingState:
    """Answers for one recording; see ``events.Calls``."""

    def __init__(
        self, options: RecordOptions, attribution: Attribution, mode: RecordingMode, watch: ProcessWatch
    ) -> None:
        self.mode, self.watch = mode, watch
        self.gradients = GradientWatch()
        self._options = options
        self._modules = attribution.modules
        self._optimizer = attribution.optimizer
        self.place_in_values: Callable[[], int | None] = lambda: None
        """Returns the number of calls in the file of values; ``None`` if none is written."""
        self.first_values: dict[str, str] = {}
        """The values with which this recording began, of settings that changed since."""
        self._at_end: dict[str, str] = {}
        """The values of settings as the recording ended last."""
        self._step_began_at = 0
        """The lowest sequence number that an autograd node of this training step can have."""

    def step_begins(self) -> None:
        """A new training step begins."""
        self._step_began_at = seams.next_sequence_number()

    def phase(self) -> Phase:
        """The phase that this thread is in; ``other`` on threads that are not recorded."""
        if seams.graph_task_id() != -1:
            return Phase.RECOMPUTE if self._modules.recompute_depth else Phase.BACKWARD
        if get_ident() != self._modules.thread:
            return Phase.OTHER
        if self._optimizer.active:
            return Phase.OPTIMIZER
        return Phase.FORWARD if self._modules.scope.is_module else Phase.OTHER

    def counted(self) -> tuple[int, int, int]:
        """Calls recorded so far: forward (and recomputed), backward, all."""
        forward = backward = total = 0
        for info in tuple(self.mode.infos.values()):
            for counter in info.every_counter():
                total += counter.count
                if counter.origin.phase in _FORWARD:
                    forward += counter.count
                elif counter.origin.phase is Phase.BACKWARD:
                    backward += counter.count
        return forward, backward, total

    def setting_changed(self, name: str, before: str, value: str) -> None:
        """The setting ``name`` took another value: calls from here on are counted apart."""
        if name in process.HAVE_VALUES:
            self.first_values.setdefault(name, before)
            self.mode.setting_changed(name, value)

    def start(self) -> None:
        """The recording begins, or goes on under settings that may have changed."""
        self.watch.log.recording_began(self)
        now = process.values_now() if self._at_end else {}
        for name, value in now.items():
            if value != self._at_end[name]:
                self.setting_changed(name, self._at_end[name], value)

    def stop(self) -> None:
        """The recording ends: settings that change from here on are looked at when it goes on."""
        self._at_end = process.values_now()
        self.watch.log.recording_ended()

    def step_has_forward(self) -> bool:
        """Return whether autograd made a node in this step; ``True`` if torch does not number nodes."""
        return not seams.HAS_FORWARD_LINK or seams.next_sequence_number() != self._step_began_at

    def settled(self, environment: Environment) -> Environment:
        """``environment`` with the settings that the calls ran under.

        A block such as ``with torch.backends.cudnn.flags(...)`` restores a value that no call ran under. Calls of
        forward and backward count, or all if there are none. A setting with calls under several values is left out.
        """
        trained, every = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
        counters = (counter for info in tuple(self.mode.infos.values()) for counter in info.every_counter())
        for counter in counters if self.first_values else ():
            for name, value in {**self.first_values, **dict(counter.settings)}.items() if counter.count else ():
                every[name].add(value)
                if counter.origin.phase in _TRAINING:
                    trained[name].add(value)
        ran = {name: trained[name] or values for name, values in every.items()}
        self.watch.log.settings_of_calls = {name: min(values) for name, values in ran.items() if len(values) == 1}
        return process.under(self.watch.with_inductor(environment), self.watch.log.settings_of_calls)

    def header(self, environment: Environment) -> Header:
        """The header of a file of values."""
        from tracer import __version__
        from tracer.trace.values import Header

        options, places = self._options, self._options.places
        rank, world_size = rank_and_world_size()
        return Header(
            tracer_version=__version__,
            name=options.name,
            rank=rank,
            world_size=world_size,
            digest=DIGEST,
            environment=self.settled(environment),
            digests=bool(options.values),
            magnitudes=bool(options.magnitudes),
            shaken=places.shake,
            shaken_in=places.shake_in,
            rows_of="" if places.is_whole else places.rows_of,
            rows_in=places.rows_in,
        )

    def source(self, calls: Iterable[CallGroup], partial: str) -> TraceSource:
        """What a trace of ``calls`` says of the recording."""
        rank, world_size = rank_and_world_size()
        optimizer, options, gradients = self._optimizer, self._options, self.gradients.asked
        by_hand = optimizer.steps_by_hand
        return TraceSource(
            name=options.name,
            rank=rank,
            world_size=world_size,
            optimizer_steps=optimizer.steps - by_hand or optimizer.compiled_steps,
            steps_by_hand=by_hand if gradients is Gradients.ASKED else 0,
            gradients=gradients,
            calls=sum(group.count for group in calls),
            fake_calls=self.mode.fake_calls,
            values=bool(options.values),
            magnitudes=bool(options.magnitudes),
            shaken=options.places.shake,
            partial=partial,
        )


class GradientWatch:
    """Whether anything asks for a gradient, by autograd's sequence numbers at the edges of outermost modules.

    A number that advanced means a node: autograd recorded a graph. Inside a module in training mode whose parameters
    can be trained, that is a training's forward pass; inside one in evaluation mode, an evaluation that left gradients
    on. Outside modules, a graph counts where no module made one before: a head of the program's own on a model that is
    frozen. What comes before the first module's call prepares the model (adapters that are merged), unless no module is
    called at all.
    """

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


def rank_and_world_size() -> tuple[int | None, int | None]:
    """Those of this process's environment variables."""
    rank, world_size = (os.environ.get(name, "") for name in ("RANK", "WORLD_SIZE"))
    return int(rank) if rank.isdigit() else None, int(world_size) if world_size.isdigit() else None
