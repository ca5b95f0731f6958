"""Who seeded torch's generators: every call that sets a generator's state is recorded with its line.

All such calls end in methods of ``torch.Generator`` (``torch.manual_seed``, ``fork_rng``, a library's ``set_seed``),
which are replaced during a watch. A state is identified by the seed that it was derived from.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
from collections.abc import Iterator
from functools import partial
from types import FrameType
from typing import Any

import msgspec
import torch

from tracer.names import GeneratorKind, SeedOrigin
from tracer.recording.events import EventLog
from tracer.recording.patching import Watch, WatchedCall
from tracer.recording.randomness import seed_calls
from tracer.recording.randomness.host_generators import (
    FIXED,
    MACHINE,
    PROGRAM,
    UNSEEN,
    Drawn,
    Elsewhere,
    GeneratorWatch,
    Provenance,
)
from tracer.recording.randomness.seed_calls import Newest
from tracer.recording.torch_private import seams

_TORCH = os.path.join(os.path.dirname(torch.__file__), "")
_DATA = os.path.join(_TORCH, "utils", "data", "")
DISTRIBUTED_SAMPLER = os.path.join(_DATA, "distributed.py")
TORCH_RANDOM = os.path.join(_TORCH, "random.py")
#: Torch's own functions that seed on behalf of whoever called them.
_ON_BEHALF = frozenset(
    {
        *("manual_seed", "_manual_seed_impl", "manual_seed_all", "_seed_custom_device", "seed", "seed_all", "cb"),
        *("set_rng_state", "set_rng_state_all", "_set_rng_state_offset", "_lazy_call", "_lazy_init", "fork_rng"),
    }
)
#: Files whose functions wrap others: Dynamo wraps ``torch.manual_seed`` as it loads.
_WRAPPING = (
    os.path.join(_TORCH, "_dynamo", "eval_frame.py"),
    os.path.join(_TORCH, "_dynamo", "external_utils.py"),
    os.path.join(_TORCH, "_compile.py"),
    os.path.join(os.sep, "contextlib.py"),
    os.path.join("recording", "patching.py"),
    os.path.join("recording", "fake", "gpu.py"),
)


class SeedCaller(msgspec.Struct, frozen=True):
    """The caller of a generator's method, skipping torch's own functions that only forward the call."""

    frame: FrameType | None
    functions: tuple[str, ...]
    through_torch_random: bool
    """Whether ``torch.manual_seed`` or ``torch.seed`` passed it on to each kind of device."""

    @property
    def file(self) -> str:
        return self.frame.f_code.co_filename if self.frame is not None else ""

    @property
    def is_torch(self) -> bool:
        """Whether torch itself called: a sampler, a checkpoint, the compiler."""
        return "fork_rng" in self.functions or self.file.startswith(_TORCH)


def seed_caller(frame: FrameType | None) -> SeedCaller:
    functions = []
    through = False
    while frame is not None:
        code = frame.f_code
        is_passing_on = code.co_name in _ON_BEHALF and code.co_filename.startswith(_TORCH)
        if not is_passing_on and not code.co_filename.endswith(_WRAPPING):
            break
        if is_passing_on:
            functions.append(code.co_name)
            through |= code.co_filename == TORCH_RANDOM and code.co_name in ("seed", "manual_seed", "_manual_seed_impl")
        frame = frame.f_back
    return SeedCaller(frame, tuple(functions), through)


#: What torch seeds every new ``torch.Generator`` with.
FIXED_SEED = torch.Generator().initial_seed()
#: A machine's seeds have 64 random bits on the CPU and 53 elsewhere. A seed below these was chosen by a person, but for
#: one case in 65,536 or in two million; so was a small negative one, which torch stores as its complement.
_CHOSEN_BELOW = {"cpu": 2**48}
_CHOSEN_BELOW_ELSEWHERE = 2**32
_NEGATIVE_FROM = 2**64 - 2**32


class SeedWatch(GeneratorWatch):
    """The watch of torch's generators. A seed that was not seen is judged by its size: entropy has 53 bits or more."""

    def __init__(self) -> None:
        super().__init__()
        seed_calls.DREW_UNSEEDED["torch"] = self._drew_unseeded
        seed_calls.DREW_UNSEEDED["torch's seed"] = self._is_machines
        self._of_defaults = Newest()
        self._of_passed = Newest()
        self._grown = Newest()
        """Seeds that torch drew from the default generator, for a generator of a sampler's own."""
        self._defaults: dict[torch.device, tuple[str, Any]] = {}
        self._elsewhere: Elsewhere = ()
        """As a device would have it that was not started, or that this machine lacks; empty where nobody knows."""
        self._elsewhere_beside = Newest(256)
        """The same beside each of the last seeds of the CPU's generator."""
        self._had_drawn = False
        self._rest = b""
        """The state of the CPU's that the machine last chose; empty if one was drawn from, or is unknown."""
        self.sees_lines = True
        """Whether calls are seen that do not go through torch's own functions."""

    # --- who listens ---

    def start(self, log: EventLog, *, from_torch_import: bool = False) -> None:
        """Note in ``log`` what seeds a generator. ``from_torch_import``: none can have been seeded before."""
        if self._begin(log):
            methods = {
                "manual_seed": Watch(self._look_at_number, self._note_seed),
                "seed": Watch(self._look, self._note_seed),
            }
            for name in ("set_state", "set_offset", "graphsafe_set_state"):
                methods[name] = Watch(self._look, self._note_state)
            placed = [self._watch((torch._C.Generator, name), watch) for name, watch in methods.items()]
            self.sees_lines = any(placed)
            owners = seams.sleeping_devices() if self.sees_lines else [torch, torch.random]
            for owner in owners:
                for name in ("manual_seed", "manual_seed_all" if self.sees_lines else "seed"):
                    module = torch.random if owner is torch else owner
                    self._watch((owner, name), Watch(after=partial(self._announced, module.__name__)))
            for kind, module, names in seams.seeds_of_devices():
                for name in names:
                    self._watch((module, name), Watch(after=partial(self._asked_of_device, kind, name)))
        if from_torch_import:
            self._of_defaults.note(torch.initial_seed(), MACHINE)
            self._rest = state_of(torch.default_generator)
            self._seeded_elsewhere("", MACHINE)

    def stop(self, log: EventLog) -> None:
        """End the watch that ``start`` began with this log; the last restores torch's methods and forgets all seeds."""
        if self._end(log):
            for seeds in (self._of_defaults, self._of_passed, self._grown, self._defaults, self._elsewhere_beside):
                seeds.clear()
            self._elsewhere = ()

    def states(self) -> Iterator[tuple[str, str, Provenance]]:
        for name, generator in seams.default_generators():
            yield name, digest_of(state_of(generator)), self.provenance(generator)

    # --- what a draw asks ---

    def default(self, device: torch.device) -> Drawn:
        """The default generator of ``device``, and where its state came from."""
        entry = self._defaults.get(device)
        if entry is None:
            name, generator = seams.default_generator(device)
            if generator is None:
                there = dict(self._elsewhere)
                return name, there.get(device.type) or there.get("", UNSEEN), ()
            if device.index is None and device.type != "cpu":  # whichever device is the current one
                return name, self.provenance(generator), ()
            entry = self._defaults[device] = (name, generator)
        name, generator = entry
        return name, self.provenance(generator), self._elsewhere if name == "cpu" else ()

    def passed(self, generator: torch.Generator) -> Drawn:
        if self._is_default(generator):
            return self.default(generator.device)
        if grown := self._grown.get(generator.initial_seed()):
            return "cpu", grown, ()
        return GeneratorKind.PASSED.on(generator.device), self.provenance(generator, self._of_passed), ()

    def provenance(self, generator: Any, seeds: Newest | None = None) -> Provenance:
        """The origin of a generator's state, by ``seeds``: those of default generators, if none are given."""
        seed = generator.initial_seed()
        known: Provenance | None = (self._of_defaults if seeds is None else seeds).get(seed)
        below = _CHOSEN_BELOW.get(generator.device.type, _CHOSEN_BELOW_ELSEWHERE)
        by_value = PROGRAM if seed < below or seed >= _NEGATIVE_FROM else MACHINE
        return known or (FIXED if seed == FIXED_SEED else by_value)

    def _drew_unseeded(self) -> bool:
        return self._is_machines() and state_of(torch.default_generator) != self._rest

    def _is_machines(self) -> bool:
        is_machines = self.provenance(torch.default_generator).origin is SeedOrigin.MACHINE
        return is_machines and os.getpid() == self._process  # torch seeds workers itself

    def _is_default(self, generator: torch.Generator) -> bool:
        _name, default = seams.default_generator(generator.device)
        return default is not None and default._cdata == generator._cdata  # type: ignore[attr-defined]

    # --- what seeds ---

    def _look(self, call: WatchedCall) -> None:
        is_default = self._is_default(call.first)
        self._had_drawn = is_default and call.first.device.type == "cpu" and self._drew_unseeded()
        if is_default and call.first.device.type == "cpu":
            seed_calls.is_replaced("torch", call.frame, drew_unseeded=self._had_drawn)
            seed_calls.is_replaced("torch's seed", call.frame, drew_unseeded=self._is_machines())
        if self._had_drawn:
            self._rest = b""
        call.before = state_of(call.first) if self.recordings and is_default else b"", False

    def _look_at_number(self, call: WatchedCall) -> None:
        """Whether the number differs in every process is asked before it is the state that a draw of it came from."""
        self._look(call)
        caller = seed_caller(call.frame)
        if not caller.is_torch or caller.through_torch_random:
            seed = call.args[1] if len(call.args) > 1 else call.kwargs.get("seed")
            call.before = call.before[0], seed_calls.takes_another_number(caller.frame, seed)

    def _asked_of_device(self, kind: str, name: str, call: WatchedCall) -> None:
        """A function of one kind of device seeds its generators, started or not, on this machine or not."""
        caller = seed_caller(call.frame)
        is_queued = name == seams.QUEUES_SEEDS
        if caller.is_torch or caller.through_torch_random or (is_queued and "set_rng_state" not in caller.functions):
            return
        if is_queued or name == "set_rng_state":
            origin = SeedOrigin.RESTORED
        else:
            seed = call.first if call.args else call.kwargs.get("seed")
            origin = _origin(seed is None or seed_calls.takes_another_number(caller.frame, seed))
        self._seeded_elsewhere(kind, self._at(origin, caller.frame))

    def _seeded_elsewhere(self, kind: str, provenance: Provenance) -> None:
        """Generators of ``kind``, or of every device but the CPU, have a state of this origin."""
        others = dict(self._elsewhere) if kind else {}
        self._elsewhere = tuple((others | {kind: provenance}).items())
        self._keep_elsewhere()

    def _keep_elsewhere(self) -> None:
        """Other devices' generators are put back with the CPU's where a block of torch's ends."""
        self._elsewhere_beside.note(torch.initial_seed(), self._elsewhere)

    def _announced(self, module: str, call: WatchedCall) -> None:
        """torch seeds a device that is not initialized: the call is queued, its line is noted now."""
        if call.frame.f_code.co_filename != TORCH_RANDOM:
            seed = call.first if call.args else call.kwargs.get("seed")
            is_drawn = seed is not None and seed_calls.takes_another_number(call.frame, seed)
            origin = _origin(seed is None or is_drawn)
            number = int(torch.initial_seed() if seed is None else seed) % 2**64
            self._of_defaults.note(number, self._at(origin, call.frame))
            name = GeneratorKind.TORCH.value if module == "torch.random" else module.split(".")[1]
            self._note_event(name, origin, call.frame, number, is_drawn=is_drawn)

    def _note_seed(self, call: WatchedCall) -> None:
        generator, (before, is_drawn), caller = call.first, call.before, seed_caller(call.frame)
        self._reseeded(generator, before)
        is_from_machine = len(call.args) == 1 and not call.kwargs  # `manual_seed` takes a number
        seed = generator.initial_seed()
        is_default = self._is_default(generator)
        values = self._of_defaults if is_default else self._of_passed
        earlier = values.get(seed)
        device = generator.device.type
        is_asked = not caller.is_torch or caller.through_torch_random
        if is_asked and not is_from_machine and seed >= _CHOSEN_BELOW_ELSEWHERE:
            # Another generator may have this number from the machine, as its `seed()` gave it.
            known = filter(None, (values.get(seed) for values in (self._of_defaults, self._of_passed)))
            is_drawn = is_drawn or any(other.origin is SeedOrigin.MACHINE for other in known)
        origin = _origin(is_from_machine or is_drawn)
        if is_default and device == "cpu" and origin is SeedOrigin.MACHINE and not self._had_drawn:
            self._rest = state_of(generator)
        if "_lazy_init" in caller.functions or (caller.through_torch_random and device != "cpu"):
            # Noted where it was asked for, or about to be: torch.manual_seed comes to the CPU's generator last.
            if earlier is None:
                values.note(seed, self._at(origin, caller.frame))
            return
        if is_samplers := caller.is_torch and caller.file != DISTRIBUTED_SAMPLER:
            # A sampler's own generator grew from a number that was drawn from the default one.
            provenance = MACHINE if is_from_machine else self.provenance(torch.default_generator)
            if not is_default and not is_from_machine:
                self._grown.note(seed, provenance)
        else:
            provenance = self._at(origin, caller.frame)
        values.note(seed, provenance)
        if caller.through_torch_random:
            self._seeded_elsewhere("", provenance)
        elif is_default and not is_samplers:
            self._keep_elsewhere()
        if not is_samplers and not (is_default and "cb" in caller.functions and earlier is provenance):
            # In the other case, another device's was noted.
            name = device if is_default else GeneratorKind.PASSED.value
            name = GeneratorKind.TORCH.value if caller.through_torch_random else name
            self._note_event(name, origin, caller.frame, seed, is_drawn=is_drawn)

    def _note_state(self, call: WatchedCall) -> None:
        generator, (before, _), caller = call.first, call.before, seed_caller(call.frame)
        seed = generator.initial_seed()
        is_default = self._is_default(generator)
        values = self._of_defaults if is_default else self._of_passed
        if is_default and "fork_rng" in caller.functions:
            self._elsewhere = self._elsewhere_beside.get(seed, self._elsewhere)
        if values.get(seed) is None:
            other = (self._of_passed if is_default else self._of_defaults).get(seed)
            values.note(seed, other or self._at(SeedOrigin.RESTORED, caller.frame))
        if not caller.is_torch:
            name = str(generator.device) if is_default else GeneratorKind.PASSED.value
            self._note_event(name, SeedOrigin.RESTORED, caller.frame)
        self._reseeded(generator, before)

    def _reseeded(self, generator: Any, before: bytes) -> None:
        name, _ = seams.default_generator(generator.device)
        for recording in tuple(self.recordings) if before else ():
            recording.seeded(name, UNSEEN, digest_of(before), digest_of(state_of(generator)))


def _origin(is_from_machine: bool) -> SeedOrigin:
    return SeedOrigin.MACHINE if is_from_machine else SeedOrigin.PROGRAM


def state_of(generator: Any) -> bytes:
    """The bytes of a generator's state; empty if it has none (while a CUDA graph is captured)."""
    try:
        state = generator.get_state()
        return ctypes.string_at(state.data_ptr(), state.numel())
    except Exception:
        return b""


def digest_of(state: bytes) -> str:
    """The digest of a state, sixteen hexadecimal digits; empty if the state could not be read."""
    return hashlib.blake2b(state, digest_size=8).hexdigest() if state else ""


#: The watch of this process.
SEEDS = SeedWatch()
