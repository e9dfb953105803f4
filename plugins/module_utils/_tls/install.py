# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Puts certificates, keys and authorities in place."""

from __future__ import annotations

import contextlib
import os

from .._base.errors import ConflictError, InputError
from .._base.files import file_errors, read_text, sync_folder
from .._tls import certificates as certs
from .files import CERTIFICATE_MODE, keep_backup, write_file
from .paths import ROOT, KeyPairFiles, Owner
from .request import load_key, staged


def install_trust(path: str, text: str, owner: Owner, *, valuable: bool) -> list[str]:
    """Write the authorities that a host trusts, or its revocation lists. valuable: keep the file that was there.
    Returns what was kept."""
    kept = keep_backup(path) if valuable else None
    write_file(path, text.encode(), owner, CERTIFICATE_MODE)
    return [kept] if kept else []


def install_certificate(key_pair: KeyPairFiles, text: str, *, valuable: bool) -> list[str]:
    """Put a certificate and the pending key for it in place of the old ones. Returns what was kept of those.

    The two renames are not one: what a run that is killed between them leaves, finish_installation brings to its end.
    """
    certificate = certs.read_certificates(text, f"the answer for {key_pair.name}")[0]
    if not certs.is_key_of(load_key(staged(key_pair.key)), certificate):
        raise ConflictError(f"the pending key for {key_pair.certificate} has changed in the meantime", hint="Run again")
    kept = [keep_backup(path) for path in (key_pair.key, key_pair.certificate)] if valuable else []
    # QEMU reads its certificate and need not own it.
    owner = key_pair.owner if key_pair.kind == "client" else ROOT
    write_file(staged(key_pair.certificate), text.encode(), owner, CERTIFICATE_MODE)
    finish_installation(key_pair)
    return [path for path in kept if path]


def find_waiting_key(key_pair: KeyPairFiles) -> str | None:
    """Where the key of the certificate that waits is: beside the old one still, or in its place; None without one."""
    text = read_text(staged(key_pair.certificate)) or ""
    try:
        certificate = certs.read_certificates(text, key_pair.certificate)[0]
    except InputError:
        return None
    paths = (staged(key_pair.key), key_pair.key)
    return next((path for path in paths if certs.is_key_of(load_key(path), certificate)), None)


def finish_installation(key_pair: KeyPairFiles) -> None:
    """Put in place the certificate that waits, and its key; without its key it goes."""
    path = find_waiting_key(key_pair)
    if path is None:
        # Another run at the same time may have put both in place.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(staged(key_pair.certificate))
        return
    for source, target in ((path, key_pair.key), (staged(key_pair.certificate), key_pair.certificate)):
        # As where it is immutable, by chattr +i.
        with file_errors(f"{target} cannot be replaced"):
            os.replace(source, target)
            sync_folder(os.path.dirname(target))
