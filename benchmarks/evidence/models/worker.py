"""Takes each step on a CUDA build without a device, and notes of every op what it launched and whether it was refused.

    python -m benchmarks.evidence.models.worker OUT.jsonl MODE FOLDER

``MODE``: ``off``, ``on``, ``bare``, which is ``on`` without a workspace for cuBLAS, or ``triton``, which is ``on`` for
the steps that Triton beside the build matters to. A refused op runs again with the
mode off, so that one step shows all its refusals. Values are real, unlike elsewhere in ``nullgpu``: memory is the
host's, so each op is computed there by the CPU's own kernel, and code that asks for values takes its real way.
Only steps that were recorded in ``FOLDER`` are taken.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.evidence.models.step import Step
from benchmarks.evidence.models.zoo import steps
from benchmarks.evidence.nullgpu.worker import Runtime
from benchmarks.evidence.record_steps import PATIENCE

_CPU = torch.device("cpu")
#: In deterministic mode ``torchvision.ops.roi_align`` takes another route where Triton is installed.
ASKS_TRITON = "torchvision._roi_align_backward"


def on_host(leaf: Any) -> Any:
    """A tensor of the device as one of the CPU over the same memory."""
    if isinstance(leaf, torch.Tensor) and leaf.is_cuda:
        storage = leaf.untyped_storage()
        if not storage.nbytes():
            return torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype)
        memory = (ctypes.c_char * storage.nbytes()).from_address(storage.data_ptr())
        host = torch.frombuffer(memory, dtype=torch.uint8).untyped_storage()
        return torch.empty(0, dtype=leaf.dtype).set_(host, leaf.storage_offset(), leaf.shape, leaf.stride())
    if isinstance(leaf, torch.Generator):
        return None
    return _CPU if isinstance(leaf, torch.device) and leaf.type == "cuda" else leaf


def _batch_norm(x: Any, weight: Any, bias: Any, mean: Any, var: Any, *rest: Any) -> Any:
    return torch.ops.aten.native_batch_norm.default(x, weight, bias, mean, var, *rest)


def _attention(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> Any:
    repeats = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(repeats, 1), value.repeat_interleave(repeats, 1)
    return torch.ops.aten._scaled_dot_product_attention_math.default(query, key, value)[:1]


#: Ops that the CPU has under another name.
ELSEWHERE = {
    "aten.cudnn_batch_norm.default": _batch_norm,
    "aten._scaled_dot_product_efficient_attention.default": _attention,
    "aten._scaled_dot_product_flash_attention.default": _attention,
    "aten._scaled_dot_product_cudnn_attention.default": _attention,
}


def computed(func: Any, args: Any, kwargs: Any, out: Any) -> Any:
    """``out`` with the values that the CPU computes; as it is where the CPU has no such op."""
    returns = func._schema.returns
    if returns and all(one.alias_info is not None and not one.alias_info.is_write for one in returns):
        return out
    if any(
        isinstance(leaf, torch.Tensor) and leaf.layout is not torch.strided
        for leaf in pytree.tree_leaves((args, kwargs, out))
    ):
        return out
    try:
        there = ELSEWHERE.get(str(func), func)(*pytree.tree_map(on_host, args), **pytree.tree_map(on_host, kwargs))
    except Exception:
        return out
    if func._schema.is_mutable:
        return out
    results, spec = pytree.tree_flatten(out)
    for place, (result, host) in enumerate(zip(results, pytree.tree_leaves(there), strict=False)):
        if not isinstance(result, torch.Tensor):
            results[place] = host
        elif not isinstance(host, torch.Tensor) or not result.is_cuda:
            continue
        elif result.shape != host.shape:
            results[place] = host.cuda()
        else:
            on_host(result).copy_(host)
    return pytree.tree_unflatten(results, spec)


class Calls(TorchDispatchMode):
    """Counts calls by op, phase, refusal and what they launched."""

    def __init__(self, runtime: Runtime, mode: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._runtime = runtime
        self._mode = mode
        self.counts: Counter[tuple[str, bool, str, tuple[str, ...]]] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs, error = kwargs or {}, ""
        self._runtime.log(True)
        try:
            out = func(*args, **kwargs)
        except RuntimeError as problem:
            if "eterministic" not in str(problem):
                raise
            error = " ".join(str(problem).split())[:100]
            torch.use_deterministic_algorithms(False)
            out = func(*args, **kwargs)
        names = tuple(sorted(set(self._runtime.names(0))))
        self._runtime.log(False)
        leaves = [leaf for leaf in pytree.tree_leaves((args, kwargs, out)) if isinstance(leaf, torch.Tensor)]
        if any(leaf.is_cuda for leaf in leaves):
            is_backward = torch._C._current_graph_task_id() != -1
            self.counts[str(func), is_backward, error, names] += 1
            if self._mode != "off":
                torch.use_deterministic_algorithms(False)
            out = computed(func, args, kwargs, out)
        torch.use_deterministic_algorithms(self._mode != "off")
        return out


def taken(step: Step, number: int, mode: str, runtime: Runtime) -> dict[str, Any]:
    """What one step did."""
    calls, error = Calls(runtime, mode), ""
    try:
        run = step.prepared("cuda", number)
        torch.use_deterministic_algorithms(mode != "off")
        with calls:
            run()
    except Exception as problem:
        error = f"{type(problem).__name__}: {' '.join(str(problem).split())}"[:200]
    torch.use_deterministic_algorithms(False)
    return {"number": number, "error": error, "calls": [[*key, count] for key, count in calls.counts.items()]}


def work(path: Path, mode: str, recorded: Path) -> None:
    """Take what is not in the file yet."""
    done = {json.loads(line)["number"] for line in path.read_text().splitlines()} if path.exists() else set()
    runtime = Runtime()
    with path.open("a") as stream:
        for number, step in enumerate(steps()):
            trace = recorded / f"{number}.trace.json"
            if number in done or not trace.exists() or (mode == "triton" and ASKS_TRITON not in trace.read_text()):
                continue
            stream.write(json.dumps({"number": number, "error": "died", "calls": []}) + "\n")
            stream.flush()
            signal.alarm(2 * PATIENCE)
            line = taken(step, number, mode, runtime)
            signal.alarm(0)
            stream.write(json.dumps(line) + "\n")
            stream.flush()


def main() -> int:
    """Have children take the steps: libraries that are not there can make a process die."""
    warnings.simplefilter("ignore")
    path, mode, recorded = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    if mode == "bare":
        os.environ.pop("CUBLAS_WORKSPACE_CONFIG", None)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(False)
    for _ in range(60):
        child = os.fork()
        if child == 0:
            torch.cuda._is_in_bad_fork = lambda: False
            try:
                work(path, mode, recorded)
            except BaseException as problem:
                print(type(problem).__name__, problem, flush=True)
                os._exit(1)
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status >= 0:
            return status
    return 1


if __name__ == "__main__":
    sys.exit(main())
