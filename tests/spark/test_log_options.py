"""The options of `format("insync-log")`."""

from __future__ import annotations

from pathlib import Path

import pytest

from insync.logdir.options import END, ROWS, ReadOptions
from insync.spark.log_options import read_log_options
from insync.spark.option_values import OptionError


def test_every_option_is_read(tmp_path: Path) -> None:
    for name in ("broker-1", "broker-2"):
        (tmp_path / name).mkdir()
    options = {
        "path": f"{tmp_path}/broker-*",
        "brokers": "4, 5",
        "topics": "t, u",
        "startingOffset": "10",
        "endingTimestamp": "20",
        "bound": "end",
        "corrupt": "rows",
        "includeControl": "true",
    }
    assert read_log_options(options) == ReadOptions(
        paths=(str(tmp_path / "broker-1"), str(tmp_path / "broker-2")),
        brokers=(4, 5),
        topics=("t", "u"),
        start_offset=10,
        end_time_ms=20,
        bound=END,
        corrupt=ROWS,
        include_control=True,
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": "/nowhere"}, "option 'path' names '/nowhere': there is no such directory"),
        ({"path": "/nowhere/*"}, "option 'path' names '/nowhere/\\*'"),
        ({"path": "[1]"}, "option 'path' is '\\[1\\]' \\(not a list of paths\\): write"),
        ({"path": ""}, "option 'path' is missing"),
        ({"bound": "hw"}, "option 'bound' is 'hw': hwm or end"),
        ({"corrupt": "skip"}, "option 'corrupt' is 'skip': fail or rows"),
        ({"includeControl": "yes"}, "option 'includeControl' is 'yes': true or false"),
        ({"startingOffset": "latest"}, "option 'startingOffset' is 'latest': a whole number"),
        ({"endingTimestamp": "-1"}, "option 'endingTimestamp' is '-1'"),
        ({"startingOffset": "1", "startingTimestamp": "1"}, "'startingOffset' or 'startingTimestamp', not both"),
        ({"endingOffset": "1", "endingTimestamp": "1"}, "'endingOffset' or 'endingTimestamp', not both"),
        ({"brokers": "one"}, "option 'brokers' is 'one'"),
        ({"brokers": "1,2"}, "option 'brokers' is '1,2': 2 ids for 1 directories"),
        ({"topic": "t"}, "unknown option 'topic' \\('t'\\)"),
    ],
)
def test_a_mistake_names_option_and_value(tmp_path: Path, options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        read_log_options({"path": str(tmp_path)} | options)
