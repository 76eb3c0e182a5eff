"""A large request that the node handles in parts (see `insync.node.parts`)."""

from __future__ import annotations

from collections.abc import Callable

from insync.node.parts import Parts
from insync.sansio import HangUp, Message

Answer = Callable[[Message | HangUp | None], None]
"""Takes the answer to one request: None if none is due, a `HangUp` if none can be given."""


class DividedRequest:
    """Yields its parts in order, and calls `answer` once: when all parts are answered, or when one fails."""

    __slots__ = ("_answer", "_answers", "_open", "_parts", "_requests", "_submitted", "_tokens")

    def __init__(self, parts: Parts, requests: tuple[Message, ...], answer: Answer) -> None:
        self._parts = parts
        self._requests = requests
        self._answer: Answer | None = answer
        self._answers: list[Message | None] = [None] * len(requests)
        self._tokens: list[int] = []
        self._submitted = 0
        self._open = len(requests)

    @property
    def has_more(self) -> bool:
        """Whether there are parts that have not reached the node yet."""
        return self._submitted < len(self._requests)

    def next_part(self) -> tuple[Message, Answer]:
        """The next part, and the callback for its answer."""
        number = self._submitted
        self._submitted += 1
        return self._requests[number], lambda response: self._on_answer(number, response)

    def on_submitted(self, token: int) -> None:
        """The last part has reached the node."""
        self._tokens.append(token)

    def submitted_parts(self) -> list[tuple[int, Message]]:
        """Tokens and requests of the parts that have reached the node, answered or not."""
        return list(zip(self._tokens, self._requests, strict=False))

    def _on_answer(self, number: int, response: Message | HangUp | None) -> None:
        if self._answer is None:
            return
        if isinstance(response, HangUp):
            self._submitted = len(self._requests)  # the connection is closed
            self._finish(response)
            return
        self._answers[number] = response
        self._open -= 1
        if self._open == 0:
            answers = [answer for answer in self._answers if answer is not None]
            self._finish(self._parts.join(answers) if answers else None)

    def _finish(self, response: Message | HangUp | None) -> None:
        answer, self._answer = self._answer, None
        if answer is not None:
            answer(response)
