"""``ansible-playbook`` that cannot outlive the process which started it. Run by path, never imported by labctl.

The kernel sends SIGTERM when the parent dies, however it dies (``kill -9``, out of memory): see prctl(2),
PR_SET_PDEATHSIG. Ansible then ends its workers and what they run. Ansible runs inside this interpreter, so the leash
costs nothing. It is the last resort: as long as ``worker.py`` lives, that one stops the whole tree. What Ansible is
about to start in the very moment of the signal may run to its own end.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """``leash.py PARENT_PID ARGUMENT…``: the arguments are those of ``ansible-playbook``."""
    parent = int(sys.argv[1])
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0) != 0:
        sys.exit(f"cannot tie ansible-playbook to labctl: {os.strerror(ctypes.get_errno())}")
    if os.getppid() != parent:
        sys.exit("labctl has gone before ansible-playbook started")
    sys.argv = ["ansible-playbook", *sys.argv[2:]]
    from ansible.cli.playbook import main as playbook  # noqa: PLC0415 - after the leash is on

    playbook()


if __name__ == "__main__":
    main()
