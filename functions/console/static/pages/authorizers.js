/** What does each authorizer say that it holds, and which of them are behind? */

import { behind, holds, isSilent, matching, quietAfter, worstFirst } from '../authorizers.js'
import { get, now, pages, remove, repeat } from '../api.js'
import { clock, count, number, span } from '../format.js'
import { html, one, put, svg } from '../html.js'
import { ask, field } from '../parts/dialog.js'
import { announce, banner, called, heading, named, panel, person, ready, when } from '../parts/panel.js'
import { empty, facts, liveTable } from '../parts/table.js'
import { tag } from '../parts/tag.js'
import { may } from '../session.js'

/** @typedef {Api.Authorizer} Authorizer */
/** @typedef {{newest: number, oldest: number}} Range entries of the feed that authorizers hold */

const MOST_PAGES = 200
const SCALE = 96
/** Rows of a page of the table. From so many authorizers on, they are searched. */
const [ROWS, SEARCHED] = [100, 20]
/** How often the page looks again, and the seconds that it leaves for each call of 100 authorizers. */
const [SECONDS, A_CALL] = [15, 3]

export const title = 'Authorizers'

/**
 * @param {HTMLElement} main
 * @param {{route: {parts: string[]}, signal: AbortSignal}} context
 */
export async function show(main, { route, signal }) {
  const [id] = route.parts
  const fleet = new Fleet(() => list.redraw())
  const list = panel(null, () => id ? detail(id, signal) : fleet.read(signal), { signal, what: 'The authorizers', wide: true })
  put(main, heading(title, id ? html`<a href="#/authorizers">All authorizers</a>` : html`What each of them said that it holds. Which of them refuse a warrant by now is told by its <a href="#/revocations">revocation</a>.`), list.element)
  await list.drawn
  ready()
  let looks = 0
  void repeat(SECONDS, async () => { if (++looks % fleet.turns === 0) await list.redraw() }, signal)
}

/** All authorizers, in one table that is renewed in place. */
class Fleet {
  /** @type {Authorizer[]} */
  #found = []
  /** @type {Range} */
  #range = { newest: 0, oldest: 0 }
  #first = 0
  #head = one(html`<div class="body"></div>`)
  #foot = one(html`<p class="soft" role="status"></p>`)
  #search = /** @type {HTMLInputElement} */ (one(html`<input type="search" autocomplete="off" spellcheck="false" @input=${() => this.#turn(0)}>`))
  #field = one(html`<div class="found">${field('Name, program, relay or owner', this.#search)}</div>`)
  #back = /** @type {HTMLButtonElement} */ (one(html`<button type="button" @click=${() => this.#turn(this.#first - ROWS)}>The ${ROWS} before</button>`))
  #on = /** @type {HTMLButtonElement} */ (one(html`<button type="button" @click=${() => this.#turn(this.#first + ROWS)}>The next ${ROWS}</button>`))

  /** @param {() => Promise<void>} redraw */
  constructor(redraw) {
    this.table = liveTable('Authorizers, those that are behind first', this.#columns(redraw))
    this.element = one(html`<div class="body">${this.#head}${this.#field}${this.table.element}<div class="foot">${this.#foot}<span class="actions">${this.#back}${this.#on}</span></div></div>`)
  }

  /** Of how many looks one reads them anew. */
  get turns() {
    return Math.max(1, Math.ceil((this.#found.length / 100) * (A_CALL / SECONDS)))
  }

  /** @param {AbortSignal} signal */
  async read(signal) {
    const found = await registered(signal)
    // After the reports, so that nobody holds more than the newest.
    const newest = await newestEntry(signal)
    if (!found.length) return empty(html`No authorizer is registered. Those with the client register by themselves; others by <code>POST /v1/authorizers/register</code>. Until then nobody can tell here who still lets a revoked warrant in.`)
    this.#range = { newest, oldest: Math.min(newest, ...found.map(({ sequence }) => sequence ?? newest)) }
    this.#found = worstFirst(found, newest, now())
    put(this.#head, summary(this.#found, newest), this.turns > 1 && html`<p class="soft">As of ${clock(now())} UTC. So many are read anew each ${span(this.turns * SECONDS)}.</p>`)
    this.#draw()
    return this.element
  }

  /** @param {number} first */
  #turn(first) {
    this.#first = first
    this.#draw()
  }

  #draw() {
    const found = matching(this.#found, this.#search.value)
    const first = this.#first = Math.max(0, Math.min(this.#first, Math.ceil(found.length / ROWS - 1) * ROWS))
    const last = Math.min(first + ROWS, found.length)
    this.table.renew(found.slice(first, last))
    this.#field.toggleAttribute('hidden', this.#found.length <= SEARCHED)
    this.#back.hidden = first === 0
    this.#on.hidden = last >= found.length
    put(this.#foot, found.length <= ROWS ? `${number(found.length)} of ${count(this.#found.length, 'authorizer')}` : `${number(first + 1)} to ${number(last)} of ${number(found.length)}`)
  }

  /**
   * @param {() => Promise<void>} redraw
   * @returns {import('../parts/table.js').Column[]}
   */
  #columns(redraw) {
    const remove_ = (/** @type {Authorizer} */ each) => may() && html`<button type="button" aria-label=${`Remove ${each.name}`} @click=${() => take(each, redraw)}>Remove…</button>`
    return [
      { heading: 'Name', cell: (each) => html`<a href=${`#/authorizers/${each.id}`}>${called(each.name)}</a>` },
      { heading: 'Holds', cell: (each) => html`<span class="holds">${scale(each, this.#range)}${state(each, this.#range.newest)}</span>` },
      { heading: 'Too old after', cell: (each) => html`${age(each)}${each.allow_when_stale && html`<small>${tag('wait', 'then lets warrants in')}</small>`}` },
      { heading: 'Last heard', cell: (each) => html`${when(each.seen_at)}${isSilent(each, now(), this.#found.length) && html`<small class="soft line">heartbeat missing</small>`}` },
      { heading: 'Refused', kind: 'number', cell: refusals },
      { heading: '', kind: 'action', cell: remove_ },
    ]
  }
}

/**
 * The newest entry of the feed.
 * @param {AbortSignal} signal
 */
const newestEntry = async (signal) => (/** @type {Api.ListStatus} */ (await get('/v1/revocations/srl/status', { signal }))).feed_sequence ?? 0

/** @param {AbortSignal} signal */
async function registered(signal) {
  /** @type {Authorizer[]} */
  const found = []
  let left = MOST_PAGES
  for await (const page of pages('/v1/authorizers', 'authorizers', { signal })) {
    found.push(.../** @type {Authorizer[]} */ (page))
    if (--left === 0) break
    if (page.length && found.length % 1000 === 0) announce(`${number(found.length)} authorizers are loaded.`)
  }
  return found
}

/**
 * @param {Authorizer[]} found
 * @param {number} newest
 */
function summary(found, newest) {
  const holding = found.filter((each) => holds(each, newest)).length
  const silent = found.filter((each) => isSilent(each, now(), found.length)).length
  const open = found.filter((each) => each.allow_when_stale).length
  return [
    html`<p>${number(holding)} of ${count(found.length, 'authorizer')} said that they hold entry ${number(newest)}, the newest.${silent > 0 && ` ${number(silent)} ${silent === 1 ? 'was' : 'were'} not heard for ${span(quietAfter(found.length))}.`}</p>`,
    open > 0 && banner('wait', html`${open === 1 ? '1 authorizer lets warrants in if what it holds' : `${number(open)} authorizers let warrants in if what they hold`} is too old (<code>allow_when_stale</code>): no time is known from when on ${open === 1 ? 'it refuses' : 'they refuse'} a warrant.`),
  ]
}

/** @param {Authorizer} authorizer */
function refusals({ refused }) {
  const all = Object.values(refused).reduce((sum, each) => sum + Number(each), 0)
  return all > 0 && number(all)
}

/** @param {Authorizer} authorizer */
const age = ({ max_staleness_seconds: seconds }) => seconds === null ? 'not reported' : span(seconds)

/**
 * What an authorizer holds, in words.
 * @param {Authorizer} authorizer
 * @param {number} newest
 */
function state(authorizer, newest) {
  const { sequence, foreign } = authorizer
  if (foreign) return tag('revoked', 'holds entries that are not ours')
  if (sequence === null) return tag('unknown', 'not reported yet')
  return holds(authorizer, newest) ? tag('force', `entry ${number(sequence)}`) : tag('wait', `${count(behind(authorizer, newest), 'entry', 'entries')} behind`)
}

/**
 * A dot on a line from the oldest entry that somebody holds to the newest.
 * @param {Authorizer} authorizer
 * @param {Range} range
 */
function scale(authorizer, { oldest, newest }) {
  const { sequence, foreign } = authorizer
  const known = sequence !== null && !foreign
  const x = known ? 6 + ((SCALE - 12) * (newest === oldest ? 1 : (Math.min(sequence, newest) - oldest) / (newest - oldest))) : 0
  return html`<svg class="picture scale" viewBox=${`0 0 ${SCALE} 12`} width=${SCALE} height="12" aria-hidden="true">${svg`<rect class="rail" y="5" width=${SCALE} height="2"/>${known && svg`<circle class=${`fill ${holds(authorizer, newest) ? 'force' : 'wait'}`} cx=${x} cy="6" r="5"/>`}`}</svg>`
}

/**
 * @param {string} id
 * @param {AbortSignal} signal
 */
async function detail(id, signal) {
  const [newest, each] = await Promise.all([newestEntry(signal), /** @type {Promise<Authorizer>} */ (get(`/v1/authorizers/${id}`, { signal }))])
  const said = Object.entries(each.refused)
  return [
    html`<h2>${named(each.name)}</h2>`,
    facts([
      ['Holds', state(each, newest)],
      ['Identifier', html`<code>${each.id}</code>`],
      ['Program', [each.type ?? 'not told', each.version && `, version ${each.version}`]],
      ['Registered', html`${when(each.registered_at)} by ${person(each.owner)}`],
      ['Last heard', html`${when(each.seen_at)}${each.relay && html`, by the relay <bdi>${each.relay}</bdi>`}`],
      ['Confirmed', when(each.verified_at, 'not reported')],
      ['Too old after', each.max_staleness_seconds === null ? 'not reported' : `${age(each)}; it said that then it ${each.allow_when_stale ? 'lets warrants in' : 'refuses them'}`],
      ['Answers it refused', said.length ? said.map(([reason, times]) => html`<div>${number(Number(times))} × <code>${reason}</code></div>`) : 'none'],
      ...Object.entries(each.metadata).map(([name, text]) => /** @type {[string, unknown]} */ ([name, named(text)])),
    ]),
  ]
}

/**
 * @param {Authorizer} authorizer
 * @param {() => Promise<void>} redraw
 */
async function take(authorizer, redraw) {
  const done = await ask({
    title: 'Remove this authorizer', action: `Remove ${authorizer.name}`, danger: true,
    body: html`<p><bdi>${authorizer.name}</bdi> does not count any more when the service says who refuses a warrant. It is not stopped: an authorizer that still runs goes on with its key. Revoke the key to stop it.</p>`,
    run: () => remove(`/v1/authorizers/${authorizer.id}`).then(() => true),
  })
  if (!done) return
  announce('The authorizer is removed.')
  await redraw()
}
