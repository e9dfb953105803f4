# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What modules of the collection have in common: ``uri``, requirements, subsets of facts, the end of a run.

The documentation of these options is the fragment ``brine.virt._uri``; keep the two alike.
"""

from __future__ import annotations

import os
import sys
import traceback
import typing as t
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import urlsplit

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.common.validation import check_type_dict

from ._base.errors import HostError, InputError, Mistakes, VirtError, visible
from ._base.xml import LXML_IMPORT_ERROR
from ._host.connection import (
    DEFAULT_URI,
    LIBVIRT_IMPORT_ERROR,
    LIBVIRT_PACKAGES,
    OPEN_SECONDS,
    VirConnect,
    is_local,
    open_connection,
    password_in,
    require_no_password,
    run_in_time,
)

LXML_PACKAGES = "package python3-lxml"

# Of a time limit, the part that single machines may take: one that does not answer must not hide the others.
_MACHINES_SHARE = 0.8
# A null in these is no profile. In all other options Ansible cannot tell a null from what nobody named; in these it
# cannot tell the default, which is the name of a profile. So that is taken for not named.
_NULL_SAYS = ("disk_profile", "nic_profile")
# Options that are a hypervisor or a place of its own, and are taken for an address with a password by a slip. A module
# with secrets among its options may have such an address in all but the first.
_ADDRESSES = ("uri", "target", "dest", "src")
# Of any number of an option: as seconds 68 years. What has to add it to the time, or to hand it to a library, ends with
# an OverflowError from far less than what Ansible takes.
_GREATEST = 2**31 - 1
Answer = t.TypeVar("Answer")

# Subsets of facts, in the words of Ansible's own ``gather_subset``.
ALL, MIN = "all", "min"
URI_ARGUMENTS: dict[str, dict[str, t.Any]] = {"uri": {"type": "str", "default": DEFAULT_URI}}


class Secrets(t.Protocol):
    """What a module has to know of the secrets among its options; SecretOptions of ``_model/withheld.py`` is one.

    A protocol, as most modules have no secrets, and need not take along what masks them.
    """

    @property
    def hidden(self) -> str:
        """What stands in the place of the options where they are not repeated."""

    @property
    def beside(self) -> tuple[str, ...]:
        """What the action plugin sends beside the options."""

    def in_clear(self, params: Mapping[str, t.Any]) -> bool:
        """Whether secrets stand in the options that the action plugin should have taken out."""

    def anywhere(self, params: Mapping[str, t.Any]) -> bool:
        """Whether secrets may stand in the options, so that these are repeated nowhere."""

    def texts(self, params: Mapping[str, t.Any]) -> set[str]:
        """All that is to appear in no output."""

    def masked(self, text: str, params: Mapping[str, t.Any]) -> str:
        """A text without the secrets."""


class VirtModule(AnsibleModule):
    """An AnsibleModule that says nothing of its options where secrets stand in them.

    A secret inside an option of type raw or dict cannot be marked in the argument spec; marking the whole option would
    blot out each of its words, such as a user's name, in all output. So the action plugin puts placeholders in the
    places of secrets before the module gets to see them. Called without it, this one neither logs nor works.
    """

    def __init__(self, secrets: Secrets | None, beside: t.Iterable[str], settings: dict[str, t.Any]) -> None:
        # Before the rest: an AnsibleModule logs and fails while it is being made.
        self._secrets = secrets
        names = [*beside, *(secrets.beside if secrets is not None else ())]
        self._beside: dict[str, t.Any] = dict.fromkeys(names)
        super().__init__(**settings)
        self.params.update(self._beside)

    def _load_params(self) -> None:
        """Read the options, without what the action plugin has sent beside them: that is no option of a task's."""
        super()._load_params()
        self._beside = {name: self.params.pop(name, None) for name in self._beside}
        if self._secrets is not None:
            self.no_log_values.update(self._secrets.texts({**self.params, **self._beside}))

    def _set_internal_properties(self, *words: t.Any, **more: t.Any) -> None:
        """Read what Ansible says beside the options, and end the module for what it would stumble over: where a mapping
        of options is expected and something else stands, it names no option, or ends in a TypeError."""
        super()._set_internal_properties(*words, **more)
        for name, argument in self.argument_spec.items():
            value = self.params.get(name)
            if argument.get("type") == "dict" and "options" in argument and value is not None:
                try:
                    check_type_dict(value)
                except TypeError:
                    known = ", ".join(argument["options"])
                    self.fail_json(f"{name}: this is not a mapping of options. Its options: {known}")

    def require_no_password(self) -> None:
        """Raise InputError for an option that is an address with a password in it, before a message repeats it."""
        mistakes = Mistakes()
        for name in _ADDRESSES if self._secrets is None else ("uri",):
            value = self.params.get(name)
            password = password_in(value) if isinstance(value, str) else None
            if password is not None:
                # With what is around it: a short one by itself would be taken out of every word that has it.
                self.no_log_values.add(f":{password}@")
                with mistakes.noted():
                    require_no_password(value, name)
        mistakes.conclude()

    def require_no_excess(self) -> None:
        """Raise InputError for options with numbers that nothing here can work with, alone or in a mapping of options.

        Those in lists are given by our own action plugins, or have checks of their own.
        """
        mistakes = Mistakes()
        for name, argument in self.argument_spec.items():
            value = self.params.get(name)
            nested = argument.get("options", {}) if isinstance(value, dict) else {}
            numbers = {name: value, **{f"{name}.{inner}": value.get(inner) for inner in nested}}
            for where, number in numbers.items():
                # A float that is not a number (nan) is within no limits. A bool, an int to Python, always is.
                if isinstance(number, (int, float)) and not -_GREATEST <= number <= _GREATEST:
                    with mistakes.noted():
                        raise InputError(f"{number} is out of range", where=where, hint=f"Give at most {_GREATEST}")
        mistakes.conclude()

    @property
    def in_clear(self) -> bool:
        """Whether secrets stand in the options themselves that should not."""
        return self._secrets is not None and self._secrets.in_clear(self.params)

    @property
    def has_action(self) -> bool:
        """Whether the module was called by its action plugin, which sends the secrets, be there none."""
        names = self._secrets.beside if self._secrets is not None else ()
        return any(self._beside[name] is not None for name in names)

    def masked(self, text: str) -> str:
        """A text without the secrets among the options."""
        return text if self._secrets is None else self._secrets.masked(text, self.params)

    def log(self, msg: t.Any, log_args: t.Any = None) -> None:
        """Write into the host's log, unless that would hold a secret."""
        if self._secrets is None or not self._secrets.anywhere(self.params):
            super().log(msg, log_args)

    def fail_json(self, msg: str, **more: t.Any) -> t.NoReturn:
        """End the module with an error, which repeats the options only where no secret stands in them."""
        super().fail_json(msg, **{**more, **self._repeated_options()})

    def exit_json(self, **result: t.Any) -> t.NoReturn:
        """End the module with a result, which repeats the options only where no secret stands in them."""
        super().exit_json(**{**result, **self._repeated_options()})

    def _repeated_options(self) -> dict[str, t.Any]:
        if self._secrets is not None and self._secrets.anywhere(self.params):
            return {"invocation": {"module_args": self._secrets.hidden}}
        given = {name: value for name, value in self.params.items() if name not in self._beside}
        return {"invocation": {"module_args": given}}


def make_plain_module(
    argument_spec: dict[str, t.Any],
    *,
    secrets: Secrets | None = None,
    beside: t.Iterable[str] = (),
    **settings: t.Any,
) -> VirtModule:
    """An AnsibleModule without the common options and requirements, for one that asks no hypervisor.

    secrets: for a module that has them among its options; read those with ``opened`` that its action plugin sends
    beside the others (plugin_utils/_withhold.py).
    beside: what the action plugin may send beside the options; it is in ``params`` too, None where it was not sent. As
    it is in no argument spec, it is in no documentation.
    """
    settings = {"supports_check_mode": True, **settings, "argument_spec": argument_spec}
    module = VirtModule(secrets, beside, settings)
    try:
        module.require_no_password()
        module.require_no_excess()
    except InputError as exc:
        module.fail_json(str(exc))
    if module.in_clear and module.has_action:
        module.fail_json(
            "The options contain a secret in a place that is not made for one, such as a mapping where a text is"
            " expected. It is not repeated here. Nothing was done. Compare the options with the documentation"
        )
    if module.in_clear:
        module.fail_json(
            "The options contain secrets, but the module was called without its action plugin, which keeps them"
            " out of logs and output. Nothing was done. Call the module in a task by its full name in brine.virt"
        )
    return module


def make_module(argument_spec: dict[str, t.Any], **settings: t.Any) -> VirtModule:
    """An AnsibleModule with the common options beside its own, check mode supported unless ``settings`` say otherwise.

    settings: those of make_plain_module and of AnsibleModule.
    Ends the module when Python lacks a library that every module here needs; the result has ``missing_library`` then.
    """
    module = make_plain_module({**URI_ARGUMENTS, **argument_spec}, **settings)
    for library, packages, error in (
        ("libvirt-python", LIBVIRT_PACKAGES, LIBVIRT_IMPORT_ERROR),
        ("lxml", LXML_PACKAGES, LXML_IMPORT_ERROR),
    ):
        if error is not None:
            # Ansible's usual words for this are 440 letters, and do not say what to run.
            module.fail_json(
                msg=f"{library} is not installed for {sys.executable} ({packages}): run brine.virt.hypervisors first",
                missing_library=library,
                exception=error,
            )
    return module


def ask_in_time(params: dict[str, t.Any], ask: t.Callable[[VirConnect, float], Answer], *, read_only: bool) -> Answer:
    """What the hypervisor answers within the option ``timeout``. Raises UnreachableError when it does not.

    ask: takes the connection and the seconds that single machines may take of that time.
    """
    seconds = params["timeout"]
    if seconds < 1:
        raise InputError(f"{seconds} is less than a second", where="timeout")

    def work() -> Answer:
        with open_connection(params["uri"], read_only=read_only, timeout_seconds=min(seconds, OPEN_SECONDS)) as conn:
            return ask(conn, seconds * _MACHINES_SHARE)

    return run_in_time(work, seconds)


def subset_choices(names: Sequence[str]) -> list[str]:
    """Everything that the option may hold: the names, ``all`` and ``min``, and all but ``min`` with a ``!`` too."""
    words = [ALL, *names]
    return [ALL, MIN, *names, *(f"!{word}" for word in words)]


def chosen_subsets(given: Iterable[str], names: Sequence[str]) -> frozenset[str]:
    """The names that are asked for; none of them means the least that there is, which is always given.

    As Ansible's modules of facts have it: what is left out is left out whatever else is named, and where nothing is
    named but what is left out, it is left out of all.
    """
    words = list(given)
    left_out = {word[1:] for word in words if word.startswith("!")}
    wanted = {word for word in words if not word.startswith("!")}
    if ALL in left_out:
        left_out = left_out - {ALL}
    elif ALL in wanted or (left_out and not wanted):
        wanted.update(names)
    return frozenset(wanted - left_out) & frozenset(names)


def check_at_least(params: dict[str, t.Any], **least: int) -> None:
    """Raise InputError for an option with a number that is less than it may be."""
    for name, number in least.items():
        if params[name] < number:
            raise InputError(f"{params[name]} is less than {number}", where=name)


def require_root(module: str, uri: str, changes: str = "machines") -> None:
    """Raise HostError for a user who is not root and is about to change what root's runs change as well.

    Libvirt lets members of its group at the whole system's machines, but they cannot hold root's lock, and one of
    their own would keep nobody out. uri: where the module is to work; changes: what it changes there.
    """
    if os.geteuid() != 0 and is_local(uri) and urlsplit(uri).path.rstrip("/") == "/system":
        raise HostError(
            f"{module} changes the {changes} of the whole hypervisor, and needs root: run it with become: true"
        )


def check_named_machines(params: dict[str, t.Any], what: str) -> None:
    """Check the options ``name`` and ``disks`` of a module that does one thing to machines.

    what: it, in a word. Raises InputError where no machine is named, or several and disks of one.
    """
    if not all(params["name"]) or not params["name"]:
        raise InputError("no machine is named", where="name", hint=f"Give the names of the machines to {what}")
    if params["disks"] and len(set(params["name"])) > 1:
        raise InputError("they are disks of one machine, but several are named", where="disks")


def answer_of_each(
    module: AnsibleModule, results: Sequence[dict[str, t.Any]], diff: Sequence[dict[str, t.Any]], key: str = "machines"
) -> dict[str, t.Any]:
    """The result of a module that works on several of a kind; failed, with all of it, when one of them has failed.

    results: what became of each, with ``name``, ``changed``, ``failed`` and, of one that has failed, ``msg``. key: what
    they are called in the answer.
    """
    answer: dict[str, t.Any] = {
        "changed": any(result["changed"] for result in results),
        key: list(results),
        "diff": list(diff),
    }
    failed = [result for result in results if result["failed"]]
    if failed:
        fine = [result["name"] for result in results if not result["failed"]]
        words = "; ".join(f"{result['name']}: {result['msg']}" for result in failed)
        more = f". Succeeded: {', '.join(fine) or 'none'}" if len(results) > 1 else ""
        module.fail_json(msg=f"{words}{more}", **answer)
    return answer


def finish(module: VirtModule, work: t.Callable[[VirtModule], dict[str, t.Any]]) -> t.NoReturn:
    """End the module with what ``work(module)`` returns; an error becomes the one message of a failure."""
    try:
        result = work(module)
    except VirtError as exc:
        _fail(module, str(exc), exc, exc.result)
    except Exception as exc:
        # Ansible would report it as it is, with whatever secret is in it.
        _fail(module, f"unexpected error, {type(exc).__name__}: {exc}", exc)
    module.exit_json(**result)


def _fail(module: VirtModule, text: str, exc: Exception, result: t.Mapping[str, t.Any] | None = None) -> t.NoReturn:
    """Fail with a text, and with the exceptions behind it where these may be shown as they are.

    result: what more the module returns.
    Where a secret stands in them they become a text, as Ansible masks only texts; and where somebody else's words have
    control characters in them, which Ansible prints as they come.
    """
    trace = "".join(traceback.format_exception(type(exc), exc, exc.__traceback__))
    shown = visible(module.masked(trace))
    module.fail_json(msg=visible(module.masked(text)), exception=exc if shown == trace else shown, **result or {})


def named_options(
    arguments: Mapping[str, Mapping[str, t.Any]], params: Mapping[str, t.Any], names: t.Iterable[str]
) -> dict[str, t.Any]:
    """The options of these names that a task has, in the user's own spelling.

    arguments: the argument spec; params: what Ansible made of the task, which leaves an alias beside the option.
    """
    found = {}
    for name in names:
        is_named = params[name] != arguments[name].get("default") if name in _NULL_SAYS else params[name] is not None
        if is_named:
            spelling = next((alias for alias in arguments[name].get("aliases", ()) if alias in params), name)
            found[spelling] = params[name]
    return found
