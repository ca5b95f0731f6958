"""What MkDocs calls: it hands over the pages that are made when the site is built, and the site's address."""

from __future__ import annotations

import logging
import re
import sys
from pathlib import Path
from posixpath import relpath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # `mkdocs` runs from anywhere
LOG = logging.getLogger("mkdocs.hooks.site")
#: What Material asks a stranger for, so that the search works from a disk; ours stands in ``assets/``.
SHIM = "https://unpkg.com/iframe-worker/shim"
OWN_SHIM = "assets/search-from-disk.js"
_FROM_ELSEWHERE = re.compile(r"""<(?:script|img|iframe|link rel="(?:stylesheet|preconnect|icon))[^>]*https?://[^>]*>""")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The site's address is that of the package's metadata."""
    from tracer.report.sarif import site_address

    config.site_url = site_address() or None
    return config


def on_files(files: Files, *, config: MkDocsConfig, **_: Any) -> Files:
    """Every page as ``pages.py`` makes it, in place of the file that MkDocs found."""
    from docs.making.pages import site_pages

    for path, text in site_pages().items():
        if known := files.get_file_from_path(path):
            files.remove(known)
        files.append(File.generated(config, path, content=text))
    return files


def on_post_page(output: str, *, page: Page, config: MkDocsConfig) -> str:
    """The page as it is written; one that would load anything from elsewhere fails the strict build."""
    output = output.replace(SHIM, relpath(OWN_SHIM, Path(page.url).parent.as_posix() or "."))
    for asked in _FROM_ELSEWHERE.findall(output):
        if not (config.site_url and config.site_url in asked):
            LOG.warning("%s asks another site: %s", page.file.src_uri, asked)
    return output


def on_post_template(output: str, **_: Any) -> str:
    """The page for what a server does not find; it is never opened from a disk."""
    return output.replace(f'<script src="{SHIM}"></script>', "")
