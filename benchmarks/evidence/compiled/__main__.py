"""How well is compiled code judged? Small programs, each with a twin, recorded here and judged for each backend.

    python -m benchmarks.evidence.compiled                  # every program: an hour, less if C++ was compiled before
    python -m benchmarks.evidence.compiled --list second    # the programs of one list
    python -m benchmarks.evidence.compiled --only branch    # programs whose name holds this text
    python -m benchmarks.evidence.compiled --keep traces    # leave the traces in this folder

A program is right for a backend where its varying lines, and no others, get a finding that says so; a clean one where
it gets none. A finding that says ``unknown`` is neither an accusation nor silence. The exit code is 1 unless all are
right.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import torch
import torch._dynamo
import torch._functorch.config
import torch._inductor.config

from benchmarks.evidence import compiled
from benchmarks.evidence.archives import add_modules
from benchmarks.evidence.compiled.making import BACKENDS, PROGRAMS, Twin
from tracer import DeterminismTracer, Trace, judge
from tracer.names import Verdict

#: The archive of the programs.
ARCHIVE = "compiled_programs"
#: Modules of programs, by the list that they belong to.
LISTS = {
    "first": ("modes", "higher_order", "gradients", "others"),
    "second": ("repeated_indices", "windows", "settings_and_parts"),
    "third": ("layers", "training", "whole_programs"),
    "fourth": ("models", "steps", "mixed"),
}
#: Verdicts that accuse.
ACCUSES = (Verdict.NONDETERMINISTIC, Verdict.CONDITIONAL, Verdict.RAISES)


@dataclass(frozen=True)
class Answer:
    """What was said of one program for one backend."""

    twin: Twin
    backend: str
    lines: frozenset[int]
    """Lines of the program that were accused."""
    others: tuple[str, ...]
    """Accusations without a line of it."""
    unknown: tuple[str, ...]
    """What was called unknown."""

    @property
    def accuses(self) -> bool:
        """Is anything accused?"""
        return bool(self.lines or self.others)

    @property
    def verdict_is_right(self) -> bool:
        """Accused where it may vary, silent where it may not."""
        varies = self.twin.varies(self.backend)
        return self.accuses if varies else not self.accuses and not self.unknown

    @property
    def lines_are_right(self) -> bool:
        """The lines that may vary are accused, and no others."""
        return self.lines == self.twin.lines[self.backend]


def recorded(twin: Twin) -> Trace:
    """A recording of the program."""
    torch._dynamo.reset()
    with warnings.catch_warnings(), DeterminismTracer() as tracer:
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        twin.run()
    return tracer.trace


def answers(twin: Twin, trace: Trace) -> Iterator[Answer]:
    """What is said of it for each backend."""
    name = twin.path.name
    for backend in BACKENDS:
        lines, others, unknown = set(), [], []
        for finding in judge(trace, backend=backend).findings:
            label = f"{finding.rule} {finding.op or finding.subject} {finding.location}"
            if finding.verdict is Verdict.UNKNOWN:
                unknown.append(label)
            elif finding.verdict in ACCUSES:
                path, _, line = (finding.location or "").rpartition(":")
                if path == name or path.endswith(f"{ARCHIVE}/{name}"):
                    lines.add(int(line))
                else:
                    others.append(label)
        yield Answer(twin, backend, frozenset(lines), tuple(others), tuple(unknown))


def report_on(said: Iterable[Answer]) -> tuple[list[str], bool]:
    """The figures, line by line, and whether all is right."""
    said = list(said)
    text = []
    for answer in said:
        if not (answer.verdict_is_right and answer.lines_are_right):
            due = sorted(answer.twin.lines[answer.backend])
            text.append(
                f"{answer.twin.name} for {answer.backend}: lines {sorted(answer.lines)}, due {due}"
                f"{''.join(f'; also {other}' for other in answer.others)}"
                f"{''.join(f'; unknown {other}' for other in answer.unknown)}"
            )
    for backend in (*BACKENDS, "both"):
        those = [answer for answer in said if backend in (answer.backend, "both")]
        varying = [answer for answer in those if answer.twin.varies(answer.backend)]
        clean = [answer for answer in those if not answer.twin.varies(answer.backend)]
        accused = sum(answer.verdict_is_right for answer in varying)
        silent = sum(answer.verdict_is_right for answer in clean)
        lines = sum(answer.lines_are_right for answer in varying)
        text.append(
            f"{backend}: accused right {accused} of {len(varying)}, silent right {silent} of {len(clean)},"
            f" lines right {lines} of {len(varying)}"
        )
    wrong = {a.twin.name for a in said if not (a.verdict_is_right and a.lines_are_right)}
    whole = {answer.twin.name for answer in said}
    text.append(f"programs right for every backend: {len(whole - wrong)} of {len(whole)}")
    return text, not wrong


def main() -> int:
    """Run the programs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--list", nargs="+", choices=LISTS, default=list(LISTS), help="lists to run (all)")
    parser.add_argument("--only", nargs="+", default=[""], help="programs whose name holds one of these texts")
    parser.add_argument("--keep", type=Path, help="write the traces into this folder")
    options = parser.parse_args()
    add_modules(ARCHIVE, compiled)
    for subject in (subject for name in options.list for subject in LISTS[name]):
        import_module(f"{compiled.__name__}.{subject}")
    # Code from a cache has fewer lines: an earlier run would change the answers.
    torch._inductor.config.fx_graph_cache = False
    torch._functorch.config.enable_autograd_cache = False
    said: list[Answer] = []
    for name, twin in PROGRAMS.items():
        if not any(text in name for text in options.only):
            continue
        try:
            trace = recorded(twin)
        except Exception as error:
            print(f"{name} failed: {type(error).__name__}: {str(error)[:300]}", flush=True)
            continue
        if options.keep:
            options.keep.mkdir(parents=True, exist_ok=True)
            trace.save(options.keep / f"{name}.trace.json")
        for answer in answers(twin, trace):
            said.append(answer)
            mark = "ok" if answer.verdict_is_right and answer.lines_are_right else "WRONG"
            print(f"{mark:5} {name} {answer.backend}", flush=True)
    text, is_right = report_on(said)
    print("\n".join(text))
    return int(not is_right)


if __name__ == "__main__":
    sys.exit(main())
