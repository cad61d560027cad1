/** Are revoked warrants refused everywhere, and until when? */

import { ApiError, all, call, get, now, post, repeat } from '../api.js'
import { isReplaced } from '../api_keys.js'
import { isSilent, quietAfter } from '../authorizers.js'
import { clock, count, date, number, short, span } from '../format.js'
import { html, one, put } from '../html.js'
import { advice, announce, banner, called, heading, keep, named, panel, picture, problem, ready, unreadable, when } from '../parts/panel.js'
import { tag } from '../parts/tag.js'
import { bar, bars, dial, holders, isDue, isNew, trouble, warning } from '../pictures/overview.js'
import { may, who } from '../session.js'

export const title = 'Overview'

/** @typedef {import('../pictures/overview.js').Day} Day */
/** @typedef {{list: Api.ListStatus | null, etag: string, at: number}} Known the list as the service said last, and when */
/** @typedef {{what: unknown, why: unknown, urgency: number, href?: string, action?: string, buttons?: unknown}} Task the lowest urgency comes first; it has a link, or buttons of its own */

const DAY = 86_400_000
/** Seconds between two looks at the list, at everything else, and after a change that was made here. */
const [OFTEN, SELDOM, AT_ONCE] = [5, 60, 1]
/** Pages of 100 authorizers, and of API keys, that are read at most. */
const PAGES = 10
const [TASKS, DAYS] = [8, 14]
const ENDS_SOON = 14 * DAY

/**
 * @param {HTMLElement} main
 * @param {{signal: AbortSignal}} context
 */
export async function show(main, { signal }) {
  const { known, elements, panels, steps, refresh, redraw, paint } = overview(signal)
  put(main, heading(title, 'What authorizers refuse at this moment, and what they do not know yet.'), elements,
    html`<div class="panels">${panels.map(({ element }) => element)}</div>`)
  await Promise.all(panels.map(({ drawn }) => drawn))
  if (signal.aborted) return
  paint()
  if (known.list && isNew(known.list)) put(steps, await import('./first_steps.js').then(({ firstSteps }) => firstSteps(signal)))
  ready()
  repeat(OFTEN, refresh, signal)
  repeat(SELDOM, async () => { await redraw(true) }, signal)
  repeat(AT_ONCE, async () => { if (known.list && isDue(known.list, now())) paint() }, signal)
}

/**
 * The parts of the page, and what draws them anew: with what is known, or with what is read again.
 * @param {AbortSignal} signal
 */
function overview(signal) {
  /** @type {Known} */
  const known = { list: null, etag: '', at: 0 }
  const [stale, alarm, fault, steps] = [0, 1, 2, 3].map(() => one(html`<div></div>`))
  const card = listCard(known)
  const first = keep(async () => (await look(known, signal), known.list))
  const list = panel(null, async () => (await first.read(), card.element), { signal, what: 'The list' })
  const fleet = keep(() => readFleet(signal))
  const parts = cards(signal, fleet.read, () => redraw(true)).map(({ name, what, read, draw }) => {
    const kept = keep(read)
    const shown = panel(name, async () => draw(await first.read().catch(unreadable) && known.list, await kept.read()), { signal, what })
    return { ...shown, drop: () => (fleet.drop(), kept.drop()) }
  })
  parts[2].element.classList.add('two')
  /** @type {(anew: boolean) => Promise<unknown>} */
  const redraw = (anew) => Promise.all(parts.map((part) => (anew && part.drop(), part.redraw())))
  const publish = publisher(known, signal, alarm, fault, async () => {
    await refresh()
    await redraw(true)
    // Authorizers learn of the list in the ten seconds after.
    let looks = 10
    repeat(AT_ONCE, async () => (parts[1].drop(), await parts[1].redraw(), --looks > 0), signal)
  })
  const paint = () => {
    if (known.list && !card.element.isConnected) list.redraw()
    card.redraw()
    publish.warn()
    // Three steps stand in place of zeros.
    const fresh = known.list !== null && isNew(known.list)
    for (const index of [0, 2]) parts[index].element.hidden = fresh
    if (!fresh) put(steps)
  }
  const refresh = async () => {
    if (await lookOrSay(known, signal, stale)) await redraw(false)
    paint()
  }
  return { known, elements: [stale, alarm, fault, steps], panels: [list, ...parts], steps, refresh, redraw, paint }
}

/**
 * Ask how the list stands. Returns whether anything has changed.
 * @param {Known} known
 * @param {AbortSignal} signal
 */
async function look(known, signal) {
  const headers = known.etag ? { 'If-None-Match': known.etag } : undefined
  const answer = await call('GET', '/v1/revocations/srl/status', undefined, { signal, headers })
  known.at = now()
  if (answer.status === 304) return false
  known.list = answer.body
  known.etag = answer.headers.get('ETag') ?? ''
  return true
}

/**
 * Do the same; if that fails, say how old the page is.
 * @param {Known} known
 * @param {AbortSignal} signal
 * @param {Element} stale
 */
async function lookOrSay(known, signal, stale) {
  try {
    const changed = await look(known, signal)
    put(stale)
    return changed
  } catch (error) {
    const told = stale.childElementCount > 0 || signal.aborted || !(error instanceof ApiError)
    if (!told && known.list) put(stale, banner('unknown', html`<strong>As of ${clock(known.at)} UTC.</strong> ${advice(error)}`))
    throw error
  }
}

/**
 * The list in force, and how long it is valid.
 * @param {Known} known
 */
function listCard(known) {
  const name = one(html`<h2></h2>`)
  const drawn = picture((width) => known.list && dial(known.list, now(), width))
  const signer = one(html`<p class="soft"></p>`)
  const redraw = () => {
    if (!known.list) return
    const { version, expires_at, key_id, issued_at } = known.list
    put(name, `List ${version} ${now() < Date.parse(expires_at) ? 'is in force' : 'has expired'}`)
    put(signer, 'Signed by ', html`<a href="#/lists">${short(key_id)}</a>`, ', ', when(issued_at))
    drawn.redraw()
  }
  return { element: one(html`<div class="body">${name}${drawn.element}${signer}</div>`), redraw }
}

/**
 * The worst that is wrong with the list, and a button that publishes the next one.
 * @param {Known} known
 * @param {AbortSignal} signal
 * @param {Element} alarm where it is said
 * @param {Element} fault where it is said that it could not be published
 * @param {() => Promise<void>} published
 */
function publisher(known, signal, alarm, fault, published) {
  const publish = async () => {
    button.disabled = true
    put(fault)
    try {
      const made = /** @type {Api.PublishedList} */ (await post('/v1/revocations/srl/regenerate', undefined, { signal }))
      announce(`List ${made.version} is published.`)
      await published()
    } catch (error) {
      if (!signal.aborted) put(fault, problem(error, 'The list could not be published.'))
    }
    button.disabled = false
  }
  const button = /** @type {HTMLButtonElement} */ (one(html`<button type="button" class="main" @click=${publish}>Publish now</button>`))
  const warn = () => {
    const kind = known.list && trouble(known.list, now())
    put(alarm, kind && known.list && banner(kind === 'expired' ? 'expired' : 'wait', warning(kind, known.list, now()), may() && button))
  }
  return { warn }
}

/**
 * The panels beside the list: what each reads, and how it is drawn with the list, which is null if
 * this key may not read it.
 * @param {AbortSignal} signal
 * @param {() => Promise<Api.Authorizer[]>} fleet
 * @param {() => Promise<unknown>} redraw
 * @returns {{name: string, what: string, read: () => Promise<any>, draw: (list: Api.ListStatus | null, data: any) => unknown}[]}
 */
const cards = (signal, fleet, redraw) => [
  { name: 'Revoked', what: 'What is revoked', read: () => readKeys(signal), draw: drawRevoked },
  { name: 'What authorizers hold', what: 'What the authorizers hold', read: fleet, draw: drawHolders },
  { name: 'Revocations per day', what: 'The revocations per day', read: () => readDays(signal), draw: drawDays },
  { name: 'Needs a person', what: 'What needs a person', read: () => readTasks(signal, fleet, redraw), draw: (_list, tasks) => drawTasks(tasks) },
]

/**
 * How many signing keys are in each state.
 * @param {AbortSignal} signal
 */
async function readKeys(signal) {
  const total = async (/** @type {string} */ status) => /** @type {Api.SigningKeyList} */ (await get('/v1/keys', { signal, query: { status, limit: 1 } })).total
  const [revoked, suspended, active] = await Promise.all(['revoked', 'suspended', 'active'].map(total))
  return { revoked, suspended, active }
}

/**
 * @param {Api.ListStatus | null} list
 * @param {{revoked: number, suspended: number, active: number}} keys
 */
function drawRevoked(list, { revoked, suspended, active }) {
  const row = (/** @type {import('../parts/tag.js').State} */ state, /** @type {string} */ words, /** @type {unknown} */ value) => html`<div>${tag(state, words)}<strong class="number">${value}</strong></div>`
  const waits = list && (list.pending > 0 || list.pending_truncated)
  return html`
    ${list ? html`<div><p class="big">${number(list.count)}</p><p class="soft">${list.count === 1 ? 'warrant' : 'warrants'} on list ${list.version}</p></div>` : html`<p class="soft">This key may not read how many warrants are revoked.</p>`}
    <div class="rowed">
      ${waits && row('wait', `waiting for list ${list.version + 1}`, list.pending_truncated ? `${number(list.pending)} or more` : number(list.pending))}
      ${row('revoked', 'keys revoked', number(revoked))}${row('suspended', 'keys suspended', number(suspended))}${row('force', 'keys that can sign', number(active))}
    </div>`
}

/**
 * @param {AbortSignal} signal
 * @returns {Promise<Api.Authorizer[]>}
 */
const readFleet = (signal) => all('/v1/authorizers', 'authorizers', { signal, most: PAGES })

/**
 * @param {Api.ListStatus | null} list
 * @param {Api.Authorizer[]} authorizers
 */
function drawHolders(list, authorizers) {
  if (!authorizers.length) {
    return html`<div class="empty"><p>No authorizer has reported yet. One that does is shown here with what it holds. <a href="#/api-keys">Give it a key</a> with the scope authorizer.</p></div>`
  }
  const newest = list?.feed_sequence ?? Math.max(...authorizers.map(({ sequence }) => sequence ?? 0))
  const pieces = holders(authorizers, newest, now())
  return html`
    <p class="soft">${count(authorizers.length, 'authorizer')}${authorizers.length >= PAGES * 100 && ' that registered last'}${!list && ', compared with the newest change that one of them holds'}</p>
    ${picture((width) => bar(pieces, width)).element}
    <div class="rowed">${pieces.map(({ state, words, count }) => html`<div>${tag(state, words)}<strong class="number">${number(count)}</strong></div>`)}</div>
    <p><a href="#/authorizers">See the authorizers</a></p>`
}

/** @param {AbortSignal} signal */
async function readDays(signal) {
  // The service would refuse; the panel says what to ask for.
  if (!may('revoker', 'auditor')) throw new ApiError(403, 'insufficient_scope', 'This key may not read revocations.', null)
  const from = date(now() - (DAYS - 1) * DAY)
  return /** @type {{days: Day[]}} */ (await get('/v1/revocations/counts', { signal, query: { from, to: date(now()) } })).days
}

/**
 * @param {Api.ListStatus | null} list
 * @param {Day[]} days
 */
function drawDays(list, days) {
  const pending = list?.pending ?? 0
  const since = date(list?.oldest_pending_at ?? now())
  const unknown = days.some(({ created }) => created === null)
  if (days.every(({ created }) => created === null)) return html`<div class="empty"><p>No day is counted yet. Revocations are counted as the audit log is sealed, within a minute or two.</p></div>`
  return html`${picture((width) => bars(days, { pending, since }, width)).element}
    <p class="legend"><span><i class="superseded"></i>recorded</span>${pending > 0 && html`<span><i class="wait striped"></i>not in the list yet</span>`}${unknown && html`<span>? not counted</span>`}<span class="soft">days in UTC</span></p>`
}

/**
 * What a person has to see to: what lets warrants in comes first.
 * @param {AbortSignal} signal
 * @param {() => Promise<Api.Authorizer[]>} fleet
 * @param {() => Promise<unknown>} redraw
 * @returns {Promise<Task[]>}
 */
async function readTasks(signal, fleet, redraw) {
  const [authorizers, webhooks, apiKeys, suspended, signers, approvals] = await Promise.all([
    fleet().catch(unreadable),
    /** @type {Promise<Api.Webhook[] | null>} */ (all('/v1/webhooks', 'webhooks', { signal }).catch(unreadable)),
    /** @type {Promise<Api.ApiKeySummary[]>} */ (all('/v1/api-keys', 'api_keys', { signal, most: PAGES }).catch(unreadable)),
    /** @type {Promise<Api.SigningKeyList | null>} */ (get('/v1/keys', { signal, query: { status: 'suspended', limit: 100 } }).catch(unreadable)),
    /** @type {Promise<Api.SrlKeyList>} */ (get('/v1/revocations/srl/keys', { signal })),
    // Keys neither ask nor decide.
    who().person_id ? import('../parts/approvals.js').then(({ approvalCards }) => approvalCards(signal, redraw)) : [],
  ])
  const keys = apiKeys ?? []
  const ending = keys.filter((key) => !isReplaced(key, keys)).flatMap(taskOf)
  return [...approvals.map((each) => ({ ...each, urgency: -5 })), ...ofFleet(authorizers ?? []), ...(webhooks ?? []).flatMap(broken), ...ending, ...(suspended?.keys ?? []).map(suspension), ...signers.keys.flatMap(ripe)].sort((one, other) => one.urgency - other.urgency)
}

/**
 * What a person has to see to in the fleet, one line for each kind.
 * @param {Api.Authorizer[]} found
 * @returns {Task[]}
 */
function ofFleet(found) {
  const line = (/** @type {Api.Authorizer[]} */ some, /** @type {string} */ why, /** @type {number} */ urgency) => some.length === 0 ? [] : [{
    what: some.length === 1 ? called(some[0].name) : count(some.length, 'authorizer'), why, urgency,
    href: some.length === 1 ? `#/authorizers/${some[0].id}` : '#/authorizers', action: 'Show',
  }]
  return [
    ...line(found.filter(({ foreign }) => foreign), 'told of entries that this service did not publish', -4),
    ...line(found.filter(({ allow_when_stale }) => allow_when_stale), 'set to let warrants in with too old a state', -3),
    ...line(found.filter((each) => isSilent(each, now(), found.length)), `not heard for ${span(quietAfter(found.length))}`, -2),
  ]
}

/**
 * @param {Api.Webhook} webhook
 * @returns {Task[]}
 */
function broken({ id, url, status, disabled_because, failing_since, set_aside }) {
  const why = status === 'disabled' ? disabled_because !== 'requested' && 'webhook, disabled as it failed' : failing_since ? html`webhook, accepts nothing since ${when(failing_since)}` : set_aside > 0 && `webhook, refused ${count(set_aside, 'event')}`
  return why ? [{ what: called(url), why, href: `#/webhooks/${id}`, action: 'Show', urgency: -1 }] : []
}

/**
 * @param {Api.ApiKeySummary} key
 * @returns {Task[]}
 */
function taskOf({ id, name, status, scopes, created_at, expires_at }) {
  const end = expires_at ? Date.parse(expires_at) : Infinity
  const ends = end - now()
  // One that was made for a day at most, as for a link to this page, is meant to end.
  if (status !== 'active' || ends <= 0 || end - Date.parse(created_at) <= DAY) return []
  const task = { what: named(name), href: `#/api-keys/${id}` }
  if (ends < ENDS_SOON) return [{ ...task, why: html`API key, expires ${when(expires_at)}`, action: 'Replace', urgency: ends }]
  return scopes.includes('admin') && !expires_at ? [{ ...task, why: 'API key, may do everything, never expires', action: 'Show', urgency: Infinity }] : []
}

/**
 * @param {Api.SigningKey} key
 * @returns {Task}
 */
const suspension = ({ id, name }) => ({ what: named(name), why: 'signing key, suspended: enable it or revoke it', href: `#/keys/${id}`, action: 'Decide', urgency: ENDS_SOON })

/**
 * @param {Api.SrlKey} signer
 * @returns {Task[]}
 */
function ripe({ key_id, status, activates_at }) {
  if (status !== 'pending' || !activates_at || Date.parse(activates_at) > now()) return []
  return [{ what: html`<code>${short(key_id)}</code>`, why: 'list signer, pending, and may sign now', href: '#/lists', action: 'Activate', urgency: 0 }]
}

/** @param {Task[]} tasks */
function drawTasks(tasks) {
  if (!tasks.length) return html`<div class="empty"><p>Nothing needs a person.</p></div>`
  return html`
    <div class="rowed">${tasks.slice(0, TASKS).map(({ what, why, href, action, buttons }) => html`<div><div><p>${what}</p><p class="soft"><small>${why}</small></p>${buttons && html`<div class="actions">${buttons}</div>`}</div>${href && html`<a href=${href}>${action}</a>`}</div>`)}</div>
    ${tasks.length > TASKS && html`<p class="soft">${number(tasks.length - TASKS)} more</p>`}`
}
