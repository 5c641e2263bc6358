"""``labctl plan`` on this machine, through Ansible."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from labctl.plan.models import Plan

LABCTL = [str(Path(sys.executable).with_name("labctl"))]
pytestmark = [pytest.mark.real(what="stage:probe", where="localhost"), pytest.mark.needs("ansible", "fio", "sysbench")]

INVENTORY = """\
all:
  vars: {lab_name: here}
  hosts:
    here: {ansible_connection: local, ansible_python_interpreter: "{{ ansible_playbook_python }}", lab_workdir: WORKDIR}
"""

STUDY = """\
name: mine
title: Mine
question: Does it fit?
baseline: one
arms: {one: {}, two: {optional: true, storage: {path: /proc}}}
workloads:
  read: {tool: fio, parameters: {size: 16MiB, runtime: 30s}}
"""


@pytest.fixture
def place(disk_path):
    (disk_path / "scratch").mkdir()
    (disk_path / "inventory.yml").write_text(INVENTORY.replace("WORKDIR", str(disk_path / "workdir")))
    (disk_path / "mine.yml").write_text(STUDY)
    return disk_path


def labctl(place, *words):
    # TMPDIR: everything temporary lands where the test can see that it is gone again.
    env = {**os.environ, "TMPDIR": str(place / "scratch")}
    argv = [*LABCTL, "plan", "mine.yml", "-i", "inventory.yml", *words]
    return subprocess.run(argv, cwd=place, env=env, capture_output=True, text=True, check=False)


def snapshot(place):
    return sorted((str(p), p.stat().st_size) for p in place.rglob("*"))


def test_plan_shows_what_would_run_and_writes_nothing(place):
    before = snapshot(place)
    ran = labctl(place, "--json", "--seed", "3")
    assert (ran.returncode, ran.stderr) == (0, "")
    plan = Plan.model_validate_json(ran.stdout)
    assert (plan.lab, plan.seed, len(plan.cells)) == ("here", 3, 5)
    assert plan.workdir == {"here": str(place / "workdir")}
    assert plan.arms[0].disk_free_bytes == pytest.approx(
        os.statvfs(place).f_bavail * os.statvfs(place).f_frsize, rel=0.05
    )
    assert [left.arm for left in plan.left_out] == ["two"]
    assert snapshot(place) == before


def test_plan_text_has_order_needs_commands_and_what_is_left_out(place):
    ran = labctl(place, "--commands", "--repeats", "3")
    assert ran.returncode == 0, ran.stderr
    for text in (
        "3 cells, about", "read.default.one.here.r3", "fio 3.0 or later", "left out: two on here: ",
        "fio --output-format=json+ --output=fio.json job.fio   # run", f"directory={place}/workdir/arms/preview/one",
    ):  # fmt: skip
        assert text in ran.stdout
    assert "\x1b" not in ran.stdout


def test_plan_refuses_with_every_reason_and_code_6(place):
    changes = ["--set", "workloads.read.parameters.ioengine=psync", "--set", "workloads.read.parameters.iodepth=4"]
    ran = labctl(place, *changes, "--set", "workloads.read.parameters.size=9000TiB")
    assert ran.returncode == 6
    assert "fio-sync-iodepth: read/default: ioengine psync keeps one request in flight" in ran.stderr
    assert "disk-space: one on here: 9000.0TiB needed on" in ran.stderr
    as_json = labctl(place, *changes, "--json")
    assert as_json.returncode == 6
    assert "fio-sync-iodepth" in json.loads(as_json.stdout.splitlines()[-1])["errors"][0]["what"]


def test_an_unreachable_host_ends_with_4(place):
    closed = "all: {vars: {lab_name: x}, hosts: {gone: {ansible_host: 127.0.0.1, ansible_port: 1}}}\n"
    (place / "inventory.yml").write_text(closed)
    ran = labctl(place)
    assert ran.returncode == 4
    assert "gone" in ran.stderr
    (line,) = re.findall(r"by hand: (.*)", ran.stderr)
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    by_hand = subprocess.run(["/bin/sh", "-c", line], cwd=place, env=env, capture_output=True, text=True, check=False)
    assert "UNREACHABLE!" in by_hand.stdout, by_hand.stderr


def test_a_fault_in_the_study_ends_with_2_before_any_host_is_touched(place):
    (place / "mine.yml").write_text(STUDY.replace("size:", "sise:"))
    ran = labctl(place)
    assert ran.returncode == 2
    assert "mine.yml:7:34: unknown key 'sise'" in ran.stderr
    assert "did you mean 'size'?" in ran.stderr
