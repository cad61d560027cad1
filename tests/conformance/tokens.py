"""The identifiers of tokens that others issue (TOKEN-1)."""

from tests.conformance.cases import Case, case

_CID = "bafyreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy"
_IDENTIFIERS = (
    ("jwt", "https://as.example", "bad-1", "Z591NNxgO_rGCEeX0rJ88TyihObU_zJQgZph8tqu5Io"),
    ("jwt", "https://as.example/", "bad-1", "_hw23LoM6sXkybysoHKtbAIwelatgI8k7qBC7KLnzPw"),
    ("jwt", "https://as.example", "☃ \u2028 \x7f", "FF9kLFTq_GfI1ctLan-urzsY6zy3qYL25mKgDns9HFA"),
    ("biscuit", "", "0a" * 64, "eLJeHLDtGW-8cPzd1XwSPM4dmYLdctQtfW25TEe94M4"),
    ("ucan", "", _CID, "xzDvkveBu7lU-K5OyjF2bTT9D6RMoK7UFYAGN4Sg9l8"),
    ("x509", "ab" * 32, "1f", "RxGMFQDtSMuFxgRWEM8rVsBEfnww5tCkpfJDtk_7YCw"),
    ("other", "", "gate 7", "U3Lpqsd0-syIygclQOIYI3BK2mwlHGUqcZ5wlwCeHpY"),
    ("other", "x" * 1024, "é" * 512, "pV88v6G9LJIJurz9XjJIvRmo-Gg9LmZ1_BbUX0vGQjM"),
)
_MALFORMED = (
    ("saml", "https://as.example", "bad-1"),
    ("jwt", "", "bad-1"),
    ("jwt", "https://as.example", "bad\n1"),
    ("biscuit", "", "0A" * 64),
    ("ucan", "", _CID.upper()),
    ("x509", "ab" * 32, "01f"),
    ("other", "", ""),
    ("other", "x", "é" * 512 + "x"),
)


@case
def tokens__identifiers(case: Case) -> None:
    """Kind, issuer and value of a token give its warrant identifier."""
    for kind, issuer, value, digest in _IDENTIFIERS:
        case.identify(kind, issuer, value, warrant_id=f"svc_wrt_{kind}-{digest}")


@case
def tokens__malformed(case: Case) -> None:
    """Another spelling, an unknown kind, a control character and a long text have no identifier."""
    for kind, issuer, value in _MALFORMED:
        case.identify(kind, issuer, value, refused="malformed")
