"""Any trace at all, for hypothesis."""

from __future__ import annotations

from typing import get_args

from hypothesis import strategies as st

from tracer.names import BlindSpotKind, DataShown, DeterministicMode, KernelLanguage, Phase, RegionInside, Untried
from tracer.trace.file import Trace
from tracer.trace.records import (
    ORIGIN,
    BlindSpot,
    CallGroup,
    CudaDevice,
    DeviceType,
    Environment,
    FactValue,
    Kernel,
    NotKept,
    Number,
    Region,
    TensorForm,
    TorchWord,
    TraceSource,
    Tried,
)

# JSON text is Unicode without lone surrogates.
texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
counts = st.integers(min_value=1, max_value=2**53)
# What the origin of a generator's state can be is checked when a trace is read.
facts = st.dictionaries(texts.filter(ORIGIN.__ne__), st.booleans() | st.integers(-(2**53), 2**53) | texts, max_size=4)
assert set(get_args(FactValue)) == {bool, int, str}

trials = st.builds(
    Tried,
    calls=counts,
    trials=counts,
    varied=counts,
    distinct=counts,
    relative=st.floats(0, 1),
    first=counts,
    untried=st.dictionaries(st.sampled_from(Untried), counts, max_size=2),
)
sizes = st.lists(st.none() | st.integers(0, 2**53), max_size=3).map(tuple)
items = (
    (
        st.none()
        | st.booleans()
        | st.integers(-(2**53), 2**53)
        | st.floats(allow_nan=False, allow_infinity=False)
        | texts
    )
    | st.builds(TensorForm, dtype=texts, shape=sizes, stride=st.none() | sizes, layout=texts, device=texts)
    | (st.builds(TorchWord, texts) | st.builds(DeviceType, texts) | st.builds(Number, texts) | st.builds(NotKept))
)
call_groups = st.builds(
    CallGroup,
    op=texts,
    phase=st.sampled_from(Phase),
    module=texts,
    location=texts,
    function=texts,
    called_from=texts,
    count=counts,
    node=texts,
    given=st.dictionaries(texts, items | st.lists(items, max_size=3), max_size=3),
    facts=facts,
    region=st.none() | texts,
    kernels=st.lists(texts, max_size=2).map(tuple),
    tried=st.none() | trials,
    data=st.dictionaries(st.sampled_from(DataShown), counts, max_size=2),
)
kernels = st.builds(
    Kernel,
    name=texts,
    language=st.sampled_from(KernelLanguage),
    ops=st.lists(texts, max_size=2).map(tuple),
    atomic=st.none() | st.booleans(),
)
regions = st.builds(
    Region,
    id=texts,
    location=texts,
    inside=st.sampled_from(RegionInside),
    options=facts,
    executions=st.integers(0, 2**53),
    kernels=st.lists(kernels, max_size=2).map(tuple),
)
blind_spots = st.builds(BlindSpot, kind=st.sampled_from(BlindSpotKind), detail=texts, location=texts, count=counts)
sources = st.builds(
    TraceSource,
    name=texts,
    rank=st.none() | st.integers(0, 1000),
    world_size=st.none() | st.integers(1, 1000),
    optimizer_steps=st.integers(0, 1000),
    calls=st.integers(0, 2**53),
    partial=texts,
)
environments = st.builds(
    Environment,
    python=texts,
    platform=texts,
    torch=texts,
    cuda=st.none() | texts,
    devices=st.lists(st.builds(CudaDevice, name=texts, capability=texts), max_size=2).map(tuple),
    deterministic_mode=st.sampled_from(DeterministicMode),
    cudnn_benchmark=st.none() | st.booleans(),
    sdp_backends=st.none() | st.lists(texts, max_size=3).map(tuple),
    num_threads=st.none() | st.integers(1, 512),
    torch_seed=st.none() | st.integers(0, 2**64 - 1),
    variables=st.dictionaries(texts, texts, max_size=3),
)
traces = st.builds(
    Trace,
    tracer_version=texts,
    environment=environments,
    calls=st.lists(call_groups, max_size=5).map(tuple),
    blind_spots=st.lists(blind_spots, max_size=3).map(tuple),
    sources=st.lists(sources, max_size=3).map(tuple),
    differing_settings=st.lists(texts, max_size=3).map(tuple),
    regions=st.lists(regions, max_size=2).map(tuple),
    launched=st.lists(kernels, max_size=2).map(tuple),
)
