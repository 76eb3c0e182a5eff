"""The story that `insync demo` tells: each chapter is a few sentences and the steps of a scenario.

The steps check themselves by what they expect, so that the sentences stay true.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Chapter:
    title: str
    words: str
    steps: str


CHAPTERS = (
    Chapter(
        "A topic with three copies",
        "Three controllers agree on who does what; three brokers keep the data. The topic gets a replica on each "
        "broker. Broker 1 leads, the others copy from it. All three are in sync: that group is called the ISR.",
        "topic orders replicas=1,2,3 min.insync.replicas=2",
    ),
    Chapter(
        "Four records are written",
        "The client is told 'written' only when every replica in the ISR has the records. LEO is where a log ends, "
        "HWM (the high watermark) is up to where it is committed: that is what consumers may read.",
        """produce orders-0 A B
        produce orders-0 C D
        run 150
        expect orders-0 hwm.1=4 hwm.2=4""",
    ),
    Chapter(
        "The leader loses power",
        "Broker 1 goes down at once. Its records were in memory and not on its disk yet, so this copy is gone. "
        "Nobody has noticed yet. Nothing is lost either: that is what the other two are for.",
        """crash 1 lossy
        run 50
        expect orders-0 leader=1""",
    ),
    Chapter(
        "An election",
        "The controllers hear no heartbeat from broker 1. They fence it and elect the next replica of the ISR, in a "
        "new epoch. Clients go on; two replicas in sync are enough, because the topic asks for two.",
        """until orders-0 leader=2
        run 10
        produce orders-0 E F
        run 150
        expect answer E=none
        expect orders-0 isr=2,3""",
    ),
    Chapter(
        "Broker 1 comes back with nothing",
        "It has to admit that it did not stop cleanly, so nobody trusts its log. It copies everything from the "
        "leader, and only then does it belong to the ISR again.",
        """start 1
        until orders-0 isr=1,2,3
        run 150
        expect noted broker_registered broker=1 clean=false
        expect orders-0 log.1=A@0,B@0,C@0,D@0,E@1,F@1""",
    ),
    Chapter(
        "Two leaders",
        "Now the link between broker 2 and the controllers breaks. They replace it, and it does not know: for a "
        "while there are two leaders. Both take a record for the same place in the log. The old one cannot get its "
        "record committed, because nobody copies from it any more; its client is never told 'written'.",
        """cut 2 controllers
        until orders-0 leader=1
        run 10
        produce orders-0 Z to=2
        produce orders-0 G
        expect answer Z=pending G=none
        expect orders-0 role.2=leader role.1=leader""",
    ),
    Chapter(
        "The zombie cuts its log",
        "The link is back. Broker 2 learns of the newer epoch and follows. The two logs are compared by epochs, the "
        "record that was never committed is cut off, and the right one is copied.",
        """heal
        until orders-0 isr=1,2,3
        run 150
        expect answer Z=not_leader_or_follower
        expect noted truncated from_offset=7 to_offset=6
        expect orders-0 log.2=A@0,B@0,C@0,D@0,E@1,F@1,G@2""",
    ),
    Chapter(
        "All is well",
        "One more record, and every replica holds the same log to the last byte.",
        """produce orders-0 H
        run 150
        expect orders-0 isr=1,2,3 hwm.1=8 hwm.2=8 hwm.3=8""",
    ),
)

TOLD = {
    "became_leader": "leads now, in epoch {epoch}",
    "broker_fenced": "no heartbeat from broker {broker}: fenced",
    "broker_registered": "broker {broker} registers; clean stop: {clean}",
    "leader_elected": "broker {leader} is elected leader, in epoch {leader_epoch}",
    "isr_expand_proposed": "may the ISR be {proposed}?",
    "isr_committed": "the ISR is {isr}",
    "truncated": "cuts its log from {from_offset} to {to_offset}",
    "alter_partition_refused": "refuses what broker {broker} proposes: {error}",
}
"""The notes that matter for the story, in plain words."""
