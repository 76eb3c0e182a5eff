"""The errors of the client. The text of each says what is wrong and, where possible, what to do."""

from __future__ import annotations

from collections.abc import Collection

from insync.wire.errors import ErrorCode

__all__ = [
    "AccessDeniedError",
    "AddressError",
    "ClientError",
    "ConnectionLostError",
    "ErrorCode",
    "NoAnswerError",
    "NoBrokerError",
    "RefusedError",
    "SettingError",
    "UnknownTopicError",
    "UnreachableError",
    "UnsupportedError",
    "error_name",
]


class ClientError(Exception):
    """The base class; its text is meant for people."""


class AddressError(ClientError):
    """A bootstrap address that is not HOST:PORT."""


class SettingError(ClientError):
    """An invalid client setting; `problem` continues a sentence after its name. It never contains a secret."""

    def __init__(self, setting: str, problem: str) -> None:
        super().__init__(f"setting '{setting}' {problem}")
        self.setting = setting
        self.problem = problem

    def __reduce__(self) -> tuple[type[SettingError], tuple[str, str]]:
        return SettingError, (self.setting, self.problem)


class AccessDeniedError(ClientError):
    """TLS or authentication failed. Not retried: settings do not change by themselves, and repeating a wrong password
    locks accounts."""


class NoAnswerError(ClientError):
    """A broker did not answer the request; another one might, or the same one later."""


class UnreachableError(NoAnswerError):
    """Nothing answers at an address, or what answers is not a broker."""


class NoBrokerError(UnreachableError):
    """No known broker can be reached."""


class ConnectionLostError(NoAnswerError):
    """The broker closed the connection, or took too long."""


class UnsupportedError(NoAnswerError):
    """The broker does not serve an API, or no version of it that this client supports."""


class UnknownTopicError(ClientError):
    def __init__(self, topic: str) -> None:
        super().__init__(f"there is no topic '{topic}': `insync topic list` lists the topics")
        self.topic = topic


class RefusedError(ClientError):
    """A broker answered with an error code."""

    def __init__(self, code: ErrorCode, what: str, message: str | None = None) -> None:
        hint = message or HINTS.get(code, "")
        super().__init__(f"{what}: {error_name(code)}" + (f" ({hint})" if hint else ""))
        self.code = code

    @property
    def lacks_rights(self) -> bool:
        """Whether the user may not do this, so that waiting does not help."""
        return self.code in NOT_AUTHORIZED


def error_name(code: ErrorCode) -> str:
    """The name in Kafka's documentation."""
    name: str = code.name
    return name.upper()


def raise_for_error(code: ErrorCode, what: str, message: str | None = None) -> None:
    """Raise `RefusedError` unless the code is NONE; `what` is what was attempted."""
    if code is not ErrorCode.none:
        raise RefusedError(code, what, message)


NOT_AUTHORIZED = (
    ErrorCode.cluster_authorization_failed,
    ErrorCode.group_authorization_failed,
    ErrorCode.topic_authorization_failed,
    ErrorCode.transactional_id_authorization_failed,
)

HINTS = {
    ErrorCode.not_enough_replicas: "the ISR is smaller than min.insync.replicas; `insync explain` shows why",
    ErrorCode.leader_not_available: "the partition has no leader; `insync explain` shows why",
    ErrorCode.unknown_topic_or_partition: "there is no such topic or partition",
    ErrorCode.invalid_topic_exception: "a topic name consists of at most 249 letters, digits, '.', '_' and '-'",
    ErrorCode.topic_already_exists: "a topic of that name exists",
    ErrorCode.message_too_large: "raise max.message.bytes of the topic, or send less",
    ErrorCode.non_empty_group: "the group has members; stop its consumers first",
    ErrorCode.group_id_not_found: "no such group; `insync group list` lists the groups",
    ErrorCode.unknown_member_id: "the group has members; stop its consumers first",
    ErrorCode.rebalance_in_progress: "the group is rebalancing; stop its consumers first",
    ErrorCode.no_reassignment_in_progress: "nothing to cancel",
    ErrorCode.coordinator_not_available: "no coordinator yet: are enough brokers running for __consumer_offsets?",
    ErrorCode.offset_not_available: "the leader does not know its high watermark yet; try again in a moment",
    **dict.fromkeys(NOT_AUTHORIZED, "this user is not authorized to do that; `insync acl check` shows why"),
}
"""Used if the broker gave no reason."""

RETRIABLE = (
    ErrorCode.not_leader_or_follower,
    ErrorCode.leader_not_available,
    ErrorCode.fenced_leader_epoch,
    ErrorCode.unknown_leader_epoch,
    ErrorCode.replica_not_available,
    ErrorCode.not_controller,
    ErrorCode.coordinator_not_available,
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.not_coordinator,
    ErrorCode.offset_not_available,
    ErrorCode.not_enough_replicas,
    ErrorCode.not_enough_replicas_after_append,
    ErrorCode.request_timed_out,
    ErrorCode.network_exception,
    ErrorCode.kafka_storage_error,
    ErrorCode.unknown_topic_id,
    ErrorCode.unknown_topic_or_partition,
)
"""Errors that pass by themselves: a leader, a controller or a coordinator is about to change, or a broker has not read
the newest metadata yet. A topic that is missing when topics are described is an `UnknownTopicError` instead."""


def is_retriable(error: ClientError, also: Collection[ErrorCode] = ()) -> bool:
    """Whether another attempt may succeed."""
    if isinstance(error, RefusedError):
        return error.code in RETRIABLE or error.code in also
    return isinstance(error, ConnectionLostError | UnreachableError)
