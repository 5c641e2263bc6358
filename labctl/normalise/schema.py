"""The tables of a record, as Arrow schemas: one place for column names, order and types.

Every table is sorted and written with fixed options, so that the same raw data gives the same bytes.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

_dictionary = pa.dictionary(pa.int32(), pa.string())

#: Columns that say where a row comes from; the same in every table.
CONTEXT: list[pa.Field[Any]] = [
    pa.field("run", _dictionary),
    pa.field("lab", _dictionary),
    pa.field("study", _dictionary),
    pa.field("arm", _dictionary),
    pa.field("cell", _dictionary),
    pa.field("block", pa.int32()),
    pa.field("sample", pa.int32()),  # the repeat, from 1
    pa.field("attempt", pa.int32()),
    pa.field("instance", pa.int32()),
    pa.field("target", _dictionary),
    pa.field("host", _dictionary),
    pa.field("workload", _dictionary),
    pa.field("point", _dictionary),
    pa.field("phase", _dictionary),
    pa.field("tool", _dictionary),
    pa.field("tool_version", _dictionary),
    pa.field("parameters", _dictionary),  # JSON object, keys sorted
]

MEASUREMENTS = pa.schema(
    [
        *CONTEXT,
        pa.field("run_index", pa.int32()),
        pa.field("job", _dictionary),
        pa.field("operation", _dictionary),
        pa.field("metric", _dictionary),
        pa.field("component", _dictionary),
        pa.field("statistic", _dictionary),
        pa.field("value", pa.float64()),  # null with a status, never 0, where there is no value
        pa.field("unit", _dictionary),
        pa.field("status", _dictionary),
        pa.field("raw_file", _dictionary),  # relative to the record
        pa.field("parser", _dictionary),  # name/version
    ],
    metadata={"labctl_table": "measurements", "labctl_schema": "1"},
)

SERIES = pa.schema(
    [
        *CONTEXT,
        pa.field("t", pa.float64()),  # seconds since the start of the step
        pa.field("source", _dictionary),  # tool, or "agent" for counters sampled on the target
        pa.field("operation", _dictionary),
        pa.field("metric", _dictionary),
        pa.field("component", _dictionary),
        pa.field("statistic", _dictionary),
        pa.field("value", pa.float64()),
        pa.field("unit", _dictionary),
        pa.field("raw_file", _dictionary),
    ],
    metadata={"labctl_table": "series", "labctl_schema": "1"},
)

HISTOGRAMS = pa.schema(
    [
        *CONTEXT,
        pa.field("job", _dictionary),
        pa.field("operation", _dictionary),
        pa.field("metric", _dictionary),
        pa.field("component", _dictionary),
        pa.field("bin", pa.float64()),  # seconds
        pa.field("count", pa.int64()),
        pa.field("raw_file", _dictionary),
    ],
    metadata={"labctl_table": "histograms", "labctl_schema": "1"},
)

FINGERPRINTS = pa.schema(
    [
        *CONTEXT,
        pa.field("field", _dictionary),  # dotted path, such as cpu.model
        pa.field("value", pa.string()),  # JSON scalar; null where it could not be read
    ],
    metadata={"labctl_table": "fingerprints", "labctl_schema": "1"},
)

FINDINGS = pa.schema(
    [
        *CONTEXT,
        pa.field("rule", _dictionary),
        pa.field("severity", _dictionary),
        pa.field("message", pa.string()),
        pa.field("evidence", pa.string()),  # JSON object
        pa.field("raw_file", _dictionary),
    ],
    metadata={"labctl_table": "findings", "labctl_schema": "1"},
)

CELLS = pa.schema(
    [
        *CONTEXT,
        pa.field("status", _dictionary),  # planned, running, done, failed, interrupted
        pa.field("started", pa.float64()),
        pa.field("finished", pa.float64()),
        pa.field("error", pa.string()),
    ],
    metadata={"labctl_table": "cells", "labctl_schema": "1"},
)

TABLES: dict[str, pa.Schema] = {
    "measurements": MEASUREMENTS,
    "series": SERIES,
    "histograms": HISTOGRAMS,
    "fingerprints": FINGERPRINTS,
    "findings": FINDINGS,
    "cells": CELLS,
}
