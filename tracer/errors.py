"""The error tree. Each error says what went wrong, where, and what to do, in one line.

The command line prints ``str(error)`` on standard error and leaves with ``error.exit_code``.
"""

from __future__ import annotations


class TracerError(Exception):
    """Anything the tracer refuses: ``message`` says what and where, ``hint`` what to do about it."""

    exit_code = 2

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        line = f"{self.message}; {self.hint}" if self.hint else self.message
        return " ".join(line.split())


def reason_of(problem: Exception) -> str:
    """Return the system's reason of refusal: ``No space left on device``, without the number and the path."""
    return getattr(problem, "strerror", None) or str(problem)


class TraceError(TracerError):
    """A trace file that cannot be read, or traces that cannot be merged."""


class TableError(TracerError):
    """A determinism table that is malformed, incomplete or contradicts itself."""


class TargetError(TracerError):
    """A backend, torch version or setting that does not exist."""


def of_another_schema(file: str, schema: int, reads: int) -> TraceError:
    """The error for a ``file``, named with its kind, whose schema is not the one that this release reads."""
    return TraceError(
        f"{file} of schema {schema}; this release reads schema {reads}",
        hint="update determinism-tracer" if schema > reads else "record it again",
    )


class ReportError(TracerError):
    """A report that cannot be rendered or written."""


class BaselineError(TracerError):
    """A lock file of accepted findings that cannot be read or written."""


class UsageError(TracerError):
    """A command line or an API call with arguments that do not fit together."""


class RankError(UsageError):
    """A script that cannot run alone as the rank of a job that it was to run as."""


class EndedEarly(TracerError):
    """A signal ended the work before it had a result."""

    exit_code = 3
