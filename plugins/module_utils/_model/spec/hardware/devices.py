# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Devices of a machine that are neither disks nor nics: every option, and where it stands in the domain's XML.

Names and values are those of https://libvirt.org/formatdomain.html#devices, and Salt Virt's where it had its own.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass

from ...._base.errors import InputError, inside
from ...._base.xml import etree
from ..fields import validators
from ..fields.shapes import DeviceField, ListField
from ..fields.table import AttributeField, Field, FlagField, TextField, ValueEncoding, Values, drop, number_or_text
from .host_devices import HostDevices

LOOPBACK = "127.0.0.1"
_INDEX = validators.whole_number(0, 65535)
_PORT = validators.whole_number(1, 65535)


@dataclass(frozen=True)
class _Port:
    """A port; without one libvirt takes the next free one, which ``autoport`` says."""

    key: str

    def check(self, value: t.Any, where: str, _have: t.Any = None, /) -> int:
        return _PORT(value, where)

    def write(self, parent: etree._Element, value: int) -> None:
        parent.set("port", str(value))
        parent.set("autoport", "no")

    def read(self, parent: etree._Element) -> t.Any:
        return None if parent.get("autoport") == "yes" else read_port(parent, "port")


@dataclass(frozen=True)
class _TlsPort(AttributeField):
    """A port that -1 or 0 in the XML leaves to libvirt, which leaves out one of ours where it is to choose them."""

    def write(self, parent: etree._Element, value: t.Any) -> None:
        super().write(parent, value)
        parent.set("autoport", "no")

    def read(self, parent: etree._Element) -> t.Any:
        return read_port(parent, self.path.lstrip("@"))


def read_port(parent: etree._Element, name: str) -> t.Any:
    """The port in an attribute; None for none, and for what libvirt is to choose."""
    port = number_or_text(parent.get(name, "-1"))
    return port if isinstance(port, str) or port > 0 else None


# https://libvirt.org/formatdomain.html#graphical-framebuffers
_ONLY_OF_TYPE = {"vnc": ("websocket", "sharePolicy", "powerControl"), "spice": ("tlsPort", "defaultMode")}
# Devices whose other end is a client of SPICE.
_OF_SPICE = (
    "channel[@type='spicevmc']",
    "redirdev[@type='spicevmc']",
    "smartcard[@type='spicevmc']",
    "audio[@type='spice']",
)


@dataclass(frozen=True)
class _Graphics(DeviceField):
    """``true`` is VNC, Salt's ``enable_vnc``. What protects a console depends on its type."""

    def check(self, value: t.Any, where: str, have: t.Any = None, /) -> Values | bool:
        values = super().check("vnc" if value is True else value, where, have)
        if not isinstance(values, dict):
            return values
        if values.setdefault("type", "vnc") == "none":
            return False
        for key in ("tls_port", "tls"):
            if values["type"] != "spice" and key in values:
                raise InputError(
                    f"{values['type']} has no {key} of its own",
                    where=inside(where, key),
                    hint="TLS for VNC is a setting of the whole hypervisor: vnc_tls in /etc/libvirt/qemu.conf",
                )
        if values["type"] == "spice" and "websocket" in values:
            raise InputError("spice has no websocket of its own", where=inside(where, "websocket"))
        if len(values.get("password", "")) > 8 and values["type"] == "vnc":
            raise InputError(
                "the password is too long",
                where=inside(where, "password"),
                hint="VNC uses at most 8 characters",
            )
        return values

    def write(self, parent: etree._Element, value: Mapping[str, t.Any] | bool) -> None:
        before = parent.find(self.path)
        was = "" if before is None else before.get("type", "")
        if before is not None and isinstance(value, Mapping) and "listen" in value:
            _write_listen(before, value["listen"])
        super().write(parent, value)
        element = parent.find(self.path)
        if was == "spice" and (element is None or element.get("type") != was):
            for path in _OF_SPICE:
                for device in parent.findall(f"devices/{path}"):
                    drop(device)
        if element is None:
            return
        # A console of another type keeps where it listens and its password, and nothing that is the old type's own.
        if was not in ("", element.get("type")):
            for child in list(element):
                if child.tag != "listen":
                    element.remove(child)
        for kind, names in _ONLY_OF_TYPE.items():
            for name in names:
                if element.get("type") != kind:
                    element.attrib.pop(name, "")


def _write_listen(element: etree._Element, address: str) -> None:
    """The console listens there and nowhere else, wherever it did before: on a network's address, a socket, or two."""
    for old in element.findall("listen"):
        drop(old)
    etree.SubElement(element, "listen", type="address", address=address)
    # The old places of an address and a socket, which libvirt goes on to write beside the new one.
    for name in ("listen", "socket"):
        element.attrib.pop(name, "")


@dataclass(frozen=True)
class _Video(DeviceField):
    """A card of another model keeps how many screens it has, and nothing else of the old model."""

    def write(self, parent: etree._Element, value: Mapping[str, t.Any] | bool) -> None:
        model = parent.find(f"{self.path}/model")
        wanted = value.get("model") if isinstance(value, Mapping) else None
        if model is not None and wanted not in (None, model.get("type")):
            for child in list(model):
                model.remove(child)
            for name in set(model.attrib) - {"type", "heads", "primary"}:
                del model.attrib[name]
        super().write(parent, value)


@dataclass(frozen=True)
class _Rng(DeviceField):
    """A rate is so many bytes in each period."""

    def check(self, value: t.Any, where: str, have: t.Any = None, /) -> Values | bool:
        values = super().check(value, where, have)
        if isinstance(values, dict) and "period" in values and "bytes" not in values:
            raise InputError("period needs bytes", where=inside(where, "period"))
        return values


@dataclass(frozen=True)
class _Characters(ListField):
    """Character devices; the type follows from what is named, and a server listens on the loopback address."""

    def _check_row(self, row: t.Any, where: str, have: Values | None) -> Values:
        values = super()._check_row(row, where, have)
        kind = values.setdefault("type", "tcp" if "port" in values else "unix" if "path" in values else "pty")
        needed = {"tcp": "port", "udp": "port", "unix": "path", "file": "path", "dev": "path"}.get(kind)
        if needed and needed not in values:
            raise InputError(f"a device of type {kind} needs {needed}", where=where)
        if kind == "tcp" or (kind == "udp" and values.get("mode") != "connect"):
            values.setdefault("host", LOOPBACK)
        if kind in ("tcp", "unix"):
            values.setdefault("mode", "bind")
        return values


_SERIAL_TARGETS = ("isa-serial", "usb-serial", "pci-serial", "spapr-vio-serial", "system-serial", "sclp-serial")
_CONSOLE_TARGETS = ("serial", "virtio", "sclp", "sclplm", "xen")
_CHARACTER_DEVICE = (
    AttributeField("type", validators.choice("pty", "tcp", "udp", "unix", "file", "null", "dev"), "@type"),
    AttributeField("host", validators.address, "source@host"),
    AttributeField("port", _PORT, "source@service"),
    AttributeField("mode", validators.choice("bind", "connect"), "source@mode"),
    AttributeField("path", validators.path, "source@path"),
    AttributeField("tls", validators.yes_or_no, "source@tls"),
    AttributeField("protocol", validators.choice("raw", "telnet", "telnets", "tls"), "protocol@type"),
    AttributeField("log", validators.path, "log@file"),
    AttributeField("target_port", _INDEX, "target@port"),
)
SERIALS = _Characters(
    "serials",
    "devices/serial",
    (*_CHARACTER_DEVICE, AttributeField("target_type", validators.choice(*_SERIAL_TARGETS), "target@type")),
    short="type",
)
CONSOLES = _Characters(
    "consoles",
    "devices/console",
    (*_CHARACTER_DEVICE, AttributeField("target_type", validators.choice(*_CONSOLE_TARGETS), "target@type")),
    short="type",
)
GRAPHICS = _Graphics(
    "graphics",
    "devices/graphics",
    (
        AttributeField("type", validators.choice("none", "vnc", "spice"), "@type"),
        AttributeField("listen", validators.address, "listen@address"),
        _Port("port"),
        _TlsPort("tls_port", _PORT, "@tlsPort"),
        AttributeField("websocket", validators.whole_number(-1, 65535), "@websocket"),
        AttributeField("password", validators.text, "@passwd"),
        AttributeField(
            "tls",
            validators.yes_or_no,
            "@defaultMode",
            ValueEncoding(lambda on: "secure" if on else "any", "secure".__eq__),
        ),
    ),
    short="type",
    none="none",
    fixed=(("@autoport", "yes"), ("listen@type", "address"), ("listen@address", LOOPBACK)),
)
VIDEO = _Video(
    "video",
    "devices/video",
    (
        AttributeField(
            "model", validators.choice("virtio", "vga", "qxl", "cirrus", "bochs", "ramfb", "none"), "model@type"
        ),
        AttributeField("vram", validators.whole_number(1024, 2**22), "model@vram"),
        AttributeField("heads", validators.whole_number(1, 16), "model@heads"),
    ),
    short="model",
    fixed=(("model@type", "virtio"),),
)
RNG = _Rng(
    "rng",
    "devices/rng",
    (
        AttributeField(
            "model", validators.choice("virtio", "virtio-transitional", "virtio-non-transitional"), "@model"
        ),
        TextField("source", validators.path, "backend"),
        AttributeField("bytes", validators.whole_number(1, 2**30), "rate@bytes"),
        AttributeField("period", validators.whole_number(1, 2**30), "rate@period"),
    ),
    short="source",
    fixed=(("@model", "virtio"), ("backend@model", "random"), ("backend", "/dev/urandom")),
)
WATCHDOG = DeviceField(
    "watchdog",
    "devices/watchdog",
    (
        AttributeField("model", validators.choice("itco", "i6300esb", "ib700"), "@model"),
        AttributeField(
            "action", validators.choice("reset", "shutdown", "poweroff", "pause", "dump", "inject-nmi"), "@action"
        ),
    ),
    short="action",
    none="none",
    fixed=(("@model", "i6300esb"), ("@action", "reset")),
)
TPM = DeviceField(
    "tpm",
    "devices/tpm",
    (
        AttributeField("model", validators.choice("tpm-crb", "tpm-tis"), "@model"),
        AttributeField("version", validators.choice("1.2", "2.0"), "backend@version"),
    ),
    short="version",
    fixed=(("@model", "tpm-crb"), ("backend@type", "emulator"), ("backend@version", "2.0")),
)
SHARED_FOLDERS = ListField(
    "shared_folders",
    "devices/filesystem",
    (
        AttributeField("source", validators.path, "source@dir"),
        AttributeField("tag", validators.name, "target@dir"),
        FlagField("readonly", "readonly"),
    ),
    fixed=(("@type", "mount"), ("@accessmode", "passthrough"), ("driver@type", "virtiofs")),
    required=("source", "tag"),
)
HOST_DEVICES = HostDevices("host_devices", "devices/hostdev")

# The order is that of the documentation.
DEVICES: tuple[Field, ...] = (
    SERIALS,
    CONSOLES,
    GRAPHICS,
    VIDEO,
    RNG,
    WATCHDOG,
    TPM,
    SHARED_FOLDERS,
    HOST_DEVICES,
)
