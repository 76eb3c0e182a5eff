"""The lakes' tests run in a directory and in an object store."""

from __future__ import annotations

from tests.lake.lake_stores import place

__all__ = ["place"]
