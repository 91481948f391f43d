"""Documents: every link between them leads somewhere, every page is on the site, and the programs in them
run."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))
RUN = {"porting.md"}
"""Pages whose Python blocks, joined in order, are one program. (README and the tutorial have tests of their
own.)"""


def links(text):
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]


def anchors(path):
    heads = re.findall(r"^#+ (.*)$", path.read_text("utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    for link in links(page.read_text("utf-8")):
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), f"{page.name}: {link}"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{page.name}: {link}"


def test_every_page_is_on_the_site():
    named = set(re.findall(r"docs/([\w-]+\.md)", (ROOT / "mkdocs.yml").read_text("utf-8")))
    assert {page.name for page in PAGES} <= named


@pytest.mark.parametrize("name", sorted(RUN))
def test_programs_run(name, tmp_path):
    text = (ROOT / "docs" / name).read_text("utf-8")
    program = "\n".join(re.findall(r"```python\n(.*?)```", text, re.S))
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
