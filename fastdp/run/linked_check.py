"""What `verify` checks of a folder of linked tables: the keys of child rows are keys of parents.

Keys are compared in bounded memory, however many rows a small file claims to have.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from .._core import bound
from ..schema.linked_schema import LinkedSchema
from ..tables.linked_tables import Links
from ..tables.userids import UserIndex
from .folder_check import row_files, schema_of
from .parquet_limits import batches, bounded_file
from .strict_json import read_json, within_floats

KEYS_AT_ONCE = 1 << 22
"""Keys of linked tables that are compared at one time; each takes 8 bytes, several times."""
MOST_KEY_ROWS = 1 << 27
"""Rows of the largest linked table whose keys are read. All rows of a linked run are in memory
while it writes them; reading so many takes about a minute."""
NULL_KEY = np.zeros(1, np.uint64)


def linked_problems(folder: Path) -> Iterator[str]:
    """Problems where the tables of `tables.json` are not those of the folder, or a child's row
    names a key that no parent's row has."""
    path = folder / "tables.json"
    if not path.is_file() and not path.is_symlink():
        return
    read_json(path, within_floats)
    links = Links(LinkedSchema.load(path.absolute()))
    files: dict[str, list[KeyFile]] = {}
    for name, schema in zip(links.names, links.schemas):
        place = folder / f"table-{name}"
        own = schema_of(place)
        if own is None or own.digest() != schema.digest():
            yield f"tables.json describes another table {name!r} than table-{name}/schema.json"
            return
        key = str(links.linked.tables[name].user)
        files[name] = [KeyFile(part, key) for part in row_files(place) if part.is_file()]
        rows = sum(file.rows for file in files[name])
        if rows > MOST_KEY_ROWS:
            yield f"table {name!r} has {rows:,} rows; keys of more than {MOST_KEY_ROWS:,} are not read"
            return
    parents = files.pop(links.linked.parent)
    for name, own_files in files.items():
        missing = keys_without_parent(parents, own_files)
        if missing:
            yield f"{missing:,} keys of table {name!r} are not keys of {links.linked.parent!r}"


class KeyFile:
    """The key column of one Parquet file, read in batches."""

    def __init__(self, path: Path, column: str):
        self.path = path
        self.column = column
        with bounded_file(path, [column]) as file:
            self.rows = file.metadata.num_rows

    def hashes(self) -> Iterator[np.ndarray]:
        """Hashes of the keys of each batch, with a constant for nulls. Different whole numbers have
        different hashes; those of texts have 64 bits."""
        index = UserIndex(self.column)
        with bounded_file(self.path, [self.column]) as file:
            for batch in batches(file, [self.column], self.path.name):
                column = batch.column(0)
                if column.null_count:
                    yield NULL_KEY
                keys = index.prepare(column.drop_null())
                yield bound.hash_words(keys.key) if keys.one_word else keys.hash


def keys_without_parent(parents: Sequence[KeyFile], children: Sequence[KeyFile]) -> int:
    """How many keys of the children's files are in none of the parents' files.

    Hashes are compared range by range, so that about KEYS_AT_ONCE of them are held at one time,
    however many rows the files have."""
    rows = max(sum(file.rows for file in files) for files in (parents, children))
    ranges = max(1, -(-rows // KEYS_AT_ONCE))
    return sum(
        len(np.setdiff1d(_range_of(children, i, ranges), _range_of(parents, i, ranges), True))
        for i in range(ranges)
    )


def _range_of(files: Sequence[KeyFile], number: int, ranges: int) -> np.ndarray:
    """The distinct hashes of the files' keys that are in one of so many ranges."""
    step = np.uint64(-(-(1 << 64) // ranges) if ranges > 1 else (1 << 64) - 1)
    found = [np.empty(0, np.uint64)]
    held = 0
    for hashes in (some for file in files for some in file.hashes()):
        own = hashes if ranges == 1 else hashes[hashes // step == number]
        found.append(own)
        held += len(own)
        if held > 2 * KEYS_AT_ONCE:  # a key may be in many batches
            found = [_distinct(np.concatenate(found))]
            held = len(found[0])
    return _distinct(np.concatenate(found))


def _distinct(keys: np.ndarray) -> np.ndarray:
    """The distinct keys, ascending; sorts in place. `np.unique` fills a hash table, which takes six
    times as long for millions of keys that differ."""
    keys.sort()
    new = np.ones(len(keys), bool)
    new[1:] = keys[1:] != keys[:-1]
    return keys[new]
