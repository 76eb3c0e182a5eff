"""Steps that hurt the cluster, and those that heal it."""

from __future__ import annotations

from insync.sim.engine.network import Link
from insync.sim.scenario.stage import Stage, StepError
from insync.sim.scenario.steps import step

FIRST_RULE = 1_000_000
CHANNELS = ("fetch", "heartbeat", "controller", "forward", "metadata", "quorum")


@step("crash NODE [lossy]")
def crash(stage: Stage, words: list[str]) -> None:
    """The process ends at once; with `lossy` the machine does, and with it everything that was not synced."""
    if words[1:] not in ([], ["lossy"]):
        raise StepError(f"'{' '.join(words[1:])}' should be 'lossy' or nothing")
    node_id, lossy = stage.node_id(words[0]), "lossy" in words[1:]
    if not lossy:  # a machine can still lose power after its process has ended
        stage.running(node_id)
    stage.world.cluster.crash(node_id, lossy=lossy)


@step("start NODE")
def start(stage: Stage, words: list[str]) -> None:
    node_id = stage.node_id(words[0])
    if stage.world.cluster.node(node_id) is not None:
        raise StepError(f"node {node_id} is running")
    stage.world.cluster.start(node_id)


@step("stop NODE")
def stop(stage: Stage, words: list[str]) -> None:
    """A controlled shutdown, waited for."""
    node_id = _running(stage, words[0])
    stage.world.cluster.shut_down(node_id)
    stage.wait(lambda: stage.world.cluster.node(node_id) is None, f"node {node_id} stopped")


@step("pause NODE")
def pause(stage: Stage, words: list[str]) -> None:
    """The process stands still, as in a long garbage collection; its clock and its peers go on."""
    stage.world.cluster.pause(_running(stage, words[0]))


@step("resume NODE")
def resume(stage: Stage, words: list[str]) -> None:
    stage.world.cluster.resume(_running(stage, words[0]))


@step("hold FROM->TO [CHANNEL]")
def hold(stage: Stage, words: list[str]) -> None:
    """Keep back what travels that way; `<->` for both ways. A request waits for its answer no longer than it may."""
    if words[1:] and words[1] not in CHANNELS:
        raise StepError(f"there is no channel '{words[1]}'. Known: {', '.join(CHANNELS)}")
    _block(stage, " ".join(words), _links(stage, words[0], words[1:]))


@step("release [FROM->TO] [CHANNEL]")
def release(stage: Stage, words: list[str]) -> None:
    """Let go what one `hold` keeps back, in the same words; or everything."""
    name = " ".join(words)
    if name and name not in stage.held:
        raise StepError(f"nothing is held as '{name}'. Held: {'; '.join(stage.held) or 'nothing'}")
    for held in [name] if name else list(stage.held):
        stage.world.network.lift(stage.held.pop(held))


@step("cut NODES NODES")
def cut(stage: Stage, words: list[str]) -> None:
    """Nothing passes between the two sides; `others` is everybody who is not on the first."""
    left = stage.node_ids(words[0])
    everybody = tuple(stage.world.cluster.hosts)
    right = everybody if words[1] == "others" else stage.node_ids(words[1])
    pairs = [(a, b) for a in left for b in right if b not in left]
    _block(stage, f"cut {' '.join(words)}", [*pairs, *((b, a) for a, b in pairs)])


@step("heal")
def heal(stage: Stage, words: list[str]) -> None:
    """Every link is open again."""
    for held in list(stage.held):
        stage.world.network.lift(stage.held.pop(held))


def _links(stage: Stage, pair: str, channel: list[str]) -> list[Link]:
    both = "<->" in pair
    source, arrow, target = pair.partition("<->" if both else "->")
    if not arrow:
        raise StepError(f"'{pair}' should be FROM->TO or FROM<->TO, such as 2->1")
    ways = [(stage.node_id(source), stage.node_id(target))]
    if both:
        ways.append((ways[0][1], ways[0][0]))
    return [(a, b, channel[0]) if channel else (a, b) for a, b in ways]


def _running(stage: Stage, word: str) -> int:
    node_id = stage.node_id(word)
    stage.running(node_id)
    return node_id


def _block(stage: Stage, name: str, links: list[Link]) -> None:
    if name in stage.held:
        raise StepError(f"'{name}' is held already")
    rule = max(stage.held.values(), default=FIRST_RULE) + 1
    stage.held[name] = rule
    stage.world.network.block(rule, links)
