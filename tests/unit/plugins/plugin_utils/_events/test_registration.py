# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each kind of event, from what libvirt's bindings are handed to what a rule gets.

libvirt's test driver reports the life cycle alone. So the others begin here where libvirt's C code calls the bindings.
"""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt
from ansible_collections.brine.virt.plugins.plugin_utils._events.registration import KINDS, METADATA, registered
from ansible_collections.brine.virt.plugins.plugin_utils._events.request import TYPES
from ansible_collections.brine.virt.tests.unit.plugins.plugin_utils._events.conftest import SHARED

# By libvirt's kind: what its C code calls, with what, and the event without its head.
MOVED = {
    "operation": libvirt.VIR_DOMAIN_JOB_OPERATION_MIGRATION_OUT,
    "time_elapsed": 2534,
    "downtime": 272,
    "data_processed": 115029401,
}
TOLD: list[tuple[str, str, tuple[t.Any, ...], dict[str, t.Any] | None]] = [
    ("LIFECYCLE", "Lifecycle", (5, 5), {"type": "lifecycle", "change": "stopped", "reason": "failed", "missed": False}),
    ("REBOOT", "Generic", (), {"type": "reboot"}),
    (
        "IO_ERROR_REASON",
        "IOErrorReason",
        ("/vms/a.qcow2", "virtio-disk0", 1, "enospc"),
        {
            "type": "io_error",
            "path": "/vms/a.qcow2",
            "device": "virtio-disk0",
            "action": "pause",
            "reason": "enospc",
        },
    ),
    (
        "IO_ERROR_REASON",
        "IOErrorReason",
        ("/vms/a.qcow2", "virtio-disk0", 2, ""),
        {"type": "io_error", "path": "/vms/a.qcow2", "device": "virtio-disk0", "action": "report", "reason": "error"},
    ),
    ("WATCHDOG", "Watchdog", (libvirt.VIR_DOMAIN_EVENT_WATCHDOG_RESET,), {"type": "watchdog", "action": "reset"}),
    (
        "BLOCK_JOB_2",
        "BlockJob",
        ("vda", libvirt.VIR_DOMAIN_BLOCK_JOB_TYPE_COPY, libvirt.VIR_DOMAIN_BLOCK_JOB_READY),
        {"type": "block_job", "device": "vda", "job": "copy", "change": "ready"},
    ),
    (
        "MIGRATION_ITERATION",
        "MigrationIteration",
        (3,),
        {"type": "migration", "change": "iteration", "iteration": 3},
    ),
    (
        "JOB_COMPLETED",
        "JobCompleted",
        (MOVED,),
        {"type": "migration", "change": "completed", "seconds": 2.534, "downtime_ms": 272, "bytes": 115029401},
    ),
    ("JOB_COMPLETED", "JobCompleted", ({**MOVED, "operation": libvirt.VIR_DOMAIN_JOB_OPERATION_BACKUP},), None),
    (
        "BLOCK_THRESHOLD",
        "BlockThreshold",
        ("vda", "/vms/a.qcow2", 800, 24),
        {
            "type": "disk_threshold",
            "device": "vda",
            "path": "/vms/a.qcow2",
            "threshold_bytes": 800,
            "excess_bytes": 24,
        },
    ),
    (
        "AGENT_LIFECYCLE",
        "AgentLifecycle",
        (libvirt.VIR_CONNECT_DOMAIN_EVENT_AGENT_LIFECYCLE_STATE_CONNECTED, 2),
        {"type": "agent", "change": "connected", "reason": "channel"},
    ),
]


@pytest.mark.parametrize(("kind", "dispatch", "values", "event"), TOLD)
def test_each_kind_of_event(
    kind: str,
    dispatch: str,
    values: tuple[t.Any, ...],
    event: dict[str, t.Any] | None,
    machine: t.Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    conn = libvirt.open(SHARED)
    callbacks: dict[int, t.Any] = {}
    register = conn.domainEventRegisterAny

    def note(domain: t.Any, number: int, callback: t.Any, opaque: t.Any) -> t.Any:
        callbacks[number] = {"cb": callback, "opaque": opaque}
        return register(domain, number, callback, opaque)

    monkeypatch.setattr(conn, "domainEventRegisterAny", note)
    taken: list[tuple[dict[str, t.Any], int | None]] = []
    with registered(conn, TYPES, lambda *told: taken.append(told), lambda: None):
        data = callbacks[getattr(libvirt, f"VIR_DOMAIN_EVENT_ID_{kind}")]
        domain = conn.lookupByName(machine.name())
        # The callback's own: the bindings free it.
        pointer, domain._o = domain._o, None
        getattr(conn, f"_dispatchDomainEvent{dispatch}Callback")(pointer, *values, data)
    conn.close()
    head = {"machine": "test", "uuid": machine.UUIDString()}
    # Tests before this one may have started it anew.
    assert taken == ([] if event is None else [({**head, **event}, machine.ID())])


def test_no_kind_is_left_out() -> None:
    told = [kind for kind in KINDS if kind.type != METADATA]
    assert {kind.number.removeprefix("VIR_DOMAIN_EVENT_ID_") for kind in told} == {kind for kind, *_rest in TOLD}
    assert {kind.type for kind in told} | {"hypervisor"} == set(TYPES)
