"""Findings grouped by cause: worst first, counted, and never hidden by a limit."""

from __future__ import annotations

from insync.pipeline.audit import findings as kinds
from insync.pipeline.audit.findings import MEANINGS, Finding, condense, group_by_cause, make_finding


def place(kind: str, broker: int, partition: int = 0, offset: int = -1, topic: str = "orders") -> Finding:
    file = f"/data/{broker}/{topic}-{partition}"
    return make_finding(
        kind, broker=broker, topic=topic, partition=partition, offset=offset, file=file, detail=f"wrong {offset}"
    )


def test_many_places_of_one_cause_are_one_line_with_the_first_and_their_number() -> None:
    findings = [place(kinds.EPOCH, 1, offset=offset) for offset in range(30, 8, -1)]
    [cause] = group_by_cause(findings)
    assert (cause.example.offset, cause.last_offset, cause.places) == (9, 30, 22)
    assert str(cause) == "epoch: broker 1 orders-0 offsets 9 to 30 (22 places): the first: wrong 9 (/data/1/orders-0)"


def test_the_worst_comes_first() -> None:
    findings = [place(kind, 1, offset=5) for kind in (kinds.INDEX, kinds.STRAY, kinds.CRC, kinds.MISSING, kinds.EPOCH)]
    assert [cause.kind for cause in group_by_cause(findings)] == ["missing", "crc", "epoch", "stray", "index"]
    assert [cause.severity for cause in group_by_cause(findings)] == ["critical"] * 3 + ["warning"] * 2


def test_a_limit_hides_no_cause() -> None:
    """One kind with many lines is condensed, and the others keep theirs."""
    findings = [place(kinds.MISSING, broker, partition) for broker in (1, 2) for partition in range(500)]
    findings += [place(kind, 3, offset=7) for kind in (kinds.CRC, kinds.GAP, kinds.INDEX)]
    lines = condense(group_by_cause(findings), 40)
    assert [(line.kind, line.example.broker, line.places, line.partitions) for line in lines] == [
        ("missing", 1, 500, 500),
        ("missing", 2, 500, 500),
        ("crc", 3, 1, 1),
        ("gap", 3, 1, 1),
        ("index", 3, 1, 1),
    ]
    assert str(lines[0]).startswith("missing: 500 places in 500 partitions, the first broker 1 orders-0: wrong")


def test_there_is_a_line_for_every_kind_even_if_the_limit_is_lower() -> None:
    findings = [place(kind, broker, offset=1) for kind in MEANINGS for broker in (1, 2, 3)]
    lines = condense(group_by_cause(findings), 5)
    assert sorted(line.kind for line in lines) == sorted(MEANINGS)
    assert {(line.places, line.brokers) for line in lines} == {(3, 3)}


def test_a_wrong_checkpoint_is_one_cause_for_all_partitions() -> None:
    findings = [place(kinds.CHECKPOINT, 1, partition)._replace(file="/data/1/x") for partition in range(10)]
    [cause] = group_by_cause(findings)
    assert (cause.places, cause.partitions) == (10, 10)
