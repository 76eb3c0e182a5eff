"""Commands and code in README.md and the guides run as they are printed.

The documents that need Java are run by tests/spark/test_documents_with_spark.py, those that need Apache Kafka by
interop/java/test_documents_with_kafka.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from document_blocks import DOCUMENTS, document_needs, documents_that_need, find_mistakes, read_blocks, run_document
from tests.polling import wait_until


@pytest.mark.parametrize("document", documents_that_need(None), ids=lambda document: document.name)
def test_every_block_of_a_document_runs(document: Path, tmp_path: Path) -> None:
    outputs = run_document(document, tmp_path)
    assert len(outputs) == len([block for block in read_blocks(document) if block.reason is None])


def test_most_blocks_are_run() -> None:
    blocks = [block for document in DOCUMENTS for block in read_blocks(document)]
    assert len(blocks) > 40
    assert len([block for block in blocks if block.reason is not None]) < len(blocks) / 4
    assert {block.language for block in blocks} == {"sh", "python"}


def test_every_document_is_run_by_one_test() -> None:
    by_need = [*documents_that_need(None), *documents_that_need("Java"), *documents_that_need("Apache Kafka")]
    assert sorted(by_need) == sorted(document for document in DOCUMENTS if read_blocks(document))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_every_block_has_a_language_and_says_what_it_needs(document: Path) -> None:
    assert find_mistakes(document) == []


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        (
            "<!-- not run: no time -->\n```sh\ntrue\n```\n",
            "a.md:2: the reason not to run it, 'no time', ",
        ),
        ("<!-- needs luck -->\n```sh\ntrue\n```\n", "a.md:2: the need, 'luck', is not one of: Java, Apache Kafka"),
        ("```\ntrue\n```\n", "a.md:1: the language, '', is not one of: sh, python, "),
    ],
)
def test_unknown_reasons_needs_and_languages_are_mistakes(tmp_path: Path, text: str, mistake: str) -> None:
    (tmp_path / "a.md").write_text(text)
    (found,) = find_mistakes(tmp_path / "a.md")
    assert found.startswith(mistake)


def test_a_document_has_one_shell_and_one_python(tmp_path: Path) -> None:
    document = tmp_path / "a.md"
    document.write_text(
        "```sh\nexport WHO=me\nmkdir here && cd here\nsleep 60 &\n```\n\n"
        "```python\nimport os\n\nwho = os.getpid()\n```\n\n"
        "<!-- not run: takes too long -->\n```sh\nfalse\n```\n\n"
        "```text\nno command\n```\n\n"
        "```sh\necho $WHO in ${PWD##*/}\nkill %1\n```\n\n"
        "```python\nprint(os.getpid() - who)\n```\n"
    )
    outputs = run_document(document, tmp_path)
    assert list(outputs.values()) == ["", "", "me in here\n", "0\n"]
    assert document_needs(document) == set()


@pytest.mark.parametrize(
    ("block", "complaint"),
    [
        ("```sh\necho before\nfalse\necho after\n```\n", r"a.md:3: exit code 1\nbefore\n$"),
        (
            "```python\nprint('before', flush=True)\nopen('nowhere')\n```\n",
            r"exit code 1\nbefore\n(.*\n)*.*nowhere",
        ),
        ("```python\ndef test_it():\n    assert 1 == 2\n```\n", r"a.md:3: exit code 1\n(.*\n)*.*assert 1 == 2"),
    ],
)
def test_a_block_that_fails_shows_its_output(tmp_path: Path, block: str, complaint: str) -> None:
    (tmp_path / "a.md").write_text(f"text\n\n{block}")
    with pytest.raises(AssertionError, match=complaint):
        run_document(tmp_path / "a.md", tmp_path)


def test_what_a_document_starts_ends_with_it(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("```sh\nsleep 600 &\necho $!\n```\n")
    (output,) = run_document(tmp_path / "a.md", tmp_path).values()
    status = Path(f"/proc/{output.strip()}/status")
    wait_until(lambda: not status.exists() or "(zombie)" in status.read_text(), "sleep has ended")
