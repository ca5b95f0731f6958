"""torch's fake tensors: a mode that answers reads of values, and what refuses fake parameters (torch 2.13.0)."""

from __future__ import annotations

import copy
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from enum import Enum, auto
from functools import cache
from types import FrameType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorConverter, FakeTensorMode
from torch.utils import _foreach_utils
from torch.utils._device import _device_constructors
from torch.utils._pytree import tree_leaves, tree_map_only

from tracer.errors import UsageError
from tracer.recording.patching import answered_by
from tracer.recording.torch_private import seams
from tracer.recording.torch_private.seams import claim_device, claimed_devices, storage_id

_ATEN = torch.ops.aten
_PACK = _ATEN._pack_padded_sequence.default
_GROUPED_MM = seams.find(_ATEN, "_grouped_mm", "default")
_CPU = torch.device("cpu")
IS_AVAILABLE = (
    all(hasattr(FakeTensorConverter, name) for name in ("from_real_tensor", "_get_memo", "invalidate_constant_aliases"))
    and hasattr(FakeTensorMode, "may_turn_const")
    and hasattr(_foreach_utils, "_foreach_supported_types")
)
"""Whether this torch has what this module relies on."""
#: Elements of the largest tensors whose values are computed: of whole numbers (tokens, masks, positions, lengths), and
#: of others (rates, weights of a sampler). A parameter that is known slows down each call that it takes part in.
_REAL_INTEGERS, _REAL_NUMBERS = 1 << 16, 1 << 10
TAKERS_OF_DEVICES = (
    *(
        (torch, name)
        for name, value in vars(torch).items()
        if name.endswith("_like") or (callable(value) and value in _device_constructors())
    ),
    *((torch.Tensor, name) for name in ("new_empty", "new_full", "new_ones", "new_tensor", "new_zeros")),
    (torch._C._nn, "_parse_to"),
)
"""Functions that take a device as ``device``, or, ``Module.to``'s, first."""
#: Where a gradient scaler asks whether a gradient overflowed.
_OVERFLOW_CHECK = "_maybe_opt_step"
#: Where a distribution asks whether its parameters, or a sample, are in its support.
_SUPPORT_CHECK = inspect.getfile(torch.distributions.Distribution)
#: What torch says of a kernel that lacks a type.
_LACKS = "not implemented for"
#: Where C++ writes lengths into a tensor that it makes.
_PADS = "pad_packed_sequence"


class ValuesAsOne(FakeTensorMode):  # type: ignore[misc]  # torch does not type it
    """Fake tensors whose every element reads as 1, wherever the program asks for a value that is not known.

    A small tensor that was computed from literals, draws and real tensors alone has real values: they are computed
    beside it. A comparison of others reads as what it gives for 1 (``isnan``: false), a mask selects every position,
    and no gradient overflowed. Every device becomes the CPU: autograd aborts a CPU build of torch on fake tensors that
    claim another.
    """

    def __init__(self, on_stand_in: Callable[[str, FrameType], None]) -> None:
        super().__init__(allow_non_fake_inputs=True)
        self.answers: dict[str, Callable[[Any, Sequence[Any], Callable[[], Any]], Any]] = {}
        """The functions that answer for a namespace of ops, each called with the overload, the arguments and torch's
        answer."""
        self.has_real_integers = False
        """Whether tensors of integers are made real, because C++ reads them; only while torch calls its own code."""
        self.uses_device: Callable[[], None] = lambda: None
        """Called when a tensor is made on, or moved to, a device that is the CPU here."""
        self.has_devices = False
        """Whether it is noted which tensors lie on a device that is the CPU here."""
        self._on_stand_in = on_stand_in
        """Called with the name of what asked for a value that is not known, and the frame that did."""
        self._depth = 0
        """The nesting depth of calls. Memory that an inner one leaves unwritten stands for a result."""

    @property
    def avoid_device_init(self) -> bool:
        """No device is started, whatever ``torch.cuda`` answers."""
        return True

    def may_turn_const(self, t: torch.Tensor) -> bool:
        """Return whether ``t`` is small enough to keep its values. torch asks, of real results."""
        limit = _REAL_NUMBERS if t.is_floating_point() or t.is_complex() else _REAL_INTEGERS
        return (
            type(t) is torch.Tensor
            and t.numel() <= limit
            and t.layout is torch.strided
            and t.device.type == "cpu"
            and not t.is_quantized
        )

    def stand_in(self, name: str, depth: int = 1) -> None:
        """Count that ``name`` was answered by a stand-in, for the caller ``depth`` frames outwards."""
        self._on_stand_in(name, sys._getframe(depth + 1))

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = self._answer(func, types, args, kwargs)
        if self.has_devices and not self._depth and not func._schema.is_mutable:
            device = (kwargs or {}).get("device")
            given = [arg for arg in tree_leaves((args, kwargs)) if isinstance(arg, torch.Tensor)]
            kinds = claimed_devices(given) if device is None else {device.type} - {"cpu"}
            kind = "cuda" if "cuda" in kinds else kinds.pop() if len(kinds) == 1 else None
            pins = (kwargs or {}).get("pin_memory")
            if pins or func is _ATEN._pin_memory.default:
                kind = "pinned"
            elif pins is not None and func is _ATEN._to_copy.default:
                kind = "cpu"
            shared = set(map(storage_id, given))
            for leaf in tree_leaves(result):
                if isinstance(leaf, torch.Tensor):  # calls inside this one may have claimed memory that they made
                    claim_device(leaf, kind, anew=storage_id(leaf) not in shared)
        return result

    def _answer(self, func: Any, types: Sequence[type], args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Any:
        if any(map(seams.answers_for_itself, types)):  # a subclass hands its fake tensors on itself
            return NotImplemented
        role = _role_of(func)
        named = dict(kwargs or {})
        if self.has_real_integers and _is_of_integers(args, named):
            return func(*args, **named)
        device = named.get("device")
        if device is not None and device.type not in ("cpu", "meta"):
            named["device"] = _CPU
            self.uses_device()
        if named.get("pin_memory"):
            named["pin_memory"] = False
        if func is _ATEN._pin_memory.default:
            func, args, named = _ATEN.clone.default, args[:1], {}
        if func._schema.is_mutable:
            # torch would write to a real tensor if no other argument were fake: a fake one takes its place.
            args, named = tree_map_only(
                torch.Tensor, lambda t: t if isinstance(t, FakeTensor) else self.from_tensor(t), (tuple(args), named)
            )
            if role is _Role.RESHAPES and isinstance(args[0], FakeTensor):
                args[0].constant = None  # torch lets it keep its shape
            if role is _Role.DRAWS and self._are_known(args, named):
                self._for_real(func, args, named)
                return args[0]
        elif role is not _Role.LIFTS and any(type(arg) is torch.Tensor for arg in tree_leaves((args, named))):
            args, named = tree_map_only(torch.Tensor, self._with_values, (tuple(args), named))
        if role is _Role.MAKES:
            return self._from_nothing(func, types, args, named)
        if role in _FROM_VALUES and func is not _PACK and self._are_known(args, named):
            return tree_map_only(torch.Tensor, self._kept, self._for_real(func, args, named))
        if role is _Role.READS:
            return self._read(func, args)
        if role is _Role.UNSIZED:
            return self._unsized(func, _UNSIZED[func], *args, **named)
        if role is _Role.INDEXES and not self._are_known(args, named):
            args = (args[0], self._unsized(func, lambda *of: [*_all_positions(*of)], args[1]), *args[2:])
        answer = self.answers.get(func.namespace)
        if answer is not None:
            for tensor in tree_leaves((args, named)):  # other ranks take part: values are not known any more
                if isinstance(tensor, FakeTensor) and tensor.constant is not None:
                    self.fake_tensor_converter.invalidate_constant_aliases(tensor.constant)
            return answer(func, args, lambda: self._dispatch(func, types, tuple(args), named))
        if func is _GROUPED_MM and args[0].dtype is not torch.bfloat16:
            result = self._grouped_product(types, args, named)
        else:
            result = self._dispatch(func, types, tuple(args), named)
        if func is _ATEN._log_softmax_backward_data.default and not result.is_contiguous():
            with self:  # torch's rule for fake tensors keeps the strides of the gradient; kernels do not
                result = torch.empty(result.shape, dtype=result.dtype)
        if role is _Role.UNWRITTEN and isinstance(result, FakeTensor):
            result.constant = None
        if isinstance(result, FakeTensor) and result.constant is None:
            counts = result.numel() == 1 or not result.is_floating_point()  # which sequences go on, as whole numbers
            if result.dtype is torch.bool or (counts and any(map(_reads_zero, args))):
                result._reads_zero = _is_zero_for_ones(func, args, named)
        return result

    def _dispatch(self, func: Any, types: Sequence[type], args: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """torch's own answer, for which it may call other ops."""
        self._depth += 1
        try:
            return super().__torch_dispatch__(func, types, args, named)
        except RuntimeError as problem:
            whole = [leaf.dtype for leaf in tree_leaves((args, named)) if _is_whole(leaf)]
            if _LACKS not in str(problem) or not whole:
                raise
            with self:  # a CPU lacks a kernel for whole numbers, which a GPU has
                args, named = tree_map_only(
                    torch.Tensor, lambda each: each.double() if _is_whole(each) else each, (tuple(args), dict(named))
                )
                return tree_map_only(torch.Tensor, lambda made: made.to(whole[0]), func(*args, **named))
        finally:
            self._depth -= 1

    def _with_values(self, tensor: torch.Tensor) -> torch.Tensor:
        """A small real tensor as a fake one with its values, if none took its place before."""
        if type(tensor) is not torch.Tensor or not self.may_turn_const(tensor) or tensor.requires_grad:
            return tensor
        if self.fake_tensor_converter._get_memo(tensor) is not None:
            return tensor
        with seams.without_modes():
            return self._kept(tensor.clone())

    def _kept(self, real: torch.Tensor) -> torch.Tensor:
        """A fake tensor for ``real``, which keeps its values if they are few."""
        known = self.may_turn_const(real)
        return self.fake_tensor_converter.from_real_tensor(self, real, make_constant=known)  # type: ignore[no-any-return]

    def _are_known(self, args: Sequence[Any], named: Mapping[str, Any]) -> bool:
        tensors = [arg for arg in tree_leaves((args, named)) if isinstance(arg, torch.Tensor)]
        return all(isinstance(tensor, FakeTensor) and tensor.constant is not None for tensor in tensors)

    def _grouped_product(self, types: Sequence[type], args: Sequence[Any], named: dict[str, Any]) -> Any:
        """torch's rule for fake tensors wants the type that the CUDA kernel wants; the CPU's takes others too."""
        dtype = args[0].dtype
        with self:
            first, second = (torch.empty_strided(t.shape, t.stride(), dtype=torch.bfloat16) for t in args[:2])
        named = {key: value for key, value in named.items() if key != "out_dtype"}
        product = self._dispatch(_GROUPED_MM, types, (first, second, *args[2:]), named)
        with self:
            return torch.empty_strided(product.shape, product.stride(), dtype=dtype)

    def _for_real(self, func: Any, args: Sequence[Any], named: dict[str, Any]) -> Any:
        args, named = tree_map_only(FakeTensor, lambda tensor: tensor.constant, (tuple(args), named))
        with seams.without_modes():
            return func(*args, **named)

    def _from_nothing(self, func: Any, types: Sequence[type], args: Sequence[Any], named: dict[str, Any]) -> Any:
        result = self._dispatch(func, types, tuple(args), named)
        if not isinstance(result, FakeTensor) or result.fake_device != _CPU or result.layout is not torch.strided:
            return result
        has_fractions = result.is_floating_point() or result.is_complex()
        if func._schema.name.startswith("aten::empty") and (has_fractions or self._depth):
            return result  # perhaps a parameter
        if not has_fractions and _is_called_by(_PADS):
            with seams.without_modes():
                return func(*args, **named)
        if result.numel() > (_REAL_NUMBERS if has_fractions else _REAL_INTEGERS):
            return result
        with seams.without_modes():
            return self._kept(func(*args, **named))

    def _unsized(self, func: Any, rule: Callable[..., Any], *args: Any, **named: Any) -> Any:
        """Return the result of ``rule`` for ``func``."""
        is_stand_in = False

        def values(tensor: torch.Tensor) -> torch.Tensor | None:
            nonlocal is_stand_in
            real = tensor.constant if isinstance(tensor, FakeTensor) else tensor
            is_stand_in = is_stand_in or real is None
            return real

        with seams.without_modes():
            result = rule(values, *args, **named)
        if is_stand_in:
            self.stand_in(str(func), 3)

        def made(tensor: torch.Tensor) -> torch.Tensor:
            is_shape = not isinstance(tensor, FakeTensor) and tensor.device.type == "meta"
            return torch.empty(tensor.shape, dtype=tensor.dtype) if is_shape else tensor

        self._depth += 1
        try:
            with self:
                return tree_map_only(torch.Tensor, made, result)
        finally:
            self._depth -= 1

    def _read(self, func: Any, args: Sequence[Any]) -> Any:
        """Return the stand-in for a value that is read. Two tensors that are compared agree; samples are valid."""
        if args[0].dtype is torch.bool and _is_called_by(_SUPPORT_CHECK):
            return True
        if not _is_called_by(_OVERFLOW_CHECK):
            self.stand_in(str(func), 3)
        elif args[0].dim() == 0:
            return 0.0
        if len(args) > 1 and isinstance(args[1], torch.Tensor):
            return True
        return stand_in_for(args[0])


# --- results whose shape hangs on values: what the rules return on the meta device stands for a fake tensor ---

_Tensors = torch.Tensor | tuple[torch.Tensor, ...]
_Values = Callable[[torch.Tensor], torch.Tensor | None]
"""A real tensor with the values of a fake one; ``None`` if they are not known, and a stand-in is taken."""


def _sized(shape: Iterable[int], dtype: torch.dtype = torch.long) -> torch.Tensor:
    return torch.empty(tuple(shape), dtype=dtype, device="meta")


def _nonzero(values: _Values, tensor: torch.Tensor) -> _Tensors:
    values(tensor)
    return _sized((tensor.numel(), tensor.dim()))


def _distinct(values: _Values, tensor: torch.Tensor, dim: int | None = None, *_: object, **__: object) -> _Tensors:
    """Values, the position of each element among them, and how often each occurs."""
    values(tensor)
    shape = (tensor.numel(),) if dim is None else tensor.shape
    counts = _sized((shape[dim or 0],))
    return _sized(shape, tensor.dtype), _sized(tensor.shape) if dim is None else counts, counts


def _repeat_interleave(values: _Values, repeats: torch.Tensor, *, output_size: int | None = None) -> _Tensors:
    if output_size is None:
        values(repeats)
    return _sized((repeats.numel() if output_size is None else output_size,), repeats.dtype)


def _bincount(
    values: _Values, tensor: torch.Tensor, weights: torch.Tensor | None = None, minlength: int = 0
) -> _Tensors:
    real = values(tensor)
    largest = (1 if real is None else int(real.max())) if tensor.numel() else -1
    dtype = torch.long if weights is None else torch.float if weights.dtype is torch.float else torch.double
    return _sized((max(minlength, largest + 1),), dtype)


def _masked_select(values: _Values, tensor: torch.Tensor, mask: torch.Tensor) -> _Tensors:
    shape, real = torch.broadcast_shapes(tensor.shape, mask.shape), values(mask)
    return _sized((shape.numel() if real is None else int(real.expand(shape).sum()),), tensor.dtype)


def _packed(values: _Values, data: torch.Tensor, lengths: torch.Tensor, batch_first: bool) -> _Tensors:
    """The batch sizes are a real tensor: recurrent layers read them in C++."""
    batch, longest = (data.shape[0], data.shape[1]) if batch_first else (data.shape[1], data.shape[0])
    real = values(lengths)
    steps = [longest] * batch if real is None else real.tolist()
    sizes = torch.tensor([sum(step > at for step in steps) for at in range(max(steps, default=0))])
    return _sized((sum(steps), *data.shape[2:]), data.dtype), sizes


def _ctc_loss(
    values: _Values, scores: torch.Tensor, targets: torch.Tensor, _: Any, lengths: Any, *__: object, **___: object
) -> _Tensors:
    """The loss, and alignments as long as the longest target."""
    steps, batch = scores.shape[0], scores.shape[1] if scores.dim() == 3 else 1
    real = values(lengths) if isinstance(lengths, torch.Tensor) else torch.tensor(lengths)
    longest = targets.shape[-1] if targets.dim() > 1 else targets.numel() // max(batch, 1)
    if real is not None and real.numel():
        longest = int(real.max())
    return _sized((batch,), scores.dtype), _sized((batch, steps, 2 * longest + 1), scores.dtype)


#: By overload: its result. Where values are not known, every element is selected, differs from all others, and is 1;
#: lengths are as long as can be.
_UNSIZED: dict[Any, Callable[..., _Tensors]] = {
    _ATEN.nonzero.default: _nonzero,
    _ATEN._unique2.default: lambda values, tensor, *_, **__: _distinct(values, tensor),
    _ATEN.unique_consecutive.default: lambda values, tensor, inverse=0, counts=0, dim=None: _distinct(
        values, tensor, dim
    ),
    _ATEN.unique_dim.default: _distinct,
    _ATEN.unique_dim_consecutive.default: _distinct,
    _ATEN.repeat_interleave.Tensor: _repeat_interleave,
    _ATEN.bincount.default: _bincount,
    _ATEN.masked_select.default: _masked_select,
    _ATEN._pack_padded_sequence.default: _packed,
    _ATEN._ctc_loss.default: _ctc_loss,
    _ATEN._ctc_loss.Tensor: _ctc_loss,
}


class _Role(Enum):
    """The services of ``ValuesAsOne`` that an overload needs."""

    PLAIN = auto()
    LIFTS = auto()  # a tensor that was made of numbers: torch keeps those
    RESHAPES = auto()  # the tensor that it is called on
    MAKES = auto()  # a tensor, of no other
    UNWRITTEN = auto()  # memory like another tensor's
    DRAWS = auto()
    READS = auto()  # its result is no tensor
    UNSIZED = auto()
    INDEXES = auto()


_FROM_VALUES = (_Role.DRAWS, _Role.READS, _Role.UNSIZED)


@cache
def _role_of(func: Any) -> _Role:
    schema, tags = getattr(func, "_schema", None), getattr(func, "tags", ())
    if schema is None:
        return _Role.PLAIN
    if func in (_ATEN.index_put_.default, _ATEN.index_put.default, _ATEN.index.Tensor):
        return _Role.INDEXES
    if func in _UNSIZED:
        return _Role.UNSIZED
    if func in (_ATEN.lift_fresh.default, _ATEN.lift_fresh_copy.default):
        return _Role.LIFTS
    if torch.Tag.inplace_view in tags:
        return _Role.RESHAPES
    if torch.Tag.data_dependent_output in tags:
        return _Role.READS
    if not any("Tensor" in str(argument.type) for argument in schema.arguments):
        return _Role.MAKES if [str(result.type) for result in schema.returns] == ["Tensor"] else _Role.PLAIN
    if schema.name.startswith(("aten::empty_like", "aten::new_empty")):
        return _Role.UNWRITTEN
    draws_into = not schema.is_mutable or str(func).partition(".")[2].partition(".")[0].endswith("_")
    return _Role.DRAWS if draws_into and torch.Tag.nondeterministic_seeded in tags else _Role.PLAIN


def _is_whole(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and not value.is_floating_point() and value.dtype is not torch.bool


def _all_positions(values: _Values, indices: Sequence[Any]) -> Iterator[torch.Tensor | None]:
    """Indices; in place of a mask the positions that it selects."""
    for index in indices:
        if not isinstance(index, torch.Tensor) or index.dtype not in (torch.bool, torch.uint8):
            yield index
        elif (mask := values(index)) is None:
            yield from (_sized((index.numel(),)) for _ in range(index.dim()))
        else:
            yield from mask.nonzero(as_tuple=True)


def stand_in_for(tensor: torch.Tensor) -> complex | float | int | bool:
    """Return the stand-in for an element of a fake tensor whose values are not known."""
    number = int(not _reads_zero(tensor))
    if tensor.dtype is torch.bool:
        return bool(number)
    return complex(number) if tensor.is_complex() else float(number) if tensor.is_floating_point() else number


def _is_of_integers(args: Sequence[Any], named: Mapping[str, Any]) -> bool:
    """Return whether a call makes, or works on, real tensors of integers alone."""
    tensors = [value for value in tree_leaves((args, named)) if isinstance(value, torch.Tensor)]
    dtypes: set[Any] = {tensor.dtype for tensor in tensors} or {named.get("dtype")}
    return dtypes <= {torch.int, torch.long} and not any(isinstance(tensor, FakeTensor) for tensor in tensors)


def _reads_zero(value: Any) -> bool:
    return isinstance(value, FakeTensor) and getattr(value, "_reads_zero", False)


def _is_zero_for_ones(func: Any, args: Sequence[Any], named: Mapping[str, Any]) -> bool:
    """Return whether ``func`` gives 0 where its tensors hold 1, or are known to be 0; ``False`` if it does not work."""
    ones: dict[int, torch.Tensor] = {}

    def one(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in ones:
            shape = [1] * tensor.dim()
            ones[id(tensor)] = torch.full(shape, int(not _reads_zero(tensor)), dtype=tensor.dtype)
        return ones[id(tensor)]

    try:
        with seams.without_modes():
            result = func(*tree_map_only(torch.Tensor, one, tuple(args)), **dict(named))
            return isinstance(result, torch.Tensor) and result.numel() == 1 and not bool(result)
    except Exception:
        return False


def _as_numbers(data: Any) -> Any:
    """A list of numbers with those that it holds as fake tensors, which C++ reads past the dispatcher."""
    if not isinstance(data, (list, tuple)) or not data:
        return data
    if isinstance(data[0], (list, tuple)):
        return [_as_numbers(row) for row in data]
    is_fake = any(isinstance(number, FakeTensor) for number in data)
    return [number.item() if isinstance(number, FakeTensor) else number for number in data] if is_fake else data


def _is_called_by(name: str) -> bool:
    """Return whether one of the nearest callers bears this name, or lies in this file."""
    frame: FrameType | None = sys._getframe(2)
    for _ in range(12):
        if frame is None or name in (frame.f_code.co_name, frame.f_code.co_filename):
            return frame is not None
        frame = frame.f_back
    return False


def _answers(mode: ValuesAsOne) -> dict[tuple[Any, str], Callable[..., Any]]:
    """Return the functions that read a tensor's values past the dispatcher, with the answers for fake ones."""

    def swap(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """``torch.utils.swap_tensors``, which refuses fake parameters: the first stays, and takes the data."""
        parameter, applied = args
        if type(parameter) is not FakeTensor or type(applied) is not FakeTensor:
            return call(*args, **kwargs)
        parameter.data, parameter.fake_device, parameter.constant = applied, applied.fake_device, None
        return None

    def tolist(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tensor = args[0]
        if tensor.constant is not None:
            return tensor.constant.tolist()
        mode.stand_in("tolist")
        tensor.cpu()  # as it is fetched
        value: Any = stand_in_for(tensor)
        for size in reversed(tensor.shape):
            value = [copy.copy(value) for _ in range(size)] if isinstance(value, list) else [value] * size
        return value

    def numpy(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tensor = args[0]
        is_fake = isinstance(tensor, FakeTensor)
        if is_fake:
            tensor.detach()  # as real ones are; what is wrapped below is no fake tensor, which has no memory
            if tensor.constant is None:
                mode.stand_in("numpy")
        with seams.without_modes():
            if not is_fake or tensor.constant is not None:  # a copy: the memory of an array cannot be resized
                return call(tensor.constant.clone() if is_fake else tensor, *args[1:], **kwargs)
            one = torch.tensor(stand_in_for(tensor), dtype=tensor.dtype)
            is_small = tensor.numel() <= _REAL_INTEGERS
            return (one.repeat(tensor.shape) if is_small else one.expand(tensor.shape)).numpy()

    def spelled(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tensor, *specification = args
        is_number = isinstance(tensor, FakeTensor) and tensor.dim() == 0
        return format(tensor.item(), *specification) if is_number else call(*args, **kwargs)

    def copied(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tensor, memo = args
        if not isinstance(tensor, FakeTensor) or id(tensor) in memo:
            return call(*args, **kwargs)
        with seams.without_recording(), torch.no_grad():
            copied = tensor.clone()
            copied = torch.nn.Parameter(copied) if isinstance(tensor, torch.nn.Parameter) else copied
            copied.requires_grad_(tensor.requires_grad)
        copied.grad = None if tensor.grad is None else copy.deepcopy(tensor.grad, memo)
        memo[id(tensor)] = copied
        return copied

    def storage(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = call(*args, **kwargs)
        if isinstance(args[0], FakeTensor) and args[0].fake_device.type != "meta":
            result._fake_device = args[0].fake_device
        return result

    def address(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Another for each storage: by their addresses, programs find tensors that share memory."""
        place, offset = args[0], 0
        if isinstance(place, FakeTensor):
            place, offset = place.untyped_storage(), place.storage_offset() * place.element_size()
        is_fake = getattr(place, "_fake_device", None) is not None
        return place._cdata + offset if is_fake else call(*args, **kwargs)

    def made(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return call(_as_numbers(args[0]), *args[1:], **kwargs) if args else call(**kwargs)

    return {
        **{(torch, name): made for name in ("tensor", "as_tensor", "asarray")},
        (torch.Tensor, "untyped_storage"): storage,
        (torch.Tensor, "data_ptr"): address,
        (torch.UntypedStorage, "data_ptr"): address,
        (torch.Tensor, "__deepcopy__"): copied,
        (torch.utils, "swap_tensors"): swap,
        (FakeTensor, "tolist"): tolist,
        (torch.Tensor, "numpy"): numpy,
        (torch.Tensor, "__format__"): spelled,
    }


@contextmanager
def fake_tensors(on_stand_in: Callable[[str, FrameType], None]) -> Iterator[ValuesAsOne]:
    """Whatever tensor is made in the block is fake, and modules, optimizers and clipping take fake parameters.

    Raises ``UsageError`` if this torch's fake tensors are others.
    """
    if not IS_AVAILABLE:
        message = f"the fake tensors of torch {torch.__version__} cannot run a step"
        raise UsageError(message, hint="record it on real ones, or install torch 2.13")
    mode = ValuesAsOne(on_stand_in)
    types: list[Any] = _foreach_utils._foreach_supported_types
    with ExitStack() as undo:
        for holder, answer in _answers(mode).items():
            undo.callback(answered_by(answer, holder))
        types.append(FakeTensor)
        undo.callback(types.remove, FakeTensor)
        yield undo.enter_context(mode)
