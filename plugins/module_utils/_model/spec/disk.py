# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The spec for a disk: its words, their checks, and where the plain ones stand in libvirt's XML."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..._base.errors import InputError
from .fields import validators
from .fields.given import GivenOptions
from .fields.table import AttributeField, Field, FlagField, TextField, rules_beside
from .fields.units import parse_capacity_mib
from .names import pool_name
from .seed import DEFAULT_POOL

# The bus that each kind of device is on unless the spec says otherwise, and what it is called there.
DEFAULT_MODELS = {"disk": "virtio", "lun": "virtio", "cdrom": "sata", "floppy": "fdc"}
TARGET_PREFIXES = {"virtio": "vd", "scsi": "sd", "sata": "sd", "usb": "sd", "fdc": "fd"}
# Devices whose medium can be changed, and be missing.
REMOVABLE = ("cdrom", "floppy")
# The source of a drive that is to be empty.
NO_MEDIUM = "none"
_SERIAL = r"(?=.*[^ ])[A-Za-z0-9_ .+-]{1,36}"
# virtio-blk shows a guest at most this much of a serial number.
SERIAL_LENGTH = 20


@dataclass(frozen=True)
class Backing:
    """A volume that an overlay is laid on. pool: the disk's own unless named; format None: nobody said."""

    volume: str
    pool: str
    format: str | None = None


@dataclass(frozen=True)
class Disk:
    """One disk.

    size_mib None: as large as its image. format and clone None: what the pool does best. wipe: whether
    a new volume is rid of what volumes that were deleted have left where it lies. source: an existing volume of
    the pool, a path or an address, which is used as it is. present False: it is to be taken out of the machine.
    options: what stands in the XML as it was written, by the fields of DISK_OPTIONS. given: where all this comes from.
    """

    name: str
    size_mib: int | None = None
    format: str | None = None
    model: str = "virtio"
    pool: str = DEFAULT_POOL
    image: str | None = None
    clone: str | None = None
    wipe: bool = True
    device: str = "disk"
    source: str | None = None
    backing: Backing | None = None
    present: bool = True
    options: dict[str, t.Any] = field(default_factory=dict)
    given: GivenOptions = field(default=GivenOptions({}), compare=False, repr=False)

    @property
    def made(self) -> bool:
        """Whether the disk is a volume that is made for this machine."""
        return self.present and self.source is None and self.device not in REMOVABLE

    @property
    def pools(self) -> tuple[str, ...]:
        """The storage pools that the disk needs; none for an empty drive, a path and an address."""
        if self.made:
            return (self.pool, self.backing.pool) if self.backing else (self.pool,)
        by_name = self.present and self.source not in (None, NO_MEDIUM) and "/" not in str(self.source)
        return (self.pool,) if by_name else ()


# Lines below <disk>.
DISK_OPTIONS: tuple[Field, ...] = (
    AttributeField("io", validators.choice("native", "threads", "io_uring"), "driver@io"),
    AttributeField(
        "cache",
        validators.choice("default", "none", "writethrough", "writeback", "directsync", "unsafe"),
        "driver@cache",
    ),
    AttributeField("discard", validators.choice("unmap", "ignore"), "driver@discard"),
    AttributeField("detect_zeroes", validators.choice("off", "on", "unmap"), "driver@detect_zeroes"),
    AttributeField("iothread", validators.whole_number(1, 4096), "driver@iothread"),
    # One of blanks alone would be read as none, and be written by each run.
    TextField(
        "serial", validators.pattern(r"(?=.*[^ ])[A-Za-z0-9_ .+-]{1,36}", "a serial number", "WD-1234"), "serial"
    ),
    AttributeField("boot_order", validators.whole_number(1, 4096), "boot@order"),
    FlagField("readonly", "readonly"),
    FlagField("shareable", "shareable"),
)


_FORMAT = validators.choice("qcow2", "raw")


class _bus(validators.choice):  # noqa: N801 - used like the rules beside it
    """A rule for the bus of a disk."""

    def __call__(self, value: t.Any, where: str) -> str:
        if value == "ide":
            raise InputError(
                "disks on an IDE bus are not supported, as machines of type q35 have none",
                where=where,
                hint="Write sata for a cdrom, or leave model out; for a disk virtio is best",
            )
        return super().__call__(value, where)


BACKING_RULES: dict[str, validators.Rule] = {"volume": validators.text, "pool": pool_name, "format": _FORMAT}


def _backing(value: t.Any, where: str) -> dict[str, t.Any]:
    if not isinstance(value, Mapping):
        return {"volume": validators.text(value, where)}
    clean = validators.read_mapping(value, where, BACKING_RULES)
    if "volume" not in clean:
        raise InputError("the backing volume has no name", where=where, hint="Set volume: NAME")
    return clean


DISK_RULES: dict[str, validators.Rule] = {
    "size": parse_capacity_mib,
    "format": _FORMAT,
    "model": _bus(*TARGET_PREFIXES),
    "pool": pool_name,
    "image": validators.text,
    "clone": validators.choice("overlay", "copy"),
    "wipe": validators.yes_or_no,
    "backing": _backing,
    "source": validators.text,
    "device": validators.choice(*DEFAULT_MODELS),
    "state": validators.choice("present", "absent"),
    **{field.key: field.check for field in DISK_OPTIONS},
}
ORIGINS = ("image", "source", "backing")


def read_disk(device: GivenOptions, have: Mapping[str, t.Any] | None = None) -> Disk:
    """A disk out of its profile and overrides, the machine's own image and way of cloning among them.

    have: the disk as the machine has it, None for a new one. What is the same is accepted, whatever it is, and what is
    not named stays as it is.
    """
    there = have or {}
    given = device.read(rules_beside(DISK_RULES, DISK_OPTIONS, have))
    kind = given.setdefault("device", there.get("device", "disk"))
    given.setdefault("model", there.get("model", DEFAULT_MODELS[kind]))
    given["size_mib"] = given.pop("size", None)
    given["present"] = given.pop("state", "present") == "present"
    given["options"] = {field.key: given.pop(field.key) for field in DISK_OPTIONS if field.key in given}
    _check_origin(given, device)
    _check_kind(given, device, have)
    _check_cache(given, device, there)
    return Disk(name=device.name, given=device, **given)


def _check_origin(given: dict[str, t.Any], device: GivenOptions) -> None:
    """Where the disk's content comes from: one of image, source and backing, or nowhere for an empty disk."""
    named = [device.word(word) for word in ORIGINS if word in given]
    if len(named) > 1:
        raise InputError(
            f"the disk has {' and '.join(named)} at once",
            where=device.place,
            hint="Its content can come from one place only",
        )
    if "image" in given and given.get("format") == "raw" and given.get("clone") == "overlay":
        raise InputError(
            f"a raw disk cannot be an overlay on an image, as {device.at('clone')} says",
            where=device.at("format"),
            hint="Set clone: copy, or format: qcow2; in a pool of type rbd, leave both out",
        )
    if "backing" in given:
        given["backing"] = Backing(**{"pool": given.get("pool", DEFAULT_POOL), **given["backing"]})
        for key, wrong in (("format", "raw"), ("clone", "copy")):
            if given.get(key) == wrong:
                raise InputError("a disk with a backing volume is a qcow2 overlay", where=device.at(key))


def _check_cache(given: Mapping[str, t.Any], device: GivenOptions, there: Mapping[str, t.Any]) -> None:
    """QEMU reads and writes past the host's cache with io native (qemuValidateDomainDeviceDefDiskFrontend)."""
    asked = {key: given["options"].get(key, there.get(key)) for key in ("io", "cache")}
    if asked["io"] != "native" or asked["cache"] in ("none", "directsync") or not given["present"]:
        return
    if asked != {key: there.get(key) for key in asked}:
        raise InputError(
            "io native needs cache none or directsync",
            where=device.at("io" if "io" in given["options"] else "cache"),
            hint="Set cache: none, or leave io out",
        )


def _check_kind(given: Mapping[str, t.Any], device: GivenOptions, have: Mapping[str, t.Any] | None) -> None:
    """What is no disk of its own has no size and no image; a new disk has one of them."""
    if not given["present"]:
        return
    kind, origin = given["device"], next((word for word in ORIGINS if word in given), None)
    same_place = have is not None and all(given[word] == have.get(word) for word in ("device", "model"))
    if (kind == "floppy") != (given["model"] == "fdc") and not same_place:
        raise InputError(
            f"a {kind} cannot be on {given['model']}",
            where=device.at("model" if "model" in device.values else "device"),
        )
    if kind == "cdrom" and given["options"].get("readonly") is False and (have or {}).get("readonly") is not False:
        raise InputError("a cdrom is always readonly", where=device.at("readonly"), hint="Leave it out")
    if kind in REMOVABLE or kind == "lun":
        for key in ("size", "image", "backing", "clone"):
            if given.get("size_mib" if key == "size" else key) is not None:
                raise InputError(
                    f"a {kind} has no {device.word(key)}",
                    where=device.at(key),
                    hint="Leave it out" if "source" in given else "Name a source",
                )
        medium = given.get("source", (have or {}).get("source")) not in (None, NO_MEDIUM)
        if given["model"] == "usb" and kind == "cdrom" and not medium and (have is None or have.get("source")):
            raise InputError(
                "a cdrom on usb cannot be empty",
                where=device.at("source" if "source" in given else "model"),
                hint="Name a source, or write sata as its model",
            )
        if kind == "lun" and origin is None and have is None:
            raise InputError("a lun needs a source", where=device.place)
        return
    if given.get("source") == NO_MEDIUM:
        raise InputError("only a cdrom or floppy can be empty", where=device.at("source"))
    if origin == "source" and given["size_mib"] is not None:
        raise InputError(
            f"a disk with a {device.word('source')} has the size of that volume",
            where=device.at("size"),
            hint="Leave size out; this collection does not change volumes that it did not create",
        )
    if origin is None and given["size_mib"] is None and have is None:
        raise InputError(
            f"disk {device.name!r} has neither a size nor an image",
            where=device.place,
            hint="Set size: 8GiB, for example",
        )
