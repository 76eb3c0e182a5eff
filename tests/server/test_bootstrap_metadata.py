"""bootstrap.checkpoint: the users that a new cluster begins with, as `insync format` and kafka-storage write them."""

from __future__ import annotations

from base64 import b64decode
from pathlib import Path

import pytest
from typer.testing import CliRunner

from insync.cli.main import app
from insync.metadata.security_records import to_scram_credential
from insync.security.scram import credential_of_salted_password, make_credential
from insync.server import bootstrap_metadata
from insync.server.bootstrap_metadata import ScramArgumentError, parse_scram_argument
from insync.server.startup_error import StartupError
from insync.server.storage_format import BOOTSTRAP_CHECKPOINT, format_directory, is_formatted
from insync.wire.metadata_records import UserScramCredentialRecord

ALICE = "SCRAM-SHA-256=[name=alice,password=secret,iterations=8192]"
SALT, SALTED = "MWx2NHBkbnc0ZndxN25vdGN4bTB5Y3k=", "mT0yyUUxnlaC99HOgRTSK7fpE1qpjKYsSj8w1gXsp1w="
BOB = f'SCRAM-SHA-512=[name=bob,salt="{SALT}",saltedpassword="{SALTED}"]'
KAFKAS_FILE = Path(__file__).parents[1] / "data/apache-kafka-metadata/bootstrap.checkpoint"


def is_password_of(record: UserScramCredentialRecord, mechanism: str, password: str) -> bool:
    credential = make_credential(mechanism, password, record.salt, record.iterations)
    return to_scram_credential(record) == credential


def read_users(directory: Path) -> list[UserScramCredentialRecord]:
    records = bootstrap_metadata.read(str(directory))
    users = [record for record in records if isinstance(record, UserScramCredentialRecord)]
    assert len(users) == len(records)
    return users


def test_users_have_the_passwords_that_they_were_given() -> None:
    alice, bob = parse_scram_argument(ALICE), parse_scram_argument(BOB)
    assert (alice.name, alice.mechanism, alice.iterations, len(alice.salt)) == ("alice", 1, 8_192, 24)
    assert is_password_of(alice, "SCRAM-SHA-256", "secret")
    assert (bob.name, bob.mechanism, bob.iterations) == ("bob", 2, 4_096)
    expected = credential_of_salted_password("SCRAM-SHA-512", b64decode(SALTED), b64decode(SALT), 4_096)
    assert to_scram_credential(bob) == expected
    assert alice.salt != parse_scram_argument(ALICE).salt
    with_salt = parse_scram_argument(f"SCRAM-SHA-256=[name=carol,password=p=q,salt={SALT}]")
    assert (with_salt.salt, is_password_of(with_salt, "SCRAM-SHA-256", "p=q")) == (b64decode(SALT), True)


@pytest.mark.parametrize(
    ("argument", "problem"),
    [
        ("alice", "begin with one of SCRAM-SHA-256, SCRAM-SHA-512"),
        ("SCRAM-SHA-1=[name=alice,password=secret]", "begin with"),
        ("SCRAM-SHA-256=name=alice,password=secret", "followed by"),
        ("SCRAM-SHA-256", "followed by"),
        ("SCRAM-SHA-256=[password=secret]", "name of the user"),
        ("SCRAM-SHA-256=[name=alice]", "needs a password"),
        ("SCRAM-SHA-256=[name=alice,password=]", "empty password"),
        ("SCRAM-SHA-256=[name=alice,password=sec,ret]", "comma"),
        ("SCRAM-SHA-256=[name=alice,saltedpassword=secret]", "lacks its salt"),
        ("SCRAM-SHA-256=[name=alice,saltedpassword=secret!,salt=YQ==]", "saltedpassword .* not base64"),
        ("SCRAM-SHA-256=[name=alice,password=secret,salt=!]", "salt .* not base64"),
        ("SCRAM-SHA-256=[name=alice,password=secret,iterations=4095]", "from 4096 to 16384"),
        ("SCRAM-SHA-256=[name=alice,password=secret,iterations=many]", "from 4096 to 16384"),
        ("SCRAM-SHA-256=[name=alice,password=secret,colour=red]", "not one of"),
    ],
)
def test_a_wrong_argument_is_refused_without_showing_the_password(argument: str, problem: str) -> None:
    with pytest.raises(ScramArgumentError, match=problem) as caught:
        parse_scram_argument(argument)
    assert "secret" not in str(caught.value)


def test_what_is_written_is_read_and_is_private(tmp_path: Path) -> None:
    users = (parse_scram_argument(ALICE), parse_scram_argument(BOB))
    format_directory(str(tmp_path / "d"), cluster_id="c", node_id=1, bootstrap=bootstrap_metadata.encode(users))
    assert bootstrap_metadata.read(str(tmp_path / "d")) == users
    assert (tmp_path / "d" / BOOTSTRAP_CHECKPOINT).stat().st_mode & 0o777 == 0o600


def test_the_file_that_kafka_storage_writes_is_read(tmp_path: Path) -> None:
    (tmp_path / BOOTSTRAP_CHECKPOINT).write_bytes(KAFKAS_FILE.read_bytes())
    alice, bob = read_users(tmp_path)
    assert (alice.name, bob.name) == ("alice", "bob")
    assert is_password_of(alice, "SCRAM-SHA-256", "secret")
    assert to_scram_credential(bob) == to_scram_credential(parse_scram_argument(BOB))


def test_a_directory_without_the_file_has_no_first_users(tmp_path: Path) -> None:
    assert bootstrap_metadata.read(str(tmp_path)) == ()


def test_a_damaged_file_is_not_taken_for_one_without_users(tmp_path: Path) -> None:
    (tmp_path / BOOTSTRAP_CHECKPOINT).write_bytes(KAFKAS_FILE.read_bytes()[:-1])
    with pytest.raises(StartupError, match="is damaged"):
        bootstrap_metadata.read(str(tmp_path))


def test_a_format_that_was_interrupted_can_be_repeated(tmp_path: Path) -> None:
    """The file comes before meta.properties and does not count as data."""
    (tmp_path / BOOTSTRAP_CHECKPOINT).write_bytes(bootstrap_metadata.encode((parse_scram_argument(ALICE),)))
    (tmp_path / f"{BOOTSTRAP_CHECKPOINT}.tmp").write_bytes(b"rest")
    assert not is_formatted(str(tmp_path))
    format_directory(
        str(tmp_path), cluster_id="c", node_id=1, bootstrap=bootstrap_metadata.encode((parse_scram_argument(BOB),))
    )
    assert [record.name for record in read_users(tmp_path)] == ["bob"]


def test_the_format_command_takes_users(tmp_path: Path) -> None:
    file = tmp_path / "node.properties"
    file.write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@127.0.0.1:9093\n"
        "listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093\ncontroller.listener.names=CONTROLLER\n"
        f"log.dirs={tmp_path / 'data'}\n"
    )
    runner = CliRunner()
    refused = runner.invoke(app, ["format", str(file), "--add-scram", "SCRAM-SHA-256=[name=alice,password=]"])
    assert (refused.exit_code, (tmp_path / "data").exists()) == (2, False)
    assert "empty password" in refused.output
    assert runner.invoke(app, ["format", str(file), "--add-scram", ALICE, "-S", BOB]).exit_code == 0
    assert [record.name for record in read_users(tmp_path / "data")] == ["alice", "bob"]
