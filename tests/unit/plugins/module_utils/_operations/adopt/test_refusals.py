# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines that cannot be adopted, and what comes between a plan and its execution."""

from __future__ import annotations

import contextlib
import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt
from ansible_collections.brine.virt.plugins.module_utils._host.machines.domains import affect
from ansible_collections.brine.virt.plugins.module_utils._model.metadata import migration
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import NAMESPACE, MachineNotes
from ansible_collections.brine.virt.plugins.module_utils._operations.adopt import machines
from ansible_collections.brine.virt.plugins.module_utils._operations.create.claims import Claim, make_claims
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._host.machines.unreadable import define_unreadable
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.adopt.adopt_host import AdoptHost
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.purge.purge_host import (
    disk,
)


class TestRefused:
    def test_one_that_is_not_there(self, host: AdoptHost) -> None:
        host.guest("old")
        (result,) = host.adopt("odl")["machines"]
        assert result["msg"] == "there is no machine 'odl' on this hypervisor. Did you mean old?"
        assert (result["present"], result["changed"]) == (False, False)

    def test_a_claim(self, host: AdoptHost) -> None:
        make_claims(host.conn, [Claim("old", 64, 1)], {})
        assert "old is only claimed here: a run is about to create the machine" in host.refused()

    def test_one_that_is_being_created(self, host: AdoptHost) -> None:
        host.guest("old")
        host.write(MachineNotes(status="building"), "old")
        assert "old is being created by a run of this collection" in host.refused()

    def test_one_on_the_move(self, host: AdoptHost) -> None:
        guest = host.guest("old")
        note = migration.MigrationNote("hv1", "hv2", "qemu+tls://hv2/system")
        text = migration.migration_note_to_xml(note)
        kind = libvirt.VIR_DOMAIN_METADATA_ELEMENT
        guest.setMetadata(kind, text, migration.PREFIX, migration.NAMESPACE, affect(guest))
        assert "old is being moved from hv1 to hv2, or its move was interrupted" in host.refused()

    def test_one_of_another_version(self, host: AdoptHost) -> None:
        guest = host.guest("old")
        guest.setMetadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, "<machine/>", "b", "urn:brine:virt:2", affect(guest))
        assert "its metadata are urn:brine:virt:2. Update this collection" in host.refused()

    def test_one_that_only_runs(self, host: AdoptHost) -> None:
        text = "<domain type='test'><name>old</name><memory>65536</memory><os><type>hvm</type></os></domain>"
        host.conn.createXML(text, 0)
        assert "old is running but not defined here" in host.refused()

    def test_one_that_is_saved(self, host: AdoptHost) -> None:
        guest = host.guest("old")
        guest.create()
        guest.managedSave(0)
        assert host.refused().endswith("it would resume without the metadata. Start it first")

    def test_one_whose_name_cannot_be_used(self, host: AdoptHost) -> None:
        host.guest("my machine")
        assert host.refused("my machine").startswith("'my machine' is not a name. Shut it down and rename it first")

    def test_one_that_cannot_be_read(self, host: AdoptHost) -> None:
        define_unreadable(host.conn, "old")
        assert "cannot be read as XML" in host.refused()

    def test_the_others_are_adopted(self, host: AdoptHost) -> None:
        host.guest("a")
        host.guest("b")
        answer = host.adopt("a", "gone", "b")
        assert [result["changed"] for result in answer["machines"]] == [True, False, True]
        assert answer["msg"].endswith("Succeeded: a, b")

    @pytest.mark.parametrize(
        ("names", "params", "text"),
        [
            ([], {}, "name: no machine is named"),
            (["a", ""], {}, "name: no machine is named"),
            (["a", "b"], {"disks": ["vda"]}, "disks: they are disks of one machine, but several are named"),
        ],
    )
    def test_options_that_do_not_go_together(
        self, host: AdoptHost, names: list[str], params: dict[str, t.Any], text: str
    ) -> None:
        with pytest.raises(InputError) as caught:
            host.adopt(*names, **params)
        assert str(caught.value).startswith(text)


class TestOvertaken:
    def change(self, host: AdoptHost, monkeypatch: pytest.MonkeyPatch, change: t.Callable[[], t.Any]) -> str:
        """The message of a run, when something changes between its plan and the lock."""

        def lock(_what: str, **_settings: t.Any) -> t.ContextManager[None]:
            change()
            return contextlib.nullcontext()

        monkeypatch.setattr(machines, "hypervisor_lock", lock)
        (result,) = host.adopt("old")["machines"]
        assert (result["failed"], result["changed"]) == (True, False)
        return str(result["msg"])

    def test_by_another_disk(self, host: AdoptHost, monkeypatch: pytest.MonkeyPatch) -> None:
        host.guest("old")
        image = host.image(host.pool / "old.qcow2")
        assert "machine old has changed" in self.change(host, monkeypatch, lambda: host.attach("old", disk(image)))
        assert NAMESPACE not in host.texts("old")[0]

    def test_by_another_machine_of_the_name(self, host: AdoptHost, monkeypatch: pytest.MonkeyPatch) -> None:
        guest = host.guest("old")

        def change() -> None:
            guest.undefine()
            host.guest("old")

        assert "machine old has changed" in self.change(host, monkeypatch, change)

    def test_by_its_end(self, host: AdoptHost, monkeypatch: pytest.MonkeyPatch) -> None:
        guest = host.guest("old")
        assert "there is no machine 'old'" in self.change(host, monkeypatch, guest.undefine)
