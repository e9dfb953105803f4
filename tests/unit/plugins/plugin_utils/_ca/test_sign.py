# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is signed, what is revoked, and which authority does it while one follows another."""

from __future__ import annotations

import subprocess
import typing as t
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError, NotFoundError
from ansible_collections.brine.virt.plugins.module_utils._tls import certificates as certs
from ansible_collections.brine.virt.plugins.plugin_utils._ca.revoke import revocation_lists
from ansible_collections.brine.virt.plugins.plugin_utils._ca.sign import CertificateSpec, sign
from ansible_collections.brine.virt.plugins.plugin_utils._ca.store import CaOptions, CaStore, open_ca_store
from ansible_collections.brine.virt.plugins.plugin_utils._ca.trust import TrustState, decide_trust

CA_OPTIONS = CaOptions(organization="cloud", key_type="ecdsa", days=365, ca_days=3650)
CERTIFICATE_SPEC = CertificateSpec("cloud", "hypervisor", "hv1", ("hv1", "192.0.2.1", "2001:db8::1"), "server", 365)


@pytest.fixture
def ca_store(tmp_path: Path) -> CaStore:
    return open_ca_store(str(tmp_path / "authority"), CA_OPTIONS, save=True)


def request(key_type: str = "ecdsa") -> str:
    """A request that wants more than it gets."""
    key = certs.make_key(key_type)
    builder = x509.CertificateSigningRequestBuilder().subject_name(certs.make_name("cloud", "operator", "root"))
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName("bank.example")]), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


def issue(ca_store: CaStore, **changes: t.Any) -> x509.Certificate:
    text = sign(ca_store, ca_store.current, request(), replace(CERTIFICATE_SPEC, **changes))
    return certs.read_certificates(text, "test")[0]


@pytest.mark.parametrize("key_type", ["ecdsa", "rsa"])
@pytest.mark.parametrize("purpose", ["server", "client"])
def test_a_certificate_says_what_the_controller_says(
    ca_store: CaStore, tmp_path: Path, key_type: str, purpose: str
) -> None:
    text = sign(ca_store, ca_store.current, request(key_type), replace(CERTIFICATE_SPEC, purpose=purpose))
    certificate = certs.read_certificates(text, "test")[0]
    assert certs.subject(certificate) == "O=cloud,OU=hypervisor,CN=hv1"
    assert certs.names(certificate) == ["192.0.2.1", "2001:db8::1", "hv1"]
    assert certs.purposes(certificate) == {purpose}
    assert not certs.is_ca(certificate)
    assert certs.days_left(certificate) in (364, 365)
    (tmp_path / "leaf.pem").write_text(text, encoding="ascii")
    (tmp_path / "ca.pem").write_text(certs.as_pem(ca_store.current.all), encoding="ascii")
    verify = ["openssl", "verify", "-x509_strict", "-CAfile", "ca.pem", "-purpose", f"ssl{purpose}"]
    for words, is_good in (
        (["-verify_hostname", "hv1"], True),
        (["-verify_ip", "192.0.2.1"], True),
        (["-verify_ip", "2001:db8::1"], True),
        (["-verify_hostname", "bank.example"], False),
        (["-verify_ip", "192.0.2.2"], False),
    ):
        answer = subprocess.run([*verify, *words, "leaf.pem"], cwd=tmp_path, capture_output=True, check=False)
        assert (answer.returncode == 0) is is_good, (words, answer)


def test_an_ecdsa_certificate_has_no_usage_that_libvirt_would_warn_of(ca_store: CaStore) -> None:
    with pytest.raises(x509.ExtensionNotFound):
        issue(ca_store).extensions.get_extension_for_class(x509.KeyUsage)


def test_a_certificate_does_not_outlive_its_authority(tmp_path: Path) -> None:
    short = open_ca_store(str(tmp_path), replace(CA_OPTIONS, days=10, ca_days=20), save=True)
    certificate = certs.read_certificates(sign(short, short.current, request(), CERTIFICATE_SPEC), "test")[0]
    assert certs.not_after(certificate) == certs.not_after(short.current.certificate)
    assert certs.not_before(certificate) >= certs.not_before(short.current.certificate)


@pytest.mark.parametrize(
    "text", ["", "nonsense", "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n"]
)
def test_a_broken_request_is_refused(ca_store: CaStore, text: str) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        sign(ca_store, ca_store.current, text, CERTIFICATE_SPEC)


def test_a_request_that_somebody_changed_is_refused(ca_store: CaStore) -> None:
    good = x509.load_pem_x509_csr(request().encode()).public_bytes(serialization.Encoding.DER)
    changed = good.replace(b"bank.example", b"cash.example")
    assert changed != good
    text = x509.load_der_x509_csr(changed).public_bytes(serialization.Encoding.PEM).decode()
    with pytest.raises(InputError, match="not signed with its own key"):
        sign(ca_store, ca_store.current, text, CERTIFICATE_SPEC)


@pytest.mark.parametrize("key", [rsa.generate_private_key(65537, 1024), ec.generate_private_key(ec.SECP192R1())])
def test_a_key_that_could_be_found_out_is_refused(ca_store: CaStore, key: t.Any) -> None:
    builder = x509.CertificateSigningRequestBuilder().subject_name(certs.make_name("", None, "hv1"))
    text = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()
    with pytest.raises(InputError, match="the request of hv1 has a key that is weaker than those that hosts make"):
        sign(ca_store, ca_store.current, text, CERTIFICATE_SPEC)


def test_an_intermediate_authority_comes_with_the_certificate(tmp_path: Path) -> None:
    root = open_ca_store(str(tmp_path / "root"), CA_OPTIONS, save=True).current
    assert root.key is not None
    key = certs.make_key("rsa")
    middle = (
        x509.CertificateBuilder()
        .subject_name(certs.make_name("cloud", None, "middle"))
        .issuer_name(root.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(certs.not_before(root.certificate))
        .not_valid_after(certs.not_after(root.certificate))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(root.key, hashes.SHA256())
    )
    (tmp_path / "chain.pem").write_text(certs.as_pem([middle, root.certificate]), encoding="ascii")
    (tmp_path / "middle.key").write_bytes(certs.key_as_pem(key))
    (tmp_path / "middle.key").chmod(0o600)
    own = replace(CA_OPTIONS, certificate=str(tmp_path / "chain.pem"), key=str(tmp_path / "middle.key"))
    ca_store = open_ca_store(str(tmp_path / "authority"), own, save=True)
    several = certs.read_certificates(sign(ca_store, ca_store.current, request(), CERTIFICATE_SPEC), "test")
    assert [certs.common_name(one) for one in several] == ["hv1", "middle"]
    assert decide_trust(ca_store, peers=None, trust_old=True, ending_days=30).trust == (middle, root.certificate)


def test_nothing_revoked_is_no_list(ca_store: CaStore) -> None:
    issue(ca_store)
    assert revocation_lists(ca_store, [], save=True) == ""


def test_what_is_revoked_stays_revoked(ca_store: CaStore) -> None:
    first, second, other = issue(ca_store), issue(ca_store, unit="migration"), issue(ca_store, name="hv2")
    text = revocation_lists(ca_store, ["hv1"], save=True)
    (made,) = certs.read_revocation_lists(text)
    assert {entry.serial_number for entry in made} == {first.serial_number, second.serial_number}
    assert certs.is_issued_by(made, ca_store.current.certificate)
    assert certs.next_update(made) == certs.not_after(ca_store.current.certificate)
    # The same, and none: the list itself remembers, and does not change.
    assert revocation_lists(ca_store, ["hv1"], save=True) == text
    assert revocation_lists(ca_store, [], save=True) == text
    serial = f"{other.serial_number:x}"
    assert revocation_lists(ca_store, [serial], save=False) != text
    assert revocation_lists(ca_store, [], save=True) == text
    (more,) = certs.read_revocation_lists(revocation_lists(ca_store, [serial.upper()], save=True))
    assert len(more) == 3
    assert more.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number == 2


def test_only_what_was_issued_can_be_revoked_by_name(ca_store: CaStore) -> None:
    with pytest.raises(NotFoundError, match="no certificate was issued to hv9") as caught:
        revocation_lists(ca_store, ["hv9"], save=True)
    assert caught.value.where == "revoked[0]"
    # A serial number may be of a certificate that was made elsewhere.
    (made,) = certs.read_revocation_lists(revocation_lists(ca_store, ["0123456789abcdef"], save=True))
    assert [entry.serial_number for entry in made] == [0x0123456789ABCDEF]


@pytest.mark.parametrize(("text", "number"), [("0x1000", 0x1000), ("0x1", 1), ("0x6f:2C", 0x6F2C)])
def test_a_short_serial_number_is_told_from_a_name(ca_store: CaStore, text: str, number: int) -> None:
    """As `openssl ca` gives them. Without the 0x it could be a misspelled name."""
    (made,) = certs.read_revocation_lists(revocation_lists(ca_store, [text], save=True))
    assert [entry.serial_number for entry in made] == [number]
    # What a host says is to be added.
    written = yaml.safe_load(f"[{certs.serial_text(number)}]")
    assert certs.read_revocation_lists(revocation_lists(ca_store, written, save=True)) == [made]
    with pytest.raises(NotFoundError, match='fewer than 8 digits as "0x1000"'):
        revocation_lists(ca_store, [text.removeprefix("0x")], save=True)


@pytest.mark.parametrize("text", ["0x0", "F" * 40, ":".join(["F0"] * 20)])
def test_what_no_certificate_has_as_its_number_is_a_sentence(ca_store: CaStore, text: str) -> None:
    with pytest.raises(InputError, match=r"^revoked\[0\]: .*Is it a fingerprint"):
        revocation_lists(ca_store, [text], save=True)


def test_the_list_names_its_authority_as_certificates_do(tmp_path: Path) -> None:
    """Or OpenSSL does not take it for a list of that authority. How an identifier is made is free (RFC 7093)."""
    files = {"certificate": str(tmp_path / "own.pem"), "key": str(tmp_path / "own.key")}
    (tmp_path / "own.cnf").write_text(
        "[req]\ndistinguished_name=name\nx509_extensions=more\nprompt=no\n[name]\nCN=own\n[more]\n"
        "basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign,cRLSign\n"
        f"subjectKeyIdentifier={'0123456789' * 4}\n"
    )
    command = ["openssl", "req", "-x509", "-newkey", "rsa:3072", "-nodes", "-days", "1000"]
    command += ["-config", str(tmp_path / "own.cnf"), "-out", files["certificate"], "-keyout", files["key"]]
    subprocess.run(command, check=True, capture_output=True)
    ca_store = open_ca_store(
        str(tmp_path / "authority"), replace(CA_OPTIONS, certificate=files["certificate"], key=files["key"]), save=True
    )
    (tmp_path / "leaf.pem").write_text(certs.as_pem([issue(ca_store, name="hv2"), issue(ca_store)][1:]))
    (tmp_path / "list.pem").write_text(revocation_lists(ca_store, ["hv2"], save=True))
    check = ["openssl", "verify", "-crl_check", "-CAfile", files["certificate"], "-CRLfile", str(tmp_path / "list.pem")]
    subprocess.run([*check, str(tmp_path / "leaf.pem")], check=True, capture_output=True)


def follow(ca_store: CaStore) -> CaStore:
    """A second authority, after the first."""
    return open_ca_store(str(ca_store.folder), replace(CA_OPTIONS, organization="next"), save=True)


def trust_state(ca_store: CaStore, peers: t.Any, *, trust_old: bool = True, ending_days: int = 30) -> TrustState:
    return decide_trust(ca_store, peers=peers, trust_old=trust_old, ending_days=ending_days)


def test_a_first_authority_signs_at_once(ca_store: CaStore) -> None:
    found = trust_state(ca_store, None)
    assert found.signer == ca_store.current
    assert found.warnings == ()


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        (None, "no answers"),
        ({"hv1": ["new"], "hv2": None}, "it is still missing on: hv2"),
        ({"hv1": ["new"], "hv2": ["old"]}, "it is still missing on: hv2"),
        ({"hv1": ["new"], "hv2": ["old", "new"]}, None),
    ],
)
def test_a_new_authority_signs_once_all_trust_it(ca_store: CaStore, answers: t.Any, words: str | None) -> None:
    both = follow(ca_store)
    prints = {"new": both.current.fingerprint, "old": ca_store.current.fingerprint}
    peers = answers and {
        host: {"trusts": [prints[word] for word in trusted], "issuers": []} if trusted else "unreachable"
        for host, trusted in answers.items()
    }
    found = trust_state(both, peers)
    assert found.trust == (both.current.certificate, ca_store.current.certificate)
    if words is None:
        assert (found.signer, found.accepted, found.warnings) == (both.current, (both.current.certificate,), ())
    else:
        assert found.signer.certificate == ca_store.current.certificate
        assert set(found.accepted) == {both.current.certificate, ca_store.current.certificate}
        assert words in found.warnings[0]


def test_an_authority_that_has_signed_goes_on(ca_store: CaStore) -> None:
    both = follow(ca_store)
    sign(both, both.current, request(), CERTIFICATE_SPEC)
    assert trust_state(both, {"hv1": None}).signer == both.current


def test_one_that_has_signed_for_some_waits_for_the_others(ca_store: CaStore) -> None:
    """Where no former one could sign, as its key is not here, a host that needed a certificate has one of the new."""
    issue(ca_store, name="hv2")
    both = follow(ca_store)
    issue(both)
    keyless = replace(both, former=(replace(ca_store.current, key=None),))
    peers = {
        "hv1": {"trusts": [both.current.fingerprint], "issuers": [both.current.fingerprint]},
        "hv2": None,
        "hv3": None,
    }
    found = trust_state(keyless, peers)
    assert set(found.accepted) == {both.current.certificate, ca_store.current.certificate}
    assert "(it is still missing on: hv2)" in found.warnings[0]
    assert "gets one of O=next" in found.warnings[0] and found.signer == both.current
    # Its key is here again.
    assert trust_state(both, peers).signer.certificate == ca_store.current.certificate
    issue(both, name="hv2")
    assert trust_state(keyless, peers).accepted == (both.current.certificate,)


def test_one_that_comes_back_waits_as_a_new_one_does(ca_store: CaStore, monkeypatch: pytest.MonkeyPatch) -> None:
    issue(ca_store)
    issue(ca_store, name="hv2")
    both = follow(ca_store)
    later = certs.now() + timedelta(hours=2)
    monkeypatch.setattr(certs, "now", lambda: later)
    for name in ("hv1", "hv2"):
        issue(both, name=name)
    back = replace(both, current=ca_store.current, former=(both.current,))
    trusts = {"trusts": [ca_store.current.fingerprint]}
    found = trust_state(back, {"hv1": trusts, "hv2": None})
    assert found.signer == both.current
    assert "it is still missing on: hv2" in found.warnings[0]
    assert trust_state(back, {"hv1": trusts, "hv2": trusts}).signer == ca_store.current


def test_what_has_ended_of_a_chain_reaches_no_host(ca_store: CaStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither libvirt's daemon nor QEMU starts with such a file, whatever else is in it."""
    root, coming = follow(ca_store).current.certificate, certs.now() + timedelta(days=3651)
    monkeypatch.setattr(certs, "now", lambda: coming)
    current = open_ca_store(str(ca_store.folder), replace(CA_OPTIONS, organization="later"), save=False).current
    found = trust_state(replace(ca_store, current=replace(current, chain=(root,))), None)
    assert found.trust == (current.certificate,)


def test_an_old_authority_goes_when_nobody_has_a_certificate_from_it(ca_store: CaStore) -> None:
    both = follow(ca_store)
    new, old = both.current.fingerprint, ca_store.current.fingerprint
    peers = {"hv1": {"trusts": [new, old], "issuers": [new]}, "hv2": {"trusts": [new, old], "issuers": [new, old]}}
    held = trust_state(both, peers, trust_old=False)
    assert held.tolerated == (ca_store.current.certificate,)
    assert not held.drop_unknown
    assert "hv2" in held.warnings[0]
    peers["hv2"]["issuers"] = [new]
    gone = trust_state(both, peers, trust_old=False)
    assert (gone.trust, gone.tolerated, gone.drop_unknown) == ((both.current.certificate,), (), True)
    for silent in (None, {**peers, "hv3": None}):
        assert trust_state(both, silent, trust_old=False).tolerated == (ca_store.current.certificate,)


def test_an_authority_near_its_end_is_not_trusted_any_more(ca_store: CaStore) -> None:
    both = follow(ca_store)
    found = trust_state(both, None, ending_days=4000)
    assert found.trust == (both.current.certificate,)
    assert found.tolerated == ()
    assert found.signer == both.current
