"""The columns of the table of ops: what is known of one op that its schema does not say."""

from __future__ import annotations

from enum import Enum, auto

import msgspec


class Touch(Enum):
    """An op's effect on the memory of its arguments."""

    ALLOCATES = auto()
    """Its result is memory that nothing was written to."""
    GROWS = auto()
    """It may enlarge a storage."""
    MOVES = auto()
    """Its result holds what its argument holds, unwritten memory included."""
    OVERWRITES = auto()
    """It writes all of ``self`` and reads nothing of it."""
    METADATA = auto()
    """It asks for sizes, dtypes and places, and touches no element."""
    WAITS = auto()
    """It waits for other ranks, and its tensor, which may be unwritten, only says on which device."""
    SHAPE_OF_SELF = auto()
    """It asks ``self`` for its sizes alone: what ``zero_`` and its like become where ``torch.func`` writes nothing."""
    SCATTERS = auto()
    """It writes ``self`` at places that only data know, and reads nothing else of it."""
    ACCUMULATES = auto()
    """It reads and writes ``self`` at places that only data know."""
    GATHERS = auto()
    """It reads its first argument at places that only data know."""
    SELECTS = auto()
    """It takes elements of its first argument or leaves them, as another tensor says."""


class Numbers(Enum):
    """An op's effect on tensors of distinct numbers, which write each place once when they serve as an index."""

    MAKES = auto()
    CARRIES = auto()
    """Its result holds numbers of its argument."""
    PUTS = auto()
    """Its result holds numbers that it was given, each at a place that an index names."""


class Writes(Enum):
    """The way in which an op's index says where it writes."""

    ALONG = auto()
    """One index for each element, along ``dim``: ``scatter``."""
    ROWS = auto()
    """One index for each row of ``dim``: ``index_add``."""
    SEVERAL = auto()
    """One index for each dimension: ``index_put``."""
    FLAT = auto()
    """One index through all elements: ``put``."""
    EMBEDDED = auto()
    """One index for each row of a table, one of which may be padding."""
    POOLED = auto()
    """One index through the last dimensions of ``self``, as many as ``spatial`` says."""
    UNPOOLED = auto()
    """The same, through ``output_size``."""


class Orders(Enum):
    """Whether ties show in which element an op chooses."""

    ONE = auto()
    """It chooses one element of a row."""
    SEVERAL = auto()
    """It chooses or orders several."""


class Route(Enum):
    """The public function that calls an op alone, if its arguments are another op's private results."""

    ATTENTION = auto()
    RECURRENT = auto()
    BATCH_NORM = auto()
    CTC = auto()


class Index(msgspec.Struct, frozen=True):
    """An argument of indices, and the dimension that they count through."""

    argument: str
    counts: str
    """The tensor."""
    dim: int | str
    """Its dimension, or the argument that says which."""


class IndexBelow(msgspec.Struct, frozen=True):
    """An argument of indices that lie below the number in another argument."""

    argument: str
    limit: str


class Formula(msgspec.Struct, frozen=True):
    """A backward formula that runs under a dispatch mode alone, an empty one too."""

    node: str
    """The autograd node, without its number."""
    mark: str
    """An overload that it dispatches once, and the other formula never or seldom."""
    differs: str
    """The possible difference of its result."""
    on_cuda: bool = True
    """False where CUDA takes it without a mode too."""


class Op(msgspec.Struct, frozen=True):
    """One row: the properties of every overload of one op. A default also holds for an op without a row."""

    name: str
    """Without its namespace and overload: ``index_add_``."""
    touches: Touch | None = None
    """``None``: what its schema says, reading every argument in full."""
    idempotent: bool = False
    """Whether applying it twice gives the same, and it reads no other tensor. Then no order of writes shows."""
    beta: bool = False
    """Whether ``self`` is not read when ``beta`` is 0."""
    product: bool = False
    """Whether each element of its result is made of many elements of two factors."""
    copies: bool = False
    """Whether it copies one argument to another."""
    is_view: bool = False
    """Whether it shares memory with an argument though its schema does not say so, or wraps what Python holds."""
    detaches: bool = False
    """Whether its result is its argument, without the graph that it came of."""
    to_host: bool = False
    """Whether it hands what it reads to Python."""
    scratch: int | None = None
    """Place of the result that only its own backward reads, where the schema has no name for it."""
    undeclared: tuple[str, ...] = ()
    """Arguments that it writes although its schema calls them inputs."""
    draws: bool | None = None
    """Whether it draws random numbers, where torch's tag is wrong: it is handed what it needs, or bears no tag."""
    numbers: Numbers | None = None
    writes: Writes | None = None
    spatial: int = 0
    """Dimensions that a pool's index counts through."""
    sums: bool = False
    """Whether it adds up what it writes to one place, whatever its arguments."""
    onto_zeros: bool = False
    """Whether it adds into a tensor of zeros that it makes."""
    orders: Orders | None = None
    tied: bool = False
    """Whether its result depends on which of equal elements comes first."""
    reduces: bool = False
    """Whether it adds numbers up, so that another split of the work rounds otherwise."""
    indexed_by: Index | IndexBelow | None = None
    """The argument that holds indices, and what they count through."""
    indexes_each: bool = False
    """Whether ``indices`` is a list, with one index for each dimension of ``self``."""
    indexed_flat_by: str = ""
    """The argument that counts through all elements of ``self``."""
    bends: tuple[tuple[int, str | float], ...] = ()
    """Where it, or its backward, bends or jumps: signs, and a number or the argument that holds it."""
    jumps: bool = False
    """Whether its floating result is made of steps, of which rounding may choose another one."""
    probabilities: bool = False
    """Whether its floating arguments must lie between 0 and 1."""
    definite: bool = False
    """Whether its matrix must be positive definite."""
    route: Route | None = None
    kernel: str = ""
    """The name in ``torch.nn.attention.SDPBackend`` that chooses it."""
    made_of: tuple[str, ...] = ()
    """Names by which a generated kernel may call it: what it was before the graph decomposed it."""
    called_for: tuple[str, ...] = ()
    """Ops that an external kernel of this name computes."""
    formula: Formula | None = None
    on_cpu_for: str = ""
    """The name, valid on every device, of its computation, if torch has a kernel for a CPU alone; else empty."""
