# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which texts of a seed are secret."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._seeding.secret_values import secrets_of

pytestmark = pytest.mark.medium

HASH = "$6$abcdefgh$" + "x" * 86
KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3Blb\n-----END OPENSSH PRIVATE KEY-----"
CLOUD_CONFIG = f"""\
#cloud-config
users:
  - name: ops
    lock_passwd: false
    plain_text_passwd: 'correct horse'   # really
    hashed_passwd: {HASH}
  - {{name: two, passwd: battery staple}}
chpasswd:
  list: |
    root:hunter22
    ops:RANDOM
ssh_keys:
  rsa_private: |
    {KEY.replace(chr(10), chr(10) + "    ")}
timezone: Europe/Vienna
"""


@pytest.mark.parametrize(
    ("seed", "secrets"),
    [
        ({"password_hash": HASH}, {HASH}),
        ({"users": [{"name": "operator", "password_hash": HASH, "authorized_keys": ["ssh-rsa AAAAB3"]}]}, {HASH}),
        (
            {"files": [{"path": "/etc/token", "content": "top secret\n", "secret": True}]},
            {"top secret\n", "top secret"},
        ),
        ({"files": [{"path": "/etc/token", "content": "no secret", "secret": False}]}, set()),
        # As a template and the command line write it, and a number that YAML made of a token without quotes.
        ({"files": [{"path": "/etc/token", "content": "no words", "secret": "True"}]}, {"no words"}),
        ({"files": [{"path": "/etc/token", "content": "no words", "secret": " YES "}]}, {"no words"}),
        ({"files": [{"path": "/etc/token", "content": 12345678, "secret": True}]}, {"12345678"}),
        # Refused, but logged before.
        ({"files": [{"path": "/etc/token", "contents": "no words", "secret": True}]}, {"no words"}),
        ({"files": [{"path": "/etc/key", "content": f"a\n{KEY}\n"}]}, {KEY}),
        ({"user_data": {"password": "hunter22", "timezone": "Europe/Vienna"}}, {"hunter22"}),
        ({"user_data": {"chpasswd": {"list": ["root:hunter22", "ops:random"]}}}, {"hunter22"}),
        ({"user_data": {"chpasswd": {"users": [{"name": "operator", "password": "hunter22"}]}}}, {"hunter22"}),
        ({"user_data": {"ssh_keys": {"rsa_private": "b3BlbnNz", "rsa_public": "AAAAB3Nz"}}}, {"b3BlbnNz"}),
        ({"user_data": {"list": ["operator:machines"]}}, set()),
        ({"network": {"version": 2, "wifis": {"w": {"password": "hunter22"}}}}, {"hunter22"}),
        ({"user_data": {"password": "short", "lock_passwd": "certainly"}}, set()),
        ({"user_data": f"#!/bin/sh\ncat <<E\n{KEY}\nE\n"}, {KEY}),
        # No YAML, so its lines have to do.
        ({"user_data": "#cloud-config\n{{ x\npassword: hunter22\n"}, {"hunter22"}),
        ({"hostname": "web1", "packages": ["password", "secret"]}, set()),
        ({}, set()),
        ("password: hunter22", set()),
        (None, set()),
    ],
)
def test_secrets(seed: t.Any, secrets: set[str]) -> None:
    assert secrets_of(seed) == secrets


SECRET_NAMES = """
passwd pass password passphrase hashed_passwd plain_text_passwd password_hash passwd_hash root-password
adminPassword db_pwd passwords key_password private rsa_private private_key private-key privateKey PrivateKey
privatekey ssh_private_keys secret client_secret secrets secret_key SecretKey secret_access_key
AWS_SECRET_ACCESS_KEY access_key access-key token auth_token accessToken tokens psk wpa_psk PresharedKey
PreSharedKey preshared_key shared_key pre-shared-key api_key apikey APIKEY api-keys activation_key
registration_key validation_key encryption_key decryption-key license_key auth_key authkey authorization
Authorization Proxy-Authorization master_key account_key tls_key ssl_key client_key server_key join_key
luks_key recovery_key signing_secret pasword passwrod user_pasword passphrse
"""
NO_SECRET_NAMES = """
public_key public-key PublicKey rsa_public ssh_authorized_keys authorized_keys ssh_keys ssh_key key_name key
keys keyid key_id KeyName gpg_key gpgkey access_key_id secret_name password_file token_url private_key_path
passwordless private_network host_keys host_key keyboard keyserver lock_passwd ssh_pwauth pwd compass bypass
passenger monkey secretary tokenizer sort_key primary_key hotkey key_server primary-key-name PrivateKeyFile
secrets_dir passed passages keyword
"""


@pytest.mark.parametrize("name", SECRET_NAMES.split())
def test_names_of_secrets(name: str) -> None:
    assert secrets_of({"user_data": {name: "hunter22"}}) == {"hunter22"}
    assert secrets_of({"user_data": {"of": {name: ["hunter22"]}}}) == {"hunter22"}
    assert secrets_of({"user_data": f"#!/bin/sh\nexport {name}='hunter22'\n"}) == {"hunter22"}
    content = f"[Interface]\n  {name} = hunter22  \nPublicKey = aGVsbG8=\n"
    assert secrets_of({"user_data": {"wireguard": {"interfaces": [{"content": content}]}}}) == {"hunter22"}
    assert secrets_of({"files": [{"path": "/etc/x", "content": content}]}) == {"hunter22"}


@pytest.mark.parametrize(
    "line",
    [
        '{"user": "app", "password": "hunter22"}',
        "db: {user: a, password: hunter22}",
        'db.password = "hunter22"',
        "A=1; DB_PASSWORD=hunter22",
        "Server=db1;User=a;Password=hunter22;",
        "$cfg['password'] = 'hunter22';",
        "<password>hunter22</password>",
    ],
)
def test_a_secret_further_on_in_a_line_of_a_file(line: str) -> None:
    """All that stands behind the name is taken for it."""
    seed = {"files": [{"path": "/etc/x", "content": f"# a file\n{line}\n"}]}
    (found,) = secrets_of(seed)
    assert "hunter22" in found and found in line
    assert secrets_of({"files": [{"path": "/etc/x", "content": "a: b, c: password\nhttp://x/?a=1&b=2\n"}]}) == set()


@pytest.mark.parametrize("name", NO_SECRET_NAMES.split())
def test_names_that_only_look_like_those_of_secrets(name: str) -> None:
    assert secrets_of({"user_data": {name: "harmless"}}) == set()
    assert secrets_of({"user_data": f"#!/bin/sh\n{name}=harmless\n"}) == set()
    assert secrets_of({"files": [{"path": "/etc/x", "content": f"{name}: harmless\n"}]}) == set()


def test_keys_of_tunnels() -> None:
    """netplan names them by where they stand.

    https://netplan.readthedocs.io/en/stable/netplan-yaml/#properties-for-tunnels
    """
    keys = {"public": "cHVibGlj", "shared": "c2hhcmVk"}
    tunnel = {"mode": "wireguard", "key": "cHJpdmF0ZQ==", "peers": [{"keys": keys, "endpoint": "192.0.2.1:5182"}]}
    assert secrets_of({"network": {"version": 2, "tunnels": {"wg0": tunnel}}}) == {"cHJpdmF0ZQ==", "c2hhcmVk"}
    assert secrets_of({"user_data": {"apt": {"sources": {"a": {"key": "-----BEGIN PGP PUBLIC"}}}}}) == set()


def test_secrets_of_a_cloud_config_in_both_spellings() -> None:
    found = secrets_of({"user_data": CLOUD_CONFIG})
    indented = KEY.replace("\n", "\n    ")
    assert {"correct horse", "battery staple", HASH, "hunter22", KEY, indented} <= found
    assert not {"Europe/Vienna", "operator", "RANDOM", "false"} & found
    # Whatever is repeated of the text as it is, no secret stays in it.
    text = CLOUD_CONFIG
    for secret in sorted(found, key=len, reverse=True):
        text = text.replace(secret, "********")
    assert not [word for word in ("correct", "battery", "hunter", "b3Blb", "xxxx") if word in text]


@pytest.mark.parametrize("text", ["#cloud-config\na: &x [*x]\n", "#cloud-config\n" + "[" * 3000])
def test_a_cloud_config_without_an_end_is_no_accident(text: str) -> None:
    assert secrets_of({"user_data": f"{text}\npassword: hunter22\n"}) == {"hunter22"}


@pytest.mark.parametrize("marker", ["|", ">-", "|2"])
def test_a_value_that_fills_the_lines_below_its_key(marker: str) -> None:
    content = f"user: joe\n  password: {marker}\n    hunter22\n\n    more-of-it\n  port: 22\n"
    assert secrets_of({"files": [{"path": "/etc/x", "content": content}]}) == {"hunter22", "more-of-it"}
