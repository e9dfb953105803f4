# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who brings an image, and who waits: on a cluster in memory that names its errors as librbd does. What a real cluster
does is seen in the lab (scenario ceph)."""

from __future__ import annotations

import typing as t
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.commands import Answer
from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, HostError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.images import clustered as images
from ansible_collections.brine.virt.plugins.module_utils._host.images import prune as image_prune
from ansible_collections.brine.virt.plugins.module_utils._host.images.files import Deadline
from ansible_collections.brine.virt.plugins.module_utils._host.images.listing import StoredImage
from ansible_collections.brine.virt.plugins.module_utils._host.storage.ceph import Cluster, QemuName
from ansible_collections.brine.virt.plugins.module_utils._host.storage.pools import Pool, Pools
from ansible_collections.brine.virt.plugins.module_utils._host.storage.volumes import VolumeExistsError
from ansible_collections.brine.virt.plugins.module_utils._model.xml.disk_source import DiskSource

VOLUME = "tiny-0123456789abcdef.raw"
PART = f"{VOLUME}.part"
TRASH = "trash of "


class Error(Exception):
    pass


class ImageNotFound(Error):
    pass


class ImageExists(Error):
    pass


class ImageBusy(Error):
    pass


class ImageHasSnapshots(Error):
    pass


@dataclass
class Volume:
    """A volume; watchers: how many clients have it open. clones: of its snapshot brine."""

    watchers: int = 0
    snapshots: list[str] = field(default_factory=list)
    protected: set[str] = field(default_factory=set)
    clones: int = 0
    made_seconds: int = 0
    size_bytes: int = 0
    parent: tuple[str, str, str] | None = None
    metadata: dict[str, str] = field(default_factory=dict)


class Pretended:
    """The module rbd and its class RBD in one, on a dictionary."""

    Error, ImageNotFound, ImageExists, ImageBusy = Error, ImageNotFound, ImageExists, ImageBusy
    ImageHasSnapshots = ImageHasSnapshots

    def __init__(self, **volumes: Volume) -> None:
        self.there: dict[str, Volume] = {name.replace("__", "."): volume for name, volume in volumes.items()}

    def RBD(self) -> Pretended:  # noqa: N802 - librbd's own name
        return self

    def list(self, _io: t.Any) -> list[str]:
        return list(self.there)

    def create(self, _io: t.Any, name: str, _size_bytes: int) -> None:
        if name in self.there:
            raise ImageExists
        self.there[name] = Volume()

    def clone(self, _io: t.Any, parent: str, snapshot: str, _to: t.Any, name: str) -> None:
        if parent not in self.there or snapshot not in self.there[parent].snapshots:
            raise ImageNotFound
        if name in self.there:
            raise ImageExists
        self.there[name] = Volume(size_bytes=self.there[parent].size_bytes)

    def rename(self, _io: t.Any, name: str, new_name: str) -> None:
        if name not in self.there:
            raise ImageNotFound
        if new_name in self.there:
            raise ImageExists
        self.there[new_name] = self.there.pop(name)

    def remove(self, _io: t.Any, name: str) -> None:
        if name not in self.there:
            raise ImageNotFound
        if self.there[name].snapshots:
            raise ImageHasSnapshots
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

    def id(self) -> str:
        return str(id(self._volume))

    def create_snap(self, name: str) -> None:
        self._volume.snapshots.append(name)

    def protect_snap(self, name: str) -> None:
        self._volume.protected.add(name)

    def list_children2(self) -> list[dict[str, str]]:
        return [{"pool": "vms", "image": f"clone{number}"} for number in range(self._volume.clones)]

    def parent_info(self) -> tuple[str, str, str]:
        if self._volume.parent is None:
            raise ImageNotFound
        return self._volume.parent

    def create_timestamp(self) -> datetime:
        return datetime.fromtimestamp(self._volume.made_seconds)

    def metadata_set(self, key: str, value: str) -> None:
        self._volume.metadata[key] = value

    def watchers_list(self) -> list[int]:
        return list(range(self._volume.watchers))

    def list_snaps(self) -> list[dict[str, t.Any]]:
        return [{"name": name, "namespace": 2 if name.startswith(TRASH) else 0} for name in self._volume.snapshots]

    def is_protected_snap(self, name: str) -> bool:
        if name not in self._volume.snapshots or name.startswith(TRASH):
            raise ImageNotFound
        return name in self._volume.protected

    def unprotect_snap(self, name: str) -> None:
        self._volume.protected.remove(name)

    def remove_snap(self, name: str) -> None:
        """Of what has clones, it is only put aside, under another name that no other call knows (clone format 2)."""
        if name in self._volume.protected or name not in self._volume.snapshots:
            raise ImageBusy
        self._volume.snapshots.remove(name)
        if self._volume.clones:
            self._volume.snapshots.append(f"{TRASH}{name}")


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
    with pytest.raises(HostError, match="another run is copying image tiny-.* within 60 s"):
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


def clone(monkeypatch: pytest.MonkeyPatch, rbd: Pretended) -> None:
    def grow(_pool: Pool, name: str, size_bytes: int, *, image_format: str) -> None:
        assert image_format == "raw"
        rbd.there[name].size_bytes = size_bytes

    monkeypatch.setattr(images, "grow_volume", grow)
    monkeypatch.setattr(images, "open_cluster", lambda _pool: nullcontext(Cluster(rbd, None)))
    monkeypatch.setattr(images, "refresh_pool", lambda _handle, _name: None)
    pool = Pool("ceph", "", 0, None, type="rbd", local=True)
    images.clone_image(pool, VOLUME, "web1-system", size_bytes=64 << 20, mark="mine")


def with_image(**volumes: Volume) -> Pretended:
    rbd = Pretended(**volumes)
    rbd.there[VOLUME] = Volume(snapshots=[images.SNAPSHOT], size_bytes=32 << 20)
    return rbd


def test_a_clone_is_marked_and_has_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    rbd = with_image()
    clone(monkeypatch, rbd)
    made = rbd.there["web1-system"]
    assert (made.size_bytes, made.metadata, made.watchers) == (64 << 20, {"brine.build": "mine"}, 0)


def test_a_volume_that_another_hypervisor_has_made_meanwhile_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    rbd = with_image()
    rbd.there["web1-system"] = theirs = Volume(metadata={"brine.build": "theirs"}, size_bytes=1 << 20)
    with pytest.raises(VolumeExistsError, match="has had a volume web1-system since"):
        clone(monkeypatch, rbd)
    assert rbd.there["web1-system"] is theirs
    assert (theirs.size_bytes, theirs.metadata) == (1 << 20, {"brine.build": "theirs"})


def test_an_image_that_is_pruned_meanwhile_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    rbd = Pretended()
    with pytest.raises(ConflictError, match="has been removed since this run was planned"):
        clone(monkeypatch, rbd)
    assert not rbd.there


def test_what_only_has_the_name_of_an_image_is_not_cloned(monkeypatch: pytest.MonkeyPatch) -> None:
    rbd = Pretended()
    rbd.there[VOLUME] = Volume()
    with pytest.raises(ConflictError, match="has no snapshot brine"):
        clone(monkeypatch, rbd)
    assert list(rbd.there) == [VOLUME]


def bring(
    monkeypatch: pytest.MonkeyPatch,
    rbd: Pretended,
    fill: t.Callable[..., None],
    on_percent: t.Callable[[float], t.Any] | None = None,
) -> bool:
    monkeypatch.setattr(images, "open_cluster", lambda _pool: nullcontext(Cluster(rbd, None)))
    monkeypatch.setattr(images, "refresh_pool", lambda _handle, _name: None)
    monkeypatch.setattr(images, "_fill", fill)
    network = DiskSource("network", protocol="rbd", name="vms/")
    stored = StoredImage("tiny", "tiny.qcow2", "images", "/i/tiny", "qcow2", 5 << 20, "0123456789abcdef")
    return images.bring_image(Pool("ceph", "", 0, None, type="rbd", network=network), stored, on_percent=on_percent)


def test_an_image_that_is_brought_has_its_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    rbd = Pretended()
    assert bring(monkeypatch, rbd, lambda *_: None)
    assert list(rbd.there) == [VOLUME] and rbd.there[VOLUME].snapshots == [images.SNAPSHOT]


def test_how_much_of_an_image_is_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_qemu_img(*_words: str, on_percent: t.Callable[[float], t.Any], **_how: t.Any) -> Answer:
        on_percent(43.2)
        return Answer(0, b"", b"")

    rbd, told = Pretended(), list[float]()
    monkeypatch.setattr(images, "qemu_name", lambda _pool, name: QemuName(name))
    monkeypatch.setattr(images, "run_qemu_img", run_qemu_img)
    assert bring(monkeypatch, rbd, images._fill, told.append)  # noqa: SLF001 - as it is
    assert (list(rbd.there), told) == ([VOLUME], [43.2])


@pytest.mark.parametrize("fails", [False, True])
def test_a_run_that_stood_still_leaves_alone_what_another_one_fills(
    monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    """Neither does half of an image get the name of a whole one, nor does it go."""
    rbd, theirs = Pretended(), Volume(snapshots=["theirs"])

    def stand_still(*_: t.Any) -> None:
        rbd.there[PART] = theirs
        if fails:
            raise HostError("the cluster has gone")

    with pytest.raises(HostError, match="the cluster has gone" if fails else "another run has taken over"):
        bring(monkeypatch, rbd, stand_still)
    assert rbd.there == {PART: theirs} and theirs.snapshots == ["theirs"]


def test_an_image_that_gets_its_name_between_two_looks_is_not_brought_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    rbd = Pretended()
    whole = Volume(snapshots=[images.SNAPSHOT])
    create = rbd.create

    def finished_just_before(io: t.Any, name: str, size_bytes: int) -> None:
        rbd.there[VOLUME] = whole
        create(io, name, size_bytes)

    monkeypatch.setattr(rbd, "create", finished_just_before)
    assert not begin(rbd)
    assert rbd.there == {VOLUME: whole}


def test_of_two_that_clear_what_a_killed_run_has_left_one_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    rbd = Pretended()
    rbd.there[PART] = Volume()
    remove = rbd.remove

    def is_too_late(io: t.Any, name: str) -> None:
        monkeypatch.setattr(rbd, "remove", remove)
        rbd.there[PART] = Volume(watchers=1)
        remove(io, name)

    monkeypatch.setattr(rbd, "remove", is_too_late)
    with pytest.raises(HostError, match="another run is copying image"):
        begin(rbd, wait_seconds=60)
    assert rbd.there[PART].watchers == 1


def test_what_another_run_has_begun_anew_is_not_what_was_left(
    monkeypatch: pytest.MonkeyPatch, clock: list[float]
) -> None:
    """Made a moment ago, it has yet to be opened."""
    rbd = Pretended()
    rbd.there[PART] = Volume()

    def pass_time(seconds: float) -> None:
        clock[0] += seconds
        if clock[0] > 110:
            rbd.there[PART] = Volume() if rbd.there[PART] is first else rbd.there[PART]
        if clock[0] > 120:
            rbd.there[PART].watchers = 1

    first = rbd.there[PART]
    monkeypatch.setattr(images.time, "sleep", pass_time)
    with pytest.raises(HostError, match="another run is copying"):
        begin(rbd, wait_seconds=60)
    assert rbd.there[PART] is not first and rbd.there[PART].watchers == 1


def test_an_image_that_a_killed_deletion_has_set_aside_is_one_again_when_it_has_clones(clock: list[float]) -> None:
    rbd = Pretended()
    rbd.there[PART] = image = Volume(clones=1)
    assert not begin(rbd)
    assert rbd.there == {VOLUME: image} and image.snapshots == [images.SNAPSHOT] and clock[0] < 130


def test_half_of_an_image_gets_no_name_when_a_run_stood_still_before_it_gave_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rbd, theirs = Pretended(), Volume(watchers=1)
    rename = rbd.rename

    def late(io: t.Any, name: str, new_name: str) -> None:
        monkeypatch.setattr(rbd, "rename", rename)
        rbd.there[PART] = theirs
        rename(io, name, new_name)

    monkeypatch.setattr(rbd, "rename", late)
    with pytest.raises(HostError, match="another run has taken over"):
        bring(monkeypatch, rbd, lambda *_: None)
    assert rbd.there == {PART: theirs} and not theirs.snapshots


def test_what_cannot_be_cleared_is_not_tried_for_ever() -> None:
    """A snapshot that somebody else took is not for this to delete."""
    rbd = Pretended()
    rbd.there[PART] = Volume(snapshots=[f"{TRASH}brine"])
    with pytest.raises(ImageHasSnapshots):
        begin(rbd)


def delete(monkeypatch: pytest.MonkeyPatch, rbd: Pretended) -> None:
    monkeypatch.setattr(images, "open_cluster", lambda _pool: nullcontext(Cluster(rbd, None)))
    monkeypatch.setattr(images, "refresh_pool", lambda _handle, _name: None)
    images.delete_image(Pool("ceph", "", 0, None, type="rbd", local=True), VOLUME)


@pytest.mark.parametrize("left", [{}, {PART: Volume(snapshots=[images.SNAPSHOT])}])
def test_an_image_goes_with_its_snapshot(monkeypatch: pytest.MonkeyPatch, left: dict[str, Volume]) -> None:
    rbd = Pretended()
    rbd.there = {VOLUME: Volume(snapshots=[images.SNAPSHOT], protected={images.SNAPSHOT}), **left}
    delete(monkeypatch, rbd)
    assert not rbd.there
    delete(monkeypatch, rbd)


@pytest.mark.parametrize(
    "used",
    [
        Volume(snapshots=[images.SNAPSHOT], protected={images.SNAPSHOT}, watchers=1),
        Volume(snapshots=[images.SNAPSHOT], protected={images.SNAPSHOT}, clones=1),
        Volume(snapshots=[images.SNAPSHOT, "of an admin"], protected={images.SNAPSHOT, "of an admin"}),
    ],
    ids=["open", "cloned", "snapshot"],
)
def test_an_image_that_the_cluster_does_not_delete_can_be_cloned_as_before(
    monkeypatch: pytest.MonkeyPatch, used: Volume
) -> None:
    """Somebody has begun to use it since it was looked at."""
    rbd = Pretended()
    rbd.there[VOLUME] = used
    with pytest.raises(ConflictError, match=f"image {VOLUME} of pool ceph is in use"):
        delete(monkeypatch, rbd)
    assert rbd.there == {VOLUME: used}
    assert images.SNAPSHOT in used.snapshots and images.SNAPSHOT in used.protected
    assert "of an admin" in used.snapshots or "of an admin" not in used.protected


def test_what_is_filled_while_an_image_is_deleted_is_no_image(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two delete it, and a third one, who wants it, has begun to bring it anew in between."""
    rbd = with_image()
    rbd.there[PART] = Volume()
    theirs, rename = Volume(watchers=1), rbd.rename

    def others_were_faster(_io: t.Any, _name: str, _new_name: str) -> None:
        monkeypatch.setattr(rbd, "rename", rename)
        del rbd.there[VOLUME]
        rbd.there[PART] = theirs
        raise ImageExists

    monkeypatch.setattr(rbd, "rename", others_were_faster)
    with pytest.raises(ConflictError, match="is in use"):
        delete(monkeypatch, rbd)
    assert rbd.there == {PART: theirs} and not theirs.snapshots


def test_what_a_killed_deletion_leaves_is_no_image(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cluster has deleted part of its content, and the next run brings it anew."""
    rbd = with_image()

    def killed(_io: t.Any, _name: str) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as during:
        during.setattr(rbd, "remove", killed)
        with pytest.raises(KeyboardInterrupt):
            delete(monkeypatch, rbd)
    assert list(rbd.there) == [PART]
    assert begin(rbd)


@pytest.mark.parametrize(
    ("parent", "image"),
    [
        (("vms", VOLUME, images.SNAPSHOT), VOLUME),
        (("vms", VOLUME, "of an admin"), None),
        (("vms", "web2-system", images.SNAPSHOT), None),
        (None, None),
    ],
)
def test_what_a_volume_is_a_clone_of(
    monkeypatch: pytest.MonkeyPatch, parent: tuple[str, str, str] | None, image: str | None
) -> None:
    rbd = Pretended()
    rbd.there["web1-system"] = Volume(parent=parent)
    monkeypatch.setattr(images, "open_cluster", lambda _pool: nullcontext(Cluster(rbd, None)))
    pool = Pool("ceph", "", 0, None, type="rbd", local=True)
    assert images.image_below(pool, "web1-system") == image
    assert images.image_below(pool, "gone") is None


def test_what_only_has_the_name_of_an_image_is_not_pruned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It is somebody's, and it is not counted among the newest either."""
    rbd, theirs = Pretended(), f"tiny-{'f' * 16}.raw"
    rbd.there = {
        VOLUME: Volume(snapshots=[images.SNAPSHOT], protected={images.SNAPSHOT}, made_seconds=1),
        theirs: Volume(made_seconds=2),
    }
    (tmp_path / "lock").mkdir()
    monkeypatch.setattr(image_prune, "LOCK_DIR", str(tmp_path / "lock"))
    monkeypatch.setattr(images, "open_cluster", lambda _pool: nullcontext(Cluster(rbd, None)))
    (tmp_path / "node.xml").write_text("<node/>")
    with open_connection(f"test://{tmp_path}/node.xml") as conn:
        source = "<source><host name='mon'/><name>vms</name></source><target><path>/</path></target>"
        handle = conn.storagePoolCreateXML(f"<pool type='rbd'><name>ceph</name>{source}</pool>", 0)
        for name in rbd.there:
            handle.createXML(f"<volume><name>{name}</name><capacity>1048576</capacity></volume>", 0)
        pool = replace(Pools(conn).get("ceph"), local=True)
        monkeypatch.setattr(image_prune, "_pool", lambda _conn, _name: pool)

        def prune(keep: int) -> dict[str, str | None]:
            options = image_prune.PruneOptions(keep, ignore_unseen=True, used_elsewhere=frozenset())
            found = image_prune.prune_images(conn, "ceph", None, options, Deadline(60), check_mode=False)
            return {decision.image.volume: decision.reason for decision in found.decisions}

        kept = "nothing shows that it is an image which was brought there: it only has the name of one"
        rbd.there[VOLUME].snapshots.append("nightly")
        used = "used by snapshot nightly of it, which this collection has not taken"
        assert prune(0) == {VOLUME: used, theirs: kept}
        rbd.there[VOLUME].snapshots.remove("nightly")
        assert prune(1) == {VOLUME: "the newest of its name", theirs: kept}
        options = image_prune.PruneOptions(0, ignore_unseen=True, used_elsewhere=frozenset())
        with pytest.raises(ConflictError, match=f"volume {theirs} of pool ceph is kept: nothing shows.*vol-delete"):
            image_prune.remove_images(conn, "ceph", "tiny", options, Deadline(60), check_mode=False)
        assert prune(0) == {VOLUME: None, theirs: kept}
    assert list(rbd.there) == [theirs]


def clear(monkeypatch: pytest.MonkeyPatch, rbd: Pretended) -> list[str]:
    monkeypatch.setattr(images, "open_cluster", lambda _pool: nullcontext(Cluster(rbd, None)))
    monkeypatch.setattr(images, "refresh_pool", lambda _handle, _name: None)
    return images.clear_parts(Pool("ceph", "", 0, None, type="rbd", local=True))


def test_what_killed_runs_have_left_of_images_is_cleared(monkeypatch: pytest.MonkeyPatch, clock: list[float]) -> None:
    """Nobody may ever bring the same image again."""
    rbd = Pretended()
    rbd.there = {PART: Volume(), f"old-{'0' * 16}.raw.part": Volume(snapshots=[images.SNAPSHOT])}
    assert clear(monkeypatch, rbd) == [PART, f"old-{'0' * 16}.raw.part"]
    assert rbd.there == {} and clock[0] >= 100 + images._ABANDONED_SECONDS


def test_without_any_nobody_waits(monkeypatch: pytest.MonkeyPatch, clock: list[float]) -> None:
    rbd = Pretended()
    rbd.there = {VOLUME: Volume(), "data.part": Volume(), "web1-system": Volume()}
    assert clear(monkeypatch, rbd) == []
    assert list(rbd.there) == [VOLUME, "data.part", "web1-system"] and clock[0] == 100


@pytest.mark.parametrize(
    "left",
    [Volume(watchers=1), Volume(snapshots=["theirs"]), Volume(snapshots=[images.SNAPSHOT], clones=1)],
    ids=["filled", "snapshot of others", "clones"],
)
def test_what_something_may_need_stays(monkeypatch: pytest.MonkeyPatch, left: Volume) -> None:
    rbd, before = Pretended(), replace(left, snapshots=list(left.snapshots))
    rbd.there[PART] = left
    assert clear(monkeypatch, rbd) == [] and rbd.there == {PART: before}


def test_what_is_opened_or_made_anew_meanwhile_stays(monkeypatch: pytest.MonkeyPatch, clock: list[float]) -> None:
    rbd, other = Pretended(), f"other-{'0' * 16}.raw.part"
    rbd.there = {PART: Volume(), other: Volume()}
    opened = rbd.there[PART]

    def pass_time(seconds: float) -> None:
        clock[0] += seconds
        opened.watchers = 1 if 105 < clock[0] < 108 else 0
        if clock[0] > 105 and not rbd.there[other].made_seconds:
            rbd.there[other] = Volume(made_seconds=1)

    monkeypatch.setattr(images.time, "sleep", pass_time)
    assert clear(monkeypatch, rbd) == []
    assert list(rbd.there) == [PART, other]
