"""Writes logs of Delta tables that deltalake cannot write: deletion vectors and protocols.

By the protocol's specification (github.com/delta-io/delta, PROTOCOL.md): an inline deletion vector
is a RoaringBitmapArray in its portable form, written in the alphabet of Z85.
"""

import json
import struct
import uuid
import zlib
from pathlib import Path

import pyarrow.parquet as pq

MAGIC = 1681511377
COOKIE = 12346
Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def roaring(rows):
    """A 32-bit bitmap with array containers only, in the portable form."""
    groups = {}
    for row in sorted(rows):
        groups.setdefault(row >> 16, []).append(row & 0xFFFF)
    out = struct.pack("<II", COOKIE, len(groups))
    for key, values in groups.items():
        out += struct.pack("<HH", key, len(values) - 1)
    offset = len(out) + 4 * len(groups)
    for values in groups.values():
        out += struct.pack("<I", offset)
        offset += 2 * len(values)
    for values in groups.values():
        out += struct.pack(f"<{len(values)}H", *values)
    return out


def z85(data):
    data += b"\0" * (-len(data) % 4)
    words = []
    for (number,) in struct.iter_unpack(">I", data):
        word = ""
        for _ in range(5):
            word = Z85[number % 85] + word
            number //= 85
        words.append(word)
    return "".join(words)


def deletion_vector(rows, folder=None):
    """What an `add` says of deleted rows: inline, or in a file of its own in the table's folder, as
    Spark writes it."""
    data = struct.pack("<IQI", MAGIC, 1, 0) + roaring(rows)
    facts = {"sizeInBytes": len(data), "cardinality": len(rows)}
    if folder is None:
        return facts | {"storageType": "i", "pathOrInlineDv": z85(data)}
    name = uuid.uuid4()
    framed = struct.pack(">I", len(data)) + data + struct.pack(">I", zlib.crc32(data))
    Path(folder, f"deletion_vector_{name}.bin").write_bytes(b"\x01" + framed)
    return facts | {"storageType": "u", "pathOrInlineDv": z85(name.bytes), "offset": 1}


def actions(table):
    """All actions of a table without checkpoints, in order."""
    logs = sorted(Path(table, "_delta_log").glob("*.json"))
    return [json.loads(line) for log in logs for line in log.read_text().splitlines()]


def commit(table, *entries):
    """Append a version with these actions."""
    logs = sorted(Path(table, "_delta_log").glob("*.json"))
    file = Path(table, "_delta_log", f"{len(logs):020}.json")
    file.write_text("".join(json.dumps(entry) + "\n" for entry in entries))


def protocol(*features, reader=3):
    facts = {
        "minReaderVersion": reader,
        "minWriterVersion": 7,
        "readerFeatures": list(features),
        "writerFeatures": list(features),
    }
    return {"protocol": facts}


def delete_rows(table, rows, in_file=False):
    """Delete rows (by their numbers) of the table's only file, by a deletion vector."""
    (add,) = [entry["add"] for entry in actions(table) if "add" in entry][-1:]
    removed = {key: add[key] for key in ("path", "size", "partitionValues")} | {
        "deletionTimestamp": 1,
        "dataChange": True,
        "extendedFileMetadata": True,
    }
    added = add | {"deletionVector": deletion_vector(rows, table if in_file else None)}
    commit(table, protocol("deletionVectors"), {"remove": removed}, {"add": added})


def mapped_table(folder, table):
    """A table whose files have other column names than its schema (column mapping by name)."""
    Path(folder, "_delta_log").mkdir(parents=True)
    names = {name: f"col-{k}" for k, name in enumerate(table.column_names)}
    pq.write_table(table.rename_columns(names), Path(folder, "part.parquet"))
    fields = [
        {
            "name": name,
            "type": {"int64": "long", "string": "string"}[str(table.schema.field(name).type)],
            "nullable": True,
            "metadata": {"delta.columnMapping.id": k + 1, "delta.columnMapping.physicalName": own},
        }
        for k, (name, own) in enumerate(names.items())
    ]
    text = json.dumps({"type": "struct", "fields": fields})
    about = {
        "id": str(uuid.uuid4()),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": text,
        "partitionColumns": [],
        "createdTime": 1,
    }
    maximum = {"delta.columnMapping.maxColumnId": str(len(fields))}
    about["configuration"] = {"delta.columnMapping.mode": "name"} | maximum
    size = Path(folder, "part.parquet").stat().st_size
    add = {"path": "part.parquet", "partitionValues": {}, "size": size, "dataChange": True}
    old = {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}
    commit(folder, old, {"metaData": about}, {"add": add | {"modificationTime": 1}})
