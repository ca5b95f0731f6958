"""The page's files: the project's templates, and DataTables as itables ships it, which is not imported for it."""

from __future__ import annotations

import re
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from tracer.errors import ReportError

_PACKAGE = Path(__file__).resolve().parent.parent.parent

#: The one ``export`` of the bundle, an ES module: ``export{a as DataTable,b as default,c as jQuery};``
_EXPORT = re.compile(r"\bexport\s*\{([^{}]*)\}\s*;?")
_JQUERY = re.compile(r"([\w$]+)\s+as\s+jQuery\b")


def template_folder() -> Path:
    """Where the templates lie: in the package (a wheel), or beside it (an editable install)."""
    for folder in (_PACKAGE / "_templates", _PACKAGE.parent / "templates"):
        if (folder / "report.html").is_file():
            return folder
    raise ReportError("the report's templates are not installed", hint="reinstall determinism-tracer")


@lru_cache(maxsize=1)
def datatables_script() -> str | None:
    """A script that leaves jQuery, with DataTables registered on it, in ``globalThis.tracerTables``.

    The bundle is an ES module, whose exports no inline script could import; its ``export`` becomes an
    assignment. ``None`` where itables is missing or ships another shape: the page then has a plain table.
    """
    try:
        spec = find_spec("itables")
        folders = list(spec.submodule_search_locations or ()) if spec else []
        bundle = (Path(folders[0]) / "html" / "dt_bundle.js").read_text(encoding="utf-8")
    except (IndexError, ImportError, OSError, ValueError):
        return None
    exports = list(_EXPORT.finditer(bundle))
    jquery = _JQUERY.search(exports[-1].group(1)) if exports else None
    if jquery is None:
        return None
    start, end = exports[-1].span()
    return script_safe(f"{bundle[:start]}globalThis.tracerTables={jquery.group(1)};{bundle[end:]}")


def script_safe(source: str) -> str:
    """JavaScript ``source`` that means the same and cannot end the ``<script>`` element it stands in."""
    source = re.sub(r"</(?=script)", r"<\\/", source, flags=re.IGNORECASE)
    source = source.replace("<!--", "\\x3c!--")
    return re.sub(r"<(?=script)", r"\\x3c", source, flags=re.IGNORECASE)
