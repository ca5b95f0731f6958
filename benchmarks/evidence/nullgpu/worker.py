"""Runs in a process of the CUDA build: each sample in every mode, one line of JSON a sample.

    python -m benchmarks.evidence.nullgpu.worker OUT.jsonl SUITE [--only TEXT]

Libraries that are not there can make a process die, so a child does the work: when it dies, the sample that did it is
noted and another child goes on behind it. Without a workspace for cuBLAS, where a release asks for one, all samples run
again, into ``OUT.bare.jsonl``. ``FINISHED`` on standard output says that all samples are in the files.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import sys
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.evidence.nullgpu.suites import fingerprint, suite_of
from tests.support.samples import Sample, operator_database, seed_everything, tensors

_WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"
_WITH_WORKSPACE = ("off", "on", "warn")
_RUNTIMES = {"11": "libcudart.so.11.0", "12": "libcudart.so.12", "13": "libcudart.so.13"}
_ERROR_LENGTH = 240
#: A child that dies more often than this has another fault than a library that is not there.
_DEATHS = 200


class Runtime:
    """The empty CUDA runtime's log of what was launched."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(_RUNTIMES[str(torch.version.cuda).partition(".")[0]])
        self._library.nullgpu_name.restype = ctypes.c_char_p

    def log(self, on: bool) -> None:
        """Start an empty log, or stop it."""
        self._library.nullgpu_log(int(on))

    def count(self) -> int:
        """Launches since the log was started."""
        return int(self._library.nullgpu_count())

    def names(self, begin: int) -> list[str]:
        """What was launched from the ``begin``-th launch on."""
        return [self._library.nullgpu_name(place).decode() for place in range(begin, min(self.count(), 1 << 16))]


class Launches(TorchDispatchMode):
    """Each op that is dispatched to the device, with what its call launched."""

    def __init__(self, runtime: Runtime) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._runtime = runtime
        self.seen: list[tuple[str, list[str]]] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        begin = self._runtime.count()
        given = pytree.tree_leaves((args, kwargs))
        is_host = {leaf.device.type for leaf in given if isinstance(leaf, torch.Tensor)} == {"cpu"}
        seen: tuple[str, list[str]] = (str(func), [])
        if not is_host:
            self.seen.append(seen)
        try:
            return func(*args, **(kwargs or {}))
        finally:
            seen[1].extend(self._runtime.names(begin))


def on_device(tree: Any) -> Any:
    """``tree`` with its tensors on the device; a tensor that stands in two places stays one."""
    made: dict[int, torch.Tensor] = {}

    def moved(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            if id(leaf) not in made:
                made[id(leaf)] = leaf.detach().cuda().clone().requires_grad_(leaf.requires_grad)
            return made[id(leaf)]
        if isinstance(leaf, torch.Generator):
            return torch.Generator("cuda")
        is_host = (isinstance(leaf, torch.device) and leaf.type == "cpu") or (isinstance(leaf, str) and leaf == "cpu")
        return torch.device("cuda") if is_host else leaf

    return pytree.tree_map(moved, tree)


def run(sample: Sample, mode: str, runtime: Runtime) -> dict[str, Any]:
    """What one run in one mode did."""
    out: dict[str, Any] = {"forward": [], "backward": [], "error": "", "warned": []}
    try:
        args, kwargs = on_device((sample.args, sample.kwargs))
    except Exception as problem:
        return {**out, "error": _told("preparing", problem)}
    seed_everything(1)
    torch.use_deterministic_algorithms(mode != "off", warn_only=mode == "warn")
    phase, launches = "forward", Launches(runtime)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        runtime.log(True)
        try:
            with launches:
                result = sample.finish(sample.function(*args, **kwargs))
            out["forward"] = launches.seen
            leaves = [t for t in tensors((args, kwargs)) if t.requires_grad]
            roots = [t for t in tensors(result) if t.requires_grad]
            phase, launches = "backward", Launches(runtime)
            if roots and leaves:
                seeds = [torch.randn_like(t) for t in roots]
                with launches:
                    torch.autograd.grad(roots, leaves, seeds, allow_unused=True)
        except Exception as problem:
            out["error"] = _told(phase, problem)
        out[phase] = launches.seen
        runtime.log(False)
    torch.use_deterministic_algorithms(False)
    out["warned"] = sorted({str(w.message)[:120] for w in caught if "eterministic" in str(w.message)})
    return out


def _told(phase: str, problem: BaseException) -> str:
    return f"{phase}: {type(problem).__name__}: {' '.join(str(problem).split())}"[:_ERROR_LENGTH]


def checks_workspace() -> bool:
    """Whether this release refuses cuBLAS without a workspace, which it looks for once a process: so one of its own."""
    child = os.fork()
    if child == 0:
        torch.cuda._is_in_bad_fork = lambda: False
        os.environ.pop(_WORKSPACE, None)
        torch.use_deterministic_algorithms(True)
        square = torch.ones(3, 3, device="cuda")
        try:
            square.mm(square)
        except RuntimeError:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


def work_in_children(path: Path, suite: str, only: str, modes: tuple[str, ...]) -> None:
    """Have children run the suite until one comes to its end."""
    # Calls that were made up are made once, not once for each child; the database is too large for that.
    made = None if suite == "opinfo" else list(suite_of(suite))
    for _ in range(_DEATHS):
        child = os.fork()
        if child == 0:
            # torch forbids a forked child a device whose state it cannot have; this device has none.
            torch.cuda._is_in_bad_fork = lambda: False
            if modes != _WITH_WORKSPACE:
                os.environ.pop(_WORKSPACE, None)
            try:
                work(path, (one for one in made or suite_of(suite) if only in one.entry), modes)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status == 0:
            return
        if status > 0:
            sys.exit(status)
    sys.exit(f"the process died {_DEATHS} times")


def work(path: Path, samples: Iterator[Sample], modes: tuple[str, ...]) -> None:
    """Run what is not in the file yet."""
    runtime, now = Runtime(), path.with_suffix(".now")
    done = {tuple(json.loads(line)["key"]) for line in path.read_text().splitlines()} if path.exists() else set()
    with path.open("a") as stream:
        died = json.loads(now.read_text()) if now.exists() and now.read_text() else None
        if died is not None and tuple(died["key"]) not in done:
            stream.write(json.dumps(died) + "\n")
            stream.flush()
            done.add(tuple(died["key"]))
        for sample in samples:
            key = (sample.entry, sample.number, sample.dtype)
            if key in done:
                continue
            head = {"key": key, "entry": key[0], "number": key[1], "dtype": key[2], "inputs": fingerprint(sample)}
            now.write_text(json.dumps(head))
            outcomes = {mode: run(sample, mode, runtime) for mode in modes}
            stream.write(json.dumps({**head, **outcomes}) + "\n")
            stream.flush()
    now.write_text("")


def main() -> int:
    """Run a suite, or go on with it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("path", type=Path)
    parser.add_argument("suite")
    parser.add_argument("--only", default="", help="entries whose name holds this text")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(False)  # loads Inductor, which takes longer than most children live
    if options.suite == "opinfo":
        operator_database()  # so does this
    work_in_children(options.path, options.suite, options.only, _WITH_WORKSPACE)
    if checks_workspace():
        work_in_children(options.path.with_suffix(".bare.jsonl"), options.suite, options.only, ("bare",))
    print(f"FINISHED torch={torch.__version__} cuda={torch.version.cuda}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
