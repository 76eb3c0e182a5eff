"""What can go wrong between a person and a cluster, each as a sentence that says what to do about it."""

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
    """The text is meant for people."""


class AddressError(ClientError):
    """A bootstrap address that cannot be one."""


class SettingError(ClientError):
    """A client setting that makes no sense; `problem` is a sentence that begins after its name. Never with a secret."""

    def __init__(self, setting: str, problem: str) -> None:
        super().__init__(f"setting '{setting}' {problem}")
        self.setting = setting
        self.problem = problem

    def __reduce__(self) -> tuple[type[SettingError], tuple[str, str]]:
        return SettingError, (self.setting, self.problem)


class AccessDeniedError(ClientError):
    """No trust: TLS or the authentication failed. It is not tried again: settings do not mend themselves, and a wrong
    password that is sent again and again locks accounts."""


class NoAnswerError(ClientError):
    """A broker did not answer the question; another one might, or the same one later."""


class UnreachableError(NoAnswerError):
    """Nobody answers, or what answers is not a broker."""


class NoBrokerError(UnreachableError):
    """None of the addresses that we know."""


class ConnectionLostError(NoAnswerError):
    """The broker closed the connection, or took too long."""


class UnsupportedError(NoAnswerError):
    """The broker does not know an API, or no version of it that this client knows."""


class UnknownTopicError(ClientError):
    def __init__(self, topic: str) -> None:
        super().__init__(f"there is no topic '{topic}': `insync topic list` shows those there are")
        self.topic = topic


class RefusedError(ClientError):
    """A broker answered with an error code."""

    def __init__(self, code: ErrorCode, what: str, message: str | None = None) -> None:
        hint = message or HINTS.get(code, "")
        super().__init__(f"{what}: {error_name(code)}" + (f" ({hint})" if hint else ""))
        self.code = code


def error_name(code: ErrorCode) -> str:
    """The name that Kafka's documentation uses."""
    name: str = code.name
    return name.upper()


def raise_for_error(code: ErrorCode, what: str, message: str | None = None) -> None:
    """Raise Refused unless the code says that all is well."""
    if code is not ErrorCode.none:
        raise RefusedError(code, what, message)


HINTS = {
    ErrorCode.not_enough_replicas: "the ISR is smaller than min.insync.replicas; `insync explain` tells why",
    ErrorCode.leader_not_available: "the partition has no leader; `insync explain` tells why",
    ErrorCode.unknown_topic_or_partition: "there is no such topic or partition",
    ErrorCode.invalid_topic_exception: "a name has letters, digits, '.', '_' and '-' only, and 249 of them at most",
    ErrorCode.topic_already_exists: "a topic of that name exists",
    ErrorCode.message_too_large: "raise max.message.bytes of the topic, or send less",
    ErrorCode.non_empty_group: "the group has members; stop its consumers first",
    ErrorCode.group_id_not_found: "no such group; `insync group list` shows those there are",
    ErrorCode.unknown_member_id: "the group has members; stop its consumers first",
    ErrorCode.rebalance_in_progress: "the group is rebalancing; stop its consumers first",
    ErrorCode.no_reassignment_in_progress: "nothing to cancel",
    ErrorCode.coordinator_not_available: "no coordinator yet; are enough brokers running for __consumer_offsets?",
    ErrorCode.offset_not_available: "the leader does not know its high watermark yet; try again in a moment",
    ErrorCode.cluster_authorization_failed: "this client may not do that",
    ErrorCode.topic_authorization_failed: "this client may not do that",
}
"""Said when the broker itself gave no reason."""

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
"""Likely to pass by themselves: a leader, a controller or a coordinator is about to change, or a broker has not read
yet what the cluster has decided. A topic that is not there when topics are looked up is `UnknownTopicError`."""


def is_retriable(error: ClientError, also: Collection[ErrorCode] = ()) -> bool:
    """Whether it is worth another try."""
    if isinstance(error, RefusedError):
        return error.code in RETRIABLE or error.code in also
    return isinstance(error, ConnectionLostError | UnreachableError)
