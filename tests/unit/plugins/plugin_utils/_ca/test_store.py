# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Authorities: made once, loaded again, followed by new ones, the user's own."""

from __future__ import annotations

import datetime
import subprocess
import time
import typing as t
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError, VirtError
from ansible_collections.brine.virt.plugins.module_utils._tls import certificates as certs
from ansible_collections.brine.virt.plugins.plugin_utils._ca.store import CaOptions, CaStore, open_ca_store

pytestmark = pytest.mark.medium

CA_OPTIONS = CaOptions(organization="cloud", key_type="ecdsa", days=365, ca_days=3650)


def opened(folder: Path, *, save: bool = True, own: dict[str, str] | None = None, **changes: t.Any) -> CaStore:
    return open_ca_store(str(folder / "authority"), replace(CA_OPTIONS, **{**(own or {}), **changes}), save=save)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "authority").glob("*"))


@pytest.mark.parametrize("key_type", ["ecdsa", "rsa"])
def test_an_authority_is_made_once(tmp_path: Path, key_type: str) -> None:
    first = opened(tmp_path, key_type=key_type)
    second = opened(tmp_path, key_type=key_type)
    assert first.current.certificate == second.current.certificate
    assert second.current.key is not None
    assert second.former == ()
    short = first.current.short
    assert names_in(tmp_path) == sorted([".lock", f"{short}.key", f"{short}.pem"])
    assert (tmp_path / "authority").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "authority" / f"{short}.key").stat().st_mode & 0o777 == 0o600
    assert certs.is_ca(first.current.certificate)
    assert certs.is_issued_by(first.current.certificate, first.current.certificate)
    assert certs.days_left(first.current.certificate) in (3649, 3650)
    usage = first.current.certificate.extensions.get_extension_for_class(x509.KeyUsage)
    assert usage.critical and usage.value.key_cert_sign and usage.value.crl_sign and not usage.value.digital_signature


def test_a_loss_of_power_does_not_take_away_an_authority_that_hosts_trust(tmp_path: Path, unsynced: set[str]) -> None:
    """Nothing else could sign for these hosts, and they would refuse another authority."""
    opened(tmp_path)
    assert unsynced == set()


def test_check_mode_makes_nothing(tmp_path: Path) -> None:
    ca_store = opened(tmp_path, save=False)
    assert ca_store.current.fingerprint == "new"
    assert not (tmp_path / "authority").exists()


@pytest.mark.parametrize("save", [True, False])
def test_a_file_is_no_folder_of_an_authority_in_check_mode_either(tmp_path: Path, *, save: bool) -> None:
    (tmp_path / "authority").write_text("")
    with pytest.raises(VirtError, match="authority: the authority in .*/authority cannot be used"):
        opened(tmp_path, save=save)


def test_a_passphrase_encrypts_the_key(tmp_path: Path) -> None:
    made = opened(tmp_path, passphrase="secret word")
    text = (tmp_path / "authority" / f"{made.current.short}.key").read_text(encoding="ascii")
    assert "ENCRYPTED PRIVATE KEY" in text
    assert opened(tmp_path, passphrase="secret word").current.certificate == made.current.certificate
    for passphrase, words in ((None, "is encrypted"), ("other", "cannot be read with this passphrase")):
        with pytest.raises(InputError, match=words) as caught:
            opened(tmp_path, passphrase=passphrase)
        assert caught.value.where == "authority_passphrase"
        assert "secret" not in str(caught.value)
    assert len(list((tmp_path / "authority").glob("*.pem"))) == 1


@pytest.mark.parametrize(("mode", "what"), [(0o644, "read"), (0o602, "change")])
def test_a_key_that_every_user_can_read_is_refused(tmp_path: Path, mode: int, what: str) -> None:
    made = opened(tmp_path)
    key = tmp_path / "authority" / f"{made.current.short}.key"
    key.chmod(mode)
    for save in (False, True):
        with pytest.raises(InputError) as caught:
            opened(tmp_path, save=save)
        assert str(caught.value) == (
            f"every user of this computer can {what} {key}, the key of an authority that hosts trust (mode "
            f"0{mode:03o}). chmod 600 {key}"
        )
    key.chmod(0o640)
    assert opened(tmp_path).current.certificate == made.current.certificate


@pytest.mark.parametrize("save", [True, False])
def test_a_folder_where_every_user_can_add_an_authority_is_refused(tmp_path: Path, save: bool) -> None:
    """Hosts trust what is there: whoever adds one of his own is a hypervisor to all of them."""
    made = opened(tmp_path)
    pem = tmp_path / "authority" / f"{made.current.short}.pem"
    for path in (tmp_path / "authority", pem):
        mode = path.stat().st_mode
        path.chmod(mode | 0o002)
        with pytest.raises(InputError, match=f"^authority: every user .* can change {path}, .*chmod o-w {path}"):
            opened(tmp_path, save=save)
        # A group may share it on purpose.
        path.chmod(mode | 0o020)
        opened(tmp_path, save=save)
    own = own_authority(tmp_path)
    Path(own["certificate"]).chmod(0o666)
    with pytest.raises(InputError, match=r"^authority_certificate: every user .*own\.pem"):
        opened(tmp_path, save=save, own=own)


def test_one_that_is_encrypted_may_be_read(tmp_path: Path) -> None:
    made = opened(tmp_path, passphrase="secret word")
    (tmp_path / "authority" / f"{made.current.short}.key").chmod(0o644)
    assert opened(tmp_path, passphrase="secret word").current.certificate == made.current.certificate


def test_a_passphrase_for_a_key_that_has_none_is_an_error(tmp_path: Path) -> None:
    opened(tmp_path)
    with pytest.raises(InputError, match="is not encrypted"):
        opened(tmp_path, passphrase="secret")


def test_a_later_moment_makes_a_new_authority_once(tmp_path: Path) -> None:
    first = opened(tmp_path)
    later = certs.not_before(first.current.certificate) + datetime.timedelta(hours=1, seconds=1)
    time.sleep(max(0.0, (later - certs.now()).total_seconds()))
    second = opened(tmp_path, since=later)
    assert second.current.certificate != first.current.certificate
    assert [one.certificate for one in second.former] == [first.current.certificate]
    assert opened(tmp_path, since=later).current.certificate == second.current.certificate
    # GnuTLS knows revocation lists by the name of their authority.
    assert second.current.certificate.subject != first.current.certificate.subject


def test_an_authority_whose_key_is_not_there_is_not_followed_by_another_one_in_silence(tmp_path: Path) -> None:
    """As in a colleague's copy of the folder, without the keys."""
    first = opened(tmp_path)
    (tmp_path / "authority" / f"{first.current.short}.key").unlink()
    before = names_in(tmp_path)
    for save in (False, True):
        with pytest.raises(InputError, match=rf"{first.current.short}\.key.*authority_since") as caught:
            opened(tmp_path, save=save)
        assert caught.value.where == "authority"
    assert names_in(tmp_path) == before
    later = certs.not_before(first.current.certificate) + datetime.timedelta(hours=1, seconds=1)
    time.sleep(max(0.0, (later - certs.now()).total_seconds()))
    second = opened(tmp_path, since=later)
    assert second.current.certificate != first.current.certificate
    assert [one.certificate for one in second.former] == [first.current.certificate]


def test_a_moment_to_come_changes_nothing_yet(tmp_path: Path) -> None:
    first = opened(tmp_path)
    later = opened(tmp_path, since=certs.now() + datetime.timedelta(days=1))
    assert later.current.certificate == first.current.certificate


def test_an_authority_that_certificates_would_outlive_is_followed(tmp_path: Path) -> None:
    first = opened(tmp_path, days=30, ca_days=60)
    assert opened(tmp_path, days=30).current.certificate == first.current.certificate
    second = opened(tmp_path, days=90)
    assert second.current.certificate != first.current.certificate
    assert [one.certificate for one in second.former] == [first.current.certificate]
    assert second.former[0].key is not None


def test_an_authority_must_last(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="730") as caught:
        opened(tmp_path, ca_days=729)
    assert caught.value.where == "authority_days"
    assert not list((tmp_path / "authority").glob("*.pem"))


def test_a_new_organization_has_a_new_authority(tmp_path: Path) -> None:
    first = opened(tmp_path)
    second = opened(tmp_path, organization="other")
    assert second.current.certificate != first.current.certificate
    assert opened(tmp_path).current.certificate == first.current.certificate


def own_authority(folder: Path, *words: str, name: str = "own") -> dict[str, str]:
    """An authority as a user has it: made by openssl."""
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:3072",
        "-nodes",
        "-days",
        "1000",
        "-subj",
        f"/O=firm/CN={name}",
    ]
    files = {"certificate": str(folder / f"{name}.pem"), "key": str(folder / f"{name}.key")}
    subprocess.run([*command, "-out", files["certificate"], "-keyout", files["key"], *words], check=True, stderr=-1)
    return files


def test_the_users_own_authority_is_known_later(tmp_path: Path) -> None:
    made = opened(tmp_path)
    own = opened(tmp_path, own=own_authority(tmp_path))
    assert certs.common_name(own.current.certificate) == "own"
    assert [one.certificate for one in own.former] == [made.current.certificate]
    # Its key stays where the user has it.
    assert not (tmp_path / "authority" / f"{own.current.short}.key").exists()
    back = opened(tmp_path)
    assert back.current.certificate == made.current.certificate
    assert [(one.certificate, one.key) for one in back.former] == [(own.current.certificate, None)]


def test_an_own_authority_has_to_be_one(tmp_path: Path) -> None:
    leaf = own_authority(tmp_path, "-addext", "basicConstraints=critical,CA:FALSE", name="leaf")
    with pytest.raises(InputError, match="which is not an authority"):
        opened(tmp_path, own=leaf)
    # Neither GnuTLS nor OpenSSL would take what it signs.
    mute = own_authority(tmp_path, "-addext", "keyUsage=critical,digitalSignature,cRLSign", name="mute")
    with pytest.raises(InputError, match="which is not an authority.*keyUsage"):
        opened(tmp_path, own=mute)
    own, other = own_authority(tmp_path), own_authority(tmp_path, name="other")
    # Somebody's own certificate after it would be one that hosts trust, and no daemon starts with it.
    mixed = tmp_path / "mixed.pem"
    mixed.write_text(Path(own["certificate"]).read_text() + Path(leaf["certificate"]).read_text())
    with pytest.raises(InputError, match="holds O=firm,CN=leaf, which is not an authority"):
        opened(tmp_path, certificate=str(mixed), key=own["key"])
    with pytest.raises(InputError, match="does not hold the key of O=firm,CN=own. If that is the root"):
        opened(tmp_path, certificate=own["certificate"], key=other["key"])
    with pytest.raises(InputError, match="holds no certificate"):
        opened(tmp_path, certificate=own["key"], key=own["key"])
    with pytest.raises(InputError, match="^authority_certificate: .*missing cannot be read: No such file"):
        opened(tmp_path, certificate=str(tmp_path / "missing"), key=own["key"])


def test_an_own_authority_in_der_form_is_named_as_what_it_is(tmp_path: Path) -> None:
    """What is said is about the file that the user gave, and not about the authority's folder."""
    own = own_authority(tmp_path, "-outform", "DER")
    with pytest.raises(InputError, match=r"own\.pem holds no certificate in PEM form"):
        opened(tmp_path, own=own)


@pytest.mark.parametrize("passphrase", [None, "of old"])
def test_the_key_of_a_former_authority_is_there_whatever_passphrase_the_own_one_has(
    tmp_path: Path, passphrase: str | None
) -> None:
    """Or it could neither go on until all hosts trust the new one, nor revoke what it has signed."""
    made = opened(tmp_path, passphrase=passphrase)
    own = own_authority(tmp_path)
    change = ["openssl", "pkcs8", "-topk8", "-passout", "pass:a word", "-in", own["key"], "-out", f"{own['key']}.new"]
    subprocess.run(change, check=True, capture_output=True)
    own["key"] += ".new"
    (former,) = opened(tmp_path, own=own, passphrase="a word").former
    assert former.certificate == made.current.certificate
    # One with another passphrase is known all the same.
    assert (former.key is None) is (passphrase is not None)


def test_a_key_of_another_kind_is_refused(tmp_path: Path) -> None:
    key = tmp_path / "ed.key"
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", str(key)], check=True)
    own = own_authority(tmp_path)
    with pytest.raises(InputError, match="neither ECDSA nor RSA"):
        opened(tmp_path, certificate=own["certificate"], key=str(key))
    key.unlink()
    subprocess.run(["openssl", "ecparam", "-genkey", "-noout", "-name", "secp112r1", "-out", str(key)], check=True)
    with pytest.raises(InputError, match=r"ed\.key holds a key that cannot be used"):
        opened(tmp_path, certificate=own["certificate"], key=str(key))


def that_ends(
    key: t.Any, end: datetime.datetime, begun: datetime.timedelta = datetime.timedelta(days=9)
) -> x509.Certificate:
    """The certificate of an authority that has been one for some days."""
    name = certs.make_name("cloud", "old", "cloud")
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(certs.now() - begun)
        .not_valid_after(end)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )


@pytest.mark.parametrize(
    ("begun_hours", "ends_hours", "words"),
    [
        (200, 12, "expires within a day"),
        (200, -12, "expired on 20"),
        (-12, 9999, "is not valid before 20.*Go on with the one before"),
    ],
)
def test_an_own_authority_is_valid_and_has_to_last_for_some_days(
    tmp_path: Path, begun_hours: int, ends_hours: int, words: str
) -> None:
    """No daemon starts with one that is not valid yet: all hosts would be without TLS."""
    key = certs.make_key("ecdsa")
    hour = datetime.timedelta(hours=1)
    certificate = that_ends(key, certs.now() + ends_hours * hour, begun_hours * hour)
    (tmp_path / "own.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (tmp_path / "own.key").write_bytes(certs.key_as_pem(key))
    (tmp_path / "own.key").chmod(0o600)
    with pytest.raises(InputError, match=f"CN=cloud {words}"):
        opened(tmp_path, certificate=str(tmp_path / "own.pem"), key=str(tmp_path / "own.key"))


def test_an_ended_authority_is_not_known_any_more(tmp_path: Path) -> None:
    made = opened(tmp_path)
    ended = that_ends(certs.make_key("ecdsa"), certs.now() - datetime.timedelta(days=1))
    (tmp_path / "authority" / "0123456789abcdef.pem").write_bytes(ended.public_bytes(serialization.Encoding.PEM))
    assert opened(tmp_path).former == ()
    assert opened(tmp_path).current.certificate == made.current.certificate
