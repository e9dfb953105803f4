# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Devices of a machine that are neither disks nor nics: every option, and where it stands in the domain's XML.

Names and values are those of https://libvirt.org/formatdomain.html#devices, and Salt Virt's where it had its own.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from ...._base.errors import InputError, inside
from ...._base.xml import etree
from ..fields import validators
from ..fields.shapes import DeviceField, ListField
from ..fields.table import (
    AttributeField,
    Field,
    FlagField,
    TextField,
    ValueEncoding,
    Values,
    covers,
    drop,
    make,
    number_or_text,
)
from .host_devices import HostDevices
from .watchdog import WATCHDOG

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


_ADDRESS = "address"


@dataclass(frozen=True)
class _Listen(AttributeField):
    """An address. A network, a socket and nothing are other ways to listen, which an address takes the place of."""

    def write(self, parent: etree._Element, value: str) -> None:
        old = parent.findall("listen")
        for listen in old:
            drop(listen)
        # The old places of address and socket, which libvirt wants to be the same as the new ones.
        for name in ("listen", "socket"):
            parent.attrib.pop(name, "")
        etree.SubElement(parent, "listen", type=_ADDRESS, address=value)
        other = bool(old) and old[0].get("type", _ADDRESS) != _ADDRESS
        if other and read_port(parent, "port") is None and read_port(parent, "tlsPort") is None:
            # What listened at no address has no port.
            parent.set("autoport", "yes")

    def read(self, parent: etree._Element) -> t.Any:
        listen = parent.find("listen")
        return None if listen is None or listen.get("type", _ADDRESS) != _ADDRESS else listen.get("address")


_SPICE = "devices/graphics[@type='spice']"
# Devices whose other end is a client of SPICE.
_OF_SPICE = tuple(f"devices/{tag}[@type='spicevmc']" for tag in ("channel", "redirdev", "smartcard"))
# What consoles of each type have: https://libvirt.org/formatdomain.html#graphical-framebuffers
_OF_ANY_TYPE = ("type", "port", "autoport", "listen", "passwd", "passwdValidTo", "keymap")


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
        if values.get("tls") is False and not (isinstance(have, Mapping) and have.get("tls")):
            # Which a console is by itself; libvirt 9 does not write it down.
            del values["tls"]
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
        element = parent.find(self.path)
        if element is not None and isinstance(value, Mapping):
            if value.get("type", element.get("type")) != element.get("type"):
                _leave_type(element, value["type"])
            if "listen" in value:
                # The old place of the address, which libvirt writes beside the new one and wants to be the same.
                element.attrib.pop("listen", "")
        had = parent.find(_SPICE) is not None
        super().write(parent, value)
        if parent.find(_SPICE) is None:
            for path in _OF_SPICE if had else ():
                for device in parent.findall(path):
                    drop(device)
            # libvirt gives each machine with SPICE its sound as well, and QEMU 8.2 does not start with that alone.
            for audio in parent.findall("devices/audio[@type='spice']"):
                audio.set("type", "none")


def _leave_type(console: etree._Element, kind: str) -> None:
    """A console of another type keeps where it listens and its password, and nothing that is the old type's own."""
    for name in set(map(str, console.attrib)) - set(_OF_ANY_TYPE):
        del console.attrib[name]
    for child in list(console):
        if child.tag != "listen":
            console.remove(child)
    if kind == "vnc" and console.find("listen[@type='none']") is not None:
        # VNC has no such way to listen.
        _Listen("listen", validators.address, "listen@address").write(console, LOOPBACK)


# The types of consoles that others than the hypervisor's own programs can connect to.
REMOTE_CONSOLES = ("vnc", "spice", "rdp")


def console_in_words(console: etree._Element) -> str:
    """A console by its type and by where it listens: ``vnc on 0.0.0.0``."""
    listen = console.find("listen")
    places = () if listen is None else (listen.get("address"), listen.get("socket"), listen.get("network"))
    place = next((place for place in places if place), None)
    return f"{console.get('type')} on {place}" if place else str(console.get("type"))


class _power_of_two(validators.whole_number):  # noqa: N801 - used like the rules beside it
    """A rule for a number that libvirt rounds up (virDomainVideoDefPostParse in src/conf/domain_postparse.c)."""

    def __call__(self, value: t.Any, where: str) -> int:
        return int(1 << (super().__call__(value, where) - 1).bit_length())


# This is no device of the bus, and has no place on it.
_WITHOUT_PLACE = "ramfb"
_WITH_HEADS = ("virtio", "qxl")
_WITH_ONE_HEAD = ("vga", "cirrus", "bochs", "ramfb")


_NO_VIDEO = "model[@type='none']"


@dataclass(frozen=True)
class _Video(DeviceField):
    """Another model has memory and settings of its own. None is a model of libvirt's: without it, a machine with a
    console gets a card."""

    def check(self, value: t.Any, where: str, have: t.Any = None, /) -> Values | bool:
        values = super().check(value, where, have)
        if not isinstance(values, dict):
            return values
        model = values.get("model", have.get("model") if isinstance(have, Mapping) else "virtio")
        if values.get("heads", 1) > 1 and model in _WITH_ONE_HEAD:
            raise InputError(
                f"model {model} has one head", where=inside(where, "heads"), hint="Give it to virtio or qxl"
            )
        if model != "none":
            return values
        for key in ("vram", "heads"):
            if key in values:
                raise InputError(f"model none has no {key}", where=inside(where, key))
        return False

    def read(self, parent: etree._Element) -> Values | bool:
        return parent.find(f"{self.path}/{_NO_VIDEO}") is None and super().read(parent)

    def write(self, parent: etree._Element, value: Mapping[str, t.Any] | bool) -> None:
        if value is False or self.read(parent) is False:
            super().write(parent, False)
        if value is False:
            etree.SubElement(make(parent, self.path), "model", type="none")
            return
        video = parent.find(self.path)
        model = None if video is None else video.find("model")
        if video is not None and model is not None and isinstance(value, Mapping):
            kind = value.get("model", model.get("type"))
            if kind != model.get("type"):
                _leave_model(video, model, kind)
        super().write(parent, value)


def _leave_model(video: etree._Element, model: etree._Element, kind: str) -> None:
    """Take out what the old model has and another one need not have."""
    kept = ["type", "primary"]
    if {kind, model.get("type")} <= set(_WITH_HEADS):
        kept.append("heads")
    for name in set(map(str, model.attrib)) - set(kept):
        del model.attrib[name]
    for child in [*model, *video.findall("driver")]:
        drop(child)
    for place in video.findall("address") if kind == _WITHOUT_PLACE else ():
        drop(place)


@dataclass(frozen=True)
class _Rng(DeviceField):
    """A rate is so many bytes in each period."""

    def check(self, value: t.Any, where: str, have: t.Any = None, /) -> Values | bool:
        values = super().check(value, where, have)
        if isinstance(values, dict) and "period" in values and "bytes" not in values:
            raise InputError("period needs bytes", where=inside(where, "period"))
        return values


# What belongs to the types of character devices; libvirt drops what a type has no place for.
_OF_CHARACTERS = {
    "host": ("tcp", "udp"),
    "port": ("tcp", "udp"),
    "mode": ("tcp", "udp", "unix"),
    "path": ("unix", "file", "dev"),
    "tls": ("tcp",),
    "protocol": ("tcp",),
}


@dataclass(frozen=True)
class _Characters(ListField):
    """Character devices; the type follows from what is named, and a server listens on the loopback address."""

    def _check_row(self, row: t.Any, where: str, have: Values | None) -> Values:
        values = super()._check_row(row, where, have)
        kind = values.setdefault("type", "tcp" if "port" in values else "unix" if "path" in values else "pty")
        needed = {"tcp": "port", "udp": "port", "unix": "path", "file": "path", "dev": "path"}.get(kind)
        if needed and needed not in values:
            raise InputError(f"a device of type {kind} needs {needed}", where=where)
        there = have or {}
        for key, kinds in _OF_CHARACTERS.items():
            if key in values and kind not in kinds and (values[key], kind) != (there.get(key), there.get("type")):
                raise InputError(
                    f"a device of type {kind} has no {key}",
                    where=inside(where, key),
                    hint=f"Leave it out, or give one of these types: {', '.join(kinds)}",
                )
        bound = (kind, values.get("mode")) == ("udp", "bind")
        if bound and (there.get("type"), there.get("mode")) != ("udp", "bind"):
            raise InputError(
                "a device of type udp has a port that it sends to, and no mode bind",
                where=inside(where, "mode"),
                hint="Leave it out, or give type: tcp",
            )
        if kind == "tcp" or (kind == "udp" and values.get("mode") != "connect"):
            values.setdefault("host", LOOPBACK)
        if kind in ("tcp", "unix"):
            values.setdefault("mode", "bind")
        return values

    def _place_of(self, rows: Sequence[Mapping[str, t.Any]], index: int, have: Sequence[Values]) -> int | None:
        """The device at the same place, where no device comes or goes and this one remains of its kind.

        One of another kind has another source and another target.
        """
        if len(have) != len(rows):
            return None
        kinds = ((rows[index].get(key), have[index].get(key)) for key in ("type", "mode", "target_type"))
        return index if all(want in (None, there) for want, there in kinds) else None


class decimals(validators.choice):  # noqa: N801 - used like the rules beside it
    """A rule for one of a few versions, which YAML reads as a number without quotes."""

    def __call__(self, value: t.Any, where: str) -> str:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return super().__call__(str(float(value)) if number else value, where)


_ISA = "isa-serial"
_MOST_ISA = 4


@dataclass(frozen=True)
class _Serials(_Characters):
    """A machine has four places for those of the usual kind, and libvirt says so only after it has made a fifth."""

    def check(self, value: t.Any, where: str, have: t.Any = None, /) -> tuple[Values, ...]:
        rows = super().check(value, where, have)
        there = have if isinstance(have, (list, tuple)) else ()
        kinds = [
            row.get("target_type", (known or {}).get("target_type", _ISA))
            for row, known in zip_longest(rows, there[: len(rows)])
        ]
        if kinds.count(_ISA) > _MOST_ISA and not covers(there, rows):
            raise InputError(
                f"a machine has at most {_MOST_ISA} serial devices of type {_ISA}, the usual one",
                where=where,
                hint="Give the others target_type: pci-serial or usb-serial",
            )
        return rows


_OF_SERIAL = "serial"


@dataclass(frozen=True)
class _Consoles(_Characters):
    """libvirt numbers those on no serial device by their places, whatever is asked for: as they are listed, and one
    higher when it reads them again, where it has put the first serial device before them."""

    def check(self, value: t.Any, where: str, have: t.Any = None, /) -> tuple[Values, ...]:
        rows = super().check(value, where, have)
        there = have if isinstance(have, (list, tuple)) else ()
        for index, (row, known) in enumerate(zip_longest(rows, there[: len(rows)])):
            if row.get("target_type", _OF_SERIAL) == _OF_SERIAL:
                continue
            # What is compared would be asked for in each run.
            port = row.pop("target_port", index)
            if port not in (index, index + 1, (known or {}).get("target_port")):
                raise InputError(
                    "libvirt numbers the consoles by their places",
                    where=f"{where}[{index}].target_port",
                    hint="Leave it out",
                )
        return rows


_CRB = "tpm-crb"
_WITHOUT_CRB = "1.2"


@dataclass(frozen=True)
class _Tpm(DeviceField):
    """A TPM 1.2 has an older interface than a new TPM has by itself."""

    def check(self, value: t.Any, where: str, have: t.Any = None, /) -> Values | bool:
        values = super().check(value, where, have)
        if not isinstance(values, dict):
            return values
        there = have if isinstance(have, Mapping) else {"model": _CRB}
        if values.get("version", there.get("version")) != _WITHOUT_CRB:
            return values
        if values.get("model") == _CRB:
            raise InputError(
                f"a {_CRB} has no version {_WITHOUT_CRB}",
                where=inside(where, "model"),
                hint="Write tpm-tis, or version 2.0",
            )
        return {"model": "tpm-tis", **values} if there.get("model") == _CRB and "version" in values else values


_SERIAL_TARGETS = (_ISA, "usb-serial", "pci-serial", "spapr-vio-serial", "system-serial", "sclp-serial")
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
SERIALS = _Serials(
    "serials",
    "devices/serial",
    (*_CHARACTER_DEVICE, AttributeField("target_type", validators.choice(*_SERIAL_TARGETS), "target@type")),
    short="type",
)
CONSOLES = _Consoles(
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
        _Listen("listen", validators.address, "listen@address"),
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
        AttributeField("vram", _power_of_two(1024, 2**22), "model@vram"),
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
TPM = _Tpm(
    "tpm",
    "devices/tpm",
    (
        AttributeField("model", validators.choice(_CRB, "tpm-tis"), "@model"),
        AttributeField("version", decimals("1.2", "2.0"), "backend@version"),
    ),
    short="version",
    fixed=(("@model", _CRB), ("backend@type", "emulator"), ("backend@version", "2.0")),
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
    name="tag",
)
HOST_DEVICES = HostDevices("host_devices", "devices/hostdev")

# The order is that of the documentation.
DEVICES: tuple[Field, ...] = (SERIALS, CONSOLES, GRAPHICS, VIDEO, RNG, WATCHDOG, TPM, SHARED_FOLDERS, HOST_DEVICES)
