"""What labctl made on a host, and how it knows: marker files, safe paths, mounts.

Every directory that a role makes holds a marker file ``.labctl`` (JSON: schema, what, run_id, made, and what its maker
adds). Nothing without a marker of the same run is ever changed or removed.

Runs on targets: Python 3.9, standard library only. Nothing here imports Ansible.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import stat

MARKER = ".labctl"
MARKER_SCHEMA = 1

# Trees that belong to the system: nothing below them may be used. /dev/shm is the exception, it is storage.
SYSTEM_TREES = ("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr")
# Directories that hold what belongs to others: only something of our own below them may be used.
SHARED_DIRECTORIES = frozenset(
    "/ /dev/shm /home /media /mnt /opt /root /srv /tmp /var /var/cache /var/lib /var/log /var/spool /var/tmp".split()  # noqa: SIM905
)
RUN_ID = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")


class Refused(Exception):
    """A path or a state that is not safe to act on; the message says which, and why."""


def check_run_id(run_id: str) -> None:
    """Refuse a run id that could leave its directory."""
    if not RUN_ID.match(run_id):
        raise Refused(f"run id {run_id!r} may only hold letters, digits, '.', '_' and '-'")


def is_below(path: str, base: str) -> bool:
    """Whether the normalised absolute ``path`` lies strictly below ``base``."""
    return path != base and path.startswith(base.rstrip("/") + "/")


def user_name(uid: int) -> str:
    """Name of a user id, or the id where there is no such user."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def check_path(path: str, owner: int | None = None) -> None:
    """Refuse a path that is relative, not normalised, of the system, or reached through somebody else's link.

    Args:
        path: where a directory or file of ours lies or shall lie; it need not exist.
        owner: user id of whom it is or shall be, where root acts for an ordinary user; None = who runs this.
    """
    owner = os.getuid() if owner is None else owner
    if not path.startswith("/") or path.startswith("//"):
        raise Refused(f"{path!r} is not an absolute path")
    if os.path.normpath(path) != path or "\0" in path or "\n" in path:
        raise Refused(f"{path!r} is not a plain path: no '..', no '//', no '/' at the end")
    if path in SHARED_DIRECTORIES or path in (_home(os.getuid()), _home(owner)):
        raise Refused(f"{path} holds what belongs to others; name a directory of its own below it")
    for tree in SYSTEM_TREES:
        if (path == tree or is_below(path, tree)) and not is_below(path, "/dev/shm"):  # noqa: S108
            raise Refused(f"{path} lies in {tree}, which belongs to the system")
    _check_components(path, owner)


def _home(uid: int) -> str | None:
    try:
        return pwd.getpwuid(uid).pw_dir
    except KeyError:
        return None


def _check_components(path: str, owner: int) -> None:
    me = os.getuid()
    parts = path.split("/")[1:]
    for depth in range(1, len(parts) + 1):
        here = "/" + "/".join(parts[:depth])
        try:
            found = os.lstat(here)
        except FileNotFoundError:
            return
        except PermissionError:
            raise Refused(f"{here} cannot be reached by user {user_name(me)}") from None
        final = depth == len(parts)
        if stat.S_ISLNK(found.st_mode) and (final or found.st_uid not in (0, me, owner)):
            raise Refused(f"{here} is a symbolic link of {user_name(found.st_uid)}")
        loose = found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX
        if stat.S_ISDIR(found.st_mode) and loose and not final:
            raise Refused(f"{here} can be changed by everybody (mode {stat.S_IMODE(found.st_mode):04o}, not sticky)")


def mounts() -> dict[str, str]:
    """Mount point → source, from /proc/self/mountinfo; of stacked mounts the uppermost."""
    found = {}
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            fields = line.split()
            tail = fields[fields.index("-") + 1 :]
            found[_unescape(fields[4])] = _unescape(tail[1])
    return found


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), text)


def read_marker(directory: str) -> dict | None:
    """The marker of a directory; None where there is none.

    Raises:
        Refused: there is one, but it cannot be understood.
    """
    return read_marker_file(os.path.join(directory, MARKER))


def read_marker_file(path: str) -> dict | None:
    """Like read_marker, for a marker that lies beside what it marks."""
    try:
        with open(path, encoding="utf-8") as handle:
            marker = json.load(handle)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise Refused(f"marker {path} cannot be read: {error}") from None
    if not isinstance(marker, dict) or marker.get("schema") != MARKER_SCHEMA:
        raise Refused(f"marker {path} is of another kind or version")
    return marker


def write_marker_file(path: str, what: str, run_id: str, **more: object) -> None:
    """Write a marker atomically: a half-written one would lock the directory against us."""
    temporary = path + ".new"
    with open(temporary, "w", encoding="utf-8") as handle:
        json.dump({"schema": MARKER_SCHEMA, "what": what, "run_id": run_id, **more}, handle, sort_keys=True)
        handle.write("\n")
        handle.flush()
        os.fsync(handle.fileno())
    os.replace(temporary, path)


def write_marker(directory: str, what: str, run_id: str, **more: object) -> None:
    """Write the marker inside a directory."""
    write_marker_file(os.path.join(directory, MARKER), what, run_id, **more)


def check_owned(path: str, what: str, run_id: str | None, owner: int | None = None) -> dict | None:
    """Whether an existing directory is ours.

    Args:
        path: a directory that passed check_path.
        what: the kind of directory that is expected there.
        run_id: the run that must have made it; None = any run.
        owner: user id of whom it must be; None = who runs this.

    Returns:
        Its marker, or None where it is absent or empty, so free to take.

    Raises:
        Refused: not a directory, somebody else's, of another run, or with files that are not ours.
    """
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None
    if not stat.S_ISDIR(found.st_mode):
        raise Refused(f"{path} exists and is not a directory")
    expected = os.getuid() if owner is None else owner
    if found.st_uid != expected:
        raise Refused(f"{path} belongs to {user_name(found.st_uid)}, not to {user_name(expected)}")
    marker = read_marker(path)
    if marker is None:
        if os.listdir(path):
            raise Refused(f"{path} holds files that labctl did not make")
        return None
    if marker.get("what") != what:
        raise Refused(f"{path} was made by labctl as {marker.get('what')}, not as {what}")
    if run_id is not None and marker.get("run_id") != run_id:
        raise Refused(f"{path} belongs to run {marker.get('run_id')}, not to {run_id}; tear that run down first")
    return marker


def make_directory(path: str, what: str, run_id: str, mode: int, **more: object) -> None:
    """Make a marked directory, with parents; the marker keeps which parents were made."""
    missing = []
    parent = os.path.dirname(path)
    while not os.path.isdir(parent):
        missing.append(parent)
        parent = os.path.dirname(parent)
    for parent in reversed(missing):
        os.mkdir(parent)
        os.chmod(parent, mode)
    made = not os.path.isdir(path)
    if made:
        os.mkdir(path)
    os.chmod(path, mode)
    write_marker(path, what, run_id, made=made, made_parents=missing, **more)


def remove_directory(path: str, marker: dict) -> None:
    """Remove a directory that carries ``marker``, and the parents that were made with it and are empty now.

    Raises:
        Refused: something is mounted at it or below it.
    """
    mounted = sorted(point for point in mounts() if point == path or is_below(point, path))
    if mounted:
        raise Refused(f"{', '.join(mounted)} is mounted; {path} is not removed")
    if marker.get("made"):
        shutil.rmtree(path)
    else:
        for name in os.listdir(path):
            inner = os.path.join(path, name)
            if os.path.isdir(inner) and not os.path.islink(inner):
                shutil.rmtree(inner)
            else:
                os.unlink(inner)
    for parent in marker.get("made_parents", ()):
        if os.path.isdir(parent) and not os.listdir(parent):
            os.rmdir(parent)
