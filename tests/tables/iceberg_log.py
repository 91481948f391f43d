"""Writes deletions that pyiceberg cannot write: position and equality deletes.

By the table format's specification (iceberg.apache.org/spec): a manifest of deletes, a manifest list
with it, and metadata with a further snapshot. pyiceberg's own writers make the Avro files.
"""

import json
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

FILE_PATH_ID = 2147483546
POS_ID = 2147483545
"""Ids that the format reserves for the columns of a file of position deletes."""


def local(uri):
    return uri.removeprefix("file://")


def position_file(table, rows):
    """A file that deletes these rows, by their numbers, of the table's only data file; its size."""
    (task,) = table.scan().plan_files()
    fields = [
        pa.field("file_path", pa.string(), False, {"PARQUET:field_id": str(FILE_PATH_ID)}),
        pa.field("pos", pa.int64(), False, {"PARQUET:field_id": str(POS_ID)}),
    ]
    columns = [[task.file.file_path] * len(rows), list(rows)]
    path = f"{table.location()}/data/deletes-{uuid.uuid4()}.parquet"
    pq.write_table(pa.table(columns, schema=pa.schema(fields)), local(path))
    return path


def with_deletes(table, path, count, content, equality_ids=None):
    """The path of new metadata of the table: one more snapshot, which has this file of deletes."""
    from pyiceberg import manifest as m
    from pyiceberg.typedef import Record

    class DeleteManifest(m.ManifestWriterV2):
        def content(self):
            return m.ManifestContent.DELETES

        @property
        def _meta(self):
            return {**super()._meta, "content": "deletes"}

    snapshot = table.current_snapshot()
    number = snapshot.snapshot_id + 1
    sequence = snapshot.sequence_number + 1
    file = m.DataFile.from_args(
        _table_format_version=2,
        content=content,
        file_path=path,
        file_format="PARQUET",
        partition=Record(),
        record_count=count,
        file_size_in_bytes=Path(local(path)).stat().st_size,
        equality_ids=equality_ids,
    )
    file.spec_id = table.spec().spec_id
    place = f"{table.location()}/metadata"
    output = table.io.new_output(f"{place}/deletes-{number}.avro")
    given = (table.spec(), table.schema(), output, number, "deflate")
    with DeleteManifest(*given) as writer:
        status = m.ManifestEntryStatus.ADDED
        entry = m.ManifestEntry.from_args(
            status=status, snapshot_id=number, sequence_number=None, data_file=file
        )
        writer.add_entry(entry)
        deletes = writer.to_manifest_file()
    listed = f"{place}/snap-{number}.avro"
    parent = snapshot.snapshot_id
    target = table.io.new_output(listed)
    with m.write_manifest_list(2, target, number, parent, sequence, "deflate") as writer:
        writer.add_manifests([*snapshot.manifests(table.io), deletes])
    plain = json.loads(Path(local(table.metadata_location)).read_text())
    newest = {
        "snapshot-id": number,
        "parent-snapshot-id": parent,
        "sequence-number": sequence,
        "timestamp-ms": plain["last-updated-ms"] + 1,
        "manifest-list": listed,
        "summary": {"operation": "delete"},
        "schema-id": plain["current-schema-id"],
    }
    plain["snapshots"].append(newest)
    plain |= {"current-snapshot-id": number, "last-sequence-number": sequence}
    plain["refs"]["main"]["snapshot-id"] = number
    plain["last-updated-ms"] += 1
    new = Path(local(place), f"00099-{uuid.uuid4()}.metadata.json")
    new.write_text(json.dumps(plain))
    return str(new)
