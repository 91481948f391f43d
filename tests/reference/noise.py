"""The samplers of csrc/noise.c, the slow and obvious way: ChaCha20 in Python, exponentials by
mpmath, rounding in rationals. Words of the stream are consumed in the kernel's order, so seeded
output must be equal.
"""

from collections.abc import Iterator
from fractions import Fraction

import mpmath

from tools.noise_table import EXPO_STRIPS, expo, gauss

LANES = 8
CHUNK = 16384
_MASK = 0xFFFFFFFF


def chacha20_block(key: list[int], counter: int, nonce: list[int]) -> list[int]:
    """RFC 8439, section 2.3."""
    start = [0x61707865, 0x3320646E, 0x79622D32, 0x6B206574, *key, counter & _MASK, *nonce]
    x = list(start)

    def quarter(a: int, b: int, c: int, d: int) -> None:
        for left, right, target, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            x[left] = (x[left] + x[right]) & _MASK
            mixed = x[target] ^ x[left]
            x[target] = (mixed << turn | mixed >> (32 - turn)) & _MASK

    for _ in range(10):
        for column in range(4):
            quarter(column, column + 4, column + 8, column + 12)
        for column in range(4):
            quarter(column, 4 + (column + 1) % 4, 8 + (column + 2) % 4, 12 + (column + 3) % 4)
    return [(a + b) & _MASK for a, b in zip(x, start, strict=True)]


def words(key: list[int], domain: int, chunk: int) -> Iterator[int]:
    """The 64-bit words of one chunk's stream: refills of 8 blocks, word i of every block side by
    side."""
    nonce = [domain, chunk & _MASK, chunk >> 32]
    counter = 0
    while True:
        blocks = [chacha20_block(key, counter + lane, nonce) for lane in range(LANES)]
        flat = [blocks[lane][i] for i in range(16) for lane in range(LANES)]
        for i in range(0, len(flat), 2):
            yield flat[i] | flat[i + 1] << 32
        counter += LANES


class Stream:
    """Words and single bits of one chunk."""

    def __init__(self, key: list[int], domain: int, chunk: int) -> None:
        self._words = words(key, domain, chunk)
        self._bits: list[int] = []

    def word(self) -> int:
        return next(self._words)

    def bit(self) -> int:
        if not self._bits:
            word = self.word()
            self._bits = [word >> i & 1 for i in range(63, -1, -1)]
        return self._bits.pop()


def _strip(stream: Stream, table: list[int]) -> int:
    w = stream.word()
    if any(entry >> 64 == w for entry in table):
        value = w << 64 | stream.word()
    else:
        value = w << 64
    return next((i for i, entry in enumerate(table) if value < entry), len(table) - 1)


def _accepted(stream: Stream, u: int, strip: int | None) -> tuple[bool, int | None]:
    """Whether v < exp(-z), and the second word of u where it was drawn."""
    v = stream.word()
    z64 = u >> 4 if strip is None else (2 * strip * u + (u * u >> 64)) >> 9
    line = 2**64 - 1 - z64
    if v + 2 < line:
        return True, None
    if v > line and v - line > (z64 * z64 >> 65) + 8:
        return False, None
    low = stream.word()
    wide = v << 64 | stream.word()
    with mpmath.workprec(300):
        real = mpmath.mpf(u << 64 | low) / mpmath.mpf(2) ** 128
        z = real / 16 if strip is None else (2 * strip * real + real * real) / 512
        return bool(wide < mpmath.exp(-z) * mpmath.mpf(2) ** 128), low


def _decide(
    stream: Stream, scale: float, strip: int, u: int, low: int | None, half: Fraction
) -> int:
    """floor(scale (strip + u) / 16 + half), drawing bits of u until the floor is certain."""
    value = Fraction(u, 2**64)
    bits = 64
    while True:
        least = Fraction(scale) * (strip + value) / 16 + half
        most = least + Fraction(scale) / 16 / 2**bits
        # the last bit pattern excluded: the interval of the real u is half open
        if least // 1 == most // 1 or most == least // 1 + 1:
            return int(least // 1)
        word = stream.word() if low is None else low
        low = None
        value += Fraction(word, 2 ** (bits + 64))
        bits += 64


def draw_gaussian(stream: Stream, scale: float, table: list[int]) -> int:
    """One draw of a scale of at least 2^-7."""
    while True:
        strip = _strip(stream, table)
        u = stream.word()
        ok, low = _accepted(stream, u, strip)
        if ok:
            k = _decide(stream, scale, strip, u, low, Fraction(1, 2))
            return -k if stream.bit() else k


def draw_laplace(stream: Stream, scale: float, table: list[int]) -> int:
    """One draw of a scale of at least 2^-7."""
    while True:
        strip = part = _strip(stream, table)
        while part == EXPO_STRIPS:
            part = _strip(stream, table)
            strip += part
        negative = stream.bit()
        k = 0
        if Fraction(scale) * (strip + 1) / 16 > 1:  # else 0 whatever u is
            ok = False
            while not ok:
                u = stream.word()
                ok, low = _accepted(stream, u, None)
            k = _decide(stream, scale, strip, u, low, Fraction(0))
        if k or not negative:
            return -k if negative else k


def gaussian(scale: float, n: int, key: list[int], chunk: int = 0) -> list[int]:
    """The first n draws of one chunk. Below 2^-7 no x < 14 rounds to anything but 0, and no bits
    are drawn."""
    if scale < 2**-7:
        return [0] * n
    stream = Stream(key, 1, chunk)
    table = gauss()
    return [draw_gaussian(stream, scale, table) for _ in range(n)]


def laplace(scale: float, n: int, key: list[int], chunk: int = 0) -> list[int]:
    """The first n draws of one chunk. Below 2^-7 no x < 128 reaches 1, and no bits are drawn."""
    if scale < 2**-7:
        return [0] * n
    stream = Stream(key, 2, chunk)
    table = expo()
    return [draw_laplace(stream, scale, table) for _ in range(n)]
