"""Metadata for catalogues: accepted by their validators, and a function of released facts alone."""

import hashlib
import json
import shutil
import uuid

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastdp
from fastdp.catalogs.described import identifiers
from fastdp.errors import RunError, UsageError

SCHEMA = {
    "name": "Visits & calls",
    "columns": {
        "age": {"kind": "numeric", "dtype": "int32", "edges": [0, 20, 40, 100]},
        "city": {"kind": "string", "values": ["Bern", "Basel", "Zug"], "other": "elsewhere"},
        "code": {
            "kind": "categorical",
            "dtype": "int8",
            "values": [1, 2],
            "names": ["in", "out"],
            "note": "Direction.",
        },
        "a rate": {"kind": "numeric", "dtype": "float64", "edges": [0, 1, 2], "null": "drop"},
    },
}


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    """A small run folder; tests that change it work on a copy."""
    place = tmp_path_factory.mktemp("export")
    rng = np.random.default_rng(0)
    rows = pa.table(
        {
            "age": rng.integers(0, 100, 900),
            "city": rng.choice(["Bern", "Basel", "Chur"], 900),
            "code": rng.integers(1, 3, 900),
            "a rate": rng.uniform(0, 2, 900),
        }
    )
    fastdp.synthesize(
        rows, epsilon=1.0, delta=1e-6, schema=fastdp.Schema.from_dict(SCHEMA), out=place / "run"
    )
    return place / "run"


def test_identifiers_are_plain_and_differ():
    assert identifiers(["a b", "a-b", "a/b", "é"]) == ["a-b", "a-b-2", "a-b-3", "unnamed"]


def document(path):
    return json.loads(path.read_text("utf-8"))


def in_shards(folder, place):
    """The same rows as three shards, as a large run writes them."""
    shutil.copytree(folder, place)
    rows = pq.read_table(place / "synthetic.parquet")
    (place / "synthetic.parquet").unlink()
    (place / "synthetic").mkdir()
    statement = document(place / "privacy.json")
    del statement["files"]["synthetic.parquet"]
    for i in range(3):
        name = f"synthetic/part-{i:05d}.parquet"
        pq.write_table(rows.slice(i * 300, 300), place / name)
        statement["files"][name] = hashlib.sha256((place / name).read_bytes()).hexdigest()
    (place / "privacy.json").write_text(json.dumps(statement))
    return place


def test_metadata_lies_next_to_the_folder_and_names_its_files_and_hashes(run_folder):
    written = fastdp.export(run_folder, "datapackage")
    assert written == run_folder.with_name("run.datapackage.json")
    (resource,) = document(written)["resources"]
    rows = written.parent / resource["path"]
    assert rows == run_folder / "synthetic.parquet"
    assert resource["hash"] == "sha256:" + hashlib.sha256(rows.read_bytes()).hexdigest()
    named = [field["name"] for field in resource["schema"]["fields"]]
    assert named == pq.read_schema(rows).names


def test_nothing_but_released_facts_and_types_is_read(run_folder, tmp_path):
    """Other rows of the same types give the same bytes, so metadata cannot tell two tables apart
    whose releases are equal."""
    other = tmp_path / "run"
    shutil.copytree(run_folder, other)
    rows = pq.read_table(other / "synthetic.parquet")
    pq.write_table(rows.slice(0, 7), other / "synthetic.parquet")
    for form in ("croissant", "datapackage", "openlineage"):
        texts = {
            fastdp.export(folder, form, time="2026-03-31T04:00:00Z").read_bytes()
            for folder in (run_folder, other)
        }
        assert len(texts) == 1, form


def test_the_guarantee_is_in_every_form(run_folder):
    statement = document(run_folder / "privacy.json")
    package = document(fastdp.export(run_folder, "datapackage"))
    assert package["privacy"]["epsilon"] == statement["epsilon"]
    croissant = document(fastdp.export(run_folder, "croissant"))
    assert "epsilon 1 at delta 1e-06" in croissant["rai:personalSensitiveInformation"]
    event = document(fastdp.export(run_folder, "openlineage"))
    facet = event["outputs"][0]["facets"]["fastdp_privacy"]
    assert (facet["epsilon"], facet["delta"]) == (statement["epsilon"], statement["delta"])


def test_a_run_with_a_known_seed_is_called_not_private(tmp_path):
    rows = pa.table({"a": np.zeros(50, np.int64)})
    schema = fastdp.Schema.from_domain({"a": 2})
    fastdp.synthesize(rows, epsilon=1.0, schema=schema, seed=1, out=tmp_path / "run")
    package = document(fastdp.export(tmp_path / "run", "datapackage"))
    assert package["description"].startswith("Synthetic rows. NOT PRIVATE")
    assert package["privacy"]["private"] is False


def test_an_event_has_what_the_specification_requires(run_folder):
    """OpenLineage requires run, job, eventTime and producer; every facet has a producer and the
    address of its description."""
    event = document(fastdp.export(run_folder, "openlineage", time="2026-03-31T04:00:00+02:00"))
    assert event["eventType"] == "COMPLETE"
    assert event["eventTime"] == "2026-03-31T04:00:00.000+02:00"
    assert uuid.UUID(event["run"]["runId"])
    assert event["job"]["namespace"] == "fastdp"
    facets = [*event["run"]["facets"].values(), *event["outputs"][0]["facets"].values()]
    assert all("://" in facet["_producer"] and "://" in facet["_schemaURL"] for facet in facets)
    fields = event["outputs"][0]["facets"]["schema"]["fields"]
    assert [field["name"] for field in fields] == list(SCHEMA["columns"])


@pytest.mark.parametrize("shards", [False, True])
def test_mlcroissant_accepts_the_document_and_reads_the_rows(run_folder, tmp_path, shards):
    mlcroissant = pytest.importorskip("mlcroissant", reason="needs fastdp[catalogs]")
    folder = in_shards(run_folder, tmp_path / "run") if shards else run_folder
    path = fastdp.export(folder, "croissant")
    dataset = mlcroissant.Dataset(jsonld=str(path))
    assert not dataset.metadata.ctx.issues.errors
    rows = list(dataset.records("Visits-calls"))
    parts = [*folder.glob("synthetic*.parquet"), *folder.glob("synthetic/*.parquet")]
    assert len(rows) == sum(pq.read_metadata(part).num_rows for part in parts)


def test_frictionless_accepts_package_and_rows(run_folder):
    frictionless = pytest.importorskip("frictionless", reason="needs fastdp[catalogs]")
    report = frictionless.Package(str(fastdp.export(run_folder, "datapackage"))).validate()
    assert report.valid, report.flatten(["note"])[:3]


def test_linked_tables_have_keys_and_references(tmp_path):
    tables = fastdp.simulate.households(150, seed=1)
    fastdp.synthesize(tables, "households", epsilon=3.0, delta=1e-6, out=tmp_path / "run")
    package = document(fastdp.export(tmp_path / "run", "datapackage"))
    parent, child = (resource["schema"] for resource in package["resources"])
    assert parent["primaryKey"] == ["household_id"]
    assert child["foreignKeys"][0]["reference"] == {
        "resource": "households",
        "fields": ["household_id"],
    }


def test_frictionless_accepts_linked_tables(tmp_path):
    frictionless = pytest.importorskip("frictionless", reason="needs fastdp[catalogs]")
    tables = fastdp.simulate.households(150, seed=1)
    fastdp.synthesize(tables, "households", epsilon=3.0, delta=1e-6, out=tmp_path / "run")
    report = frictionless.Package(str(fastdp.export(tmp_path / "run", "datapackage"))).validate()
    assert report.valid, report.flatten(["note"])[:3]


def test_the_publishers_words_are_used_and_checked(run_folder, tmp_path):
    about = tmp_path / "about.toml"
    about.write_text('title = "Calls"\nlicense = "CC-BY-4.0"\ndate = 2026-03-31\n')
    made = document(fastdp.export(run_folder, "croissant", about=about))
    assert (made["name"], made["license"], made["datePublished"]) == (
        "Calls",
        "CC-BY-4.0",
        "2026-03-31",
    )
    about.write_text('titel = "Calls"\n')
    with pytest.raises(UsageError, match=r"unknown field 'titel'; did you mean 'title'"):
        fastdp.export(run_folder, "croissant", about=about)
    about.write_text('date = "soon"\n')
    with pytest.raises(UsageError, match="expected a date"):
        fastdp.export(run_folder, "croissant", about=about)


def test_metadata_never_enters_the_run_folder_or_loses_its_rows(run_folder, tmp_path):
    with pytest.raises(UsageError, match="holds only what its statement names"):
        fastdp.export(run_folder, "croissant", run_folder / "croissant.json")
    with pytest.raises(UsageError, match="not below it"):
        fastdp.export(run_folder, "croissant", tmp_path / "croissant.json")
    published = fastdp.export(
        run_folder, "croissant", tmp_path / "c.json", base="https://example.org/data"
    )
    urls = [file["contentUrl"] for file in document(published)["distribution"]]
    assert urls == ["https://example.org/data/synthetic.parquet"]


def test_what_is_not_a_run_is_refused(tmp_path):
    with pytest.raises(RunError, match="not a finished run folder"):
        fastdp.export(tmp_path, "croissant")
    with pytest.raises(UsageError, match="must be one of croissant"):
        fastdp.export(tmp_path, "dcat")
