# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one import of lxml, and the one parser.

A host without lxml still imports the modules, so that these can say which package is missing. What is parsed comes from
libvirt, but holds words of others: machines that somebody else defined, what a guest calls itself, a user's fragment.
"""

from __future__ import annotations

import traceback

LXML_IMPORT_ERROR: str | None = None
try:
    from lxml import etree
except ImportError:
    etree = None  # type: ignore[assignment]  # nothing calls it before LXML_IMPORT_ERROR has been looked at
    LXML_IMPORT_ERROR = traceback.format_exc()

__all__ = ["LXML_IMPORT_ERROR", "MAX_XML_BYTES", "etree", "parse_xml"]

# libvirt's own limit for a document that it hands over is 32 MiB: VIR_NET_MESSAGE_MAX in src/rpc/virnetprotocol.x.
MAX_XML_BYTES = 32 * 1024 * 1024


def parse_xml(text: str | bytes, *, keep_comments: bool = True) -> etree._Element:
    """The root element of a document. No entity is resolved, and no file, network or DTD is looked at.

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
