"""What a resumed run goes on without: each state, generator and value of the program's, at its line."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from tracer.divergence.causes import RootCause
from tracer.divergence.comparing import compare_recordings
from tracer.divergence.cut_lines import Change, RunLines, cut, last, object_of
from tracer.divergence.lines import LineKind, ReadOtherwise, read_otherwise
from tracer.divergence.model import Divergence, NotRestored, Recording, Resumed, Root
from tracer.divergence.repeated import Run
from tracer.divergence.resuming import (
    OF_OPTIMIZERS,
    digests_by_step,
    first_step_of,
    first_updates,
    optimizers_from,
    resumed_from,
    states_at,
)
from tracer.divergence.roots import parted
from tracer.names import Phase
from tracer.trace.lines import ARGUMENTS, GENERATOR, GLOBAL, NO_DIGEST, OWN, LineMark, LineText, is_named, is_plain
from tracer.trace.values import Group, ValueKind, Values
from tracer.trace.values.columns import NO_DIGEST as NO_VALUE

#: Generators of the process: in words, how they are given back, and how saved.
_OF_HOST = {
    "python": ("Python's `random`", "random.setstate(VALUE)", "random.getstate()"),
    "numpy": ("NumPy's generator", "numpy.random.set_state(VALUE)", "numpy.random.get_state()"),
}
#: By what makes a generator of the program's: how its state is saved, and given back.
_STATES_OF = {
    "RandomState": ("NAME.get_state()", "NAME.set_state(VALUE)"),
    "numpy.random": ("NAME.bit_generator.state", "NAME.bit_generator.state = VALUE"),
    "random.Random": ("NAME.getstate()", "NAME.setstate(VALUE)"),
    "torch": ("NAME.get_state()", "NAME.set_state(VALUE)"),
}
#: Kinds of states that an object of torch's holds.
_OF_MODELS = frozenset({ValueKind.PARAMETER, ValueKind.BUFFER})
_HELD = _OF_MODELS | {*OF_OPTIMIZERS, ValueKind.SCHEDULER, ValueKind.SCALER}
#: What the names of generators begin with that the program made.
_PASSED = "passed "
_INTEGER = re.compile(r"-?\d+")
#: Classes of torch's whose objects keep states.
_OF_TORCH = re.compile(r"torch\.(optim(?!.*swa_utils)|utils\.data|(cuda\.)?amp|distributed)\.([a-z_]\w*\.)*[A-Z]\w*$")


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
    process: str = ""
    """The one of several processes that this is of; empty for the one that the user started."""
    processes: int = 1
    """Processes that train, all of which were compared."""
    not_compared: int = 0
    """Processes that the whole run started and that were not recorded."""
    unknown: str = ""
    """The reason why nothing can be said; empty if something can."""

    @property
    def agrees(self) -> bool:
        """Whether the resumed run goes on bit for bit."""
        return not self.unknown and not self.not_restored


# --- a resumed run, held against one that nothing interrupted ----------------------------------------------


def hold_against(
    whole: Recording, resumed: Recording, stopped_after: int, lines: Sequence[RunLines], ended: str = ""
) -> ResumedRun:
    """Say whether ``resumed`` goes on as ``whole`` did. ``lines``: those of the whole, the resumed and the interrupted
    run; ``ended``: what is known of the end of a run that makes no step."""
    values = whole.values, resumed.values
    step = resumed_from(*values, stopped_after)
    step = optimizers_from(*values, stopped_after) if step == 0 else step
    made = steps_made(values[0]), steps_made(values[1])
    found = ResumedRun(name=whole.name, stopped_after=stopped_after, step=step, steps=(made[0] - (step or 0), made[1]))
    if step == 0 and stopped_after:
        remedy = 'Load the checkpoint before the first step: `model.load_state_dict(checkpoint["model"])`.'
        loads = [each for each in lines[1].changes() if "load_state_dict" in map(last, each.text.reads)]
        if location := next((each.location for each in loads), ""):
            remedy = (
                "This line loads a state, and what trains is none of it: `strict=True` tells which keys do not match."
            )
        what = "nothing was restored: it begins as the whole run began"
        nothing = Omission(what=what, location=location, remedy=remedy)
        return replace(found, departs=0, not_restored=(nothing,))
    if step == made[0]:
        after = "it begins with what the whole run left: its checkpoint lies outside the folder"
        return replace(found, unknown=after)
    begin = stopped_after if step is None else step
    divergence = compare_recordings(whole, resumed, align_step=(begin, first_step_of(values[1])))
    if not made[1]:
        lacks = () if divergence.resumed is None else divergence.resumed.not_restored
        scalers = tuple(lack for lack in lacks if lack.kind is ValueKind.SCALER)  # recorded before each call of `step`
        begins = Resumed(first_step=begin, second_step=0, by_itself=False, not_restored=scalers)
        paired = replace(divergence, roots=(), resumed=begins)
        compared = _Compared(paired, whole, resumed, begin, lines, _common_call(*values, begin, lines[0]))
        return replace(found, departs=begin, not_restored=tuple(compared.without_steps(ended)))
    compared = _Compared(divergence, whole, resumed, begin, lines)
    compared.find(made[0] - begin, made[1])
    not_restored, beside = tuple(compared.not_restored), tuple(compared.beside)
    if not (not_restored or divergence.agrees or divergence.reaches_nothing):
        not_restored, beside = beside, ()  # one of them does it
    ahead = begin - first_step_of(values[1])
    departing = [root.step + ahead * root.only_second for root in divergence.roots if root.reaches_training]
    unknown = [f"a recording is partial ({reason})" for reason in divergence.partial if reason][:1]
    unknown += [] if divergence.calls_compared else ["no call was compared"]
    return replace(
        found,
        departs=min(departing, default=None),
        calls_compared=divergence.calls_compared,
        restored=tuple(compared.restored()),
        not_restored=not_restored,
        beside=beside,
        roots=divergence.roots,
        unknown="" if not_restored else "; ".join(unknown),
    )


def steps_made(values: Values) -> int:
    """The optimizer steps that a run made."""
    return len(digests_by_step(values, ValueKind.PARAMETER, is_updated=True))


class _Compared:
    """What two runs show from the step on at which one resumes."""

    def __init__(
        self,
        divergence: Divergence,
        whole: Recording,
        resumed: Recording,
        begin: int,
        lines: Sequence[RunLines],
        common: tuple[int, int] | None = None,
    ) -> None:
        """``common``: calls of both that are of one line, where the resumed run makes no update."""
        assert divergence.resumed is not None
        self._roots = divergence.roots
        self._parts = not divergence.reaches_nothing
        self._lacks = divergence.resumed.not_restored
        self._begin, self._values = begin, (whole.values, resumed.values)
        self._sides = (*zip(self._values, (begin, divergence.resumed.second_step), strict=True),)
        self._updates = first_updates(whole.values, begin)
        """How many steps later each optimizer makes its first update."""
        loaders = [] if whole.trace is None else [each for each in whole.trace.loaders if each.persistent_workers]
        self._persistent = {line: each.location for each in loaders for line in each.iterated_at}
        """Where loaders are made whose workers live on from epoch to epoch, by the lines that iterate them."""
        self._whole, self._resumed, interrupted = lines
        self._texts = defaultdict(LineText, {**self._resumed.statements, **self._whole.statements})
        """What statements do, by their lines."""
        losses = ((values.moments.step[values.moments_of(ValueKind.LOSS)], step) for values, step in self._sides)
        self._passes = [int(np.count_nonzero(steps == step)) for steps, step in losses]
        """Backward passes before the first update."""
        has_scaler = any(lack.kind is ValueKind.SCALER for lack in self._lacks)
        self._skips = has_scaler and self._passes[0] != self._passes[1]
        """Whether another scale made or skipped updates: what differs but for states may follow."""
        phase = Phase.BACKWARD if self._skips else Phase.OPTIMIZER
        updates = common or [_first_call(values, step, phase) for values, step in self._sides]
        self._update = updates[0]
        if self._skips:  # calls are not paired as they were made
            self._roots, self._lacks = (), tuple(lack for lack in self._lacks if lack.root is None)
        self._kinds = {lack.kind for lack in self._lacks}
        both = None if None in updates else cut(self._whole, self._resumed, (updates[0] or 0, updates[1] or 0))
        asked = [] if self._update is None else [self._update]
        asked += [root.call for root in self._roots if not root.only_second]
        self._held = both.held if both is not None else {}
        self._read, self._all = read_otherwise(both.records, asked, both.kept) if both is not None else ({}, ())
        self._repeated = {item for each in interrupted.changes() for item in each.changed.items()}
        self._written, self._loaded = _calling(self._whole, "save", "dump"), _calling(self._resumed, "load")
        """The lines that write and read the checkpoint; empty where they are not seen."""
        self.not_restored: list[Omission] = []
        """In the order in which they are used."""
        self.beside: list[Omission] = []
        """What differs too, and reaches nothing that trains."""
        self._seeded: set[str] = set()
        """The lines of loaders whose workers got other seeds."""
        self._memo: dict[tuple[int, bool], list[ReadOtherwise]] = {}
        makers = self._makers(_is_optimizer)
        self._given = [owner for at, _ in makers for owner in self._named_at(at, "parameters")]
        self._model = next(iter(self._given), "model")
        """What the first line that makes an optimizer calls the model whose parameters that is given."""
        self._models = {part for owner in (self._model, *self._given) for part in owner.split(".")} - {"self"}
        made = (text for text in self._whole.statements.values() if any(map(_OF_TORCH.match, text.calls)))
        self._library = {last(path) for text in made for path in text.stores}
        texts = self._whole.statements.values()
        paths = (path.rpartition(".") for text in texts for path in text.reads)
        self._library.update(last(owner) for owner, _, method in paths if method == "zero_grad")
        """The names of torch's objects, of whose states other evidence speaks."""
        stored = [(each.frame.code.function.rpartition(".")[0], each.text.stores) for each in self._whole.changes()]
        kept = {(of, last(path)) for of, paths in stored for path in paths if path.startswith("self.")}
        stores = {(path, last(call)) for text in texts for path in text.stores for call in text.calls}
        self._own = {f"{last(path)}.{name}" for path, made in stores for of, name in kept if of == made}
        """Attributes that the program's own classes store, behind the names of what they make."""
        changed = [item for change in self._whole.changes() for item in change.changed.items()]
        self._dictionaries = {path for path, digest in changed if digest[:1] in ("[", "h")}
        self._unseen = {path for path, digest in changed if digest == NO_DIGEST}
        self._stored = {last(path) for text in self._texts.values() for path in text.stores}
        self._named = self._stored | {last(path) for text in self._texts.values() for path in text.reads}
        plain = (each for each in self._all if each.root.kind is LineKind.STATE and is_plain(each.first))
        self._states = [each for each in plain if self._tells(each)]
        """Numbers and texts that a line keeps."""

    def restored(self) -> Iterator[str]:
        """Yield the states that agree, in words: of generators, counters and averages those that had changed."""
        told: dict[str, None] = {}
        for ahead in self._updates:
            ours, theirs = (states_at(values, step + ahead) for values, step in self._sides)
            agreeing = {key[0] for key, (digest, _) in ours.items() if theirs.get(key, (None, ""))[0] == digest}
            for kind, words in _RESTORED.items():
                is_own = len(self._updates) > 1 and kind in (ValueKind.OPTIMIZER_STATE, ValueKind.HYPERPARAMETER)
                lost = {lack.kind for lack in self._lacks if lack.root or lack.ahead == ahead or not is_own}
                if kind in agreeing - lost and (is_own or not ahead):
                    told[_of_optimizer(words, self._optimizer_words(ahead) if is_own else "")] = None
        yield from told
        begun = self._generators_at_update(self._values[0], first_step_of(self._values[0]))  # the model is made
        drawn, there = (self._generators_at_update(values, step) for values, step in self._sides)
        for name, digest in drawn.items():
            if there.get(name) == digest != begun.get(name, digest):
                default = f"torch's default generator{f' of {name}' * (name != 'cpu')}"
                yield _OF_HOST.get(name, (default,))[0]
        kept = {name: mine for name, (mine, other) in self._held.items() if mine == other}
        kept = {name: mine for name, mine in kept.items() if is_plain(mine) or mine[:1] in "mg"}
        names = {name.removeprefix(GLOBAL) for name in kept if not self._is_librarys(name)}
        yield from (f"`{name}`" for name in sorted(names) if "._" not in name)

    def find(self, left: int, made: int) -> None:
        """Find what was not restored; ``left`` and ``made``: steps that follow in the whole run, and in the other."""
        drawn_at = {_line(lack.root) for lack in self._lacks if lack.kind is ValueKind.GENERATOR and lack.root}
        explained = {id(root) for root in self._roots if self._otherwise(root)}
        for each in self._roots:  # workers whose seeds a generator gave that is named itself
            loading = each.loading
            if loading is not None and loading.seeds_agree is False and loading.indices_agree is not False:
                self._seeded.add(line := loading.loader.partition(" at ")[2])
                explained.update([id(each)] if line in drawn_at else ())
        gradients = [] if self._skips else [*self._gradients()]
        if gradients:
            others = [each for each in self._roots if each.phase is not Phase.FORWARD]
            others += [each for each in self._roots if each.cause is RootCause.STRUCTURE]
            explained.update(map(id, others))
        self._of_lacks(explained)
        self.not_restored += gradients
        for root in sorted(self._roots, key=lambda root: not root.reaches_training):
            for value in self._otherwise(root):  # what a library keeps for its log may reach no update
                self._tell(self._of_lines(value), reaches=root.reaches_training or not root.called_from)
        used = {self._held.get(value.root.name, ("", ""))[1] for value in self._all if value.is_used}
        for value in self._all:
            is_drawn = self._skips and self._is_generator(value) and self._held[value.root.name][1] in used
            is_drawn |= value.is_used and value.root.name.startswith(GENERATOR)
            if self._tells(value) and (is_drawn or (self._skips and value in self._otherwise(None))):
                self._tell(self._of_lines(value), reaches=self._parts)
        self._tell_counters()
        settings = {ValueKind.HYPERPARAMETER, ValueKind.SCHEDULER, ValueKind.SCALER, ValueKind.OPTIMIZER_STATE}
        for root in self._roots:
            is_of_lack = root.kind in self._kinds or any(lack.root is root for lack in self._lacks)
            changes = (RootCause.ARGUMENT, RootCause.STRUCTURE)
            is_setting = root.phase is Phase.OPTIMIZER and root.cause in changes and settings & self._kinds
            hangs_on_data = root.cause is RootCause.STRUCTURE or root.loading is not None
            follows = hangs_on_data and ValueKind.DATA_POSITION in self._kinds
            if not (is_of_lack or is_setting or follows or id(root) in explained):
                self._tell(self._of_root(root), reaches=root.reaches_training)
        if made == left or self.beside or len(self.not_restored) > len(gradients):
            return
        if not {ValueKind.DATA_POSITION, ValueKind.PARAMETER} & self._kinds:
            counts = [each for each in self._all if each.root.kind is LineKind.LINE and self._tells(each)][:1]
            counts = self._used_states() or counts
            remedy = "Count the steps or epochs from where the checkpoint was made: `range(first_epoch, epochs)`."
            many = f"{abs(made - left)} step{'s' * (abs(made - left) != 1)} {'more' if made > left else 'fewer'}"
            other = Omission(what=f"it makes {many} than the whole run", remedy=remedy)
            self.not_restored += map(self._of_lines, counts) if counts else [other]

    def without_steps(self, ended: str) -> Iterator[Omission]:
        """Yield what a run that makes no step goes on without: states that it holds otherwise, or where it ends."""
        lost = [(self._of_state(lack), "it skips each step of the resumed run") for lack in self._lacks]
        lost = lost or [(self._of_lines(each), "the resumed run makes no step") for each in self._used_states()]
        if lost and not ended:
            yield from (replace(omission, what=f"{omission.what}, and {then}") for omission, then in lost)
            return
        made = [change.location for change in self._resumed.changes()]
        loops = []
        for at in self._around(0):
            while line := self._texts[at].loop:
                loops.append(at := f"{at.rpartition(':')[0]}:{line}")
        loop = next((at for at in loops if at in made), "")
        location, remedy = loop, "Let this loop begin behind the last step of the checkpoint: `range(first, steps)`."
        if ended or not loop:
            location = next(reversed(made), "")
            remedy = (
                "Its own words are above. A checkpoint must lie in the working directory: each run has a copy of it."
            )
        what = ended or ("the loop that trains ends at once" if loop else "it ends before the loop that trains")
        yield Omission(what=f"it makes no step: {what}", location=location, remedy=remedy)

    def _used_states(self) -> list[ReadOtherwise]:
        states = (each for each in self._all if each.root.kind is LineKind.STATE and each.is_used)
        return [each for each in states if self._tells(each)]

    def _around(self, ahead: int) -> list[str]:
        """The lines of the whole run that were executed as it made an update, the innermost first."""
        frames, _, line = self._whole.chain_at(_first_call(self._values[0], self._begin + ahead, Phase.OPTIMIZER) or 0)
        lines = (line, *(frame.entered.parent_line for frame in frames))
        return [f"{frame.code.file}:{at}" for frame, at in zip(frames, lines, strict=False)]

    def _of_root(self, root: Root) -> Omission:
        """A call that differs, and of whose reason nothing is seen."""
        what, remedy = root.why or root.cause.words, _REMEDIES[None]
        opaque = [path for path in self._texts[_line(root)].reads if path in self._unseen]
        if any(each.root.name == self._model for each in self._all) and not self._kinds & _OF_MODELS:
            what = f"`{self._model}` differs in more than its parameters and buffers"
            remedy = "Give its modules what the whole run has set: `train()` or `eval()`, attributes such as `p`."
        elif opaque:
            what = f"`{opaque[0]}`, of which nothing is seen, may not be where the whole run had it: {what}"
            remedy = f"Give back how far `{opaque[0]}` has come: skip what it gave, or save it."
        return Omission(what=what, location=_line(root), remedy=remedy)

    def _tell(self, omission: Omission, *, reaches: bool) -> None:
        if omission not in (*self.not_restored, *self.beside):
            (self.not_restored if reaches else self.beside).append(omission)

    # --- states that torch's objects hold ---

    def _of_lacks(self, explained: set[int]) -> None:
        data = (root for root in self._roots if root.loading is not None or root.cause is RootCause.INPUT_DATA)
        reads_other_data = any(id(root) not in explained for root in data)
        for lack in self._lacks:
            root = lack.root
            is_explained = root is not None and id(root) in explained
            if lack.kind is ValueKind.GENERATOR and root is not None:  # one generator is no reason for another
                is_explained = any(is_plain(each.first) for each in self._otherwise(root))
            if self._skips and lack.kind is ValueKind.HYPERPARAMETER:
                continue  # the other rounds have other ones
            follows = self._skips and lack.kind is ValueKind.SCHEDULER
            if lack.kind is ValueKind.PARAMETER:  # of tensors that the optimizer is given by their names the lines tell
                given = self._texts[self._optimizer_at(lack.ahead)[0]].reads
                is_explained |= any(each.root.name in given and self._tells(each) for each in self._all)
            if is_explained or (follows and not self._held_otherwise(self._made_by(lack)[1])):
                continue
            if lack.kind is ValueKind.HYPERPARAMETER:
                if {ValueKind.OPTIMIZER_STATE, ValueKind.SCHEDULER} & self._kinds:
                    continue
                held = self._otherwise(None)
                held = [each for each in held if LineMark.ITERATES not in self._texts[each.root.location].calls]
                for each in held:
                    self._tell(self._of_lines(each), reaches=True)
                if held:
                    continue
            is_draw = root is not None and root.cause is RootCause.DRAW and not root.reaches_training
            seeds = root is not None and _line(root) in self._seeded
            is_library = root is not None and bool(root.called_from) and not root.reaches_training
            is_its_own = is_library and lack.kind is ValueKind.OUTSIDE  # a sum for its log, or an average
            reaches = (not is_draw or seeds or reads_other_data) and not is_its_own
            reaches = reaches and not self._only_begins_loaders(root)
            self._tell(self._of_state(lack), reaches=reaches)

    def _only_begins_loaders(self, root: Root | None) -> bool:
        """Return whether nothing draws from a generator but loaders that give the same samples, and have no workers."""
        if root is None or root.cause is not RootCause.DRAW or root.other_call is None:
            return False
        values = self._values[0]
        calls, names, _ = values.draws
        is_it = [values.names[name].name == root.name for name in names.tolist()]
        for group in {values.group_of(at) for at in calls[np.array(is_it, np.bool_) & (calls >= root.call)].tolist()}:
            loader, both = f"DataLoader at {_line(group)}", []
            for side, call in zip(self._values, (root.call, root.other_call), strict=True):
                rows = side.moments_of(ValueKind.INDICES, loader)
                both.append(side.moments.digest[rows[side.moments.call[rows] >= call]].tolist())
            has_workers = any(len(side.moments_of(ValueKind.WORKER_SEED, loader)) for side in self._values)
            pairs = [*zip(*both, strict=False)]
            are_alike = bool(pairs) and all(ours == theirs for ours, theirs in pairs) and NO_VALUE not in both[0]
            if has_workers or not (are_alike and group.op.startswith("aten.random_")):
                return False
        return True

    def _of_state(self, lack: NotRestored) -> Omission:
        root, name, made, kind = lack.root, "", "", lack.kind
        location = "" if root is None else _line(root)
        if kind in _HELD:
            made, name = self._made_by(lack)
        elif kind is ValueKind.OUTSIDE and (root is None or not root.called_from):
            name = next(iter(self._named_at(location)), "")
        loads = self._last_load(name)
        if kind in _HELD:
            location = self._gave_last(kind, name, lack, loads) or made or location
        location = location or self._optimizer_line()
        loading = None if root is None else root.loading
        called = f"`{name}`" if name and (kind is ValueKind.OUTSIDE or (kind is ValueKind.SCHEDULER and made)) else ""
        remedy = _REMEDIES.get(kind, _REMEDIES[None])
        if kind in _HELD or (kind is ValueKind.OUTSIDE and name):
            functions = (change.frame.code.function for change in self._whole.changes() if change.location == location)
            function = "" if name.startswith("self.") else next(functions, "")
            both = f"{name}.state_dict()", f"{name}.load_state_dict(VALUE)"
            remedy = self._pasted(*both, last(name), location, function=function)
        if kind in OF_OPTIMIZERS and len(self._updates) > 1:
            called = f"`{name}`" if kind is ValueKind.PARAMETER else self._optimizer_words(lack.ahead)
            if "`" not in called:
                remedy = f"Save the `state_dict()` of {called} ({made}), and load it where the other one is loaded."
        what = what_of(lack, called)
        if loading is not None and kind is ValueKind.DATA_POSITION:
            location = loading.loader.partition(" at ")[2] or location
            is_same, again = self._read_again(root, loading.loader)
            is_cpu = loading.order_from == "cpu"
            own = [] if is_cpu else self._own_generators(location, is_lost=True)
            if loading.order_from and is_same and (own or is_cpu):
                called = f"the generator `{own[0]}`" if own else "torch's default generator"
                what = f"{called} was in another state as {loading.loader} drew the order of the epoch"
                remedy = self._of_generator(replace(lack, name=loading.order_from), (*own, "")[0], location)
                return Omission(what=what, location=location, remedy=remedy)
            what = again or what
        is_cast = kind is ValueKind.OPTIMIZER_STATE and bool(lack.first and lack.second)  # dtypes have words
        if is_cast:
            remedy = _CAST.replace("NAME", name or "optimizer")
        elif loads is not None and self._order(location) > self._order(loads.location):
            what += f": this line sets it after {loads.location} has loaded it"
            remedy = f"Leave this line out where a checkpoint is loaded, or let it stand before {loads.location}."
        elif loads is not None and kind in _OF_MODELS and self._changes_nothing(loads, name):
            what += f", and the load at {loads.location} changes nothing there: its keys do not match, or hold the same"
            under = f"Save `{name}.state_dict()` under the names that `{name}` has there"
            remedy = f"{under}: `strict=True` tells which miss."
        elif loads is not None and loads.location == location and not lack.has_none:
            what += ", though this line loads it: what was saved is not what the whole run had"
            at = f" ({self._written})" if self._written else ""
            remedy = f"Save `{name}.state_dict()` as it is, not cast, rounded or a part of it{at}, and at this step."
        if kind is ValueKind.GENERATOR:
            what += ", and seeds the loader's workers" if location in self._seeded else ""
            remedy = self._of_generator(lack, (*self._own_generators(location), "generator")[0])
        if location in self._persistent:
            what += f"; the loader's persistent workers ({self._persistent[location]}) begin anew too"
            remedy += " Seed what workers draw from by the epoch, or by the sample's index."
        return Omission(what=what, location=location, remedy=remedy)

    def _made_by(self, lack: NotRestored) -> tuple[str, str]:
        """The line that makes the object which holds a state, and the object's name; empty where it is not seen."""
        if lack.kind in (ValueKind.SCHEDULER, ValueKind.SCALER):
            holder, _, number = lack.name.rpartition(" of ")[2].partition("#")
            made = self._makers(lambda call: call.rpartition(".")[2] == holder)[int(number or 1) - 1 :]
            return made[0] if made else ("", lack.kind.value)
        if lack.kind is ValueKind.BUFFER:
            return "", self._model
        maker = self._optimizer_at(lack.ahead)
        if lack.kind is ValueKind.PARAMETER:
            others = [owner for owner in self._given if len({*self._held.get(owner, ())}) > 1]  # a line updates several
            return "", (*self._named_at(maker[0], "parameters"), *others, self._model)[0]
        return maker

    def _optimizer_words(self, ahead: int) -> str:
        """Which of several optimizers makes an update: its name, or a parameter, where several have one name."""
        made = self._optimizer_at(ahead)
        if sum(self._optimizer_at(other) == made for other in self._updates) < 2:
            return f"the optimizer `{made[1]}`"
        names = digests_by_step(self._values[0], ValueKind.PARAMETER).get(self._begin + ahead, {})
        return f"the optimizer that updates {next(iter(names), 'these parameters')}"

    def _optimizer_at(self, ahead: int) -> tuple[str, str]:
        """The line that makes the optimizer of an update, and its name: the one that the innermost line names."""
        makers = self._makers(_is_optimizer)
        near = self._optimizer_line(ahead)
        path = next(iter(self._named_at(near, "step")), "optimizer")
        found = makers if len(makers) == 1 else [(near, path)]
        for at in self._around(ahead):
            read = {part for path in self._texts[at].reads for part in path.split(".")}
            named = {path: (made, path) for made, path in makers if last(path) in read}
            if len(named) == 1:
                found = [*named.values()]
                break
        made, name = found[0]
        is_inside = f"{last(name)}.{last(path)}" in self._own  # an object of the program's has it
        return made, f"{name}.{last(path)}" if is_inside else name

    def _makers(self, is_wanted: Callable[[str], bool]) -> list[tuple[str, str]]:
        """The lines of the whole run that make such an object, each with the name that it stores."""
        made = ((at, text) for at, text in self._whole.statements.items() if any(map(is_wanted, text.calls)))
        return [(at, path) for at, text in made for path in text.stores]

    def _is_librarys(self, name: str) -> bool:
        """Return whether a name is the model, one of torch's objects, or a part of one that it keeps for itself."""
        path = name.removeprefix(GLOBAL).split(".")
        if ".".join(path[-2:]) in self._own and self._library.isdisjoint(path[-1:]):
            return False
        return path[-1] in {*self._models, "requires_grad"} or not self._library.isdisjoint(path)

    def _gave_last(self, kind: ValueKind, name: str, lack: NotRestored, loads: Change | None) -> str:
        """The line of the resumed run that gave a state what it holds: it made the object, loaded it, or set it."""
        if kind is ValueKind.HYPERPARAMETER:
            setting, group = lack.name.partition(" of ")[0], f"{name}.param_groups"
            digest = self._held.get(group, ("", ""))[1]
            return self._resumed.gave(group, digest) if digest else self._resumed.gave(setting, lack.second)
        if kind in _OF_MODELS:
            return "" if loads is None else loads.location
        names = sorted(self._held_otherwise(name), key=lambda path: not is_plain(self._held[path][1]))
        gave = (self._resumed.gave(path, self._held[path][1]) for path in names)
        naming = ((at, (*self._texts[at].reads, *self._texts[at].stores)) for at in gave)  # not what it is inside of
        return next((at for at, paths in naming if any(last(name) in path.split(".") for path in paths)), "")

    def _held_otherwise(self, name: str) -> list[str]:
        """What an object of this name, or something in it, holds otherwise where the run resumes."""
        differing = (path for path, (mine, other) in self._held.items() if mine != other)
        return [path for path in differing if last(name) in path.split(".")]

    def _last_load(self, name: str) -> Change | None:
        """The last line of the resumed run that loads the state of an object called ``name``."""
        changes = reversed(self._resumed.changes() if name else ())
        asked = ((each, *path.rpartition(".")) for each in changes for path in each.text.reads)
        loads = (each for each, owner, _, method in asked if method == "load_state_dict" and last(owner) == last(name))
        return next(loads, None)

    def _changes_nothing(self, load: Change, name: str) -> bool:
        """Return whether a model is as it was before a line that loads it: its digest, which its function held."""
        held = [path for path, digest in self._resumed.state_at_cut(load.frame).items() if digest[:1] == "m"]
        return last(name) in map(last, held) and last(name) not in map(last, load.changed)

    def _order(self, location: str) -> int:
        """The place of a line's last execution in the resumed run; -1 if it is not executed."""
        return next((each.at for each in reversed(self._resumed.changes()) if each.location == location), -1)

    def _pasted(
        self, value: str, restore: str, key: str, made: str = "", *, function: str = "", drawn: bool = False
    ) -> str:
        """The two lines to paste: where the checkpoint is written, and where it is read or, if that is later, behind
        the line that makes the thing; ``function``: the one in which it has its name."""
        read = self._in_scope(self._resumed, self._loaded, function)
        paths = (path for text in self._resumed.statements.values() for path in text.reads if "." in path)
        holds = {path.partition(".")[0] for path in paths}
        name = next((path for path in self._texts[read].stores if path in holds), "")
        where = "" if name else f", where `checkpoint` is what {self._loaded or 'the resumed run'} loads"
        is_later = bool(read and made and self._order(made) > self._order(read))
        after = made if drawn or is_later else read
        written = self._in_scope(self._whole, self._written, function)
        behind = f" (after {after}{', where it resumes' * is_later})" if after else " before the first step"
        restore = restore.replace("VALUE", f'{name or "checkpoint"}["{key}"]')
        saved = f" ({written})" if written else "" if read else _BY_A_CALLBACK
        if keeps := next(iter(self._named_at(self._written, "save_state")), ""):  # accelerate
            register = f"{keeps}.register_for_checkpointing"
            before = f" (before {self._loaded})" if self._loaded else ""
            if value.endswith(".state_dict()"):
                return f"Save it: `{register}({value.removesuffix('.state_dict()')})`{before}."
            return f"Give `{register}` an object whose `state_dict()` has `{value}`, to be given back{before}."
        return f'Save `"{key}": {value}` in what is saved{saved}, and give it back{behind}: `{restore}`{where}.'

    def _in_scope(self, run: RunLines, location: str, function: str) -> str:
        """``location``, or the line of ``function`` that led there, if its names are no others' there."""
        at = run.place_in(function, location)
        if function != "<module>" or run.statements.get(at, LineText()).stores:
            return at
        return location  # a function has the names of its module

    def _of_generator(self, lack: NotRestored, own: str, begins: str = "") -> str:
        """``begins``: the line before which its state is needed, in each epoch."""
        name, root = lack.name, lack.root
        if name == "cpu":
            save, give, key = "torch.get_rng_state()", "torch.set_rng_state(VALUE)", "torch_rng"
        elif re.fullmatch(r"\w+:\d+", name):
            device = f"torch.{name.partition(':')[0]}"
            save, give, key = f"{device}.get_rng_state_all()", f"{device}.set_rng_state_all(VALUE)", "device_rng"
        else:
            save, give, key = f"{own}.get_state()", f"{own}.set_state(VALUE)", own
        earlier = None if root is None else root.earlier
        after = "" if earlier is None else earlier.called_from or earlier.location
        if begins:
            taken = f"Take its state as each epoch begins, before {begins}: `epoch_rng = {save}`. "
            more = "" if own else " Behind the batches that are skipped, give back the state that it has there."
            return f"{taken}{self._pasted('epoch_rng', give, 'epoch_rng')}{more}"
        return self._pasted(save, give, key, after, drawn=bool(after))

    def _own_generators(self, location: str, *, is_lost: bool = False) -> list[str]:
        """What the program calls the generators that a line changes; ``is_lost``: those that began otherwise alone."""
        changed = [(each.location, *item) for each in self._whole.changes() for item in each.changed.items()]
        states = {digest for at, _, digest in changed if at == location and digest.startswith(OWN)}
        lost = {name for name, (ours, theirs) in self._held.items() if ours != theirs}
        named = {name for _, name, digest in changed if digest in states and (name in lost or not is_lost)}
        return sorted((name.removeprefix(GLOBAL) for name in named), key=len)

    def _read_again(self, root: Root | None, loader: str) -> tuple[bool, str]:
        """Whether both runs are at the same batch of the epoch, and ``batch 3 of epoch 1 is read again``, where the
        resumed run reads indices that the whole run had before."""
        if root is None or root.other_call is None:
            return False, ""
        both = []
        for values, call in zip(self._values, (root.call, root.other_call), strict=True):
            rows = values.moments_of(ValueKind.INDICES, loader)
            rows = rows[values.moments.call[rows] <= call]
            both.append((values.moments.digest[rows].tolist(), values.moments.position[rows].tolist()))
        (ours, positions), (theirs, there) = both
        is_same = bool(ours) and positions[-1:] == there[-1:]
        if not ours or not theirs or theirs[-1] not in ours[:-1]:
            return is_same, ""
        at = len(ours) - 2 - ours[-2::-1].index(theirs[-1])
        return is_same, f"batch {positions[at]} of epoch {positions[: at + 1].count(0) - 1} is read again ({loader})"

    def _named_at(self, location: str, method: str = "") -> list[str]:
        """What a line asks for something, by name: ``average`` of ``average.update_parameters(model)``."""
        asked = [path.rpartition(".") for path in self._texts[location].reads if "." in path]
        return [owner for owner, _, attribute in asked if not method or attribute == method]

    def _optimizer_line(self, ahead: int = 0) -> str:
        """The line that makes the first common optimizer step, or a later one."""
        values = self._values[0]
        call = _first_call(values, self._begin + ahead, Phase.OPTIMIZER) if ahead else self._update
        return "" if call is None else _line(values.group_of(call))

    # --- gradients ---

    def _gradients(self) -> Iterator[Omission]:
        """Yield what the first common update shows of gradients: parameters that have none, or passes that are lost."""
        sides = [digests_by_step(values, ValueKind.GRADIENT).get(step, {}) for values, step in self._sides]
        backward, passes = next((root for root in self._roots if root.phase is Phase.BACKWARD), None), self._passes
        if not backward or ValueKind.PARAMETER in self._kinds:
            return
        if frozen := [name for name in sides[0] if name not in sides[1]]:
            flags = (name for name in self._held if last(name) == "requires_grad" and len({*self._held[name]}) > 1)
            at = next((self._whole.gave(flag, self._held[flag][0]) for flag in flags), "")
            many = f" and {len(frozen) - 1} more" if len(frozen) > 1 else ""
            where = f"; the whole run has set its `requires_grad` at {at}" if at else ""
            yield Omission(
                what=f"no gradient is made for {frozen[0]}{many}: `requires_grad` is False where it resumes{where}",
                location=at or _line(backward),
                remedy="Set `requires_grad` as the whole run has it there: by how far the run has come, and not only"
                " at the moment when it changes.",
            )
        if passes[0] > passes[1] > 0:
            saved = f" ({self._written})" if self._written else ""
            yield Omission(
                what=f"gradients accumulated before the checkpoint are lost: {passes[1]} backward pass"
                f"{'es' * (passes[1] != 1)} before the first update, and {passes[0]} in the whole run",
                location=_line(backward),
                remedy=f"Write checkpoints right after an optimizer step{saved}, or save the gradients too: "
                '`"grads": [p.grad for p in model.parameters()]`.',
            )

    def _generators_at_update(self, values: Values, step: int) -> dict[str, int]:
        rows = values.moments_of(ValueKind.GENERATOR)
        rows = rows[values.moments.call[rows] == _first_call(values, step, Phase.OPTIMIZER)]
        return {values.names[int(values.moments.name[row])].name: int(values.moments.digest[row]) for row in rows}

    # --- values of the program's ---

    def _otherwise(self, root: Root | None) -> list[ReadOtherwise]:
        """What the resumed run holds otherwise, and a call, or the first update, hangs on; of each object what tells
        most: a number before what has it inside."""
        call = self._update if root is None else -1 if root.only_second else root.call
        if call is None or call not in self._read:
            return []
        key = call, root is None
        if key not in self._memo:
            self._memo[key] = self._find_otherwise(call, root)
        return self._memo[key]

    def _find_otherwise(self, call: int, root: Root | None) -> list[ReadOtherwise]:
        read, states = [each for each in self._read[call] if each.is_seen], self._states
        found = [each for each in read if self._tells(each)]
        if not found and root is not None and root.reaches_training:
            unseen = (each for each in self._read[call] if not each.is_seen and is_plain(each.first))
            found = [each for each in unseen if each.root.kind is LineKind.STATE and self._tells(each)]
        if not found and root is not None and root.cause is RootCause.ARGUMENT:  # it is given the number itself
            given = root.first, root.second
            found = [each for each in states if all(map(str.endswith, given, (f"={each.first}", f"={each.second}")))]
        for path in self._texts[_line(root)].reads if root is not None and root.reaches_training else ():
            owner, _, attribute = path.rpartition(".")
            inside = [each for each in states if owner and last(each.root.name) == attribute]  # whoever holds it
            holder = [each for each in found if last(_name_of(each)) == last(owner) and not is_plain(each.first)]
            if inside and (holder or not found):
                found = [*(each for each in found if each not in holder), *inside]
        numbers = [each for each in states if each.root.name in self._held]
        if numbers and any(each.root.name.endswith(ARGUMENTS) for each in found):  # one that it may be given tells more
            found = list(dict.fromkeys([*(each for each in found if not each.root.name.endswith(ARGUMENTS)), *numbers]))
            return [each for each in found if not self._is_made_of(each, found)] or found
        loaders = {_object_of(each) for each in read if each.root.name and self._is_librarys(each.root.name)}
        if loaders and root is not None:  # what a sampler is given is read where nobody names it
            while new := self._whole.feeding(loaders):
                loaders |= new
            found += [each for each in numbers if each not in found and _object_of(each) in loaders]
            objects = {*map(_object_of, found)}
            found = [each for each in found if objects.isdisjoint(self._whole.feeding({_object_of(each)}))]
        return [each for each in found if not self._is_made_of(each, found)] or found

    def _is_made_of(self, each: ReadOtherwise, found: Sequence[ReadOtherwise]) -> bool:
        """Return whether each line that sets a value anew makes it of others among ``found``, and not of itself."""
        name, others = _name_of(each), {*map(_object_of, found)} - {_object_of(each)}
        anew = [change.text.reads for change in self._whole.changes() if name in change.changed][1:]
        return bool(anew) and all(name not in reads and others & {*map(object_of, reads)} for reads in anew)

    def _is_generator(self, each: ReadOtherwise) -> bool:
        return self._held.get(each.root.name, ("", ""))[1].startswith(OWN)

    def _tells(self, each: ReadOtherwise) -> bool:
        """Return whether it is a state of the program's, and none that other evidence speaks of."""
        name = _name_of(each)
        if name.startswith(GENERATOR):
            return name.removeprefix(GENERATOR) in _OF_HOST
        text, is_state = self._texts[each.root.location], each.root.kind is LineKind.STATE
        iterates = not is_state and LineMark.ITERATES in text.calls and is_plain(each.first)
        if iterates and any(map(self._is_librarys, text.reads)):
            return False  # it is the data that differs
        if not name or (not is_state and not iterates and is_named(name, text)):
            return False
        passed = any(lack.kind is ValueKind.GENERATOR and lack.name.startswith(_PASSED) for lack in self._lacks)
        if self._is_librarys(name) or (passed and self._is_generator(each)):
            return False
        known = self._named if is_state else self._stored
        return iterates or name.endswith(ARGUMENTS) or bool({last(name), last(self._dictionary(name))} & known)

    def _dictionary(self, name: str) -> str:
        """The dictionary that holds a value by a key; empty if none does."""
        parts = name.removeprefix(GLOBAL).split(".")
        paths = (".".join(parts[:many]) for many in range(1, len(parts)))
        return next((path for path in paths if path in self._dictionaries), "")

    def _of_lines(self, each: ReadOtherwise) -> Omission:
        name = _name_of(each).removeprefix(GLOBAL)
        if name.startswith(GENERATOR):
            words, give, save = _OF_HOST[name.removeprefix(GENERATOR)]
            line = next(iter(each.path), each.root.location)
            key = f"{name.removeprefix(GENERATOR)}_rng"
            return Omission(what=f"{words} was not restored", location=line, remedy=self._pasted(save, give, key))
        if name.endswith(ARGUMENTS):
            return Omission(
                what=f"`{name}` begins anew, and goes on in the whole run",
                location=each.root.location,
                remedy=f"Skip what it gave before the checkpoint, or tell `{name[:-2]}` where to begin.",
            )
        ours, theirs = self._held.get(each.root.name, (each.first, each.second))
        at = self._resumed.gave(name, theirs, each.function)
        changed = self._whole.gave(name, ours, each.function)
        key = last(name)
        if holder := self._dictionary(name):
            key = name[len(holder) + 1 :]
            name = f'{holder}["{key}"]'
            if key not in self._named:  # no line names it
                name, key, ours, theirs = holder, last(holder), "", ""
        text = self._texts[each.root.location]
        if each.root.kind is not LineKind.STATE and LineMark.ITERATES in text.calls:
            first = "the first round that the checkpoint has not made"
            key = f'checkpoint["{last(name)}"]'
            return Omission(
                what=f"`{name}` is {theirs}, and {ours} in the whole run",
                location=each.root.location,
                remedy=f"Let this loop go on at {ours} there, {first}: `range({key} + 1, ...)`, say.",
            )
        since = f", which set it at {changed}" if changed and changed != at else ""
        what = f"`{name}` is {theirs}, and {ours} in the whole run{since}"
        if not (is_plain(ours) and is_plain(theirs)):
            made = f"it is as {at} made it, and " if at else ""
            what = f"`{name}` was not restored: {made}the whole run had changed it{f' at {changed}' if changed else ''}"
        save, give = name, f"{name} = VALUE"
        if theirs[:1] == "m":
            save, give, key = f"{name}.state_dict()", f"{name}.load_state_dict(VALUE)", last(_object_of(each))
        elif theirs.startswith(OWN):
            makers = [text for text in self._resumed.statements.values() if key in map(last, text.stores)]
            calls = " ".join(call for text in (self._texts[at], *makers) for call in text.calls)  # or its class's
            save, give = next((both for kind, both in _STATES_OF.items() if kind in calls), _STATES_OF["torch"])
            save, give = save.replace("NAME", name), give.replace("NAME", name)
        location = at or changed or next(iter(each.path), each.root.location)
        pasted = self._pasted(save, give, key, at, function="" if name.startswith("self.") else each.function)
        return Omission(what=what, location=location, remedy=pasted)

    def _tell_counters(self) -> None:
        """Tell numbers that the program's lines count by: a count that nothing sets back counts as not restored."""
        counting, resets = set[str](), Counter[str]()
        for change in self._whole.changes():
            for name, digest in change.changed.items():
                if last(name) in map(last, change.text.stores) and is_plain(digest):
                    is_anew = LineMark.ITERATES in change.text.calls  # each round of the loop sets it, whatever it held
                    is_counted = name.removeprefix(GLOBAL) in change.text.reads and not is_anew
                    counting.update([name] if is_counted else [])
                    resets[name] += not is_counted
        for each in self._all:
            name = each.root.name
            is_number = each.root.kind is LineKind.STATE and is_plain(each.first) and is_plain(each.second)
            is_own = name in self._held and name in counting and not self._is_librarys(name)
            if is_number and is_own and (name, each.first) in self._repeated:
                is_count = _INTEGER.fullmatch(each.first) is not None and resets[name] <= 1
                self._tell(self._of_lines(each), reaches=is_count)


def _name_of(each: ReadOtherwise) -> str:
    return each.root.name or next(iter(each.names), "")


def _object_of(each: ReadOtherwise) -> str:
    return object_of(_name_of(each))


def _calling(run: RunLines, *beginnings: str) -> str:
    """The first line of a run, up to the cut, that calls what is named so; empty if none does."""
    for change in run.changes():
        names = [last(call) for call in change.text.calls if "load_state_dict" not in change.text.calls[0]]
        if any(name.startswith(beginnings) and name != "load_state_dict" for name in names):
            return change.location
    return ""


def _is_optimizer(call: str) -> bool:
    return re.fullmatch(r"torch\.optim\.(?!lr_scheduler|swa_utils)[\w.]+(?<!\.Optimizer)", call) is not None


def _first_call(values: Values, step: int, phase: Phase) -> int | None:
    """The first call of a phase in a step."""
    is_in_phase = np.array([group.phase is phase for group in values.groups], np.bool_)
    calls = (call for call in np.flatnonzero(is_in_phase[values.group]).tolist() if values.step_of(call) >= step)
    call = next(calls, None)
    return call if call is not None and values.step_of(call) == step else None


def _common_call(whole: Values, resumed: Values, begin: int, lines: RunLines) -> tuple[int, int] | None:
    """The first call of a resumed run whose line, in a loop, makes calls from step ``begin`` on in the whole one."""
    later: dict[str, int] = {}
    for call in reversed(range(len(whole))):
        if whole.step_of(call) < begin:
            break
        if lines.statements.get(place := _line(whole.group_of(call)), LineText()).loop:
            later[place] = call
    places = ((_line(resumed.group_of(call)), call) for call in range(len(resumed)))
    return next(((later[place], call) for place, call in places if place in later), None)


def _line(call: Root | Group) -> str:
    return call.called_from or call.location


def _of_optimizer(words: str, called: str) -> str:
    return f"the {words.rpartition(' ')[2]} of {called}" if called else words


def what_of(lack: NotRestored, called: str = "") -> str:
    """What was not restored: ``the scheduler StepLR is 6 steps behind``; ``called``: what the program calls it."""
    root, words = lack.root, _of_optimizer(_RESTORED.get(lack.kind, lack.kind.value.replace("-", " ")), called)
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
        return f"{called} {kept}" if called or root is None else root.why
    name = lack.name.partition("#")[0]
    if called and lack.kind is ValueKind.SCHEDULER:
        name = f"{called} ({name})"
    elif called:
        name += f" of {called}"
    if lack.first and lack.second:
        first, second = parted(lack.first, lack.second)
        done = [int(number) for side in (first, second) for number in re.findall(r"^last_epoch=(\d+)", side)]
        if lack.kind is ValueKind.SCHEDULER and len(done) == 2 and (behind := done[0] - done[1]) > 0:
            return f"the scheduler {name} is {behind} step{'s' * (behind != 1)} behind"
        return f"{name} is {second}, and {first} in the whole run"
    if lack.has_none:
        return f"{words} were not restored: there are none where the run resumes"
    more = f" and {lack.count - 1:,} more" if lack.count > 1 else ""
    return f"{words} {'are missing' if lack.is_missing else 'differ'}: {lack.name}{more}"


_RESTORED = {
    ValueKind.PARAMETER: "parameters",
    ValueKind.BUFFER: "buffers",
    ValueKind.OPTIMIZER_STATE: "the optimizer's states",
    ValueKind.HYPERPARAMETER: "the optimizer's settings",
    ValueKind.SCHEDULER: "the scheduler's fields",
    ValueKind.SCALER: "the scaler's fields",
}
_CAST = (
    "`load_state_dict` casts states to the dtype of their parameters: give back the saved ones after it:"
    ' `for state, saved in zip(NAME.state.values(), checkpoint["NAME"]["state"].values()): state.update(saved)`.'
)
#: Where neither line is seen that writes or reads a checkpoint.
_BY_A_CALLBACK = " (a callback of Transformers has `ExportableState.state()` for that, one of Lightning `state_dict()`)"
#: What to do where no object is named.
_REMEDIES: Mapping[object, str] = {
    ValueKind.OUTSIDE: "Save what this line keeps in the checkpoint, and give it back before the first step.",
    ValueKind.DATA_POSITION: (
        "Begin the sampler where the checkpoint was made: save how many batches of the epoch were read, and give the"
        ' sampler the indices of the epoch that are left: `indices[batch_size * checkpoint["batches"] :]`.'
    ),
    None: (
        "What it hangs on was not seen to begin otherwise. `tracer diff` of the recordings whole.json and resumed.json"
        " shows the calls around it."
    ),
}
