"""A large request on its way through the node in parts (see `insync.node.parts`)."""

from __future__ import annotations

from collections.abc import Callable

from insync.node.parts import Parts
from insync.sansio import HangUp, Message

Answer = Callable[[Message | HangUp | None], None]


class DividedRequest:
    """Hands out its parts in order, and calls `answer` once: when the last part is answered, or the first fails."""

    __slots__ = ("_answer", "_answers", "_handed_out", "_open", "_parts", "_requests", "_tokens")

    def __init__(self, parts: Parts, requests: tuple[Message, ...], answer: Answer) -> None:
        self._parts = parts
        self._requests = requests
        self._answer: Answer | None = answer
        self._answers: list[Message | None] = [None] * len(requests)
        self._tokens: list[int] = []
        self._handed_out = 0
        self._open = len(requests)

    @property
    def has_more(self) -> bool:
        """Whether parts have not reached the node yet."""
        return self._handed_out < len(self._requests)

    def next(self) -> tuple[Message, Answer]:
        """The next part, and what takes its answer."""
        number = self._handed_out
        self._handed_out += 1
        return self._requests[number], lambda response: self._answered(number, response)

    def asked(self, token: int) -> None:
        """The node has taken the part that was handed out last."""
        self._tokens.append(token)

    def under_way(self) -> list[tuple[int, Message]]:
        """Tokens and requests of the parts that the node has, answered or not."""
        return list(zip(self._tokens, self._requests, strict=False))

    def _answered(self, number: int, response: Message | HangUp | None) -> None:
        if self._answer is None:
            return
        if isinstance(response, HangUp):
            self._handed_out = len(self._requests)  # the connection ends
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
