# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Event source of ansible-rulebook, which runs this file by its path and calls `main`."""

from __future__ import annotations

import asyncio
import sys
import typing as t
from pathlib import Path

DOCUMENTATION = r"""
name: domains
short_description: What happens to the machines of KVM hypervisors
author:
  - brine.virt contributors
version_added: 1.0.0
description:
  - Reports what happens to machines as libvirt reports it, within milliseconds and without polling. One source serves
    many hypervisors.
  - A hypervisor that does not answer, or no longer answers, is named in an event, and is tried again until it answers.
    What happened to its machines meanwhile follows as events with C(missed=true), found by comparing the machines
    before and after. What else happened in that time, such as an I/O error that is over, is not known.
  - If rules are slower than events, events wait, up to O(buffer) of each hypervisor. Those that do not fit are counted
    and reported with the change C(events_lost), and the machines are compared then as well.
  - Silence, its end and lost events are also in the log of ansible-rulebook, as warnings.
options:
  hypervisors:
    description:
      - The hypervisors. Either a mapping from names to libvirt URIs, or a list of host names, for which O(transport)
        and O(user) say how to reach them. Events have these names, so they should be those of the inventory. An address
        with a password in it is refused, as every event has the URI.
    type: raw
    required: true
  transport:
    description:
      - How to reach those that are given by their host names. V(ssh) needs a key without a passphrase, or an agent;
        V(tls) a certificate of the user who runs ansible-rulebook, see the guide's page on TLS.
    type: str
    choices: [ssh, tls]
    default: ssh
  user:
    description: The user to log in as by SSH. SSH's own choice by default.
    type: str
  types:
    description:
      - Which events to report, by their C(type). All by default. Those of the type V(hypervisor) are always reported,
        as rules that do not get them would not know that they have missed something.
    type: list
    elements: str
    choices: [hypervisor, lifecycle, reboot, io_error, watchdog, block_job, migration, disk_threshold, agent]
  threshold_percent:
    description:
      - Reports once for each run of a machine when a write goes beyond this percentage of a disk's size in the file of
        its image. This needs a connection that may make changes; everything else works with a read-only one.
      - It is set when a machine starts, and once it has arrived by a move. A disk that is attached while it runs, or
        that has got another file since (by an external snapshot, or a move to another pool), is watched from the
        machine's next start on.
    type: int
  buffer:
    description: How many events of one hypervisor may wait for the rules.
    type: int
    default: 1000
  retry_seconds:
    description: The longest time between two attempts to reach a hypervisor. The first is after one second.
    type: int
    default: 30
requirements:
  - libvirt-python and lxml, in the Python that runs ansible-rulebook
notes:
  - Every event has C(type), C(hypervisor), C(uri) and C(at), the time in UTC. Those of machines have C(machine),
    C(uuid), C(tags) and C(managed), which is true for machines of this collection.
  - C(lifecycle) has C(change), one of defined, undefined, started, suspended, resumed, stopped, shutdown, pmsuspended
    and crashed; C(reason) in libvirt's words; and C(missed). A QEMU that has died is stopped with the reason failed, a
    guest that has panicked with the reason crashed, if the machine has a panic device; both have C(crashes), how often
    this machine has done so on this hypervisor in the last ten minutes. On the target of a move that has failed, a
    machine is stopped with the reason failed as well; that is not a crash, and has C(arriving=true) in place of
    C(crashes).
  - Texts such as a machine's name are what somebody on a hypervisor has written. A space is put after each brace that
    opens, after each backslash, and after a C(#) that could begin C(#jinja2:), as a playbook would take these for a
    template.
  - C(io_error) has C(device), C(path), C(action), one of pause, report and none, and C(reason), where enospc means that
    no space is left. C(watchdog) has C(action).
  - C(block_job) has C(device), C(job) and C(change). C(migration) has C(change), one of iteration, with C(iteration);
    completed, with C(seconds), C(downtime_ms) and C(bytes); and failed. The last is told of the target, the others of
    the source.
  - C(disk_threshold) has C(device), C(path), C(threshold_bytes) and C(excess_bytes). C(agent) has C(change), connected
    or disconnected, and C(reason).
  - C(hypervisor) has C(change), one of connected, with C(machines) and after a silence C(silent_seconds); silent, with
    C(error); and events_lost, with C(lost).
"""

EXAMPLES = r"""
- name: Machines that crash
  hosts: all
  sources:
    - brine.virt.domains:
        hypervisors:
          hv1: qemu+ssh://root@hv1.example.com/system
          hv2: qemu+tls://hv2.example.com/system
        types: [lifecycle]
  rules:
    - name: A hypervisor that is silent is named
      condition: event.type == "hypervisor" and event.change == "silent"
      action:
        debug:
          msg: "{{ event.hypervisor }} does not respond: {{ event.error }}"
    - name: A machine whose QEMU has died is started again
      condition: event.change == "stopped" and event.reason == "failed" and event.managed and event.crashes <= 5
      action:
        run_playbook:
          name: brine.virt.power
          extra_vars:
            vm: "{{ event.uuid }}"
            "on": "{{ event.hypervisor }}"
            state: running
"""

# ansible-rulebook knows nothing of the Python in collections. This file is
# DIRECTORY/ansible_collections/brine/virt/extensions/eda/plugins/event_source/domains.py.
_PLACE = Path(__file__).absolute()
if _PLACE.parts[-8:-4] != ("ansible_collections", "brine", "virt", "extensions"):
    raise ImportError(f"{_PLACE} is not where ansible-galaxy puts it, below ansible_collections/brine/virt")
if str(_PLACE.parents[7]) not in sys.path:
    sys.path.append(str(_PLACE.parents[7]))


async def main(queue: asyncio.Queue[dict[str, t.Any]], args: dict[str, t.Any]) -> None:
    """Put events into the queue until cancelled. queue, args: of ansible-rulebook. Raises what tell_events does."""
    from ansible_collections.brine.virt.plugins.plugin_utils._events.source import tell_events

    await tell_events(queue, args)
