"""The largest model that a run may fit, and what the run needs of memory and time."""

import math

from ..domain import code_dtype
from ..errors import ModelTooLargeError
from ..mechanisms.base import Config
from ..mechanisms.limits.model_size import LargestModel, check_size, tree_size
from ..mechanisms.limits.structural_zeros import StructuralZeros, check_possible
from ..mechanisms.plans import Outline
from ..mechanisms.shared.halving import MOST_LEVELS
from ..mechanisms.shared.merged_codes import PAIR_CELLS
from ..mechanisms.with_users.chosen_users import pool_times
from ..model.sampler import default_shard_rows
from ..public.data import PublicTable
from ..schema import Schema
from ..tables.table import Table
from .output import block_shards, blocks_at_once

# Seconds per row, cell or pair on one core of a 2020 server. A plan's times are rough: half or
# double is normal.
READ_ROW = 6e-7
COUNT_ROW = 1.2e-8
FIT_CELL = 1.0e-8
DRAW_ROW = 1.5e-7
WRITE_ROW = 9e-7
FIT_CALLS = 110
"""Passes over the model's cells that a fit takes."""
PAIR = 3e-3
"""Seconds per pair of columns that a run may choose from. Measured on generated tables of 60, 130
and 300 columns, which took 7, 27 and 83 processor seconds in all."""
POOL_ROW = 4e-6
"""Seconds per row of a pool of users, from which whole users are chosen (`bench.pool`)."""
POOL_BYTES = 360
"""Bytes for each row of the pool that one block of rows takes: so that a plan of cohorts, patients
and events of .1 to 3 million rows states 1.1 to 1.9 times the largest memory of a run on two
threads."""
MOST_PAIRS = 1 << 14
"""The most pairs that a run looks at."""
FREE_BYTES = 150e6
"""Bytes that a run takes besides its data and model: the interpreter and its libraries."""


def needs(
    schema: Schema, outline: Outline, cells: int, rows: int, workers: int, chosen: bool = False
) -> tuple[int, float]:
    """(bytes of memory, seconds) that a run takes with a model of so many cells. `chosen`: users of
    synthetic rows are chosen from a pool.

    Peak memory is the larger of two phases. In the first, codes and user numbers of the data and
    the tables of all pairs are held. After these are freed come the model's tables, a block of
    synthetic rows with ids, and the shards that are being drawn. Few rows are drawn up to
    2^MOST_LEVELS times over, those of a pool as often as it is larger than what is chosen. A table that the
    caller holds in memory is not counted.
    """
    width = sum(code_dtype(n).itemsize for n in schema.domain.values())
    data = rows * (width + 4)
    block = min(rows, 1 << 24) * (width + 16)
    shards = min(rows << MOST_LEVELS, workers << 20) * 12 * len(schema.domain)
    pairs = 0 if outline.cliques else min(MOST_PAIRS, math.comb(len(schema.modelled), 2))
    tables = 2 * 8 * PAIR_CELLS if pairs else 0
    memory = max(data + tables, 6 * 8 * cells + block + shards) + FREE_BYTES
    counted = len(outline.cliques) or len(outline.measurements) + pairs
    work = rows * (READ_ROW + WRITE_ROW + DRAW_ROW + counted * COUNT_ROW)
    work += pairs * PAIR + FIT_CALLS * cells * FIT_CELL
    if chosen:
        times = pool_times(rows)
        shard_rows = default_shard_rows(rows)
        of_block = block_shards(times, shard_rows) * shard_rows
        at_once = blocks_at_once(times, shard_rows, workers) * of_block
        pool = times * min(rows, at_once) * POOL_BYTES
        memory = max(memory, 6 * 8 * cells + pool + shards + FREE_BYTES)
        work += times * rows * POOL_ROW
    return int(memory), work / max(1.0, 0.9 * workers) + 0.5


def largest_model(
    config: Config, schema: Schema, public: Table | bool, outline: Outline, zeros: StructuralZeros
) -> tuple[LargestModel, str]:
    """(the largest model that the run may fit, why the run would be refused for its size or
    "")."""

    domain = schema.modelled
    fixed = zeros.cliques
    if public is True:  # what public data would choose is not known without it
        largest = tree_size(domain, [*outline.cliques, *fixed])
    else:
        largest = config.largest_model(
            domain, None if public is False else PublicTable(public), fixed
        )
    try:
        check_size(largest, domain, config.fit_limit)
    except ModelTooLargeError as error:
        return largest, str(error)
    check_possible(schema)
    return largest, ""


def constraint_notes(schema: Schema, zeros: StructuralZeros) -> tuple[str, ...]:
    """Notes on what constraints and spans of times add to the model and take out of it."""
    derived = [name for name in schema.domain if name not in schema.modelled]
    notes = []
    if derived:
        notes.append(f"{', '.join(derived)}: derived when rows are written, not modelled")
    cliques = [clique for clique in zeros.cliques if len(clique) > 1]
    if cliques:
        alone = sum(n for a, n in schema.modelled.items() if not any(a in c for c in cliques))
        cells = tree_size(schema.modelled, cliques).cells - alone
        listed = ", ".join(" x ".join(c) for c in cliques[:6]) + (" ..." if cliques[6:] else "")
        cause = "constraints keep" if schema.constraints else "the span of times keeps"
        notes.append(f"{cause} {listed} together in the model, {cells:,} cells")
    return tuple(notes)
