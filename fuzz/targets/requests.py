"""Frames of clients: the translator returns a request of the node's version or raises MalformedFrameError."""

from __future__ import annotations

from random import Random
from struct import pack
from uuid import UUID

from fuzz import generate
from fuzz.mutate import mutate_bytes, number
from fuzz.target import Target
from fuzz.targets import common
from insync.wire import entities
from insync.wire.apis import PINNED
from insync.wire.errors import MalformedFrameError
from insync.wire.versions.translator import VersionTranslator

_POOL = common.pool(common.TOPIC)
_TYPES = common.request_types()


class _Names:
    def id_of(self, name: str) -> UUID | None:
        return common.TOPIC if name == "t" else None

    def name_of(self, topic_id: UUID) -> str | None:
        return "t" if topic_id == common.TOPIC else None


TRANSLATOR = VersionTranslator(_Names())


def run(data: bytes) -> None:
    try:
        context = TRANSLATOR.receive(data)
    except MalformedFrameError:
        return
    if context.request is None:
        TRANSLATOR.encode_response(context, None)
    else:
        entities.encode(context.request)  # fails if a field is missing or has a wrong type


def seeds() -> list[bytes]:
    return [generate.request(cls, _POOL, Random(at)) for at, cls in enumerate(_TYPES)]


def mutate(data: bytes, rng: Random) -> bytes:
    chance = rng.random()
    if chance < 0.3:
        return generate.request(common.random_type(_TYPES, rng), _POOL, rng)
    if chance < 0.35:
        return pack(">hh", rng.choice((*PINNED, number(rng, 16))), rng.randrange(-1, 20)) + rng.randbytes(60)
    if chance < 0.5:
        data = generate.request(common.random_type(_TYPES, rng), _POOL, rng)
    return mutate_bytes(data, rng)


TARGET = Target(name="requests", about=__doc__ or "", run=run, seeds=seeds, mutate=mutate, short=2_500)
