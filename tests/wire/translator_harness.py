"""Every API in every version that a client may use, and a translator that knows two topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from insync.wire import codec
from insync.wire.apis import APIS
from insync.wire.errors import UnknownApiError
from insync.wire.versions.context import RequestContext
from insync.wire.versions.translator import VersionTranslator

TOPIC = UUID("11111111-2222-3333-4444-555555555555")
OTHER = UUID("66666666-7777-8888-9999-aaaaaaaaaaaa")

TYPES: dict[int, Any] = {api.key: codec.request_type(api.key, api.pinned) for api in APIS.values()}


def _known(key: int, version: int) -> bool:
    try:
        codec.request_type(key, version)
    except UnknownApiError:
        return False
    return True


VERSIONS = {
    key: [version for version in range(cls.__version__ + 1) if _known(key, version)] for key, cls in TYPES.items()
}
SERVED = {key: (versions[0], versions[-1]) for key, versions in VERSIONS.items()} | {0: (0, 13)}


class Names:
    """The topics that the translator knows; a test may change `ids` between request and response."""

    def __init__(self) -> None:
        self.ids = {"t": TOPIC, "other": OTHER}

    def id_of(self, name: str) -> UUID | None:
        return self.ids.get(name)

    def name_of(self, topic_id: UUID) -> str | None:
        return {topic_id: name for name, topic_id in self.ids.items()}.get(topic_id)


def make_translator(names: Names | None = None) -> VersionTranslator:
    return VersionTranslator(names or Names(), SERVED)


def received(translator: VersionTranslator, request: Any, correlation_id: int = 7) -> RequestContext:
    return translator.receive(codec.encode_request(request, correlation_id, "client"))


def version_of(request_type: Any, version: int) -> Any:
    """The class of a request of another version."""
    return codec.request_type(request_type.__api_key__, version)


def read_answer(context: RequestContext, pieces: Sequence[bytes | bytearray]) -> Any:
    """Decode a response as the client does, and check its length and correlation id."""
    frame = b"".join(pieces)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    header = context.header
    version = 0 if context.request is None else header.api_version
    correlation_id, response = codec.decode_response(frame[4:], codec.request_type(header.api_key, version))
    assert correlation_id == header.correlation_id
    return response
