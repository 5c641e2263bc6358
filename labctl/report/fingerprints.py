"""Fingerprints of all cells → what is the same everywhere, what differs, what moves by nature. Pure."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Sequence

import pandas as pd

from labctl.report.model import FieldDifference, FieldValue, Fingerprints
from labctl.report.units import DASH, significant

#: Readings that differ from moment to moment on an untouched machine.
_MOVING = re.compile(
    r"^(load\.|time\.epoch_s$|host\.uptime_s$|memory\.available_bytes$|.*\bfree_bytes$|.*\.pid$|.*freq_cur_hz$)"
)
#: ``paths.<directory>.<field>``: the directory is the arm's own, so only the field can be compared.
_PATH = re.compile(r"^paths\.(?P<path>.*)\.(?P<field>(?:block_device\.)?[a-z_]+)$")
#: Fields that say where or when, and nothing of what was there; the busy processes of a moment are in the bundles.
_PLACE = re.compile(r"^(path\.requested|path\.existing_parent|schema|host\.boot_id|load\.busy\b.*)$")


def build_fingerprints(frame: pd.DataFrame, arms: Sequence[str]) -> Fingerprints:
    """Sort fields into the three groups.

    Args:
        frame: the table ``fingerprints``.
        arms: names of the arms in plan order; columns follow it.
    """
    hosts = sorted(set(frame["host"]))
    many = len(hosts) > 1
    values: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    pairs = set(zip(frame["arm"], frame["host"], strict=True))
    for row in frame[["arm", "host", "field", "value"]].itertuples(index=False):
        values[_name(str(row.field))][_label(str(row.arm), str(row.host), many=many)][_shown(row.value)] += 1
    columns = tuple(_label(arm, host, many=many) for arm in arms for host in hosts if (arm, host) in pairs)
    same, different, moving = [], [], []
    for name in sorted(values):
        if _PLACE.match(name):
            continue
        by_column = values[name]
        if _MOVING.match(name):
            moving.append(FieldDifference(name, {column: _range(by_column[column]) for column in columns}))
            continue
        distinct = {value for counts in by_column.values() for value in counts}
        if len(distinct) == 1 and set(columns) <= set(by_column):
            same.append(FieldValue(name, distinct.pop()))
        else:
            different.append(FieldDifference(name, {column: _several(by_column[column]) for column in columns}))
    return Fingerprints(columns, tuple(same), tuple(different), tuple(moving))


def storage_fields(frame: pd.DataFrame) -> dict[tuple[str, str], dict[str, str]]:
    """(arm, host) → field of the data directory → plain value, from the first cell that could read it."""
    found: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    chosen = frame[frame["field"].str.startswith("paths.") & frame["value"].notna()]
    for row in chosen[["arm", "host", "field", "value"]].itertuples(index=False):
        match = _PATH.match(str(row.field))
        if match is not None and row.value != "null":
            found[str(row.arm), str(row.host)].setdefault(match["field"], str(row.value).strip('"'))
    return dict(found)


def _name(field: str) -> str:
    match = _PATH.match(field)
    return f"path.{match['field']}" if match else field


def _label(arm: str, host: str, *, many: bool) -> str:
    return f"{arm} @ {host}" if many else arm


def _shown(value: object) -> str:
    """A JSON scalar as people write it; what could not be read is a dash."""
    if not isinstance(value, str):
        return DASH
    try:
        decoded = json.loads(value)
    except ValueError:
        return value
    if decoded is None:
        return DASH
    if isinstance(decoded, bool):
        return "yes" if decoded else "no"
    if isinstance(decoded, float):
        return f"{decoded:,.0f}" if decoded.is_integer() else significant(decoded)
    return f"{decoded:,}" if isinstance(decoded, int) else str(decoded)


def _several(counts: Counter[str]) -> str:
    if not counts:
        return DASH
    if len(counts) == 1:
        return next(iter(counts))
    return "; ".join(f"{value} ({number} cells)" for value, number in sorted(counts.items()))


def _range(counts: Counter[str]) -> str:
    numbers = []
    for value in counts:
        try:
            numbers.append(float(value.replace(",", "")))
        except ValueError:
            continue
    if not numbers:
        return _several(Counter(list(counts)[:1])) if counts else DASH
    low, high = min(numbers), max(numbers)
    return significant(low) if low == high else f"{significant(low)} to {significant(high)}"
