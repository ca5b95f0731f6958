"""Reports: a judgement and its outputs, one module a format, each a function to text.

Importing this package imports neither torch, pandas, jinja2 nor rich: each loads with the format that
needs it.
"""

from tracer.report.report import Report

__all__ = ["Report"]
