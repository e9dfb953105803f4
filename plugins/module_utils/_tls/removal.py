# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Takes away what the cloud's authorities have given a host, and nothing else.

A certificate says whose it is, so it goes after its key: what a run that is killed in between leaves is still known.
"""

from __future__ import annotations

import os
import typing as t
from functools import partial

from .._base.errors import InputError
from .._base.files import file_errors, read_text, sync_folder
from .._tls import certificates as certs
from .certificates import x509
from .check import find_issuer
from .files import CERTIFICATE_MODE, write_file
from .paths import KeyPairFiles, TlsFiles, TrustFiles
from .renewal import RenewalReport
from .request import staged


def remove_all(places: TlsFiles, known: t.Sequence[x509.Certificate], report: RenewalReport) -> list[str]:
    """Remove certificates, keys, authorities and revocation lists. Returns what is left in their places, with the
    reason.

    known: the cloud's authorities, old ones too. Raises HostError.
    """
    left: list[str] = []
    for key_pair in places.key_pairs:
        left += _remove_key_pair(key_pair, known, report)
    for trust in places.trusts:
        left += _remove_lists(trust, known, report)
        left += _remove_cas(trust, known, report)
    return left


def _remove_key_pair(key_pair: KeyPairFiles, known: t.Sequence[x509.Certificate], report: RenewalReport) -> list[str]:
    # Only this code gives files such names.
    for path in (staged(key_pair.key), staged(key_pair.certificate)):
        _remove(path, report)
    text = read_text(key_pair.certificate)
    if text is None:
        has_key = os.path.lexists(key_pair.key)
        return [f"{key_pair.key}: a key without a certificate, so it is not known whose it is"] if has_key else []
    try:
        certificate = certs.read_certificates(text, key_pair.certificate)[0]
    except InputError:
        return [f"{key_pair.certificate}: cannot be read"]
    if find_issuer(certificate, known) is None:
        return [f"{key_pair.certificate}: issued by {certs.as_text(certificate.issuer)}, not by this cloud"]
    for path in (key_pair.key, key_pair.certificate):
        _remove(path, report)
    return []


def _remove_cas(trust: TrustFiles, known: t.Sequence[x509.Certificate], report: RenewalReport) -> list[str]:
    text = read_text(trust.ca_file)
    try:
        found = certs.read_certificates(text, trust.ca_file) if text else []
    except InputError:
        return [f"{trust.ca_file}: cannot be read"]
    others = [ca for ca in found if ca not in known and certs.days_left(ca) >= 0]
    left = [f"{trust.ca_file}: {', '.join(certs.subject(ca) for ca in others)}, not of this cloud"] if others else []
    if not any(ca in known for ca in found):
        return left
    _keep_only(trust, trust.ca_file, certs.as_pem(others) if others else "", report)
    return left


def _remove_lists(trust: TrustFiles, known: t.Sequence[x509.Certificate], report: RenewalReport) -> list[str]:
    found = certs.read_revocation_lists(read_text(trust.revocations) or "")
    others = [one for one in found if find_issuer(one, known) is None]
    left = [f"{trust.revocations}: of {certs.as_text(one.issuer)}, not of this cloud" for one in others]
    if len(others) == len(found):
        return left
    _keep_only(trust, trust.revocations, certs.as_pem(others), report)
    return left


def _keep_only(trust: TrustFiles, path: str, text: str, report: RenewalReport) -> None:
    """Leave this much of a file; none of it if there is nothing to leave."""
    if not text:
        _remove(path, report)
        return
    report.act(
        f"{path}: without this cloud's authorities",
        "",
        partial(write_file, path, text.encode(), trust.owner, CERTIFICATE_MODE),
    )


def _remove(path: str, report: RenewalReport) -> None:
    if os.path.lexists(path):
        report.act(path, "", partial(_unlink, path))


def _unlink(path: str) -> None:
    with file_errors(f"{path} cannot be removed"):
        os.unlink(path)
        sync_folder(os.path.dirname(path))
