# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with what a host has. Reads files, changes nothing."""

from __future__ import annotations

import os
import typing as t
from dataclasses import dataclass

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, InputError
from ansible_collections.brine.virt.plugins.module_utils._base.files import read_text
from ansible_collections.brine.virt.plugins.module_utils._tls import certificates as certs
from ansible_collections.brine.virt.plugins.module_utils._tls.certificates import x509
from ansible_collections.brine.virt.plugins.module_utils._tls.files import KEY_MODE, is_guarded
from ansible_collections.brine.virt.plugins.module_utils._tls.paths import UNITS, Slot, Trust
from ansible_collections.brine.virt.plugins.module_utils._tls.request import load_key

FOREIGN_HINT = (
    "Give the authority that it is from (authority, authority_certificate), or replace_foreign=true to replace what "
    "is there; the old files are kept next to the new ones"
)


@dataclass(frozen=True)
class Wish:
    """What certificates of a host are to be.

    known: the authorities of this cloud, old ones too; accepted: those of them whose certificates are good now.
    """

    organization: str
    name: str
    names: tuple[str, ...]
    key_type: str
    renew_before_days: int
    known: tuple[x509.Certificate, ...]
    accepted: tuple[x509.Certificate, ...]
    replace_foreign: bool = False

    def names_of(self, slot: Slot) -> tuple[str, ...]:
        """The names that a certificate in this slot is to be valid for; an account answers to its own name only."""
        return self.names if slot.kind != "client" else tuple(n for n in self.names if n == self.name.lower())


@dataclass(frozen=True)
class Verdict:
    """What is in a slot. reasons: why it needs a new certificate, none when it does not.

    misplaced: the key is good and has the wrong owner or mode. valuable: what is there must be kept beside when it is
    replaced. usable: a daemon can start with it. issuer: fingerprint of the known authority that it is from.
    """

    slot: Slot
    reasons: tuple[str, ...]
    certificate: x509.Certificate | None = None
    issuer: str | None = None
    misplaced: bool = False
    valuable: bool = False
    usable: bool = False


def judge_slot(slot: Slot, wish: Wish) -> Verdict:
    """What is wrong with the certificate and the key in a slot. Raises ConflictError for somebody else's."""
    text = read_text(slot.certificate)
    if text is None:
        return Verdict(slot, ("there is none",), valuable=os.path.lexists(slot.key))
    try:
        certificate = certs.read_certificates(text, slot.certificate)[0]
    except InputError:
        return Verdict(slot, ("it cannot be read",), valuable=True)
    issuer = find_issuer(certificate, wish.known)
    if issuer is None and not wish.replace_foreign and certs.days_left(certificate) >= 0:
        raise ConflictError(
            f"{slot.certificate} is from {certs.as_text(certificate.issuer)}, not one of this cloud's authorities",
            hint=FOREIGN_HINT,
        )
    key = load_key(slot.key)
    matches = key is not None and certs.public_bytes(key.public_key()) == certs.public_bytes(certificate.public_key())
    key_reasons, misplaced = _judge_key(slot, key, matches, wish.key_type)
    return Verdict(
        slot,
        (*_judge_certificate(slot, certificate, issuer, wish), *key_reasons),
        certificate,
        None if issuer is None else certs.fingerprint(issuer),
        misplaced,
        valuable=issuer is None,
        usable=matches and certs.days_left(certificate) >= 0,
    )


def find_issuer(
    signed: x509.Certificate | x509.CertificateRevocationList, known: t.Iterable[x509.Certificate]
) -> x509.Certificate | None:
    """The authority among the known ones that a certificate or a revocation list is from."""
    return next((authority for authority in known if certs.is_issued_by(signed, authority)), None)


def _judge_certificate(
    slot: Slot, certificate: x509.Certificate, issuer: x509.Certificate | None, wish: Wish
) -> t.Iterator[str]:
    if issuer is None or issuer not in wish.accepted:
        yield f"it is from {certs.as_text(certificate.issuer)}"
    left = certs.days_left(certificate)
    if left < wish.renew_before_days and not _is_longest(certificate, issuer):
        yield f"it expires in {left} days" if left >= 0 else f"it expired on {certs.not_after(certificate).date()}"
    wanted = certs.as_text(certs.make_name(wish.organization, UNITS[slot.kind], wish.name))
    if certs.subject(certificate) != wanted:
        yield f"it is for {certs.subject(certificate)}"
    missing = set(wish.names_of(slot)) - set(certs.names(certificate))
    if missing:
        yield f"it lacks {', '.join(sorted(missing))}"
    if slot.purpose not in certs.purposes(certificate):
        yield f"it is not for a {slot.purpose}"


def _is_longest(certificate: x509.Certificate, issuer: x509.Certificate | None) -> bool:
    """Whether no new certificate would end later, because none outlives its authority."""
    return issuer is not None and certs.not_after(certificate) == certs.not_after(issuer) > certs.now()


def _judge_key(slot: Slot, key: certs.PrivateKey | None, matches: bool, key_type: str) -> tuple[list[str], bool]:
    """Reasons, and whether the key is good and only has the wrong owner or mode."""
    if key is None:
        return ["its key is missing or cannot be read"], False
    if not matches:
        return ["its key is that of another certificate"], False
    if not certs.fits_key_type(key.public_key(), key_type):
        return [f"its key is not of the type {key_type}"], False
    if os.stat(slot.key).st_mode & 0o077:
        return ["its key could be read by others"], False
    return [], not is_guarded(slot.key, slot.owner, KEY_MODE)


def judge_trust(
    trust: Trust,
    wanted: tuple[x509.Certificate, ...],
    may_stay: t.Callable[[x509.Certificate], bool],
    wish: Wish,
) -> tuple[list[x509.Certificate], list[x509.Certificate]]:
    """The authorities that a host trusts, and those that it is to trust. Raises ConflictError for somebody else's.

    may_stay: whether another authority than the wanted ones stays if it is there. One that has ended never does: a
    daemon would not start with it.
    """
    text = read_text(trust.authorities)
    try:
        found = certs.read_certificates(text, trust.authorities) if text else []
    except InputError:
        found = []
    living = [authority for authority in found if certs.days_left(authority) >= 0]
    if living and not wish.replace_foreign and not any(authority in wish.known for authority in living):
        raise ConflictError(
            f"{trust.authorities} holds {certs.subject(living[0])}, which is not one of this cloud's authorities",
            hint=FOREIGN_HINT,
        )
    return found, [*wanted, *(one for one in living if one not in wanted and may_stay(one))]
