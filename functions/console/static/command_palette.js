/**
 * The palette: finds pages and actions, and searches the service in one call.
 *
 * It is loaded when it is first opened.
 */

import { ApiError, get, sleep } from './api.js'
import { count, date, present } from './format.js'
import { html, one, put } from './html.js'
import { advice } from './components/panel.js'
import { glyph } from './components/tag.js'
import { madeAt } from './ulid.js'

/** @typedef {{group: string, title: string, note?: string | null, path: string, run: () => unknown}} Choice */
/**
 * @typedef {object} Place the choices of the shell, and the icons of its pages
 * @property {Choice[]} choices
 * @property {Record<string, string>} paths
 */

/** Seconds after the last key press until the search; then the limits of a query. */
const PAUSE = 0.12
const [SHORTEST, LONGEST, MOST] = [2, 200, 8]

/** Kinds of results: name, the page with their icon, and their address. */
const KINDS = /** @type {Record<Api.SearchHit['kind'], [string, string, (hit: Api.SearchHit) => string]>} */ ({
  warrant: ['Warrants', 'revocations', ({ id }) => `#/revocations?warrant=${encodeURIComponent(id)}`],
  revocation: ['Revocations', 'revocations', ({ id }) => `#/changes/${id}`],
  batch: ['Batches', 'revocations', ({ id }) => `#/changes/${id}`],
  signing_key: ['Signing keys', 'keys', ({ id }) => `#/keys/${id}`],
  authorizer: ['Authorizers', 'authorizers', ({ id }) => `#/authorizers/${id}`],
  api_key: ['API keys', 'api-keys', ({ id }) => `#/api-keys/${id}`],
  service_account: ['Service accounts', 'accounts', ({ id }) => `#/accounts/${id}`],
  audit_entry: ['Audit log', 'audit', auditAddress],
})

/** Return the address of the entries of the same action and day. @param {Api.SearchHit} hit */
function auditAddress({ id, name }) {
  const day = date(madeAt(id.slice(-26)) * 1000)
  return `#/audit?${new URLSearchParams({ action: name ?? '', from: day, to: day })}`
}

class Palette {
  #query = ''
  /** @type {Api.SearchHit[]} */
  #hits = []
  /** Why the search failed. @type {string | null} */
  #fault = null
  #isAsking = false
  /** Aborted by the next query. */
  #asking = new AbortController()
  #at = 0

  /** @param {Place} place */
  constructor(place) {
    this.place = place
    const end = () => {
      this.#asking.abort()
      this.element.remove()
    }
    /** @type {HTMLDialogElement} */
    this.element = one(html`<dialog class="palette" aria-label="Search" closedby="any" @close=${end}></dialog>`)
    document.body.append(this.element)
    this.#draw()
    this.element.showModal()
  }

  /** Available choices, in groups. @returns {Choice[]} */
  get #choices() {
    const own = this.place.choices.filter(({ title, group }) => matches(this.#query, title, group))
    const results = this.#hits.map((hit) => {
      const [group, page, address] = KINDS[hit.kind]
      const note = present([hit.note, hit.status !== 'active' && hit.status]).join(', ')
      const run = () => void (location.hash = address(hit))
      return { group, title: hit.name ?? hit.id, note, path: this.place.paths[page] ?? '', run }
    })
    return [...own, ...results]
  }

  /** @param {string} query */
  async #search(query) {
    this.#query = query
    this.#at = 0
    this.#asking.abort()
    const { signal } = (this.#asking = new AbortController())
    // Remove earlier results that no longer match, so that they cannot be opened by mistake.
    this.#hits = this.#hits.filter(({ id, name, note }) => matches(query, id, name ?? '', note ?? ''))
    const text = query.trim()
    this.#isAsking = text.length >= SHORTEST && text.length <= LONGEST
    if (!this.#isAsking) this.#hits = []
    this.#draw()
    if (!this.#isAsking) return
    try {
      await sleep(PAUSE, signal)
      const answer = await get('/v1/search', { query: { q: text, limit: MOST }, signal })
      if (signal.aborted) return
      this.#hits = /** @type {Api.SearchResults} */ (answer).results.filter(({ kind }) => kind in KINDS)
      this.#fault = null
    } catch (error) {
      if (signal.aborted) return
      if (!(error instanceof ApiError)) throw error
      this.#hits = []
      this.#fault = unsearched(error)
    }
    this.#isAsking = false
    this.#draw()
  }

  /** @param {KeyboardEvent} event */
  #press(event) {
    const { length } = this.#choices
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key] ?? 0
    if (by && length) this.#at = (this.#at + by + length) % length
    else if (event.key === 'Enter' && !event.isComposing) this.#run(this.#at)
    else return
    event.preventDefault()
    this.#draw()
    this.element.querySelector('[aria-selected=true]')?.scrollIntoView({ block: 'nearest' })
  }

  /** @param {number} index */
  #run(index) {
    const choice = this.#choices[index]
    if (!choice) return
    this.element.close()
    choice.run()
  }

  #draw() {
    const choices = this.#choices
    const status = this.#isAsking
      ? 'Searching …'
      : choices.length
        ? count(choices.length, 'result')
        : `No results for “${this.#query.trim()}”.`
    const current = choices.length ? `choice-${this.#at}` : null
    put(
      this.element,
      html`<label class="asked"
          >${glyph('M7 2.5a4.5 4.5 0 1 0 .01 0M10.5 10.5 14 14')}<input
            role="combobox"
            aria-label="Search"
            aria-expanded="true"
            aria-controls="choices"
            aria-autocomplete="list"
            aria-activedescendant=${current}
            placeholder="Pages, actions, names, identifiers"
            maxlength=${LONGEST}
            autocomplete="off"
            spellcheck="false"
            dir="auto"
            autofocus
            @input=${(/** @type {Event} */ { target }) => this.#search(/** @type {HTMLInputElement} */ (target).value)}
            @keydown=${(/** @type {KeyboardEvent} */ event) => this.#press(event)}
          /><kbd>esc</kbd></label
        >
        <div class="choices" id="choices" role="listbox" aria-label="Results">${this.#groups(choices)}</div>
        <p class=${choices.length && !this.#fault ? 'unseen' : 'soft none'} role="status">${status} ${this.#fault}</p>`,
    )
  }

  /** @param {Choice[]} choices */
  #groups(choices) {
    return [...Map.groupBy(choices.entries(), ([, { group }]) => group)].map(
      ([group, own]) =>
        html`<div role="group" aria-label=${group}>
          <p aria-hidden="true">${group}</p>
          ${own.map(
            ([index, { title, note, path }]) =>
              html`<div
                role="option"
                id=${`choice-${index}`}
                aria-selected=${String(index === this.#at)}
                @click=${() => this.#run(index)}
              >
                ${glyph(path)}<bdi dir="auto">${title}</bdi>${
                  note && html`<small class="soft" dir="auto">${note}</small>`
                }
              </div>`,
          )}
        </div>`,
    )
  }
}

/** Return whether each word of a query is in any of these texts. @param {string} query @param {...string} texts */
const matches = (query, ...texts) =>
  query
    .toLowerCase()
    .split(/\s+/)
    .every((word) => texts.some((text) => text.toLowerCase().includes(word)))

/** @param {ApiError} error */
function unsearched(error) {
  if (error.status === 404 || error.status === 405)
    return 'This version of the service does not support search. Only pages and actions are listed.'
  if (error.status === 403) return 'This key cannot search. Only pages and actions are listed.'
  return advice(error)
}

/** Open the palette. @param {Place} place */
export const show = (place) => new Palette(place)
