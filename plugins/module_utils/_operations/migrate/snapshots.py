# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The snapshots of a machine that is moved: which go along, and the steps for it.

libvirt moves no machine that has snapshots. Internal ones are in the files of the disks, which are copied as they are
while the machine is off, or are on both hypervisors; their descriptions are set aside meanwhile. Those of a Ceph
cluster are where its disks are, and go along with a machine that runs as well.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Sequence

from ..._base.errors import HostError, UnsupportedError, VirtError
from ..._base.xml import etree
from ..._host.connection import VirConnect, libvirt, translate_errors
from ..._host.machines.domains import description_of
from ..._host.machines.set_aside import all_snapshots, put_back, read_texts, set_aside, snapshots_aside
from ..._host.machines.snapshots import CEPH, INTERNAL, Snapshot, list_snapshots
from ..._model.attachments import written_places
from ..._model.metadata.snapshots import read_set_aside
from ..plan import Step
from .endpoints.location import Endpoints, find, write_note
from .endpoints.source_and_target import SourceMachine


def check_snapshots(name: str, handle: t.Any, *, active: bool, undefine_source: bool, where: str) -> None:
    """Raise UnsupportedError when the machine has snapshots that cannot go along. handle: libvirt's.

    Those that an interrupted move has set aside count: they are in the disks' files, whatever libvirt knows of them.
    """
    found, aside = list_snapshots(handle), snapshots_aside(handle)
    everything = [*(one.facts for one in found), *aside]
    if not everything:
        return
    names = ", ".join(sorted(one.name for one in everything))
    words = f"{name} has snapshots ({names}), which libvirt cannot move with it"
    delete = "or delete them: virt_snapshot with state: absent"
    other = [one.name for one in everything if one.kind not in (INTERNAL, CEPH)]
    if active and any(one.kind != CEPH for one in aside):
        raise UnsupportedError(
            f"{words} while it runs; an interrupted move has set them aside",
            where=where,
            hint=f"Shut it down first (virsh shutdown {name}), and run the move again, which puts them back",
        )
    if active and any(one.kind != CEPH for one in everything):
        raise UnsupportedError(f"{words} while it runs", where=where, hint=f"Shut it down first, {delete}")
    if other:
        raise UnsupportedError(
            f"{words}, as their files would stay behind: {', '.join(sorted(other))} are external",
            where=where,
            hint="Delete them first: virt_snapshot with state: absent",
        )
    _require_their_disks(name, handle, everything, where)
    if not undefine_source:
        raise UnsupportedError(
            f"{words} if it is to stay defined here as well", where=where, hint=f"Leave undefine_source out, {delete}"
        )
    try:
        read_texts(found)
    except VirtError as exc:
        raise type(exc)(f"{words}: {exc.what}", where=where, hint=f"Delete them first, {delete[3:]}") from exc


def _require_their_disks(name: str, handle: t.Any, found: Sequence[Snapshot], where: str) -> None:
    """Raise UnsupportedError for a snapshot of disks that the machine has not got any more: they would stay behind, and
    a revert asks for all of them."""
    now = written_places(description_of(handle, libvirt.VIR_DOMAIN_XML_INACTIVE, where))
    for one in found:
        then = {} if one.domain is None else written_places(one.domain)
        gone = [f"{target} ({place})" for target, place in sorted(then.items()) if now.get(target) != place]
        if gone:
            raise UnsupportedError(
                f"{name} has a snapshot {one.name} of a disk that was detached since then, and could not be "
                f"reverted there, as the disk would stay behind: {', '.join(gone)}",
                where=where,
                hint="Attach it again first, or delete the snapshot: virt_snapshot with state: absent",
            )


def check_snapshots_on_target(
    name: str, handle: t.Any, target: VirConnect, places: Sequence[tuple[str, str]], where: str
) -> None:
    """Raise UnsupportedError when the snapshots would be of no use there. places: of each disk, here and there."""
    found = all_snapshots(handle)
    if not found:
        return
    for here, there in places:
        if here != there:
            raise UnsupportedError(
                f"{name} has snapshots, which name its disk {here}, and there it would be {there}",
                where=where,
                hint="Delete them first: virt_snapshot with state: absent",
            )
    with translate_errors("cannot ask libvirt for the version of QEMU", where):
        versions = handle.connect().getVersion(), target.getVersion()
    with_memory = [one.name for one in found if one.memory]
    if with_memory and versions[1] < versions[0]:
        raise UnsupportedError(
            f"{name} has snapshots with memory ({', '.join(with_memory)}), which the older QEMU there may be unable to "
            "revert",
            where=where,
            hint="Delete them first: virt_snapshot with state: absent",
        )


def has_snapshots(handle: t.Any, defined_xml: etree._Element) -> bool:
    """Whether there is anything to set aside, and to put back where the machine arrives: also what an earlier run has
    set aside."""
    return bool(list_snapshots(handle) or read_set_aside(defined_xml))


def set_aside_step(machine: SourceMachine, endpoints: Endpoints, switched: Callable[[], bool]) -> Step:
    """The step before the switch. switched: whether the machine has gone."""

    def undo() -> None:
        if switched():
            return
        # What has failed may have been libvirt's daemon here.
        with endpoints.reconnected().open_source() as source:
            domain = find(source, machine.uuid)
            if domain is not None:
                put_back(domain)

    return Step(f"set aside the snapshots of {machine.name}", lambda: set_aside(machine.handle), undo)


def remove_note(domain: t.Any) -> None:
    """Take the note of its move from a machine that has stayed.

    Raises HostError while its snapshots are set aside: nothing else would keep virt_power from starting it meanwhile.
    """
    if read_set_aside(description_of(domain, libvirt.VIR_DOMAIN_XML_INACTIVE)):
        raise HostError("the note of the move stays while its snapshots are set aside", hint="The next run removes it")
    write_note(domain, None)
