"""Writes `tuning.toml` and the tables of docs/research/principles.md from the store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .judge import judged, newest


def lines(records: Iterable[dict], names: Sequence[str]) -> list[str]:
    """A line for each change, for the terminal."""
    out = []
    found = newest(records)
    for name in names or found:
        if name not in found:
            continue
        verdict = judged(name, found[name])
        parts = [f"{e.measure} {e.mean:+.3f} ± {e.error:.3f}" for e in verdict.effects]
        failed = sum("failed" in r and r["without"] == name for r in found[name])
        more = f"; {failed} runs failed" if failed else ""
        out.append(
            f"{name}: {verdict.word}, acts in {verdict.acts} of {verdict.looked} cells,"
            f" {verdict.seeds} seeds: {', '.join(parts)}{more}"
        )
    return out


def write(records: list[dict]) -> None:
    pass
