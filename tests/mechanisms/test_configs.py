"""Every mechanism's config: unknown fields are refused wherever they stand."""

import msgspec
import pytest

from fastdp import mechanisms
from fastdp.errors import UsageError
from fastdp.mechanisms import recipe


def structs_of(kind, structs=None) -> set[type]:
    """The config's class and every struct its fields can hold."""
    structs = set() if structs is None else structs
    for part in walk(kind):
        if isinstance(part, type) and issubclass(part, msgspec.Struct) and part not in structs:
            structs.add(part)
            for field in msgspec.structs.fields(part):
                structs_of(field.type, structs)
    return structs


def walk(kind):
    yield kind
    for part in getattr(kind, "__args__", ()):
        yield from walk(part)


@pytest.mark.parametrize("name", mechanisms.names())
def test_no_struct_of_a_config_takes_unknown_fields(name):
    kinds = structs_of(mechanisms.get(name))
    assert mechanisms.get(name) in kinds
    for kind in kinds:
        assert kind.__struct_config__.forbid_unknown_fields, f"{kind.__name__} lets a misspelt field pass"
        assert kind.__struct_config__.frozen


@pytest.mark.parametrize("name", mechanisms.names())
def test_a_recipe_with_a_misspelt_field_is_refused(name):
    with pytest.raises(UsageError, match="misspelt"):
        recipe.load({"mechanism": name, "misspelt": 1}).config(1.0)
