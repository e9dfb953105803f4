# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cloud's certificate authorities, in a folder of the controller: made there, or the user's own, and former ones.

The folder holds for each authority, by the first 16 digits of its fingerprint: ``ID.pem`` (its certificate, with the
chain of one that is not a root), ``ID.key`` (its key, of those made here), ``ID.crl`` (what it revoked) and
``issued/ID/`` (what it signed, by serial number). Everything follows from these files; nothing else is remembered.
"""

from __future__ import annotations

import contextlib
import datetime
import secrets
import stat
import typing as t
from dataclasses import dataclass
from pathlib import Path

from ...module_utils._base.errors import InputError, VirtError
from ...module_utils._base.files import LockTimeout, locked_file, sync_folder, write_whole
from ...module_utils._tls import certificates as certs
from ...module_utils._tls.certificates import UnsupportedAlgorithm, hashes, serialization, x509

# A host's clock may be behind the controller's.
CLOCK_SKEW = datetime.timedelta(hours=1)


# A task signs in a moment, for fifty hosts in a few seconds.
_LOCK_SECONDS = 60.0


@dataclass(frozen=True)
class CaOptions:
    """Which authority is to sign.

    days: how long what it signs is valid; since: when one that is made here has to have been made, or later;
    certificate, key: paths of the user's own.
    """

    organization: str
    key_type: str
    days: int
    ca_days: int
    passphrase: str | None = None
    since: datetime.datetime | None = None
    certificate: str | None = None
    key: str | None = None


@dataclass(frozen=True)
class CertificateAuthority:
    """An authority. key: None of a former one whose key is not here; saved: False of one that is made in check mode."""

    certificate: x509.Certificate
    chain: tuple[x509.Certificate, ...] = ()
    key: certs.PrivateKey | None = None
    saved: bool = True

    @property
    def fingerprint(self) -> str:
        """What results call it."""
        return certs.fingerprint(self.certificate) if self.saved else "new"

    @property
    def short(self) -> str:
        """What its files are called."""
        return certs.fingerprint(self.certificate)[:16]

    @property
    def all(self) -> tuple[x509.Certificate, ...]:
        """Its certificate and its chain."""
        return (self.certificate, *self.chain)


@dataclass(frozen=True)
class CaStore:
    """The authority that signs, the former ones that have not ended (newest first), and their folder."""

    folder: Path
    current: CertificateAuthority
    former: tuple[CertificateAuthority, ...]

    @property
    def all(self) -> tuple[CertificateAuthority, ...]:
        """The current one first."""
        return (self.current, *self.former)

    def has_issued(self, ca: CertificateAuthority) -> bool:
        """Whether an authority has signed anything yet."""
        return any(self.issued(ca))

    def issued(self, ca: CertificateAuthority) -> t.Iterator[Path]:
        """Files of all that an authority has signed."""
        return (self.folder / "issued" / ca.short).glob("*.pem")

    def certificates(self) -> t.Iterator[x509.Certificate]:
        """All that these authorities have signed."""
        with ca_errors(self.folder):
            found = [(path, path.read_text(encoding="ascii")) for ca in self.all for path in self.issued(ca)]
        for path, text in found:
            yield certs.read_certificates(text, str(path))[0]


def open_ca_store(folder: str, ca_options: CaOptions, *, save: bool) -> CaStore:
    """The authorities in this folder. A current one is made where it is missing, in memory only unless save."""
    place = Path(folder).expanduser()
    with ca_errors(place), locked(place) if save else contextlib.nullcontext():
        for path in (place, *place.glob("*.pem")):
            _refuse_open(path, "authority")
        known = list(_load_all(place, ca_options))
        current = _own(ca_options) if ca_options.certificate else _made(known, ca_options)
        if current is None:
            _refuse_lost_key(known, ca_options, place)
            current = _make(ca_options, save=save)
        if save and not (place / f"{current.short}.pem").exists():
            _save(place, current, ca_options)
    former = [one for one in known if one.short != current.short and certs.days_left(one.certificate) >= 0]
    former.sort(key=lambda one: certs.not_before(one.certificate), reverse=True)
    return CaStore(place, current, tuple(former))


def _refuse_open(path: Path, where: str) -> None:
    """Raise InputError where every user can add an authority, or change one that hosts trust."""
    mode = path.stat().st_mode if path.exists() else 0
    if mode & stat.S_IWOTH:
        raise InputError(
            f"every user of this computer can change {path}, and so whom hosts trust (mode {stat.S_IMODE(mode):04o})",
            where=where,
            hint=f"See what was added there, and then: chmod o-w {path}",
        )


def _load_all(place: Path, ca_options: CaOptions) -> t.Iterator[CertificateAuthority]:
    # Not with glob, which finds nothing where it may not look, or where a file is: check mode would announce a new one.
    found = sorted(place.iterdir()) if place.exists() else []
    for path in (one for one in found if one.suffix == ".pem"):
        certificate, *chain = certs.read_certificates(path.read_text(encoding="ascii"), str(path))
        key = None
        if path.with_suffix(".key").exists():
            is_candidate = not ca_options.certificate and _fits(certificate, ca_options)
            load = load_key if is_candidate else _load_former_key
            key = load(path.with_suffix(".key"), ca_options.passphrase, certificate)
        yield CertificateAuthority(certificate, tuple(chain), key)


def _load_former_key(path: Path, passphrase: str | None, certificate: x509.Certificate) -> certs.PrivateKey | None:
    """The key of a former authority, which may have had no passphrase; one of another passphrase cannot sign."""
    for one in dict.fromkeys((passphrase, None)):
        with contextlib.suppress(InputError):
            return load_key(path, one, certificate)
    return None


def load_key(path: Path, passphrase: str | None, certificate: x509.Certificate) -> certs.PrivateKey:
    """The key of an authority. Raises InputError, also for one that is not encrypted and that every user can read."""
    try:
        content, mode = path.read_bytes(), path.stat().st_mode
        key = serialization.load_pem_private_key(content, passphrase.encode() if passphrase else None)
    except OSError as exc:
        raise InputError(f"{path} cannot be read: {exc.strerror}") from exc
    except TypeError as exc:
        # cryptography says both by the same class: a passphrase is missing, or there is one too many.
        raise InputError(
            f"{path} is not encrypted" if passphrase else f"{path} is encrypted",
            where="authority_passphrase",
            hint="Leave the passphrase out, or encrypt the key with it: openssl pkcs8 -topk8"
            if passphrase
            else "Give the passphrase",
        ) from exc
    except ValueError as exc:
        raise InputError(
            f"{path} cannot be read with this passphrase" if passphrase else f"{path} holds no key that can be read",
            where="authority_passphrase" if passphrase else None,
        ) from exc
    except UnsupportedAlgorithm as exc:
        raise InputError(f"{path} holds a key that cannot be used: {exc}") from exc
    # A group may have it on purpose, and one that is encrypted says nothing without its passphrase.
    if mode & (stat.S_IROTH | stat.S_IWOTH) and not passphrase:
        raise InputError(
            f"every user of this computer can {'read' if mode & stat.S_IROTH else 'change'} {path}, the key of an "
            f"authority that hosts trust (mode {stat.S_IMODE(mode):04o})",
            hint=f"chmod 600 {path}",
        )
    if not isinstance(key, (certs.ec.EllipticCurvePrivateKey, certs.rsa.RSAPrivateKey)):
        raise InputError(f"{path} holds a key that is neither ECDSA nor RSA")
    if not certs.is_key_of(key, certificate):
        raise InputError(
            f"{path} does not hold the key of {certs.subject(certificate)}",
            hint="If that is the root of an intermediate authority, put it behind that one in the file of certificates",
        )
    return key


def _own(ca_options: CaOptions) -> CertificateAuthority:
    """The user's own authority."""
    path = Path(ca_options.certificate or "")
    where = "authority_certificate"
    try:
        # In DER form it is no text, and holds nothing in PEM form.
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as exc:
        raise InputError(f"{path} cannot be read: {exc.strerror}", where=where) from exc
    _refuse_open(path, where)
    certificate, *chain = certs.read_certificates(text, str(path))
    key = load_key(Path(ca_options.key or ""), ca_options.passphrase, certificate)
    # Of the chain as well: hosts trust all of the file, and no daemon starts with one that may not sign.
    for one in (certificate, *chain):
        if not certs.is_ca(one):
            raise InputError(
                f"{path} holds {certs.subject(one)}, which is not an authority",
                where=where,
                hint="Its basicConstraints need CA:TRUE, and its keyUsage, if it has any, keyCertSign",
            )
    if certs.not_before(certificate) > certs.now():
        # No daemon would start with it, nor with what it signs.
        raise InputError(
            f"{certs.subject(certificate)} is not valid before {certs.not_before(certificate):%Y-%m-%d %H:%M} UTC",
            where=where,
            hint="Go on with the one before until then",
        )
    left = certs.days_left(certificate)
    if left < 1:
        words = f"expired on {certs.not_after(certificate).date()}" if left < 0 else "expires within a day"
        raise InputError(f"{certs.subject(certificate)} {words}", where=where)
    return CertificateAuthority(certificate, tuple(chain), key)


def _made(known: list[CertificateAuthority], ca_options: CaOptions) -> CertificateAuthority | None:
    """The newest fitting authority that was made here. Raises InputError for one whose validity has not begun.

    To go on without it would have all hosts drop it, and it may be this clock that is wrong.
    """
    mine = [one for one in known if one.key is not None and _fits(one.certificate, ca_options)]
    for one in mine:
        if _is_ahead(one.certificate):
            raise InputError(
                f"{certs.subject(one.certificate)} is not valid before "
                f"{certs.not_before(one.certificate):%Y-%m-%d %H:%M} UTC, and it is {certs.now():%Y-%m-%d %H:%M} here",
                where="authority",
                hint="Set this computer's clock. Or, if the authority was created while that was ahead, have a new one "
                "created: give the UTC time as authority_since (in the role virt_tls: virt_tls_authority_since)",
            )
    return max(mine, key=lambda one: certs.not_before(one.certificate), default=None)


def _refuse_lost_key(known: list[CertificateAuthority], ca_options: CaOptions, place: Path) -> None:
    """Raise InputError where the authority is there without its key, as in a copy that left the keys out.

    Another authority beside it would be trusted by all hosts a moment later, and nobody has asked for one.
    """
    for one in known:
        if one.key is None and _fits(one.certificate, ca_options):
            raise InputError(
                f"{place / one.short}.pem has no key next to it ({one.short}.key), so it cannot sign anything",
                where="authority",
                hint="Copy the key from where the authority was created. Or have a new authority created: give the "
                "UTC time as authority_since (in the role virt_tls: virt_tls_authority_since)",
            )


def _fits(certificate: x509.Certificate, ca_options: CaOptions) -> bool:
    """Whether an authority is what would be made, is not too old, and ends later than what it signs."""
    begin = certs.not_before(certificate) + CLOCK_SKEW
    since = ca_options.since
    is_followed = since is not None and since <= certs.now() and (begin < since or _is_ahead(certificate))
    return (
        certs.common_name(certificate) == ca_options.organization
        and certs.days_left(certificate) >= ca_options.days
        and not is_followed
    )


def _is_ahead(certificate: x509.Certificate) -> bool:
    """Whether its validity has not begun: one of two clocks is wrong, this one or that of the time when it was made."""
    return certs.not_before(certificate) > certs.now()


def _make(ca_options: CaOptions, *, save: bool) -> CertificateAuthority:
    """A new authority, which is its own root."""
    if ca_options.ca_days < 2 * ca_options.days:
        raise InputError(
            f"an authority of {ca_options.ca_days} days would soon have to be replaced",
            where="authority_days",
            hint=f"Give at least twice the days of a certificate, which is {2 * ca_options.days}",
        )
    key = certs.make_key(ca_options.key_type)
    # No two authorities have one name, or GnuTLS would heed the revocation list of one of them only. The CN is what
    # virt-pki-validate of libvirt 9 compares with the O of the others.
    name = certs.make_name(ca_options.organization, f"authority {secrets.token_hex(4)}", ca_options.organization)
    begin = certs.now()
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin - CLOCK_SKEW)
        .not_valid_after(begin + datetime.timedelta(days=ca_options.ca_days))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(key_usage(key_cert_sign=True, crl_sign=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return CertificateAuthority(builder.sign(key, hashes.SHA256()), (), key, saved=save)


def key_usage(**wanted: bool) -> x509.KeyUsage:
    """What a key may do: nothing but what is wanted."""
    words = (
        "digital_signature content_commitment key_encipherment data_encipherment key_agreement key_cert_sign crl_sign "
        "encipher_only decipher_only"
    )
    return x509.KeyUsage(**{word: wanted.get(word, False) for word in words.split()})


def key_identifier(ca: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    """How what an authority signs names its key: as the authority itself does, however it has made that."""
    try:
        found = ca.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    except x509.ExtensionNotFound:
        # Of a kind that signs, as the authority has signed with it; the type has all kinds.
        return x509.AuthorityKeyIdentifier.from_issuer_public_key(ca.public_key())  # type: ignore[arg-type]
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(found)


def _save(place: Path, ca: CertificateAuthority, ca_options: CaOptions) -> None:
    if ca.key is not None and not ca_options.certificate:
        # The key first: a certificate without its key would be taken for a former authority.
        write(place / f"{ca.short}.key", certs.key_as_pem(ca.key, ca_options.passphrase), 0o600)
    write(place / f"{ca.short}.pem", certs.as_pem(ca.all).encode(), 0o644)


def write(path: Path, content: bytes, mode: int) -> None:
    """Put a file in place at once, and for good; folders are made for us alone.

    Hosts trust an authority a moment later: one whose key a loss of power takes away could not be used, nor replaced.
    """
    with ca_errors(path.parent):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(str(path), content, mode)
    # Its folder may be new itself; one that is only passed through may not be opened.
    with contextlib.suppress(OSError):
        sync_folder(path.parent.parent)


@contextlib.contextmanager
def locked(place: Path) -> t.Iterator[None]:
    """Keep the tasks of other hosts, and other runs, from the folder meanwhile. It is made when it is missing."""
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(locked_file(str(place / ".lock"), _LOCK_SECONDS))
        except LockTimeout as exc:
            raise VirtError(
                f"another run has been at work in {place} for more than {_LOCK_SECONDS:g} s",
                where="authority",
                hint=f"Wait for it to end; fuser {place / '.lock'} shows its process",
            ) from exc
        yield


@contextlib.contextmanager
def ca_errors(place: Path) -> t.Iterator[None]:
    """Have what goes wrong with files of the authority's folder be a sentence. Raises VirtError."""
    try:
        yield
    except (OSError, UnicodeDecodeError) as exc:
        raise VirtError(f"the authority in {place} cannot be used: {exc}", where="authority") from exc
