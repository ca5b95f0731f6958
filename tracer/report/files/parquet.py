"""Parquet: one table with its types, for programs that read many reports."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from tracer.plain import encodable
from tracer.report.files.exported_tables import FINDINGS
from tracer.report.files.frame import table_frame

if TYPE_CHECKING:
    from tracer.report.view import ReportView


def encode(report: ReportView, table: str = FINDINGS) -> bytes:
    """The table as a Parquet file: text, whole numbers, flags.

    What UTF-8 cannot hold, a lone surrogate in a file's name, is written out.
    """
    frame = table_frame(report, table)
    for name in frame.columns:
        if frame[name].dtype == object:
            frame[name] = frame[name].map(encodable).astype("string[pyarrow]")
    stream = io.BytesIO()
    frame.to_parquet(stream, engine="pyarrow", index=False)
    return stream.getvalue()
