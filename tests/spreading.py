"""Which modules of tests one worker takes: those that load the same large thing, so that it is loaded once.

A worker takes a module at a time. Two workers that each start Chromium, import Transformers and torch's database of ops
spend ten seconds more than those that share them out.
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


#: What calls torch's own database of ops, whose import takes as long as that of torch.
OF_THE_DATABASE = (
    "tests/gpu/test_measuring.py",
    "tests/recording/test_generators.py",
    "tests/recording/test_opinfo.py",
    "tests/tables/test_accuracy_cpu.py",
    "tests/tables/test_complete_cuda.py",
)


class Spread(LoadScopeScheduling):
    """A module is for one worker, and so are those of each list, which begin where the first of them stands."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(OF_THE_DATABASE):
            return "of the database"
        return "together" if nodeid.startswith(TOGETHER) else super()._split_scope(nodeid)
