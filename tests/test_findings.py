"""Findings: reported once, shown until cleared, carried by DescribeConfigs, judged by `insync health`."""

from __future__ import annotations

from insync import findings
from insync.client.model import ClusterInfo
from insync.findings import Finding, Findings
from insync.metadata.configs import Resource
from insync.ops import health
from insync.sansio import Note, Outbox
from tests.node.node_harness import Net, describe_configs_of


def notes(out: Outbox) -> list[str]:
    return [effect.kind for effect in out.drain() if isinstance(effect, Note)]


def test_a_finding_is_noted_once_and_kept_until_it_is_cleared() -> None:
    out = Outbox()
    kept = Findings(out)
    kept.report("log_truncated", "orders-0", "from 600 to 560")
    kept.report("log_truncated", "orders-0", "from 600 to 560")
    assert notes(out) == ["finding"]
    assert kept.current() == [Finding("log_truncated", "orders-0", "warning", "from 600 to 560")]
    kept.report("log_truncated", "orders-0", "from 600 to 500")
    assert notes(out) == ["finding"]
    assert [finding.text for finding in kept.current()] == ["from 600 to 500"]
    kept.clear("log_truncated", "orders-0")
    kept.clear("log_truncated", "orders-0")
    assert notes(out) == ["finding_cleared"]
    assert kept.current() == []
    assert kept.reported["log_truncated"] == 2


def test_a_broker_tells_its_findings_as_a_read_only_config() -> None:
    net = Net().up()
    node = net.nodes[1]
    (line,) = describe_configs_of(net, Resource.BROKER, "1", findings.CONFIG_KEY).configs
    assert (findings.decode(line.value), line.read_only) == ([], True)
    node.findings.report("stray_directory", "orders-3-stray", "no topic has its id", findings.CRITICAL)
    (line,) = describe_configs_of(net, Resource.BROKER, "1", findings.CONFIG_KEY).configs
    assert findings.decode(line.value) == node.findings.current()


def test_a_value_that_is_not_ours_holds_no_findings() -> None:
    for value in ("", "7", "null", "[7]", '[{"kind": "x"}]', "{", '{"kind": 1}'):
        assert findings.decode(value) == []


def test_health_shows_what_brokers_report_and_is_not_healthy_with_it() -> None:
    picture = health.ClusterSnapshot(
        info=ClusterInfo(cluster_id="c", controller=1, brokers=(), includes_fenced=True),
        topics=(),
        min_isr={},
        reassignments=(),
        quorum=None,
        log_dirs={},
        node_findings={2: [Finding("corrupt_batch", "orders-0", "odd", "at offset 12")]},
    )
    (finding,) = health.find_problems(picture)
    assert (finding.severity, finding.what, finding.where, finding.text) == (
        "warning",
        "corrupt batch",
        "broker 2 orders-0",
        "at offset 12",
    )
    assert not health.is_healthy([finding])
