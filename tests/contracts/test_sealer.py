"""What every sealer promises (`shared.ports.outside.KeyWrapper`)."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from shared.errors import DataCorrupt
from shared.ports.outside import KeyWrapper

SECRET = bytes(range(32))
CONTEXT = {"tenant": "t1", "key": "svc_key_1"}


@pytest.mark.parametrize("secret", [b"\x00", SECRET, b"x" * 4096], ids=len)
def test_a_secret_comes_back_under_its_context(keys: KeyWrapper, secret: bytes) -> None:
    """What was sealed opens under the same pairs, in whatever order they are given."""
    sealed = keys.seal(secret, context=CONTEXT)
    assert keys.unseal(sealed, context=dict(reversed(CONTEXT.items()))) == secret


def test_a_seal_hides_the_secret(keys: KeyWrapper) -> None:
    """F17: the secret is not to be found in its seal, nor in how the sealer shows itself."""
    assert SECRET not in keys.seal(SECRET, context=CONTEXT)
    assert "t1" not in repr(keys)


def test_two_seals_of_one_secret_differ(keys: KeyWrapper) -> None:
    """Nobody can tell from two seals that they hold the same."""
    assert len({keys.seal(SECRET, context=CONTEXT) for _ in range(5)}) == 5


@pytest.mark.parametrize(
    "other",
    [
        {"tenant": "t2", "key": "svc_key_1"},
        {"tenant": "t1", "key": "svc_key_2"},
        {"tenant": "svc_key_1", "key": "t1"},
        {"tenant": "t1"},
        CONTEXT | {"more": ""},
        {"Tenant": "t1", "key": "svc_key_1"},
    ],
    ids=str,
)
def test_another_context_opens_nothing(keys: KeyWrapper, other: dict[str, str]) -> None:
    """KEY-2, F12, S3: A sealed seed opens only for its tenant, key, purpose and version."""
    sealed = keys.seal(SECRET, context=CONTEXT)
    with pytest.raises(DataCorrupt):
        keys.unseal(sealed, context=other)


def test_an_altered_seal_does_not_open(keys: KeyWrapper) -> None:
    """F10, S3: An altered seal does not open."""
    sealed = keys.seal(SECRET, context=CONTEXT)
    flipped = sealed[:-1] + bytes([sealed[-1] ^ 1])
    for altered in (b"", sealed[:-1], sealed + b"\x00", flipped, b"\x00" * 7000):
        with pytest.raises(DataCorrupt):
            keys.unseal(altered, context=CONTEXT)


@pytest.mark.parametrize("secret", [b"", b"x" * 4097], ids=len)
def test_a_secret_has_1_to_4096_bytes(keys: KeyWrapper, secret: bytes) -> None:
    """What KMS would refuse is refused everywhere."""
    with pytest.raises(ValueError, match="4096"):
        keys.seal(secret, context=CONTEXT)


def test_a_context_is_never_empty(keys: KeyWrapper) -> None:
    """Nothing is sealed that could be moved anywhere."""
    with pytest.raises(ValueError, match="context"):
        keys.seal(SECRET, context={})
    with pytest.raises(ValueError, match="context"):
        keys.unseal(keys.seal(SECRET, context=CONTEXT), context={})


def test_many_threads_share_a_sealer(keys: KeyWrapper) -> None:
    """Seals made and opened at once are each right."""

    def there_and_back(number: int) -> bool:
        secret, context = bytes([number]) * 32, {"key": str(number)}
        return keys.unseal(keys.seal(secret, context=context), context=context) == secret

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(there_and_back, range(64)))
