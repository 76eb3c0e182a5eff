"""The Dockerfile and compose.yaml: their commands and options exist, and the ports agree. Docker itself is not run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import typer
from typer.main import get_group

from insync.cli.main import app

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
COMPOSE = (ROOT / "compose.yaml").read_text()


def docker_list(instruction: str) -> list[str]:
    """The words of an instruction in its form with brackets."""
    match = re.search(rf"^{instruction}\b.*?(\[.*\])$", DOCKERFILE, re.MULTILINE)
    assert match is not None
    words: list[str] = json.loads(match[1])
    return words


def compose_list(key: str) -> list[str]:
    match = re.search(rf"^ *{key}:\s*(\[.*\])$", COMPOSE, re.MULTILINE)
    assert match is not None
    words: list[str] = json.loads(match[1])
    return words


def parse(words: list[str]) -> dict[str, object]:
    """The options of a command as `insync` reads them."""
    group = get_group(app)
    command = group.get_command(typer.Context(group), words[0])
    assert command is not None
    return command.make_context(words[0], words[1:]).params


@pytest.mark.parametrize("words", [docker_list("CMD"), compose_list("command")])
def test_a_container_starts_a_cluster_that_its_published_ports_reach(words: list[str]) -> None:
    options = parse(words)
    assert (options["host"], str(options["data"])) == ("0.0.0.0", "/data")
    assert (options["port"], options["metrics_port"]) == (9092, 9192)
    for ports in ("9092-9094", "9192-9194"):
        assert f'"{ports}:{ports}"' in COMPOSE
        assert ports in DOCKERFILE


def test_a_health_check_waits_no_longer_than_docker_does() -> None:
    for words in (docker_list("HEALTHCHECK")[1:], compose_list("test")[2:]):
        assert parse(words)["timeout"] == 10.0
    assert "--timeout=20s" in DOCKERFILE
    assert "timeout: 20s" in COMPOSE


def test_what_the_image_copies_is_there() -> None:
    for line in re.findall(r"^COPY (.*)$", DOCKERFILE, re.MULTILINE):
        *sources, _ = line.split()
        assert all((ROOT / source).exists() for source in sources)
        assert all(f"!{source}" in (ROOT / ".dockerignore").read_text() for source in sources)
