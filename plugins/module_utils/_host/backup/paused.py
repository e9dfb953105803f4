# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine that an I/O error pauses while it is backed up, and that goes on when the backup has ended.

What the guest is about to overwrite, QEMU copies to the backup first. If that fails, the guest's own write fails with
the same error (on-cbw-error=break-guest-write in QEMU's QAPI, which libvirt leaves as it is). A full disk pauses the
machine by default (werror=enospc), and QEMU repeats the write when the machine goes on. Nobody else resumes it.
"""

from __future__ import annotations

import time
import typing as t

from ..._base.errors import VirtError
from ..connection import libvirt, translate_errors

# libvirt learns of a pause by an event, which may come after that of the job's end.
_EVENT_SECONDS = 2.0
# One that is paused again runs for a moment at most.
_SETTLE_SECONDS = 1.0
_LOOK_SECONDS = 0.1

OnRemark = t.Callable[[str], t.Any]


def is_running(domain: t.Any) -> bool:
    """Whether a machine runs, and is not paused. Raises VirtError."""
    return bool(_state(domain)[0] == libvirt.VIR_DOMAIN_RUNNING)


def paused_by_error(domain: t.Any) -> bool:
    """Whether an I/O error has paused a machine. Raises VirtError."""
    return _state(domain) == [libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_IOERROR]


def _state(domain: t.Any) -> list[int]:
    with translate_errors(f"cannot inspect machine {domain.name()}"):
        return list(domain.state()[:2])


def resume(domain: t.Any, on_remark: OnRemark, *, failed: bool = False) -> None:
    """Have a machine go on if an I/O error has paused it. The job has ended; failed: just now, with an error, so that
    libvirt may learn of a pause in a moment only. on_remark: called with what became of it, if so, or with why it could
    not be resumed."""
    try:
        if not _paused_within(domain, _EVENT_SECONDS if failed else 0):
            return
        with translate_errors("an I/O error has paused it while it was backed up, and it cannot be resumed"):
            domain.resume()
        again = _paused_within(domain, _SETTLE_SECONDS)
    except VirtError as exc:
        on_remark(str(exc))
        return
    if again:
        on_remark(
            "an I/O error has paused it while it was backed up, and again when it was resumed, so its own storage may "
            f"have the error: virsh domblkerror {domain.name()} names the disk"
        )
    else:
        on_remark(
            "an I/O error had paused it while it was backed up, and it was resumed when the backup had ended: QEMU has "
            "repeated the write, so nothing is lost"
        )


def _paused_within(domain: t.Any, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not paused_by_error(domain):
        if time.monotonic() >= end:
            return False
        time.sleep(_LOOK_SECONDS)
    return True
