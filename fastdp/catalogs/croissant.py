"""Croissant (MLCommons), version 1.0: JSON-LD that search engines and ML frameworks read."""

from __future__ import annotations

from typing import Any

from .._util.lazy import pa
from .about import About
from .described import Described, WrittenColumn, WrittenTable, identifiers

_TERMS = (
    "citeAs column conformsTo dataType equivalentProperty examples extract field fileObject "
    "fileProperty fileSet format includes isLiveDataset jsonPath key md5 parentField path "
    "recordSet references regex repeated replace samplingRate separator source subField transform"
)
"""Words of the vocabulary that stand without a prefix in the document."""

_JSON_TERMS = ("data", "examples")


class _Names:
    """Identifiers of tables, columns and lists: readers refuse white space in them."""

    def __init__(self, run: Described):
        tables = identifiers([table.name for table in run.tables])
        self._tables = dict(zip((table.name for table in run.tables), tables, strict=True))
        self._columns = {}
        for table in run.tables:
            names = [column.name for column in table.columns]
            for name, made in zip(names, identifiers(names), strict=True):
                self._columns[table.name, name] = f"{self.table(table)}/{made}"

    def table(self, table: WrittenTable) -> str:
        return self._tables[table.name]

    def column(self, table: WrittenTable, column: WrittenColumn) -> str:
        return self._columns[table.name, column.name]

    def values(self, table: WrittenTable, column: WrittenColumn) -> str:
        return f"{self.column(table, column)}/values"

    def rows(self, table: WrittenTable) -> str:
        """Of the file of a table, or of the set of its files."""
        return table.files[0][0] if len(table.files) == 1 else f"{self.table(table)}/rows"


def croissant(run: Described, about: About, base: str = "") -> dict[str, Any]:
    """The document: files with their hashes, a record set for each table and for each list of
    values, and the guarantee in the vocabulary of responsible AI. `base`: what precedes the names
    of files, empty or ending in "/"."""
    record_sets: list[dict[str, Any]] = []
    files: list[dict[str, Any]] = []
    names = _Names(run)
    for table in run.tables:
        files += _files(names, table, base)
        record_sets += _lists(names, table)
        record_sets.append(_records(names, table))
    document: dict[str, Any] = {
        "@context": _context(),
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": about.title or run.name,
        "description": about.description or f"Synthetic rows. {run.promise}",
        "rai:personalSensitiveInformation": run.promise,
        "rai:dataManipulationProtocol": _how(run),
        "rai:dataLimitations": "Not protected: " + "; ".join(run.statement["not_protected"]),
    }
    publisher = {
        "license": about.license,
        "url": about.url,
        "datePublished": about.date,
        "version": about.version,
        "keywords": list(about.keywords) or None,
        "creator": about.creator and {"@type": "sc:Organization", "name": about.creator},
    }
    document |= {key: value for key, value in publisher.items() if value}
    return document | {"distribution": files, "recordSet": record_sets}


def _context() -> dict[str, Any]:
    """The names of the vocabulary, as the standard fixes them."""
    context: dict[str, Any] = {"@language": "en", "@vocab": "https://schema.org/"} | {
        term: f"cr:{term}" for term in _TERMS.split()
    }
    context |= {term: {"@id": f"cr:{term}", "@type": "@json"} for term in _JSON_TERMS}
    context["conformsTo"] = "dct:conformsTo"
    context["dataType"] = {"@id": "cr:dataType", "@type": "@vocab"}
    context["cr"] = "http://mlcommons.org/croissant/"
    context["dct"] = "http://purl.org/dc/terms/"
    context["rai"] = "http://mlcommons.org/croissant/RAI/"
    context["sc"] = "https://schema.org/"
    return dict(sorted(context.items()))


def _how(run: Described) -> str:
    mechanism = run.statement["mechanism"]
    return (
        f"Rows were drawn from a model of noisy answers (fastdp, mechanism {mechanism['name']}). "
        "privacy.json lists every answer with its noise; `fastdp verify` recomputes it."
    )


def _files(names: _Names, table: WrittenTable, base: str) -> list[dict[str, Any]]:
    """The files of a table; several of them form a file set."""
    described = [
        {
            "@type": "cr:FileObject",
            "@id": path,
            "name": path,
            "contentUrl": base + path,
            "encodingFormat": "application/x-parquet",
            "sha256": digest,
        }
        for path, digest in table.files
    ]
    if len(described) == 1:
        return described
    together = {
        "@type": "cr:FileSet",
        "@id": names.rows(table),
        "name": f"rows of {table.name}",
        "encodingFormat": "application/x-parquet",
        "includes": f"{base}{table.files[0][0].rpartition('/')[0]}/*.parquet",
    }
    return [*described, together]


def _records(names: _Names, table: WrittenTable) -> dict[str, Any]:
    keys = [
        {"@id": names.column(table, column)} for column in table.columns if column.key == table.name
    ]
    record_set = {
        "@type": "cr:RecordSet",
        "@id": names.table(table),
        "name": table.name,
        "field": [_field(names, table, column) for column in table.columns],
    }
    return record_set | ({"key": keys} if keys else {})


def _field(names: _Names, table: WrittenTable, column: WrittenColumn) -> dict[str, Any]:
    origin = "fileObject" if len(table.files) == 1 else "fileSet"
    field: dict[str, Any] = {
        "@type": "cr:Field",
        "@id": names.column(table, column),
        "name": column.name,
        "dataType": _type(column.kind),
        "source": {origin: {"@id": names.rows(table)}, "extract": {"column": column.name}},
    }
    if column.note:
        field["description"] = column.note
    if column.values is not None:
        field["references"] = {"field": {"@id": f"{names.values(table, column)}/value"}}
    elif column.key and column.key != table.name:
        # A `references` between two files makes mlcroissant join them, and its join fails.
        field["description"] = f"Key of a row of {column.key}."
    return field


def _lists(names: _Names, table: WrittenTable) -> list[dict[str, Any]]:
    """A record set with the listed values of each column that has a list, and their labels."""
    out = []
    for column in table.columns:
        if column.values is None or column.labels is None:
            continue
        name = names.values(table, column)
        types = {"value": _type(column.kind), "label": "sc:Text"}
        fields = [
            {"@type": "cr:Field", "@id": f"{name}/{part}", "name": part, "dataType": kind}
            for part, kind in types.items()
        ]
        rows = [
            {f"{name}/value": value, f"{name}/label": label}
            for value, label in zip(column.values, column.labels, strict=True)
        ]
        out.append(
            {
                "@type": "cr:RecordSet",
                "@id": name,
                "name": f"values of {column.name}",
                "dataType": "sc:Enumeration",
                "key": {"@id": f"{name}/value"},
                "field": fields,
                "data": rows,
            }
        )
    return out


def _type(kind: pa.DataType) -> str:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_boolean(kind):
        return "sc:Boolean"
    if pa.types.is_integer(kind):
        return "sc:Integer"
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "sc:Float"
    if pa.types.is_date(kind):
        return "sc:Date"
    if pa.types.is_timestamp(kind):
        return "sc:DateTime"
    return "sc:Text"
