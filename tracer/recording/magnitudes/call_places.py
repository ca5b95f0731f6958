"""Magnitudes of the single calls inside one module: where in it two configurations begin to differ."""

from __future__ import annotations

from typing import Any

from tracer.facts.argument_readers import Args, Kwargs
from tracer.names import Phase, PlaceKind
from tracer.recording.calls.groups import CallCounter, OverloadInfo
from tracer.recording.magnitudes.place_recorder import PlaceRecorder
from tracer.recording.observers import Frame, Interest, Observer
from tracer.recording.values.digesting.digests import unseen
from tracer.recording.values.moments import leaves
from tracer.trace.values import PlaceName


class CallPlaces(Observer):
    """Gives every floating result of a call inside the module to ``recorder``."""

    def __init__(self, recorder: PlaceRecorder) -> None:
        self._recorder = recorder
        self._module = recorder.calls_of

    def wants(self, info: OverloadInfo) -> Interest:
        """Every call: where it is made decides."""
        return True

    def after(
        self,
        begun: Any,
        info: OverloadInfo,
        counter: CallCounter,
        args: Args,
        kwargs: Kwargs,
        result: Any,
        frame: Frame,
    ) -> None:
        """A call returned."""
        origin = counter.origin.in_words()
        module = self._recorder.spelt(origin["module"])
        if origin["phase"] is Phase.BACKWARD or not (module == self._module or module.startswith(f"{self._module}.")):
            return
        with unseen():
            for path, tensor in leaves(result, ""):
                if getattr(tensor, "is_floating_point", bool)():
                    place = PlaceName(
                        kind=PlaceKind.CALL,
                        module=module,
                        name=f"{info.name}{path}",
                        phase=origin["phase"],
                        location=origin["location"],
                        function=origin["function"],
                        called_from=origin["called_from"],
                    )
                    self._recorder.record(place, tensor)
