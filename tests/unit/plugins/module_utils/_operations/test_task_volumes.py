# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One volume for several disks of one task, or of one machine."""

from __future__ import annotations

import os
import subprocess
import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError
from ansible_collections.brine.virt.plugins.module_utils._host.storage import usage as volume_usage
from ansible_collections.brine.virt.plugins.module_utils._model.spec.reading.machines import read_machines
from ansible_collections.brine.virt.plugins.module_utils._operations.hypervisor import Hypervisor
from ansible_collections.brine.virt.plugins.module_utils._operations.machines import make_plans
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.shared_hosts import (
    BASE,
    IMAGE,
    SHARE,
    Disks,
    Host,
    one,
)

AS_WELL = (
    "machines[1].disks[0].source: volume x.qcow2 is also requested as disk d of machine a "
    "(machines[0].disks[0].source). " + SHARE
)
BREAKS = (
    "machines[1].disks[0].{key}: disk d of machine a (machines[0].disks[0].source) would write to volume {volume} "
    "and break every overlay on it"
)
STORED = (
    f"machines[{{}}].disks[0].source: volume {IMAGE} is an image of the store, and must not be written to. Use it as "
    "image, or set readonly"
)
BELOW = (
    "machines[1].disks[0].source: volume {volume} is to back disk d of machine a (machines[0].disks[0].{key}), "
    "and must not be written to. Use it as backing, or set readonly"
)


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (Disks.WRITE, Disks.WRITE, AS_WELL),
        (Disks.WRITE, Disks.SHAREABLE, AS_WELL),
        (Disks.READONLY, Disks.WRITE, AS_WELL),
        (Disks.CDROM, Disks.WRITE, AS_WELL),
        (Disks.FLOPPY, Disks.FLOPPY, AS_WELL),
        (Disks.WRITE, Disks.OVERLAY, BREAKS.format(key="backing", volume="x.qcow2")),
        (Disks.SHAREABLE, Disks.OVERLAY, BREAKS.format(key="backing", volume="x.qcow2")),
        (Disks.OVERLAY, Disks.WRITE, BELOW.format(key="backing", volume="x.qcow2")),
        (Disks.OVERLAY, Disks.SHAREABLE, BELOW.format(key="backing", volume="x.qcow2")),
        (Disks.INTO_IMAGE, Disks.ON_IMAGE, STORED.format(0)),
        (Disks.ON_IMAGE, Disks.INTO_IMAGE, STORED.format(1)),
    ],
)
def test_machines_of_one_task_exclude_each_other(
    host: Host, first: dict[str, t.Any], second: dict[str, t.Any], message: str
) -> None:
    assert host.refused(one("a", first), one("b", second)) == message


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Disks.SHAREABLE, Disks.SHAREABLE),
        (Disks.SHAREABLE, Disks.READONLY),
        (Disks.READONLY, Disks.READONLY),
        (Disks.CDROM, Disks.CDROM),
        (Disks.OVERLAY, Disks.OVERLAY),
        (Disks.OVERLAY, Disks.READONLY),
        (Disks.ON_IMAGE, Disks.ON_IMAGE),
        (Disks.WRITE, Disks.ON_IMAGE),
    ],
)
def test_machines_of_one_task_that_go_together(host: Host, first: dict[str, t.Any], second: dict[str, t.Any]) -> None:
    host.make(one("a", first), one("b", second))


def test_the_places_are_those_that_the_user_knows(host: Host) -> None:
    specs = [{**BASE, **one(name, Disks.WRITE)} for name in "ab"]
    places = ["virt_vms[3]", "virt_vms[7]"]
    machines = read_machines(specs, where="machines", places=places)
    with pytest.raises(ConflictError) as caught:
        make_plans(machines, Hypervisor(host.conn, image_pool="images"), "machines", places)
    assert "virt_vms[7].disks[0].source" in str(caught.value)
    assert "(virt_vms[3].disks[0].source)" in str(caught.value)


def test_two_names_of_one_file_in_one_task(host: Host) -> None:
    os.link(host.path, host.directory / "default" / "hard.qcow2")
    host.know("hard.qcow2")
    assert "volume hard.qcow2 is also requested as disk d of machine a" in host.refused(
        one("a", Disks.WRITE), one("b", {"source": "hard.qcow2"})
    )


def test_one_machine_with_a_volume_twice(host: Host) -> None:
    assert host.refused(one("a", Disks.WRITE, Disks.WRITE)) == (
        "machines[0].disks[1].source: volume x.qcow2 is also requested as disk d of this machine "
        "(machines[0].disks[0].source). Two disks may share it only if both are shareable or readonly"
    )
    assert "and break every overlay" in host.refused(one("a", Disks.WRITE, Disks.OVERLAY))
    host.make(one("a", Disks.READONLY, Disks.READONLY))


@pytest.mark.parametrize("running", [False, True], ids=["off", "running"])
def test_a_disk_under_another_name(host: Host, running: bool) -> None:
    host.make(one("a", {"size": "1MiB"}, start=running))
    # What the machine has made is there; the test driver makes no files.
    volume = host.directory / "default" / "a-d.qcow2"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", str(volume), "1M"], check=True)
    renamed = {"name": "renamed", "pool": "default", "source": "a-d.qcow2"}
    for source in ("a-d.qcow2", str(volume)):
        assert host.refused({"name": "a", "disks": [{**renamed, "source": source}]}) == (
            f"machines[0].disks[0].source: disk d of this machine is already volume {source}. To have it under the "
            f"name renamed alone, remove d (state: absent) in the same task; its content is kept"
        )
    assert "writes to volume a-d.qcow2" in host.refused(
        {"name": "a", "disks": [{"name": "e", "pool": "default", "backing": "a-d.qcow2"}]}
    )
    task = {"name": "a", "start": running, "disks": [renamed, {"name": "d", "state": "absent"}]}
    if running:
        # The test driver changes no disks of what runs. The order is what counts.
        actions = [step.description for step in host.plan(task)[0].steps]
        assert actions.index("detach disk d from a") < actions.index("attach disk renamed to a")
        return
    host.make(task)
    assert host.files("a") == ["a-d.qcow2"]
    # And back again, by what was asked for first.
    assert not host.plan(task)[0].steps
    assert "disk renamed of this machine is already volume" in host.refused(one("a", {"source": "a-d.qcow2"}))


def test_a_disk_that_only_the_running_machine_has(host: Host) -> None:
    host.make(one("a", {**Disks.WRITE, "model": "sata"}, start=True))
    host.make({"name": "a", "disks": [{"name": "d", "state": "absent"}]})
    assert (host.files("a"), host.files("a", 0)) == ([], ["x.qcow2"])
    again = {"name": "a", "disks": [{"name": "e", "pool": "default", **Disks.WRITE}]}
    assert host.refused(again) == (
        "machines[0].disks[0].source: the running machine has volume x.qcow2 as sda, until its next boot. Restart it "
        "first"
    )
    host.conn.lookupByName("a").destroy()
    host.make(again)


def test_the_hypervisor_is_checked_once_and_only_for_volumes_of_others(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = []
    collect = volume_usage.collect_users

    def counted(*words: t.Any, **more: t.Any) -> t.Any:
        looks.append(words)
        return collect(*words, **more)

    monkeypatch.setattr(volume_usage, "collect_users", counted)
    for name in ("w.qcow2", "y.qcow2", "z.qcow2"):
        host.add_volume(name)
    host.make(
        one("a", {"size": "1MiB"}, Disks.ON_IMAGE), one("b", Disks.ON_IMAGE, {**Disks.CDROM, "source": "w.qcow2"})
    )
    assert not looks
    machines = [one("c", Disks.WRITE), one("d", {"source": "y.qcow2"}), one("e", {"backing": "z.qcow2"})]
    host.make(*machines)
    assert len(looks) == 1
    # What they have already is not asked for again.
    assert not any(plan.steps for plan in host.plan(*machines[:2]))
    assert len(looks) == 1
