# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Revocation lists. What was revoked once stays so: the list itself, in the authority's folder, is its memory."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...module_utils._base.errors import InputError, NotFoundError
from ...module_utils._tls import certificates as certs
from ...module_utils._tls.certificates import hashes, x509
from .store import CaStore, CertificateAuthority, write

_SERIAL = re.compile(r"(0x)?[0-9A-Fa-f:]{8,59}")


def revocation_lists(ca_store: CaStore, revoked: Sequence[str], *, save: bool, ignore_unissued: bool = False) -> str:
    """The lists of all authorities as one text, with these certificates on them; empty as long as none was revoked.

    revoked: serial numbers in hex, and CNs. Raises NotFoundError for a CN that nothing was issued to, unless it is to
    be passed over.
    """
    wanted = _find_serials(ca_store, revoked, ignore_unissued=ignore_unissued)
    return "".join(_list_of(ca_store, one, wanted.get(one.short, set()), save=save) for one in ca_store.all)


def _find_serials(ca_store: CaStore, revoked: Sequence[str], *, ignore_unissued: bool) -> dict[str, set[int]]:
    """The serial numbers by the authority that they are from. One that is not known counts as the current one's."""
    wanted: dict[str, set[int]] = {}
    issued = [(one, path) for one in ca_store.all for path in ca_store.issued(one)] if revoked else []
    issued_certificates = [
        (one, certs.read_certificates(path.read_text(encoding="ascii"), str(path))[0]) for one, path in issued
    ]
    for index, entry in enumerate(revoked):
        serial = int(entry.replace(":", ""), 16) if _SERIAL.fullmatch(entry) else None
        found = [(a, c) for a, c in issued_certificates if entry == certs.common_name(c) or c.serial_number == serial]
        for ca, certificate in found:
            wanted.setdefault(ca.short, set()).add(certificate.serial_number)
        if not found and serial is None and not ignore_unissued:
            raise NotFoundError(
                f"no certificate was issued to {entry}",
                where=f"revoked[{index}]",
                hint="Give a CN as it is in a certificate, or a serial number in hex",
            )
        if not found and serial is not None:
            wanted.setdefault(ca_store.current.short, set()).add(serial)
    return wanted


def unissued(ca_store: CaStore, revoked: Sequence[str]) -> list[str]:
    """Which of these are CNs that nothing was issued to."""
    found = []
    for entry in revoked:
        try:
            _find_serials(ca_store, [entry], ignore_unissued=False)
        except NotFoundError:
            found.append(entry)
    return found


def _list_of(ca_store: CaStore, ca: CertificateAuthority, wanted: set[int], *, save: bool) -> str:
    path = ca_store.folder / f"{ca.short}.crl"
    text = path.read_text(encoding="ascii") if path.exists() else ""
    found = certs.read_revocation_lists(text)
    if text.strip() and not found:
        # Another one in its place would let in again all that it has revoked.
        raise InputError(
            f"{path} cannot be read",
            where="authority",
            hint="Restore it from a backup, or copy its list from /etc/pki/CA/cacrl.pem of a host",
        )
    listed = {entry.serial_number: entry for entry in found[0]} if found else {}
    fresh = sorted(wanted - set(listed))
    if not fresh:
        return text
    if ca.key is None:
        raise InputError(
            f"the key of {certs.subject(ca.certificate)} is not here, so it cannot revoke anything",
            where="revoked",
        )
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(ca.certificate.subject)
        .last_update(max(certs.now(), certs.not_before(ca.certificate)))
        # As long as the authority: OpenSSL refuses everybody once a list is too old. GnuTLS does not check that.
        .next_update(certs.not_after(ca.certificate))
        .add_extension(x509.CRLNumber(_number(found) + 1), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca.key.public_key()), critical=False)
    )
    for entry in listed.values():
        builder = builder.add_revoked_certificate(entry)
    for serial in fresh:
        entry = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(certs.now()).build()
        builder = builder.add_revoked_certificate(entry)
    made = builder.sign(ca.key, hashes.SHA256())
    text = made.public_bytes(certs.serialization.Encoding.PEM).decode("ascii")
    if save:
        write(path, text.encode(), 0o644)
    return text


def _number(found: Sequence[x509.CertificateRevocationList]) -> int:
    try:
        return int(found[0].extensions.get_extension_for_class(x509.CRLNumber).value.crl_number) if found else 0
    except x509.ExtensionNotFound:
        return 0
