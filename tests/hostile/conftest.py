"""The command line, called in this process."""

from tests.cli.conftest import tracer

__all__ = ["tracer"]
