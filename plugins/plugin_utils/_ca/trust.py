# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which authority signs, and which ones hosts trust, while one authority follows another.

A certificate of a new authority is of use only where all hosts trust it, and an old authority may go only when no host
has a certificate from it any more. What hosts answered says which of this is so.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass

from ...module_utils._tls import certificates as certs
from ...module_utils._tls.certificates import x509
from .store import CaStore, CertificateAuthority


@dataclass(frozen=True)
class TrustState:
    """What holds now.

    signer: signs; accepted: certificates from these need no new one; trust: what hosts have to trust; tolerated: what
    they may go on trusting; drop_unknown: whether they stop trusting all others.
    """

    signer: CertificateAuthority
    accepted: tuple[x509.Certificate, ...]
    trust: tuple[x509.Certificate, ...]
    tolerated: tuple[x509.Certificate, ...]
    drop_unknown: bool
    warnings: tuple[str, ...]


def decide_trust(
    ca_store: CaStore, *, peers: Mapping[str, t.Any] | None, trust_old: bool, ending_days: int
) -> TrustState:
    """Who signs and who is trusted.

    peers: results of virt_keys by host, None for none, False for one that takes no part; ending_days: a former
    authority that ends sooner is no longer trusted.
    """
    current = ca_store.current
    peers = {host: answer for host, answer in (peers or {}).items() if answer is not False}
    warnings = []
    lasting = [
        one
        for one in ca_store.former
        if certs.days_left(one.certificate) >= ending_days and certs.is_valid_now(one.certificate)
    ]
    hosts_without_trust = _without_trust(current, peers)
    if lasting and hosts_without_trust and ca_store.has_issued(current):
        # It has signed, but not for these: one that nobody could sign for but it, or before another one came.
        hosts_without_trust = _left_behind(ca_store, hosts_without_trust)
    is_settled = (
        not lasting or hosts_without_trust == [] or (hosts_without_trust is None and ca_store.has_issued(current))
    )
    signer = current if is_settled else next((one for one in lasting if one.key is not None), current)
    if not is_settled:
        reason = (
            "peers has no answers from the hosts"
            if hosts_without_trust is None
            else f"it is still missing on: {', '.join(hosts_without_trust)}"
        )
        name = certs.subject(current.certificate)
        warnings.append(
            f"Certificates of {name} are issued once all hosts trust it ({reason}). The former authority remains in use"
            if signer is not current
            else f"Not all hosts trust {name} ({reason}). Certificates of the former authority remain in use. Its key "
            f"is not here, so a host that needs a new certificate gets one of {name}, which those without it refuse"
        )
    hosts_with_others = _with_others(current, peers)
    drops = not trust_old and hosts_with_others == []
    if not trust_old and hosts_with_others:
        warnings.append(
            f"Former authorities stay trusted while hosts have certificates from them: {', '.join(hosts_with_others)}"
        )
    return TrustState(
        signer=signer,
        accepted=_certificates([current] if is_settled else [current, *lasting]),
        trust=_certificates([current, *lasting] if trust_old else [current]),
        tolerated=() if drops else _certificates(lasting),
        drop_unknown=drops,
        warnings=tuple(warnings),
    )


def _certificates(several: list[CertificateAuthority]) -> tuple[x509.Certificate, ...]:
    """Their certificates with their chains, each once. What has ended of a chain, or not begun, is not for hosts: no
    daemon of theirs would start with it."""
    every = dict.fromkeys(certificate for ca in several for certificate in ca.all)
    return tuple(certificate for certificate in every if certs.is_valid_now(certificate))


def _without_trust(ca: CertificateAuthority, peers: Mapping[str, t.Any] | None) -> list[str] | None:
    """The hosts that are not known to trust an authority; None without answers."""
    if not peers:
        return None
    return sorted(host for host, answer in peers.items() if ca.fingerprint not in _list(answer, "trusts"))


def _left_behind(ca_store: CaStore, hosts: list[str]) -> list[str]:
    """Those of these hosts whose newest certificate is from another authority than the current one."""
    newest: dict[str, x509.Certificate] = {}
    for certificate in ca_store.certificates():
        name = certs.common_name(certificate)
        if name not in newest or certs.not_before(certificate) > certs.not_before(newest[name]):
            newest[name] = certificate
    current = ca_store.current.certificate
    return [host for host in hosts if host in newest and not certs.is_issued_by(newest[host], current)]


def _with_others(ca: CertificateAuthority, peers: Mapping[str, t.Any] | None) -> list[str] | None:
    """The hosts that have, or may have, certificates from another authority; None without answers."""
    if not peers:
        return None
    return sorted(
        host
        for host, answer in peers.items()
        if set(_list(answer, "issuers")) - {ca.fingerprint} or not _list(answer, "trusts")
    )


def _list(answer: t.Any, key: str) -> list[str]:
    """A list in a host's answer; empty when there was none."""
    found = answer.get(key) if isinstance(answer, Mapping) else None
    return [text for text in found if isinstance(text, str)] if isinstance(found, list) else []
