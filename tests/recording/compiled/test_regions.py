"""Regions that Inductor compiled: seen within, at their lines, compiled and run again as without the recorder."""

from __future__ import annotations

from pathlib import Path
from threading import get_ident
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.recording.compiled.programs import PROGRAM, Ran, groups, line_of, ran
from tests.support.build import call, trace
from tests.support.lines import record
from tracer import Report, judge
from tracer.divergence.causes import RootCause
from tracer.divergence.comparing import compare_recordings
from tracer.divergence.model import Recording
from tracer.findings import Finding
from tracer.names import (
    AT_RISK,
    BlindSpotKind,
    DeterministicMode,
    Direction,
    EvidenceKind,
    Phase,
    RegionInside,
    RegionOrigin,
    Shown,
    Untried,
    Verdict,
)
from tracer.recording.compiled.executions import Executions
from tracer.recording.compiled.hiding import HOOKS
from tracer.recording.memory_observers import StorageObservers
from tracer.trace.records import CallGroup
from tracer.trace.values import Mark, read_values


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("program")


@pytest.fixture(scope="module")
def compiled(inductor: None, folder: Path) -> Ran:
    """The program's first run, with the recorder: everything is compiled."""
    return ran(folder)


@pytest.fixture(scope="module")
def without(compiled: Ran, folder: Path) -> Ran:
    """The second, without it."""
    return ran(folder, record=False)


@pytest.fixture(scope="module")
def moved(without: Ran, folder: Path) -> Ran:
    """The third, with it and with values, after seven lines were put on top of the file: all comes from the cache."""
    return ran(folder, moved_by=7, values=folder / "moved.values")


def gradients_of_look_up(run: Ran) -> list[CallGroup]:
    """Of the embedding's backward, whatever this torch decomposes it to."""
    ops = ("aten._unsafe_masked_index_put_accumulate", "aten.embedding_dense_backward", "aten.index_put.")
    found = (group for op in ops for group in groups(run, op))
    return [group for group in found if group.phase is Phase.BACKWARD]


def atomic(run: Ran, group: CallGroup) -> list[str]:
    (found,) = (one for one in run.trace.regions if one.id == group.region)
    return [kernel.name for kernel in found.kernels if kernel.name in group.kernels and kernel.atomic]


def test_what_was_compiled_with_the_recorder_is_found_in_the_cache_without_it(compiled: Ran, without: Ran) -> None:
    assert (compiled.hits, compiled.misses) == (0, 2)
    assert (without.hits, without.misses) == (2, 0)


def test_losses_and_gradients_have_the_same_bits_however_recorded(compiled: Ran, without: Ran, moved: Ran) -> None:
    for recorded in (compiled, moved):
        assert all(torch.equal(a, b) for a, b in zip(recorded.losses, without.losses, strict=True))
        for mine, other in zip(recorded.net.parameters(), without.net.parameters(), strict=True):
            assert torch.equal(mine.grad, other.grad)


def test_each_execution_is_one_call_with_digests_of_what_went_in_and_came_out(moved: Ran, folder: Path) -> None:
    values = read_values(folder / "moved.values")
    regions = {number: group for number, group in enumerate(values.groups) if group.region}
    calls = [call for call, group in enumerate(values.group.tolist()) if group in regions]
    assert [values.groups[values.group[call]].op for call in calls] == ["compiled.forward", "compiled.backward"] * 3
    assert {group.region for group in regions.values()} == {region.id for region in moved.trace.regions}
    for forward, backward in zip(calls[::2], calls[1::2], strict=True):
        assert Mark(int(values.mark_bits[forward])) == Mark(int(values.mark_bits[backward])) == Mark.COMPILED
        assert forward in values.origins_of(backward)
    assert len(set(values.inputs[calls[::2]].tolist())) == 1  # no optimizer steps: the forward reads the same


def test_forward_and_backward_are_two_regions_whose_ops_are_counted_as_often_as_they_ran(compiled: Ran) -> None:
    regions = compiled.trace.regions
    assert [one.direction for one in regions] == [Direction.FORWARD, Direction.BACKWARD]
    for one in regions:
        assert (one.executions, one.inside, one.why) == (3, RegionInside.OPS_AND_KERNELS, None)
        assert (one.backend, one.device, one.origin) == ("inductor", "cpu", RegionOrigin.COMPILED)
        assert (one.deterministic_mode, one.function) == (DeterministicMode.OFF, "Net.forward")
        counted = sum(group.count for group in compiled.trace.calls if group.region == one.id)
        assert counted == one.ops * one.executions > 0
    assert {spot.kind for spot in compiled.trace.blind_spots} <= {BlindSpotKind.OTHER_THREAD}
    eager = [group for group in compiled.trace.calls if group.region is None]
    assert not [group for group in eager if ".out" in group.op or group.op.startswith("aten.addmm")], "counted above"


def test_an_addition_at_indices_names_its_line_and_a_kernel_that_adds_atomically(compiled: Ran) -> None:
    (group,) = (one for one in groups(compiled, "aten.index_put.") if one.phase is Phase.FORWARD)
    assert (line_of(group), group.function) == (compiled.lines["adds"], "forward")
    assert (group.facts["arg.accumulate"], group.facts["dtype"]) == (True, "float32")
    assert atomic(compiled, group)


def test_the_gradient_of_a_look_up_names_the_line_that_looked_up_and_its_module(compiled: Ran) -> None:
    (group,) = gradients_of_look_up(compiled)
    assert (line_of(group), group.phase, group.module) == (compiled.lines["looks up"], Phase.BACKWARD, "Net.table")
    assert group.facts["index.is_mask"] is False, "which the compilers' rules alone ask"
    assert atomic(compiled, group)


def test_a_call_in_a_module_of_torchs_own_bears_the_line_of_the_program_and_the_modules_path(compiled: Ran) -> None:
    products = groups(compiled, "aten.addmm.") + groups(compiled, "aten.mm.")
    assert {line_of(group) for group in products} == {compiled.lines["multiplies"]}
    assert {group.module for group in products} == {"Net.rest.0"}
    assert {kernel for group in products for kernel in group.kernels} == {"extern_kernels.addmm", "extern_kernels.mm"}


def test_a_region_from_the_cache_bears_the_lines_of_today_and_names_its_kernels(compiled: Ran, moved: Ran) -> None:
    assert {one.origin for one in moved.trace.regions} == {RegionOrigin.CACHE}
    assert moved.lines["adds"] == compiled.lines["adds"] + 7
    for op in ("aten.index_put.", "aten.embedding.", "aten.addmm.", "aten._unsafe_masked_index_put_accumulate"):
        then, now = groups(compiled, op), groups(moved, op)
        assert [line_of(group) + 7 for group in then] == [line_of(group) for group in now]
        assert [(one.phase, one.count, one.facts) for one in then] == [(one.phase, one.count, one.facts) for one in now]
    (begins, _), (began, _) = moved.trace.regions, compiled.trace.regions
    assert begins.location.endswith(f"program_of_test.py:{int(began.location.rpartition(':')[2]) + 7}")
    adding = [*groups(moved, "aten.index_put."), *gradients_of_look_up(moved)]
    assert len(adding) > 1
    assert all(atomic(moved, group) for group in adding)


def test_code_that_was_compiled_before_recording_began_is_named_and_its_kernels_are_read(moved: Ran) -> None:
    function, given = torch.compile(moved.net), moved.module.given()
    function(*given)
    trace = record(lambda: function(*given)).trace
    (region,) = trace.regions
    assert (region.origin, region.inside, region.why) == ("earlier", "kernels", "compiled-earlier")
    assert any(kernel.atomic for kernel in region.kernels)
    assert [spot.count for spot in trace.blind_spots if spot.kind is BlindSpotKind.COMPILED] == [1]


# --- what is said of the program ---


def calls_of(report: Report) -> list[Finding]:
    """Findings about calls that let runs differ."""
    return [one for one in report.findings if one.op and one.verdict in AT_RISK and one.verdict is not Verdict.UNKNOWN]


def test_compiled_additions_are_findings_with_line_region_and_kernel_and_eager_ones_are_not(compiled: Ran) -> None:
    given = compiled.module.given(512)
    assert not calls_of(judge(record(lambda: compiled.net(*given).backward()).trace, backend="cpu"))
    found = {one.kernels: one for one in calls_of(judge(compiled.trace, backend="cpu"))}
    assert len(found) == 2
    for (kernel,), one in found.items():
        assert (one.verdict, one.deterministic_mode) == (Verdict.CONDITIONAL, Verdict.DETERMINISTIC)
        assert (one.shown, one.evidence[0].kind) == (Shown.ADDS_ATOMICALLY, EvidenceKind.GENERATED)
        assert one.why.startswith(f"`{kernel}` adds atomically.")
        assert one.location.partition(":")[0].endswith("program_of_test.py")
        (region,) = (region for region in compiled.trace.regions if region.id == one.regions[0])
        assert kernel in {known.name for known in region.kernels}
    assert not calls_of(judge(compiled.trace, settings="deterministic"))


def test_runs_that_part_have_roots_at_kernels_and_exact_ones_agree(compiled: Ran, moved: Ran, folder: Path) -> None:
    def recorded(name: str, text: str) -> Recording:
        run = ran(folder, text=text, steps=4, values=folder / f"{name}.values")  # busy threads may miss each other once
        return Recording(name=name, values=read_values(folder / f"{name}.values"), trace=run.trace)

    one, other = (recorded(name, PROGRAM) for name in ("one", "other"))
    exact = compare_recordings(one, other)
    assert (exact.agrees, exact.not_digested) == (True, 0)
    assert len([group for group in one.values.groups if group.region]) == 2
    first, second = (recorded(name, PROGRAM.replace("WHOLE = True", "WHOLE = False")) for name in ("first", "second"))
    assert first.trace is not None
    found = compare_recordings(first, second, findings=judge(first.trace).findings)
    assert [(root.cause, root.op) for root in found.roots] == [
        (RootCause.KERNEL, "compiled.forward"),
        (RootCause.KERNEL, "compiled.backward"),  # it reads nothing of the forward's sums
    ]
    for root in found.roots:
        region = next(one for one in first.trace.regions if one.id == root.region)
        adding = [kernel.name for kernel in region.kernels if kernel.adds_in_any_order]
        assert f"suspected is its kernel {adding[0]}, which adds atomically" in root.why
        assert (root.verdict, root.contradicts) == (Verdict.CONDITIONAL, False)
    assert [root.location for root in found.roots] == [
        f"program_of_test.py:{compiled.lines[line]}" for line in ("adds", "looks up")
    ]


def test_trials_do_not_reach_into_a_region_and_its_risky_calls_are_counted_as_untried(moved: Ran, folder: Path) -> None:
    report = judge(ran(folder, steps=1, trials=6).trace)
    found = calls_of(report)
    assert [one.verdict for one in found] == [Verdict.CONDITIONAL] * 2
    assert [one.tried and dict(one.tried.untried) for one in found] == [{Untried.COMPILED: 1}] * 2
    assert all(one.evidence[0].kind is EvidenceKind.GENERATED for one in found)
    assert any("Not tried: 2 in compiled code or of the program's own kernels." in banner for banner in report.banners)


@pytest.mark.usefixtures("inductor")
def test_a_module_with_a_hook_of_its_own_is_not_compiled_anew_at_every_call() -> None:
    torch._dynamo.reset()
    net = torch.nn.Sequential(torch.nn.Linear(4, 4))
    net[0].register_forward_hook(lambda module, given, out: out + 1)
    compiled = torch.compile(net, backend="aot_eager")
    x = torch.ones(2, 4)
    try:
        trace = record(lambda: [compiled(x) for _ in range(4)]).trace
    finally:
        HOOKS.hides = True
    assert len(trace.regions) <= 2


@pytest.mark.parametrize("is_followed", [False, True])
def test_a_regions_inputs_are_read_while_memory_is_followed(monkeypatch: pytest.MonkeyPatch, is_followed: bool) -> None:
    attribution: Any = SimpleNamespace(modules=SimpleNamespace(thread=get_ident()), optimizer=None)
    looked_at: list[Any] = []
    monkeypatch.setattr(StorageObservers, "handed_over", lambda self, inputs: looked_at.append(inputs) or [])
    storages, inputs = StorageObservers(), [torch.zeros(1)]
    if is_followed:
        storages.indices.live[0] = object()  # type: ignore[assignment]
    assert not Executions(attribution, storages, lambda: None).ran(object(), inputs)
    assert looked_at == ([inputs] if is_followed else [])


def test_a_finding_says_that_its_line_is_the_one_that_asked_for_the_gradient() -> None:
    known, unknown = (
        judge(trace(call(phase=Phase.BACKWARD, forward_unknown=one)), backend="cuda").findings for one in (False, True)
    )
    said = [one.why.endswith("the line of the forward is not known.") for one in (*known, *unknown) if one.op]
    assert said == [False, True]


GRADIENT_WITHIN = """
import torch


def loss(w, rows):
    return torch.zeros(8, 16).index_add(0, rows, w).exp().sum()


def run(steps):
    torch.manual_seed(0)
    asked = lambda w, rows: torch.func.grad(loss)(w, rows)  # asks
    w, rows = torch.randint(-2, 3, (64, 16)).float(), torch.randint(0, 8, (64,))  # their sums are exact
    compiled = torch.compile(asked, fullgraph=True)
    return None, [compiled(w, rows) for _ in range(steps)]
"""


@pytest.mark.slow
def test_such_a_call_bears_the_line_that_asked_and_says_so_from_a_cache_too(inductor: None, tmp_path: Path) -> None:
    fresh, without, again = (ran(tmp_path, record=one, text=GRADIENT_WITHIN, steps=1) for one in (True, False, True))
    assert (fresh.misses, without.misses, again.misses) == (1, 0, 0)
    assert torch.equal(fresh.losses[0], without.losses[0])
    for run in (fresh, again):
        (group,) = [one for one in run.trace.calls if one.op in ("aten.index.Tensor", "aten.gather.default")]
        assert (line_of(group), group.forward_unknown) == (run.lines["asks"], True)
        assert group.phase is Phase.BACKWARD
        assert any(one.kind is BlindSpotKind.NO_FORWARD_LINK for one in run.trace.blind_spots)
