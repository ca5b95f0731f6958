"""Regions that Inductor compiled: seen within, at their lines, compiled and run again as without the recorder."""

from __future__ import annotations

from pathlib import Path
from threading import get_ident
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.recording.compiled.programs import Ran, groups, line_of, ran
from tests.support.build import call, trace
from tracer import judge
from tracer.names import BlindSpotKind, DeterministicMode, Direction, Phase, RegionInside, RegionOrigin
from tracer.recording.compiled.executions import Executions
from tracer.recording.memory_observers import StorageObservers
from tracer.trace.records import CallGroup
from tracer.trace.values import Mark, read_values


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("program")


@pytest.fixture(scope="module")
def compiled(inductor: None, folder: Path) -> Ran:
    """The program's first run, with the recorder: everything is compiled."""
    return ran(folder, record=True)


@pytest.fixture(scope="module")
def without(compiled: Ran, folder: Path) -> Ran:
    """The second, without it."""
    return ran(folder, record=False)


@pytest.fixture(scope="module")
def moved(without: Ran, folder: Path) -> Ran:
    """The third, with it and with values, after seven lines were put on top of the file: all comes from the cache."""
    return ran(folder, record=True, moved_by=7, values=folder / "moved.values")


def gradients_of_look_up(run: Ran) -> list[CallGroup]:
    """Of the embedding's backward, whatever this torch decomposes it to."""
    ops = ("aten._unsafe_masked_index_put_accumulate", "aten.embedding_dense_backward", "aten.index_put.")
    found = (group for op in ops for group in groups(run, op))
    return [group for group in found if group.phase is Phase.BACKWARD]


@pytest.mark.usefixtures("inductor")
def test_what_was_compiled_with_the_recorder_is_found_in_the_cache_without_it(compiled: Ran, without: Ran) -> None:
    assert (compiled.hits, compiled.misses) == (0, 2)
    assert (without.hits, without.misses) == (2, 0)


@pytest.mark.usefixtures("inductor")
@pytest.mark.slow  # the keys are the same: the test above says so, whichever came first
def test_what_was_compiled_without_the_recorder_is_found_in_the_cache_with_it(folder: Path) -> None:
    text = ran.__globals__["PROGRAM"].replace("summed.sum()", "summed.sum() * 2")
    first = ran(folder, record=False, text=text, steps=1)
    second = ran(folder, record=True, text=text, steps=1)
    assert (first.hits, first.misses, second.hits, second.misses) == (0, 2, 2, 0)


@pytest.mark.usefixtures("inductor")
def test_losses_and_gradients_are_the_same_bits_with_the_recorder_and_with_values(
    compiled: Ran, without: Ran, moved: Ran
) -> None:
    for recorded in (compiled, moved):
        assert all(torch.equal(a, b) for a, b in zip(recorded.losses, without.losses, strict=True))
        for mine, other in zip(recorded.net.parameters(), without.net.parameters(), strict=True):
            assert torch.equal(mine.grad, other.grad)


@pytest.mark.usefixtures("inductor")
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


@pytest.mark.usefixtures("inductor")
def test_forward_and_backward_are_two_regions_that_ran_as_often_as_the_step(compiled: Ran) -> None:
    assert compiled.trace is not None
    regions = compiled.trace.regions
    assert [one.direction for one in regions] == [Direction.FORWARD, Direction.BACKWARD]
    for one in regions:
        assert (one.executions, one.inside, one.why) == (3, RegionInside.OPS_AND_KERNELS, None)
        assert (one.backend, one.device, one.origin) == ("inductor", "cpu", RegionOrigin.COMPILED)
        assert one.deterministic_mode is DeterministicMode.OFF
        assert one.function == "Net.forward"
    assert {spot.kind for spot in compiled.trace.blind_spots} <= {BlindSpotKind.OTHER_THREAD}


@pytest.mark.usefixtures("inductor")
def test_every_op_of_a_region_is_counted_as_often_as_it_ran(compiled: Ran) -> None:
    assert compiled.trace is not None
    for region in compiled.trace.regions:
        counted = sum(group.count for group in compiled.trace.calls if group.region == region.id)
        assert counted == region.ops * region.executions > 0


@pytest.mark.usefixtures("inductor")
def test_kernels_that_torch_calls_for_a_region_are_not_counted_beside_its_ops(compiled: Ran) -> None:
    assert compiled.trace is not None
    eager = [group for group in compiled.trace.calls if group.region is None]
    assert not [group for group in eager if ".out" in group.op or group.op.startswith("aten.addmm")]


@pytest.mark.usefixtures("inductor")
def test_an_addition_at_indices_names_its_line_and_a_kernel_that_adds_atomically(compiled: Ran) -> None:
    (group,) = (one for one in groups(compiled, "aten.index_put.") if one.phase is Phase.FORWARD)
    assert line_of(group) == compiled.lines["adds"]
    assert group.function == "forward"
    assert (group.phase, group.facts["arg.accumulate"], group.facts["dtype"]) == (Phase.FORWARD, True, "float32")
    assert _atomic(compiled, group.region, group.kernels)


@pytest.mark.usefixtures("inductor")
def test_the_gradient_of_a_look_up_names_the_line_that_looked_up_and_its_module(compiled: Ran) -> None:
    (group,) = gradients_of_look_up(compiled)
    assert line_of(group) == compiled.lines["looks up"]
    assert (group.phase, group.module) == (Phase.BACKWARD, "Net.table")
    assert _atomic(compiled, group.region, group.kernels)


@pytest.mark.usefixtures("inductor")
def test_what_the_compilers_rules_ask_is_noted_of_a_compiled_call_too(compiled: Ran) -> None:
    """``cuda.toml`` and ``cpu.toml`` alone ask nothing of these."""
    (group,) = gradients_of_look_up(compiled)
    assert group.facts["index.is_mask"] is False


@pytest.mark.usefixtures("inductor")
def test_a_call_in_a_module_of_torchs_own_bears_the_line_of_the_program_and_the_modules_path(compiled: Ran) -> None:
    products = groups(compiled, "aten.addmm.") + groups(compiled, "aten.mm.")
    assert {line_of(group) for group in products} == {compiled.lines["multiplies"]}
    assert {group.module for group in products} == {"Net.rest.0"}
    assert {kernel for group in products for kernel in group.kernels} == {"extern_kernels.addmm", "extern_kernels.mm"}


@pytest.mark.usefixtures("inductor")
def test_a_region_from_the_cache_bears_the_lines_of_today(compiled: Ran, moved: Ran) -> None:
    assert moved.trace is not None
    assert {one.origin for one in moved.trace.regions} == {RegionOrigin.CACHE}
    assert moved.lines["adds"] == compiled.lines["adds"] + 7
    for op in ("aten.index_put.", "aten.embedding.", "aten.addmm.", "aten._unsafe_masked_index_put_accumulate"):
        then, now = groups(compiled, op), groups(moved, op)
        assert [line_of(group) + 7 for group in then] == [line_of(group) for group in now]
        assert [(group.phase, group.count, group.facts) for group in then] == [
            (group.phase, group.count, group.facts) for group in now
        ]
    (begins, _), (began, _) = moved.trace.regions, compiled.trace.regions
    assert begins.location.endswith(f"program_of_test.py:{_line(began.location) + 7}")


@pytest.mark.usefixtures("inductor")
def test_a_region_from_the_cache_names_the_kernel_that_adds_atomically(moved: Ran) -> None:
    adding = [*groups(moved, "aten.index_put."), *gradients_of_look_up(moved)]
    assert len(adding) > 1
    for group in adding:
        assert _atomic(moved, group.region, group.kernels)


@pytest.mark.usefixtures("inductor")
def test_code_that_was_compiled_before_recording_began_is_named_and_its_kernels_are_read(moved: Ran) -> None:
    from tests.support.lines import record

    function = torch.compile(moved.net)
    rows, targets = torch.randint(0, 64, (512,)), torch.randint(0, 8, (512,))
    function(rows, targets)
    trace = record(lambda: function(rows, targets)).trace
    (region,) = trace.regions
    assert (region.origin, region.inside, region.why) == ("earlier", "kernels", "compiled-earlier")
    assert any(kernel.atomic for kernel in region.kernels)
    assert [spot.count for spot in trace.blind_spots if spot.kind is BlindSpotKind.COMPILED] == [1]


@pytest.mark.usefixtures("inductor")
def test_a_module_with_a_hook_of_its_own_is_not_compiled_anew_at_every_call() -> None:
    from tests.support.lines import record
    from tracer.recording.compiled.hiding import HOOKS

    torch._dynamo.reset()
    net = torch.nn.Sequential(torch.nn.Linear(4, 4))
    net[0].register_forward_hook(lambda module, given, out: out + 1)
    compiled = torch.compile(net, backend="aot_eager")
    x = torch.ones(2, 4)
    try:
        trace = record(lambda: [compiled(x) for _ in range(5)]).trace
    finally:
        HOOKS.hides = True
    assert len(trace.regions) <= 2


def _atomic(run: Ran, region: str | None, kernels: tuple[str, ...]) -> list[str]:
    assert run.trace is not None
    (found,) = (one for one in run.trace.regions if one.id == region)
    return [kernel.name for kernel in found.kernels if kernel.name in kernels and kernel.atomic]


def _line(location: str) -> int:
    return int(location.rpartition(":")[2])


@pytest.mark.parametrize("is_followed", [False, True])
def test_inputs_of_a_region_are_looked_at_only_while_memory_is_followed(
    monkeypatch: pytest.MonkeyPatch, is_followed: bool
) -> None:
    attribution: Any = SimpleNamespace(modules=SimpleNamespace(thread=get_ident()), optimizer=None)
    looked_at: list[Any] = []
    monkeypatch.setattr(StorageObservers, "handed_over", lambda self, inputs: looked_at.append(inputs) or [])
    storages = StorageObservers()
    executions = Executions(attribution, storages, lambda: None)
    if is_followed:
        storages.indices.live[0] = object()  # type: ignore[assignment]
    inputs = [torch.zeros(1)]
    assert not executions.ran(object(), inputs)
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
def test_such_a_call_bears_the_line_that_asked_and_says_so_with_code_from_a_cache_too(
    inductor: None, tmp_path: Path
) -> None:
    fresh, without, again = (ran(tmp_path, record=one, text=GRADIENT_WITHIN, steps=1) for one in (True, False, True))
    assert (fresh.misses, without.misses, again.misses) == (1, 0, 0)
    assert torch.equal(fresh.losses[0], without.losses[0])
    for run in (fresh, again):
        assert run.trace is not None
        (group,) = [one for one in run.trace.calls if one.op in ("aten.index.Tensor", "aten.gather.default")]
        assert (int(group.location.rpartition(":")[2]), group.forward_unknown) == (run.lines["asks"], True)
        assert group.phase is Phase.BACKWARD
        assert any(one.kind is BlindSpotKind.NO_FORWARD_LINK for one in run.trace.blind_spots)
