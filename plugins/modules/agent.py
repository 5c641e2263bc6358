#!/usr/bin/python

# Copyright: the labctl authors. Apache-2.0.
"""Documentation of the action plugin ``labctl.lab.agent``, which does all the work on the controller."""

DOCUMENTATION = r"""
module: agent
short_description: Run benchmark cells on a host with the cell agent
version_added: 0.1.0
description:
  - Hands a batch of cells to an agent on the host, follows it, stops it, and fetches its finished bundles.
  - The agent outlives the connection. It is pushed only where the target has another version of it.
  - This is an action plugin. The target needs Python 3.9 or newer and no libraries.
options:
  state:
    description:
      - V(started) hands over the batch and returns.
      - V(waited) follows a running agent to its end.
      - V(measured) is V(started) and then V(waited).
      - V(stopped) stops the agent; its running cell is finished as interrupted.
      - V(collected) fetches finished bundles that O(inbox) does not have, also those of a vanished agent.
      - V(removed) stops the agent and deletes the directory of the run.
    type: str
    choices: [measured, started, waited, stopped, collected, removed]
    default: measured
  workdir:
    description: Directory on the target that belongs to labctl.
    type: path
    required: true
  run_id:
    description: The run; one name of letters, digits, dots and dashes.
    type: str
    required: true
  batch:
    description: File on the controller with the host's batch. Needed for V(started) and V(measured).
    type: path
  boot_id:
    description:
      - The boot in which the host was prepared. In another one V(measured) starts nothing; the agent is lost then.
    type: str
  progress:
    description: File on the controller that gets progress as lines of JSON.
    type: path
  inbox:
    description: Directory on the controller for bundles. Needed for V(collected).
    type: path
  poll_s:
    description: Seconds between two looks at the agent's status.
    type: float
    default: 1.0
  reconnect_s:
    description: For how many seconds a cut connection is tried anew.
    type: float
    default: 300.0
  deadline_s:
    description: The task fails when waiting takes longer; V(0) is no limit.
    type: float
    default: 0.0
  grace_s:
    description: Seconds that the agent gets to end its cell when stopped.
    type: float
    default: 60.0
attributes:
  check_mode:
    description: Says what it would do.
    support: full
  diff_mode:
    description: There is nothing to compare.
    support: none
author:
  - The labctl authors
"""

EXAMPLES = r"""
- name: Measure a batch
  labctl.lab.agent:
    state: measured
    workdir: /var/lib/labctl
    run_id: 20260101-120000-abcd
    batch: /tmp/batch.json

- name: Fetch what has finished
  labctl.lab.agent:
    state: collected
    workdir: /var/lib/labctl
    run_id: 20260101-120000-abcd
    inbox: /tmp/inbox
"""

RETURN = r"""
agent_lost:
  description: The agent vanished with work left (killed, or the host was rebooted). The task does not fail then.
  returned: waited, measured
  type: bool
reason:
  description: Why the agent counts as lost.
  returned: waited, measured
  type: str
state:
  description: The agent's last state, V(running), V(finished) or V(stopped).
  returned: waited, measured, stopped
  type: str
finished:
  description: Attempts of the batch that have ended, with id, attempt, status, started, finished and error.
  returned: waited, measured
  type: list
  elements: dict
collected:
  description: Bundles that were fetched, with cell, attempt, status and error.
  returned: collected
  type: list
  elements: dict
recovered:
  description: Attempts of a vanished agent that were finished as interrupted.
  returned: collected
  type: list
  elements: str
killed:
  description: The agent did not end by itself.
  returned: stopped
  type: bool
busy:
  description: Another run holds the host; RV(holder) says which.
  returned: failed start
  type: bool
holder:
  description: Run, owner, pid and start of the agent that holds the host.
  returned: failed start
  type: dict
"""
