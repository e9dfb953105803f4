# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A disk's source survives XML and back, and libvirt's own schema accepts it."""

from __future__ import annotations

import dataclasses
import functools
import typing as t
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from ansible_collections.brine.virt.plugins.module_utils._model.xml.disk_source import DiskSource

SCHEMA = Path("/usr/share/libvirt/schemas/domain.rng")
UUID = "0f0f0f0f-0f0f-4f0f-8f0f-0f0f0f0f0f0f"

# All that XML can carry, and nothing that it cannot.
TEXTS = st.text(
    st.characters(blacklist_categories=["Cs", "Cc"], blacklist_characters="\ufffe\uffff"), min_size=1, max_size=20
)
PATHS = TEXTS.map("/{}".format)
HOSTS = st.tuples(st.from_regex(r"[a-z0-9][a-z0-9.-]{0,8}", fullmatch=True), st.none() | st.integers(1, 65535))
SECRETS = st.sampled_from([{"secret_uuid": UUID}, {"secret_usage": "the key"}])
USERS = st.from_regex(r"[a-zA-Z0-9_+-]{1,9}", fullmatch=True)


@st.composite
def network_sources(draw: st.DrawFn) -> DiskSource:
    protocol, secret_type, fewest, most = draw(
        st.sampled_from([("rbd", "ceph", 0, 3), ("gluster", None, 1, 3), ("iscsi", "iscsi", 1, 1)])
    )
    hosts = tuple(draw(st.lists(HOSTS, min_size=fewest, max_size=most)))
    auth = {}
    if secret_type and draw(st.booleans()):
        auth = {"auth_user": draw(USERS), "auth_type": secret_type, **draw(SECRETS)}
    initiator = draw(st.none() | TEXTS) if protocol == "iscsi" else None
    return DiskSource(
        "network", protocol=protocol, name=draw(TEXTS), hosts=hosts, initiator=initiator, **t.cast(t.Any, auth)
    )


SOURCES = st.one_of(
    PATHS.map(lambda path: DiskSource("file", path)),
    st.from_regex(r"/dev/[a-zA-Z0-9_./-]{1,20}", fullmatch=True).map(lambda path: DiskSource("block", path)),
    network_sources(),
)


def written(source: DiskSource) -> etree._Element:
    disk = etree.Element("disk", device="disk")
    source.write(disk)
    return disk


@functools.lru_cache(maxsize=1)
def schema() -> etree.RelaxNG:
    return etree.RelaxNG(etree.parse(SCHEMA))


@given(SOURCES)
def test_a_source_survives_xml(source: DiskSource) -> None:
    again = etree.fromstring(etree.tostring(written(source)))
    assert DiskSource.read(again) == source


@given(SOURCES, SOURCES)
def test_writing_leaves_nothing_of_the_old_source(old: DiskSource, new: DiskSource) -> None:
    disk = written(old)
    etree.SubElement(disk, "target", dev="vda")
    new.write(disk)
    assert DiskSource.read(disk) == new
    assert len(disk.findall("source")) == 1
    assert disk.find("target") is not None


# What of a disk goes with its bytes: their key, their label, the part of the file that is the disk.
ENCRYPTED = (
    "<disk type='file'><driver name='qemu' type='raw'/>"
    "<source file='/old' startupPolicy='optional' index='1'><seclabel model='dac' relabel='no'/>"
    f"<encryption format='luks' engine='qemu'><secret type='passphrase' uuid='{UUID}'/></encryption>"
    "<slices><slice type='storage' offset='0' size='512'/></slices>"
    "<reservations managed='yes'/></source><target dev='vda' bus='virtio'/></disk>"
)


@given(SOURCES)
def test_an_encrypted_disk_that_moves_keeps_its_key(new: DiskSource) -> None:
    disk = etree.fromstring(ENCRYPTED)
    kept = [etree.tostring(child) for child in disk.iterfind("source/*") if child.tag != "reservations"]
    new.move(disk)
    assert DiskSource.read(disk) == new
    (source,) = disk.findall("source")
    assert [etree.tostring(child) for child in source][-3:] == kept
    assert source.get("startupPolicy") == "optional"
    # What belongs to the old place does not come along.
    assert source.get("index") is None
    assert source.find("reservations") is None
    assert [child.tag for child in disk if child.tag != "source"] == ["driver", "target"]


def test_only_a_move_keeps_the_key() -> None:
    disk = etree.fromstring(ENCRYPTED)
    DiskSource("file", "/another").write(disk)
    assert disk.find("source/encryption") is None


def test_a_disk_on_a_snapshot_in_a_cluster_stays_on_that() -> None:
    """Where the next hypervisor has been told of other monitors: the volume itself has what was written to it since."""
    source = "<source protocol='rbd' name='vms/golden'><host name='mon1'/><snapshot name='v1'/></source>"
    disk = etree.fromstring(f"<disk type='network'>{source}<target dev='vdb'/><readonly/></disk>")
    DiskSource("network", protocol="rbd", name="vms/golden", hosts=(("mon2", None),)).move(disk)
    assert [host.get("name") for host in disk.iterfind("source/host")] == ["mon2"]
    assert [snapshot.get("name") for snapshot in disk.iterfind("source/snapshot")] == ["v1"]


def test_an_empty_drive_can_move() -> None:
    drive = etree.fromstring("<disk type='file' device='cdrom'><target dev='sda' bus='sata'/></disk>")
    DiskSource("file", "/new").move(drive)
    assert DiskSource.read(drive) == DiskSource("file", "/new")


@pytest.mark.skipif(not SCHEMA.exists(), reason="libvirt's schemas are not installed (package libvirt0)")
@given(SOURCES)
def test_the_schema_accepts_every_source(source: DiskSource) -> None:
    # genericName, absFilePath and so on are patterns, and a pattern's dot is no line end.
    domain = etree.fromstring(
        f"<domain type='kvm'><name>x</name><uuid>{UUID}</uuid><memory>1</memory>"
        "<os><type>hvm</type></os><devices/></domain>"
    )
    disk = written(source)
    etree.SubElement(disk, "target", dev="vda", bus="virtio")
    domain[-1].append(disk)
    assert schema().validate(domain), schema().error_log


@pytest.mark.parametrize(
    ("xml", "source"),
    [
        # How domains had it before libvirt 3.9.
        (
            f"<disk type='network'><auth username='admin'><secret type='ceph' uuid='{UUID}'/></auth>"
            "<source protocol='rbd' name='vms/web1'><host name='mon1' port='6789'/></source></disk>",
            DiskSource(
                "network",
                protocol="rbd",
                name="vms/web1",
                hosts=(("mon1", 6789),),
                auth_user="admin",
                auth_type="ceph",
                secret_uuid=UUID,
            ),
        ),
        ("<disk><source file='/a'/></disk>", DiskSource("file", "/a")),
        ("<disk type='file' device='cdrom'><target dev='sda'/></disk>", None),
        ("<disk type='file' device='cdrom'><source startupPolicy='optional'/></disk>", None),
        ("<disk type='volume'><source pool='p' volume='v'/></disk>", None),
        (
            "<disk type='network'><source protocol='nbd'><host transport='unix' socket='/s'/></source></disk>",
            None,
        ),
    ],
)
def test_what_others_wrote_is_read(xml: str, source: DiskSource | None) -> None:
    assert DiskSource.read(etree.fromstring(xml)) == source


def test_two_sources_are_one_place_whoever_opens_them() -> None:
    source = DiskSource("network", protocol="rbd", name="vms/web1", hosts=(("mon1", None),))
    other = dataclasses.replace(source, hosts=(("mon2", 6789),), auth_user="admin", auth_type="ceph")
    assert source.place == other.place == "rbd:vms/web1"
    assert DiskSource("block", "/dev/vg/web1").place == "/dev/vg/web1"
