"""Small damage to bytes of the kinds that break decoders: lengths, counts, signs, truncation, repetition."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from struct import pack

INTERESTING = (
    0,
    1,
    2,
    -1,
    -2,
    3,
    7,
    16,
    61,
    64,
    100,
    127,
    128,
    255,
    256,
    1_000,
    2**15 - 1,
    -(2**15),
    2**16,
    2**31 - 1,
    2**31 - 2,
    -(2**31),
    2**32,
    2**53,
    2**63 - 1,
    2**63 - 2,
    -(2**63),
)
MAX_INPUT_BYTES = 1 << 20

Change = Callable[[bytearray, Random], None]


def mutate_bytes(data: bytes, rng: Random, others: list[bytes] | None = None) -> bytes:
    """One to four changes; with `others`, sometimes of a combination of two inputs."""
    out = bytearray(data)
    if others and rng.random() < 0.1:
        other = rng.choice(others)
        out = out[: rng.randrange(len(out) + 1)] + bytearray(other[rng.randrange(len(other) + 1) :])
    for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
        rng.choice(_CHANGES)(out, rng)
    del out[MAX_INPUT_BYTES:]
    return bytes(out)


def number(rng: Random, bits: int) -> int:
    """A signed number of this many bits, usually an extreme one."""
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    if rng.random() < 0.1:
        return rng.randint(low, high)
    return min(max(rng.choice(INTERESTING), low), high)


def varint(value: int) -> bytes:
    """Unsigned, seven bits per byte; a negative one in ten bytes, as some encoders write it."""
    value &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _flip_bit(out: bytearray, rng: Random) -> None:
    if out:
        out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)


def _set_byte(out: bytearray, rng: Random) -> None:
    if out:
        out[rng.randrange(len(out))] = rng.choice((0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF, rng.randrange(256)))


def _set_number(out: bytearray, rng: Random) -> None:
    width, code = rng.choice(((2, ">h"), (4, ">i"), (4, ">i"), (8, ">q")))
    if len(out) >= width:
        at = rng.randrange(len(out) - width + 1)
        out[at : at + width] = pack(code, number(rng, 8 * width))


def _nudge_number(out: bytearray, rng: Random) -> None:
    """One more or one less: the errors of counts."""
    width = rng.choice((1, 2, 4, 8))
    if len(out) >= width:
        at = rng.randrange(len(out) - width + 1)
        value = int.from_bytes(out[at : at + width], "big") + rng.choice((-1, 1, -4, 4))
        out[at : at + width] = (value % (1 << 8 * width)).to_bytes(width, "big")


def _set_varint(out: bytearray, rng: Random) -> None:
    at = rng.randrange(len(out) + 1)
    out[at : at + rng.choice((0, 1, 1, 2))] = varint(rng.choice(INTERESTING))


def _cut_out(out: bytearray, rng: Random) -> None:
    start = rng.randrange(len(out) + 1)
    del out[start : start + rng.choice((1, 2, 4, 8, rng.randrange(64) + 1))]


def _cut_off(out: bytearray, rng: Random) -> None:
    del out[rng.randrange(len(out) + 1) :]


def _insert(out: bytearray, rng: Random) -> None:
    at = rng.randrange(len(out) + 1)
    out[at:at] = rng.randbytes(rng.choice((1, 2, 4, 16)))


def _repeat(out: bytearray, rng: Random) -> None:
    start = rng.randrange(len(out) + 1)
    piece = out[start : start + rng.randrange(1, 64)]
    out[start:start] = piece * rng.choice((1, 1, 2, 20))


def _move(out: bytearray, rng: Random) -> None:
    start = rng.randrange(len(out) + 1)
    piece = out[start : start + rng.randrange(1, 32)]
    at = rng.randrange(len(out) + 1)
    out[at : at + len(piece)] = piece


def _zero(out: bytearray, rng: Random) -> None:
    start = rng.randrange(len(out) + 1)
    size = min(rng.choice((4, 16, 64, 512)), len(out) - start)
    out[start : start + size] = bytes(size)


_CHANGES: tuple[Change, ...] = (
    _flip_bit,
    _set_byte,
    _set_byte,
    _set_number,
    _set_number,
    _set_number,
    _nudge_number,
    _set_varint,
    _cut_out,
    _cut_off,
    _insert,
    _repeat,
    _move,
    _zero,
)
