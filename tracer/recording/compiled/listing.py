"""Regions and their call groups, from what was compiled and what ran."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec.structs import replace

from tracer.names import DeterministicMode, Direction, KernelLanguage, Phase, RegionGap, RegionInside, RegionOrigin
from tracer.recording.calls import fact_readers as facts
from tracer.recording.compiled.compilations import CompiledCode, CompileLog, Program
from tracer.recording.compiled.executions import Run
from tracer.recording.compiled.generated.disjoint_threads import may_let_threads_meet
from tracer.recording.compiled.generated.kernel_text import KernelText, atomic_lines, may_call_kernels
from tracer.recording.compiled.graphs.graph_arguments import arguments_of
from tracer.recording.compiled.graphs.graph_facts import GraphFacts, reads_of_input, unwritten_reads
from tracer.recording.compiled.graphs.graph_text import Graph, Node
from tracer.recording.compiled.insides import Inside, Insides
from tracer.recording.compiled.program_lines import Frame, FunctionNames, Step
from tracer.recording.origin.sites import LIBRARY, NOWHERE, USER, Site, Sites, placed, spell
from tracer.recording.torch_private import compile_seams
from tracer.trace.arguments import Argument
from tracer.trace.records import CallGroup, FactValue, Kernel, Region, UnwrittenRead

#: What Inductor takes for a product or a convolution, whichever it found the faster.
_CHOSEN = (KernelLanguage.TEMPLATE, KernelLanguage.EXTERN, KernelLanguage.FALLBACK)
_DYNAMO = os.path.join("torch", "_dynamo", "")
_OPTIMIZERS = os.path.join("torch", "optim", "")


class RegionList:
    """Reads each code once; a recording is asked for its trace more than once."""

    def __init__(self, sites: Sites, asked: Callable[[], Mapping[str, frozenset[str]]], working_directory: str) -> None:
        self._sites = sites
        self._insides = Insides(GraphFacts(asked, working_directory))
        self._working_directory = working_directory
        self._functions = FunctionNames()
        self._ids: dict[int, str] = {}
        self.keeps_lines = False
        """Are lines of generated code kept with the kernels?"""

    def regions(
        self, log: CompileLog, runs: Iterable[Run], times: Callable[[Run], int] = lambda run: run.count
    ) -> tuple[Region, ...]:
        """Every region that ran, and those that were compiled and did not. ``times``: how often one ran."""
        ran = sorted(runs, key=lambda run: run.order)
        met = list(dict.fromkeys(run.code for run in ran))
        log.look_at_choices()
        codes = [*met, *(code for code in log.codes if code not in set(met) and code.text)]
        self._name(codes)
        regions = [self._region(code, [run for run in ran if run.code is code], codes, times) for code in codes]
        regions += (self._of_backend(program) for program in log.programs if program.backend != compile_seams.INDUCTOR)
        return tuple(regions)

    def _of_backend(self, program: Program) -> Region:
        """What another backend than Inductor was handed: its ops come one by one, or nobody knows what it makes."""
        site = self._function_site(program)
        is_dispatched = program.backend in compile_seams.DISPATCHING
        return Region(
            id=f"{program.compile_id} {program.backend}",
            function=site.function,
            location=spell(site, self._working_directory),
            backend=program.backend,
            dynamic=program.dynamic,
            fullgraph=program.fullgraph,
            origin=RegionOrigin.COMPILED,
            inside=RegionInside.DISPATCHED if is_dispatched else RegionInside.UNSEEN,
            why=None if is_dispatched else RegionGap.BACKEND,
        )

    def name_of(self, code: CompiledCode) -> str:
        """What the trace calls this region, whether or not all are known yet."""
        self._name([code])
        return self._ids[id(code)]

    def told_of(self, run: Run) -> tuple[Region, list[CallGroup], Graph | None]:
        """A region that is about to run, the calls of one execution, and its graph, where that is known."""
        self._name([run.code])
        region = self._region(run.code, [run], [run.code], lambda run: 1)
        return region, [group for _, group in self.groups([run], lambda run: 1)], self._insides.of(run.code).graph

    def phase_of(self, run: Run) -> Phase:
        """The phase that its executions are in."""
        return self._phase(run, is_repeated=False, in_optimizer=False)

    def groups(
        self, runs: Iterable[Run], times: Callable[[Run], int] = lambda run: run.count
    ) -> Iterator[tuple[int, CallGroup]]:
        """The calls of every region that ran, each with the position of the region's first execution."""
        for run in runs:
            inside = self._insides.of(run.code)
            count = times(run)
            if inside.graph is None or not count:
                continue
            forward = self._insides.forward_of(run.code)
            for number, node in enumerate(inside.graph.nodes):
                group = self._group(run, inside, number, node, node.name in forward)
                yield run.order, group if count == 1 else replace(group, count=count)

    def unwritten_reads(
        self, runs: Iterable[Run], times: Callable[[Run], int] = lambda run: run.count
    ) -> Iterator[UnwrittenRead]:
        """Where regions computed with memory that nothing had filled; deterministic mode fills it."""
        for run in runs:
            inside, count = self._insides.of(run.code), times(run)
            if inside.graph is None or not count:
                continue
            nodes = inside.graph.nodes
            for (place, who), handed in run.unwritten.items():
                for reader in reads_of_input(inside.graph, inside.graph.inputs[place]):
                    read, origin = self._group(run, inside, reader, nodes[reader], False), who.counter.origin
                    yield _unwritten(
                        read,
                        handed,
                        who.op,
                        spell(origin.site, self._working_directory),
                        spell(origin.called_from, self._working_directory),
                    )
            if run.code.mode not in (None, DeterministicMode.OFF):
                continue
            for reader, giver in unwritten_reads(inside.graph):
                read, allocation = (
                    self._group(run, inside, number, nodes[number], False) for number in (reader, giver)
                )
                yield _unwritten(read, count, allocation.op, allocation.location, allocation.called_from)

    # --- groups ---

    def _group(self, run: Run, inside: Inside, number: int, node: Node, is_repeated: bool) -> CallGroup:
        step = inside.steps[number]
        location, called_from, in_optimizer = self._place(run, step)
        return CallGroup(
            op=node.op,
            phase=self._phase(run, is_repeated, in_optimizer, step is not None and step.is_backward),
            module=self._module(run, step),
            **placed(location, called_from, self._working_directory),
            node=step.node if step is not None else "",
            forward_unknown=step is not None and step.is_of_gradient_call,
            facts=self._with_device(inside.facts[number], run.code),
            given=_arguments(node, str(inside.facts[number].get("device", ""))),
            region=self._ids[id(run.code)],
            kernels=inside.matching.kernels.get(node.name, ()),
        )

    @staticmethod
    def _with_device(facts_read: dict[str, FactValue], code: CompiledCode) -> dict[str, FactValue]:
        """Of a call whose text names no tensor (a Triton kernel's, whose arguments are a dictionary): its region's."""
        if "device" in facts_read or len(code.devices) != 1:
            return facts_read
        return {"device": facts.device_word(code.devices[0]), **facts_read}

    def _phase(self, run: Run, is_repeated: bool, in_optimizer: bool, is_backward: bool = False) -> Phase:
        if run.in_optimizer or in_optimizer:
            return Phase.OPTIMIZER
        if run.code.direction is Direction.BACKWARD:
            return Phase.RECOMPUTE if is_repeated else Phase.BACKWARD
        if is_backward or run.code.by_compiled_autograd:
            return Phase.BACKWARD
        if run.in_engine:
            return Phase.RECOMPUTE
        if run.code.direction is Direction.FORWARD or run.scope.is_module:
            return Phase.FORWARD
        return Phase.OTHER

    def _place(self, run: Run, step: Step | None) -> tuple[Site, Site, bool]:
        """Location, the user's own line that led there, and whether an optimizer of torch's made the call."""
        frames = step.frames if step is not None else ()
        in_optimizer = any(_OPTIMIZERS in frame.path for frame in frames)
        outside = [site for frame in frames if (site := self._site(frame)).kind in (LIBRARY, USER)]
        if not outside:
            return run.site, run.called_from if run.site.kind == LIBRARY else NOWHERE, in_optimizer
        location = outside[-1]
        if location.kind == USER:
            return location, NOWHERE, in_optimizer
        own = next((site for site in reversed(outside) if site.kind == USER), run.called_from)
        return location, own, in_optimizer

    def _site(self, frame: Frame) -> Site:
        kind = self._sites.kind_of(frame.path)
        path = os.path.join(self._working_directory, frame.path)
        return Site(path, frame.line, self._functions.name_at(path, frame.line, frame.function), kind)

    def _module(self, run: Run, step: Step | None) -> str:
        """The module's path: below the one that ran the region, else below the class of the one that it is in."""
        if run.code.by_compiled_autograd:
            return ""  # it runs in a module that torch made of the whole backward
        module = step.module if step is not None else None
        lead = run.scope.path if run.scope.is_module else module.root if module is not None else ""
        return ".".join(part for part in (lead, module.path if module is not None else "") if part)

    # --- regions ---

    def _name(self, codes: list[CompiledCode]) -> None:
        taken = set(self._ids.values())
        for code in codes:
            if id(code) in self._ids:
                continue
            base = name = f"{code.compile_id or 'earlier'} {code.direction}"
            number = 1
            while name in taken:
                number += 1
                name = f"{base} {number}"
            taken.add(name)
            self._ids[id(code)] = name

    def _region(
        self, code: CompiledCode, runs: list[Run], codes: list[CompiledCode], times: Callable[[Run], int]
    ) -> Region:
        inside = self._insides.of(code)
        program = code.program
        site = self._function_site(program)
        first = runs[0] if runs else None
        inside_known, why = self._seen(code, inside)
        older = code.guard[0]
        return Region(
            id=self._ids[id(code)],
            function=site.function,
            location=spell(site, self._working_directory),
            called_from=spell(first.called_from, self._working_directory) if first is not None else "",
            backend=program.backend if program is not None else "inductor",
            device=",".join(facts.device_word(device) for device in code.devices),
            direction=code.direction,
            mode=_mode_of(code),
            dynamic=inside.graph.has_unfixed_sizes if inside.graph is not None else None,
            fullgraph=program.fullgraph if program is not None else None,
            options=code.settings,
            deterministic_mode=code.mode,
            origin=code.origin,
            uses_cuda_graphs=code.uses_cuda_graphs,
            by_compiled_autograd=code.by_compiled_autograd,
            executions=sum(map(times, runs)),
            recompiles=next(
                (self._ids[id(one)] for one in codes if one.compile_id == older and one.direction is code.direction),
                older,
            ),
            guard=code.guard[1],
            inside=inside_known,
            why=why if runs or why is not None else RegionGap.NEVER_RAN,
            ops=len(inside.graph.nodes) if inside.graph is not None else 0,
            kernels=tuple(self._kernel(kernel, inside, code) for kernel in inside.matching.texts),
        )

    def _seen(self, code: CompiledCode, inside: Inside) -> tuple[RegionInside, RegionGap | None]:
        kernels = bool(inside.matching.texts)
        if inside.graph is not None:
            # A graph of views and numbers alone has no kernel; else code without one is of a form that is not read.
            if kernels or not code.source or not may_call_kernels(code.source):
                return RegionInside.OPS_AND_KERNELS, None
            return RegionInside.OPS, RegionGap.FORMAT
        why = RegionGap.EARLIER if code.origin is RegionOrigin.EARLIER else RegionGap.FORMAT
        return (RegionInside.KERNELS if kernels else RegionInside.UNSEEN), why

    def _kernel(self, kernel: KernelText, inside: Inside, code: CompiledCode) -> Kernel:
        ops = inside.matching.ops.get(kernel.name, ())
        choice = code.choices.get(kernel.name)
        is_timed = kernel.language in _CHOSEN and any(
            kernel.name in inside.matching.kernels.get(node, ()) for node in code.timed
        )
        is_told = kernel.name in inside.matching.told
        return Kernel(
            name=kernel.name,
            language=kernel.language,
            device=facts.device_word(code.devices[0]) if len(code.devices) == 1 else "",
            calls=kernel.calls,
            ops=ops,
            original_ops=kernel.original_ops,
            is_matched=is_told,
            atomic=kernel.atomic,
            is_parallel=kernel.is_parallel,
            keeps_apart=kernel.keeps_apart and (is_told or _all_keep_apart(inside.matching.texts)),
            choice=(choice.told if choice is not None else "") or kernel.template,
            by_stopwatch=True if is_timed else choice.by_stopwatch if choice is not None else None,
            lines=atomic_lines(kernel.source, kernel.language) if self.keeps_lines and kernel.source else (),
        )

    def _function_site(self, program: Program | None) -> Site:
        compiled = program.code if program is not None else None
        if compiled is None:
            return NOWHERE
        path = os.path.join(self._working_directory, compiled.co_filename)
        kind = self._sites.kind_of(compiled.co_filename)
        name = getattr(compiled, "co_qualname", compiled.co_name)
        if kind not in (LIBRARY, USER):  # torch's own code. A module of its own is wrapped: its class names it
            roots = (step.module.root for step in program.steps if step.module is not None) if program else ()
            own = "" if _DYNAMO in compiled.co_filename else name
            return NOWHERE._replace(function=next((root for root in roots if root), own))
        return Site(path, compiled.co_firstlineno, name, kind)


def _unwritten(read: CallGroup, count: int, op: str, location: str, called_from: str) -> UnwrittenRead:
    """``count`` reads of memory that ``op`` gave at ``location``."""
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


def _arguments(node: Node, device: str) -> dict[str, Argument]:
    try:
        return arguments_of(node, device)
    except Exception:  # a text of a form that nobody foresaw costs what it says, and no trace
        return {}


def _all_keep_apart(kernels: Iterable[KernelText]) -> bool:
    """Where names alone say which op went into which kernel, one that keeps apart speaks for none that does not."""
    return all(kernel.keeps_apart or not may_let_threads_meet(kernel.source) for kernel in kernels)


def _mode_of(code: CompiledCode) -> str:
    """The ``mode`` of ``torch.compile``, recovered from the settings that it stands for."""
    options = code.program.options if code.program is not None else {}
    autotunes = options.get("max_autotune") is True
    if options.get("triton.cudagraphs") is True:
        return "max-autotune" if autotunes else "reduce-overhead"
    return "max-autotune-no-cudagraphs" if autotunes else ""
