"""What every test may ask for: parts of the machine, and directories on a real disk.

``@pytest.mark.needs("fio", "root")`` names the parts of the machine that a test cannot do without. A missing one skips
the test with the reason; with ``LABCTL_REQUIRE_ALL=1`` (as in CI) it is an error, so that nothing is left out unseen.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NoReturn

import pytest

REPO = Path(__file__).resolve().parents[1]
# The environment's own programs first, also where it is not activated; administrators' tools last.
PATHS = (str(Path(sys.executable).parent), os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin")


class MissingPartError(Exception):
    """A part of the machine that a test needs is not there; the text says why."""


def find_program(*names: str) -> Path:
    """The first of these programs on PATH or in the directories of administrators' tools."""
    for name in names:
        if found := shutil.which(name, path=os.pathsep.join(PATHS)):
            return Path(found)
    raise MissingPartError(f"no program {' or '.join(names)}")


def find_postgresql_program(name: str) -> Path:
    """A program of PostgreSQL's newest installed version; distributions keep them outside PATH."""
    homes = (*Path("/usr/lib").glob("postgresql*/bin"), *Path("/usr/lib/postgresql").glob("*/bin"))
    versions = [*homes, *Path("/usr").glob("pgsql-*/bin")]
    found = [home / name for home in versions if (home / name).exists()]
    if found:
        return max(found, key=lambda path: int("".join(filter(str.isdigit, str(path.parent))) or 0))
    return find_program(name)


def corpus_dir() -> Path:
    """Published tool outputs with their right values; they lie beside the checkout, or where LABCTL_CORPUS says."""
    path = Path(os.environ.get("LABCTL_CORPUS", REPO.parent / "shared" / "corpus"))
    if not path.is_dir():
        raise MissingPartError(f"no corpus of tool outputs at {path} (LABCTL_CORPUS names another place)")
    return path


def _postgresql() -> None:
    for name in ("initdb", "postgres", "pgbench"):
        find_postgresql_program(name)


def _root() -> None:
    if os.geteuid() != 0:
        raise MissingPartError("not root")


def _loop() -> None:
    _root()
    losetup = find_program("losetup")
    with tempfile.NamedTemporaryFile(dir="/var/tmp") as image:  # a disk, while /tmp may be memory
        image.truncate(1 << 20)
        made = subprocess.run([losetup, "--find", "--show", image.name], capture_output=True, text=True, check=False)
        if made.returncode != 0:
            raise MissingPartError(f"no loop devices: {made.stderr.strip()}")
        subprocess.run([losetup, "--detach", made.stdout.strip()], check=True)


def _podman() -> None:
    """Runs a container whose only contents are this machine's own programs: no image is needed."""
    podman = find_program("podman")
    trees = [f"{path}:{path}:ro" for path in ("/usr", "/lib", "/lib64", "/bin") if Path(path).exists()]
    mounts = [word for tree in trees for word in ("--volume", tree)]
    common = ["--rm", "--privileged", "--cgroupns=private", "--network=none", "--ulimit=nofile=1024:1024"]
    reasons = []
    # crun refuses where cgroup v1 and v2 are mixed; runc does not.
    for runtime in ("crun", "runc"):
        with tempfile.TemporaryDirectory() as root:
            argv = [podman, "--runtime", runtime, "run", *common, "--ulimit=nproc=1024:1024", *mounts, "--rootfs", root]
            ran = subprocess.run([*argv, "/usr/bin/true"], capture_output=True, text=True, check=False)
        if ran.returncode == 0:
            return
        reasons.append(f"{runtime}: {ran.stderr.strip()}")
    raise MissingPartError("podman cannot run a container: " + "; ".join(reasons))


def _corpus() -> None:
    corpus_dir()


def _program(*names: str) -> Callable[[], None]:
    def check() -> None:
        find_program(*names)

    return check


PARTS: dict[str, Callable[[], None]] = {
    "ansible": _program("ansible-playbook"),
    "chromium": _program("chromium", "chromium-browser", "google-chrome"),
    "corpus": _corpus,
    "fio": _program("fio"),
    "loop": _loop,
    "mmdebstrap": _program("mmdebstrap"),
    "podman": _podman,
    "postgresql": _postgresql,
    "root": _root,
    "ssh": _program("ssh"),
    "sshd": _program("sshd"),
    "sshpass": _program("sshpass"),
    "sysbench": _program("sysbench"),
    "xfs": _program("mkfs.xfs"),
}


@cache
def why_missing(part: str) -> str | None:
    """None when the part works here, else the reason; found out once in a test run."""
    if part not in PARTS:
        return f"tests/conftest.py knows no part {part!r}; known: {', '.join(PARTS)}"
    try:
        PARTS[part]()
    except MissingPartError as error:
        return str(error)
    return None


def leave_out(reason: str) -> NoReturn:
    """Skips the test, or fails it where LABCTL_REQUIRE_ALL=1 says that nothing may be missing."""
    if os.environ.get("LABCTL_REQUIRE_ALL") == "1":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips a test, or fails it with LABCTL_REQUIRE_ALL=1, when a part that it needs is missing."""
    parts = [str(part) for mark in item.iter_markers("needs") for part in mark.args]
    for part in parts:
        reason = why_missing(part)
        if reason is None:
            continue
        if part not in PARTS:
            pytest.fail(reason, pytrace=False)
        leave_out(f"needs {part}: {reason}")


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The directory of published tool outputs; use it with ``needs("corpus")``."""
    return corpus_dir()


def _takes_direct_io(directory: Path) -> bool:
    probe = directory / ".direct"
    try:
        os.close(os.open(probe, os.O_CREAT | os.O_WRONLY | os.O_DIRECT))
    except OSError:
        return False
    finally:
        probe.unlink(missing_ok=True)
    return True


@pytest.fixture
def disk_path(tmp_path: Path) -> Iterator[Path]:
    """An empty directory of the test's own where O_DIRECT works, which pytest's may not be (tmpfs)."""
    if _takes_direct_io(tmp_path):
        path = tmp_path / "disk"
        path.mkdir()
        yield path
        return
    base = REPO / ".cache" / "tests"
    base.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=base) as name:
        if not _takes_direct_io(Path(name)):
            leave_out(f"O_DIRECT works neither in {tmp_path} nor in {base}")
        yield Path(name)
