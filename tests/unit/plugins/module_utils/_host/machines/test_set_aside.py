# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Snapshots are set aside in a machine's metadata, and put back, however often and wherever it was cut off."""

from __future__ import annotations

import types
import typing as t
from collections.abc import Iterator

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import UnsupportedError, VirtError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt, open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.machines import set_aside as module
from ansible_collections.brine.virt.plugins.module_utils._host.machines.set_aside import put_back, read_texts, set_aside
from ansible_collections.brine.virt.plugins.module_utils._host.machines.snapshots import list_snapshots
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.snapshots import SetAside, read_set_aside


@pytest.fixture
def domain(node_uri: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[t.Any]:
    """A machine that is off, with three snapshots: one follows the first, and the current one follows it too."""
    # This driver's snapshots are nothing but metadata, and it knows no such flag.
    monkeypatch.setattr(libvirt, "VIR_DOMAIN_SNAPSHOT_DELETE_METADATA_ONLY", 0)
    with open_connection(node_uri) as conn:
        found = conn.lookupByName("web1")
        found.destroy()
        for name in ("a", "b"):
            found.snapshotCreateXML(
                f"<domainsnapshot><name>{name}</name><description>&lt;x&gt; &amp;</description></domainsnapshot>"
            )
        found.revertToSnapshot(found.snapshotLookupByName("a"))
        found.snapshotCreateXML("<domainsnapshot><name>c</name></domainsnapshot>")
        yield found


def known(domain: t.Any) -> list[tuple[str, str | None, bool, int, str]]:
    return [
        (one.facts.name, one.facts.parent, one.current, one.facts.created, one.facts.description)
        for one in list_snapshots(domain)
    ]


def aside(domain: t.Any) -> list[str]:
    return [one.name for one in read_set_aside(parse_xml(domain.XMLDesc(0)))]


def test_they_come_back_as_they_were(domain: t.Any) -> None:
    before = sorted(known(domain))
    assert [one[:3] for one in before] == [("a", None, False), ("b", "a", False), ("c", "a", True)]
    set_aside(domain)
    assert known(domain) == []
    assert sorted(aside(domain)) == ["a", "b", "c"]
    assert sorted(put_back(domain)) == ["a", "b", "c"]
    assert sorted(known(domain)) == before
    assert aside(domain) == []
    assert put_back(domain) == []
    assert sorted(known(domain)) == before


@pytest.mark.parametrize("calls", [1, 2, 3])
def test_a_run_that_was_cut_off_loses_none(domain: t.Any, monkeypatch: pytest.MonkeyPatch, calls: int) -> None:
    before = sorted(known(domain))
    deleted: list[t.Any] = []

    class Cut(Exception):
        pass

    real = module.list_snapshots

    def cut_off(handle: t.Any) -> t.Any:
        found = real(handle)
        for one in found:
            delete = one.handle.delete

            def counted(flags: int, delete: t.Any = delete) -> None:
                if len(deleted) == calls - 1:
                    raise Cut
                deleted.append(delete(flags))

            one.handle.delete = counted
        return found

    with monkeypatch.context() as patch, pytest.raises(Cut):
        patch.setattr(module, "list_snapshots", cut_off)
        set_aside(domain)
    assert sorted(aside(domain)) == ["a", "b", "c"]
    assert len(known(domain)) == 4 - calls
    set_aside(domain)
    assert sorted(aside(domain)) == ["a", "b", "c"]
    put_back(domain)
    assert sorted(known(domain)) == before


class Arriving:
    """A machine's handle on a hypervisor with this version of libvirt, which knows no watchdog itco before 9.1."""

    def __init__(self, domain: t.Any, version: int) -> None:
        self._domain, self._version = domain, version
        self.got: list[str] = []

    def __getattr__(self, name: str) -> t.Any:
        return getattr(self._domain, name)

    def connect(self) -> t.Any:
        return types.SimpleNamespace(getLibVersion=lambda: self._version)

    def snapshotCreateXML(self, xml: str, _flags: int) -> None:  # noqa: N802 - libvirt's name
        if self._version < 9001000 and "itco" in xml:
            raise libvirt.libvirtError("unsupported configuration: unknown watchdog model 'itco'")
        self.got.append(xml)


def with_watchdog(domain: t.Any, action: str, other: str = "") -> None:
    """Have a snapshot be set aside that a newer libvirt has described. other: a watchdog of the machine's own."""
    text = domain.XMLDesc(0).replace("</devices>", f"{other}<watchdog model='itco' action='{action}'/></devices>")
    module._write(domain, [SetAside("d", f"<domainsnapshot><name>d</name>{text}</domainsnapshot>")])


@pytest.mark.parametrize("version", [9000000, 11003000])
@pytest.mark.parametrize("watchdogs", [("reset",), ("poweroff", "<watchdog model='i6300esb' action='poweroff'/>")])
def test_an_older_libvirt_takes_them_without_the_watchdog_that_a_newer_one_adds(
    domain: t.Any, version: int, watchdogs: tuple[str, ...]
) -> None:
    """It has the action of the machine's own."""
    with_watchdog(domain, *watchdogs)
    there = Arriving(domain, version)
    assert put_back(there) == ["d"]
    assert ["itco" in xml for xml in there.got] == [version > 9001000]
    assert aside(domain) == []


def test_one_that_cannot_be_put_back_is_not_the_end(domain: t.Any) -> None:
    """The move would be finished never, and nothing else is done with the machine until then."""
    with_watchdog(domain, "poweroff")
    with pytest.raises(VirtError) as caught:
        put_back(Arriving(domain, 9000000))
    assert str(caught.value).startswith("cannot put back snapshot d of machine web1: ")
    assert str(caught.value).endswith(
        "Mend that and run it again. To go on without its snapshots, on its hypervisor: virsh metadata web1 "
        "urn:brine:virt:snapshots:1 --config --remove"
    )
    assert aside(domain) == ["d"]


def test_too_many_stay(domain: t.Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_CHARACTERS", 1000)
    with pytest.raises(UnsupportedError, match="its 3 snapshots are too many to be moved at once"):
        set_aside(domain)
    assert len(known(domain)) == 3
    assert aside(domain) == []


def test_a_password_is_not_written_where_everybody_reads_it(node_uri: str) -> None:
    with open_connection(node_uri) as conn:
        text = conn.lookupByName("db1").XMLDesc(0).replace("<graphics ", "<graphics passwd='secret' ")
        domain = conn.defineXML(text)
        domain.snapshotCreateXML("<domainsnapshot><name>a</name></domainsnapshot>")
        with pytest.raises(VirtError, match="snapshot a holds a password"):
            read_texts(list_snapshots(domain))
