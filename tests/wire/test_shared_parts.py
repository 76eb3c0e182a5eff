"""Responses whose items share a tuple are encoded as kio encodes them."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pytest
from kio.schema.describe_configs.v1 import response as v1
from kio.schema.describe_configs.v4 import response as v4
from kio.serial import entity_writer

from insync.wire import entities
from insync.wire.errors import ErrorCode
from insync.wire.messages import create_topics
from insync.wire.types import NO_DURATION


def created(shared: Any, count: int) -> Any:
    topics = tuple(
        create_topics.CreatableTopicResult(
            name=f"t-{number}",
            topic_id=None,
            error_code=ErrorCode.none,
            error_message=None if number % 2 else "text",
            topic_config_error_code=ErrorCode.none if number % 3 else ErrorCode.topic_authorization_failed,
            configs=shared if number % 5 else None,
        )
        for number in range(count)
    )
    return create_topics.CreateTopicsResponse(throttle_time=NO_DURATION, topics=topics)


def described(module: Any, shared: Any, count: int) -> Any:
    results = tuple(
        module.DescribeConfigsResult(
            error_code=ErrorCode.none,
            error_message=None,
            resource_type=2,
            resource_name=f"t-{number}",
            configs=shared if number % 5 else (),
        )
        for number in range(count)
    )
    return module.DescribeConfigsResponse(throttle_time=NO_DURATION, results=results)


CONFIGS = tuple(
    create_topics.CreatableTopicConfigs(
        name=f"key-{number}", value="v", read_only=False, config_source=5, is_sensitive=False
    )
    for number in range(30)
)


def lines(module: Any) -> Any:
    synonym = module.DescribeConfigsSynonym(name="s", value="v", source=5)
    others = {"config_type": 1, "documentation": None} if module is v4 else {}
    return tuple(
        module.DescribeConfigsResourceResult(
            name=f"key-{number}",
            value="v",
            read_only=False,
            config_source=5,
            is_sensitive=False,
            synonyms=(synonym,),
            **others,
        )
        for number in range(30)
    )


@pytest.mark.parametrize("count", [0, 1, 40])
@pytest.mark.parametrize("make", [created, described, "v1"])
def test_the_bytes_are_the_same(make: Any, count: int) -> None:
    if make is created:
        message = created(CONFIGS, count)
    else:
        module = v1 if make == "v1" else v4
        message = described(module, lines(module), count)
    expected = BytesIO()
    entity_writer(type(message))(expected, message)
    assert entities.encode(message) == expected.getvalue()
