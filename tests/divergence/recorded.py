"""Recordings made by hand: a small program of a loader, a model and an optimizer, bent at one place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import xxhash

from tests.support.build import environment
from tracer.divergence.model import Recording
from tracer.names import Phase
from tracer.trace.values import Group, Header, Mark, ValueKind, Values, ValuesWriter, fold, read_values


def d(*parts: object) -> int:
    """A digest of anything."""
    return xxhash.xxh3_64_intdigest(repr(parts).encode())


class Tensor:
    """What a recorder knows of a tensor: a digest and where its bytes came from."""

    def __init__(self, digest: int, origin: int) -> None:
        self.digest, self.origin = digest, origin


class Run:
    """Writes one recording; what calls give is a digest of what they read, as if a kernel had run."""

    def __init__(self, path: Path, **header: Any) -> None:
        self.writer = ValuesWriter(path, Header(name=path.stem, environment=environment(), **header))
        self.writer.step(0)

    def enter(self, kind: ValueKind, name: str, value: object, position: int = -1) -> Tensor:
        digest = d(value)
        return Tensor(digest, self.writer.entry(kind, name, digest, position))

    def call(
        self,
        op: str,
        *read: Tensor,
        line: int,
        numbers: str = "",
        noise: object = None,
        marks: Mark | None = None,
        generator: tuple[str, object] | None = None,
        keeps: Tensor | None = None,
        phase: Phase = Phase.FORWARD,
        module: str = "",
        seen: object = None,
        region: str = "",
        is_forked: bool = False,
    ) -> Tensor:
        """One call; ``noise``: what of its result its inputs do not say; ``seen``: what it read beside digests."""
        group = self.writer.group(
            Group(
                op=f"aten.{op}",
                phase=phase,
                module=module,
                location=f"train.py:{line}",
                function="step",
                region=region,
                is_forked=is_forked,
            )
        )
        if generator is not None:
            self.writer.draw(generator[0], d(generator[1]))
        inputs = fold([one.digest for one in read] + ([d(seen)] if seen is not None else []))
        output = d(op, inputs, numbers, noise, generator)
        marks = Mark(0) if marks is None else marks
        if Mark.UNWRITTEN in marks:
            output = 0
        index = self.writer.call(
            group,
            inputs,
            output,
            [one.origin for one in read],
            self.writer.numbers(numbers),
            int(marks),
            keeps=None if keeps is None else keeps.origin,
        )
        return Tensor(output, index)

    def values(self) -> Values:
        self.writer.close()
        return read_values(self.writer.path)


Bend = dict[str, Any]


def program(run: Run, steps: int = 4, begin: int = 0, **bend: Any) -> None:
    """A training loop whose every part can be bent: ``bend`` names the part and what it is instead.

    The words are those of the tests: ``kernel=2`` is another result of ``index_put`` in step 2.
    """
    restored = bend.get("restored", {})
    if restored and "weight" not in bend:
        digest = restored["weight"]
        weight = Tensor(digest, run.writer.entry(ValueKind.PARAMETER, "fc.weight", digest))
    else:
        weight = run.enter(ValueKind.PARAMETER, "fc.weight", bend.get("weight", ("w", begin)))
    state = bend.get("seed", restored.get("state", 0))
    renumbered = bend.get("renumbered", 0)
    run.writer.step(begin + renumbered)
    for step in range(begin, begin + steps):
        if "keep" in bend and bend["keep"][0] == step:
            bend["keep"][1].update(weight=weight.digest, state=state)
        batch_value = bend.get("batches", {}).get(step, ("batch", step))
        run.writer.moment(ValueKind.BATCH, "DataLoader at train.py:5", d(batch_value), step)
        batch = run.enter(ValueKind.BATCH, "DataLoader at train.py:5", batch_value, step)
        if bend.get("extra_draw") == step:
            run.call("rand.default", line=8, generator=("cpu", state), numbers="size=[3]")
            state = (state, "rand")
        if bend.get("extra_call") == step:
            run.call("relu.default", batch, line=9)
        hidden = run.call("mm.default", batch, weight, line=10, module="fc")
        size = bend.get("draw_size", {}).get(step, 5)
        run.call("rand.default", line=11, generator=("cpu", state), numbers=f"size=[{size}]")
        state = (state, size)
        if bend.get("moved") == step:
            state = (state, "moved")
        dropped = run.call("native_dropout.default", hidden, line=12, generator=("cpu", state), module="drop")
        state = (state, "dropout")
        noise = "race" if bend.get("kernel") == step else None
        marks = bend.get("marks", {}).get(step, Mark(0))
        put = run.call("index_put_.default", dropped, line=14, noise=noise, marks=marks)
        alpha = bend.get("alpha", {}).get(step, "alpha=1")
        seen = bend.get("seen", {}).get(step)
        loss = run.call("add.Tensor", put, line=15, numbers=alpha, seen=seen)
        if bend.get("empty"):
            fresh = run.call("empty.memory_format", line=16, marks=Mark.UNWRITTEN, numbers="size=[4]")
            bytes_there = bend["empty"] if step == 1 else "zeros"
            run.call("mul.Tensor", fresh, line=17, seen=bytes_there)
        if bend.get("host"):
            run.call("_local_scalar_dense.default", loss, line=18, marks=Mark.TO_HOST)
        grad = run.call("mm.default", loss, weight, line=10, phase=Phase.BACKWARD, module="fc")
        run.writer.moment(ValueKind.PARAMETER, "fc.weight", weight.digest)
        run.writer.moment(ValueKind.GRADIENT, "fc.weight", grad.digest)
        for kind, name in bend.get("states", {}):
            value = bend["states"][kind, name]
            run.writer.moment(kind, name, d(value, step), text=f"{value}")
        lr = bend.get("lr", "0.1")
        if bend.get("lr_from_loss") and step > begin:
            lr = f"{loss.digest % 1000}"
        weight = run.call("add_.Tensor", weight, grad, line=20, phase=Phase.OPTIMIZER, numbers=f"alpha=-{lr}")
        run.writer.step(step + 1 + renumbered)
    if not bend.get("no_end"):
        run.writer.moment(ValueKind.PARAMETER, "fc.weight", weight.digest)


class Recorder:
    """Makes recordings in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.made = folder, 0

    def __call__(self, body: Callable[..., None] = program, trace: Any = None, **bend: Any) -> Recording:
        self.made += 1
        header = bend.pop("header", {})
        run = Run(self.folder / f"run{self.made}.values", **header)
        body(run, **bend)
        return Recording(name=f"run{self.made}", values=run.values(), trace=trace)
