# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bridges with netplan, for whom its files are to say everything. It writes over the file that defines the uplink.

Where nobody names it, a bridge is made by the manager below netplan, whose files are then beside those that netplan
makes: netplan adds lists of several files together, so no file of ours could take an address from an uplink.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import typing as t
from dataclasses import replace

from ..._base.errors import ConflictError, HostError, UnsupportedError, place_in_yaml
from ..._base.files import read_text, read_text_to_change
from ..spec import BridgeSpec
from ..switch.guarded import Command, GuardedFile
from .kernel import kernel_commands
from .manager import HEAD, Parts, WantedBridge, check_is_known, check_routes_are_known, delete_link
from .netplan_yaml import Yaml, definition_of, link_name, matching_name, network_of, with_bridge, with_spec
from .networkd_spec import filtering_with, vlans_with
from .sections import as_text, parse

# A file in /run hides its namesake in /etc, and that the one in /lib (netplan-generate(8)).
LASTING, TRIAL, VENDOR = "/etc/netplan", "/run/netplan", "/lib/netplan"
DROP_INS, TRIAL_DROP_INS = "/etc/systemd/network", "/run/systemd/network"
# What cloud-init calls its file there, and where it is told to leave the network alone.
_CLOUD_FILE, CLOUD = "50-cloud-init.yaml", "/etc/cloud"
_APPLY: Command = ("netplan", "apply")


class NetplanManager:
    """netplan."""

    name = "netplan"
    title = "netplan"

    def runs(self) -> bool:
        return shutil.which("netplan") is not None

    def manages(self, link: str) -> bool:
        # A NIC that nobody defines can be a VLAN's or a bond's all the same.
        return self.runs()

    def made(self, bridge: str) -> bool:
        return self._file_of(bridge) is not None

    def begun(self, bridge: str) -> bool:
        # One file is there or is not, and its drop-ins do nothing without it.
        return False

    def make(self, wanted: WantedBridge) -> Parts:
        spec, uplink = wanted.spec, wanted.uplink
        link = _checked_link(wanted)
        path, document, text = _file_to_change(wanted)
        network = network_of(document, path)
        first = wanted.source.name if wanted.source else ""
        defined = definition_of(network, first)
        taken, said = wanted, str(defined[1]) if defined else ""
        if uplink is not None and uplink.vlan is not None and _renderer() == "networkd":
            # It goes on as it is, but netplan has networkd configure it again, which takes from it what no file says.
            taken = replace(wanted, spec=BridgeSpec(spec.name), source=wanted.network.links.get(uplink.link))
            said = " ".join(read_text(path) or "" for path in _paths())
        check_is_known(taken.source, said, "file of netplan")
        check_routes_are_known(taken, None, "file of netplan")
        after = with_bridge(document, spec, uplink=uplink, mac=wanted.mac, first=first, link=link, renderer=_renderer())
        # Other bridges of ours may be in the file.
        head = "".join(f"{line}\n" for line in (text or "").splitlines() if line.startswith(HEAD))
        head += f"{HEAD}the bridge {spec.name}"
        head += f"; what was here before is in {_kept_name(path, spec.name)}.\n" if text else ".\n"
        copy = _kept_name(path, spec.name)
        kept = (GuardedFile(copy, text, None, 0o600, read_text(copy)),) if text else ()
        return Parts(
            # One file has all of it, so that it is there or is not; what stands beside it does nothing without it.
            files=(
                *kept,
                *_vlan_files(wanted),
                GuardedFile(path, head + _dump(after), _trial(path), 0o600, text),
            ),
            apply=(("netplan", "generate"), _APPLY),
            keep=(("netplan", "generate"),),
            restore=(
                ("netplan", "generate"),
                *(delete_link(name) for name in wanted.made_links),
                _APPLY,
            ),
            last_resort=(_APPLY,),
        )

    def change(self, wanted: WantedBridge) -> Parts:
        bridge = wanted.spec.name
        path = self._file_of(bridge) or ""
        text = read_text_to_change(path) or ""
        document = _load(path, text)
        after = with_spec(document, wanted.spec, wanted.uplink, renderer=_renderer())
        apply, restore = kernel_commands(wanted)
        files = [file for file in _vlan_files(wanted) if file.text != file.before]
        if after != document:
            comments = "".join(f"{line}\n" for line in text.splitlines() if line.startswith("#"))
            files.append(GuardedFile(path, comments + _dump(after), _trial(path), 0o600, text))
        if not files and not apply:
            return Parts()
        again: tuple[Command, ...] = (("netplan", "generate"), _APPLY) if after != document else ()
        return Parts(
            files=tuple(files),
            apply=(*again, *apply),
            keep=again[:1],
            restore=(*again, *restore),
            last_resort=(_APPLY,),
        )

    def _file_of(self, bridge: str) -> str | None:
        for path in sorted(glob.glob(f"{LASTING}/*.yaml")):
            text = read_text(path) or ""
            heads = (f"{HEAD}the bridge {bridge};", f"{HEAD}the bridge {bridge}.")
            if any(line.startswith(heads) for line in text.splitlines()):
                return path
        return None


def _kept_name(path: str, bridge: str) -> str:
    return f"{path}.before-{bridge}"


def _trial(path: str) -> str:
    return f"{TRIAL}/{os.path.basename(path)}"


def _file_to_change(wanted: WantedBridge) -> tuple[str, Yaml, str | None]:
    """The file that is to hold the bridge, what it says, and its text; a new one where none defines the uplink."""
    uplink = wanted.uplink
    names = uplink.below if uplink is not None and uplink.vlan is None else ()
    found: dict[str, tuple[Yaml, str]] = {}
    for path in _paths():
        text = read_text(path) or ""
        document = _load(path, text)
        if any(definition_of(network_of(document, path), name) for name in names):
            found[path] = (document, text)
    if not found:
        if wanted.source is not None and wanted.source.addresses and not wanted.spec.addressing:
            lost = ", ".join(wanted.source.addresses)
            raise ConflictError(
                f"{lost} on {wanted.source.name} is in no file of netplan and would be lost",
                hint="Write them into one, or leave out manager",
            )
        path = f"{LASTING}/95-brine-{wanted.spec.name}.yaml"
        if os.path.exists(path):
            raise ConflictError(f"{path} exists, but the bridge does not", hint="Remove it, and run again")
        return path, {"network": {"version": 2}}, None
    if len(found) > 1:
        raise UnsupportedError(
            f"{' and '.join(found)} define {' and '.join(names)}, and netplan adds them together",
            hint="Move the definitions into one file, or leave out manager",
        )
    path = next(iter(found))
    document, text = found[path][0], read_text_to_change(path) or ""
    if not path.startswith(f"{LASTING}/"):
        raise UnsupportedError(
            f"{path} defines {' and '.join(names)}, and is written by another program", hint="Leave out manager"
        )
    if os.path.basename(path) == _CLOUD_FILE and _cloud_init_writes():
        raise UnsupportedError(
            f"{path} defines {' and '.join(names)}, and cloud-init may write it again at a boot, without the bridge",
            hint="Leave out manager; or write network: {config: disabled} into "
            f"{CLOUD}/cloud.cfg.d/99-disable-network-config.cfg, and run again",
        )
    return path, document, text


def _checked_link(wanted: WantedBridge) -> str | None:
    """What the interface below a VLAN that is to be made is called in netplan's files; None where none defines it.

    Raises UnsupportedError for an interface that a file means without naming it: of two definitions of one interface
    netplan uses that whose name comes first in the alphabet, and the addresses are in the other one.
    """
    uplink = wanted.uplink
    link: str | None = None
    for name in uplink.below if uplink is not None else ():
        networks = [(path, network_of(_load(path, read_text(path) or ""), path)) for path in _paths()]
        found = [key for _path, network in networks if (key := link_name(network, name)) is not None]
        if uplink is not None and uplink.vlan is not None:
            link = next(iter(found), None)
        for path, network in networks if not found else ():
            key = matching_name(network, name, wanted.network.links[name].mac)
            if key is not None:
                raise UnsupportedError(
                    f"{path} means {name} by a match, and calls it {key}",
                    hint=f"Call it {name} there, or leave out manager",
                )
    return link


def _cloud_init_writes() -> bool:
    """Whether cloud-init is there, and nobody has told it to leave the network alone."""
    if shutil.which("cloud-init") is None or os.path.exists(f"{CLOUD}/cloud-init.disabled"):
        return False
    paths = (f"{CLOUD}/cloud.cfg", *glob.glob(f"{CLOUD}/cloud.cfg.d/*.cfg"))
    disabled = re.compile(r"""^[^#\n]*\bconfig["']?:\s*["']?disabled\b""", re.MULTILINE)
    return not any(disabled.search(read_text(path) or "") for path in paths)


def _paths() -> list[str]:
    """The files that netplan reads: of two with one name, the one in the first folder."""
    found: dict[str, str] = {}
    for folder in (VENDOR, LASTING, TRIAL):
        found.update({os.path.basename(path): path for path in glob.glob(f"{folder}/*.yaml")})
    return [found[name] for name in sorted(found)]


def _renderer() -> str:
    """For whom netplan makes its files, where a definition does not say so: of several files, the last one counts."""
    said = [network_of(_load(path, read_text(path) or ""), path).get("renderer") for path in _paths()]
    return str([word for word in said if word][-1]) if any(said) else "networkd"


def _vlan_files(wanted: WantedBridge) -> list[GuardedFile]:
    """What netplan has no words for, as drop-ins of systemd-networkd to the files that it makes."""
    spec = wanted.spec
    if spec.vlan_filtering is None:
        return []
    if _renderer() != "networkd":
        raise UnsupportedError(
            "netplan has no words for VLAN filtering, and adds none to what it makes for NetworkManager",
            hint="Leave out manager: NetworkManager's own files can say it",
        )
    names = {f"10-netplan-{spec.name}.netdev": filtering_with}
    names.update({f"10-netplan-{wanted.uplink.port}.network": vlans_with} if wanted.uplink else {})
    found = []
    for name, changed in names.items():
        path = f"{DROP_INS}/{name}.d/brine-{spec.name}.conf"
        before = read_text(path)
        # In a change, the kernel's commands do it. What a bridge has left that is gone says nothing of a new one.
        trial = None if wanted.existing else f"{TRIAL_DROP_INS}/{name}.d/brine-{spec.name}.conf"
        text = as_text(changed(parse(before) if before and wanted.existing else (), spec))
        found.append(GuardedFile(path, f"{HEAD}VLANs of {spec.name}.\n{text}", trial, before=before))
    return found


def _yaml() -> t.Any:
    try:
        import yaml  # noqa: PLC0415 - netplan needs it, and other hosts do not have it
    except ImportError as exc:
        raise HostError(
            "Python's module yaml is missing, which changes netplan's files",
            hint="Install python3-yaml, or set ansible_python_interpreter to the Python that has it",
        ) from exc
    return yaml


def _load(path: str, text: str) -> Yaml:
    yaml = _yaml()
    try:
        document = yaml.load(text, _loader(yaml))  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, ValueError) as exc:
        raise HostError(f"{path} is not valid YAML{place_in_yaml(exc)}") from None
    network_of(document, path)
    return _unshared(document or {})


def _unshared(value: t.Any) -> t.Any:
    """The same with a copy of its own wherever an alias (``eth1: *usual``) stands for what another interface has."""
    if isinstance(value, dict):
        return {key: _unshared(one) for key, one in value.items()}
    return [_unshared(one) for one in value] if isinstance(value, list) else value


class _AsItStood(str):
    """A word without quotes that is no plain text to YAML 1.1, and may be to netplan: it is written as it was read."""

    __slots__ = ()


def _loader(yaml: t.Any) -> t.Any:
    """A loader that turns nothing into what would be written in another way.

    11:22:33:44:55:66 is a number to the base of 60 for YAML 1.1, and 0123 an octal one.
    """

    loader_class: t.Any = type("Loader", (yaml.SafeLoader,), {})

    def construct(loader: t.Any, node: t.Any) -> t.Any:
        word, kind = str(node.value), node.tag.rpartition(":")[2]
        if kind == "bool" and word in ("true", "false"):
            return word == "true"
        if kind == "int" and re.fullmatch(r"0|-?[1-9][0-9]*", word):
            return int(word)
        return None if kind == "null" else _AsItStood(word)

    for kind in ("bool", "int", "float", "timestamp", "null"):
        loader_class.add_constructor(f"tag:yaml.org,2002:{kind}", construct)
    return loader_class


def _dump(document: Yaml) -> str:
    yaml = _yaml()

    dumper_class: t.Any = type("Dumper", (yaml.SafeDumper,), {})

    def represent(dumper: t.Any, word: _AsItStood) -> t.Any:
        return dumper.represent_scalar(dumper.resolve(yaml.ScalarNode, str(word), (True, False)), str(word))

    dumper_class.add_representer(_AsItStood, represent)
    return str(yaml.dump(document, Dumper=dumper_class, sort_keys=False, default_flow_style=False))
