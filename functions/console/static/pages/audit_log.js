/** Who did what, when, and is the log whole? */

import { ApiError, call, get, now } from '../api.js'
import { count, date, dayBegins, dayEnds, nameOf, number, second, short } from '../format.js'
import { html, one, put } from '../html.js'
import { banner, called, heading, named, panel, problem, ready } from '../parts/panel.js'
import { ACTIONS, folded, sentence } from '../parts/audit_sentences.js'
import { advance, download } from '../parts/progress.js'
import { empty, facts, footer } from '../parts/table.js'
import { icon } from '../parts/tag.js'
import { showCheck } from './sealed_log.js'

/** @typedef {Api.AuditEntry} Entry */
/** @typedef {import('../parts/audit_sentences.js').Run} Run */

/** The filters of the page: the name in its address, the parameter of the API, and the words. */
const FILTERS = /** @type {const} */ ([
  ['warrant', 'warrant_id', 'Warrant', 'svc_wrt_…'],
  ['actor', 'actor', 'Who', 'admin@local.svc'],
  ['key', 'actor_key_id', 'With the API key', 'svc_ak_…'],
  ['batch', 'batch_id', 'Batch', 'svc_bat_…'],
  ['resource', 'resource_id', 'About', 'svc_…'],
])
const DAYS = 7
const DAY = 86_400_000
const FIRST = '2000-01-01T00:00:00Z'

export const title = 'Audit'

/**
 * @param {HTMLElement} main
 * @param {{route: {query: URLSearchParams}, signal: AbortSignal}} context
 */
export async function show(main, { route, signal }) {
  const { query } = route
  const list = panel(null, () => entries(query, signal), { signal, what: 'The audit log', wide: true, lines: 10 })
  const place = one(html`<div class="body"></div>`)
  const actions = [
    html`<button type="button" @click=${() => save('ndjson', query, place, signal)}>Export NDJSON</button>`,
    html`<button type="button" @click=${() => save('csv', query, place, signal)}>Export CSV</button>`,
    html`<button type="button" @click=${() => showCheck(place, signal)}>Check the log…</button>`,
  ]
  put(main, heading(title, 'Each change leaves an entry, in the same write as the change.', actions), place, filters(query), list.element)
  await list.drawn
  ready()
}

/** @param {URLSearchParams} query */
function filters(query) {
  const search = (/** @type {SubmitEvent} */ event) => {
    event.preventDefault()
    const given = [...new FormData(/** @type {HTMLFormElement} */ (event.target))].filter(([, value]) => value !== '')
    location.hash = `#/audit?${new URLSearchParams(given.map(([name, value]) => [name, String(value)]))}`
  }
  const open = query.size > 0 || matchMedia('(min-width: 720px)').matches
  return html`<details class="panel wide" ?open=${open}><summary>Filters</summary><form class="filters" role="search" @submit=${search}>
    <label class="field"><span>Action</span><select name="action"><option value="">all</option>${ACTIONS.map((action) => html`<option ?selected=${action === query.get('action')}>${action}</option>`)}</select></label>
    ${FILTERS.map(([name, , words, example]) => html`<label class="field"><span>${words}</span><input name=${name} value=${query.get(name)} placeholder=${example} autocomplete="off" spellcheck="false"></label>`)}
    <label class="field"><span>From</span><input type="date" name="from" value=${query.get('from')}></label>
    <label class="field"><span>To</span><input type="date" name="to" value=${query.get('to')}></label>
    <div class="actions"><button class="main">Search</button>${query.size > 0 && html`<a href="#/audit">Show all</a>`}</div>
  </form></details>`
}

/** @param {number} time */
const iso = (time) => `${new Date(time).toISOString().slice(0, 19)}Z`

/**
 * What happened to one warrant or in one batch is little, and is shown whole.
 * @param {URLSearchParams} query
 */
const isOfAllTimes = (query) => query.has('warrant') || query.has('batch')

/**
 * The parameters of the API for the filters of the address. An export has the window of the page.
 * @param {URLSearchParams} query
 * @returns {Record<string, string | null>}
 */
function parameters(query) {
  const [from, to] = [query.get('from'), query.get('to')]
  const end = to ? dayEnds(to) : iso(now())
  const begin = from ? dayBegins(from) : isOfAllTimes(query) ? FIRST : iso(Date.parse(end) - DAYS * DAY)
  return Object.fromEntries([
    ['action', query.get('action')], ['from', begin], ['to', to && end],
    ...FILTERS.map(([name, parameter]) => [parameter, query.get(name)]),
  ])
}

/**
 * @param {URLSearchParams} query
 * @param {AbortSignal} signal
 */
async function entries(query, signal) {
  const place = one(html`<div class="body"></div>`)
  /** @type {Entry[]} */
  const found = []
  const asked = parameters(query)
  /** @param {string | null} cursor */
  const load = async (cursor) => {
    const answer = /** @type {Api.AuditEntryList} */ (await get('/v1/audit-logs', { signal, query: { limit: 100, ...asked, cursor } }))
    found.push(...answer.audit_logs)
    const more = answer.cursor ? () => load(answer.cursor).catch((error) => draw(problem(error, 'The next entries could not be loaded.'))) : null
    const draw = (/** @type {unknown} */ fault = null) => void put(place, html`<p class="soft">${total(answer.total, query)}</p>`, found.length ? days(found) : empty('Nothing happened that these filters find.'), more && footer(found.length, answer.total, more), fault)
    draw()
  }
  await load(null)
  return place
}

/**
 * @param {number} entries_
 * @param {URLSearchParams} query
 */
function total(entries_, query) {
  return `${count(entries_, 'entry', 'entries')} ${window_(query)}. Times are UTC.`
}

/** @param {URLSearchParams} query */
function window_(query) {
  const until = query.has('to') ? `until ${query.get('to')}` : ''
  if (query.has('from')) return `since ${query.get('from')}${until && `, ${until}`}`
  if (isOfAllTimes(query)) return until || 'of all times'
  return until ? `of the ${DAYS} days ${until}` : `of the last ${DAYS} days`
}

/** @param {Entry[]} found */
function days(found) {
  /** @type {Map<string, Entry[]>} */
  const byDay = new Map()
  for (const entry of found) {
    const day = date(entry.timestamp)
    byDay.set(day, [...(byDay.get(day) ?? []), entry])
  }
  return [...byDay].map(([day, of]) => html`<section aria-label=${day}><h2>${day}</h2><div class="log">${folded(of).map((run) => one(line(run)))}</div></section>`)
}

/** @param {Run} run */
function line(run) {
  const { who, did, what } = sentence(run)
  const [newest] = run.entries
  const fill = (/** @type {Event} */ event) => {
    const details = /** @type {HTMLDetailsElement} */ (event.target)
    if (details.open && details.childElementCount === 1) details.append(...run.entries.map((entry) => one(fact(entry))))
  }
  return html`<details @toggle=${fill}><summary><time datetime=${newest.timestamp}>${second(newest.timestamp).slice(11)}</time>${mark(run.action)}<span class="said"><bdi>${who}</bdi> ${did} <bdi>${what}</bdi></span></summary></details>`
}

/**
 * A shape for what cannot be undone, and for what needs a look; none for the rest.
 * @param {string} action
 */
function mark(action) {
  if (/\.(revoke|revoke_key|remove|delete)$/.test(action) && action !== 'revocation.delete') return icon('revoked')
  return /\.(stale|expiring|repair|disable|suspend|new_generation)$/.test(action) ? icon('wait') : html`<span class="icon"></span>`
}

/** @param {Entry} entry */
const fact = (entry) => html`<div class="entry">${facts([
  ['Time', `${second(entry.timestamp)} UTC`],
  ['Action', html`<code>${entry.action}</code>`],
  ['Who', html`${named(entry.actor_id ? nameOf(entry.actor, entry.actor_name) : entry.actor)}${entry.actor_key_id && html` with the API key <a href=${`#/api-keys/${entry.actor_key_id}`}>${called(entry.actor_name ?? short(entry.actor_key_id))}</a>`}`],
  ['About', html`<code>${entry.resource_id}</code>`],
  ['From', entry.source_ip ?? 'the machine of the service'],
  ['Request', entry.request_id ? html`<code>${entry.request_id}</code>` : 'none'],
  ['Entry', html`<code>${entry.id}</code>`],
  ...Object.entries(entry.details).map(([name, value]) => /** @type {[string, unknown]} */ ([name, named(typeof value === 'string' ? value : JSON.stringify(value))])),
])}</div>`

/**
 * Let the person keep all entries that the filters find, part by part.
 * @param {'ndjson' | 'csv'} format
 * @param {URLSearchParams} query
 * @param {Element} place
 * @param {AbortSignal} signal
 */
async function save(format, query, place, signal) {
  /** @type {ArrayBuffer[]} */
  const parts = []
  const asked = parameters(query)
  /** @type {string | null} */
  let cursor = null
  const step = async () => {
    if (parts.length && cursor === null) return null
    const answer = await call('GET', '/v1/audit-logs/export', undefined, { signal, query: { ...asked, format, cursor } })
    parts.push(answer.body)
    cursor = answer.headers.get('X-Next-Cursor')
    return `${number(Math.round(parts.reduce((sum, part) => sum + part.byteLength, 0) / 1024))} kB are loaded.`
  }
  try {
    if (!await advance(place, step, signal)) return put(place, banner('info', 'Stopped. No file was made.'))
    download(`audit-${date(now())}.${format}`, format === 'csv' ? 'text/csv' : 'application/x-ndjson', parts)
    put(place, banner('force', `The file is complete. It has what is shown below: ${window_(query)}.`))
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    put(place, problem(error, 'The log could not be exported. No file was made.', () => save(format, query, place, signal)))
  }
}
