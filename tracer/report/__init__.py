"""Reports: a judgement in every format. Torch, pandas, jinja2 and rich load with the format that needs them."""

from tracer.report.report import Report

__all__ = ["Report"]
