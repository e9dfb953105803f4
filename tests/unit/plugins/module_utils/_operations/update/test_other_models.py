# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A device or a CPU of another kind has nothing left that only the old kind may have."""

from __future__ import annotations

import typing as t

import pytest
from lxml import etree

from ansible_collections.brine.virt.plugins.module_utils._base.errors import UnsupportedError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.facts import guest_platform
from ansible_collections.brine.virt.plugins.module_utils._model.spec.reading.machines import read_machines
from ansible_collections.brine.virt.plugins.module_utils._operations.hypervisor import Hypervisor
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.shared_hosts import BASE, Host

pytestmark = pytest.mark.medium

# As virt-manager makes one.
DESKTOP = """
<graphics type='spice' autoport='yes' tlsPort='-1'><listen type='address' address='127.0.0.1'/>
<image compression='off'/><gl enable='no'/></graphics>
<video><model type='qxl' ram='65536' vram='65536' vgamem='16384' heads='1' primary='yes'/></video>
<channel type='spicevmc'><target type='virtio' name='com.redhat.spice.0'/></channel>
<redirdev bus='usb' type='spicevmc'/>
"""


def edit(host: Host, change: t.Callable[[etree._Element], None]) -> None:
    """Change machine a by hand."""
    xml = parse_xml(host.conn.lookupByName("a").XMLDesc(2))
    change(xml)
    host.conn.defineXML(etree.tostring(xml, encoding="unicode"))


def become(host: Host, **options: t.Any) -> etree._Element:
    """The definition of machine a when it has been given these options; a second run has nothing to do."""
    host.make({"name": "a", **options})
    assert not host.plan({"name": "a", **options})[0].steps
    return parse_xml(host.conn.lookupByName("a").XMLDesc(2))


@pytest.fixture
def desktop(host: Host) -> Host:
    host.make({"name": "a", "graphics": False, "video": False})

    def put(xml: etree._Element) -> None:
        devices = xml.find("devices")
        assert devices is not None
        devices.extend(etree.fromstring(f"<devices>{DESKTOP}</devices>"))

    edit(host, put)
    return host


def test_a_virt_manager_machine_gets_another_console(desktop: Host) -> None:
    xml = become(desktop, graphics={"type": "vnc", "listen": "127.0.0.1"})
    (graphics,) = xml.findall("devices/graphics")
    assert graphics.get("type") == "vnc"
    assert [child.tag for child in graphics] == ["listen"]
    assert xml.xpath("//*[@type='spicevmc']") == []
    # Its card is its own.
    assert xml.find("devices/video/model").get("type") == "qxl"  # type: ignore[union-attr]


def test_without_a_console_nothing_waits_for_its_client(desktop: Host) -> None:
    assert become(desktop, graphics=False).xpath("//*[@type='spicevmc']") == []


@pytest.mark.parametrize("model", ["virtio", "vga", "bochs"])
def test_it_gets_another_card(desktop: Host, model: str) -> None:
    (card,) = become(desktop, video=model).findall("devices/video/model")
    assert card.get("type") == model
    assert "65536" not in card.attrib.values()


def test_a_spice_console_keeps_what_belongs_to_it(desktop: Host) -> None:
    xml = become(desktop, graphics={"type": "spice", "listen": "::1"})
    assert [child.tag for child in xml.iterfind("devices/graphics/*")] == ["listen", "image", "gl"]
    assert [xml.find(f"devices/{tag}[@type='spicevmc']") is not None for tag in ("channel", "redirdev")] == [True, True]


@pytest.mark.parametrize(
    "listen",
    ["<listen type='network' network='n1'/>", "<listen type='socket' socket='/run/x.sock'/>", "<listen type='none'/>"],
)
def test_a_console_listens_where_it_is_told_to(host: Host, listen: str) -> None:
    host.make({"name": "a", "graphics": {"type": "vnc"}})

    def put(xml: etree._Element) -> None:
        graphics = xml.find("devices/graphics")
        assert graphics is not None
        for name in ("listen", "port", "autoport"):
            graphics.attrib.pop(name, "")
        graphics.clear()
        graphics.set("type", "vnc")
        graphics.append(etree.fromstring(listen))

    edit(host, put)
    xml = become(host, graphics={"type": "vnc", "listen": "127.0.0.1"})
    (found,) = xml.findall("devices/graphics/listen")
    assert (found.get("type"), found.get("address")) == ("address", "127.0.0.1")


@pytest.mark.parametrize("cpu", ["host-model", {"model": "qemu64"}, "host-passthrough"])
def test_a_cpu_of_another_mode(host: Host, cpu: t.Any) -> None:
    """libvirt's driver for QEMU writes migratable and check by itself."""
    host.make({"name": "a", "cpu": "host-passthrough"})

    def put(xml: etree._Element) -> None:
        element = xml.find("cpu")
        assert element is not None
        element.set("migratable", "on")
        element.set("check", "none")

    edit(host, put)
    (found,) = become(host, cpu=cpu).findall("cpu")
    kept = cpu == "host-passthrough"
    assert (found.get("migratable"), found.get("check") == "none") == ("on" if kept else None, kept)


def test_the_watchdog_of_the_chipset_needs_a_newer_libvirt(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.make({"name": "a"})
    version = host.conn.getLibVersion()
    monkeypatch.setattr(guest_platform, "ITCO_SINCE", version + 1)
    for name in ("a", "new"):
        with pytest.raises(UnsupportedError, match=r"^machines\[0\]\.watchdog\.model: libvirt .* is too old for itco"):
            host.plan({"name": name, "watchdog": {"model": "itco"}})
    host.plan({"name": "a", "watchdog": "poweroff"})
    monkeypatch.setattr(guest_platform, "ITCO_SINCE", version)
    (machine,) = read_machines([{**BASE, "name": "new", "watchdog": {"model": "itco"}}])
    guests = Hypervisor(host.conn, image_pool="images").guests
    guests.check(machine, "pc-q35-7.2")
    with pytest.raises(UnsupportedError, match=r"^watchdog\.model: only machines of type q35 have an itco"):
        guests.check(machine, "pc-i440fx-7.2")


def test_what_only_a_cpu_like_the_hosts_has(host: Host) -> None:
    """The test driver says nothing of the hypervisor's CPU, so that a new machine has libvirt's own."""
    with pytest.raises(UnsupportedError, match=r"^machines\[0\]\.cpu\.migratable: a CPU of mode custom, which new"):
        host.plan({"name": "new", "cpu": {"migratable": True}})
    host.plan({"name": "new", "cpu": {"migratable": True, "mode": "host-passthrough"}})
