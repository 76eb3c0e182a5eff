"""L10: compares a voter's pre-votes with the answers that it got from its leader (Q4, KIP-996)."""

from __future__ import annotations

from typing import Any

from insync.properties import availability
from insync.quorum.config import FETCH_CHANNEL, QUORUM_CHANNEL
from insync.quorum.messages import metadata_partition, read_leader_info
from insync.sansio import Effect, Message, Reply, Response
from insync.wire.errors import ErrorCode
from insync.wire.messages import end_quorum_epoch, fetch, vote


class PreVoteChecks:
    """What one process has heard of its leader, and which voters would vote for it."""

    __slots__ = ("_answered_ms", "_granted", "_has_resigned", "_node")

    def __init__(self, node: Any) -> None:
        self._node = node
        self._answered_ms: int | None = None
        """When its leader last answered a fetch."""
        self._has_resigned = False
        """Whether its leader has said so. An answer that was on its way then does not count."""
        self._granted: dict[int, None] = {}
        """The voters that granted it a pre-vote in this epoch."""

    def on_leader_changed(self, before: tuple[int, int]) -> str | None:
        """The epoch or the leader is another one than `before`; the role may be a candidate's."""
        quorum, node = self._node.quorum, self._node
        granted, self._granted = self._granted, {}
        self._answered_ms, self._has_resigned = None, False
        if quorum.epoch == before[0] or quorum.role != "candidate":
            return None
        majority = len(node.config.voters) // 2 + 1
        return availability.check_candidate(node.id, quorum.epoch, [node.id, *granted], majority)

    def on_response(self, event: Response, now_ms: int) -> None:
        """Called before `on_leader_changed` of the same step."""
        send, response = event.send, event.response
        if response is None:
            return
        if send.channel == FETCH_CHANNEL:
            if not send.on_response.func.__self__.is_current:  # type: ignore[attr-defined]
                return  # it was asked before the last campaign, and the voter does not count such an answer
            answer = metadata_partition(
                response.responses if type(response) is fetch.FetchResponse else response.topics
            )
            info = None if answer is None else read_leader_info(answer)
            is_current = info is not None and info.error is ErrorCode.none and info.epoch == self._node.quorum.epoch
            if is_current and not self._has_resigned:
                self._answered_ms = now_ms
        elif send.channel == QUORUM_CHANNEL and type(send.request) is vote.VoteRequest:
            asked, answer = send.request.topics[0].partitions[0], metadata_partition(response.topics)
            if asked.pre_vote and answer is not None and answer.vote_granted:
                self._granted[send.peer] = None

    def on_leader_lost(self) -> None:
        """Its connections dropped, or it resigned: both count as a hint that it leads no more."""
        self._answered_ms = None

    def on_request(self, request: Message, effects: list[Effect], now_ms: int) -> str | None:
        if type(request) is end_quorum_epoch.EndQuorumEpochRequest:
            self._has_resigned |= request.topics[0].partitions[0].leader_epoch == self._node.quorum.epoch
            self.on_leader_lost()
        if type(request) is not vote.VoteRequest or not request.topics[0].partitions[0].pre_vote:
            return None
        granted = any(
            type(effect) is Reply
            and type(effect.response) is vote.VoteResponse
            and any(partition.vote_granted for topic in effect.response.topics for partition in topic.partitions)
            for effect in effects
        )
        candidate = request.topics[0].partitions[0].replica_id
        if not granted:
            return None
        if self._node.quorum.is_leader:
            return availability.check_pre_vote(self._node.id, candidate, 0, 1)
        if self._answered_ms is None:
            return None
        timeout_ms = self._node.config.quorum.fetch_timeout_ms
        return availability.check_pre_vote(self._node.id, candidate, now_ms - self._answered_ms, timeout_ms)


def _is_answer(response: Message | None) -> bool:
    return response is not None and response.error_code is ErrorCode.none
