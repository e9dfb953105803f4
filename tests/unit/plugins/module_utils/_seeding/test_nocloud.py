# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What stands in a seed."""

from __future__ import annotations

import email
import io
import json
import shutil
import subprocess
import tarfile
import typing as t

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.brine.virt.plugins.module_utils._errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._model.spec import Machine, read_machine
from ansible_collections.brine.virt.plugins.module_utils._seeding.host_keys import make_host_keys
from ansible_collections.brine.virt.plugins.module_utils._seeding.nocloud import (
    merge,
    seed_digest,
    seed_documents,
    seed_image,
)

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKey operator@example"


def machine(**wish: t.Any) -> Machine:
    return read_machine({"name": "web1", "vcpus": 1, "memory": 512, **wish})


def documents(**wish: t.Any) -> dict[str, t.Any]:
    """The documents as a reader of YAML sees them: JSON is YAML."""
    texts = seed_documents(machine(**wish), make_host_keys())
    assert texts["user-data"].startswith("#cloud-config\n")
    return {name: json.loads(text.partition("\n")[2] if name == "user-data" else text) for name, text in texts.items()}


def test_user_and_keys() -> None:
    made = documents(seed={"user": "admin", "authorized_keys": [KEY], "hostname": "www"})
    user = made["user-data"]["users"][0]
    assert (user["name"], user["ssh_authorized_keys"], user["lock_passwd"]) == ("admin", [KEY], True)
    assert made["meta-data"]["local-hostname"] == made["user-data"]["hostname"] == "www"
    assert made["user-data"]["ssh_pwauth"] is False


def test_host_keys_are_new_each_time_and_the_hash_is_not() -> None:
    first, second = documents(), documents()
    assert first["user-data"]["ssh_keys"] != second["user-data"]["ssh_keys"]
    assert seed_digest(machine()) == seed_digest(machine())


@pytest.mark.parametrize(
    "seed",
    [{"user": "x"}, {"packages": ["vim"]}, {"run_commands": ["true"]}, {"user_data": {"timezone": "UTC"}}],
    ids=lambda seed: next(iter(seed)),
)
def test_another_wish_is_another_hash(seed: dict[str, t.Any]) -> None:
    assert seed_digest(machine(seed=seed)) != seed_digest(machine())
    assert documents(seed=seed)["meta-data"] != documents()["meta-data"]


def test_host_keys_fit_together_and_hide_their_private_half() -> None:
    for key in make_host_keys():
        assert key.private.startswith("-----BEGIN OPENSSH PRIVATE KEY-----")
        assert key.private not in repr(key)
        assert "PRIVATE" not in repr(key)
        assert key.public.startswith("ssh-ed25519 " if key.kind == "ed25519" else "ecdsa-sha2-nistp256 ")


def test_network_by_mac_and_name() -> None:
    static = {"name": "eth1", "bridge": "b", "addresses": ["192.0.2.10/24", "2001:db8::1/64"], "gateway": "192.0.2.1"}
    ethernets = documents(nics=[{**static, "nameservers": ["192.0.2.53"]}])["network-config"]["ethernets"]
    assert ethernets["eth0"]["dhcp4"] is True
    assert ethernets["eth0"]["match"]["macaddress"].startswith("52:54:00:")
    assert ethernets["eth1"]["addresses"] == ["192.0.2.10/24", "2001:db8::1/64"]
    assert ethernets["eth1"]["routes"] == [{"to": "0.0.0.0/0", "via": "192.0.2.1"}]
    assert ethernets["eth1"]["nameservers"] == {"addresses": ["192.0.2.53"]}
    assert "dhcp4" not in ethernets["eth1"]


def test_a_name_too_long_for_an_interface_is_left_to_the_guest() -> None:
    ethernets = documents(nics=[{"name": "a-very-long-nic-name"}])["network-config"]["ethernets"]
    assert "set-name" not in ethernets["a-very-long-nic-name"]
    assert ethernets["eth0"]["set-name"] == "eth0"


def test_user_data_is_merged_as_data_and_as_text() -> None:
    data = {"runcmd": ["echo hello"], "ssh_pwauth": True, "timezone": "UTC"}
    text = "#cloud-config\nruncmd: [echo hello]\nssh_pwauth: true\ntimezone: UTC\n"
    for given_data in (data, text):
        made = documents(seed={"user_data": given_data})["user-data"]
        assert made["runcmd"][-1] == "echo hello"
        assert "python3" in str(made["runcmd"][0])
        assert made["ssh_pwauth"] is True
        assert made["timezone"] == "UTC"


def test_a_script_becomes_a_part_of_its_own() -> None:
    text = seed_documents(machine(seed={"user_data": "#!/bin/sh\ntouch /hello\n"}), ())["user-data"]
    parts = t.cast("list[email.message.Message]", email.message_from_string(text).get_payload())
    assert [part.get_content_type() for part in parts] == ["text/cloud-config", "text/x-shellscript"]
    script = parts[1].get_payload(decode=True)
    assert script == b"#!/bin/sh\ntouch /hello\n"


@pytest.mark.parametrize("text", ["hello", "#cloud-config\n- a list\n", "#cloud-config\n{unclosed"])
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="seed.user_data"):
        seed_documents(machine(seed={"user_data": text}), ())


@given(st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1))
def test_no_text_breaks_out_of_the_cloud_config(text: str) -> None:
    made = documents(seed={"authorized_keys": [text], "run_commands": [["echo", text]]})["user-data"]
    assert made["users"][0]["ssh_authorized_keys"] == [text]
    assert made["runcmd"][1] == ["echo", text]
    assert set(made) == set(documents()["user-data"])


def test_merge_changes_nothing_of_its_arguments() -> None:
    ours, theirs = {"a": {"b": [1]}, "c": 1}, {"a": {"b": [2], "d": 3}, "c": 2}
    assert merge(ours, theirs) == {"a": {"b": [1, 2], "d": 3}, "c": 2}
    assert ours == {"a": {"b": [1]}, "c": 1}


def test_the_image_has_the_label_and_the_files() -> None:
    if shutil.which("bsdtar") is None or shutil.which("blkid") is None:
        pytest.skip("bsdtar (package libarchive-tools) or blkid is not installed")
    image = seed_image({"meta-data": "one\n", "user-data": "two\n" * 9000})
    blkid = subprocess.run(["blkid", "-p", "-o", "export", "/dev/stdin"], input=image, capture_output=True, check=False)
    if blkid.returncode == 0:
        assert b"LABEL=cidata" in blkid.stdout
    listing = subprocess.run(
        ["bsdtar", "-cf", "-", "--format=ustar", "@-"], input=image, capture_output=True, check=True
    )
    with tarfile.open(fileobj=io.BytesIO(listing.stdout)) as tar:
        member = tar.extractfile("user-data")
        assert member is not None
        assert member.read() == b"two\n" * 9000
    assert b"CD001" in image
    assert b"cidata" in image.replace(b"\x00", b"")
