"""What calls give on a part of their rows that is no rounding."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch

from tracer.recording.trials import rows_alone


def otherwise(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Filled with the overloads that the table calls row-wise and whose rows differ by more than rounding."""
    found: Counter[str] = Counter()
    apart = rows_alone._apart

    def noted(call: Any, whole: torch.Tensor, part: torch.Tensor) -> float:
        distance = apart(call, whole, part)
        if distance == float("inf"):
            found[call.info.name] += 1
        return distance

    monkeypatch.setattr(rows_alone, "_apart", noted)
    return found
