# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one import of lxml, the one parser, and the sizes that stand in libvirt's XML.

A host without lxml still imports the modules, so that these can say which package is missing. What is parsed comes from
libvirt, but holds words of others: machines that somebody else defined, what a guest calls itself, a user's fragment.
"""

from __future__ import annotations

import traceback

from .errors import HostError

LXML_IMPORT_ERROR: str | None = None
try:
    from lxml import etree
except ImportError:
    etree = None  # type: ignore[assignment]  # nothing calls it before LXML_IMPORT_ERROR is checked
    LXML_IMPORT_ERROR = traceback.format_exc()

__all__ = [
    *("BYTES_PER_UNIT", "KIB", "LXML_IMPORT_ERROR", "MAX_XML_BYTES", "MIB"),
    *("attribute", "etree", "need", "parse_xml", "read_description", "size_kib_in_xml"),
]

KIB = 1024
MIB = 1024 * KIB

# Binary units by their IEC names and by the single letters that qemu-img and Salt use; decimal ones by their SI names.
BYTES_PER_UNIT = {"B": 1, "BYTE": 1, "BYTES": 1}
for _power, _letter in enumerate("KMGTPE", start=1):
    BYTES_PER_UNIT.update({_letter: 1024**_power, f"{_letter}IB": 1024**_power, f"{_letter}B": 1000**_power})

# libvirt's own limit for a document that it hands over is 32 MiB: VIR_NET_MESSAGE_MAX in src/rpc/virnetprotocol.x.
MAX_XML_BYTES = 32 * 1024 * 1024


def parse_xml(text: str | bytes, *, keep_comments: bool = True) -> etree._Element:
    """The root element of a document. No entity is resolved, and no file, network or DTD is read.

    Raises etree.XMLSyntaxError for what is not well-formed, ValueError for what has a document type or is larger than
    MAX_XML_BYTES.
    """
    if len(text) > MAX_XML_BYTES:
        raise ValueError(f"an XML document of {len(text)} bytes is too large")
    parser = etree.XMLParser(
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        dtd_validation=False,
        attribute_defaults=False,
        huge_tree=False,
        remove_comments=not keep_comments,
    )
    root = etree.fromstring(text, parser)
    if root.getroottree().docinfo.internalDTD is not None:
        raise ValueError("an XML document with a document type is not accepted")
    return root


def attribute(parent: etree._Element, path: str, name: str) -> str | None:
    """An attribute of the first element at a path; None where the element or the attribute is missing."""
    element = parent.find(path)
    return None if element is None else element.get(name)


def need(parent: etree._Element, path: str) -> etree._Element:
    """The element at a path, which libvirt's XML always has. Raises HostError, for a person who knows libvirt, where it
    is missing."""
    found = parent.find(path)
    if found is None:
        raise HostError(f"libvirt's XML has a <{parent.tag}> without <{path}>")
    return found


def read_description(what: str, text: str | bytes) -> etree._Element:
    """The root element of what libvirt says of something; what: its kind and name, such as C(machine web1).

    libvirt accepts, and keeps, what no parser takes when it comes back: an entity without its DTD, nesting that is too
    deep. Raises HostError, which says whose description it is.
    """
    try:
        return parse_xml(text)
    except (etree.XMLSyntaxError, ValueError) as exc:
        reason = " ".join(str(getattr(exc, "msg", None) or exc).split())
        raise HostError(f"the description of {what} cannot be read as XML: {reason}") from exc


def size_kib_in_xml(number: str, unit: str | None) -> int | None:
    """A size as it stands in libvirt's XML (no unit: KiB) in KiB, None for what is no size.

    A part of a KiB counts as a whole one, as libvirt itself has it (virDomainParseMemory).
    """
    factor = BYTES_PER_UNIT.get((unit or "KiB").upper())
    try:
        return None if factor is None else -(-int(number) * factor // KIB)
    except ValueError:
        return None
