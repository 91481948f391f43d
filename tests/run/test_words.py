"""Arguments in the wrong place become sentences, notebooks show a run."""

import numpy as np
import pyarrow as pa
import pytest

import fastdp
from fastdp.errors import FastdpError
from fastdp.run.plan_result import duration, size


@pytest.fixture(scope="module")
def schema():
    return fastdp.Schema.from_domain({"a": 4, "b": 4, "c": 3})


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    a = rng.integers(0, 4, 4000)
    return pa.table({"a": a, "b": a, "c": rng.integers(0, 3, 4000)})


@pytest.fixture(scope="module")
def run(rows, schema):
    return fastdp.synthesize(rows, "mst", 4.0, 1e-6, schema=schema, seed=1)


SWAPPED = {
    "fit the wrong way round": lambda run, rows, schema: fastdp.fit(
        list(run.measurements), schema.domain
    ),
    "fit of a mapping": lambda run, rows, schema: fastdp.fit(schema.domain, {}),
    "verify of a run in memory": lambda run, rows, schema: fastdp.verify(run),
    "load_run of a schema": lambda run, rows, schema: fastdp.load_run(schema),
    "marginals of a frame": lambda run, rows, schema: fastdp.marginals(rows, [("a",)]),
    "schema first": lambda run, rows, schema: fastdp.synthesize(schema, rows, 1.0),
    "schema second": lambda run, rows, schema: fastdp.synthesize(rows, schema, 1.0),
    "schema for epsilon": lambda run, rows, schema: fastdp.synthesize(rows, "mst", schema),
    "plan of rows": lambda run, rows, schema: fastdp.plan(rows, epsilon=1.0),
    "read backwards": lambda run, rows, schema: fastdp.read(schema, rows),
    "draft of a schema": lambda run, rows, schema: fastdp.draft(schema),
    "evaluate of a schema": lambda run, rows, schema: fastdp.evaluate(rows, schema),
}


@pytest.mark.parametrize("name", SWAPPED)
def test_swapped_arguments_are_told_in_a_sentence(run, rows, schema, name):
    with pytest.raises(FastdpError) as told:
        SWAPPED[name](run, rows, schema)
    assert len(str(told.value)) > 20


def test_a_schema_has_a_domain_and_a_run_measurements(run, schema):
    assert fastdp.fit(schema, run).total > 0
    assert fastdp.load_run(run) is run


def test_a_run_shows_its_first_cards(run):
    html = run._repr_html_()
    assert html.startswith("<iframe") and "What was promised?" in html
    assert "protects nobody" in html  # its noise was seeded


def test_sizes_and_times_are_told_in_their_units():
    seconds = {0: "0 s", 89: "89 s", 90: "2 min", 5399: "90 min", 5400: "1.5 h", 36_000: "10.0 h"}
    assert {n: duration(n) for n in seconds} == seconds
    for power, unit in enumerate(("B", "kB", "MB")):
        assert [size(n * 1000**power) for n in (1, 998, 999)] == [
            f"{n} {unit}" for n in (1, 998, 999)
        ]
    assert [size(10**9), size(2.5e12)] == ["1.0 GB", "2500.0 GB"]
