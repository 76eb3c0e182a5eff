"""The reference pages of the documentation, from the code: settings, topic configs, metrics, log events, commands.

Each function returns one page in Markdown. `build_site` puts them into the site; the tests look for what is missing.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import click
import typer

from insync.cli.main import app
from insync.controller.config import ControllerConfig
from insync.groups.config import GroupConfig
from insync.metadata import config_docs, configs
from insync.node.config import NodeConfig
from insync.quorum.config import QuorumConfig
from insync.replication.config import ReplicationConfig
from insync.server import property_keys
from insync.server.limits import Limits
from insync.server.notes import DEBUG_KINDS, ERROR_KINDS, WARNING_KINDS

SOURCE = Path(inspect.getfile(NodeConfig)).parents[1]
CONFIG_CLASSES: Mapping[str, Any] = {
    "node": NodeConfig,
    "quorum": QuorumConfig,
    "controller": ControllerConfig,
    "replication": ReplicationConfig,
    "groups": GroupConfig,
    "limits": Limits,
}
NOTE_METHODS = ("note", "_note")
PREFIX = "insync_"
METRIC_FUNCTIONS = ("MetricFamily", "_gauge", "_counter")


# --- settings --------------------------------------------------------------------------------------------------------


def settings_page() -> str:
    rows = [_setting_row(name, targets[0]) for name, targets in sorted(property_keys.SETTINGS.items())]
    brokers = [_config_row(key) for key in sorted(configs.BROKER_KEYS.values(), key=lambda key: key.name)]
    return "\n".join(
        (
            "# Settings of a node",
            "",
            "What `insync node FILE` reads, under Kafka's names; those that begin with `insync.` are ours. Listeners "
            "and security have a [guide](../guides/security.md). `insync up --set NAME=VALUE` passes a setting to "
            "every node of a local cluster.",
            "",
            "## Times, sizes and limits",
            "",
            *_table(("setting", "default", "what it does"), rows),
            "",
            "## Defaults of topic configs",
            "",
            "Most can also be changed while the cluster runs, for one broker or for all.",
            "",
            *_table(("setting", "default", "values", "what it does"), brokers),
            "",
            "## Identity and listeners",
            "",
            ", ".join(f"`{name}`" for name in sorted(property_keys.STRUCTURAL)),
            "",
            "## Accepted without effect",
            "",
            "A properties file of Kafka may have them: "
            + ", ".join(f"`{name}`" for name in sorted(property_keys.UNUSED)),
            "",
        )
    )


def _setting_row(name: str, target: tuple[str, str, Any]) -> tuple[str, ...]:
    part, field_name, _ = target
    defaults = (
        {field.name: field.default for field in fields(CONFIG_CLASSES[part]) if field.default is not MISSING}
        if part in CONFIG_CLASSES
        else {}
    )
    text = _field_docs(CONFIG_CLASSES[part]).get(field_name, "") if part in CONFIG_CLASSES else ""
    return (f"`{name}`", _value(defaults.get(field_name, "")), text)


def _field_docs(cls: type) -> dict[str, str]:
    """The docstring below each field of a dataclass."""
    tree = ast.parse(inspect.getsource(cls)).body[0]
    assert isinstance(tree, ast.ClassDef)
    docs: dict[str, str] = {}
    for before, node in zip(tree.body, tree.body[1:], strict=False):
        is_text = (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        )
        if is_text and isinstance(before, ast.AnnAssign) and isinstance(before.target, ast.Name):
            docs[before.target.id] = inspect.cleandoc(ast.literal_eval(ast.unparse(node.value))).replace("\n", " ")  # type: ignore[attr-defined]
    return docs


def topic_configs_page() -> str:
    rows = [_config_row(key) for key in sorted(configs.TOPIC_KEYS.values(), key=lambda key: key.name)]
    return "\n".join(
        (
            "# Topic configs",
            "",
            "`insync topic alter NAME --set KEY=VALUE` changes one; `insync topic describe` shows what is in force.",
            "",
            *_table(("config", "default", "values", "what it does"), rows),
            "",
        )
    )


def _config_row(key: configs.ConfigKey) -> tuple[str, ...]:
    values = ", ".join(key.choices) if key.choices else key.kind
    return (f"`{key.name}`", _value(key.default), values, config_docs.DOCS.get(key.name, ""))


# --- metrics and events ----------------------------------------------------------------------------------------------


def metrics_page() -> str:
    rows = sorted(set(_metrics()))
    return "\n".join(
        (
            "# Metrics",
            "",
            "Every node serves them at `/metrics` of its metrics port, in Prometheus' format. Where Kafka has the same "
            "one, the text begins with its name.",
            "",
            *_table(("metric", "what it counts"), [(f"`{name}`", text) for name, text in rows]),
            "",
        )
    )


def _metrics() -> Iterator[tuple[str, str]]:
    for path in sorted((SOURCE / "server").glob("*metrics*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and len(node.args) >= 2:
                function = _function_name(node)
                name, text = (_constant(argument) for argument in node.args[:2])
                if (
                    name is not None
                    and text is not None
                    and (function.endswith("MetricFamily") or function in ("_gauge", "_counter"))
                ):
                    suffix = "_total" if function in ("_counter", "CounterMetricFamily") else ""
                    yield f"{PREFIX}{name.removeprefix(PREFIX)}{suffix}", text


def events_page() -> str:
    rows = [(f"`{kind}`", _level(kind), ", ".join(f"`{name}`" for name in sorted(names))) for kind, names in _events()]
    return "\n".join(
        (
            "# Log events",
            "",
            "A node writes one line for each: `time=… level=… node=… event=KIND` and the fields below. `insync logs` "
            "prints them, and the simulator's stories consist of the same events.",
            "",
            *_table(("event", "level", "fields"), rows),
            "",
        )
    )


def _events() -> list[tuple[str, set[str]]]:
    kinds: dict[str, set[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        if path.relative_to(SOURCE).parts[0] in ("sim", "testing", "cluster"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and _function_name(node) in NOTE_METHODS and node.args:
                kind = _constant(node.args[0])
                if kind is not None and kind.replace("_", "").isalpha():
                    kinds.setdefault(kind, set()).update(word.arg for word in node.keywords if word.arg)
    return sorted(kinds.items())


def _level(kind: str) -> str:
    if kind in ERROR_KINDS:
        return "ERROR"
    return "WARN" if kind in WARNING_KINDS else "DEBUG" if kind in DEBUG_KINDS else "INFO"


# --- commands --------------------------------------------------------------------------------------------------------


def commands_page() -> str:
    root: Any = typer.main.get_command(app)
    lines = ["# Commands", "", "`insync COMMAND --help` prints the same in the terminal.", ""]
    for path, command in list_commands(root):
        depth = "##" if len(path) == 1 else "###"
        lines += [f"{depth} insync {' '.join(path)}", "", _paragraph(command.help or ""), ""]
        if not hasattr(command, "list_commands"):
            context = click.Context(command, info_name=f"insync {' '.join(path)}")
            lines += ["```text", " ".join(command.get_usage(context).removeprefix("Usage: ").split()), "```", ""]
            rows = [_option_row(parameter) for parameter in command.params if not getattr(parameter, "hidden", False)]
            lines += [*_table(("option", "what it does"), rows), ""] if rows else []
    return "\n".join(lines)


def list_commands(root: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """All commands and groups of commands below this one."""
    context = click.Context(root, info_name="insync")
    for name in root.list_commands(context):
        command = root.get_command(context, name)
        yield (name,), command
        if hasattr(command, "list_commands"):
            for path, below in list_commands(command):
                yield (name, *path), below


def _option_row(parameter: Any) -> tuple[str, ...]:
    if parameter.param_type_name == "argument":
        name = f"`{parameter.metavar or parameter.name.upper()}`"
    else:
        name = ", ".join(f"`{option}`" for option in (*parameter.opts, *parameter.secondary_opts))
    text = getattr(parameter, "help", "") or ""
    default = parameter.default
    if parameter.param_type_name == "option" and not callable(default) and default not in (None, False, "", ()):
        text = f"{text} Default: {_value(default)}."
    return (name, " ".join(text.split()))


# --- Markdown --------------------------------------------------------------------------------------------------------


def _table(headings: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    line = "|".join(("", *headings, ""))
    return [
        line,
        "|".join(("", *("---" for _ in headings), "")),
        *("|".join(("", *map(_cell, row), "")) for row in rows),
    ]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _value(value: Any) -> str:
    return f"`{value}`" if value not in ("", None, ()) else ""


def _paragraph(text: str) -> str:
    return " ".join(inspect.cleandoc(text).split())


def _function_name(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")


def _constant(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


PAGES = {
    "commands": commands_page,
    "settings": settings_page,
    "topic-configs": topic_configs_page,
    "metrics": metrics_page,
    "events": events_page,
}
