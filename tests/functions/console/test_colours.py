"""The colours of the console, as its style sheet has them: what is written can be read."""

import re
from typing import Final, TypeAlias

import pytest

from functions.console.files import STATIC

_Colour: TypeAlias = tuple[float, float, float]

_STATES: Final = (
    "force", "wait", "revoked", "suspended", "superseded", "expired", "info", "unknown",
)  # fmt: skip
# WCAG 2.2, 1.4.3 and 1.4.11.
_TEXT: Final = 4.5
_LINE: Final = 3.0
_LIGHT_DARK: Final = re.compile(r"light-dark\((\S+), (\S+)\)")


def _schemes() -> dict[str, dict[str, str]]:
    """The custom properties of the light and of the dark scheme, by name."""
    sheet = (STATIC / "console.css").read_text()
    (text,) = re.findall(r":root \{(.*?)\}", sheet, re.DOTALL)
    found = dict(re.findall(r"--([\w-]+): ([^;]+);", text))
    return {
        scheme: {name: _LIGHT_DARK.sub(side, each) for name, each in found.items()}
        for scheme, side in (("light", r"\1"), ("dark", r"\2"))
    }


def _colour(text: str) -> _Colour:
    red, green, blue = (int(text[start : start + 2], 16) / 255 for start in (1, 3, 5))
    return red, green, blue


def _mixed(colour: _Colour, ground: _Colour, share: float) -> _Colour:
    """What `color-mix(in srgb, colour share, ground)` is."""
    red, green, blue = (
        share * over + (1 - share) * under for over, under in zip(colour, ground, strict=True)
    )
    return red, green, blue


def _luminance(colour: _Colour) -> float:
    """The relative luminance of WCAG 2.2."""
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: _Colour, other: _Colour) -> float:
    """The contrast ratio of WCAG 2.2, from 1 to 21."""
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def test_the_contrast_is_that_of_the_standard() -> None:
    """Black on white has 21, and the grey that designers know as the last readable one 4.54."""
    assert contrast(_colour("#000000"), _colour("#ffffff")) == pytest.approx(21)
    assert contrast(_colour("#767676"), _colour("#ffffff")) == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_is_written_can_be_read(scheme: str) -> None:
    """F460a: In light and dark, each text has a contrast of 4.5 to its ground, each edge 3."""
    found = _schemes()[scheme]
    share = float(found["tint"].removesuffix("%")) / 100
    names = {*_STATES, "ink", "soft", "card", "page", "edge", "bar", "on-bar", "chosen"}
    colours = {name: _colour(found[name]) for name in names}
    grounds = {name: colours[name] for name in ("card", "page")}
    short: dict[str, float] = {}

    def demand(name: str, ground: str, on: _Colour, least: float) -> None:
        ratio = contrast(colours[name], on)
        if ratio < least:
            short[f"{name} on {ground}"] = round(ratio, 2)

    for state in _STATES:
        for ground, colour in grounds.items():
            demand(state, ground, colour, _TEXT)
        for of in ("card", "page"):
            demand(state, f"its tint on {of}", _mixed(colours[state], colours[of], share), _TEXT)
    for ground, colour in grounds.items():
        demand("ink", ground, colour, _TEXT)
        demand("soft", ground, colour, _TEXT)
        demand("edge", ground, colour, _LINE)
    demand("on-bar", "bar", colours["bar"], _TEXT)
    demand("on-bar", "chosen", colours["chosen"], _TEXT)
    assert not short
