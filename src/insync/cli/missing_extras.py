"""Stand-ins for packages of an extra that is not installed, so that the help of its commands can be shown.

    missing = list_missing(("pyspark", "pyarrow"))
    with stand_ins(missing):
        import insync.cli.pipeline_audit      # imports pyspark, and can be asked for its options

The modules below a command import their packages at the top, as modules do. Stand-ins let these imports succeed; what
they import can be named and called, and does nothing. A command must not run with them: `require` is called first.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from insync.cli.exits import usage_error


def list_missing(packages: Sequence[str]) -> list[str]:
    return [package for package in packages if not _is_installed(package)]


def require(packages: Sequence[str], extra: str, what: str) -> None:
    """Exit code 2 unless all are installed."""
    if missing := list_missing(packages):
        raise usage_error(f"{what} needs {', '.join(missing)}: pip install 'insync[{extra}]'")


@contextmanager
def stand_ins(packages: Sequence[str]) -> Iterator[None]:
    """Inside, imports of these packages and of their modules succeed."""
    finder = _Finder(packages)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


def _is_installed(package: str) -> bool:
    try:
        return not isinstance(sys.modules.get(package), _StandIn) and find_spec(package) is not None
    except (ImportError, ValueError):
        return False


class _StandInClass(type):
    """A class that can be a base class, be called, indexed and combined by operators; the result is another one."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _make(name)

    def _result(cls, *_arguments: Any, **_options: Any) -> Any:
        return _make(cls.__name__)

    __call__ = __getitem__ = __or__ = __ror__ = __add__ = __radd__ = __sub__ = __mul__ = __neg__ = _result
    __lshift__ = __rlshift__ = __and__ = __invert__ = _result


def _make(name: str) -> Any:
    is_error = name.endswith(("Error", "Exception"))
    return type(name, (Exception,), {}) if is_error else type.__call__(_StandInClass, name, (), {})


class _StandIn(ModuleType):
    __version__ = "99.0.0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = _make(name)
        setattr(self, name, value)
        return value


class _Finder(MetaPathFinder, Loader):
    def __init__(self, packages: Sequence[str]) -> None:
        self._packages = packages

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name.partition(".")[0] not in self._packages:
            return None
        return ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing to execute."""
