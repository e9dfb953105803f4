# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's half of virt_keys: it has the authority, decides what a certificate says, and signs."""

from __future__ import annotations

import contextlib
import datetime
import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, InputError, VirtError
from ansible_collections.brine.virt.plugins.module_utils._tls import certificates as certs
from ansible_collections.brine.virt.plugins.module_utils._tls.names import as_name, check_name, is_dns_name, is_name
from ansible_collections.brine.virt.plugins.module_utils._tls.paths import UNITS
from ansible_collections.brine.virt.plugins.modules.virt_keys import ARGUMENTS, REQUIRED_TOGETHER
from ansible_collections.brine.virt.plugins.plugin_utils._ca.revoke import (
    accepted_by,
    locked_out,
    revocation_lists,
    unissued,
)
from ansible_collections.brine.virt.plugins.plugin_utils._ca.sign import CertificateSpec, note_missing, sign
from ansible_collections.brine.virt.plugins.plugin_utils._ca.store import CaOptions, CaStore, locked, open_ca_store
from ansible_collections.brine.virt.plugins.plugin_utils._ca.taken import require_free
from ansible_collections.brine.virt.plugins.plugin_utils._ca.trust import TrustState, decide_trust
from ansible_collections.brine.virt.plugins.plugin_utils._inventory.said_by_hosts import require_own_word

_MODULE = "brine.virt.virt_keys"
_MOST_DAYS = 36500
_NOT_IN_ORGANIZATION = ',+"\\<>;*?'
# What the host has no use for, or must not see.
_CONTROLLER_ONLY = frozenset(
    {
        "authority",
        "authority_certificate",
        "authority_days",
        "authority_key",
        "authority_passphrase",
        "authority_since",
        "ignore_unissued",
        "peers",
        "revoked",
    }
)


class ActionModule(ActionBase):
    """Visits the host twice when there is something to sign, and once otherwise."""

    TRANSFERS_FILES = False
    _requires_connection = True
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """The result of the module."""
        super().run(tmp, task_vars)
        task_vars = task_vars or {}
        require_own_word(task_vars)
        _spec, options = self.validate_argument_spec(ARGUMENTS, required_together=REQUIRED_TOGETHER)
        if options["exchange"] is not None:
            raise AnsibleActionFail("exchange: not for tasks")
        if certs.CRYPTOGRAPHY_IMPORT_ERROR is not None:
            raise AnsibleActionFail("The controller's Python lacks cryptography, which ansible-core needs as well")
        # A folder of the host, in which ~ is the host's.
        options["folder"] = self._task.args.get("folder")
        host = self._task.delegate_to or task_vars["inventory_hostname"]
        if options["name"] is None and "client" not in options["kinds"]:
            options["name"] = host
        try:
            check_options(options)
            keys = CertificateTask(
                options,
                inventory=self._inventory(host, task_vars, options["peers"] or {}),
                visit=lambda args: dict(
                    self._execute_module(module_name=_MODULE, module_args=args, task_vars=task_vars)
                ),
                check_mode=bool(self._task.check_mode),
            )
            return keys.keep()
        except VirtError as exc:
            # Ansible would append what is behind it, and the sentence once more.
            raise AnsibleActionFail(str(exc)) from None

    @staticmethod
    def _inventory(host: str, task_vars: dict[str, t.Any], peers: t.Iterable[str]) -> dict[str, list[str]]:
        """What the inventory calls this host and the others of the play and of the cloud, by their inventory names.

        peers: with --limit a play has not all of them, and what a host may not have does not depend on that.
        """
        known = task_vars.get("hostvars", {})
        play = {host, *task_vars.get("ansible_play_hosts_all", [])}
        found = {name: _names_in_inventory(name, known) for name in play}
        for name in {peer for peer in peers if peer in known} - play:
            # A variable that cannot be read is for a run with that host to complain of.
            found[name] = [name]
            with contextlib.suppress(Exception):
                found[name] = _names_in_inventory(name, known)
        return {**found, "": [host]}


def _names_in_inventory(name: str, hostvars: t.Mapping[str, t.Any]) -> list[str]:
    return [name, *([str(hostvars[name]["ansible_host"])] if "ansible_host" in hostvars.get(name, {}) else [])]


def _check_organization(organization: str) -> None:
    """Refuse what GnuTLS writes otherwise in a name (RFC 4514), or libvirt takes for a pattern: with such a list of
    allowed names libvirt admits nobody, or too many. Raises InputError."""
    wrong = sorted(set(organization) & set(_NOT_IN_ORGANIZATION))
    if wrong:
        raise InputError(
            f"{organization} has {' '.join(wrong)}, and libvirt's list of allowed names cannot hold that",
            where="organization",
            hint="Leave it out (in the role virt_tls: virt_tls_organization)",
        )
    if not 0 < len(organization) <= 64 or not organization.isprintable() or organization.strip(" #") != organization:
        raise InputError(
            f"{organization!r} is not an organization that certificates can have",
            where="organization",
            hint="Give 1 to 64 printable characters, with no space or # at either end (in the role virt_tls: "
            "virt_tls_organization)",
        )


def check_options(options: dict[str, t.Any]) -> None:
    """Refuse what cannot be. Raises InputError."""
    if options["state"] != "absent":
        _check_organization(options["organization"])
    name = options["name"]
    if not name:
        raise InputError("a client certificate needs a name of its own", where="name")
    if len(name) > 64:
        raise InputError(f"{name} has more than 64 characters", where="name", hint="Give a shorter name")
    for option in ("days", "authority_days"):
        if options[option] > _MOST_DAYS:
            raise InputError(
                f"{options[option]} days are too many for a certificate",
                where=option,
                hint=f"Give at most {_MOST_DAYS}, which are a hundred years",
            )
    if not 0 < options["renew_before"] < options["days"]:
        raise InputError(
            f"certificates of {options['days']} days cannot be renewed "
            f"{options['renew_before']} days before they expire",
            where="renew_before",
            hint="Give fewer days than in days, and at least 1",
        )
    if not options["kinds"]:
        raise InputError("no kind of certificate is named", where="kinds")


def read_timestamp(text: str | None) -> datetime.datetime | None:
    """A moment in UTC. Raises InputError."""
    if not text:
        return None
    try:
        timestamp = datetime.datetime.fromisoformat(text)
    except ValueError as exc:
        raise InputError(
            f"{text} is not a valid timestamp", where="authority_since", hint="Write 2027-01-31 or 2027-01-31T12:00:00"
        ) from exc
    return timestamp if timestamp.tzinfo else timestamp.replace(tzinfo=datetime.timezone.utc)


def _is_answer(first: t.Mapping[str, t.Any]) -> bool:
    """Whether names and requests are what the module says of them: a host may say anything."""
    names, requests = first.get("names"), first.get("requests")
    return (
        isinstance(names, list)
        and all(isinstance(name, str) for name in names)
        and isinstance(requests, dict)
        and all(isinstance(request, str) for request in requests.values())
        and {key_pair.partition("_")[2] for key_pair in requests} <= {"server", "client", ""}
    )


def _serials_in(first: t.Mapping[str, t.Any]) -> set[str]:
    """The serial numbers of the certificates that a host says it has."""
    found = first.get("certificates")
    facts = list(found.values()) if isinstance(found, t.Mapping) else []
    return {str(one["serial"]) for one in facts if isinstance(one, t.Mapping) and "serial" in one}


def names_of_peers(peers: t.Mapping[str, t.Any] | None, host: str) -> dict[str, str]:
    """The names and addresses that other hosts say they have, with one of these hosts each.

    peers: results of this module by host, None of one that gave none; host: whose own answer does not count.
    """
    found: dict[str, str] = {}
    for peer, answer in (peers or {}).items():
        said = answer.get("names") if isinstance(answer, t.Mapping) and peer != host else None
        for name in _texts(said):
            if is_name(name):
                found.setdefault(as_name(name), peer)
    return found


def _names_of_silent(ca_store: CaStore, peers: t.Mapping[str, t.Any] | None, host: str) -> dict[str, str]:
    """The names in the certificates of hosts that gave no answer, with one of these hosts each.

    Such a host cannot say what is its own, and whoever says it in its place would get it.
    """
    silent = {
        peer
        for peer, answer in (peers or {}).items()
        if peer != host and not _texts(answer.get("names") if isinstance(answer, t.Mapping) else None)
    }
    found: dict[str, str] = {}
    for certificate in ca_store.certificates() if silent else ():
        owner = certs.common_name(certificate)
        if owner in silent and certs.days_left(certificate) >= 0:
            found.update({as_name(name): str(owner) for name in certs.names(certificate)})
    return found


def _texts(value: t.Any) -> list[str]:
    """The texts in what a host has answered, which may be anything."""
    return [item for item in value if isinstance(item, str)] if isinstance(value, (list, tuple)) else []


class CertificateTask:
    """One task: what it wants, and how the host is asked.

    inventory: names of hosts as the inventory has them, "" being this one; visit: runs the module there.
    """

    def __init__(
        self,
        options: dict[str, t.Any],
        *,
        inventory: dict[str, list[str]],
        visit: t.Callable[[dict[str, t.Any]], dict[str, t.Any]],
        check_mode: bool,
    ) -> None:
        self._options = options
        self._visit = visit
        self._check_mode = check_mode
        self._host = inventory[""][0]
        self._inventory = {**inventory, self._host: inventory.get(self._host, [])}
        self._names = self._inventory[self._host]
        own = {as_name(name) for name in self._names}
        # By name, the host that the inventory calls so.
        self._inventory_owners = {
            as_name(name): host
            for host, names in inventory.items()
            for name in names
            if host not in ("", self._host) and as_name(name) not in own
        }
        self._own = own | {as_name(name) for name in (*options["names"], options["name"])}
        self._contested: dict[str, str] = {}
        # Warnings of certificates that are revoked and accepted all the same.
        self._accepted: list[str] = []

    @property
    def _names_of_others(self) -> list[str]:
        return sorted({*self._inventory_owners, *self._contested})

    def _find_contested(self) -> dict[str, str]:
        """What another host has, or says that it has, beside what the inventory says and the user gives: by name, one
        of these hosts."""
        peers = self._options["peers"]
        found = {**_names_of_silent(self._ca_store, peers, self._host), **names_of_peers(peers, self._host)}
        return {
            name: host for name, host in found.items() if name not in self._own and name not in self._inventory_owners
        }

    def keep(self) -> dict[str, t.Any]:
        """Have the host's certificates as they are to be: the task's result."""
        options = self._options
        self._require_own(options["names"])
        # Whoever is taken out needs no authority.
        save = not self._check_mode and options["state"] != "absent"
        self._ca_store = open_ca_store(
            options["authority"],
            CaOptions(
                organization=options["organization"],
                key_type=options["key_type"],
                days=options["days"],
                ca_days=options["authority_days"],
                passphrase=options["authority_passphrase"],
                since=read_timestamp(options["authority_since"]),
                certificate=options["authority_certificate"],
                key=options["authority_key"],
            ),
            save=save,
        )
        self._contested = self._find_contested()
        self._trust_state = decide_trust(
            self._ca_store,
            peers=options["peers"],
            trust_old=options["trust_old"],
            ending_days=options["renew_before"],
        )
        if options["state"] == "absent":
            return self._removed(self._ask())
        with locked(self._ca_store.folder) if save else contextlib.nullcontext():
            revocations = revocation_lists(
                self._ca_store,
                options["revoked"],
                save=save,
                # Not what is to go, or the run that makes it go would fail.
                trusted=self._trust_state.trust,
                ignore_unissued=options["ignore_unissued"],
            )
        # Those of earlier runs as well: this host may have been silent then.
        refused = sorted({*options["revoked"], *locked_out(self._ca_store, revocations)})
        first = self._ask(
            trust=certs.as_pem(self._trust_state.trust),
            tolerated=certs.as_pem(self._trust_state.tolerated),
            drop_unknown=self._trust_state.drop_unknown,
            revocations=revocations,
            # One that is locked out now keeps what it has, and gets nothing new.
            reissue="" if options["name"] in options["revoked"] else revocations,
            locked_out=refused,
            now=certs.now().isoformat(),
            inventory_names=self._names,
            names_of_others=self._names_of_others,
        )
        if not first.get("failed"):
            if save:
                note_missing(self._ca_store, _texts(first.get("held")))
            if options["revoked"]:
                trusts = {one for found in first["trusts"].values() for one in found}
                found = accepted_by(self._ca_store, options["revoked"], revocations, trusts)
                self._accepted = [f"{self._host}: {sentence}" for sentence in found]
        if first.get("failed") or not first.get("requests"):
            return self._result(first, first)
        if set(options["kinds"]) != {"client"}:
            require_free(
                self._ca_store,
                options["name"],
                self._inventory,
                revocations,
                host=self._host,
                held=_serials_in(first),
            )
        if self._check_mode:
            return self._result(first, first)
        second = self._ask(names=first["names"], certificates=self._sign(first), locked_out=refused)
        return self._result(first, second)

    def _require_own(self, given: t.Sequence[str]) -> None:
        """Raise InputError for a given name that the inventory has for another host. An address may move from host to
        host."""
        for index, name in enumerate(given):
            owner = self._inventory_owners.get(as_name(name))
            if owner is not None and is_dns_name(as_name(name)):
                raise InputError(
                    f"{name} is {owner} in the inventory, and so no name for a certificate of {self._host}",
                    where=f"names[{index}]",
                    hint=f"Take it out of names (in the role virt_tls: virt_tls_names of {self._host})",
                )

    def _removed(self, answer: dict[str, t.Any]) -> dict[str, t.Any]:
        """What a host says that has nothing any more, as the task's result."""
        if answer.get("failed"):
            return answer
        done = answer["actions"]
        return {
            **{key: value for key, value in answer.items() if key in ("invocation", "warnings", "deprecations")},
            "changed": bool(done),
            "certificates": [],
            "authority": self._authority(),
            "trusts": [],
            "issuers": [],
            "actions": done,
            "kept": [],
            "left": answer["left"],
            "reloaded": False,
            "diff": {"before": "", "after": "".join(f"{line}\n" for line in done)},
        }

    def _authority(self) -> dict[str, str]:
        current = self._ca_store.current
        return {
            "subject": certs.subject(current.certificate),
            "fingerprint": current.fingerprint,
            "not_after": certs.not_after(current.certificate).isoformat(),
        }

    def _ask(self, **exchange: t.Any) -> dict[str, t.Any]:
        trust_state: TrustState = self._trust_state
        known = [certificate for ca in self._ca_store.all for certificate in ca.all]
        words = {"known": certs.as_pem(known), "accepted": certs.as_pem(trust_state.accepted), **exchange}
        args = {key: value for key, value in self._options.items() if key not in _CONTROLLER_ONLY and value is not None}
        return self._visit({**args, "exchange": words})

    def _names_not_given(self) -> list[str]:
        """A sentence for each name or address that this host has said it has, and another one as well."""
        claims = set(names_of_peers({"": (self._options["peers"] or {}).get(self._host)}, self._host))
        return [
            f"{self._host} and {self._contested[name]} both say that they are {name}, so the certificate of "
            f"{self._host} does not get this name: correct the host name of one of them, or give it to the one that "
            "it belongs to (names; in the role virt_tls: virt_tls_names)"
            if is_dns_name(name)
            else f"{self._host} and {self._contested[name]} both say that they have the address {name}, so the "
            f"certificate of {self._host} does not get it: if others reach one of them by it, give it to that one "
            "(names; in the role virt_tls: virt_tls_names)"
            for name in sorted(claims & set(self._contested))
        ]

    def _sign(self, first: dict[str, t.Any]) -> dict[str, str]:
        options = self._options
        if not _is_answer(first):
            raise ConflictError(f"the answer of {self._host} is not from virt_keys, so nothing is signed")
        if options["state"] != "present":
            # Whoever asks now asks while nobody knows yet what the others say that they have.
            raise ConflictError(f"{self._host} asks for a certificate where it is to trust the authority alone")
        name = options["name"]
        if name in options["revoked"]:
            raise ConflictError(
                f"{name} is revoked, and needs a new certificate", where="revoked", hint="Remove it from the list first"
            )
        # A host says itself which addresses it has; what it may not have from us is decided here all the same.
        given = {as_name(wanted) for wanted in options["names"]}
        others = set(self._names_of_others) - given
        # In another spelling, such as in capitals, it would be the same name in the certificate.
        wanted_names = [check_name(wanted, "names") for wanted in first["names"]]
        names = [wanted for wanted in wanted_names if wanted not in others]
        if not options["own_names"]:
            names = [wanted for wanted in names if wanted in given | {as_name(name)}]
        signed = {}
        for key_pair, request in first["requests"].items():
            kind, _underscore, purpose = key_pair.partition("_")
            if kind not in options["kinds"]:
                raise ConflictError(
                    f"{self._host} asks for a certificate of the kind {key_pair}, which is not in kinds"
                )
            certificate_spec = CertificateSpec(
                organization=options["organization"],
                unit=UNITS[kind],
                name=name,
                names=[wanted for wanted in names if kind != "client" or wanted == as_name(name)],
                purpose=purpose or "client",
                days=options["days"],
            )
            signed[key_pair] = sign(self._ca_store, self._trust_state.signer, request, certificate_spec)
        return signed

    def _result(self, first: dict[str, t.Any], last: dict[str, t.Any]) -> dict[str, t.Any]:
        """The two answers of the host as one result."""
        if last.get("failed"):
            return {**last, "changed": bool(first.get("changed") or last.get("changed"))}
        current = self._ca_store.current
        new = certs.fingerprint(current.certificate)
        both = [first, last] if last is not first else [first]
        trusts = [set(found) for found in first["trusts"].values()]
        result = {key: value for key, value in last.items() if key in ("invocation", "warnings", "deprecations")}
        said = [*self._trust_state.warnings, *self._accepted, *self._names_not_given()]
        if said:
            result["warnings"] = [*result.get("warnings", []), *said]
        done = [line for answer in both for line in answer["actions"]]
        if not current.saved:
            done.insert(0, f"a new authority, {certs.subject(current.certificate)}")
        return {
            **result,
            "changed": bool(done),
            "certificates": [{"kind": key_pair, **facts} for key_pair, facts in last["certificates"].items()],
            "authority": self._authority(),
            "trusts": sorted(current.fingerprint if one == new else one for one in set.intersection(*trusts)),
            "issuers": last["issuers"],
            "names": sorted({as_name(name) for name in _texts(first.get("names"))} - set(self._inventory_owners)),
            "actions": done,
            # Without the option one is an error.
            "unissued": unissued(self._ca_store, self._options["revoked"]) if self._options["ignore_unissued"] else [],
            "kept": [path for answer in both for path in answer["kept"]],
            "reloaded": any(answer["reloaded"] for answer in both),
            "unread": bool(last["unread"]),
            "diff": {"before": "", "after": "".join(f"{line}\n" for line in done)},
        }
