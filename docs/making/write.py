"""Write the pages that are made from code and stand in git all the same: ``make docs``.

    python docs/making/write.py

They are the counts of the tables, whose change a reviewer wants to see, and the JSON Schemas, which others hold files
against. A test makes each again and compares.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from docs.making.json_schemas import schemas  # noqa: E402
from docs.making.tables_page import tables_page  # noqa: E402


def main() -> None:
    """Write them all."""
    for name, text in {**schemas(), "tables.md": tables_page()}.items():
        (ROOT / "docs" / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
