"""The losses of two runs, drawn over each other, and what they say in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeGuard

from tracer.divergence.model import Loss
from tracer.report import blocks as said
from tracer.report.words import plural

#: The drawing's own width and height; the page stretches it.
WIDTH, HEIGHT = 1000, 160
#: Steps that are drawn; of more, every second, third and so on.
_MOST_POINTS = 1000


class Curves(NamedTuple):
    """Both losses as lines."""

    second: str
    """The run that is compared with run 1."""
    lines: tuple[str, str]
    """As SVG spells them; a step without a number breaks the line."""
    diverges_at: int | None
    """The first step in which they differ."""
    left: float
    """The position of that, in percent of the whole."""
    steps: tuple[int, int]
    """The first and the last step."""
    range: tuple[str, str]
    """The largest and the smallest number."""
    label: str
    """The caption, a sentence."""


def of_losses(losses: Sequence[Loss], second: str) -> tuple[said.Block, ...]:
    """Both losses as a picture and a sentence; nothing if ``backward`` was never called on a scalar."""
    if not losses:
        return ()
    sentence = losses_sentence(losses, second)
    shown = (said.Paragraph(f"{sentence}."),)
    curves = _curves(losses, second, sentence)
    return shown if curves is None else (*shown, said.Picture("losses", curves))


def losses_sentence(losses: Sequence[Loss], second: str) -> str:
    """``The losses diverge at step 3: 0.41 in run 1, 0.39 in run 2``, without its full stop."""
    loss = next((loss for loss in losses if loss.differs), None)
    nan = nan_clause(losses)
    also = f"; {nan}" if nan else ""
    if loss is None:
        return f"The losses of both runs agree in {plural(len(losses), 'step')}{also}"
    last = losses[-1]
    ends = f"; at step {last.step} they are {_number(last.first)} and {_number(last.second)}" if last != loss else ""
    values = f"{_number(loss.first)} in run 1, {_number(loss.second)} in {second}"
    return f"The losses diverge at step {loss.step}: {values}{ends}{also}"


def nan_clause(losses: Sequence[Loss]) -> str:
    """Since when both losses are NaN, so that agreement says nothing; empty where the last ones are numbers."""
    numbers = [place for place, loss in enumerate(losses) if not (_is_nan(loss.first) and _is_nan(loss.second))]
    begins = numbers[-1] + 1 if numbers else 0
    if begins == len(losses):
        return ""
    return "the loss is NaN in every step" if not begins else f"the loss is NaN from step {losses[begins].step} on"


def nan_at_end(states: Sequence[str]) -> str:
    """Return the states that hold NaN in both runs at the end; empty for none."""
    more = f" and {plural(len(states) - 1, 'more state')}" if len(states) > 1 else ""
    return f"{states[0]}{more} hold{'s' * (len(states) == 1)} NaN at the end" if states else ""


def _is_nan(loss: float | None) -> bool:
    return loss is not None and math.isnan(loss)


def _number(loss: float | None) -> str:
    return "none" if loss is None else f"{loss:.6g}"


def _curves(losses: Sequence[Loss], second: str, label: str) -> Curves | None:
    numbers = [number for loss in losses for number in (loss.first, loss.second) if _is_drawn(number)]
    if len(losses) < 2 or not numbers:
        return None
    low, high = min(numbers), max(numbers)
    drawn = losses[:: -(-len(losses) // _MOST_POINTS)]
    across, up = max(1, len(drawn) - 1), (high - low) or 1.0

    def line(values: Sequence[float | None]) -> str:
        path, is_open = [], False
        for place, value in enumerate(values):
            if not _is_drawn(value):
                is_open = False
                continue
            x, y = WIDTH * place / across, 4 + (HEIGHT - 8) * (high - value) / up
            path.append(f"{'L' if is_open else 'M'}{x:.1f} {y:.1f}")
            is_open = True
        return "".join(path)

    differing = next((place for place, loss in enumerate(losses) if loss.differs), None)
    return Curves(
        second=second,
        lines=(line([loss.first for loss in drawn]), line([loss.second for loss in drawn])),
        diverges_at=None if differing is None else losses[differing].step,
        left=0.0 if differing is None else round(100 * differing / (len(losses) - 1), 3),
        steps=(losses[0].step, losses[-1].step),
        range=(_number(high), _number(low)),
        label=label,
    )


def _is_drawn(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value)
