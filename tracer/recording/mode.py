"""The dispatch mode: sees every op, groups it, and makes the very call it was handed.

The path of an ordinary call is one dictionary look-up for what the overload needs, a walk over torch's own frames,
one look-up for the group and a counter. What is rare (tensor subclasses, higher-order ops, factories, active
``TorchFunctionMode``) takes a longer path of the same shape.
"""

from __future__ import annotations

import sys
from _thread import get_ident
from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import Any

import torch
from torch.autograd.function import BackwardCFunction
from torch.utils._python_dispatch import TorchDispatchMode

from tracer.facts import Args, Kwargs
from tracer.names import Phase
from tracer.recording import calls as facts
from tracer.recording.calls import are_plain, named_arguments
from tracer.recording.calls.groups import ON_HOST, CallCounter, OverloadInfo, with_bodies_seen
from tracer.recording.memory_observers import StorageObservers
from tracer.recording.observers import Caller, Observer, Wanted, wanted_by
from tracer.recording.origin import LIBRARY, USER, WRAPPER
from tracer.recording.origin.attribution import Attribution
from tracer.recording.origin.modules import IMPORTING, OUTSIDE, ModuleSettings
from tracer.recording.torch_private import seams

_getframe: Any = sys._getframe
_get_ident = get_ident
_Tensor = torch.Tensor
_is_grad_enabled = torch.is_grad_enabled
_ENGINE = seams.ENGINE_CODE
_MODULE_CALL = seams.MODULE_CALL_NAME
_current_node = seams.current_node
_next_number = seams.next_sequence_number
_function_modes = seams.function_mode_count
_FORWARD, _BACKWARD, _OTHER = Phase.FORWARD, Phase.BACKWARD, Phase.OTHER


class RecordingMode(TorchDispatchMode):
    """Counts calls into ``infos``; where each came from is ``attribution``'s to say."""

    supports_higher_order_operators = True
    _is_the_recorders = True

    def __init__(
        self, attribution: Attribution, asked: Mapping[str, frozenset[str]], storages: StorageObservers
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.observers: tuple[Observer, ...] = storages.all
        """The observers, in the order in which they are called. Set before the first call."""
        self.infos: dict[int, OverloadInfo] = {}
        """By ``id`` of the overload, which its info keeps alive: an overload's own hash is a Python function."""
        self.settings: ModuleSettings = ()
        """The values of settings that have changed while recording."""
        self.attribution = attribution
        self._storages = storages
        self._asked = asked
        self._modules = attribution.modules
        self._optimizer = attribution.optimizer
        self._links = attribution.links
        self._kinds = attribution.sites.kinds
        self.lies_on_device = False
        """Whether a fake tensor would lie on a device that is the CPU here. Then others lie on the host."""
        self.fake_calls = 0
        """Calls on fake tensors, counted like any other, though nothing was computed."""
        self._handed_over: CallCounter | None = None
        """A call left to a tensor subclass, until its first inner call is seen."""
        self._handed_over_at: tuple[int, int] = (0, 0)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # No wrapper around __torch_dispatch__: see seams.skip_code.
        return False

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        # Compiled code stays compiled while recording; what runs inside it is reported as a blind spot.
        return True

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        info = self.infos.get(id(func))
        if info is None:
            info = self.infos[id(func)] = OverloadInfo(func, self._asked, self._storages.indices)
            self.ask_again(info)
        try:
            frame = _getframe(1)
        except ValueError:  # one of the engine's own threads: no Python code called
            frame = None
        if info.rare or types or self._handed_over is not None or _function_modes():
            return self._rare(info, func, types, args, kwargs or {}, frame)
        tensor = args[0]
        if info.is_listed:
            tensor = tensor[0] if tensor else None
        if type(tensor) is not _Tensor and not isinstance(tensor, _Tensor):
            # A number where the schema says tensor, an empty list.
            return self._rare(info, func, types, args, kwargs or {}, frame)
        asked = None
        if info.readers:
            plain = info.plain
            asked = plain if plain is not None and are_plain(args) else info.read(args, kwargs)
        node = _current_node()
        if node is not None:
            counter = self._backward(info, tensor, asked, node, frame)
        elif self._optimizer.active:
            counter = self._in_optimizer(info, tensor, asked, frame)
        else:
            counter = self._forward(info, tensor, asked, frame)
        if counter.given is None:
            counter.given = named_arguments(func, args, kwargs, counter.raw[1].type)
        begun: list[Any] | None = None
        for before, after, interest, _ in info.observers:
            if interest:
                if begun is None:
                    begun, kwargs = [], kwargs or {}
                begun.append((after, None if before is None else before(info, counter, asked, args, kwargs)))
        result = info.call(*args, **kwargs) if kwargs else info.call(*args)
        if begun is not None:
            for after, token in begun:
                after(token, info, counter, args, kwargs, result, frame)
        return result

    def _forward(self, info: OverloadInfo, tensor: Any, asked: Any, frame: Caller) -> CallCounter:
        """Count a call that neither the engine nor an optimizer made.

        The walk ends at the first frame outside torch, or at the running module's own call: what lies behind that
        is the same for every call inside it, and was found by the first.
        """
        if frame is None:  # a thread of torch's own pool: no Python code called
            return self._record(info, self._raw(tensor), asked, None, tensor)
        modules = self._modules
        entry, scope = modules.entry, modules.scope
        caller: Caller = frame
        kinds = self._kinds
        site: Any = None
        while frame is not None:
            code = frame.f_code
            filename = code.co_filename
            kind = kinds.get(filename)
            if kind is None:
                kind = self.attribution.sites.kind_of(filename)
            if kind > 0 and code.co_name != WRAPPER:
                own = self.attribution.sites.users_own(frame) if kind == LIBRARY and scope.kind == USER else None
                site = (filename, code.co_firstlineno, frame.f_lasti, own, code)
                break
            if kind < 0 and entry is not None and code.co_name == _MODULE_CALL:
                if entry.site is not None:
                    site = entry.site
                    break
                entry = entry.outer
            frame = frame.f_back
        passed = modules.entry
        while passed is not entry:
            passed.site = site  # type: ignore[union-attr]
            passed = passed.outer  # type: ignore[union-attr]
        links = self._links
        number = _next_number()
        phase = _FORWARD if scope.is_module or number != links.last else _OTHER
        if site is not None:
            filename, first, instruction, own, code = site
            # fmt: off
            key: Any = (
                scope, phase, filename, first, instruction, own, asked,
                tensor.dtype, tensor.is_cpu or tensor.device, tensor.layout, tensor.ndim,
            )
            # fmt: on
        else:
            key = (scope, phase, asked, tensor.dtype, tensor.is_cpu or tensor.device, tensor.layout, tensor.ndim)
        counter = info.counters.get(key)
        if counter is None:
            if scope.is_module and modules.forget_if_left(caller):
                return self._forward(info, tensor, asked, caller)
            place = None if site is None else self.attribution.sites.resolve(code, instruction)
            origin = self.attribution.forward_origin(phase, scope, place, frame)
            counter = info.counters[key] = CallCounter(origin, self._raw(tensor), asked, settings=self.settings)
        counter.count += 1
        if number != links.last:
            if number - links.last == 1 and not info.mutates and _is_grad_enabled():
                links.current[links.last] = counter.origin
                links.last = number
                if number >= links.turn_at:
                    links.turn()
            else:
                self.attribution.link(links, number, counter.origin, frame, info.mutates and tensor._is_view())
        elif info.mutates and tensor._is_view():
            self.attribution.link(links, number, counter.origin, frame, True)
        return counter

    def _backward(self, info: OverloadInfo, tensor: Any, asked: Any, node: Any, frame: Caller) -> CallCounter:
        """Count a call that the engine made: a C++ node's at once, everything else the longer way."""
        links = self._links
        forward = None
        if frame is not None and frame.f_code is _ENGINE and _get_ident() == self._modules.thread:
            forward = links.current.get(node._sequence_nr())
        if forward is None or not forward.certain:
            return self._record(info, self._raw(tensor), asked, frame, tensor)
        origin = forward.its_backward or forward.backward()
        key = (origin, type(node), asked, tensor.dtype, tensor.is_cpu or tensor.device, tensor.layout, tensor.ndim)
        counter = info.counters.get(key)
        if counter is None:
            if isinstance(node, BackwardCFunction):  # a class that must not be kept
                return self._record(info, self._raw(tensor), asked, frame, tensor)
            name = self.attribution.node_name(node)
            counter = info.counters[key] = CallCounter(origin, self._raw(tensor), asked, name, settings=self.settings)
        counter.count += 1
        number = _next_number()
        if number != links.last:
            self.attribution.link(links, number, origin, frame, info.mutates and tensor._is_view())
        return counter

    def _in_optimizer(self, info: OverloadInfo, tensor: Any, asked: Any, frame: Caller) -> CallCounter:
        """Count a call of a running step: torch's own optimizers at once, the user's the longer way."""
        optimizer, code = self._optimizer, None if frame is None else frame.f_code
        origin = optimizer.origin
        if origin is None or code is None or not (code is optimizer.own_code or optimizer.is_own_code(code)):
            return self._record(info, self._raw(tensor), asked, frame, tensor)
        key = (origin, asked, tensor.dtype, tensor.is_cpu or tensor.device, tensor.layout, tensor.ndim)
        counter = info.counters.get(key)
        if counter is None:
            counter = info.counters[key] = CallCounter(origin, self._raw(tensor), asked, settings=self.settings)
        counter.count += 1
        return counter

    def _record(
        self, info: OverloadInfo, raw: Any, asked: Any, frame: Caller, tensor: Any, extra: Any = None
    ) -> CallCounter:
        """Count one call that the engine or an optimizer made, or that took the rare path."""
        where = self.attribution
        node = _current_node()
        kind: Any = None
        if node is None:
            origin, links = where.outside_engine(frame)
        else:
            origin, links = where.inside_engine(node, frame)
            if origin.phase is _BACKWARD:
                # A custom function's class may hold tensors, or be made anew in every step: its name stands for it.
                kind = type(node).__name__ if isinstance(node, BackwardCFunction) else type(node)
        key = (origin, kind, raw, asked, extra)
        counter = info.counters.get(key)
        if counter is None:
            name = where.node_name(node) if kind is not None else ""
            counter = info.counters[key] = CallCounter(origin, raw, asked, name, extra, settings=self.settings)
        counter.count += 1
        number = _next_number()
        is_view = info.mutates and tensor is not None and tensor._is_view()
        if is_view or number != links.last:
            where.link(links, number, origin, frame, is_view)
        return counter

    def _rare(
        self, info: OverloadInfo, func: Any, types: Any, args: Args, kwargs: dict[str, Any], frame: Caller
    ) -> Any:
        wrappers = [cls for cls in types if seams.answers_for_itself(cls)]
        is_fake = len(wrappers) < len(types) and any(map(seams.is_fake, types))
        if is_fake and (func is seams.ASKS_DEVICE or seams.is_tracing(frame)):
            return func(*args, **kwargs)
        if any(map(seams.is_traced, wrappers)):
            return func(*args, **kwargs) if seams.dispatch_mode_count() else NotImplemented
        if self._handed_over is not None:
            self._notice_inner_call(self._handed_over, bool(wrappers), frame)
        with seams.without_torch_function():
            tensor = info.primary(args, kwargs)
            raw = None if tensor is None else self._raw(tensor)
            asked = info.read(args, kwargs) if info.readers else None
        if isinstance(func, seams.HigherOrderOperator):
            counter = self._record(info, raw, asked, frame, None, ("body_recorded", False))
            self._storages.opaque(info, args, kwargs)
            return with_bodies_seen(self, counter, func, args, kwargs)
        if wrappers:
            extra = ("subclass", wrappers[0].__qualname__)
            counter = self._record(info, raw, asked, frame, None, extra)
            if seams.dispatch_mode_count() == seams.answers_reads():
                # The subclass handles the call with this mode active, so its inner calls are seen.
                self._handed_over = counter
                self._handed_over_at = (id(frame), frame.f_lasti if frame else 0)
                return NotImplemented
            self._storages.give_up_all()
            return func(*args, **kwargs)
        self.fake_calls += is_fake
        has_own_kernel = info.has_kernel_of_a_layout and any(
            each.is_nested or each.is_quantized or each.layout is not torch.strided for each in facts.tensors(args)
        )
        if info.is_composite and not has_own_kernel:
            return self._composite(info, func, raw, asked, args, kwargs, frame)
        if tensor is None and info.makes_tensors:
            return self._observed(info.observers, func, info, None, asked, args, kwargs, frame)
        devices = seams.claimed_devices(map(itemgetter(0), info.access.tensors(args, kwargs))) if is_fake else ()
        self.lies_on_device = self.lies_on_device or "cuda" in devices
        counter = self._record(info, raw, asked, frame, tensor, ON_HOST if devices == {"cpu"} else None)
        counter.is_fake = is_fake
        observers: Iterable[Wanted] = info.observers
        if is_fake:  # nothing is computed: observers of storages see the call, those that read data do not
            for observer in self.observers:
                if observer.reads_data:
                    observer.not_computed(info, counter)
            observers = [observer for observer in observers if not observer.reads_data]
            calls_kernel = seams.is_made_of_ops(func) and seams.dispatch_mode_count() == seams.answers_reads()
        else:
            calls_kernel = seams.dispatch_mode_count() == 0
        call = func
        if info.lacks_autograd and tensor is not None and calls_kernel:
            key = seams.kernel_of(func, tensor)
            takes_gradient = _is_grad_enabled() and any(
                each.requires_grad for each in facts.tensors((*args, *kwargs.values()))
            )
            if key is not None and (info.mutates or takes_gradient):
                self._storages.opaque(info, args, kwargs)

                def call(*args: Any, **kwargs: Any) -> Any:
                    with self:
                        return seams.call_kernel(func, key, args, kwargs)

        return self._observed(observers, call, info, counter, asked, args, kwargs, frame)

    def _observed(
        self,
        wanted: Iterable[Wanted],
        call: Any,
        info: OverloadInfo,
        counter: CallCounter | None,
        asked: Any,
        args: Args,
        kwargs: Kwargs,
        frame: Caller,
    ) -> Any:
        """Make a call on the longer path, where a ``__torch_function__`` may be active: observers are spared it.

        Without tensors among the arguments there is no ``counter`` yet: the group depends on the result.
        """
        with seams.without_torch_function():
            if counter is not None:
                self._keep_arguments(info, counter, args, kwargs)
            begun = [
                (after, None if before is None else before(info, counter, asked, args, kwargs))
                for before, after, interest, _ in wanted
                if interest
            ]
        result = call(*args, **kwargs)
        if counter is None:
            tensor = facts.first_tensor((result,))
            is_fake = tensor is not None and seams.is_fake(type(tensor))
            if is_fake and seams.is_tracing(frame):
                return result
            counter = self._record_made(info, tensor, asked, args, kwargs, frame)
            counter.is_fake = is_fake
            self.fake_calls += is_fake
        with seams.without_torch_function():
            for after, token in begun:
                after(token, info, counter, args, kwargs, result, frame)
        return result

    def _record_made(
        self, info: OverloadInfo, tensor: Any, asked: Any, args: Args, kwargs: Kwargs, frame: Caller
    ) -> CallCounter:
        """Count a call without tensor arguments, which made ``tensor``."""
        with seams.without_torch_function():
            raw = None if tensor is None else self._raw(tensor)
        scope = self._modules.scope
        if tensor is None and info.access.is_foreign and scope is OUTSIDE and self.attribution.sites.is_import(frame):
            self._modules.scope = IMPORTING
        counter = self._record(info, raw, asked, frame, None)
        self._keep_arguments(info, counter, args, kwargs)
        self._modules.scope = scope
        return counter

    @staticmethod
    def _keep_arguments(info: OverloadInfo, counter: CallCounter, args: Args, kwargs: Kwargs) -> None:
        """Keep the arguments of a group's first call."""
        if counter.given is None:
            with seams.without_torch_function():
                device = "" if counter.raw is None else counter.raw[1].type
                counter.given = named_arguments(info.func, args, kwargs, device)

    def _composite(
        self, info: OverloadInfo, func: Any, raw: Any, asked: Any, args: Any, kwargs: Any, frame: Caller
    ) -> Any:
        """Run the only kernel of a composite op that arrived whole (inference mode), with this mode active."""
        if info.decomposes:
            counter = self._record(info, raw, asked, frame, None, ("body_recorded", True))
            self._keep_arguments(info, counter, args, kwargs)
            with self:
                return seams.call_composite(func, args, kwargs)
        counter = self._record(info, raw, asked, frame, None)
        self._storages.opaque(info, args, kwargs)
        return self._observed(info.observers, func, info, counter, asked, args, kwargs, frame)

    def _notice_inner_call(self, counter: CallCounter, has_wrappers: bool, frame: Caller) -> None:
        """Note whether this call was made by the subclass that the last one, ``counter``'s, was left to."""
        self._handed_over = None
        while frame is not None:
            if frame.f_code.co_name == "__torch_dispatch__":
                counter.inner_seen = True
                return
            if id(frame) == self._handed_over_at[0]:
                # The very instruction that made the outer call is still running.
                counter.inner_seen = not has_wrappers and frame.f_lasti == self._handed_over_at[1]
                return
            frame = frame.f_back

    @staticmethod
    def _raw(tensor: Any) -> tuple[Any, ...]:
        # Asking a subclass with a dispatch of its own for its sizes may call into that.
        ndim = None if seams.answers_for_itself(type(tensor)) else tensor.ndim
        return (tensor.dtype, tensor.device, tensor.layout, ndim)

    def setting_changed(self, name: str, value: str) -> None:
        """Count calls from here on apart: the setting ``name`` is ``value`` for them."""
        before, self.settings = self.settings, tuple(sorted({**dict(self.settings), name: value}.items()))
        self.attribution.settings = self.settings
        for info in tuple(self.infos.values()):
            info.turn(before, self.settings)

    def ask_again(self, *infos: OverloadInfo) -> None:
        """An observer wants further calls: ask of these overloads, or of all that were met."""
        for info in infos or tuple(self.infos.values()):
            info.observers = wanted_by(self.observers, info)
