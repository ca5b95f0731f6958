"""What the tables say of a call that differed; of a compiled region, which of its kernels they suspect."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tracer.divergence.model import Place, Root, RootCause
from tracer.divergence.recordings import Recording
from tracer.findings import Finding
from tracer.names import SEVERITY, About, Verdict
from tracer.trace.records import Region
from tracer.trace.values import Group, Values

#: Verdicts under which a kernel that differs is no surprise.
_CALM = (Verdict.DETERMINISTIC, Verdict.SEEDED)
_BY_KERNEL = (RootCause.KERNEL, RootCause.SETTING)
_VARIES = (Verdict.NONDETERMINISTIC, Verdict.CONDITIONAL, Verdict.RAISES)

_Key = tuple[str, ...]


class Tables:
    """What the tables say of the first recording's calls."""

    def __init__(self, recording: Recording, findings: Sequence[Finding] | None) -> None:
        self.worst: dict[_Key, Finding] = {}
        self.judged: frozenset[_Key] = frozenset()
        self._regions: dict[str, Region] = {}
        self._seen: frozenset[str] = frozenset()
        """Regions whose ops were judged."""
        self._inside: dict[str, list[Finding]] = {}
        """By region: what was found in it, the worst first."""
        trace = recording.trace
        if trace is None:
            return
        self._regions = {region.id: region for region in trace.regions}
        if findings is None:
            return
        self.judged = frozenset(_key(call) for call in trace.calls if call.region is None)
        self._seen = frozenset(call.region for call in trace.calls if call.region is not None)
        for finding in findings:
            if finding.about is not About.CALL:
                continue
            for region in finding.regions:
                self._inside.setdefault(region, []).append(finding)
            known = self.worst.get(_key(finding))
            if known is None or _severity(finding) < _severity(known):
                self.worst[_key(finding)] = finding
        for several in self._inside.values():
            several.sort(key=_severity)

    def beside(self, root: Root, values: Values) -> Root:
        """The root with what the tables say of its call."""
        if root.region:
            return self._in_region(root) if root.cause in _BY_KERNEL else root
        rule, verdict = self._of(values.groups[int(values.group[root.call])])
        contradicts = root.cause is RootCause.KERNEL and verdict in _CALM
        return msgspec.structs.replace(root, rule=rule, verdict=verdict, contradicts=contradicts)

    def _of(self, group: Group) -> tuple[str, Verdict | None]:
        """Rule and verdict at these calls; no verdict where no table was asked about them."""
        found = self.worst.get(_key(group))
        if found is not None:
            return found.rule, found.verdict
        return "", Verdict.DETERMINISTIC if _key(group) in self.judged else None

    # --- compiled regions ---

    def _in_region(self, root: Root) -> Root:
        """With the line in it that is suspected, and its kernels that add atomically."""
        region = self._regions.get(root.region)
        inside = self._inside.get(root.region, [])
        adding = () if region is None else tuple(one.name for one in region.kernels if one.adds_in_any_order)
        varying = [finding for finding in inside if finding.verdict in _VARIES]
        suspects = [finding for finding in varying if set(finding.kernels) & set(adding)] or varying
        if suspects:
            worst = suspects[0]
            root = msgspec.structs.replace(
                root,
                module=worst.module or root.module,
                location=worst.location or root.location,
                function=worst.function or root.function,
                called_from=worst.called_from if worst.location else root.called_from,
                rule=worst.rule,
                verdict=worst.verdict,
            )
        elif not adding and root.region in self._seen:
            verdict = inside[0].verdict if inside else Verdict.DETERMINISTIC
            contradicts = root.cause is RootCause.KERNEL and verdict in _CALM
            root = msgspec.structs.replace(root, verdict=verdict, contradicts=contradicts)
        if root.reason is None:
            return root
        places = tuple(Place(op=finding.op, location=finding.location) for finding in suspects)
        reason = msgspec.structs.replace(root.reason, adding=adding, suspects=places)
        return msgspec.structs.replace(root, reason=reason)


def _key(one: object) -> _Key:
    return tuple(str(getattr(one, name)) for name in ("op", "phase", "module", "location", "called_from"))


def _severity(finding: Finding) -> int:
    return SEVERITY.index(finding.verdict)
