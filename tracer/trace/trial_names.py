"""The closed vocabularies of what is tried and looked at while recording: arms, reasons, what data show."""

from __future__ import annotations

from tracer.names import Word


class TrialArm(Word):
    """What is changed while a call is made again."""

    REPEATED = "repeated"
    """Nothing but the bytes in fresh memory."""
    STREAM = "stream"
    """Another stream of the device is busy meanwhile."""
    THREADS = "threads"
    """Another number of threads. What differs there alone differs between machines, not between runs."""


class Untried(Word):
    """Why a call was not made again."""

    RARER = "rarer"
    """Calls of its group had been tried before it: of many, ever rarer ones are."""
    MEMORY = "memory"
    """More bytes would have been copied than trials may."""
    COLLECTIVE = "collective"
    """It speaks to other processes."""
    SIDE_EFFECTS = "side-effects"
    """It does, or may do, something outside its results that cannot be put back."""
    FRESH_MEMORY = "fresh-memory"
    """Its result is memory that nobody wrote, or it makes a tensor larger."""
    NO_RESULT = "no-result"
    """It gives no tensor that could be compared: a number is handed to Python."""
    NO_INPUT = "no-input"
    """It was given no tensor."""
    LAYOUT = "layout"
    """A tensor that it writes, or may write, cannot be copied as it lies: sparse, nested, a lazy sign."""
    GENERATOR = "generator"
    """It draws from a generator whose state cannot be read."""
    CAPTURED = "captured"
    """A CUDA graph was being captured, or replays it."""
    COMPILED = "compiled"
    """It ran in compiled code whose inside is not known, or launched a kernel of the program's own."""
    FAILED = "failed"
    """Making it again raised an error."""


class DataShown(Word):
    """What the data of one call show of it; each call that was looked at shows one of these."""

    DISTINCT = "distinct"
    """No place is written twice."""
    TWICE_ONTO_ZEROS = "twice-onto-zeros"
    """No place is written more than twice, and zeros stood there: two add up to the same sum in either order."""
    EXACT = "exact"
    """What falls together are whole numbers, so small that each sum is exact."""
    NO_TIES = "no-ties"
    """What is ordered has no two equal values where it would show, and no NaN."""
    DUPLICATES = "duplicates"
    """Some place is written several times, by what does not add exactly."""
    TIES = "ties"
    """Equal values stand where it shows which of them comes first."""
    NAN = "nan"
    """NaN stands among what is ordered."""
    UNREAD = "unread"
    """The data could not be looked at."""


#: What settles a call whose order of writing, adding or choosing is not fixed: for these data it cannot show.
SETTLING_DATA = frozenset({DataShown.DISTINCT, DataShown.TWICE_ONTO_ZEROS, DataShown.EXACT, DataShown.NO_TIES})
