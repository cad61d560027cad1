"""Tokens of identity providers, right ones and hostile ones (the checks of RFC 8725)."""

import hmac
import json
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final

import pytest

from shared.authorizer.formats.token_kinds import TokenFault, TokenKind
from shared.errors import DataCorrupt, Unavailable
from shared.model.identities.claims import IdentityClaims, IssuerBinding, SignInRefused
from shared.operations.identities import sign_in
from shared.ports import Ports
from tests.kit.issuers import (
    AUDIENCE,
    BINDING,
    CLOUDS,
    ISSUER,
    KEYS_URI,
    Answers,
    encoded,
    key,
    key_set,
    of_cloud,
    public,
    signed,
)
from tests.kit.worlds import Clock

_NOW: Final = int(Clock().moment.timestamp())
_ES, _RS, _ED, _FOREIGN = key("ES256"), key("RS256"), key("EdDSA"), key("ES256", 1)
_HEADER: Final = {"alg": "ES256", "kid": "es", "typ": "JWT"}
_SAID: Final[dict[str, Any]] = {
    "iss": ISSUER,
    "sub": "248289761001",
    "aud": AUDIENCE,
    "iat": _NOW,
    "exp": _NOW + 300,
    "nonce": "n-0S6_WzA2Mj",
}
_KEYS: Final = key_set(
    public(_ES, kid="es", alg="ES256", use="sig"),
    public(_RS, kid="rs"),
    public(_ED, kid="ed"),
    public(key("ES384"), kid="es384"),
    public(_RS, kid="for-encryption", use="enc"),
    public(_RS, kid="for-ps256", alg="PS256"),
    public(_ES, kid="twice"),
    public(_FOREIGN, kid="twice"),
    {**_FOREIGN.as_dict(private=True), "kid": "given-away"},
    {"kty": "oct", "k": "c2VjcmV0", "kid": "secret"},
)


@pytest.fixture
def issuer(ports: Ports) -> Ports:
    """Ports that reach an issuer of these keys."""
    answers = Answers({KEYS_URI: _KEYS})
    return replace(ports, outbound=lambda: answers)


def _checked(ports: Ports, token: str, binding: IssuerBinding = BINDING) -> IdentityClaims:
    return sign_in.verify_token(ports, binding, token, nonce="n-0S6_WzA2Mj")


def _token(claims: Mapping[str, Any] | None = None, /, **header: Any) -> str:
    """A right token, but for these claims and this header; a claim that is None is left out."""
    said = {
        name: value for name, value in (_SAID | dict(claims or {})).items() if value is not None
    }
    head = {name: value for name, value in (_HEADER | header).items() if value is not None}
    return signed(head, said, _ES)


def _mac(header: Mapping[str, Any], secret: bytes) -> str:
    text = f"{encoded(header)}.{encoded(_SAID)}"
    return f"{text}.{encoded(hmac.digest(secret, text.encode(), sha256))}"


def _respelled() -> str:
    """The same signature with other unused bits at its end, which lenient readers drop."""
    text, _, last = _token()[:-1], None, _token()[-1]
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    return text + alphabet[alphabet.index(last) ^ 1]


def _unpadded(token: str, part: int, add: str) -> str:
    parts = token.split(".")
    parts[part] += add
    return ".".join(parts)


_RIGHT: Final = _token()
_JSON: Final = json.dumps(_SAID)
_PUBLIC: Final = public(_FOREIGN)
_PEM: Final = _RS.as_pem(private=False)

HOSTILE: Final[dict[str, tuple[TokenFault, str]]] = {
    # Algorithms.
    "none": (TokenFault.ALGORITHM, f"{encoded({'alg': 'none'})}.{encoded(_SAID)}.{encoded('x')}"),
    "none, unsigned": (TokenFault.MALFORMED, f"{encoded({'alg': 'none'})}.{encoded(_SAID)}."),
    "None": (TokenFault.ALGORITHM, _token(alg="None")),
    "HS256 with the public key in PEM": (
        TokenFault.ALGORITHM,
        _mac({"alg": "HS256", "kid": "rs"}, _PEM),
    ),
    "HS256 with the published secret": (
        TokenFault.ALGORITHM,
        _mac({"alg": "HS256", "kid": "secret"}, b"secret"),
    ),
    "ES256 with a symmetric key": (TokenFault.UNKNOWN_KEY, _token(kid="secret")),
    "RS512": (TokenFault.ALGORITHM, _token(alg="RS512", kid="rs")),
    "RS1": (TokenFault.ALGORITHM, _token(alg="RS1", kid="rs")),
    "an algorithm that is a list": (TokenFault.ALGORITHM, _token(alg=["ES256"])),
    "no algorithm": (TokenFault.ALGORITHM, _token(alg=None)),
    "ES256 by a key of RSA": (TokenFault.KEY, _token(kid="rs")),
    "ES384 by a key of P-256": (TokenFault.KEY, _token(alg="ES384")),
    "RS256 by a key for PS256": (
        TokenFault.KEY,
        signed({"alg": "RS256", "kid": "for-ps256"}, _SAID, _RS, "RS256"),
    ),
    "RS256 said, PS256 signed": (
        TokenFault.SIGNATURE,
        signed({"alg": "RS256", "kid": "rs"}, _SAID, _RS, "PS256"),
    ),
    # Keys.
    "a foreign key": (TokenFault.SIGNATURE, signed(_HEADER, _SAID, _FOREIGN)),
    "its own key in jwk": (
        TokenFault.SIGNATURE,
        signed(_HEADER | {"jwk": _PUBLIC}, _SAID, _FOREIGN),
    ),
    "its own key in jwk, no kid": (
        TokenFault.UNKNOWN_KEY,
        signed({"alg": "ES256", "jwk": _PUBLIC}, _SAID, _FOREIGN),
    ),
    "its own keys at jku": (
        TokenFault.SIGNATURE,
        signed(_HEADER | {"jku": "https://evil.example/keys"}, _SAID, _FOREIGN),
    ),
    "its own certificate at x5u": (
        TokenFault.SIGNATURE,
        signed(_HEADER | {"x5u": "https://evil.example/x"}, _SAID, _FOREIGN),
    ),
    "its own certificate in x5c": (
        TokenFault.SIGNATURE,
        signed(_HEADER | {"x5c": ["AAAA"]}, _SAID, _FOREIGN),
    ),
    "an unknown kid": (TokenFault.UNKNOWN_KEY, _token(kid="other")),
    "a path as kid": (TokenFault.UNKNOWN_KEY, _token(kid="../../etc/passwd")),
    "a kid that is a number": (TokenFault.UNKNOWN_KEY, _token(kid=7)),
    "no kid": (TokenFault.UNKNOWN_KEY, _token(kid=None)),
    "a key for encryption": (
        TokenFault.UNKNOWN_KEY,
        signed({"alg": "RS256", "kid": "for-encryption"}, _SAID, _RS, "RS256"),
    ),
    "a kid of two keys": (TokenFault.KEY, _token(kid="twice")),
    "a key whose private half is public": (
        TokenFault.UNKNOWN_KEY,
        signed(_HEADER | {"kid": "given-away"}, _SAID, _FOREIGN),
    ),
    "a signature of zeros": (
        TokenFault.SIGNATURE,
        f"{_RIGHT.rpartition('.')[0]}.{encoded(bytes(64))}",
    ),
    "a short signature": (TokenFault.SIGNATURE, f"{_RIGHT.rpartition('.')[0]}.{encoded(b'x')}"),
    "claims of another token": (
        TokenFault.SIGNATURE,
        ".".join((_RIGHT.split(".")[0], encoded(_SAID | {"sub": "1"}), _RIGHT.split(".")[2])),
    ),
    # Form.
    "oversized": (TokenFault.TOO_LARGE, _token({"a": "x" * 16_384})),
    "empty": (TokenFault.MALFORMED, ""),
    "two parts": (TokenFault.MALFORMED, _RIGHT.rpartition(".")[0]),
    "four parts": (TokenFault.MALFORMED, _RIGHT + ".e30"),
    "encrypted": (TokenFault.NESTED, "e30.e30.e30.e30.e30"),
    "nested": (TokenFault.NESTED, signed(_HEADER | {"cty": "JWT"}, _RIGHT, _ES)),
    "nested without cty": (TokenFault.MALFORMED, signed(_HEADER, _RIGHT, _ES)),
    "claims that are a list": (TokenFault.MALFORMED, signed(_HEADER, f"[{_JSON}]", _ES)),
    "a header that is text": (TokenFault.MALFORMED, signed('"ES256"', _SAID, _ES)),
    "a claim twice": (TokenFault.MALFORMED, signed(_HEADER, f'{{"sub":"1",{_JSON[1:]}', _ES)),
    "a member of the header twice": (
        TokenFault.MALFORMED,
        signed('{"alg":"none","alg":"ES256","kid":"es"}', _SAID, _ES),
    ),
    "NaN": (TokenFault.MALFORMED, signed(_HEADER, f'{{"a":NaN,{_JSON[1:]}', _ES)),
    "no UTF-8": (TokenFault.MALFORMED, signed(_HEADER, b'{"a":"\xff"}', _ES)),
    "deeply nested": (TokenFault.MALFORMED, signed(_HEADER, "[" * 9000, _ES)),
    "a signature in other letters": (TokenFault.MALFORMED, _respelled()),
    "padding": (TokenFault.MALFORMED, _unpadded(_RIGHT, 2, "==")),
    "a line break": (TokenFault.MALFORMED, _unpadded(_RIGHT, 2, "\n")),
    "letters of no alphabet": (TokenFault.MALFORMED, _unpadded(_RIGHT, 2, "é")),
    "crit": (TokenFault.CRITICAL, _token(crit=["exp"])),
    "an empty crit": (TokenFault.CRITICAL, _token(crit=[])),
    "b64": (TokenFault.CRITICAL, _token(b64=False)),
    "b64 with crit": (TokenFault.CRITICAL, _token(b64=False, crit=["b64"])),
    "typ of a logout token": (TokenFault.TYPE, _token(typ="logout+jwt")),
    "typ of a proof of possession": (TokenFault.TYPE, _token(typ="dpop+jwt")),
    "typ that is a number": (TokenFault.TYPE, _token(typ=1)),
    # Issuer, audience, subject.
    "another issuer": (TokenFault.ISSUER, _token({"iss": "https://evil.example"})),
    "the issuer with a slash": (TokenFault.ISSUER, _token({"iss": ISSUER + "/"})),
    "no issuer": (TokenFault.ISSUER, _token({"iss": None})),
    "a list of issuers": (TokenFault.ISSUER, _token({"iss": [ISSUER]})),
    "another audience": (TokenFault.AUDIENCE, _token({"aud": "other"})),
    "an audience that begins alike": (TokenFault.AUDIENCE, _token({"aud": AUDIENCE + "2"})),
    "no audience": (TokenFault.AUDIENCE, _token({"aud": None})),
    "an empty list of audiences": (TokenFault.AUDIENCE, _token({"aud": []})),
    "an audience within a map": (TokenFault.AUDIENCE, _token({"aud": {AUDIENCE: 1}})),
    "an audience that is no text": (TokenFault.AUDIENCE, _token({"aud": [AUDIENCE, 1]})),
    "several audiences": (TokenFault.AUTHORIZED_PARTY, _token({"aud": [AUDIENCE, "other"]})),
    "several audiences, azp another": (
        TokenFault.AUTHORIZED_PARTY,
        _token({"aud": [AUDIENCE, "other"], "azp": "other"}),
    ),
    "no subject": (TokenFault.SUBJECT, _token({"sub": None})),
    "an empty subject": (TokenFault.SUBJECT, _token({"sub": ""})),
    "a subject that is a number": (TokenFault.SUBJECT, _token({"sub": 1})),
    "a long subject": (TokenFault.SUBJECT, _token({"sub": "x" * 256})),
    # Times.
    "expired": (TokenFault.EXPIRED, _token({"iat": _NOW - 999, "exp": _NOW - 60})),
    "no exp": (TokenFault.TIMES, _token({"exp": None})),
    "no iat": (TokenFault.TIMES, _token({"iat": None})),
    "exp as text": (TokenFault.TIMES, _token({"exp": str(_NOW + 300)})),
    "exp as true": (TokenFault.TIMES, _token({"exp": True})),
    "exp before 1970": (TokenFault.TIMES, _token({"exp": -1})),
    "exp without an end": (TokenFault.TIMES, _token({"exp": 2**63})),
    "issued in the future": (TokenFault.FUTURE, _token({"iat": _NOW + 61})),
    "not valid yet": (TokenFault.FUTURE, _token({"nbf": _NOW + 61})),
    "signed in in the future": (TokenFault.FUTURE, _token({"auth_time": _NOW + 61})),
    "more than a day": (TokenFault.LIFETIME, _token({"exp": _NOW + 86_401})),
    "the end of all times": (TokenFault.LIFETIME, _token({"exp": 253_402_300_799})),
    "ends before it begins": (TokenFault.LIFETIME, _token({"iat": _NOW + 50, "exp": _NOW - 50})),
    # The person.
    "another nonce": (TokenFault.NONCE, _token({"nonce": "other"})),
    "no nonce": (TokenFault.NONCE, _token({"nonce": None})),
    "an e-mail not verified": (
        TokenFault.EMAIL,
        _token({"email": "ann@acme.example", "email_verified": False}),
    ),
    "an e-mail not verified, as text": (
        TokenFault.EMAIL,
        _token({"email": "ann@acme.example", "email_verified": "false"}),
    ),
    "an e-mail verified by a number": (
        TokenFault.EMAIL,
        _token({"email": "ann@acme.example", "email_verified": 1}),
    ),
    "an e-mail of the service": (TokenFault.EMAIL, _token({"email": "system+operator@local.SVC"})),
    "no e-mail": (TokenFault.EMAIL, _token({"email": "ann"})),
    "an e-mail behind another": (
        TokenFault.EMAIL,
        _token({"email": "eve@evil.example\n@acme.example"}),
    ),
    "an e-mail with two domains": (
        TokenFault.EMAIL,
        _token({"email": "ann@acme.example@evil.example"}),
    ),
    "two e-mails": (TokenFault.EMAIL, _token({"email": "ann@acme.example, eve@evil.example"})),
    "an e-mail that is a list": (TokenFault.EMAIL, _token({"email": ["ann@acme.example"]})),
    "a long e-mail": (TokenFault.EMAIL, _token({"email": f"a@{'a.' * 130}example"})),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_token(issuer: Ports, name: str) -> None:
    """F1182a: A hostile token is refused by the first check that it fails."""
    fault, token = HOSTILE[name]
    with pytest.raises(SignInRefused) as refused:
        _checked(issuer, token)
    assert (refused.value.reason, str(refused.value)[-1]) == (fault, ".")


def test_each_fault_of_a_token_is_met() -> None:
    """The table has each check of a token; the two others are about codes."""
    met = {fault for fault, _ in HOSTILE.values()}
    assert met == {*TokenFault} - {TokenFault.IDENTIFIER}


def test_the_token_that_they_differ_from(issuer: Ports) -> None:
    """F1182b: A right token says who it is of; its digest is of what was signed."""
    token = _token({"email": "ann@Acme.example", "email_verified": "true", "name": "Ann"})
    found = _checked(issuer, token)
    assert (found.subject, found.name) == ("248289761001", "Ann")
    assert found.email == "ann@acme.example"
    assert found.members["sub"] == found.subject
    again = signed(_HEADER, found.members, _ES)
    assert again != token
    assert _checked(issuer, again).digest == found.digest
    assert _checked(issuer, _token()).digest != found.digest


def test_at_the_bounds(issuer: Ports) -> None:
    """F1182c: Clocks may differ by up to a minute, and a token may live for a day."""
    for claims in (
        {"iat": _NOW - 999, "exp": _NOW - 59},
        {"iat": _NOW + 60, "nbf": _NOW + 60, "auth_time": _NOW + 60},
        {"exp": _NOW + 86_400},
        {"iat": _NOW + 0.5, "exp": _NOW + 300.5},
        {"aud": [AUDIENCE]},
        {"aud": [AUDIENCE, "other"], "azp": AUDIENCE},
        {"sub": "x" * 255},
    ):
        assert _checked(issuer, _token(claims)).subject
    for header in ({"typ": None}, {"jku": "https://evil.example/keys"}):
        assert _checked(issuer, _token(**header)).subject == "248289761001"


@pytest.mark.parametrize(
    ("algorithm", "kid"),
    [("RS256", "rs"), ("PS256", "rs"), ("ES256", "es"), ("ES384", "es384"), ("EdDSA", "ed")],
)
def test_each_algorithm(issuer: Ports, algorithm: str, kid: str) -> None:
    """F1182d: The five algorithms are accepted, each by a key of its kind."""
    signing = {"rs": _RS, "es": _ES, "ed": _ED}.get(kid, key("ES384"))
    token = signed({"alg": algorithm, "kid": kid}, _SAID, signing, algorithm)
    assert _checked(issuer, token).subject == "248289761001"


_SVC_IDP: Final = "svc_idp_01jd4q3v8m0000000000000000"


@pytest.mark.parametrize("cloud", CLOUDS)
def test_a_token_of_a_cloud(ports: Ports, cloud: str) -> None:
    """F1182e: Tokens as GitHub, Kubernetes, Google Cloud and AWS make them are accepted."""
    made = of_cloud(cloud, _SVC_IDP, _NOW)
    binding = IssuerBinding(made.issuer, _SVC_IDP, jwks=made.keys, kind=TokenKind.PROGRAM)
    found = sign_in.verify_token(ports, binding, made.token)
    assert (found.subject, found.members) == (made.claims["sub"], made.claims)


def test_keys_of_a_binding(ports: Ports) -> None:
    """F1182f: Keys in the binding are used without a fetch; malformed ones are an outage."""
    assert _checked(ports, _token(), replace(BINDING, jwks=_KEYS)).subject == "248289761001"
    with pytest.raises(SignInRefused, match="kid"):
        _checked(ports, _token(kid="other"), replace(BINDING, jwks=_KEYS))
    with pytest.raises(DataCorrupt):
        _checked(ports, _token(), replace(BINDING, jwks="[]"))
    with pytest.raises(Unavailable):
        _checked(ports, _token())


@pytest.mark.parametrize(
    "members",
    [
        {"n": encoded(b"\xff" * 128)},
        {"n": encoded(b"\xff" * 1025)},
        {"e": encoded(b"\xff" * 5)},
        {"n": None},
        {"n": "é"},
        {"n": encoded(b"\0" * 200 + b"\xff" * 128)},
        {"key_ops": ["sign"]},
        {"key_ops": "verify"},
        {"kid": ""},
        {"kid": ["rs"]},
        {"kty": "EC", "crv": "P-521"},
    ],
)
def test_a_key_that_is_of_no_use(ports: Ports, members: dict[str, Any]) -> None:
    """F1182g: A key that is weak, too long, malformed or for something else checks no token."""
    keys = json.dumps({"keys": [public(_RS, kid="rs") | members, 7, None]})
    token = signed({"alg": "RS256", "kid": "rs"}, _SAID, _RS, "RS256")
    with pytest.raises(SignInRefused) as refused:
        _checked(ports, token, replace(BINDING, jwks=keys))
    assert refused.value.reason is TokenFault.UNKNOWN_KEY


def test_a_point_that_is_on_no_curve(ports: Ports) -> None:
    """A key that cannot be loaded checks no token."""
    keys = key_set(public(_ES, kid="es", x=encoded(bytes(32))))
    with pytest.raises(SignInRefused) as refused:
        _checked(ports, _token(), replace(BINDING, jwks=keys))
    assert refused.value.reason is TokenFault.SIGNATURE
