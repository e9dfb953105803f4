# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What we remember of a machine: an element of our own namespace inside libvirt's domain metadata.

There is no other memory. The element travels with the domain when it migrates and goes when it is undefined.
libvirt's rule for such elements: one top-level element a namespace
(https://libvirt.org/formatdomain.html#general-metadata).
"""

from __future__ import annotations

import json
import math
import re
import typing as t
from dataclasses import dataclass, field, replace

from ..._base.xml import attribute, etree

NAMESPACE = "urn:brine:virt:1"
PREFIX = "brine"

# Variables by which Ansible would take another machine for this one.
ADDRESS_VARIABLES = ("ansible_host", "ansible_ssh_host")
BUILDING = "building"
READY = "ready"
_REPLACED = "replaced"
# Python reads no number of thousands of digits from a text.
_MOST_DIGITS = 30
# More, which nobody could have asked for, is nonsense, and nobody waits for it.
_MOST_DELAY_SECONDS = 3600
# The same of an order, which no task could ask for, and which an export could not give back.
_MOST_ORDER = 9999
# Variables in variables beyond this would be too much for Ansible's own recursion.
_MOST_LEVELS = 50
# Ansible takes a mapping with such a key for a value of a type of its own wherever it reads JSON, its caches included:
# for a text that is a template, for one.
_ANSIBLE_TYPE = "__ansible_"


@dataclass(frozen=True)
class ImageNote:
    """The stored image that a disk of the machine was made from, the first one that was made from any.

    disk: our name of that disk; empty in notes of versions that did not write it, where nearly always it was the first.
    """

    name: str
    volume: str
    pool: str
    disk: str = ""


@dataclass(frozen=True)
class CreationNote:
    """What tells a volume that is being made from another one of its name.

    mark: a word that only this volume gets, written on it or into it as soon as it is there. size_bytes, backing: its
    size for the guest, None where that is not known beforehand, and the path of what it is laid on, empty for nothing:
    as it is before anything is written to it.
    """

    mark: str
    size_bytes: int | None = None
    backing: str = ""


@dataclass(frozen=True)
class VolumeNote:
    """A volume that was made for this machine and belongs to nobody else; role is ``disk`` or ``seed``.

    building: it is for a disk that is being added to a machine which is there already, and may not be whole yet.
    format: ``raw`` or ``qcow2``, as it was made; None in notes of versions that did not write it. What stands in the
    volume is the guest's doing and says nothing.
    making: as long as it, or its machine, may not be whole yet; None in notes of versions that did not write it.
    identity: the mark that a whole volume still has since it was made; empty where nobody knows it, as in notes of
    versions that did not write it, and of a volume that a move has made.
    replaced: a disk of a backup has come in its place; it is still to be deleted, and the machine's definition names it
    no more.
    """

    pool: str
    name: str
    role: str
    building: bool = False
    format: str | None = None
    making: CreationNote | None = None
    identity: str = ""
    replaced: bool = False

    @property
    def whole(self) -> VolumeNote:
        """The note of this volume when all is made."""
        identity = self.identity if self.making is None else self.making.mark
        return replace(self, building=False, making=None, identity=identity)


@dataclass(frozen=True)
class DiskNote:
    """Our name of a disk and the target device (``vda``) it has in the domain."""

    name: str
    target: str


@dataclass(frozen=True)
class NicNote:
    """Our name of a nic, its MAC address, and the static addresses (CIDR) that its seed gives it."""

    name: str
    mac: str
    addresses: tuple[str, ...] = ()


@dataclass(frozen=True)
class SeedNote:
    """How the machine was seeded, the hash of what went in, and the user that Ansible logs in as."""

    method: str
    sha256: str
    user: str | None = None


@dataclass(frozen=True)
class MachineNotes:
    """All that the metadata element says.

    status is ``building`` until every volume stands and the seed is written, then ``ready``: a run that finds
    ``building`` knows that an earlier one was cut off, and that ``volumes`` lists all that it may have made. claimed:
    only the name is taken; whether the machine is made here is not decided before all hypervisors have been asked for
    the name. fragment is the hash of the XML that the user had merged in. order, delay_seconds: when the machine starts
    among others, None for after them, and how long whoever starts them waits before the next ones. started: of one that
    is being made, the last start of a machine of this name when it was defined, as start_watch.last_start has it; None
    where an earlier version has not noted it.
    """

    status: str = READY
    claimed: bool = False
    image: ImageNote | None = None
    volumes: tuple[VolumeNote, ...] = ()
    disks: tuple[DiskNote, ...] = ()
    nics: tuple[NicNote, ...] = ()
    tags: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    anti_affinity: tuple[str, ...] = ()
    variables: dict[str, t.Any] = field(default_factory=dict)
    seed: SeedNote | None = None
    host_keys: tuple[str, ...] = ()
    fragment: str | None = None
    order: int | None = None
    delay_seconds: int = 0
    started: str | None = None


def _tag(name: str) -> str:
    return f"{{{NAMESPACE}}}{name}"


def notes_to_element(notes: MachineNotes) -> etree._Element:
    """The metadata element of these notes; lxml escapes every text."""
    root = etree.Element(_tag("machine"), nsmap={PREFIX: NAMESPACE}, status=notes.status)
    if notes.claimed:
        root.set("claimed", "yes")
    if notes.started is not None and notes.status == BUILDING:
        root.set("started", notes.started)
    if notes.image:
        image = notes.image
        element = etree.SubElement(root, _tag("image"), name=image.name, volume=image.volume, pool=image.pool)
        if image.disk:
            element.set("disk", image.disk)
    for volume in notes.volumes:
        element = etree.SubElement(root, _tag("volume"), pool=volume.pool, name=volume.name, role=volume.role)
        if volume.building:
            element.set("status", BUILDING)
        elif volume.replaced:
            element.set("status", _REPLACED)
        if volume.format:
            element.set("format", volume.format)
        _write_making(element, volume.making)
        if volume.identity:
            element.set("identity", volume.identity)
    for disk in notes.disks:
        etree.SubElement(root, _tag("disk"), name=disk.name, target=disk.target)
    for nic in notes.nics:
        element = etree.SubElement(root, _tag("nic"), name=nic.name, mac=nic.mac)
        for address in nic.addresses:
            etree.SubElement(element, _tag("address")).text = address
    for kind, texts in (("tag", notes.tags), ("label", notes.labels), ("antiaffinity", notes.anti_affinity)):
        for text in texts:
            etree.SubElement(root, _tag(kind)).text = text
    if notes.variables:
        etree.SubElement(root, _tag("variables")).text = json.dumps(notes.variables, sort_keys=True)
    if notes.seed:
        seed = etree.SubElement(root, _tag("seed"), method=notes.seed.method, sha256=notes.seed.sha256)
        if notes.seed.user:
            seed.set("user", notes.seed.user)
    if notes.fragment:
        etree.SubElement(root, _tag("fragment"), sha256=notes.fragment)
    if notes.order is not None or notes.delay_seconds:
        start = etree.SubElement(root, _tag("start"))
        if notes.order is not None:
            start.set("order", str(notes.order))
        if notes.delay_seconds:
            start.set("delay", str(notes.delay_seconds))
    for key in notes.host_keys:
        etree.SubElement(root, _tag("hostkey")).text = key
    return root


def notes_to_bare_xml(notes: MachineNotes) -> str:
    """The metadata element as virDomainSetMetadata wants it: without the namespace, which libvirt puts in by itself and
    would not have twice (virXMLInjectNamespace in its src/util/virxml.c)."""
    root = notes_to_element(notes)
    for element in root.iter():
        element.tag = etree.QName(element).localname
    etree.cleanup_namespaces(root)
    return etree.tostring(root, encoding="unicode")


def find_notes(domain: etree._Element) -> list[etree._Element]:
    """Our own elements in a parsed ``<domain>`` element."""
    return domain.findall(f"metadata/{_tag('machine')}")


def read_notes(domain: etree._Element) -> MachineNotes | None:
    """The notes in a parsed ``<domain>`` element; None for a machine that is not ours."""
    found = find_notes(domain)
    return notes_from_element(found[0]) if found else None


def notes_from_element(root: etree._Element) -> MachineNotes:
    """The notes in our own element; what a newer version of the collection may have added is passed over."""
    image = root.find(_tag("image"))
    seed = root.find(_tag("seed"))
    status = root.get("status", READY)
    return MachineNotes(
        status=status,
        claimed=root.get("claimed") == "yes",
        image=None
        if image is None
        else ImageNote(image.get("name", ""), image.get("volume", ""), image.get("pool", ""), image.get("disk", "")),
        volumes=tuple(
            VolumeNote(
                v.get("pool", ""),
                v.get("name", ""),
                v.get("role", "disk"),
                v.get("status") == BUILDING,
                v.get("format") or None,
                # What a run has left counts no more when somebody has kept the machine as it is.
                _read_making(v) if BUILDING in (status, v.get("status")) else None,
                v.get("identity", ""),
                v.get("status") == _REPLACED,
            )
            for v in root.iterfind(_tag("volume"))
        ),
        disks=tuple(DiskNote(d.get("name", ""), d.get("target", "")) for d in root.iterfind(_tag("disk"))),
        nics=tuple(
            NicNote(n.get("name", ""), n.get("mac", ""), tuple(a.text or "" for a in n.iterfind(_tag("address"))))
            for n in root.iterfind(_tag("nic"))
        ),
        tags=_texts(root, "tag"),
        labels=_texts(root, "label"),
        anti_affinity=_texts(root, "antiaffinity"),
        variables=_variables(root.find(_tag("variables"))),
        seed=None if seed is None else SeedNote(seed.get("method", ""), seed.get("sha256", ""), seed.get("user")),
        host_keys=_texts(root, "hostkey"),
        fragment=attribute(root, _tag("fragment"), "sha256"),
        order=_order(attribute(root, _tag("start"), "order")),
        delay_seconds=_delay(attribute(root, _tag("start"), "delay")),
        started=root.get("started") if status == BUILDING else None,
    )


def _write_making(element: etree._Element, making: CreationNote | None) -> None:
    if making is None:
        return
    element.set("mark", making.mark)
    if making.size_bytes is not None:
        element.set("size", str(making.size_bytes))
    if making.backing:
        element.set("backing", making.backing)


def _read_making(element: etree._Element) -> CreationNote | None:
    mark = element.get("mark")
    return CreationNote(mark, _count(element.get("size")), element.get("backing", "")) if mark else None


def _count(text: str | None) -> int | None:
    """A whole number; None where there is none, or somebody's hand has left nonsense."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else None


def _order(text: str | None) -> int | None:
    order = _count(text)
    return order if order is not None and order <= _MOST_ORDER else None


def _delay(text: str | None) -> int:
    seconds = _count(text) or 0
    return seconds if seconds <= _MOST_DELAY_SECONDS else 0


def _texts(root: etree._Element, kind: str) -> tuple[str, ...]:
    return tuple(element.text or "" for element in root.iterfind(_tag(kind)))


def _variables(element: etree._Element | None) -> dict[str, t.Any]:
    """The machine's variables; somebody's hand may have been in the metadata, so nonsense counts as none."""
    try:
        loaded = json.loads(element.text or "{}", parse_constant=_refuse) if element is not None else {}
    except (ValueError, RecursionError):
        return {}
    return loaded if isinstance(loaded, dict) and _is_plain(loaded) else {}


# Half of a character, which JSON can say and UTF-8 cannot.
_SURROGATE = re.compile("[\ud800-\udfff]")


def can_be_noted(variables: dict[str, t.Any]) -> bool:
    """Whether variables are read from the metadata again: one that is not takes all others with it."""
    try:
        return _is_plain(json.loads(json.dumps(variables, default=str), parse_constant=_refuse))
    except (TypeError, ValueError, RecursionError):
        return False


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _is_plain(value: t.Any, levels: int = _MOST_LEVELS) -> bool:
    """Whether a value from JSON is only a value, wherever it goes: also into UTF-8, and into JSON again."""
    if isinstance(value, str):
        return not _SURROGATE.search(value)
    if not isinstance(value, (dict, list)):
        return not isinstance(value, float) or math.isfinite(value)
    if isinstance(value, dict) and any(key.startswith(_ANSIBLE_TYPE) or _SURROGATE.search(key) for key in value):
        return False
    items = value.values() if isinstance(value, dict) else value
    return levels > 0 and all(_is_plain(item, levels - 1) for item in items)
