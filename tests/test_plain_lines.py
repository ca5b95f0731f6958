"""A sentence that is too long loses words from its middle, and no part of a word."""

from __future__ import annotations

import pytest

from tracer.plain import one_line

SENTENCE = "this sentence of several short words is longer than the line that it is to stand on, and says nothing"


@pytest.mark.parametrize("limit", [30, 31, 60, 90])
def test_a_sentence_is_cut_between_words(limit: int) -> None:
    line = one_line(SENTENCE, limit)
    assert len(line) <= limit
    head, tail = line.split("…")
    assert SENTENCE.startswith(f"{head} ")
    assert SENTENCE.endswith(f" {tail}")


def test_a_word_that_is_longer_than_the_line_is_cut() -> None:
    assert (
        one_line("/".join("abcdefghij" * 9), 20) == "a/b/c/d/e…f/g/h/i/j"[:9] + "…" + "/".join("abcdefghij" * 9)[-10:]
    )


@pytest.mark.parametrize("text", ["short", "exactly so"])
def test_what_fits_stays(text: str) -> None:
    assert one_line(text, 10) == text
