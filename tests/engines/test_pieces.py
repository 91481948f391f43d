"""Pieces of a partition that another process encoded: how many wait to be joined."""

import numpy as np

import fastdp
from fastdp.engines import pieces
from fastdp.engines.messages import packed

SCHEMA = fastdp.Schema.from_domain({"a": 7})


def test_no_more_than_a_batch_of_rows_waits(monkeypatch):
    """Joined in between or in the end, the table is the same; in between pieces wait until they have
    BATCH_ROWS."""
    rng = np.random.default_rng(0)
    parts = [rng.integers(0, 7, n).astype(np.uint8) for n in (3, 0, 4, 9, 1, 1, 12, 2)]
    tables = []
    for most in (1 << 20, 5):
        monkeypatch.setattr(pieces, "BATCH_ROWS", most)
        joined = pieces.Joined(SCHEMA, b"x" * 32)
        rows = 0
        for part in parts:
            joined.add(packed({"rows": len(part), "codes": [part], "dropped": 1}))
            rows = rows + len(part) if rows + len(part) < most else 0
            assert sum(piece.rows for piece in joined._waiting) == joined._rows == rows
        tables.append(joined.table())
    for table in tables:
        assert table.rows == 32
        assert table.codes["a"].tolist() == np.concatenate(parts).tolist()


def test_a_large_table_is_put_together_outside_memory(monkeypatch):
    """Mapped from a file without a name, as large as it must be; the same table."""
    codes = np.random.default_rng(1).integers(0, 7, 5000).astype(np.uint8)
    head, *rest = pieces.blobs(fastdp.Table.from_codes({"a": 7}, {"a": codes}))
    rooms = []
    for most in (5000, 4999):
        monkeypatch.setattr(pieces.ingest, "SPOOL_ROWS", most)
        room = pieces.Tables(SCHEMA, head)
        for blob in rest:
            room.add(blob)
        assert room.table().codes["a"].tolist() == codes.tolist()
        rooms.append(room._memory)
    assert not isinstance(rooms[0], np.memmap) and isinstance(rooms[1], np.memmap)
    assert rooms[0].shape == rooms[1].shape
