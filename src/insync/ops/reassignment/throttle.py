"""Throttles for reassignments (R6): rates on brokers, and on topics the replicas that the rates apply to.

Leaders are throttled towards the added replicas, and the added replicas in what they fetch. The traffic of in-sync
replicas is not affected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from insync.client import topics
from insync.client.client import Client
from insync.client.model import TopicPartition

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"

RATES: dict[str, str | None] = {LEADER_RATE: None, FOLLOWER_RATE: None}
REPLICAS: dict[str, str | None] = {LEADER_REPLICAS: None, FOLLOWER_REPLICAS: None}


async def set_throttle(client: Client, targets: Mapping[TopicPartition, Sequence[int]], rate: int) -> None:
    """Throttle a reassignment before it starts: `rate` bytes per second on every broker that takes part."""
    current = {
        (topic.name, p.index): p.replicas
        for topic in await topics.describe(client, sorted({name for name, _ in targets}))
        for p in topic.partitions
    }
    for name, replicas in throttled_replicas(current, targets).items():
        await topics.alter_configs(client, name, replicas)
    involved = sorted({b for key in targets for b in (*targets[key], *current.get(key, ()))})
    for broker in involved:
        rates: dict[str, str | None] = dict.fromkeys(RATES, str(rate))
        await topics.alter_configs(client, str(broker), rates, kind=topics.BROKER)


def throttled_replicas(
    current: Mapping[TopicPartition, Sequence[int]], targets: Mapping[TopicPartition, Sequence[int]]
) -> dict[str, dict[str, str]]:
    """The two lists of partition:broker, as configs of each topic."""
    leaders: dict[str, list[str]] = {}
    followers: dict[str, list[str]] = {}
    for (name, index), replicas in sorted(targets.items()):
        before = current.get((name, index), ())
        leaders.setdefault(name, []).extend(f"{index}:{broker}" for broker in before)
        followers.setdefault(name, []).extend(f"{index}:{broker}" for broker in replicas if broker not in before)
    return {
        name: {LEADER_REPLICAS: ",".join(leaders[name]), FOLLOWER_REPLICAS: ",".join(followers[name])}
        for name in leaders
    }


async def remove_throttles(client: Client) -> int:
    """Remove all throttles; returns how many brokers and topics had one."""
    count = 0
    for broker in sorted(client.brokers):
        configs = await topics.describe_configs(client, str(broker), kind=topics.BROKER)
        if any(_is_limit(configs[name].value) for name in RATES if name in configs):
            await topics.alter_configs(client, str(broker), RATES, kind=topics.BROKER)
            count += 1
    names = [topic.name for topic in await topics.describe(client)]
    for name, settings in (await topics.describe_topic_configs(client, names, list(REPLICAS))).items():
        if any(settings.values()):
            await topics.alter_configs(client, name, REPLICAS)
            count += 1
    return count


def _is_limit(value: str | None) -> bool:
    """Without a throttle, Kafka shows the largest number there is."""
    return value is not None and value.isdecimal() and int(value) < (1 << 63) - 1
