# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What libvirt is asked to tell of machines, and what it tells, as events for rules.

Of each event the keys beside type, machine and uuid are those of `describe` here. The callbacks run in libvirt's event
loop, which waits for them: they ask nobody anything.
https://libvirt.org/html/libvirt-libvirt-domain.html, virDomainEventID and what belongs to it
"""

from __future__ import annotations

import contextlib
import typing as t
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from ...module_utils._host.connection import VirConnect, libvirt, suppress_codes, translate_errors
from ...module_utils._model.metadata.migration import is_flush_name
from .machines import Event
from .words import (
    AGENT_REASON,
    AGENT_STATE,
    IO_ACTION,
    JOB_KIND,
    WATCHDOG_ACTION,
    block_job_word,
    change_word,
    reason_word,
    word,
)

# Gets an event, and libvirt's ID of the machine, None when that is off.
Taker = Callable[[Event, "int | None"], None]

METADATA = "metadata"


@dataclass(frozen=True)
class _Kind:
    """One kind of libvirt's events. number: the name of the constant. describe: from what the callback gets after
    connection and machine, the keys of the event; None for one that is not told."""

    type: str
    number: str
    describe: Callable[..., Event | None]


def _lifecycle(change: int, reason: int) -> Event:
    word_of = change_word(change)
    return {"change": word_of, "reason": reason_word(word_of, reason), "missed": False}


def _job(values: Mapping[str, t.Any]) -> Event | None:
    """What a job says at its end; of those that are no migration, nothing."""
    operations = ("VIR_DOMAIN_JOB_OPERATION_MIGRATION_IN", "VIR_DOMAIN_JOB_OPERATION_MIGRATION_OUT")
    if values.get("operation") not in [getattr(libvirt, name, None) for name in operations]:
        return None
    return {
        "change": "completed" if values.get("success", True) else "failed",
        "seconds": round(values.get("time_elapsed", 0) / 1000, 3),
        "downtime_ms": values.get("downtime"),
        "bytes": values.get("data_processed"),
    }


KINDS = (
    _Kind("lifecycle", "VIR_DOMAIN_EVENT_ID_LIFECYCLE", _lifecycle),
    _Kind("reboot", "VIR_DOMAIN_EVENT_ID_REBOOT", dict),
    _Kind(
        "io_error",
        "VIR_DOMAIN_EVENT_ID_IO_ERROR_REASON",
        lambda path, device, action, reason: {
            "path": path,
            "device": device,
            "action": word(IO_ACTION, action),
            "reason": reason or "error",
        },
    ),
    _Kind("watchdog", "VIR_DOMAIN_EVENT_ID_WATCHDOG", lambda action: {"action": word(WATCHDOG_ACTION, action)}),
    _Kind(
        "block_job",
        "VIR_DOMAIN_EVENT_ID_BLOCK_JOB_2",
        lambda device, job, status: {"device": device, "job": word(JOB_KIND, job), "change": block_job_word(status)},
    ),
    _Kind(
        "migration",
        "VIR_DOMAIN_EVENT_ID_MIGRATION_ITERATION",
        lambda iteration: {"change": "iteration", "iteration": iteration},
    ),
    _Kind("migration", "VIR_DOMAIN_EVENT_ID_JOB_COMPLETED", _job),
    _Kind(
        "disk_threshold",
        "VIR_DOMAIN_EVENT_ID_BLOCK_THRESHOLD",
        lambda device, path, threshold, excess: {
            "device": device,
            "path": path,
            "threshold_bytes": threshold,
            "excess_bytes": excess,
        },
    ),
    _Kind(
        "agent",
        "VIR_DOMAIN_EVENT_ID_AGENT_LIFECYCLE",
        lambda state, reason: {"change": word(AGENT_STATE, state), "reason": word(AGENT_REASON, reason)},
    ),
    # For ourselves: its tags may be others now, or it may be ours.
    _Kind(METADATA, "VIR_DOMAIN_EVENT_ID_METADATA_CHANGE", lambda _kind, _namespace: {}),
)


def machine_number(domain: t.Any) -> int | None:
    """libvirt's ID of this run of a machine, None when it is off."""
    number = domain.ID()
    return None if number == -1 else int(number)


@contextlib.contextmanager
def registered(conn: VirConnect, types: Collection[str], take: Taker, ended: Callable[[], None]) -> Iterator[None]:
    """Inside the block libvirt tells of these types, each event to `take`, and of the connection's end to `ended`.

    conn: opened after run_events(). What this hypervisor's driver has no events for is passed over. Raises VirtError.
    What is registered keeps a connection open after close(), so it ends with the block.
    """

    def callback(kind: _Kind) -> t.Any:
        def told(_conn: t.Any, domain: t.Any, *values: t.Any) -> None:
            name = domain.name()
            # The last of the values is what was given at the registration.
            event = None if is_flush_name(name) else kind.describe(*values[:-1])
            if event is not None:
                head = {"type": kind.type, "machine": name, "uuid": domain.UUIDString()}
                take({**head, **event}, machine_number(domain))

        return told

    numbers: list[int] = []

    def cancel() -> None:
        for number in numbers:
            with contextlib.suppress(libvirt.libvirtError):
                conn.domainEventDeregisterAny(number)
        with contextlib.suppress(libvirt.libvirtError):
            conn.unregisterCloseCallback()

    with contextlib.ExitStack() as stack:
        stack.callback(cancel)
        with translate_errors("cannot ask for events"):
            conn.registerCloseCallback(lambda *_args: ended(), None)
            for kind in KINDS:
                number = getattr(libvirt, kind.number, None)
                if kind.type not in types or number is None:
                    continue
                with suppress_codes(libvirt.VIR_ERR_NO_SUPPORT, libvirt.VIR_ERR_INVALID_ARG):
                    numbers.append(conn.domainEventRegisterAny(None, number, callback(kind), None))
        yield
