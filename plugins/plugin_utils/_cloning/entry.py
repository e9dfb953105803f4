# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The entry of a machine as the entry of its clone: what only one machine may have is left out, or refused. Pure."""

from __future__ import annotations

import copy
import hashlib
import ipaddress
import re
import shlex
import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...module_utils._base.errors import ConflictError, InputError, Mistakes, UnsupportedError, one_of_these
from ...module_utils._model.metadata.machine import ADDRESS_VARIABLES
from ...module_utils._model.spec.disk import DISK_RULES
from ...module_utils._model.spec.fields.units import parse_size_mib
from ...module_utils._model.spec.nic import FILTER_ADDRESSES

Values = dict[str, t.Any]
# The most that an image's name may have, and what it may hold.
_NAME_LENGTH = 63
_IN_IMAGE_NAME = re.compile(r"[A-Za-z0-9._-]+")
# A disk of the domain that has no name of ours, and what says that one is encrypted, as virt_spec_info words them.
_OTHER_DISK = re.compile(r"devices/disk\[([^\]]*)\] type=(?!.*\bdevice=(?:cdrom|floppy)\b)")
_ENCRYPTED = re.compile(r"devices/disk\[([^\]]*)\](?:/source)?/encryption\b")
# What a nic is plugged into: one of them, and an export has the first three. And what is said of one kind alone.
_PLUGGED = frozenset({"bridge", "network", "direct", "type", "source"})
_OF_ONE_PLUG = frozenset({"mode", "portgroup"})
# What tells a port of a switch from all others, by which the switch knows whose it is; libvirt makes a new one:
# https://libvirt.org/formatdomain.html#direct-attachment-to-physical-interface
_OF_ONE_PORT = ("interfaceid", "instanceid")
# Here somebody has made the port, and libvirt refuses a nic that does not say which (virNetDevVPortProfileCheckComplete
# in its src/util/virnetdevvportprofile.c).
_MIDONET = "midonet"
# An image has an hour (virt_image's timeout), and that of a large disk what copying takes at this rate.
_HOUR_SECONDS = 3600
_SLOW_MIB_PER_SECOND = 20
# How an export begins what it says of a disk with a name, and the options of one, as it names them.
_DISKS = "disks."
_DISK_WORDS = frozenset({*DISK_RULES, "target"})
# Devices that stay when what is in them is taken out.
_DRIVES = frozenset({"cdrom", "floppy"})


@dataclass
class CloneEntry:
    """entry: of the clone, without its hypervisor. images: by name, as virt_images has them. remarks: what the clone
    does not have as the machine has it, a line each."""

    entry: Values
    images: dict[str, Values] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)


def clone_entry(
    entry: Mapping[str, t.Any], not_exported: Sequence[str], new_name: str, nics: Mapping[str, t.Any]
) -> CloneEntry:
    """What a clone of a machine is.

    entry, not_exported: of the machine, as virt_spec_info returned them. new_name: the clone's name. nics: options of
    its nics by their names, which come before those of the machine's. Raises InputError with a line for each mistake.
    """
    name = str(entry["name"])
    clone = CloneEntry({**copy.deepcopy(dict(entry)), "name": new_name})
    # The machine is off, and new machines run.
    clone.entry.pop("state", None)
    mistakes = Mistakes()
    with mistakes.noted():
        _check_name(name)
    _check_other_disks(name, entry, not_exported, mistakes)
    seeded = (entry.get("seed") or {}).get("method") != "none"
    for disk in list(clone.entry.get("disks") or []):
        with mistakes.noted():
            if not seeded and "source" in disk and disk.get("readonly") and disk.get("device", "disk") not in _DRIVES:
                clone.entry["disks"].remove(disk)
                clone.remarks.append(f"disk {disk['name']}: left out, as {_place(disk)} may be the seed of {name}")
            else:
                _clone_disk(name, disk, clone, seeded=seeded)
    _clone_nics(name, clone, nics, mistakes)
    mistakes.conclude()
    _leave_out_what_is_one_machines(name, clone)
    _note_what_is_new(name, clone)
    # Its disks are copied as they are, from whatever image they were once created.
    clone.remarks += [f"not taken along: {line}" for line in not_exported if not line.startswith("image: ")]
    return clone


def image_of(machine: str, disk: str) -> str:
    """The name of the image that a disk is cloned by."""
    name = f"clone-of-{machine}-{disk}"
    if len(name) <= _NAME_LENGTH:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:12]
    return f"{name[: _NAME_LENGTH - len(digest) - 1]}-{digest}"


def _check_name(name: str) -> None:
    """libvirt takes names that no image of ours can have: that of a machine which was made by other means."""
    if not _IN_IMAGE_NAME.fullmatch(name):
        raise UnsupportedError(
            f"machine {name!r} cannot be cloned: its disks become images with its name, and the name of an image has "
            "only letters, digits, dots, dashes and underscores",
            where="vm",
            hint=f"Rename it first: virsh domrename {shlex.quote(name)} NEW-NAME",
        )


def _check_other_disks(name: str, entry: Mapping[str, t.Any], not_exported: Sequence[str], mistakes: Mistakes) -> None:
    """A clone without one of the machine's disks would be no clone."""
    named = [str(disk["name"]) for disk in entry.get("disks") or []]
    lines = [line[len(_DISKS) :].partition(": ") for line in not_exported if line.startswith(_DISKS)]
    disks = [*named, *(word for word, _colon, _why in lines)]
    for line in not_exported:
        with mistakes.noted():
            other, encrypted = _OTHER_DISK.match(line), _ENCRYPTED.match(line)
            if encrypted:
                raise UnsupportedError(f"disk {encrypted[1]} of machine {name} is encrypted, and an image is not")
            if other:
                raise UnsupportedError(
                    f"disk {other[1]} of machine {name} cannot be described in an entry of virt_vms",
                    hint=f"Detach it first: virsh detach-disk {name} {other[1]} --config",
                )
            if not line.startswith(_DISKS):
                continue
            disk, _colon, why = line[len(_DISKS) :].partition(": ")
            # Dots are allowed in a name: `data.log` is a disk, and `data.cache` an option of the disk `data`.
            if disk in named or any(_is_option(disk, of) for of in disks):
                continue
            details = {word[len(disk) + 1 :]: text for word, _colon, text in lines if _is_option(word, disk)}
            why = why or "; ".join(f"{word}: {text}" for word, text in details.items())
            raise UnsupportedError(
                f"disk {disk} of machine {name} cannot be cloned: {why or 'an entry cannot describe it'}",
                hint="Grow it to one first: virsh vol-resize" if "size" in details else None,
            )


def _is_option(word: str, disk: str) -> bool:
    """Whether an export's word stands for an option of the disk, and not for another disk with a dot in its name."""
    return word.startswith(f"{disk}.") and word[len(disk) + 1 :].partition(".")[0] in _DISK_WORDS


def _clone_disk(name: str, disk: Values, clone: CloneEntry, *, seeded: bool) -> None:
    """seeded: whether the machine's seed is one of ours; that of another's making is in a drive as a rule."""
    kind = disk.get("device", "disk")
    if "source" in disk:
        if kind in _DRIVES and not seeded:
            clone.remarks.append(f"disk {disk['name']}: an empty drive, as {_place(disk)} may be the seed of {name}")
            for word in ("source", "pool", "format"):
                disk.pop(word, None)
            return
        if kind != "cdrom" and not disk.get("readonly"):
            # brine.virt.adopt takes no floppies.
            own = f"Make it its own with brine.virt.adopt -e vm={name} -e disks=TARGET, or take it out first"
            raise ConflictError(
                f"disk {disk['name']} of machine {name} is {_place(disk)}, which is not its own, and its clone"
                " would write to it as well",
                hint="Take the floppy out first" if kind == "floppy" else own,
            )
        clone.remarks.append(f"disk {disk['name']}: {_place(disk)}, as {name} has it")
        return
    if kind != "disk":
        return
    for word in ("image", "backing"):
        disk.pop(word, None)
    disk["image"] = image_of(name, str(disk["name"]))
    clone.images[disk["image"]] = {"machine": name, "disk": str(disk["name"])}
    seconds = parse_size_mib(disk["size"]) // _SLOW_MIB_PER_SECOND if disk.get("size") else 0
    if seconds > _HOUR_SECONDS:
        clone.images[disk["image"]]["timeout"] = seconds
    clone.remarks.append(f"disk {disk['name']}: image {disk['image']}")


def _place(disk: Mapping[str, t.Any]) -> str:
    source = str(disk["source"])
    return source if "/" in source else f"{disk.get('pool', 'default')}/{source}"


def _clone_nics(name: str, clone: CloneEntry, given: Mapping[str, t.Any], mistakes: Mistakes) -> None:
    nics = {str(nic["name"]): nic for nic in clone.entry.get("nics") or []}
    # YAML reads the name 0 as a number.
    given = {str(word): options for word, options in given.items()}
    # An address of the machine stays its own, also on another nic of the clone.
    taken = {address for nic in nics.values() for address in _plain(nic.get("addresses"))}
    for word, options in given.items():
        with mistakes.noted():
            if word not in nics:
                raise InputError(f"machine {name} has no nic {word!r}", where="nics", hint=one_of_these(word, nics))
            if not isinstance(options, Mapping) or "name" in options:
                raise InputError(
                    f"{options!r} is not a mapping of options", where=f"nics.{word}", hint="Give {addresses: [...]}"
                )
    for word, nic in nics.items():
        with mistakes.noted():
            options = given.get(word)
            _clone_nic(name, nic, options if isinstance(options, Mapping) else {}, taken, clone)


def _clone_nic(name: str, nic: Values, options: Mapping[str, t.Any], taken: set[str], clone: CloneEntry) -> None:
    """A nic with addresses of its own, MAC address included, which follows from the clone's name.

    taken: the addresses of all nics of the machine.
    """
    where = f"nics.{nic['name']}"
    there = nic.pop("addresses", [])
    if there and options.get("addresses") is None:
        example = f'{{"nics": {{"{nic["name"]}": {{"addresses": ["192.0.2.20/24"], "gateway": "192.0.2.1"}}}}}}'
        raise ConflictError(
            f"machine {name} has {', '.join(map(str, there))} there, and two machines cannot have one address",
            where=where,
            hint=f"Say which one its clone gets, with gateway and nameservers: -e '{example}'; with no addresses ([])"
            " it asks DHCP",
        )
    wanted = options.get("addresses", [])
    same = _plain([wanted] if isinstance(wanted, str) else wanted) & taken
    if same:
        raise ConflictError(
            f"{', '.join(sorted(same))} is the address of machine {name}",
            where=f"{where}.addresses",
            hint="Give its clone another one",
        )
    _check_own_device(name, nic, options, where)
    nic.pop("mac", None)
    if "filter" not in options:
        _clone_filter(name, nic, there, clone)
    port = nic.get("virtualport")
    if isinstance(port, dict) and port.get("type") == _MIDONET and "virtualport" not in options:
        example = f'{{"nics": {{"{nic["name"]}": {{"virtualport": {{"type": "midonet", "interfaceid": "UUID"}}}}}}}}'
        raise ConflictError(
            f"machine {name} has the port {port.get('interfaceid')} of its midonet there",
            where=where,
            hint=f"Say which one its clone gets: -e '{example}'",
        )
    for word in _OF_ONE_PORT:
        if isinstance(port, dict) and "virtualport" not in options and port.pop(word, None) is not None:
            clone.remarks.append(f"{where}.virtualport.{word}: left out, as it is {name}'s")
    if not _PLUGGED.isdisjoint(options):
        for word in (_PLUGGED | _OF_ONE_PLUG) & set(nic):
            del nic[word]
    nic.update({key: value for key, value in options.items() if (key, value) != ("addresses", [])})


def _check_own_device(name: str, nic: Values, options: Mapping[str, t.Any], where: str) -> None:
    """Who starts second is refused a device that another machine has to itself, and that may be the machine."""
    device = nic.get("direct")
    again = _PLUGGED.isdisjoint(options) or device in (options.get("direct"), options.get("source"))
    if nic.get("mode") == "passthrough" and again:
        example = f'{{"nics": {{"{nic["name"]}": {{"direct": "eno2", "mode": "passthrough"}}}}}}'
        raise ConflictError(
            f"machine {name} has the device {device} to itself",
            where=where,
            hint=f"Say what its clone is plugged into: -e '{example}', or bridge, or network",
        )


def _clone_filter(name: str, nic: Values, addresses: t.Any, clone: CloneEntry) -> None:
    """The filter without the addresses that it lets through, by which the clone could send as the machine and not as
    itself. Without them libvirt learns the clone's from what it sends first."""
    rule = nic.get("filter")
    parameters = rule.get("parameters") if isinstance(rule, dict) else None
    if not isinstance(rule, dict) or not isinstance(parameters, Mapping):
        return
    values = {key: row.get("value") if isinstance(row, Mapping) else row for key, row in parameters.items()}
    own = sorted(key for key in values if key in FILTER_ADDRESSES or _plain([values[key]]) & _plain(addresses))
    if not own:
        return
    rule["parameters"] = {key: row for key, row in parameters.items() if key not in own}
    if not rule["parameters"]:
        del rule["parameters"]
    clone.remarks.append(f"nics.{nic['name']}.filter: {', '.join(own)} left out, as they are {name}'s")


def _plain(addresses: t.Any) -> set[str]:
    """Addresses without their prefix lengths; what is none is for provision to name."""
    found = set()
    for address in addresses if isinstance(addresses, (list, tuple)) else []:
        try:
            found.add(str(ipaddress.ip_interface(str(address)).ip))
        except ValueError:
            continue
    return found


def _leave_out_what_is_one_machines(name: str, clone: CloneEntry) -> None:
    entry = clone.entry
    if entry.pop("host_devices", None):
        clone.remarks.append(f"host_devices: left out, as they are {name}'s")
    for key in ("serials", "consoles"):
        # A device may be a type alone.
        rows = [row if isinstance(row, Mapping) else {"type": row} for row in entry.get(key) or ()]
        if not rows:
            continue
        entry[key] = [_without_log(row) for row in rows if not {"path", "port"} & set(row)]
        if entry[key] != rows:
            clone.remarks.append(f"{key}: those with a port or a file are left out, as these are {name}'s")
        if not entry[key]:
            del entry[key]
    graphics = entry.get("graphics")
    if isinstance(graphics, dict):
        for key in ("port", "tls_port", "websocket"):
            if isinstance(graphics.get(key), int) and graphics[key] > 0:
                clone.remarks.append(f"graphics.{key}: left out, as {graphics.pop(key)} is {name}'s")
    variables = entry.get("variables") or {}
    for key in ADDRESS_VARIABLES:
        if key in variables:
            clone.remarks.append(f"variables.{key}: left out, as {variables.pop(key)} is {name}'s")


def _without_log(row: Mapping[str, t.Any]) -> Values:
    """A serial device without the file that it is recorded in."""
    return {key: value for key, value in row.items() if key != "log"}


def _note_what_is_new(name: str, clone: CloneEntry) -> None:
    for folder in clone.entry.get("shared_folders") or []:
        if not folder.get("readonly"):
            clone.remarks.append(f"shared_folders: {folder['source']}, to which {name} writes as well")
    if clone.entry.get("tpm"):
        clone.remarks.append(f"tpm: a new one; what {name} keeps in its own is not in there")
    if clone.entry.get("firmware") == "efi":
        clone.remarks.append("firmware: with new EFI variables")
    if (clone.entry.get("seed") or {}).get("method") == "none":
        clone.remarks.append(
            f"seed: {name} has none, so that the clone gets none, and its guest chooses its host name and SSH host keys"
        )
