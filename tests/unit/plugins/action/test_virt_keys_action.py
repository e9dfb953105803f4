# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Both halves of virt_keys together, on hosts that are folders; only Ansible between the two is left out."""

from __future__ import annotations

import datetime
import errno
import itertools
import json
import os
import shutil
import subprocess
import typing as t
from dataclasses import dataclass, field
from pathlib import Path

import jinja2
import pytest
import yaml

from ansible_collections.brine.virt.plugins.action.virt_keys import (
    ActionModule,
    CertificateTask,
    check_options,
    read_timestamp,
)
from ansible_collections.brine.virt.plugins.module_utils._base.errors import (
    ConflictError,
    HostError,
    InputError,
    VirtError,
)
from ansible_collections.brine.virt.plugins.module_utils._tls import certificates as certs
from ansible_collections.brine.virt.plugins.module_utils._tls import install, reload
from ansible_collections.brine.virt.plugins.modules import virt_keys
from ansible_collections.brine.virt.tests.unit.roles.ansible_runs import run_ansible

pytestmark = pytest.mark.medium

DEFAULTS = {name: option.get("default") for name, option in virt_keys.ARGUMENTS.items()}
KEYS = (
    "etc/pki/libvirt/private/serverkey.pem",
    "etc/pki/libvirt/private/clientkey.pem",
    "etc/pki/qemu/server-key.pem",
    "etc/pki/qemu/client-key.pem",
)
CERTIFICATES = (
    "etc/pki/libvirt/servercert.pem",
    "etc/pki/libvirt/clientcert.pem",
    "etc/pki/qemu/server-cert.pem",
    "etc/pki/qemu/client-cert.pem",
)
SLOTS = ["libvirt_server", "libvirt_client", "qemu_server", "qemu_client"]


@dataclass
class Cloud:
    """Hosts, each a folder, and a controller with its authority."""

    place: Path
    inventory: dict[str, list[str]] = field(default_factory=lambda: {"hv1": ["hv1", "192.0.2.1"], "hv2": ["hv2"]})
    # All that has been said between controller and hosts.
    said: list[str] = field(default_factory=list)
    warned: list[str] = field(default_factory=list)
    # The visits after which a run is killed.
    killed_after: int = 99
    # What a host says instead of the truth.
    lie: dict[str, t.Any] = field(default_factory=dict)

    def keep(self, host: str = "hv1", *, check_mode: bool = False, **options: t.Any) -> dict[str, t.Any]:
        visits = itertools.count()

        def visit(args: dict[str, t.Any]) -> dict[str, t.Any]:
            self.said.append(json.dumps(args))
            if next(visits) >= self.killed_after:
                raise KeyboardInterrupt
            asked = {**DEFAULTS, **json.loads(json.dumps(args))}
            root = str(self.root(host))
            mark = str(self.place / f"{host}.mark")
            answer = virt_keys.keep_keys(
                asked, check_mode=check_mode, root=root, reload_mark=mark, warn=self.warned.append
            )
            answer.update(self.lie if "certificates" not in asked["exchange"] else {})
            self.said.append(json.dumps(answer))
            return answer

        spec = {**DEFAULTS, "name": host, "own_names": False, "authority": str(self.place / "authority"), **options}
        check_options(spec)
        keys = CertificateTask(spec, inventory={**self.inventory, "": [host]}, visit=visit, check_mode=check_mode)
        result = keys.keep()
        self.said.append(json.dumps(result))
        return result

    def root(self, host: str) -> Path:
        return self.place / host

    def read(self, path: str, host: str = "hv1") -> str:
        return (self.root(host) / path).read_text(encoding="ascii")

    def all(self, host: str = "hv1") -> dict[str, str]:
        """All files of a host."""
        root = self.root(host)
        paths = sorted(path for path in root.rglob("*") if path.is_file())
        return {str(path.relative_to(root)): path.read_text(encoding="ascii") for path in paths}


@pytest.fixture
def cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cloud:
    # Nothing here is to reload a daemon of this machine.
    monkeypatch.setattr("ansible_collections.brine.virt.plugins.module_utils._tls.reload._DAEMONS", ())
    return Cloud(tmp_path)


def verify(cloud: Cloud, host: str = "hv1") -> None:
    """All keys and certificates of a host, as openssl judges them."""
    for key, certificate in zip(KEYS, CERTIFICATES, strict=True):
        path = cloud.root(host) / key
        assert path.stat().st_mode & 0o7777 == 0o600
        root = cloud.root(host) / ("etc/pki/qemu/ca-cert.pem" if "qemu" in key else "etc/pki/CA/cacert.pem")
        purpose = "sslserver" if "server" in key else "sslclient"
        leaf = cloud.root(host) / certificate
        for command in (
            ["openssl", "verify", "-CAfile", root, "-purpose", purpose, "-verify_hostname", host, leaf],
            ["openssl", "pkey", "-in", path, "-check", "-noout"],
        ):
            subprocess.run([str(word) for word in command], check=True, capture_output=True)
        public = subprocess.run(["openssl", "pkey", "-in", path, "-pubout"], check=True, capture_output=True).stdout
        shown = ["openssl", "x509", "-in", str(leaf), "-noout", "-pubkey"]
        assert public == subprocess.run(shown, check=True, capture_output=True).stdout


def test_check_run_check_run(cloud: Cloud) -> None:
    checked = cloud.keep(check_mode=True)
    assert cloud.all() == {} and not (cloud.place / "authority").exists()
    first = cloud.keep()
    assert checked["changed"] is first["changed"] is True
    assert [one["kind"] for one in first["certificates"]] == SLOTS
    assert all(one["reasons"] == ["there is none"] for one in checked["certificates"])
    assert all(one["reasons"] == [] for one in first["certificates"])
    assert [one["subject"] for one in first["certificates"]] == [
        *["O=brine.virt,OU=hypervisor,CN=hv1"] * 2,
        *["O=brine.virt,OU=migration,CN=hv1"] * 2,
    ]
    assert first["issuers"] == first["trusts"] == [first["authority"]["fingerprint"]]
    verify(cloud)
    before = cloud.all()
    assert len(before) == 10
    for check_mode in (True, False):
        again = cloud.keep(check_mode=check_mode)
        assert (again["changed"], again["actions"], lasting(again)) == (False, [], lasting(first))
    assert cloud.all() == before


def lasting(result: dict[str, t.Any]) -> list[dict[str, t.Any]]:
    """The certificates of a result, without what changes as time goes by."""
    return [{key: value for key, value in one.items() if key != "days_left"} for one in result["certificates"]]


def test_no_secret_is_ever_said(cloud: Cloud) -> None:
    cloud.keep(authority_passphrase="a secret word")
    cloud.keep(authority_passphrase="a secret word", names=["more.example"])
    said = "\n".join(cloud.said)
    assert "a secret word" not in said and "PRIVATE KEY" not in said
    texts = [cloud.read(path) for path in KEYS] + [p.read_text() for p in (cloud.place / "authority").glob("*.key")]
    lines = {line for text in texts for line in text.splitlines() if not line.startswith("-")}
    assert len(lines) > 10
    assert not [line for line in lines if line in said]


def names(result: dict[str, t.Any], kind: str = "libvirt_server") -> list[str]:
    return next(list(one["names"]) for one in result["certificates"] if one["kind"] == kind)


def test_a_name_more_renews_and_a_name_less_does_not(cloud: Cloud) -> None:
    cloud.keep()
    keys = [cloud.read(path) for path in KEYS]
    more = cloud.keep(names=["Mig.Example", "2001:DB8::7"])
    assert names(more) == ["2001:db8::7", "hv1", "mig.example"]
    assert "lacks 2001:db8::7, mig.example" in more["actions"][0]
    assert all(old != cloud.read(path) for old, path in zip(keys, KEYS, strict=True))
    less = cloud.keep()
    assert not less["changed"] and names(less) == names(more)


def test_a_host_does_not_get_the_names_of_others(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        virt_keys, "own_names", lambda: ["hv1.example", "hv2", "198.51.100.9", "localhost", "127.0.1.1"]
    )
    assert names(cloud.keep(own_names=True)) == ["192.0.2.1", "198.51.100.9", "hv1", "hv1.example"]
    # Unless the user says so, as for an address that moves from host to host.
    cloud.inventory["hv2"] = ["hv2", "192.0.2.2"]
    assert "192.0.2.2" in names(cloud.keep(own_names=True, names=["192.0.2.2"]))


@pytest.mark.parametrize("name", ["hv2", "HV2", "two.example"])
def test_a_name_that_the_inventory_has_for_another_host_is_refused(cloud: Cloud, name: str) -> None:
    cloud.inventory["hv2"] = ["hv2", "two.example"]
    with pytest.raises(InputError) as caught:
        cloud.keep(names=["mig.example", name])
    assert str(caught.value) == (
        f"names[1]: {name} is hv2 in the inventory, and so no name for a certificate of hv1. Take it out of names (in "
        "the role virt_tls: virt_tls_names of hv1)"
    )
    assert cloud.all() == {}


def test_a_name_that_two_hosts_say_they_have_goes_to_none_of_them(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the full name of another host, or its address for migrations, which the inventory does not have."""
    monkeypatch.setattr(virt_keys, "own_names", lambda: ["hv2.example", "198.51.100.9"])
    peers = {host: cloud.keep(host, state="trusted", own_names=True) for host in ("hv1", "hv2")}
    assert peers["hv1"]["names"] == ["192.0.2.1", "198.51.100.9", "hv1", "hv2.example"]
    kept = cloud.keep(own_names=True, peers=peers)
    assert names(kept) == ["192.0.2.1", "hv1"]
    assert kept["warnings"] == [
        "hv1 and hv2 both say that they have the address 198.51.100.9, so the certificate of hv1 does not get it: if "
        "others reach one of them by it, give it to that one (names; in the role virt_tls: virt_tls_names)",
        "hv1 and hv2 both say that they are hv2.example, so the certificate of hv1 does not get this name: correct the "
        "host name of one of them, or give it to the one that it belongs to (names; in the role virt_tls: "
        "virt_tls_names)",
    ]
    assert not cloud.keep(own_names=True, peers=peers)["changed"]
    # The user says whose it is.
    given = ["hv2.example", "198.51.100.9"]
    assert set(given) < set(names(cloud.keep("hv2", own_names=True, peers=peers, names=given)))


def test_the_names_of_a_host_that_is_silent_are_its_own_all_the_same(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cannot say so itself; its certificate does."""
    cloud.keep("hv2", names=["hv2.example", "198.51.100.2"])
    monkeypatch.setattr(virt_keys, "own_names", lambda: ["hv2.example", "198.51.100.2", "198.51.100.1"])
    peers = {"hv1": cloud.keep(state="trusted", own_names=True), "hv2": None}
    kept = cloud.keep(own_names=True, peers=peers)
    assert names(kept) == ["192.0.2.1", "198.51.100.1", "hv1"]
    assert len(kept["warnings"]) == 2
    # One that answers, and has these names no longer, and one that is none of the cloud's.
    for peers_later in ({**peers, "hv2": {"names": ["hv2"]}}, {"hv1": peers["hv1"]}):
        assert "hv2.example" in names(cloud.keep("hv1", own_names=True, peers=peers_later, days=364))


@pytest.mark.parametrize("known", [["hv3.example"], ["hv3", "198.51.100.3"], ["hv3", "2001:DB8:0::3"]])
def test_a_host_does_not_join_while_another_could_pose_as_it(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch, known: list[str]
) -> None:
    """One that was taken over can have a certificate with the name of a host that nobody knows yet."""
    monkeypatch.setattr(virt_keys, "own_names", lambda: ["hv3.example", "198.51.100.3", "2001:db8::3"])
    claimed = cloud.keep(own_names=True)
    assert {"hv3.example", "198.51.100.3"} < set(names(claimed))
    monkeypatch.setattr(virt_keys, "own_names", lambda: [])
    host = known[0]
    cloud.inventory[host] = known
    serials = [one["serial"] for one in claimed["certificates"] if one["kind"].endswith("_server")]
    for check_mode in (True, False):
        with pytest.raises(ConflictError) as caught:
            cloud.keep(host, own_names=True, check_mode=check_mode)
        assert str(caught.value) == (
            f"{host} has no certificate yet, and {known[-1].replace(':0:', ':').lower()} stands in a valid one of hv1, "
            f"which could pose as {host} with it. Find out why. Then revoke: [{', '.join(sorted(serials))}] in revoked "
            "(in the role virt_tls: virt_tls_revoked); hv1 gets a new one without"
        )
    assert not any((cloud.root(host) / path).exists() for path in CERTIFICATES)
    # As the message says.
    without = cloud.keep(own_names=True, revoked=serials)
    assert without["changed"] and not set(names(without)) & {name.lower() for name in known}
    assert cloud.keep(host, own_names=True, revoked=serials)["changed"]
    assert not cloud.keep(host, own_names=True)["changed"]


def test_what_hosts_have_in_common_keeps_none_from_joining(cloud: Cloud) -> None:
    """One address, with a port for each; and a name for all, which the user gives."""
    cloud.inventory = {"hv1": ["hv1", "192.0.2.1"], "hv2": ["hv2", "192.0.2.1"]}
    for host in cloud.inventory:
        assert {"192.0.2.1", "cloud.example"} < set(names(cloud.keep(host, own_names=True, names=["cloud.example"])))


def test_a_host_that_has_a_certificate_keeps_it_whoever_has_one_with_its_name(cloud: Cloud) -> None:
    """Also under another name: it is not refused what it has already."""
    cloud.keep("hv1", names=["198.51.100.3"])
    cloud.keep("hv2")
    cloud.inventory["hv2"] = ["hv2", "198.51.100.3"]
    assert "198.51.100.3" in names(cloud.keep("hv2", own_names=True))
    assert cloud.keep("hv2", own_names=True, name="hv9")["changed"]


def test_nothing_is_signed_while_hosts_only_learn_whom_to_trust(cloud: Cloud) -> None:
    """Nobody knows yet which names the others have: the one that asks could have any of them."""
    cloud.lie = {"names": ["hv1", "hv2.example"], "requests": {"libvirt_server": make_request_of(cloud)}}
    with pytest.raises(ConflictError, match="hv1 asks for a certificate where it is to trust the authority alone"):
        cloud.keep(state="trusted", own_names=True)
    assert not list((cloud.place / "authority" / "issued").glob("*/*"))


def make_request_of(cloud: Cloud) -> str:
    key, request = cloud.place / "liar.key", cloud.place / "liar.csr"
    subprocess.run(
        ["openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=x"]
        + ["-keyout", str(key), "-out", str(request)],
        check=True,
        capture_output=True,
    )
    return request.read_text(encoding="ascii")


@pytest.mark.parametrize("answer", [None, {}, {"names": None}, {"names": 7}, {"names": [7, None]}, "no"])
def test_an_answer_of_another_host_that_is_none_takes_no_name_away(cloud: Cloud, answer: t.Any) -> None:
    assert names(cloud.keep(own_names=False, peers={"hv2": answer})) == ["hv1"]


@pytest.mark.parametrize(
    ("lie", "words"),
    [
        ({"names": ["*.example"]}, r"'\*.example' is neither"),
        # A certificate has no zone, and would be good for the address of another host.
        ({"names": ["2001:db8::2%eth0"]}, "'2001:db8::2%eth0' is neither"),
        ({"requests": {"client": "x"}}, "kind client, which is not in kinds"),
        ({"names": None}, "the answer of hv1 is not from virt_keys"),
        ({"names": ["hv1", 7]}, "the answer of hv1 is not from virt_keys"),
        ({"requests": {"libvirt_server": 7}}, "the answer of hv1 is not from virt_keys"),
        ({"requests": {"libvirt_authority": "x"}}, "the answer of hv1 is not from virt_keys"),
    ],
)
def test_a_host_that_asks_for_too_much_gets_nothing(cloud: Cloud, lie: dict[str, t.Any], words: str) -> None:
    cloud.lie = lie
    with pytest.raises(VirtError, match=words):
        cloud.keep()
    assert not list((cloud.place / "authority" / "issued").glob("*/*"))


@pytest.mark.parametrize("claimed", ["hv2", "HV2", "2001:db8::2", "2001:0DB8:0::2"])
def test_a_host_that_claims_the_name_of_another_does_not_get_it(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch, claimed: str
) -> None:
    monkeypatch.setattr(virt_keys, "own_names", lambda: [])
    cloud.inventory["hv2"] = ["hv2", "2001:db8::2"]
    cloud.lie = {"names": ["hv1", claimed]}
    assert names(cloud.keep(own_names=True)) == ["hv1"]


def test_a_host_whose_own_names_are_not_wanted_gets_none_of_them(cloud: Cloud) -> None:
    cloud.lie = {"names": ["hv1", "mig.example", "libvirt.example", "198.51.100.9"]}
    assert names(cloud.keep(own_names=False, names=["Mig.Example"])) == ["hv1", "mig.example"]


def test_the_names_of_hosts_that_a_limit_leaves_out_are_theirs_all_the_same() -> None:
    hostvars = {"hv1": {}, "hv2": {"ansible_host": "192.0.2.2"}, "db": {}}
    limited = {"hostvars": hostvars, "ansible_play_hosts_all": ["hv1"]}
    assert ActionModule._inventory("hv1", limited, {"hv1": {}, "hv2": None, "gone": None}) == {
        "": ["hv1"],
        "hv1": ["hv1"],
        "hv2": ["hv2", "192.0.2.2"],
    }


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "hv9"}, "it is for O=brine.virt,OU=hypervisor,CN=hv1"),
        ({"key_type": "rsa", "kinds": ["libvirt"]}, "not of the type rsa"),
        ({"days": 1000, "renew_before": 500}, "it expires in 36"),
    ],
)
def test_another_spec_renews_once(cloud: Cloud, changes: dict[str, t.Any], words: str) -> None:
    cloud.keep()
    changed = cloud.keep(**changes)
    assert changed["changed"] and any(words in line for line in changed["actions"])
    assert not cloud.keep(**changes)["changed"]


def test_what_is_damaged_is_made_good(cloud: Cloud) -> None:
    first = cloud.keep()
    serials = {one["kind"]: one["serial"] for one in first["certificates"]}
    root = cloud.root("hv1")
    (root / KEYS[0]).chmod(0o644)
    (root / KEYS[1]).unlink()
    (root / KEYS[2]).write_bytes((root / KEYS[3]).read_bytes())
    (root / CERTIFICATES[3]).write_text("nonsense")
    (root / "etc/pki/CA/cacert.pem").write_text("nonsense")
    checked = cloud.keep(check_mode=True)
    result = cloud.keep()
    assert [len(one["reasons"]) for one in checked["certificates"]] == [1, 1, 1, 1]
    for words in ("readable by others", "missing", "belongs to another certificate", "it cannot be read"):
        assert any(words in line for line in result["actions"])
    assert all(serials[one["kind"]] != one["serial"] for one in result["certificates"])
    # What nobody could read is kept, as it may have been of worth to somebody.
    assert len(result["kept"]) == 3 and all(os.path.exists(path) for path in result["kept"])
    verify(cloud)
    assert not cloud.keep()["changed"]


def test_what_qemu_could_not_read_or_others_could_change_is_made_good(cloud: Cloud) -> None:
    """As after a copy with another umask. An authority that somebody may add is one that opens the host."""
    serials = [one["serial"] for one in cloud.keep(revoked=["12345678"])["certificates"]]
    paths = [cloud.root("hv1") / f"etc/pki/qemu/{name}.pem" for name in ("ca-cert", "ca-crl", "server-cert")]
    for path, mode in zip(paths, (0o600, 0o666, 0o640), strict=True):
        path.chmod(mode)
    assert len(cloud.keep(check_mode=True)["actions"]) == 3
    result = cloud.keep()
    assert result["actions"] == [f"{path}: for all to read, and its owner alone to change" for path in paths]
    assert [one["serial"] for one in result["certificates"]] == serials
    assert {path.stat().st_mode & 0o777 for path in paths} == {0o644}
    # Fewer rights of the owner are somebody's wish, and no harm.
    paths[0].chmod(0o444)
    assert not cloud.keep()["changed"]


def test_two_runs_at_once_do_not_take_from_each_other_what_waits(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one begins with putting in place what it finds."""
    cloud.keep()
    finish = install.finish_installation
    monkeypatch.setattr(install, "finish_installation", lambda key_pair: [finish(key_pair), finish(key_pair)])
    assert cloud.keep(names=["more.example"])["changed"]
    verify(cloud)
    assert not cloud.keep(names=["more.example"])["changed"]


def test_what_cannot_be_replaced_is_a_sentence(cloud: Cloud) -> None:
    cloud.keep()
    key = cloud.root("hv1") / KEYS[0]
    key.unlink()
    key.mkdir()
    with pytest.raises(VirtError, match="serverkey.pem cannot be replaced: Is a directory"):
        cloud.keep()
    key.rmdir()
    assert cloud.keep()["changed"] and not cloud.keep()["changed"]


def test_a_client_certificate_tells_the_daemon_nothing(cloud: Cloud) -> None:
    """An earlier run may have left it to the next one; whoever connects from here may not be allowed to."""
    cloud.keep()
    mark = cloud.place / "hv1.mark"
    mark.touch()
    cloud.keep(kinds=["client"], name="alice", folder=str(cloud.place / "alice"))
    assert mark.exists()
    assert not cloud.keep(kinds=["client"], name="alice", folder=str(cloud.place / "alice"), check_mode=True)["changed"]
    cloud.keep()
    assert not mark.exists()


def test_whoever_has_a_certificate_of_another_cloud_is_told_to_take_another_folder(cloud: Cloud) -> None:
    """To replace what hosts have is no way for a client that connects to two clouds."""
    alice: dict[str, t.Any] = {"kinds": ["client"], "name": "alice", "folder": str(cloud.place / "alice")}
    cloud.keep(**alice)
    with pytest.raises(ConflictError, match="another folder .*virt_tls_client_folder") as caught:
        cloud.keep(**alice, authority=str(cloud.place / "other"))
    assert "replace_foreign" not in str(caught.value)


@pytest.mark.parametrize("visits", [0, 1])
def test_a_killed_run_is_finished(cloud: Cloud, visits: int) -> None:
    cloud.killed_after = visits
    with pytest.raises(KeyboardInterrupt):
        cloud.keep()
    waiting = {path: text for path, text in cloud.all().items() if path.endswith(".new")}
    assert len(waiting) == 4 * visits
    cloud.killed_after = 99
    assert cloud.keep()["changed"]
    verify(cloud)
    # The keys that waited are the keys now.
    assert all(cloud.read(path.removesuffix(".new")) == text for path, text in waiting.items())
    assert not [path for path in cloud.all() if path.endswith(".new")]


@pytest.mark.parametrize("moved", ["key", "certificate"])
def test_a_run_killed_between_two_files_is_finished_without_a_new_certificate(cloud: Cloud, moved: str) -> None:
    first = cloud.keep()
    root = cloud.root("hv1")
    for path in (CERTIFICATES[0], KEYS[0]) if moved == "certificate" else (CERTIFICATES[0],):
        (root / path).rename(root / f"{path}.new")
    checked = cloud.keep(check_mode=True)
    result = cloud.keep()
    said = [f"finished {root / CERTIFICATES[0]}"]
    assert checked["actions"] == result["actions"] == said
    assert result["changed"] and lasting(checked) == lasting(result) == lasting(first)
    assert not cloud.keep()["changed"]


def test_a_certificate_that_waits_without_its_key_goes(cloud: Cloud) -> None:
    cloud.keep()
    before = cloud.all()
    path = cloud.root("hv1") / f"{CERTIFICATES[0]}.new"
    for text in (cloud.read(CERTIFICATES[1]), "broken"):
        path.write_text(text, encoding="ascii")
        for check_mode in (True, False):
            assert cloud.keep(check_mode=check_mode)["actions"] == [f"removed {path}"]
        assert cloud.all() == before


def test_a_key_that_waits_for_nothing_goes(cloud: Cloud) -> None:
    cloud.keep()
    before = cloud.all()
    (cloud.root("hv1") / f"{KEYS[0]}.new").write_text(cloud.read(KEYS[1]))
    assert cloud.keep()["changed"]
    assert cloud.all() == before


def test_somebody_elses_certificates_stay(cloud: Cloud) -> None:
    cloud.keep()
    before = cloud.all()
    other: dict[str, t.Any] = {"authority": str(cloud.place / "other")}
    for check_mode in (True, False):
        with pytest.raises(
            ConflictError,
            match="servercert.pem was issued by O=brine.virt.* not one of this cloud's authorities.*virt_tls_authority",
        ):
            cloud.keep(check_mode=check_mode, **other)
    for path in CERTIFICATES:
        (cloud.root("hv1") / path).unlink()
    with pytest.raises(ConflictError, match="cacert.pem holds O=brine.virt"):
        cloud.keep(**other)
    for path in CERTIFICATES:
        (cloud.root("hv1") / path).write_text(before[path])
    assert cloud.all() == before
    replaced = cloud.keep(replace_foreign=True, **other)
    assert len(replaced["kept"]) == 10
    kept = {path.split(".pem")[0] + ".pem": text for path, text in cloud.all().items() if path.endswith(".old")}
    assert kept == before
    # The other authority is trusted on, and the next run has no need of the option.
    assert len(certs.read_certificates(cloud.read("etc/pki/CA/cacert.pem"), "test")) == 2
    assert not cloud.keep(**other)["changed"]
    answers = {"hv1": cloud.keep(state="trusted", **other)}
    assert cloud.keep(trust_old=False, peers=answers, **other)["changed"]
    assert len(certs.read_certificates(cloud.read("etc/pki/CA/cacert.pem"), "test")) == 1
    assert not cloud.keep(trust_old=False, peers=answers, **other)["changed"]
    assert not cloud.keep(trust_old=False, state="trusted", **other)["changed"]


def test_the_authority_changes_on_all_hosts(cloud: Cloud) -> None:
    new: dict[str, t.Any] = {"organization": "next"}
    hosts = ("hv1", "hv2")
    old = {host: cloud.keep(host) for host in hosts}
    hv1 = cloud.keep("hv1", state="trusted", **new)
    first = {"hv1": hv1, "hv2": None}
    assert hv1["changed"] and len(hv1["trusts"]) == 2
    # One host has not said that it trusts the new one: whatever is needed now is still from the old one.
    half = cloud.keep("hv1", peers=first, **new)
    assert half["issuers"] == old["hv1"]["issuers"]
    assert "hv2" in half["warnings"][0]
    both = {host: cloud.keep(host, state="trusted", **new) for host in hosts}
    done = {host: cloud.keep(host, peers=both, **new) for host in hosts}
    for host in hosts:
        assert done[host]["issuers"] == [done[host]["authority"]["fingerprint"]] != old[host]["issuers"]
        assert len(done[host]["trusts"]) == 2
        verify(cloud, host)
        assert not cloud.keep(host, state="trusted", **new)["changed"]
        assert not cloud.keep(host, peers=both, **new)["changed"]
    # The old one goes when no host has a certificate from it, as far as they have said.
    assert not cloud.keep("hv1", peers=both, trust_old=False, **new)["changed"]
    after = {host: cloud.keep(host, state="trusted", trust_old=False, **new) for host in hosts}
    for host in hosts:
        gone = cloud.keep(host, peers=after, trust_old=False, **new)
        assert gone["changed"] and gone["trusts"] == gone["issuers"]
        assert not cloud.keep(host, trust_old=False, state="trusted", **new)["changed"]
        assert not cloud.keep(host, trust_old=False, peers=after, **new)["changed"]
        verify(cloud, host)


def test_a_host_that_takes_no_part_is_not_waited_for(cloud: Cloud) -> None:
    new: dict[str, t.Any] = {"organization": "next"}
    old = {host: cloud.keep(host) for host in ("hv1", "hv2")}
    apart = {"hv1": cloud.keep("hv1", state="trusted", **new), "hv2": False}
    done = cloud.keep("hv1", peers=apart, **new)
    assert done["issuers"] == [done["authority"]["fingerprint"]] != old["hv1"]["issuers"]
    assert "warnings" not in done
    after = {"hv1": cloud.keep("hv1", state="trusted", **new), "hv2": False}
    assert len(cloud.keep("hv1", peers=after, trust_old=False, **new)["trusts"]) == 1
    # What was issued to it before stays its own.
    cloud.keep("hv2", names=["hv2-old.example.org"])
    cloud.lie = {"names": ["hv1", "hv2-old.example.org"]}
    got = cloud.keep("hv1", peers=after, names=["more.example.org"], own_names=True)["certificates"][0]
    assert "hv2-old.example.org" not in got["names"]


def test_what_is_revoked_stays_so_with_an_older_folder(cloud: Cloud) -> None:
    """As from a backup, or of another controller."""
    cloud.keep("hv1")
    cloud.keep("hv2")
    older: dict[str, t.Any] = {"authority": str(cloud.place / "older")}
    shutil.copytree(cloud.place / "authority", older["authority"])
    cloud.keep("hv1", revoked=["hv2"])
    before = cloud.all()
    assert cloud.warned == [] and not cloud.keep("hv1", **older)["changed"]
    # Others that have no list accept them: somebody has to know.
    assert len(cloud.warned) == 2 and "Until then a host that joins accepts them" in cloud.warned[0]
    with pytest.raises(ConflictError, match="does not list as revoked: ") as caught:
        cloud.keep("hv1", revoked=["12345678"], **older)
    assert cloud.all() == before
    # As the sentence says.
    serials = str(caught.value).partition("as revoked: ")[2].partition(". Is")[0].split(", ")
    assert len(serials) == 4
    assert cloud.keep("hv1", revoked=["12345678", *serials], **older)["changed"]
    assert [len(one) for one in certs.read_revocation_lists(cloud.read("etc/pki/CA/cacrl.pem"))] == [5]


def test_an_older_folder_learns_what_hosts_have(cloud: Cloud) -> None:
    """Or what was issued since would be accepted after its host is locked out, and nobody would know."""
    cloud.keep("hv1")
    shutil.copytree(cloud.place / "authority", cloud.place / "backup")
    now = {one["serial"] for one in cloud.keep("hv1", names=["more.example"])["certificates"]}
    cloud.keep("hv2")
    shutil.rmtree(cloud.place / "authority")
    shutil.move(cloud.place / "backup", cloud.place / "authority")
    notes = sorted((cloud.place / "authority/issued").rglob("*.pem"))
    for check_mode in (True, False):
        assert sorted((cloud.place / "authority/issued").rglob("*.pem")) == notes
        assert not cloud.keep("hv1", names=["more.example"], check_mode=check_mode)["changed"]
    # What no authority of the cloud has signed is none of its certificates, whatever a host says.
    strange = Company(cloud.place / "strange").certificate.read_text()
    cloud.lie = {"held": [strange, "nonsense", 7]}
    assert not cloud.keep("hv2", state="trusted")["changed"]
    cloud.lie = {}
    assert len(list((cloud.place / "authority/issued").rglob("*.pem"))) == 8
    cloud.keep("hv2", state="trusted", revoked=["hv1"])
    refused = {f"{serial:x}" for _issuer, serial in certs.revoked_in(cloud.read("etc/pki/CA/cacrl.pem", "hv2"))}
    assert now < refused and len(refused) == 8


def test_what_is_revoked_reaches_the_host(cloud: Cloud) -> None:
    cloud.keep("hv2")
    result = cloud.keep("hv1", revoked=["hv2"])
    assert any("cacrl.pem: 4 revoked" in line for line in result["actions"])
    assert cloud.read("etc/pki/CA/cacrl.pem") == cloud.read("etc/pki/qemu/ca-crl.pem")
    assert not cloud.keep("hv1", revoked=["hv2"])["changed"]
    # Somebody who is on the list gets no new certificate.
    (cloud.root("hv2") / CERTIFICATES[0]).unlink()
    with pytest.raises(ConflictError, match="hv2 is revoked"):
        cloud.keep("hv2", revoked=["hv2"])
    assert cloud.keep("hv2")["changed"]
    assert not cloud.keep("hv1")["changed"]


@dataclass
class Company:
    """An authority of somebody's own, which also signs by hand."""

    place: Path
    name: str = "Company"

    def __post_init__(self) -> None:
        self.place.mkdir(exist_ok=True)
        self.key = self.place / f"{self.name}.key"
        self.certificate = self.place / f"{self.name}.pem"
        self._run("req", "-x509", "-newkey", "rsa:3072", "-nodes", "-keyout", self.key, "-out", self.certificate,
                  "-subj", f"/CN={self.name}", "-days", "900", "-addext", "keyUsage=keyCertSign,cRLSign")  # fmt: skip
        (self.place / f"{self.name}.cnf").write_text(
            f"[ca]\ndefault_ca=x\n[x]\ndatabase={self.place}/{self.name}.db\ncertificate={self.certificate}\n"
            f"private_key={self.key}\ndefault_md=sha256\ndefault_crl_days=800\n"
        )

    @property
    def options(self) -> dict[str, t.Any]:
        return {"authority_certificate": str(self.certificate), "authority_key": str(self.key)}

    def revocations(self, serial: str) -> str:
        """Its list, with this certificate on it."""
        (self.place / f"{self.name}.db").write_text(f"R\t300101000000Z\t260101000000Z\t{serial}\tunknown\t/CN=bob\n")
        made = self.place / f"{self.name}.crl"
        self._run("ca", "-config", self.place / f"{self.name}.cnf", "-gencrl", "-out", made)
        return made.read_text(encoding="ascii")

    @staticmethod
    def _run(*words: t.Any) -> None:
        subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)


def revoked_by(text: str) -> dict[str, set[int]]:
    return {
        certs.as_text(one.issuer): {entry.serial_number for entry in one} for one in certs.read_revocation_lists(text)
    }


PLACES = (("etc/pki/CA/cacert.pem", "etc/pki/CA/cacrl.pem"), ("etc/pki/qemu/ca-cert.pem", "etc/pki/qemu/ca-crl.pem"))


@pytest.mark.parametrize(("cas", "lists"), PLACES)
def test_the_revocation_list_of_another_trusted_authority_stays(cloud: Cloud, cas: str, lists: str) -> None:
    cloud.keep("hv2")
    cloud.keep("hv1")
    company = Company(cloud.place / "company")
    with (cloud.root("hv1") / cas).open("a") as file:
        file.write(company.certificate.read_text(encoding="ascii"))
    (cloud.root("hv1") / lists).write_text(company.revocations("77777777"))
    assert cloud.keep("hv1", revoked=["hv2"])["kept"] == []
    found = revoked_by(cloud.read(lists))
    assert len(found) == 2 and found["CN=Company"] == {0x77777777}
    assert not cloud.keep("hv1", revoked=["hv2"])["changed"]
    # Also while the cloud's own list grows, and when the host goes.
    cloud.keep("hv1", revoked=["abcdef12"])
    assert revoked_by(cloud.read(lists))["CN=Company"] == {0x77777777}
    assert not cloud.keep("hv1")["changed"]
    cloud.keep("hv1", state="absent")
    assert revoked_by(cloud.read(lists)) == {"CN=Company": {0x77777777}}


@pytest.mark.parametrize("damage", ["same name", "broken"])
def test_a_list_that_cannot_stay_is_kept_beside(cloud: Cloud, damage: str) -> None:
    """A list under the name of a known authority and not by it, or one that cannot be read."""
    one, other = Company(cloud.place / "one"), Company(cloud.place / "other")
    cloud.keep(**one.options)
    text = other.revocations("77777777")
    text = text if damage == "same name" else text[:100] + "!" + text[101:]
    (cloud.root("hv1") / PLACES[0][1]).write_text(text)
    result = cloud.keep(revoked=["abcdef12"], **one.options)
    assert [Path(path).read_text(encoding="ascii") for path in result["kept"]] == [text]
    assert revoked_by(cloud.read(PLACES[0][1])) == {"CN=Company": {0xABCDEF12}}


def test_a_serial_number_that_is_not_noted_is_revoked_of_all_trusted_authorities(cloud: Cloud) -> None:
    old, new = Company(cloud.place / "company", "Old"), Company(cloud.place / "company", "New")
    cloud.keep(**old.options)
    cloud.keep(**new.options)
    before = {path: path.read_bytes() for path in (cloud.place / "authority").rglob("*") if path.is_file()}
    with pytest.raises(InputError, match=r"the key of CN=Old, which hosts trust, is not here.* 1234567890ab") as caught:
        cloud.keep(revoked=["1234567890ab"], **new.options)
    assert {path: path.read_bytes() for path in (cloud.place / "authority").rglob("*") if path.is_file()} == before
    # As the sentence says.
    key = Path(str(caught.value).partition("Copy its key to ")[2].partition(" ")[0])
    shutil.copy(old.key, key)
    key.chmod(0o600)
    cloud.keep(revoked=["1234567890ab"], **new.options)
    assert revoked_by(cloud.read(PLACES[0][1])) == {"CN=Old": {0x1234567890AB}, "CN=New": {0x1234567890AB}}
    # Once it is on the list, the key may go again.
    key.unlink()
    assert not cloud.keep(revoked=["1234567890ab"], **new.options)["changed"]


def test_an_authority_that_is_to_go_keeps_no_serial_number_from_being_revoked(cloud: Cloud) -> None:
    """The other thing that the sentence advises."""
    old, new = Company(cloud.place / "company", "Old"), Company(cloud.place / "company", "New")
    cloud.keep(**old.options)
    last: dict[str, t.Any] = {"revoked": ["1234567890ab"], "trust_old": False, **new.options}
    for _run in range(3):
        answers = {"hv1": cloud.keep(state="trusted", **last)}
        cloud.keep(peers=answers, **last)
    trusted = certs.read_certificates(cloud.read(PLACES[0][0]), "test")
    assert [certs.subject(one) for one in trusted] == ["CN=New"]
    assert revoked_by(cloud.read(PLACES[0][1])) == {"CN=New": {0x1234567890AB}}


def test_who_has_certificates_of_an_authority_that_went_can_be_locked_out(cloud: Cloud) -> None:
    """Its key is elsewhere, and nobody needs it. As long as a host trusts it, somebody has to know."""
    old, new = Company(cloud.place / "company", "Old"), Company(cloud.place / "company", "New")
    owned = {host: cloud.keep(host, **old.options)["certificates"] for host in ("hv1", "hv2")}
    last: dict[str, t.Any] = {"trust_old": False, **new.options}
    lock: dict[str, t.Any] = {"revoked": ["hv2"], **last}
    with pytest.raises(InputError, match="the key of CN=Old, which hosts trust, is not here"):
        cloud.keep(state="trusted", revoked=["hv2"], **new.options)
    serial = owned["hv2"][0]["serial"].upper()
    for entry in ("hv2", f"0x{serial}", ":".join(serial[at : at + 4] for at in range(0, len(serial), 4))):
        early = cloud.keep(state="trusted", **{**lock, "revoked": [entry]})["warnings"]
        assert [text for text in early if "accepted" in text] == [
            "hv1: certificates of hv2 are accepted as long as CN=Old is trusted, whose key is not here to revoke them. "
            "It goes when all hosts have certificates of the new one"
        ]
    for _run in range(3):
        answers = {host: cloud.keep(host, state="trusted", **last) for host in ("hv1", "hv2")}
        for host in answers:
            cloud.keep(host, peers=answers, **last)
    done = cloud.keep(state="trusted", **lock)
    assert "warnings" not in done
    assert {name: len(serials) for name, serials in revoked_by(cloud.read(PLACES[0][1])).items()} == {"CN=New": 4}


@pytest.mark.parametrize("last", ["new", "old"])
def test_an_own_authority_that_is_renewed_under_its_name_keeps_what_was_revoked(cloud: Cloud, last: str) -> None:
    """GnuTLS heeds one list of a name alone, the newest."""
    old, new = Company(cloud.place / "old"), Company(cloud.place / "new")
    serials = {}
    for host, company in (("hv2", old), ("hv3", new)):
        serials[host] = {int(one["serial"], 16) for one in cloud.keep(host, **company.options)["certificates"]}
    if last == "old":
        # Both have a list of their own, as they had before there was one for a name, and the old one's is the newer.
        cloud.keep("hv3", revoked=["hv3"], **new.options)
        new_list = next((cloud.place / "authority").glob("*.crl"))
        hidden = new_list.rename(cloud.place / "hidden")
        cloud.keep("hv2", revoked=["hv2"], **old.options)
        hidden.rename(new_list)
    else:
        cloud.keep("hv1", revoked=["hv2"], **old.options)
    for _again in range(2):
        cloud.keep("hv1", revoked=["hv3", "hv2"], **new.options)
        assert cloud.read(PLACES[0][1]).count("BEGIN X509 CRL") == 1
        assert revoked_by(cloud.read(PLACES[0][1])) == {"CN=Company": serials["hv2"] | serials["hv3"]}
    assert not cloud.keep("hv1", **new.options)["changed"]
    # The former one's key is not needed for it.
    assert not list((cloud.place / "authority").glob("*.key"))


def test_a_host_that_joins_changes_nothing_on_the_others(cloud: Cloud) -> None:
    """The playbook's two tasks, as roles/virt_tls calls them, on two hosts and then on three."""

    def play(*hosts: str) -> dict[str, bool]:
        trusted = {host: cloud.keep(host, state="trusted") for host in hosts}
        issued = {host: cloud.keep(host, peers=trusted) for host in hosts}
        return {host: trusted[host]["changed"] or issued[host]["changed"] for host in hosts}

    assert play("hv1", "hv2") == {"hv1": True, "hv2": True}
    before = {host: cloud.all(host) for host in ("hv1", "hv2")}
    cloud.inventory["hv3"] = ["hv3", "192.0.2.3"]
    assert play("hv1", "hv2", "hv3") == {"hv1": False, "hv2": False, "hv3": True}
    assert {host: cloud.all(host) for host in before} == before
    assert not (cloud.place / "hv1.mark").exists()
    verify(cloud, "hv3")


def test_a_revoked_host_that_comes_back_gets_new_certificates(cloud: Cloud) -> None:
    cloud.keep("hv2")
    old = cloud.all("hv2")
    cloud.keep("hv1", revoked=["hv2"])
    # While it is locked out, what it has stays as it is.
    assert [one["reasons"] for one in cloud.keep("hv2", revoked=["hv2"])["certificates"]] == [[]] * 4
    ahead = cloud.keep("hv2", check_mode=True)
    assert [one["reasons"] for one in ahead["certificates"]] == [["it was revoked"]] * 4
    assert cloud.keep("hv2")["changed"]
    assert all(cloud.read(path, "hv2") != old[path] for path in CERTIFICATES)
    verify(cloud, "hv2")
    assert not cloud.keep("hv2")["changed"]


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Whose connections a daemon was told to end, each time that it was told to read its certificates."""
    found: list[list[str]] = []

    def reload_daemon(path: str, locked_out: t.Collection[str] = ()) -> reload.Reload:
        found.append(sorted(locked_out))
        os.unlink(path)
        return reload.Reload("libvirtd")

    monkeypatch.setattr(reload, "reload_daemon", reload_daemon)
    return found


def test_a_host_that_was_silent_ends_connections_of_who_was_locked_out_meanwhile(
    cloud: Cloud, ended: list[list[str]]
) -> None:
    for host in ("hv1", "hv2", "hv3", "hv4"):
        cloud.keep(host)
    cloud.keep("hv1", state="trusted", revoked=["hv3", "hv4"])
    # One that comes back has a certificate again, and is let in.
    cloud.keep("hv4")
    ended.clear()
    cloud.keep("hv2", state="trusted")
    assert ended == [["hv3"]]
    cloud.keep("hv2", state="trusted")
    assert ended == [["hv3"]]


@pytest.mark.parametrize("damage", ["key", "expired"])
def test_a_host_without_a_usable_certificate_ends_connections_and_says_that_it_cannot_refuse_new_ones(
    cloud: Cloud, ended: list[list[str]], monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    """libvirt reads the list together with the host's own certificate, or not at all."""
    calls: list[list[str]] = []

    def end_connections(locked_out: t.Collection[str]) -> reload.Reload:
        calls.append(sorted(locked_out))
        return reload.Reload("libvirtd", ("hv3",))

    monkeypatch.setattr(reload, "is_serving", lambda: True)
    monkeypatch.setattr(reload, "end_connections", end_connections)
    cloud.keep("hv1", days=40, renew_before=1)
    cloud.keep("hv3")
    ended.clear()
    if damage == "key":
        key = certs.key_as_pem(certs.make_key("ecdsa"))
        (cloud.root("hv1") / KEYS[0]).write_bytes(key)
    else:
        later = certs.now() + datetime.timedelta(days=50)
        monkeypatch.setattr(certs, "now", lambda: later)
    revoked: dict[str, t.Any] = {"state": "trusted", "revoked": ["hv3"]}
    ahead = cloud.keep("hv1", check_mode=True, **revoked)
    assert ahead["changed"] and ahead["unread"] and calls == []
    first = cloud.keep("hv1", **revoked)
    assert first["unread"] and not first["reloaded"] and first["actions"][-1] == "ended the connections of hv3"
    again = cloud.keep("hv1", check_mode=True, **revoked)
    assert again["unread"] and not again["changed"]
    assert calls == [["hv3"]] and ended == []
    # What renews its certificate has the list read as well.
    last = cloud.keep("hv1")
    assert last["reloaded"] and not last["unread"] and ended == [["hv3"]]


def test_a_daemon_that_does_not_answer_keeps_no_certificate_from_being_renewed(
    cloud: Cloud, ended: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def end_connections(_locked_out: t.Collection[str]) -> t.NoReturn:
        raise HostError("libvirtd does not say who is connected")

    monkeypatch.setattr(reload, "is_serving", lambda: True)
    monkeypatch.setattr(reload, "end_connections", end_connections)
    cloud.keep("hv1")
    cloud.keep("hv3")
    (cloud.root("hv1") / KEYS[0]).unlink()
    assert cloud.keep("hv1", state="trusted", revoked=["hv3"])["unread"]
    assert cloud.keep("hv1", revoked=["hv3"])["reloaded"] and ended[-1] == ["hv3"]


def test_who_has_another_certificate_than_a_revoked_one_keeps_its_connections(
    cloud: Cloud, ended: list[list[str]]
) -> None:
    cloud.keep("hv1")
    serials = [one["serial"] for one in cloud.keep("hv2")["certificates"]]
    ended.clear()
    cloud.keep("hv1", state="trusted", revoked=serials[:3])
    cloud.keep("hv1", state="trusted", revoked=serials)
    assert ended == [sorted(serials[:3]), sorted(["hv2", *serials])]


def test_a_name_without_certificates_is_passed_over_only_on_request(cloud: Cloud) -> None:
    cloud.keep("hv1")
    with pytest.raises(VirtError, match="no certificate was issued to hv9"):
        cloud.keep("hv1", revoked=["hv9"])
    passed_over = cloud.keep("hv1", revoked=["hv9", "12345678"], ignore_unissued=True)
    assert passed_over["unissued"] == ["hv9"]
    assert cloud.keep("hv1", revoked=["hv9", "hv1"], ignore_unissued=True)["unissued"] == ["hv9"]
    assert cloud.keep("hv1")["unissued"] == []


def test_check_remove_remove(cloud: Cloud) -> None:
    cloud.keep("hv2")
    cloud.keep("hv1", revoked=["hv2"])
    (cloud.root("hv1") / f"{KEYS[0]}.new").write_text("", encoding="ascii")
    before, authority = cloud.all(), sorted(path.name for path in (cloud.place / "authority").rglob("*"))
    ahead = cloud.keep("hv1", state="absent", check_mode=True)
    assert cloud.all() == before
    done = cloud.keep("hv1", state="absent")
    assert done["actions"] == ahead["actions"] == [line.strip() for line in done["diff"]["after"].splitlines()]
    assert (done["changed"], done["left"], len(done["actions"])) == (True, [], 13)
    assert cloud.all() == {}
    again = cloud.keep("hv1", state="absent")
    assert (again["changed"], again["actions"], again["left"]) == (False, [], [])
    assert sorted(path.name for path in (cloud.place / "authority").rglob("*")) == authority
    # And it may join again.
    assert cloud.keep("hv1")["changed"]
    verify(cloud)


def test_removing_makes_no_authority(cloud: Cloud) -> None:
    assert not cloud.keep("hv1", state="absent")["changed"]
    assert not (cloud.place / "authority").exists()


def test_somebody_elses_files_stay_when_a_host_goes(cloud: Cloud) -> None:
    elsewhere: dict[str, t.Any] = {"authority": str(cloud.place / "elsewhere")}
    cloud.keep("hv1", kinds=["libvirt"], **elsewhere)
    cloud.keep("hv1", kinds=["libvirt"], revoked=["hv1"], state="trusted", **elsewhere)
    foreign = cloud.all()
    cloud.keep("hv1", kinds=["qemu"])
    # A host that trusts both, as after replace_foreign.
    both = cloud.root("hv1") / "etc/pki/qemu/ca-cert.pem"
    both.write_text(both.read_text() + foreign["etc/pki/CA/cacert.pem"])
    lists = cloud.root("hv1") / "etc/pki/qemu/ca-crl.pem"
    lists.write_text(foreign["etc/pki/CA/cacrl.pem"])
    (cloud.root("hv1") / CERTIFICATES[2]).write_text("nonsense")
    (cloud.root("hv1") / CERTIFICATES[3]).unlink()
    keys = {path: cloud.read(path) for path in KEYS[2:]}
    done = cloud.keep("hv1", state="absent")
    assert cloud.all() == {
        **foreign,
        **keys,
        CERTIFICATES[2]: "nonsense",
        "etc/pki/qemu/ca-cert.pem": foreign["etc/pki/CA/cacert.pem"],
        "etc/pki/qemu/ca-crl.pem": foreign["etc/pki/CA/cacrl.pem"],
    }
    assert len(done["left"]) == 8
    for words in (
        "servercert.pem: issued by O=brine.virt,OU=authority ",
        "server-cert.pem: cannot be read",
        "client-key.pem: a key without a certificate, so it is not known whose it is",
        "ca-cert.pem: O=brine.virt,OU=authority ",
        "cacrl.pem: of O=brine.virt,OU=authority ",
    ):
        assert any(words in line for line in done["left"]), (words, done["left"])


@pytest.mark.parametrize("files", range(10))
def test_a_removal_that_was_killed_is_finished(cloud: Cloud, monkeypatch: pytest.MonkeyPatch, files: int) -> None:
    cloud.keep("hv1")
    removed = itertools.count()
    unlink = os.unlink

    def killed(path: str) -> None:
        if next(removed) >= files:
            raise KeyboardInterrupt
        unlink(path)

    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", killed)
        with pytest.raises(KeyboardInterrupt):
            cloud.keep("hv1", state="absent")
    assert len(cloud.all()) == 10 - files
    assert cloud.keep("hv1", state="absent")["left"] == []
    assert cloud.all() == {}


def test_a_client_certificate_has_its_own_name_only(cloud: Cloud, tmp_path: Path) -> None:
    options: dict[str, t.Any] = {
        "kinds": ["client"],
        "name": "Alice",
        "folder": str(tmp_path / "alice"),
        "own_names": True,
    }
    result = cloud.keep("hv1", **options)
    (one,) = result["certificates"]
    assert (one["kind"], one["subject"], one["names"]) == ("client", "O=brine.virt,OU=operator,CN=Alice", ["alice"])
    assert sorted(path.name for path in (tmp_path / "alice").iterdir()) == [
        "cacert.pem",
        "clientcert.pem",
        "clientkey.pem",
    ]
    assert (tmp_path / "alice" / "clientkey.pem").stat().st_mode & 0o7777 == 0o600
    assert not cloud.keep("hv1", **options)["changed"]
    # A name need not be one that a host could have.
    assert cloud.keep("hv1", **{**options, "name": "alice@laptop"})["certificates"][0]["names"] == []


@pytest.mark.parametrize(
    ("options", "where"),
    [
        ({"name": None}, "name"),
        ({"name": "x" * 65}, "name"),
        ({"renew_before": 365}, "renew_before"),
        ({"renew_before": 0}, "renew_before"),
        ({"days": 36501}, "days"),
        ({"authority_days": 2**40}, "authority_days"),
        ({"kinds": []}, "kinds"),
        ({"names": ["not a name"]}, "names[0]"),
        ({"names": ["ok", "127.0.0.1"]}, "names[1]"),
        ({"revoked": ["nobody"]}, "revoked[0]"),
        ({"qemu_user": "no-such-user"}, "qemu_user"),
    ],
)
def test_an_impossible_spec_is_refused_before_anything_is_changed(
    cloud: Cloud, options: dict[str, t.Any], where: str
) -> None:
    with pytest.raises(VirtError) as caught:
        cloud.keep(**options)
    assert caught.value.where == where
    assert cloud.all() == {}


@pytest.mark.parametrize(
    "name", ["Example, Inc.", "R+D", 'The "A"', "a\\b", "A*", "A?", "<A>", "#1", "A ", "", "a" * 65]
)
def test_an_organization_that_would_lock_everybody_out_is_refused(cloud: Cloud, name: str) -> None:
    with pytest.raises(InputError, match="^organization: .* virt_tls_organization"):
        cloud.keep(organization=name)
    assert cloud.all() == {} and not (cloud.place / "authority").exists()


@pytest.mark.parametrize("name", ["brine.virt", "Müller AG", "A&B (Köln) = 'C' #1/2", "株式会社"])
def test_libvirts_list_holds_the_name_that_gnutls_reads(cloud: Cloud, name: str) -> None:
    """Neither of the two knows an escape that the other one writes."""
    cloud.keep(organization=name)
    shown = ["openssl", "x509", "-in", str(cloud.root("hv1") / CERTIFICATES[0]), "-noout", "-subject"]
    shown += ["-nameopt", "sep_comma_plus,utf8,esc_2253"]
    subject = subprocess.run(shown, check=True, capture_output=True, text=True).stdout.strip().partition("=")[2]
    role = Path(__file__).resolve().parents[4] / "roles/virt_tls"
    default = yaml.safe_load((role / "defaults/main.yml").read_text())["virt_tls_allowed_names"]
    block = yaml.safe_load((role / "vars/main.yml").read_text())["__virt_tls_allowed_block"]
    names = [jinja2.Template(one).render(virt_tls_organization=name) for one in default]
    line = jinja2.Template(block).render(virt_tls_allowed_names=names)
    assert f'"{subject.replace("CN=hv1", "CN=*")}"' in line, (subject, line)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> t.Callable[[datetime.timedelta], None]:
    """Sets the clock of all hosts, not the controller's, this much ahead."""
    real, visit = certs.now, virt_keys.keep_keys

    def put(ahead: datetime.timedelta) -> None:
        def keep_keys(*args: t.Any, **kwargs: t.Any) -> dict[str, t.Any]:
            with monkeypatch.context() as patch:
                patch.setattr(certs, "now", lambda: real() + ahead)
                return visit(*args, **kwargs)

        monkeypatch.setattr(virt_keys, "keep_keys", keep_keys)

    return put


@pytest.mark.parametrize(
    ("hours", "words"),
    [(400 * 24, "hv1 is 400 days ahead of"), (2, "hv1 is 2.0 hours ahead of"), (-30, "hv1 is 30.0 hours behind the")],
)
def test_nothing_is_changed_where_the_clock_is_wrong(
    cloud: Cloud, clock: t.Callable[[datetime.timedelta], None], hours: int, words: str
) -> None:
    cloud.keep()
    before = cloud.all()
    (cloud.root("hv1") / CERTIFICATES[0]).unlink()
    clock(datetime.timedelta(hours=hours))
    for options in ({}, {"state": "trusted", "revoked": ["abcdef12"]}, {"check_mode": True}):
        with pytest.raises(ConflictError, match=words):
            cloud.keep(**options)
    assert cloud.all() == {path: text for path, text in before.items() if path != CERTIFICATES[0]}
    assert len(list((cloud.place / "authority/issued").rglob("*.pem"))) == 4
    # What it has can be removed all the same, and less than an hour does not matter.
    clock(datetime.timedelta(hours=hours) / abs(hours) * 0.9)
    assert [one["reasons"] for one in cloud.keep()["certificates"]] == [[]] * 4
    clock(datetime.timedelta(hours=hours))
    assert cloud.keep(state="absent")["changed"]


def test_certificates_of_a_time_when_both_clocks_were_wrong_are_renewed(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud.keep()
    with monkeypatch.context() as patch:
        real = certs.now
        patch.setattr(certs, "now", lambda: real() + datetime.timedelta(days=2))
        cloud.keep(names=["more.example.org"])
    checked = cloud.keep(names=["more.example.org"], check_mode=True)
    assert all("it is not valid before" in one["reasons"][0] for one in checked["certificates"])
    cloud.keep(names=["more.example.org"])
    verify(cloud)
    assert not cloud.keep(names=["more.example.org"])["changed"]


def test_an_authority_of_a_time_when_both_clocks_were_wrong_is_followed_by_request(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it signs is not valid yet, and no daemon starts with it."""
    ahead = certs.now() + datetime.timedelta(days=1000)
    with monkeypatch.context() as wrong:
        wrong.setattr(certs, "now", lambda: ahead)
        first = cloud.keep()
    with pytest.raises(
        InputError, match=r"^authority: .* is not valid before 20.* UTC, and it is 20.* here\. Set this "
    ):
        cloud.keep()
    since = "2026-01-01"
    answers = {"hv1": cloud.keep(state="trusted", authority_since=since)}
    result = cloud.keep(peers=answers, authority_since=since)
    assert result["trusts"] == [result["authority"]["fingerprint"]] != first["trusts"]
    verify(cloud)
    assert not cloud.keep(peers=answers, authority_since=since)["changed"]


def test_a_clock_that_is_behind_takes_the_authority_from_no_host(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    cloud.keep(authority_since="2026-01-01")
    before = cloud.read("etc/pki/CA/cacert.pem")
    behind = certs.now() - datetime.timedelta(days=1000)
    with monkeypatch.context() as wrong:
        wrong.setattr(certs, "now", lambda: behind)
        with pytest.raises(InputError, match="is not valid before"):
            cloud.keep()
    assert cloud.read("etc/pki/CA/cacert.pem") == before
    assert not cloud.keep()["changed"]


def test_a_moment_is_in_utc() -> None:
    assert read_timestamp("") is None
    assert str(read_timestamp("2027-01-31")) == "2027-01-31 00:00:00+00:00"
    assert str(read_timestamp("2027-01-31T12:00:00+01:00")) == "2027-01-31 12:00:00+01:00"
    with pytest.raises(InputError, match="soon is not a valid timestamp"):
        read_timestamp("soon")


@pytest.mark.slow
def test_ansible_says_one_sentence_once(tmp_path: Path) -> None:
    """It would append what is behind an error, such as the words of Python."""
    options = {"kinds": ["client"], "name": "alice", "authority": f"{tmp_path}/authority", "authority_since": "soon"}
    words = ["localhost", "-m", "brine.virt.virt_keys", "-a", json.dumps(options)]
    done = run_ansible(tmp_path, *words, program="adhoc")
    sentence = "authority_since: soon is not a valid timestamp. Write 2027-01-31 or 2027-01-31T12:00:00"
    assert f'"msg": "{sentence}"' in done.stdout, done.stdout


@pytest.mark.parametrize("options", [{"names": ["more.example"]}, {"revoked": ["hv1"]}])
def test_a_full_disk_of_the_controller_is_a_sentence(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch, options: dict[str, t.Any]
) -> None:
    cloud.keep()
    before = {path: text for path, text in cloud.all().items() if not path.endswith(".new")}

    def write_whole(*_args: t.Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("ansible_collections.brine.virt.plugins.plugin_utils._ca.store.write_whole", write_whole)
    with pytest.raises(VirtError, match="the authority in .* cannot be used: .*No space left on device"):
        cloud.keep(**options)
    assert {path: text for path, text in cloud.all().items() if not path.endswith(".new")} == before


def test_a_list_that_cannot_be_read_is_not_taken_for_an_empty_one(cloud: Cloud) -> None:
    cloud.keep("hv2")
    cloud.keep("hv1", revoked=["hv2"])
    (path,) = (cloud.place / "authority").glob("*.crl")
    path.write_text(path.read_text()[:200])
    for revoked in ([], ["hv2"]):
        with pytest.raises(InputError, match=r"\.crl cannot be read") as caught:
            cloud.keep("hv3", revoked=revoked)
        assert caught.value.where == "authority"


def test_the_answer_of_one_host_keeps_no_other_from_its_certificates(cloud: Cloud) -> None:
    cloud.keep("hv1")
    peers = {"hv1": {"trusts": [{}], "issuers": [[]]}, "hv2": "no", "hv3": None}
    assert cloud.keep("hv2", peers=peers, trust_old=False)["changed"]
