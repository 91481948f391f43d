"""Code books become schemas: their public lists and bounds, and nothing that came from rows."""

import json

import pytest

from fastdp import Schema
from fastdp.errors import SchemaError, UsageError
from fastdp.schema.codebooks import from_codebook

FRICTIONLESS = {
    "name": "survey",
    "resources": [
        {
            "name": "people",
            "schema": {
                "fields": [
                    {"name": "id", "type": "string"},
                    {
                        "name": "sex",
                        "type": "integer",
                        "categories": [
                            {"value": 1, "label": "male"},
                            {"value": 2, "label": "female"},
                        ],
                        "constraints": {"required": True},
                    },
                    {
                        "name": "age",
                        "type": "integer",
                        "constraints": {"minimum": 0, "maximum": 120},
                    },
                    {"name": "income", "type": "number", "constraints": {"minimum": "0"}},
                    {"name": "canton", "type": "string", "constraints": {"enum": ["ZH", "BE"]}},
                    {"name": "born", "type": "date"},
                    {"name": "works", "type": "boolean"},
                    {"name": "place", "type": "geojson"},
                ]
            },
        },
        {"name": "visits", "schema": {"fields": [{"name": "n", "type": "integer"}]}},
    ],
}

DDI = """<?xml version="1.0"?>
<codeBook xmlns="ddi:codebook:2_5"><dataDscr>
 <var name="SEX" intrvl="discrete"><labl>Sex of person</labl>
  <catgry><catValu>1</catValu><labl>Male</labl></catgry>
  <catgry><catValu>2</catValu><labl>Female</labl></catgry>
  <catgry missing="Y"><catValu>-9</catValu><labl>Not stated</labl></catgry>
  <varFormat type="numeric"/></var>
 <var name="INC" intrvl="contin" dcml="2">
  <valrng><range min="0" max="99999.5"/></valrng>
  <sumStat type="max">87654.32</sumStat><varFormat type="numeric"/></var>
 <var name="REGION"><catgry><catValu>N1</catValu></catgry>
  <catgry><catValu>S</catValu><labl>South</labl></catgry><varFormat type="character"/></var>
 <var name="JOB"><varFormat type="character"/></var>
</dataDscr></codeBook>"""


def written(place, name, content):
    path = place / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_a_data_package_gives_lists_labels_and_bounds(tmp_path):
    path = written(tmp_path, "datapackage.json", FRICTIONLESS)
    made = from_codebook("frictionless", path, table="people", user="id")
    schema = Schema.from_dict(made)
    assert schema.user == "id" and list(made["columns"]) == [
        "sex",
        "age",
        "income",
        "canton",
        "born",
        "works",
    ]
    assert made["columns"]["sex"]["names"] == ["male", "female"]
    assert made["columns"]["sex"]["null"] == "drop"
    assert made["columns"]["age"] == {"kind": "integer", "dtype": "int64", "min": 0, "max": 120}
    assert made["columns"]["canton"]["values"] == ["ZH", "BE"]
    assert set(schema.pending) == {"income", "born"}  # the run finds what the book leaves open


def test_a_package_of_several_tables_needs_a_name(tmp_path):
    path = written(tmp_path, "datapackage.json", FRICTIONLESS)
    with pytest.raises(SchemaError, match=r"people, visits; give table="):
        from_codebook("frictionless", path)
    with pytest.raises(SchemaError, match="no table 'calls'"):
        from_codebook("frictionless", path, table="calls")


def test_csvw_lists_come_from_alternatives_and_from_code_lists(tmp_path):
    (tmp_path / "cantons.csv").write_text("code,label\nZH,Zurich\nBE,Bern\n")
    people = {
        "url": "people.csv",
        "tableSchema": {
            "columns": [
                {"titles": "sex", "datatype": {"base": "string", "format": "M|F"}},
                {"name": "works", "datatype": {"base": "boolean", "format": "Y|N"}},
                {"name": "age", "datatype": {"base": "integer", "minimum": "0", "maximum": "99"}},
                {"name": "canton", "datatype": "string", "required": True},
                {"name": "zip", "datatype": {"base": "string", "format": "[0-9]{4}"}},
                {"name": "row", "virtual": True},
            ],
            "foreignKeys": [
                {
                    "columnReference": "canton",
                    "reference": {"resource": "cantons.csv", "columnReference": "code"},
                }
            ],
        },
    }
    lists = {"url": "cantons.csv", "tableSchema": {"columns": [{"name": "code"}]}}
    path = written(tmp_path, "meta.json", {"tables": [people, lists]})
    columns = from_codebook("csvw", path)["columns"]
    assert columns["sex"]["values"] == ["M", "F"] and columns["works"]["values"] == ["Y", "N"]
    assert columns["canton"]["values"] == ["ZH", "BE"] and columns["canton"]["null"] == "drop"
    assert columns["age"]["max"] == 99
    assert columns["zip"] == {"kind": "string", "domain": "private"}  # a pattern is no list
    Schema.from_dict(from_codebook("csvw", path))


def test_ddi_gives_codes_with_labels_and_valid_ranges_only(tmp_path):
    """Statistics in a code book (`sumStat`) may come from private rows, and are not used."""
    made = from_codebook("ddi", written(tmp_path, "survey.xml", DDI))
    columns = made["columns"]
    assert columns["SEX"]["values"] == [1, 2, -9]
    assert columns["SEX"]["names"] == ["Male", "Female", "Not stated"]
    assert (columns["INC"]["min"], columns["INC"]["max"]) == (0, 99999.5)
    assert columns["REGION"]["values"] == ["N1", "S"]
    assert columns["JOB"] == {"kind": "string", "domain": "private"}
    assert "87654" not in json.dumps(made)
    Schema.from_dict(made)


def test_entities_in_xml_are_refused_before_they_grow(tmp_path):
    bomb = '<!DOCTYPE c [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><codeBook>&b;</codeBook>'
    with pytest.raises(SchemaError, match="document type"):
        from_codebook("ddi", written(tmp_path, "bomb.xml", bomb))


@pytest.mark.parametrize(
    ("form", "name", "content", "said"),
    [
        ("ddi", "a.xml", "<codeBook><var></codeBook>", "not valid XML"),
        ("ddi", "a.xml", "<html></html>", "expected <codeBook>"),
        ("ddi", "a.xml", "<codeBook></codeBook>", "describes no table"),
        ("frictionless", "a.json", {"fields": []}, "'fields' is missing"),
        ("frictionless", "a.json", {"fields": [{"type": "integer"}]}, "with a name"),
        (
            "frictionless",
            "a.json",
            {"resources": [{"schema": "../secret.json"}]},
            "expected a schema next to it",
        ),
        (
            "frictionless",
            "a.json",
            {"fields": [{"name": "n", "type": "integer", "constraints": {"minimum": "few"}}]},
            "'minimum': expected a number",
        ),
        ("frictionless", "a.json", {"fields": [{"name": "n"}, {"name": "n"}]}, "twice"),
        ("csvw", "a.json", {"tableSchema": {}}, "columns' is missing"),
        ("csvw", "a.json", [1], "expected a JSON object"),
    ],
)
def test_a_damaged_code_book_is_a_clear_error(tmp_path, form, name, content, said):
    with pytest.raises(SchemaError, match=said):
        from_codebook(form, written(tmp_path, name, content))


def test_unknown_forms_and_users_are_named(tmp_path):
    path = written(tmp_path, "survey.xml", DDI)
    with pytest.raises(UsageError, match="choose one of frictionless, csvw, ddi"):
        from_codebook("sas", path)
    with pytest.raises(SchemaError, match="no column 'person'"):
        from_codebook("ddi", path, user="person")
