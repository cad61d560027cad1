"""Which list signers a client accepts after a rotation, and by which name it refuses the others."""

import base64
from typing import Any

import cbor2

from shared.authorizer.formats.statements import Statement
from tests.authorizer.feeds import NOW, TENANT, public, signer
from tests.conformance.cases import UNKNOWN, A, C, Case, D, base64_of, case

_OTHER_TENANT = "svc_tnt_01KAJ3TMF00000000000GLOBEX"


def _stated(new: int, by: int, **changes: Any) -> dict[str, str]:
    """A statement by one signer that another one may follow it."""
    members = {
        "tenant_id": TENANT,
        "number": new,
        "key_id": f"svc_key_{new}",
        "public_key": public(signer(new)),
        "previous": public(signer(by)),
        "issued_at": NOW,
    }
    return Statement(**{**members, **changes}).signed(seed=signer(by).private_bytes_raw())


def _key(
    number: int, statement: dict[str, str] | None = None, status: str = "active"
) -> dict[str, Any]:
    """A signer in the response."""
    return {
        "key_id": f"svc_key_{number}",
        "status": status,
        "public_key": base64_of(public(signer(number))),
        "statement": statement,
    }


def _signed_by(case: Case, number: int, **expected: Any) -> None:
    """The next entry, in a feed that this signer signs, is accepted or refused."""
    branch = case.feed.branch()
    branch.key = signer(number)
    branch.publish(D if "refused" in expected else UNKNOWN)
    case.poll(branch.answer(case.feed.sequence), **expected)
    if "refused" not in expected:
        case.feed = branch
    case.check("revoked", C)
    case.check("clear" if "refused" in expected else "revoked", D, UNKNOWN)


@case
def signers__a_rotation(case: Case) -> None:
    """A client follows a statement to the new signer, and then accepts no head by the old one."""
    case.begin()
    _signed_by(case, 2, refused="signature")
    case.keys(_key(2, _stated(2, by=1)), _key(1, status="retired"))
    _signed_by(case, 2, sequence=2)
    old = case.feed.branch()
    old.key = signer(1)
    old.publish(D)
    case.poll(old.answer(2), refused="signer_older")
    case.check("clear", D)


@case
def signers__a_pending_signer(case: Case) -> None:
    """Until a new signer signs a head, heads by the old one are accepted."""
    case.begin()
    case.keys(_key(1), _key(2, _stated(2, by=1), "pending"))
    _signed_by(case, 1, sequence=2)
    case.feed.publish()
    case.feed.publish_list()
    case.feed.key = signer(2)
    case.poll(case.feed.answer(2), base=case.feed.data, sequence=3)


@case
def signers__several_rotations(case: Case) -> None:
    """A client that was away follows several statements, in whatever order they are listed."""
    case.begin()
    case.keys(_key(2, _stated(2, by=1)), _key(4, _stated(4, by=3)), _key(3, _stated(3, by=2)))
    _signed_by(case, 4, sequence=2)


@case
def signers__a_restart(case: Case) -> None:
    """After a restart a client accepts the signer that it had come to, and none before it."""
    case.begin()
    case.keys(_key(3, _stated(3, by=2)), _key(2, _stated(2, by=1)))
    _signed_by(case, 3, sequence=2)
    case.restart()
    case.check("stale", A)
    old = case.feed.branch()
    for number in (1, 2):
        old.key = signer(number)
        case.poll(old.answer(), base=old.data, refused="signer_older")
    case.poll(case.feed.answer(), base=case.feed.data, sequence=2)
    case.check("revoked", UNKNOWN)


@case
def signers__an_older_signer_states_nothing(case: Case) -> None:
    """A statement by a signer before the present one leads nowhere, whatever its number is."""
    case.begin()
    case.keys(_key(3, _stated(3, by=2)), _key(2, _stated(2, by=1)))
    _signed_by(case, 3, sequence=2)
    for by in (1, 2):
        case.keys(_key(4, _stated(4, by=by, number=9)), _key(3, _stated(3, by=2)))
        case.feed.publish(D)
        case.poll(_by(case, 4), refused="signer_older")
        case.check("clear", D)
    case.keys(_key(4, _stated(4, by=3)))
    case.poll(_by(case, 4), sequence=case.feed.sequence)


def _by(case: Case, number: int) -> Any:
    """The answer after entry 2, as another signer signs it."""
    branch = case.feed.branch()
    branch.key = signer(number)
    return branch.answer(2)


@case
def signers__a_false_word_about_a_pending_signer(case: Case) -> None:
    """A status of a signer that has signed nothing counts only as long as it is reported."""
    case.begin()
    for restarts in (False, True):
        case.keys(_key(1), _key(2, _stated(2, by=1), "revoked"))
        case.check("clear", D)
        case.poll(_by(case, 2), refused="signer_revoked")
        if restarts:
            case.restart()
            case.poll(case.feed.answer(), base=case.feed.data, sequence=1)
    case.keys(_key(2, _stated(2, by=1)), _key(1, status="retired"))
    _signed_by(case, 2, sequence=2)
    case.keys(_key(2, _stated(2, by=1), "revoked"), _key(1, status="retired"))
    case.check("stale", D)
    case.restart()
    case.keys(_key(2, _stated(2, by=1)), _key(1, status="retired"))
    case.feed.publish(C)
    case.poll(case.feed.answer(), base=case.feed.data, refused="signer_revoked")


@case
def signers__a_stolen_signer(case: Case) -> None:
    """A revoked signer clears nothing, and states nothing; the operator pins its successor."""
    case.begin()
    case.keys(_key(2), _key(1, status="revoked"))
    case.check("stale", D)
    case.check("revoked", A)
    case.feed.publish(UNKNOWN)
    case.poll(case.feed.answer(1), refused="signer_revoked")
    case.poll(_answer(case, 2), refused="statement_missing")
    case.keys(_key(2, _stated(2, by=1)), _key(1, status="revoked"))
    case.poll(_answer(case, 2), refused="signer_revoked")
    # A revoked signer stays revoked, also if it is not reported any more.
    case.keys(_key(2, _stated(2, by=1)))
    case.poll(_answer(case, 2), refused="signer_revoked")
    case.check("stale", D)
    case.init(signers=(2,))
    case.poll(_answer(case, 2), base=case.feed.data, sequence=2)
    case.check("revoked", UNKNOWN)


def _answer(case: Case, number: int) -> Any:
    """The whole answer, as another signer signs it."""
    branch = case.feed.branch()
    branch.key = signer(number)
    return branch.answer()


@case
def statement_missing(case: Case) -> None:
    """A signer to which no chain of statements leads is refused, although it is listed."""
    case.begin()
    case.keys(_key(2), _key(1))
    _signed_by(case, 2, refused="statement_missing")
    for others in ((), (_key(2),), (_key(2), _key(1))):
        case.keys(_key(3, _stated(3, by=2)), *others)
        _signed_by(case, 3, refused="statement_missing")


@case
def statement_forged(case: Case) -> None:
    """A statement that is altered, or not signed by the key that it names, leads nowhere."""
    case.begin()
    good = _stated(2, by=1)
    encoded = base64.b64decode(good["Payload"])
    members = cbor2.loads(encoded)
    signatures = [
        bytes(64),
        signer(1).sign(encoded),
        signer(1).sign(b"rescind-feed-head-v1\n" + encoded),
        signer(2).sign(b"rescind-srl-signer-v1\n" + encoded),
    ]
    forms: list[Any] = [{**good, "Signature": base64_of(each)} for each in signatures]
    small = (1).to_bytes(32, "little")
    others: list[dict[str, Any]] = [
        {"Number": "2"},
        {"Number": 0},
        {"PublicKey": b"k" * 31},
        {"PublicKey": small},
    ]
    others += [{"Tenant": 1}, {"IssuedAt": "now"}, {"More": 1}]
    forms += [_form(cbor2.dumps({**members, **each}, canonical=True)) for each in others]
    forms += [_form(cbor2.dumps(dict(reversed(members.items())))), _form(encoded + b"\x00")]
    forms += [_form(b""), _stated(3, by=1), {"Payload": "?", "Signature": "?"}, {}, []]
    for form in forms:
        case.keys(_key(2, form), _key(1))
        _signed_by(case, 2, refused="statement_forged")
    case.keys(_key(2, good), _key(1))
    _signed_by(case, 2, sequence=2)


def _form(encoded: bytes) -> dict[str, str]:
    """Any bytes, signed by the first signer as a statement is."""
    signature = signer(1).sign(b"rescind-srl-signer-v1\n" + encoded)
    return {"Payload": base64_of(encoded), "Signature": base64_of(signature)}


@case
def statement_forged__in_a_chain(case: Case) -> None:
    """If a link between the pin and the signer is forged, the signer is refused by that name."""
    case.begin()
    forged = _stated(2, by=1) | {"Signature": base64_of(bytes(64))}
    case.keys(_key(3, _stated(3, by=2)), _key(2, forged), _key(1))
    _signed_by(case, 3, refused="statement_forged")


@case
def statement_tenant(case: Case) -> None:
    """A statement about the signers of another tenant leads nowhere, although the pin signed it."""
    case.begin()
    case.keys(_key(2, _stated(2, by=1, tenant_id=_OTHER_TENANT)), _key(1))
    _signed_by(case, 2, refused="statement_tenant")


@case
def statement_order(case: Case) -> None:
    """A statement whose number is not above that of the one before leads nowhere."""
    case.begin()
    for number in (1, 2):
        listed = [_key(3, _stated(3, by=2, number=number)), _key(2, _stated(2, by=1))]
        for keys in (listed, reversed(listed)):
            case.keys(*keys)
            _signed_by(case, 3, refused="statement_order")
    case.keys(_key(2, _stated(2, by=1)))
    _signed_by(case, 2, sequence=2)
    # The same from the signer that it came to, also if the one before is not listed any more.
    case.keys(_key(3, _stated(3, by=2, number=2)), _key(2))
    case.poll(_by(case, 3), refused="statement_order")
    case.restart()
    case.poll(_answer(case, 3), refused="signature")
    case.keys(_key(3, _stated(3, by=2, number=2)))
    case.poll(_answer(case, 3), refused="statement_order")
    case.keys(_key(3, _stated(3, by=2, number=3)))
    case.poll(_answer(case, 3), base=case.feed.data, sequence=2)
