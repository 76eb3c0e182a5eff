"""Frames of responses, as clients and nodes decode them: a response, or MalformedFrameError.

An input is the API key and the version of the request, two bytes each, and the frame.
"""

from __future__ import annotations

from random import Random
from struct import pack, unpack_from

from fuzz import generate
from fuzz.mutate import mutate_bytes
from fuzz.target import Target
from fuzz.targets import common
from insync.wire import codec, entities
from insync.wire.errors import MalformedFrameError

_POOL = common.pool(common.TOPIC)
_TYPES = common.request_types()


def run(data: bytes) -> None:
    if len(data) < 4:
        return
    try:
        asked = codec.request_type(*unpack_from(">hh", data))
        _, response = codec.decode_response(data[4:], asked)
    except MalformedFrameError:
        return
    entities.encode(response)


def seeds() -> list[bytes]:
    return [_response(at, Random(at)) for at in range(len(_TYPES))]


def mutate(data: bytes, rng: Random) -> bytes:
    if rng.random() < 0.4:
        data = _response(rng.randrange(len(_TYPES)), rng)
    return data[:4] + mutate_bytes(data[4:], rng)


def _response(at: int, rng: Random) -> bytes:
    asked = _TYPES[at]
    head = pack(">hh", asked.__api_key__, asked.__version__)
    return head + generate.response(asked, codec.response_type_of(asked), _POOL, rng)


TARGET = Target(name="responses", about=__doc__ or "", run=run, seeds=seeds, mutate=mutate, short=2_000)
