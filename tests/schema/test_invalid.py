"""Errors about documents in plain words: where, what, and what was expected."""

from typing import Literal

import msgspec
import pytest

from fastdp._util.invalid import explain_invalid


class Inner(msgspec.Struct, forbid_unknown_fields=True):
    column: str
    source: Literal["auto", "none"] = "auto"
    rows: int | None = None


class Outer(msgspec.Struct, forbid_unknown_fields=True):
    columns: dict[str, float]
    user: str | Inner | None = None


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({}, "the field 'columns' is missing"),
        ({"columns": []}, "columns: expected a table, got a list"),
        ({"columns": {"a": "b"}}, "columns[...]: expected a number, got a text"),
        ({"columns": {}, "use": 1}, "unknown field 'use'; did you mean 'user'?"),
        (
            {"columns": {}, "user": {"columm": 1}},
            "user: unknown field 'columm'; did you mean 'column'?",
        ),
        (
            {"columns": {}, "user": {"column": "a", "source": "x"}},
            "user.source: expected one of 'auto', 'none', got 'x'",
        ),
        (
            {"columns": {}, "user": {"column": "a", "rows": "9"}},
            "user.rows: expected a whole number, got a text",
        ),
    ],
)
def test_a_document_of_the_wrong_form_is_explained(document, words):
    with pytest.raises(msgspec.ValidationError) as error:
        msgspec.convert(document, Outer)
    assert explain_invalid(error.value, Outer) == words
