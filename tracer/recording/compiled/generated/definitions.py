"""What the names in a generated loop stand for, as far as a place in memory can hang on them.

A counter runs from 0 to its loop's end. An index that was read from memory is one number of which nothing is known but
what the kernel checks of it before it uses it (``TORCH_CHECK((0 <= tmp7) & (tmp7 < 64L), ...)``).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tracer.recording.compiled.generated.places import Sum, is_never_negative, is_size, name, number, plus, read_sum

_NAME = r"(?P<name>tmp\d+)"
_VECTOR = r"at::vec::Vectorized(?:N<int64_t, ?\d+>|<int64_t>)"
_LOOP = re.compile(
    r"for ?\((?:int64_t|long) (?P<name>\w+) ?= ?(?P<start>.+?); ?(?P=name) ?< ?(?P<end>.+?);"
    r" ?(?P=name)(?: ?\+= ?(?P<step>.+?)|(?P<one>\+\+))\)"
)
_DEFINITION = re.compile(r"auto (?P<name>tmp\d+) = (?P<value>.*)")
#: The same number by another name: in every lane of a vector, as a wider type, as an array.
_SAME = re.compile(rf"(?:{_NAME}|(?:c10::convert<int64_t>|static_cast<int64_t>|int64_t|{_VECTOR})\((?P<cast>tmp\d+)\))")
_COUNTED = re.compile(rf"{_VECTOR}::arange\({_NAME}, ?(?P<step>\d+)\)")
_LANES = re.compile(
    r"\[&\] \{ __at_align__ std::array<int64_t, ?\d+> tmpbuf; (?:#pragma GCC unroll \d+ )?"
    r"for \(long (?P<lane>\w+_inner) = 0; (?P=lane) < [^;]*; (?P=lane)\+\+\) \{"
    r" tmpbuf\[(?P=lane)\] = static_cast<int64_t>\((?P<value>[^;]*)\); \} return [^;]*; \} \(\)"
)
_ARRAY = re.compile(
    rf"\[&\] \{{ __at_align__ std::array<int64_t, ?\d+> tmpbuf; {_NAME}\.store\(tmpbuf\.data\(\), [^;]*\);"
    r" return tmpbuf; \} \(\)"
)
_WITHIN = rf"\(?\({_VECTOR}\(0\) <= {_NAME}\) & \((?P=name) < {_VECTOR}\((?P<end>[^()]*)\)\)"
_MASK = r"at::vec::VecMask<int64_t, ?\d+>"
_CHECKS = (
    re.compile(rf"TORCH_CHECK\(\(0 <= {_NAME}\) & \((?P=name) < (?P<end>[^()]*)\), \""),
    re.compile(rf"TORCH_CHECK\(\({_MASK}\({_WITHIN}\)\)\.all_masked\(\), \""),
    # Of the lanes that are used; the others are not asked.
    re.compile(
        rf"TORCH_CHECK\(\({_MASK}::set\({_MASK}::from\(1\), \({_MASK}\({_WITHIN}\)\),"
        r" static_cast<int64_t>\([^\"]*\)\)\)\.all_masked\(\), \""
    ),
)
#: A lane of a vector of which it is not said which loop it belongs to.
ANY_LANE = "lane"


class Counter(NamedTuple):
    """A loop's counter."""

    last: Sum
    """It never exceeds that."""
    step: int
    """Above 1 where several numbers are taken at once."""


class Names:
    """Those that one loop and the loops in it know; ``within`` another scope, which it leaves as it is."""

    def __init__(self, within: Names | None = None) -> None:
        self._values: dict[str, Sum] = dict(within._values) if within is not None else {}
        self.counters: dict[str, Counter] = within.counters if within is not None else {}
        """By the term that stands for each; every one that was met, as their terms differ."""
        self.checked: dict[str, Sum] = dict(within.checked) if within is not None else {}
        """A number that was read -> what it never exceeds."""
        self._last: list[int] = within._last if within is not None else [0]

    def value_of(self, text: str) -> Sum:
        """What a name stands for. Raises ``ValueError`` for one that is not known."""
        if text.endswith("_inner"):
            return name(f"{ANY_LANE} {self._term_of(text.removesuffix('_inner'))}")
        if text not in self._values:
            raise ValueError(f"{text} is not known")
        return self._values[text]

    def sum_of(self, text: str) -> Sum:
        """The sum that an expression is."""
        return read_sum(text, self.value_of)

    def enter(self, header: str) -> str:
        """Take a loop's counter in, and give the term that stands for it. Raises ``ValueError`` for another loop."""
        found = _LOOP.fullmatch(header)
        if found is None:
            raise ValueError(f"no loop that counts: {header}")
        start, end = self.sum_of(found["start"]), self.sum_of(found["end"])
        step = number(1) if found["one"] else self.sum_of(found["step"])
        if not is_never_negative(start) or set(step) != {()} or not _is_of_sizes(end):
            raise ValueError(f"a loop of another kind: {header}")
        term = self._new(found["name"])
        self.counters[term] = Counter(plus(end, number(1), -1), step[()])
        return term

    def define(self, statement: str) -> None:
        """Take in what a statement says of a name: what it stands for, or how great it may be."""
        found = _DEFINITION.fullmatch(statement)
        if found is not None:
            self._values[found["name"]] = self._defined(found["value"]) or name(self._new(found["name"]))
            return
        for form in _CHECKS:
            checked = form.match(statement)
            if checked is not None:
                self._note(checked["name"], checked["end"])
                return

    def _defined(self, text: str) -> Sum | None:
        try:
            if (same := _SAME.fullmatch(text)) is not None:
                return self.value_of(same["name"] or same["cast"])
            if (array := _ARRAY.fullmatch(text)) is not None:
                return self.value_of(array["name"])
            if (counted := _COUNTED.fullmatch(text)) is not None:
                return plus(self.value_of(counted["name"]), name(ANY_LANE), int(counted["step"]))
            if (lanes := _LANES.fullmatch(text)) is not None:
                return self.sum_of(lanes["value"])
            return None if "tmp" in text else self.sum_of(text)  # of numbers that were read, some are rounded
        except ValueError:
            return None

    def _note(self, checked: str, end: str) -> None:
        try:
            (term,), count = next(iter(self.value_of(checked).items()))
            last = plus(self.sum_of(end), number(1), -1)
        except (ValueError, StopIteration):
            return
        if len(self.value_of(checked)) == 1 and count == 1 and _is_of_sizes(last):
            self.checked[term] = last

    def _new(self, text: str) -> str:
        self._last[0] += 1
        term = f"{text} {self._last[0]}"
        self._values[text] = name(term)
        return term

    def _term_of(self, counter: str) -> str:
        (term,) = next(iter(self.value_of(counter)))
        return term


def _is_of_sizes(value: Sum) -> bool:
    """Is it made of numbers and sizes alone?"""
    return all(is_size(part) for term in value for part in term)
