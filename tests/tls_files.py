"""Certificates and keys for tests; tests/data/tls/README.md says how they were made."""

from pathlib import Path

TLS = Path(__file__).parent / "data" / "tls"
