"""S16: a leader whose ISR is below MinISR appends nothing for acks=all.

Such a record could not be committed while the ISR stays small. Its producer gets an error and sends it again, so that a
later leader may have it twice.
"""

from __future__ import annotations

from insync.properties.violation import Property

PROPERTY = Property("S16", "MinISR Gate", "Nothing is appended for acks=all while the ISR is below MinISR.")


def check(broker: int, isr: tuple[int, ...], min_isr: int, *, leo_before: int, leo: int) -> str | None:
    """P2: `isr` is the one that the leader went by when it handled an acks=all produce; MinISR is the effective one."""
    if leo == leo_before or len(isr) >= min_isr:
        return None
    return f"leader {broker} appended {leo_before}..{leo - 1} for acks=all with ISR {sorted(isr)}, MinISR is {min_isr}"
