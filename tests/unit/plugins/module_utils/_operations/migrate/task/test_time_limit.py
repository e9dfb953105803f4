# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is done at the time limit of a migration. libvirt's test driver has no jobs, so one is played here."""

from __future__ import annotations

import threading
import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError, StoppedError, VirtError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt
from ansible_collections.brine.virt.plugins.module_utils._host.machines import migration
from ansible_collections.brine.virt.plugins.module_utils._host.machines.migration import MigrationControls, migrate

# What libvirt says while QEMU mirrors the disks, and when memory follows.
DISKS = {"disk_total": 1000, "disk_remaining": 500, "memory_total": 0}
MEMORY = {"disk_total": 1000, "disk_remaining": 0, "memory_total": 1000, "memory_iteration": 1}


class Job:
    """A machine on its way: disks at the first looks, then memory for as long as nobody ends it."""

    def __init__(self, looks_at_disks: int) -> None:
        self._phases = [DISKS] * looks_at_disks
        self._over = threading.Event()
        self.asked: list[str] = []

    def migrateToURI3(self, *_how: t.Any) -> None:
        assert self._over.wait(10)
        if "abort" in self.asked:
            raise libvirt.libvirtError("cancelled")

    def jobStats(self) -> dict[str, int]:
        return self._phases.pop() if self._phases else MEMORY

    def abortJob(self) -> None:
        self.asked.append("abort")
        self._over.set()

    def migrateStartPostCopy(self, _flags: int) -> None:
        self.asked.append(f"post-copy, {len(self._phases)} looks at disks left")
        self._over.set()


def run(job: Job, *, postcopy: bool, stop: threading.Event | None = None) -> None:
    controls = MigrationControls(
        lambda *_progress: None, stop or threading.Event(), HostError("too late"), 0.0, None, postcopy
    )
    migrate(job, "qemu+tls://hv2/system", {}, 0, controls)


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migration, "_LOOK_SECONDS", 0.01)


def test_with_postcopy_the_limit_waits_for_the_disks_and_then_switches() -> None:
    job = Job(looks_at_disks=5)
    run(job, postcopy=True)
    assert job.asked == ["post-copy, 0 looks at disks left"]


def test_without_postcopy_it_is_cancelled_also_while_disks_are_copied() -> None:
    job = Job(looks_at_disks=1000)
    with pytest.raises(VirtError, match="too late"):
        run(job, postcopy=False)
    assert set(job.asked) == {"abort"}


def test_what_has_not_even_begun_is_cancelled() -> None:
    job = Job(looks_at_disks=0)
    job.jobStats = dict  # type: ignore[method-assign]
    with pytest.raises(VirtError, match="too late"):
        run(job, postcopy=True)


def test_who_stops_it_does_not_wait_for_the_disks() -> None:
    job, stop = Job(looks_at_disks=1000), threading.Event()
    stop.set()
    with pytest.raises(StoppedError):
        run(job, postcopy=True, stop=stop)
    assert set(job.asked) == {"abort"}
