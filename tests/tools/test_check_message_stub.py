"""An outdated stub of the messages is reported."""

from __future__ import annotations

from pathlib import Path

import pytest

import check_message_stub
import make_message_stub


def test_the_stub_in_the_repository_is_current() -> None:
    assert check_message_stub.main() == 0


@pytest.mark.parametrize("content", [None, "", "class fetch: ..."])
def test_another_or_no_stub_is_reported(
    content: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stub = tmp_path / "messages.pyi"
    if content is not None:
        stub.write_text(content)
    assert check_message_stub.main(stub) == 1
    assert "make_message_stub.py" in capsys.readouterr().out


def test_fields_have_plain_types() -> None:
    stub = make_message_stub.make_stub()
    assert "        current_leader: fetch.LeaderIdAndEpoch = ...\n" in stub
    assert "        records: Bytes | None\n" in stub
    assert "        cluster_id: str | None = ...\n" in stub
    assert "        throttle_time: timedelta\n" in stub
