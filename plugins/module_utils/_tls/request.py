# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A new key and the request for its certificate. The key waits beside the old one until the certificate comes."""

from __future__ import annotations

from .._tls import certificates as certs
from .certificates import hashes, serialization, x509
from .files import KEY_MODE, is_guarded, write_file
from .paths import KeyPairFiles


def staged(path: str) -> str:
    """Where a key or a certificate lies until it is put in place."""
    return f"{path}.new"


def load_key(path: str) -> certs.PrivateKey | None:
    """The private key in a file; None when there is none that can be read without a passphrase."""
    try:
        with open(path, "rb") as file:
            key = serialization.load_pem_private_key(file.read(), None)
    except (OSError, ValueError, TypeError, certs.UnsupportedAlgorithm):
        return None
    return key if isinstance(key, (certs.ec.EllipticCurvePrivateKey, certs.rsa.RSAPrivateKey)) else None


def make_request(key_pair: KeyPairFiles, key_type: str, common_name: str) -> str:
    """A request in PEM for the key pair's next certificate, signed with its next key.

    The key of an earlier run that got no further is taken again. The request says little: the authority decides what
    stands in the certificate.
    """
    path = staged(key_pair.key)
    key = load_key(path)
    if key is None or not certs.fits_key_type(key.public_key(), key_type) or not is_guarded(path, key_pair.owner):
        key = certs.make_key(key_type)
        write_file(path, certs.key_as_pem(key), key_pair.owner, KEY_MODE)
    builder = x509.CertificateSigningRequestBuilder().subject_name(certs.make_name("", None, common_name[:64]))
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode("ascii")
