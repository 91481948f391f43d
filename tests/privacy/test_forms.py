"""Statements in other forms say what privacy.json says, and leave to people what only people know."""

import json

import numpy as np
import pyarrow as pa
import pytest

import fastdp
from fastdp.cli.app import main
from fastdp.privacy import forms
from fastdp.privacy.forms import FORMS, OWNER, as_form

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


def test_every_question_of_the_guidelines_has_an_answer_or_is_asked(statement):
    form = as_form(statement, "sp800-226")
    for level in ("guarantee", "algorithms", "utility and bias", "implementation", "surroundings"):
        for item in form[level].values():
            assert ("answer" in item) != ("question" in item)
    assert form["algorithms"]["mechanisms"]["releases"] == sum(len(p["releases"]) for p in statement["parts"])
    assert form["not protected"] == statement["not_protected"]


def test_a_page_for_people_names_every_release_and_every_gap(statement):
    page = as_form(statement, "text")
    assert page.startswith("Differentially private: epsilon 2 at delta 1e-06.")
    for part in statement["parts"]:
        for release in part["releases"]:
            assert f"{release['label']}: " in page
    for item in [*statement["not_protected"], *statement["notes"]]:
        assert item in page


@pytest.mark.parametrize("form", [*FORMS, "json"])
def test_the_command_line_prints_each_form(folder, form, capsys):
    with pytest.raises(SystemExit) as end:
        main(["statement", str(folder), "--as", form])
    assert end.value.code == 0
    shown = capsys.readouterr().out
    assert "one user" in shown if form == "text" else json.loads(shown)


def test_releases_are_counted_by_law_wherever_post_processing_stands():
    laws = [["gaussian", "none", "gaussian", "exponential"], ["none", "none", "gaussian"], []]
    parts = [{"releases": [{"law": law} for law in part]} for part in laws]
    assert forms._counts({"parts": parts}) == {"gaussian": 3, "exponential": 1}
    assert forms._counts({"parts": []}) == {}
