"""The reference pages name everything that the code has, in words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer

import build_site
import reference_pages
from insync.cli.main import app
from insync.metadata import configs
from insync.server import property_keys


def test_every_command_is_there_with_its_options() -> None:
    page = reference_pages.commands_page()
    commands = list(reference_pages.list_commands(typer.main.get_command(app)))
    assert ("topic", "create") in {path for path, _ in commands}
    for path, command in commands:
        assert f"# insync {' '.join(path)}\n" in page
        for parameter in command.params:
            for option in getattr(parameter, "opts", ()):
                assert f"`{option}`" in page or parameter.param_type_name == "argument"


def test_every_setting_and_config_is_there() -> None:
    settings, topics = reference_pages.settings_page(), reference_pages.topic_configs_page()
    for name in (*property_keys.SETTINGS, *configs.BROKER_KEYS, *property_keys.STRUCTURAL):
        assert f"`{name}`" in settings
    for name in configs.TOPIC_KEYS:
        assert f"`{name}`" in topics


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("metrics", ("insync_leader_count", "insync_isr_shrinks_total", "insync_request_seconds")),
        ("events", ("became_leader", "truncated", "leader_elected", "broker_fenced", "quorum_leader")),
    ],
)
def test_metrics_and_events_are_found_in_the_code(page: str, names: tuple[str, ...]) -> None:
    text = reference_pages.PAGES[page]()
    for name in names:
        assert f"`{name}`" in text


@pytest.mark.parametrize("page", reference_pages.PAGES)
def test_rows_have_as_many_cells_as_their_headings(page: str) -> None:
    for table in re.findall(r"(?:^\|.*\n)+", reference_pages.PAGES[page](), re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}) == 1


def test_the_site_has_every_page_and_an_index_that_leads_to_them(tmp_path: Path) -> None:
    build_site.collect(tmp_path / "source")
    source = tmp_path / "source"
    index = (source / "index.md").read_text(encoding="utf-8")
    trees = re.findall(r"^```\{toctree\}\n(.*?)^```$", index, re.MULTILINE | re.DOTALL)
    entries = [line for tree in trees for line in tree.splitlines() if line and not line.startswith(":")]
    listed = {entry: list(source.glob(f"{entry}.md")) for entry in entries}
    assert [entry for entry, pages in listed.items() if not pages] == []
    assert set(source.rglob("*.md")) - {page for pages in listed.values() for page in pages} == {source / "index.md"}
