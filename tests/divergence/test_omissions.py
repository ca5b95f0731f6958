"""What a resumed training goes on without: each thing at the line that gave it, and nothing that merely follows."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent
from types import ModuleType
from typing import NamedTuple

import pytest

from tracer import DeterminismTracer
from tracer.divergence.cut_lines import RunLines
from tracer.divergence.lines import read_run
from tracer.divergence.model import read_recording
from tracer.divergence.omissions import Omission, ResumedRun, hold_against

#: Four epochs of two steps; the checkpoint that a run resumes with was written after the second.
LOOP = """
import random
import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
random.seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.AdamW(net.parameters(), 0.01)
data = torch.randn(8, 4)
{setup}
first = 0
if RESUMES:
    held = torch.load("1.pt", weights_only=False)
    net.load_state_dict(held["net"])
    optimizer.load_state_dict(held["optimizer"])
    first = 2
{restore}
for epoch in range(first, 4):
    for i in range(0, 8, 4):
        x = data[i : i + 4]
{before}
        loss = net(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
{after}
    state = {{"net": net.state_dict(), "optimizer": optimizer.state_dict()}}
{saves}
    torch.save(state, f"{{epoch}}.pt")
"""


class Resumes(NamedTuple):
    """Runs programs in ``folder``, whole and then resumed, and holds the two against each other."""

    folder: Path

    def __call__(self, source: str, stopped_after: int = 4) -> ResumedRun:
        file = self.folder / "train.py"
        file.write_text(source, encoding="utf-8")
        paths = []
        for resumes in (False, True):
            program = ModuleType("program")
            vars(program).update(RESUMES=resumes, __file__=str(file))
            with DeterminismTracer(lines=True) as tracer:
                exec(compile(source, str(file), "exec"), vars(program))
            paths.append(self.folder / f"{resumes}.json")
            tracer.save(paths[-1])
        whole, rest = (RunLines(read_run(path)[""]) for path in paths)
        return hold_against(*map(read_recording, paths), stopped_after, (whole, rest, whole))

    def loop(self, **parts: str) -> ResumedRun:
        """What is said of the loop; what ``parts`` leave out does nothing."""
        depths = {"setup": 0, "restore": 4, "before": 8, "after": 4, "saves": 4}
        texts = {name: indent(parts.get(name, "pass"), " " * depth) for name, depth in depths.items()}
        return self(LOOP.format(**texts))

    def line(self, omission: Omission) -> str:
        """The text of the line at which it stands."""
        return (self.folder / "train.py").read_text().splitlines()[int(omission.location.rpartition(":")[2]) - 1]


@pytest.fixture
def resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Resumes:
    monkeypatch.chdir(tmp_path)
    return Resumes(tmp_path)


PATIENCE = """\
if loss.item() < best - 1.0:
    best = loss.item()
else:
    optimizer.param_groups[0]["lr"] *= 0.5"""
AUGMENT = "if random.random() < 0.5:\n    x = x.flip(0) * 2"
WARMS = """\
class Warm:
    def __init__(self):
        self.heat = 4.0
    def ended(self):
        self.heat /= 2
class Warmed:
    def __init__(self, warm):
        self.warm = warm
    def scaled(self, x):
        return x / self.warm.heat
warm = Warm()
warmed = Warmed(warm)"""
STOPS = """\
class Stop:
    def __init__(self):
        self.best, self.wait = 9.0, 0
    def seen(self, value):
        self.wait = 0 if value < self.best - 1.0 else self.wait + 1
        self.best = min(self.best, value)
        return self.wait >= 2
stop = Stop()"""
DRAWS_ITSELF = """\
class Drawing(torch.utils.data.Dataset):
    def __init__(self):
        self.rng = np.random.RandomState(3)
    def __len__(self):
        return 4
    def __getitem__(self, index):
        return torch.full((4,), index + self.rng.rand()).float()
ds = Drawing()
loader = torch.utils.data.DataLoader(ds, batch_size=4)"""
DRAWS_NOISE = """\
class Noise:
    def __init__(self):
        self.source = {source}
    def __call__(self, x):
        return x * self.source.{draw}()
noise = Noise()"""
#: What the loop does, and of each thing that is lost: the line that is named, and words of what is said.
LOST: dict[str, tuple[dict[str, str], list[tuple[str, str]]]] = {
    "a best loss that acts through the learning rate": (
        {"setup": "best = 9.0", "after": PATIENCE},
        [("best = 9.0", "`best` is 9.0")],
    ),
    "a shuffled list": (
        {"setup": "order = [1.0, 2.0, 3.0]", "before": "x = x * order[0]", "after": "order.append(order.pop(0))"},
        [("order = [1.0", "`order` was not restored")],
    ),
    "random behind a branch": ({"before": AUGMENT}, [("if random.random()", "Python's `random`")]),
    "a generator of NumPy's own": (
        {"setup": "draws = np.random.default_rng(0)", "before": "x = x * draws.random()"},
        [("draws = np.random", "`draws`")],
    ),
    "a rate that is overwritten after it was loaded": (
        {"after": 'optimizer.param_groups[0]["lr"] *= 0.5', "restore": 'optimizer.param_groups[0]["lr"] = 0.01'},
        [('optimizer.param_groups[0]["lr"] = 0.01', "lr of group 0 is 0.01")],
    ),
    "moments saved in fewer bits": (
        {
            "saves": 'kept = state["optimizer"]["state"].items()\n'
            'kept = {n: {**each, "exp_avg": each["exp_avg"].bfloat16()} for n, each in kept}\n'
            'state["optimizer"]["state"] = kept'
        },
        [("optimizer.load_state_dict(", "though this line loads it")],
    ),
    "what is thawed at one moment": (
        {"setup": "net[0].requires_grad_(False)", "after": "if epoch == 1:\n    net[0].requires_grad_(True)"},
        [("net[0].requires_grad_(True)", "`requires_grad` is False")],
    ),
    "two things": (
        {
            "setup": "count = 0",
            "before": AUGMENT,
            "after": "count += 1\nloss = None",
            "saves": "net[0].bias.data += count",
        },
        [("count = 0", "`count` is 0, and 2"), ("if random.random()", "Python's `random`")],
    ),
    "a key of a dictionary": (
        {"setup": "kept = {'seen': 0}", "before": "kept['seen'] += 1\nx = x * kept['seen']"},
        [("kept = {", '`kept["seen"]` is 0, and 4')],
    ),
    "where a generator function has come to": (
        {"setup": "def scales():\n    yield from range(1, 99)\nscale = scales()", "before": "x = x * next(scale)"},
        [("x = x * next(scale)", "`scales()` begins anew")],
    ),
    "what eval() has set": (
        {
            "setup": "net[1] = nn.Sequential(nn.Tanh(), nn.Dropout(0.5))",
            "after": "if epoch == 0:\n    net[1].eval()",
            "saves": 'state["torch"] = torch.get_rng_state()',
            "restore": 'torch.set_rng_state(held["torch"])',
        },
        [("loss = net(x)", "`net` differs in more than")],
    ),
    "a round of the loop": ({"restore": "first = 1"}, [("for epoch in range(first", "`epoch` is 1, and 2")]),
    "a scheduler that a lambda makes": (
        {
            "setup": "rates = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: 1 / (1 + n))",
            "after": "rates.step()",
        },
        [("rates = torch", "`rates` (LambdaLR) is 2 steps behind")],
    ),
    "the second of two schedulers of a class": (
        {
            "setup": "one = torch.optim.lr_scheduler.StepLR(optimizer, 1)\n"
            "two = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.5)",
            "after": "one.step()\ntwo.step()",
            "saves": 'state["one"] = one.state_dict()',
            "restore": 'one.load_state_dict(held["one"])',
        },
        [("two = torch", "`two` (StepLR) is 2 steps behind")],
    ),
    "an average in a dictionary": (
        {
            "setup": "mean = {name: each.clone() for name, each in net.state_dict().items()}",
            "after": "for name, each in net.state_dict().items():\n    mean[name].mul_(0.9).add_(each, alpha=0.1)",
        },
        [("mean = {name", "`mean` was not restored")],
    ),
    "what ends the training early": (
        {"setup": STOPS, "after": "if stop.seen(loss.item()):\n    break"},
        [("stop = Stop()", "`stop.best` is 9.0"), ("stop = Stop()", "`stop.wait` is 0, and 1")],
    ),
    "what is not seen whole": (
        {"setup": "import itertools\nkinds = itertools.cycle([1.0, 2.0, 3.0])", "before": "x = x * next(kinds)"},
        [("x = x * next(kinds)", "`kinds`, of which nothing is seen")],
    ),
    "what a loader without workers brings in no more": (
        {
            "setup": "loader = torch.utils.data.DataLoader(data, batch_size=4)\nscale = [1.0]",
            "before": "x = next(iter(loader)) * scale[0]",
            "after": "scale[0] *= 0.5",
        },
        [("scale = [1.0]", "`scale` was not restored")],
    ),
    "what a data set draws from": (
        {"setup": DRAWS_ITSELF, "before": "x = next(iter(loader))"},
        [("ds = Drawing()", "`ds.rng` was not restored")],
    ),
}


@pytest.mark.parametrize("case", LOST)
def test_what_was_lost_is_named_at_its_line_with_what_to_do(resumed: Resumes, case: str) -> None:
    parts, expected = LOST[case]
    found = resumed.loop(**parts)
    said = [(resumed.line(each), each.what) for each in found.not_restored]
    assert len(said) == len(expected), said
    for text, words in expected:
        assert any(text in line and words in what for line, what in said), said
    assert all("`" in each.remedy or "Leave this line out" in each.remedy for each in found.not_restored)


#: Loops whose resumed runs are right, though they hold something else.
RIGHT = {
    "nothing but the training": {},
    "a meter that only prints": {"setup": "total, n = 0.0, 0", "after": "total = total * 0.5 + loss.item()"},
    "what each round seeds": {"before": "random.seed(epoch)\nx = x * random.random()"},
    "a best loss that is given back": {
        "setup": "best = 9.0",
        "after": PATIENCE,
        "saves": 'state["best"] = best',
        "restore": 'best = held["best"]',
    },
    "a generator that is given back": {
        "before": AUGMENT,
        "saves": 'state["random"] = random.getstate()',
        "restore": 'random.setstate(held["random"])',
    },
    "a number that is made of the epoch": {"before": "scale = 1 + epoch\nx = x * scale"},
}


@pytest.mark.parametrize("case", RIGHT)
def test_a_right_one_is_not_accused(resumed: Resumes, case: str) -> None:
    found = resumed.loop(**RIGHT[case])
    assert (found.step, found.agrees) == (4, True), found.not_restored
    assert "parameters" in found.restored


def test_what_was_restored_names_generators_and_counters(resumed: Resumes) -> None:
    parts = RIGHT["a generator that is given back"] | {"setup": "count = 0", "after": "count += 1"}
    parts["restore"] += "\ncount = 2"
    found = resumed.loop(**parts)
    assert {"Python's `random`", "`count`"} <= {*found.restored}
    assert "NumPy's generator" not in found.restored


ACCUMULATES = """
import torch
torch.manual_seed(0)
net = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
micro = 0
if RESUMES:
    held = torch.load("4.pt")
    net.load_state_dict(held["net"])
    micro = held["micro"]
while micro < 12:
    net(torch.full((2, 4), micro + 1.0)).square().mean().backward()
    micro += 1
    if micro % 3 == 0:
        optimizer.step()
        optimizer.zero_grad()
    if micro % {every} == 0:
        torch.save(dict(net=net.state_dict(), micro=micro), f"{{micro}}.pt")
"""


def test_gradients_that_are_lost_between_micro_batches_are_named(resumed: Resumes) -> None:
    (omission,) = resumed(ACCUMULATES.format(every=4), 1).not_restored
    assert omission.location == "train.py:12"
    assert "2 backward passes before the first update, and 3 in the whole run" in omission.what


def test_a_checkpoint_at_the_end_of_a_window_loses_none(resumed: Resumes) -> None:
    source = ACCUMULATES.format(every=3).replace('"4.pt"', '"6.pt"')
    assert resumed(source, 2).agrees


IN_A_CLASS = """
import torch
class Trainer:
    def __init__(self, model, data):
        self.model, self.data = model, data
        self.opt = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
        self.step, self.epoch, self.done = 0, 0, 0
    def batches(self):
        order = torch.randperm(8, generator=torch.Generator().manual_seed(self.epoch)).tolist()
        for n in range(self.done, 4):
            yield self.data[order[2 * n : 2 * n + 2]]
    def load(self, held):
        self.model.load_state_dict(held["model"])
        self.opt.load_state_dict(held["opt"])
        {restore}
    def train_step(self, x):
        self.opt.zero_grad()
        self.model(x).square().mean().backward()
        self.opt.step()
    def fit(self):
        while self.epoch < 3:
            for x in self.batches():
                self.train_step(x)
                self.step, self.done = self.step + 1, self.done + 1
                held = dict(model=self.model.state_dict(), opt=self.opt.state_dict())
                torch.save(held | dict(step=self.step, epoch=self.epoch, done=self.done), f"{{self.step}}.pt")
            self.epoch, self.done = self.epoch + 1, 0
torch.manual_seed(0)
trainer = Trainer(torch.nn.Linear(4, 1), torch.randn(8, 4))
if RESUMES:
    trainer.load(torch.load("6.pt"))
trainer.fit()
"""


@pytest.mark.parametrize("lost", ["", "step", "epoch", "done"])
def test_in_a_trainer_whose_batches_a_generator_gives_the_attribute_is_named(resumed: Resumes, lost: str) -> None:
    kept = (f'self.{name} = held["{name}"]' for name in ("step", "epoch", "done") if name != lost)
    found = resumed(IN_A_CLASS.format(restore="; ".join(kept)), 6)
    assert [each.what.partition(" is ")[0] for each in found.not_restored] == [f"`self.{lost}`" for _ in lost[:1]]
    assert {each.location for each in found.not_restored} <= {"train.py:7"}


TWO = """
import torch
torch.manual_seed(0)
makes, judges = torch.nn.Linear(4, 4), torch.nn.Linear(4, 1)
opt_m = torch.optim.Adam(makes.parameters(), 0.1)
opt_j = torch.optim.Adam(judges.parameters(), 0.2)
def update(loss, optimizer):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
first = 0
if RESUMES:
    held = torch.load("1.pt")
    makes.load_state_dict(held["makes"])
    judges.load_state_dict(held["judges"])
    {restore}
    first = 2
for n in range(first, 4):
    x = torch.full((2, 4), n + 1.0)
    {first}
    {second}
    state = dict(makes=makes.state_dict(), judges=judges.state_dict(), m=opt_m.state_dict(), j=opt_j.state_dict())
    torch.save(state, f"{{n}}.pt")
"""
DIRECT = (
    "opt_j.zero_grad(); judges(makes(x).detach()).mean().backward(); opt_j.step()",
    "opt_m.zero_grad(); judges(makes(x)).square().mean().backward(); opt_m.step()",
)
BY_A_FUNCTION = (
    "update(judges(makes(x).detach()).mean(), opt_j)",
    "update(judges(makes(x)).square().mean(), optimizer=opt_m)",
)


@pytest.mark.parametrize("lost", ["m", "j"])
@pytest.mark.parametrize("steps", [DIRECT[::-1], BY_A_FUNCTION], ids=["direct", "by a function"])
def test_of_two_optimizers_the_one_whose_states_are_lost_is_named(
    resumed: Resumes, lost: str, steps: tuple[str, str]
) -> None:
    kept = "j" if lost == "m" else "m"
    source = TWO.format(restore=f'opt_{kept}.load_state_dict(held["{kept}"])', first=steps[0], second=steps[1])
    found = resumed(source)
    (omission,) = found.not_restored
    assert (found.step, omission.location) == (4, f"train.py:{5 if lost == 'm' else 6}")
    assert f"`opt_{lost}`" in omission.what
    assert f"opt_{lost}.load_state_dict" in omission.remedy
    assert f"the states of the optimizer `opt_{kept}`" in found.restored
    assert f"the states of the optimizer `opt_{lost}`" not in found.restored


SCALED = """
import torch
from torch.utils.data import DataLoader
torch.manual_seed(0)
net = torch.nn.Linear(1, 1)
draws = torch.Generator().manual_seed(1)
loader = DataLoader(torch.arange(8.0)[:, None], batch_size=4, shuffle=True, generator=draws)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127, backoff_factor=2.0**-30)
count, first = 0, 0
if RESUMES:
    held = torch.load("1.pt")
    net.load_state_dict(held["net"])
    optimizer.load_state_dict(held["optimizer"])
    {restore}
    first = 2
for epoch in range(first, 4):
    for x in loader:
        optimizer.zero_grad()
        loss = (net(x) * 9.0).square().mean() * (1 + count)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        count += 1
    state = dict(net=net.state_dict(), optimizer=optimizer.state_dict(), scaler=scaler.state_dict())
    torch.save(state | dict(draws=draws.get_state(), count=count), f"{{epoch}}.pt")
"""
OF_SCALED = {
    "scaler": 'scaler.load_state_dict(held["scaler"])',
    "draws": 'draws.set_state(held["draws"])',
    "count": 'count = held["count"]',
}


@pytest.mark.parametrize("kept", [["draws", "count"], ["count"], ["draws"], []], ids="-".join)
def test_a_scaler_whose_updates_are_skipped_anew_hides_nothing_that_came_before(
    resumed: Resumes, kept: list[str]
) -> None:
    source = SCALED.format(restore="; ".join(OF_SCALED[name] for name in kept) or "pass")
    found = resumed(source, 3)
    words = " ".join(each.what + each.remedy for each in found.not_restored)
    named = {name for name in OF_SCALED if f"`{name}`" in words or f'"{name}"' in words}
    assert named == OF_SCALED.keys() - set(kept)
    assert len(found.not_restored) == len(named)


REPLAYS = """
import torch
torch.manual_seed(0)
net = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
class Memory:
    def __init__(self):
        self.kept = []
    def add(self, x):
        self.kept.append(x)
memory = Memory()
first = 0
if RESUMES:
    held = torch.load("3.pt")
    net.load_state_dict(held["net"])
    first = 4
for n in range(first, 7):
    memory.add(torch.full((2,), n + 1.0) / 7)
    if len(memory.kept) >= 4:
        optimizer.zero_grad()
        net(torch.stack(memory.kept)).square().mean().backward()
        optimizer.step()
    torch.save(dict(net=net.state_dict()), f"{n}.pt")
"""


def test_a_resumed_run_that_makes_no_step_departs_by_what_it_waits_for(resumed: Resumes) -> None:
    found = resumed(REPLAYS, 1)
    (omission,) = found.not_restored
    assert (found.departs, found.steps[1], omission.location) == (1, 0, "train.py:11")
    assert "`memory.kept` was not restored" in omission.what
    assert "makes no step" in omission.what


def test_a_resumed_run_whose_loop_begins_at_its_end_departs_there(resumed: Resumes) -> None:
    found = resumed.loop(restore="first = 4")
    (omission,) = found.not_restored
    assert (found.departs, found.steps) == (4, (8, 0))
    assert "for epoch in range(" in resumed.line(omission)
    assert "makes no step" in omission.what


IN_FUNCTIONS = """
import torch
def load(path):
    return torch.load(path, weights_only=False)
def save(state, path):
    torch.save(state, path)
def main():
    torch.manual_seed(0)
    net = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
    scale, first = [1.0], 0
    if RESUMES:
        held = load("1.pt")
        net.load_state_dict(held["net"])
        {restore}
        first = 2
    for n in range(first, 4):
        optimizer.zero_grad()
        (net(torch.ones(2, 4)) * scale[0]).square().mean().backward()
        optimizer.step()
        scale[0] += 1.0
        save(dict(net=net.state_dict(), optimizer=optimizer.state_dict(), scale=scale), f"{{n}}.pt")
main()
"""


@pytest.mark.parametrize(
    ("kept", "lost"),
    [('scale = held["scale"]', 'optimizer.load_state_dict(held["optimizer"])')]
    + [('optimizer.load_state_dict(held["optimizer"])', 'scale = held["scale"]')],
)
def test_what_to_paste_stands_where_its_names_are_known(resumed: Resumes, kept: str, lost: str) -> None:
    (omission,) = resumed(IN_FUNCTIONS.format(restore=kept), 2).not_restored
    assert omission.remedy.endswith(f"(train.py:22), and give it back (after train.py:13): `{lost}`.")


def test_what_is_made_only_after_the_checkpoint_is_read_is_given_back_where_the_run_resumes(resumed: Resumes) -> None:
    late = "    pass\nmean = net[0].weight.detach().clone()"
    parts = {"restore": "first = 2", "after": "mean.mul_(0.9).add_(net[0].weight.detach())"}
    source = LOOP.replace("{restore}", late)
    depths = {"setup": 0, "before": 8, "after": 4, "saves": 4}
    texts = {name: " " * depth + parts.get(name, "pass") for name, depth in depths.items()}
    (omission,) = resumed(source.format(**texts)).not_restored
    assert "`mean` was not restored" in omission.what
    assert "where it resumes)" in omission.remedy


@pytest.mark.parametrize("lost", ["makes", "judges"])
def test_of_two_models_the_one_that_is_lost_is_named(resumed: Resumes, lost: str) -> None:
    restore = 'opt_j.load_state_dict(held["j"]); opt_m.load_state_dict(held["m"])'
    source = TWO.format(restore=restore, first=DIRECT[0], second=DIRECT[1])
    source = source.replace(f'{lost}.load_state_dict(held["{lost}"])', "pass")
    found = resumed(source)
    (omission,) = found.not_restored
    assert found.step == 4
    assert f"the parameters of `{lost}` differ" in omission.what
    assert f'{lost}.load_state_dict(held["{lost}"])' in omission.remedy


def test_a_rate_that_changes_while_updates_are_skipped_follows_from_the_scaler(resumed: Resumes) -> None:
    kept = 'draws.set_state(held["draws"]); count = held["count"]; rates.load_state_dict(held["rates"])'
    source = SCALED.format(restore=kept)
    source = source.replace("count, first", "rates = torch.optim.lr_scheduler.StepLR(optimizer, 1)\ncount, first")
    source = source.replace("    state = dict(", "    rates.step()\n    state = dict(rates=rates.state_dict(), ")
    (omission,) = resumed(source, 3).not_restored
    assert "the scaler's fields differ" in omission.what


@pytest.mark.parametrize("gives", ["return iter(", "yield from ("])
def test_what_is_made_of_a_lost_counter_before_it_is_used_follows(resumed: Resumes, gives: str) -> None:
    orders = """\
class Orders(torch.utils.data.Sampler):
    def __init__(self):
        self.epoch = 0
    def __len__(self):
        return 8
    def __iter__(self):
        return iter(torch.randperm(8, generator=torch.Generator().manual_seed(self.epoch)).tolist())
    def set_epoch(self, epoch):
        self.epoch = epoch
sampler = Orders()
loader = torch.utils.data.DataLoader(data, batch_size=4, sampler=sampler)
turn = 0"""
    before = "if i == 0:\n    sampler.set_epoch(turn)\n    turn += 1\n    batches = iter(loader)\nx = next(batches)"
    orders = orders.replace("return iter(", gives)
    found = resumed.loop(setup=orders, before=before)
    assert [each.what.partition(",")[0] for each in found.not_restored] == ["`turn` is 0"]


@pytest.mark.parametrize(
    ("source", "draw", "saved", "given"),
    [
        ("np.random.default_rng(7)", "random", "bit_generator.state", "bit_generator.state = held"),
        ("np.random.RandomState(7)", "rand", "get_state()", "set_state(held"),
        ("random.Random(7)", "random", "getstate()", "setstate(held"),
    ],
)
def test_a_generator_that_an_object_keeps_is_saved_by_the_methods_that_it_has(
    resumed: Resumes, source: str, draw: str, saved: str, given: str
) -> None:
    setup = DRAWS_NOISE.format(source=source, draw=draw)
    (omission,) = resumed.loop(setup=setup, before="x = noise(x)").not_restored
    assert f"noise.source.{saved}`" in omission.remedy
    assert f"noise.source.{given}" in omission.remedy


WRAPPED_OPTIMIZER = """
import torch
class WarmUp:
    def __init__(self, inner):
        self.inner, self.rounds = inner, 0
    def step(self):
        self.rounds += 1
        for group in self.inner.param_groups:
            group["lr"] = 0.1 / self.rounds
        self.inner.step()
    def zero_grad(self):
        self.inner.zero_grad()
torch.manual_seed(0)
net = torch.nn.Linear(4, 1)
warm = WarmUp(torch.optim.Adam(net.parameters()))
first = 0
if RESUMES:
    held = torch.load("2.pt")
    net.load_state_dict(held["net"])
    {restore}
    first = 3
for n in range(first, 6):
    warm.zero_grad()
    net(torch.full((2, 4), n + 1.0)).square().mean().backward()
    warm.step()
    torch.save(dict(net=net.state_dict(), inner=warm.inner.state_dict(), rounds=warm.rounds), f"{{n}}.pt")
"""


@pytest.mark.parametrize(
    ("kept", "lost", "remedy"),
    [
        ('warm.inner.load_state_dict(held["inner"])', "`warm.rounds` is 0, and 3", "`warm.rounds = held["),
        ('warm.rounds = held["rounds"]', "the optimizer's states", "`warm.inner.load_state_dict(held["),
    ],
    ids=["its own count", "the optimizer inside"],
)
def test_an_optimizer_inside_an_object_of_the_program_is_told_from_what_that_object_counts(
    resumed: Resumes, kept: str, lost: str, remedy: str
) -> None:
    (omission,) = resumed(WRAPPED_OPTIMIZER.format(restore=kept), 3).not_restored
    assert omission.location in ("train.py:5", "train.py:15")  # the object's, or the line that makes it
    assert lost in omission.what
    assert remedy in omission.remedy


@pytest.mark.parametrize(
    "loop_line", ["for first in range(first, 6):", "for first, _ in zip(range(first, 6), 'abcdef'):"]
)
def test_a_number_that_its_loop_sets_anew_is_no_omission(resumed: Resumes, loop_line: str) -> None:
    source = WRAPPED_OPTIMIZER.replace("for n in range(first, 6):", f"{loop_line}\n    n = first")
    source = source.replace("first = 3", 'first = held["n"]').replace("dict(net=", "dict(n=n + 1, net=")
    source = source.replace("{restore}", 'warm.inner.load_state_dict(held["inner"])').replace("{{n}}", "{n}")
    (omission,) = resumed(source, 3).not_restored
    assert "`warm.rounds` is 0, and 3" in omission.what


OVERFLOWS = """
import torch
torch.manual_seed(0)
net = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(net.parameters(), 1e-20)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**120, backoff_factor=2.0**-20)
first = 0
if RESUMES:
    held = torch.load("4.pt")
    net.load_state_dict(held["net"])
    first = 5
for n in range(first, 7):
    optimizer.zero_grad()
    scaler.scale((net(torch.full((2, 2), n + 1.0)) * 1e9).square().mean()).backward()
    scaler.step(optimizer)
    scaler.update()
    torch.save(dict(net=net.state_dict(), scaler=scaler.state_dict()), f"{n}.pt")
"""


def test_a_scaler_that_skips_each_step_of_the_resumed_run_is_named(resumed: Resumes) -> None:
    found = resumed(OVERFLOWS, 2)
    (omission,) = found.not_restored
    assert (found.steps[1], omission.location) == (0, "train.py:6")
    assert "the scaler's fields differ" in omission.what
    assert 'scaler.load_state_dict(held["scaler"])' in omission.remedy


SHUFFLES = """
import torch
from torch.utils.data import DataLoader
torch.manual_seed(0)
net = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
draws = torch.Generator().manual_seed(5)
loader = DataLoader(torch.arange(8.0)[:, None], batch_size=2, shuffle=True{generator})
epoch, done, step = 0, 0, 0
if RESUMES:
    held = torch.load("6.pt")
    net.load_state_dict(held["net"])
    step, epoch, done = 6, {position}
    {restore}
while epoch < 3:
    begun = {source}.get_{state}()
    for n, x in enumerate(loader):
        if n < done:
            continue
        net(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        step += 1
        torch.save(dict(net=net.state_dict(), begun=begun), f"{{step}}.pt")
    epoch, done = epoch + 1, 0
"""
OWN, DEFAULT = ("draws", ", generator=draws", "state"), ("torch", "", "rng_state")


@pytest.mark.parametrize("of", [OWN, DEFAULT], ids=["own", "default"])
@pytest.mark.parametrize(
    ("position", "is_given", "words"),
    [("1, 2", True, ""), ("1, 2", False, "generator"), ("1, 0", True, "is read again")],
    ids=["both", "position alone", "generator alone"],
)
def test_an_order_s_generator_and_the_position_in_it_are_told_apart(
    resumed: Resumes,
    of: tuple[str, str, str],
    position: str,
    is_given: bool,
    words: str,
) -> None:
    source, generator, state = of
    restore = f'{source}.set_{state}(held["begun"])' if is_given else "pass"
    text = SHUFFLES.format(generator=generator, source=source, state=state, position=position, restore=restore)
    found = resumed(text, 6)
    assert [words in each.what for each in found.not_restored] == [True] * bool(words)
    if words == "generator":
        (omission,) = found.not_restored
        assert "is read again" not in omission.what
        assert f"{source}.set_{state}(held[" in omission.remedy


NO_KEY = 'load_state_dict(held["net"], strict=False)'
DOUBLED = 'load_state_dict({name[7:]: each * 2 for name, each in held["net"].items()})'


@pytest.mark.parametrize(
    ("optimizer", "load", "step", "words"),
    [
        ("AdamW", NO_KEY, 4, "changes nothing there"),
        ("SGD", NO_KEY, 0, "nothing was restored"),
        ("AdamW", DOUBLED, None, "what was saved is not what the whole run had"),
    ],
    ids=["no key matches", "and nothing else is restored", "other values"],
)
def test_a_load_of_no_key_or_of_other_values_is_told_at_its_line(
    resumed: Resumes, optimizer: str, load: str, step: int | None, words: str
) -> None:
    prefixed = 'state["net"] = {f"module.{name}": each for name, each in state["net"].items()}'
    parts = {"setup": "", "restore": "", "before": "", "after": "", "saves": f"    {prefixed}"}
    source = LOOP.format(**parts).replace('load_state_dict(held["net"])', load)
    found = resumed(source.replace("AdamW", optimizer))
    (omission,) = found.not_restored
    assert (found.step, omission.location) == (step, "train.py:16")
    assert words in omission.what
    assert ("`strict=True`" in omission.remedy) == ("strict" in load)


@pytest.mark.parametrize("where", ["loss = loss / warm.heat", "scale = warm.heat * 2\nloss = loss / (scale / 2)"])
def test_a_number_that_a_call_is_given_follows_from_the_value_that_it_is(resumed: Resumes, where: str) -> None:
    before = f"loss = net(x).square().mean()\n{where}\nx = x / warmed.warm.heat"
    found = resumed.loop(setup=WARMS, before=before, after="warm.ended()")
    assert [each.what.partition(",")[0] for each in found.not_restored] == ["`warm.heat` is 4.0"]
    assert not found.beside


KEPT_BY_A_LIBRARY = """
import torch
torch.manual_seed(0)
net = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
rates = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
{keeps}
first = 0
if RESUMES:
    {reads}
    first = 2
for n in range(first, 4):
    optimizer.zero_grad()
    net(torch.full((2, 4), n + 1.0)).square().mean().backward()
    optimizer.step()
    rates.step()
    {writes}
"""
KEEPER = """
class Keeper:
    def __init__(self, **parts):
        self.parts = parts
    def load_state(self, path):
        held = torch.load(path)
        for name, part in self.parts.items():
            part.load_state_dict(held[name])
        return held
    def save_state(self, path):
        torch.save({name: part.state_dict() for name, part in self.parts.items()}, path)
    def register_for_checkpointing(self, part):
        self.parts["more"] = part
keeper = Keeper(net=net, optimizer=optimizer)
"""


def test_what_an_accelerator_saves_is_registered(resumed: Resumes) -> None:
    keeps = f'exec(compile({KEEPER!r}, "<a library>", "exec"))'  # of whose lines nothing is seen
    source = KEPT_BY_A_LIBRARY.format(
        keeps=keeps, reads='keeper.load_state("1.pt")', writes='keeper.save_state(f"{n}.pt")'
    )
    (omission,) = resumed(source, 2).not_restored
    assert "`rates` (StepLR) is 2 steps behind" in omission.what
    assert "keeper.register_for_checkpointing(rates)" in omission.remedy


def test_a_checkpoint_without_a_name_where_the_run_goes_on_is_told_by_the_line_that_loads_it(
    resumed: Resumes,
) -> None:
    keeps = KEEPER.replace("save_state", "save").replace("load_state(self", "load(self")
    source = KEPT_BY_A_LIBRARY.format(keeps=keeps, reads='n = keeper.load("1.pt")', writes='keeper.save(f"{n}.pt")')
    lines = source.splitlines()
    (omission,) = resumed(source, 2).not_restored
    loaded = next(n for n, line in enumerate(lines, 1) if "torch.load" in line)
    assert f"where `checkpoint` is what train.py:{loaded} loads" in omission.remedy
