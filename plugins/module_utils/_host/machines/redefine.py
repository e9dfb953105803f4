# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine that is there gets another description; one that has left is never defined a second time.

To libvirt, defining a machine that has left means making one: it would exist on two hypervisors, with one UUID and one
set of MAC addresses, and could be started on both. None of its flags asks for a machine that is there already.
"""

from __future__ import annotations

import contextlib
import threading
import time
import typing as t

from ..._base.errors import ConflictError, HostError
from ..._base.xml import parse_xml
from ..._model.attachments import written_disks
from ..connection import VirConnect, libvirt, suppress_codes, translate_errors
from ..machines import domains

# The event comes with the answer to the call; where everything is slow, later, and 15 seconds were too few at times.
# What nothing is known of by then needs somebody to look at two hypervisors.
_EVENT_SECONDS = 90
# A start that fails for a lock does so as soon as QEMU opens its disks.
_START_SECONDS = 60.0
_LOOK_SECONDS = 0.25
_NAMES = ("file", "dev", "dir", "protocol", "name", "pool", "volume")


class MachineGoneError(ConflictError):
    """The machine is not on this hypervisor any more."""


def gone(name: str) -> MachineGoneError:
    """The error about a machine that has left while it was worked on."""
    return MachineGoneError(
        f"machine {name} is no longer on this hypervisor: it was moved or undefined in the meantime",
        hint="It was not defined here again. Look for it on the other hypervisors, and run this again there",
    )


def is_defined(conn: VirConnect, uuid: str) -> bool:
    """Whether a machine is defined on this hypervisor; one that only runs until it stops is not."""
    return _find(conn, uuid) is not None


def _find(conn: VirConnect, uuid: str) -> t.Any:
    """libvirt's handle of a machine that is defined, else None."""
    what = f"cannot look up the machine with the UUID {uuid}"
    with translate_errors(what), suppress_codes(libvirt.VIR_ERR_NO_DOMAIN):
        handle = conn.lookupByUUIDString(uuid)
        return handle if handle.isPersistent() else None
    return None


def require_defined(conn: VirConnect, uuid: str, name: str) -> None:
    """Raise MachineGoneError when a machine is not defined here any more."""
    if not is_defined(conn, uuid):
        raise gone(name)


def redefine(conn: VirConnect, xml: str, uuid: str, name: str) -> None:
    """Give a machine that is there another description, which has its UUID in it.

    Raises MachineGoneError when the machine has left, and then nothing is defined. Between the question and the
    definition it may leave as well. libvirt says of every definition whether it has added a machine, and one that it
    has added is rolled back at once. Raises HostError where it does not say it: then nobody knows.
    """
    handle = _find(conn, uuid)
    if handle is None:
        raise gone(name)
    with _additions(conn, handle) as added:
        made = domains.define(conn, xml, name)
        new = added()
        if new is None:
            raise HostError(
                f"it is unknown whether machine {name} was still on this hypervisor when it was defined here, as "
                "libvirt did not report it",
                hint=f"Check whether another hypervisor has it too; if so: virsh undefine {name} here",
            )
        if new:
            _roll_back(made, name)
            raise gone(name)


def redefine_disks(conn: VirConnect, xml: str, uuid: str, name: str, what: str, *, held: bool = False) -> None:
    """Give a machine that is off other disks, as redefine.

    libvirt calls a machine active some time before its QEMU opens the disks, which are those of before where that began
    before the definition: then it gets its former description back, and ConflictError is raised. what: what is being
    done to it, in words. held: nobody can open the disks of before, so that such a start fails, and is waited for.
    """
    handle = _find(conn, uuid)
    if handle is None:
        raise gone(name)
    with translate_errors(f"cannot inspect machine {name}"):
        before = handle.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE | libvirt.VIR_DOMAIN_XML_SECURE)
    left = _sources(before) - _sources(xml)
    redefine(conn, xml, uuid, name)
    end = time.monotonic() + (_START_SECONDS if held else 0)
    while True:
        with translate_errors(f"cannot inspect machine {name}"):
            # It may have left by itself meanwhile.
            now = handle.XMLDesc(0) if handle.isActive() else None
        if now is None or not left & _sources(now):
            return
        if time.monotonic() > end:
            break
        time.sleep(_LOOK_SECONDS)
    redefine(conn, before, uuid, name)
    raise ConflictError(
        f"machine {name} was started while {what}, and is on its disks of before",
        hint="Shut it down, leave it off, and run it again",
    )


def _sources(xml: str) -> set[tuple[str | None, ...]]:
    """What the disks are, as they are named: by path, by name on network storage, or by pool and volume."""
    found = (disk.find("source") for disk in written_disks(parse_xml(xml)).values())
    return {tuple(source.get(key) for key in _NAMES) for source in found if source is not None}


@contextlib.contextmanager
def _additions(conn: VirConnect, handle: t.Any) -> t.Iterator[t.Callable[[], bool | None]]:
    """Gives a question to be asked after a definition in the block: whether it has added the machine; None where
    libvirt says nothing of it.

    handle: the machine, known to libvirt by its UUID. A connection takes one such request for each machine, and only
    one for all of them, which would not do for several machines at once.
    """
    reported = threading.Event()
    details: list[int] = []

    def note(_conn: t.Any, _domain: t.Any, event: int, detail: int, _opaque: t.Any) -> None:
        if event == libvirt.VIR_DOMAIN_EVENT_DEFINED:
            details.append(detail)
            reported.set()

    def added() -> bool | None:
        return libvirt.VIR_DOMAIN_EVENT_DEFINED_ADDED in details if reported.wait(_EVENT_SECONDS) else None

    with translate_errors("cannot ask libvirt for its events"):
        number = conn.domainEventRegisterAny(handle, libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE, note, None)
    try:
        yield added
    finally:
        with contextlib.suppress(libvirt.libvirtError):
            conn.domainEventDeregisterAny(number)


def _roll_back(made: t.Any, name: str) -> None:
    """Undefine what was defined by mistake. What the machine's files here hold is left as it is."""
    with translate_errors(f"machine {name} has left this hypervisor, and was defined here again; cannot undefine it"):
        domains.undefine_handle(made, libvirt.VIR_DOMAIN_UNDEFINE_KEEP_NVRAM)
