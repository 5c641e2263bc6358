"""Rows → Arrow tables → Parquet, by column and never by value.

Most columns repeat: everything that says where a row comes from is the same for all rows of a file. So rows are kept as
*chunks*: the constants once, the columns that differ as lists. Constants become dictionary indices that are repeated in
one vector operation.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from labctl.errors import LabctlError, Where
from labctl.normalise.schema import TABLES
from labctl.normalise.values import printable

#: Rows in one group of a Parquet file; fixed, because it decides the bytes.
_ROW_GROUP = 1 << 20
#: Chunks are put into this order; what is equal in all of them stays in the order in which it was added.
_ORDER = ("cell", "attempt", "instance", "phase", "raw_file", "source")


@dataclass(frozen=True, slots=True)
class Chunk:
    """``rows`` rows of one table: ``constants`` are the same in all of them, ``columns`` have one entry each.

    A column of the schema that is in neither is null.
    """

    rows: int
    constants: Mapping[str, Any]
    columns: Mapping[str, Sequence[Any]]


def build_tables(chunks: Mapping[str, Sequence[Chunk]]) -> dict[str, pa.Table]:
    """Every table of the schema, the empty ones too.

    Args:
        chunks: table name → its chunks. Their order does not matter beyond equal sort keys.
    """
    return {name: build_table(schema, chunks.get(name, ())) for name, schema in TABLES.items()}


def build_table(schema: pa.Schema, chunks: Sequence[Chunk]) -> pa.Table:
    """One table, rows in the order of (cell, attempt, instance, phase, file), then as the parser gave them."""
    names = [name for name in _ORDER if name in schema.names]
    ordered = sorted(
        (chunk for chunk in chunks if chunk.rows), key=lambda c: tuple(_key(c.constants.get(n)) for n in names)
    )
    counts = np.fromiter((chunk.rows for chunk in ordered), dtype=np.int64, count=len(ordered))
    arrays = [_column(field, ordered, counts) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def _key(value: object) -> tuple[bool, str, float]:
    """Null first; numbers by value and text by code point."""
    if value is None:
        return (False, "", 0.0)
    return (True, "", float(value)) if isinstance(value, int | float) else (True, str(value), 0.0)


def _column(field: pa.Field[Any], chunks: Sequence[Chunk], counts: np.ndarray[Any, Any]) -> pa.Array[Any]:
    dictionary = pa.types.is_dictionary(field.type)
    if not any(field.name in chunk.columns for chunk in chunks):
        constants = [chunk.constants.get(field.name) for chunk in chunks]
        once = _strings(constants).dictionary_encode() if dictionary else pa.array(constants, type=field.type)
        repeated: pa.Array[Any] = once.take(np.repeat(np.arange(len(chunks), dtype=np.int64), counts))
        return repeated
    values: list[Any] = []
    for chunk in chunks:
        column = chunk.columns.get(field.name)
        values.extend(column if column is not None else [chunk.constants.get(field.name)] * chunk.rows)
    if dictionary:
        return _strings(values).dictionary_encode()
    if field.type == pa.string():
        return _strings(values)
    array: pa.Array[Any] = pa.array(values, type=field.type)
    return array


def _strings(values: Sequence[str | None]) -> pa.Array[Any]:
    try:
        return pa.array(values, type=pa.string())
    except UnicodeEncodeError:
        # Broken escapes in a tool's JSON, and file names that are not UTF-8.
        return pa.array([None if v is None else printable(v) for v in values], type=pa.string())


def write_tables(tables: Mapping[str, pa.Table], directory: Path) -> list[Path]:
    """Write ``<name>.parquet`` for each table, each replaced atomically; equal tables give equal bytes.

    Returns:
        The files, sorted.

    Raises:
        LabctlError: the directory cannot be written or the disk is full; the files that were there stay whole.
    """
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return sorted(_write(table, directory / f"{name}.parquet") for name, table in tables.items())
    except OSError as error:
        raise LabctlError(
            f"cannot write the tables: {error.strerror or error}",
            where=Where(directory),
            hint="make room or give a directory that can be written; raw data are untouched",
        ) from error


def _write(table: pa.Table, target: Path) -> Path:
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            pq.write_table(
                table,
                stream,
                row_group_size=_ROW_GROUP,
                version="2.6",
                compression="zstd",
                compression_level=3,
                use_dictionary=True,
                write_statistics=True,
                data_page_version="1.0",
                store_schema=True,
            )
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return target


def add(chunks: dict[str, list[Chunk]], table: str, new: Iterable[Chunk]) -> None:
    """Collect chunks of one table, leaving the empty ones out."""
    chunks.setdefault(table, []).extend(chunk for chunk in new if chunk.rows)
