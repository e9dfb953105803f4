# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A running machine is held still while a snapshot of it is taken, so that it is of one moment.

The guest agent freezes its file systems, and where its volumes are in a cluster, libvirt pauses it: QEMU then waits for
all writes and flushes them. A note in its running description says so before, by which the next run lets go of what a
killed one has held.

libvirt itself could have the agent do it, but it forgets a snapshot that it has taken when the guest does not thaw
afterwards, or its daemon ends before that (qemuSnapshotCreate in src/qemu/qemu_snapshot.c).
"""

from __future__ import annotations

import contextlib
import threading
import time
import typing as t
from collections.abc import Iterator
from dataclasses import replace

from ..._base.errors import HostError, VirtError, as_virt_error
from ..._host.connection import agent_limit, libvirt, nothing_frozen, translate_error, translate_errors
from ..._host.machines.record import state_name
from ..._model.metadata.snapshots import WORK_NAMESPACE, WORK_PREFIX, SnapshotWork, work_to_bare_xml

# A guest's file systems are frozen for a few seconds at most; an agent that needs longer is one that hangs.
FREEZE_SECONDS = 60
# One with much to write freezes long after its answer was given up, and is asked again to thaw.
_THAW_AGAIN_SECONDS = 2.0
# It usually takes less than a second. A cluster whose monitors have no quorum makes no snapshots, and no end of it,
# while its machines go on reading and writing.
HOLD_SECONDS = 60.0
_WITHOUT = "With quiesce=false the snapshot is taken without that, like the disks after a power cut"


@contextlib.contextmanager
def held_still(
    handle: t.Any, work: SnapshotWork, who: str, so: str, frozen: t.Callable[[int], None] = lambda _count: None
) -> Iterator[None]:
    """In the block, the machine is as work says. handle: libvirt's of a machine that runs. frozen: is told how many
    file systems were frozen.

    who, so: who is at work in the block, and what it means when that takes longer than HOLD_SECONDS, in words.

    Whatever happens, it runs on afterwards, and after HOLD_SECONDS also during the block. Raises HostError where it
    cannot be held, where it could not be let go, and where the block took longer than that.
    """
    name = handle.name()
    with translate_errors(f"cannot write the metadata of machine {name}"):
        _write(handle, work)
    try:
        with translate_errors(f"cannot hold machine {name} still"):
            if work.frozen:
                with agent_limit(handle, FREEZE_SECONDS):
                    try:
                        count = handle.fsFreeze()
                    except libvirt.libvirtError as exc:
                        work = replace(work, frozen=not nothing_frozen(handle, exc))
                        error = translate_error(exc, f"cannot hold machine {name} still")
                        error.hint = _WITHOUT
                        raise error from exc
                frozen(count)
            if work.paused:
                handle.suspend()
        with _for_a_while(handle, work) as late:
            yield
        if late.is_set():
            raise HostError(f"{who} took longer than {HOLD_SECONDS:g} s, so machine {name} runs on and {so}")
    except BaseException as exc:
        try:
            let_go(handle, work)
        except VirtError as left:
            raise HostError(
                f"{as_virt_error(exc).what}; {left.what}" if isinstance(exc, Exception) else left.what, hint=left.hint
            ) from exc
        raise
    let_go(handle, work)


@contextlib.contextmanager
def _for_a_while(handle: t.Any, work: SnapshotWork) -> Iterator[threading.Event]:
    late = threading.Event()

    def release() -> None:
        late.set()
        # Who holds it says so, if it cannot be let go at the end either.
        with contextlib.suppress(VirtError):
            let_go(handle, work)

    timer = threading.Timer(HOLD_SECONDS, release)
    timer.daemon = True
    timer.start()
    try:
        yield late
    finally:
        timer.cancel()
        timer.join()


def let_go(handle: t.Any, work: SnapshotWork) -> None:
    """Have a machine run on that was held; one that runs on already is no error.

    Raises HostError, with the command, for what cannot be; its note stays then.
    """
    name = handle.name()
    if work.paused:
        with _said(f"machine {name} was paused for a snapshot, and cannot be resumed", f"virsh resume {name}"):
            if state_name(handle.state()[0]) == "paused":
                handle.resume()
    if work.frozen:
        words = f"the file systems of machine {name} were frozen for a snapshot, and cannot be thawed"
        with _said(words, f"virsh domfsthaw {name}"), agent_limit(handle, FREEZE_SECONDS):
            _thaw(handle)
    with translate_errors(f"cannot write the metadata of machine {name}"):
        _write(handle, None)


def _thaw(handle: t.Any) -> None:
    end = time.monotonic() + FREEZE_SECONDS
    while handle.isActive():
        try:
            handle.fsThaw()
            return
        except libvirt.libvirtError:
            if time.monotonic() > end:
                raise
        time.sleep(_THAW_AGAIN_SECONDS)


@contextlib.contextmanager
def _said(words: str, command: str) -> Iterator[None]:
    try:
        with translate_errors(words):
            yield
    except VirtError as exc:
        raise HostError(exc.what, hint=f"By hand: {command}. The next run of virt_snapshot tries it again") from exc


def _write(handle: t.Any, work: SnapshotWork | None) -> None:
    """The running description alone has it: when the machine stops, nobody holds it any more."""
    if handle.isActive():
        text = None if work is None else work_to_bare_xml(work)
        handle.setMetadata(
            libvirt.VIR_DOMAIN_METADATA_ELEMENT, text, WORK_PREFIX, WORK_NAMESPACE, libvirt.VIR_DOMAIN_AFFECT_LIVE
        )
