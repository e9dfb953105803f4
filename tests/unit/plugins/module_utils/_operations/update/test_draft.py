# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine's description is replaced as a whole, and yet nobody's change is lost by that; on libvirt's test driver."""

from __future__ import annotations

import types
import typing as t
from dataclasses import replace

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, VirtError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import etree, parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt
from ansible_collections.brine.virt.plugins.module_utils._host.machines.domains import list_domains
from ansible_collections.brine.virt.plugins.module_utils._host.machines.redefine import MachineGoneError
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import MachineNotes, VolumeNote
from ansible_collections.brine.virt.plugins.module_utils._operations.hypervisor import Hypervisor
from ansible_collections.brine.virt.plugins.module_utils._operations.plan import Step
from ansible_collections.brine.virt.plugins.module_utils._operations.update.draft import Draft
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.shared_hosts import Host, one


@pytest.fixture
def draft(host: Host) -> Draft:
    """Machine a, whose title is to be changed."""
    host.make(one("a"))
    domain = list_domains(host.conn)["a"]
    assert domain.notes is not None
    draft = Draft(domain, domain.notes, Hypervisor(host.conn, image_pool="images"))
    set_title(draft.record("title"), "planned")
    return draft


def set_title(domain: etree._Element, text: str) -> None:
    for old in domain.iterfind("title"):
        domain.remove(old)
    title = etree.Element("title")
    title.text = text
    domain.insert(1, title)


def title(host: Host) -> str | None:
    text: str | None = parse_xml(host.conn.lookupByName("a").XMLDesc(2)).findtext("title")
    return text


def retitle(host: Host, text: str) -> None:
    """Somebody else changes the machine."""
    xml = parse_xml(host.conn.lookupByName("a").XMLDesc(2))
    set_title(xml, text)
    host.conn.defineXML(etree.tostring(xml, encoding="unicode"))


def notes(host: Host) -> MachineNotes:
    found = list_domains(host.conn)["a"].notes
    assert found is not None
    return found


def undo(step: Step) -> None:
    assert step.undo is not None
    step.undo()


def test_what_was_changed_is_rolled_back(host: Host, draft: Draft) -> None:
    (step,) = draft.steps()
    assert title(host) is None
    step.apply()
    assert title(host) == "planned"
    undo(step)
    assert title(host) is None


def test_what_was_never_done_is_not_rolled_back(host: Host, draft: Draft) -> None:
    (step,) = draft.steps()
    undo(step)
    assert title(host) is None


def test_what_somebody_has_changed_since_the_plan_stays(host: Host, draft: Draft) -> None:
    (step,) = draft.steps()
    retitle(host, "theirs")
    with pytest.raises(ConflictError, match="machine a has been changed by something else since this was planned"):
        step.apply()
    assert title(host) == "theirs"


def test_what_somebody_has_changed_since_it_was_done_is_not_rolled_back(host: Host, draft: Draft) -> None:
    (step,) = draft.steps()
    step.apply()
    retitle(host, "theirs")
    with pytest.raises(ConflictError, match="has been changed by something else since then, and is left as it is now"):
        undo(step)
    assert title(host) == "theirs"


def test_a_machine_that_has_left_is_not_defined_here_again(host: Host, draft: Draft) -> None:
    """It was moved away, and would be on two hypervisors."""
    (step,) = draft.steps()
    host.conn.lookupByName("a").undefine()
    with pytest.raises(MachineGoneError):
        step.apply()
    undo(step)
    assert host.conn.listAllDomains() == []


def test_a_machine_that_leaves_before_its_change_is_rolled_back_stays_away(host: Host, draft: Draft) -> None:
    (step,) = draft.steps()
    step.apply()
    host.conn.lookupByName("a").undefine()
    with pytest.raises(MachineGoneError):
        undo(step)
    assert host.conn.listAllDomains() == []


def test_a_volume_is_noted_before_it_is_made_and_as_whole_at_the_very_end(host: Host, draft: Draft) -> None:
    """Whenever the run is killed, the next one knows which volumes are only half there, and which are to go."""
    new = VolumeNote("default", "a-new.raw", "disk", building=True)
    old = VolumeNote("default", "a-old.raw", "disk", building=True)
    draft.notes = replace(draft.notes, volumes=(new,))
    draft.leaving.append(old)
    seen: list[tuple[VolumeNote, ...]] = []
    draft.volume_steps.append(Step("make it", lambda: seen.append(notes(host).volumes)))
    draft.live_step("plug it", lambda: seen.append(notes(host).volumes))
    steps = draft.steps()
    assert [step.description for step in steps] == [
        "record the new disks of a",
        "make it",
        "change the definition of a: title",
        "plug it",
        "write the metadata of a",
    ]
    for step in steps:
        step.apply()
    assert seen == [(new, old)] * 2
    assert notes(host).volumes == (new.whole,)
    for step in reversed(steps):
        if step.undo is not None:
            step.undo()
    assert (notes(host).volumes, title(host)) == ((), None)


@pytest.mark.parametrize(
    ("says", "words"),
    [
        (
            "internal error: No more available PCI slots",
            "cannot attach disk data to a: it has no free PCI slot while it runs. Shut it down, and run this again: "
            "its definition gets one",
        ),
        ("operation failed", "cannot attach disk data to a: operation failed"),
    ],
)
def test_a_running_machine_without_a_free_slot_is_told_what_to_do(draft: Draft, says: str, words: str) -> None:
    """As one that was defined by virsh has none to spare."""

    def refuse(_xml: str, _flags: int) -> None:
        raise libvirt.libvirtError(says)

    handle = types.SimpleNamespace(attachDeviceFlags=refuse, name=lambda: "a")
    draft.domain = t.cast("t.Any", types.SimpleNamespace(handle=handle, name="a", active=False))
    draft.live_attach("attach disk data to a", etree.Element("disk"), None)
    with pytest.raises(VirtError) as caught:
        draft.live_steps[-1].apply()
    assert str(caught.value) == words
