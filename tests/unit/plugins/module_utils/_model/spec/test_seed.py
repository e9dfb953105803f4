# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The spec for a seed, and every way to get it wrong."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._model.spec.reading.machines import read_machine, read_machines
from ansible_collections.brine.virt.plugins.module_utils._model.spec.seed import hostname_of, make_seed, read_seed

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKey operator@example"


@pytest.mark.parametrize(
    ("spec", "place", "words"),
    [
        ({"hostname": "web-"}, "hostname", "not a host name"),
        ({"hostname": "-web"}, "hostname", "not a host name"),
        ({"hostname": "web..x"}, "hostname", "not a host name"),
        ({"hostname": "web_1"}, "hostname", "not a host name"),
        ({"hostname": "w" * 64}, "hostname", "not a host name"),
        ({"hostname": "web1\n"}, "hostname", "not a host name"),
        ({"fqdn": "web1"}, "fqdn", "web1.example.org"),
        ({"instance_id": "a b"}, "instance_id", "not an instance id"),
        ({"user": "1st"}, "user", "not a user name"),
        ({"user": "a:b"}, "user", "not a user name"),
        ({"authorized_keys": ["hello"]}, "authorized_keys[0]", "not a public SSH key"),
        ({"authorized_keys": {"a": 1}}, "authorized_keys", "not a list"),
        ({"password_hash": "secret!"}, "password_hash", "not a password hash"),
        ({"ssh_pwauth": "maybe"}, "ssh_pwauth", "neither true nor false"),
        ({"users": [{"sudo": True}]}, "users[0]", "name is missing"),
        ({"users": [{"name": "a"}, {"name": "a"}]}, "users[1].name", "is in seed.users[0] already"),
        ({"users": [{"name": "a", "groups": ["x y"]}]}, "users[0].groups[0]", "not the name of a group"),
        ({"users": [{"name": "a", "gecos": "x:y"}]}, "users[0].gecos", "full name"),
        ({"users": [{"name": "a", "shell": "bash"}]}, "users[0].shell", "not the path of a file"),
        ({"users": [{"name": "a", "home": "/x"}]}, "users[0]", "unknown option 'home'"),
        ({"packages": ["-y"]}, "packages[0]", "not a package"),
        ({"files": [{"content": "x"}]}, "files[0]", "path is missing"),
        ({"files": [{"path": "/a"}, {"path": "b"}]}, "files[1].path", "not the path of a file"),
        ({"files": [{"path": "/a/"}]}, "files[0].path", "not the path of a file"),
        ({"files": [{"path": "/a"}, {"path": "/a"}]}, "files[1].path", "is in seed.files[0] already"),
        ({"files": [{"path": "/a", "mode": 420}]}, "files[0].mode", "in quotes"),
        ({"files": [{"path": "/a", "mode": "rw"}]}, "files[0].mode", "not the mode"),
        ({"files": [{"path": "/a", "owner": "a b"}]}, "files[0].owner", "not an owner"),
        ({"files": [{"path": "/a", "content": {"a": 1}}]}, "files[0].content", "not a string"),
        ({"files": [{"path": "/a", "content": "%", "encoding": "base64"}]}, "files[0].content", "not base64"),
        ({"files": [{"path": "/a", "encoding": "gzip"}]}, "files[0].encoding", "not a choice"),
        ({"files": "/a"}, "files", "not a list"),
        ({"run_commands": "reboot"}, "run_commands", "not a list"),
        ({"run_commands": ["reboot", None]}, "run_commands[1]", "'null' is not a command"),
        ({"run_commands": [["echo", True]]}, "run_commands[0][1]", "in quotes"),
        ({"network": {"ethernets": {}}}, "network", "version"),
        ({"network": {"network": {"version": 3}}}, "network.network", "version"),
        ({"network": "dhcp"}, "network", "not a mapping"),
        ({"user_data": "hello"}, "user_data", "no format that cloud-init knows"),
        ({"user_data": {"a": {"b": [object()]}}}, "user_data.a.b[0]", "cannot be written as YAML"),
        ({"timezone": "../../etc"}, "timezone", "not a time zone"),
        ({"locale": "a b"}, "locale", "not a locale"),
        ({"method": "cloudinit"}, "method", "not a choice"),
        ({"hostnme": "x"}, "", "Did you mean hostname?"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(spec: dict[str, t.Any], place: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        read_seed(spec, "seed")
    assert caught.value.where == (f"seed.{place}" if place else "seed")
    assert words in str(caught.value)


@pytest.mark.parametrize("spec", [{"password_hash": "Tr0ub4dor"}, {"authorized_keys": "-----BEGIN X PRIVATE KEY-----"}])
def test_a_complaint_does_not_repeat_what_may_be_a_secret(spec: dict[str, str]) -> None:
    with pytest.raises(InputError) as caught:
        read_seed(spec, "seed")
    assert next(iter(spec.values())) not in str(caught.value)


def test_keys_come_one_a_line() -> None:
    spec = {"authorized_keys": f'# mine\n{KEY}\n\n  no-pty,command="a b" {KEY}\n'}
    assert read_seed(spec, "seed")["authorized_keys"] == (KEY, f'no-pty,command="a b" {KEY}')


@pytest.mark.parametrize(
    "key",
    [
        "ssh-rsa AAAAB3NzaC1yc2E=",
        "ecdsa-sha2-nistp256 AAAAE2VjZHNh x",
        "sk-ssh-ed25519@openssh.com AAAAGnNrLXNzaC1l= x",
        "sk-ecdsa-sha2-nistp256@openssh.com AAAAInNrLWVj",
        "ssh-ed25519-cert-v01@openssh.com AAAAIHNzaC1l",
    ],
)
def test_all_kinds_of_keys(key: str) -> None:
    assert read_seed({"authorized_keys": [key]}, "seed")["authorized_keys"] == (key,)


@pytest.mark.parametrize(
    ("name", "hostname"),
    [("web1", "web1"), ("web_1", "web-1"), ("web1-", "web1"), ("db.example.org", "db.example.org"), ("a._b.", "a.b")],
)
def test_the_hostname_comes_from_the_machines_name(name: str, hostname: str) -> None:
    assert hostname_of(name) == hostname
    assert read_seed({"hostname": hostname}, "seed") == {"hostname": hostname}
    assert make_seed(name, {}, "seed").hostname == hostname


def test_the_hostname_is_the_first_part_of_the_full_name() -> None:
    assert make_seed("web1", {"fqdn": "www.example.org"}, "seed").hostname == "www"


@pytest.mark.parametrize(
    "spec",
    [
        {"packages": ["vim"]},
        {"run_commands": ["true"]},
        {"user_data": {"a": 1}},
        {"network": {"version": 2}},
        {"locale": "C.UTF-8"},
        {"instance_id": "x"},
    ],
    ids=lambda spec: next(iter(spec)),
)
def test_guestfs_refuses_what_only_cloud_init_does(spec: dict[str, t.Any]) -> None:
    key = next(iter(spec))
    base = {"name": "web1", "vcpus": 1, "memory": 512}
    with pytest.raises(InputError, match=f"seed.{key}: {key} needs cloud-init"):
        read_machine({**base, "seed": {"method": "guestfs", **spec}})
    with pytest.raises(InputError, match=rf"vms\[0\].seed.{key}: {key} needs"):
        read_machines([{**base, "seed": spec}], seed_defaults={"method": "guestfs"}, where="vms")
    # The place is that of the key, not of the method.
    with pytest.raises(InputError, match=rf"^seed.{key}: {key} needs"):
        read_machines([{**base, "seed": {"method": "guestfs"}}], seed_defaults=spec, where="vms")


def test_a_user_cannot_be_there_twice() -> None:
    with pytest.raises(InputError, match=r"seed.users\[0\].name: 'ansible' is the user of the seed already"):
        make_seed("web1", read_seed({"users": [{"name": "ansible"}]}, "seed"), "seed")


MINE: dict[str, t.Any] = {"name": "web1", "vcpus": 1, "memory": 512}


@pytest.mark.parametrize(
    ("common", "unset"),
    [
        ({"user": "admin"}, "ansible"),
        ({"authorized_keys": [KEY]}, ()),
        ({"password_hash": "$6$abcdefgh$" + "x" * 86}, None),
        ({"ssh_pwauth": True}, False),
        ({"users": [{"name": "ops"}]}, ()),
        ({"packages": ["vim"]}, ()),
        ({"files": [{"path": "/x"}]}, ()),
        ({"run_commands": ["true"]}, ()),
        ({"network": {"version": 2}}, None),
        ({"user_data": {"a": 1}}, None),
        ({"hostname": "www"}, "web1"),
        ({"fqdn": "www.example.org"}, None),
        ({"method": "guestfs"}, "nocloud"),
        ({"pool": "ceph"}, "default"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_null_of_a_machine_takes_away_what_is_said_for_all(common: dict[str, t.Any], unset: t.Any) -> None:
    key = next(iter(common))
    (machine,) = read_machines([{**MINE, "seed": {key: None}}], seed_defaults=common)
    assert getattr(machine.seed, key) == unset
    # For the others it stays as it is, and a null where there is nothing to take away says nothing.
    for own in ({}, {"timezone": None}):
        (machine,) = read_machines([{**MINE, "seed": own}], seed_defaults=common)
        assert getattr(machine.seed, key) != unset
    assert read_machine({**MINE, "seed": {key: None}}) == read_machine(MINE)
    (machine,) = read_machines([MINE], seed_defaults={key: None})
    assert machine == read_machine(MINE)
    assert not machine.seed_requested


@pytest.mark.parametrize(
    ("own", "method"),
    [
        ({"user": "admin"}, "nocloud"),
        ({"packages": ["vim"]}, "nocloud"),
        ({"method": "guestfs"}, "guestfs"),
        (True, "nocloud"),
        ({}, "none"),
        (None, "none"),
        ({"packages": None}, "none"),
        (False, "none"),
    ],
    ids=str,
)
@pytest.mark.parametrize("common", [False, {"method": "none"}, {"method": "none", "authorized_keys": [KEY]}], ids=str)
def test_a_seed_of_its_own_is_one_where_the_others_have_none(common: t.Any, own: t.Any, method: str) -> None:
    (machine,) = read_machines([{**MINE, "seed": own}], seed_defaults=common)
    assert machine.seed.method == method
    if isinstance(common, dict):
        assert machine.seed.authorized_keys == ((KEY,) if "authorized_keys" in common else ())


def test_who_has_no_seed_says_nothing_of_it() -> None:
    sentence = r"^vms\[0\]\.seed\.packages: packages is for a seed, and this machine has method none"
    with pytest.raises(InputError, match=sentence):
        read_machines([{**MINE, "seed": {"method": "none", "packages": ["vim"]}}], where="vms")
    (machine,) = read_machines([{**MINE, "seed": {"method": "none", "user": None}}], seed_defaults={"packages": ["a"]})
    assert machine.seed.method == "none"
