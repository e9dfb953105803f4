# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The host's half of keeping certificates: two visits of the controller, which signs in between.

First visit (prepare): finish what an earlier run left, bring the authorities up to date, judge, make keys and requests.
Second visit (install): put in place what was signed. In check mode both only say what they would do.
"""

from __future__ import annotations

import contextlib
import os
import typing as t
from dataclasses import dataclass, field, replace
from functools import partial

from .._base.errors import ConflictError, HostError
from .._base.files import read_text
from .._tls import certificates as certs
from .._tls import install, reload
from .certificates import x509
from .check import KeyPairState, TlsSpec, check_key_pair, check_trust, find_issuer
from .files import guard, is_public, publish
from .paths import KeyPairFiles, TlsFiles, TrustFiles
from .request import make_request, staged


@dataclass(frozen=True)
class TrustUpdate:
    """What the controller says.

    trust: the authorities to be trusted; tolerated: old ones that stay where they are; drop_unknown: those that the
    cloud does not know go; revocations: lists as text; only_trust: certificates are not this visit's matter.
    """

    trust: tuple[x509.Certificate, ...]
    tolerated: tuple[x509.Certificate, ...]
    drop_unknown: bool
    revocations: str
    only_trust: bool = False


@dataclass
class RenewalReport:
    """What was done, or would be. done: one sentence each."""

    check_mode: bool
    reload_mark: str = reload.MARK
    done: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    requests: dict[str, str] = field(default_factory=dict)
    certificates: dict[str, dict[str, t.Any]] = field(default_factory=dict)
    trusts: dict[str, list[str]] = field(default_factory=dict)
    issuers: list[str] = field(default_factory=list)
    # The certificates that are from the cloud's authorities, in PEM.
    held: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    reloaded: bool = False
    # Whether something was, or would be, changed that libvirt's daemon reads; and whether it cannot read it.
    is_due: bool = False
    unread: bool = False
    # Whether libvirt's daemon could start with what there is; it reads nothing else before.
    usable: bool = True

    def act(self, what: str, kind: str, work: t.Callable[[], t.Any]) -> None:
        """Do something, unless in check mode, and note it. A change of what libvirt's daemon reads is marked before."""
        self.done.append(what)
        self.is_due = self.is_due or kind == "libvirt"
        if self.check_mode:
            return
        if kind == "libvirt":
            reload.mark(self.reload_mark)
        kept = work()
        if isinstance(kept, list):
            self.kept += kept


def prepare(places: TlsFiles, spec: TlsSpec, trust_update: TrustUpdate, report: RenewalReport) -> None:
    """The first visit."""
    # In check mode, where a certificate that waits and its key still are.
    waiting: dict[str, KeyPairFiles] = {}
    for key_pair in places.key_pairs:
        path = staged(key_pair.certificate)
        if trust_update.only_trust or not os.path.exists(path):
            continue
        key = install.find_waiting_key(key_pair)
        if key and report.check_mode:
            waiting[key_pair.name] = replace(key_pair, certificate=path, key=key)
        report.act(
            f"finished {key_pair.certificate}" if key else f"removed {path}",
            key_pair.kind if key else "",
            partial(install.finish_installation, key_pair),
        )
    # What is somebody else's is refused before anything is changed.
    states = [
        replace(check_key_pair(waiting.get(key_pair.name, key_pair), spec), key_pair=key_pair)
        for key_pair in places.key_pairs
    ]

    def may_stay(ca: x509.Certificate) -> bool:
        return ca in trust_update.tolerated or (ca not in spec.known and not trust_update.drop_unknown)

    plans = [(trust, *check_trust(trust, trust_update.trust, may_stay, spec)) for trust in places.trusts]
    for trust in places.trusts:
        _refuse_unrevoked(trust, trust_update.revocations, spec, report)
    for trust, found, wanted in plans:
        _keep_trust(trust, found, wanted, spec, report)
        _keep_revocations(trust, trust_update.revocations, spec, report)
    for state in states:
        _note(state, report)
        if not trust_update.only_trust and (state.reasons or state.key_pair.name not in waiting):
            _keep_key_pair(state, spec, report)


def _keep_trust(
    trust: TrustFiles,
    found: list[x509.Certificate],
    wanted: list[x509.Certificate],
    spec: TlsSpec,
    report: RenewalReport,
) -> None:
    report.trusts[trust.ca_file] = [certs.fingerprint(ca) for ca in wanted]
    if found == wanted:
        _keep_public(trust.ca_file, report)
        return
    valuable = read_text(trust.ca_file) is not None and not any(ca in spec.known for ca in found)
    report.act(
        f"{trust.ca_file}: {', '.join(certs.subject(ca) for ca in wanted)}",
        trust.kind,
        lambda: install.install_trust(trust.ca_file, certs.as_pem(wanted), trust.owner, valuable=valuable),
    )


def _keep_public(path: str, report: RenewalReport) -> None:
    if not is_public(path):
        report.act(f"{path}: for all to read, and its owner alone to change", "", partial(publish, path))


def _keep_revocations(trust: TrustFiles, text: str, spec: TlsSpec, report: RenewalReport) -> None:
    """Put the cloud's lists in place, and keep behind them those of others: such an authority may be trusted here."""
    found = read_text(trust.revocations)
    if not text:
        return
    names = {ca.subject for ca in spec.known}
    lists = certs.read_revocation_lists(found or "")
    wanted = text + certs.as_pem(one for one in lists if one.issuer not in names)
    if found == wanted:
        _keep_public(trust.revocations, report)
        return
    # Two lists under one name cannot both count, and a broken one may be read by somebody: these are kept beside.
    is_lost = any(one.issuer in names and find_issuer(one, spec.known) is None for one in lists)
    valuable = is_lost or len(lists) < (found or "").count("-----BEGIN ")
    count = sum(len(revocations) for revocations in certs.read_revocation_lists(text))
    report.act(
        f"{trust.revocations}: {count} revoked",
        trust.kind,
        lambda: install.install_trust(trust.revocations, wanted, trust.owner, valuable=valuable),
    )


def _refuse_unrevoked(trust: TrustFiles, text: str, spec: TlsSpec, report: RenewalReport) -> None:
    """Raise ConflictError where a host refuses certificates that it would take again with these lists.

    The controller's folder may be an older one, from a backup or of another controller. Without any list the host keeps
    what it has, which may be an own authority's that is brought there by other means; only what others do is not known.
    """
    revoked: dict[x509.Name, set[int]] = {}
    for one in certs.read_revocation_lists(text):
        revoked.setdefault(one.issuer, set()).update(entry.serial_number for entry in one)
    for one in certs.read_revocation_lists(read_text(trust.revocations) or ""):
        unrevoked = {entry.serial_number for entry in one} - revoked.get(one.issuer, set())
        if unrevoked and find_issuer(one, spec.known) is not None:
            error = ConflictError(
                f"{trust.revocations} refuses certificates that the authority's folder does not list as revoked: "
                f"{', '.join(map(certs.serial_text, sorted(unrevoked)))}",
                hint="Is the folder an older one, or another controller's? Add these numbers to revoked",
            )
            if text:
                raise error
            report.warnings.append(f"{error}. Until then a host that joins accepts them")


def _note(state: KeyPairState, report: RenewalReport) -> None:
    """What is there, as the result tells it."""
    key_pair = state.key_pair
    facts = certs.describe(state.certificate) if state.certificate else {}
    report.certificates[key_pair.name] = {"path": key_pair.certificate, "reasons": list(state.reasons), **facts}
    if key_pair.name == "libvirt_server":
        report.usable = state.usable
    if state.certificate and certs.days_left(state.certificate) >= 0:
        report.issuers.append(state.issuer or "unknown")
        if state.issuer:
            report.held.append(certs.as_pem([state.certificate]))


def _keep_key_pair(state: KeyPairState, spec: TlsSpec, report: RenewalReport) -> None:
    key_pair = state.key_pair
    if not state.reasons:
        _keep_public(key_pair.certificate, report)
        if state.misplaced:
            report.act(
                f"{key_pair.key}: for {key_pair.owner.name} alone",
                key_pair.kind,
                lambda: guard(key_pair.key, key_pair.owner),
            )
        if os.path.lexists(staged(key_pair.key)):
            report.act(f"removed {staged(key_pair.key)}", "", lambda: os.unlink(staged(key_pair.key)))
        return
    report.done.append(f"{key_pair.certificate}: new, as {', '.join(state.reasons)}")
    # In check mode the request is empty, and says no more than that there would be one.
    report.requests[key_pair.name] = "" if report.check_mode else make_request(key_pair, spec.key_type, spec.name)


def install_all(places: TlsFiles, spec: TlsSpec, answers: dict[str, str], report: RenewalReport) -> None:
    """The second visit. answers: the signed certificates, with their chains, by the names of their key pairs."""
    for key_pair in places.key_pairs:
        if key_pair.name in answers:
            _install(key_pair, spec, answers[key_pair.name], report)
    for key_pair in places.key_pairs:
        _note(check_key_pair(key_pair, spec), report)


def _install(key_pair: KeyPairFiles, spec: TlsSpec, text: str, report: RenewalReport) -> None:
    old = check_key_pair(key_pair, spec)
    certificate = certs.read_certificates(text, f"the answer for {key_pair.name}")[0]
    if find_issuer(certificate, spec.known) is None:
        raise AssertionError("contract violation: a certificate of none of the authorities")
    report.act(
        f"{key_pair.certificate}: until {certs.not_after(certificate).date()}",
        key_pair.kind,
        lambda: install.install_certificate(key_pair, text, valuable=old.valuable),
    )


def conclude(report: RenewalReport, locked_out: t.Collection[str] = ()) -> None:
    """Have the daemon read what has changed, now or in an earlier run that got no further.

    locked_out: who has no valid certificate any more, by CN; their connections are ended then.
    """
    if not report.usable and "libvirt_server" not in report.requests:
        _end_connections(report, locked_out)
        return
    if not reload.is_marked(report.reload_mark):
        return
    closed: tuple[str, ...] = ()
    if not report.check_mode and report.usable:
        done = reload.reload_daemon(report.reload_mark, locked_out)
        report.reloaded, closed = done.by is not None, done.closed
    if report.check_mode or report.reloaded:
        report.done.append("libvirt's daemon reads its certificates")
    _note_ended(closed, report)


def _end_connections(report: RenewalReport, locked_out: t.Collection[str]) -> None:
    """Where the daemon refuses the host's own certificate, and so goes on with all that it has read before, also with
    the list of who is revoked: they can come in again until a run renews the certificate."""
    report.unread = (report.is_due or reload.is_marked(report.reload_mark)) and reload.is_serving()
    if report.unread and locked_out and not report.check_mode:
        # A daemon that does not say who is connected must not keep anybody from renewing the certificate.
        with contextlib.suppress(HostError):
            _note_ended(reload.end_connections(locked_out).closed, report)


def _note_ended(closed: t.Iterable[str], report: RenewalReport) -> None:
    report.done += [f"ended the connections of {name}" for name in dict.fromkeys(closed)]
