# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines that libvirt accepts and describes by XML that no parser takes."""

from __future__ import annotations

import typing as t

# libvirt keeps the reference to the entity, and drops the document type that says what it is.
ENTITY = """<!DOCTYPE domain [<!ENTITY x "hello">]>
<domain type='test'><name>{name}</name><memory unit='MiB'>{memory_mib}</memory><vcpu>{vcpus}</vcpu>
<os><type>hvm</type></os><metadata><f:a xmlns:f='http://f'>&x;</f:a></metadata></domain>"""


def define_unreadable(conn: t.Any, name: str = "ent1", memory_mib: int = 16, vcpus: int = 2) -> t.Any:
    return conn.defineXML(ENTITY.format(name=name, memory_mib=memory_mib, vcpus=vcpus))
