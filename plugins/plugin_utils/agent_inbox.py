"""Bundles on the controller: unpacked from a tar that is not trusted, verified, and put in place in one step."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tarfile
import tempfile
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Iterator

SUMS = "SHA256SUMS"
DAMAGED = ".damaged"
"""Ending of the name of a bundle whose content is not what its checksums say; kept as evidence, never a sample."""
_LINE = re.compile(r"([0-9a-f]{64})  (.+)")


class InboxError(Exception):
    """A bundle that must not be taken; the text says which and why."""


def is_here(inbox: Path, cell_id: str, attempt: int) -> bool:
    """Whether a bundle was taken already, whole or damaged."""
    return any((inbox / cell_id / f"a{attempt}{ending}").exists() for ending in ("", DAMAGED))


def groups(entries: list[dict[str, Any]], limit: int) -> Iterator[list[dict[str, Any]]]:
    """Cut a list of attempts into groups of at most ``limit`` bytes; a larger one is a group of its own."""
    group: list[dict[str, Any]] = []
    size = 0
    for entry in entries:
        if group and size + entry["bytes"] > limit:
            yield group
            group, size = [], 0
        group.append(entry)
        size += entry["bytes"]
    if group:
        yield group


def member_parts(name: str, wanted: set[str]) -> tuple[str, PurePosixPath]:
    """Split a tar member's name into ``<cell>/aN`` and the path in the bundle.

    Raises:
        InboxError: The name leaves its bundle, or the bundle was not asked for.
    """
    parts = name.split("/")
    bundle = "/".join(parts[:2])
    if not parts[2:] or bundle not in wanted or any(part in {"", ".", ".."} or "\0" in part for part in parts):
        raise InboxError(f"refused the name {name!r} in the archive of the target")
    return bundle, PurePosixPath(*parts[2:])


def unpack(archive: Path, top: Path, wanted: set[str]) -> None:
    """Unpack regular files (0600, directories 0700) below ``top``; anything else in the archive is refused.

    Raises:
        InboxError: A name, a type or the archive itself is not acceptable.
        OSError: No space, no permission.
    """
    _refuse_cut(archive)
    try:
        with tarfile.open(archive, mode="r:") as tar:
            for member in tar:
                bundle, relative = member_parts(member.name, wanted)
                source = tar.extractfile(member) if member.isreg() else None
                if source is None:
                    raise InboxError(f"refused {member.name!r}: not a regular file")
                target = top / bundle / relative
                for directory in reversed(target.relative_to(top).parents[:-1]):  # parents=True would forget the mode
                    (top / directory).mkdir(mode=0o700, exist_ok=True)
                fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
                with os.fdopen(fd, "wb") as stream:
                    shutil.copyfileobj(source, stream, 1 << 20)
                os.utime(target, (member.mtime, member.mtime))
    except tarfile.TarError as error:
        raise InboxError(f"the archive of the target is damaged: {error}") from error


def _refuse_cut(archive: Path) -> None:
    """A tar ends with two blocks of zeros (POSIX ustar); tarfile takes one without them for whole."""
    with archive.open("rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - 2 * tarfile.BLOCKSIZE))
        if size < 2 * tarfile.BLOCKSIZE or any(stream.read()):
            raise InboxError(f"the archive of the target is cut after {size} bytes")


def verify(bundle: Path) -> None:
    """Check that SHA256SUMS names exactly the files that are there, each with its content.

    Raises:
        InboxError: Something is missing, additional or different.
    """
    sums = bundle / SUMS
    if not sums.is_file():
        raise InboxError(f"{bundle.parent.name}/{bundle.name}: no {SUMS}")
    listed = {}
    for line in sums.read_text("utf-8", "surrogateescape").splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            raise InboxError(f"{bundle.parent.name}/{bundle.name}: {SUMS} has a damaged line: {line[:80]!r}")
        listed[match.group(2)] = match.group(1)
    present = {str(path.relative_to(bundle)) for path in bundle.rglob("*") if path.is_file()} - {SUMS}
    if "result.json" not in present or present != set(listed):
        odd = sorted(present ^ set(listed)) or ["result.json"]
        raise InboxError(f"{bundle.parent.name}/{bundle.name}: missing or unlisted: {', '.join(odd[:5])}")
    for name, expected in listed.items():
        with (bundle / name).open("rb") as stream:
            if _sha256(stream) != expected:
                raise InboxError(f"{bundle.parent.name}/{bundle.name}: {name} differs from its checksum")


def _sha256(stream: BinaryIO) -> str:
    digest = hashlib.sha256()
    for block in iter(lambda: stream.read(1 << 20), b""):
        digest.update(block)
    return digest.hexdigest()


def take(archive: Path, inbox: Path, wanted: set[str]) -> dict[str, str]:
    """Unpack, verify and move the wanted bundles into the inbox; one that is there already stays.

    A bundle that is not as its checksums say (a disk that failed, a power cut that the disk's cache did not survive) is
    kept under another name and holds up no other.

    Returns:
        Damaged bundles as ``<cell>/aN``, each with the reason.

    Raises:
        InboxError: The archive is damaged or dangerous. Nothing of it is then in the inbox.
        OSError: No space, no permission.
    """
    staging = Path(tempfile.mkdtemp(prefix=".incoming-", dir=inbox))
    damaged: dict[str, str] = {}
    try:
        unpack(archive, staging, wanted)
        for name in sorted(wanted):
            (staging / name).mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                verify(staging / name)
            except InboxError as error:
                damaged[name] = str(error)
        _make_durable(staging)
        for name in sorted(wanted):
            _place(staging / name, inbox / f"{name}{DAMAGED if name in damaged else ''}")
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return damaged


def _make_durable(top: Path) -> None:
    """Sync after everything is written: the first call commits the file system's journal for all of them."""
    for directory, _, names in os.walk(top):
        for name in names:
            _fsync(Path(directory, name))
        _fsync(Path(directory))


def _place(source: Path, target: Path) -> None:
    target.parent.mkdir(mode=0o700, exist_ok=True)
    if not target.exists():
        source.rename(target)
    _fsync(target.parent)
    _fsync(target.parent.parent)


def _fsync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
