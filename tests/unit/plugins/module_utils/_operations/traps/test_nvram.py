# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine goes with its UEFI variables, unless they are another machine's too, or were there before it."""

from __future__ import annotations

import shutil
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base import files
from ansible_collections.brine.virt.plugins.module_utils._base.xml import parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt
from ansible_collections.brine.virt.plugins.module_utils._host.machines.undefine import remove_left_nvram, undefine
from ansible_collections.brine.virt.plugins.module_utils._host.storage import shared_pools
from ansible_collections.brine.virt.plugins.module_utils._operations.create.claims import (
    Claim,
    make_claims,
    withdraw_claims,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.storage import cleanup
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.purge.purge_host import (
    PurgeHost,
    decided,
)
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.traps.deletions import (
    SYSTEM,
    cut_off,
    fail_after,
    plan_and_run,
)
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.traps.users import (
    add_nvram,
    forget_disks,
)

pytestmark = pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")

VARIABLES = b"what the firmware remembers"


@pytest.fixture
def nvram(host: PurgeHost) -> Path:
    """Where libvirt puts them."""
    path = host.outside.parent / "qemu/nvram/web1_VARS.fd"
    path.parent.mkdir(parents=True)
    path.write_bytes(VARIABLES)
    return path


def purge(host: PurgeHost, path: Path) -> None:
    host.make()
    add_nvram(host, "web1", path)
    assert not host.purge()["failed"]


def roll_back(host: PurgeHost, path: Path) -> None:
    """The machine finds the file, and never starts."""
    os = f"<domain><os><loader readonly='yes' type='pflash'>/x.fd</loader><nvram>{path}</nvram></os></domain>"
    assert "caught fire" in fail_after(host, SYSTEM, lambda: None, xml=os)


def clear(host: PurgeHost, path: Path) -> None:
    cut_off(host, 2)
    add_nvram(host, "web1", path)
    assert "remove what an interrupted run left of web1" in plan_and_run(host, lambda: None, False)


def withdraw(host: PurgeHost, path: Path) -> None:
    claims = make_claims(host.conn, [Claim("web1", 128, 1)], {})
    add_nvram(host, "web1", path)
    assert withdraw_claims(host.conn, claims) == ["web1"]


def drop_left_over(host: PurgeHost, path: Path) -> None:
    """What a move of a machine that is off has defined on its target."""
    machine = host.guest("web1")
    add_nvram(host, "web1", path)
    cleanup._drop_left_over(host.conn, machine.UUIDString(), t.cast("t.Any", None))


NEVER_STARTED = (roll_back, clear, withdraw, drop_left_over)


def defined(host: PurgeHost, path: Path) -> str:
    host.guest("other")
    add_nvram(host, "other", path)
    return "machine other"


def running(host: PurgeHost, path: Path) -> str:
    defined(host, path)
    guest = host.conn.lookupByName("other")
    guest.create()
    forget_disks(host, guest)
    assert str(path) not in guest.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
    return "machine other"


def snapshot(host: PurgeHost, path: Path) -> str:
    defined(host, path)
    guest = host.conn.lookupByName("other")
    guest.snapshotCreateXML("<domainsnapshot><name>s1</name></domainsnapshot>", 0)
    forget_disks(host, guest)
    return "snapshot s1 of machine other"


@pytest.fixture
def left_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleanup, "is_left_over", lambda *_words: True)


@pytest.mark.usefixtures("left_over")
@pytest.mark.parametrize("remove", [purge, *NEVER_STARTED])
@pytest.mark.parametrize("use", [defined, running, snapshot])
def test_those_of_another_machine_stay(
    host: PurgeHost, nvram: Path, remove: t.Callable[[PurgeHost, Path], None], use: t.Callable[[PurgeHost, Path], str]
) -> None:
    """As of a machine that was copied by its XML."""
    use(host, nvram)
    remove(host, nvram)
    assert nvram.read_bytes() == VARIABLES
    assert "web1" not in host.names() or remove is clear


@pytest.mark.usefixtures("left_over")
@pytest.mark.parametrize("remove", NEVER_STARTED)
def test_those_that_were_there_before_a_machine_that_never_started_stay(
    host: PurgeHost, nvram: Path, remove: t.Callable[[PurgeHost, Path], None]
) -> None:
    """libvirt makes the file at the first start. Somebody has kept these when a machine of the name was undefined."""
    remove(host, nvram)
    assert nvram.read_bytes() == VARIABLES


def test_those_of_a_machine_that_has_moved_stay(host: PurgeHost, nvram: Path) -> None:
    """On storage that both hypervisors have, they are the ones of the machine that runs on the other."""
    host.guest("web1")
    add_nvram(host, "web1", nvram)
    undefine(host.conn, "web1", moved=True)
    assert nvram.read_bytes() == VARIABLES
    assert "web1" not in host.names()


def moved_away(host: PurgeHost, nvram: Path, name: str = "web1") -> None:
    """What is left to do here when it runs on another hypervisor."""
    host.guest(name)
    add_nvram(host, name, nvram)
    there = parse_xml(host.conn.lookupByName(name).XMLDesc())
    undefine(host.conn, name, moved=True)
    remove_left_nvram(host.conn, there)


def test_those_that_are_left_by_a_move_go(host: PurgeHost, nvram: Path) -> None:
    """A new machine of the name would start with the old one's boot entries and keys."""
    moved_away(host, nvram)
    assert not nvram.exists()
    moved_away(host, nvram)


@pytest.mark.parametrize("kind", ["nfs4", "fuse.glusterfs", ""])
def test_those_on_storage_that_other_hosts_may_have_stay(
    host: PurgeHost, nvram: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_pools, "file_system_type", lambda _path: kind)
    moved_away(host, nvram)
    assert nvram.read_bytes() == VARIABLES


def test_those_that_this_host_itself_exports_stay(
    host: PurgeHost, nvram: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may be the only ones of the machine that runs on the other hypervisor."""
    (tmp_path / "etab").write_text(f"{nvram.parent.parent}\t*(rw)\n")
    monkeypatch.setattr(files, "EXPORTS", str(tmp_path / "etab"))
    moved_away(host, nvram)
    assert nvram.read_bytes() == VARIABLES


@pytest.mark.parametrize("use", [defined, running, snapshot])
def test_those_that_another_machine_has_stay_after_a_move(
    host: PurgeHost, nvram: Path, use: t.Callable[[PurgeHost, Path], str]
) -> None:
    use(host, nvram)
    moved_away(host, nvram)
    assert nvram.read_bytes() == VARIABLES


def test_a_new_machine_of_the_name_keeps_its_own(host: PurgeHost, nvram: Path) -> None:
    """Somebody has made it as soon as the old one had moved."""
    host.guest("web1")
    add_nvram(host, "web1", nvram)
    remove_left_nvram(host.conn, parse_xml(host.conn.lookupByName("web1").XMLDesc()))
    assert nvram.read_bytes() == VARIABLES


def test_those_in_another_place_stay_after_a_move(host: PurgeHost) -> None:
    path = host.outside.parent / "web1_VARS.fd"
    path.write_bytes(VARIABLES)
    moved_away(host, path)
    assert path.read_bytes() == VARIABLES


@pytest.mark.parametrize("use", [defined, running, snapshot])
def test_purge_names_who_keeps_them(host: PurgeHost, nvram: Path, use: t.Callable[[PurgeHost, Path], str]) -> None:
    host.make()
    add_nvram(host, "web1", nvram)
    user = use(host, nvram)
    assert decided(host.one())[str(nvram)] == f"keep: it is used by {user}"
    assert nvram.read_bytes() == VARIABLES


@pytest.mark.parametrize("name", ["qemu/nvram/gone_VARS.fd", "outside/web1_VARS.fd", "pool/spare.qcow2"])
def test_a_file_that_libvirt_has_not_created_for_it_stays(host: PurgeHost, name: str) -> None:
    host.make()
    path = host.outside.parent / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(VARIABLES)
    add_nvram(host, "web1", path)
    assert decided(host.one())[str(path)] == (
        f"keep: libvirt has not created it for this machine. If nobody needs it: rm {path}"
    )
    assert path.read_bytes() == VARIABLES


def test_a_machine_goes_with_its_own(host: PurgeHost, nvram: Path) -> None:
    host.make()
    add_nvram(host, "web1", nvram)
    assert list(decided(host.one())) == [SYSTEM]
    assert not nvram.exists()


def test_those_that_a_start_has_made_go_when_it_fails(host: PurgeHost, nvram: Path) -> None:
    nvram.unlink()
    os = f"<domain><os><loader readonly='yes' type='pflash'>/x.fd</loader><nvram>{nvram}</nvram></os></domain>"
    assert "caught fire" in fail_after(host, SYSTEM, lambda: t.cast("t.Any", nvram.write_bytes(VARIABLES)), xml=os)
    assert not nvram.exists()
