#!/usr/bin/python
# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module: keys and certificates of a host. The action plugin of this name is its controller half."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: virt_keys
short_description: Manage the TLS keys and certificates of libvirt and QEMU on a host
version_added: "1.0.0"
description:
  - Gives a host the TLS keys and certificates that libvirt and QEMU use, and keeps them up to date. Or gives an account
    a client certificate, with which it may connect to the hypervisors.
  - The host generates its own keys and sends a certificate request. The controller signs it with the cloud's
    certificate authority, whose key stays on the controller. A private key never leaves the host that it was generated
    on, and appears in no result and no variable.
  - Each certificate is valid for all names and addresses of the host, see O(names).
  - A certificate is renewed if it expires in fewer than O(renew_before) days, lacks a name or an address, has the wrong
    name, key type or authority, was revoked, or if its key is missing, does not belong to it, or could be read by
    others. Otherwise it is kept. An interrupted run is finished by the next one.
  - libvirt's daemon reads new files without a restart. Open connections and machines are not affected.
  - The authority is created on first use, in the folder O(authority) on the controller. You can use your own instead,
    see O(authority_certificate).
author:
  - brine.virt maintainers (@brine-virt)
extends_documentation_fragment:
  - brine.virt._attributes.no_async
  - brine.virt._attributes.no_group
  - brine.virt._attributes
attributes:
  check_mode:
    support: full
    details:
      - No key, no request and no authority is created in check mode.
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  kinds:
    description:
      - What the host should have.
      - V(libvirt) is the server and client certificates of libvirt's daemon, in C(/etc/pki/libvirt), with the authority
        in C(/etc/pki/CA). Their keys are root's.
      - V(qemu) is the server and client certificates of QEMU, in C(/etc/pki/qemu), which migration with native TLS
        uses. Their keys belong to the account that QEMU runs as.
      - V(client) is a client certificate for the account that the task runs as, in O(folder). It needs O(name).
    type: list
    elements: str
    choices: [libvirt, qemu, client]
    default: [libvirt, qemu]
  state:
    description:
      - V(present) installs the authorities, the revocation list and the certificates.
      - V(trusted) installs the authorities and the revocation list, and leaves certificates alone. When the authority
        changes, all hosts have to trust the new one before the first gets a certificate from it, see O(peers).
      - V(absent) removes the keys, certificates, authorities and revocation lists of O(kinds) that are this cloud's,
        for a host that is taken out of it. What is not by its authorities stays, and is in RV(left). The daemon is not
        told, so close its TLS socket first. Nothing is revoked by this.
    type: str
    choices: [present, trusted, absent]
    default: present
  name:
    description:
      - The CN of the certificates, up to 64 characters.
      - The default is the host's inventory name. It has to be given for V(client) in O(kinds).
    type: str
  names:
    description:
      - Names and addresses in addition to the host's own, for example those in a migration network.
      - A host name that the inventory has for another host of the play or of O(peers) is refused. An address may move
        from host to host.
    type: list
    elements: str
    default: []
  own_names:
    description:
      - Whether the certificates are valid for the inventory name, C(ansible_host), the host name, the full host name
        and all global addresses of the host.
      - Addresses on bridges that exist inside each host, such as C(virbr0) and C(docker0), or any whose only ports are
        machines, and temporary IPv6 addresses are left out.
      - A host itself reports which names and addresses it has. It gets none that belong to another host of the play or
        of O(peers) according to the inventory, except an address that O(names) has, and no name that a host of O(peers)
        says it has as well, unless O(names) has it; a warning names both. With V(false) only O(name) and O(names) are
        used.
      - A name that the host no longer has stays in its certificate until the next renewal. So a host that has no
        certificate yet is refused one while its inventory name or its C(ansible_host) is in a valid server certificate
        of another host, which could pose as it. The error has the serial numbers for O(revoked).
    type: bool
    default: true
  organization:
    description:
      - The O of the certificates. Their OU is C(hypervisor) for libvirt, C(migration) for QEMU and C(operator) for
        clients.
      - C(tls_allowed_dn_list) in libvirt's configuration is made of these names. QEMU's certificates are not on that
        list, because a guest that broke out of its QEMU could read its key.
      - Characters that mean something else in such a list are refused, for example the comma of C(Example, Inc.).
        Letters of all languages may be used.
    type: str
    default: brine.virt
  key_type:
    description: V(ecdsa) is P-256, V(rsa) has 3072 bits. Stronger keys of the same type are left as they are.
    type: str
    choices: [ecdsa, rsa]
    default: ecdsa
  days:
    description:
      - How many days a new certificate is valid. It never outlives its authority, so it is valid for fewer days if that
        expires sooner.
      - At most V(36500).
    type: int
    default: 365
  renew_before:
    description: How many days before it expires a certificate is renewed. Must be less than O(days).
    type: int
    default: 30
  folder:
    description:
      - Where V(client) in O(kinds) puts C(cacert.pem), C(clientcert.pem) and C(clientkey.pem).
      - By default they go where libvirt looks for them, C(~/.pki/libvirt), or for root C(/etc/pki/CA/cacert.pem),
        C(/etc/pki/libvirt/clientcert.pem) and C(/etc/pki/libvirt/private/clientkey.pem).
      - On a hypervisor root's files are the hypervisor's own and stay as they are. Root's client certificate goes to
        C(~/.pki/libvirt) there, with a warning.
      - For another folder than where libvirt looks, add C(?pkipath=FOLDER) to the connection's URI.
    type: path
  qemu_user:
    description:
      - The account that QEMU runs as.
      - The default is the one that C(user) in C(/etc/libvirt/qemu.conf) names, or else C(libvirt-qemu) or C(qemu),
        whichever the host has.
    type: str
  authority:
    description:
      - The folder of the authority, on the controller. It is created with mode 0700. Keep a backup of it.
      - It contains the authorities' certificates and keys (0600), and records of what was issued and revoked. A folder
        that every user of the controller can change is refused, as hosts trust each authority in it.
    type: path
    default: ~/.config/brine-virt/authority
  authority_since:
    description:
      - A timestamp in UTC, such as V(2027-01-31) or V(2027-01-31T12:00:00). An authority that was created here before
        that time is replaced by a new one once that time has come. The former one is still trusted until
        O(trust_old=false).
      - A new O(organization) has the same effect, but hosts get certificates with it at once, also while the former
        authority remains in use. Allow both in C(tls_allowed_dn_list) until all have them.
      - An authority whose validity has not begun, because it was created while the clock was ahead, is an error without
        this option, and is replaced at once with any timestamp in the past.
    type: str
  authority_days:
    description:
      - How many days a new authority is valid.
      - An authority that was created here is replaced by a new one as soon as a certificate valid for O(days) would
        outlive it.
      - At most V(36500).
    type: int
    default: 3650
  authority_passphrase:
    description: The passphrase that the authority's key is encrypted with on the controller.
    type: str
  authority_certificate:
    description:
      - A file on the controller with the certificate of your own authority, to be used instead of a generated one,
        followed by its chain if it is an intermediate one. All certificates in the file are trusted by the hosts, but
        those that have expired or are not valid yet. All have to be authorities, and the first one valid now.
      - RSA and ECDSA keys are supported.
    type: path
  authority_key:
    description: The file on the controller with the key of O(authority_certificate). Each of the two needs the other.
    type: path
  trust_old:
    description:
      - Whether hosts keep trusting former authorities.
      - V(false) removes the former ones, which fails while a host in O(peers) has a certificate from one of them. One
        that expires in fewer than O(renew_before) days is removed anyway.
    type: bool
    default: true
  peers:
    description:
      - The results of this module with O(state=trusted) from all hosts of the cloud, by host name. Null, or anything
        else that is not such a result, means that a host did not answer. V(false) means that it takes no part and
        is not waited for.
      - While the authority changes, certificates of a new one are issued once all of these hosts trust it. Until then,
        the old authority remains in use.
      - A name or an address that another of these hosts says it has, or that the certificate of one without a
        result has, is not given to this host, unless it is in O(names) or the inventory.
    type: dict
  revoked:
    description:
      - Certificates that are no longer to be accepted, each by its serial number in hex (as RV(certificates) shows it),
        or by its CN, which revokes all that were issued to this CN so far. A number of fewer than 8 digits needs C(0x)
        before it, and quotes, V("0x1000").
      - A CN in this list gets no new certificate. After it is removed from the list it may get one again; what was
        revoked stays revoked.
      - Connections to libvirt that a CN in this list has open are ended when the host begins to refuse its
        certificates. A host that did not answer does so in the next run that reaches it, whether the CN is still in
        this list or not. Of a serial number they stay open while its CN has another valid certificate; restart
        libvirt's daemon to end them.
      - A serial number that is not among those that were issued here, as of a certificate that was signed by hand, is
        revoked of every authority of O(authority) that hosts trust. It is an error if the key of one is missing.
      - Lists of other authorities, which are on the host already, stay.
    type: list
    elements: str
    default: []
  ignore_unissued:
    description:
      - Whether a CN in O(revoked) that nothing was issued to is ignored. Otherwise it is an error, as it is most
        likely misspelled.
    type: bool
    default: false
  replace_foreign:
    description:
      - Whether to replace certificates from an unknown authority. Otherwise the task fails if there are any.
      - The old files are kept next to the new ones, as C(FILE.TIME.old). The unknown authority stays trusted until
        O(trust_old=false).
    type: bool
    default: false
  exchange:
    description: What the two halves of this module exchange. Not for use in tasks.
    type: dict
requirements:
  - cryptography (package C(python3-cryptography)) on the host, and on the controller, where ansible-core has it
notes:
  - The revocation list is valid until its authority expires, so nothing depends on its being renewed in time. With an
    outdated list, GnuTLS, and so libvirt and QEMU, would still accept connections; OpenSSL would refuse them all.
  - Nothing is changed on a host whose clock and the controller's are more than an hour apart, and the task fails. Such
    a host would take good certificates for expired, or new ones for not yet valid.
seealso:
  - module: brine.virt.virt_host_info
    description: Shows when certificates expire.
  - name: TLS certificates in libvirt
    description: What the files are, and where they are.
    link: https://libvirt.org/kbase/tlscerts.html
"""

EXAMPLES = r"""
---
- name: Install libvirt's and QEMU's certificates on the host
  brine.virt.virt_keys:
    names:
      - "{{ inventory_hostname }}.migration.example.org"
      - 198.51.100.11
  become: true

- name: Install a client certificate for the account that runs Ansible
  brine.virt.virt_keys:
    kinds: [client]
    name: alice
  delegate_to: localhost
  run_once: true

- name: Use the company's own authority
  brine.virt.virt_keys:
    authority_certificate: /etc/company/cloud-ca.pem
    authority_key: /etc/company/cloud-ca.key
    authority_passphrase: "{{ cloud_ca_passphrase }}"
  become: true

- name: Remove the host's keys and certificates
  brine.virt.virt_keys:
    state: absent
  become: true
"""

RETURN = r"""
certificates:
  description:
    - The certificates of O(kinds), as they are now. If there is no readable certificate, its facts are missing.
    - C(reasons) says what is wrong with a certificate. After a run it is empty, except in check mode and for a
      certificate that waits for O(peers).
  returned: success
  type: list
  elements: dict
  sample:
    - kind: libvirt_server
      path: /etc/pki/libvirt/servercert.pem
      subject: O=brine.virt,OU=hypervisor,CN=hv1
      names: [192.0.2.11, hv1, hv1.example.org]
      issuer: O=brine.virt,OU=authority 3fa91c02,CN=brine.virt
      serial: 6f2c1d0a3b5e4f60718293a4b5c6d7e8f9012345
      not_before: "2026-03-01T09:00:00+00:00"
      not_after: "2027-03-01T10:00:00+00:00"
      days_left: 365
      reasons: []
authority:
  description:
    - The authority that signs. C(fingerprint) is its sha256, or V(new) for one that was not created because of check
      mode.
  returned: success
  type: dict
  sample:
    subject: O=brine.virt,OU=authority 3fa91c02,CN=brine.virt
    fingerprint: 0f343b0931126a20f133d67c2b018a3b1cbfae0c8f3a6b3a1a5d8d0f6c5e2f11
    not_after: "2036-02-27T10:00:00+00:00"
trusts:
  description: Fingerprints of the authorities that the host trusts in all places of O(kinds).
  returned: success
  type: list
  elements: str
  sample: [0f343b0931126a20f133d67c2b018a3b1cbfae0c8f3a6b3a1a5d8d0f6c5e2f11]
issuers:
  description: Fingerprints of the authorities that the host has certificates from, V(unknown) for unknown ones.
  returned: success
  type: list
  elements: str
  sample: [0f343b0931126a20f133d67c2b018a3b1cbfae0c8f3a6b3a1a5d8d0f6c5e2f11]
names:
  description:
    - The names and addresses that the host says it has, with those of O(names), and without those that the inventory
      has for other hosts. Other hosts are given them with O(peers).
  returned: success, unless O(state=absent)
  type: list
  elements: str
  sample: [192.0.2.11, hv1, hv1.example.org]
actions:
  description:
    - What was, or would be, done, one sentence each. With O(state=absent), what was, or would be, removed; of a file
      only its path.
  returned: success
  type: list
  elements: str
  sample: ["/etc/pki/libvirt/servercert.pem: new, as it expires in 12 days"]
kept:
  description: Files that were replaced and are kept under these names.
  returned: success
  type: list
  elements: str
  sample: []
unissued:
  description: With O(ignore_unissued=true), the CNs in O(revoked) that nothing was issued to.
  returned: success, unless O(state=absent)
  type: list
  elements: str
  sample: []
left:
  description: With O(state=absent), what is not this cloud's and stays where it is, one sentence each.
  returned: with O(state=absent)
  type: list
  elements: str
  sample: []
reloaded:
  description:
    - Whether libvirt's daemon was made to reload its certificates. One that is not running reads them when it starts.
  returned: success
  type: bool
  sample: true
unread:
  description:
    - Whether libvirt's daemon cannot read what was, or would be, changed, as the host's own server certificate has
      expired or has no key that fits. It goes on accepting certificates that were revoked since, until O(state=present)
      has renewed that one. Connections of those in O(revoked) are ended all the same.
  returned: success, unless O(state=absent)
  type: bool
  sample: false
"""

import typing as t

from ansible.module_utils.basic import missing_required_lib

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._module import finish, make_plain_module
from ansible_collections.brine.virt.plugins.module_utils._tls import certificates as certs
from ansible_collections.brine.virt.plugins.module_utils._tls.check import TlsSpec, require_same_time
from ansible_collections.brine.virt.plugins.module_utils._tls.names import as_name, check_name, is_name, own_names
from ansible_collections.brine.virt.plugins.module_utils._tls.paths import KINDS, find_places
from ansible_collections.brine.virt.plugins.module_utils._tls.reload import MARK
from ansible_collections.brine.virt.plugins.module_utils._tls.removal import remove_all
from ansible_collections.brine.virt.plugins.module_utils._tls.renewal import (
    RenewalReport,
    TrustUpdate,
    conclude,
    install_all,
    prepare,
)

ARGUMENTS: dict[str, dict[str, t.Any]] = {
    "kinds": {"type": "list", "elements": "str", "choices": list(KINDS), "default": ["libvirt", "qemu"]},
    "state": {"type": "str", "choices": ["present", "trusted", "absent"], "default": "present"},
    "name": {"type": "str"},
    "names": {"type": "list", "elements": "str", "default": []},
    "own_names": {"type": "bool", "default": True},
    "organization": {"type": "str", "default": "brine.virt"},
    "key_type": {"type": "str", "choices": list(certs.KEY_TYPES), "default": "ecdsa", "no_log": False},
    "days": {"type": "int", "default": 365},
    "renew_before": {"type": "int", "default": 30},
    "folder": {"type": "path"},
    "qemu_user": {"type": "str"},
    "authority": {"type": "path", "default": "~/.config/brine-virt/authority"},
    "authority_since": {"type": "str"},
    "authority_days": {"type": "int", "default": 3650},
    "authority_passphrase": {"type": "str", "no_log": True},
    "authority_certificate": {"type": "path"},
    "authority_key": {"type": "path", "no_log": False},
    "trust_old": {"type": "bool", "default": True},
    "peers": {"type": "dict"},
    "revoked": {"type": "list", "elements": "str", "default": []},
    "ignore_unissued": {"type": "bool", "default": False},
    "replace_foreign": {"type": "bool", "default": False},
    "exchange": {"type": "dict"},
}
REQUIRED_TOGETHER = [("authority_certificate", "authority_key")]


def keep_keys(
    params: dict[str, t.Any],
    *,
    check_mode: bool,
    root: str = "/",
    reload_mark: str = MARK,
    warn: t.Callable[[str], None] = lambda _text: None,
) -> dict[str, t.Any]:
    """One visit of the controller, see _tls/renewal.py. root: where the host's files begin, for tests."""
    exchange = params["exchange"]
    if exchange is None:
        raise InputError("virt_keys works only with its action plugin on the controller")
    if "now" in exchange:
        require_same_time(params["name"], exchange["now"])
    places = find_places(params["kinds"], folder=params["folder"], qemu_user=params["qemu_user"], root=root)
    if places.note:
        warn(places.note)
    report = RenewalReport(check_mode, reload_mark)
    if params["state"] == "absent":
        left = remove_all(places, _read_cas(exchange, "known"), report)
        return {"changed": bool(report.done), "actions": report.done, "left": left}
    spec = read_spec(params)
    if "certificates" in exchange:
        install_all(places, spec, exchange["certificates"], report)
    else:
        trust_update = TrustUpdate(
            trust=_read_cas(exchange, "trust"),
            tolerated=_read_cas(exchange, "tolerated"),
            drop_unknown=exchange["drop_unknown"],
            revocations=exchange["revocations"],
            only_trust=params["state"] == "trusted",
        )
        prepare(places, spec, trust_update, report)
        for text in report.warnings:
            warn(text)
    if "libvirt" in params["kinds"]:
        # Of others the daemon reads nothing, and an account that gets a client certificate may not tell it.
        conclude(report, exchange.get("locked_out", ()))
    return as_result(report, spec)


def _read_cas(exchange: dict[str, t.Any], key: str) -> tuple[t.Any, ...]:
    return tuple(certs.read_certificates(exchange[key], f"exchange.{key}")) if exchange[key] else ()


def read_spec(params: dict[str, t.Any]) -> TlsSpec:
    """What the certificates are to be; at the first visit the names of the host are found out."""
    exchange = params["exchange"]
    return TlsSpec(
        organization=params["organization"],
        name=params["name"],
        names=tuple(exchange["names"] if "names" in exchange else _find_names(params)),
        key_type=params["key_type"],
        renew_before_days=params["renew_before"],
        known=_read_cas(exchange, "known"),
        accepted=_read_cas(exchange, "accepted"),
        revoked=certs.revoked_in(exchange.get("reissue", "")),
        replace_foreign=params["replace_foreign"],
    )


def _find_names(params: dict[str, t.Any]) -> list[str]:
    """The names that the host answers to: its own, the inventory's, the given ones; without those of other hosts."""
    exchange = params["exchange"]
    found = [params["name"]]
    if params["own_names"] and set(params["kinds"]) != {"client"}:
        found = [*found, *exchange["inventory_names"], *own_names()]
    # A CN may be something else than a host's name.
    found = [as_name(name) for name in found if is_name(name)]
    given = [check_name(name, f"names[{index}]") for index, name in enumerate(params["names"])]
    others = set(exchange["names_of_others"]) - set(given)
    return [name for name in dict.fromkeys([*found, *given]) if name not in others]


def as_result(report: RenewalReport, spec: TlsSpec) -> dict[str, t.Any]:
    """The report as plain data for the action plugin."""
    return {
        "changed": bool(report.done),
        "actions": report.done,
        "kept": report.kept,
        "requests": report.requests,
        "names": list(spec.names),
        "certificates": report.certificates,
        "trusts": report.trusts,
        "issuers": sorted(set(report.issuers)),
        "held": report.held,
        "reloaded": report.reloaded,
        "unread": report.unread,
    }


def main() -> None:
    """One of the two visits."""
    module = make_plain_module(ARGUMENTS, required_together=REQUIRED_TOGETHER)
    if certs.CRYPTOGRAPHY_IMPORT_ERROR is not None:
        module.fail_json(
            msg=missing_required_lib("cryptography", reason=f"({certs.CRYPTOGRAPHY_PACKAGES})"),
            exception=certs.CRYPTOGRAPHY_IMPORT_ERROR,
        )
    finish(module, lambda module: keep_keys(module.params, check_mode=module.check_mode, warn=module.warn))


if __name__ == "__main__":
    main()
