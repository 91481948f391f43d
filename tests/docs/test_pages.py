"""Documents: every link between them leads somewhere, every page is on the site, and every name of code in
them exists."""

import importlib
import re
from pathlib import Path

import pytest

import fastdp

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
TEXTS = [*PAGES, *(ROOT / f"{name}.md" for name in ("README", "ARCHITECTURE", "SECURITY", "CONTRIBUTING"))]


def links(text):
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]


def anchors(path):
    heads = re.findall(r"^#+ (.*)$", path.read_text("utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", TEXTS, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    for link in links(page.read_text("utf-8")):
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), f"{page.name}: {link}"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{page.name}: {link}"


def test_every_page_is_on_the_site():
    named = set(re.findall(r"docs/[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text("utf-8")))
    assert {page.relative_to(ROOT).as_posix() for page in PAGES} <= named


def resolved(name):
    """The object behind a dotted name; AttributeError if there is none."""
    words = name.split(".")
    for count in range(len(words), 0, -1):
        try:
            thing = importlib.import_module(".".join(words[:count]))
        except ImportError:
            continue
        for word in words[count:]:
            thing = getattr(thing, word)
        return thing


def exists(name):
    """Whether a file named from the root is there: fastdp's where it is installed, C sources if any are."""
    top, _, rest = name.partition("/")
    if top == "csrc" and not (ROOT / top).exists():
        return True
    return (Path(fastdp.__file__).parent / rest if top == "fastdp" else ROOT / name).exists()


@pytest.mark.parametrize("page", TEXTS, ids=lambda p: p.name)
def test_names_of_code_exist(page):
    text = page.read_text("utf-8")
    for name in set(re.findall(r"`(fastdp\.[\w.]*\w)(?=[`(])", text)):
        resolved(name)
    files = set(re.findall(r"`((?:fastdp|tests|bench|csrc|examples)/[\w./-]+\.\w+)`", text))
    assert [name for name in files if not exists(name)] == []
    modules = set(re.findall(r"python -m (bench\.\w+)", text))
    assert [name for name in modules if not (ROOT / f"{name.replace('.', '/')}.py").exists()] == []
