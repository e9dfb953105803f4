# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where libvirt and QEMU look for certificates and keys.

https://libvirt.org/kbase/tlscerts.html, https://www.qemu.org/docs/master/system/tls.html, and libvirt's qemu.conf.
"""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass, replace

from .._base.errors import NotFoundError
from .._base.files import read_setting

KINDS = ("libvirt", "qemu", "client")
PKI = "/etc/pki"
# The part of a certificate's name that says what it opens. QEMU's keys are readable by a process that a guest may break
# out into, so they have another one than libvirt's, which the list of allowed names leaves out.
UNITS = {"libvirt": "hypervisor", "qemu": "migration", "client": "operator"}
_QEMU_USERS = ("libvirt-qemu", "qemu")


@dataclass(frozen=True)
class Owner:
    """Whom a key belongs to."""

    name: str
    uid: int
    gid: int
    # Where the account has its own files; none for what is below /etc.
    home: str = ""


# Who runs this, which is root for all that is below /etc.
ROOT = Owner("root", os.geteuid(), os.getegid())


@dataclass(frozen=True)
class KeyPairFiles:
    """A place for a certificate and its key. purpose: server or client."""

    kind: str
    purpose: str
    certificate: str
    key: str
    owner: Owner

    @property
    def name(self) -> str:
        """What tasks and results call it."""
        return self.kind if self.kind == "client" else f"{self.kind}_{self.purpose}"


@dataclass(frozen=True)
class TrustFiles:
    """A place for the certificates of authorities, and for their revocation lists."""

    kind: str
    ca_file: str
    revocations: str
    owner: Owner


@dataclass(frozen=True)
class TlsFiles:
    """All that a host is to have. note: what the user has to know about where it is, empty for most."""

    key_pairs: tuple[KeyPairFiles, ...]
    trusts: tuple[TrustFiles, ...]
    note: str = ""


def libvirt_places(pki: str = PKI) -> tuple[TrustFiles, list[KeyPairFiles]]:
    """What libvirt's daemon and root's virsh trust, and the certificates that they show: server, client."""
    return TrustFiles("libvirt", f"{pki}/CA/cacert.pem", f"{pki}/CA/cacrl.pem", ROOT), [
        KeyPairFiles(
            "libvirt", purpose, f"{pki}/libvirt/{purpose}cert.pem", f"{pki}/libvirt/private/{purpose}key.pem", ROOT
        )
        for purpose in ("server", "client")
    ]


def qemu_places(pki: str = PKI, user: Owner = ROOT) -> tuple[TrustFiles, list[KeyPairFiles]]:
    """The same of QEMU. user: the account that it runs as, which reads the keys."""
    return TrustFiles("qemu", f"{pki}/qemu/ca-cert.pem", f"{pki}/qemu/ca-crl.pem", ROOT), [
        KeyPairFiles("qemu", purpose, f"{pki}/qemu/{purpose}-cert.pem", f"{pki}/qemu/{purpose}-key.pem", user)
        for purpose in ("server", "client")
    ]


def find_places(
    kinds: list[str], *, folder: str | None = None, qemu_user: str | None = None, root: str = "/"
) -> TlsFiles:
    """The places of these kinds on this host. root: where the host's files begin, for tests."""
    note = ""
    key_pairs: list[KeyPairFiles] = []
    trusts: list[TrustFiles] = []
    pki = os.path.join(root, "etc/pki")
    trust, (server, client) = libvirt_places(pki)
    if "libvirt" in kinds:
        trusts.append(trust)
        key_pairs += [server, client]
    if "qemu" in kinds:
        user = find_qemu_user(qemu_user, os.path.join(root, "etc/libvirt/qemu.conf"))
        of_qemu, certificates = qemu_places(pki, user)
        trusts.append(of_qemu)
        key_pairs += certificates
    if "client" in kinds:
        account = _owner(pwd.getpwuid(os.geteuid()))
        is_hypervisor = "libvirt" in kinds or os.path.exists(server.certificate)
        if account.uid == 0 and not folder and not is_hypervisor:
            # libvirt looks into root's own folder for nobody: https://libvirt.org/kbase/tlscerts.html
            trusts.append(replace(trust, kind="client", owner=account))
            key_pairs.append(replace(client, kind="client", owner=account))
        else:
            # Not as it is given: virsh would look for a relative one from wherever it is called.
            place = (
                os.path.abspath(os.path.expanduser(folder)) if folder else os.path.join(account.home, ".pki/libvirt")
            )
            trusts.append(TrustFiles("client", f"{place}/cacert.pem", f"{place}/cacrl.pem", account))
            key_pairs.append(
                KeyPairFiles("client", "client", f"{place}/clientcert.pem", f"{place}/clientkey.pem", account)
            )
            if account.uid == 0 and not folder:
                note = (
                    f"This host is a hypervisor, and root's virsh uses its own certificate in {pki}/libvirt. "
                    f"The client certificate is in {place}; to use it add ?pkipath={place} to the connection's URI"
                )
    return TlsFiles(tuple(key_pairs), tuple(trusts), note)


def find_owner(name: str, where: str) -> Owner:
    """An account of this host by its name or number. Raises NotFoundError."""
    try:
        return _owner(pwd.getpwuid(int(name)) if name.isdigit() else pwd.getpwnam(name))
    except KeyError as exc:
        raise NotFoundError(f"this host has no account {name}", where=where) from exc


def find_qemu_user(wanted: str | None, settings_path: str) -> Owner:
    """The account that QEMU runs as: the wanted one, qemu.conf's, or the one that the distribution made."""
    if wanted:
        return find_owner(wanted, "qemu_user")
    # A plus before a number says that it is not a name.
    setting = (read_setting(settings_path, "user") or "").lstrip("+")
    if setting:
        return find_owner(setting, settings_path)
    for name in _QEMU_USERS:
        try:
            return _owner(pwd.getpwnam(name))
        except KeyError:
            continue
    return _owner(pwd.getpwuid(os.geteuid()))


def _owner(account: pwd.struct_passwd) -> Owner:
    return Owner(account.pw_name, account.pw_uid, account.pw_gid, account.pw_dir)
