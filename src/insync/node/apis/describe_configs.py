"""DescribeConfigs: the configs of a topic or a broker, and where each value comes from.

A topic's value is its own, else this broker's default, the cluster's, that of the node's file, or the built-in one. The
broker with the empty name stands for the cluster's defaults: only those that are set. Not included: other resources
(loggers, groups, client metrics).

Clients may be unable to reach a controller that is not a broker. A broker passes a request for the findings of such a
controller on to it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

from insync import findings
from insync.metadata import apache_broker_keys, config_docs, configs, topic_names
from insync.metadata.configs import ConfigKey, Resource
from insync.metadata.image import CLUSTER_DEFAULTS, Image
from insync.node.config import BOOLEAN, DOUBLE, INT, LIST, LONG, PASSWORD, STRING, UNKNOWN, NodeConfig, StaticConfig
from insync.node.node_view import NodeView
from insync.sansio import Request
from insync.wire.errors import ErrorCode
from insync.wire.messages import describe_configs as api
from insync.wire.types import NO_DURATION

CHANNEL = "forward"
STATE_KEY = "insync.node.state"
"""A read-only broker config of insync's own: `encode_state`."""

TOPIC, BROKER, CLUSTER, STATIC, BUILT_IN = range(1, 6)
"""Kafka's numbers for the source of a value."""

_INT_MAX = 2**31 - 1
_TYPES = {"BOOLEAN": BOOLEAN, "STRING": STRING, "INT": INT, "LONG": LONG, "DOUBLE": DOUBLE, "LIST": LIST}

_NULL_BY_DEFAULT = ("log.flush.interval.ms", "log.retention.ms", "log.roll.jitter.ms", "log.roll.ms")
"""Broker configs without a value of their own in Kafka: a coarser one (log.retention.hours) has the default."""

Source = tuple[str, str, int]
"""(name, value, source)."""
Described: TypeAlias = "dict[tuple[object, ...], tuple[api.DescribeConfigsResourceResult, ...]]"
"""Lines that several resources of one request share, by the settings that they are made from."""


def handle(node: NodeView, event: Request, now: int) -> None:
    request: api.DescribeConfigsRequest = event.request
    controller = _controller_asked_for(node, request)
    if controller is None:
        node.out.reply(event.token, _answer(node, request))
        return

    def on_response(response: api.DescribeConfigsResponse | None, now: int) -> None:
        node.out.reply(event.token, _unanswered(request) if response is None else response)

    node.out.send(controller, CHANNEL, request, on_response, node.config.quorum.request_timeout_ms)


def _controller_asked_for(node: NodeView, request: api.DescribeConfigsRequest) -> int | None:
    """The other voter if the request asks for its findings and nothing else."""
    if node.broker_role is None or len(request.resources) != 1:
        return None
    (resource,) = request.resources
    if resource.resource_type != Resource.BROKER or resource.configuration_keys != (findings.CONFIG_KEY,):
        return None
    others = {str(voter): voter for voter in node.config.voters if voter != node.id and voter not in node.image.brokers}
    return others.get(resource.resource_name)


def _unanswered(request: api.DescribeConfigsRequest) -> api.DescribeConfigsResponse:
    (resource,) = request.resources
    result = api.DescribeConfigsResult(
        error_code=ErrorCode.request_timed_out,
        error_message=f"Controller {resource.resource_name} does not answer.",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=(),
    )
    return api.DescribeConfigsResponse(throttle_time=NO_DURATION, results=(result,))


def _answer(node: NodeView, request: api.DescribeConfigsRequest) -> api.DescribeConfigsResponse:
    described: Described = {}
    results = tuple(_result(node, resource, request, described) for resource in request.resources)
    return api.DescribeConfigsResponse(throttle_time=NO_DURATION, results=results)


def _result(
    node: NodeView,
    resource: api.DescribeConfigsResource,
    request: api.DescribeConfigsRequest,
    described: Described,
) -> api.DescribeConfigsResult:
    error, message = _problem(node, resource.resource_type, resource.resource_name)
    lines = () if error is not ErrorCode.none else _shared_lines(node, resource, request, described)
    return api.DescribeConfigsResult(
        error_code=error,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=lines,
    )


def _shared_lines(
    node: NodeView,
    resource: api.DescribeConfigsResource,
    request: api.DescribeConfigsRequest,
    described: Described,
) -> tuple[api.DescribeConfigsResourceResult, ...]:
    """Topics with equal settings of their own share their lines, which are made once per request."""
    kind, asked = resource.resource_type, resource.configuration_keys
    own = node.image.configs.get((kind, resource.resource_name), {})
    name = "" if kind == Resource.TOPIC else resource.resource_name
    key = (kind, name, tuple(own.items()), None if asked is None else tuple(asked))
    if key not in described:
        described[key] = tuple(_as_asked(line, request) for line in _lines(node, resource))
    return described[key]


def _as_asked(
    line: api.DescribeConfigsResourceResult, request: api.DescribeConfigsRequest
) -> api.DescribeConfigsResourceResult:
    return replace(
        line,
        synonyms=line.synonyms if request.include_synonyms else (),
        documentation=config_docs.DOCS.get(line.name) if request.include_documentation else None,
    )


def _problem(node: NodeView, kind: int, name: str) -> tuple[ErrorCode, str | None]:
    if kind == Resource.TOPIC:
        known = name in node.image.topic_ids
        return (
            (ErrorCode.none, None)
            if known
            else (topic_names.error_if_absent(name), f"The topic '{name}' does not exist.")
        )
    if kind != Resource.BROKER:
        return ErrorCode.invalid_request, f"Configs of resource type {kind} are not supported."
    if name not in ("", str(node.id)):
        return ErrorCode.invalid_request, f"This is node {node.id}: ask broker {name} itself."
    return ErrorCode.none, None


def _lines(node: NodeView, resource: api.DescribeConfigsResource) -> tuple[api.DescribeConfigsResourceResult, ...]:
    image, name = node.image, resource.resource_name
    if resource.resource_type == Resource.TOPIC:
        lines = [_line(key, topic_sources(image, name, node.id, key)) for key in configs.TOPIC_KEYS.values()]
    elif name:
        lines = [_broker_line(image, node.id, key) for key in configs.BROKER_KEYS.values()]
        static = {config.name: config for config in node.config.static_configs or _essential(node.config)}
        stored = _stored_without_effect(image, node.id, static)
        lines += stored.values()
        lines += [_static_line(config) for name, config in static.items() if name not in stored]
        lines.append(_own_line(STATE_KEY, encode_state(node)))
        lines.append(_own_line(findings.CONFIG_KEY, findings.encode(node.findings.current())))
    else:
        keys = configs.BROKER_KEYS
        shared = image.configs.get(CLUSTER_DEFAULTS, {})
        lines = [_line(keys[key], [(key, value, CLUSTER)]) for key, value in shared.items() if key in keys]
        lines += [_stored_line(key, [(key, value, CLUSTER)]) for key, value in shared.items() if key not in keys]
        if findings.CONFIG_KEY in (resource.configuration_keys or ()):  # without a quorum, clients do not know our id
            lines.append(_own_line(findings.CONFIG_KEY, findings.encode(node.findings.current())))
    asked = resource.configuration_keys
    return tuple(line for line in sorted(lines, key=lambda line: line.name) if asked is None or line.name in asked)


def topic_sources(image: Image, topic: str, node_id: int, key: ConfigKey) -> list[Source]:
    """All sources of a topic's config at this node, the one in force first."""
    own = image.configs.get((Resource.TOPIC, topic), {})
    sources = [(key.name, own[key.name], TOPIC)] if key.name in own else []
    return [*sources, *_broker_sources(image, node_id, key, key.synonym)]


def _broker_sources(image: Image, node_id: int, key: ConfigKey, name: str) -> list[Source]:
    layers: tuple[tuple[Mapping[str, str], int], ...] = (
        (image.configs.get((Resource.BROKER, str(node_id)), {}), BROKER),
        (image.configs.get(CLUSTER_DEFAULTS, {}), CLUSTER),
        (image.defaults, STATIC),
    )
    sources = [(name, values[name], source) for values, source in layers if name and name in values]
    return sources if not name or name in _NULL_BY_DEFAULT else [*sources, (name, key.default, BUILT_IN)]


def _broker_line(image: Image, node_id: int, key: ConfigKey) -> api.DescribeConfigsResourceResult:
    line = _line(key, _broker_sources(image, node_id, key, key.name))
    return line if line.synonyms else replace(line, value=None)


def _stored_without_effect(
    image: Image, node_id: int, static: Mapping[str, StaticConfig]
) -> dict[str, api.DescribeConfigsResourceResult]:
    """Dynamic configs that this node stores and does not use, by name."""
    own = image.configs.get((Resource.BROKER, str(node_id)), {})
    shared = image.configs.get(CLUSTER_DEFAULTS, {})
    lines: dict[str, api.DescribeConfigsResourceResult] = {}
    for name in (*own, *shared):
        if name not in configs.BROKER_KEYS:
            sources = [
                (name, values[name], source) for values, source in ((own, BROKER), (shared, CLUSTER)) if name in values
            ]
            given = static[name].value if name in static else None
            lines[name] = _stored_line(name, sources if given is None else [*sources, (name, given, STATIC)])
    return lines


def _stored_line(name: str, sources: list[Source]) -> api.DescribeConfigsResourceResult:
    """As in Kafka the value of an unknown config is hidden: it may be a secret."""
    kind = _TYPES.get(apache_broker_keys.DYNAMIC.get(name, ""), UNKNOWN)
    secret = kind == UNKNOWN
    return api.DescribeConfigsResourceResult(
        name=name,
        value=None if secret else sources[0][1],
        read_only=False,
        config_source=sources[0][2],
        is_sensitive=secret,
        synonyms=tuple(
            api.DescribeConfigsSynonym(name=name, value=None if secret else value, source=source)
            for name, value, source in sources
        ),
        config_type=kind,
        documentation=None,
    )


def _line(key: ConfigKey, sources: list[Source]) -> api.DescribeConfigsResourceResult:
    _, value, source = sources[0] if sources else (key.name, key.default, BUILT_IN)
    return api.DescribeConfigsResourceResult(
        name=key.name,
        value=value,
        read_only=False,
        config_source=source,
        is_sensitive=False,
        synonyms=tuple(
            api.DescribeConfigsSynonym(name=name, value=value, source=source) for name, value, source in sources
        ),
        config_type=_type(key),
        documentation=None,
    )


def _type(key: ConfigKey) -> int:
    if key.kind == "int":
        return INT if key.high <= _INT_MAX else LONG
    return {"float": DOUBLE, "bool": BOOLEAN, "choice": STRING}.get(key.kind, LIST)


def _essential(config: NodeConfig) -> tuple[StaticConfig, ...]:
    """What tools require, for a node without a properties file."""
    node_id = str(config.node_id)
    return (
        StaticConfig(name="broker.id", kind=INT, value=node_id, default="-1"),
        StaticConfig(name="log.dirs", kind=STRING, value=config.log_dir, default=None),
        StaticConfig(name="node.id", kind=INT, value=node_id, default=None),
        StaticConfig(name="process.roles", kind=LIST, value=",".join(config.roles), default=None),
    )


def _own_line(name: str, value: str) -> api.DescribeConfigsResourceResult:
    """A config of insync's own, which Kafka does not have."""
    return _static_line(StaticConfig(name=name, kind=STRING, value=value, default=None))


def _static_line(config: StaticConfig) -> api.DescribeConfigsResourceResult:
    sources = [(config.value, STATIC), (config.default, BUILT_IN)]
    if config.kind == PASSWORD:
        sources = sources[:1]
    elif config.value == config.default:
        sources = sources[1:]
    return api.DescribeConfigsResourceResult(
        name=config.name,
        value=config.value,
        read_only=True,
        config_source=sources[0][1],
        is_sensitive=config.kind == PASSWORD,
        synonyms=tuple(
            api.DescribeConfigsSynonym(name=config.name, value=value, source=source)
            for value, source in sources
            if value is not None or config.kind == PASSWORD
        ),
        config_type=config.kind,
        documentation=None,
    )


def encode_state(node: NodeView) -> str:
    """A node's identity, state and known brokers.

    A supervisor reads it to tell its own processes from others that answer on the same ports, and the registrations of
    this incarnation from those that an earlier one left in the metadata log. As a config it needs no API that Kafka
    does not have.
    """
    lifecycle = node.lifecycle
    fields = {
        "cluster_id": node.config.cluster_id,
        "node_id": node.id,
        "directory_id": str(node.config.directory_id),
        "incarnation_id": str(node.config.incarnation_id if lifecycle is None else lifecycle.incarnation_id),
        "state": None if lifecycle is None else lifecycle.state,
        "controller_id": node.quorum.leader_id,
        "unfenced": {
            str(broker.id): str(broker.incarnation_id) for broker in node.image.brokers.values() if not broker.fenced
        },
    }
    return json.dumps(fields, separators=(",", ":"))
