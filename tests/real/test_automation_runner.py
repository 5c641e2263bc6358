"""The adapter on the real ansible-runner and the real Ansible, on this machine."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import psutil
import pytest

from labctl.automation import runner
from labctl.automation.redact import Redactor
from labctl.automation.runner import run_playbook
from labctl.errors import LabctlError

pytestmark = pytest.mark.real(what="ansible-runner", where="localhost")

INVENTORY = """\
all:
  vars:
    ansible_connection: local
    ansible_python_interpreter: "{{ ansible_playbook_python }}"
  hosts:
    one:
    two:
"""


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """A directory with an inventory; the private directories of runs go below it, to see that none is left."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "hosts.yml").write_text(INVENTORY)
    return tmp_path


def play(lab, tasks, hosts="one", name="play.yml"):
    body = textwrap.indent(textwrap.dedent(tasks), "    ")
    path = lab / name
    path.write_text(f"- name: Test\n  hosts: {hosts}\n  gather_facts: false\n  tasks:\n{body}")
    return path


def run(lab, tasks, *, hosts="one", **kwargs):
    return run_playbook(
        str(play(lab, tasks, hosts)), inventory=lab / "hosts.yml", artifacts=lab / "artifacts", **kwargs
    )


def archived(result):
    return {path.name: path.read_text() for path in result.artifacts.iterdir()}


def nothing_private_is_left(lab):
    return not list((lab / "scratch").glob("labctl-ansible-*"))


def running(marker):
    """Processes with this word on their command line, zombies excepted."""
    return [
        process.info["pid"]
        for process in psutil.process_iter(["cmdline", "pid", "status"])
        if marker in " ".join(process.info["cmdline"] or []) and process.info["status"] != psutil.STATUS_ZOMBIE
    ]


def wait_for(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


def test_success_events_results_and_archive(lab):
    events = []
    result = run(
        lab,
        """\
        - name: Say
          ansible.builtin.command: echo hello
        - name: Publish
          ansible.builtin.set_stats: {data: {host: "{{ inventory_hostname }}", n: 1}, per_host: true}
        """,
        hosts="all",
        on_event=events.append,
    )
    assert result.ok, result.errors
    assert result.rc == 0
    assert {name: (s.ok, s.changed) for name, s in result.hosts.items()} == {"one": (2, 1), "two": (2, 1)}
    assert result.results == {"one": {"host": "one", "n": 1}, "two": {"host": "two", "n": 1}}
    assert [e.counter for e in events] == list(range(1, len(events) + 1))
    said = [e for e in events if e.kind == "runner_on_ok" and e.task == "Say"]
    assert {e.host for e in said} == {"one", "two"}
    assert all(e.changed and e.duration_s is not None and e.path == f"{lab}/play.yml:5" for e in said)
    files = archived(result)
    assert set(files) == {"command.txt", "events.jsonl", "extravars.json", "result.json", "stdout.txt"}
    assert "TASK [Say]" in files["stdout.txt"]
    assert "\x1b" not in files["stdout.txt"]
    assert len(files["events.jsonl"].splitlines()) == len(events)
    assert json.loads(files["result.json"])["status"] == "successful"
    assert stat.S_IMODE(result.artifacts.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in result.artifacts.iterdir()} == {0o600}
    assert nothing_private_is_left(lab)


def test_the_line_by_hand_does_the_same(lab, monkeypatch):
    monkeypatch.chdir(lab)
    result = run(
        lab,
        "- ansible.builtin.copy: {content: '{{ word }}', dest: '" + str(lab) + "/out', mode: '0600'}",
        extravars={"word": "two words"},
        limit="one",
        forks=2,
    )
    assert result.ok, result.errors
    assert "ansible-playbook -i hosts.yml" in result.command_line
    (lab / "out").unlink()
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    subprocess.run(["bash", "-c", result.command_line], cwd=lab, env=env, check=True, capture_output=True)
    assert (lab / "out").read_text() == "two words"


def test_failure_names_host_task_place_and_words(lab):
    result = run(
        lab,
        """\
        - name: Break
          ansible.builtin.command: sh -c 'echo the reason >&2; exit 3'
        """,
        hosts="all",
    )
    assert (result.status, result.rc) == ("failed", 2)
    assert {error.host for error in result.errors} == {"one", "two"}
    assert all(error.task == "Break" and "the reason" in error.message for error in result.errors)
    assert all(error.path == f"{lab}/play.yml:5" for error in result.errors)


def test_a_missing_playbook_says_what_ansible_says(lab):
    result = run_playbook("labctl.lab.nosuchstage", inventory=lab / "hosts.yml", artifacts=lab / "artifacts")
    assert result.status == "failed"
    assert "nosuchstage" in result.errors[0].message


def test_a_missing_inventory_is_the_users_fault(lab):
    with pytest.raises(LabctlError, match="no such inventory"):
        run_playbook("x.yml", inventory=lab / "nowhere", artifacts=lab / "artifacts")
    assert not (lab / "artifacts").exists()


def test_no_host_matched_is_not_success(lab):
    result = run(lab, "- ansible.builtin.ping:", hosts="absent_group")
    assert result.status == "failed"
    assert "no host" in result.errors[0].message


def test_wrong_role_arguments_are_a_spec_error(lab):
    role = lab / "roles/picky"
    (role / "meta").mkdir(parents=True)
    (role / "meta/argument_specs.yml").write_text(
        "argument_specs:\n  main:\n    options:\n      picky_size: {type: int, required: true}\n"
    )
    result = run(lab, "- ansible.builtin.include_role: {name: picky}", extravars={"picky_size": "big"})
    assert result.status == "spec-error"
    assert result.errors[0].spec_error
    assert "picky_size" in result.errors[0].message


def test_an_unreachable_host_is_told_with_the_words_of_ssh(lab):
    (lab / "hosts.yml").write_text("all: {hosts: {far: {ansible_host: 127.0.0.1, ansible_port: 1}}}\n")
    result = run(lab, "- ansible.builtin.ping:", hosts="all")
    assert (result.status, result.rc) == ("unreachable", 4)
    assert result.errors[0].unreachable
    assert "refused" in result.errors[0].message


def test_extravars_of_200_kb_and_secrets_leave_no_trace(lab, monkeypatch):
    monkeypatch.setenv("OTHER_PASSWORD", "env-value-77")
    seen = []
    result = run(
        lab,
        """\
        - ansible.builtin.command: "echo {{ db_password }} {{ declared }} {{ db_password | b64encode }}"
        - ansible.builtin.debug: {var: big | length}
        - ansible.builtin.shell: env
          failed_when: true
        """,
        extravars={"db_password": "s3cr3t-one", "declared": "s3cr3t-two", "big": "x" * 200_000},
        redact=Redactor(["s3cr3t-two"]),
        on_event=seen.append,
    )
    assert result.status == "failed"
    told = repr(result) + repr(seen) + "".join(archived(result).values())
    for secret in ("s3cr3t-one", "s3cr3t-two", "czNjcjN0LW9uZQ", "env-value-77"):
        assert secret not in told
    assert '"big": "xxxx' in archived(result)["extravars.json"]
    assert nothing_private_is_left(lab)


def test_secrets_are_in_no_argument_list_while_it_runs(lab):
    found = []

    def look(event):
        if event.kind == "runner_on_start":
            found.extend(running("s3cr3t-argv"))

    result = run(lab, "- ansible.builtin.ping:", extravars={"a_token": "s3cr3t-argv"}, on_event=look)
    assert result.ok
    assert found == []


def test_no_log_is_kept(lab):
    result = run(
        lab,
        """\
        - ansible.builtin.command: echo quiet-value
          no_log: true
        """,
    )
    assert result.ok
    assert "quiet-value" not in "".join(archived(result).values())


def test_check_mode_does_not_leak_into_the_next_run(lab):
    tasks = f"- ansible.builtin.file: {{path: '{lab}/made', state: touch, mode: '0600'}}"
    assert run(lab, tasks, check=True, diff=True).ok
    assert not (lab / "made").exists()
    playbook = str(lab / "play.yml")
    second = run_playbook(playbook, inventory=lab / "hosts.yml", artifacts=lab / "second", extravars={"a": 1})
    assert second.ok
    assert (lab / "made").exists()
    third = run_playbook(playbook, inventory=lab / "hosts.yml", artifacts=lab / "third")
    assert json.loads((third.artifacts / "extravars.json").read_text()) == {}


def test_evidence_is_never_overwritten(lab):
    (lab / "artifacts").mkdir()
    with pytest.raises(LabctlError, match="exists already"):
        run(lab, "- ansible.builtin.ping:")


def test_a_failing_handler_does_not_end_the_run(lab, caplog):
    def handler(_event):
        raise RuntimeError("display broke")

    result = run(lab, "- ansible.builtin.ping:", on_event=handler)
    assert result.ok
    assert "display broke" in caplog.text


def test_a_slow_handler_loses_nothing(lab):
    counters = []

    def slow(event):
        counters.append(event.counter)
        time.sleep(0.05)

    tasks = "- ansible.builtin.debug: {msg: '{{ item }}'}\n  loop: '{{ range(30) | list }}'\n"
    result = run(lab, tasks, on_event=slow)
    assert result.ok
    assert not result.lost_events
    assert counters == list(range(1, len(counters) + 1))
    assert len(counters) > 30


def test_an_interrupt_in_the_handler_stops_ansible_and_comes_out(lab):
    def interrupt(event):
        if event.kind == "runner_on_start":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(lab, "- ansible.builtin.command: sleep 77001", on_event=interrupt)
    assert running("sleep 77001") == []
    assert nothing_private_is_left(lab)


def test_cancel_during_a_task_leaves_nothing_behind(lab):
    cancel = threading.Event()

    def when_asleep():
        wait_for(lambda: running("sleep 77002"))
        cancel.set()

    thread = threading.Thread(target=when_asleep)
    thread.start()
    late = lab / "late"
    result = run(lab, f"- ansible.builtin.shell: sleep 77002; touch {late}", hosts="all", cancel=cancel)
    thread.join()
    assert result.status == "canceled"
    assert not result.ok
    assert running("sleep 77002") == []
    assert running(str(lab / "play.yml")) == []
    assert not late.exists()
    assert nothing_private_is_left(lab)


def test_cancel_kills_what_ignores_sigterm(lab, monkeypatch):
    monkeypatch.setattr(runner, "GRACE_S", 1.0)
    cancel = threading.Event()
    thread = threading.Thread(target=lambda: (wait_for(lambda: running("sleep 77003")), cancel.set()))
    thread.start()
    result = run(lab, "- ansible.builtin.shell: trap '' TERM HUP INT; sleep 77003; sleep 77003", cancel=cancel)
    thread.join()
    assert result.status == "canceled"
    assert running("sleep 77003") == []


def test_cancel_spares_a_process_that_left_on_purpose(lab):
    """The cell agent on a local target outlives its connection."""
    cancel = threading.Event()
    thread = threading.Thread(target=lambda: (wait_for(lambda: running("sleep 77005")), cancel.set()))
    thread.start()
    result = run(
        lab,
        """\
        - ansible.builtin.shell: setsid -f sleep 77004 </dev/null >/dev/null 2>&1
        - ansible.builtin.command: sleep 77005
        """,
        cancel=cancel,
    )
    thread.join()
    survivors = running("sleep 77004")
    for pid in survivors:
        os.kill(pid, signal.SIGKILL)
    assert result.status == "canceled"
    assert len(survivors) == 1
    assert running("sleep 77005") == []


def test_timeout_stops_and_says_so(lab):
    result = run(lab, "- ansible.builtin.command: sleep 77006", timeout_s=3)
    assert result.status == "timeout"
    assert running("sleep 77006") == []


def test_signal_handlers_of_the_caller_stay(lab):
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    assert run(lab, "- ansible.builtin.ping:").ok
    assert {number: signal.getsignal(number) for number in before} == before


def test_ansible_killed_by_a_signal_is_a_failure(lab):
    def kill(event):
        if event.kind == "runner_on_start":
            for pid in running("leash.py"):
                if str(lab) in " ".join(psutil.Process(pid).cmdline()):
                    os.kill(pid, signal.SIGKILL)

    result = run(lab, "- ansible.builtin.command: sleep 5", on_event=kill)
    assert result.status == "failed"
    assert result.rc is None
    assert result.errors


SCRIPT = """\
import sys
from pathlib import Path
from labctl.automation.runner import run_playbook
run_playbook(sys.argv[1], inventory=Path(sys.argv[2]), artifacts=Path(sys.argv[3]), extravars={"a_password": "abcdef"})
"""


@pytest.mark.parametrize("also_the_worker", [False, True], ids=["labctl", "labctl-and-worker"])
def test_ansible_does_not_outlive_labctl_killed_with_9(lab, also_the_worker):
    marker = "sleep 7700" + ("8" if also_the_worker else "7")
    playbook = play(lab, f"- ansible.builtin.command: {marker}")
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, playbook, lab / "hosts.yml", lab / "artifacts"])
    assert wait_for(lambda: running(marker))
    worker = psutil.Process(process.pid).children()[0]
    process.kill()
    if also_the_worker:
        worker.kill()
    process.wait()
    assert wait_for(lambda: not running(marker), 30)
    assert wait_for(lambda: not running(str(playbook)), 30)
    if not also_the_worker:
        assert wait_for(lambda: nothing_private_is_left(lab), 30)


def test_a_dead_worker_is_told(lab):
    def kill(event):
        if event.kind == "runner_on_start":
            assert wait_for(lambda: running("sleep 77009"))
            psutil.Process().children()[0].kill()

    result = run(lab, "- ansible.builtin.command: sleep 77009", on_event=kill)
    assert result.status == "failed"
    assert "ended with -9" in result.errors[0].message
    assert wait_for(lambda: not running("sleep 77009"), 30)


def test_runs_at_the_same_time_do_not_mix(lab):
    playbook = play(lab, "- ansible.builtin.set_stats: {data: {n: '{{ n }}'}, per_host: true}")
    results = {}

    def one(number):
        results[number] = run_playbook(
            str(playbook), inventory=lab / "hosts.yml", artifacts=lab / f"a{number}", extravars={"n": number}
        )

    threads = [threading.Thread(target=one, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {number: result.results["one"]["n"] for number, result in results.items()} == {0: 0, 1: 1, 2: 2}


@pytest.mark.needs("root")
def test_an_unwritable_archive_stops_the_run(lab):
    """The archive's file system is full: a real one, of the smallest size."""
    small = lab / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40k", "tmpfs", small], check=True)
    tasks = "- ansible.builtin.debug: {msg: \"{{ 'x' * 30000 }}{{ item }}\"}\n  loop: '{{ range(8) | list }}'\n"
    try:
        with pytest.raises(LabctlError, match="No space left"):
            run_playbook(str(play(lab, tasks)), inventory=lab / "hosts.yml", artifacts=small / "artifacts")
    finally:
        subprocess.run(["umount", small], check=True)
    assert nothing_private_is_left(lab)
