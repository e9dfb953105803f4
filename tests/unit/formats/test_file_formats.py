# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What earlier versions left in files of a hypervisor and of the controller is read by this one: recorded samples."""

from __future__ import annotations

import json
import shutil
import typing as t
from pathlib import Path

import pytest
import yaml
from cryptography import x509

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, HostError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.facts.maintenance import (
    SECRET_UUID,
    Maintenance,
    _from_description,
    _to_xml,
    read_maintenance,
    write_maintenance,
)
from ansible_collections.brine.virt.plugins.module_utils._model.backup.damage import Damage, read_damage
from ansible_collections.brine.virt.plugins.module_utils._model.backup.manifest import SourceFile
from ansible_collections.brine.virt.plugins.module_utils._model.backup.manifest_text import (
    manifest_to_text,
    read_manifest,
)
from ansible_collections.brine.virt.plugins.module_utils._network.change import asks_for, expected_from
from ansible_collections.brine.virt.plugins.module_utils._network.firewall.plan import read_spec
from ansible_collections.brine.virt.plugins.module_utils._network.spec import read_bridge
from ansible_collections.brine.virt.plugins.module_utils._network.switch import control
from ansible_collections.brine.virt.plugins.module_utils._tls import certificates as certs
from ansible_collections.brine.virt.plugins.plugin_utils._ca.revoke import revocation_lists
from ansible_collections.brine.virt.plugins.plugin_utils._ca.store import CaOptions, open_ca_store
from ansible_collections.brine.virt.plugins.plugin_utils._inventory.known_hosts import last_seen, update_known_hosts

MAINTENANCE = Maintenance("2026-11-21T10:00:00Z", "new disks, neue Lüfter")
# Of an organization, with keys of a type, certificates of so many days and an authority of so many.
CHOICE = CaOptions("brine.virt", "ecdsa", 365, 36500, "a recorded sample")
SIGNER = "35119dd27a8213c7"
HV1_SERIAL, ALICE_SERIAL = "18ba408152c59d5f77152f10721c17cadb835f63", "40578bafeae042f30ba78749647acdb74aa77261"
DB1, WEB = "11111111-2222-4333-8444-555555555555", "22222222-2222-4333-8444-555555555555"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI"


# Maintenance


def test_maintenance(fixtures: Path, tmp_path: Path) -> None:
    sample = fixtures / "formats/maintenance/1-first.json"
    assert read_maintenance(str(sample)) == MAINTENANCE
    write_maintenance(MAINTENANCE, str(tmp_path / "now.json"))
    assert (tmp_path / "now.json").read_bytes() == sample.read_bytes()


def test_maintenance_that_other_hypervisors_see(fixtures: Path) -> None:
    text = (fixtures / "formats/maintenance/1-secret.xml").read_text(encoding="utf-8")
    root = parse_xml(text)
    assert root.findtext("uuid") == SECRET_UUID
    assert _from_description(root.findtext("description") or "") == MAINTENANCE
    assert _to_xml(MAINTENANCE) == text.strip()


def test_what_a_newer_version_says_of_a_maintenance_is_passed_over(tmp_path: Path) -> None:
    said = json.dumps({**MAINTENANCE.as_dict(), "until": "2026-11-22", "by": ["alice"]})
    (tmp_path / "newer.json").write_text(said, encoding="utf-8")
    assert read_maintenance(str(tmp_path / "newer.json")) == MAINTENANCE
    assert _from_description(f"brine.virt maintenance: {said}") == MAINTENANCE


# The change of a bridge


@pytest.fixture
def under_way(tmp_path: Path, fixtures: Path, monkeypatch: pytest.MonkeyPatch) -> t.Callable[[str], Path]:
    """Make a recorded change of br0 one that waits for its confirmation now. Gives its folder."""

    def begin(sample: str) -> Path:
        monkeypatch.setattr(control, "_STATE_ROOT", str(tmp_path))
        monkeypatch.setattr(control, "_is_running", lambda _bridge: True)
        return Path(shutil.copytree(fixtures / "formats/bridge" / sample, tmp_path / "bridge-br0"))

    return begin


def edit(folder: Path, change: t.Callable[[dict[str, t.Any]], t.Any]) -> None:
    said = json.loads((folder / "change.json").read_text(encoding="utf-8"))
    change(said)
    (folder / "change.json").write_text(json.dumps(said), encoding="utf-8")


def check_pending() -> None:
    under_way = control.pending("bridge-br0")
    assert under_way is not None
    found = expected_from(under_way.subject)
    assert (found.bridge, found.uplink) == ("br0", "eth0")
    names = ["05-brine-br0.netdev", "05-brine-br0.network", "05-brine-br0-uplink.network"]
    assert [path for path, _text in under_way.files] == [f"/etc/systemd/network/{name}" for name in names]
    assert "MACAddress=52:54:00:11:22:33" in str(under_way.files[0][1])
    assert found.addresses == ("192.0.2.11/24", "2001:db8::11/64")
    assert found.gateways == ("192.0.2.1",)


@pytest.mark.parametrize("sample", ["1-first", "2-applied-seen", "3-guarded", "4-token"])
def test_change_of_a_bridge(under_way: t.Callable[[str], Path], sample: str) -> None:
    under_way(sample)
    check_pending()
    assert control.state("bridge-br0") == control.APPLIED
    assert control.log("bridge-br0") == ["10:15:02 putting eth0 into br0"]


@pytest.mark.parametrize("sample", ["1-first", "2-applied-seen", "3-guarded"])
def test_a_change_without_a_token_is_taken_over_and_seen_again(
    under_way: t.Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, sample: str
) -> None:
    """That an earlier version has seen it says not by whom. Its script asks for a file of the name of the decision."""
    folder = under_way(sample)
    with pytest.raises(ConflictError, match="this run has not begun the change"):
        control.confirm("bridge-br0", "")
    taken = control.take_over("bridge-br0")
    with pytest.raises(HostError, match="Call phase=wait first"):
        control.confirm("bridge-br0", taken.token)
    assert not (folder / "confirm").exists()
    control.wait_until_applied("bridge-br0", taken.token)
    monkeypatch.setattr(control, "_is_running", lambda _name: False)
    control.confirm("bridge-br0", taken.token)
    assert (folder / "confirm").exists()


def test_what_one_with_a_token_has_seen_is_confirmed(
    under_way: t.Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = under_way("4-token")
    found = control.read("bridge-br0")
    assert (found.token, found.apply_seconds, found.settle_seconds) == ("5d41402abc4b2a76", 157, 385)
    monkeypatch.setattr(control, "_is_running", lambda _name: False)
    seen: list[float] = []
    monkeypatch.setattr(control, "check_newer", seen.append)
    control.confirm("bridge-br0", found.token)
    assert (seen, (folder / "decision").read_text()) == ([1203.25], "confirm\n")
    # Its own script knows the decision alone.
    assert not (folder / "confirm").exists()


def test_a_spec_that_is_remembered_is_compared(under_way: t.Callable[[str], Path]) -> None:
    under_way("4-token")
    found = control.pending("bridge-br0")
    assert found is not None
    assert asks_for(read_bridge({"name": "br0"}, ""), found)
    assert not asks_for(read_bridge({"name": "br0", "mtu": 9000}, ""), found)


def test_what_a_newer_version_says_of_a_change_is_passed_over(under_way: t.Callable[[str], Path]) -> None:
    def add(said: dict[str, t.Any]) -> None:
        said["mtu"] = 9000
        for file in said["files"]:
            file["mode"] = "0644"

    edit(under_way("2-applied-seen"), add)
    check_pending()


@pytest.mark.parametrize(
    "change",
    [
        lambda said: said.pop("gateways"),
        lambda said: said.update(files=None),
        lambda said: said["files"][0].pop("text"),
        lambda said: said.update(files=["05-brine-br0.netdev"]),
    ],
)
def test_a_change_that_cannot_be_understood_says_what_to_do(
    under_way: t.Callable[[str], Path], change: t.Callable[[dict[str, t.Any]], t.Any]
) -> None:
    edit(under_way("2-applied-seen"), change)
    with pytest.raises(HostError, match=r"the change bridge-br0 under way cannot be read.* rolled back automatically"):
        control.pending("bridge-br0")


# The change of a firewall


@pytest.mark.parametrize("sample", ["1-first", "2-token"])
def test_change_of_a_firewall(tmp_path: Path, fixtures: Path, monkeypatch: pytest.MonkeyPatch, sample: str) -> None:
    monkeypatch.setattr(control, "_STATE_ROOT", str(tmp_path))
    monkeypatch.setattr(control, "_is_running", lambda _name: True)
    shutil.copytree(fixtures / "formats/firewall" / sample, tmp_path / "firewall")
    under_way = control.pending("firewall")
    assert under_way is not None
    spec = read_spec(under_way.subject["spec"])
    assert [(one.source_text, one.ports_text()) for one in spec.openings] == [
        ("192.0.2.12", "16514,49152-49215"),
        ("198.51.100.0/24", "16514"),
        ("2001:db8::12", "16514,49152-49215"),
    ]
    assert spec.keep_others is False
    # What is remembered is what a run compares its own spec with.
    assert spec.as_json() == under_way.subject["spec"]


@pytest.mark.parametrize(
    "said", [None, {}, {"openings": [["192.0.2.12"]]}, {"openings": [["x", []]], "keep_others": 1}]
)
def test_a_spec_that_cannot_be_understood_says_what_to_do(said: t.Any) -> None:
    with pytest.raises(HostError, match=r"the change of the firewall under way cannot be read.* rolled back automatic"):
        read_spec(said)


# Certificates


@pytest.fixture
def folder(fixtures: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(fixtures / "formats/ca/1-first", tmp_path / "authority"))


def test_folder_of_the_authority(folder: Path) -> None:
    before = sorted(path.relative_to(folder) for path in folder.rglob("*"))
    authorities = open_ca_store(str(folder), CHOICE, save=True)
    assert (authorities.current.short, authorities.former) == (SIGNER, ())
    assert authorities.current.key is not None
    issued = {
        path.stem: certs.read_certificates(path.read_text(), "")[0] for path in authorities.issued(authorities.current)
    }
    assert {serial: certs.common_name(one) for serial, one in issued.items()} == {
        HV1_SERIAL: "hv1",
        ALICE_SERIAL: "alice",
    }
    assert all(f"{one.serial_number:x}" == serial for serial, one in issued.items())
    assert all(certs.is_issued_by(one, authorities.current.certificate) for one in issued.values())
    # Nothing is recreated: hosts go on trusting what they trust.
    assert sorted(path.relative_to(folder) for path in folder.rglob("*") if path.name != ".lock") == before


def test_what_was_revoked_stays_so(folder: Path) -> None:
    authorities = open_ca_store(str(folder), CHOICE, save=False)
    recorded = (folder / f"{SIGNER}.crl").read_text(encoding="ascii")
    for revoked in ([], ["alice"], [ALICE_SERIAL]):
        text = revocation_lists(authorities, revoked, save=True)
        assert text == recorded
    (listed,) = certs.read_revocation_lists(recorded)
    assert [f"{entry.serial_number:x}" for entry in listed] == [ALICE_SERIAL]
    more = certs.read_revocation_lists(revocation_lists(authorities, ["hv1"], save=True))[0]
    assert {f"{entry.serial_number:x}" for entry in more} == {ALICE_SERIAL, HV1_SERIAL}
    assert more.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number == 2


def test_what_a_newer_version_keeps_beside_them_is_passed_over(folder: Path) -> None:
    (folder / "index.json").write_text("{}", encoding="ascii")
    (folder / "requests").mkdir()
    (folder / "requests" / "hv1.pem").write_text("no certificate", encoding="ascii")
    assert open_ca_store(str(folder), CHOICE, save=True).current.short == SIGNER


def test_who_may_connect_stands_between_the_marks_of_the_first_version(fixtures: Path) -> None:
    """With other marks the role would add a second block, and libvirt takes the first one of a setting."""
    sample = (fixtures / "formats/tls/1-libvirtd.conf").read_text(encoding="utf-8").splitlines()
    root = next(parent for parent in Path(__file__).parents if (parent / "galaxy.yml").exists())
    tasks = yaml.safe_load((root / "roles/virt_tls/tasks/serve.yml").read_text(encoding="utf-8"))
    (block,) = [task["ansible.builtin.blockinfile"] for task in tasks if "ansible.builtin.blockinfile" in task]
    marks = [block["marker"].replace("{mark}", word) for word in ("BEGIN", "END")]
    assert [line for line in sample if line.startswith("# ")] == marks


# Host keys


def test_host_keys_of_the_first_version_lose_what_a_guest_could_claim(fixtures: Path, tmp_path: Path) -> None:
    for sample in ("1-first", "2-alias-alone"):
        path = tmp_path / sample
        shutil.copy(fixtures / "formats/known_hosts" / sample, path)
        lines = path.read_text(encoding="utf-8").splitlines()
        assert last_seen(lines) == {"db1": ["hv1"]}
        # An answer of another hypervisor: what is known of hv1 stays.
        other = {"uuid": "3" * 8 + WEB[8:], "name": "new", "vcpus": 1, "host_keys": [f"{KEY}New"]}
        update_known_hosts(str(path), [{"hypervisor": "hv2", "machines": [other]}])
        assert path.read_text(encoding="utf-8").splitlines() == [
            "# a line of somebody else's",
            "other.example.org ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOth",
            f"virt-{DB1} {KEY}Db1 brine.virt:hv1 db1",
            f"virt-{WEB} {KEY}Web brine.virt:hv1",
            f"virt-{'3' * 8}{WEB[8:]} {KEY}New brine.virt:hv2 new",
        ]


def test_where_a_machine_without_host_keys_is_stays_known(fixtures: Path, tmp_path: Path) -> None:
    path = tmp_path / "known_hosts"
    shutil.copy(fixtures / "formats/known_hosts/3-without-keys", path)
    before = path.read_text(encoding="utf-8")
    assert last_seen(before.splitlines()) == {"db1": ["hv1"], "old": ["hv1"]}
    assert not update_known_hosts(str(path), [{"hypervisor": "hv2", "machines": []}])
    assert update_known_hosts(str(path), [{"hypervisor": "hv1", "machines": []}])
    assert path.read_text(encoding="utf-8").splitlines() == before.splitlines()[:2]


def test_host_keys_are_written_as_in_the_newest_sample(fixtures: Path, tmp_path: Path) -> None:
    sample = fixtures / "formats/known_hosts/3-without-keys"
    path = tmp_path / "known_hosts"
    path.write_text("\n".join(sample.read_text(encoding="utf-8").splitlines()[:2]) + "\n", encoding="utf-8")
    machines = [
        {"uuid": DB1, "name": "db1", "vcpus": 1, "host_keys": [f"{KEY}Db1 root@db1"], "addresses": ["192.0.2.50"]},
        {"uuid": WEB, "name": "a b", "vcpus": 1, "host_keys": [f"{KEY}Web"], "addresses": ["192.0.2.51"]},
        {"uuid": f"33333333{WEB[8:]}", "name": "old", "vcpus": 1, "host_keys": [], "addresses": []},
    ]
    update_known_hosts(str(path), [{"hypervisor": "hv1", "machines": machines}])
    assert path.read_bytes() == sample.read_bytes()


# Backups


def test_a_backup_of_the_first_version_is_read(fixtures: Path) -> None:
    text = (fixtures / "formats/backup/1-first.json").read_text(encoding="utf-8")
    manifest = read_manifest(text, "20261123T105753Z-incremental")
    assert (manifest.machine, manifest.kind, manifest.parent) == ("bk1", "incremental", "20261123T105738Z-full")
    assert manifest.checkpoint == "brine-backup-c858082afb67e6b0-20261123T105753Z"
    assert [(disk.target, disk.backing, disk.role) for disk in manifest.disks] == [
        ("vda", "20261123T105738Z-full", "disk"),
        ("vdb", "20261123T105738Z-full", "disk"),
        ("vdz", None, "seed"),
    ]
    assert sorted(manifest.files) == ["domain.xml", "vda.qcow2", "vdb.qcow2", "vdz.qcow2"]
    assert manifest_to_text(manifest) == text
    # As later ones are.
    text = (fixtures / "formats/backup/1-made-at.json").read_text(encoding="utf-8")
    manifest = read_manifest(text, "20261123T105753Z-incremental")
    assert (manifest.made_at, manifest_to_text(manifest)) == ("20261123T105753Z", text)
    assert [disk.source_file for disk in manifest.disks] == [None] * 3
    text = (fixtures / "formats/backup/1-source-file.json").read_text(encoding="utf-8")
    manifest = read_manifest(text, "20261123T105753Z-incremental")
    assert [disk.source_file for disk in manifest.disks] == [
        SourceFile(131077, "5b0e4c1f7d3a4f0e9a2b6c8d1e3f5a7b"),
        SourceFile(18446744073709551615),
        None,
    ]
    assert manifest_to_text(manifest) == text


def test_what_was_found_damaged_is_read(fixtures: Path) -> None:
    sample = (fixtures / "formats/backup/1-damaged.json").read_bytes()
    found = Damage("vda.qcow2 has another content than when the backup was made", "2026-11-29T22:10:00Z")
    assert read_damage(sample) == found
    assert found.to_text().encode() == sample
    newer = {"format": 1, "found": found.found, "what": found.what, "files": ["vda.qcow2"]}
    assert read_damage(json.dumps(newer).encode()) == found
    # Whatever is in it, it is there.
    for content in (b"", b"\xff", b"[]", b"{}", b'{"found": 7, "what": null}', b"[" * 100000):
        assert read_damage(content) == Damage()
    assert Damage().words == "it was found damaged"
    assert read_damage(b'{"found": "today", "what": "a\\n\\u001b[2Jb"}').words == "a  [2Jb"


def test_backups_that_are_or_were_merged_are_read(fixtures: Path) -> None:
    name = "20261123T105753Z-incremental"
    text = (fixtures / "formats/backup/2-merging.json").read_text(encoding="utf-8")
    manifest = read_manifest(text, name)
    assert (manifest.kind, manifest.parent, manifest.merging) == ("incremental", "20261123T105738Z-full", True)
    assert [disk.backings for disk in manifest.disks] == [["20261123T105738Z-full", None]] * 2 + [[None]]
    assert manifest_to_text(manifest) == text
    text = (fixtures / "formats/backup/2-merged.json").read_text(encoding="utf-8")
    assert read_manifest(text, name) == manifest.after_merge()
    assert manifest_to_text(manifest.after_merge()) == text
    assert (manifest.after_merge().kind, manifest.after_merge().parent) == ("full", None)
