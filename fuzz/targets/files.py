"""Small files: a properties file is read, or PropertiesError names the problem; a checkpoint is read or is None."""

from __future__ import annotations

from random import Random

from fuzz.mutate import mutate_bytes
from fuzz.target import Target
from insync.quorum import offset_checkpoint, state_file
from insync.server import properties, property_keys
from insync.storage import checkpoints, clean_shutdown, index, producer_state
from insync.wire.batch import NewRecord, build, read_header

_WORDS = (
    *(b"=", b":", b"\\", b"\n", b"#", b"-1", b"0", b"9223372036854775808", b"1e5", b"\xff", b"\xe2\x82\xac", b"\x00"),
    *(b"PLAINTEXT://", b"[::1]:", b"1@h:1,", b",", b"\xc2\xb2", b"true", b"999999999999999999999", b"controller"),
)
_FILE = b"""node.id=1
process.roles=broker,controller
listeners=PLAINTEXT://localhost:9092,B://[::1]:9093
advertised.listeners=PLAINTEXT://localhost:9092
controller.quorum.voters=1@localhost:9092,2@h:1
log.dirs=/data
min.insync.replicas=2
log.retention.hours=168
num.io.threads=8
insync.profile=fast
"""


def run_properties(data: bytes) -> None:
    try:
        properties.parse(properties.decode(data, "fuzzed"), "fuzzed")
    except properties.PropertiesError as error:
        if "fuzzed" not in str(error):
            raise AssertionError("the message does not name the file") from error


def run_checkpoints(data: bytes) -> None:
    checkpoints.decode_offsets(data)
    checkpoints.decode_epochs(data)
    checkpoints.decode_partition_metadata(data)
    checkpoints.decode_meta_properties(data)
    clean_shutdown.decode(data)
    offset_checkpoint.decode(data)
    states = producer_state.decode_snapshot(data)
    if states is not None:
        producer_state.decode_snapshot(states.encode())
    for kind in (index.OffsetIndex, index.TimeIndex):
        entries = kind(100)
        if entries.decode(data):
            entries.truncate(101)
            entries.encode()
    try:
        state = state_file.decode(data)
    except state_file.StateFileError:
        return
    voters = state_file.decode_voters(data) or ()
    if state_file.decode(state_file.encode(state, voters)) != state:
        raise AssertionError("an encoded state is decoded to another one")


def property_seeds() -> list[bytes]:
    keys = [*property_keys.SETTINGS, *property_keys.COARSER_UNITS, *property_keys.UNUSED]
    return [_FILE, *(_FILE + f"{key}=1\n".encode() for key in keys)]


def checkpoint_seeds() -> list[bytes]:
    states = producer_state.ProducerStates()
    states.update(
        read_header(build([NewRecord(b"", b"")], timestamp_ms=1, producer_id=1, producer_epoch=0, base_sequence=0))
    )
    offsets = index.OffsetIndex(100)
    offsets.add(105, 300)
    return [
        checkpoints.encode_offsets({("t", 0): 5, ("u", 1): 7}),
        checkpoints.encode_epochs([(1, 0), (3, 10)]),
        b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ",
        b"#\nnode.id=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\nversion=1\ncluster.id=x\n",
        state_file.encode(state_file.ElectionState(epoch=3, voted_id=2), (1, 2, 3)),
        offset_checkpoint.encode(offset_checkpoint.QuorumCheckpoint(epoch=3)).rstrip(),
        states.encode(),
        offsets.encode(),
    ]


def mutate(data: bytes, rng: Random) -> bytes:
    if rng.random() < 0.5:
        at = rng.randrange(len(data) + 1)
        return data[:at] + rng.choice(_WORDS) + data[at + rng.choice((0, 0, 1, 5)) :]
    return mutate_bytes(data, rng)


PROPERTIES = Target(
    name="properties", about=__doc__ or "", run=run_properties, seeds=property_seeds, mutate=mutate, short=1_500
)
CHECKPOINTS = Target(
    name="checkpoints", about=__doc__ or "", run=run_checkpoints, seeds=checkpoint_seeds, mutate=mutate, short=2_000
)
