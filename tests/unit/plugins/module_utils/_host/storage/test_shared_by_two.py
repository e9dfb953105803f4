# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import dataclasses
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.storage import shared_pools
from ansible_collections.brine.virt.plugins.module_utils._host.storage.pools import Pool, Pools
from ansible_collections.brine.virt.plugins.module_utils._host.storage.shared_pools import is_shared
from ansible_collections.brine.virt.plugins.module_utils._model.xml.disk_source import DiskSource


def pool(ceph_pool: str, *monitors: str) -> Pool:
    hosts = tuple((name, None) for name in monitors)
    network = DiskSource("network", protocol="rbd", name=f"{ceph_pool}/", hosts=hosts)
    return Pool("ceph", "", 0, None, type="rbd", network=network)


@pytest.mark.parametrize(
    ("there", "wanted"),
    [
        (pool("vms", "a", "b", "c"), True),
        (pool("vms", "c", "b"), True),
        (pool("vms", "d"), False),
        (pool("other", "a", "b", "c"), False),
        (pool("vms2", "a"), False),
        (Pool("ceph", "/p", 0, None, type="dir"), False),
    ],
    ids=["the same", "fewer monitors", "another cluster", "another pool", "a pool of a longer name", "a folder"],
)
def test_a_pool_of_a_cluster_is_the_same_by_any_of_its_monitors(there: Pool, wanted: bool) -> None:
    assert is_shared(pool("vms", "a", "b", "c"), there, "web1.raw", seen=True, probe=True) is wanted


NETFS = """<pool type='netfs'><name>nfs</name><source><host name='{}'/><dir path='/srv/vms'/><format type='{}'/>
</source><target><path>{}</path></target></pool>"""


@pytest.mark.parametrize(
    ("server", "kind", "wanted"),
    [
        ("nas", "nfs", True),
        ("192.0.2.1", "nfs", True),
        ("localhost", "nfs", False),
        ("127.0.1.1", "auto", False),
        ("::1", "nfs", False),
        ("localhost", "glusterfs", True),
    ],
)
def test_what_each_host_exports_to_itself_is_not_the_same(tmp_path: Path, server: str, kind: str, wanted: bool) -> None:
    """A move would copy nothing, and the machine would have another disk there, or none."""
    (tmp_path / "node.xml").write_text("<node/>", encoding="utf-8")
    uri = f"test://{tmp_path}/node.xml"
    with open_connection(uri) as source, open_connection(uri) as target:
        for conn in (source, target):
            conn.storagePoolCreateXML(NETFS.format(server, kind, tmp_path), 0)
        here, there = (dataclasses.replace(Pools(conn).get("nfs"), local=True) for conn in (source, target))
        for seen in (False, True):
            assert is_shared(here, there, "web1.raw", seen=seen, probe=True) is wanted


SAN = """<node><pool type='{}'><name>san</name><source><host name='nas'/><device path='iqn.2026-01.org.example:vms'/>
<adapter type='scsi_host' name='host2'/></source><target><path>/dev/disk/by-path</path></target>
<volume type='block'><name>unit:0:0:{}</name><key>{}</key><capacity>64</capacity></volume></pool></node>"""


@pytest.mark.parametrize("kind", ["iscsi", "scsi"])
@pytest.mark.parametrize(
    ("number", "key", "wanted"),
    [(1, "36001405a", True), (1, "/dev/sdb", True), (1, "36001405b", False), (2, "36001405a", False)],
    ids=["the same", "a serial number that nobody knows", "another device", "not shown there"],
)
def test_a_target_may_show_each_host_another_device_under_one_number(
    tmp_path: Path, kind: str, number: int, key: str, wanted: bool
) -> None:
    """The machine would write to somebody else's."""
    for name, text in (("here", SAN.format(kind, 1, "36001405a")), ("there", SAN.format(kind, number, key))):
        (tmp_path / f"{name}.xml").write_text(text, encoding="utf-8")
    with (
        open_connection(f"test://{tmp_path}/here.xml") as source,
        open_connection(f"test://{tmp_path}/there.xml") as to,
    ):
        here, there = (dataclasses.replace(Pools(conn).get("san"), local=True) for conn in (source, to))
        assert is_shared(here, there, "unit:0:0:1", seen=number == 1, probe=True) is wanted


NODE = """<node><pool type='dir'><name>vms</name><target><path>/srv/vms</path></target>
<volume><name>web1.raw</name><capacity>64</capacity></volume></pool></node>"""


@pytest.mark.parametrize(
    ("there", "wanted"),
    [
        ("104.5 64", True),
        ("105 64", True),
        ("44.5 64", True),
        ("44.499999999 64", False),
        ("107 64", False),
        ("105 65", False),
        ("", False),
    ],
    ids=["the same", "written to meanwhile", "cached by NFS", "older", "newer", "another size", "no time"],
)
def test_in_check_mode_a_volume_that_was_changed_at_the_same_time_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: str, wanted: bool
) -> None:
    """As of a directory that both hosts mount, whose guest writes; the test driver does not tell the time."""
    file = tmp_path / "node.xml"
    file.write_text(NODE, encoding="utf-8")
    with open_connection(f"test://{file}") as source, open_connection(f"test://{file}") as target:
        here = dataclasses.replace(Pools(source).get("vms"), local=True)
        seen = {id(source): iter(["104.5 64", "106 64"]), id(target): iter([there])}

        def written(volume: t.Any) -> str:
            return next(seen[id(volume.connect())])

        monkeypatch.setattr(shared_pools, "last_written", written)
        assert is_shared(here, Pools(target).get("vms"), "web1.raw", seen=True, probe=False) is wanted
