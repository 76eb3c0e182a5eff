"""What can be wrong with a value, and with a schema."""

from __future__ import annotations


class SchemaError(ValueError):
    """A schema that cannot be parsed, is not supported, or cannot read what another one has written."""


class RegistryError(Exception):
    """A schema registry that cannot be reached or refuses to answer."""


class MalformedValueError(ValueError):
    """A value that cannot be decoded, in a query that asked to fail then."""


GOOD = 0
FULL = -1
(
    TRUNCATED,
    BAD_VARINT,
    BAD_LENGTH,
    BAD_COUNT,
    BAD_BRANCH,
    BAD_SYMBOL,
    BAD_BOOLEAN,
    BAD_UTF8,
    BAD_RANGE,
    BAD_TYPE,
    BAD_SYNTAX,
    BAD_STRING,
    BAD_NUMBER,
    TRAILING,
    TOO_DEEP,
    DUPLICATE,
    BAD_KEY,
    UNREADABLE,
    NO_MAGIC,
    UNKNOWN_ID,
    OTHER_SCHEMA,
    EMPTY,
) = range(1, 23)

REASONS = {
    TRUNCATED: "it ends too early",
    BAD_VARINT: "a varint does not end",
    BAD_LENGTH: "a length exceeds the value",
    BAD_COUNT: "a number of elements that the value cannot hold",
    BAD_BRANCH: "a branch that its union does not have",
    BAD_SYMBOL: "a symbol that its enum does not have",
    BAD_BOOLEAN: "a boolean that is neither 0 nor 1",
    BAD_UTF8: "a string that is not UTF-8",
    BAD_RANGE: "a number that its type cannot hold",
    BAD_TYPE: "a field has another type than in the schema",
    BAD_SYNTAX: "not valid JSON",
    BAD_STRING: "a JSON string with an invalid escape or control character",
    BAD_NUMBER: "not a valid JSON number",
    TRAILING: "bytes after its end",
    TOO_DEEP: "nested too deeply",
    DUPLICATE: "an array or object field that occurs twice",
    BAD_KEY: "a field number or wire type that does not exist",
    UNREADABLE: "written as a type that the reader's schema does not have",
    NO_MAGIC: "it does not begin with a zero byte and a schema id",
    UNKNOWN_ID: "the schema registry does not have its schema id",
    OTHER_SCHEMA: "its schema cannot be read as the reader's",
    EMPTY: "it is empty",
}
