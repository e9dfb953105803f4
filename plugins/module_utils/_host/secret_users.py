# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who names a secret of libvirt: machines, pools, QEMU's settings, and the encrypted volume that it opens."""

from __future__ import annotations

import os
import typing as t
from dataclasses import dataclass

from .._base.errors import HostError
from .._base.files import read_text
from .._base.xml import etree, read_description
from .connection import VirConnect, is_local, libvirt, suppress_codes, translate_errors
from .storage.users import descriptions_of, unless_gone

# default_tls_x509_secret_uuid and others like it.
QEMU_CONF = "/etc/libvirt/qemu.conf"
# The types of use that stand for another word in a definition. https://libvirt.org/formatdomain.html
_TYPES = {"chap": "iscsi", "passphrase": "volume"}


@dataclass(frozen=True)
class SecretUsers:
    """Who names a secret, in words; unknown: in words, what could not be looked at."""

    users: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def users_of_secret(conn: VirConnect, *, usage: str, name: str, uuid: str) -> SecretUsers:
    """Who names a secret, by its UUID or by the type and the name of its use. Raises VirtError."""
    users: set[str] = set()
    unknown: set[str] = set()

    def look(words: str, text: str | None) -> None:
        if text is None:
            unknown.add(f"{words} cannot be read")
            return
        try:
            root = read_description(words, text)
        except HostError as exc:
            unknown.add(exc.what)
            return
        if _names(root, usage, name, uuid):
            users.add(words)

    with translate_errors("cannot list the storage pools"):
        pools = conn.listAllStoragePools(0)
    for pool in pools:
        with unless_gone("STORAGE_POOL", "cannot inspect the storage pools"):
            words = f"storage pool {pool.name()}"
            look(words, pool.XMLDesc(0))
            # libvirt's test driver knows no flags here.
            with suppress_codes(libvirt.VIR_ERR_INVALID_ARG):
                look(words, pool.XMLDesc(libvirt.VIR_STORAGE_XML_INACTIVE))
            if usage == "volume" and _may_hold(pool, name):
                unknown.add(f"{words} is not active, so that it is not known whether the volume {name} is there")
    with translate_errors("cannot list the machines"):
        domains = conn.listAllDomains(0)
    for domain in domains:
        with unless_gone("DOMAIN", "cannot inspect a machine"):
            for words, text in descriptions_of(domain):
                look(words, text)
    if is_local(conn.getURI()):
        users.update(_here(uuid))
    if usage == "volume" and _is_there(conn, name):
        users.add(f"the volume {name}, which cannot be opened without it")
    return SecretUsers(tuple(sorted(users)), tuple(sorted(unknown)))


def _may_hold(pool: t.Any, path: str) -> bool:
    """Whether a path is in the directory of a pool that is not active, whose volumes nobody sees now."""
    if pool.isActive():
        return False
    root = read_description(f"storage pool {pool.name()}", pool.XMLDesc(0))
    directory = root.findtext("target/path", "").rstrip("/")
    return bool(directory) and path.startswith(f"{directory}/")


def _is_there(conn: VirConnect, path: str) -> bool:
    if is_local(conn.getURI()):
        return os.path.lexists(path)
    with translate_errors(f"cannot look for volume {path}"), suppress_codes(libvirt.VIR_ERR_NO_STORAGE_VOL):
        conn.storageVolLookupByPath(path)
        return True
    return False


def _here(uuid: str) -> t.Iterator[str]:
    settings = (line.partition("#")[0] for line in (read_text(QEMU_CONF) or "").splitlines())
    if any(uuid in line.lower() for line in settings):
        yield QEMU_CONF


def _names(root: etree._Element, usage: str, name: str, uuid: str) -> bool:
    """Whether a definition names it; the UUID counts wherever it stands."""
    for element in root.iter():
        texts = (*element.attrib.values(), (element.text or "").strip())
        if any(str(text).lower() == uuid for text in texts):
            return True
        if element.tag == "secret" and element.get("usage") == name:
            parent = element.getparent()
            # A disk says the type at the secret, a pool one floor above.
            kind = element.get("type") or (parent.get("type") if parent is not None else None)
            if kind is None or _TYPES.get(kind, kind) == usage:
                return True
    return False
