# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which snapshots go along with a machine that is moved."""

from __future__ import annotations

import contextlib
import types
import typing as t
from collections.abc import Iterator

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError, UnsupportedError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt, open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.machines.set_aside import put_back, set_aside
from ansible_collections.brine.virt.plugins.module_utils._host.machines.snapshots import list_snapshots
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.migration import (
    MigrationNote,
    read_migration_note,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.endpoints.location import write_note
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.snapshots import (
    check_snapshots,
    check_snapshots_on_target,
    remove_note,
    set_aside_step,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.plan import Step

EXTERNAL = "<memory snapshot='no'/><disks><disk name='vda' snapshot='external'><source file='/p/n'/></disk></disks>"


@pytest.fixture
def domain(node_uri: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[t.Any]:
    """A machine that is off."""
    # This driver's snapshots are nothing but metadata, and it knows no such flag.
    monkeypatch.setattr(libvirt, "VIR_DOMAIN_SNAPSHOT_DELETE_METADATA_ONLY", 0)
    with open_connection(node_uri) as conn:
        found = conn.lookupByName("web1")
        found.destroy()
        yield found


def take(domain: t.Any, name: str, inner: str = "") -> None:
    domain.snapshotCreateXML(f"<domainsnapshot><name>{name}</name>{inner}</domainsnapshot>")


def check(domain: t.Any, **special: bool) -> None:
    check_snapshots("web1", domain, **{"active": False, "undefine_source": True, **special}, where="here")


def test_internal_ones_go_along_with_a_machine_that_is_off(domain: t.Any) -> None:
    check(domain, active=True, undefine_source=False)
    take(domain, "a")
    check(domain)


@pytest.mark.parametrize(
    ("special", "words"),
    [
        (
            {"active": True},
            "which libvirt cannot move with it while it runs. Shut it down first, or delete them",
        ),
        (
            {"undefine_source": False},
            "which libvirt cannot move with it if it is to stay defined here as well. Leave",
        ),
    ],
)
def test_not_of_every_move(domain: t.Any, special: dict[str, bool], words: str) -> None:
    take(domain, "a")
    with pytest.raises(UnsupportedError) as caught:
        check(domain, **special)
    assert str(caught.value).startswith(f"here: web1 has snapshots (a), {words}")


def test_not_those_that_have_files(domain: t.Any) -> None:
    take(domain, "a")
    # The driver takes no external ones, but lets itself be told of one.
    inner = f"<name>files</name><state>shutoff</state><creationTime>1</creationTime>{EXTERNAL}{domain.XMLDesc(0)}"
    flags = libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_REDEFINE
    domain.snapshotCreateXML(f"<domainsnapshot>{inner}</domainsnapshot>", flags)
    with pytest.raises(UnsupportedError, match="as their files would stay behind: files are external. Delete them"):
        check(domain)


@pytest.mark.parametrize(
    ("then", "words"), [("'vdb'", "vdb (/p/old)"), ("'vda'", "vda (/p/old)")], ids=["detached", "replaced"]
)
def test_not_those_of_a_disk_that_was_detached(domain: t.Any, then: str, words: str) -> None:
    """It would stay behind, and a revert asks for it."""
    text = domain.XMLDesc(0)
    old = f"<disk type='file'><driver type='qcow2'/><source file='/p/old'/><target dev={then}/></disk>"
    now = text[text.index("<disk ") : text.index("</disk>") + len("</disk>")]
    domain.connect().defineXML(text.replace(now, old if then == "'vda'" else now + old))
    take(domain, "a")
    check(domain)
    domain.connect().defineXML(text)
    with pytest.raises(UnsupportedError) as caught:
        check(domain)
    assert "web1 has a snapshot a of a disk that was detached since then, and could not be reverted" in str(
        caught.value
    )
    assert f"as the disk would stay behind: {words}. Attach it again first, or delete" in str(caught.value)


def target(version: int) -> t.Any:
    return types.SimpleNamespace(getVersion=lambda: version)


def test_not_where_they_would_be_of_no_use(domain: t.Any) -> None:
    same = [("/p/a", "/p/a")]
    check_snapshots_on_target("web1", domain, target(1), [("/p/a", "/q/a")], "")
    take(domain, "a")
    version = domain.connect().getVersion()
    check_snapshots_on_target("web1", domain, target(version), same, "")
    with pytest.raises(UnsupportedError, match="which name its disk /p/a, and there it would be /q/a"):
        check_snapshots_on_target("web1", domain, target(version), [*same, ("/p/a", "/q/a")], "")
    # Without memory, any QEMU reads them.
    check_snapshots_on_target("web1", domain, target(version - 1), same, "")
    domain.create()
    take(domain, "memory")
    with pytest.raises(UnsupportedError, match="web1 has snapshots with memory .memory., which the older QEMU there"):
        check_snapshots_on_target("web1", domain, target(version - 1), same, "")


def test_those_that_an_interrupted_move_has_set_aside_count_too(domain: t.Any) -> None:
    """libvirt has none then, and QEMU would copy no more than what a running machine's disks hold now."""
    take(domain, "a")
    set_aside(domain)
    assert list_snapshots(domain) == []
    check(domain)
    with pytest.raises(UnsupportedError) as caught:
        check(domain, active=True)
    assert str(caught.value) == (
        "here: web1 has snapshots (a), which libvirt cannot move with it while it runs; an interrupted move has set "
        "them aside. Shut it down first (virsh shutdown web1), and run the move again, which puts them back"
    )
    with pytest.raises(UnsupportedError, match="if it is to stay defined here as well"):
        check(domain, undefine_source=False)


def test_those_that_were_set_aside_are_of_no_use_there_either(domain: t.Any) -> None:
    domain.create()
    take(domain, "memory")
    domain.destroy()
    set_aside(domain)
    version = domain.connect().getVersion()
    check_snapshots_on_target("web1", domain, target(version), [("/p/a", "/p/a")], "")
    with pytest.raises(UnsupportedError, match="which name its disk /p/a, and there it would be /q/a"):
        check_snapshots_on_target("web1", domain, target(version), [("/p/a", "/q/a")], "")
    with pytest.raises(UnsupportedError, match="web1 has snapshots with memory .memory., which the older QEMU there"):
        check_snapshots_on_target("web1", domain, target(version - 1), [("/p/a", "/p/a")], "")


class Broken:
    """What libvirt's handle of a machine is when its daemon was started again: no call of it works any more."""

    def __init__(self, domain: t.Any) -> None:
        self._domain = domain
        self.answers = True

    def __getattr__(self, name: str) -> t.Any:
        if not self.answers and name != "name":
            raise libvirt.libvirtError("internal error: client socket is closed")
        return getattr(self._domain, name)


def step_of(domain: t.Any, handle: t.Any, switched: bool = False) -> Step:
    """As set_aside_step, where a new connection leads to the same node; this driver makes another one for each."""
    new = types.SimpleNamespace(open_source=lambda: contextlib.nullcontext(domain.connect()))
    endpoints = t.cast(t.Any, types.SimpleNamespace(reconnected=lambda: new))
    machine = t.cast(t.Any, types.SimpleNamespace(name="web1", uuid=domain.UUIDString(), handle=handle))
    return set_aside_step(machine, endpoints, lambda: switched)


@pytest.mark.parametrize("switched", [False, True])
def test_they_come_back_where_the_move_fails(domain: t.Any, switched: bool) -> None:
    take(domain, "a")
    step = step_of(domain, domain, switched)
    assert step.undo is not None
    step.apply()
    assert list_snapshots(domain) == []
    step.undo()
    assert [one.facts.name for one in list_snapshots(domain)] == ([] if switched else ["a"])


def test_they_come_back_where_the_daemon_was_started_again_meanwhile(domain: t.Any) -> None:
    take(domain, "a")
    handle = Broken(domain)
    step = step_of(domain, handle)
    assert step.undo is not None
    step.apply()
    handle.answers = False
    step.undo()
    assert [one.facts.name for one in list_snapshots(domain)] == ["a"]


def test_the_note_of_the_move_stays_while_anything_is_set_aside(domain: t.Any) -> None:
    take(domain, "a")
    write_note(domain, MigrationNote("hv1", "hv2", "qemu+tls://hv2/system"))
    set_aside(domain)
    with pytest.raises(HostError, match="the note of the move stays while its snapshots are set aside"):
        remove_note(domain)
    assert read_migration_note(parse_xml(domain.XMLDesc(0))) is not None
    put_back(domain)
    remove_note(domain)
    assert read_migration_note(parse_xml(domain.XMLDesc(0))) is None
