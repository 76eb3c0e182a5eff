"""Kafka's error codes, and the exceptions for malformed bytes.

An expected failure is an `ErrorCode`, inside the node as on the wire. Readers of bytes raise the exceptions; the owner
of the connection or the file decides what to do about it.
"""

from dataclasses import dataclass

from kio.schema.errors import ErrorCode

__all__ = [
    "BatchTooLargeError",
    "ErrorCode",
    "MalformedBatchError",
    "MalformedFrameError",
    "Refusal",
    "UnknownApiError",
]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a produced batch is not stored, as the answer to its producer says (KIP-467)."""

    error: ErrorCode
    message: str
    records: tuple[tuple[int, str], ...] = ()
    """The rejected records, by their index in the batch, and why."""


class MalformedBatchError(ValueError):
    """Records that cannot be decoded: bad compression, lengths that point outside, a wrong count."""


class BatchTooLargeError(MalformedBatchError):
    """Records that take more bytes, once decompressed, than are allowed."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"more than {limit} bytes when decompressed")


class MalformedFrameError(ValueError):
    """A request, response or metadata record whose bytes do not follow its schema."""


class UnknownApiError(MalformedFrameError):
    """An API key, version or metadata record type that this code has no schema for."""

    def __init__(self, what: str, key: int, version: int) -> None:
        super().__init__(f"no schema for {what} {key} version {version}")
        self.key = key
        self.version = version
