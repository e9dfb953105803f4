# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who brings an image, and who waits: on a cluster in memory that names its errors as librbd does. What a real cluster
does is seen in the lab (scenario ceph)."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError
from ansible_collections.brine.virt.plugins.module_utils._host.images import clustered as images
from ansible_collections.brine.virt.plugins.module_utils._host.images.listing import StoredImage
from ansible_collections.brine.virt.plugins.module_utils._host.storage.ceph import Cluster
from ansible_collections.brine.virt.plugins.module_utils._host.storage.pools import Pool
from ansible_collections.brine.virt.plugins.module_utils._model.xml.disk_source import DiskSource

VOLUME = "tiny-0123456789abcdef.raw"
PART = f"{VOLUME}.part"


class ImageNotFound(Exception):
    pass


class ImageExists(Exception):
    pass


class ImageBusy(Exception):
    pass


@dataclass
class Volume:
    """A volume; watchers: how many clients have it open."""

    watchers: int = 0
    snapshots: list[str] = field(default_factory=list)


class Pretended:
    """The module rbd and its class RBD in one, on a dictionary."""

    ImageNotFound, ImageExists, ImageBusy = ImageNotFound, ImageExists, ImageBusy

    def __init__(self, **volumes: Volume) -> None:
        self.there: dict[str, Volume] = {name.replace("__", "."): volume for name, volume in volumes.items()}

    def RBD(self) -> Pretended:  # noqa: N802 - librbd's own name
        return self

    def create(self, _io: t.Any, name: str, _size_bytes: int) -> None:
        if name in self.there:
            raise ImageExists
        self.there[name] = Volume()

    def remove(self, _io: t.Any, name: str) -> None:
        if name not in self.there:
            raise ImageNotFound
        if self.there[name].watchers:
            raise ImageBusy
        del self.there[name]

    def Image(self, _io: t.Any, name: str, read_only: bool = False) -> _Open:  # noqa: N802
        if name not in self.there:
            raise ImageNotFound
        return _Open(self.there[name], read_only=read_only)


class _Open:
    def __init__(self, volume: Volume, *, read_only: bool) -> None:
        self._volume = volume
        self._adds = 0 if read_only else 1

    def __enter__(self) -> _Open:
        self._volume.watchers += self._adds
        return self

    def __exit__(self, *_exc: object) -> None:
        self._volume.watchers -= self._adds

    def watchers_list(self) -> list[int]:
        return list(range(self._volume.watchers))

    def list_snaps(self) -> list[dict[str, str]]:
        return [{"name": name} for name in self._volume.snapshots]

    def is_protected_snap(self, _name: str) -> bool:
        return False

    def remove_snap(self, name: str) -> None:
        self._volume.snapshots.remove(name)


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that passes only by sleeping."""
    now = [100.0]
    monkeypatch.setattr(images.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(images.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    return now


def begin(rbd: Pretended, wait_seconds: float = 600) -> bool:
    return images._begin(Cluster(rbd, None), VOLUME, 1 << 20, wait_seconds)


def test_the_first_run_begins() -> None:
    rbd = Pretended()
    assert begin(rbd) and list(rbd.there) == [PART]


def test_an_image_that_is_there_is_not_brought() -> None:
    rbd = Pretended()
    rbd.there[VOLUME] = Volume()
    assert not begin(rbd) and list(rbd.there) == [VOLUME]


def test_who_comes_second_waits_for_the_first(monkeypatch: pytest.MonkeyPatch, clock: list[float]) -> None:
    rbd = Pretended()
    rbd.there[PART] = Volume(watchers=1)

    def pass_time(seconds: float) -> None:
        clock[0] += seconds
        if clock[0] > 200 and PART in rbd.there:
            rbd.there[VOLUME] = rbd.there.pop(PART)

    monkeypatch.setattr(images.time, "sleep", pass_time)
    assert not begin(rbd)
    assert 200 < clock[0] < 202, "it waits as long as it takes, and no longer"


def test_nobody_waits_for_ever() -> None:
    rbd = Pretended()
    rbd.there[PART] = Volume(watchers=1)
    with pytest.raises(HostError, match="another run is bringing image tiny-.* within 60 s"):
        begin(rbd, wait_seconds=60)
    assert rbd.there[PART].watchers == 1


def test_what_a_killed_run_has_left_goes_after_a_while(clock: list[float]) -> None:
    rbd = Pretended()
    rbd.there[PART] = Volume(snapshots=[images.SNAPSHOT])
    left = rbd.there[PART]
    assert begin(rbd)
    assert rbd.there[PART] is not left and clock[0] > 100 + images._ABANDONED_SECONDS


def test_who_has_just_made_it_has_time_to_open_it(monkeypatch: pytest.MonkeyPatch, clock: list[float]) -> None:
    rbd = Pretended()
    rbd.there[PART] = Volume()
    owner = rbd.there[PART]

    def pass_time(seconds: float) -> None:
        clock[0] += seconds
        if clock[0] > 110:
            owner.watchers = 1

    monkeypatch.setattr(images.time, "sleep", pass_time)
    with pytest.raises(HostError, match="another run"):
        begin(rbd, wait_seconds=120)
    assert rbd.there[PART] is owner


def test_an_image_has_its_name_in_the_cluster_and_is_raw_there() -> None:
    stored = StoredImage(
        "tiny", "tiny-0123456789abcdef.qcow2", "images", "/i/tiny", "qcow2", 5 << 20, "0123456789abcdef"
    )
    network = DiskSource("network", protocol="rbd", name="vms/")
    there = images.image_in(Pool("ceph", "", 0, None, type="rbd", network=network), stored)
    assert (there.volume, there.pool, there.format, there.path) == (VOLUME, "ceph", "raw", f"rbd:vms/{VOLUME}")
    assert there.virtual_size_bytes == stored.virtual_size_bytes
