# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role virt_hypervisor as it is, in check mode, on what hosts of other distributions say.

What they say is in fixtures/distributions.yml.

Scripts in the place of systemctl, rpm and dpkg-query say it; the pools are those of libvirt's test driver.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.brine.virt.tests.unit.roles.ansible_runs import run_ansible

# Each starts whole runs of Ansible.
pytestmark = pytest.mark.slow
SAID = yaml.safe_load((Path(__file__).parents[1] / "fixtures/distributions.yml").read_text(encoding="utf-8"))
ROLE = Path(__file__).resolve().parents[3] / "roles/virt_hypervisor"
MAIN = re.compile(r"(?:libvirtd|virtqemud)[.]")
SYSTEMCTL = """#!/bin/sh
for unit; do :; done
state=inactive enabled=disabled
if grep -q "^$unit enabled " {units}; then state=active enabled=enabled; fi
case $1 in
list-unit-files) cat {units} ;;
list-units) sed -n 's/ enabled .*/ loaded active/p' {units} ;;
show) echo "Id=$unit"; echo LoadState=loaded; echo ActiveState=$state; echo UnitFileState=$enabled ;;
is-enabled) echo $enabled; test $enabled = enabled ;;
is-active) echo $state; test $state = active ;;
esac
"""


class Hosts:
    """Runs of the role on hosts that say what the fixture has."""

    def __init__(self, place: Path) -> None:
        self.place = place
        (place / "qemu.conf").write_text('#user = "root"\n')

    def run(
        self,
        name: str,
        *,
        missing: bool = False,
        unknown: str = "",
        units: t.Sequence[str] | None = None,
        **variables: t.Any,
    ) -> subprocess.CompletedProcess[str]:
        """missing: no package is there. unknown: one that dpkg has under no such name.

        units: lines of systemctl list-unit-files, in place of the fixture's.
        Of those of the fixture, all but libvirt's main ones are enabled: looking at each takes time.
        """
        said = SAID["hosts"][name]
        lines = units or [
            f"{unit} {'disabled' if MAIN.match(unit) else 'enabled'} -" for unit in SAID["units"][said["daemons"]]
        ]
        lacks = 'for name; do echo "no package provides $name"; done; exit 1' if missing else "exit 0"
        self.script("rpm", f"#!/bin/sh\nshift 2\n{lacks}\n")
        there = "exit 1" if missing else f'for name; do test "$name" = "{unknown}" || echo "$name installed"; done'
        self.script("dpkg-query", f"#!/bin/sh\nshift 2\n{there}\n")
        return self.play(name, lines, {"roles": ["brine.virt.virt_hypervisor"]}, **variables)

    def play(
        self, name: str, units: t.Sequence[str], what: dict[str, t.Any], **variables: t.Any
    ) -> subprocess.CompletedProcess[str]:
        """Run a play on one of the hosts. units: lines of systemctl list-unit-files."""
        (self.place / "units").write_text("\n".join([*units, ""]))
        self.script("systemctl", SYSTEMCTL.format(units=self.place / "units"))
        libvirt = {"module_defaults": {"group/brine.virt.virt": {"uri": "test:///default"}}}
        (self.place / "play.yml").write_text(
            yaml.safe_dump([{"hosts": "all", "gather_facts": False, **libvirt, **what}])
        )
        given = {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "ansible_facts": {
                **SAID["hosts"][name]["facts"],
                "architecture": "x86_64",
                "python": {"executable": "/usr/bin/python3"},
            },
            "virt_hypervisor_users": [],
            "virt_hypervisor_start_order": False,
            "virt_hypervisor_libvirt_guests": False,
            "virt_hypervisor_pools": [{"name": "data", "path": "/data/vm[1]"}],
            "__virt_hypervisor_qemu_conf": str(self.place / "qemu.conf"),
            "__virt_hypervisor_guests_file": str(self.place / "libvirt-guests"),
            "__virt_hypervisor_apparmor_file": str(self.place / "virt-aa-helper"),
            "__virt_hypervisor_apparmor_parser": sys.executable,
            "__virt_hypervisor_selinux_file": str(self.place / "file_contexts.local"),
            "__virt_hypervisor_exporter_file": str(self.place / "exporter.d/brine-virt.conf"),
            **variables,
        }
        (self.place / "given.json").write_text(json.dumps(given))
        words = ["-i", f"{name},", "play.yml", "-e", "@given.json", "--check", "--diff", "-v"]
        return run_ansible(self.place, *words)

    def script(self, name: str, text: str) -> None:
        path = self.place / name
        path.write_text(text)
        path.chmod(0o755)


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hosts:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/sbin:/usr/bin:/sbin:/bin")
    monkeypatch.setenv("ANSIBLE_PIPELINING", "1")
    return Hosts(tmp_path)


def outcome(done: subprocess.CompletedProcess[str], task: str) -> str:
    """What a run says of one of its tasks."""
    heading = rf"^(?:TASK|RUNNING HANDLER) \[\S+ : {re.escape(task)}\] \*+$"
    found = re.search(rf"{heading}(.*?)^(?:TASK|RUNNING|PLAY)", done.stdout, re.DOTALL | re.MULTILINE)
    return found[1] if found else ""


def started(done: subprocess.CompletedProcess[str]) -> set[str]:
    """The units that a run has enabled, or started."""
    return set(re.findall(r"\(item=(\S+)\)", outcome(done, "Enable and start libvirt")))


def test_all_modular_daemons_are_started(hosts: Hosts) -> None:
    done = hosts.run("fedora43", units=[f"{unit} disabled disabled" for unit in SAID["units"]["modular"]])
    assert done.returncode == 0, done.stdout + done.stderr
    # What listens to the network is the role virt_tls's matter, and what serves no clients comes with its socket.
    left = {f"virtproxyd-{what}.socket" for what in ("tcp", "tls")} | {"libvirt-guests.service"}
    left |= {f"virt{name}d.service" for name in ("interface", "nodedev", "nwfilter", "secret", "proxy", "log", "lock")}
    left |= {f"virt{name}d-admin.socket" for name in ("log", "lock")}
    assert started(done) == set(SAID["units"]["modular"]) - left


def test_what_a_host_calls_its_distribution_chooses_no_file_of_the_controller(hosts: Hosts) -> None:
    """It would be read as variables of that host, with whatever secrets of others it has."""
    (hosts.place / "other.yml").write_text("virt_hypervisor_secret_of_another: read\n")
    for said in (f"{hosts.place}/other", f"../../../../../../../../../..{hosts.place}/other"):
        facts = {**SAID["hosts"]["rhel9"]["facts"], "distribution": said, "architecture": "x86_64"}
        facts["python"] = {"executable": "/usr/bin/python3"}
        done = hosts.run("rhel9", ansible_facts=facts)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "secret_of_another" not in done.stdout, done.stdout


@pytest.mark.parametrize("name", ["ubuntu2404", "fedora43", "rhel9", "sles16"])
def test_a_host_with_the_packages(hosts: Hosts, name: str) -> None:
    settings: dict[str, t.Any] = {"virt_hypervisor_start_order": True, "virt_hypervisor_libvirt_guests": True}
    done = hosts.run(name, virt_hypervisor_qemu_conf={"max_core": 0}, **settings)
    assert done.returncode == 0, done.stdout + done.stderr
    form = SAID["hosts"][name]["daemons"]
    main, others = ("libvirtd", "virtqemud") if form == "monolithic" else ("virtqemud", "libvirtd")
    assert started(done) == {f"{main}.service", f"{main}.socket"}
    order = outcome(done, "Install the units that call it")
    assert f"+Wants=brine-virt-start-order-prepare.service {main}.service virt-guest-shutdown.target" in order
    assert f"restart {others}.service" not in order
    assert f'"name": "{main}.service"' in outcome(done, "Restart libvirt's daemon for QEMU")
    guests = outcome(done, "Set how machines are shut down with the host")
    assert "+ON_SHUTDOWN=shutdown" in guests
    if SAID["hosts"][name]["facts"]["selinux"]["status"] == "enabled":
        assert "Would label for disks of machines (virt_image_t): /data/vm[1]" in done.stdout
        assert "Let libvirt's helper read the pools" not in done.stdout
    else:
        helper = outcome(done, "Let libvirt's helper read the pools")
        assert '+"/data/vm\\[1\\]/" r,' in helper
        assert '+"/data/vm\\[1\\]/**" r,' in helper
        assert "virt_image_t" not in done.stdout


@pytest.mark.parametrize(
    ("package", "options", "said", "is_there"),
    [
        ("mail-transport-agent", " --no-upgrade", "Note, selecting 'postfix' instead of 'mail-transport-agent'", True),
        ("libc6:i386", " --no-upgrade", "Inst libc6:i386 (2.36-9 Debian:12.1/stable [i386])", False),
        ("lvm2=2.03.16-2", "", "Inst lvm2 [2.03.15-1] (2.03.16-2 Debian:12.1/stable [amd64])", False),
        ("mail-transport-agent", " --no-upgrade", "Conf postfix (3.7.11-0 Debian:12.9/stable [amd64])", False),
        ("lvm2=2.03.16-2", "", "lvm2 is already the newest version (2.03.16-2).", True),
        ("nothing", " --no-upgrade", "", False),
    ],
)
def test_a_package_that_only_apt_knows(hosts: Hosts, package: str, options: str, said: str, is_there: bool) -> None:
    """dpkg does not know the name: it would be missing for ever, and check mode would take the host for bare."""
    script = f'#!/bin/sh\necho "$@" >{hosts.place}/asked\necho "{said}"\ntest -n "{said}" || exit 100\n'
    hosts.script("apt-get", script)
    done = hosts.run("ubuntu2404", unknown=package, virt_hypervisor_extra_packages=[package])
    assert done.returncode == 0, done.stdout + done.stderr
    asked = f"--simulate --no-install-recommends{options} install {package}\n"
    assert (hosts.place / "asked").read_text() == asked
    assert ("Would install" not in done.stdout) is is_there
    assert ("Let libvirt's helper read the pools" in done.stdout) is is_there


@pytest.mark.parametrize("missing", [False, True])
def test_apparmor_is_left_where_nothing_loads_its_profiles(hosts: Hosts, missing: bool) -> None:
    """The kernel has it; the package apparmor is one that libvirt's packages only suggest."""
    done = hosts.run("ubuntu2404", missing=missing, __virt_hypervisor_apparmor_parser=str(hosts.place / "nothing"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Let libvirt's helper read the pools" not in done.stdout
    assert "folders for AppArmor" not in done.stdout


@pytest.mark.parametrize(("missing", "most"), [(False, 21), (True, 11)])
def test_what_does_not_apply_is_not_many_lines(hosts: Hosts, missing: bool, most: int) -> None:
    """Each skipped task is a line for each host: tasks with one condition are a file that is included with it."""
    settings: dict[str, t.Any] = {"virt_hypervisor_start_order": True, "virt_hypervisor_libvirt_guests": True}
    done = hosts.run("ubuntu2404", missing=missing, **settings)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(re.findall(r"^skipping: ", done.stdout, re.MULTILINE)) <= most, done.stdout


@pytest.mark.parametrize("name", sorted(SAID["hosts"]))
def test_a_bare_host_gets_the_packages_of_its_table(hosts: Hosts, name: str) -> None:
    done = hosts.run(name, missing=True, virt_hypervisor_guestfs=True)
    assert done.returncode == 0, done.stdout + done.stderr
    said = " ".join(outcome(done, "Show what a run would install").split())
    facts = SAID["hosts"][name]["facts"]
    table = next(
        path for path in (ROLE / f"vars/{facts[key]}.yml" for key in ("distribution", "os_family")) if path.exists()
    )
    listed = yaml.safe_load(table.read_text(encoding="utf-8"))
    wanted = {
        *listed["__virt_hypervisor_packages"],
        *listed["__virt_hypervisor_packages_by_architecture"]["x86_64"],
        *listed["__virt_hypervisor_guestfs_packages"],
        *(["policycoreutils-python-utils"] if facts["selinux"]["status"] == "enabled" else []),
    }
    shown = set(said.partition("Would install ")[2].partition(";")[0].split(", "))
    assert wanted <= shown
    assert shown - wanted <= {"linux-image-virtual"}


RANGE = {"start": "192.0.2.100", "end": "192.0.2.199"}
PLANNED: dict[str, t.Any] = {
    "virt_hypervisor_start_order": True,
    "virt_hypervisor_libvirt_guests": True,
    "virt_hypervisor_metrics": True,
    "virt_hypervisor_qemu_conf": {"max_core": 0},
    "virt_hypervisor_secrets": [{"name": "client.libvirt", "usage": "ceph", "value": "canary-of-ceph"}],
    "virt_hypervisor_pools": [
        {"name": "default", "path": "/var/lib/libvirt/images"},
        {"name": "data", "path": "/data/vms"},
        {"name": "ceph", "type": "rbd", "hosts": ["192.0.2.1"], "ceph_pool": "vms", "user": "vms", "secret": "ceph"},
        {"name": "old", "state": "absent"},
    ],
    "virt_hypervisor_networks": [
        {"name": "lab", "mode": "nat", "addresses": ["192.0.2.1/24"], "dhcp": {"ranges": [RANGE]}}
    ],
    "virt_hypervisor_volumes": [
        {"name": "debian.iso", "pool": "data", "src": "debian.iso", "format": "iso"},
        {"name": "a.iso", "src": "debian.iso", "format": "iso"},
    ],
}
SHOWN = """To be set up on ubuntu2404:
  services, now and at boot:
    libvirtd.service
    libvirt-guests.service
    brine-virt-start-order.service
    prometheus-libvirt-exporter.service
  settings in {place}/qemu.conf:
    max_core: 0
  secrets:
    client.libvirt
  storage pools:
    default:
      path: /var/lib/libvirt/images
    data:
      path: /data/vms
    ceph:
      type: rbd
      hosts:
        192.0.2.1
      ceph_pool: vms
      user: vms
      secret: ceph
  networks:
    lab:
      mode: nat
      addresses:
        192.0.2.1/24
      dhcp:
        ranges:
          start: 192.0.2.100, end: 192.0.2.199
  volumes:
    debian.iso in data
    a.iso in default
  folders for AppArmor, in {place}/virt-aa-helper:
    /data/vms
  settings in {place}/libvirt-guests:
    ON_SHUTDOWN: shutdown
    PARALLEL_SHUTDOWN: 8
    SHUTDOWN_TIMEOUT: 300
    ON_BOOT: ignore
  files:
    /usr/local/lib/brine-virt-start-order.py
    /etc/systemd/system/brine-virt-start-order-prepare.service
    /etc/systemd/system/brine-virt-start-order.service
"""


def test_check_mode_shows_all_that_a_bare_host_would_get(hosts: Hosts) -> None:
    (hosts.place / "debian.iso").write_bytes(bytes(4096))
    done = hosts.run("ubuntu2404", missing=True, **PLANNED)
    assert done.returncode == 0, done.stdout + done.stderr
    assert SHOWN.format(place=hosts.place) in done.stdout
    assert "canary-of-ceph" not in done.stdout


def test_what_is_not_wanted_or_secret_is_not_shown(hosts: Hosts) -> None:
    done = hosts.run("fedora43", missing=True, virt_hypervisor_qemu_conf={"vnc_password": "canary-of-vnc"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert (
        "To be set up on fedora43:\n"
        "  services, now and at boot:\n    virtqemud.service\n"
        f"  settings in {hosts.place}/qemu.conf:\n    vnc_password\n"
        "  storage pools:\n    data:\n      path: /data/vm[1]\n"
        "  folders with the label virt_image_t of SELinux:\n    /data/vm[1]\n"
        "changed: [fedora43]"
    ) in done.stdout
    assert "canary-of-vnc" not in done.stdout


@pytest.mark.parametrize("name", sorted(SAID["hosts"]))
def test_a_pool_of_ceph_brings_its_packages(hosts: Hosts, name: str) -> None:
    pool = {"name": "ceph", "type": "rbd", "hosts": ["192.0.2.1"], "ceph_pool": "vms"}
    for pools, wanted in (([pool], True), ([{"name": "ceph", "state": "absent"}], False)):
        done = hosts.run(name, missing=True, virt_hypervisor_pools=pools)
        assert done.returncode == 0, done.stdout + done.stderr
        assert ("libvirt-daemon-driver-storage-rbd" in outcome(done, "Show what a run would install")) is wanted


def test_a_form_that_the_host_has_chosen_stays(hosts: Hosts) -> None:
    units = [f"{unit} disabled disabled" for unit in SAID["units"]["modular"]]
    units += [f"{unit} enabled -" for unit in SAID["units"]["monolithic"] if unit.startswith("libvirtd")]
    done = hosts.run("fedora43", units=units, virt_hypervisor_qemu_conf={"max_core": 0})
    assert done.returncode == 0, done.stdout
    assert '"name": "libvirtd.service"' in outcome(done, "Restart libvirt's daemon for QEMU")
    assert "item=virtqemud" not in done.stdout


def test_modular_daemons_that_are_masked_stay_so(hosts: Hosts) -> None:
    masked = {"virtinterfaced.socket", "virtinterfaced-ro.socket"}
    units = [f"{unit} {'masked' if unit in masked else 'enabled'} -" for unit in SAID["units"]["modular"]]
    done = hosts.run(
        "rhel9", units=[line.replace("virtqemud-ro.socket enabled", "virtqemud-ro.socket disabled") for line in units]
    )
    assert started(done) == {"virtqemud-ro.socket"}


def test_what_is_labelled_or_readable_already_is_left(hosts: Hosts) -> None:
    (hosts.place / "file_contexts.local").write_text(
        "# This file is auto-generated by libsemanage\n\n/data/vm\\[1\\](/.*)?    system_u:object_r:virt_image_t:s0\n"
    )
    done = hosts.run("rhel9")
    assert done.returncode == 0, done.stdout
    assert "Would label" not in done.stdout
    (hosts.place / "virt-aa-helper").write_text(
        '# mine\n# BEGIN brine.virt\n"/data/vm\\[1\\]/" r,\n"/data/vm\\[1\\]/**" r,\n# END brine.virt\n'
    )
    assert "ok: [ubuntu2404]" in outcome(hosts.run("ubuntu2404"), "Let libvirt's helper read the pools")
    # Libvirt's own folders need nothing, and a block from before goes.
    gone = hosts.run("ubuntu2404", virt_hypervisor_pools=[{"name": "default", "path": "/var/lib/libvirt/images"}])
    assert '-"/data/vm\\[1\\]/" r,' in outcome(gone, "Let libvirt's helper read the pools")


RESTORECON = """#!/bin/sh
echo "$*" >>{place}/told
case $1 in
-Rniv) [ -e {place}/labelled ] || echo "Would relabel /data/vm[1]/a from x:x:var_t:s0 to x:x:virt_image_t:s0" ;;
-Ri) touch {place}/labelled ;;
esac
"""


def test_what_a_run_that_was_cut_off_has_not_labelled_is_labelled_by_the_next_one(hosts: Hosts) -> None:
    """It stands in the policy, and not at the files."""
    (hosts.place / "file_contexts.local").write_text(
        "/data/vm\\[1\\](/.*)?    system_u:object_r:virt_image_t:s0\n/srv/web(/.*)? system_u:object_r:httpd_t:s0\n"
    )
    hosts.script("restorecon", RESTORECON.format(place=hosts.place))
    pools = [{"name": "data", "path": "/data/vm[1]"}, {"name": "web", "path": "/srv/web"}]
    done = hosts.run("rhel9", virt_hypervisor_pools=pools)
    # What somebody else has labelled in another way is not looked at.
    assert 'Would label for disks of machines (virt_image_t): /data/vm[1]"' in done.stdout, done.stdout
    assert (hosts.place / "told").read_text() == "-Rniv /data/vm[1]\n"
    selinux = {"ansible.builtin.include_role": {"name": "brine.virt.virt_hypervisor", "tasks_from": "selinux.yml"}}
    (hosts.place / "play.yml").write_text(yaml.safe_dump([{"hosts": "all", "gather_facts": False, "tasks": [selinux]}]))
    for changed in (1, 0):
        done = run_ansible(hosts.place, "-i", "rhel9,", "play.yml", "-e", "@given.json")
        assert f" changed={changed} " in done.stdout, done.stdout
    told = (hosts.place / "told").read_text().splitlines()
    assert told[1:] == ["-Rniv /data/vm[1]", "-Ri /data/vm[1]", "-Rniv /data/vm[1]"]


def test_the_directory_of_a_pool_that_goes_is_not_labelled(hosts: Hosts) -> None:
    pools = [
        {"name": "default", "path": "/data/vms", "state": "active"},
        {"name": "wrong", "path": "/etc", "state": "absent"},
    ]
    done = hosts.run("rhel9", virt_hypervisor_pools=pools)
    assert "Would label for disks of machines (virt_image_t): /data/vms" in done.stdout
    assert "/data/vms, /etc" not in done.stdout
    read = outcome(hosts.run("ubuntu2404", virt_hypervisor_pools=pools), "Let libvirt's helper read the pools")
    assert '"/data/vms/" r,' in read
    assert '"/etc/" r,' not in read


def test_a_pool_that_is_not_started_has_no_directory_to_label_yet(hosts: Hosts) -> None:
    hosts.script("semanage", "#!/bin/sh\n")
    # As restorecon(8) ends where a path does not exist, unless it is told -i.
    hosts.script(
        "restorecon",
        '#!/bin/sh\necho "$*" >>told\ncase $1 in *i*) exit 0 ;; esac\nshift\n'
        'for path; do [ -e "$path" ] || exit 255; done\n',
    )
    label = {"ansible.builtin.include_role": {"name": "brine.virt.virt_hypervisor", "tasks_from": "label.yml"}}
    (hosts.place / "play.yml").write_text(yaml.safe_dump([{"hosts": "all", "gather_facts": False, "tasks": [label]}]))
    pools = [{"path": f"{hosts.place}/missing", "pattern": "x"}, {"path": str(hosts.place), "pattern": "y"}]
    given = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    paths = {"__virt_hypervisor_unlabelled": pools, "__virt_hypervisor_mislabelled": []}
    (hosts.place / "given.json").write_text(json.dumps({**given, **paths}))
    done = run_ansible(hosts.place, "-i", "rhel9,", "play.yml", "-e", "@given.json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{hosts.place}/missing {hosts.place}" in (hosts.place / "told").read_text()


@pytest.mark.parametrize(("name", "daemon"), [("ubuntu2404", "libvirtd"), ("rhel9", "virtproxyd")])
def test_the_daemon_that_serves_tls(hosts: Hosts, name: str, daemon: str) -> None:
    """The end of the role virt_tls, for which certificates are there."""
    serve = {"ansible.builtin.include_role": {"name": "brine.virt.virt_tls", "tasks_from": "serve.yml"}}
    lines = [f"{unit} disabled -" for unit in SAID["units"][SAID["hosts"][name]["daemons"]]]
    done = hosts.play(name, lines, {"tasks": [serve]}, __virt_tls_unit_files={"stdout_lines": lines})
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"after: /etc/libvirt/{daemon}.conf" in outcome(done, "Set who may connect")
    assert "changed: [" in outcome(done, "Say that the socket would be opened")
    assert f'"name": "{daemon}-tls.socket"' in outcome(done, "Open the socket for TLS at boot")
    assert f'"try-restart", "{daemon}.service"' in outcome(done, "Restart libvirt's daemon for TLS")


def test_metrics_where_they_are_packaged(hosts: Hosts) -> None:
    done = hosts.run("fedora43", virt_hypervisor_metrics=True)
    assert done.returncode == 2
    assert (
        '"msg": "virt_hypervisor_metrics: this role knows no package of Fedora with an exporter for libvirt; set it to'
        ' false for fedora43. Nothing was changed."'
    ) in done.stdout
    address: dict[str, t.Any] = {"virt_hypervisor_metrics": True, "virt_hypervisor_metrics_address": ":9177"}
    done = hosts.run("ubuntu2404", **address)
    assert "virt_hypervisor_metrics_address: :9177 is not an address with a port" in done.stdout
    bare = hosts.run("ubuntu2404", missing=True, virt_hypervisor_metrics=True)
    assert bare.returncode == 0, bare.stdout
    assert "prometheus-libvirt-exporter" in outcome(bare, "Show what a run would install")
    (hosts.place / "exporter.d").mkdir()
    done = hosts.run("ubuntu2404", virt_hypervisor_metrics="true")
    assert done.returncode == 0, done.stdout
    assert "+Environment=ARGS=--web.listen-address=127.0.0.1:9177" in outcome(done, "Set the address of the exporter")
    assert "changed: [ubuntu2404]" in outcome(done, "Enable the metrics exporter")
    assert "changed: [ubuntu2404]" in outcome(done, "Restart the metrics exporter")


def test_metrics_go_again_if_the_role_has_brought_them(hosts: Hosts) -> None:
    units = [f"{unit} enabled -" for unit in SAID["units"]["monolithic"]]
    units.append("prometheus-libvirt-exporter.service enabled enabled")
    done = hosts.run("ubuntu2404", units=units)
    assert "skipping: [ubuntu2404]" in outcome(done, "Stop the exporter")
    (hosts.place / "exporter.d").mkdir()
    (hosts.place / "exporter.d/brine-virt.conf").write_text("[Service]\n")
    done = hosts.run("ubuntu2404", units=units)
    assert done.returncode == 0, done.stdout
    assert "changed: [ubuntu2404]" in outcome(done, "Stop the exporter")
    assert "changed: [ubuntu2404]" in outcome(done, "Remove its settings")


def test_settings_of_the_kernel_get_to_the_kernel(hosts: Hosts) -> None:
    """Of this computer, whose kernel has none of these; so that nothing would be changed but for the refusal."""
    done = hosts.run(
        "ubuntu2404",
        virt_hypervisor_sysctl={"vm.brine": 1},
        virt_hypervisor_hugepages={"3M": 1},
        virt_hypervisor_ksm="false",
    )
    assert done.returncode == 2
    assert "sysctl.vm.brine: the kernel has no such setting" in done.stdout
    assert "hugepages.3M: the kernel has no pages of this size" in done.stdout
    assert "TASK [brine.virt.virt_hypervisor : Install packages]" not in done.stdout
