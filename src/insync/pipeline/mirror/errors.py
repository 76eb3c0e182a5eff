"""Why a mirror cannot start or go on."""

from __future__ import annotations

from collections.abc import Sequence

from insync.spark.data_loss import Loss, describe_losses


class MirrorError(Exception):
    """The text says why. What was mirrored stays in the target, and the same command continues."""


class SourceLossError(MirrorError):
    """The source no longer has records that were to be mirrored, or other ones in the place of mirrored records."""

    def __init__(self, losses: Sequence[Loss]) -> None:
        super().__init__(
            f"{'; '.join(describe_losses(losses))}. Nothing was mirrored over it; --allow-loss records it and continues"
        )
        self.losses = tuple(losses)
