"""bootstrap.checkpoint: what a new cluster begins with, written when its directories are formatted (KIP-900).

Nodes that authenticate by SCRAM need credentials before there is a cluster that could create them. `insync format
--add-scram` and Kafka's kafka-storage write them into this file, a snapshot of the metadata log; the first controller
of a new cluster puts them into its log. A local cluster with security begins with ACLs too. Of Kafka's file only these
two count: the levels of features are those that this release supports.
"""

from __future__ import annotations

import os
import secrets
from base64 import b64decode

from insync.controller.config import FEATURES
from insync.metadata.security_records import to_scram_record
from insync.quorum import snapshot_store
from insync.quorum.messages import OffsetAndEpoch
from insync.security.scram import (
    HASHES,
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    SALT_BYTES,
    credential_of_salted_password,
    make_credential,
)
from insync.server.startup_error import StartupError
from insync.server.storage_format import BOOTSTRAP_CHECKPOINT
from insync.wire import metadata_records
from insync.wire.errors import MalformedFrameError, UnknownApiError
from insync.wire.metadata_records import (
    AccessControlEntryRecord,
    FeatureLevelRecord,
    MetadataRecord,
    UserScramCredentialRecord,
)

_FIELDS = ("name", "password", "saltedpassword", "salt", "iterations")


class ScramArgumentError(ValueError):
    """The text of an --add-scram option cannot be read. Its message contains no password."""


def encode(first_records: tuple[MetadataRecord, ...]) -> bytes:
    """`first_records`: credentials and ACLs."""
    records: list[MetadataRecord] = [FeatureLevelRecord(name=name, feature_level=level) for name, level in FEATURES]
    records += first_records
    payloads = [metadata_records.encode(record) for record in records]
    return bytes(snapshot_store.encode(payloads, OffsetAndEpoch(0, 0), 0))


def read(directory: str) -> tuple[MetadataRecord, ...]:
    """The credentials and ACLs in the directory's bootstrap.checkpoint; none if there is no such file."""
    path = os.path.join(directory, BOOTSTRAP_CHECKPOINT)
    try:
        with open(path, "rb") as file:
            payloads = snapshot_store.decode(file.read())
    except FileNotFoundError:
        return ()
    if payloads is None:
        raise StartupError(
            f"{path} is damaged. Format the directory again, or remove the file if this cluster has run before."
        )
    first_records: list[MetadataRecord] = []
    for payload in payloads:
        try:
            record = metadata_records.decode(payload)
        except UnknownApiError:  # a record of a later Kafka
            continue
        except MalformedFrameError as error:
            raise StartupError(
                f"{path} has a record that cannot be read ({error}). "
                "Format the directory again, or remove the file if this cluster has run before."
            ) from None
        if isinstance(record, UserScramCredentialRecord | AccessControlEntryRecord):
            first_records.append(record)
    return tuple(first_records)


def parse_scram_argument(text: str) -> UserScramCredentialRecord:
    """Kafka's syntax: SCRAM-SHA-256=[name=alice,password=secret,iterations=8192], also with salt and saltedpassword."""
    mechanism, separator, fields_text = text.strip().partition("=")
    if mechanism not in HASHES:
        raise ScramArgumentError(f"--add-scram has to begin with one of {', '.join(HASHES)}, and '='.")
    if not separator or not fields_text.startswith("[") or not fields_text.endswith("]"):
        raise ScramArgumentError(f"--add-scram {mechanism}= has to be followed by [name=...,password=...].")
    fields = {}
    for part in fields_text[1:-1].split(","):
        key, separator, value = part.partition("=")
        if not separator or key.strip() not in _FIELDS:
            raise ScramArgumentError(
                f"--add-scram {mechanism} has a field that is not one of {', '.join(_FIELDS)} with '=' and a value. "
                "A password with a comma has to be given as saltedpassword."
            )
        is_quoted = len(value) >= 2 and value.startswith('"') and value.endswith('"')
        fields[key.strip()] = value[1:-1] if is_quoted else value
    return _make_record(mechanism, fields)


def _make_record(mechanism: str, fields: dict[str, str]) -> UserScramCredentialRecord:
    name, where = fields.get("name", ""), f"--add-scram {mechanism}"
    if not name:
        raise ScramArgumentError(f"{where} needs the name of the user: [name=...].")
    where = f"{where} of user {name}"
    iterations_text = fields.get("iterations", str(MIN_ITERATIONS))
    iterations = int(iterations_text) if iterations_text.isdecimal() else 0
    if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
        raise ScramArgumentError(f"{where} needs iterations from {MIN_ITERATIONS} to {MAX_ITERATIONS}.")
    salt = _decode(fields["salt"], f"salt in {where}") if "salt" in fields else secrets.token_bytes(SALT_BYTES)
    if "password" in fields:
        if not fields["password"]:
            raise ScramArgumentError(f"{where} has an empty password.")
        credential = make_credential(mechanism, fields["password"], salt, iterations)
    elif "saltedpassword" not in fields:
        raise ScramArgumentError(f"{where} needs a password, or a saltedpassword and its salt.")
    elif "salt" not in fields:
        raise ScramArgumentError(f"{where} has a saltedpassword and lacks its salt.")
    else:
        salted = _decode(fields["saltedpassword"], f"saltedpassword in {where}")
        credential = credential_of_salted_password(mechanism, salted, salt, iterations)
    return to_scram_record(mechanism, name, credential)


def _decode(text: str, where: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise ScramArgumentError(f"The {where} is not base64.") from None
