"""Judges one trace for many targets: every backend with a table, and versions of torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from typing import TYPE_CHECKING

from tracer.errors import TargetError
from tracer.names import Backend, Settings
from tracer.tables.versions import release
from tracer.trace import Trace

if TYPE_CHECKING:
    from tracer.findings import Judgement
    from tracer.trace.records import FactValue

#: Versions that ``all`` asks for beside the recorded one: the oldest that this package runs on, and the newest tested.
VERSIONS = ("2.4", "2.13")
#: Targets in one report: each adds rows to the page.
MOST_TARGETS = 40


def targets_named(text: str, recorded: str) -> tuple[tuple[Backend, str], ...]:
    """Backend and release of each target in ``text``: ``all``, ``all:2.9``, ``cuda:2.4,cuda:2.13,npu``.

    A backend without a version takes ``recorded``, the trace's own; ``all`` is every backend that has a table, for
    ``VERSIONS`` and ``recorded``. Raises ``TargetError``.
    """
    from tracer.tables.loading import existing_tables

    backends = existing_tables()
    targets: set[tuple[Backend, str]] = set()
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, colon, version = (piece.strip() for piece in part.partition(":"))
        if name != "all" and name not in map(str, backends):
            hint = f"write all, or {', '.join(map(str, backends))}, with or without :VERSION"
            raise TargetError(f"target {part!r} names no backend", hint=hint)
        if colon and not version:
            raise TargetError(f"target {part!r} lacks its version", hint=f"write {name}:2.13")
        versions = (version,) if version else (*VERSIONS, recorded) if name == "all" else (recorded,)
        try:
            releases = list(map(release, versions))
        except ValueError as problem:
            raise TargetError(f"torch version {problem}", hint="write a release such as 2.13") from problem
        targets |= set(product(backends if name == "all" else (Backend(name),), releases))
    if not targets:
        raise TargetError("no target is named", hint="write all, or cuda:2.4,cuda:2.13,npu")
    if len(targets) > MOST_TARGETS:
        raise TargetError(f"{len(targets)} targets are too many for one page", hint=f"name at most {MOST_TARGETS}")
    return tuple(sorted(targets, key=lambda target: (target[0].value, tuple(map(int, target[1].split("."))))))


def judge_targets(
    trace: Trace,
    targets: Iterable[tuple[Backend, str]],
    *,
    settings: str | Mapping[str, FactValue] = Settings.RECORDED,
    strict: bool = False,
    host: Iterable[str] = (),
) -> tuple[Judgement, ...]:
    """``trace`` judged for each of ``targets`` under the same settings."""
    from tracer.session import judge

    return tuple(
        judge(trace, backend=backend, torch=version, settings=settings, strict=strict, host=host).judgement
        for backend, version in targets
    )
