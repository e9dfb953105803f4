# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Certificates as values: read from PEM, named, dated, compared. The one place of this wing that imports cryptography.

Hosts have versions of cryptography from 3.4 (Ubuntu 22.04) on, controllers newer ones; what differs is hidden here.
"""

from __future__ import annotations

import datetime
import ipaddress
import re
import traceback
import typing as t

from .._base.errors import InputError

CRYPTOGRAPHY_IMPORT_ERROR: str | None = None
try:
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
except ImportError:
    # Whoever works with certificates checks the error first. Until then these are only names.
    x509 = hashes = serialization = ec = padding = rsa = None  # type: ignore[assignment]
    ExtendedKeyUsageOID = NameOID = None  # type: ignore[assignment,misc]
    InvalidSignature = UnsupportedAlgorithm = ValueError  # type: ignore[assignment,misc]
    CRYPTOGRAPHY_IMPORT_ERROR = traceback.format_exc()

if t.TYPE_CHECKING:
    PrivateKey = t.Union[ec.EllipticCurvePrivateKey, rsa.RSAPrivateKey]
    PublicKey = t.Union[ec.EllipticCurvePublicKey, rsa.RSAPublicKey]

CRYPTOGRAPHY_PACKAGES = "package python3-cryptography on Debian, Ubuntu, Fedora, RHEL and SUSE"
KEY_TYPES = ("ecdsa", "rsa")
_RSA_BITS = 3072
_PEM_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_PEM_LIST = re.compile(r"-----BEGIN X509 CRL-----.+?-----END X509 CRL-----", re.DOTALL)


def make_key(key_type: str) -> PrivateKey:
    """A fresh key: P-256 for ecdsa, 3072 bits for rsa."""
    if key_type == "rsa":
        return rsa.generate_private_key(public_exponent=65537, key_size=_RSA_BITS)
    return ec.generate_private_key(ec.SECP256R1())


def key_as_pem(key: PrivateKey, passphrase: str | None = None) -> bytes:
    """A key in PKCS #8, which GnuTLS and OpenSSL read alike; encrypted with a passphrase if there is one."""
    encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if passphrase:
        encryption = serialization.BestAvailableEncryption(passphrase.encode())
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)


def fits_key_type(key: t.Any, key_type: str) -> bool:
    """Whether a public key is what make_key makes, or a stronger one of that type."""
    if key_type == "rsa":
        return isinstance(key, rsa.RSAPublicKey) and key.key_size >= _RSA_BITS
    return isinstance(key, ec.EllipticCurvePublicKey) and key.curve.key_size >= ec.SECP256R1.key_size


def is_key_of(key: PrivateKey | None, certificate: x509.Certificate) -> bool:
    """Whether a key, if there is one, is a certificate's."""
    form = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    return key is not None and key.public_key().public_bytes(*form) == certificate.public_key().public_bytes(*form)


def read_certificates(text: str, where: str) -> list[x509.Certificate]:
    """All certificates in a PEM text, in order; where: what the text is, for the error. Raises InputError."""
    found = []
    for block in _PEM_CERTIFICATE.findall(text):
        try:
            certificate = x509.load_pem_x509_certificate(block.encode())
            certificate.public_key()
        except (ValueError, UnsupportedAlgorithm) as exc:
            raise InputError(f"{where} holds a certificate that cannot be read: {exc}") from exc
        found.append(certificate)
    if not found:
        raise InputError(f"{where} holds no certificate in PEM form")
    return found


def read_revocation_lists(text: str) -> list[x509.CertificateRevocationList]:
    """All revocation lists in a PEM text; broken ones are left out, as they are to be replaced."""
    found = []
    for block in _PEM_LIST.findall(text):
        try:
            found.append(x509.load_pem_x509_crl(block.encode()))
        except (ValueError, UnsupportedAlgorithm):
            continue
    return found


def revoked_in(text: str) -> frozenset[tuple[x509.Name, int]]:
    """The issuers and serial numbers of all that the revocation lists in a PEM text name."""
    return frozenset((one.issuer, entry.serial_number) for one in read_revocation_lists(text) for entry in one)


def serial_text(number: int) -> str:
    """A serial number as a list of revoked ones has it in YAML, where a short one needs 0x and quotes."""
    text = f"{number:x}"
    return text if len(text) >= 8 else f'"0x{text}"'


def as_pem(several: t.Iterable[x509.Certificate | x509.CertificateRevocationList]) -> str:
    """Certificates, or revocation lists, one after the other as PEM."""
    return "".join(one.public_bytes(serialization.Encoding.PEM).decode("ascii") for one in several)


def fingerprint(certificate: x509.Certificate) -> str:
    """What this certificate, and no other, is called: its sha256 in hex."""
    return certificate.fingerprint(hashes.SHA256()).hex()


def not_after(certificate: x509.Certificate) -> datetime.datetime:
    """When it ends, in UTC."""
    return _utc(certificate, "not_valid_after")


def not_before(certificate: x509.Certificate) -> datetime.datetime:
    """When it begins, in UTC."""
    return _utc(certificate, "not_valid_before")


def next_update(revocations: x509.CertificateRevocationList) -> datetime.datetime | None:
    """When a revocation list is too old, in UTC."""
    return _utc(revocations, "next_update")


def _utc(value: t.Any, name: str) -> t.Any:
    """An attribute in UTC: version 42 has a second one with the time zone, and later ones no longer have the first."""
    aware = getattr(value, f"{name}_utc", None)
    if aware is not None:
        return aware
    naive = getattr(value, name, None)
    return None if naive is None else naive.replace(tzinfo=datetime.timezone.utc)


def now() -> datetime.datetime:
    """The present in UTC, in whole seconds as certificates have them."""
    return datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)


def days_left(certificate: x509.Certificate) -> int:
    """Whole days until it ends, negative after that."""
    return (not_after(certificate) - now()).days


def is_valid_now(certificate: x509.Certificate) -> bool:
    """Whether it has begun and has not ended. A daemon does not start with one of which this is not so."""
    return not_before(certificate) <= now() and days_left(certificate) >= 0


def names(certificate: x509.Certificate) -> list[str]:
    """The names and addresses that a certificate is valid for, sorted."""
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return []
    found = [*extension.get_values_for_type(x509.DNSName)]
    found += [str(address) for address in extension.get_values_for_type(x509.IPAddress)]
    return sorted(found)


def purposes(certificate: x509.Certificate) -> set[str]:
    """What a certificate may be used for, of ``server`` and ``client``."""
    try:
        usages = set(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
    except (x509.ExtensionNotFound, ValueError):
        return {"server", "client"}
    known = {ExtendedKeyUsageOID.SERVER_AUTH: "server", ExtendedKeyUsageOID.CLIENT_AUTH: "client"}
    return {word for usage, word in known.items() if usage in usages}


def subject(certificate: x509.Certificate) -> str:
    """A certificate's name as GnuTLS writes it in libvirt's list of allowed names: in the order of its parts."""
    return as_text(certificate.subject)


def as_text(name: x509.Name) -> str:
    """A name in the order of its parts, such as O=brine.virt,OU=hypervisor,CN=hv1."""
    return ",".join(part.rfc4514_string() for part in name.rdns)


def common_name(certificate: x509.Certificate) -> str:
    """The CN of a certificate, or its whole name when it has none."""
    found = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found[0].value) if found else subject(certificate)


def make_name(organization: str, unit: str | None, common: str) -> x509.Name:
    """A certificate's name."""
    parts = [(NameOID.ORGANIZATION_NAME, organization), (NameOID.ORGANIZATIONAL_UNIT_NAME, unit)]
    parts.append((NameOID.COMMON_NAME, common))
    return x509.Name([x509.NameAttribute(oid, value) for oid, value in parts if value])


def general_name(name: str) -> x509.GeneralName:
    """A name or an address as it stands in a certificate."""
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def is_issued_by(signed: t.Any, ca: x509.Certificate) -> bool:
    """Whether a certificate or a revocation list bears this authority's name and its signature."""
    if signed.issuer != ca.subject:
        return False
    body = signed.tbs_certlist_bytes if hasattr(signed, "tbs_certlist_bytes") else signed.tbs_certificate_bytes
    key = ca.public_key()
    try:
        if isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(signed.signature, body, ec.ECDSA(signed.signature_hash_algorithm))
        elif isinstance(key, rsa.RSAPublicKey):
            key.verify(signed.signature, body, padding.PKCS1v15(), signed.signature_hash_algorithm)
        else:
            return False
    except (InvalidSignature, TypeError, UnsupportedAlgorithm):
        return False
    return True


def is_ca(certificate: x509.Certificate) -> bool:
    """Whether a certificate may sign others."""
    try:
        extensions = certificate.extensions
        if not extensions.get_extension_for_class(x509.BasicConstraints).value.ca:
            return False
    except (x509.ExtensionNotFound, ValueError):
        return False
    try:
        return bool(extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign)
    except x509.ExtensionNotFound:
        return True


def describe(certificate: x509.Certificate) -> dict[str, t.Any]:
    """The public facts of a certificate as plain data."""
    return {
        "subject": subject(certificate),
        "names": names(certificate),
        "issuer": as_text(certificate.issuer),
        "serial": f"{certificate.serial_number:x}",
        "not_before": not_before(certificate).isoformat(),
        "not_after": not_after(certificate).isoformat(),
        "days_left": days_left(certificate),
    }
