"""``tracer run --lines``: rows beside the trace, and a script that is as it is without."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

from tests.support.command import Command, tracer_process
from tracer.trace.lines import LineRow, read_lines

SCRIPT = dedent("""\
    import random, sys
    import numpy, torch
    random.seed(0); numpy.random.seed(0); torch.manual_seed(0)
    class Set(torch.utils.data.Dataset):
        def __len__(self): return 8
        def __getitem__(self, i): return torch.full((2,), float(i)) + random.random()
    net = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 1))
    opt = torch.optim.Adam(net.parameters())
    for x in torch.utils.data.DataLoader(Set(), batch_size=2, shuffle=True):
        loss = net(x).sum() * float(numpy.random.rand())
        opt.zero_grad(); loss.backward(); opt.step()
    print(loss.item().hex(), random.random().hex(), numpy.random.rand().hex(), torch.rand(1).item().hex())
    sys.exit(7)
    """)


def test_the_output_and_the_exit_code_are_the_same(tmp_path: Path, tracer: Command) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    plain = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    followed = tracer("run", "--lines", "-o", tmp_path / "a.json", script)
    assert (followed.code, followed.out) == (plain.returncode, plain.stdout)
    records = read_lines(tmp_path / "a.lines")
    calls = [record.call for record in records if isinstance(record, LineRow)]
    assert calls == sorted(calls)
    assert calls[-1] > 100
    assert (tmp_path / "a.values").is_file()


def test_a_killed_run_leaves_the_rows_before(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import os\nx = 1\nif x:\n    os.kill(os.getpid(), 9)\n")
    tracer_process("run", "--lines", "-o", tmp_path / "a.json", script, cwd=tmp_path)
    assert [record.line for record in read_lines(tmp_path / "a.lines") if isinstance(record, LineRow)] == [1, 2, 3]


def test_packages_are_named_with_lines_alone(tmp_path: Path, tracer: Command) -> None:
    script = tmp_path / "train.py"
    script.write_text("import torch\n")
    assert tracer("run", "--library", "numpy", script).code == 2


def test_diff_names_the_line_where_both_recordings_have_lines(tmp_path: Path, tracer: Command) -> None:
    script = tmp_path / "train.py"
    script.write_text("import os, sys, torch\nseed = len(sys.argv[1])\nx = torch.ones(3) * seed\ny = x + 1\n")
    for name, argument in (("a", "one"), ("b", "three")):
        tracer("run", "--lines", "-o", tmp_path / f"{name}.json", script, argument)
    told = json.loads(tracer("diff", "--format", "json", tmp_path / "a.json", tmp_path / "b.json").out)
    (source,) = (source for source in told["sources"] if source["reaches"])
    assert (source["location"].rpartition("/")[2], source["first"], source["second"]) == ("train.py:2", "3", "5")
    said = "".join(tracer("diff", tmp_path / "a.json", tmp_path / "b.json").out.split())
    assert said.startswith(source["location"])
    assert "begintodiffer" in said
