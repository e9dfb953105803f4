# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names that are taken before anything is made, so that two runs cannot make one machine on two hypervisors.

A claim is a domain with the name, its memory, its CPUs and its anti-affinity groups, and nothing else, marked
``building`` and ``claimed``. One lock serves one hypervisor only; therefore a run first claims on the hypervisors that
it has chosen, and then checks all others. Of two runs at least one sees the other's claim. A claim becomes the machine
itself by being defined again under the same UUID, without the mark. One that a killed run left belongs to the next run
that comes there.
"""

from __future__ import annotations

import contextlib
import typing as t
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..._base.errors import ConflictError, VirtError
from ..._base.xml import etree
from ..._host.connection import VirConnect, libvirt, suppress_codes, translate_errors
from ..._host.facts.guest_capabilities import GuestCapabilities
from ..._host.machines import domains as host_domains
from ..._host.machines.domains import Domain
from ..._model.metadata.machine import BUILDING, MachineNotes, notes_to_element


@dataclass(frozen=True)
class Claim:
    """A name to be taken, with what the machine will need at most. identity: its UUID; None for a new one.

    groups: its anti-affinity groups, for the runs that come to this hypervisor before the machine is made.
    """

    name: str
    memory_mib: int
    vcpus: int
    identity: str | None = None
    groups: Sequence[str] = ()


def new_claims(wanted: Sequence[Claim], domains: Mapping[str, Domain]) -> list[Claim]:
    """Those whose names are free on this hypervisor."""
    return [claim for claim in wanted if claim.name not in domains]


def make_claims(conn: VirConnect, wanted: Sequence[Claim], domains: Mapping[str, Domain]) -> dict[str, str]:
    """Take the names; the UUIDs of the claims by name. To be called under the hypervisor's lock.

    domains: those that are there. A claim that is there already is shared with the run that made it; of any other
    machine of that name there is no claim. When one cannot be made, those of this call are withdrawn.
    """
    found = {
        claim.name: domains[claim.name].handle.UUIDString()
        for claim in wanted
        if claim.name in domains and is_claim(domains[claim.name])
    }
    new = new_claims(wanted, domains)
    if not new:
        return found
    made: dict[str, str] = {}
    guests = GuestCapabilities(conn)
    try:
        for claim in new:
            identity = claim.identity or str(uuid.uuid4())
            made[claim.name] = identity
            host_domains.define(conn, _claim_xml(claim, identity, guests), claim.name, validate=False)
    except BaseException:
        withdraw_claims(conn, made)
        raise
    return {**found, **made}


def withdraw_claims(conn: VirConnect, claims: Mapping[str, str], *, check_mode: bool = False) -> list[str]:
    """Remove claims, by name and UUID; what is no such claim any more stays. The names that were, or would be, removed.

    To be called under the hypervisor's lock.
    """
    gone = []
    for name, domain in host_domains.list_domains(conn).items():
        if is_claim(domain) and domain.handle.UUIDString() == claims.get(name):
            if not check_mode:
                # It has no NVRAM or the like, of which undefine.py would look for other users.
                what = f"cannot undefine machine {name}"
                with translate_errors(what), suppress_codes(libvirt.VIR_ERR_NO_DOMAIN):
                    domain.handle.undefine()
            gone.append(name)
    return gone


@contextlib.contextmanager
def withdrawn_on_error(conn: VirConnect, claims: Mapping[str, str], *, check_mode: bool) -> Iterator[None]:
    """Inside the block, an error of ours withdraws the claims, unless in check mode: the run makes nothing then."""
    try:
        yield
    except VirtError:
        if not check_mode:
            withdraw_claims(conn, claims)
        raise


def look_for(conn: VirConnect, names: Collection[str]) -> dict[str, dict[str, t.Any]]:
    """Which of the names this hypervisor has: ``uuid``, and whether it is only ``claimed``, by name."""
    return {
        name: {"uuid": domain.handle.UUIDString(), "claimed": is_claim(domain)}
        for name, domain in host_domains.list_domains(conn).items()
        if name in names
    }


def check_claim(name: str, domain: Domain | None, claims: Mapping[str, str]) -> None:
    """Raise ConflictError when a claim of this run is not there any more."""
    if name in claims and (domain is None or domain.handle.UUIDString() != claims[name]):
        raise ConflictError(
            f"another run has taken the name {name} from this one since it was claimed here",
            hint="Run it again: it then continues from what that run created",
        )


def is_claim(domain: Domain) -> bool:
    """Whether a domain is nothing but a name that is taken."""
    notes = domain.notes
    return notes is not None and notes.claimed and notes.status == BUILDING and not domain.active


def require_no_claim(domain: Domain, identity: str, where: str | None = None) -> None:
    """Raise ConflictError for a domain that is only a claim. identity: its UUID."""
    if is_claim(domain):
        raise ConflictError(
            f"{domain.name} is only claimed here: a run is about to create the machine, or was interrupted",
            where=where,
            hint="Wait for that run, or run it again. To give the name up: virt_claim with "
            f"withdraw: {{{domain.name}: {identity}}}",
        )


def _claim_xml(claim: Claim, identity: str, guests: GuestCapabilities) -> str:
    domain = etree.Element("domain", type=guests.domain_type)
    for tag, text in (("name", claim.name), ("uuid", identity)):
        etree.SubElement(domain, tag).text = text
    notes = MachineNotes(status=BUILDING, claimed=True, anti_affinity=tuple(claim.groups))
    etree.SubElement(domain, "metadata").append(notes_to_element(notes))
    etree.SubElement(domain, "memory", unit="MiB").text = str(claim.memory_mib)
    etree.SubElement(domain, "vcpu").text = str(claim.vcpus)
    etree.SubElement(etree.SubElement(domain, "os"), "type", arch=guests.arch).text = "hvm"
    return etree.tostring(domain, encoding="unicode")
