# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The SSH host keys of a guest, made on the hypervisor that seeds it.

Made in memory: the private halves go into the seed and nowhere else, the public halves into the machine's metadata,
so that the first connection to the guest is a verified one.
"""

from __future__ import annotations

import traceback
import typing as t
from dataclasses import dataclass, field

CRYPTOGRAPHY_IMPORT_ERROR: str | None = None
try:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519
except ImportError:
    CRYPTOGRAPHY_IMPORT_ERROR = traceback.format_exc()

if t.TYPE_CHECKING:
    _PrivateKey = t.Union[ed25519.Ed25519PrivateKey, ec.EllipticCurvePrivateKey]

# The kinds that are made, in cloud-init's words.
KINDS = ("ed25519", "ecdsa")


@dataclass(frozen=True)
class HostKey:
    """A key pair in OpenSSH's formats; kind is the word that cloud-init has for it."""

    kind: str
    public: str
    private: str = field(repr=False)


def make_host_keys() -> tuple[HostKey, ...]:
    """A fresh Ed25519 key, and an ECDSA one for clients that may not use the first (FIPS)."""
    keys: tuple[_PrivateKey, ...] = (
        ed25519.Ed25519PrivateKey.generate(),
        ec.generate_private_key(ec.SECP256R1()),
    )
    return tuple(
        HostKey(
            kind=kind,
            public=key.public_key()
            .public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
            .decode("ascii"),
            private=key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
            ).decode("ascii"),
        )
        for kind, key in zip(KINDS, keys)  # noqa: B905 - Python 3.9 has no strict
    )
