"""Fail unless a tag, the package's version and the changelog speak of the same release.

python .ci/check_release.py v0.1.0
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def faults(tag: str, package: str, changelog: str) -> list[str]:
    """What keeps ``tag`` from being released, by the texts of ``tracer/__init__.py`` and of the changelog."""
    version = tag.removeprefix("v")
    found = []
    if f'__version__ = "{version}"' not in package:
        found.append(f"tracer/__init__.py does not say that the version is {version}")
    section = re.search(rf"(?ms)^## {re.escape(version)} \((.*?)\)$(.*?)(?=^## |\Z)", changelog)
    if section is None:
        return [*found, f"CHANGELOG.md has no section `## {version} (YYYY-MM-DD)`"]
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", section[1]):
        found.append(f"CHANGELOG.md dates {version} as {section[1]!r}; a release has a day")
    if not re.search(r"(?m)^- ", section[2]):
        found.append(f"CHANGELOG.md says nothing of {version}")
    return found


def main() -> None:
    """Print each fault and exit with 1 where there is one."""
    (tag,) = sys.argv[1:]
    package = (ROOT / "tracer" / "__init__.py").read_text(encoding="utf-8")
    found = faults(tag, package, (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    print(*found, sep="\n", file=sys.stderr)
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
