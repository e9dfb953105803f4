# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the DNS server of a network answers, and whom it asks. https://libvirt.org/formatnetwork.html#addressing"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ....._base.errors import InputError
from ....._base.xml import etree
from ...fields import validators
from ...fields.table import AttributeField, Field, Values, check_table, drop, make, read_table
from ...network import domain
from .addressing import ADDRESS, address
from .dnsmasq import in_dnsmasq
from .rows import RowsField, same

_NUMBER16 = validators.whole_number(0, 65535)


@dataclass(frozen=True)
class _HostNamesField:
    """The names of one address, each in an element of its own."""

    key: str = "names"

    def check(self, value: t.Any, where: str, _have: t.Any = None, /) -> tuple[str, ...]:
        names: tuple[str, ...] = validators.list_of(domain)(value, where)
        if not names:
            raise InputError("no name is given", where=where, hint="Give at least one")
        return names

    def write(self, parent: etree._Element, value: Sequence[str]) -> None:
        for old in parent.findall("hostname"):
            drop(old)
        for name in value:
            etree.SubElement(parent, "hostname").text = name

    def read(self, parent: etree._Element) -> tuple[str, ...]:
        return tuple((element.text or "").strip() for element in parent.findall("hostname"))


DNS_HOST: tuple[Field, ...] = (AttributeField("address", address, "@ip", ADDRESS), _HostNamesField())
# What is not allowed in them: virNetworkDNSTxtDefParseXML and virNetworkDNSSrvDefParseXML in libvirt's
# src/conf/network_conf.c.
DNS_TXT: tuple[Field, ...] = (
    AttributeField("name", validators.pattern(r"[!#-+\--~]+", "the name of a TXT record", "example.org"), "@name"),
    AttributeField("value", in_dnsmasq(validators.line), "@value"),
)
DNS_SRV: tuple[Field, ...] = (
    AttributeField("service", validators.pattern(r"[A-Za-z0-9_+/*-]{1,255}", "a service", "ldap"), "@service"),
    AttributeField("protocol", validators.choice("tcp", "udp"), "@protocol"),
    AttributeField("domain", domain, "@domain"),
    AttributeField("target", domain, "@target"),
    AttributeField("port", validators.whole_number(1, 65535), "@port"),
    AttributeField("priority", _NUMBER16, "@priority"),
    AttributeField("weight", _NUMBER16, "@weight"),
)
DNS: tuple[Field, ...] = (
    AttributeField("enabled", validators.yes_or_no, "@enable"),
    AttributeField("forward_plain_names", validators.yes_or_no, "@forwardPlainNames"),
    RowsField(
        "forwarders",
        "forwarder",
        (AttributeField("address", address, "@addr", ADDRESS), AttributeField("domain", domain, "@domain")),
        short="address",
    ),
    RowsField("hosts", "host", DNS_HOST, required=("address", "names")),
    RowsField("txt", "txt", DNS_TXT, required=("name", "value")),
    RowsField("srv", "srv", DNS_SRV, required=("service", "protocol")),
)


@dataclass(frozen=True)
class DnsField:
    """All of DNS: a mapping with a table below ``<dns>``."""

    key: str = "dns"

    def check(self, value: t.Any, where: str, _have: t.Any = None, /) -> Values:
        return check_table(value, where, DNS)

    def write(self, parent: etree._Element, value: Mapping[str, t.Any]) -> None:
        home = make(parent, "dns")
        for field in DNS:
            want = value.get(field.key)
            if want is not None and not same(field.read(home), want, field.key):
                field.write(home, want)

    def read(self, parent: etree._Element) -> Values | None:
        home = parent.find("dns")
        return None if home is None else read_table(home, DNS)
