# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Volumes in a pool that several hypervisors share go only when all of them were asked, and none uses them."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.storage import shared_pools
from ansible_collections.brine.virt.plugins.module_utils._host.storage.usage import Usage
from ansible_collections.brine.virt.plugins.module_utils._operations.shared_volumes import users, volume
from ansible_collections.brine.virt.plugins.modules import virt_usage_info
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._host.kernel import Kernel
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.purge.purge_host import (
    GUEST,
    POOL,
    PurgeHost,
    decided,
    disk,
)

VOLUME = "web1-system.qcow2"
GOES = "delete: it belongs to this machine"


class Other:
    """Another hypervisor, which has the directory of the pool at another place, and knows it by another name."""

    def __init__(self, conn: t.Any, place: Path) -> None:
        self.conn = conn
        self.place = place

    def guest(self, name: str, *devices: str) -> t.Any:
        return self.conn.defineXML(GUEST.format(name=name, devices="".join(devices)))

    def asked(self, host: PurgeHost) -> list[dict[str, t.Any]]:
        """What it answers to what the first one would ask."""
        (machine,) = host.purge(check_mode=True)["machines"]
        found = volume.read_shared_volumes(machine["shared"], "volumes")
        return users.users_of_shared(self.conn, found)

    def answer(self, host: PurgeHost) -> dict[str, t.Any]:
        """The same as a playbook registers it."""
        return {"changed": False, "failed": False, "volumes": self.asked(host)}


@pytest.fixture
def other(host: PurgeHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Other]:
    monkeypatch.setattr(shared_pools, "file_system_type", lambda _path: "nfs4")
    monkeypatch.setattr(users, "is_local", lambda _uri: True)
    place = tmp_path / "mounted"
    place.symlink_to(host.pool)
    (tmp_path / "empty").mkdir()
    node = tmp_path / "other.xml"
    node.write_text(f"<node>{POOL.format('local', tmp_path / 'empty')}</node>", encoding="utf-8")
    with open_connection(f"test://{node}") as conn:
        yield Other(conn, place)


def test_without_the_others_it_stays(host: PurgeHost, other: Other) -> None:
    host.make()
    result = host.one()
    assert decided(result)[VOLUME].startswith(
        "keep: it cannot be determined whether something uses it: storage pool default lies on a file system of type "
        "nfs4, and what machines of other hypervisors use there cannot be seen from this one"
    )
    path = host.pool / VOLUME
    assert path.exists()
    assert result["shared"] == [
        {"pool": "default", "volume": VOLUME, "place": str(path), "inode": os.stat(path).st_ino, "serial": None}
    ]


def test_in_a_pool_of_this_hypervisor_alone_nobody_is_to_be_asked(host: PurgeHost) -> None:
    host.make()
    result = host.one()
    assert (result["shared"], decided(result)) == ([], {VOLUME: GOES})


def test_where_all_have_answered_and_none_uses_it_it_goes(host: PurgeHost, other: Other) -> None:
    host.make()
    other.guest("web9", disk(other.place / "another.qcow2"))
    answers = {"hv2": other.answer(host), "hv3": other.answer(host)}
    assert answers["hv2"]["volumes"] == [{"pool": "default", "volume": VOLUME, "users": [], "unknown": []}]
    assert decided(host.one(used_elsewhere=answers)) == {VOLUME: GOES}
    assert not (host.pool / VOLUME).exists()


def test_a_file_that_another_host_itself_has_mounted_stays(
    host: PurgeHost, other: Other, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after losetup there."""
    host.make()
    with monkeypatch.context() as there:
        Kernel(tmp_path / "kernel", there).loop("loop7", str(other.place / VOLUME))
        answer = other.answer(host)
    assert answer["volumes"][0]["users"] == ["the host itself (/dev/loop7)"]
    words = "keep: it is used by the host itself (/dev/loop7) on hv2"
    assert decided(host.one(used_elsewhere={"hv2": answer}))[VOLUME].startswith(words)
    assert (host.pool / VOLUME).exists()


def test_where_there_is_no_other_it_goes(host: PurgeHost, other: Other) -> None:
    host.make()
    assert decided(host.one(used_elsewhere={})) == {VOLUME: GOES}


@pytest.mark.parametrize("silent", ["no route to host", {"unreachable": True, "msg": "no route\nto host"}])
def test_where_one_is_silent_it_stays(host: PurgeHost, other: Other, silent: t.Any) -> None:
    host.make()
    answers = {"hv2": other.answer(host), "hv3": silent}
    assert decided(host.one(used_elsewhere=answers))[VOLUME].startswith(
        "keep: it cannot be determined whether something uses it: storage pool default lies on a file system of type "
        "nfs4, and hv3, which may use it too, did not say: no route to host. "
    )
    assert (host.pool / VOLUME).exists()


@pytest.mark.parametrize(
    "name",
    [
        VOLUME,
        # A link with another name, of which only the inode number tells what it is.
        "linked.qcow2",
    ],
)
def test_what_another_one_uses_stays(host: PurgeHost, other: Other, name: str) -> None:
    host.make()
    if name != VOLUME:
        os.link(host.pool / VOLUME, host.outside / name)
    place = other.place if name == VOLUME else host.outside
    other.guest("web9", disk(place / name))
    answers = {"hv2": other.answer(host)}
    how = "" if name == VOLUME else " (by the same inode number)"
    assert decided(host.one(used_elsewhere=answers)) == {VOLUME: f"keep: it is used by machine web9{how} on hv2"}
    assert (host.pool / VOLUME).exists()


def test_the_name_is_enough_where_the_storage_is_not_mounted(host: PurgeHost, other: Other) -> None:
    host.make()
    other.guest("web9", disk(Path("/not/mounted") / VOLUME))
    assert other.asked(host)[0]["users"] == ["machine web9 (by the same name)"]


def test_an_overlay_of_another_one_keeps_what_it_is_backed_by(host: PurgeHost, other: Other) -> None:
    host.make()
    overlay = host.image(host.outside / "overlay.qcow2", below=host.pool / VOLUME)
    other.guest("web9", disk(overlay))
    assert other.asked(host)[0]["users"] == ["machine web9"]


def test_its_own_overlay_is_no_user_when_another_one_sees_it(host: PurgeHost, other: Other) -> None:
    """Both are volumes of the machine, and go together."""
    host.make(disks=[{"name": "system", "size": 64}, {"name": "data", "size": 64}])
    data = host.pool / "web1-data.qcow2"
    other.conn.storagePoolDefineXML(POOL.format("shared", other.place), 0).create(0)
    below = ["-b", str(host.pool / VOLUME), "-F", "qcow2"]
    subprocess.run(["qemu-img", "rebase", "-q", "-u", "-f", "qcow2", *below, str(data)], check=True)
    assert [one["users"] for one in other.asked(host)] == [[], []]
    # One of the same name that is another file is one.
    shutil.copy(data, host.outside)
    other.conn.storagePoolDefineXML(POOL.format("outside", host.outside), 0).create(0)
    users = {one["volume"]: one["users"] for one in other.asked(host)}
    assert users == {VOLUME: ["volume outside/web1-data.qcow2"], data.name: []}


def test_what_another_one_could_not_check_keeps_it(host: PurgeHost, other: Other) -> None:
    host.make()
    other.conn.storagePoolDefineXML(POOL.format("asleep", "/srv"), 0)
    answers = {"hv2": other.answer(host)}
    assert "storage pool asleep is not active on hv2" in decided(host.one(used_elsewhere=answers))[VOLUME]


def test_two_answers_about_one_name_both_count(host: PurgeHost, other: Other) -> None:
    host.make()
    (said,) = other.asked(host)
    answers = {"hv2": {"volumes": [{**said, "users": ["machine web9"]}, said]}}
    assert decided(host.one(used_elsewhere=answers)) == {VOLUME: "keep: it is used by machine web9 on hv2"}


def test_an_answer_about_something_else_is_none(host: PurgeHost, other: Other) -> None:
    host.make()
    answers = {"hv2": {"volumes": [{**other.asked(host)[0], "volume": "other.qcow2"}]}}
    assert "hv2 was not asked who uses this volume" in decided(host.one(used_elsewhere=answers))[VOLUME]


def test_one_that_cannot_be_recognised_is_unknown(host: PurgeHost, other: Other) -> None:
    asked = [volume.SharedVolume("default", "a.qcow2", "/srv/a.qcow2"), volume.SharedVolume("rbd", "a", "rbd:vms/a")]
    found = users.users_of_shared(other.conn, asked)
    assert [one["unknown"] for one in found] == [["whether /srv/a.qcow2 is a file of a machine cannot be told"], []]


def test_files_are_recognised_only_where_they_are(other: Other, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(users, "is_local", lambda _uri: False)
    asked = [volume.SharedVolume("nfs", "a", "/srv/a", 7), volume.SharedVolume("rbd", "a", "rbd:vms/a")]
    found = users.users_of_shared(other.conn, asked)
    assert [one["unknown"] for one in found] == [["whether /srv/a is a file of a machine cannot be told"], []]


def test_network_storage_is_known_by_its_place(other: Other) -> None:
    source = "<source protocol='rbd' name='vms/a'><host name='c'/></source>"
    other.guest("web9", f"<disk type='network'>{source}<target dev='vda'/></disk>")
    asked = [volume.SharedVolume("rbd", "a", "rbd:vms/a"), volume.SharedVolume("rbd", "b", "rbd:vms/b")]
    assert [one["users"] for one in users.users_of_shared(other.conn, asked)] == [["machine web9"], []]


@pytest.mark.parametrize(
    "backing",
    [
        "rbd:vms/a",
        "rbd:vms/a@before:id=admin:conf=/etc/ceph/ceph.conf",
        'json:{"driver":"raw","file":{"driver":"rbd","pool":"vms","image":"a","user":"admin"}}',
        'json:{"file.driver":"rbd","file.pool":"vms","file.image":"a"}',
        'json:{"driver":"raw","file":{"filename":"rbd:vms/a"}}',
    ],
)
@pytest.mark.parametrize("in_a_pool", [False, True])
def test_an_overlay_in_a_file_on_network_storage_is_a_user(
    host: PurgeHost, other: Other, backing: str, in_a_pool: bool
) -> None:
    """As after an external snapshot; what is below it does not stand in the description of a machine that is off."""
    overlay = host.outside / "overlay.qcow2"
    subprocess.run(
        ["qemu-img", "create", "-q", "-u", "-f", "qcow2", "-b", backing, "-F", "raw", str(overlay), "1M"], check=True
    )
    if in_a_pool:
        other.conn.storagePoolDefineXML(POOL.format("outside", host.outside), 0).create(0)
    else:
        other.guest("web9", disk(overlay))
    asked = [volume.SharedVolume("rbd", "a", "rbd:vms/a"), volume.SharedVolume("rbd", "b", "rbd:vms/b")]
    user = "volume outside/overlay.qcow2" if in_a_pool else "machine web9"
    assert [one["users"] for one in users.users_of_shared(other.conn, asked)] == [[user], []]
    assert {one.words for one in Usage(other.conn, local=True).users_at("rbd:vms/a")} == {user}


def test_nothing_is_asked_for_nothing() -> None:
    assert users.users_of_shared(t.cast("t.Any", None), []) == []


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ([], "used_elsewhere: [] is not a mapping"),
        ({"hv2": 1}, "used_elsewhere.hv2: 1 is neither a result of virt_usage_info nor a sentence that says why"),
        ({"hv2": {"volumes": [{"pool": "a"}]}}, "used_elsewhere.hv2.volumes[0]"),
        (
            {"hv2": {"volumes": [{"pool": "a", "volume": "b", "users": [], "unknown": [], "more": 1}]}},
            "unknown option 'more'",
        ),
    ],
)
def test_what_is_no_answer_is_refused(host: PurgeHost, value: t.Any, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        host.purge(used_elsewhere=value)
    assert sentence in str(caught.value)


def test_the_module(host: PurgeHost, other: Other, monkeypatch: pytest.MonkeyPatch) -> None:
    host.make()
    other.guest("web9", disk(other.place / VOLUME))
    monkeypatch.setattr(virt_usage_info, "open_connection", lambda _uri: contextlib.nullcontext(other.conn))
    (machine,) = host.purge(check_mode=True)["machines"]
    module: t.Any = type("Module", (), {"params": {"uri": "", "volumes": machine["shared"]}})
    assert virt_usage_info.work(module) == {"changed": False, "volumes": other.asked(host)}
