"""The identifiers of tokens that others issue (TOKEN-1)."""

from tests.authorizer.feeds import Feed
from tests.conformance.cases import A, B, Case, D, case

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
_SESSION = "svc_wrt_sid-PliKrZXqkO-XS0v57jeDOt4hflg5-m48i21WI8d2yRc"
_ANN = "svc_wrt_sub-NPswvoAsFgCt_TE51ZzQAywd3M4vkyz8D54NUtQRtFI-"
_BOB = "svc_wrt_sub-yv8NTpfz039vstl0XD2t8bnz2P7DC9O4bvPWTOWeJro-"
_T = 1_795_780_800
_MALFORMED = (
    ("saml", "https://as.example", "bad-1"),
    ("jwt", "", "bad-1"),
    ("jwt", "https://as.example", "bad\n1"),
    ("biscuit", "", "0A" * 64),
    ("ucan", "", _CID.upper()),
    ("x509", "ab" * 32, "01f"),
    ("other", "", ""),
    ("other", "x", "é" * 512 + "x"),
    ("jwt-session", "https://as.example", ""),
    ("jwt-session", "https://as.example", "s-1", _T),
    ("jwt", "https://as.example", "bad-1", _T),
    ("jwt-subject", "https://as.example", "ann"),
    ("jwt-subject", "https://as.example", "ann", -1),
    ("jwt-subject", "https://as.example", "ann", 253_402_300_800),
)


@case
def tokens__identifiers(case: Case) -> None:
    """Kind, issuer and value of a token give its warrant identifier."""
    for kind, issuer, value, digest in _IDENTIFIERS:
        case.identify(kind, issuer, value, warrant_id=f"svc_wrt_{kind}-{digest}")


@case
def tokens__sessions_and_subjects(case: Case) -> None:
    """The identifier of a subject ends with a time of 12 digits."""
    case.identify("jwt-session", "https://as.example", "s-1", warrant_id=_SESSION)
    for at in (0, 7, _T, 253_402_300_799):
        named = ("jwt-subject", "https://as.example", "ann", at)
        case.identify(*named, warrant_id=_ann(at))


@case
def tokens__a_subject(case: Case) -> None:
    """A cutoff revokes tokens with iat at or before it, and tokens without iat."""
    case.feed = Feed(ids={A, _ann(_T), D})
    case.begin()
    case.check("revoked", _ann(_T))
    case.check("revoked", _ann(_T - 1))
    case.check("revoked", _ann(0))
    case.check("clear", _ann(_T + 1))
    case.check("clear", f"{_BOB}{0:012d}")
    case.check("revoked", B, _ann(1))
    case.check("clear", B, _ann(_T + 1))


@case
def tokens__a_cutoff_of_an_entry(case: Case) -> None:
    """A cutoff of an entry counts at once, and no longer after its removal."""
    case.begin()
    case.check("clear", _ann(0))
    case.feed.publish(_ann(_T))
    case.poll(case.feed.answer(1), sequence=2)
    case.check("revoked", _ann(_T - 1))
    case.check("clear", _ann(_T + 1))
    case.feed.publish(removed=(_ann(_T),))
    case.poll(case.feed.answer(2), sequence=3)
    case.check("clear", _ann(_T), _ann(0))


@case
def tokens__several_cutoffs(case: Case) -> None:
    """The latest cutoff of a subject counts; after its removal, the latest of the others."""
    case.feed = Feed(ids={_ann(9), _ann(10), _ann(_T), f"{_BOB}{_T + 9:012d}"})
    case.begin()
    case.check("revoked", _ann(_T))
    case.feed.publish(_ann(_T + 5), removed=(_ann(_T),))
    case.poll(case.feed.answer(), sequence=1)
    case.check("revoked", _ann(_T + 5))
    case.check("clear", _ann(_T + 6))
    case.feed.publish(removed=(_ann(9), _ann(_T + 5)))
    case.poll(case.feed.answer(1), sequence=2)
    case.check("revoked", _ann(10))
    case.check("clear", _ann(11))
    case.check("clear", _ann(_T))
    case.check("revoked", f"{_BOB}{_T:012d}")


@case
def tokens__like_a_cutoff(case: Case) -> None:
    """Identifiers that only resemble a cutoff stand for themselves."""
    short, named = _ann(5)[:-1], f"{_ann(5)[:-1]}x"
    case.feed = Feed(ids={short, named, "svc_wrt_sub-a", f"{_ann(5)}0"})
    case.begin()
    case.check("clear", _ann(0), _ann(5))
    case.check("revoked", short)
    case.check("revoked", named)
    case.check("clear", _ann(40)[:-1])


def _ann(at: int) -> str:
    return f"{_ANN}{at:012d}"


@case
def tokens__malformed(case: Case) -> None:
    """Another spelling, an unknown kind, a control character and a long text have no identifier."""
    for named in _MALFORMED:
        case.identify(*named, refused="malformed")
