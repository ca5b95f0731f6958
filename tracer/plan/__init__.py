"""The plan: findings -> the numbered changes that would make the step reproducible, and what they promise."""

from tracer.plan.changes import identity_of, make_plan, planned_settings, promised, varied_first
from tracer.plan.steps import Step, is_mode_on, name_of, place_of, step_of

__all__ = [
    "Step",
    "identity_of",
    "is_mode_on",
    "make_plan",
    "name_of",
    "place_of",
    "planned_settings",
    "promised",
    "varied_first",
    "step_of",
]
