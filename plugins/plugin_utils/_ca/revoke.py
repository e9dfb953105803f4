# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Revocation lists. What was revoked once stays so: the list itself, in the authority's folder, is its memory.

Authorities of one name have one list, as with one's own that was renewed: GnuTLS, and so libvirt and QEMU, heeds of
several lists under one name the newest alone, and takes it from each authority of that name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Sequence
from pathlib import Path

from ...module_utils._base.errors import InputError, NotFoundError
from ...module_utils._tls import certificates as certs
from ...module_utils._tls.certificates import hashes, x509
from .store import CaStore, CertificateAuthority, ca_errors, key_identifier, write

# A short one, as of `openssl ca`, could be a misspelled CN, such as dead, or was a number in YAML.
_SERIAL = re.compile(r"0x[0-9A-Fa-f][0-9A-Fa-f:]{0,58}|[0-9A-Fa-f][0-9A-Fa-f:]{7,58}")


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
    by_name: dict[bytes, list[CertificateAuthority]] = {}
    for ca in ca_store.all:
        by_name.setdefault(ca.certificate.subject.public_bytes(), []).append(ca)
    lists = [_list_of(ca_store, several, wanted.get(name, set()), trusted) for name, several in by_name.items()]
    for path, text, is_new in lists:
        if save and is_new:
            write(path, text.encode(), 0o644)
    return "".join(text for _path, text, _is_new in lists)


def _serial(entry: str) -> int | None:
    """The number that an entry is, however it is written; None for a CN."""
    return int(entry.replace(":", ""), 16) if _SERIAL.fullmatch(entry) else None


def _find_serials(
    ca_store: CaStore, revoked: Sequence[str], trusted: Container[x509.Certificate], *, ignore_unissued: bool
) -> dict[bytes, set[int]]:
    """The serial numbers by the name of the authority that they are from. One that is not noted here, as of a
    certificate that was signed by hand, may be from any that is trusted."""
    wanted: dict[bytes, set[int]] = {}
    issued = list(ca_store.certificates()) if revoked else []
    for index, entry in enumerate(revoked):
        serial = _serial(entry)
        if serial is not None and not 0 < serial.bit_length() < 160:
            raise InputError(
                f"{entry} is no serial number of a certificate, which has 1 to 159 bits. Is it a fingerprint?",
                where=f"revoked[{index}]",
            )
        found = [one for one in issued if entry == certs.common_name(one) or one.serial_number == serial]
        for certificate in found:
            wanted.setdefault(certificate.issuer.public_bytes(), set()).add(certificate.serial_number)
        if not found and serial is None and not ignore_unissued:
            raise NotFoundError(
                f"no certificate was issued to {entry}",
                where=f"revoked[{index}]",
                hint="Give a CN as it is in a certificate, or a serial number in hex, one of fewer than 8 digits as "
                '"0x1000", with the quotes',
            )
        if not found and serial is not None:
            for ca in ca_store.all:
                if ca.key is not None or ca.certificate in trusted:
                    wanted.setdefault(ca.certificate.subject.public_bytes(), set()).add(serial)
    return wanted


def accepted_by(ca_store: CaStore, revoked: Sequence[str], revocations: str, trusts: Container[str]) -> list[str]:
    """Who of these is accepted all the same, as an authority without a key that is to go has not gone: sentences.

    revocations: the lists of all authorities; trusts: the fingerprints of those that a host trusts.
    """
    listed = certs.revoked_in(revocations)
    serials = {_serial(entry) for entry in revoked}
    found = {
        (certs.common_name(one), certs.subject(ca.certificate))
        for one in ca_store.certificates()
        for ca in ca_store.all
        if one.issuer == ca.certificate.subject
        and ca.fingerprint in trusts
        and (certs.common_name(one) in revoked or one.serial_number in serials)
        and (one.issuer, one.serial_number) not in listed
    }
    return [
        f"certificates of {name} are accepted as long as {ca} is trusted, whose key is not here to revoke them. It "
        "goes when all hosts have certificates of the new one"
        for name, ca in sorted(found)
    ]


def locked_out(ca_store: CaStore, revocations: str) -> list[str]:
    """The CNs of which something was revoked, now or earlier, and nothing that was issued is valid any more.

    revocations: the lists of all authorities.
    """
    listed = certs.revoked_in(revocations)
    refused, valid = set(), set()
    for certificate in ca_store.certificates() if listed else ():
        name = certs.common_name(certificate)
        if (certificate.issuer, certificate.serial_number) in listed:
            refused.add(name)
        elif certs.not_after(certificate) > certs.now():
            valid.add(name)
    return sorted(refused - valid)


def _path(ca_store: CaStore, ca: CertificateAuthority) -> Path:
    return ca_store.folder / f"{ca.short}.crl"


def unissued(ca_store: CaStore, revoked: Sequence[str]) -> list[str]:
    """Which of these are CNs that nothing was issued to."""
    owners = set(map(certs.common_name, ca_store.certificates())) if revoked else set()
    return [entry for entry in revoked if entry not in owners and not _SERIAL.fullmatch(entry)]


def _list_of(
    ca_store: CaStore,
    several: Sequence[CertificateAuthority],
    wanted: Collection[int],
    trusted: Container[x509.Certificate],
) -> tuple[Path, str, bool]:
    """The list of the authorities of one name with these on it: where it is noted, its text, and whether it is new.

    Without their key it stays as it is if all of them are to go: hosts that trust none of them refuse what they signed.
    """
    ca = next((one for one in several if one.key is not None), several[0])
    path = _path(ca_store, ca)
    text, noted = _read_list(path)
    listed = {entry.serial_number: entry for one in several for entry in _read_list(_path(ca_store, one))[1]}
    fresh = sorted({*wanted, *listed} - {entry.serial_number for entry in noted})
    if not fresh or (ca.key is None and not any(one.certificate in trusted for one in several)):
        return path, text, False
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
        .add_extension(x509.CRLNumber(_number(noted) + 1), critical=False)
        .add_extension(key_identifier(ca.certificate), critical=False)
    )
    for entry in listed.values():
        builder = builder.add_revoked_certificate(entry)
    for serial in sorted(set(wanted) - set(listed)):
        entry = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(certs.now()).build()
        builder = builder.add_revoked_certificate(entry)
    made = builder.sign(ca.key, hashes.SHA256())
    return path, certs.as_pem([made]), True


def _read_list(path: Path) -> tuple[str, x509.CertificateRevocationList | tuple[()]]:
    """What an authority has noted as revoked: the text of the list, and the list."""
    with ca_errors(path.parent):
        text = path.read_text(encoding="ascii") if path.exists() else ""
    found = certs.read_revocation_lists(text)
    if text.strip() and not found:
        # Another one in its place would let in again all that it has revoked.
        raise InputError(
            f"{path} cannot be read",
            where="authority",
            hint="Restore it from a backup, or copy its list from /etc/pki/CA/cacrl.pem of a host",
        )
    return text, found[0] if found else ()


def _number(noted: x509.CertificateRevocationList | tuple[()]) -> int:
    try:
        return int(noted.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number) if noted else 0
    except x509.ExtensionNotFound:
        return 0
