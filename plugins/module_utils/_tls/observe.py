# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The certificates that a host has, for those who only look. Reads public files only."""

from __future__ import annotations

import typing as t

from .._base.errors import VirtError
from .._base.files import read_text
from .._tls import certificates as certs
from .paths import libvirt_places, qemu_places

_PLACES = (libvirt_places(), qemu_places())


def _certificate_paths() -> t.Iterator[tuple[str, str]]:
    for trust, key_pairs in _PLACES:
        yield trust.ca_file, "authority"
        yield from ((key_pair.certificate, key_pair.name) for key_pair in key_pairs)


def observe_certificates(root: str = "") -> tuple[list[dict[str, t.Any]], list[str]]:
    """The certificates in libvirt's and QEMU's places, and sentences about what cannot be read.

    root: where the host's files begin, for tests.
    """
    found: list[dict[str, t.Any]] = []
    errors: list[str] = []
    for path, kind in _certificate_paths():
        try:
            text = read_text(root + path)
            if text is None:
                continue
            if certs.CRYPTOGRAPHY_IMPORT_ERROR is not None:
                errors.append(f"certificates cannot be read without cryptography ({certs.CRYPTOGRAPHY_PACKAGES})")
                break
            several = certs.read_certificates(text, path)
        except VirtError as exc:
            errors.append(str(exc))
            continue
        # Of a certificate with its chain only the first is the host's own.
        for certificate in several if kind == "authority" else several[:1]:
            found.append({"path": path, "kind": kind, **certs.describe(certificate)})
    return found, errors


def observe_revocations(root: str = "") -> list[dict[str, t.Any]]:
    """The revocation lists: who made them, until when they count, and how many certificates they name."""
    found = []
    for path in (trust.revocations for trust, _slots in _PLACES):
        try:
            text = read_text(root + path)
        except VirtError:
            continue
        if text is None or certs.CRYPTOGRAPHY_IMPORT_ERROR is not None:
            continue
        for revocations in certs.read_revocation_lists(text):
            until = certs.next_update(revocations)
            found.append(
                {
                    "path": path,
                    "issuer": certs.as_text(revocations.issuer),
                    "next_update": until.isoformat() if until else None,
                    "revoked": len(revocations),
                }
            )
    return found
