"""Runs that are changed on purpose: shaken by rounding, or made to decide as another run did.

Shaking moves results that depend on parameters by up to half a unit in the last place (Monte Carlo arithmetic: Parker,
1997; Verificarlo: Denis, de Oliveira Castro and Petit, 2016). What is decided by (a ReLU's argument, an ``argmax``, a
truth value) is a place of both runs, so that a decision that fell otherwise by more than rounding is no excuse.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from tracer.names import BACKWARD_OF
from tracer.ops import Op, Touch, bare_name, row_of
from tracer.recording.magnitudes import storage_of
from tracer.recording.storage import bound
from tracer.recording.torch_private import seams
from tracer.recording.values import unseen
from tracer.trace.values.places import Decided, decisions_beside, read_decisions

if TYPE_CHECKING:
    from tracer.recording.magnitudes.place_recorder import PlaceRecorder

_Tensor = torch.Tensor
_current_node = seams.current_node
#: Parts of the names of overloads that add many terms.
_REDUCTIONS = (
    *("mm", "conv", "sum", "mean", "norm", "attention", "loss", "linear", "dot", "einsum", "rnn", "lstm", "gru"),
)
#: Constants below the negative of this are remembered: later calls and the backward are handed results that hold them.
_LARGE = 1e4
#: Remembered constants, the latest ones.
_MOST_CONSTANTS = 8
_READ_NO_ELEMENT = (Touch.METADATA, Touch.ALLOCATES, Touch.SHAPE_OF_SELF)
#: Bytes of decisions that are kept; what is decided after them is not followed.
_MOST_BYTES = 2**30


class _Changing(TorchDispatchMode):
    """Changes what is called on this thread from ``start`` to ``stop``."""

    def start(self) -> None:
        self.__enter__()  # type: ignore[no-untyped-call]

    def stop(self) -> None:
        seams.leave_mode(self)


class Shaking(_Changing):
    """Shakes what is called while it is entered, by numbers of its own generators, seeded with ``seed``.

    Inputs of reductions are shaken too; draws, integers, constants (a mask's most negative number) and results written
    in place are not. ``module``: inside whose forward alone, or with ``BACKWARD_OF`` before it, backward alone;
    ``without``: but for these modules; ``running`` gives the names of the module that runs, or that made a node.
    """

    def __init__(
        self,
        seed: int,
        module: str = "",
        without: tuple[str, ...] = (),
        *,
        running: Callable[[Any], tuple[str, ...]] = lambda node: ("",),
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seed = seed
        self.module = module.removeprefix(BACKWARD_OF)
        self._of_backward = module.startswith(BACKWARD_OF)
        self._without = without
        self._running = running
        self._generators: dict[torch.device, torch.Generator] = {}
        self._reduces: dict[Any, tuple[bool, bool]] = {}
        """Whether an overload adds many terms, and whether it may write to arguments though its schema is silent."""
        self._constants: dict[float, None] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func._schema.is_mutable:
            return func(*args, **kwargs)
        node = _current_node()
        if self.module and ((node is not None) != self._of_backward or not self._is_inside(node)):
            return func(*args, **kwargs)
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, _Tensor)]
        if node is None and not any(tensor.requires_grad for tensor in tensors):
            return func(*args, **kwargs)
        known = self._reduces.get(func)
        if known is None:
            namespace, _, name = func.name().partition("::")
            may_write = namespace != "aten" or bool(row_of(bare_name(str(func))).undeclared)
            known = self._reduces[func] = any(word in name for word in _REDUCTIONS), may_write
        reduces, may_write = known
        # Only with gradients on it shows which tensors are constants; those that may be written are handed on as such.
        has_constants = torch.is_grad_enabled()
        shakes_all = not (has_constants or may_write)

        def shaken_input(tensor: torch.Tensor) -> torch.Tensor:
            return self._shaken(tensor) if tensor.dim() and (shakes_all or tensor.requires_grad) else tensor

        with unseen():
            constants = self._note_constants(args, kwargs, tensors) if has_constants else []
            if reduces:
                args, kwargs = tree_map_only(_Tensor, shaken_input, (args, kwargs))
        result = func(*args, **kwargs)
        storages = {storage_of(tensor) for tensor in tensors}
        with unseen():
            result = tree_map_only(
                _Tensor,
                lambda tensor: tensor if storage_of(tensor) in storages else self._shaken(tensor, constants),
                result,
            )
            if reduces and isinstance(result, tuple) and tensors:
                name = func.name()
                if "backward" in name:
                    of_gradient = "batch_norm" in name
                    result = tuple(self._with_order_of_terms(tensors[0], part, of_gradient) for part in result)
                elif "batch_norm" in name:
                    result = (self._with_shifted_channels(tensors[0], result[0]), *result[1:])
        return result

    def _is_inside(self, node: Any) -> bool:
        return any(
            _is_in(path, self.module) and not any(_is_in(path, module) for module in self._without)
            for path in self._running(node)
        )

    def _with_order_of_terms(self, gradient: torch.Tensor, summed: Any, of_gradient: bool) -> Any:
        """The gradient of a norm's or a convolution's own parameters, shaken by the order in which it may be summed.
        Batch norm subtracts such a sum from the gradient of its input (``of_gradient``), a whole channel at a time."""
        if not _is_wide(summed) or gradient.dtype != summed.dtype or gradient.dim() < 2:
            return summed
        shape = tuple(summed.shape)
        if shape == tuple(gradient.shape):
            return self._with_shifted_channels(gradient, summed) if of_gradient else summed
        if shape == (gradient.shape[1],) and gradient.dim() != 2:
            others = _all_but_channels(gradient)
        elif shape == tuple(gradient.shape[-len(shape) :]) and len(shape) < gradient.dim():
            others = list(range(gradient.dim() - len(shape)))
        else:
            return summed
        return summed + self._order_noise(gradient, others).view(shape)

    def _with_shifted_channels(self, source: torch.Tensor, result: Any) -> Any:
        """``result`` with each channel shifted as a whole: by what its mean over ``source`` can be off."""
        if not _is_wide(result) or source.dtype != result.dtype or source.dim() < 2 or source.shape != result.shape:
            return result
        others = _all_but_channels(source)
        scale = result.std(others, keepdim=True, correction=0) / source.std(
            others, keepdim=True, correction=0
        ).clamp_min(torch.finfo(result.dtype).tiny)
        shift = self._order_noise(source, others) * scale * (source.shape[1] / source.numel())
        return torch.empty_like(result).copy_(result + shift)

    def _order_noise(self, terms: torch.Tensor, others: list[int]) -> torch.Tensor:
        """By what sums over the dimensions ``others`` can be off for the order of their ``terms``.

        One by one, ``n`` terms are off by half a unit times ``sqrt(n / 3)`` of the sum of their magnitudes, if they
        are any numbers. Equal ones, such as the gradient of a mean, are rounded to one side for long: adding them up
        tells.
        """
        rows = terms.detach().movedim(others, list(range(len(others)))).flatten(0, len(others) - 1)
        one_by_one = torch.from_numpy(np.add.accumulate(rows.cpu().numpy(), 0)[-1]).to(rows.device)
        off = torch.finfo(rows.dtype).eps / 2 * (len(rows) / 3) ** 0.5 * rows.abs().sum(0)
        noise = torch.rand(off.shape, generator=self._generator(off.device), dtype=off.dtype, device=off.device)
        noise.sub_(0.5).mul_(2)
        off = torch.maximum(noise.abs() * off, (one_by_one - rows.sum(0)).abs()) * noise.sign()
        return off.view([1 if at in others else n for at, n in enumerate(terms.shape)])

    def _note_constants(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], tensors: list[torch.Tensor]
    ) -> list[torch.Tensor]:
        """The tensors that no parameter has a part in. Large constants are remembered."""
        constants = [one for one in tensors if not one.requires_grad and _is_real(one)]
        numbers = [float(leaf) for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, (float, int))]
        for tensor in constants:
            numbers += [float(extreme) for extreme in torch.aminmax(tensor.detach())]
        for number in numbers:
            if -float("inf") < number <= -_LARGE:
                for rounded in (number, float(torch.tensor(number).bfloat16())):
                    self._constants.pop(rounded, None)
                    self._constants[rounded] = None
        for number in list(self._constants)[:-_MOST_CONSTANTS]:
            del self._constants[number]
        return constants

    def _generator(self, device: torch.device) -> torch.Generator:
        generator = self._generators.get(device)
        if generator is None:
            generator = self._generators[device] = torch.Generator(device).manual_seed(self.seed)
        return generator

    def _shaken(self, tensor: torch.Tensor, constants: Sequence[torch.Tensor] = ()) -> torch.Tensor:
        """``tensor`` with each element moved, but for those that ``constants`` have there, or that would overflow."""
        if not _is_real(tensor):
            return tensor
        device = tensor.device
        generator = self._generator(device)
        values = tensor.detach()
        moved = torch.empty_like(tensor)  # with its strides
        if tensor.dtype is torch.float64:
            moved.copy_(_neighbours(values, generator))
        else:
            wide = torch.float64 if tensor.dtype is torch.float32 else torch.float32
            noise = torch.rand(tensor.shape, generator=generator, dtype=wide, device=device).sub_(0.5)
            moved.copy_(noise.mul_(torch.finfo(tensor.dtype).eps).add_(1.0).mul_(values))
        stays = ~moved.isfinite()
        for number in self._constants:
            stays |= values == number
        for constant in constants:
            with suppress(RuntimeError):  # another shape, another device
                stays |= values == constant
        return moved.copy_(torch.where(stays, values, moved))


def _is_real(tensor: torch.Tensor) -> bool:
    """Return whether it has elements that rounding can move."""
    if type(tensor) not in (_Tensor, torch.nn.Parameter) or not tensor.is_floating_point():
        return False
    return tensor.layout is torch.strided and not tensor.is_meta and tensor.numel() > 0


def _all_but_channels(tensor: torch.Tensor) -> list[int]:
    return [dimension for dimension in range(tensor.dim()) if dimension != 1]


def _is_in(path: str, module: str) -> bool:
    return path == module or path.startswith(f"{module}.")


def _is_wide(tensor: Any) -> bool:
    """Return whether ``tensor`` is summed in its own precision. Narrower types are summed in float32."""
    return isinstance(tensor, _Tensor) and _is_real(tensor) and tensor.dtype in (torch.float32, torch.float64)


def _neighbours(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """float64 has no wider type to round from: elements move to a neighbour as often as those of other types do."""
    mantissa = torch.frexp(tensor).mantissa.abs_().mul_(2)  # from 1 to 2
    noise = torch.rand(tensor.shape, generator=generator, dtype=torch.float64, device=tensor.device).sub_(0.5)
    infinity = torch.full((), float("inf"), dtype=torch.float64, device=tensor.device)
    moved = torch.nextafter(tensor, torch.where(noise < 0, -infinity, infinity))
    return torch.where(noise.abs_().mul_(2).mul_(mantissa) > 1, moved, tensor)


class Decisions(_Changing):
    """Keeps what calls decide beside the file of values, or follows the file ``follow``. ``recorder`` takes what
    decisions with floating arguments are made by, and how many of them fell otherwise."""

    def __init__(self, recorder: PlaceRecorder, keeps: bool, follow: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._recorder = recorder
        self._keeps = keeps
        self._kept: Decided = {}
        self._bytes = 0
        self._followed = read_decisions(Path(follow)) if follow else {}
        self._counts: Counter[str] = Counter()

    def stop(self) -> None:
        super().stop()
        if self._keeps:
            decisions_beside(self._recorder.file.path).write_bytes(msgspec.msgpack.encode(self._kept))

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        schema = func._schema
        name = schema.name.partition("::")[2].removesuffix("_")
        row = row_of(name.removesuffix("_backward"))
        if row.bends:
            return self._bent(func, name, row, args, kwargs)
        inputs = [leaf for leaf in tree_leaves((args, kwargs)) if _is_floating(leaf)]
        if not inputs or schema.is_mutable or row.touches in _READ_NO_ELEMENT:
            return func(*args, **kwargs)
        result = func(*args, **kwargs)
        several = result if isinstance(result, (tuple, list)) else (result,)
        if any(type(one) is not _Tensor or storage_of(one) == storage_of(inputs[0]) for one in several):
            return result
        own, spatial = several[-1], 0 if name.endswith("_backward") else row.spatial
        selects = len(several) == 2 and (schema.returns[1].name == "indices" or spatial)
        if not selects and (len(several) > 1 or (_is_floating(own) and not row.jumps)):
            return result
        with unseen():
            theirs = self._decided(name, own, inputs, (args, kwargs), own.numel())
            if theirs is None:
                return result
            theirs = torch.empty_like(own).copy_(theirs)
            if not selects:
                return theirs
            values = _selected(inputs[0].detach(), theirs, spatial, bound(func, args, kwargs).get("dim", -1))
            return torch.empty_like(several[0]).copy_(values), theirs

    def _bent(self, func: Any, name: str, row: Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call an op with an argument that lies where the other run's does."""
        given = bound(func, args, kwargs)
        number = next(number for number, key in enumerate(given) if key in ("self", "self_or_result"))
        value: Any = args[number] if number < len(args) else None
        if not _is_floating(value):
            return func(*args, **kwargs)
        with unseen():
            bends = [sign * (given[at] if isinstance(at, str) else at) for sign, at in row.bends]
            value = value.detach()
            own = torch.stack([value > bend for bend in bends])
            theirs = self._decided(name, own, [value], bends, value.numel())
            if theirs is not None:
                limits, moved = torch.finfo(value.dtype), value.clone()
                for bend, ours, other in zip(bends, own, theirs, strict=True):
                    moved[other & ~ours] = bend + abs(bend) * limits.eps + limits.tiny
                    moved[ours & ~other] = bend
                if func._schema.name.endswith("_"):
                    value.copy_(moved)
                else:
                    args = (*args[:number], moved.requires_grad_(args[number].requires_grad), *args[number + 1 :])
        return func(*args, **kwargs)

    def _decided(
        self, name: str, own: torch.Tensor, inputs: list[torch.Tensor], given: Any, of: int
    ) -> torch.Tensor | None:
        """Note ``of`` decisions; what the other run decided there, if that is something else. ``None``: the same."""
        numbers = [leaf for leaf in tree_leaves(given) if isinstance(leaf, (bool, int, float, str))]
        place = self._recorder.place_of_decision(f"{name} {numbers} {tuple(own.shape)}")
        key = f"{self._recorder.file.step} {place.phase} {place.module} {place.name} {own.dtype}"
        occurrence = self._counts[key]
        self._counts[key] += 1
        for number, tensor in enumerate(inputs):
            self._recorder.decides(place, tensor, number, occurrence)
        if self._keeps:
            packed = _packed(own)
            self._bytes += len(packed)
            if self._bytes <= _MOST_BYTES:
                self._kept.setdefault(key, []).append(packed)
            return None
        followed = self._followed.get(key, [])
        if occurrence >= len(followed) or not own.numel():
            return None
        flat = torch.frombuffer(bytearray(followed[occurrence]), dtype=torch.uint8)
        if own.dtype is torch.bool:
            flat = torch.from_numpy(np.unpackbits(flat.numpy(), count=own.numel()))
        theirs = flat.view(own.dtype).view(own.shape).to(own.device)
        count = int((theirs != own).sum())
        if not count:
            return None
        self._recorder.falls_otherwise(place, count, of, occurrence)
        return theirs


def _packed(decided: torch.Tensor) -> bytes:
    flat = decided.detach().cpu().contiguous().view(-1)
    packed = np.packbits(flat.numpy()) if flat.dtype is torch.bool else flat.view(torch.uint8).numpy()
    return packed.tobytes()


def _is_floating(value: Any) -> bool:
    return isinstance(value, _Tensor) and value.is_floating_point()


def _selected(tensor: torch.Tensor, indices: torch.Tensor, spatial: int, dim: int) -> torch.Tensor:
    """The elements that ``indices`` point at, along ``dim``, or in the last ``spatial`` dimensions taken as one."""
    if spatial:
        return tensor.flatten(-spatial).gather(-1, indices.flatten(-spatial)).view(indices.shape)
    if not tensor.dim():
        return tensor
    if indices.dim() < tensor.dim():
        return tensor.gather(dim, indices.unsqueeze(dim)).squeeze(dim)
    return tensor.gather(dim, indices)
