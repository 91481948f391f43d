"""Figures on pages are those of bench/results: bound sentences and named tables."""

import pytest

from bench import blocks, figures, machine, readme


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """A store of one file, and nothing remembered of other stores."""
    (tmp_path / "speed.json").write_text(
        '{"ways": {"ours": {"s": 2.0}, "theirs": {"s": 9.0}},'
        ' "lines": [{"kind": "sum", "cover": 0.94}, {"kind": "mean", "cover": 0.97}]}'
    )
    monkeypatch.setattr(machine, "RESULTS", tmp_path)
    figures._file.cache_clear()
    yield tmp_path
    figures._file.cache_clear()


def bound(text, *values):
    return {"page": "page.md", "text": text, "values": list(values)}


SECONDS = {"of": "speed", "at": ["ways", "theirs", "s"], "as": ".1f"}
TIMES = SECONDS | {"per": ["ways", "ours", "s"], "as": ".2f"}
COVER = {"of": "speed", "at": ["lines", {"kind": "mean"}, "cover"], "bare": True, "as": ".2f"}


def test_a_sentence_gets_the_figures_of_the_store(kept):
    """Where a line breaks does not matter, and other figures of the page stay as they are."""
    page = "It took 3 s.\n\nTheirs takes 7.7 s,\n1,004 times ours, and covers .9 of all.\n"
    text = "Theirs takes {} s, {} times ours, and covers {} of all"
    made = figures.renewed(page, bound(text, SECONDS, TIMES, COVER))
    assert made == "It took 3 s.\n\nTheirs takes 9.0 s,\n4.50 times ours, and covers .97 of all.\n"
    assert figures.renewed(made, bound(text, SECONDS, TIMES, COVER)) == made


def test_a_binding_that_holds_nothing_says_so(kept):
    """A sentence that was rewritten, one that is there twice, and a key that the file lost."""
    with pytest.raises(figures.Unbound, match="0 times"):
        figures.renewed("It took long.", bound("It took {} s", SECONDS))
    with pytest.raises(figures.Unbound, match="2 times"):
        figures.renewed("It took 1 s. It took 2 s.", bound("It took {} s", SECONDS))
    lost = SECONDS | {"at": ["ways", "nobody", "s"]}
    with pytest.raises(figures.Unbound, match="speed has nothing at"):
        figures.renewed("It took 1 s.", bound("It took {} s", lost))


def test_a_page_asks_for_a_table_by_name(monkeypatch):
    """The table between the marks is made anew; what is around it stays."""
    monkeypatch.setitem(blocks.BLOCKS, "mine", lambda: blocks.table(["a", "b"], [["1", ""]]))
    mark = "<!-- made by python -m bench.readme: mine -->\n"
    page = f"before\n\n{mark}\n| a | b |\n|---|---|\n| 7 | |\n\n{readme.END}\nafter\n"
    made = readme.filled(page)
    assert made == f"before\n\n{mark}\n| a | b |\n|---|---|\n| 1 | |\n\n{readme.END}\nafter\n"


def test_a_figure_typed_into_a_page_is_noticed(tmp_path, monkeypatch):
    """The check fails when a page says something else than the files: a planted digit."""
    made = dict.fromkeys([tmp_path / "page.md"], "It took 9.0 s.\n")
    monkeypatch.setattr(readme, "made", lambda: made)
    (tmp_path / "page.md").write_text("It took 9.0 s.\n")
    readme.main(["--check"])
    (tmp_path / "page.md").write_text("It took 8.0 s.\n")
    with pytest.raises(SystemExit, match=r"page\.md is not what bench/results gives"):
        readme.main(["--check"])


def test_every_table_is_asked_for_by_a_page():
    """A generator that no page names, or a name without a generator, is a mistake."""
    pages = (readme.ROOT / "docs").rglob("*.md")
    asked = {m[1] for path in pages for m in readme.ASKED.finditer(path.read_text("utf-8"))}
    assert asked == set(blocks.BLOCKS)


def test_a_figure_may_be_a_constant_of_the_package_or_a_sum(kept):
    """A share that changes in the code changes the page."""
    share = {"of": "fastdp.division", "at": ["USERS", "table of users"], "times": 100, "as": "g"}
    assert figures.written(share) == "3"
    both = SECONDS | {"plus": ["ways", "ours", "s"]}
    assert figures.written(both) == "11.0"
    with pytest.raises(figures.Unbound):
        figures.written({"of": "fastdp.division", "at": ["NOBODY"]})


MEASURED = (
    "It is off by .041.",
    "They hold in 93 %.",
    "A run takes 1.4 s.",
    "| rows | .119 | .044 |",
)
SETTINGS = (
    "At epsilon 0.5 and delta 1e-6.",
    "With Python 3.12 or numpy 2.1, half of .02 of mu^2 and epsilons of 1.5 and 10.25.",
    "A 95 % interval, `.119` and <!-- made by x -->.044<!-- end -->.",
    "It is for 24,000 people in 25 tables.",
)


@pytest.mark.parametrize("line", [*MEASURED, *SETTINGS])
def test_what_looks_measured_needs_a_source(line):
    assert bool(figures.untraced("page.md", line, [])) == (line in MEASURED)


def test_an_exception_covers_its_own_figure_alone():
    """A figure that is added to the page beside it is found."""
    stated = [{"page": "page.md", "text": "a mean of .5 by its proof", "why": "a proof"}]
    page = "It has a mean of .5\nby its proof.\n"
    assert not figures.untraced("page.md", page, stated)
    assert figures.untraced("page.md", page + "It is off by .3.\n", stated)
    assert figures.untraced("page.md", page.replace(".5", ".6"), stated)


def test_pages_for_users_have_no_figure_without_a_source():
    """Figures come from stored results, from code or by a stated reason: none is typed by hand."""
    stated = figures.tables("stated")
    pages = figures.pages_for_users()
    assert "README.md" in pages and "docs/guide/users.md" in pages
    for name, page in pages.items():
        assert not figures.untraced(name, page, stated), name


def test_typed_tables_of_a_note_are_listed_and_made_ones_are_not():
    typed = "# Note\n\n## First\n\n| a |\n|---|\n| 1 |\n\n"
    made = "<!-- made by x -->\n| b |\n|---|\n| 2 |\n<!-- end -->\n"
    assert figures.typed_tables(typed + made + "\n### Second\n| c |\n|---|\n| 3 |\n") == [
        ("First", 6),
        ("Second", 17),
    ]


@pytest.mark.slow
def test_no_exception_is_idle():
    """An exception whose sentence is gone must go too."""
    assert not figures.idle(figures.tables("stated"))
