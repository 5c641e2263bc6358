"""The space that the planner counts on in a fresh loop file system is there."""

import os
import subprocess

import pytest

from labctl.plan.placing import loop_capacity
from tests.conftest import find_program


@pytest.mark.real(what="space of fresh file systems", where="localhost")
@pytest.mark.needs("loop", "xfs")
@pytest.mark.parametrize("filesystem", ["xfs", "ext4"])
@pytest.mark.parametrize("mib", [512, 4096])
def test_a_fresh_file_system_holds_what_the_plan_counts_on(disk_path, filesystem, mib):
    image, mount = disk_path / "image", disk_path / "mount"
    mount.mkdir()
    with image.open("wb") as file:
        file.truncate(mib << 20)
    subprocess.run([find_program(f"mkfs.{filesystem}"), "-q", image], check=True, capture_output=True)
    subprocess.run(["mount", "-o", "loop", image, mount], check=True)
    try:
        stat = os.statvfs(mount)
    finally:
        subprocess.run(["umount", mount], check=True)
    free = stat.f_bavail * stat.f_frsize
    assert 0.9 * free < loop_capacity(filesystem, mib << 20) <= free
