"""Option groups: options that several commands share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer
from typer.testing import CliRunner, Result

from insync.cli.option_groups import expand_groups


@dataclass(frozen=True, kw_only=True)
class Place:
    host: Annotated[str, typer.Option("--host")] = "localhost"
    port: Annotated[int, typer.Option("--port")] = 9092


@dataclass(frozen=True, kw_only=True)
class Style:
    loud: Annotated[bool, typer.Option("--loud")] = False


def greet(
    name: Annotated[str, typer.Argument(metavar="NAME")],
    *,
    place: Place,
    times: Annotated[int, typer.Option("--times")] = 1,
    style: Style,
) -> None:
    """Greet."""
    typer.echo(f"{name} {place} {times} {style}")


def run(*arguments: str) -> Result:
    app = typer.Typer()
    app.command()(expand_groups(greet))
    return CliRunner().invoke(app, list(arguments))


def test_a_command_receives_its_groups_with_the_given_values() -> None:
    result = run("ada", "--port", "1", "--loud", "--times", "2")
    assert result.output == f"ada {Place(port=1)} 2 {Style(loud=True)}\n"


def test_options_that_are_not_given_have_the_defaults_of_the_group() -> None:
    assert run("ada").output == f"ada {Place()} 1 {Style()}\n"


def test_a_wrong_value_is_refused_like_that_of_any_option() -> None:
    result = run("ada", "--port", "high")
    assert result.exit_code == 2
    assert "--port" in result.output


def test_help_lists_the_options_where_the_function_has_the_group() -> None:
    text = run("--help").output
    places = [text.index(option) for option in ("--host", "--port", "--times", "--loud")]
    assert places == sorted(places)


def test_a_command_without_groups_stays_as_it_is() -> None:
    def plain(name: str) -> None: ...

    assert expand_groups(plain) is plain
    assert expand_groups(None) is None
