"""What is written on a page can be read on it: colours as WCAG 2 asks for (4.5 to 1), in the light and in the dark."""

import re
from importlib.resources import files

import pytest

TEXT_ON: dict[str, tuple[str, ...]] = {
    "text": ("bg", "panel", "code", "mark", "add", "del"),
    "dim": ("bg", "panel", "code", "mark", "add", "del"),
    "link": ("bg", "panel", "mark"),
    "good": ("panel", "good-bg", "add"),
    "bad": ("bg", "panel", "bad-bg", "del"),
    "warn": ("panel", "warn-bg"),
    "calm": ("calm-bg",),
    "live": ("live-bg",),
    **dict.fromkeys("sckn", ("panel", "add", "del")),
}


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, bright = sorted((luminance(one), luminance(other)))
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_all_text_has_enough_contrast(scheme: int) -> None:
    sheet = files("proctor.report.viewer").joinpath("static", "view.css").read_text()
    colours = dict(re.findall(r"--([\w-]+): (#\w{6})", re.findall(r":root \{([^}]*)\}", sheet)[scheme]))
    faint = {
        (text, ground): round(contrast(colours[text], colours[ground]), 2)
        for text, grounds in TEXT_ON.items()
        for ground in grounds
        if contrast(colours[text], colours[ground]) < 4.5
    }
    assert faint == {}


def test_contrast_is_what_the_standard_says() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)
