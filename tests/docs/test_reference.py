"""The reference of the Python interface is what the code says, and leaves nothing out."""

import fastdp
from tools import reference


def test_every_page_is_what_the_code_says():
    """A docstring or a parameter that changed is written anew by `python -m tools.reference`."""
    for name, text in reference.pages().items():
        assert (reference.FOLDER / name).read_text("utf-8") == text, (
            f"{name} is out of date: run python -m tools.reference"
        )


def test_every_public_name_stands_on_one_page():
    named = [name for _, names in reference.GROUPS.values() for name in names]
    assert sorted([*named, "__version__"]) == sorted(fastdp.__all__)


def test_pages_can_be_read():
    """No page is longer than others may be, and nothing public is without a sentence."""
    for name, text in reference.pages().items():
        lines = text.splitlines()
        assert len(lines) <= 250, name
        assert [line for line in lines if len(line) > 100 and not line.startswith("|")] == [], name
        assert [line for line in lines if line.startswith("- `.") and line.endswith("`:")] == []


def test_a_planted_change_is_seen(monkeypatch):
    before = reference.pages()
    monkeypatch.setattr(fastdp.verify, "__doc__", "Something else.")
    changed = {name for name, text in reference.pages().items() if text != before[name]}
    assert changed == {"api.md", "api-platforms.md"}
