# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the target has taken a machine over, by what the two hypervisors say of it."""

from __future__ import annotations

import dataclasses

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.xml import parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.migration import (
    MigrationNote,
    VolumeIdentity,
    VolumeRef,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.endpoints.location import (
    Presence,
    Presences,
    shared_files,
)

BEGUN = "2026-11-27 08:30:34.891+0000"
NOTE = MigrationNote(
    "hv1",
    "hv2",
    "qemu+tls://hv2/system",
    made=(VolumeRef("default", "web1-system.qcow2", VolumeIdentity("word")),),
    running=True,
    start=BEGUN,
)
OTHER_MARK = dataclasses.replace(
    NOTE, made=(VolumeRef("default", "web1-system.qcow2", VolumeIdentity("another word")),)
)
HELD = Presence(libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_MIGRATION, note=NOTE)
OFF = Presence(libvirt.VIR_DOMAIN_SHUTOFF, libvirt.VIR_DOMAIN_SHUTOFF_UNKNOWN, note=NOTE, started=BEGUN)
RUNS = Presence(libvirt.VIR_DOMAIN_RUNNING, libvirt.VIR_DOMAIN_RUNNING_MIGRATED, note=NOTE)


def test_a_machine_that_runs_there_and_stands_still_here_is_taken_over() -> None:
    assert Presences(HELD, RUNS).taken_over
    # As libvirt leaves it where it knows that it runs there.
    assert Presences(OFF, RUNS).taken_over
    for reason in (libvirt.VIR_DOMAIN_SHUTOFF_MIGRATED, libvirt.VIR_DOMAIN_SHUTOFF_DAEMON):
        assert Presences(dataclasses.replace(OFF, reason=reason), RUNS).taken_over


@pytest.mark.parametrize(
    "here",
    [
        RUNS,
        dataclasses.replace(HELD, reason=libvirt.VIR_DOMAIN_PAUSED_USER),
        dataclasses.replace(HELD, reason=libvirt.VIR_DOMAIN_PAUSED_POSTCOPY),
        dataclasses.replace(HELD, busy=True),
        dataclasses.replace(HELD, note=None),
        dataclasses.replace(HELD, note=OTHER_MARK),
        dataclasses.replace(HELD, note=dataclasses.replace(NOTE, running=None)),
        dataclasses.replace(OFF, reason=libvirt.VIR_DOMAIN_SHUTOFF_SHUTDOWN),
        dataclasses.replace(OFF, reason=libvirt.VIR_DOMAIN_SHUTOFF_DESTROYED),
        dataclasses.replace(OFF, reason=libvirt.VIR_DOMAIN_SHUTOFF_CRASHED),
        dataclasses.replace(OFF, started="2026-11-27 09:12:00.004+0000"),
        dataclasses.replace(OFF, started=""),
        Presence(),
    ],
    ids=[
        "it runs",
        "its user has paused it",
        "its memory is needed there",
        "libvirt is at work on it",
        "it is in no move",
        "it is in another move",
        "an earlier version's note",
        "its guest has shut it down since",
        "somebody has stopped it since",
        "its QEMU was killed",
        "it was started since, and its daemon or host again after that",
        "its log is gone",
        "it is not there",
    ],
)
def test_what_the_source_may_have_that_is_newer(here: Presence) -> None:
    assert not Presences(here, RUNS).taken_over


@pytest.mark.parametrize("here", [HELD, OFF], ids=["paused", "off"])
@pytest.mark.parametrize(
    "there",
    [
        HELD,
        OFF,
        Presence(),
        dataclasses.replace(RUNS, reason=libvirt.VIR_DOMAIN_RUNNING_POSTCOPY),
        dataclasses.replace(RUNS, busy=True),
        dataclasses.replace(RUNS, note=None),
    ],
    ids=["paused", "off", "not there", "half of its memory", "libvirt is at work on it", "another machine"],
)
def test_a_machine_that_does_not_run_there_is_not_taken_over(here: Presence, there: Presence) -> None:
    assert not Presences(here, there).taken_over


def test_the_disks_whose_files_both_ends_have_open() -> None:
    def disk(device: str, source: str, more: str = "") -> str:
        return f"<disk>{source}<target dev='{device}'/>{more}</disk>"

    disks = [
        disk("vda", "<source file='/pools/default/web1-system.qcow2'/>"),
        disk("vdb", "<source file='/nfs/web1-data.raw'/>"),
        disk("vdc", "<source pool='nfs' volume='web1-more.raw'/>"),
        disk("vdd", "<source protocol='rbd' name='vms/web1-logs'/>"),
        disk("vde", "<source dev='/dev/san/web1'/>"),
        disk("sda", "<source file='/nfs/debian.iso'/>", "<readonly/>"),
        disk("sdb", ""),
    ]
    machine = parse_xml(f"<domain><devices>{''.join(disks)}</devices></domain>")
    assert shared_files(machine, NOTE) == ["vdb", "vdc"]
