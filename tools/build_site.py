"""Builds the documentation site: `python tools/build_site.py [DIRECTORY]`, by default build/site/html.

The pages are those of docs/ and of the root directory, as they are, and the reference pages that `reference_pages`
makes from the code. Search works without a server. Warnings are errors: a page that no other leads to, or a broken link
within the site, ends the build.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import reference_pages

REPOSITORY = Path(__file__).parents[1]
SOURCE = REPOSITORY / "build" / "site" / "source"
ROOT_PAGES = ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
API = """# Python API

What `import insync` shows. Everything else is private.

## Clusters

```{eval-rst}
.. autoclass:: insync.cluster.cluster.Cluster
   :members:
.. autoclass:: insync.cluster.async_cluster.AsyncCluster
.. autoclass:: insync.cluster.records.ReceivedRecord
```

## The simulator

```{eval-rst}
.. autoclass:: insync.sim.Simulation
   :members:
```

## The client

```{eval-rst}
.. automodule:: insync.client
.. autoclass:: insync.client.Client
   :members:
.. autoclass:: insync.client.SyncClient
   :members:
.. autoclass:: insync.client.Producer
   :members:
.. autoclass:: insync.client.Reader
   :members:
```

## Spark

```{eval-rst}
.. automodule:: insync.spark
```
"""


def collect(source: Path) -> None:
    """Put all pages of the site into a directory, laid out as in the repository so that links between them hold."""
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(REPOSITORY / "docs", source / "docs")
    for name in ROOT_PAGES:
        shutil.copy(REPOSITORY / name, source / name)
    for name in ("conf.py", "index.md"):
        shutil.copy(REPOSITORY / "tools" / "docs" / name, source / name)
    reference = source / "docs" / "reference"
    reference.mkdir()
    for name, page in reference_pages.PAGES.items():
        (reference / f"{name}.md").write_text(page(), encoding="utf-8")
    (reference / "api.md").write_text(API, encoding="utf-8")


def main() -> int:
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else REPOSITORY / "build" / "site" / "html"
    collect(SOURCE)
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", str(SOURCE), str(target)]
    result = subprocess.run(command, check=False).returncode
    if result == 0:
        print(f"open {target / 'index.html'}")
    return result


if __name__ == "__main__":
    sys.exit(main())
