"""What a resumed run goes on without: each state, generator and value of the program's, at its line."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from tracer.divergence.causes import RootCause
from tracer.divergence.comparing import compare_recordings
from tracer.divergence.lines import OWN
from tracer.divergence.model import Divergence, NotRestored, Recording, Root
from tracer.divergence.repeated import Run
from tracer.divergence.resuming import begin_of, first_step_of, resumed_from, states_at
from tracer.divergence.roots import parted
from tracer.names import Phase
from tracer.trace.lines import (
    GENERATOR,
    GLOBAL,
    ITERATES,
    Entered,
    LineCode,
    LineRecord,
    LineRow,
    LineText,
    Text,
    is_plain,
)
from tracer.trace.values import ValueKind, Values

_OF_HOST = {
    "python": ("Python's `random`", 'random.setstate(checkpoint["python_rng"])', "random.getstate()"),
    "numpy": ("NumPy's generator", 'numpy.random.set_state(checkpoint["numpy_rng"])', "numpy.random.get_state()"),
}
#: Causes that a value of the program's may explain.
_OF_VALUES = (RootCause.ARGUMENT, RootCause.STRUCTURE, RootCause.INPUT_DATA, RootCause.UNKNOWN, RootCause.INITIAL_STATE)
#: What the names of generators begin with that the program made.
_PASSED = "passed "
#: Functions whose variables are gone when their line is over.
_COMPREHENDS = ("<listcomp>", "<genexpr>", "<setcomp>", "<dictcomp>")
_INTEGER = re.compile(r"-?\d+")


class Omission(msgspec.Struct, frozen=True, kw_only=True):
    """Something that the resumed run goes on without."""

    what: str
    location: str = ""
    """The line of the program that uses it."""
    remedy: str = ""


class ResumedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that was interrupted and resumed, held against one that was not."""

    name: str
    """The script."""
    runs: tuple[Run, ...] = ()
    stopped_after: int = 0
    """Optimizer steps that the interrupted run made."""
    step: int | None = None
    """The step of the whole run that the resumed one begins with; ``None`` if it begins with none of them."""
    departs: int | None = None
    """The step in which the runs first differ; ``None`` if no call that trains does."""
    steps: tuple[int, int] = (0, 0)
    """Steps of the whole run from there on, and of the resumed one."""
    calls_compared: int = 0
    restored: tuple[str, ...] = ()
    """The states that agree when they are used."""
    not_restored: tuple[Omission, ...] = ()
    """In the order in which they are used."""
    beside: tuple[Omission, ...] = ()
    """What differs too, and reaches nothing that trains."""
    roots: tuple[Root, ...] = ()
    """The calls at which the runs diverge."""
    unknown: str = ""
    """The reason why nothing can be said; empty if something can."""

    @property
    def agrees(self) -> bool:
        """Whether the resumed run goes on bit for bit."""
        return not self.unknown and not self.not_restored


# --- the program's lines ----------------------------------------------------------------------------------

_Key = tuple[str, str, int]


class _Change(NamedTuple):
    code: LineCode
    line: int
    call: int
    changed: Mapping[str, str]

    @property
    def location(self) -> str:
        return f"{self.code.file}:{self.line}"

    @property
    def key(self) -> _Key:
        return self.code.file, self.code.function, self.code.first


class LinesOfRun:
    """A run's lines: what they read, and what they changed."""

    def __init__(self, records: Iterable[LineRecord]) -> None:
        self.changes: list[_Change] = []
        self.texts: dict[str, LineText] = {}
        codes: dict[int, LineCode] = {}
        frames: dict[int, LineCode] = {}
        for record in records:
            if isinstance(record, LineCode):
                codes[record.number] = record
            elif isinstance(record, Text):
                self.texts.setdefault(f"{codes[record.code].file}:{record.line}", record.text)
            elif isinstance(record, Entered):
                code = frames[record.frame] = codes[record.code]
                self.changes.append(_Change(code, code.first, record.call, record.changed))
            elif isinstance(record, LineRow) and record.frame in frames:
                self.changes.append(_Change(frames[record.frame], record.line, record.call, record.changed))

    def held_at(self, call: int) -> dict[tuple[_Key, str], str]:
        """What names held as ``call`` was made: the digests of the last call of each function."""
        held: dict[tuple[_Key, str], str] = {}
        for change in self.changes:
            if change.call <= call:
                held.update(((change.key, name), digest) for name, digest in change.changed.items())
        return held

    def carried(self) -> dict[tuple[_Key, str], tuple[str, bool]]:
        """Names of numbers that a line changes from what they were, or that a loop counts by: the line, and whether it
        counts up what nothing sets back."""
        lines: dict[tuple[_Key, str], tuple[str, bool]] = {}
        resets: Counter[tuple[_Key, str]] = Counter()
        for change in self.changes:
            text = self.texts.get(change.location, LineText())
            for name, digest in change.changed.items():
                stored, read = _last(name) in map(_last, text.stores), name.removeprefix(GLOBAL) in text.reads
                if not stored or not is_plain(digest) or change.code.function.endswith(_COMPREHENDS):
                    continue
                if read or ITERATES in text.calls:
                    lines.setdefault((change.key, name), (change.location, read))
                else:
                    resets[change.key, name] += 1
        return {key: (line, counts and resets[key] <= 1) for key, (line, counts) in lines.items()}

    def reached_from(self, name: str) -> set[str]:
        """The lines that read ``name``, or something that was made of it."""
        names, lines = {_last(name)}, set[str]()
        while True:
            new = {at for at, text in self.texts.items() if names.intersection(map(_last, text.reads))} - lines
            if not new:
                return lines
            lines |= new
            names.update(_last(path) for at in new for path in self.texts[at].stores)

    def own_generators(self, location: str) -> list[str]:
        """The names of generators of the program's whose state a line changes."""
        changed = (change.changed.items() for change in self.changes if change.location == location)
        return list(dict.fromkeys(name for items in changed for name, digest in items if digest.startswith(OWN)))

    def made_by(self, is_wanted: Callable[[str], bool]) -> tuple[str, str]:
        """The first line that stores what it calls, and the name that it stores it in; empty if there is none."""
        for location, text in self.texts.items():
            if text.stores and any(map(is_wanted, text.calls)):
                return location, text.stores[0]
        return "", ""


def _last(path: str) -> str:
    return path.removeprefix(GLOBAL).rpartition(".")[2]


# --- a resumed run, held against one that nothing interrupted ----------------------------------------------


def hold_against(
    whole: Recording,
    resumed: Recording,
    stopped_after: int,
    lines: Sequence[LinesOfRun],
    interrupted: Values,
) -> ResumedRun:
    """Say whether ``resumed`` goes on as ``whole`` did. ``lines``: those of the whole, the resumed and the interrupted
    run."""
    values = whole.values, resumed.values
    step = resumed_from(*values, stopped_after)
    made = steps_made(values[0]), steps_made(values[1])
    found = ResumedRun(name=whole.name, stopped_after=stopped_after, step=step, steps=(made[0] - (step or 0), made[1]))
    if step == 0 and stopped_after:
        remedy = 'Load the checkpoint before the first step: `model.load_state_dict(checkpoint["model"])`.'
        nothing = Omission(what="nothing was restored: it begins as the whole run began", remedy=remedy)
        return msgspec.structs.replace(found, departs=0, not_restored=(nothing,))
    if step == made[0]:
        after = "it begins with what the whole run left: its checkpoint lies outside the folder"
        return msgspec.structs.replace(found, unknown=after)
    begin = stopped_after if step is None else step
    divergence = compare_recordings(whole, resumed, align_step=(begin, first_step_of(values[1])))
    compared = _Compared(divergence, values, begin, lines, interrupted)
    not_restored, beside = tuple(compared.not_restored(made[0] - begin, made[1])), tuple(compared.beside)
    if not (not_restored or divergence.agrees or divergence.reaches_nothing):
        not_restored, beside = beside, ()  # one of them does it
    open_questions = (
        next((f"a recording is partial ({reason})" for reason in divergence.partial if reason), ""),
        "" if divergence.calls_compared else "no call was compared",
    )
    found = msgspec.structs.replace(
        found,
        departs=min((root.step for root in divergence.roots if root.reaches_training), default=None),
        calls_compared=divergence.calls_compared,
        restored=tuple(compared.restored()),
        not_restored=not_restored,
        beside=beside,
        roots=divergence.roots,
    )
    unknown = "; ".join(filter(None, open_questions)) if found.agrees else ""
    return msgspec.structs.replace(found, unknown=unknown)


def steps_made(values: Values) -> int:
    """The optimizer steps that a run made."""
    rows = values.moments_of(ValueKind.PARAMETER)
    rows = rows[values.moments.call[rows] < len(values)]
    return len(np.unique(values.moments.step[rows]))


class _Compared:
    """What two runs show from the step on at which one resumes."""

    def __init__(
        self,
        divergence: Divergence,
        values: tuple[Values, Values],
        begin: int,
        lines: Sequence[LinesOfRun],
        interrupted: Values,
    ) -> None:
        assert divergence.resumed is not None
        self._roots = divergence.roots
        self._parts = not divergence.reaches_nothing
        self._lacks = divergence.resumed.not_restored
        self._values, self._begin = values, begin
        self._lines, self._of_all, self._interrupted = lines[0], lines, interrupted
        self._steps = begin, divergence.resumed.second_step
        self.beside: list[Omission] = []
        """What reaches nothing that trains, after ``not_restored``."""
        self._explained: set[int] = set()
        self._seeded: set[str] = set()
        """The lines of loaders whose workers got other seeds."""

    def restored(self) -> Iterator[str]:
        """Yield the states that agree, in words."""
        ours, theirs = (states_at(values, step) for values, step in zip(self._values, self._steps, strict=True))
        kinds: Counter[ValueKind] = Counter()
        for (kind, name), (digest, _) in ours.items():
            kinds[kind] += theirs.get((kind, name), (None, ""))[0] == digest
        lost = {lack.kind for lack in self._lacks}
        for kind, words in _RESTORED.items():
            if kinds[kind] and kind not in lost:
                yield words

    def not_restored(self, left: int, made: int) -> Iterator[Omission]:
        """Yield what was not restored; ``left`` and ``made``: steps that follow in the whole run, and in the other."""
        kinds = {lack.kind for lack in self._lacks}
        values = list(self._values_that_differ())
        drawn_at = {_line(lack.root) for lack in self._lacks if lack.kind is ValueKind.GENERATOR and lack.root}
        for each in self._roots:  # workers whose seeds a generator gave that is named itself
            loading = each.loading
            if loading is not None and loading.seeds_agree is False and loading.indices_agree is not False:
                self._seeded.add(line := loading.loader.partition(" at ")[2])
                self._explained.update([id(each)] if line in drawn_at else ())
        makes_settings = bool(kinds & {ValueKind.OPTIMIZER_STATE, ValueKind.SCHEDULER} or values)
        data = (each for each in self._roots if each.loading is not None or each.cause is RootCause.INPUT_DATA)
        reads_other_data = any(id(each) not in self._explained for each in data)
        for lack in self._lacks:
            root = lack.root
            if lack.kind is ValueKind.HYPERPARAMETER and makes_settings:
                continue
            if root is None or id(root) not in self._explained:
                is_draw = root is not None and root.cause is RootCause.DRAW and not root.reaches_training
                seeds = root is not None and _line(root) in self._seeded
                is_library = root is not None and bool(root.called_from) and not root.reaches_training
                is_its_own = is_library and lack.kind is ValueKind.OUTSIDE  # a sum for its log, or an average
                reaches = not is_draw or seeds or reads_other_data
                yield from self._told(self._of_state(lack), reaches=reaches and not is_its_own)
        yield from values
        settings = {ValueKind.HYPERPARAMETER, ValueKind.SCHEDULER, ValueKind.SCALER, ValueKind.OPTIMIZER_STATE} & kinds
        for each in self._roots:
            is_of_lack = each.kind in kinds or any(lack.root is each for lack in self._lacks)
            is_setting = each.phase is Phase.OPTIMIZER and each.cause is RootCause.ARGUMENT and settings
            hangs_on_data = each.cause is RootCause.STRUCTURE or each.loading is not None
            follows = hangs_on_data and ValueKind.DATA_POSITION in kinds
            if not (is_of_lack or is_setting or follows or id(each) in self._explained):
                further = Omission(what=each.why or each.cause.words, location=_line(each), remedy=_REMEDIES[None])
                yield from self._told(
                    further, reaches=each.reaches_training or (self._parts and each.cause is RootCause.STRUCTURE)
                )
        if made != left and not (values or {ValueKind.DATA_POSITION, ValueKind.PARAMETER} & kinds):
            remedy = "Count the steps or epochs from where the checkpoint was made: `range(first_epoch, epochs)`."
            many = f"{abs(made - left)} step{'s' * (abs(made - left) != 1)} {'more' if made > left else 'fewer'}"
            yield Omission(what=f"it makes {many} than the whole run", remedy=remedy)

    def _told(self, omission: Omission, *, reaches: bool) -> Iterator[Omission]:
        """Yield what reaches the training; keep what does not."""
        if reaches:
            yield omission
        else:
            self.beside.append(omission)

    def _of_state(self, lack: NotRestored) -> Omission:
        root, made, name = lack.root, "", ""
        location = "" if root is None else _line(root)
        if lack.kind in (ValueKind.SCHEDULER, ValueKind.SCALER):
            holder = lack.name.rpartition(" of ")[2]
            made, name = self._lines.made_by(lambda call: call.rpartition(".")[2] == holder)
            name = name or lack.kind.value
        elif lack.kind in (ValueKind.OPTIMIZER_STATE, ValueKind.HYPERPARAMETER):
            _, name = self._lines.made_by(_is_optimizer)
            name = name or next(iter(self._named_at(self._optimizer_line(), "step")), "optimizer")
        location = location or made or self._optimizer_line()
        is_own_line = root is None or not root.called_from
        if lack.kind is ValueKind.OUTSIDE and is_own_line and (names := self._named_at(location)):
            name = names[0]
        what, loading = what_of(lack, name), None if root is None else root.loading
        if loading is not None and lack.kind is ValueKind.DATA_POSITION:
            location = loading.loader.partition(" at ")[2] or location
            what = self._read_again(root, loading.loader) or what
        is_cast = lack.kind is ValueKind.OPTIMIZER_STATE and bool(lack.first and lack.second)  # dtypes have words
        key = (lack.kind, "cast") if is_cast else lack.kind
        remedy = _REMEDIES.get(key, _REMEDIES[None]).replace("NAME", name or "it")
        if lack.kind is ValueKind.GENERATOR:
            what += ", and seeds the loader's workers" if location in self._seeded else ""
            own = self._lines.own_generators(location)
            remedy = _of_generator(lack, own[0] if own else "generator")
        return Omission(what=what, location=location, remedy=remedy)

    def _read_again(self, root: Root | None, loader: str) -> str:
        """``batch 3 of epoch 1 is read again``, where the resumed run reads indices that the whole run had before."""
        if root is None or root.other_call is None:
            return ""
        both = []
        for values, call in zip(self._values, (root.call, root.other_call), strict=True):
            rows = values.moments_of(ValueKind.INDICES, loader)
            rows = rows[values.moments.call[rows] <= call]
            both.append((values.moments.digest[rows].tolist(), values.moments.position[rows].tolist()))
        (ours, positions), (theirs, _) = both
        if not ours or not theirs or theirs[-1] not in ours[:-1]:
            return ""
        at = len(ours) - 2 - ours[-2::-1].index(theirs[-1])
        return f"batch {positions[at]} of epoch {positions[: at + 1].count(0) - 1} is read again ({loader})"

    def _named_at(self, location: str, method: str = "") -> list[str]:
        """What a line asks for something, by name: ``average`` of ``average.update_parameters(model)``."""
        reads = self._lines.texts.get(location, LineText()).reads
        asked = [path.rpartition(".") for path in reads if "." in path]
        return [owner for owner, _, attribute in asked if not method or attribute == method]

    def _optimizer_line(self) -> str:
        """The line that makes the first common optimizer step."""
        values, call = self._values[0], _optimizer_call(self._values[0], self._begin)
        return "" if call is None else values.group_of(call).called_from or values.group_of(call).location

    def _values_that_differ(self) -> Iterator[Omission]:
        """Yield numbers of the program's and host generators that the runs have otherwise at the first common step."""
        (ours, theirs, before), interrupted = self._of_all, self._interrupted
        moments = [_optimizer_call(values, step) for values, step in zip(self._values, self._steps, strict=True)]
        if None in moments:
            return
        early = _optimizer_call(interrupted, self._begin)
        held = [lines.held_at(at or 0) for lines, at in zip((ours, theirs), moments, strict=True)]
        held.append(before.held_at(len(interrupted) if early is None else early))
        data = [root for root in self._roots if root.cause in _OF_VALUES or root.name.startswith(_PASSED)]
        carried = {**theirs.carried(), **ours.carried()}
        differing = {
            key: ours.reached_from(key[1])
            for key in carried
            if key in held[0]
            and key in held[1]
            and held[0][key] != held[1][key]
            and is_plain(held[1][key])
            and held[2].get(key, held[0][key]) == held[0][key]
        }
        for key, reached in differing.items():
            line, counts = carried[key]
            if any(line in others for other, others in differing.items() if other != key and not counts):
                continue
            roots = [root for root in data if {root.location, root.called_from} & reached]
            name = key[1].removeprefix(GLOBAL)
            what = f"`{name}` is {held[1][key]}, and {held[0][key]} in the whole run"
            is_loop, saved = ITERATES in ours.texts.get(line, LineText()).calls, f'checkpoint["{_last(name)}"]'
            remedy = f"Save `{name}` in the checkpoint and give it back: `{name} = {saved}`."
            if is_loop:
                first = "the first round that the checkpoint has not made"
                remedy = f"Let this loop go on at {held[0][key]} there, {first}: `range({saved} + 1, ...)`, say."
            self._explained.update(map(id, roots))
            if any(root.cause is RootCause.DRAW for root in roots):  # by which an order was drawn
                self._explained.update(id(root) for root in self._roots if _is_other_order(root))
            reaches = bool(roots or (counts and _INTEGER.fullmatch(held[0][key])))
            if reaches or not is_loop:
                yield from self._told(Omission(what=what, location=line, remedy=remedy), reaches=reaches)
        begin = begin_of(self._values[0], self._begin, "whole")
        for generator, (words, restore, save) in _OF_HOST.items():
            if line := _drawn_otherwise(ours, theirs, generator, begin):
                remedy = f"Save `{save}` in the checkpoint, and give it back before this line: `{restore}`."
                omission = Omission(what=f"{words} was not restored", location=line, remedy=remedy)
                at_line = (root for root in data if line in (root.location, root.called_from))
                roots = [*at_line, *(root for root in data if root.cause is RootCause.INPUT_DATA)]
                self._explained.update(id(root) for root in roots if not _is_other_order(root))
                yield from self._told(omission, reaches=bool(roots))


def _is_optimizer(call: str) -> bool:
    return re.fullmatch(r"torch\.optim\.(?!lr_scheduler|swa_utils)[\w.]+(?<!\.Optimizer)", call) is not None


def _is_other_order(root: Root) -> bool:
    return root.loading is not None and root.loading.indices_agree is False


def _drawn_otherwise(ours: LinesOfRun, theirs: LinesOfRun, generator: str, begin: int) -> str:
    """The first line from a call on that changes a global generator, if it never leaves it so in the other run."""
    name = f"{GENERATOR}{generator}"
    for change in ours.changes:
        if change.call > begin and name in change.changed:
            at_line = (each.changed for each in theirs.changes if each.location == change.location)
            there = {changed[name] for changed in at_line if name in changed}
            return change.location if there and change.changed[name] not in there else ""
    return ""


def _optimizer_call(values: Values, step: int) -> int | None:
    """The first call of an optimizer in a step."""
    of_optimizer = np.array([group.phase is Phase.OPTIMIZER for group in values.groups], np.bool_)
    for call in np.flatnonzero(of_optimizer[values.group]).tolist():
        if values.step_of(call) >= step:
            return int(call) if values.step_of(call) == step else None
    return None


def _line(root: Root) -> str:
    return root.called_from or root.location


def _of_generator(lack: NotRestored, own: str) -> str:
    name, root = lack.name, lack.root
    if name == "cpu":
        give, save = 'torch.set_rng_state(checkpoint["torch_rng"])', "torch.get_rng_state()"
    elif re.fullmatch(r"\w+:\d+", name):
        device = f"torch.{name.partition(':')[0]}"
        give, save = f'{device}.set_rng_state_all(checkpoint["device_rng"])', f"{device}.get_rng_state_all()"
    else:
        give, save = f'{own}.set_state(checkpoint["{own}"])', f"{own}.get_state()"
    when = "before the first step"
    if root is not None and root.earlier is not None:
        when = f"after {root.earlier.called_from or root.earlier.location}, which draws from it"
    return f"Save `{save}` in the checkpoint, and give it back {when}: `{give}`."


def what_of(lack: NotRestored, name: str = "") -> str:
    """What was not restored: ``the scheduler StepLR is 6 steps behind``; ``name``: the program's own for it."""
    root, words = lack.root, _RESTORED.get(lack.kind, lack.kind.value.replace("-", " "))
    if lack.kind in (ValueKind.DATA_POSITION, ValueKind.BATCH):
        loading = None if root is None else root.loading
        if root is not None and root.kind is ValueKind.BATCH and root.second:
            loader = root.name.partition(", [")[0]
            return f"{loader} gives batch {root.second} where the whole run reads batch {root.first}"
        if loading is not None and loading.indices_agree is False:
            order = f", drawn from generator {loading.order_from} in another state" if loading.order_from else ""
            return f"{loading.loader or 'the loader'} reads other samples: its sampler gives other indices{order}"
        return f"the data are other ones: {root.why}" if root is not None else "the data position was not restored"
    if lack.kind is ValueKind.GENERATOR:
        return lack.name if root is None else root.why
    if lack.kind is ValueKind.OUTSIDE:
        kept = "is kept from step to step, and was not restored"
        return f"`{name}` {kept}" if name or root is None else root.why
    if lack.first and lack.second:
        first, second = parted(lack.first, lack.second)
        done = [int(number) for side in (first, second) for number in re.findall(r"^last_epoch=(\d+)", side)]
        if lack.kind is ValueKind.SCHEDULER and len(done) == 2 and (behind := done[0] - done[1]) > 0:
            return f"the scheduler {lack.name} is {behind} step{'s' * (behind != 1)} behind"
        return f"{words} {lack.name}: {second}, and {first} in the whole run"
    if lack.has_none:
        of = f": {lack.name}{f' and {lack.count - 1:,} more' if lack.count > 1 else ''}" if lack.name else ""
        return f"the resumed run has no {words}, and the whole run has {lack.count:,}{of}"
    how = "is missing" if lack.is_missing else "differs"
    return f"{words}: {lack.name} {how}{f' ({lack.count:,} in all)' if lack.count > 1 else ''}"


_RESTORED = {
    ValueKind.PARAMETER: "parameters",
    ValueKind.BUFFER: "buffers",
    ValueKind.OPTIMIZER_STATE: "optimizer states",
    ValueKind.HYPERPARAMETER: "the optimizer's settings",
    ValueKind.SCHEDULER: "scheduler",
    ValueKind.SCALER: "scaler",
}
_SAVED = (
    "Save `NAME.state_dict()` in the checkpoint and load it before the first step:"
    ' `NAME.load_state_dict(checkpoint["NAME"])`.'
)
#: What to do for each kind, where ``NAME`` is what the program calls it.
_REMEDIES: Mapping[object, str] = {
    ValueKind.OPTIMIZER_STATE: _SAVED,
    ValueKind.HYPERPARAMETER: _SAVED,
    ValueKind.SCHEDULER: _SAVED,
    ValueKind.SCALER: _SAVED,
    (ValueKind.OPTIMIZER_STATE, "cast"): (
        "`load_state_dict` casts states to the dtype of their parameters: give back the saved ones after it:"
        ' `for state, saved in zip(NAME.state.values(), checkpoint["NAME"]["state"].values()): state.update(saved)`.'
    ),
    ValueKind.PARAMETER: 'Load the checkpoint of this run first: `model.load_state_dict(checkpoint["model"])`.',
    ValueKind.BUFFER: 'Save and load all of it, buffers too: `model.load_state_dict(checkpoint["model"])`.',
    ValueKind.OUTSIDE: (
        "Save what `NAME` holds in the checkpoint (`NAME.state_dict()` where it has one) and give it back before the"
        " first step."
    ),
    ValueKind.DATA_POSITION: (
        "Begin the sampler where the checkpoint was made: save how many batches of the epoch were read, and give the"
        ' sampler the indices of the epoch that are left: `indices[batch_size * checkpoint["batches"] :]`.'
    ),
    None: "Save what this line hangs on in the checkpoint, and give it back before the first step.",
}
