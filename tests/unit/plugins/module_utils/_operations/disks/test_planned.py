# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import dataclasses
import typing as t
from types import SimpleNamespace

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import UnsupportedError
from ansible_collections.brine.virt.plugins.module_utils._host.images.listing import StoredImage
from ansible_collections.brine.virt.plugins.module_utils._host.progress import HowFar
from ansible_collections.brine.virt.plugins.module_utils._host.storage.pools import Pool
from ansible_collections.brine.virt.plugins.module_utils._model.spec.reading.machines import read_machine
from ansible_collections.brine.virt.plugins.module_utils._operations.disks import planned as planned_disks
from ansible_collections.brine.virt.plugins.module_utils._operations.disks.planned import (
    PlannedDisk,
    _copied_bytes,
    _decide,
    disk_step,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.plan import Step

IMAGE = StoredImage("i", "i-0123456789abcdef.qcow2", "images", "/i/i", "qcow2", 5 << 20, "0123456789abcdef")


def decided(kind: str, *, local: bool = True, **options: t.Any) -> tuple[str | None, str | None]:
    """How a disk is made from the image in a pool of this type, and in which format."""
    spec = {
        "name": "web1",
        "vcpus": 1,
        "memory": 128,
        "image": "i",
        "disks": [{"name": "system", "size": "8MiB", **options}],
    }
    disk = _decide(read_machine(spec).disks[0], Pool("p", "/p", 0, None, type=kind, local=local), IMAGE, None)
    return disk.clone, disk.format


@pytest.mark.parametrize(
    ("kind", "options", "wanted"),
    [
        ("dir", {}, ("overlay", "qcow2")),
        ("dir", {"format": "raw"}, ("copy", "raw")),
        ("dir", {"clone": "copy"}, ("copy", "qcow2")),
        ("logical", {}, ("copy", "raw")),
        ("rbd", {}, ("overlay", "raw")),
        ("rbd", {"format": "raw"}, ("overlay", "raw")),
        ("rbd", {"clone": "overlay"}, ("overlay", "raw")),
        ("rbd", {"clone": "copy"}, ("copy", "raw")),
    ],
)
def test_the_pool_decides_what_the_task_leaves_open(
    kind: str, options: dict[str, t.Any], wanted: tuple[str, str]
) -> None:
    assert decided(kind, **options) == wanted


def test_only_on_the_hypervisor_itself_an_image_is_cloned_in_a_cluster() -> None:
    assert decided("rbd", local=False) == ("copy", "raw")


@pytest.mark.parametrize("kind", ["logical", "zfs"])
def test_where_there_are_no_overlays_none_is_made(kind: str) -> None:
    with pytest.raises(UnsupportedError, match="an overlay is a qcow2 file") as error:
        decided(kind, clone="overlay")
    assert error.value.where == "disks[0].clone"


def test_an_image_that_is_still_to_be_stored_counts_as_large_as_its_disk() -> None:
    """In check mode; one that is stored is measured, and its holes do not count."""
    spec = {"name": "web1", "vcpus": 1, "memory": 128, "image": "i", "disks": [{"name": "system", "pool": "p"}]}
    disk = read_machine(spec).disks[0]
    planned = PlannedDisk(
        disk, "raw", None, Pool("p", "", 0, None, type="rbd", local=True), "v", image=IMAGE, stored=IMAGE
    )
    assert _copied_bytes(planned) == IMAGE.virtual_size_bytes


@pytest.mark.parametrize("copied", [False, True])
def test_how_much_of_an_image_is_copied_can_be_seen_meanwhile(monkeypatch: pytest.MonkeyPatch, copied: bool) -> None:
    """On its way into a cluster, and to a disk of its own."""
    spec = {"name": "web1", "vcpus": 1, "memory": 128, "image": "i", "disks": [{"name": "system", "pool": "p"}]}
    disk, pool = read_machine(spec).disks[0], Pool("p", "", 0, None, type="rbd", local=True)
    stored = None if copied else IMAGE
    disk = dataclasses.replace(disk, clone="copy" if copied else "overlay")
    planned = PlannedDisk(disk, "raw", None, pool, "v", image=IMAGE, stored=stored)
    source: t.Any = SimpleNamespace(handle=SimpleNamespace(storageVolLookupByName=str))
    maker: t.Any = SimpleNamespace(hypervisor=SimpleNamespace(pools={"images": source}))
    seen: list[t.Any] = []

    def copy(*_words: t.Any, on_percent: t.Callable[[float], t.Any], **_how: t.Any) -> None:
        on_percent(43.2)
        seen.append(step.look() if step.look else None)

    monkeypatch.setattr(planned_disks, "create_copy" if copied else "bring_image", copy)
    monkeypatch.setattr(planned_disks, "clone_image", lambda *_words, **_how: None)
    monkeypatch.setattr(planned_disks, "volume_step", lambda what, make, *_more: Step(what, make))
    made = disk_step(planned, maker)
    assert made is not None
    step: Step = made
    assert step.look is not None and step.look() is None
    step.apply()
    assert seen == [HowFar("", percent=43.2)]
