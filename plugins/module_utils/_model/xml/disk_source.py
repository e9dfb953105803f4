# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a machine's ``<disk>`` needs to find its volume and to read it: where its bytes are, and in which format. These
bytes, which its guest may have written, never say that themselves.

https://libvirt.org/formatdomain.html#hard-drives-floppy-disks-cdroms
"""

from __future__ import annotations

import posixpath
import typing as t
from dataclasses import dataclass, replace

from ..._base.xml import attribute, etree, need
from ..metadata.machine import VolumeNote

FILE, BLOCK, NETWORK = "file", "block", "network"
RAW, QCOW2 = "raw", "qcow2"
_BY_ENDING = {".raw": RAW, ".iso": RAW, ".qcow2": QCOW2}
_PATH_ATTRIBUTE = {FILE: "file", BLOCK: "dev"}
# What of a source goes with the bytes, wherever they lie: the key that they are encrypted with, their labels, the part
# of a file that is the disk.
_OF_THE_CONTENT = ("encryption", "seclabel", "slices", "snapshot")
# Of these, each of several servers leads to all that there is.
_ANY_SERVER = ("rbd", "gluster", "iscsi")
# A host and its port; without a port it is the protocol's own.
SourceHost = tuple[str, "int | None"]


@dataclass(frozen=True)
class DiskSource:
    """Where the bytes of a disk are.

    type: ``file`` and ``block`` have a path. ``network`` has a protocol (``rbd``, ``gluster``, ``iscsi``), the name
    that it has for the volume, and hosts; the user and the secret (which libvirt keeps) where it asks for them; and for
    iSCSI the name that the hypervisor goes by.
    """

    type: str
    path: str = ""
    protocol: str | None = None
    name: str | None = None
    hosts: tuple[SourceHost, ...] = ()
    auth_user: str | None = None
    auth_type: str | None = None
    secret_uuid: str | None = None
    secret_usage: str | None = None
    initiator: str | None = None

    @property
    def place(self) -> str:
        """The place in one word, to tell sources apart: the path, or ``protocol:name``."""
        return f"{self.protocol}:{self.name}" if self.type == NETWORK else self.path

    def is_apart(self, other: DiskSource) -> bool:
        """Whether two network places are of different clusters, which may have pools of one name, by their hosts."""
        # The name of an iSCSI target is the only one of its kind, and it may be reached in several ways.
        if self.protocol == "iscsi":
            return False
        ours, theirs = ({name for name, _port in source.hosts} for source in (self, other))
        return bool(ours and theirs) and ours.isdisjoint(theirs)

    def leads_to(self, other: DiskSource | None) -> bool:
        """Whether another one is the same place, by whichever of its servers and as whichever user it is reached."""
        if other is None or self == other:
            return self == other
        return self.protocol in _ANY_SERVER and self.place == other.place and not self.is_apart(other)

    def move(self, disk: etree._Element) -> None:
        """Make this the place of what is the source of a ``<disk>`` now: what belongs to its content stays."""
        old = disk.find("source")
        self._renew(disk)
        new = need(disk, "source")
        if old is not None:
            new.attrib.update({name: value for name, value in old.attrib.items() if name == "startupPolicy"})
            new.extend([child for child in old if child.tag in _OF_THE_CONTENT])

    def write(self, disk: etree._Element) -> None:
        """Make this the source of a ``<disk>``: the attribute ``type`` and the child ``<source>``.

        They are recreated, unless they say the same already.
        """
        if DiskSource.read(disk) != self:
            self._renew(disk)

    def _renew(self, disk: etree._Element) -> None:
        for old in [*disk.findall("source"), *disk.findall("auth")]:
            disk.remove(old)
        disk.set("type", self.type)
        source = etree.SubElement(disk, "source")
        if self.type != NETWORK:
            source.set(_PATH_ATTRIBUTE[self.type], self.path)
            return
        source.set("protocol", self.protocol or "")
        source.set("name", self.name or "")
        for name, port in self.hosts:
            host = etree.SubElement(source, "host", name=name)
            if port is not None:
                host.set("port", str(port))
        if self.auth_user is not None:
            auth = etree.SubElement(source, "auth", username=self.auth_user)
            _write_secret(auth, self)
        if self.initiator is not None:
            etree.SubElement(etree.SubElement(source, "initiator"), "iqn", name=self.initiator)

    @classmethod
    def read(cls, disk: etree._Element) -> DiskSource | None:
        """The source of a ``<disk>``.

        None for an empty drive, and for the kinds that are no volume's own place (``type='volume'``, a directory, a
        network host behind a socket).
        """
        source, kind = disk.find("source"), disk.get("type", FILE)
        if source is None:
            return None
        if kind in _PATH_ATTRIBUTE:
            path = source.get(_PATH_ATTRIBUTE[kind])
            return cls(kind, path) if path else None
        if kind != NETWORK or any(host.get("name") is None for host in source.iterfind("host")):
            return None
        # Domains from before libvirt 3.9 have it beside the source.
        auth = source.find("auth")
        auth = disk.find("auth") if auth is None else auth
        return network_source(source, auth, source.get("protocol"), source.get("name"))


def _write_secret(auth: etree._Element, source: DiskSource) -> None:
    secret = etree.SubElement(auth, "secret")
    for key, value in (("type", source.auth_type), ("uuid", source.secret_uuid), ("usage", source.secret_usage)):
        if value is not None:
            secret.set(key, value)


def network_source(
    source: etree._Element, auth: etree._Element | None, protocol: str | None, name: str | None
) -> DiskSource:
    """A place in network storage, from the ``<source>`` of a disk or of a pool, and the ``<auth>`` that belongs to it.

    Hosts and initiator stand in the same words in both. A disk says the type of its authentication at the secret; a
    pool says it at the auth itself, and has another word for iSCSI.
    """
    plain = DiskSource(
        NETWORK,
        protocol=protocol,
        name=name,
        hosts=tuple(
            (host.get("name", ""), _port(host.get("port")))
            for host in source.iterfind("host")
            if host.get("name") is not None
        ),
        initiator=attribute(source, "initiator/iqn", "name"),
    )
    if auth is None:
        return plain
    kind = auth.get("type") or attribute(auth, "secret", "type")
    return replace(
        plain,
        auth_user=auth.get("username"),
        auth_type="iscsi" if kind == "chap" else kind,
        secret_uuid=attribute(auth, "secret", "uuid"),
        secret_usage=attribute(auth, "secret", "usage"),
    )


def _port(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() and int(text) else None


def format_by_name(name: str) -> str | None:
    """The format that the name of a file promises; None where it has no ending that does."""
    return _BY_ENDING.get(posixpath.splitext(name)[1])


def noted_format(note: VolumeNote) -> str | None:
    """The format that a volume was made with, for older notes by the name that every file was given; None where nothing
    says."""
    return note.format or (RAW if note.role == "seed" else format_by_name(note.name))


def driver_format(disk: etree._Element) -> str:
    """The format that a ``<disk>`` is opened with; libvirt's rule without one is raw."""
    return attribute(disk, "driver", "type") or RAW


def safest_format(formats: t.Iterable[str]) -> str | None:
    """Of what several say of one disk: raw if anybody has it as raw, since that one's guest can write anything."""
    known = sorted(set(formats), key=lambda one: (one != RAW, one))
    return known[0] if known else None
