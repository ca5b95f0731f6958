"""Where output goes: checked before the work starts, printable on any terminal, a spinner meanwhile; reports in files.

Results go through ``show``, what is said beside them through ``tracer.plain.say``: both show control characters.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tracer.errors import ReportError, TracerError, UsageError, reason_of
from tracer.plain import LaidOut, is_terminal, visible

if TYPE_CHECKING:
    from tracer.names import Detail
    from tracer.report import Report
    from tracer.report.blocks import Block


def check_writable(path: Path, *, error: type[TracerError] = UsageError) -> None:
    """Raise ``error`` if ``path`` cannot become a file.

    Called before the work whose result it will hold: a script that trained for hours must not find out then.
    """
    if os.path.isdir(path):
        raise error(f"{path} is a folder", hint="name a file")
    if os.path.exists(path) and not os.path.isfile(path):
        return
    check_folder(path.parent, error=error)
    try:
        os.lstat(path)
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as problem:  # the name is too long, say
        raise error(f"cannot write {path}: {reason_of(problem)}", hint="choose another name") from problem


def check_folder(folder: Path, *, error: type[TracerError] = UsageError) -> None:
    """Raise ``error`` if no file can be made in ``folder``, or in what stands where it will be made.

    A nameless file is really made: permission bits say little to root and on a read-only disk.
    """
    import tempfile  # it loads compressors and generators, which no help needs

    try:
        standing = next((parent for parent in (folder, *folder.parents) if parent.exists()), folder)
        with tempfile.TemporaryFile(dir=standing):
            pass
    except (OSError, ValueError) as problem:
        raise error(f"cannot write in {folder}: {reason_of(problem)}", hint="choose another folder") from problem


def show(text: str) -> None:
    """Print ``text`` on standard output, ``visible``; what its encoding cannot spell becomes a question mark.

    Raises ``ReportError`` where nothing can be written there: the disk is full, or somebody closed it.
    """
    if not isinstance(text, LaidOut):
        text = visible(text)
    try:
        encoding = sys.stdout.encoding or "utf-8"
        sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
        if not text.endswith("\n"):
            sys.stdout.write("\n")
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except (OSError, ValueError, AttributeError) as problem:
        reason = "it is closed" if sys.stdout is None or sys.stdout.closed else reason_of(problem)
        drop_output()
        raise ReportError(f"cannot write standard output: {reason}", hint="write to a file with -o") from problem


def show_blocks(*texts: Iterable[Block], unfolds: bool = False) -> None:
    """``show`` what a terminal draws of each text's blocks, an empty line between them."""
    from tracer.report.render.terminal import drawn, printed

    for number, blocks in enumerate(texts):
        if number:
            show("")
        show(printed(drawn(blocks, unfolds=unfolds)))


def drop_output() -> None:
    """Let what waits for standard output go nowhere: Python flushes it again as it ends, and would fail again."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


#: Seconds of silence; most reports are written within them.
PATIENCE = 1.0


@contextmanager
def progress(doing: str) -> Iterator[None]:
    """Show ``doing`` beside a spinner while the body runs, if it runs for longer than ``PATIENCE``."""
    if not is_terminal(sys.stderr):
        yield
        return
    import threading

    from rich.console import Console
    from rich.markup import escape

    status = Console(stderr=True).status(escape(doing))
    timer = threading.Timer(PATIENCE, status.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        status.stop()


# --- reports: where ``--format`` and ``-o`` send them --------------------------------------------------------


def destinations(
    formats: str | None, output: str | None, *, inputs: Sequence[str] = (), table: str | None = None
) -> Sequence[tuple[str, Path | None]]:
    """Each format's name with the file that it goes to; ``None`` stands for standard output.

    A ``table`` makes CSV the default. Before anything is judged, raises ``ReportError`` for an unknown format or table,
    a file that cannot be written or is one of the ``inputs``; ``UsageError`` for a table that no format holds.
    """
    from tracer.report import FORMATS, format_of
    from tracer.report.finding_columns import table_columns

    suffixes = {form.suffix[1:]: name for name, form in FORMATS.items()}  # what a file's name ends in will do: md, txt
    words = [] if formats is None else [word.strip().lower().removeprefix(".") for word in formats.split(",")]
    names = None if formats is None else list(dict.fromkeys(suffixes.get(word, word) for word in words))
    if unknown := [name for name in names or () if name not in FORMATS]:
        raise ReportError(f"there is no format {unknown[0]!r}", hint=f"choose from {', '.join(FORMATS)}")
    if table is not None:
        table_columns(table)
    wanted: list[tuple[str, Path | None]] = []
    if output is None:
        if names is not None and len(names) > 1:
            raise UsageError("several formats need a place to go", hint="add -o with a folder or a stem")
        wanted = [(names[0] if names else "text" if table is None else "csv", None)]
    else:
        path = Path(output)
        is_folder = os.path.isdir(path) or output.endswith(("/", os.sep))
        if names is None and is_folder:
            raise UsageError(f"{output} is a folder", hint="name a file, or say which with --format")
        names = names or [format_of(path)]
        stem = path / "report" if is_folder else path
        if path.suffix in {form.suffix for form in FORMATS.values()} and not is_folder:
            stem = path.with_suffix("")
        for name in names:
            is_whole_name = len(names) == 1 and not is_folder
            target = path if is_whole_name else stem.with_name(stem.name + FORMATS[name].suffix)
            wanted.append((name, target))
            check_writable(target, error=ReportError)
            if any(target.exists() and os.path.exists(path) and target.samefile(path) for path in inputs):
                raise ReportError(f"{target} is the trace itself", hint="choose another name with -o")
    if table is not None and not any(FORMATS[name].has_tables for name, _ in wanted):
        holding = " or ".join(name for name, form in FORMATS.items() if form.has_tables)
        raise UsageError("--table chooses what CSV holds", hint=f"add --format {holding}")
    return wanted


Rendered = tuple[bytes | Iterator[bytes] | str, Path | None]
"""The output and its file; text goes to standard output."""


def render_report(
    report: Report, wanted: Sequence[tuple[str, Path | None]], *, table: str = "findings", detail: Detail
) -> list[Rendered]:
    """Every format of ``wanted``, before any is written; ``table`` is for CSV, ``detail`` a terminal's."""
    from tracer.report import rendered_as, to_write
    from tracer.report.render.terminal import SHOWN, to_text

    rendered: list[Rendered] = []
    for name, path in wanted:
        if path is not None:
            rendered.append((to_write(name, report, table=table), path))
        elif name == "text":
            rendered.append((to_text(report, width=None, color=None, limit=SHOWN, detail=detail), None))
        else:
            rendered.append((rendered_as(name, report, table=table), None))
    return rendered


def write_rendered(rendered: Iterable[Rendered]) -> None:
    """Write or print what ``render_report`` gave. Raises ``ReportError`` in one line for what cannot be written."""
    from tracer.files import write_whole

    for data, path in rendered:
        if isinstance(data, str):
            show(data)
        elif path is not None:
            write_whole(path, data, error=ReportError)
