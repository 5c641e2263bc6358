"""What a host of a lab may say of itself."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from labctl.lab.models import Host

_SYSTEM = ["/etc", "/etc/labctl", "/usr/local", "/proc/x", "/dev", "/dev/sda", "/sys", "/bin", "/lib64/x"]
_SHARED = ["/", "/tmp", "/tmp/", "/var/tmp", "/home", "/root", "/srv", "/var", "/dev/shm"]
_UNSAFE = [
    "",
    "relative",
    "./x",
    "~/x",
    "//",
    "/x//y",
    "/tmp/../etc",
    "/tmp/a b",
    "/tmp/a\nb",
    "/tmp/$(id)",
    "/a;b",
    "/ü",
]


@pytest.mark.parametrize("path", [*_SYSTEM, *_SHARED, *_UNSAFE])
def test_a_working_directory_that_others_need_is_refused(path: str) -> None:
    with pytest.raises(ValidationError, match="expected a"):
        Host(name="one", workdir=path)


@pytest.mark.parametrize("path", ["/srv/labctl", "/dev/shm/labctl", "/w", "/home/me/.cache/x", "/var/tmp/labctl-x"])
def test_a_working_directory_of_its_own_is_taken(path: str) -> None:
    assert Host(name="one", workdir=path).workdir == path
