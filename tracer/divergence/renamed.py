"""Which modules and parameters of two implementations of one model are the same, where their names are not.

What has one name in both is one. Other parameters are paired by their values, then by shape and order of execution;
several that another one holds together (``q``, ``k`` and ``v`` in ``qkv``) by the norm of all. A module is known by the
parameters inside it. Where two candidates fit alike, none is taken.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise, product
from typing import NamedTuple

from tracer.divergence.joined_ranks import half_unit
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
        unit = max(half_unit(one.form.dtype) for one in (self, *others))
        unit *= any(one.form.dtype != self.form.dtype for one in others)
        norm = sum(one.norm**2 for one in others) ** 0.5
        apart = abs(self.norm - norm), abs(self.largest - max(one.largest for one in others))
        of_norm = _OF_ORDER + 4 * unit / max(1, self.form.size) ** 0.5 + unit**2
        return apart[0] <= of_norm * norm and apart[1] <= (_OF_ORDER + 2 * unit) * self.largest


class _Side:
    """The parameters of one recording in the order of execution, and its modules."""

    def __init__(self, places: Places) -> None:
        self.leads = leads_with_class(places.names)
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
            return next((entered[one] for one in _and_around(key[0]) if one in entered), 0), own[key][0]

        self.parameters = {key: own[key][1] for key in sorted(own, key=begins)}
        self.left = dict.fromkeys(self.parameters)
        """Those that are in no group yet."""

    def shapes(self, keys: Iterable[_Key]) -> list[tuple[int, ...]]:
        return [self.parameters[key].form.shape for key in keys]

    def full(self, key: _Key) -> str:
        return _joined(self.paths[key[0]], key[1])


def renamed(first: Magnitudes, second: Magnitudes) -> Renamed | None:
    """How two implementations call what they have in common; ``None``: nothing is called otherwise."""
    sides = _Side(first.places), _Side(second.places)
    parameters = _parameters_of(sides)
    found = _names(sides, _modules_of(sides, parameters), parameters)
    shapes = ([side.shapes(keys)[0] for side, keys in zip(sides, group, strict=True)] for group in parameters)
    return found if found.told or any(one != other == one[::-1] for one, other in shapes) else None


def _parameters_of(sides: tuple[_Side, _Side]) -> list[_Group]:
    groups: list[_Group] = [((key,), (key,)) for key in sides[0].parameters if key in sides[1].parameters]
    for (key,), _ in groups:
        del sides[0].left[key], sides[1].left[key]

    def add(ones: tuple[_Key, ...], others: tuple[_Key, ...]) -> None:
        """Take them for the same if they are left, and their shapes allow it."""
        both = ((sides[0], ones), (sides[1], others))
        if all(key in side.left for side, keys in both for key in keys):
            whole, parts = sorted((side.shapes(keys) for side, keys in both), key=len)
            if {len({*ones}), len({*others})} == {len(whole), len(parts)} and any(layouts(whole[0], parts)):
                groups.append((ones, others))
                for side, keys in both:
                    for key in keys:
                        del side.left[key]

    kinds = _classes(sides), [{key: sorted(side.shapes([key])[0]) for key in side.left} for side in sides]
    for one, other in _alike(sides, kinds[0], [], most=1):
        add((one,), (other,))
    count = -1
    while count != (count := len(groups)):
        left = defaultdict[str, list[str]](list)
        for module, name in sides[0].left:
            left[module].append(name)
        for group in tuple(groups):  # what has one name in modules of which some parameter is known
            for name in left[group[0][0][0]]:
                add(*(tuple((module, name) for module, _ in keys) for keys in group))
        for ones, others in tuple(_fused(sides)):
            add(ones, others)
        for kind in kinds:
            for one, other in _alike(sides, kind, groups) if kind is kinds[0] or len(groups) == count else ():
                add((one,), (other,))
    return groups


def _classes(sides: tuple[_Side, _Side]) -> list[dict[_Key, object]]:
    """A number for each parameter that is left, the same for what has the same values as far as is known."""
    known: dict[int, list[_Parameter]] = defaultdict(list)
    classes: list[dict[_Key, object]] = [{}, {}]
    for side, found in zip(sides, classes, strict=True):
        for key in side.left:
            one = side.parameters[key]
            alike = known[one.form.size]
            number = next((number for number, other in enumerate(alike) if one.holds_what(other)), len(alike))
            known[one.form.size] += [one] if number == len(alike) else []
            found[key] = one.form.size, number
    return classes


def _alike(
    sides: tuple[_Side, _Side], kinds: Sequence[Mapping[_Key, object]], groups: Sequence[_Group], most: int = 2**30
) -> list[tuple[_Key, _Key]]:
    """What is left between two groups that stand in one order, where both sides have as many of a kind there."""
    orders = [list(side.parameters) for side in sides]
    places = [{key: place for place, key in enumerate(order)} for order in orders]
    at = sorted((places[0][ones[0]], places[1][others[0]]) for ones, others in groups)
    chain = [at[number] for number in rising([other for _, other in at])]
    pairs: list[tuple[_Key, _Key]] = []
    for begins, ends in pairwise([(-1, -1), *chain, (len(orders[0]), len(orders[1]))]):
        of_kind: list[dict[str, list[_Key]]] = [defaultdict(list), defaultdict(list)]
        for side, order, begin, end, kind, found in zip(sides, orders, begins, ends, kinds, of_kind, strict=True):
            for key in order[begin + 1 : end]:
                if key in side.left:
                    found[str(kind[key])].append(key)
        for name, ones in of_kind[0].items():
            if len(ones) == len(others := of_kind[1][name]) <= most:
                pairs += zip(ones, others, strict=True)
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
    both = [module for module in sides[0].paths if module in sides[1].paths]
    pairs = dict(zip(both, both, strict=True))
    inside: list[dict[str, set[Hashable]]] = [defaultdict(set), defaultdict(set)]
    for number, group in enumerate(parameters):
        several = range(max(map(len, group)))
        for side, keys, found in zip(sides, group, inside, strict=True):
            for part, key in enumerate(keys):
                for module in _and_around(key[0]):
                    if module in side.paths:
                        found[module].update((number, own) for own in (several if len(keys) == 1 else (part,)))
    of_set: list[dict[Hashable, list[str]]] = [defaultdict(list), defaultdict(list)]
    for found, modules in zip(inside, of_set, strict=True):
        for module in sorted(found, key=lambda module: module.count(".")):
            if module not in pairs:
                modules[frozenset(found[module])].append(module)
    for held, ones in of_set[0].items():
        if len(ones) == len(others := of_set[1][held]):
            pairs.update(zip(ones, others, strict=True))
    taken = {*pairs}, {*pairs.values()}
    groups: list[_Group] = [(((one, ""),), ((other, ""),)) for one, other in pairs.items()]
    for group in parameters:
        owners = [dict.fromkeys((key[0], "") for key in keys) for keys in group]
        widths = [[max(side.widths.get(one[0], {0})) for one in own] for side, own in zip(sides, owners, strict=True)]
        is_free = not any(one[0] in known for own, known in zip(owners, taken, strict=True) for one in own)
        if is_free and max(map(len, owners)) > 1 and sum(widths[0]) == sum(widths[1]):
            groups.append((tuple(owners[0]), tuple(owners[1])))
            for own, known in zip(owners, taken, strict=True):
                known.update(one[0] for one in own)
    return groups


def _names(sides: tuple[_Side, _Side], modules: Sequence[_Group], parameters: Sequence[_Group]) -> Renamed:
    """What all are called: as in the first; of what that holds together, as in the second, inside of it."""
    first, second = sides
    of_first, of_second, told = Names(), Names(), dict[str, str]()
    if first.leads and second.leads:  # the classes of the models
        roots = [next(iter(side.paths.values())).partition(".")[0] for side in sides]
        of_second[roots[1]] = (roots[0],)
    for ones, others in modules:
        path, other = first.full(ones[0]), others[0][0]
        if len(others) == 1:
            of_second[second.paths[other]] = tuple(map(first.full, ones))
            told.update((one, other) for one, _ in ones if one != other)
            continue
        last = [module.rpartition(".")[2] for module, _ in others]
        parts = last if len({*last}) == len(last) else map(str, range(len(last)))
        for (module, _), part in zip(others, parts, strict=True):
            of_second[second.paths[module]] = (f"{path}.{part}",)
            of_first[path] = (*of_first.get(path, ()), f"{path}.{part}")
            told[_joined(ones[0][0], part)] = module
    taken = {name for names in of_second.values() for name in names}
    for path in second.paths.values():
        if path not in of_second and (name := spelled(of_second, path)[0]) in taken:
            of_second[path] = (f"{name}#2",)
    for ones, others in parameters:
        around = [spelled(of_second, second.paths[module]) for module, _ in others]
        inside = tuple(_joined(names[0], key[1]) for names, key in zip(around, others, strict=True))
        own = inside if len(others) > 1 else tuple(map(first.full, ones))
        if len(others) > 1:
            of_first[first.full(ones[0])] = own
        elif own == inside:
            continue
        else:
            of_second[second.full(others[0])] = own
        for at, name in enumerate(own):
            told[name.partition(".")[2] if first.leads else name] = _joined(*others[at % len(others)])
    return Renamed(of_first, of_second, told)


def _joined(module: str, name: str) -> str:
    return f"{module}.{name}".strip(".")


def _and_around(module: str) -> Iterator[str]:
    """A module's path, and those of all around it."""
    yield module
    while module:
        module = module.rpartition(".")[0]
        yield module
