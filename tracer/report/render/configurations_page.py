"""A comparison of two configurations as one HTML page that opens offline."""

from __future__ import annotations

from markupsafe import Markup

import tracer
from tracer.divergence.magnitudes import Comparison
from tracer.report.blocks import PAGE
from tracer.report.render.page import assets, page_environment
from tracer.report.sections.configurations import SEVERITY, configuration_blocks, headline


def render(comparison: Comparison, script: str) -> str:
    """The whole page; it has no script."""
    style = assets()
    return (
        page_environment()
        .get_template("compare.html")
        .render(
            verdict=SEVERITY[comparison.verdict],
            headline=headline(comparison),
            script_name=script,
            blocks=list(configuration_blocks(comparison, PAGE))[1:],
            version=tracer.__version__,
            style=Markup(style["style.css"] + style["compare.css"]),
            bundle=None,
        )
    )
