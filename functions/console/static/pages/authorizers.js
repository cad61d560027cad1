/** Which authorizers are behind, and which still let a revoked warrant in? */

import { get, now, pages, remove, repeat } from '../api.js'
import { count, nameOf, number, span } from '../format.js'
import { html, svg } from '../html.js'
import { ask } from '../parts/dialog.js'
import { announce, banner, heading, named, panel, ready, when } from '../parts/panel.js'
import { empty, facts, longList, table } from '../parts/table.js'
import { tag } from '../parts/tag.js'
import { isSilent } from '../pictures/overview.js'
import { may } from '../session.js'

/** @typedef {Api.Authorizer} Authorizer */
/** @typedef {{newest: number, oldest: number}} Range entries of the feed that authorizers hold */

const GROUP = 20
const MOST_PAGES = 200
const SCALE = 96
/** How often the page looks again, and at most at how many authorizers: a hundred are a call. */
const [SECONDS, FOLLOWED] = [15, 500]

export const title = 'Authorizers'

/**
 * @param {HTMLElement} main
 * @param {{route: {parts: string[]}, signal: AbortSignal}} context
 */
export async function show(main, { route, signal }) {
  const [id] = route.parts
  let known = 1
  const load = async (/** @type {() => Promise<void>} */ redraw) => {
    if (id) return one(id, signal)
    const found = await registered(signal)
    known = found.length
    return fleet(found, signal, redraw)
  }
  const list = panel(null, load, { signal, what: 'The authorizers', wide: true })
  main.replaceChildren(heading(title, id ? html`<a href="#/authorizers">All authorizers</a>` : 'What each of them said that it holds. A revoked warrant is refused by those that hold the newest entry.'), list.element)
  await list.drawn
  ready()
  // What a person is at stays as it is.
  const isUsed = () => document.querySelector('dialog') || list.element.contains(document.activeElement) || list.element.querySelector('details[open]')
  void repeat(SECONDS, async () => { if (known <= FOLLOWED && !isUsed()) await list.redraw() }, signal)
}

/**
 * @param {Authorizer[]} found
 * @param {AbortSignal} signal
 * @param {() => Promise<void>} redraw
 */
async function fleet(found, signal, redraw) {
  // After the reports, so that nobody holds more than the newest.
  const newest = await newestEntry(signal)
  if (!found.length) return empty(html`No authorizer is registered. Those with the client register by themselves; others by <code>POST /v1/authorizers/register</code>. Until then nobody can tell here who still lets a revoked warrant in.`)
  const range = { newest, oldest: Math.min(newest, ...found.map(({ sequence }) => sequence ?? newest)) }
  found.sort((a, b) => lag(b, newest) - lag(a, newest) || a.name.localeCompare(b.name))
  return [summary(found, newest), [...grouped(found)].map(([name, members]) => members.length > GROUP ? collapsed(name, members, range) : rows(members, range, redraw))]
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
 * By how many entries an authorizer is behind; those that told nothing come first.
 * @param {Authorizer} authorizer
 * @param {number} newest
 */
const lag = ({ sequence, foreign }, newest) => foreign ? Infinity : sequence === null ? Number.MAX_SAFE_INTEGER : newest - sequence

/**
 * @param {Authorizer[]} found
 * @param {number} newest
 */
function summary(found, newest) {
  const holding = found.filter((each) => lag(each, newest) <= 0).length
  const open = found.filter((each) => each.allow_when_stale).length
  return [
    html`<p>${number(holding)} of ${count(found.length, 'authorizer')} said that they hold entry ${number(newest)}, the newest.</p>`,
    open > 0 && banner('wait', html`${count(open, 'authorizer')} ${open === 1 ? 'lets' : 'let'} warrants in when what they hold is too old (<code>allow_when_stale</code>): no time is known from when on they refuse a warrant.`),
  ]
}

/**
 * Small groups together, under no name; large ones by what is before the last dash of their names.
 * @param {Authorizer[]} found
 * @returns {Map<string, Authorizer[]>}
 */
function grouped(found) {
  /** @type {Map<string, Authorizer[]>} */
  const groups = new Map()
  const add = (/** @type {string} */ name, /** @type {Authorizer} */ each) => groups.set(name, [...(groups.get(name) ?? []), each])
  const family = (/** @type {string} */ name) => name.slice(0, Math.max(0, name.lastIndexOf('-')))
  const sizes = new Map()
  for (const { name } of found) sizes.set(family(name), (sizes.get(family(name)) ?? 0) + 1)
  groups.set('', [])
  for (const each of found) add(sizes.get(family(each.name)) > GROUP ? family(each.name) || 'others' : '', each)
  return groups
}

/**
 * @param {string} name
 * @param {Authorizer[]} members
 * @param {Range} range
 */
function collapsed(name, members, range) {
  const behind = members.filter((each) => lag(each, range.newest) > 0).length
  const fill = (/** @type {Event} */ event) => {
    const details = /** @type {HTMLDetailsElement} */ (event.target)
    if (details.open && details.childElementCount === 1) details.append(longList(name, members, (each) => line(each, range)))
  }
  return html`<details @toggle=${fill}><summary>${named(name)} <span>${count(members.length, 'authorizer')}</span> ${behind ? tag('wait', `${number(behind)} not at the newest`) : tag('force', 'all hold the newest')}</summary></details>`
}

/**
 * A row of a long list.
 * @param {Authorizer} authorizer
 * @param {Range} range
 */
const line = (authorizer, range) => html`<span role="cell"><a href=${`#/authorizers/${authorizer.id}`}>${authorizer.name}</a></span><span role="cell">${state(authorizer, range.newest)}</span><span role="cell" class="soft">${when(authorizer.seen_at)}</span>`

/**
 * @param {Authorizer[]} members
 * @param {Range} range
 * @param {() => Promise<void>} redraw
 */
const rows = (members, range, redraw) => members.length > 0 && table('Authorizers', [
  { heading: 'Name', cell: (each) => html`<a href=${`#/authorizers/${each.id}`}>${named(each.name)}</a>` },
  { heading: 'Holds', cell: (each) => html`${scale(each, range)} ${state(each, range.newest)}` },
  { heading: 'Last heard', cell: (each) => html`${when(each.seen_at)}${isSilent(each, now()) && html`<small class="soft">a heartbeat is missing</small>`}` },
  { heading: 'Refused', kind: 'number', cell: refusals },
  { heading: '', kind: 'action', cell: (each) => may() && html`<button type="button" aria-label=${`Remove ${each.name}`} @click=${() => take(each, redraw)}>Remove…</button>` },
], members)

/** @param {Authorizer} authorizer */
const refusals = ({ refused }) => number(Object.values(refused).reduce((sum, each) => sum + Number(each), 0))

/**
 * What an authorizer holds, in words.
 * @param {Authorizer} authorizer
 * @param {number} newest
 */
function state({ sequence, foreign, verified_at, max_staleness_seconds, allow_when_stale }, newest) {
  if (foreign) return tag('revoked', 'holds entries that are not ours')
  if (sequence === null) return tag('unknown', 'not reported yet')
  if (sequence >= newest) return tag('force', `entry ${number(sequence)}`)
  const closed = verified_at !== null && max_staleness_seconds !== null && !allow_when_stale && now() > Date.parse(verified_at) + max_staleness_seconds * 1000
  const behind = `${count(newest - sequence, 'entry', 'entries')} behind`
  return closed ? tag('superseded', `${behind}, refuses everything`) : html`${tag('wait', behind)}${allow_when_stale && html`<small class="soft">lets warrants in when stale</small>`}`
}

/**
 * A dot on a line from the oldest entry that somebody holds to the newest.
 * @param {Authorizer} authorizer
 * @param {Range} range
 */
function scale({ sequence, foreign }, { oldest, newest }) {
  const known = sequence !== null && !foreign
  const x = known ? 6 + ((SCALE - 12) * (newest === oldest ? 1 : (sequence - oldest) / (newest - oldest))) : 0
  return html`<svg class="picture scale" viewBox=${`0 0 ${SCALE} 12`} width=${SCALE} height="12" aria-hidden="true">${svg`<rect class="rail" y="5" width=${SCALE} height="2"/>${known && svg`<circle class=${`fill ${sequence >= newest ? 'force' : 'wait'}`} cx=${x} cy="6" r="5"/>`}`}</svg>`
}

/**
 * @param {string} id
 * @param {AbortSignal} signal
 */
async function one(id, signal) {
  const [newest, each] = await Promise.all([newestEntry(signal), /** @type {Promise<Authorizer>} */ (get(`/v1/authorizers/${id}`, { signal }))])
  const said = Object.entries(each.refused)
  return [
    html`<h2>${named(each.name)}</h2>`,
    facts([
      ['Holds', state(each, newest)],
      ['Identifier', html`<code>${each.id}</code>`],
      ['Program', [each.type ?? 'not told', each.version && `, version ${each.version}`]],
      ['Registered', html`${when(each.registered_at)} by <bdi title=${each.owner}>${nameOf(each.owner)}</bdi>`],
      ['Last heard', html`${when(each.seen_at)}${each.relay && html`, by the relay <bdi>${each.relay}</bdi>`}`],
      ['Confirmed', when(each.verified_at, 'not reported')],
      ['Too old after', each.max_staleness_seconds === null ? 'not reported' : `${span(each.max_staleness_seconds)}; then it ${each.allow_when_stale ? 'lets warrants in' : 'refuses everything'}`],
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
