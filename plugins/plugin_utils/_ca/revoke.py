# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Revocation lists. What was revoked once stays so: the list itself, in the authority's folder, is its memory."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from pathlib import Path

from ...module_utils._base.errors import InputError, NotFoundError
from ...module_utils._tls import certificates as certs
from ...module_utils._tls.certificates import hashes, x509
from .store import CaStore, CertificateAuthority, write

_SERIAL = re.compile(r"(0x)?[0-9A-Fa-f:]{8,59}")


def revocation_lists(
    ca_store: CaStore,
    revoked: Sequence[str],
    *,
    save: bool,
    trusted: Container[x509.Certificate] = (),
    ignore_unissued: bool = False,
) -> str:
    """The lists of all authorities as one text, with these certificates on them; empty as long as none was revoked.

    revoked: serial numbers in hex, and CNs; trusted: what hosts go on trusting. Raises NotFoundError for a CN that
    nothing was issued to, unless it is to be passed over, and InputError where an authority cannot revoke; nothing is
    saved then.
    """
    wanted = _find_serials(ca_store, revoked, trusted, ignore_unissued=ignore_unissued)
    lists = [(one, *_list_of(ca_store, one, wanted.get(one.short, set()))) for one in ca_store.all]
    for ca, text, is_new in lists:
        if save and is_new:
            write(_path(ca_store, ca), text.encode(), 0o644)
    return "".join(text for _ca, text, _is_new in lists)


def _path(ca_store: CaStore, ca: CertificateAuthority) -> Path:
    return ca_store.folder / f"{ca.short}.crl"


def _find_serials(
    ca_store: CaStore, revoked: Sequence[str], trusted: Container[x509.Certificate], *, ignore_unissued: bool
) -> dict[str, set[int]]:
    """The serial numbers by the authority that they are from. One that is not noted here, as of a certificate that was
    signed by hand, may be from any that is trusted."""
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
            for ca in ca_store.all:
                if ca.key is not None or ca.certificate in trusted:
                    wanted.setdefault(ca.short, set()).add(serial)
    return wanted


def unissued(ca_store: CaStore, revoked: Sequence[str]) -> list[str]:
    """Which of these are CNs that nothing was issued to."""
    found = []
    for entry in revoked:
        try:
            _find_serials(ca_store, [entry], (), ignore_unissued=False)
        except NotFoundError:
            found.append(entry)
    return found


def _list_of(ca_store: CaStore, ca: CertificateAuthority, wanted: set[int]) -> tuple[str, bool]:
    """The list of an authority with these on it, and whether it is a new one."""
    path = _path(ca_store, ca)
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
        return text, False
    if ca.key is None:
        raise InputError(
            f"the key of {certs.subject(ca.certificate)}, which hosts trust, is not here, so it cannot revoke "
            f"{', '.join(f'{serial:x}' for serial in fresh)}",
            where="revoked",
            hint=f"Copy its key to {path.with_suffix('.key')} (mode 0600; encrypted only with authority_passphrase), "
            "or have hosts no longer trust it: trust_old=false (in the role virt_tls: virt_tls_trust_old)",
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
    return certs.lists_as_pem([made]), True


def _number(found: Sequence[x509.CertificateRevocationList]) -> int:
    try:
        return int(found[0].extensions.get_extension_for_class(x509.CRLNumber).value.crl_number) if found else 0
    except x509.ExtensionNotFound:
        return 0
