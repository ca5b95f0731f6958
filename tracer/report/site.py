"""Where the documentation site is: one address, in ``[project.urls]`` of ``pyproject.toml``.

It travels in the package's metadata, so an index of packages shows it too. As long as it is not there, or the package
is not installed, nothing of the site is named.
"""

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
    told = dict(url.split(", ", 1) for url in urls)
    return f"{told[LABEL].rstrip('/')}/" if LABEL in told else ""


def page_of_rule(rule: str) -> str:
    """The address of a rule's or a setting's page; empty where no site is configured."""
    return f"{address}rules/{rule}.html" if (address := site_address()) else ""
