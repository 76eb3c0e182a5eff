"""How lakes are named: by a path, a file:// URL, or the URL of an object store."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from insync.lake.store import LakeError, LocalStore, Store

OBJECT_SCHEMES = ("s3", "s3a")
VARIABLES = {
    "AWS_ACCESS_KEY_ID": "access_key_id",
    "AWS_SECRET_ACCESS_KEY": "secret_access_key",
    "AWS_SESSION_TOKEN": "session_token",
    "AWS_DEFAULT_REGION": "region",
    "AWS_REGION": "region",
    "AWS_ENDPOINT_URL": "endpoint",
    "AWS_ENDPOINT_URL_S3": "endpoint",
    "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "virtual_hosted_style_request",
}
"""The usual variables and the settings that they stand for; the later of two wins."""
SETTINGS = tuple(dict.fromkeys(VARIABLES.values()))
Location = str | Path | Store


def read_environment() -> dict[str, str]:
    """The settings of object stores in this process's environment."""
    return {name: os.environ[variable] for variable, name in VARIABLES.items() if os.environ.get(variable)}


def open_store(location: Location, settings: Mapping[str, str] | None = None) -> Store:
    """The store of a path, of a file:// URL, or of a URL of an object store; `settings` come before the environment's.

    It can be pickled, with the settings: executors need none of their own.
    """
    if isinstance(location, Store):
        return location
    text = str(location)
    scheme, _, rest = text.partition("://")
    if "://" not in text or scheme == "file":
        return LocalStore(Path(text.removeprefix("file://")))
    if scheme not in OBJECT_SCHEMES:
        known = " or ".join(f"{name}://bucket/path" for name in OBJECT_SCHEMES)
        raise LakeError(f"{text}: a lake is a directory, or {known}")
    if not rest.strip("/"):
        raise LakeError(f"{text}: the name of a bucket is missing")
    known_settings = {**read_environment(), **(settings or {})}
    return _open_object_store(f"s3://{rest.rstrip('/')}", tuple(sorted(known_settings.items())))


def _open_object_store(url: str, settings: tuple[tuple[str, str], ...]) -> Store:
    try:
        from insync.lake.objects import connect
    except ModuleNotFoundError as error:
        raise LakeError(f"{url} needs {error.name}: pip install 'insync[objects]'") from None
    return connect(url, settings)
