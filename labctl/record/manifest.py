"""The manifest: sha256 and size of every file of evidence in a record."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from labctl.errors import LabctlError, Where
from labctl.record.files import write_json
from labctl.record.layout import RecordLayout

_CHUNK = 1 << 20


def sha256_of(path: Path) -> str:
    """Hexadecimal sha256 of a file, read in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as handle:
        while piece := handle.read(_CHUNK):
            digest.update(piece)
    return digest.hexdigest()


def evidence_files(layout: RecordLayout) -> list[Path]:
    """Every file that is evidence, sorted: not the manifest itself, the lock, nor what can be derived again."""
    derived = {layout.tables, layout.report}
    single = {layout.manifest, layout.lock}
    return sorted(
        path
        for path in layout.root.rglob("*")
        if path.is_file() and not path.is_symlink() and path not in single and not derived.intersection(path.parents)
    )


def write_manifest(layout: RecordLayout) -> None:
    """Write the manifest of what the record holds now."""
    files = {
        str(path.relative_to(layout.root)): {"sha256": sha256_of(path), "bytes": path.stat().st_size}
        for path in evidence_files(layout)
    }
    write_json(layout.manifest, {"schema": 1, "algorithm": "sha256", "files": files})


@dataclass(frozen=True, slots=True)
class Difference:
    """A file that is not as the manifest says: ``missing``, ``changed`` or ``extra``."""

    path: str
    kind: str


def verify_manifest(layout: RecordLayout) -> list[Difference]:
    """Compare a record with its manifest; an empty list means that every byte is as it was.

    Raises:
        LabctlError: There is no readable manifest (the run has not ended, or the file is damaged).
    """
    try:
        known = json.loads(layout.manifest.read_bytes())["files"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LabctlError(
            "the record has no readable manifest",
            where=Where(layout.manifest),
            hint="a record gets its manifest when its run ends; `labctl resume` ends an interrupted one",
        ) from error
    present = {str(path.relative_to(layout.root)): path for path in evidence_files(layout)}
    differences = [Difference(name, "missing") for name in known if name not in present]
    differences += [Difference(name, "extra") for name in present if name not in known]
    differences += [
        Difference(name, "changed")
        for name, path in present.items()
        if name in known and sha256_of(path) != known[name].get("sha256")
    ]
    return sorted(differences, key=lambda difference: difference.path)
