"""The templates of the console, in the browser: what a value may become."""

from typing import Any, Final

import pytest

from functions.console.files import Files
from tests.functions.console import plans
from tests.functions.console.watched import Console

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("plan", [plans.nothing])]

_MODULE: Final = f"/console/{Files().version}/html.js"
# What breaks templates that are put together as text: ends of tags, forged marks, other schemes.
_HOSTILE: Final = """
const hostile = ['<img src=x onerror=alert(1)>', '"><script>alert(1)</script>',
  '<!--~0~-->', '~0~', '"~1~"', "' onload='x", '</template>', '${x}', '&lt;b&gt;', '\\u0000',
  '\\ud800', 'javascript:alert(1)',
  ']]>', '<svg/onload=x>', '--><b>'];
for (let seed = 1; hostile.length < 400; seed++) {
  const parts = ['<', '>', '"', "'", '`', '=', '~', '0', '!--', '-->', '/', 'b', ' ', '&', ';'];
  const choose = (_, i) => parts[(seed * 7919 + i * i * 104729 + seed * i) % parts.length];
  hostile.push(Array.from({length: 12}, choose).join(''));
}
"""


def _evaluate(console: Console, body: str) -> Any:
    script = f"async () => {{ const {{html, svg, put, one}} = await import('{_MODULE}'); {body} }}"
    return console.page.evaluate(script)


def test_any_text_becomes_one_text_node_or_one_attribute(visitor: Console) -> None:
    """F463a: A value is never parsed, wherever it stands: no element and no attribute appears."""
    found = _evaluate(
        visitor,
        _HOSTILE
        + """
        const wrong = [];
        for (const text of hostile) {
          const root = document.createElement('div');
          put(root, html`<p title=${text} ?hidden=${text}>before ${text} after</p>
            <svg viewBox="0 0 1 1">${svg`<text x="1">${text}</text>`}</svg>`);
          const [p, picture] = root.children;
          const holds = root.childElementCount === 2 && p.childElementCount === 0
            && p.getAttribute('title') === text && p.attributes.length === 2
            && p.textContent === `before ${text} after`
            && picture.childElementCount === 1
            && picture.firstElementChild.textContent === text
            && picture.firstElementChild.namespaceURI === 'http://www.w3.org/2000/svg';
          if (!holds) wrong.push([text, root.innerHTML]);
        }
        return wrong;
        """,
    )
    assert found == []


def test_what_would_run_or_leave_is_refused(visitor: Console) -> None:
    """F463b: Scripts in attributes, other schemes and other hosts raise; `innerHTML` is stopped."""
    visitor.expected.append("This document requires")
    visitor.page.evaluate(
        "() => { window.stopped = []; reportViolation = (what) => stopped.push(what) }"
    )
    refused = _evaluate(
        visitor,
        """
        const tries = {
          scheme: () => html`<a href=${'javascript:alert(1)'}>x</a>`,
          host: () => html`<a href=${'//evil.example'}>x</a>`,
          backslash: () => html`<a href=${'/\\\\\\\\evil.example'}>x</a>`,
          image: () => html`<img src=${'data:text/html,x'}>`,
          handler: () => html`<b onclick=${'alert(1)'}>x</b>`,
          style: () => html`<b style=${'color:red'}>x</b>`,
          srcdoc: () => html`<iframe srcdoc=${'x'}></iframe>`,
          action: () => html`<form action=${'/x'}></form>`,
          noTemplate: () => html(['<b>x</b>']),
          forged: () => html(Object.freeze(['<img src=x onerror=alert(1)>'])),
        };
        return Object.entries(tries).filter(([, attempt]) => {
          try { attempt(); return true } catch (error) { return !(error instanceof TypeError) }
        }).map(([name]) => name);
        """,
    )
    assert refused == []
    assert (
        _evaluate(
            visitor,
            """
            try { document.body.innerHTML = '<b>x</b>'; return 'parsed' } catch { return 'stopped' }
            """,
        )
        == "stopped"
    )
    visitor.page.wait_for_function("() => window.stopped.length === 1")
    stopped = visitor.page.evaluate("() => window.stopped.map((each) => each.split(':')[0])")
    assert stopped == ["require-trusted-types-for"]


def test_children_lists_and_listeners(visitor: Console) -> None:
    """F463: Lists are flattened, nothing stands for null and booleans, and listeners are called."""
    assert _evaluate(
        visitor,
        """
        let pressed = 0;
        const root = document.createElement('div');
        const press = () => { pressed++ };
        put(root, html`<button type="button" ?disabled=${false} title=${null} @click=${press}>
          ${[1, [' ', 'two'], null, true, html`<i>3</i>`]}</button>`);
        root.querySelector('button').click();
        return [pressed, root.innerHTML.replace(/<!--.*?-->/g, '').replace(/>\\s+/, '>')];
        """,
    ) == [1, '<button type="button">1 two<i>3</i></button>']
