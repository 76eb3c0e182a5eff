"""The pictures in the protocol's chapters are what their scenarios do."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from draw_scenarios import DRAWN, TARGET, divide, draw, list_frames
from insync.sim.scenario.library import read_scenario

PROTOCOL = TARGET.parents[1] / "protocol"


@pytest.mark.parametrize("name", DRAWN)
def test_a_picture_shows_its_scenario_in_its_chapter(name: str) -> None:
    picture = draw(list_frames(read_scenario(name)), name.replace("_", " "))
    assert (TARGET / f"{name}.svg").read_text(encoding="utf-8") == picture, "python tools/draw_scenarios.py draws them"
    assert f"../images/scenarios/{name}.svg" in (PROTOCOL / f"{DRAWN[name]}.md").read_text(encoding="utf-8")
    assert ET.fromstring(picture).tag.endswith("svg")


def test_comments_divide_a_scenario() -> None:
    text = "# first\n# line\nstep 1\n\nstep 2\n# second\nstep 3\n"
    assert list(divide(text)) == [("first line", ["step 1", "step 2"]), ("second", ["step 3"])]


def test_what_the_leader_does_not_have_is_struck_through() -> None:
    """D3: the records C and D of the crashed leader, then nothing once it has truncated."""
    frames = list_frames(read_scenario("divergence_c"))
    strikes = [draw([frame], "").count('class="strike"') for frame in frames]
    assert strikes == [0, 2, 0]
