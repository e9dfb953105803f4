# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who names a secret: machines with their snapshots, pools, QEMU's settings, on libvirt's test driver."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._host import secret_users
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.secret_users import SecretUsers, users_of_secret
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._host.machines.unreadable import define_unreadable

UUID = "6ec2c9b7-2f4e-4a4e-9e05-2c8a6f0a1d11"
MACHINE = """
<domain type='test'><name>db1</name><memory unit='MiB'>64</memory><os><type>hvm</type></os>
<devices>{}</devices></domain>
"""
RBD = "<disk type='network'><source protocol='rbd' name='vms/a'>{}</source><target dev='vda'/></disk>"
LUKS = (
    "<disk type='file'><source file='/a'><encryption format='luks'>{}</encryption></source><target dev='vda'/></disk>"
)
POOL = """
<pool type='{}'><name>p</name>
<source><host name='a'/><device path='iqn.2026-01.org.example:a'/><name>vms</name>{}</source>
<target><path>/dev/disk/by-path</path></target></pool>
"""


@pytest.fixture
def conn(tmp_path: Path) -> Iterator[t.Any]:
    (tmp_path / "node.xml").write_text("<node/>", encoding="utf-8")
    with open_connection(f"test://{tmp_path}/node.xml") as connection:
        yield connection


def users(conn: t.Any, usage: str = "ceph", name: str = "client.x") -> SecretUsers:
    return users_of_secret(conn, usage=usage, name=name, uuid=UUID)


@pytest.mark.parametrize(
    ("devices", "usage"),
    [
        (RBD.format("<auth username='x'><secret type='ceph' usage='client.x'/></auth>"), "ceph"),
        (RBD.format(f"<auth username='x'><secret type='ceph' uuid='{UUID}'/></auth>"), "ceph"),
        (LUKS.format(f"<secret type='passphrase' uuid='{UUID}'/>"), "volume"),
        (LUKS.format("<secret type='passphrase' usage='client.x'/>"), "volume"),
        (
            "<tpm model='tpm-crb'><backend type='emulator' version='2.0'>"
            f"<encryption secret='{UUID}'/></backend></tpm>",
            "vtpm",
        ),
    ],
)
def test_a_machine_that_names_it(conn: t.Any, devices: str, usage: str) -> None:
    assert users(conn, usage) == SecretUsers()
    conn.defineXML(MACHINE.format(devices))
    assert users(conn, usage).users == ("machine db1",)


def test_a_machine_that_names_another_one(conn: t.Any) -> None:
    conn.defineXML(MACHINE.format(RBD.format("<auth username='x'><secret type='ceph' usage='client.x'/></auth>")))
    assert users(conn, "iscsi") == SecretUsers()
    assert users(conn, "ceph", "client.y") == SecretUsers()


def test_a_machine_that_will_have_it_again(conn: t.Any) -> None:
    disk = RBD.format("<auth username='x'><secret type='ceph' usage='client.x'/></auth>")
    domain = conn.defineXML(MACHINE.format(disk))
    domain.snapshotCreateXML("<domainsnapshot><name>before</name></domainsnapshot>", 0)
    conn.defineXML(MACHINE.format("").replace("</name>", f"</name><uuid>{domain.UUIDString()}</uuid>"))
    assert users(conn).users == ("snapshot before of machine db1",)


@pytest.mark.parametrize(
    ("kind", "auth", "usage"),
    [
        ("rbd", "<auth type='ceph' username='x'><secret usage='client.x'/></auth>", "ceph"),
        ("rbd", f"<auth type='ceph' username='x'><secret uuid='{UUID}'/></auth>", "ceph"),
        ("iscsi", "<auth type='chap' username='x'><secret usage='client.x'/></auth>", "iscsi"),
    ],
)
def test_a_pool_that_names_it(conn: t.Any, kind: str, auth: str, usage: str) -> None:
    conn.storagePoolDefineXML(POOL.format(kind, auth), 0)
    assert users(conn, usage).users == ("storage pool p",)
    # By its UUID it is named whatever it is for.
    assert bool(users(conn, "tls").users) is (UUID in auth)


def test_what_cannot_be_read_may_name_it(conn: t.Any) -> None:
    define_unreadable(conn)
    (words,) = users(conn).unknown
    assert words.startswith("the description of machine ent1 cannot be read as XML")


def test_settings_and_volumes_of_this_host(conn: t.Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = tmp_path / "qemu.conf"
    settings.write_text(f'# default_tls_x509_secret_uuid = "{UUID}"\n', encoding="utf-8")
    monkeypatch.setattr(secret_users, "is_local", lambda _uri: True)
    monkeypatch.setattr(secret_users, "QEMU_CONF", str(settings))
    assert users(conn, "tls") == SecretUsers()
    settings.write_text(f'default_tls_x509_secret_uuid = "{UUID.upper()}"\n', encoding="utf-8")
    assert users(conn, "tls").users == (str(settings),)
    volume = tmp_path / "a.luks"
    settings.unlink()
    assert users(conn, "volume", str(volume)) == SecretUsers()
    volume.touch()
    assert users(conn, "volume", str(volume)).users == (f"the volume {volume}, which cannot be opened without it",)


def test_a_volume_of_a_pool_that_is_off_may_be_there(conn: t.Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a server's export that is not mounted now: without its key, all that is in the volume is lost."""
    pool = conn.storagePoolDefineXML(
        "<pool type='dir'><name>nfs</name><target><path>/srv/nfs</path></target></pool>", 0
    )
    words = "storage pool nfs is not active, so that it is not known whether the volume /srv/nfs/a.luks is there"
    for local in (False, True):
        monkeypatch.setattr(secret_users, "is_local", lambda _uri, local=local: local)
        assert users(conn, "volume", "/srv/nfs/a.luks") == SecretUsers(unknown=(words,))
    assert users(conn, "volume", "/srv/nfs2/a.luks") == users(conn, "tls", "/srv/nfs/a.luks") == SecretUsers()
    pool.create()
    assert users(conn, "volume", "/srv/nfs/a.luks") == SecretUsers()


def test_a_volume_of_another_host(conn: t.Any) -> None:
    pool = conn.storagePoolCreateXML("<pool type='dir'><name>a</name><target><path>/srv/a</path></target></pool>", 0)
    assert users(conn, "volume", "/srv/a/b") == SecretUsers()
    pool.createXML("<volume><name>b</name><capacity>1</capacity></volume>", 0)
    assert users(conn, "volume", "/srv/a/b").users == ("the volume /srv/a/b, which cannot be opened without it",)
