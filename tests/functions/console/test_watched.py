"""What a journey must not leave unnoticed is noticed."""

from typing import Final

import pytest

from tests.functions.console import plans
from tests.functions.console.watched import Console

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("plan", [plans.nothing])]

# What a script of the page does, and what is then said.
_FAULTS: Final = {
    "console.log('found nothing')": "console: log: found nothing",
    "setTimeout(() => { throw new Error('no such row') })": "no such row",
    "document.body.setAttribute('style', 'color: red')": "security policy stopped style-src",
    "fetch('http://127.0.0.2:9/rows').catch(() => 0)": "security policy stopped connect-src",
    "document.querySelector('h1').before(Object.assign(document.createElement('pre'),"
    " {textContent: 'W'.repeat(900)}))": "the page scrolls sideways",
    "document.querySelector('h1').before(Object.assign(document.createElement('div'),"
    " {className: 'panel'}));"
    "document.querySelector('.panel').append(document.createElement('hr'));"
    "document.styleSheets[0].insertRule('.panel hr { margin-left: -99px }')": "outside its card",
    "document.querySelector('h1').dataset.key = KEY": "a key is in document",
    "document.querySelector('input').value = KEY": "a key is in fields",
    "document.title = KEY": "a key is in",
    "localStorage.setItem('key', KEY)": "a key is in localStorage",
    "sessionStorage.setItem('key', KEY)": "a key is in sessionStorage",
    "history.replaceState({key: KEY}, '', location.pathname)": "a key is in history",
    "history.replaceState(null, '', '#' + KEY)": "a key is in address",
    "fetch('/console/?' + KEY)": "a key in the address of a request",
}


def fault(console: Console) -> str:
    """Why the page fails a journey now."""
    try:
        console.check()
    except AssertionError as error:
        return str(error)
    return ""


def test_faults_of_a_page_are_noticed(visitor: Console) -> None:
    """Each of these fails a journey."""
    for script, said in _FAULTS.items():
        visitor.check()
        secret = visitor.world.seed.secrets["admin"]
        # A policy about scripts does not apply to what a test evaluates.
        visitor.page.evaluate(f"(KEY) => {{ {script} }}", secret)
        # Until the page has told of what it did.
        visitor.page.evaluate("() => new Promise((resolve) => setTimeout(resolve, 50))")
        assert said in fault(visitor), script
        visitor.page.evaluate(
            "localStorage.clear(); sessionStorage.clear(); history.replaceState(null, '', '/')"
        )
        visitor.load()
        visitor.faults.clear()


def test_work_of_a_page_that_was_left_is_no_fault(visitor: Console) -> None:
    """F2914a: A call that is stopped because its page was left reports no error."""
    for script, said in {
        "setTimeout(() => { Promise.reject(AbortSignal.abort().reason) })": "",
        "setTimeout(() => { Promise.reject(new Error('no such row')) })": "no such row",
    }.items():
        visitor.page.evaluate(f"() => {{ {script} }}")
        visitor.page.evaluate("() => new Promise((resolve) => setTimeout(resolve, 50))")
        assert said in (found := fault(visitor))
        assert bool(said) == bool(found)
        visitor.faults.clear()


def test_axe_finds_faults(visitor: Console) -> None:
    """A field without a name and a text that is hard to read fail a journey."""
    visitor.page.evaluate(
        """() => {
          const field = document.createElement("input");
          const note = document.createElement("p");
          note.textContent = "hard to read";
          note.style.color = "#ddd";
          document.querySelector("main").append(field, note);
        }"""
    )
    with pytest.raises(AssertionError, match=r"(?s)color-contrast.*label"):
        visitor.check_axe()
