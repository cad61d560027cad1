"""The settings of a process: all of them right, or every problem named at once."""

import pytest

from shared import wiring
from shared.errors import InvalidSettings
from shared.settings import Settings, Uri, trusted_proxies

_GOOD = {
    "RESCIND_STORE": "sqlite:svc.db",
    "RESCIND_BLOBS": "file:blobs",
    "RESCIND_KEY_WRAPPER": "file:master.key",
}
_AWS = {
    "RESCIND_STORE": "dynamodb:svc-",
    "RESCIND_BLOBS": "s3:bucket",
    "RESCIND_KEY_WRAPPER": "kms:alias/svc",
}
_ALLOWED = {
    "RESCIND_STORE": "set it to sqlite:… or dynamodb:… or postgresql:…",
    "RESCIND_BLOBS": "set it to file:… or s3:… or azure:… or postgresql:",
    "RESCIND_KEY_WRAPPER": "set it to file:… or kms:… or vault:…",
}
_OF_OTHERS = {
    "RESCIND_STORE": "file:svc.db",
    "RESCIND_BLOBS": "kms:key",
    "RESCIND_KEY_WRAPPER": "s3:bucket",
}
_QUEUE = "https://sqs.eu-west-1.amazonaws.com/123456789012/rescind-test"


def test_each_setting_names_an_adapter_and_a_place() -> None:
    """What stands before the first colon is the adapter, all that follows is the place."""
    arn = "arn:aws:kms:eu-west-1:123456789012:key/1"
    assert wiring.settings(_GOOD) == Settings(
        Uri("sqlite", "svc.db"), Uri("file", "blobs"), Uri("file", "master.key")
    )
    assert wiring.settings(_AWS | {"RESCIND_KEY_WRAPPER": f"kms:{arn}"}) == Settings(
        Uri("dynamodb", "svc-"), Uri("s3", "bucket"), Uri("kms", arn)
    )


@pytest.mark.parametrize("name", _GOOD)
@pytest.mark.parametrize(
    "value",
    [None, "", ":", "place", "sqlite", "file:", "redis:x", " sqlite:svc.db", "S3:x", "another's"],
)
def test_a_wrong_setting_is_named_with_what_it_may_be(name: str, value: str | None) -> None:
    """F39a: A setting that is missing or wrong is named with its forms, and not with its value.

    An unknown adapter is refused, and so is an adapter of another setting.
    """
    wrong = _OF_OTHERS[name] if value == "another's" else value
    environment = {each: _GOOD[each] for each in _GOOD if each != name}
    if wrong is not None:
        environment[name] = wrong
    fault = "not set" if wrong is None else "not valid"
    assert _problems(environment) == (f"{name} is {fault}; {_ALLOWED[name]}",)


def test_every_problem_is_named_at_once() -> None:
    """All problems come in one error, a line for each, so that one start is enough to see them."""
    with pytest.raises(InvalidSettings) as refused:
        wiring.settings({"RESCIND_BLOBS": "blobs"})
    assert str(refused.value).splitlines() == [
        f"RESCIND_STORE is not set; {_ALLOWED['RESCIND_STORE']}",
        f"RESCIND_BLOBS is not valid; {_ALLOWED['RESCIND_BLOBS']}",
        f"RESCIND_KEY_WRAPPER is not set; {_ALLOWED['RESCIND_KEY_WRAPPER']}",
    ]


def test_the_queue_may_be_missing() -> None:
    """Only the schedule has a queue; where it is set, its address is the whole rest."""
    assert wiring.settings(_GOOD).queue is None
    settings = wiring.settings(_GOOD | {"RESCIND_QUEUE": f"sqs:{_QUEUE}"})
    assert settings.queue == Uri("sqs", _QUEUE)
    assert settings.store == wiring.settings(_GOOD).store


@pytest.mark.parametrize("value", ["", "sqs", "sqs:", "file:queue", _QUEUE])
def test_a_wrong_queue_is_named_with_what_it_may_be(value: str) -> None:
    """A queue of another form is a problem like any other, also beside others."""
    wrong = "RESCIND_QUEUE is not valid; set it to sqs:…"
    assert _problems(_GOOD | {"RESCIND_QUEUE": value}) == (wrong,)
    problems = _problems(_GOOD | {"RESCIND_STORE": "", "RESCIND_QUEUE": value})
    assert problems == (f"RESCIND_STORE is not valid; {_ALLOWED['RESCIND_STORE']}", wrong)


@pytest.mark.parametrize(
    ("value", "networks"),
    [
        ("", []),
        ("10.0.0.0/8", ["10.0.0.0/8"]),
        ("192.0.2.7, 2001:db8::/32", ["192.0.2.7/32", "2001:db8::/32"]),
    ],
)
def test_trusted_proxies_are_networks(value: str, networks: list[str]) -> None:
    """F73: addresses and networks of both kinds, with commas between them; without any, none."""
    assert [str(each) for each in trusted_proxies({"RESCIND_TRUSTED_PROXIES": value})] == networks
    assert wiring.settings(_GOOD | {"RESCIND_TRUSTED_PROXIES": value}) == wiring.settings(_GOOD)
    assert trusted_proxies({}) == ()


@pytest.mark.parametrize(
    "value", [",", "10.0.0.1/8", "10.0.0.0/33", "proxy.example", "10.0.0.0/8;10.1.0.0/16", " "]
)
def test_wrong_proxies_are_a_problem(value: str) -> None:
    """F73b: A malformed entry of the trusted proxies is reported as a problem of the settings."""
    problems = _problems({"RESCIND_TRUSTED_PROXIES": value} | _GOOD | {"RESCIND_STORE": ""})
    assert len(problems) == 2
    assert problems[1].startswith(
        "RESCIND_TRUSTED_PROXIES is not valid; set it to networks such as "
    )
    with pytest.raises(InvalidSettings):
        trusted_proxies({"RESCIND_TRUSTED_PROXIES": value})


@pytest.mark.parametrize("value", ["0.0.0.0/0", "::/0", "10.0.0.0/8,0.0.0.0/0"])
def test_nobody_trusts_every_address(value: str) -> None:
    """F73: a network of all addresses would believe whatever any caller claims; it is refused."""
    (problem,) = _problems(_GOOD | {"RESCIND_TRUSTED_PROXIES": value})
    assert problem.startswith("RESCIND_TRUSTED_PROXIES must not trust every address")


def test_other_variables_do_not_matter() -> None:
    """The rest of the environment is nothing to the settings."""
    assert wiring.settings(_GOOD | {"RESCIND_OTHER": "x", "PATH": "/bin"}) == wiring.settings(_GOOD)


def _problems(environment: dict[str, str]) -> tuple[str, ...]:
    with pytest.raises(InvalidSettings) as refused:
        wiring.settings(environment)
    return refused.value.problems
