"""``api.md`` of the site: the public names, each by the directive that puts its docstring there."""

from __future__ import annotations

from importlib import import_module

import tracer

HEAD = """\
# The Python interface

What `from tracer import ...` gives. Importing it loads neither torch nor pandas; each name loads when it is first used.
"""
INTEGRATIONS = """\
## Lightning and Transformers

::: tracer.integrations.lightning.DeterminismCallback

::: tracer.integrations.transformers.DeterminismCallback
"""
#: In the order of use; a public name that is not listed stands at the end.
FIRST = (
    "DeterminismTracer",
    "Trials",
    "Keep",
    "Trace",
    "judge",
    "Report",
    "Finding",
    "Tally",
    "CallGroup",
    "compare_draws",
    "reproducible",
)


def api_page() -> str:
    """The page, whole, as mkdocstrings reads it."""
    return "\n".join([HEAD, *(f"::: {home(name)}\n" for name in public_names()), INTEGRATIONS])


def public_names() -> list[str]:
    """Every public name that has a docstring of its own."""
    names = [name for name in tracer.__all__ if not name.startswith("_")]
    return sorted(names, key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST))


def home(name: str) -> str:
    """``tracer.session.judge`` for ``judge``: where it is defined, which mkdocstrings reads without importing."""
    found = getattr(tracer, name)
    assert import_module(found.__module__), name
    return f"{found.__module__}.{name}"
