"""Code that runs past the recorder, noticed at the few functions that such code goes through."""

from __future__ import annotations

import sys
import threading
import weakref
from _thread import get_ident
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import chain
from types import FrameType
from typing import Any

import torch

from tracer.names import BlindSpotKind, RegionOrigin
from tracer.recording.calls import first_tensor
from tracer.recording.compiled import CompiledCode
from tracer.recording.origin import USER, Sites, is_torchs_own, outwards, spell
from tracer.recording.origin.modules import OWN_HOOK
from tracer.recording.patching import WatchedCall, WatchedFunction, Watchers
from tracer.recording.storage import native_code
from tracer.recording.torch_private import compile_seams, seams
from tracer.recording.torch_private.seams import without_recording
from tracer.trace.records import BlindSpot

#: Elements that hold what they held: one may have been written with the same number.
_KEPT = 3
_NEWEST_ARRAYS = 4096
#: Threads in which Inductor compiles; they outlive the recording in which they were started.
_COMPILERS_THREADS: weakref.WeakSet[threading.Thread] = weakref.WeakSet()


class BlindSpots:
    """Blind spots of one recording, each with its count."""

    def __init__(self, sites: Sites, on_dynamo: Callable[[], None]) -> None:
        self._sites = sites
        self._on_dynamo = on_dynamo
        self._counts: Counter[tuple[BlindSpotKind, str, str]] = Counter()
        self._loaders: weakref.WeakSet[Any] = weakref.WeakSet()
        """Iterators over a DataLoader that were counted."""
        self.on_compiled_call: Callable[[Any], None] = lambda function: None
        """Called with each function of the program that is about to run compiled."""
        self.on_unseen: Callable[[], None] = lambda: None
        """Called before code runs that may write to any tensor."""
        self.on_unrecorded_module: Callable[[torch.nn.Module], None] = lambda module: None
        """Called with each module that runs on a thread that is not recorded."""
        self._recorded_thread = get_ident()
        self._started: weakref.WeakKeyDictionary[threading.Thread, str] = weakref.WeakKeyDictionary()
        """The lines that started Python threads while recording."""
        self._alive: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
        """Threads that were noted because they were alive as recording began or ended."""
        self._may_have_written: Counter[str] = Counter()
        """The number of threads that may compute, by the line that started them."""
        self._computed: Counter[str] = Counter()
        """The number of them that are known to compute."""
        self._suspected: dict[str, int] = {}
        """Those of them that had been started when memory changed that no recorded call wrote."""
        self._arrays: dict[int, tuple[tuple[int, int], list[bytes]]] = {}
        """Where the newest arrays lie that NumPy gave unwritten, and what lay there; by ``id``: it resizes none that is
        referred to."""
        self._autocasts: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()
        """Whether each ``autocast`` was asked to be on."""
        self._natives: set[str] = set()
        """The extension modules whose functions are watched."""
        self._module_ran = False
        self._this_thread = threading.local()
        """``computed``: whether this thread was noted."""

    def note(self, kind: BlindSpotKind, code: str, frame: FrameType | None = None, *, lost: str = "") -> None:
        """Count one blind spot: ``code``, at the user's own line that led to ``frame``, else one outside torch."""
        location = spell(self._sites.users_own(frame)) or self._sites.location(frame)
        self._counts[kind, kind.of(code, lost), location] += 1
        # A loader: the method by which it shares memory is watched. A stand-in writes nothing.
        if kind not in (BlindSpotKind.DATALOADER, BlindSpotKind.FAKE_VALUE, BlindSpotKind.AUTOCAST):
            self.on_unseen()

    def start(self) -> None:
        """Begin to watch, and note the threads that run already and may compute."""
        self._recorded_thread = get_ident()
        self._note_threads()
        self._module_ran = False
        self.look_for_natives(afresh=True)
        WATCHES.add(self)

    def stop(self) -> None:
        """Stop watching, and note the threads that are alive and may have computed."""
        self.look_for_natives(afresh=True)
        WATCHES.discard(self)
        self._note_threads()

    def look_for_natives(self, *, afresh: bool = False) -> None:
        """Watch the functions of extension modules that were loaded meanwhile; once modules ran, some may have too."""
        if not native_code.is_new(afresh=afresh):
            return
        modules = {name.partition(".")[0] for name in native_code.native_functions()} - self._natives
        WATCHES.look_again()
        lost = "it was loaded while recording, so calls of it may be unseen"
        for name in modules if self._module_ran else ():
            self.note(BlindSpotKind.NATIVE, name, lost=lost)
        lost = "an object of the program holds it, so calls of it may be unseen"
        for name in native_code.held_elsewhere() if modules else ():
            self.note(BlindSpotKind.NATIVE, name, lost=lost)
        self._natives |= modules

    def native_starts(self, call: WatchedCall, name: str, is_method: bool) -> None:
        """Native code that is no registered op is about to run."""
        call.before = is_method or first_tensor((*call.args, *call.kwargs.values())) is not None
        if call.before:
            self._native_runs(call, name)

    def native_ends(self, call: WatchedCall, name: str) -> None:
        if not call.before and first_tensor((call.result,)) is not None:
            self._native_runs(call, name)
        self.on_unseen()

    def _native_runs(self, call: WatchedCall, name: str) -> None:
        inside = (frame for frame in outwards(call.frame) if frame.f_code.co_name == "__torch_dispatch__")
        if not any(seams.is_foreign_op(frame.f_locals.get("func")) for frame in inside):  # those have tables
            self.note(BlindSpotKind.NATIVE, name, call.frame)

    def storage_made(self, call: WatchedCall) -> None:
        """A storage was made; torch's own are made for its files and processes, but for those of typed storages."""
        size, code = [*call.args, 0][1], call.frame.f_code
        is_typed = code.co_filename == torch.storage.__file__ and code.co_name in ("__init__", "__new__")
        if type(size) is int and size and (is_typed or not is_torchs_own(code.co_filename)):
            self.note(BlindSpotKind.MEMORY, "torch.UntypedStorage", call.frame)

    def shares(self, call: WatchedCall) -> None:
        """A tensor moves to memory that other processes may write too; loaders do so with their batches."""
        if call.first.is_leaf and call.first.requires_grad:
            self.note(BlindSpotKind.SHARED_MEMORY, "a parameter was put into shared memory", call.frame)

    def array_made(self, call: WatchedCall) -> None:
        """NumPy gave the program an array that nothing was written to."""
        if self._sites.kind_of(call.frame.f_code.co_filename) != USER:
            return
        self._arrays[id(call.result)] = _place_of(call.result), _sample_of(call.result)
        if len(self._arrays) > _NEWEST_ARRAYS:
            del self._arrays[next(iter(self._arrays))]

    def array_taken(self, call: WatchedCall) -> None:
        """Note an array that becomes a tensor, if it or a part of it holds what it held when NumPy gave it."""
        array = call.first
        while type(array).__module__ == "numpy":
            place, sample = self._arrays.get(id(array), (None, []))
            if place == _place_of(array):  # zeros that lay there may stand for zeros that were written
                same = sum(map(bytes.__eq__, sample, _sample_of(array)))
                if same >= min(_KEPT, len(sample)):
                    self.note(BlindSpotKind.MEMORY, "an array of numpy.empty", call.frame)
            array = array.base

    def autocast_made(self, call: WatchedCall) -> None:
        """An ``autocast`` was made: torch keeps whether it is on, not whether that was asked for."""
        self._autocasts[call.args[0]] = bool(call.kwargs.get("enabled", [*call.args, True, True, True][3]))

    def autocast_entered(self, call: WatchedCall) -> None:
        cast = call.args[0]
        module = getattr(torch, cast.device, None)
        is_absent = cast.device != "cpu" and not getattr(module, "is_available", lambda: True)()
        if is_absent and self._autocasts.get(cast, True):  # one that was made unseen may have been asked for
            self.note(BlindSpotKind.AUTOCAST, f"torch.autocast({cast.device!r}, {cast.fast_dtype})", call.frame)

    def loader_fetches(self, call: WatchedCall) -> None:
        """An iterator over a ``DataLoader`` fetches a batch."""
        workers = getattr(call.first, "_num_workers", 0)
        if workers and call.first not in self._loaders:  # it counts once, however many batches it yields
            self._loaders.add(call.first)
            self.note(BlindSpotKind.DATALOADER, f"a DataLoader with {workers} worker processes", call.frame)

    def scripted_runs(self, call: WatchedCall) -> None:
        self.note(BlindSpotKind.SCRIPTED, f"scripted function {call.first.name}", call.frame)

    def package_runs(self, call: WatchedCall) -> None:
        self.note(BlindSpotKind.COMPILED, "a package of AOTInductor ran", call.frame)

    def compiled_runs(self, call: WatchedCall) -> None:
        """A function is about to run compiled, unless ``torch.compiler.disable`` wraps it."""
        calls, scope = call.frame.f_code.co_name in ("compile_wrapper", "_fn"), call.frame.f_locals
        function, callback = scope.get("fn"), scope.get("callback")
        if not calls or function is None or callback is None:
            return
        self.on_compiled_call(function)
        for cell in getattr(function, "__closure__", None) or ():
            if isinstance(cell.cell_contents, torch.nn.Module):  # torch wraps modules of its own in a function
                function = cell.cell_contents
        owner = getattr(function, "__self__", function)
        if isinstance(owner, torch.nn.Module):
            name = type(owner).__qualname__
        elif str(getattr(function, "__module__", "")).startswith("torch._higher_order_ops"):
            return  # torch's own compilation of a higher-order op, whose body is seen
        else:
            name = getattr(function, "__qualname__", "a function")
        self._note_compiled(name, compile_seams.backend_of(callback), call.frame)

    def _note_compiled(self, name: str, backend: str, frame: FrameType) -> None:
        """Note what ``backend`` compiles, unless its regions are recorded."""
        is_inductors, is_off = backend == compile_seams.INDUCTOR, compile_seams.is_compilation_off()
        keeps_compiled = not seams.KEEPS_COMPILED_CODE or seams.dispatch_modes_keep_compiled()
        if is_off or compile_seams.FALLS_BACK or not keeps_compiled:
            why = "--eager was asked for" if is_off else "a dispatch mode was active"
            self.note(BlindSpotKind.COMPILE_FELL_BACK, f"{name} is compiled, and ran eagerly because {why}", frame)
        elif backend not in compile_seams.DISPATCHING and not (is_inductors and compile_seams.SEES_REGIONS):
            by = "" if is_inductors else f" by the backend {backend}"
            self.note(BlindSpotKind.COMPILED, f"{name} is compiled{by}", frame)

    def _note_threads(self) -> None:
        for thread in set(threading.enumerate()).difference(self._alive, (threading.main_thread(),)):
            if thread.ident != get_ident() and self._may_compute(thread):
                self.note(BlindSpotKind.OTHER_THREAD, "another Python thread was alive while recording")
                self._alive.add(thread)

    def _may_compute(self, thread: threading.Thread) -> bool:
        """A library's daemon does not: progress bars and the pinning of memory run in such. Nor does a compiler's."""
        if thread in _COMPILERS_THREADS:
            return False
        runs: Any = getattr(thread, "_target", None) or type(thread).run
        code = getattr(getattr(runs, "func", runs), "__code__", None)  # behind a ``functools.partial``
        return not thread.daemon or (code is not None and self._sites.kind_of(code.co_filename) == USER)

    def thread_starts(self, call: WatchedCall) -> None:
        thread = call.first
        # Its starter is in ``Thread.start``, which waits until the thread runs.
        frames = chain.from_iterable(map(outwards, sys._current_frames().values()))
        starts = (each for each in frames if each.f_code.co_name == "start" and each.f_globals is vars(threading))
        frame = next((each.f_back for each in starts if each.f_locals.get("self") is thread), None)
        if compile_seams.is_compiling(frame):
            _COMPILERS_THREADS.add(thread)
        location = self._started[thread] = self._sites.location(frame)
        if self._may_compute(thread):
            self.note(BlindSpotKind.OTHER_THREAD, "a Python thread was started", frame)
            self._may_have_written[location] += 1

    def memory_changed(self) -> None:
        """A call read bytes that changed although no recorded call wrote them: threads may have."""
        self._suspected = dict(self._may_have_written)

    def work_ends(self, call: WatchedCall) -> None:
        """This thread ends, or its task: note whether it recorded nodes."""
        thread = call.first if isinstance(call.first, threading.Thread) else threading.current_thread()
        if thread.ident != self._recorded_thread and thread in self._started and seams.next_sequence_number() > 0:
            self._thread_computes("a Python thread recorded a graph of autograd", self._started[thread])

    def module_on_other_thread(self, module: torch.nn.Module) -> None:
        what = "modules ran on a Python thread other than the recorded one"
        with suppress(Exception):  # a failure of the recorder must not reach the program
            self._thread_computes(what, self._sites.location(sys._getframe(1)))
            self.on_unseen()
            self.on_unrecorded_module(module)

    def _thread_computes(self, what: str, location: str) -> None:
        if not getattr(self._this_thread, "computed", False):
            self._this_thread.computed = True
            self._computed[self._started.get(threading.current_thread(), location)] += 1
            self._counts[BlindSpotKind.COMPUTING_THREAD, BlindSpotKind.COMPUTING_THREAD.of(what), location] += 1
            self.on_unseen()

    @property
    def threads_computed(self) -> bool:
        return bool(self._suspected) or bool(self._computed)

    def module_met(self, module: torch.nn.Module) -> None:
        """Note whether a module that runs for the first time is compiled or scripted."""
        self._module_ran = True
        if isinstance(module, torch.jit.ScriptModule):
            name = getattr(module, "original_name", type(module).__name__)
            self.note(BlindSpotKind.SCRIPTED, f"scripted module {name}")
        if seams.is_generated_module(module):
            self.compiled_code_ran()
        self.look_again()

    def look_again(self) -> bool:
        """Watch torch's compiler if it was loaded meanwhile, at its first use; return whether it was."""
        before = WATCHES.placed
        if "torch._dynamo.eval_frame" not in sys.modules:
            return False
        WATCHES.look_again()
        if is_new := WATCHES.placed > before:
            self._on_dynamo()
        return is_new

    def compiled_code_ran(self) -> None:
        """Code of a file that torch.compile wrote made a call; called once for each such file."""
        if self.look_again():
            # Its first call went by before anything was watched.
            self._note_compiled("a function that was first compiled here", compile_seams.INDUCTOR, sys._getframe(1))

    def region_unseen(self, code: CompiledCode, frame: FrameType | None) -> None:
        """A compiled region ran whose inside is not known."""
        what = "compiled code whose graph torch did not tell"
        if code.origin is RegionOrigin.EARLIER:
            what = "code that was compiled before recording began"
        self.note(BlindSpotKind.COMPILED, what, frame)

    def listed(self) -> tuple[BlindSpot, ...]:
        """All blind spots, in the order in which they were first noticed."""
        counts = self._counts.copy()
        detail = BlindSpotKind.COMPUTING_THREAD.of("memory that calls read changed while a Python thread ran")
        for location, threads in self._suspected.copy().items():
            if threads > self._computed[location]:
                counts[BlindSpotKind.COMPUTING_THREAD, detail, location] = threads - self._computed[location]
        return tuple(
            BlindSpot(kind=kind, detail=detail, location=location, count=count)
            for (kind, detail, location), count in counts.items()
        )


def _place_of(array: Any) -> tuple[int, int]:
    """The address and the number of bytes of an array."""
    return array.__array_interface__["data"][0], array.nbytes


def _sample_of(array: Any) -> list[bytes]:
    """Some elements of a contiguous array, the last ones among them; none for one of objects."""
    if array.dtype.hasobject:
        return []
    flat, size = array.ravel("K"), array.itemsize
    some = b"".join((flat[:: max(1, flat.size // 64)].tobytes(), flat[-8:].tobytes()))
    return [some[at : at + size] for at in range(0, len(some), size)]


def _traced(trace: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``torch.jit.trace`` fails under any dispatch mode: a number that an op takes becomes a tensor of the mode's."""
    with without_recording() as stepped_aside:
        if stepped_aside:
            frame, lost = sys._getframe(1), "the recorder stepped aside while it ran"
            for listener in WATCHES.listeners:
                listener.note(BlindSpotKind.SCRIPTED, "torch.jit.trace", frame, lost=lost)
        return trace(*args, **kwargs)


def _watched() -> Iterator[WatchedFunction]:
    # torch warns of global module hooks when it calls a compiled module; the recorder's give no cause to. This comes
    # first: what loads the compiler may call a module at once.
    yield WatchedFunction([seams.COUNTS_HOOKS], around=partial(seams.has_hook_without, OWN_HOOK))
    loader = seams.loaded("torch.utils.data.dataloader", "_BaseDataLoaderIter")
    yield WatchedFunction([(loader, "__next__")], before=BlindSpots.loader_fetches)
    scripted, packaged = (torch.jit.ScriptFunction, "__call__"), compile_seams.package_loader
    yield WatchedFunction([scripted], before=BlindSpots.scripted_runs)
    yield WatchedFunction([(packaged, "run"), (packaged, "boxed_run")], before=BlindSpots.package_runs)
    yield WatchedFunction([(torch.Tensor, "share_memory_")], after=BlindSpots.shares)
    yield WatchedFunction([(torch.UntypedStorage, "__init__")], after=BlindSpots.storage_made)
    numpy = sys.modules.get("numpy")
    yield WatchedFunction([(numpy, "empty"), (numpy, "empty_like")], after=BlindSpots.array_made)
    takers = [(torch, name) for name in ("from_numpy", "as_tensor", "asarray", "tensor")]
    yield WatchedFunction(takers, before=BlindSpots.array_taken)
    yield WatchedFunction([(torch.amp.autocast, "__init__")], after=BlindSpots.autocast_made)
    yield WatchedFunction([(torch.amp.autocast, "__enter__")], before=BlindSpots.autocast_entered)
    for name, held in native_code.native_functions().items():
        starts = partial(BlindSpots.native_starts, name=name, is_method=isinstance(held[0][0], type))
        yield WatchedFunction(held, before=starts, after=partial(BlindSpots.native_ends, name=name))
    thread = (threading.Thread, "_bootstrap_inner")  # Python 3.10 to 3.14
    task = (seams.loaded("concurrent.futures.thread", "_WorkItem"), "run")
    yield WatchedFunction([thread], before=BlindSpots.thread_starts, after=BlindSpots.work_ends)
    yield WatchedFunction([task], after=BlindSpots.work_ends)
    tracing = ("_create_function_from_trace", "_create_function_from_trace_with_dict", "_create_graph_by_tracing")
    methods = ("_create_method_from_trace", "_create_method_from_trace_with_dict")
    holders = ((torch._C, tracing), (torch._C.ScriptModule, methods), (torch.jit._trace, ("_check_trace",)))
    for owner, names in holders:
        yield from (WatchedFunction([(owner, name)], around=_traced) for name in names)
    eval_frame = sys.modules.get("torch._dynamo.eval_frame")
    step = next((name for name in seams.COMPILED_CALL_STEPS if hasattr(eval_frame, name)), "")
    yield WatchedFunction([(eval_frame, step)], before=BlindSpots.compiled_runs)


#: The watches of this process.
WATCHES: Watchers[BlindSpots] = Watchers(_watched)
