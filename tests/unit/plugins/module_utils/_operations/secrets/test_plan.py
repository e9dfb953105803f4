# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is planned for a secret, on values: libvirt's test driver has no secrets."""

from __future__ import annotations

import contextlib
import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, VirtError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import etree, parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt, open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.facts.maintenance import SECRET_UUID
from ansible_collections.brine.virt.plugins.module_utils._host.secret_users import SecretUsers
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields.given import GivenOptions
from ansible_collections.brine.virt.plugins.module_utils._model.spec.resources.secret import SecretSpec, read_secret
from ansible_collections.brine.virt.plugins.module_utils._operations.resources import (
    GivenResources,
    ResourcePlan,
    ResourceResult,
    carry_out,
    diff_of,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.secrets import found as secrets_found
from ansible_collections.brine.virt.plugins.module_utils._operations.secrets import plan as secrets_plan
from ansible_collections.brine.virt.plugins.module_utils._operations.secrets import present as secrets_present
from ansible_collections.brine.virt.plugins.module_utils._operations.secrets.found import (
    NOT_READABLE,
    NOT_SET,
    SET,
    FoundSecret,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.secrets.plan import (
    SecretPlanner,
    check_together,
    plan_absent,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.secrets.present import needs_value, plan_present

CEPH = {"name": "client.x", "usage": "ceph"}
UUID = "6ec2c9b7-2f4e-4a4e-9e05-2c8a6f0a1d11"
VALUE = "hunter22 canary"


class Store:
    """Keeps secrets of Ceph as libvirt does, which has no driver for them that could run here."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.values: dict[str, bytes] = {}

    def secretDefineXML(self, text: str, _flags: int) -> None:  # noqa: N802 - libvirt's name
        root = parse_xml(text)
        uuid, name = root.findtext("uuid", ""), root.findtext("usage/name")
        if any(parse_xml(old).findtext("usage/name") == name for key, old in self.texts.items() if key != uuid):
            raise libvirt.libvirtError("already defined for use")
        self.texts[uuid] = text

    def secretLookupByUsage(self, _usage: int, name: str) -> StoredSecret:  # noqa: N802 - libvirt's name
        found = [key for key, text in self.texts.items() if parse_xml(text).findtext("usage/name") == name]
        return self.secretLookupByUUIDString(*(found or [""]))

    def secretLookupByUUIDString(self, uuid: str) -> StoredSecret:  # noqa: N802 - libvirt's name
        if uuid not in self.texts:
            raise no_secret()
        return StoredSecret(self, uuid)


class StoredSecret:
    """One of them."""

    def __init__(self, store: Store, uuid: str) -> None:
        self._store = store
        self._uuid = uuid

    def XMLDesc(self, _flags: int) -> str:  # noqa: N802 - libvirt's name
        return self._store.texts[self._uuid]

    def UUIDString(self) -> str:  # noqa: N802 - libvirt's name
        return self._uuid

    def value(self, _flags: int) -> bytes:
        if self._uuid not in self._store.values:
            raise no_secret()
        return self._store.values[self._uuid]

    def setValue(self, value: bytes, _flags: int) -> None:  # noqa: N802 - libvirt's name
        self._store.values[self._uuid] = value

    def undefine(self) -> None:
        del self._store.texts[self._uuid]


def no_secret() -> libvirt.libvirtError:
    error = libvirt.libvirtError("no secret")
    error.err = (libvirt.VIR_ERR_NO_SECRET, 0, "no secret", 0, "", None, None, 0, 0)
    return error


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setattr(
        secrets_present, "hypervisor_lock", lambda _purpose, **_settings: contextlib.nullcontext(), raising=False
    )
    return Store()


def now(store: Store) -> FoundSecret | None:
    return FoundSecret.read(store.secretLookupByUsage(0, "client.x"), "secret") if store.texts else None


def of_store(store: Store, **options: t.Any) -> ResourceResult:
    return ResourceResult(plan_present(t.cast(t.Any, store), spec_of(**options), now(store), 0))


def spec_of(**options: t.Any) -> SecretSpec:
    return read_secret(GivenOptions.of({**CEPH, **options}, ""))


def found(value: bytes | None = None, private: str = "no", ephemeral: str = "no", rest: str = "") -> FoundSecret:
    text = (
        f"<secret ephemeral='{ephemeral}' private='{private}'><uuid>{UUID}</uuid>{rest}"
        "<usage type='ceph'><name>client.x</name></usage></secret>"
    )
    return FoundSecret(None, parse_xml(text), value)


def planned(there: FoundSecret | None, **options: t.Any) -> ResourcePlan:
    return plan_present(None, spec_of(**options), there, 0)


def words(plan: ResourcePlan) -> list[str]:
    return [step.description for step in plan.steps]


@pytest.mark.parametrize(
    ("options", "state", "value", "needed"),
    [
        ({"value": "a"}, SET, b"a", False),
        ({"value": "a"}, SET, b"b", True),
        ({"value": "a"}, NOT_SET, None, True),
        ({"value": "a"}, NOT_READABLE, None, True),
        ({}, NOT_SET, None, False),
        ({}, NOT_READABLE, None, False),
        ({"value": "a", "update_value": "on_create"}, SET, b"b", False),
        ({"value": "a", "update_value": "on_create"}, NOT_SET, None, True),
        ({"value": "a", "update_value": "on_create"}, NOT_READABLE, None, False),
    ],
)
def test_when_a_value_is_set(options: dict[str, t.Any], state: str, value: bytes | None, needed: bool) -> None:
    assert needs_value(spec_of(**options), state, value) is needed


@pytest.mark.parametrize(
    ("there", "options", "steps"),
    [
        (None, {}, ["define"]),
        (None, {"value": VALUE}, ["define", "set the value of"]),
        # It becomes private last: a run that is killed before leaves one that the next run can compare.
        (None, {"value": VALUE, "private": True}, ["define", "set the value of", "make"]),
        (found(VALUE.encode()), {"value": VALUE, "private": True, "update_value": "on_create"}, ["make"]),
        (found(), {"value": VALUE, "private": True, "update_value": "on_create"}, ["set the value of", "make"]),
        (found(VALUE.encode()), {"value": VALUE, "private": False, "ephemeral": False}, []),
        (found(VALUE.encode()), {"value": "other"}, ["set the value of"]),
        (found(VALUE.encode()), {"ephemeral": True, "description": "a"}, ["change ephemeral, description of"]),
        (found(private="yes"), {"value": VALUE}, ["set the value of"]),
        (found(private="yes"), {"value": VALUE, "update_value": "on_create", "private": True}, []),
    ],
)
def test_the_steps(there: FoundSecret | None, options: dict[str, t.Any], steps: list[str]) -> None:
    plan = planned(there, **options)
    assert words(plan) == [f"{step} secret client.x for ceph{' private' * (step == 'make')}" for step in steps]
    # A value that was known comes back when a later step fails; nothing else of a value can be undone.
    sets = [step for step in plan.steps if step.description.startswith("set the value")]
    assert all((step.undo is not None) is bool(there and there.value) for step in sets)


def test_before_and_after_say_nothing_of_the_value() -> None:
    plan = planned(found(b"old canary", rest="<description>a</description>"), value=VALUE, private=True)
    assert plan.before == {
        **CEPH,
        "uuid": UUID,
        "description": "a",
        "ephemeral": False,
        "private": False,
        "value_state": "set",
    }
    assert plan.after == {**plan.before, "private": True, "value_state": "set again"}
    result = ResourceResult(plan)
    carry_out([result], check_mode=True)
    shown = f"{result.as_result()} {diff_of([result])} {plan}"
    assert "value_state: set again" in shown
    assert "canary" not in shown


def test_one_without_a_value_says_so() -> None:
    text = "it has no value yet, and cannot be used before it has one"
    assert planned(None).pending == (text,)
    assert planned(found()).pending == (text,)
    assert planned(found(private="yes")).pending == planned(found(b"a")).pending == ()
    assert planned(None, value=VALUE).pending == ()


def test_a_private_secret_stays_private() -> None:
    with pytest.raises(ConflictError, match=r"^private: the secret client.x for ceph is private, and libvirt never"):
        planned(found(private="yes"), private=False)


def test_a_secret_that_is_used_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    use = [SecretUsers()]
    monkeypatch.setattr(secrets_plan, "hypervisor_lock", lambda _purpose, **_settings: contextlib.nullcontext())
    monkeypatch.setattr(secrets_found, "users_of_secret", lambda _conn, **_secret: use[0])
    late = plan_absent(None, spec_of(state="absent"), found(), 0)
    assert words(late) == ["remove secret client.x for ceph"]
    assert (late.after, plan_absent(None, spec_of(state="absent"), None, 0).steps) == (None, ())
    for use[0], reason in (
        (SecretUsers(("machine db1", "storage pool p")), "is kept: it is used by machine db1, storage pool p. Remove"),
        (
            SecretUsers((), ("machine x cannot be read",)),
            "is kept: it cannot be determined whether something uses it: ",
        ),
    ):
        with pytest.raises(ConflictError, match=f"^state: the secret client.x for ceph {reason}"):
            plan_absent(None, spec_of(state="absent"), found(), 0)
        # Nothing of libvirt is there to be called.
        with pytest.raises(ConflictError, match=reason):
            late.steps[0].apply()


def test_a_secret_is_made_once(store: Store) -> None:
    first = of_store(store, value=VALUE, private=True)
    carry_out([first], check_mode=False)
    (uuid,) = store.texts
    assert (first.error, store.values) == (None, {uuid: VALUE.encode()})
    assert parse_xml(store.texts[uuid]).get("private") == "yes"
    assert of_store(store, value=VALUE, private=True, update_value="on_create").plan.steps == ()


@pytest.mark.parametrize("uuid", [None, UUID])
def test_a_secret_that_somebody_else_has_created_meanwhile_stays(store: Store, uuid: str | None) -> None:
    options = {} if uuid is None else {"uuid": uuid}
    late = of_store(store, value="other", **options)
    carry_out([of_store(store, value=VALUE, **options)], check_mode=False)
    before = (dict(store.texts), dict(store.values))
    carry_out([late], check_mode=False)
    assert (store.texts, store.values) == before
    assert str(late.error) == (
        "the secret client.x for ceph has been created by somebody else meanwhile. Run the task again"
    )


def test_a_new_secret_is_taken_back_by_its_uuid_alone(store: Store) -> None:
    late = of_store(store).plan
    late.steps[0].apply()
    # Somebody else removes it, and makes one of the same name.
    store.texts.clear()
    carry_out([of_store(store, value=VALUE)], check_mode=False)
    before = dict(store.texts)
    undo = late.steps[0].undo
    assert undo is not None
    undo()
    assert store.texts == before


def test_a_value_that_somebody_else_has_set_meanwhile_stays_with_on_create(store: Store) -> None:
    carry_out([of_store(store)], check_mode=False)
    late = of_store(store, value="other", update_value="on_create")
    carry_out([of_store(store, value=VALUE)], check_mode=False)
    carry_out([late], check_mode=False)
    assert (late.error, list(store.values.values())) == (None, [VALUE.encode()])


def test_the_value_that_comes_back_is_the_one_that_was_replaced(store: Store) -> None:
    carry_out([of_store(store, value="first")], check_mode=False)
    (step,) = of_store(store, value="other").plan.steps
    carry_out([of_store(store, value=VALUE)], check_mode=False)
    step.apply()
    assert list(store.values.values()) == [b"other"]
    assert step.undo is not None
    step.undo()
    assert list(store.values.values()) == [VALUE.encode()]


@pytest.mark.parametrize("usage", [{"usage": "volume", "name": "/srv/x"}, {"usage": "vtpm", "name": "x"}])
def test_what_opens_data_keeps_its_value_while_it_is_used(
    store: Store, monkeypatch: pytest.MonkeyPatch, usage: dict[str, t.Any]
) -> None:
    use = [SecretUsers()]
    monkeypatch.setattr(secrets_found, "users_of_secret", lambda _conn, **_secret: use[0])
    there = found(b"the passphrase")
    opens = {**usage, "value": "another"}
    assert planned(there, **opens).steps == ()
    assert words(planned(found(), **opens)) == [f"set the value of secret {usage['name']} for {usage['usage']}"]
    late = plan_present(t.cast(t.Any, store), spec_of(**opens, update_value="always"), there, 0)
    use[0] = SecretUsers(("machine db1",))
    with pytest.raises(
        ConflictError, match=r"^update_value: the secret .* keeps its value: it is used by machine db1\. Set"
    ):
        planned(there, **opens, update_value="always")
    with pytest.raises(ConflictError, match="keeps its value, which cannot be compared: it is used by machine db1"):
        planned(found(private="yes"), **opens, update_value="always")
    # The same is looked at again.
    store.texts[UUID] = etree.tostring(there.root, encoding="unicode").replace("client.x", usage["name"])
    store.values[UUID] = b"the passphrase"
    with pytest.raises(ConflictError, match="keeps its value: it is used by machine db1"):
        late.steps[0].apply()
    assert store.values[UUID] == b"the passphrase"
    use[0] = SecretUsers((), ("machine x cannot be read",))
    with pytest.raises(ConflictError, match="keeps its value: it cannot be determined whether something uses it"):
        planned(there, **opens, update_value="always")
    # None of this is for what can be set again.
    assert len(planned(there, value="another").steps) == 1


def test_one_secret_is_named_once() -> None:
    secrets = [
        CEPH,
        {**CEPH, "usage": "tls", "uuid": UUID},
        CEPH,
        {"name": "b", "usage": "tls", "uuid": UUID},
        {"name": "c", "usage": "tls", "uuid": SECRET_UUID, "state": "absent"},
    ]
    specs = GivenResources.of({"secrets": secrets}, "secrets", ["name"]).read(read_secret)
    with pytest.raises(VirtError) as caught:
        check_together(specs)
    assert str(caught.value).splitlines() == [
        "secrets[2].name: is the same secret as secrets[0].name",
        "secrets[3].uuid: has the same UUID as secrets[1].name",
        "secrets[4].uuid: this UUID is that of the mark by which hypervisors see each other's maintenance."
        " Choose another one",
    ]


def test_a_libvirt_without_secrets_is_an_error() -> None:
    with open_connection("test:///default") as conn, pytest.raises(VirtError, match="cannot list the secrets: "):
        SecretPlanner(conn, lock_seconds=0)
