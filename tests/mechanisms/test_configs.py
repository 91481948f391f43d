"""Every mechanism's config: unknown fields are refused wherever they stand; by what clips are compared."""

from collections import Counter
from itertools import combinations

import msgspec
import pytest

from fastdp import mechanisms
from fastdp.domain import Domain
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


DOMAIN = Domain({"a": 2, "b": 3, "c": 5, "d": 7, "e": 11})


@pytest.mark.parametrize("user", [True, False])
@pytest.mark.parametrize("name", ["mst", "cliquetree", "aim", "adagrid", "tworound"])
def test_clips_are_compared_by_what_is_planned_and_by_pairs_of_all_sizes(name, user):
    """Mechanisms that choose their pairs in the run: every 1-way is there with its share, and the pairs to be
    chosen are stood for by pairs of all sizes, each with the share that the plan has for one of them."""
    config = mechanisms.get(name)()
    criteria = list(config.clip_criteria(DOMAIN, user=user))
    named = [p for p in criteria if set(p.clique) <= set(DOMAIN)]
    assert [(p.clique, p.cells) for p in named] == [((a,), n) for a, n in DOMAIN.items()]
    pairs = [p for p in criteria if p not in named]
    sizes = Counter(p.cells for p in pairs)
    assert set(sizes) == {m * n for m, n in combinations(DOMAIN.values(), 2)}
    assert max(sizes.values()) - min(sizes.values()) <= 1, "sizes are spread evenly"
    (share,) = {p.share for p in pairs}
    assert share > 0
    assert sum(p.share for p in named) + share * (len(DOMAIN) - 1) <= 1 + 1e-12, "a tree of pairs is paid for"
    planned = () if name == "adagrid" else config.outline(DOMAIN, user=user).measurements
    for line in planned:  # AdaGrid's plan names no set before its tree is chosen
        assert line in named if set(line.clique) <= set(DOMAIN) else line.share == share
