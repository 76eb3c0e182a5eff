"""Which setting takes effect: the topic's, the cluster's or the default of a node's own file."""

from __future__ import annotations

import random
from uuid import UUID

from insync.controller.config import ControllerConfig
from insync.controller.controller import Controller
from insync.controller.decision import Decision, Slices
from insync.metadata.configs import Resource
from insync.metadata.image import CLUSTER_DEFAULTS, Image
from insync.sansio import Outbox
from insync.wire import metadata_records as records


def _set(image: Image, resource: tuple[int, str], name: str, value: str) -> None:
    kind, owner = resource
    image.apply(records.ConfigRecord(resource_type=kind, resource_name=owner, name=name, value=value), 1)


def test_a_topics_config_overrides_the_clusters_and_that_a_nodes_own_default() -> None:
    image = Image({"log.retention.ms": "1"})
    image.apply(records.TopicRecord(name="t", topic_id=UUID(int=1)), 0)
    values = [image.config("t", "retention.ms")]
    _set(image, CLUSTER_DEFAULTS, "log.retention.ms", "2")
    values.append(image.config("t", "retention.ms"))
    _set(image, (Resource.TOPIC, "t"), "retention.ms", "3")
    values.append(image.config("t", "retention.ms"))
    assert values == [1, 2, 3]


def test_a_copy_of_an_image_keeps_the_nodes_defaults() -> None:
    assert Image({"log.retention.ms": "1"}).copy().config("any", "retention.ms") == 1


def test_a_new_cluster_stores_the_settings_that_its_nodes_must_agree_on() -> None:
    """E8: with different values of MinISR, controllers and brokers would disagree on what is committed."""
    decisions: list[Decision | Slices] = []
    config = ControllerConfig(cluster_id="c", cluster_defaults=(("min.insync.replicas", "2"),))
    controller = Controller(config, random.Random(1), Outbox(), lambda change, _now: decisions.append(change))
    controller.activate(Image(), 1, 0)
    (decision,) = decisions
    assert isinstance(decision, Decision)
    image = Image()
    for record in decision.records:
        image.apply(record, 0)
    assert image.min_isr("any") == 2
