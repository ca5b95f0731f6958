"""Where a call came from, as one object: phase, module and site."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tracer.names import Phase
from tracer.recording.origin.modules import Scope
from tracer.recording.origin.sites import Site, placed


@dataclass(slots=True, eq=False)
class Origin:
    """Phase, module and site of calls. Interned, and compared by identity."""

    phase: Phase
    scope: Scope
    site: Site
    called_from: Site
    is_linked: bool = True
    """False for a backward call whose forward op is not known."""
    certain: bool = True
    """False when something that dispatched nothing may have made the node."""
    its_backward: Origin | None = None
    """What ``backward`` returned, once it was called."""
    _doubtful: Origin | None = None

    def backward(self) -> Origin:
        """The origin of the backward calls of an op of this origin."""
        if self.phase is Phase.BACKWARD:
            return self
        if self.its_backward is None:
            self.its_backward = Origin(Phase.BACKWARD, self.scope, self.site, self.called_from)
        return self.its_backward

    def doubtful(self) -> Origin:
        """The same place, for a node that another line may have made."""
        if self._doubtful is None:
            self._doubtful = Origin(self.phase, self.scope, self.site, self.called_from, certain=False)
            self._doubtful.its_backward = self.backward()
        return self._doubtful

    def in_words(self) -> dict[str, Any]:
        """``phase``, ``module``, ``location``, ``function``, ``called_from``, as a trace and its values spell them."""
        return {
            "phase": self.phase,
            "module": self.scope.path,
            **placed(self.site, self.called_from),
        }
