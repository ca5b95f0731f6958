"""Builds the regions of a trace and their call groups, from compilations and executions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from itertools import count as counting
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from tracer.names import DeterministicMode, Direction, KernelLanguage, Phase, RegionGap, RegionInside, RegionOrigin
from tracer.recording import calls as facts
from tracer.recording.calls import draw_facts
from tracer.recording.compiled import UNROLLS_BELOW, CapturedGraph, CompiledCode, CompileLog
from tracer.recording.compiled.executions import RegionRun
from tracer.recording.compiled.graph_facts import (
    HANDED_OVER,
    GraphFacts,
    arguments_of,
    computes_with_constants,
    unwritten_reads,
)
from tracer.recording.compiled.graph_text import Graph, Node, ProgramLines, read_graph, with_neighbours
from tracer.recording.compiled.kernel_text import (
    KernelMatching,
    KernelText,
    match_kernels,
    may_call_kernels,
    read_kernels,
)
from tracer.recording.origin import (
    LIBRARY,
    NO_STEP,
    NOWHERE,
    OF_GRADIENT_CALL,
    USER,
    GraphCall,
    Site,
    Sites,
    placed,
    spell,
)
from tracer.recording.storage.known_numbers import Distinct
from tracer.recording.torch_private import compile_seams
from tracer.trace.records import GENERATOR, Argument, CallGroup, FactValue, Kernel, Region, UnwrittenRead


class Inside(NamedTuple):
    """The content of one region's code."""

    graph: Graph | None
    """``None`` if it cannot be parsed."""
    steps: tuple[GraphCall | None, ...]
    """The place of each of the graph's calls in the program."""
    matching: KernelMatching
    facts: tuple[dict[str, FactValue], ...]
    numbers: dict[str, Distinct]
    """The values with distinct numbers, by name."""

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The graph's calls."""
        return () if self.graph is None else self.graph.nodes


def _forwards_of(code: CompiledCode) -> list[CompiledCode]:
    """The forwards of a backward's program; none of other code."""
    return code.program.forwards if code.direction is Direction.BACKWARD and code.program is not None else []


def _steps(code: CompiledCode, nodes: tuple[Node, ...]) -> Iterator[GraphCall | None]:
    """The place of each call in the program; ``None`` if its neighbours may have it."""
    if not code.steps and not code.by_compiled_autograd and code.program is not None:
        lines = ProgramLines([*code.program.steps.values()])
        is_backward = code.direction is Direction.BACKWARD
        yield from lines.match([node.place for node in nodes], backwards=is_backward, ops=[node.op for node in nodes])
        return
    for node in nodes:
        step = code.steps.get(node.name, NO_STEP)
        if code.by_compiled_autograd and not step.is_backward:
            step = OF_GRADIENT_CALL
        if not step.frames and node.place is not None and code.steps:
            step = step._replace(frames=(node.place,))
        yield step if step.frames or step.module or step.is_backward else None


#: Kernels that Inductor chooses by timing, for matrix products and convolutions.
_CHOSEN = (KernelLanguage.TEMPLATE, KernelLanguage.EXTERN, KernelLanguage.FALLBACK)
_DYNAMO = os.path.join("torch", "_dynamo", "")
_OPTIMIZERS = os.path.join("torch", "optim", "")


class RegionList:
    """Describes the regions of one recording. Reads each code once, even if the trace is built many times."""

    def __init__(
        self,
        sites: Sites,
        asked: Callable[[], Mapping[str, frozenset[str]]],
        *,
        model_class: str = "",
    ) -> None:
        """``model_class``: the class of the model that modules' paths begin at, if one was given."""
        self._model_class = model_class
        self._sites = sites
        self._facts = GraphFacts(asked)
        self._by_code: dict[tuple[CompiledCode, frozenset[tuple[int, Distinct]]], Inside] = {}
        self._ids: dict[int, str] = {}

    def _inside(self, code: CompiledCode) -> Inside:
        """The content of ``code``, read once; empty if it cannot be parsed."""
        key = code, frozenset((code.distinct or {}).items())
        if key in self._by_code:
            return self._by_code[key]
        graph: Graph | None = None
        kernels: tuple[KernelText, ...] = ()
        with suppress(ValueError):
            graph = read_graph(code.text) if code.text else None
        with suppress(ValueError):
            kernels = read_kernels(code.source) if code.source else ()
        nodes: tuple[Node, ...] = ()
        read: list[dict[str, FactValue]] = []
        numbers: dict[str, Distinct] = {}
        if graph is not None:
            nodes, forwards = graph.nodes, _forwards_of(code)
            handed_over = self._inside(forwards[0]).numbers if len(forwards) == 1 else {}
            handed_over = handed_over | {graph.inputs[place]: n for place, n in (code.distinct or {}).items()}
            read, numbers = self._facts.of_graph(graph, handed_over)
        steps = with_neighbours(nodes, list(_steps(code, nodes)), self._forward_of(code))
        limit = code.settings.get(UNROLLS_BELOW)
        for each, node in zip(read, nodes, strict=True):
            if node.has_bodies:
                each["body_recorded"] = True
            if type(limit) is int and limit < 8:
                each.pop("shape.is_unrolled", None)
        matching = match_kernels(nodes, kernels, code.kernels)
        inside = self._by_code[key] = Inside(graph, tuple(steps), matching, tuple(read), numbers)
        return inside

    def _forward_of(self, code: CompiledCode) -> dict[str, tuple[str, GraphCall | None]]:
        """Ops and steps of the forward's calls, by their results' names in the backward."""
        for inside in map(self._inside, _forwards_of(code)):
            if inside.graph is not None:
                pairs = zip(inside.nodes, inside.steps, strict=True)
                calls = {node.name: (node.op, step) for node, step in pairs}
                return calls | {name: calls[whole] for name, whole in inside.graph.parts.items() if whole in calls}
        return {}

    def regions(self, log: CompileLog, runs: Iterable[RegionRun]) -> tuple[Region, ...]:
        """Every region that ran, and those that were compiled but did not run."""
        ran = sorted(runs, key=lambda run: run.order)
        log.look_at_choices()
        codes = list(dict.fromkeys([*(run.code for run in ran), *(code for code in log.codes if code.text)]))
        regions = [self._region(code, [run for run in ran if run.code is code]) for code in codes]
        others = (p for p in log.programs if p.backend != compile_seams.INDUCTOR and not p.reached_inductor)
        regions += map(self._of_backend, others)
        return tuple(regions)

    def _of_backend(self, program: CapturedGraph) -> Region:
        """A graph of another backend than Inductor: its ops are dispatched one by one, or not seen."""
        site = self._function_site(program)
        is_dispatched = program.backend in compile_seams.DISPATCHING
        return Region(
            id=f"{program.compile_id} {program.backend}",
            function=site.function,
            location=spell(site),
            backend=program.backend,
            origin=RegionOrigin.COMPILED,
            inside=RegionInside.DISPATCHED if is_dispatched else RegionInside.UNSEEN,
            why=None if is_dispatched else RegionGap.BACKEND,
        )

    def name_of(self, code: CompiledCode) -> str:
        if id(code) not in self._ids:
            base, taken = f"{code.compile_id or 'earlier'} {code.direction}", set(self._ids.values())
            names = chain([base], (f"{base} {number}" for number in counting(2)))
            self._ids[id(code)] = next(name for name in names if name not in taken)
        return self._ids[id(code)]

    def groups(self, runs: Iterable[RegionRun]) -> Iterator[tuple[int, CallGroup]]:
        """The calls of every region that ran, each with the position of the region's first execution."""
        for run in runs:
            inside = self._inside(run.code)
            forward = self._forward_of(run.code)
            for number, node in enumerate(inside.nodes):
                group = self._group(run, inside, number, is_repeated=node.name in forward)
                count = run.count * node.times
                yield run.order, group if count == 1 else replace(group, count=count)

    def unwritten_reads(self, runs: Iterable[RegionRun]) -> Iterator[UnwrittenRead]:
        """Reads of unwritten memory in regions. Deterministic mode fills such memory."""
        for run in runs:
            inside = self._inside(run.code)
            if (graph := inside.graph) is None:
                continue
            for (place, memory), reads in run.unwritten.items():
                origin = memory.counter.origin
                allocated = (memory.op, spell(origin.site), spell(origin.called_from))
                for read in unwritten_reads(graph, graph.inputs[place]):
                    if read.allocation == HANDED_OVER:
                        yield _unwritten(self._group(run, inside, read.number), reads, *allocated)
            if run.code.mode not in (None, DeterministicMode.OFF):
                continue
            has_constants = computes_with_constants(run.code.source) and not computes_with_constants(run.code.text)
            for read in unwritten_reads(graph):
                if not (read.may_be_constant and has_constants):
                    by = self._group(run, inside, read.allocation)
                    allocated = (by.op, by.location, by.called_from)
                    yield _unwritten(self._group(run, inside, read.number), run.count, *allocated)

    # --- groups ---

    def _group(self, run: RegionRun, inside: Inside, number: int, *, is_repeated: bool = False) -> CallGroup:
        node, step, facts_read = inside.nodes[number], inside.steps[number] or NO_STEP, inside.facts[number]
        location, called_from, in_optimizer = self._place(run, step)
        arguments: dict[str, Argument] = {}
        with suppress(Exception):  # unsupported text loses its arguments, not the trace
            arguments = arguments_of(node, str(facts_read.get("device", "")))
        if (generator := str(facts_read.get(GENERATOR))) in run.draws:
            facts_read = {**facts_read, **draw_facts(run.draws[generator])}
        if "device" not in facts_read and len(run.code.devices) == 1:  # the text of a Triton kernel has no tensors
            facts_read = {"device": facts.device_word(run.code.devices[0]), **facts_read}
        module = ""  # compiled autograd runs in a module that torch created for the whole backward
        if not run.code.by_compiled_autograd:  # below the module that ran it, or the class whose method was compiled
            root, path = (step.module.root, step.module.path) if step.module is not None else ("", "")
            root = run.scope.path if run.scope.is_module else "" if root == self._model_class else root
            module = ".".join(filter(None, (root, path)))
        return CallGroup(
            op=node.op,
            phase=self.phase_of(run, is_repeated, in_optimizer, step.is_backward),
            module=module,
            **placed(location, called_from),
            forward_unknown=step.forward_unknown,
            facts=facts_read,
            given=arguments,
            region=self.name_of(run.code),
            kernels=inside.matching.kernels.get(node.name, ()),
        )

    @staticmethod
    def phase_of(
        run: RegionRun, is_repeated: bool = False, in_optimizer: bool = False, computes_gradient: bool = False
    ) -> Phase:
        """The phase of a region's executions, or of one of its calls, which a backward repeats if ``is_repeated``."""
        if run.in_optimizer or in_optimizer:
            return Phase.OPTIMIZER
        if run.code.direction is Direction.BACKWARD:
            return Phase.RECOMPUTE if is_repeated else Phase.BACKWARD
        if computes_gradient or run.code.by_compiled_autograd:
            return Phase.BACKWARD
        if run.in_engine:
            return Phase.RECOMPUTE
        return Phase.FORWARD if run.code.direction is Direction.FORWARD or run.scope.is_module else Phase.OTHER

    def _place(self, run: RegionRun, step: GraphCall) -> tuple[Site, Site, bool]:
        """Location, the user's own line that led there, and whether an optimizer of torch made the call."""
        in_optimizer = any(_OPTIMIZERS in frame.path for frame in step.frames)
        outside = [site for frame in step.frames if (site := self._sites.of_stack(frame)).kind in (LIBRARY, USER)]
        if not outside:
            return run.site, run.called_from if run.site.kind == LIBRARY else NOWHERE, in_optimizer
        if outside[-1].kind == USER:
            return outside[-1], NOWHERE, in_optimizer
        own = next((site for site in reversed(outside) if site.kind == USER), run.called_from)
        return outside[-1], own, in_optimizer

    # --- regions ---

    def _region(self, code: CompiledCode, runs: list[RegionRun]) -> Region:
        inside = self._inside(code)
        program = code.program
        site = self._function_site(program)
        has_kernels = bool(inside.matching.texts)
        why: RegionGap | None = RegionGap.FORMAT
        known = RegionInside.KERNELS if has_kernels else RegionInside.UNSEEN
        if inside.graph is None and code.origin is RegionOrigin.EARLIER:
            why = RegionGap.EARLIER
        elif inside.graph is not None:
            # A graph of only views and numbers has no kernel; other code without kernels could not be parsed.
            is_whole = has_kernels or not code.source or not may_call_kernels(code.source)
            known = RegionInside.OPS_AND_KERNELS if is_whole else RegionInside.OPS
            why = (None if runs else RegionGap.NEVER_RAN) if is_whole else RegionGap.FORMAT
        return Region(
            id=self.name_of(code),
            function=site.function,
            location=spell(site),
            called_from=spell(runs[0].called_from) if runs else "",
            backend=compile_seams.INDUCTOR,
            device=",".join(facts.device_word(device) for device in code.devices),
            direction=code.direction,
            options=code.settings,
            deterministic_mode=code.mode,
            origin=code.origin,
            uses_cuda_graphs=code.uses_cuda_graphs,
            by_compiled_autograd=code.by_compiled_autograd,
            executions=sum(run.count for run in runs),
            inside=known,
            why=why,
            ops=len(inside.nodes),
            graph=_digest_of_code(code.text),
            code=_digest_of_code(code.source),
            kernels=tuple(self._kernel(kernel, inside, code) for kernel in inside.matching.texts),
        )

    def _kernel(self, kernel: KernelText, inside: Inside, code: CompiledCode) -> Kernel:
        matching = inside.matching
        choice = code.choices.get(kernel.name)
        of_timed = [matching.kernels.get(node, ()) for node in code.timed]
        is_timed = kernel.language in _CHOSEN and any(not names or kernel.name in names for names in of_timed)
        return Kernel(
            name=kernel.name,
            language=kernel.language,
            device=facts.device_word(code.devices[0]) if len(code.devices) == 1 else "",
            calls=kernel.calls,
            ops=matching.ops.get(kernel.name, ()),
            original_ops=kernel.original_ops,
            atomic=kernel.atomic,
            is_parallel=kernel.is_parallel,
            choice=choice or kernel.template,
            by_stopwatch=True if is_timed or choice is not None else None,
        )

    def _function_site(self, program: CapturedGraph | None) -> Site:
        if program is None or program.code is None:
            return NOWHERE
        compiled = program.code
        kind = self._sites.kind_of(compiled.co_filename)
        name = getattr(compiled, "co_qualname", compiled.co_name)
        if kind in (LIBRARY, USER):
            path = os.path.join(self._sites.working_directory, compiled.co_filename)
            return Site(path, compiled.co_firstlineno, name, kind, self._sites.working_directory)
        # torch's own code: it wraps a module, whose class names the region
        roots = (step.module.root for step in program.steps.values() if step.module is not None)
        own = "" if _DYNAMO in compiled.co_filename else name
        return msgspec.structs.replace(NOWHERE, function=next(filter(None, roots), own))


def _digest_of_code(text: str) -> str:
    """A digest of ``text`` without its comments, which name files; empty for no text."""
    from tracer.trace.values.columns import text_digest  # loaded with the first compiled code

    lines = (line.partition("#")[0].rstrip() for line in text.splitlines())
    return f"{text_digest(chr(10).join(filter(None, lines))):016x}" if text else ""


def _unwritten(read: CallGroup, count: int, op: str, location: str, called_from: str) -> UnwrittenRead:
    """``count`` reads of memory that ``op`` allocated at ``location``."""
    return UnwrittenRead(
        op=read.op,
        phase=read.phase,
        module=read.module,
        **read.place._asdict(),
        count=count,
        allocated_by=op,
        allocated_at=location,
        allocated_from=called_from,
    )
