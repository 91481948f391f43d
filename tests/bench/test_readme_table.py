"""README's table and the plot are what the files in bench/results give."""

import pytest

from bench import readme


def test_readme_and_plot_are_what_the_results_give():
    readme.main(["--check"])


def test_a_figure_that_was_changed_by_hand_is_noticed(tmp_path, monkeypatch):
    text = readme.README.read_text("utf-8")
    changed = tmp_path / "README.md"
    changed.write_text(text.replace("ns a sample", "ns each"), "utf-8")
    monkeypatch.setattr(readme, "README", changed)
    with pytest.raises(SystemExit, match=r"python -m bench\.readme"):
        readme.main(["--check"])
    readme.main([])
    assert changed.read_text("utf-8") == text


def test_numbers_are_shown_with_two_digits():
    assert [readme.significant(x) for x in (0.06499, 6.6004, 12.166, 21.9)] == ["0.065", "6.6", "12", "22"]
    assert [readme.times(x) for x in (43.28, 1132.577, 520.7)] == ["43x", "1,130x", "521x"]
