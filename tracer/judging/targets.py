"""The target that a trace is judged for: a backend, a version of torch, and settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import TypeVar

from tracer.errors import TargetError
from tracer.findings import Target
from tracer.names import Backend, Settings
from tracer.tables.settings.target_settings import checked_sets, settings_of
from tracer.tables.versions import release
from tracer.trace.records import Environment, FactValue

WordType = TypeVar("WordType", bound=Enum)


def make_target(
    environment: Environment,
    *,
    backend: Backend | str = Backend.RECORDED,
    torch: str = "recorded",
    settings: Settings | str | Mapping[str, FactValue] = Settings.RECORDED,
    host: Iterable[str] = (),
) -> Target:
    """What to judge for, checked; ``recorded`` parts come from ``environment``.

    ``torch`` is a version (``2.9``, ``2.13.0+cpu``). ``settings`` is a word, or names of settings to the values that
    stand in place of the recorded ones. Raises ``TargetError`` in one line, listing what exists.
    """
    sets: dict[str, FactValue] = {}
    if isinstance(settings, Mapping):
        under, sets = Settings.RECORDED, checked_sets(settings)
    else:
        under = _word(Settings, settings, "settings")
    asked = environment.torch if torch == "recorded" else str(torch)
    try:
        version = release(asked)
    except ValueError as problem:
        hint = "write a release such as 2.13, or `recorded`"
        raise TargetError(f"torch version {problem}", hint=hint) from problem
    return Target(
        backend=_word(Backend, backend, "backend"),
        torch=version,
        settings=under,
        conditions=settings_of(environment, under, sets),
        sets=sets,
        host=(host,) if isinstance(host, str) else tuple(host),
    )


def _word(words: type[WordType], text: WordType | str, what: str) -> WordType:
    try:
        return words(text)
    except ValueError as problem:
        known = ", ".join(str(word) for word in words)
        raise TargetError(f"{what} {str(text)!r} does not exist", hint=f"choose one of {known}") from problem
