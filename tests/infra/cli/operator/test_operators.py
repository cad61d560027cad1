"""The commands of `rescind` for operators."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from infra import private_files
from shared import wiring
from shared.errors import InvalidApiKey
from shared.model import api_keys as model
from shared.model.api_keys import ApiKey
from shared.model.audit.audit_log import AuditAction, EntryFilters
from shared.model.callers import Scope
from shared.model.lists.signers import signers_partition
from shared.operations.access import api_keys
from shared.operations.audit import audit_log
from shared.operations.base import tenants
from shared.operations.changes import revocations
from shared.operations.identities import authentication, tickets
from shared.operations.identities.admission import UnauthenticatedClient
from shared.operations.lists import in_force
from shared.operations.operator import onboarding
from shared.ports.store import Delete, Expect, Increment, Put
from tests.infra.commands import Command, Ended
from tests.infra.folders import opened
from tests.kit.aws import aws
from tests.kit.tenants import item_at


@pytest.fixture
def acme(rescind: Command, data: Path) -> str:
    """The first admin key of the tenant acme, whose data the folder has."""
    return rescind.run("tenant", "create", "acme", "--data", data).out.strip()


def test_a_new_tenant_comes_with_a_key_that_works(rescind: Command, data: Path) -> None:
    """TENANT-1: `tenant create` makes a tenant and prints its first admin key once."""
    done = rescind.run("tenant", "create", "acme", "--data", data)
    assert done.code == 0
    assert "acme" in done.err
    assert done.out.strip() not in done.err
    with opened(data) as ports:
        credential = api_keys.authenticate(ports, done.out.removesuffix("\n"))
        assert credential.tenant_id == tenants.find(ports, "acme").tenant_id
        assert credential.scopes == (Scope.ADMIN,)
        assert in_force.read_srl_head(ports, credential.tenant_id).version == 1


def test_the_audit_log_names_who_ran_the_command(rescind: Command, data: Path, acme: str) -> None:
    """F67c: The audit entries of the operator's commands name the user of the machine."""
    rescind.run("admin-key", "acme", "--data", data)
    with opened(data) as ports:
        caller = onboarding.operator(ports, handle="acme")
        now = ports.now()
        filters = EntryFilters(now - timedelta(hours=1), now)
        page = audit_log.page(ports, caller, filters=filters, before=None, limit=10)
    named = {entry.action: entry.details.get("operator") for entry in page.entries}
    # The service makes the trust document.
    assert named.pop(AuditAction.TRUST_PUBLISH) is None
    assert named == dict.fromkeys(["api_key.create", "tenant.create"], private_files.name())


def test_a_link_to_the_console(rescind: Command, data: Path, acme: str) -> None:
    """IDENTITY-8, F453b: `console` prints a link to any address, which signs in to its tenant."""
    url = "https://api.example.com/auth/"
    done = rescind.run("console", "acme", "--data", data, "--url", url)
    printed, _, ticket = done.out.strip().partition("#ticket=")
    assert (done.code, printed) == (0, url)
    with opened(data) as ports:
        begun = tickets.redeem(ports, UnauthenticatedClient(), ticket)
        caller = authentication.authenticate(ports, begun.secret)
        assert caller.tenant_id == api_keys.authenticate(ports, acme).tenant_id
        assert caller.operator == private_files.name()
    assert rescind.run("console", "globex", "--data", data).code == 1


def test_tenants_are_listed_oldest_first(rescind: Command, data: Path) -> None:
    """`tenant list` prints a line for each tenant: name, identifier, time of creation."""
    for name in ("globex", "acme"):
        rescind.run("tenant", "create", name, "--data", data)
    listed = rescind.run("tenant", "list", "--data", data)
    lines = [line.split() for line in listed.out.splitlines()[1:]]
    assert (listed.code, listed.err) == (0, "")
    assert [line[0] for line in lines] == ["globex", "acme"]
    with opened(data) as ports:
        assert [line[1] for line in lines] == [
            tenants.find(ports, name).tenant_id for name in ("globex", "acme")
        ]
    assert all(line[2].endswith("Z") for line in lines)


@pytest.mark.parametrize("how", ["expired", "deleted"])
def test_a_tenant_locked_out_gets_in_again(
    rescind: Command, data: Path, acme: str, how: str
) -> None:
    """TENANT-4: `admin-key` makes a new key for a tenant that has no usable admin key."""
    with opened(data) as ports:
        credential = api_keys.authenticate(ports, acme)
        record = model.records(credential.tenant_id).address(credential.key_id)
        if how == "expired":
            for each in (credential, ApiKey.from_item(item_at(ports, record))):
                expired = replace(each, expires_at=ports.now() - timedelta(days=1))
                ports.store.write(Put(each.address, expired.to_item(), Expect.PRESENT))
        else:
            # The key leaves the store past the guard of the last admin key.
            usage = model.usage(credential.tenant_id).address(credential.key_id)
            ports.store.write(
                *(Delete(key, Expect.PRESENT) for key in (record, usage, credential.address)),
                Increment(model.count_address(credential.tenant_id), {"count": -1}, Expect.PRESENT),
            )
    minted = rescind.run("admin-key", "acme", "--data", data)
    assert minted.code == 0
    with opened(data) as ports:
        with pytest.raises(InvalidApiKey):
            api_keys.authenticate(ports, acme)
        credential = api_keys.authenticate(ports, minted.out.removesuffix("\n"))
        assert credential.tenant_id == tenants.find(ports, "acme").tenant_id
        assert credential.scopes == (Scope.ADMIN,)


def test_the_doctor_of_a_healthy_folder(rescind: Command, data: Path) -> None:
    """`doctor` says that all is well, with 0, and prints nothing for a program to read."""
    assert rescind.run("doctor", "--data", data) == Ended(0, "", "All is well.\n")
    rescind.run("tenant", "create", "acme", "--data", data)
    assert rescind.run("doctor", "--data", data) == Ended(0, "", "All is well.\n")


def test_the_doctor_says_what_is_wrong_and_what_to_do(
    rescind: Command, data: Path, acme: str
) -> None:
    """Each finding has its tenant, its problem and the way out; the exit code is 1."""
    rescind.run("tenant", "create", "globex", "--data", data)
    with opened(data) as ports:
        head = in_force.read_srl_head(ports, tenants.find(ports, "acme").tenant_id)
    (data / "blobs" / head.blob).unlink()
    result = rescind.run("doctor", "--data", data)
    assert (result.code, result.out) == (1, "")
    assert "acme: the blob of version 1 is missing or altered\n  → restore " in result.err
    assert "globex" not in result.err
    assert "1 problem(s) found" in result.err
    assert rescind.run("recover", "acme", "--data", data).code == 0
    assert rescind.run("doctor", "--data", data).code == 0


def test_publish_publishes_who_is_due(rescind: Command, data: Path) -> None:
    """F111a: `srl publish-due` publishes the tenants that are due and names their lists."""
    for name in ("acme", "globex"):
        rescind.run("tenant", "create", name, "--data", data)
    with opened(data) as ports:
        caller = onboarding.operator(ports, handle="acme")
        revocations.create(ports, caller, warrant_id="svc_wrt_a", reason="stolen")
    result = rescind.run("srl", "publish-due", "--data", data)
    published = "acme: published version 2 with 1 warrants.\n"
    assert result == Ended(0, "", f"{published}Published 1 SRL(s). No other SRL was due.\n")
    again = rescind.run("srl", "publish-due", "--data", data)
    assert again == Ended(0, "", "Published 0 SRL(s). No other SRL was due.\n")


def test_publish_says_what_it_could_not_publish(rescind: Command, data: Path) -> None:
    """OPS-7, F111b: `srl publish-due` names each tenant that fails with the cause and continues."""
    for name in ("acme", "globex"):
        rescind.run("tenant", "create", name, "--data", data)
    with opened(data) as ports:
        for name in ("acme", "globex"):
            caller = onboarding.operator(ports, handle=name)
            revocations.create(ports, caller, warrant_id="svc_wrt_a", reason="stolen")
        (entry,) = ports.store.query(signers_partition(tenants.find(ports, "acme").tenant_id))
        address = signers_partition(tenants.find(ports, "acme").tenant_id).address(entry.sk)
        ports.store.write(Put(address, {**entry.item, "public_key": 1}, Expect.PRESENT))
    result = rescind.run("srl", "publish-due", "--data", data)
    assert (result.code, result.out) == (1, "")
    assert "globex: published version 2 with 1 warrants.\n" in result.err
    assert "acme: not published: DataCorrupt: " in result.err
    assert "SrlSigner.public_key" in result.err
    assert result.err.endswith("error: 1 SRL(s) could not be published\n")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        *(
            (("admin-key", "acme", f"--expires-in={given}"), 2, "30d, 12h or 45m")
            for given in ("", "0d", "30", "d", "1w", "-1d", "1.5h", "1d\n", "100000d")
        ),
        *(
            (("recover", "acme", "--signer", key), 2, "'--signer'")
            for key in ("", "AA==", "not base64", "A" * 43)
        ),
        *(
            ((*command.split(), name), 2, "1 to 63 lower-case letters, digits or '-'")
            for command in ("tenant create", "admin-key", "recover")
            for name in ("", "Acme", "a" * 64, "a\n")
        ),
        (("admin-key", "nobody"), 1, "no tenant with this name"),
        (("recover", "nobody"), 1, "no tenant with this name"),
    ],
)
def test_what_cannot_be_is_refused(
    rescind: Command, data: Path, arguments: tuple[str, ...], code: int, words: str
) -> None:
    """What no key, signer or tenant can have is refused with what is allowed, and not done."""
    refused = rescind.run(*arguments, "--data", data)
    assert (refused.code, refused.out, words in refused.err) == (code, "", True)


@pytest.mark.slow
def test_it_works_on_the_stores_of_aws(rescind: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """F111c: `srl publish-due` works on AWS and names the call and the error if AWS refuses it.

    So do the commands that make and list tenants and keys.
    """
    with aws() as account:
        settings = {
            "RESCIND_STORE": f"dynamodb:{account.table_prefix}",
            "RESCIND_BLOBS": f"s3:{account.bucket}",
            "RESCIND_KEY_WRAPPER": f"kms:{account.key_id}",
        }
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        secrets = [
            rescind.run("tenant", "create", "acme").out.strip(),
            rescind.run("admin-key", "acme").out.strip(),
        ]
        assert rescind.run("tenant", "create", "acme").code == 1
        assert "\nacme  svc_tnt_" in rescind.run("tenant", "list").out
        assert rescind.run("srl", "publish-due").code == 0
        ports = wiring.build(wiring.settings(settings))
        for secret in secrets:
            api_keys.authenticate(ports, secret)
        account.dynamodb.delete_table(TableName=f"{account.table_prefix}keys")
        result = rescind.run("srl", "publish-due")
    assert (result.code, result.out) == (1, "")
    first, cause, *_ = result.err.splitlines()
    assert first.startswith("error: Unavailable: ")
    assert "(GetItem: ResourceNotFoundException)" in first
    assert cause.startswith("  caused by ResourceNotFoundException: An error occurred")
