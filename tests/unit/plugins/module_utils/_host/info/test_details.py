# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Snapshots, jobs, backing chains and uptime of machines."""

from __future__ import annotations

import os
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt, open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.info.details import (
    BackingChains,
    add_details,
    block_job_of,
    job_of,
    process_seconds,
    read_jobs,
)
from ansible_collections.brine.virt.plugins.module_utils._host.machines.listing import observe_machines
from ansible_collections.brine.virt.plugins.module_utils._host.machines.snapshots import snapshot_records

POOL = """<node><pool type='dir'><name>default</name><target><path>/pool</path></target>
  <volume><name>top.qcow2</name><capacity>1</capacity><target><format type='qcow2'/></target>
    <backingStore><path>/pool/middle.qcow2</path><format type='qcow2'/></backingStore></volume>
  <volume><name>middle.qcow2</name><capacity>1</capacity><target><format type='qcow2'/></target>
    <backingStore><path>/pool/base.raw</path><format type='raw'/></backingStore></volume>
  <volume><name>base.raw</name><capacity>1</capacity><target><format type='qcow2'/></target>
    <backingStore><path>/etc/shadow</path><format type='raw'/></backingStore></volume>
  <volume><name>lost.qcow2</name><capacity>1</capacity><target><format type='qcow2'/></target>
    <backingStore><path>/elsewhere/gone.qcow2</path><format type='qcow2'/></backingStore></volume>
  <volume><name>loop.qcow2</name><capacity>1</capacity><target><format type='qcow2'/></target>
    <backingStore><path>/pool/loop.qcow2</path><format type='qcow2'/></backingStore></volume>
</pool></node>"""
MIDDLE = {"source": "/pool/middle.qcow2", "format": "qcow2"}
BASE = {"source": "/pool/base.raw", "format": "raw"}


@pytest.fixture
def chains(tmp_path: Path) -> t.Iterator[BackingChains]:
    """The chains of a hypervisor with a pool of overlays."""
    (tmp_path / "node.xml").write_text(POOL)
    with open_connection(f"test://{tmp_path}/node.xml", read_only=True) as conn:
        yield BackingChains(conn)


def disk(source: str, kind: str = "file", disk_format: str = "qcow2", more: str = "") -> t.Any:
    return parse_xml(f"<disk type='{kind}'><driver type='{disk_format}'/><source {source}/>{more}</disk>")


@pytest.mark.parametrize(
    ("described", "chain"),
    [
        (disk("file='/pool/top.qcow2'"), [MIDDLE, BASE]),
        (disk("pool='default' volume='top.qcow2'", "volume"), [MIDDLE, BASE]),
        # What a guest writes into its raw disk, and libvirt then takes it for, leads nowhere.
        (disk("file='/pool/base.raw'", disk_format="raw"), []),
        (parse_xml("<disk type='file' device='cdrom'><target dev='sda'/></disk>"), []),
    ],
)
def test_the_chain_of_a_machine_that_is_off(chains: BackingChains, described: t.Any, chain: list[t.Any]) -> None:
    assert chains.of_disk(described, running=False) == chain


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("lost", "what /elsewhere/gone.qcow2 is backed by is unknown: no active storage pool has it"),
        ("loop", "its backing chain has no end"),
    ],
)
def test_a_chain_that_is_not_known_is_no_short_one(chains: BackingChains, name: str, words: str) -> None:
    with pytest.raises(HostError, match=words):
        chains.of_disk(disk(f"file='/pool/{name}.qcow2'"), running=False)


def test_the_chain_of_a_running_machine_is_what_qemu_uses(chains: BackingChains) -> None:
    live = (
        "<backingStore type='file'><format type='qcow2'/><source file='/a'/>"
        "<backingStore type='network'><format type='raw'/><source protocol='rbd' name='p/b'/><backingStore/>"
        "</backingStore></backingStore>"
    )
    described = disk("file='/pool/top.qcow2'", more=live)
    assert chains.of_disk(described, running=True) == [
        {"source": "/a", "format": "qcow2"},
        {"source": "rbd:p/b", "format": "raw"},
    ]
    assert chains.of_disk(disk("file='/x'", more="<backingStore/>"), running=True) == []


def test_snapshots_stand_after_those_that_they_follow(node_uri: str) -> None:
    with open_connection(node_uri) as conn:
        domain = conn.lookupByName("web1")
        assert snapshot_records(domain) == []
        for name in ("z", "a"):
            domain.snapshotCreateXML(f"<domainsnapshot><name>{name}</name></domainsnapshot>")
        found = [(one["name"], one["current"], one["parent"]) for one in snapshot_records(domain)]
        assert found == [("z", False, None), ("a", True, "z")]
        records = observe_machines(conn, addresses=False, sizes=False)
        add_details(conn, records, ["snapshots", "jobs", "uptime", "os"], agent_timeout_seconds=1)
    by_name = {record["name"]: record for record in records}
    assert by_name["web1"]["snapshots"][0]["name"] == "z"
    assert (by_name["db1"]["snapshots"], by_name["db1"]["jobs"], by_name["db1"]["uptime_seconds"]) == ([], [], None)
    # The driver for tests knows no jobs: that is not the same as none.
    assert (by_name["web1"]["jobs"], by_name["web1"]["os"]) == (None, None)
    assert by_name["web1"]["errors"] == []


def test_what_cannot_be_found_out_is_an_error_of_its_machine(node_uri: str) -> None:
    with open_connection(node_uri) as conn:
        records = observe_machines(conn, addresses=False)
        before = {record["name"]: list(record["errors"]) for record in records}
        add_details(conn, records, ["backing_chains"], agent_timeout_seconds=1)
    by_name = {record["name"]: record for record in records}
    assert by_name["web1"]["disks"][0]["backing_chain"] is None
    assert by_name["web1"]["errors"] == [
        *before["web1"],
        "disk vda: what /var/lib/libvirt/images/web1-system.qcow2 is backed by is unknown: "
        "no active storage pool has it",
    ]
    assert by_name["db1"]["disks"][0]["backing_chain"] == []


def test_whether_a_disk_in_a_cluster_is_on_an_older_image_is_unknown(node_uri: str) -> None:
    source = "<source protocol='rbd' name='vms/ceph1-system'><host name='mon'/></source><target dev='vda'/>"
    devices = f"<devices><disk type='network'><driver type='raw'/>{source}{{}}</disk></devices>"
    domain = "<domain type='test'><name>{}</name><memory>65536</memory><os><type>hvm</type></os>{}</domain>"
    with open_connection(node_uri) as conn:
        conn.defineXML(domain.format("ceph1", devices.format("")))
        conn.defineXML(domain.format("ceph2", devices.format("<readonly/>")))
        records = observe_machines(conn, addresses=False)
        add_details(conn, records, ["images"], agent_timeout_seconds=1)
    by_name = {record["name"]: record for record in records}
    assert {name: by_name[name]["newer_images"] for name in ("ceph1", "ceph2", "db1")} == {
        "ceph1": None,
        "ceph2": [],
        "db1": [],
    }


@pytest.mark.parametrize(
    ("stats", "job"),
    [
        ({"type": 0}, None),
        ({"type": 3, "operation": 5}, None),
        (
            {"type": 2, "operation": 5, "time_elapsed": 12345, "data_total": 1000, "data_processed": 489},
            {"type": "migration_out", "disk": None, "percent": 48, "elapsed_seconds": 12},
        ),
        ({"type": 1, "operation": 9}, {"type": "backup", "disk": None, "percent": None, "elapsed_seconds": None}),
        ({"type": 1, "operation": 99}, {"type": "unknown", "disk": None, "percent": None, "elapsed_seconds": None}),
    ],
)
def test_jobs(stats: dict[str, int], job: dict[str, t.Any] | None) -> None:
    assert job_of(stats) == job


def test_jobs_of_disks() -> None:
    assert block_job_of("vda", {}) is None
    assert block_job_of("vda", None) is None
    assert block_job_of("vda", {"type": 4, "bandwidth": 0, "cur": 5, "end": 10}) == {
        "type": "active_commit",
        "disk": "vda",
        "percent": 50,
        "elapsed_seconds": None,
    }


def test_uptime_is_that_of_the_process(tmp_path: Path) -> None:
    (tmp_path / "web1.pid").write_text("42\n")
    (tmp_path / "42").mkdir()
    ticks = os.sysconf("SC_CLK_TCK")
    # After the name, the state is field 3, and the start field 22.
    (tmp_path / "42" / "stat").write_text(f"42 (qemu (x) y) S {'0 ' * 18}{1000 * ticks} 0 0\n")
    (tmp_path / "uptime").write_text("4600.25 100.0\n")
    assert process_seconds("web1", run=str(tmp_path), proc=str(tmp_path)) == 3600
    assert process_seconds("web2", run=str(tmp_path), proc=str(tmp_path)) is None


class Busy:
    """A machine of which libvirt answers with an error when it is asked for its job: the test driver knows no jobs."""

    def __init__(self, words: str) -> None:
        self._error = libvirt.libvirtError("virDomainGetJobStats() failed")
        self._error.err = (libvirt.VIR_ERR_INTERNAL_ERROR, 10, words, 2, "", "", "", 0, 0)

    def jobStats(self) -> dict[str, t.Any]:  # noqa: N802 - libvirt's name
        raise self._error


def test_a_backup_that_is_just_beginning_is_a_job() -> None:
    jobs = read_jobs(t.cast("t.Any", Busy("internal error: backup job data missing")), None)
    assert jobs == [{"type": "backup", "disk": None, "percent": None, "elapsed_seconds": None}]


def test_another_error_of_its_job_is_an_error() -> None:
    with pytest.raises(HostError, match="cannot read its jobs: .*something else"):
        read_jobs(t.cast("t.Any", Busy("internal error: something else")), None)
