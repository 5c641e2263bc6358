"""The controller does not trust a target's tar."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.agent_support import plugin_module

agent_inbox = plugin_module("agent_inbox")
agent_progress = plugin_module("agent_progress")

GOOD = {"result.json": b"{}", "steps/01-x/stdout": b"out"}


def sums(content: dict[str, bytes]) -> bytes:
    return "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in content.items()).encode()


def member(name: str, data: bytes = b"", **fields: Any) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for key, value in fields.items():
        setattr(info, key, value)
    return info, data


def make(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w") as archive:
        for info, data in members:
            archive.addfile(info, io.BytesIO(data))
    return path


def whole(name: str = "c/a1", content: dict[str, bytes] = GOOD) -> list[tuple[tarfile.TarInfo, bytes]]:
    files = {**content, "SHA256SUMS": sums(content)}
    return [member(f"{name}/{key}", data) for key, data in files.items()]


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    path = tmp_path / "inbox"
    path.mkdir()
    return path


def test_good_bundle_is_taken_with_closed_modes(inbox: Path, tmp_path: Path):
    agent_inbox.take(make(tmp_path / "t", *whole()), inbox, {"c/a1"})
    assert (inbox / "c/a1/steps/01-x/stdout").read_bytes() == b"out"
    assert (inbox / "c/a1/result.json").stat().st_mode & 0o777 == 0o600
    assert (inbox / "c/a1/steps").stat().st_mode & 0o777 == 0o700
    assert [p.name for p in inbox.iterdir()] == ["c"]


def test_bundle_that_is_there_stays(inbox: Path, tmp_path: Path):
    (inbox / "c/a1").mkdir(parents=True)
    (inbox / "c/a1/mine").touch()
    agent_inbox.take(make(tmp_path / "t", *whole()), inbox, {"c/a1"})
    assert [p.name for p in (inbox / "c/a1").iterdir()] == ["mine"]


@pytest.mark.parametrize(
    "evil",
    [
        member("../evil", b"x"),
        member("/etc/evil", b"x"),
        member("c/a1/../../evil", b"x"),
        member("c/a2/evil", b"x"),
        member("c/a1", b"x"),
        member("c/a1//x", b"x"),
        member("c/a1/link", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
        member("c/a1/hard", type=tarfile.LNKTYPE, linkname="c/a1/result.json"),
        member("c/a1/dev", type=tarfile.CHRTYPE),
        member("c/a1/pipe", type=tarfile.FIFOTYPE),
        member("c/a1/dir", type=tarfile.DIRTYPE),
    ],
    ids=lambda m: m[0].name,
)
def test_anything_odd_is_refused_and_nothing_is_left(inbox: Path, tmp_path: Path, evil: tuple[tarfile.TarInfo, bytes]):
    with pytest.raises(agent_inbox.InboxError):
        agent_inbox.take(make(tmp_path / "t", *whole(), evil), inbox, {"c/a1"})
    assert list(inbox.iterdir()) == []
    assert {p.name for p in tmp_path.iterdir()} == {"inbox", "t"}


def test_same_name_twice_is_refused(inbox: Path, tmp_path: Path):
    with pytest.raises(FileExistsError):
        agent_inbox.take(make(tmp_path / "t", *whole(), *whole()), inbox, {"c/a1"})
    assert list(inbox.iterdir()) == []


@pytest.mark.parametrize("missing", ["result.json", "steps/01-x/stdout", "SHA256SUMS"])
def test_bundle_that_lacks_a_file_is_kept_aside_and_holds_up_no_other(inbox: Path, tmp_path: Path, missing: str):
    members = [m for m in whole("bad/a1") if not m[0].name.endswith(missing)]
    damaged = agent_inbox.take(make(tmp_path / "t", *members, *whole("good/a1")), inbox, {"bad/a1", "good/a1"})
    assert list(damaged) == ["bad/a1"]
    assert missing in damaged["bad/a1"] or "missing" in damaged["bad/a1"]
    assert sorted(str(p.relative_to(inbox)) for p in inbox.glob("*/*")) == ["bad/a1.damaged", "good/a1"]
    assert agent_inbox.is_here(inbox, "bad", 1)


def test_bundle_with_other_content_or_more_files_is_kept_aside(inbox: Path, tmp_path: Path):
    other = [member(i.name, b"other" if i.name.endswith("stdout") else d) for i, d in whole("changed/a1")]
    more = [*whole("more/a1"), member("more/a1/unlisted", b"x")]
    damaged = agent_inbox.take(make(tmp_path / "t", *other, *more), inbox, {"changed/a1", "more/a1"})
    assert set(damaged) == {"changed/a1", "more/a1"}
    assert (inbox / "changed/a1.damaged/steps/01-x/stdout").read_bytes() == b"other"


def test_truncated_archive_is_refused(inbox: Path, tmp_path: Path):
    content = {**GOOD, "data": bytes(100_000)}
    data = make(tmp_path / "t", *whole(content=content)).read_bytes()
    for size in (0, 100, 700, 50_000):
        (tmp_path / "t").write_bytes(data[:size])
        with pytest.raises(agent_inbox.InboxError):
            agent_inbox.take(tmp_path / "t", inbox, {"c/a1"})
    assert list(inbox.iterdir()) == []


def test_groups_are_bounded_and_lose_nothing():
    entries = [{"n": n, "bytes": size} for n, size in enumerate((10, 60, 200, 1, 1, 99))]
    groups = list(agent_inbox.groups(entries, 100))
    assert [[e["n"] for e in group] for group in groups] == [[0, 1], [2], [3, 4], [5]]
    assert list(agent_inbox.groups([], 100)) == []


def status(
    pid: int = 1, state: str = "running", cell: str | None = None, step: str | None = None, done: tuple[str, ...] = ()
):
    return {
        "pid": pid,
        "state": state,
        "cell": cell,
        "attempt": 1 if cell else None,
        "step": step,
        "phase": "run" if step else None,
        "finished": [{"id": name, "attempt": 1, "status": "done", "error": None} for name in done],
    }


def told(before: dict[str, Any] | None, after: dict[str, Any]) -> list[str]:
    return [
        f"{e['event']} {e.get('step') or e.get('cell') or ''}".strip() for e in agent_progress.events(before, after)
    ]


def test_progress_of_a_wait():
    looks = [
        status(),
        status(cell="a"),
        status(cell="a", step="01-x"),
        status(cell="a", step="01-x"),
        status(cell="a", step="02-y"),
        status(cell="c", step="01-x", done=("a", "b")),
        status(state="finished", done=("a", "b", "c")),
    ]
    seen = [told(before, after) for before, after in zip([None, *looks], looks, strict=False)]
    assert seen == [
        ["agent_started"],
        ["cell_started a"],
        ["step_started 01-x"],
        [],
        ["step_started 02-y"],
        ["cell_finished a", "cell_started b", "cell_finished b", "cell_started c", "step_started 01-x"],
        ["cell_finished c", "agent_finished"],
    ]


def test_progress_of_a_new_agent_starts_anew():
    assert told(status(state="finished", done=("a",)), status(pid=2, cell="b")) == ["agent_started", "cell_started b"]
