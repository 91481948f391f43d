"""An OpenLineage event: a run completed, what it wrote, and what it guarantees."""

from __future__ import annotations

import datetime
import uuid
from typing import Any

from ..errors import UsageError
from .datapackage import privacy_facts
from .described import Described, WrittenTable

PRODUCER = "https://github.com/fastdp/fastdp"
SPEC = "https://openlineage.io/spec/2-0-2/OpenLineage.json"
SCHEMA_FACET = "https://openlineage.io/spec/facets/1-1-1/SchemaDatasetFacet.json"
PRIVACY_FACET = f"{PRODUCER}/blob/main/docs/guide/catalogs.md"
"""Where the facet of fastdp's own is described."""


def openlineage(
    run: Described, base: str = "", *, time: str | None = None, namespace: str = "fastdp"
) -> dict[str, Any]:
    """A `COMPLETE` event. Inputs are left out: their names are the owner's, and may be private.

    `base`: the address of the run folder, if it has one. `time`: when the run ended, in ISO 8601;
    None: now. `namespace`: of the job and of its outputs.
    """
    return {
        "eventType": "COMPLETE",
        "eventTime": _ended_at(time),
        "producer": PRODUCER,
        "schemaURL": f"{SPEC}#/definitions/RunEvent",
        "run": {"runId": _run_id(run), "facets": {"fastdp_privacy": _privacy(run)}},
        "job": {"namespace": namespace, "name": f"synthesize.{run.name}", "facets": {}},
        "inputs": [],
        "outputs": [_output(run, table, base, namespace) for table in run.tables],
    }


def _ended_at(time: str | None) -> str:
    """The time in the form of the event, with a zone; None: now."""
    if time is None:
        return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
    try:
        moment = datetime.datetime.fromisoformat(time)
    except ValueError:
        raise UsageError(
            f"time: expected a time such as 2026-03-31T04:00:00Z, got {time!r}"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return moment.isoformat(timespec="milliseconds")


def _run_id(run: Described) -> str:
    """The number of the run in its ledger, in the form of a UUID."""
    return str(uuid.UUID(run.statement["ledger"]["run"]))


def _privacy(run: Described) -> dict[str, Any]:
    """The facet with the guarantee."""
    return {"_producer": PRODUCER, "_schemaURL": PRIVACY_FACET, **privacy_facts(run)}


def _output(run: Described, table: WrittenTable, base: str, namespace: str) -> dict[str, Any]:
    """A table that the run wrote, with its columns and the guarantee."""
    fields = []
    for column in table.columns:
        field = {"name": column.name, "type": str(column.kind)}
        fields.append(field | ({"description": column.note} if column.note else {}))
    schema = {"_producer": PRODUCER, "_schemaURL": SCHEMA_FACET, "fields": fields}
    place = base.rstrip("/") or run.name
    return {
        "namespace": namespace,
        "name": f"{place}/{table.name}" if len(run.tables) > 1 else place,
        "facets": {"schema": schema, "fastdp_privacy": _privacy(run)},
    }
