# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Signs requests of hosts. What stands in a certificate is decided here; a request gives its public key only."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...module_utils._base.errors import InputError
from ...module_utils._tls import certificates as certs
from ...module_utils._tls.certificates import ExtendedKeyUsageOID, UnsupportedAlgorithm, hashes, x509
from .store import CLOCK_SKEW, CaStore, CertificateAuthority, key_identifier, key_usage, write


@dataclass(frozen=True)
class CertificateSpec:
    """What a certificate is to say. purpose: server or client; days: how long, if its authority lasts as long."""

    organization: str
    unit: str
    name: str
    names: Sequence[str]
    purpose: str
    days: int


def sign(ca_store: CaStore, ca: CertificateAuthority, request: str, certificate_spec: CertificateSpec) -> str:
    """The certificate for a request, with the chain that a peer needs beside the root. It is noted in the folder."""
    public = _public_key(request, certificate_spec)
    if ca.key is None:
        raise InputError(f"the key of {certs.subject(ca.certificate)} is not here", where="authority")
    begin = certs.now()
    end = min(begin + datetime.timedelta(days=certificate_spec.days), certs.not_after(ca.certificate))
    if end <= begin:
        raise InputError(f"{certs.subject(ca.certificate)} has expired", where="authority")
    serial = x509.random_serial_number()
    usages = {"server": ExtendedKeyUsageOID.SERVER_AUTH, "client": ExtendedKeyUsageOID.CLIENT_AUTH}
    builder = (
        x509.CertificateBuilder()
        .subject_name(certs.make_name(certificate_spec.organization, certificate_spec.unit, certificate_spec.name))
        .issuer_name(ca.certificate.subject)
        .public_key(public)
        .serial_number(serial)
        .not_valid_before(max(begin - CLOCK_SKEW, certs.not_before(ca.certificate)))
        .not_valid_after(end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usages[certificate_spec.purpose]]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(key_identifier(ca.certificate), critical=False)
    )
    if isinstance(public, certs.rsa.RSAPublicKey):
        # Not for ECDSA: libvirt and QEMU ask for keyEncipherment where there is any usage, and ECDSA must not have it
        # (RFC 8813). What the key is for is said by the extended usage.
        builder = builder.add_extension(key_usage(digital_signature=True, key_encipherment=True), critical=True)
    if certificate_spec.names:
        names = [certs.general_name(name) for name in certificate_spec.names]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return _note(ca_store, ca, builder.sign(ca.key, hashes.SHA256()))


def _note(ca_store: CaStore, ca: CertificateAuthority, certificate: x509.Certificate) -> str:
    text = certs.as_pem([certificate, *(one for one in ca.all if one.issuer != one.subject)])
    write(_path(ca_store, ca, certificate), text.encode(), 0o644)
    return text


def _path(ca_store: CaStore, ca: CertificateAuthority, certificate: x509.Certificate) -> Path:
    return ca_store.folder / "issued" / ca.short / f"{certificate.serial_number:x}.pem"


def note_missing(ca_store: CaStore, texts: Iterable[str]) -> None:
    """Note what a host has from these authorities and the folder does not know, as one that was restored from a backup:
    or it would not be revoked with the others of its CN. texts: certificates as the host shows them, in PEM."""
    for text in texts:
        with contextlib.suppress(InputError):
            certificate = certs.read_certificates(text, "a host's certificate")[0]
            if not any(_path(ca_store, ca, certificate).exists() for ca in ca_store.all):
                signer = next((ca for ca in ca_store.all if certs.is_issued_by(certificate, ca.certificate)), None)
                if signer is not None:
                    _note(ca_store, signer, certificate)


def _public_key(request: str, certificate_spec: CertificateSpec) -> certs.PublicKey:
    """The key of a request that proves to have the private half."""
    try:
        asked = x509.load_pem_x509_csr(request.encode())
        public = asked.public_key()
    except (ValueError, UnsupportedAlgorithm) as exc:
        raise InputError(f"the request of {certificate_spec.name} cannot be read: {exc}") from exc
    if not asked.is_signature_valid:
        raise InputError(f"the request of {certificate_spec.name} is not signed with its own key")
    if not isinstance(public, (certs.ec.EllipticCurvePublicKey, certs.rsa.RSAPublicKey)):
        raise InputError(f"the request of {certificate_spec.name} has a key that is neither ECDSA nor RSA")
    if not any(certs.fits_key_type(public, key_type) for key_type in certs.KEY_TYPES):
        # Whoever finds it out is a hypervisor to all others.
        raise InputError(
            f"the request of {certificate_spec.name} has a key that is weaker than those that hosts make: "
            f"{public.key_size} bits"
        )
    return public
