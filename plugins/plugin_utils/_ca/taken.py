# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of a host that joins, for which another one has a valid certificate: that one could pose as it.

A host says itself which names and addresses it has, and gets those that are nobody's yet. Whether it has said so on
purpose, by a mistake, or because they were its own, nobody knows; its certificate is good until it ends or is revoked.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping

from ...module_utils._base.errors import ConflictError
from ...module_utils._tls import certificates as certs
from ...module_utils._tls.certificates import x509
from ...module_utils._tls.names import as_name
from .store import CaStore


def require_free(
    ca_store: CaStore,
    owner: str,
    inventory: Mapping[str, Collection[str]],
    revocations: str,
    *,
    host: str,
    held: Collection[str],
) -> None:
    """Raise ConflictError where a host that has no certificate yet is called in the inventory what another's is for.

    owner: the CN of its certificates. inventory: by host, what it is called there. revocations: the lists of all
    authorities, as text. host: which of them it is. held: the serial numbers of the certificates that it says it has,
    under whatever CN: with one of them it is no new host.
    """
    valid = list(_valid_servers(ca_store, revocations))
    if any(certs.common_name(one) == owner or f"{one.serial_number:x}" in held for one in valid):
        return
    called = {name: {as_name(one) for one in names} for name, names in inventory.items()}
    taken = {}
    for certificate in valid:
        # Hosts behind one address have it in common.
        shared = called[host] & {as_name(name) for name in certs.names(certificate)}
        shared -= called.get(str(certs.common_name(certificate)), set())
        if shared:
            taken[certificate] = sorted(shared)
    if not taken:
        return
    found = sorted(set(itertools.chain.from_iterable(taken.values())))
    others = sorted({str(certs.common_name(certificate)) for certificate in taken})
    serials = sorted(f"{certificate.serial_number:x}" for certificate in taken)
    raise ConflictError(
        f"{owner} has no certificate yet, and {', '.join(found)} {'stands' if len(found) == 1 else 'stand'} in a valid "
        f"one of {', '.join(others)}, which could pose as {owner} with it",
        hint=f"Find out why. Then revoke: [{', '.join(serials)}] in revoked (in the role virt_tls: virt_tls_revoked); "
        f"{', '.join(others)} {'gets' if len(others) == 1 else 'get'} a new one without",
    )


def _valid_servers(ca_store: CaStore, revocations: str) -> Iterator[x509.Certificate]:
    """What authorities have issued to servers, and has neither ended nor been revoked."""
    revoked = certs.revoked_in(revocations)
    for certificate in ca_store.certificates():
        if (
            "server" in certs.purposes(certificate)
            and certs.not_after(certificate) > certs.now()
            and (certificate.issuer, certificate.serial_number) not in revoked
        ):
            yield certificate
