"""What nodes need to know of a certificate: its subject, its other names, and until when it is valid.

The subject is in the notation of Java's `X500Principal.getName()`, in which Kafka names TLS clients: RFC 2253 with
Java's choices. The last attribute of the certificate comes first, nine attribute types have names, and the values of
all others are written as hexadecimal DER. OpenSSL has verified or loaded the certificate before, so its DER is only
walked, not checked, and no library is needed for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

_OCTETS, _UTC_TIME, _SEQUENCE, _VERSION, _EXTENSIONS = 0x04, 0x17, 0x30, 0xA0, 0xA3
_ALTERNATIVE_NAMES = "2.5.29.17"
_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_ENCODINGS = {12: "utf-8", 19: "ascii", 20: "latin-1", 22: "ascii", 27: "ascii", 28: "utf-32-be", 30: "utf-16-be"}
"""Of the string types: UTF8, Printable, T61, IA5, General, Universal, BMP."""
_ESCAPED = ',=+<>#;"\\'


class CertificateError(ValueError):
    """The bytes are not a certificate."""


def subject_name(certificate: bytes) -> str:
    """`certificate`: DER."""
    try:
        relative_names = [
            "+".join(_attribute(attribute) for attribute in _children(relative_name))
            for relative_name in _children(_fields(certificate)[4])
        ]
    except (IndexError, ValueError) as error:
        raise CertificateError("The subject of the certificate cannot be read.") from error
    return ",".join(reversed(relative_names))


def alternative_names(certificate: bytes) -> frozenset[bytes]:
    """The names and addresses that the certificate is for, as DER."""
    try:
        for extensions in (field for field in _fields(certificate) if field[0] == _EXTENSIONS):
            for extension in _children(next(_children(extensions))):
                kind, *_, value = _children(extension)
                if _oid(_content(kind)) == _ALTERNATIVE_NAMES and value[0] == _OCTETS:
                    return frozenset(_children(_content(value)))
    except (IndexError, ValueError, StopIteration) as error:
        raise CertificateError("The extensions of the certificate cannot be read.") from error
    return frozenset()


def valid_until(certificate: bytes) -> datetime:
    try:
        _, last = _children(_fields(certificate)[3])
        text = _content(last).decode("ascii")
        form = "%y%m%d%H%M%SZ" if last[0] == _UTC_TIME else "%Y%m%d%H%M%SZ"
        return datetime.strptime(text, form).replace(tzinfo=UTC)
    except (IndexError, ValueError) as error:
        raise CertificateError("The validity of the certificate cannot be read.") from error


def _fields(certificate: bytes) -> list[bytes]:
    """serial, algorithm, issuer, validity, subject, key, and what is optional."""
    try:
        body = next(_children(certificate))
    except StopIteration:
        raise ValueError("empty") from None
    return [field for field in _children(body) if field[0] != _VERSION]


def _attribute(attribute: bytes) -> str:
    kind, value = _children(attribute)
    oid = _oid(_content(kind))
    keyword, encoding = _KEYWORDS.get(oid), _ENCODINGS.get(value[0])
    if keyword is None or encoding is None:
        return f"{keyword or oid}=#{value.hex()}"
    return f"{keyword}={_escape(_content(value).decode(encoding))}"


def _escape(text: str) -> str:
    escaped = "".join(f"\\{letter}" if letter in _ESCAPED else "\\00" if letter == "\0" else letter for letter in text)
    leading = len(escaped) - len(escaped.lstrip(" "))
    inner = escaped.strip(" ")
    trailing = len(escaped) - leading - len(inner)
    return "\\ " * leading + inner + "\\ " * trailing


def _children(element: bytes) -> Iterator[bytes]:
    """The elements inside this one, each with its tag and length."""
    content, at = _content(element), 0
    while at < len(content):
        start, length = _extent(content, at)
        yield content[at : start + length]
        at = start + length


def _content(element: bytes) -> bytes:
    start, length = _extent(element, 0)
    return element[start : start + length]


def _extent(data: bytes, at: int) -> tuple[int, int]:
    """(where the content of the element at `at` begins, its length)"""
    length = data[at + 1]
    start = at + 2
    if length >= 0x80:
        start += length & 0x7F
        length = int.from_bytes(data[at + 2 : start], "big")
    if start + length > len(data):
        raise ValueError("truncated")
    return start, length


def _oid(content: bytes) -> str:
    numbers, number = [], 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))
