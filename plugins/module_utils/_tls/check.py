# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with what a host has, and with its clock: a wrong one has good certificates seem ended, or ended ones
good. Reads files, changes nothing."""

from __future__ import annotations

import datetime
import os
import typing as t
from dataclasses import dataclass

from .._base.errors import ConflictError, InputError
from .._base.files import read_text
from .._tls import certificates as certs
from .certificates import x509
from .files import is_guarded
from .paths import UNITS, KeyPairFiles, TrustFiles
from .request import load_key

_FOREIGN_HINT = (
    "If this cloud issued it, run as the account that did, or give that one's authority (authority or "
    "authority_certificate; in the role virt_tls: virt_tls_authority or virt_tls_authority_certificate). To replace "
    "what is there, and keep the old files next to it: replace_foreign=true (virt_tls_replace_foreign)"
)
# Whoever connects to two clouds.
_FOREIGN_CLIENT_HINT = (
    "To have both, give another folder (in the role virt_tls: virt_tls_client_folder). To replace it, "
    "move the files away"
)
# Certificates begin an hour before they are signed.
_TOLERATED = datetime.timedelta(hours=1)


@dataclass(frozen=True)
class TlsSpec:
    """What certificates of a host are to be.

    known: the authorities of this cloud, old ones too; accepted: those of them whose certificates are good now;
    revoked: issuers and serial numbers of certificates that others refuse, and that are to be replaced.
    """

    organization: str
    name: str
    names: tuple[str, ...]
    key_type: str
    renew_before_days: int
    known: tuple[x509.Certificate, ...]
    accepted: tuple[x509.Certificate, ...]
    replace_foreign: bool = False
    revoked: frozenset[tuple[x509.Name, int]] = frozenset()

    def names_of(self, key_pair: KeyPairFiles) -> tuple[str, ...]:
        """The names that this certificate is to be valid for; an account answers to its own name only."""
        return self.names if key_pair.kind != "client" else tuple(n for n in self.names if n == self.name.lower())


@dataclass(frozen=True)
class KeyPairState:
    """The state of a certificate and its key. reasons: why it needs a new certificate, none when it does not.

    misplaced: the key is good and has the wrong owner or mode. valuable: what is there must be kept beside when it is
    replaced. usable: a daemon can start with it. issuer: fingerprint of the known authority that it is from.
    """

    key_pair: KeyPairFiles
    reasons: tuple[str, ...]
    certificate: x509.Certificate | None = None
    issuer: str | None = None
    misplaced: bool = False
    valuable: bool = False
    usable: bool = False


def check_key_pair(key_pair: KeyPairFiles, spec: TlsSpec) -> KeyPairState:
    """What is wrong with a certificate and its key. Raises ConflictError for somebody else's."""
    text = read_text(key_pair.certificate)
    if text is None:
        return KeyPairState(key_pair, ("there is none",), valuable=os.path.lexists(key_pair.key))
    try:
        certificate = certs.read_certificates(text, key_pair.certificate)[0]
    except InputError:
        return KeyPairState(key_pair, ("it cannot be read",), valuable=True)
    issuer = find_issuer(certificate, spec.known)
    if issuer is None and not spec.replace_foreign and certs.days_left(certificate) >= 0:
        raise ConflictError(
            f"{key_pair.certificate} was issued by {certs.as_text(certificate.issuer)}, not one of "
            "this cloud's authorities",
            hint=_foreign_hint(key_pair.kind),
        )
    key = load_key(key_pair.key)
    matches = certs.is_key_of(key, certificate)
    key_reasons, misplaced = _check_key(key_pair, key, matches, spec.key_type)
    return KeyPairState(
        key_pair,
        (*_check_certificate(key_pair, certificate, issuer, spec), *key_reasons),
        certificate,
        None if issuer is None else certs.fingerprint(issuer),
        misplaced,
        valuable=issuer is None,
        usable=matches and certs.is_valid_now(certificate),
    )


def _foreign_hint(kind: str) -> str:
    return _FOREIGN_CLIENT_HINT if kind == "client" else _FOREIGN_HINT


def find_issuer(
    signed: x509.Certificate | x509.CertificateRevocationList, known: t.Iterable[x509.Certificate]
) -> x509.Certificate | None:
    """The authority among the known ones that a certificate or a revocation list is from."""
    return next((ca for ca in known if certs.is_issued_by(signed, ca)), None)


def _check_certificate(
    key_pair: KeyPairFiles, certificate: x509.Certificate, issuer: x509.Certificate | None, spec: TlsSpec
) -> t.Iterator[str]:
    if issuer is None or issuer not in spec.accepted:
        yield f"it was issued by {certs.as_text(certificate.issuer)}"
    if (certificate.issuer, certificate.serial_number) in spec.revoked:
        yield "it was revoked"
    left = certs.days_left(certificate)
    if left < spec.renew_before_days and not _is_longest(certificate, issuer):
        yield f"it expires in {left} days" if left >= 0 else f"it expired on {certs.not_after(certificate).date()}"
    if certs.not_before(certificate) > certs.now():
        yield f"it is not valid before {certs.not_before(certificate):%Y-%m-%d %H:%M} UTC"
    wanted = certs.as_text(certs.make_name(spec.organization, UNITS[key_pair.kind], spec.name))
    if certs.subject(certificate) != wanted:
        yield f"it is for {certs.subject(certificate)}"
    missing = set(spec.names_of(key_pair)) - set(certs.names(certificate))
    if missing:
        yield f"it lacks {', '.join(sorted(missing))}"
    if key_pair.purpose not in certs.purposes(certificate):
        yield f"it is not for a {key_pair.purpose}"


def _is_longest(certificate: x509.Certificate, issuer: x509.Certificate | None) -> bool:
    """Whether no new certificate would end later, because none outlives its authority."""
    return issuer is not None and certs.not_after(certificate) == certs.not_after(issuer) > certs.now()


def _check_key(
    key_pair: KeyPairFiles, key: certs.PrivateKey | None, matches: bool, key_type: str
) -> tuple[list[str], bool]:
    """Reasons, and whether the key is good and only has the wrong owner or mode."""
    if key is None:
        return ["its key is missing or cannot be read"], False
    if not matches:
        return ["its key belongs to another certificate"], False
    if not certs.fits_key_type(key.public_key(), key_type):
        return [f"its key is not of the type {key_type}"], False
    if os.stat(key_pair.key).st_mode & 0o077:
        return ["its key is readable by others"], False
    return [], not is_guarded(key_pair.key, key_pair.owner)


def check_trust(
    trust: TrustFiles,
    wanted: tuple[x509.Certificate, ...],
    may_stay: t.Callable[[x509.Certificate], bool],
    spec: TlsSpec,
) -> tuple[list[x509.Certificate], list[x509.Certificate]]:
    """The authorities that a host trusts, and those that it is to trust. Raises ConflictError for somebody else's.

    may_stay: whether another authority than the wanted ones stays if it is there. One that has ended never does: a
    daemon would not start with it.
    """
    text = read_text(trust.ca_file)
    try:
        found = certs.read_certificates(text, trust.ca_file) if text else []
    except InputError:
        found = []
    unexpired = [ca for ca in found if certs.days_left(ca) >= 0]
    if unexpired and not spec.replace_foreign and not any(ca in spec.known for ca in unexpired):
        raise ConflictError(
            f"{trust.ca_file} holds {certs.subject(unexpired[0])}, which is not one of this cloud's authorities",
            hint=_foreign_hint(trust.kind),
        )
    return found, [*wanted, *(one for one in unexpired if one not in wanted and may_stay(one))]


def require_same_time(host: str, controller_time: str) -> None:
    """Raise ConflictError where this host's clock and the controller's are more than an hour apart.

    host: what it is called; controller_time: what the controller's clock has shown just before, in ISO 8601.
    """
    ahead = certs.now() - datetime.datetime.fromisoformat(controller_time)
    if abs(ahead) > _TOLERATED:
        days, seconds = divmod(int(abs(ahead).total_seconds()), 86400)
        amount = f"{days} days" if days > 1 else f"{(days * 86400 + seconds) / 3600:.1f} hours"
        raise ConflictError(
            f"the clock of {host} is {amount} {'ahead of' if ahead > _TOLERATED else 'behind'} the controller's, so "
            "they do not agree on which certificates are valid",
            hint="Set the wrong one, have a time service such as chrony keep both, and run again",
        )
