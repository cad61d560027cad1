/** Keyboard shortcuts of pages and tables, which a person can disable, and the bar with some of their buttons. */

import { clock, shownTimes } from '../format.js'
import { html, one, put } from '../html.js'
import { aged, subscribe, oldest, scheduleRender } from '../store.js'
import { facts } from './panel.js'

const SILENCED = 'rescind.keys'
const TIMES = 'rescind.times'
const KEYS = [
  ['/', 'filter'],
  ['j', 'next row'],
  ['k', 'previous row'],
  ['Enter', 'open'],
  ['x', 'select'],
  ['Esc', 'leave the filter'],
  ['g o', 'overview'],
  ['g a', 'authorizers'],
  ['g r', 'revocations'],
  ['g k', 'signing keys'],
  ['g l', 'SRL'],
  ['t', 'ages or exact times'],
  ['u', 'UTC or local time'],
  ['?', 'keyboard shortcuts'],
]

Object.assign(shownTimes, JSON.parse(localStorage.getItem(TIMES) ?? '{}'))

/** Return whether shortcuts are disabled. */
export const isSilent = () => localStorage.getItem(SILENCED) !== null

/**
 * Return whether a key press is a shortcut at its target.
 * @param {KeyboardEvent} event
 */
export function isHeard({ target, ctrlKey, metaKey, altKey }) {
  const isField = /** @type {HTMLElement} */ (target).matches('input:not([type=checkbox]), textarea, select')
  return !(isField || ctrlKey || metaKey || altKey || isSilent() || document.querySelector('dialog[open], [popover]'))
}

/** @param {'isExact' | 'isLocal'} name */
function turn(name) {
  shownTimes[name] = !shownTimes[name]
  localStorage.setItem(TIMES, JSON.stringify(shownTimes))
  scheduleRender()
}

document.addEventListener('keydown', (event) => {
  if (!isHeard(event) || event.defaultPrevented) return
  const { key } = event
  if (key === 't') turn('isExact')
  else if (key === 'u') turn('isLocal')
  else if (key === '?') showKeys()
  else return
  event.preventDefault()
})

/**
 * Draw the bar above each page: the freshness of its data, and the format of times.
 * @param {HTMLElement} place
 * @param {AbortSignal} signal
 */
export function showBar(place, signal) {
  const button = (
    /** @type {string} */ words,
    /** @type {string} */ title,
    /** @type {() => unknown} */ run,
    /** @type {string | null} */ label = null,
  ) => html`<button type="button" class="quiet" aria-label=${label} title=${title} @click=${run}>${words}</button>`
  subscribe(() => {
    const entry = oldest()
    const old = entry && aged(entry)
    const failed = entry?.error?.status === 0 ? 'No response' : 'Not refreshed'
    const words = !entry ? '' : !entry.at ? 'No response' : old ? `${failed} since ${clock(entry.at)} UTC` : 'Live'
    put(
      place,
      html`<p role="status" class=${words && words !== 'Live' ? 'wait' : null} title=${old || null}>
        ${words && html`<i></i>`} ${words}
      </p>`,
      button(shownTimes.isExact ? 'Exact' : 'Ages', 'Ages or exact times (t)', () => turn('isExact')),
      button(shownTimes.isLocal ? 'Local' : 'UTC', 'UTC or local time (u)', () => turn('isLocal')),
      button('?', 'Keyboard shortcuts (?)', showKeys, 'Keyboard shortcuts'),
    )
  }, signal)
}

/** Show the list of shortcuts. */
function showKeys() {
  const toggle = (/** @type {Event} */ { target }) =>
    /** @type {HTMLInputElement} */ (target).checked
      ? localStorage.removeItem(SILENCED)
      : localStorage.setItem(SILENCED, 'off')
  /** @type {HTMLDialogElement} */
  const dialog = one(
    html`<dialog aria-labelledby="keys-title" closedby="any" @close=${() => dialog.remove()}>
      <form method="dialog">
        <h2 id="keys-title">Keyboard shortcuts</h2>
        ${facts(KEYS.map(([key, words]) => [html`<kbd>${key}</kbd>`, words]))}
        <label class="tick"
          ><input type="checkbox" .checked=${!isSilent()} @change=${toggle} />
          <span>Use single-letter shortcuts outside of fields</span></label
        >
        <div class="actions"><button>Close</button></div>
      </form>
    </dialog>`,
  )
  document.body.append(dialog)
  dialog.showModal()
}
