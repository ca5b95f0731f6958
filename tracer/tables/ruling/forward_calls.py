"""What the forward calls of a trace say of their backward ones: looked at once a trace, whatever settings are tried."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tracer.names import Backend, Phase
from tracer.tables.translation import NO_TRANSLATIONS, RECORDED_ON, Translations
from tracer.tables.vocabulary import FORWARD_FACTS
from tracer.trace.records import CallGroup, FactValue

#: The softmax that nothing else calls.
SOFTMAX = "aten._safe_softmax"
#: Queries are scaled first, then keys are copied, for a moment with a dimension more than they have.
_SCALES, _REPEATS, _DIMENSIONS = "aten.mul.Scalar", "aten.clone.default", 4
#: Packet, module, location.
Place = tuple[str, str, str]
#: The fact of a forward call that speaks against its backward.
_SPEAKS_AGAINST = "call.direct"
_TOLD = frozenset(FORWARD_FACTS.values())
_BACKWARD = Phase.BACKWARD


class ForwardCalls:
    """The forward calls of one trace, for one backend; no setting changes what they say."""

    def __init__(self, calls: Iterable[CallGroup], translations: Translations, backend: Backend) -> None:
        by_op: dict[str, list[CallGroup]] = {}
        calls = tuple(calls)
        for group in calls:
            by_op.setdefault(group.op, []).append(group)
        packets: dict[str, list[CallGroup]] = {}
        for op, groups in by_op.items():
            packets.setdefault(op.rpartition(".")[0], []).extend(groups)
        self.told = dict(_told(packets))
        """What calls at a place say of their backward, whatever it runs as; see ``vocabulary.FORWARD_FACTS``."""
        self.told_packets = frozenset(packet for packet, _, _ in self.told)
        is_abroad = backend not in (Backend.RECORDED, Backend(RECORDED_ON))
        asked = {row.forward for row in translations.translation if is_abroad and row.forward and backend in row.to}
        self.facts = dict(_agreed({packet: packets[packet] for packet in asked & packets.keys()}))
        """Facts of the calls at a place, for translations that ask for those of a forward call."""
        shares = SOFTMAX in asked and SOFTMAX in packets
        self.sharing = _places_that_share_heads(calls) if shares else frozenset[tuple[str, str]]()
        """Places where attention's math route repeats keys for the heads of queries that share them."""


def _told(packets: Mapping[str, list[CallGroup]]) -> Iterable[tuple[Place, dict[str, FactValue]]]:
    """What forward calls say of their backward. Where calls at one place disagree, the worse holds of all."""
    for packet, groups in packets.items():
        # A gradient of a gradient runs a forward op too: nobody called that one.
        forward = [group for group in groups if group.phase is not _BACKWARD]
        if all(_TOLD.isdisjoint(group.facts) for group in forward):
            continue
        places: dict[Place, list[CallGroup]] = {}
        for group in forward:
            places.setdefault((packet, group.module, group.location), []).append(group)
        for place, there in places.items():
            said: dict[str, FactValue] = {}
            for key in FORWARD_FACTS.values():
                agree = any if key == _SPEAKS_AGAINST else all
                if agree(key in group.facts for group in there):
                    said[key] = True
            yield place, said


def _agreed(packets: Mapping[str, list[CallGroup]]) -> Iterable[tuple[Place, dict[str, FactValue]]]:
    """The facts on which the calls at a place agree: where they do not, the backward may be of either."""
    places: dict[Place, dict[str, FactValue]] = {}
    for packet, groups in packets.items():
        for group in groups:
            said = places.setdefault((packet, group.module, group.location), dict(group.facts))
            for key in [key for key, value in said.items() if group.facts.get(key) != value]:
                del said[key]
    return places.items()


def _places_that_share_heads(calls: Iterable[CallGroup]) -> frozenset[tuple[str, str]]:
    """Modules and locations where attention repeats keys by itself: a user's own repeating comes before it scales.

    The op that the user called (``enable_gqa=True``) is not dispatched, so its arguments are in no trace; what the math
    route on the CPU is made of tells of it by the copies that torch makes of the keys.
    """
    scaled, repeated, softened = set(), set(), set()
    for group in calls:
        place = (group.module, group.location)
        if group.phase is _BACKWARD:
            continue
        if group.op == _SCALES and group.facts.get("ndim") == _DIMENSIONS:
            scaled.add(place)
        elif group.op == _REPEATS and group.facts.get("ndim") == _DIMENSIONS + 1 and place in scaled:
            repeated.add(place)
        elif group.op.startswith(SOFTMAX):
            softened.add(place)
    return frozenset(repeated & softened)


#: Where nobody looked.
NO_FORWARD_CALLS = ForwardCalls((), NO_TRANSLATIONS, Backend.RECORDED)
