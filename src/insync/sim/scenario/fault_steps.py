"""Steps that break the cluster, and steps that repair it."""

from __future__ import annotations

from insync.sim.driver import InvalidOperationError
from insync.sim.engine.network import Link
from insync.sim.scenario.context import ScenarioContext
from insync.sim.scenario.steps import step

CHANNELS = ("fetch", "heartbeat", "controller", "recovery", "forward", "metadata", "quorum")


@step("crash NODE [lossy]")
def crash(context: ScenarioContext, words: list[str]) -> None:
    """Kill the process; with `lossy` the machine loses power, and with it everything that was not synced."""
    if words[1:] not in ([], ["lossy"]):
        raise InvalidOperationError(f"'{' '.join(words[1:])}' should be 'lossy' or nothing")
    node_id, lossy = context.driver.node_id(words[0]), "lossy" in words[1:]
    if not lossy:  # a machine can still lose power after its process has ended
        context.driver.running_node(node_id)
    context.world.cluster.crash(node_id, lossy=lossy)


@step("start NODE")
def start(context: ScenarioContext, words: list[str]) -> None:
    node_id = context.driver.node_id(words[0])
    if context.world.cluster.node(node_id) is not None:
        raise InvalidOperationError(f"node {node_id} is running")
    context.world.cluster.start(node_id)


@step("stop NODE")
def stop(context: ScenarioContext, words: list[str]) -> None:
    """A controlled shutdown; the step ends when the process has."""
    node_id = _running_node_id(context, words[0])
    context.world.cluster.shut_down(node_id)
    context.wait_until(lambda: context.world.cluster.node(node_id) is None, f"node {node_id} stopped")


@step("pause NODE")
def pause(context: ScenarioContext, words: list[str]) -> None:
    """The process stands still, as in a long garbage collection; its clock and its peers go on."""
    context.world.cluster.pause(_running_node_id(context, words[0]))


@step("resume NODE")
def resume(context: ScenarioContext, words: list[str]) -> None:
    context.world.cluster.resume(_running_node_id(context, words[0]))


@step("hold FROM->TO [CHANNEL]")
def hold(context: ScenarioContext, words: list[str]) -> None:
    """Hold back what travels that way; `<->` for both ways. Requests still time out as usual."""
    if words[1:] and words[1] not in CHANNELS:
        raise InvalidOperationError(f"there is no channel '{words[1]}'. Known: {', '.join(CHANNELS)}")
    context.driver.block(" ".join(words), _links(context, words[0], words[1:]))


@step("release [FROM->TO] [CHANNEL]")
def release(context: ScenarioContext, words: list[str]) -> None:
    """Release what one `hold` holds back, in the same words; or everything."""
    name, held = " ".join(words), context.driver.blocked
    if name and name not in held:
        raise InvalidOperationError(f"nothing is held as '{name}'. Held: {'; '.join(held) or 'nothing'}")
    context.driver.unblock(*([name] if name else []))


@step("cut NODES NODES")
def cut(context: ScenarioContext, words: list[str]) -> None:
    """Nothing passes between the two sides; `others` is every node that is not on the first."""
    left = context.driver.node_ids(words[0])
    right = tuple(context.world.cluster.hosts) if words[1] == "others" else context.driver.node_ids(words[1])
    context.driver.separate(f"cut {' '.join(words)}", left, right)


@step("heal")
def heal(context: ScenarioContext, words: list[str]) -> None:
    """Open all links."""
    context.driver.unblock()


def _links(context: ScenarioContext, pair: str, channel: list[str]) -> list[Link]:
    both = "<->" in pair
    source, arrow, target = pair.partition("<->" if both else "->")
    if not arrow:
        raise InvalidOperationError(f"'{pair}' should be FROM->TO or FROM<->TO, such as 2->1")
    pairs = [(context.driver.node_id(source), context.driver.node_id(target))]
    if both:
        pairs.append((pairs[0][1], pairs[0][0]))
    return [(a, b, channel[0]) if channel else (a, b) for a, b in pairs]


def _running_node_id(context: ScenarioContext, word: str) -> int:
    node_id = context.driver.node_id(word)
    context.driver.running_node(node_id)
    return node_id
