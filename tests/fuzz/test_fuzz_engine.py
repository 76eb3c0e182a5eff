"""The fuzzer itself: it finds defects, reports each of them once, and replays what it saved."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from fuzz import archive, engine, generate
from fuzz.__main__ import main
from fuzz.limits import TooSlowError, limit_resources
from fuzz.mutate import mutate_bytes
from fuzz.target import Target
from fuzz.targets import TARGETS, common
from insync.wire import codec, entities
from insync.wire.errors import MalformedFrameError


def target(run: Callable[[bytes], None]) -> Target:
    return Target(name="planted", about="", run=run, seeds=lambda: [b"\x00\x05hello"], mutate=mutate_bytes)


def trusts_its_length(data: bytes) -> None:
    if len(data) >= 2:
        size = int.from_bytes(data[:2], "big")
        _ = data[2:][size - 1]


def test_an_unchecked_length_is_found_and_reported_once() -> None:
    report = engine.fuzz(target(trusts_its_length), seed=1, executions=300)
    (finding,) = report.findings.values()
    assert finding.signature == "IndexError test_fuzz_engine.py:trusts_its_length"
    assert engine.examine(target(trusts_its_length), finding.data) is not None


def test_the_same_seed_tries_the_same_inputs() -> None:
    tried: list[list[bytes]] = []
    for _ in range(2):
        seen: list[bytes] = []
        engine.fuzz(target(seen.append), seed=7, executions=50)
        tried.append(seen)
    assert tried[0] == tried[1]
    assert len(set(tried[0])) > 40


def test_an_input_that_never_ends_is_a_finding() -> None:
    def forever(_: bytes) -> None:
        while True:
            pass

    started = time.monotonic()
    with pytest.raises(TooSlowError), limit_resources(seconds=0.05):
        forever(b"")
    assert time.monotonic() - started < 5


def test_an_input_that_takes_all_memory_is_a_finding() -> None:
    with pytest.raises(MemoryError), limit_resources(more_bytes=64 << 20):
        bytearray(1 << 30)
    assert len(bytearray(128 << 20)) == 128 << 20, "the limit holds only within the block"


def test_a_finding_is_saved_and_can_be_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(TARGETS, "planted", target(trusts_its_length))
    finding = engine.examine(TARGETS["planted"], b"\x00\x09short")
    assert finding is not None
    path = finding.save(tmp_path)
    monkeypatch.setattr("sys.argv", ["fuzz", "--replay", str(path)])
    assert main() == 1
    assert "IndexError" in capsys.readouterr().out
    path.write_bytes(b"\x00\x05hello")
    assert main() == 0
    assert "nothing wrong" in capsys.readouterr().out


def test_archives_are_read_back_and_any_bytes_are_an_archive() -> None:
    files = {"a/b": b"1", "c": b"", "d": b"x" * 100}
    assert archive.unpack_files(archive.pack_files(files)) == files
    rng = Random(3)
    for size in range(200):
        files = archive.unpack_files(rng.randbytes(size))
        stored = archive.read_tree(archive.disk_of(files))
        assert stored.items() <= files.items()


@pytest.mark.parametrize("cls", common.request_types(), ids=lambda cls: f"{cls.__api_key__}-{cls.__version__}")
def test_most_generated_requests_are_well_formed(cls: object) -> None:
    """Otherwise the fuzzer would exercise only the first checks."""
    rng = Random(5)
    made = [generate.request(cls, common.pool(common.TOPIC), rng) for _ in range(30)]
    assert sum(_is_readable(frame) for frame in made) > 15


def _is_readable(frame: bytes) -> bool:
    try:
        entities.encode(codec.decode_request(frame)[1])
    except MalformedFrameError:
        return False
    return True
