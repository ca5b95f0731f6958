"""Which modules of tests one worker takes: those that load the same large thing, so that it is loaded once.

A worker takes a module at a time. Two workers that each start Chromium and import Transformers spend ten seconds more
than one that does both.
"""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

#: What opens pages in Chromium, and what makes models of Transformers; the pages of a model do both.
TOGETHER = (
    "tests/integrations/test_blocks_of_pages.py",
    "tests/integrations/test_trainers.py",
    "tests/models/",
    "tests/one_call/test_every_finding.py",
    "tests/report/test_browser.py",
    "tests/report/test_new_column.py",
    "tests/report/test_parting_page.py",
    "tests/report/test_real_model.py",
)


class Spread(LoadScopeScheduling):
    """A module is for one worker, and so are those of ``TOGETHER``, which begin where the first of them stands."""

    def _split_scope(self, nodeid: str) -> str:
        return "together" if nodeid.startswith(TOGETHER) else super()._split_scope(nodeid)
