# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""libvirt's backup job: begun together with its checkpoint, watched, and ended when nobody waits for it any more.

QEMU goes on with a job whatever becomes of who has asked for it, so that the next run may meet one.
"""

from __future__ import annotations

import contextlib
import threading
import time
import typing as t

from ..._base.errors import ConflictError, HostError, UnreachableError, VirtError, stopped
from ..._base.xml import read_description
from ..connection import VirConnect, answers, libvirt, reconnected_domain, suppress_codes, translate_errors
from .paused import OnRemark, is_running, paused_by_error, resume

_LOOK_SECONDS = 0.25
# Of the event that a job has ended; it comes just before the job is gone.
_EVENT_SECONDS = 15
_ABORT_SECONDS = 120
# A full directory fails the job soon after it has paused the machine, and QEMU has better words for it.
_PAUSED_SECONDS = 3.0

OnProgress = t.Callable[[int, int], t.Any]


class _Watch:
    """Waits for the end of the machine's job. Made before the job begins, so that no event is missed."""

    def __init__(self, conn: VirConnect, domain: t.Any) -> None:
        self._conn = conn
        self._domain = domain
        self._ended = threading.Event()
        self._figures: dict[str, t.Any] = {}
        with translate_errors("cannot ask libvirt for its events"):
            self._number = conn.domainEventRegisterAny(
                domain, libvirt.VIR_DOMAIN_EVENT_ID_JOB_COMPLETED, self._note, None
            )

    def _note(self, _conn: t.Any, _domain: t.Any, figures: t.Any, _opaque: t.Any) -> None:
        if figures.get("operation") == libvirt.VIR_DOMAIN_JOB_OPERATION_BACKUP:
            self._figures = dict(figures)
            self._ended.set()

    def close(self) -> None:
        with contextlib.suppress(libvirt.libvirtError):
            self._conn.domainEventDeregisterAny(self._number)

    def figures(self) -> dict[str, t.Any] | None:
        """What libvirt says of the job that has ended; None where it says nothing."""
        return self._figures if self._ended.wait(_EVENT_SECONDS) else None


def run_backup(
    conn: VirConnect,
    domain: t.Any,
    backup: str,
    checkpoint: str | None,
    stop: threading.Event,
    on_progress: OnProgress,
    on_remark: OnRemark,
    begun: t.Callable[[], t.Any],
) -> None:
    """Make a backup to its end. backup, checkpoint: XML. begun: called as soon as it has begun.

    on_progress: called with the bytes that are done and those of all disks. on_remark: as of resume. Raises
    HostError with QEMU's words, and StoppedError. Whatever is raised, the job has ended, and the machine goes on; the
    error says so where that is not certain, as libvirt is away for longer than a restart takes.
    """
    name = domain.name()
    watch = _Watch(conn, domain)
    try:
        # One that somebody has paused, or an error before, stays as it is.
        running = is_running(domain)
        with translate_errors(f"cannot begin the backup of machine {name}"):
            domain.backupBegin(backup, checkpoint, 0)
        with _ended_on_error(domain, on_remark if running else None):
            begun()
            _wait(domain, stop, on_progress, running)
            _require_success(name, watch.figures())
        if running:
            resume(domain, on_remark)
    finally:
        watch.close()


@contextlib.contextmanager
def _ended_on_error(domain: t.Any, on_remark: OnRemark | None) -> t.Iterator[None]:
    """Whatever the block raises, the machine's job is ended first, and then a machine that an I/O error has paused goes
    on. on_remark: as of resume; None for one that did not run before.

    A daemon of libvirt that is restarted ends no job, and with it goes the connection, so that a new one is needed.
    """

    def end(handle: t.Any) -> None:
        try:
            abort(handle)
        finally:
            if on_remark is not None:
                resume(handle, on_remark, failed=True)

    try:
        yield
    except BaseException as exc:
        if answers(domain.connect()):
            end(domain)
            raise
        name = domain.name()
        lost = f"the connection to libvirt was lost while machine {name} was backed up"
        try:
            with reconnected_domain(domain) as again:
                end(again)
        except VirtError as error:
            raise HostError(
                f"{lost}, and it is not certain that the backup has ended: {error.what}",
                hint="As long as it goes on, the guest's writes depend on its directory. When libvirt answers again, "
                f"run it again, which ends that one first, or end it yourself: virsh domjobabort {name}",
            ) from exc
        if not isinstance(exc, (HostError, UnreachableError)):
            raise
        # What went wrong may be more than the connection. A hint for that alone would lead astray.
        hint = "Was libvirtd restarted? Run it again"
        raise HostError(f"{lost}, so the backup was ended: {exc.what}", hint=hint) from exc


def _require_success(name: str, figures: dict[str, t.Any] | None) -> None:
    if figures is None:
        raise HostError(f"the backup of machine {name} has ended, and libvirt does not say how")
    if not figures.get("success", False):
        words = figures.get("errmsg")
        raise HostError(
            f"the backup of machine {name} has failed: {words or 'it was ended'}",
            hint=words and "Look into the guest: what it wrote meanwhile may have failed with the same error",
        )


def _wait(domain: t.Any, stop: threading.Event, on_progress: OnProgress, running: bool) -> None:
    paused_at = None
    while targets_of_job(domain) is not None:
        if running and paused_by_error(domain):
            paused_at = paused_at or time.monotonic()
            if time.monotonic() - paused_at > _PAUSED_SECONDS:
                raise HostError(
                    f"an I/O error has paused machine {domain.name()} while it was backed up, so the backup was ended",
                    hint="Look for errors where the backup was written to, and in the machine's own storage",
                )
        with contextlib.suppress(libvirt.libvirtError):
            found = domain.jobStats()
            total = found.get("disk_total", 0)
            if total:
                on_progress(total - found.get("disk_remaining", 0), total)
        if stop.wait(_LOOK_SECONDS):
            raise stopped()


def targets_of_job(domain: t.Any) -> list[str] | None:
    """The files that a backup of the machine writes at this moment; None where there is none. Raises VirtError."""
    name = domain.name()
    with translate_errors(f"cannot inspect the backup of machine {name}"):
        gone = getattr(libvirt, "VIR_ERR_NO_DOMAIN_BACKUP", None)
        # A machine that has stopped has no job.
        with suppress_codes(gone, libvirt.VIR_ERR_OPERATION_INVALID, libvirt.VIR_ERR_NO_DOMAIN):
            root = read_description(f"a running backup of machine {name}", domain.backupGetXMLDesc(0))
            return [element.get("file", "") for element in root.iterfind("disks/disk/target")]
    return None


def abort(domain: t.Any) -> None:
    """End the machine's backup, and wait until it has ended. None is no error. Raises HostError."""
    end = time.monotonic() + _ABORT_SECONDS
    while targets_of_job(domain) is not None:
        with contextlib.suppress(libvirt.libvirtError):
            domain.abortJob()
        if time.monotonic() > end:
            raise HostError(
                f"the backup of machine {domain.name()} does not end", hint=f"virsh domjobabort {domain.name()}"
            )
        time.sleep(_LOOK_SECONDS)


def left_job(domain: t.Any, path: str) -> bool:
    """Whether a backup goes on that a run of ours has begun: it writes below this path.

    Raises ConflictError for any other job of the machine.
    """
    targets = targets_of_job(domain)
    name = domain.name()
    if targets is not None:
        if targets and all(target.startswith(f"{path}/") for target in targets):
            return True
        raise ConflictError(
            f"a backup of machine {name} is under way, to {', '.join(targets) or 'a client of its NBD server'}",
            hint=f"Wait until it ends, or end it: virsh domjobabort {name}",
        )
    with translate_errors(f"cannot inspect machine {name}"):
        busy = domain.isActive() and domain.jobInfo()[0] != libvirt.VIR_DOMAIN_JOB_NONE
    if busy:
        raise ConflictError(
            f"machine {name} is being migrated, saved or dumped",
            hint=f"Wait until that ends; virsh domjobinfo {name} shows it",
        )
    return False


def end_job_of_killed_run(domain: t.Any, path: str, on_remark: OnRemark) -> None:
    """End a backup that a killed run of ours has begun, as left_job has it, and have the machine go on if an I/O error
    has paused it. path: the directory, whose lock we hold. on_remark: as of resume.

    Nobody knows whether that was before the job began: QEMU repeats the write, and an error that is still there pauses
    it again. Raises as left_job does, and HostError.
    """
    if left_job(domain, path):
        abort(domain)
        resume(domain, on_remark)
        left_job(domain, path)
