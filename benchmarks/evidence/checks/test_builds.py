"""A CUDA build of torch runs here without a GPU, and does what is kept of it."""

from __future__ import annotations

import pytest

from benchmarks.evidence.nullgpu.__main__ import record
from benchmarks.evidence.nullgpu.builds import Build, BuildError, cache_folder, prepare
from benchmarks.evidence.nullgpu.recording import FOLDER, Recording, load, releases

RELEASE = "2.13.0"


@pytest.fixture(scope="module")
def build() -> Build:
    try:
        return prepare(RELEASE, cache_folder())
    except BuildError as problem:
        pytest.skip(str(problem))


@pytest.mark.slow
def test_a_cuda_build_does_what_is_kept_of_it(build: Build) -> None:
    kept = load(releases("extra", FOLDER)[RELEASE])
    made = record(build, "extra")

    def told(one: Recording) -> dict[object, object]:
        return {
            (row.key, mode): (row.inputs, row.fails(mode), [one.op_of(launch) for launch in row.under(mode).forward])
            for row in one.rows
            for mode in ("off", "on", "warn", "bare")
        }

    assert told(made) == told(kept)


@pytest.mark.slow
def test_a_launch_on_a_device_that_is_not_there_is_noted_by_name(build: Build) -> None:
    made = record(build, "opinfo", only="index_add")
    launched = {kernel for row in made.rows for launch in row.off.forward for kernel in made.kernels_of(launch)}
    assert any("indexFunc" in kernel for kernel in launched)
    assert not any(row.crashed for row in made.rows)
