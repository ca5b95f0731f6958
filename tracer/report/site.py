"""The documentation site's address, ``[project.urls]`` of the package's metadata; without it, nothing links there."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, metadata

NAME = "determinism-tracer"
LABEL = "Documentation"


@cache
def site_address() -> str:
    """The site's address with a slash at its end; empty where none is configured."""
    try:
        urls = metadata(NAME).get_all("Project-URL") or ()
    except PackageNotFoundError:
        return ""
    by_label = dict(url.split(", ", 1) for url in urls)
    return f"{by_label[LABEL].rstrip('/')}/" if LABEL in by_label else ""


def page_of_rule(rule: str) -> str:
    """The address of a rule's or a setting's page; empty where no site is configured."""
    return f"{address}rules/{rule}.html" if (address := site_address()) else ""
