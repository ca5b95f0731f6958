"""What the table keeps of builds of torch is what the recordings say."""

from __future__ import annotations

import pytest

from benchmarks.evidence.dispatched import FILE, against, kept_builds, lines_of, made, rest, seen_ops, vouched
from benchmarks.evidence.nullgpu.atomics import Atomics
from tracer.names import Backend
from tracer.tables.loading import load_table


def test_what_the_file_says_of_ops_without_a_rule_is_what_the_recordings_say() -> None:
    table, builds = load_table(Backend.CUDA), kept_builds()
    kept, seen = builds.releases, seen_ops(builds)
    made_again = "\n".join(lines_of(kept, {}, vouched(seen, table, kept), rest(seen, table, kept)))
    first = "[[vouched]]"
    written = FILE.read_text(encoding="utf-8")
    assert written.count(first) > 3
    assert written[written.index(first) :] == made_again[made_again.index(first) :]


@pytest.mark.slow
def test_the_file_is_what_the_recordings_say() -> None:
    assert FILE.read_text(encoding="utf-8") == made(), (
        "run `python -m benchmarks.evidence.dispatched --write` and read the diff"
    )


def test_what_a_library_does_inside_vouches_for_nothing() -> None:
    assert "cuBLAS" in against("cublasLtMatmul", {})
    assert "cuDNN" in against("cudnnBackendExecute", {})


@pytest.mark.parametrize(
    ("kind", "is_clear"),
    [(Atomics.NONE, True), (Atomics.FLOAT, False), (Atomics.SWAP, False), (Atomics.INTEGER, False)],
)
def test_a_kernel_is_clear_by_its_code_and_not_by_its_name(kind: Atomics, is_clear: bool) -> None:
    name = "_ZN2at6native4plusIfEEvv"
    assert (against(name, {name: kind}) == "") is is_clear
    assert against(name, {}) == "launches a kernel whose code was not read"


def test_a_scan_is_not_clear_though_it_holds_no_atomics() -> None:
    name = "_ZN3cub16DeviceScanKernelIfEEvv"
    assert against(name, {name: Atomics.NONE}) == "launches a parallel scan"


def test_a_reduction_counts_blocks_and_adds_in_their_order() -> None:
    name = "_ZN2at6native13reduce_kernelIfEEvv"
    assert against(name, {name: Atomics.INTEGER}) == ""
