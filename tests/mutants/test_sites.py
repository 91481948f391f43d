"""Mutants are what they claim: one small change, still valid source, the same for the same seed."""

import ast

import pytest

from tests.mutants import places
from tests.mutants.__main__ import draw, equivalent, sites_of
from tests.mutants.sites import c_sites, python_sites

PYTHON = b'''"""Text 1 < 2."""
from __future__ import annotations

LIMIT: int = 3


def f(x: list[int], y: float = 0.5) -> bool:
    if not x or len(x) <= LIMIT:
        raise ValueError(f"{len(x) + 1} items")
    total = 0
    for item in x:
        if item in (1, 2) and item is not None:
            continue
        total += item * 2 - 1
    x.append(-total)
    x[0] = total // 2
    return total / y > 1 if y else False
'''
C = b"""/* 1 < 2 */
#include <stdint.h>
#define LAPS 16
#if LAPS > 3
#endif
static int f(const int *x, int n) {
    int sum = 0, k;
    for (k = 0; k < n; k++) sum += x[k] * 2;
    if (sum == 0 && n) return -1; /* 7 + 8 */
    sum = g(sum);
    sum--;
    return sum << 1;
}
"""


def changes(sites) -> set[tuple[str, str]]:
    return {(" ".join(s.old.split()), s.new) for s in sites}


def test_python_sites():
    made = changes(python_sites("x.py", PYTHON))
    for pair in [
        ("<=", "<"),
        ("or", "and"),
        ("and", "or"),
        ("in", "not in"),
        ("is not", "is"),
        ("not x", "x"),
        ("*", "/"),
        ("-", "+"),
        ("//", "*"),
        (">", ">="),
        ("3", "4"),
        ("3", "2"),
        ("0.5", "0.75"),
        ("False", "True"),
        ("continue", "break"),
        ("total += item * 2 - 1", "pass"),
        ("x.append(-total)", "pass"),
        ("x[0] = total // 2", "pass"),
        ('raise ValueError(f"{len(x) + 1} items")', "pass"),
        ("y", "not y"),
    ]:
        assert pair in made, pair
    lines = {s.line for s in python_sites("x.py", PYTHON)}
    assert 1 not in lines and 2 not in lines, "texts and imports are left alone"
    assert not any(old == "+" for old, _ in made), "what `raise` says is left alone"


def test_the_open_length_of_a_reshape_is_left_alone():
    assert changes(python_sites("x.py", b"y = x[-1].reshape(-1, 7)")) == {
        ("1", "2"),
        ("1", "0"),
        ("7", "8"),
        ("7", "6"),
    }
    assert not changes(python_sites("x.py", b"y = x.reshape(-1)"))


def test_every_python_mutant_is_valid_and_differs():
    before = ast.dump(ast.parse(PYTHON))
    for site in python_sites("x.py", PYTHON):
        assert ast.dump(ast.parse(site.apply(PYTHON))) != before, str(site)


def test_c_sites():
    made = changes(c_sites("x.c", C))
    for pair in [
        ("<", "<="),
        ("*", "+"),
        ("+=", "-="),
        ("==", "!="),
        ("&&", "||"),
        ("<<", ">>"),
        ("16", "17"),
        ("16", "15"),
        ("sum = g(sum);", ";"),
        ("sum--;", ";"),
    ]:
        assert pair in made, pair
    assert not {s.line for s in c_sites("x.c", C)} & {1, 2, 4, 5}, (
        "comments and conditions of the preprocessor"
    )
    assert ("int sum = 0, k;", ";") not in made and ("8", "9") not in made


@pytest.mark.parametrize("group", places.GROUPS)
def test_every_file_has_tests_and_every_test_is_there(group):
    files = places.files(group)
    assert len(files) > 20
    for path in files:
        stages = places.stages(path)
        assert stages and all((places.ROOT / name).exists() for stage in stages for name in stage), path
        if path.startswith("csrc/"):
            assert places.extensions(path), path


def test_a_seed_draws_the_same_mutants_and_a_longer_run_continues_it():
    first = draw(7, 12)
    assert first == draw(7, 12) == draw(7, 30)[:12] and first != draw(8, 12)
    assert len(set(first)) == 12
    assert all(site.path == "fastdp/privacy/scale.py" for _, site in draw(7, 5, "*scale.py"))


def test_listed_mutants_exist():
    """Every entry of equivalent.toml is about a line that is there."""
    from tests.mutants.__main__ import listed

    for entry in listed():
        sites = [s for s in sites_of(entry["path"]) if equivalent(s) == entry["why"]]
        assert sites, f"no mutant is {entry}"
