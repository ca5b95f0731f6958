"""Which modules and parameters of two implementations of one model are the same, where their names are not.

What has one name in both is one. Other parameters are paired by their values, then by shape and order of execution
between what is paired; several that another one holds together (``q``, ``k``, ``v`` in ``qkv``) by the norm of all. A
module is known by the parameters inside it. Where two candidates fit alike, none is taken.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import pairwise, product
from typing import NamedTuple

from tracer.divergence.joined_ranks import around, half_unit
from tracer.divergence.pairing import rising
from tracer.names import PlaceKind
from tracer.trace.values import Magnitudes
from tracer.trace.values.places import Form, Names, Places, layouts, leads_with_class, module_of, spelled

#: Parameters that another one holds together, at most.
_MOST_PARTS = 4
#: How far the norms of the same numbers in another order of summing are apart.
_OF_ORDER = 1e-9

_Key = tuple[str, str]
"""A parameter: its module and name; a module has no name."""
_Group = tuple[tuple[_Key, ...], tuple[_Key, ...]]
"""The same in the first and in the second: one in each, or one that holds what several are."""


class Renamed(NamedTuple):
    """What each run calls its modules and parameters, so that both call them alike; several are parts of one."""

    first: Names
    second: Names
    told: dict[str, str]
    """Names of the first with those of the second, where these are others."""


class _Parameter(NamedTuple):
    form: Form
    norm: float
    largest: float

    def holds_what(self, *others: _Parameter) -> bool:
        """Whether norm and largest magnitude are those of all ``others`` together, but for the rounding of a dtype."""
        if self.form.size != sum(one.form.size for one in others):
            return False
        dtypes = {one.form.dtype for one in (self, *others)}
        unit = max(map(half_unit, dtypes)) if len(dtypes) > 1 else 0.0
        norm, largest = sum(one.norm**2 for one in others) ** 0.5, max(one.largest for one in others)
        of_norm = (_OF_ORDER + 4 * unit / max(1, self.form.size) ** 0.5 + unit**2) * norm
        return abs(self.norm - norm) <= of_norm and abs(self.largest - largest) <= (_OF_ORDER + 2 * unit) * largest


class _Side:
    """The parameters of one recording in the order of execution, and its modules."""

    def __init__(self, places: Places, beside: Places) -> None:
        self.leads = leads_with_class(places.names, beside.names)
        self.root = next((name.module.partition(".")[0] for name in places.names if name.module), "")
        """The class of the model, if ``leads``; of one that ran compiled as a whole its gradients alone tell it."""
        self.paths: dict[str, str] = {}
        """How the recording itself spells each module."""
        self.widths: dict[str, set[int]] = defaultdict(set)
        """The last sizes of what each called module returns."""
        entered: dict[str, int] = {}
        own: dict[_Key, tuple[int, _Parameter]] = {}
        for row, (number, form, *sizes) in enumerate(places.rows[["name", "form", "norm", "largest"]].tolist()):
            name = places.names[number]
            if name.kind not in (PlaceKind.INITIAL, PlaceKind.INPUT, PlaceKind.OUTPUT):
                continue
            module = module_of(name, leads_with_class=self.leads)
            self.paths[module] = name.module
            if name.kind is PlaceKind.INITIAL:
                own[module, name.name] = row, _Parameter(places.forms[form], *sizes)
                continue
            entered.setdefault(module, row)
            if name.kind is PlaceKind.OUTPUT:
                self.widths[module].update(places.forms[form].shape[-1:])

        def begins(key: _Key) -> tuple[int, int]:
            return next((entered[one] for one in (key[0], *around(key[0])) if one in entered), 0), own[key][0]

        self.parameters = {key: own[key][1] for key in sorted(own, key=begins)}
        self.left = dict.fromkeys(self.parameters)
        """Those that are in no group yet."""

    def shapes(self, keys: Iterable[_Key]) -> list[tuple[int, ...]]:
        return [self.parameters[key].form.shape for key in keys]

    def full(self, key: _Key) -> str:
        return _joined(self.paths[key[0]], key[1])


def renamed(first: Magnitudes, second: Magnitudes) -> Renamed | None:
    """How two implementations call what they have in common; ``None``: nothing is called otherwise."""
    sides = _Side(first.places, second.places), _Side(second.places, first.places)
    parameters = _parameters_of(sides)
    found = _names(sides, _modules_of(sides, parameters), parameters)
    shapes = ([side.shapes(keys)[0] for side, keys in zip(sides, group, strict=True)] for group in parameters)
    return found if found.told or any(one != other == one[::-1] for one, other in shapes) else None


def _parameters_of(sides: tuple[_Side, _Side]) -> list[_Group]:
    groups: list[_Group] = [((key,), (key,)) for key in sides[0].parameters if key in sides[1].parameters]
    for (key,), _ in groups:
        del sides[0].left[key], sides[1].left[key]

    def add(*group: tuple[_Key, ...]) -> None:
        """Take them for the same if they are left, and their shapes allow it."""
        both = [(side, keys) for side, keys in zip(sides, group, strict=True) if side.left.keys() >= {*keys}]
        whole, *parts = sorted((side.shapes({*keys}) for side, keys in both), key=len) or [[]]
        if len(both) == 2 and any(layouts(whole[0], parts[0])):
            groups.append((group[0], group[1]))
            for side, keys in both:
                side.left = {key: None for key in side.left if key not in keys}

    first, second = sides
    for key in tuple(first.left):
        same = [other for other in second.left if first.parameters[key].holds_what(second.parameters[other])]
        if len(same) == 1 == sum(second.parameters[same[0]].holds_what(first.parameters[one]) for one in first.left):
            add((key,), (same[0],))
    count = -1
    while count != (count := len(groups)):
        left = [defaultdict[str, list[str]](list) for _ in sides]
        for side, of_module in zip(sides, left, strict=True):
            for module, name in side.left:
                of_module[module].append(name)
        for group in tuple(groups):  # what has one name, or is alone left, in modules of which some parameter is known
            names = [of_module[keys[0][0]] for of_module, keys in zip(left, group, strict=True)]
            alone = [(names[0][0], names[1][0])] if len(names[0]) == len(names[1]) == 1 else []
            for both in (*zip(names[0], names[0], strict=True), *alone):
                add(*(tuple((module, name) for module, _ in keys) for name, keys in zip(both, group, strict=True)))
        for ones, others in tuple(_fused(sides)):
            add(ones, others)
        for one, other in _between(sides, groups) if len(groups) == count else ():
            add((one,), (other,))
    return groups


def _between(sides: tuple[_Side, _Side], groups: Sequence[_Group]) -> list[tuple[_Key, _Key]]:
    """What is left between two groups that stand in one order, where both sides have as many of a shape there."""
    orders = [list(side.parameters) for side in sides]
    places = [{key: place for place, key in enumerate(order)} for order in orders]
    at = sorted((places[0][ones[0]], places[1][others[0]]) for ones, others in groups)
    chain = [at[number] for number in rising([other for _, other in at])]
    pairs: list[tuple[_Key, _Key]] = []
    for begins, ends in pairwise([(-1, -1), *chain, (len(orders[0]), len(orders[1]))]):
        of_shape = defaultdict[tuple[int, ...], tuple[list[_Key], list[_Key]]](lambda: ([], []))
        for number, side in enumerate(sides):
            for key in orders[number][begins[number] + 1 : ends[number]]:
                if key in side.left:
                    of_shape[tuple(sorted(side.parameters[key].form.shape))][number].append(key)
        for ones, others in of_shape.values():
            pairs += zip(ones, others, strict=True) if len(ones) == len(others) else ()
    return pairs


def _fused(sides: tuple[_Side, _Side]) -> Iterator[_Group]:
    """Matrices that hold several of the other side, which follow one another there."""
    for own, other in (sides, sides[::-1]):
        for whole in own.left:
            size = own.parameters[whole].form.shape
            among = [key for key in other.left if len(other.parameters[key].form.shape) == len(size) == 2]
            among = [key for key in among if {*other.parameters[key].form.shape} & {*size}]
            fitting = []
            for begin, count in product(range(len(among)), range(2, _MOST_PARTS + 1)):
                parts = tuple(among[begin : begin + count])
                values = [other.parameters[key] for key in parts]
                fits = len(parts) == count and any(layouts(size, other.shapes(parts)))
                fitting += [parts] if fits and own.parameters[whole].holds_what(*values) else []
            if len(fitting) == 1:
                yield ((whole,), fitting[0]) if own is sides[0] else (fitting[0], (whole,))


# --- modules ---


def _modules_of(sides: tuple[_Side, _Side], parameters: Sequence[_Group]) -> list[_Group]:
    """Modules by name, by the parameters inside them, and those that hold together what several others do."""
    pairs = {module: module for module in sides[0].paths if module in sides[1].paths}
    of_set = defaultdict[Hashable, tuple[list[str], list[str]]](lambda: ([], []))
    for at, side in enumerate(sides):
        inside: dict[str, set[Hashable]] = defaultdict(set)
        for number, group in enumerate(parameters):
            parts = range(max(map(len, group)))
            for part, key in enumerate(group[at]):
                for module in (key[0], *around(key[0])):
                    inside[module].update((number, own) for own in (parts if len(group[at]) == 1 else (part,)))
        for module in sorted(inside, key=lambda module: module.count(".")):
            if module in side.paths and module not in pairs:
                of_set[frozenset(inside[module])][at].append(module)
    for ones, others in of_set.values():
        pairs.update(zip(ones, others, strict=True) if len(ones) == len(others) else ())
    groups: list[_Group] = [(((one, ""),), ((other, ""),)) for one, other in pairs.items()]
    taken = {*pairs}, {*pairs.values()}
    for group in parameters:
        owners = [tuple(dict.fromkeys((key[0], "") for key in keys)) for keys in group]
        widths = [
            sum(max(side.widths[one], default=0) for one, _ in own) for side, own in zip(sides, owners, strict=True)
        ]
        is_free = all(known.isdisjoint(module for module, _ in own) for known, own in zip(taken, owners, strict=True))
        if is_free and max(map(len, owners)) > 1 and widths[0] == widths[1]:
            groups.append((owners[0], owners[1]))
            for known, own in zip(taken, owners, strict=True):
                known.update(module for module, _ in own)
    return sorted(groups, key=lambda group: group[1][0][0].count("."))


def _names(sides: tuple[_Side, _Side], modules: Sequence[_Group], parameters: Sequence[_Group]) -> Renamed:
    """What all are called: as in the first; of what that holds together, as in the second, inside of it."""
    first, second = sides
    of_first, of_second, told = Names(), Names(), dict[str, str]()
    if first.leads and second.leads:  # the classes of the models
        of_second[second.root] = (first.root,)
    for ones, others in (*modules, *parameters):
        path = first.full(ones[0])
        if len(others) > 1 and not ones[0][1]:
            last = [module.rpartition(".")[2] for module, _ in others]
            last = last if len({*last}) == len(last) else [*map(str, range(len(last)))]
            of_second.update(
                (second.paths[key[0]], (f"{path}.{part}",)) for key, part in zip(others, last, strict=True)
            )
        inside = tuple(_joined(spelled(of_second, second.paths[key[0]])[0], key[1]) for key in others)
        own = inside if len(others) > 1 else tuple(map(first.full, ones))
        if len(others) > 1:
            of_first[path] = own
        elif own != inside:
            of_second[second.full(others[0])] = own
        if len(others) > 1 and ones[0][1]:
            told[_joined(*ones[0])] = ", ".join(_joined(*other) for other in others)
            continue
        for at, name in enumerate(own if own != inside or len(others) > 1 else ()):
            told[name.partition(".")[2] if first.leads else name] = _joined(*others[at % len(others)])
    paired = [{module for group in modules for module, _ in group[side]} for side in (0, 1)]
    for module, path in second.paths.items():
        if module not in paired[1] and (name := spelled(of_second, path)[0]) in map(first.paths.get, paired[0]):
            of_second[path] = (f"{name}#2",)
    return Renamed(of_first, of_second, told)


def _joined(module: str, name: str) -> str:
    return f"{module}.{name}".strip(".")
