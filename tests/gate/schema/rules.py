# SPDX-License-Identifier: GPL-3.0-or-later
"""What the rules for single values accept.

A rule that is a function says nothing of itself: what it accepts stands here, and a new one is an error until it does.
"""

from __future__ import annotations

import typing as t

from ansible_collections.brine.virt.plugins.module_utils._model.metadata import labels
from ansible_collections.brine.virt.plugins.module_utils._model.spec import (
    machine,
    network,
    seed,
    seed_parts,
)
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields import validators
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields.units import parse_capacity_mib
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fragment import check_fragment
from ansible_collections.brine.virt.plugins.module_utils._model.spec.hardware import cpu, devices
from ansible_collections.brine.virt.plugins.module_utils._model.spec.names import machine_name, pool_name
from ansible_collections.brine.virt.plugins.module_utils._model.spec.start_order import NO_ORDER

from ..generated import TextError
from . import values
from .values import Values, expression_text

_CPU_SET = values.integers(0, validators._MOST_CPUS - 1) | values.whole_texts(validators._NUMBERS.expression.pattern)
_IN_LINE = r"[^\x00-\x08\x0a-\x1f]*"
# A text may have comments beside the keys.
_KEYS = values.texts(r"(?:^|\s)(?:sk-)?(?:ssh|ecdsa)-[a-z0-9-]+(?:@openssh\.com)? AAAA[A-Za-z0-9+/]", r"^\s*(?:#|$)")
_PCI = r"(?:[Pp][Cc][Ii]_)?[0-9A-Fa-f]{4}[:_][0-9A-Fa-f]{2}[:_][01][0-9A-Fa-f][._][0-7]"
_USB = r"[0-9A-Fa-f]{4}:[0-9A-Fa-f]{4}"
HOST_DEVICES = values.items(values.whole_texts(_PCI, _USB))
# As a mapping, a label is in two: `zone: a`, or with true `ssd`.
LABEL = values.integers(0) | values.whole_texts(expression_text(labels._LABEL.expression))
_LABEL_VALUE = values.Values({"number": {}, "boolean": {}}) | values.texts(r"^[A-Za-z0-9._/-]{1,63}$")
_LABEL_NAME = values.texts(r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,62}$")

# By the rules themselves.
FUNCTIONS: dict[t.Any, Values] = {
    validators.text: values.TEXT,
    validators.line: values.LINE,
    validators.lines: values.TEXT,
    validators.filled_line: Values(values.LINE.types, patterns=(rf"^{_IN_LINE}[^\s\x00-\x1f]{_IN_LINE}$",)),
    validators.name: values.NAME,
    validators.cpu_set: _CPU_SET,
    validators.mac: values.MAC,
    validators.address: values.ADDRESS,
    validators.yes_or_no: values.BOOLEAN,
    parse_capacity_mib: values.CAPACITY,
    validators.any_mapping: values.ANY_MAPPING,
    machine.read_variables: values.ANY_MAPPING,
    machine_name: values.NAME,
    pool_name: values.NAME,
    network.domain: values.texts(expression_text(network._DOMAIN)),
    labels.read_wanted_labels: values.items(LABEL) | values.by_names(_LABEL_VALUE.schema(null=False), _LABEL_NAME),
    check_fragment: values.texts("<"),
    seed_parts.authorized_keys: values.items(_KEYS),
    seed_parts.password_hash: values.texts(expression_text(seed_parts._PASSWORD_HASH)),
    seed_parts._mode: values.texts(expression_text(seed_parts._MODE)),
    seed_parts._content: values.TEXT,
}

_NETWORK = rf"(?:{values.IPV4}(?:/[0-9.]+)?|{values.IPV6}(?:/[0-9]+)?)"
_WORD = Values({"number": {}}, patterns=("",))
_WORDS = _WORD | values.items(_WORD, alone=False)
_VERSION = {"version": Values(words=(1, 2)).schema(null=False)}
_NETWORK_CONFIG = Values({"object": {"required": ["version"], "properties": _VERSION}})
_USER_DATA = "|".join(seed.USER_DATA_KINDS)
# By the places of the values, where the rule has no name.
PLACES: dict[str, Values] = {
    "nics.addresses": values.items(values.whole_texts(rf"{values.IPV4}/[0-9.]+", rf"{values.IPV6}/[0-9]+")),
    "nics.gateway": values.items(values.PLAIN_ADDRESS),
    "nics.nameservers": values.items(values.PLAIN_ADDRESS),
    "nics.routes.to": Values(words=("default",)) | values.whole_texts(_NETWORK),
    "nics.routes.via": values.PLAIN_ADDRESS,
    "order": values.numbers(0, 9999) | Values(words=(NO_ORDER,)),
    "seed.run_commands": values.items(_WORDS, alone=False),
    # As it is, or with the key `network` around it, as in cloud.cfg.d.
    "seed.network": Values(
        {
            "object": {
                "anyOf": [{"required": ["version"]}, {"required": ["network"]}],
                "properties": {**_VERSION, "network": _NETWORK_CONFIG.schema(null=False)},
            }
        }
    ),
    "seed.user_data": values.ANY_MAPPING | values.texts(rf"^(?:{_USER_DATA})"),
}


def of_rule(rule: t.Any, place: str) -> Values:
    """Return what a rule accepts. Raises TextError where nothing here says it."""
    if place in PLACES:
        return PLACES[place]
    if isinstance(rule, devices.decimals):
        return Values(words=(*rule.words, *map(float, rule.words)))
    if isinstance(rule, validators.choice):
        return Values(words=rule.words)
    if isinstance(rule, cpu._microseconds):
        return values.numbers(rule.minimum, rule.maximum) | Values(words=(-1,)) | values.texts("^-1$")
    if isinstance(rule, validators.whole_number):
        return values.numbers(rule.minimum, rule.maximum)
    if isinstance(rule, validators.pattern):
        found = values.whole_texts(expression_text(rule.expression))
        low = next((number for number in (-1, 0) if rule.expression.fullmatch(str(number))), None)
        return found if low is None else found | (Values({"integer": {}}) if low < 0 else values.integers(low))
    if isinstance(rule, seed_parts.matching):
        return values.texts(expression_text(rule.expression))
    if isinstance(rule, validators.list_of):
        return values.items(of_rule(rule.item_rule, f"{place}[]"))
    if rule in FUNCTIONS:
        return FUNCTIONS[rule]
    raise TextError(
        f"{place}: its rule is a function of its own, and nothing in tests/gate/schema says what it accepts"
    )
