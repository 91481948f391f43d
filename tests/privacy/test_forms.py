"""Statements in other forms say what privacy.json says, and leave to people what only people know."""

import json

import numpy as np
import pyarrow as pa
import pytest

import fastdp
from fastdp.privacy.forms import OWNER, as_form

SCHEMA = {
    "name": "club",
    "provenance": "statutes of the club",
    "user": {"column": "member", "max_rows": 4},
    "columns": {
        "sport": {"kind": "categorical", "values": ["chess", "rugby"]},
        "size": {"kind": "categorical", "values": [0, 1, 2]},
    },
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    rng = np.random.default_rng(0)
    rows = pa.table(
        {
            "member": rng.integers(0, 500, 1500),
            "sport": np.where(rng.random(1500) < 0.7, "chess", "rugby"),
            "size": rng.integers(0, 3, 1500),
        }
    )
    out = tmp_path_factory.mktemp("forms") / "run"
    fastdp.synthesize(rows, "mst", schema=fastdp.Schema.from_dict(SCHEMA), epsilon=2, delta=1e-6, out=out)
    return out


@pytest.fixture
def statement(folder):
    return json.loads((folder / "privacy.json").read_text())


def leaves(value, path=()):
    inner = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    )
    if inner is None:
        yield path, value
    else:
        for key, below in inner:
            yield from leaves(below, (*path, key))


def test_the_registrys_numbers_are_the_statements(statement):
    entry = as_form(statement, "registry")["deployment"]
    assert entry["privacy_loss"]["privacy_parameters"] == {
        "epsilon": statement["epsilon"],
        "delta": statement["delta"],
    }
    assert entry["privacy_loss"]["privacy_unit"] == "User-level"
    assert statement["unit"]["adjacency"] in entry["privacy_loss"]["privacy_unit_details"]
    assert entry["dp_variant"]["variant_name"] == "Approximate DP"
    assert statement["schema"]["sha256"] in entry["dp_variant"]["data_domain"]
    assert {path[-1] for path, value in leaves(entry) if value == OWNER} >= {
        "name",
        "intended_use",
        "justification",
    }
