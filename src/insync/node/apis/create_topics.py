"""How a CreateTopics request is divided: the controller decides and commits each part by itself."""

from __future__ import annotations

from dataclasses import replace

from insync.node.parts import Parts
from insync.wire.messages import create_topics as api

PART_TOPICS = 50
PART_PARTITIONS = 500
"""What one part may create; a topic is never divided."""


def _weigh(topic: api.CreatableTopic) -> int:
    """In partitions, but never so little that a part has more than PART_TOPICS topics."""
    return max(topic.num_partitions, len(topic.assignments), PART_PARTITIONS // PART_TOPICS)


def _share_configs(answer: api.CreateTopicsResponse, previous: api.CreateTopicsResponse | None) -> object:
    """`answer` with the same tuples for equal configs: they are encoded once (see `wire.writing`). Most topics have the
    configs of the topic before them, perhaps in the part before, `previous`."""
    configs = previous.topics[-1].configs if previous is not None and previous.topics else None
    topics = []
    for topic in answer.topics:
        if topic.configs == configs:
            topics.append(replace(topic, configs=configs))
        else:
            topics.append(topic)
            configs = topic.configs
    return replace(answer, topics=tuple(topics))


PARTS = Parts(
    asked=("topics",),
    answered=("topics",),
    limit=PART_PARTITIONS,
    weigh=_weigh,
    entry_key=lambda topic: topic.name,
    share=_share_configs,
)
