"""Recipes: where they come from, fields that depend on epsilon, errors that name the field."""

import pytest

from fastdp.errors import UsageError
from fastdp.mechanisms import adagrid, names, recipe

STEPS = [{"up_to": 1, "value": 150}, {"up_to": 5, "value": 180}, {"value": 200}]


def test_a_field_may_depend_on_epsilon():
    made = recipe.load({"mechanism": "adagrid", "outer": [["a", "b"]], "clip": STEPS})
    assert [made.config(e).clip for e in (0.1, 1, 1.01, 5, 6)] == [150, 150, 180, 180, 200]


def test_the_dependence_may_sit_deep_in_a_field():
    copies = [{"clique": ["a", "b"], "times": [{"up_to": 1, "value": 8}, {"value": 2}]}]
    made = recipe.load({"mechanism": "adagrid", "outer": [["a", "b"]], "copies": copies})
    assert made.config(1).copies[0].times == 8
    assert made.config(2).copies[0].times == 2


@pytest.mark.parametrize(
    "steps",
    [
        [{"up_to": 1, "value": 1}],
        [{"value": 1}, {"value": 2}],
        [{"up_to": 2, "value": 1}, {"up_to": 1, "value": 1}, {"value": 2}],
        [{"up_to": "x", "value": 1}, {"value": 2}],
    ],
)
def test_malformed_steps_are_refused(steps):
    with pytest.raises(UsageError, match="clip"):
        recipe.load({"mechanism": "adagrid", "clip": steps}).config(1.0)


def test_a_path_is_read_and_its_schema_found_beside_it(tmp_path):
    (tmp_path / "s.toml").write_text("")
    (tmp_path / "r.toml").write_text('mechanism = "mst"\nschema = "s.toml"\nrare = 2.0\n')
    made = recipe.load(tmp_path / "r.toml")
    assert made.schema == str(tmp_path / "s.toml")
    assert made.config(1.0).rare == 2.0


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("mechanism = ", "not TOML"),
        ("clip = 3", "mechanism ="),
        ('mechanism = "nope"', "choose one of"),
        ('mechanism = "mst"\nschema = 3', "schema"),
    ],
)
def test_bad_files_are_usage_errors(tmp_path, text, match):
    (tmp_path / "r.toml").write_text(text)
    with pytest.raises(UsageError, match=match):
        recipe.load(tmp_path / "r.toml")


def test_unknown_names_list_what_there_is():
    with pytest.raises(UsageError, match="taxi-adagrid"):
        recipe.load("taxi-adagrit")
    assert "adagrid" in names()


def test_a_config_object_is_a_recipe_too():
    config = adagrid.AdaGrid(outer=(("a", "b"),), clip=7)
    assert recipe.load(config).config(1.0) == config
    assert recipe.load(recipe.load(config)) == recipe.load(config)
