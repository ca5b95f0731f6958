"""Many cases in one test: each is checked, and each that fails is named."""

from __future__ import annotations

import pytest

from tests.thinning import every


def below_two(number: int) -> None:
    if number == 3:
        pytest.skip("not here")
    assert number < 2


def test_each_case_that_fails_is_named_and_one_that_skips_is_not() -> None:
    with pytest.raises(AssertionError) as failed:
        every([pytest.param(0, id="none"), pytest.param(5, id="five"), 3, 7])(below_two)()
    said = str(failed.value)
    assert "five: AssertionError" in said
    assert "7: AssertionError" in said
    assert "none: " not in said
    assert "3: " not in said


def test_what_is_raised_is_told_with_its_case() -> None:
    with pytest.raises(AssertionError, match="of 0: ZeroDivisionError"):
        every([(1, 1), (1, 0)], lambda over, under: f"of {under}")(lambda over, under: over // under)()


def test_no_case_is_no_test() -> None:
    with pytest.raises(ValueError, match="no case"):
        every([])
    assert every([1])(below_two).__name__ == "below_two"
