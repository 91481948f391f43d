"""`python -m bench` knows every benchmark, and each takes the arguments it is given there."""

from pathlib import Path

from bench import readme
from bench.__main__ import BENCHES, QUOTED

ROOT = Path(__file__).parents[2]
HELPERS = {
    "__main__", "__init__", "machine", "demo", "digests", "history", "readme", "structure", "tables_mbi",
    "tables_peers",
}  # fmt: skip


def test_every_module_with_a_command_line_is_listed():
    runnable = {
        p.stem for p in (ROOT / "bench").glob("*.py") if 'if __name__ == "__main__"' in p.read_text("utf-8")
    }
    assert runnable - HELPERS == set(BENCHES)


def test_what_readme_quotes_is_there():
    made = {row()[3].split()[0] for row in readme.ROWS}
    assert made <= set(QUOTED) <= set(BENCHES) and {"tables", "fits"} <= set(QUOTED)


def test_options_exist():
    for name, bench in BENCHES.items():
        text = (ROOT / "bench" / f"{name}.py").read_text("utf-8")
        for arguments in (*bench.small, *bench.full):
            for word in arguments:
                if word.startswith("--"):
                    assert f'"{word}"' in text, f"bench.{name} has no {word}"
