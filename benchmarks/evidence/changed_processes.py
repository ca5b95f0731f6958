"""Does ``compare`` answer rightly where the two configurations are processes of other kinds?

One process against two ranks (``DistributedDataParallel``, ``fully_shard``, ``parallelize_module``), and one release of
torch against another: each with nothing wrong, which must be rounding or equal, and with faults, which must be found at
their place.

    python -m benchmarks.evidence.changed_processes [--only ranks torch] [--python-b PATH]

``--python-b`` is the interpreter of an environment that has another torch, and what this package depends on.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.layouts import LAYOUT_FAULTS, LAYOUTS, RANKS, LayoutFault

ROOT = Path(__file__).resolve().parents[2]

#: Trained in a dtype; ``fault`` scales one layer.
SINGLE = """
import sys, torch
from torch import nn

dtype, has_fault = getattr(torch, sys.argv[-1]), "fault" in sys.argv
torch.set_num_threads(1)
torch.manual_seed(0)


class Text(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.head = nn.Embedding(61, 48), nn.Linear(48, 61)
        layer = lambda: nn.TransformerEncoderLayer(48, 4, 96, 0.0, "gelu", batch_first=True)
        self.layers = nn.ModuleList(layer() for _ in range(3))

    def forward(self, x):
        x = self.emb(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


model = Text().to(dtype)
factor = 1.001 if dtype is torch.float32 else 1.1
if has_fault:
    model.layers[1].linear1.register_forward_hook(lambda module, inputs, out: out * factor)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
numbers = torch.Generator().manual_seed(1)
for _ in range(2):
    x, y = torch.randint(0, 61, (2, 8, 24), generator=numbers)
    nn.functional.cross_entropy(model(x).flatten(0, 1).float(), y.flatten()).backward()
    optimizer.step()
    optimizer.zero_grad()
"""


class Answer(NamedTuple):
    """What was compared, and what was answered."""

    change: str
    fault: str
    document: dict[str, Any]
    is_right: bool


def _tracer(folder: Path, *line: str, python: tuple[str, ...] = (sys.executable, "-m", "tracer")) -> int:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.run([*python, *line], cwd=folder, env=environment, capture_output=True).returncode


def of_layouts(folder: Path) -> Iterator[Answer]:
    """One process against two ranks, which joined recordings of theirs answer."""
    (folder / "train.py").write_text(RANKS)
    for name, options in {"one": (), "shaken": ("--shake", "1")}.items():
        _tracer(folder, "run", "--magnitudes", *options, "-o", f"{name}.json", "train.py", "one", "")
    launch = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "tracer")
    clean = [LayoutFault(layout, "", "", "") for layout in LAYOUTS]
    for layout, fault, place, kind in (*clean, *LAYOUT_FAULTS):
        name = f"{layout}-{fault}.json"
        run = ("run", "--magnitudes", "--rows-of", "one.json", "-o", name, "train.py", layout, fault)
        _tracer(folder, *run, python=launch)
        answer = subprocess.run(
            [
                sys.executable,
                "-m",
                "tracer",
                "diff",
                "one.json",
                name,
                "--yardstick",
                "shaken.json",
                "--format",
                "json",
            ],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
        )
        document = json.loads(answer.stdout)
        first = document["first"] or {"place": "", "kind": ""}
        is_right = (first["place"], first["kind"]) == (place, kind) if fault else document["verdict"] == "rounding"
        yield Answer(f"one process, {layout} over two ranks", fault, document, is_right)


def of_releases(folder: Path, python: str) -> Iterator[Answer]:
    """This torch against that of another interpreter."""
    (folder / "single.py").write_text(SINGLE)
    for dtype in ("float32", "bfloat16"):
        for fault in ("", "fault"):
            output = folder / f"{dtype}{fault}"
            shutil.rmtree(output, ignore_errors=True)
            line = ("compare", "--python-b", python, *(["--b", fault] if fault else []), "-o", str(output))
            _tracer(folder, *line, "--format", "json", "single.py", dtype)
            document = json.loads((output / "compare.json").read_text())
            first = document["first"] or {"module": ""}
            is_right = document["verdict"] in ("equal", "rounding")
            if fault:
                is_right = document["verdict"] == "significant" and first["module"].endswith("layers.1.linear1")
            yield Answer(f"this torch, another one, {dtype}", fault, document, is_right)


def main() -> int:
    """Print every change; 1 where an answer is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=("ranks", "torch"), default=("ranks", "torch"))
    parser.add_argument("--python-b", default="", help="another environment's interpreter, for torch")
    asked = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        answers = of_layouts(Path(folder)) if "ranks" in asked.only else iter(())
        releases = of_releases(Path(folder), asked.python_b) if "torch" in asked.only and asked.python_b else iter(())
        for several in (answers, releases):
            for change, fault, document, is_right in several:
                wrong += not is_right
                largest, first = document["largest"], document["first"]
                ratio = 0.0 if largest is None or largest["ratio"] is None else largest["ratio"]
                place = "" if first is None else f"{first['place']} ({first['kind']})"
                print(
                    f"{change:40} {fault or 'clean':12} {document['verdict']:12} {ratio:10.1f}"
                    f" of {document['places']:4} places {place} {'' if is_right else 'WRONG'}",
                    flush=True,
                )
    print(f"wrong: {wrong}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
