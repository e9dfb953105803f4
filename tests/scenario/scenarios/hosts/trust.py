# SPDX-License-Identifier: GPL-3.0-or-later
"""Certificates: as other tools judge them, who is refused, and how they change under open connections and machines."""

from __future__ import annotations

import datetime
import json
import shlex
import typing as t

from ...certificates import lay_out
from ...cloud import Answer, Cloud, must
from ...runner import ScenarioRun

NEEDS = ("hypervisors", "tiny", "tiny1")
FOLDER = "/root/trust"
HV1 = "qemu+tls://hv1/system"
KEYS = "/etc/pki/libvirt/private/*.pem /etc/pki/qemu/*-key.pem"


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    scenario.step(
        "openssl and virt-pki-validate find nothing wrong, only their owner can read the keys", lambda: _judged(cloud)
    )
    scenario.step("hypervisors reach each other over TLS by every name", lambda: _reached(cloud))
    scenario.step("a client certificate for an account: check, run, run", lambda: _client(cloud))
    scenario.step(
        "refused: no certificate, another authority's, an expired one, a name not listed", lambda: _refused(cloud)
    )
    scenario.step("a revoked certificate is refused from then on, and stays so", lambda: _revoked(cloud))
    with_loops = Loops(cloud)
    scenario.step("connections are opened, and kept open", with_loops.start)
    scenario.step("one more name: renewed at once, and no key is in the output of -vvv", lambda: _one_more_name(cloud))
    scenario.step("what only some hosts trust does not sign", lambda: _limited(cloud))
    scenario.step("the authority changes: check, run, run", lambda: _authority(cloud))
    scenario.step("the former authority goes", lambda: _former_goes(cloud))
    scenario.step("meanwhile no connection was lost or refused, no daemon and no machine restarted", with_loops.finish)
    scenario.step("a key that others could read, lost files, half-done work: all repaired", lambda: _repaired(cloud))
    scenario.step("somebody else's certificates are refused, and stay", lambda: _foreign(cloud))
    scenario.step("host_info shows what expires soon", lambda: _shown(cloud))


def _role(cloud: Cloud, *words: str, pattern: str = "hypervisors", **variables: t.Any) -> Answer:
    """The role alone, on hypervisors."""
    return cloud.ansible(
        pattern, "ansible.builtin.include_role", "name=brine.virt.virt_tls", "-e", json.dumps(variables), *words
    )


def _role_well(cloud: Cloud, changed: bool | None, *words: str, **variables: t.Any) -> Answer:
    """The role, which has to end well, and to change something or nothing."""
    answer = _role(cloud, *words, **variables)
    must(answer.status == 0, answer.text)
    if changed is not None:
        must(("CHANGED" in answer.text or '"changed": true' in answer.text) is changed, answer.text)
    return answer


def _judged(cloud: Cloud) -> None:
    for host in cloud.hosts:
        checks = ""
        for authority, certificate in (
            ("/etc/pki/CA/cacert.pem", "/etc/pki/libvirt/servercert.pem"),
            ("/etc/pki/qemu/ca-cert.pem", "/etc/pki/qemu/server-cert.pem"),
        ):
            verify = f"openssl verify -CAfile {authority}"
            client = certificate.replace("server", "client")
            for name in (f"-verify_hostname {host}", f"-verify_hostname {host}.virt.internal", '-verify_ip "$address"'):
                checks += f"{verify} -purpose sslserver {name} {certificate} && "
            checks += f"{verify} -purpose sslclient {client} && "
            checks += f"! {verify} -verify_hostname other {certificate} 2>/dev/null && "
        cloud.on(host, f'address=$(echo $SSH_CONNECTION | cut -d" " -f3); {checks} true')
        said = cloud.on(host, "virt-pki-validate || true")
        # It wants a client's key to be readable by everybody. The second is how libvirt 9 says it.
        known = ("CLIENT: Checking key access", "The client private key need to be read", "as root do: chmod 644 ")
        bad = [line for line in said.splitlines() if line and "PASS" not in line and not line.startswith("Found ")]
        must("FAIL" in said or "Found server private key" in said, f"virt-pki-validate says nothing: {said}")
        must(all(line.startswith(known) for line in bad), said)
        modes = cloud.on(host, f"stat -c '%a %U %n' {KEYS}").splitlines()
        must(len(modes) == 4, f"{host} has the keys {modes}")
        for line in modes:
            mode, owner, path = line.split()
            must((mode, owner) == ("600", "libvirt-qemu" if "qemu" in path else "root"), f"{host}: {line}")
    authority = _authority_folder(cloud)
    must(authority.stat().st_mode & 0o777 == 0o700, "the authority's folder is open to others")
    must(all(path.stat().st_mode & 0o777 == 0o600 for path in authority.glob("*.key")), "the authority's key is")


def _reached(cloud: Cloud) -> None:
    for host, other in (("hv1", "hv2"), ("hv2", "hv1")):
        address = cloud.on(other, "echo $SSH_CONNECTION").split()[2]
        names = f"{host} {other} {other}.virt.internal {address}"
        said = cloud.on(host, f"for name in {names}; do virsh -c qemu+tls://$name/system hostname 2>&1; done")
        # Nothing beside the answers: libvirt warns of certificates that it does not like.
        must(said.split() == [f"{name}.virt.internal" for name in (host, other, other, other)], said)


def _issue(cloud: Cloud, name: str, *words: str, changed: bool = True, **more: t.Any) -> None:
    """A client certificate in a folder of hv2."""
    folder = f"{FOLDER}/{name}"
    options = {"kinds": ["client"], "name": name, "folder": folder, "authority": str(_authority_folder(cloud)), **more}
    answer = cloud.ansible("hv2", "brine.virt.virt_keys", json.dumps(options), *words)
    must(answer.status == 0 and f'"changed": {str(changed).lower()}' in answer.text, answer.text)


def _authority_folder(cloud: Cloud) -> t.Any:
    return cloud.lab_files / "authority"


def _connect(cloud: Cloud, name: str) -> Answer:
    """What hv1 says to a client on hv2 with the certificate in this folder, which does not check it itself."""
    uri = f"{HV1}?pkipath={FOLDER}/{name}&no_sanity=1"
    return cloud.lab("ssh", "hv2", f"virsh -c {shlex.quote(uri)} hostname 2>&1")


def _client(cloud: Cloud) -> None:
    cloud.on("hv2", f"rm -rf {FOLDER}")
    for words, changed in ((["--check"], True), ([], True), ([], False)):
        _issue(cloud, "alice", *words, changed=changed)
        there = cloud.lab("ssh", "hv2", f"test -e {FOLDER}/alice/clientcert.pem").status == 0
        must(there is not (changed and bool(words)), f"{words}: there is {there}")
    must(_connect(cloud, "alice").status == 0, _connect(cloud, "alice").text)


def _refused(cloud: Cloud) -> None:
    lay_out(cloud, FOLDER, _authority_folder(cloud))
    # Made in the same way, and accepted: what is refused below is so for the one reason.
    good = _connect(cloud, "good")
    must(good.status == 0, good.text)
    for name in ("none", "foreign", "expired", "unlisted", "qemu"):
        answer = _connect(cloud, name)
        must(answer.status != 0 and "hv1.virt.internal" not in answer.text, f"{name}: {answer.text}")
        must("not find" not in answer.text and "Cannot read" not in answer.text, f"{name}: {answer.text}")
    log = cloud.on("hv1", "journalctl -u libvirtd --since -1min --no-pager --output cat")
    for words, count in (
        ("Certificate check failed Unable to verify TLS peer: No certificate", 1),
        ("Certificate check failed Certificate failed validation", 2),
        ("Certificate check failed Client's Distinguished Name is not on the list", 2),
    ):
        must(log.count(words) >= count, f"{words}: not {count} times in the log of hv1: {log}")


def _revoked(cloud: Cloud) -> None:
    _issue(cloud, "mallory")
    before = _daemons(cloud)
    must(_connect(cloud, "mallory").status == 0, _connect(cloud, "mallory").text)
    _hold(cloud, "mallory")
    _hold(cloud, "alice")
    _role_well(cloud, True, virt_tls_revoked=["mallory"])
    must(not _holds(cloud, "mallory"), "mallory goes on over a connection that was open before")
    must(_holds(cloud, "alice"), "the connection of alice was ended too")
    must(_connect(cloud, "mallory").status != 0, "mallory is let in")
    must(_connect(cloud, "alice").status == 0, _connect(cloud, "alice").text)
    options = {"kinds": ["client"], "name": "mallory", "folder": f"{FOLDER}/again", "revoked": ["mallory"]}
    options["authority"] = str(_authority_folder(cloud))
    answer = cloud.ansible("hv2", "brine.virt.virt_keys", json.dumps(options))
    must(answer.status != 0 and "mallory is revoked" in answer.text, answer.text)
    # Off the list, the certificate stays revoked.
    _role_well(cloud, False)
    must(_connect(cloud, "mallory").status != 0, "mallory is let in again")
    must(_daemons(cloud) == before, "a daemon was restarted")


def _hold(cloud: Cloud, name: str) -> None:
    """Have a client on hv2 open a connection to hv1, and ask over it again and again."""
    uri = f"{HV1}?pkipath={FOLDER}/{name}&no_sanity=1"
    # When it ends, virsh says so before it opens another one.
    loop = f"(for i in $(seq 240); do echo hostname; sleep 0.5; done) | stdbuf -oL virsh -q -c {shlex.quote(uri)}"
    cloud.on("hv2", f"nohup sh -c {shlex.quote(loop)} >>{FOLDER}/{name}.held 2>&1 </dev/null & sleep 2")
    must(_holds(cloud, name), f"{name} got no connection")


def _holds(cloud: Cloud, name: str) -> bool:
    """Whether the client is asking now, and over the connection that it had when it was last looked at."""
    said = cloud.on("hv2", f"sleep 2; cat {FOLDER}/{name}.held; : >{FOLDER}/{name}.held")
    return "hv1.virt.internal" in said and "error" not in said


def _daemons(cloud: Cloud) -> str:
    """What shows that libvirt's daemon and the machines of hv1 are the same as before. An idle one, on hv2, may end."""
    pids = cloud.on(
        "hv1", "systemctl show --value --property MainPID libvirtd.service; pgrep -x qemu-system-x86 | sort"
    )
    must(len(pids.split()) > 1 and "0" not in pids.split(), f"no machine runs on hv1, or no daemon: {pids}")
    return pids


class Loops:
    """Clients on hv2 that go on asking hv1: one over one connection, one over new ones all the time."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._daemons = ""

    def start(self) -> None:
        self._daemons = _daemons(self._cloud)
        script = f"""
            cd {FOLDER}; rm -f stop kept.log new.log
            (while ! test -e stop; do echo domstate tiny1; sleep 0.5; done; echo quit) |
                setsid virsh -q -c {HV1} >kept.log 2>&1 &
            (while ! test -e stop; do virsh -q -c {HV1} domstate tiny1 || echo LOST; sleep 0.5; done >new.log 2>&1) &
        """
        self._cloud.on("hv2", f"nohup sh -c {shlex.quote(script)} >/dev/null 2>&1 </dev/null &")

    def finish(self) -> None:
        self._cloud.on("hv2", f"touch {FOLDER}/stop; sleep 1.5")
        for log in ("kept.log", "new.log"):
            lines = self._cloud.on("hv2", f"cat {FOLDER}/{log}").split("\n")
            answers = [line for line in lines if line and not line.startswith("virsh #")]
            must(set(answers) == {"running"} and len(answers) > 30, f"{log}: {answers}")
        must(_daemons(self._cloud) == self._daemons, "a daemon or a machine was restarted")


def _serials(cloud: Cloud) -> dict[str, str]:
    return {
        host: cloud.on(host, "openssl x509 -noout -serial -issuer </etc/pki/libvirt/servercert.pem")
        for host in cloud.hosts
    }


def _served(cloud: Cloud, host: str) -> str:
    """The serial number of the certificate that the daemon really shows."""
    return cloud.on(
        "hv2", f"openssl s_client -connect {host}:16514 </dev/null 2>/dev/null | openssl x509 -noout -serial -issuer"
    )


def _one_more_name(cloud: Cloud) -> None:
    before, secrets = _serials(cloud), _key_lines(cloud)
    answer = _role_well(cloud, True, "-vvv", virt_tls_names=["mig.example.org", "198.51.100.7"])
    after = _serials(cloud)
    secrets |= _key_lines(cloud)
    for host in cloud.hosts:
        must(before[host] != after[host], f"{host} has its old certificate")
        must(_served(cloud, host) == after[host], f"{host} shows another certificate than it has")
        cloud.on(
            host,
            "openssl verify -CAfile /etc/pki/CA/cacert.pem -verify_ip 198.51.100.7 /etc/pki/libvirt/servercert.pem",
        )
    must("CERTIFICATE" in answer.text, "-vvv shows nothing")
    must("PRIVATE KEY" not in answer.text, "a private key is in the output")
    found = [line for line in secrets if line in answer.text]
    must(not found and len(secrets) > 20, f"a line of a key is in the output; of {len(secrets)}")
    log = "".join(cloud.on(host, "journalctl --since -10min --no-pager") for host in cloud.hosts)
    must("PRIVATE KEY" not in log and not [line for line in secrets if line in log], "a key is in a host's log")


def _key_lines(cloud: Cloud) -> set[str]:
    """All lines of all private keys, but those that every key has."""
    texts = [cloud.on(host, f"cat {KEYS}") for host in cloud.hosts]
    texts += [path.read_text(encoding="ascii") for path in _authority_folder(cloud).glob("*.key")]
    return {line for text in texts for line in text.splitlines() if not line.startswith("-") and len(line) > 16}


def _limited(cloud: Cloud) -> None:
    """With hv1 alone in the run, nobody knows whether hv2 trusts a new authority."""
    before = _serials(cloud)
    answer = _role(cloud, "--limit", "hv1", virt_tls_authority_since=_now(cloud))
    must(answer.status == 0 and "once all hosts trust it" in answer.one_line, answer.text)
    must("it is still missing on: hv2" in answer.one_line, answer.text)
    must(_serials(cloud) == before, "a certificate of the new authority was given out")
    must(len(_subjects(cloud, "hv1")) == 2 and len(_subjects(cloud, "hv2")) == 1, "the new authority is not there")
    # An account has to trust it too before the hypervisors show certificates from it.
    _issue(cloud, "alice", state="trusted")


def _now(cloud: Cloud) -> str:
    """A moment after the present authority was made."""
    del cloud
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")


def _subjects(cloud: Cloud, host: str) -> list[str]:
    """The authorities that a host trusts, as openssl reads them."""
    said = cloud.on(
        host,
        "openssl crl2pkcs7 -nocrl -certfile /etc/pki/CA/cacert.pem | openssl pkcs7 -print_certs -noout | grep subject",
    )
    return said.splitlines()


def _authority(cloud: Cloud) -> None:
    before = _serials(cloud)
    for words, changed in ((["--check"], True), ([], True), ([], False)):
        _role_well(cloud, changed, *words)
        after = _serials(cloud)
        renewed = [host for host in cloud.hosts if before[host] != after[host]]
        must(len(renewed) == (0 if words else len(cloud.hosts)), f"{words}: {renewed} renewed")
    for host in cloud.hosts:
        must(before[host].split("issuer")[1] != after[host].split("issuer")[1], f"{host} has the old authority")
        must(_served(cloud, host) == after[host], f"{host} shows another certificate than it has")
        must(len(_subjects(cloud, host)) == 2, f"{host} trusts {_subjects(cloud, host)}")
    # Those who have a certificate of the former authority still come in, but for the revoked one.
    must(_connect(cloud, "alice").status == 0, _connect(cloud, "alice").text)
    must(_connect(cloud, "mallory").status != 0, "mallory is let in")


def _former_goes(cloud: Cloud) -> None:
    _role_well(cloud, True, virt_tls_trust_old=False)
    must([len(_subjects(cloud, host)) for host in cloud.hosts] == [1, 1], "the former authority is still trusted")
    must(_connect(cloud, "alice").status != 0, "alice comes in with the former authority")


def _repaired(cloud: Cloud) -> None:
    before = _serials(cloud)
    cloud.on("hv1", "chmod 644 /etc/pki/libvirt/private/serverkey.pem; rm /etc/pki/qemu/client-key.pem")
    cloud.on("hv2", "mv /etc/pki/libvirt/servercert.pem /etc/pki/libvirt/servercert.pem.new")
    cloud.on("hv2", "echo nonsense >/etc/pki/qemu/server-cert.pem; chown root /etc/pki/qemu/client-key.pem")
    _role_well(cloud, True, virt_tls_trust_old=False)
    after = _serials(cloud)
    must(before["hv1"] != after["hv1"], "the key that others could read is still there")
    must(before["hv2"] == after["hv2"], "work that was nearly done was done again")
    _judged(cloud)
    _role_well(cloud, False, virt_tls_trust_old=False)


def _foreign(cloud: Cloud) -> None:
    before = _serials(cloud)
    answer = _role(cloud, virt_tls_authority=str(cloud.lab_files / "another"))
    must(answer.status != 0 and "not one of this cloud's authorities" in answer.one_line, answer.text)
    must(_serials(cloud) == before, "something has changed")
    must(all(len(_subjects(cloud, host)) == 1 for host in cloud.hosts), "something has changed")


def _shown(cloud: Cloud) -> None:
    _role_well(cloud, True, virt_tls_names=["soon"], virt_tls_days=20, virt_tls_renew_before=5)
    answer = cloud.play_well("host_info", live=False)
    must(answer.text.count("libvirt_server ends") == len(cloud.hosts), answer.text)
    # And the next run with the usual days renews them.
    _role_well(cloud, True)
    for host in cloud.hosts:
        cloud.on(host, "openssl x509 -noout -checkend 2592000 </etc/pki/libvirt/servercert.pem")
