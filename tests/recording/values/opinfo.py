"""Torch's own operator database under digests, in a process of its own: what each call read and wrote, as JSON.

    MALLOC_PERTURB_=85 python -m tests.recording.values.opinfo

Run twice, with other bytes in fresh memory, the digests agree but where unwritten memory was read; and no argument
changes that its overload does not say it writes.
"""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch

from tests.recording.values.reading import rows
from tests.support.samples import UNWRITTEN, dtypes_of, operator_database, samples_of, tensors
from tracer import DeterminismTracer
from tracer.recording.values import digest
from tracer.recording.values.call_values import CallValues
from tracer.trace.values import read_values


def watch_for_untold_writes(untold: set[str]) -> None:
    """Put into ``untold`` each overload that changes an argument of which its plan does not know."""
    before, after = CallValues.before, CallValues.after
    held: dict[int, list[tuple[torch.Tensor, int | None]]] = {}

    def looks(self: CallValues, info: Any, counter: Any, asked: Any, args: Any, kwargs: Any) -> Any:
        reading = before(self, info, counter, asked, args, kwargs)
        if not self._plans[info].written:
            held[id(reading)] = [(tensor, digest(tensor)) for tensor in tensors((args, kwargs))]
        return reading

    def looks_again(self: CallValues, reading: Any, info: Any, *rest: Any) -> None:
        if any(digest(tensor) != was for tensor, was in held.pop(id(reading), ())):
            untold.add(info.name)
        after(self, reading, info, *rest)

    CallValues.before, CallValues.after = looks, looks_again  # type: ignore[method-assign]


def main(samples: int) -> None:
    """Run the first ``samples`` of each entry and dtype, and print what was found."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    untold: set[str] = set()
    watch_for_untold_writes(untold)
    found: dict[str, list[Any]] = {}
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run.values")
        tracer = DeterminismTracer(values=path)
        began: list[tuple[str, int]] = []
        for op in operator_database():
            if op.name in UNWRITTEN:
                continue
            for dtype in dtypes_of(op, "cpu"):
                try:
                    prepared = [(sample.name, sample.prepared()) for sample in samples_of(op, "cpu", dtype, samples)]
                except Exception:
                    continue
                for name, run in prepared:
                    with tracer:
                        assert tracer._session.recorder.values is not None
                        values = tracer._session.recorder.values.calls
                        assert values.file.writer is not None
                        began.append((name, values.file.writer.calls))
                        with contextlib.suppress(Exception):  # a refusal is no business of digests
                            run()
                        failures = values.failures
        calls = rows(read_values(path))
        for (name, first), (_, last) in zip(began, [*began[1:], ("", len(calls))], strict=True):
            found[name] = [[row.op, row.inputs, row.outputs, int(row.mark_bits)] for row in calls[first:last]]
    json.dump({"found": found, "untold": sorted(untold), "failures": failures}, sys.stdout)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
