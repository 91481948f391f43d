"""The strip tables of csrc/noise_table.h, computed at 400 bits. Run as a module to print the
header."""

from __future__ import annotations

from itertools import pairwise

import mpmath

GAUSS_STRIPS = 224  # of width 1/16: the half-normal up to 14
EXPO_STRIPS = (
    128  # of width 1/16: the exponential up to 8; the entry after them starts the next lap
)
GUIDE_BITS = 10


def cumulative(weights: list) -> list[int]:
    """Cumulative weights scaled to 2^128, rounded down; the last is 2^128 - 1."""
    total = mpmath.fsum(weights)
    sums = mpmath.mpf(0)
    out = []
    for weight in weights:
        sums += weight
        out.append(min(int(mpmath.floor(sums / total * mpmath.mpf(2) ** 128)), 2**128 - 1))
    out[-1] = 2**128 - 1
    return out


def gauss() -> list[int]:
    """Strip i has weight exp(-(i/16)^2 / 2), the density at its left end."""
    with mpmath.workprec(400):
        return cumulative(
            [mpmath.exp(-((mpmath.mpf(i) / 16) ** 2) / 2) for i in range(GAUSS_STRIPS)]
        )


def expo() -> list[int]:
    """Strip i of [0, 8) holds exp(-i/16) - exp(-(i+1)/16); the last entry holds exp(-8)."""
    with mpmath.workprec(400):
        edges = [mpmath.exp(-mpmath.mpf(i) / 16) for i in range(EXPO_STRIPS + 1)]
        return cumulative([a - b for a, b in pairwise(edges)] + [edges[-1]])


def guide(table: list[int]) -> list[int]:
    """For each value of the top bits, the first strip its words can fall in."""
    out = []
    strip = 0
    for top in range(1 << GUIDE_BITS):
        while table[strip] <= top << (128 - GUIDE_BITS):
            strip += 1
        out.append(strip)
    return out


def header() -> str:
    """The text of csrc/noise_table.h."""
    lines = [
        (
            "/* Made by `python -m tools.noise_table`; a test compares. Cumulative weights times"
            " 2^128, in"
        ),
        (
            " * two words each, and for the top 10 bits of a uniform word the first strip that it"
            " can select. */"
        ),
        "#ifndef FDP_NOISE_TABLE_H",
        "#define FDP_NOISE_TABLE_H",
        "",
        "#include <stdint.h>",
        "",
        f"#define FDP_GAUSS_STRIPS {GAUSS_STRIPS}",
        f"#define FDP_EXPO_STRIPS {EXPO_STRIPS}",
        "",
    ]
    mask = 2**64 - 1
    for name, table in (("gauss", gauss()), ("expo", expo())):
        for part, words in (("hi", [v >> 64 for v in table]), ("lo", [v & mask for v in table])):
            lines.append(f"static const uint64_t fdp_{name}_{part}[{len(words)}] = {{")
            for i in range(0, len(words), 4):
                lines.append("    " + " ".join(f"0x{w:016x}u," for w in words[i : i + 4]))
            lines.append("};")
        lines.append(f"static const uint8_t fdp_{name}_guide[{1 << GUIDE_BITS}] = {{")
        entries = guide(table)
        for i in range(0, len(entries), 24):
            lines.append("    " + " ".join(f"{e}," for e in entries[i : i + 24]))
        lines.append("};")
    lines += ["", "#endif", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    import sys

    sys.stdout.write(header())
