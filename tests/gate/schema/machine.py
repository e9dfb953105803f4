# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine of `virt_vms`, with our words and Salt's."""

from __future__ import annotations

import typing as t

import yaml

from ansible_collections.brine.virt.plugins.module_utils._model.spec.hardware.description import BOOT_DEVICES
from ansible_collections.brine.virt.plugins.module_utils._model.spec.machine import MACHINE_RULES
from ansible_collections.brine.virt.plugins.module_utils._model.spec.machine_state import ABSENT
from ansible_collections.brine.virt.plugins.module_utils._model.spec.profiles.salt_words import _VCPU_KEYS, SALT_WORDS
from ansible_collections.brine.virt.plugins.modules import virt_init

from .. import options
from . import values
from .devices import KINDS, device_definitions, ref
from .fields import LINES, Docs, of_item, of_table
from .values import Schema, Values
from .wording import summary

# Salt's words that are more than other names.
_SALT: dict[str, Values] = {
    "enable_vnc": values.BOOLEAN,
    "enable_qcow": values.BOOLEAN,
    "boot_dev": values.texts(rf"^\s*(?:(?:{'|'.join(BOOT_DEVICES)})(?:\s+|$))*$"),
    "stop_on_reboot": values.BOOLEAN,
}
# What no documentation of the module has.
HYPERVISOR = "The hypervisor that the machine must be on."


_LEAVES: Schema = {"type": "string", "pattern": f"^{ABSENT}$|{values.TEMPLATE}"}


def documentation() -> dict[str, t.Any]:
    """Return the documentation of the options of virt_init, as far as `docs/options` and the module have it."""
    found: dict[str, t.Any] = dict(yaml.safe_load(virt_init.DOCUMENTATION)["options"])
    for path in sorted(options.TEXTS.glob("*.yml")):
        for name, text in yaml.safe_load(path.read_text(encoding="utf-8")).items():
            found[name] = options.option(name, text)
    return found


def of_option(name: str, docs: Docs) -> Values:
    """Return what an option of a machine accepts. Raises TextError."""
    if name in LINES:
        accepted = of_item(LINES[name], docs[name], name)
        return _salt_cpu(docs) | accepted if name == "cpu" else accepted
    if name == "seed":
        return of_table(options.RULES["seed"], docs["seed"]["suboptions"], "seed") | values.SWITCH
    return of_item(MACHINE_RULES[name], docs.get(name, {}), name)


def _salt_cpu(docs: Docs) -> Values:
    """Salt's `cpu` beside ours: a number of vCPUs, and a mapping with keys of `vcpus` too."""
    vcpus, cpu = (of_item(LINES[name], docs[name], name) for name in ("vcpus", "cpu"))
    keys = vcpus.types["object"]["properties"]
    both = {**cpu.types["object"]["properties"], **{key: keys[key] for key in _VCPU_KEYS}}
    return values.mapping(both) | vcpus.single()


def _given(name: str) -> Schema:
    return {"required": [name], "properties": {name: {"not": {"type": "null"}}}}


def definitions() -> dict[str, Schema]:
    """Return the definitions of a machine and of what is in it. Raises TextError."""
    docs = documentation()
    found: dict[str, Schema] = {}
    for kind in KINDS:
        found.update(device_definitions(kind, docs[f"{kind}s"]))
    properties: dict[str, Schema] = {}
    for name in MACHINE_RULES:
        words = summary(docs[name]["description"]) if name in docs else HYPERVISOR
        if name in ("disks", "nics"):
            properties[name] = {"description": words, **ref(name)}
        else:
            default = docs.get(name, {}).get("default")
            plain = default if isinstance(default, (str, bool, int)) else None
            properties[name] = of_option(name, docs).schema(words, null=name != "name", default=plain)
    for name, accepted in _SALT.items():
        properties[name] = accepted.schema(summary(docs[name]["description"]))
    for salt, ours in SALT_WORDS.items():
        properties[salt] = {"description": f"Salt's name for {ours}.", **ref(f"machine/properties/{ours}")}
    found["seed"] = properties["seed"]
    properties["seed"] = ref("seed")
    found["machine"] = {
        **values.mapping(properties, ["name"]).schema("A machine.", null=False),
        # One that is to be removed needs a name alone; the others these, each in our words or in Salt's.
        "if": {"required": ["state"], "properties": {"state": _LEAVES}},
        "else": {
            "allOf": [{"anyOf": [_given(word) for word in words]} for words in (("vcpus", "cpu"), ("memory", "mem"))]
        },
    }
    return found
