# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The host's half of keeping certificates: two visits of the controller, which signs in between.

First visit (prepare): finish what an earlier run left, bring the authorities up to date, judge, make keys and requests.
Second visit (install): put in place what was signed. In check mode both only say what they would do.
"""

from __future__ import annotations

import os
import typing as t
from dataclasses import dataclass, field
from functools import partial

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError
from ansible_collections.brine.virt.plugins.module_utils._base.files import read_text
from ansible_collections.brine.virt.plugins.module_utils._tls import certificates as certs
from ansible_collections.brine.virt.plugins.module_utils._tls import install, reload
from ansible_collections.brine.virt.plugins.module_utils._tls.certificates import x509
from ansible_collections.brine.virt.plugins.module_utils._tls.check import (
    Verdict,
    Wish,
    find_issuer,
    judge_slot,
    judge_trust,
)
from ansible_collections.brine.virt.plugins.module_utils._tls.paths import Places, Slot, Trust
from ansible_collections.brine.virt.plugins.module_utils._tls.request import make_request, waiting, withdraw_request


@dataclass(frozen=True)
class Orders:
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
class Report:
    """What was done, or would be. done: one sentence each."""

    check_mode: bool
    reload_mark: str = reload.MARK
    done: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    requests: dict[str, str] = field(default_factory=dict)
    certificates: dict[str, dict[str, t.Any]] = field(default_factory=dict)
    trusts: dict[str, list[str]] = field(default_factory=dict)
    issuers: list[str] = field(default_factory=list)
    reloaded: bool = False
    # Whether libvirt's daemon could start with what there is; it reads nothing else before.
    usable: bool = True

    def act(self, what: str, kind: str, work: t.Callable[[], t.Any]) -> None:
        """Do something, unless in check mode, and note it. A change of what libvirt's daemon reads is marked before."""
        self.done.append(what)
        if self.check_mode:
            return
        if kind == "libvirt":
            reload.mark(self.reload_mark)
        kept = work()
        if isinstance(kept, list):
            self.kept += kept


def prepare(places: Places, wish: Wish, orders: Orders, report: Report) -> None:
    """The first visit."""
    for slot in places.slots:
        if not orders.only_trust and os.path.exists(waiting(slot.certificate)):
            report.act(f"finished {slot.certificate}", slot.kind, partial(install.finish_installation, slot))
    # What is somebody else's is refused before anything is changed.
    verdicts = [judge_slot(slot, wish) for slot in places.slots]
    plans = [(trust, *_judged(trust, wish, orders)) for trust in places.trusts]
    for trust in places.trusts:
        _refuse_forgotten(trust, orders.revocations, wish)
    for trust, found, wanted in plans:
        _keep_trust(trust, found, wanted, wish, report)
        _keep_revocations(trust, orders.revocations, report)
    for verdict in verdicts:
        _note(verdict, report)
        if not orders.only_trust:
            _keep_slot(verdict, wish, report)


def _judged(
    trust: Trust, wish: Wish, orders: Orders
) -> tuple[list[x509.Certificate], list[x509.Certificate]]:  # fmt: skip
    def may_stay(authority: x509.Certificate) -> bool:
        return authority in orders.tolerated or (authority not in wish.known and not orders.drop_unknown)

    return judge_trust(trust, orders.trust, may_stay, wish)


def _keep_trust(
    trust: Trust, found: list[x509.Certificate], wanted: list[x509.Certificate], wish: Wish, report: Report
) -> None:
    report.trusts[trust.authorities] = [certs.fingerprint(authority) for authority in wanted]
    if found == wanted:
        return
    valuable = read_text(trust.authorities) is not None and not any(authority in wish.known for authority in found)
    report.act(
        f"{trust.authorities}: {', '.join(certs.subject(authority) for authority in wanted)}",
        trust.kind,
        lambda: install.install_authorities(trust, wanted, valuable=valuable),
    )


def _keep_revocations(trust: Trust, text: str, report: Report) -> None:
    found = read_text(trust.revocations)
    if text and found != text:
        count = sum(len(revocations) for revocations in certs.read_lists(text))
        report.act(
            f"{trust.revocations}: {count} revoked", trust.kind, lambda: install.install_revocations(trust, text)
        )


def _refuse_forgotten(trust: Trust, text: str, wish: Wish) -> None:
    """Raise ConflictError where a host refuses certificates that it would take again with these lists.

    The controller's folder may be an older one, from a backup or of another controller.
    """
    told: dict[x509.Name, set[int]] = {}
    for one in certs.read_lists(text):
        told.setdefault(one.issuer, set()).update(entry.serial_number for entry in one)
    for one in certs.read_lists(read_text(trust.revocations) or "") if text else ():
        forgotten = {entry.serial_number for entry in one} - told.get(one.issuer, set())
        if forgotten and find_issuer(one, wish.known) is not None:
            raise ConflictError(
                f"{trust.revocations} refuses certificates that the authority's folder does not know as revoked: "
                f"{', '.join(f'{serial:x}' for serial in sorted(forgotten))}",
                hint="Is the folder an older one, or another controller's? Put these numbers into revoked as well",
            )


def _note(verdict: Verdict, report: Report) -> None:
    """What is there, as the result tells it."""
    slot = verdict.slot
    facts = certs.describe(verdict.certificate) if verdict.certificate else {}
    report.certificates[slot.name] = {"path": slot.certificate, "reasons": list(verdict.reasons), **facts}
    if slot.name == "libvirt_server":
        report.usable = verdict.usable
    if verdict.certificate and certs.days_left(verdict.certificate) >= 0:
        report.issuers.append(verdict.issuer or "unknown")


def _keep_slot(verdict: Verdict, wish: Wish, report: Report) -> None:
    slot = verdict.slot
    if not verdict.reasons:
        if verdict.misplaced:
            report.act(f"{slot.key}: for {slot.owner.name} alone", slot.kind, lambda: install.guard_key(slot))
        if os.path.lexists(waiting(slot.key)):
            report.act(f"removed {waiting(slot.key)}", "", lambda: withdraw_request(slot))
        return
    report.done.append(f"{slot.certificate}: new, as {', '.join(verdict.reasons)}")
    # In check mode the request is empty, and says no more than that there would be one.
    report.requests[slot.name] = "" if report.check_mode else make_request(slot, wish.key_type, wish.name)


def install_all(places: Places, wish: Wish, answers: dict[str, str], report: Report) -> None:
    """The second visit. answers: the signed certificates, with their chains, by the names of their slots."""
    for slot in places.slots:
        if slot.name in answers:
            _install(slot, wish, answers[slot.name], report)
    for slot in places.slots:
        _note(judge_slot(slot, wish), report)


def _install(slot: Slot, wish: Wish, text: str, report: Report) -> None:
    old = judge_slot(slot, wish)
    certificate = certs.read_certificates(text, f"the answer for {slot.name}")[0]
    if find_issuer(certificate, wish.known) is None:
        raise AssertionError("contract violation: a certificate of none of the authorities")
    report.act(
        f"{slot.certificate}: until {certs.not_after(certificate).date()}",
        slot.kind,
        lambda: install.install_certificate(slot, text, valuable=old.valuable),
    )


def conclude(report: Report) -> None:
    """Have the daemon read what has changed, now or in an earlier run that got no further."""
    if not reload.is_marked(report.reload_mark):
        return
    if not report.check_mode and report.usable:
        report.reloaded = reload.reload_daemon(report.reload_mark)
    if report.check_mode or report.reloaded:
        report.done.append("libvirt's daemon reads its certificates")
