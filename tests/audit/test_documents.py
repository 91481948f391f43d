"""Damaged documents end in the error of their kind and in nothing else: schema, recipe, ledger."""

import json
import tomllib
from importlib import resources

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import fastdp
from fastdp.errors import FastdpError, SchemaError
from fastdp.mechanisms import recipe as recipes
from tests.tiers import slow_cases

RELAXED = {"deadline": None, "suppress_health_check": list(HealthCheck)}
SCHEMAS = sorted((resources.files(fastdp) / "schema" / "builtin").iterdir(), key=lambda p: p.name)
SCHEMAS = [p for p in SCHEMAS if p.name.endswith((".toml", ".json"))]
LARGE = "census1940.toml"
"""It has 80 kB; the others have 5 to 10 and the same kinds of fields."""
RECIPES = sorted((resources.files(fastdp) / "recipes").iterdir(), key=lambda p: p.name)
RECIPES = [p for p in RECIPES if p.name.endswith(".toml")]

odd = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(
        [-1, -0.0, 5e-324, 1e308, -1e308, 1e-300, 2**62, "", "\udc80", "gaussian", "../../x"]
    ),
    st.lists(st.integers(-3, 3), max_size=3),
    st.dictionaries(st.text(max_size=4), st.integers(), max_size=2),
)


def damaged(data, plain):
    """The document with one to three places replaced, removed or doubled."""
    plain = json.loads(json.dumps(plain, default=str))
    for _ in range(data.draw(st.integers(1, 3))):
        places = list(walk(plain))
        if not places:
            return plain
        holder, key = places[data.draw(st.integers(0, len(places) - 1))]
        match data.draw(st.sampled_from(["replace", "remove", "add"])):
            case "replace":
                holder[key] = data.draw(odd)
            case "remove":
                del holder[key]
            case "add" if isinstance(holder, dict):
                holder[data.draw(st.text(max_size=6))] = data.draw(odd)
            case "add":
                holder.append(data.draw(odd))
    return plain


def walk(value):
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from walk(value[key])


def test_there_is_something_to_damage():
    assert len(SCHEMAS) >= 3 and len(RECIPES) >= 3


@pytest.mark.parametrize(
    "source",
    [
        *(p for p in SCHEMAS if p.name != LARGE),
        *slow_cases(*(p for p in SCHEMAS if p.name == LARGE)),
    ],
    ids=lambda p: p.name,
)
@given(data=st.data())
@settings(max_examples=4, **RELAXED)
def test_a_damaged_schema_is_a_schema_or_a_schema_error(source, data):
    text = source.read_text("utf-8")
    plain = tomllib.loads(text) if source.name.endswith(".toml") else json.loads(text)
    try:
        schema = fastdp.Schema.from_dict(damaged(data, plain))
    except SchemaError:
        return
    assert fastdp.Schema.from_dict(schema.to_dict()).digest() == schema.digest()


@pytest.mark.parametrize("source", RECIPES, ids=lambda p: p.name)
@given(data=st.data())
@settings(max_examples=12, **RELAXED)
def test_a_damaged_recipe_is_a_recipe_or_an_error_in_words(source, data):
    plain = damaged(data, tomllib.loads(source.read_text("utf-8")))
    if not isinstance(plain, dict):
        return
    try:
        recipes.load(plain).config(1.0)
    except FastdpError as error:
        assert str(error)


@given(data=st.data())
@settings(max_examples=30, **RELAXED)
def test_a_damaged_ledger_is_refused_in_words_or_is_the_ledger(tmp_path_factory, data):
    place = tmp_path_factory.mktemp("ledger") / "budget.db"
    fastdp.Ledger(place).open("d", epsilon=2.0, delta=1e-6)
    held = bytearray(place.read_bytes())
    for _ in range(data.draw(st.integers(1, 8))):
        held[data.draw(st.integers(0, len(held) - 1))] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        held = held[: data.draw(st.integers(0, len(held)))]
    place.write_bytes(bytes(held))
    for beside in place.parent.glob("budget.db-*"):
        beside.unlink()
    try:
        ledger = fastdp.Ledger(place)
        ledger.verify()
        spent = ledger.spent("d")
    except FastdpError as error:
        assert str(error)
        return
    assert spent["epsilon"] == 0
