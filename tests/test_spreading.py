"""One worker takes all modules that start Chromium or make a model of Transformers."""

from __future__ import annotations

from pathlib import Path

from tests.spreading import OF_THE_DATABASE, TOGETHER, Spread

TESTS = Path(__file__).parent


def test_every_module_that_opens_pages_goes_to_the_worker_that_has_the_browser() -> None:
    opening = {
        f"tests/{path.relative_to(TESTS)}"
        for path in TESTS.rglob("test_*.py")
        if "chromium: Browser" in path.read_text(encoding="utf-8") and path != Path(__file__)
    }
    assert len(opening) > 3
    assert {one for one in opening if not one.startswith(TOGETHER)} <= {"tests/test_site.py"}  # slow


def test_what_is_named_is_there() -> None:
    assert [one for one in (*TOGETHER, *OF_THE_DATABASE) if not (TESTS.parent / one).exists()] == []


def test_modules_are_together_and_others_stay_by_themselves() -> None:
    spread = Spread.__new__(Spread)
    scopes = [spread._split_scope(f"{one}::test") for one in ("tests/models/test_untouched.py", TOGETHER[-1])]
    assert scopes == ["together", "together"]
    assert {spread._split_scope(f"{one}::test[1-2]") for one in OF_THE_DATABASE} == {"of the database"}
    assert spread._split_scope("tests/report/test_text.py::test") == "tests/report/test_text.py"
