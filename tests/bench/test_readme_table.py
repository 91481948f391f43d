"""README's table and the plot are what the files in bench/results give."""

from bench import readme


def test_readme_and_plot_are_what_the_results_give():
    readme.main(["--check"])
