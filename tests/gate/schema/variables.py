# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables of the role virt_provision, of which a file such as vms.yml has some."""

from __future__ import annotations

import typing as t
from pathlib import Path

import yaml

from ansible_collections.brine.virt.plugins.module_utils._model.spec.names import machine_name

from . import values
from .devices import IN_SALT, KINDS, ref, salt_properties
from .machine import definitions
from .rules import LABEL, of_rule
from .values import Schema, Values
from .wording import summary

ROLE = Path("roles/virt_provision")
TITLE = "Variables of brine.virt: machines, their disk and nic profiles, images and seeds"
DESCRIPTION = (
    "For vms.yml and other files of variables with machines or profiles. Written by tests/gate/schema from the tables "
    "that the modules read their options with. Other variables may stand beside these. What goes together, and what an "
    "existing machine may keep although no new one can have it, only the modules know."
)
# As Ansible's own argument specs read them (check_type_bool, check_type_int and so on of ansible-core).
_NUMBER = values.whole_texts(r"\s*[+-]?[0-9]+(?:\.[0-9]+)?\s*")
_NAMES = values.whole_texts(r"[A-Za-z0-9._,\s-]+")
_MORE_BOOLEANS = values.whole_texts("|".join(map(values.any_case, ("y", "t", "n", "f"))))
TYPES: dict[str, Values] = {
    "str": values.TEXT,
    "path": values.TEXT,
    "bool": values.BOOLEAN | _MORE_BOOLEANS,
    "int": Values({"integer": {}}) | _NUMBER,
    "float": Values({"number": {}}) | _NUMBER,
}
# A label that a hypervisor does not have may be named as well, with false or null.
_HOST_LABELS = values.items(LABEL) | Values({"object": {"additionalProperties": values.TEXT.schema()}})
_IMAGE = Values(
    {
        "object": {
            "properties": {
                "src": values.TEXT.schema("An image file on the controller."),
                "url": values.TEXT.schema("The address of an image; it needs a checksum."),
                "path": values.TEXT.schema("An image file on the hypervisors."),
                "machine": values.TEXT.schema("A machine of the hypervisor, which is off."),
                "disk": values.TEXT.schema("The disk of that machine, by default the one that it boots from."),
                "checksum": values.TEXT.schema("The hash of the file, or the address of a checksum file."),
                "timeout": TYPES["int"].schema("Seconds until a download is aborted.", default=3600),
            },
            "anyOf": [{"required": [word]} for word in ("src", "url", "path", "machine")],
        }
    }
).schema("An image.", null=False)
RAW: dict[str, Schema] = {
    "virt_vms": Values({"array": {"items": ref("machine")}}).schema(),
    "virt_disk_profiles": ref("disk_profiles"),
    "virt_nic_profiles": ref("nic_profiles"),
    "virt_images": Values({"object": {"additionalProperties": _IMAGE}}).schema(),
    "virt_seed": ref("seed"),
    "virt_labels": _HOST_LABELS.schema(),
    "virt_unseen": (_NAMES | values.items(of_rule(machine_name, "virt_unseen"))).schema(),
}


def _role(name: str) -> t.Any:
    return yaml.safe_load((ROLE / name).read_text(encoding="utf-8"))


def _of_variable(name: str, spec: dict[str, t.Any]) -> Schema:
    words = summary(spec["description"])
    if name in RAW:
        return {"description": words, **RAW[name]}
    accepted = Values(words=tuple(spec["choices"])) if "choices" in spec else TYPES[spec["type"]]
    return accepted.schema(words, default=spec.get("default"))


def _one_line(specs: dict[str, t.Any]) -> Schema:
    """A single machine, `vm`, has its options as variables of their own."""
    own = [name for name in specs if not name.startswith("virt_") and name != "vm"]
    found = {name: _of_variable(name, specs[name]) for name in own if name == "checksum"}
    for name in [*own, *_role("vars/main.yml")["virt_provision_options"]]:
        if name not in found:
            found[name] = ref(f"machine/properties/{name}")
    name = of_rule(machine_name, "vm").schema(summary(specs["vm"]["description"]), null=False)
    return {"properties": {"vm": name, **found}}


def make_schema() -> Schema:
    """Return the whole schema. Raises TextError where a table says something that nothing here knows."""
    specs = _role("meta/argument_specs.yml")["argument_specs"]["main"]["options"]
    properties = {name: _of_variable(name, spec) for name, spec in specs.items() if name.startswith("virt_")}
    found = definitions()
    kinds = {kind: ref(f"plain_{kind}_profiles") for kind in KINDS}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": TITLE,
        "description": DESCRIPTION,
        "type": ["object", "null"],
        "properties": properties,
        "allOf": [
            {"if": {"type": "object", "required": ["vm"]}, "then": ref("one_line")},
            # Profiles in a file of Salt's.
            {"if": IN_SALT, "then": {"properties": salt_properties(kinds)}},
        ],
        "$defs": {**dict(sorted(found.items())), "one_line": _one_line(specs)},
    }
