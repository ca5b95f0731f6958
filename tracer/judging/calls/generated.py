"""What the generated code shows of a finding's calls: the kernels to name, a sentence of them, and the evidence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tracer.findings import Evidence
from tracer.names import Backend, EvidenceKind, KernelLanguage, RegionKind, Shown
from tracer.tables.ruling.compiled import Compilation
from tracer.trace.records import CallGroup, Kernel

_CALLED = (KernelLanguage.EXTERN, KernelLanguage.FALLBACK)
#: So many kernels are named in a sentence.
_MOST = 3


class Generated(NamedTuple):
    """What a finding says of the code that was generated for its calls."""

    regions: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()
    """Those that show it, or all that the calls went into where none does."""
    says: str = ""
    """A sentence; empty where the code was not seen, or decided nothing."""
    evidence: tuple[Evidence, ...] = ()


class GeneratedCode:
    """The regions and launched kernels of one trace."""

    def __init__(self, compilation: Compilation) -> None:
        self._compilation = compilation

    def behind(self, groups: Iterable[CallGroup], shown: Shown | None, backend: Backend) -> Generated:
        """What ``groups``, which are one finding, were compiled to; ``shown`` is what decided of it.

        Kernels of another device than ``backend``'s are not named: there the op becomes others.
        """
        met = [group for group in groups if group.region is not None or group.kernels]
        if not met:
            return Generated()
        regions = tuple(dict.fromkeys(group.region for group in met if group.region is not None))
        device = backend.device
        named = [one for one in dict.fromkeys(self._kernels(met, device)) if one[1].device in ("", device)]
        showing = [(where, kernel) for where, kernel in named if _shows(kernel, shown)]
        kernels = tuple(dict.fromkeys(kernel.name for _, kernel in showing or named))
        if shown is None or not showing:
            return Generated(regions, kernels)
        evidence = (Evidence(kind=EvidenceKind.GENERATED, ref=self._ref(showing, shown)),)
        return Generated(regions, kernels, _sentence(kernels, shown), evidence)

    def _kernels(self, groups: Iterable[CallGroup], device: str) -> Iterator[tuple[str, Kernel]]:
        """The id of the region that it was generated for, empty for one that was launched by itself, and the kernel."""
        for group in groups:
            region = self._compilation.regions.get(group.region or "")
            if region is None or region.kind is RegionKind.CUDA_GRAPH:
                launched = (self._compilation.launched.get(name) for name in group.kernels)
                yield from (("", kernel.launched_on(device)) for kernel in launched if kernel is not None)
                continue
            known = {one.name: one for one in region.kernels}
            for name in group.kernels:
                if name in known:
                    yield region.id, known[name]

    def _ref(self, showing: list[tuple[str, Kernel]], shown: Shown) -> str:
        where, kernel = showing[0]
        region = self._compilation.regions.get(where)
        more = f" and {len(showing) - 1} more" if len(showing) > 1 else ""
        by = f"torch {self._compilation.torch}"
        if region is None:
            return f"{kernel.name}{more}, launched in this run under {by}: {_CLAIMS[shown]}"
        place = f" at {region.location}" if region.location else ""
        return (
            f"{kernel.name}{more} in region {where} ({region.function or region.backend}{place}), compiled for"
            f" {kernel.device or region.device} by {by} in this run: {_CLAIMS[shown]}"
        )


_CLAIMS = {
    Shown.ADDS_ATOMICALLY: "it adds atomically",
    Shown.NO_ATOMICS: "no two threads add to one number",
    Shown.CALLED: "an eager kernel, called",
    Shown.TIMED: "chosen by timing several",
}


def _shows(kernel: Kernel, shown: Shown | None) -> bool:
    if shown is Shown.ADDS_ATOMICALLY:
        return kernel.adds_in_any_order is True
    if shown is Shown.CALLED:
        return kernel.language in _CALLED
    if shown is Shown.TIMED:
        return kernel.rounds_by_choice
    return shown is Shown.NO_ATOMICS


def _sentence(kernels: tuple[str, ...], shown: Shown) -> str:
    named = [f"`{name}`" for name in kernels[:_MOST]]
    if len(kernels) > _MOST:
        named.append(f"{len(kernels) - _MOST} more")
    who = " and ".join([", ".join(named[:-1]), named[-1]] if len(named) > 1 else named)
    many = len(kernels) > 1
    return {
        Shown.ADDS_ATOMICALLY: f"{who} {'add' if many else 'adds'} atomically.",
        Shown.NO_ATOMICS: f"{who} {'add' if many else 'adds'} nothing in an order that varies.",
        Shown.CALLED: f"The compiled code calls {who}.",
        Shown.TIMED: f"{who} {'were' if many else 'was'} chosen with a stopwatch.",
    }[shown]
