"""Draws rows from a directed junction tree, in shards: rounded counts in random order, or
independent rows.

A *node* is (sep, res, table): attributes already sampled, new attributes, and the marginal over sep
x res. It has the shape (cells of sep, cells of res) and weights >= 0 in any scale. Both cell
numbers run in C order. A node without separator starts a component.

Methods
    "independent": every row is drawn from the tree separately. "round": within a shard, the rows of
    one separator cell are given residual cells in whole counts, in random order. A count is floor
    or ceil of (rows x probability), with that exact mean. Nodes without separator are rounded over
    all rows at once: their counts are off by less than 1 in total, and by less than 2 in a shard.

Rows come in shards of `shard_rows`. Shard i depends on (tree, n, shard_rows, method, seed) alone.
"""

import secrets
from collections.abc import Mapping, Sequence

import numpy as np

from .._core import sample as _core
from .._util.threads import resolve
from ..domain import Domain
from ..errors import UsageError

Node = tuple[Sequence[str], Sequence[str], np.ndarray]
SHARDS = 16
"""Rows are divided among this many shards, so that sixteen threads have work."""
FEWEST_SHARD_ROWS = 1 << 18
"""The fewest rows of a shard. A shard also walks through all cells of the model's tables, which a
quarter of a million rows outweigh in most models."""
MOST_SHARD_ROWS = 1 << 20
"""The most rows of a shard."""
MOST_ROWS = 1 << 48
"""The most rows of one sample."""
METHODS = {"round": 0, "independent": 1}
"""The number of each method in the C code."""
_MOST_GROUPS = (1 << 31) - 1
"""The most cells of a separator, and of a residual."""


class Sampler:
    """A tree made ready for drawing. It refers to the given tables, which must not change.

    nodes: each node's separator is sampled by nodes before it. Columns come in the order in which
    the nodes add them, which may differ from the domain's.
    """

    def __init__(self, domain: Domain | Mapping[str, int], nodes: Sequence[Node]):
        domain = domain if isinstance(domain, Domain) else Domain(domain)
        checked = _check(domain, nodes)
        self.names = [name for _, _, res, _ in checked for name in res]
        self.dtypes = {name: np.min_scalar_type(domain[name] - 1) for name in self.names}
        number = {name: i for i, name in enumerate(self.names)}
        sizes = np.array(domain.shape(self.names), np.uint32)
        widths = np.array([self.dtypes[name].itemsize for name in self.names], np.int32)
        lowered = []
        previous = None
        for position, sep, res, table in _by_separator(checked):
            own = tuple(np.array([number[a] for a in part], np.int32) for part in (sep, res))
            repeats = sep == previous and len(sep) > 0
            overall = _residual_marginal(table)
            lowered.append((position, repeats, *own, table, overall, _codes_of_cells(domain, res)))
            previous = sep
        self._tree = _core.Tree(lowered, sizes, widths)

    def shards(self, n: int, shard_rows: int | None = None) -> int:
        """How many shards `n` rows make."""
        return -(-_checked_rows(n) // _checked_shard_rows(shard_rows or default_shard_rows(n)))

    def draw(
        self,
        n: int,
        *,
        method: str = "round",
        seed: int | None = None,
        shard: int | None = None,
        shard_rows: int | None = None,
        threads: int | None = None,
    ) -> dict[str, np.ndarray]:
        """Code columns of all `n` rows, or of shard number `shard` of them, which needs a `seed`.
        None: a random seed, `default_shard_rows`, all threads."""
        shard_rows = shard_rows or default_shard_rows(n)
        count = self.shards(n, shard_rows)
        if shard is None:
            return self._fill(
                n=n,
                shard_rows=shard_rows,
                first=0,
                count=count,
                method=_method(method),
                key=_key(seed),
                threads=resolve(threads),
            )
        if not 0 <= shard < count:
            raise UsageError(
                f"shard {shard!r}: {n} rows in shards of {shard_rows} make only {count} "
                "shards, numbered from 0"
            )
        if seed is None:
            raise UsageError(
                "shard needs a seed: without one, the other shards could not be drawn to match"
            )
        return self._fill(
            n=n,
            shard_rows=shard_rows,
            first=shard,
            count=1,
            method=_method(method),
            key=_key(seed),
            threads=1,
        )

    def _fill(self, n, shard_rows, first, count, method, key, threads):
        """Code columns of `count` shards from number `first` on."""
        rows = min(n, (first + count) * shard_rows) - first * shard_rows
        columns = {name: np.empty(rows, kind) for name, kind in self.dtypes.items()}
        if rows and columns:
            self._tree.fill(
                list(columns.values()),
                rows=n,
                shard_rows=shard_rows,
                first=first,
                count=count,
                method=method,
                seed=key,
                threads=threads,
            )
        return columns


def default_shard_rows(n: int) -> int:
    """The default number of rows of a shard, for a sample of `n` rows."""
    return min(MOST_SHARD_ROWS, max(FEWEST_SHARD_ROWS, -(-_checked_rows(n) // SHARDS)))


def _check(domain: Domain, nodes: Sequence[Node]) -> list[tuple[int, tuple, tuple, np.ndarray]]:
    """(position, sep, res, float64 table of shape (sep, res)) of each node; UsageError if the nodes
    make no directed tree or a table is invalid."""
    placed: set[str] = set()
    checked = []
    for i, (sep, res, table) in enumerate(nodes):
        sep = domain.check(tuple(sep))
        res = domain.check(tuple(res))
        if not res:
            raise UsageError(f"node {i}: it adds no new attribute")
        if missing := set(sep) - placed:
            raise UsageError(f"node {i}: its separator {sorted(missing)} is not sampled before it")
        if again := set(res) & placed:
            raise UsageError(f"node {i}: {sorted(again)} is already sampled before it")
        placed |= set(res)
        table = np.ascontiguousarray(table, np.float64)
        shape = (domain.cells(sep), domain.cells(res))
        if max(shape) > _MOST_GROUPS:
            raise UsageError(
                f"node {i}: one side of its table has {max(shape)} cells, the limit is "
                f"{_MOST_GROUPS}"
            )
        if table.size != shape[0] * shape[1]:
            raise UsageError(f"node {i}: expected a table of shape {shape}, got {table.shape}")
        table = table.reshape(shape)
        low, high = table.min(), table.max()
        if not (low >= 0 and high < np.inf):
            raise UsageError(
                f"node {i} ({', '.join((*sep, *res))}): weights must be finite and >= 0"
            )
        if high == 0:
            raise UsageError(f"node {i} ({', '.join((*sep, *res))}): all weights are 0")
        checked.append((i, sep, res, table))
    return checked


def _by_separator(nodes: list) -> list:
    """The nodes with equal separators side by side, so that their rows are grouped once."""
    order: dict[tuple, list] = {}
    for node in nodes:
        order.setdefault(node[1], []).append(node)
    return [node for group in order.values() for node in group]


def _residual_marginal(table: np.ndarray) -> np.ndarray:
    """The table's sum over separator cells, in any scale. Rows in a separator cell without mass are
    drawn from it: through rounding errors, such a cell may have rows from an earlier node."""
    with np.errstate(over="ignore"):
        total = table.sum(axis=0)
    if not np.isfinite(total.sum()):
        total = (table / table.max()).sum(axis=0)
    return np.ascontiguousarray(total)


def _codes_of_cells(domain: Domain, res: tuple) -> np.ndarray | None:
    """uint32 (cells of res, attributes of res): the codes that each cell stands for. None for one
    attribute, whose codes are the cells."""
    if len(res) == 1:
        return None
    codes = np.unravel_index(np.arange(domain.cells(res)), domain.shape(res))
    return np.ascontiguousarray(np.stack(codes, axis=1), np.uint32)


def _checked_rows(n: int) -> int:
    return _whole(n, "the number of rows", 0, MOST_ROWS)


def _checked_shard_rows(n: int) -> int:
    return _whole(n, "shard_rows", 1, 1 << 31)


def _whole(n: int, what: str, least: int, most: int) -> int:
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or not least <= n <= most:
        raise UsageError(f"{what} must be a whole number from {least} to {most}, got {n!r}")
    return int(n)


def _method(name: str) -> int:
    """The method's number in the C code."""
    if name not in METHODS:
        raise UsageError(f"method must be one of {', '.join(METHODS)}, got {name!r}")
    return METHODS[name]


def _key(seed: int | None) -> int:
    """The 64-bit key of the generator: a function of the seed, or random."""
    if seed is None:
        return secrets.randbits(64)
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise UsageError(f"seed must be a whole number >= 0 or None, got {seed!r}")
    return int(np.random.SeedSequence(int(seed)).generate_state(1, np.uint64)[0])
