"""Attributes a call to its phase, module and line, in forward and backward."""

from __future__ import annotations

import os
import sys
from _thread import get_ident
from collections import deque
from itertools import islice, takewhile
from types import FrameType
from typing import Any

import msgspec
import torch
from torch.autograd.function import BackwardCFunction

from tracer.names import Phase
from tracer.recording.origin import LIBRARY, NOWHERE, USER, Site, Sites, outwards
from tracer.recording.origin.modules import OUTSIDE, ModuleSettings, ModuleStack, Origin, Scope
from tracer.recording.origin.optimizers import OptimizerWatch
from tracer.recording.torch_private import seams

GENERATIONS = 8
CAPACITY = 1 << 16


class ForwardLinks:
    """Sequence numbers of one thread, each with the origin of its node's calls."""

    __slots__ = ("_older", "current", "last", "turn_at")

    def __init__(self, start: int) -> None:
        self.current: dict[int, Any] = {}
        self._older: deque[dict[int, Any]] = deque(maxlen=GENERATIONS - 1)
        self.last = start
        """The number of the next node, as of the last dispatch."""
        self.turn_at = start + CAPACITY

    def find(self, number: int) -> Any | None:
        """The origin of the node with this number; ``None`` if it was not seen or is forgotten."""
        generations = (self.current, *reversed(self._older))
        return next((generation[number] for generation in generations if number in generation), None)

    def turn(self) -> None:
        if self.current:
            self._older.append(self.current)
            self.current = {}
        self.turn_at = self.last + CAPACITY


_WALK_LIMIT = 200
_MODE_FILE = os.path.join(os.path.dirname(os.path.dirname(__file__)), "mode.py")


class Attribution:
    """Joins sites, modules, the optimizer's state and forward links into one origin per call."""

    def __init__(self, sites: Sites, modules: ModuleStack, optimizer: OptimizerWatch) -> None:
        self.sites = sites
        self.modules = modules
        self.optimizer = optimizer
        optimizer.locate = self.step_origin
        self.links = ForwardLinks(0)
        self._other_links: dict[int, ForwardLinks] = {}
        self.settings: ModuleSettings = ()
        self._origins: dict[tuple[Phase, Scope, Site, Site, ModuleSettings], Origin] = {}
        self._others: dict[Any, Origin] = {}
        """Those of forked threads, gradient accumulations and nodes without a link."""
        self._backward_calls: dict[int, tuple[Site, Site]] = {}

    def start(self) -> None:
        number = seams.next_sequence_number()
        self.links.last = number
        self.links.turn_at = number + 1
        self._backward_calls.clear()

    # --- forward ---

    def forward_origin(self, phase: Phase, scope: Scope, site: Site | None, frame: FrameType | None) -> Origin:
        """The origin of a call at ``site``; ``frame`` is where the search for the user's own frame begins."""
        site, scope = self._behind_graph(site or NOWHERE, scope)
        if site.kind == USER:
            called_from = NOWHERE
        elif scope.is_module and (site.kind != LIBRARY or scope.kind != USER):
            called_from = scope.called_from
        else:  # a function of a library that the user's own module calls may be called by several of its lines
            called_from = self.sites.users_own(frame)
        return self.origin(phase, scope, site, called_from)

    def _behind_graph(self, site: Site, scope: Scope) -> tuple[Site, Scope]:
        """The program's own line, and its module, where ``site`` is one of a graph that runs as a program."""
        if site.inside is None:
            return site, scope
        return msgspec.structs.replace(site, inside=None), self.modules.within(scope, site.inside)

    def _origin_at(self, phase: Phase, scope: Scope, frame: FrameType | None) -> Origin:
        outside = self.sites.outside_torch(frame)
        return self.forward_origin(phase, scope, None if outside is None else self.sites.at(outside), outside)

    def outside_engine(self, frame: FrameType | None) -> tuple[Origin, ForwardLinks]:
        if frame is None and get_ident() != self.modules.thread:
            return self._forked_origin(), self._links_of_this_thread()
        scope = self.modules.scope
        if self.optimizer.active and self.optimizer.is_inside(frame):
            phase = Phase.OPTIMIZER
            scope = OUTSIDE
        elif scope.is_module or seams.next_sequence_number() != self.links.last:
            phase = Phase.FORWARD
        else:
            phase = Phase.OTHER
        return self._origin_at(phase, scope, frame), self.links

    def _forked_origin(self) -> Origin:
        """The origin of a call of torch's own pool of threads, at the line that the recorded thread is at. Which node
        its graph gets hangs on the branches that the thread ran before, so it says nothing of the phase."""
        scope = self.modules.scope
        phase = Phase.FORWARD if scope.is_module or torch.is_grad_enabled() else Phase.OTHER
        origin = self._origin_at(phase, scope, sys._current_frames().get(self.modules.thread))
        if origin not in self._others:
            self._others[origin] = msgspec.structs.replace(origin, is_forked=True, its_backward=None)
        return self._others[origin]

    def step_origin(self, frame: FrameType | None) -> Origin:
        """The origin of a step of one of torch's own optimizers: the line that called ``step``."""
        return self._origin_at(Phase.OPTIMIZER, OUTSIDE, frame)

    # --- backward ---

    def inside_engine(self, node: Any, frame: FrameType | None) -> tuple[Origin, ForwardLinks]:
        while frame is not None and frame.f_code.co_filename == _MODE_FILE:
            frame = frame.f_back  # another recorder's mode
        links = self.links if get_ident() == self.modules.thread else self._links_of_this_thread()
        if frame is not None and not seams.is_engine_frame(frame):
            # Python code runs inside the engine: an optimizer in a hook, a recomputation, a custom backward.
            if self.optimizer.active and self.optimizer.is_inside(frame):
                return self._origin_at(Phase.OPTIMIZER, OUTSIDE, frame), links
            if self.modules.recompute_depth or self._is_recompute(frame):
                return self._origin_at(Phase.RECOMPUTE, self.modules.scope, frame), links
            inside = takewhile(lambda walked: not seams.is_engine_frame(walked), outwards(frame))
            own = next((walked for walked in inside if self.sites.is_outside(walked.f_code)), None)
            if own is not None:  # a hook, a custom function's backward: its own line, reached from that of the forward
                evaluated = self._evaluated(node, frame, links)
                site, scope = self._behind_graph(self.sites.at(own), evaluated.scope)
                called_from = evaluated.site if evaluated.site.kind == USER else evaluated.called_from
                if self.sites.is_graph(own.f_code.co_filename) and site.kind == USER:
                    called_from = NOWHERE
                return self.origin(Phase.BACKWARD, scope, site, called_from), links
        return self._evaluated(node, frame, links), links

    def _evaluated(self, node: Any, frame: FrameType | None, links: ForwardLinks) -> Origin:
        """The origin of what the engine computes for ``node``."""
        number = node._sequence_nr()
        if number == seams.NO_NUMBER:  # a gradient accumulation
            name, path = self.modules.parameter(getattr(node, "variable", None))
            site, called_from = self._backward_call(frame)
            if (name, site) not in self._others:
                scope = Scope(path, called_from, is_module=bool(path))
                self._others[name, site] = Origin(Phase.BACKWARD, scope, site, called_from)
            accumulation: Origin = self._others[name, site]
            return accumulation
        # Numbers count per thread. One of the engine's own threads evaluates nodes of the forward thread, unless the
        # pass was started there (reentrant checkpointing), which shows by Python's frame of the engine.
        made_on = links if links is self.links or self._engine_frame(frame) is not None else self.links
        origin: Origin | None = made_on.current.get(number) or made_on.find(number)
        if origin is not None and (origin.certain or not isinstance(node, BackwardCFunction)):
            return origin.backward()
        site, called_from = self._backward_call(frame)
        if site not in self._others:
            self._others[site] = Origin(Phase.BACKWARD, OUTSIDE, site, called_from, is_linked=False)
        unlinked: Origin = self._others[site]
        return unlinked

    def node_name(self, node: Any) -> str:
        """The autograd node's name; for a gradient accumulation with its parameter's."""
        if node._sequence_nr() != seams.NO_NUMBER:
            return str(node.name())
        parameter, _ = self.modules.parameter(getattr(node, "variable", None))
        return f"AccumulateGrad: {parameter}" if parameter else "AccumulateGrad"

    # --- links ---

    def link(self, links: ForwardLinks, number: int, origin: Origin, frame: FrameType | None, is_view: bool) -> None:
        """Nodes ``links.last`` to ``number - 1`` belong to a call of ``origin``. ``is_view``: it writes into a view,
        whose base gets up to two more nodes after the dispatch."""
        table, first = links.current, links.last
        is_grad_enabled = torch.is_grad_enabled()
        # As many: an in-place op on a view, whose node was made before a copy of the view was saved for it.
        if number != first and (is_grad_enabled or not self._link_custom_functions(table, first, number, frame)):
            if not is_grad_enabled:
                origin = self._beyond_pack_hook(origin, frame)
            table[number - 1] = origin
            for earlier in range(max(first, number - 1000), number - 1):
                table.setdefault(earlier, origin.doubtful())
        if is_view and is_grad_enabled:
            table[number] = table[number + 1] = origin
        links.last = number
        if number >= links.turn_at:
            links.turn()

    def _beyond_pack_hook(self, origin: Origin, frame: FrameType | None) -> Origin:
        """A node's pack hook runs before its op is dispatched: the node belongs to the line that called the op."""
        hook = seams.pack_hook_code()
        for walked in islice(outwards(frame), _WALK_LIMIT) if hook is not None else ():
            if walked.f_code is hook:
                return self._origin_at(origin.phase, self.modules.scope, walked.f_back)
        return origin

    def _link_custom_functions(
        self, table: dict[int, Origin], first: int, number: int, frame: FrameType | None
    ) -> bool:
        """Inside ``autograd.Function.forward`` gradients are off: the new nodes are those of the ``apply`` calls."""
        last = number
        for walked in islice(outwards(frame), _WALK_LIMIT):
            if number <= first:
                break
            if walked.f_code.co_name == "apply" and walked.f_code.co_filename == seams.FUNCTION_FILE:
                number -= 1
                table[number] = self._origin_at(Phase.FORWARD, self.modules.scope, walked)
        return number < last

    def turn(self) -> None:
        for links in (self.links, *self._other_links.copy().values()):
            links.turn()

    @staticmethod
    def _engine_frame(frame: FrameType | None) -> FrameType | None:
        return next(filter(seams.is_engine_frame, outwards(frame)), None)

    def _links_of_this_thread(self) -> ForwardLinks:
        thread = get_ident()
        if thread not in self._other_links:
            self._other_links[thread] = ForwardLinks(seams.next_sequence_number())
        return self._other_links[thread]

    # --- the rest ---

    def _is_recompute(self, frame: FrameType) -> bool:
        """Return whether a checkpointed function is being recomputed; what re-entrant checkpointing does around it is
        backward work. (Modules are noticed by their hooks.)"""
        ran_other_code = False
        for walked in takewhile(lambda walked: not seams.is_engine_frame(walked), outwards(frame)):
            code = walked.f_code
            if code.co_filename != seams.CHECKPOINT_FILE:
                ran_other_code = True
            elif code.co_name == "recompute_fn" or (code.co_name == "backward" and ran_other_code):
                return True
        return False

    def origin(self, phase: Phase, scope: Scope, site: Site, called_from: Site) -> Origin:
        """The one origin of this phase, module and site, under the settings as they are now."""
        if called_from == site:
            called_from = NOWHERE
        key = (phase, scope, site, called_from, self.settings)
        if (origin := self._origins.get(key)) is None:
            origin = self._origins[key] = Origin(*key)
        return origin

    def _backward_call(self, frame: FrameType | None) -> tuple[Site, Site]:
        """The line that started the running backward pass; looked up once per pass."""
        task = seams.graph_task_id()
        if task not in self._backward_calls:
            if get_ident() != self.modules.thread:
                frame = sys._current_frames().get(self.modules.thread)
            frame = self._engine_frame(frame) or frame  # past a custom function's own backward
            site = self.sites.innermost(frame)
            called_from = NOWHERE if site.kind == USER else self.sites.users_own(frame)
            if len(self._backward_calls) >= 8:  # mostly passes that ended
                self._backward_calls.clear()
            self._backward_calls[task] = (site, called_from)
        return self._backward_calls[task]
