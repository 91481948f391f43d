"""What fastdp needs: the page on dependencies is complete. That a run from Parquet to Parquet needs
neither Polars nor rich: `test_contract.py`."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "dependencies.md"


def names(requirements):
    return {re.match(r"[\w-]+", text)[0] for text in requirements}


def test_the_page_names_every_dependency_and_every_extra_of_users():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    text = PAGE.read_text("utf-8")
    always, _, optional = text.partition("## Optional")
    rows = set(re.findall(r"^\| `([\w-]+)` \|", always, re.M))
    assert rows == names(project["dependencies"])
    for_developers = {"bench", "mutants", "dist", "docs", "lint"}
    of_users = {
        extra
        for extra in project["optional-dependencies"]
        if extra not in for_developers and not extra.startswith("test")
    }
    assert set(re.findall(r"^\| `\[([\w-]+)\]` \|", optional, re.M)) == of_users
