# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one XML parser: it opens nothing, expands nothing, and takes no document without end."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base import xml
from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import etree, parse_xml, read_description


def test_a_document_is_parsed() -> None:
    assert parse_xml("<domain><name>web1</name></domain>").findtext("name") == "web1"


@pytest.mark.parametrize(
    "doctype",
    [
        '<!DOCTYPE domain [<!ENTITY e SYSTEM "file://{path}">]>',
        '<!DOCTYPE domain [<!ENTITY e "words">]>',
        '<!DOCTYPE domain SYSTEM "file://{path}">',
    ],
)
def test_a_document_type_is_refused(doctype: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("<!ENTITY e 'secret'>", encoding="utf-8")
    text = doctype.format(path=secret) + "<domain><title>&e;</title></domain>"
    with pytest.raises((ValueError, etree.XMLSyntaxError)):
        parse_xml(text)


def test_a_document_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xml, "MAX_XML_BYTES", 100)
    with pytest.raises(ValueError, match="too large"):
        parse_xml(f"<domain>{' ' * 100}</domain>")
    assert parse_xml("<domain/>").tag == "domain"


def test_comments_are_kept_unless_said_otherwise() -> None:
    text = "<domain><!-- words --></domain>"
    assert len(parse_xml(text)) == 1
    assert len(parse_xml(text, keep_comments=False)) == 0


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<domain>&x;</domain>", "Entity 'x' not defined, line 1"),
        ("<a>" * 300 + "</a>" * 300, "Excessive depth in document: 256"),
        ("<!DOCTYPE domain><domain/>", "an XML document with a document type is not accepted"),
    ],
)
def test_of_what_libvirt_describes_the_error_says_whose_description_it_is(text: str, reason: str) -> None:
    with pytest.raises(HostError) as caught:
        read_description("machine ent1", text)
    assert str(caught.value).startswith(f"the description of machine ent1 cannot be read as XML: {reason}")
    assert "<string>" not in str(caught.value)
