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
import traceback
import typing as t
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._model.spec.machine import Machine
from ansible_collections.brine.virt.plugins.module_utils._model.spec.reading.machines import read_machine, read_machines
from ansible_collections.brine.virt.plugins.module_utils._seeding.host_keys import make_host_keys
from ansible_collections.brine.virt.plugins.module_utils._seeding.nocloud import (
    merge,
    seed_digest,
    seed_documents,
    seed_image,
)

pytestmark = pytest.mark.medium

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKey operator@example"


HASH = "$6$abcdefgh$" + "x" * 86


def machine(**spec: t.Any) -> Machine:
    return read_machine({"name": "web1", "vcpus": 1, "memory": 512, **spec})


def documents(**spec: t.Any) -> dict[str, t.Any]:
    """The documents as a reader of YAML sees them: JSON is YAML."""
    texts = seed_documents(machine(**spec), make_host_keys())
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
    [
        {"user": "x"},
        {"packages": ["vim"]},
        {"run_commands": ["true"]},
        {"user_data": {"timezone": "UTC"}},
        {"fqdn": "web1.example.org"},
        {"instance_id": "one"},
        {"password_hash": HASH},
        {"ssh_pwauth": True},
        {"users": [{"name": "ops"}]},
        {"files": [{"path": "/x"}]},
        {"network": {"version": 2}},
        {"timezone": "UTC"},
        {"locale": "C.UTF-8"},
    ],
    ids=lambda seed: next(iter(seed)),
)
def test_another_spec_is_another_hash(seed: dict[str, t.Any]) -> None:
    assert seed_digest(machine(seed=seed)) != seed_digest(machine())
    assert documents(seed=seed)["meta-data"] != documents()["meta-data"]


def test_host_keys_are_whole_lines() -> None:
    keys = make_host_keys()
    made = json.loads(seed_documents(machine(), keys)["user-data"].partition("\n")[2])["ssh_keys"]
    assert made == {
        "ed25519_private": keys[0].private,
        "ed25519_public": keys[0].public + "\n",
        "ecdsa_private": keys[1].private,
        "ecdsa_public": keys[1].public + "\n",
    }


def test_host_keys_fit_together_and_hide_their_private_half() -> None:
    for key in make_host_keys():
        assert key.private.startswith("-----BEGIN OPENSSH PRIVATE KEY-----")
        assert key.private not in repr(key)
        assert "PRIVATE" not in repr(key)
        assert key.public.startswith("ssh-ed25519 " if key.kind == "ed25519" else "ecdsa-sha2-nistp256 ")


def test_a_seed_that_names_nothing_new_has_the_hash_that_it_always_had() -> None:
    """A machine made by an earlier version is not called outdated by this one."""
    nics = [{"eth0": {}}, {"eth1": {"bridge": "b", "addresses": ["192.0.2.10/24"]}}]
    seed = {"authorized_keys": [KEY], "packages": ["vim"], "run_commands": ["a", ["b", "c"]], "user_data": {"x": "y"}}
    assert (
        seed_digest(machine(nics=nics, seed=seed)) == "acef160741dfb06af1dd83e58f0128cca5782f98c048357b46d6190859c018a1"
    )


@pytest.mark.parametrize("package", ["qemu-guest-agent", "qemu-guest-agent=1:7.2+dfsg-7"])
def test_a_guest_agent_that_the_seed_installs_is_started(package: str) -> None:
    """Debian and Ubuntu do it at the next boot, others not at all. The user's own commands come after it."""
    seed = {"packages": ["vim", package], "run_commands": ["mine"], "user_data": {"runcmd": ["theirs"]}}
    python, start, *rest = documents(seed=seed)["user-data"]["runcmd"]
    assert "python3" in python[2]
    assert "systemctl --no-block start qemu-guest-agent" in start[2]
    assert rest == ["mine", "theirs"]
    without = documents(seed={**seed, "packages": ["vim"]})["user-data"]["runcmd"]
    assert without == [python, "mine", "theirs"]


def test_a_machine_whose_seed_installed_the_agent_before_is_not_outdated() -> None:
    spec = machine(seed={"authorized_keys": [KEY], "packages": ["qemu-guest-agent"]})
    assert seed_digest(spec) == "4861c3336a98bd19408da87f6eb2864b5386c2be4d53005507416059fb0385c9"


@pytest.mark.parametrize("status", [0, 5])
@pytest.mark.parametrize(
    ("init", "commands"),
    [
        ("systemd", ["systemctl --no-block start qemu-guest-agent"]),
        ("openrc", ["rc-update add qemu-guest-agent default", "rc-service qemu-guest-agent start"]),
        ("none", []),
    ],
)
def test_how_the_agent_is_started(tmp_path: Path, init: str, commands: list[str], status: int) -> None:
    """By whatever starts services in the guest, and nothing fails where nothing does, or has such a unit."""
    script = documents(seed={"packages": ["qemu-guest-agent"]})["user-data"]["runcmd"][1][2]
    running = tmp_path / "run"
    script = script.replace("/run/systemd/system", str(running))
    if init == "systemd":
        running.mkdir()
    for name in {"systemd": ["systemctl"], "openrc": ["rc-update", "rc-service"], "none": []}[init]:
        exits = 0 if name == "rc-update" else status
        (tmp_path / name).write_text(f'#!/bin/sh\necho "{name} $*" >>{tmp_path}/ran\nexit {exits}\n')
        (tmp_path / name).chmod(0o755)
    sh = shutil.which("sh")
    assert sh is not None
    subprocess.run([sh, "-c", script], env={"PATH": str(tmp_path)}, check=True)
    ran = tmp_path / "ran"
    assert (ran.read_text().splitlines() if ran.exists() else []) == commands


def test_a_refreshed_seed_leaves_the_machine_its_host_keys() -> None:
    made = json.loads(seed_documents(machine(seed={"timezone": "UTC"}), ())["user-data"].partition("\n")[2])
    assert "ssh_keys" not in made
    # No further ones are made either: the metadata has the public halves of all.
    assert (made["ssh_deletekeys"], made["ssh_genkeytypes"]) == (False, [key.kind for key in make_host_keys()])
    assert (
        seed_documents(machine(seed={"timezone": "UTC"}), ())["meta-data"] != seed_documents(machine(), ())["meta-data"]
    )


def test_who_the_machine_is() -> None:
    made = documents(seed={"fqdn": "www.example.org", "instance_id": "i-1", "timezone": "UTC", "locale": "C.UTF-8"})
    assert made["meta-data"] == {"instance-id": "i-1", "local-hostname": "www"}
    config = made["user-data"]
    assert (config["hostname"], config["fqdn"]) == ("www", "www.example.org")
    assert (config["timezone"], config["locale"]) == ("UTC", "C.UTF-8")


def test_users_and_their_passwords() -> None:
    more = [
        {"name": "ops", "sudo": True, "groups": ["adm"], "gecos": "Ops", "shell": "/bin/sh", "authorized_keys": [KEY]},
        {"name": "guest", "password_hash": HASH},
    ]
    made = documents(seed={"user": "root", "password_hash": HASH, "users": more})["user-data"]
    assert [user["name"] for user in made["users"]] == ["root", "ops", "guest"]
    assert [(user["lock_passwd"], user.get("hashed_passwd")) for user in made["users"]] == [
        (False, HASH),
        (True, None),
        (False, HASH),
    ]
    assert made["users"][1] == {
        "name": "ops",
        "shell": "/bin/sh",
        "lock_passwd": True,
        "sudo": "ALL=(ALL) NOPASSWD:ALL",
        "ssh_authorized_keys": [KEY],
        "gecos": "Ops",
        "groups": ["adm"],
    }
    assert "sudo" not in made["users"][2]
    # A password is for the console: logging in over SSH with it is another request.
    assert (made["ssh_pwauth"], made["disable_root"]) == (False, False)


def test_files() -> None:
    files = [
        {"path": "/etc/motd", "content": "hello\n"},
        {"path": "/srv/x", "content": "aG\nkA", "encoding": "base64", "owner": "ops:adm", "mode": "600"},
        {"path": "/home/ops/y"},
    ]
    assert documents(seed={"files": files})["user-data"]["write_files"] == [
        {"path": "/etc/motd", "content": "hello\n", "owner": "root:root", "permissions": "0644"},
        {
            "path": "/srv/x",
            "content": "aGkA",
            "encoding": "b64",
            "owner": "ops:adm",
            "permissions": "0600",
            "defer": True,
        },
        {"path": "/home/ops/y", "content": "", "owner": "root:root", "permissions": "0644", "defer": True},
    ]


@pytest.mark.parametrize("path", ["/etc/hosts", "/etc//hosts"])
def test_a_hosts_file_of_the_users_own_stays(path: str) -> None:
    """cloud-init writes files before it writes that one, and at each boot: config/cloud.cfg.tmpl, update_etc_hosts."""
    assert documents(seed={"files": [{"path": path}]})["user-data"]["manage_etc_hosts"] is False
    assert documents(seed={"files": [{"path": "/etc/hosts.allow"}]})["user-data"]["manage_etc_hosts"] is True


def test_network_words() -> None:
    words = {
        "addresses": ["192.0.2.10/24", "2001:db8::2/64"],
        "gateway": ["192.0.2.1", "2001:db8::1"],
        "search": ["example.org"],
        "routes": [{"to": "198.51.100.0/24", "via": "192.0.2.9", "metric": 5}, {"to": "default", "via": "192.0.2.8"}],
        "dhcp4": True,
        "dhcp6": False,
        "accept_ra": False,
        "mtu": 1400,
    }
    made = documents(nics=[{"name": "eth0", **words}])
    ethernet = made["network-config"]["ethernets"]["eth0"]
    del ethernet["match"]
    assert ethernet == {
        "set-name": "eth0",
        "dhcp4": True,
        "dhcp6": False,
        "accept-ra": False,
        "mtu": 1400,
        "addresses": words["addresses"],
        "nameservers": {"search": ["example.org"]},
        "routes": [
            {"to": "0.0.0.0/0", "via": "192.0.2.1"},
            {"to": "::/0", "via": "2001:db8::1"},
            {"to": "198.51.100.0/24", "via": "192.0.2.9", "metric": 5},
            {"to": "0.0.0.0/0", "via": "192.0.2.8"},
        ],
    }
    script = made["user-data"]["bootcmd"][0][2]
    assert "ip -6 route replace ::/0 via 2001:db8::1" in script
    assert "ip -4 route replace 198.51.100.0/24 via 192.0.2.9 metric 5" in script
    subprocess.run(["sh", "-n"], input=script.encode(), check=True)


def test_a_router_outside_of_the_nics_networks_is_said_to_be_on_the_link() -> None:
    """The kernel refuses the route otherwise: "Nexthop has invalid gateway"."""
    far = {"addresses": ["203.0.113.7/32", "2001:db8::7/128"], "gateway": ["203.0.113.1", "2001:db8:1::1"]}
    made = documents(nics=[{"name": "eth0", **far, "routes": [{"to": "198.51.100.0/24", "via": "192.0.2.9"}]}])
    assert made["network-config"]["ethernets"]["eth0"]["routes"] == [
        {"to": "0.0.0.0/0", "via": "203.0.113.1", "on-link": True},
        {"to": "::/0", "via": "2001:db8:1::1", "on-link": True},
        {"to": "198.51.100.0/24", "via": "192.0.2.9", "on-link": True},
    ]
    # ifupdown is told so by nobody else, with net-tools or without.
    assert made["user-data"]["bootcmd"][0][2].splitlines()[1:] == [
        "ip -4 route replace 0.0.0.0/0 via 203.0.113.1 dev eth0 onlink",
        "ip -6 route replace ::/0 via 2001:db8:1::1 dev eth0 onlink",
        "ip -4 route replace 198.51.100.0/24 via 192.0.2.9 dev eth0 onlink",
    ]


def test_a_link_local_router_is_of_one_interface() -> None:
    near = {"addresses": ["192.0.2.7/24", "2001:db8::7/64"], "gateway": ["192.0.2.1", "fe80::1"]}
    made = documents(nics=[{"name": "eth0", **near}])
    routes = made["network-config"]["ethernets"]["eth0"]["routes"]
    assert routes == [{"to": "0.0.0.0/0", "via": "192.0.2.1"}, {"to": "::/0", "via": "fe80::1"}]
    assert made["user-data"]["bootcmd"][0][2].splitlines()[1:] == [
        "command -v route >/dev/null || { ip -4 route replace 0.0.0.0/0 via 192.0.2.1; }",
        "ip -6 route replace ::/0 via fe80::1 dev eth0",
    ]


def test_without_dhcp_and_without_addresses_there_is_neither() -> None:
    ethernet = documents(nics=[{"name": "eth0", "dhcp4": False}])["network-config"]["ethernets"]["eth0"]
    assert ethernet["dhcp4"] is False


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


def parts_of(user_data: str) -> list[email.message.Message]:
    text = seed_documents(machine(seed={"user_data": user_data}), ())["user-data"]
    return t.cast("list[email.message.Message]", email.message_from_string(text).get_payload())


@pytest.mark.parametrize(
    ("start", "kind"),
    [
        ("#include-once\n", "x-include-once-url"),
        ("#include\n", "x-include-url"),
        ("#cloud-config-archive\n- {}\n", "cloud-config-archive"),
        ("## template: jinja\n#cloud-config\n", "jinja2"),
    ],
)
def test_what_can_become_cloud_config_in_the_guest_is_merged_there(start: str, kind: str) -> None:
    """By default, the keys of a later part take the place of those of an earlier one: users, runcmd, packages.

    Ours comes last and says how it is merged, by the rules that `merge` has: keys theirs, lists one after the other,
    ours first. The code of cloud-init 21.1, 22.1, 22.4.2, 23.4.4, 24.4.1 and 25.1.4 does so with these parts.
    """
    theirs, ours = parts_of(start)
    assert theirs.get_content_type() == f"text/{kind}"
    assert theirs.get_payload(decode=True) == start.encode()
    assert ours.get_content_type() == "text/cloud-config"
    assert ours["Merge-Type"] == "dict(no_replace,recurse_list)+list(prepend)+str()"
    assert "Merge-Type" not in theirs


@pytest.mark.parametrize(
    ("start", "kind"),
    [("#cloud-boothook\n", "cloud-boothook"), ("#part-handler\n", "part-handler"), ("#!/bin/sh\n", "x-shellscript")],
)
def test_other_kinds_of_user_data(start: str, kind: str) -> None:
    ours, theirs = parts_of(start)
    assert ours.get_content_type() == "text/cloud-config"
    assert "Merge-Type" not in ours
    assert theirs.get_content_type() == f"text/{kind}"
    assert theirs.get_payload(decode=True) == start.encode()


def test_a_seed_with_a_script_has_the_hash_that_it_always_had() -> None:
    spec = machine(seed={"user_data": "#!/bin/sh\ntouch /hello\n"})
    assert seed_digest(spec) == "4486cc2754f2f43dda15610277f3017758348c5f1fce488161f5c535e79bc1ce"


def test_dates_of_yaml_are_texts_again() -> None:
    text = "#cloud-config\nusers: [{name: ops, expiredate: 2030-01-31}]\n"
    assert documents(seed={"user_data": text})["user-data"]["users"][1]["expiredate"] == "2030-01-31"


@pytest.mark.parametrize("text", ["hello", "#cloud-config\n- a list\n", "#cloud-config\n{unclosed"])
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="seed.user_data"):
        seed_documents(machine(seed={"user_data": text}), ())


@pytest.mark.parametrize("text", ["{unclosed", "a: 2024-13-45", "a: !!int b", "a: &a [*a]", "[" * 3000, "- a list"])
def test_a_cloud_config_that_is_none_is_named_by_its_place(text: str) -> None:
    spec = {"name": "web1", "vcpus": 1, "memory": 512, "seed": {"user_data": f"#cloud-config\n{text}\n"}}
    found = read_machines([spec], where="virt_vms")[0]
    with pytest.raises(InputError, match=r"^virt_vms\[0\]\.seed\.user_data: the user_data "):
        seed_digest(found)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("users:\n- {name: x, plain_text_passwd: @Geheim99}", " in line 3, column 32"),
        ("chpasswd:\n  list:\n\troot:Geheim99", " in line 4, column 1"),
        ("password: *Geheim99", " in line 2, column 11"),
        ("password: Geheim99\x80", " at character 33"),
        ("password: !!int Geheim99", ": it has a date or a number that is none"),
    ],
)
def test_the_complaint_about_a_cloud_config_repeats_nothing_of_it(text: str, place: str) -> None:
    with pytest.raises(InputError, match="the user_data is not valid YAML") as caught:
        seed_documents(machine(seed={"user_data": f"#cloud-config\n{text}\n"}), ())
    assert caught.value.what == f"the user_data is not valid YAML{place}"
    # Ansible shows the causes of an error as well.
    shown = traceback.format_exception(type(caught.value), caught.value, caught.tb)
    assert "Geheim99" not in "".join(shown)


TEXTS = st.text(
    st.characters(categories=None, exclude_categories=["Cs"], min_codepoint=0x20, exclude_characters="\ufffe\uffff"),
    min_size=1,
)
DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


def as_yaml(spec: Machine) -> dict[str, t.Any]:
    """The documents as cloud-init reads them: with a YAML reader, whose characters and line breaks are not JSON's."""
    return {name: yaml.safe_load(text) for name, text in seed_documents(spec, make_host_keys()).items()}


@settings(deadline=None)
@given(TEXTS, st.dictionaries(TEXTS.map(lambda text: f"x{text}"), DATA, max_size=3))
def test_no_text_breaks_out_of_the_cloud_config(text: str, data: dict[str, t.Any]) -> None:
    spec = machine(
        seed={
            "files": [{"path": "/x", "content": text}],
            "run_commands": [["echo", text]],
            "user_data": {"theirs": data},
        }
    )
    made, keys = as_yaml(spec)["user-data"], set(documents()["user-data"])
    assert made["write_files"][0]["content"] == text
    assert made["runcmd"][1:] == [["echo", text]]
    assert made["theirs"] == data
    assert set(made) == keys | {"write_files", "theirs"}


@settings(deadline=None)
@given(st.dictionaries(TEXTS, DATA, max_size=3))
def test_no_text_breaks_out_of_the_network_config(data: dict[str, t.Any]) -> None:
    network = {"version": 2, "theirs": data}
    assert as_yaml(machine(seed={"network": network}))["network-config"] == network
    assert as_yaml(machine(seed={"network": {"network": network}}))["network-config"] == network


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
    assert len(image) == 1 << 20
    assert b"cidata" in image.replace(b"\x00", b"")
