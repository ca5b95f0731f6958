"""Recorded calls by verdict: in all, by phase and by module, and for several targets side by side.

The model is nested blocks as wide as their calls, laid out here so that it stands on paper and without scripts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tracer.findings import Judgement
from tracer.names import SEVERITY, Phase, Verdict
from tracer.report import blocks as said
from tracer.report.blocks import Reader, Section, Words
from tracer.report.report import Report, mode_effect
from tracer.report.words import VERDICTS, by_severity, calls_behind, is_call, plural

#: Blocks that are drawn, the widest first; levels below the root; the thinnest block in percent of the whole.
MOST_BLOCKS = 500
DEEPEST = 10
THINNEST = 0.05
OUTSIDE = "outside modules"
#: Rows of the modules in figures.
MODULE_ROWS = 12


class MapBlock(NamedTuple):
    """One module with all that it contains."""

    path: str
    """As ``named_modules()`` spells it; empty for the whole, and for calls outside modules."""
    label: str
    depth: int
    left: float
    """Percent of the whole width."""
    width: float
    calls: int
    verdict: Verdict
    """The worst inside, as the settings stand."""
    worst: int
    """Calls of that verdict."""
    is_outside: bool = False
    """Whether it stands for the calls outside modules."""


class _Module:
    """A node of the tree of module paths."""

    def __init__(self, path: str, label: str) -> None:
        self.path, self.label = path, label
        self.counts: Counter[Verdict] = Counter()
        """Of all calls inside."""
        self.children: dict[str, _Module] = {}


def calls(report: Report, reader: Reader) -> Section:
    """Every recorded call, counted once."""
    tally = tally_of(report)
    lead = f"Every recorded call is counted once: {tally.total:,} in all, as the settings stand."
    blocks: list[said.Block] = [said.lead(lead)] if reader.is_whole else []
    blocks.append(tally)
    phases = report.tally.by_phase
    ran = [(phase, counts) for phase in Phase if (counts := phases.get(phase)) and any(counts.values())]
    if ran and reader.is_whole:
        worst = [(phase, sum(counts.values()), by_severity(counts)[0][0]) for phase, counts in ran]
        by_phase = _figures("phase", ((phase.value, counts) for phase, counts in ran))
        figures: tuple[said.Block, ...] = (said.Heading("By phase"), by_phase)
        if modules := _risky_modules(report):
            figures += (said.Heading("Modules, worst first"), _figures("module", modules))
        blocks += [
            said.Picture("map", (worst, model_map(report.tally.by_module))),
            said.Fold("The same in figures", figures),
        ]
    return Section(anchor="calls", title="Calls by verdict", label="Calls", blocks=tuple(blocks))


def _figures(what: str, counted: Iterable[tuple[str, Mapping[Verdict, int]]]) -> said.Table:
    """A row a phase or module: its calls by verdict, and in all."""
    rows = list(counted)
    shown = [verdict for verdict in SEVERITY if any(counts.get(verdict) for _, counts in rows)]
    heads = [*(VERDICTS[verdict].label for verdict in shown), "Calls"]
    return said.Table(
        said.columns(what.capitalize(), *heads, figures=heads),
        tuple(
            (said.Code(name), *(f"{counts.get(verdict, 0):,}" for verdict in shown), f"{sum(counts.values()):,}")
            for name, counts in rows
        ),
        noun=what,
    )


def _risky_modules(report: Report) -> Sequence[tuple[str, Mapping[Verdict, int]]]:
    """The modules with the most calls of the worst verdicts; those without any risk are left out."""
    worse = SEVERITY[:-1]
    risky = [
        (module or OUTSIDE, counts)
        for module, counts in report.tally.by_module.items()
        if any(counts.get(verdict) for verdict in worse)
    ]
    return sorted(risky, key=lambda item: (*(-item[1].get(verdict, 0) for verdict in worse), item[0]))[:MODULE_ROWS]


def model_map(by_module: Mapping[str, Mapping[Verdict, int]]) -> tuple[MapBlock, ...]:
    """The whole, then its modules from the outside in, neighbours in the order in which they first ran."""
    root = _tree(by_module)
    if not root.counts:
        return ()
    blocks = [block for block in _blocks(root, 0, 0.0, 100.0) if block.width >= THINNEST]
    if len(blocks) > MOST_BLOCKS:
        least = sorted((block.width for block in blocks), reverse=True)[MOST_BLOCKS - 1]
        blocks = [block for block in blocks if block.width >= least][:MOST_BLOCKS]
    return tuple(blocks)


def worst_inside(by_module: Mapping[str, Mapping[Verdict, int]], blocks: tuple[MapBlock, ...]) -> list[int]:
    """For ``blocks`` of another target: each its worst verdict's place in ``SEVERITY``, then its calls."""
    root, empty = _tree(by_module), _Module("", "")
    numbers: list[int] = []
    for block in blocks:
        node = root
        for name in block.path.split(".") if block.depth else ():  # calls outside modules are below an empty name
            node = node.children.get(name, empty)
        verdict, calls = _worst(node.counts)
        numbers += SEVERITY.index(verdict), calls
    return numbers


def _tree(by_module: Mapping[str, Mapping[Verdict, int]]) -> _Module:
    root = _Module("", "all calls")
    for path, counts in by_module.items():
        root.counts.update(counts)
        node = root
        parts = path.split(".")[:DEEPEST] if path else [""]
        for depth, name in enumerate(parts, 1):
            if name not in node.children:
                node.children[name] = _Module(".".join(parts[:depth]), (name or ".") if path else OUTSIDE)
            node = node.children[name]
            node.counts.update(counts)
    return root


def _blocks(module: _Module, depth: int, left: float, width: float) -> Iterator[MapBlock]:
    verdict, worst = _worst(module.counts)
    total = module.counts.total()
    is_outside = depth == 1 and not module.path and module.label == OUTSIDE
    yield MapBlock(module.path, module.label, depth, round(left, 3), round(width, 3), total, verdict, worst, is_outside)
    for child in module.children.values():
        share = width * child.counts.total() / total if total else 0.0
        yield from _blocks(child, depth + 1, left, share)
        left += share


def _worst(counts: Mapping[Verdict, int]) -> tuple[Verdict, int]:
    return next(((verdict, counts[verdict]) for verdict in SEVERITY if counts.get(verdict)), (Verdict.DETERMINISTIC, 0))


def tally_of(report: Report) -> said.TallyBlock:
    """Every recorded call, counted once."""
    return said.TallyBlock(tuple(by_severity(report.tally.as_is)), report.tally.total)


# --- portability: the same trace under other targets ------------------------------------------------------

#: Findings of another target that the page holds, worst first.
MOST_ROWS_ELSEWHERE = 3_000


def targets(report: Report, reader: Reader) -> Section | None:
    """All targets side by side, the report's own first, where the trace was judged for several."""
    shown = targets_shown(report)
    if len(shown) < 2:
        return None
    verdicts = [verdict for verdict in SEVERITY if any(judgement.tally[verdict] for judgement in shown)]
    figures = ("Findings", *(VERDICTS[verdict].label for verdict in verdicts))
    rows: tuple[tuple[Words, ...], ...] = tuple(
        (
            (
                said.Badge(_worst_of(judgement), judgement.target.backend.value),
                f" torch {judgement.target.torch}{', this report' if judgement is report.judgement else ''}",
            ),
            f"{len(judgement.findings):,}",
            *(f"{judgement.tally[verdict]:,}" for verdict in verdicts),
            ", ".join(
                f"{calls:,} {word}"
                for group, word in zip(mode_effect(judgement.findings), ("fixed", "raise", "as before"), strict=True)
                if (calls := calls_behind(group))
            )
            or "nothing to fix",
        )
        for judgement in shown
    )
    table = said.Table(said.columns("Target", *figures, "With mode on", figures=figures), rows, noun="target")
    lead = f"The same recording judged for {plural(len(shown), 'target')}, under the same settings."
    blocks = (said.lead(lead), said.Picture("targets", table, (table,)))
    return Section(anchor="targets", title="Portability of determinism", label="Other targets", blocks=blocks)


def targets_shown(report: Report) -> tuple[Judgement, ...]:
    """The report's own judgement, then the others, each target once."""
    by_target = {(report.target.backend, report.target.torch): report.judgement}
    for judgement in report.portability:
        by_target.setdefault((judgement.target.backend, judgement.target.torch), judgement)
    return tuple(by_target.values())


def _worst_of(judgement: Judgement) -> Verdict:
    verdicts = {verdict for verdict in SEVERITY if judgement.tally[verdict]}
    verdicts |= {finding.verdict for finding in judgement.findings if not is_call(finding)}
    return min(verdicts, key=SEVERITY.index, default=Verdict.UNKNOWN)
