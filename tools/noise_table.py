"""The strip tables of csrc/noise_table.h, computed at 400 bits.

Run as a module to print the header.
"""

from __future__ import annotations

from itertools import pairwise

import mpmath

# Strips have the width 1/16. Those of the half-normal go up to 14.
GAUSS_STRIPS = 224
# Those of the exponential go up to 8; the entry after them starts the next lap.
EXPO_STRIPS = 128
# Bits of a uniform word by which the guide finds the first strip.
GUIDE_BITS = 10

HEADER = f"""\
/* Made by `python -m tools.noise_table`; a test compares.
 *
 * A strip is an interval of width 1/16. Its cumulative weight is the probability, times 2^128 and rounded
 * down, of this strip or one before it. A uniform number of 128 bits selects the first strip whose
 * cumulative weight is larger. The weights are in two words of 64 bits, `hi` and `lo`. The guide says, for
 * each value of the number's top {GUIDE_BITS} bits, the first strip that it can select: most often the strip
 * itself. */
#ifndef FDP_NOISE_TABLE_H
#define FDP_NOISE_TABLE_H

#include <stdint.h>

#define FDP_GAUSS_STRIPS {GAUSS_STRIPS}
#define FDP_EXPO_STRIPS {EXPO_STRIPS}
"""

# What stands above the tables of each distribution.
SAYS = {
    "gauss": (
        "/* Half-normal on [0, 14): strip i has weight exp(-(i/16)^2 / 2), the density at its left end."
        " Rejection\n * within the strip makes the distribution exact. */"
    ),
    "expo": (
        "/* Exponential: strip i of [0, 8) has weight exp(-i/16) - exp(-(i+1)/16); the last entry, exp(-8),"
        " adds\n * 8 and starts again. */"
    ),
}


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
    lines = HEADER.split("\n")
    mask = 2**64 - 1
    for name, table in (("gauss", gauss()), ("expo", expo())):
        lines.append(SAYS[name])
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
