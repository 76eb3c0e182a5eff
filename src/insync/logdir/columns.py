"""The columns of a record, by name the type as Spark writes it. Planning needs them without loading the decoder."""

from __future__ import annotations

COLUMNS = {
    "broker": "int",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "leader_epoch": "int",
    "timestamp": "timestamp",
    "timestampType": "int",
    "key": "binary",
    "value": "binary",
    "headers": "array<struct<key:string,value:binary>>",
    "base_offset": "bigint",
    "batch_position": "bigint",
    "batch_size": "int",
    "codec": "string",
    "producer_id": "bigint",
    "producer_epoch": "smallint",
    "sequence": "int",
    "control": "boolean",
    "transactional": "boolean",
    "segment": "string",
    "crc_ok": "boolean",
    "error": "string",
}
