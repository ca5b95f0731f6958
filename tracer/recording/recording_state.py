"""Which phase the program is in at a moment, and what was recorded until then: what an event asks of a recording.

Nothing is kept for it while calls are recorded: their groups are counted when an event asks, which is rarely.
"""

from __future__ import annotations

from _thread import get_ident

from tracer.names import Phase
from tracer.recording.mode import RecordingMode
from tracer.recording.origin.attribution import Attribution
from tracer.recording.torch_private import seams

_FORWARD = (Phase.FORWARD, Phase.RECOMPUTE)


class RecordingState:
    """Answers for one recording; see ``events.Calls``."""

    def __init__(self, attribution: Attribution, mode: RecordingMode) -> None:
        self._modules = attribution.modules
        self._optimizer = attribution.optimizer
        self._mode = mode
        self._step_began_at = 0
        """The number that the first autograd node of this training step could bear."""

    def step_begins(self) -> None:
        """What comes now belongs to a new training step."""
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
        for info in tuple(self._mode.infos.values()):
            for counter in tuple(info.counters.values()):
                total += counter.count
                if counter.origin.phase in _FORWARD:
                    forward += counter.count
                elif counter.origin.phase is Phase.BACKWARD:
                    backward += counter.count
        return forward, backward, total

    def step_has_forward(self) -> bool:
        """Did autograd make a node in this step? Where torch does not number them, nobody knows: yes."""
        return not seams.HAS_FORWARD_LINK or seams.next_sequence_number() != self._step_began_at
