/** Who can call the API, with what, and until when? */

import { all, ApiError, get, now, post, remove } from '../api.js'
import { count, date, short } from '../format.js'
import { html, put, svg } from '../html.js'
import { ask, field, showSecret } from '../parts/dialog.js'
import { announce, banner, called, heading, left, named, panel, ready, when } from '../parts/panel.js'
import { inWords, SCOPES } from '../parts/scopes.js'
import { empty, facts, listing, table } from '../parts/table.js'
import { stateOf, tag } from '../parts/tag.js'
import { may, signOut, who } from '../session.js'

/** @typedef {Api.ApiKeySummary} Key */

const DAY = 86_400
/** The whole length of the bar of days that are left. */
const BAR_DAYS = 30
const SOON_DAYS = 14

export const title = 'API keys'

/**
 * @param {HTMLElement} main
 * @param {{route: {parts: string[], query: URLSearchParams}, signal: AbortSignal}} context
 */
export async function show(main, { route, signal }) {
  const [id] = route.parts
  const account = route.query.get('account')
  const redraw = async () => { await Promise.all(panels.map((each) => each.redraw())) }
  const panels = [panel(null, () => keys(signal, account, redraw), { signal, what: 'The API keys', wide: true })]
  if (id) panels.unshift(panel('This key', () => detail(id, signal, redraw), { signal, what: 'The API key', wide: true }))
  const make = may() && html`<button type="button" class="main" @click=${() => create(account, redraw)}>New API key…</button>`
  put(main, heading(title, account ? html`Keys of one account. <a href="#/api-keys">Show all keys</a>` : 'Each program and each person has a key of its own. Its secret is shown once, when it is made.', make), panels.map((each) => each.element))
  await Promise.all(panels.map((each) => each.drawn))
  ready()
}

/**
 * @param {AbortSignal} signal
 * @param {string | null} account
 * @param {() => Promise<void>} redraw
 */
const keys = (signal, account, redraw) => listing('/v1/api-keys', 'api_keys', (rows) => table('API keys', [
  { heading: 'Name', cell: (key) => html`<a href=${`#/api-keys/${key.id}`}>${called(key.name)}</a>${key.id === who().api_key_id && html`<small class="soft">You are signed in with this key.</small>`}` },
  { heading: 'Scopes', cell: (key) => inWords(key.scopes) },
  { heading: 'Last used', cell: (key) => when(key.last_used_at) },
  { heading: 'Ends', cell: end },
  { heading: '', kind: 'action', cell: (key) => may() && (key.status === 'active'
    ? html`<button type="button" aria-label=${`Revoke ${key.name}`} @click=${() => revoke(key, redraw)}>Revoke…</button>`
    : html`<button type="button" aria-label=${`Delete ${key.name}`} @click=${() => erase(key, redraw)}>Delete…</button>`) },
], rows), { signal, query: { service_account_id: account }, nothing: empty('This account has no keys.') })

/**
 * When a key ends: a bar of the days that are left, of 30.
 * @param {Key} key
 */
function end(key) {
  if (key.status === 'revoked') return tag('revoked', 'revoked')
  if (!key.expires_at) return html`<span class="soft">never</span>`
  const seconds = (Date.parse(key.expires_at) - now()) / 1000
  if (seconds <= 0) return tag('expired', `expired ${date(key.expires_at)}`)
  const state = seconds < SOON_DAYS * DAY ? 'wait' : 'force'
  const width = Math.max(3, Math.min(1, seconds / (BAR_DAYS * DAY)) * 90)
  return html`<span class="days"><svg class="picture" viewBox="0 0 90 8" width="90" height="8" aria-hidden="true"><rect class="rail" width="90" height="8" rx="4"/>${svg`<rect class=${`fill ${state}`} width=${width} height="8" rx="4"/>`}</svg>${state === 'wait' ? tag('wait', `${left(key.expires_at)} left`) : html`<span>${left(key.expires_at)} left</span>`}</span>`
}

/**
 * @param {string} id
 * @param {AbortSignal} signal
 * @param {() => Promise<void>} redraw
 */
async function detail(id, signal, redraw) {
  const key = /** @type {Api.ApiKeyDetail} */ (await get(`/v1/api-keys/${id}`, { signal }))
  return [
    facts([
      ['Name', named(key.name)],
      ['Identifier', html`<code>${key.id}</code>`],
      ['Status', tag(stateOf(key.status), key.status)],
      ['Scopes', inWords(key.scopes)],
      ['Made', when(key.created_at)],
      ['Last used', when(key.last_used_at)],
      ['Requests', count(key.request_count, 'request')],
      ['Ends', end(key)],
    ]),
    may() && key.status === 'active' && html`<div class="actions">
      ${!wouldOutlive(key) && html`<button type="button" @click=${() => rotate(key, redraw)}>Replace…</button>`}
      <button type="button" @click=${() => revoke(key, redraw)}>Revoke…</button></div>
      ${wouldOutlive(key) && html`<p class="soft">To replace it, sign in with an API key that lasts longer: a key cannot make one that ends after itself.</p>`}`,
    html`<p><a href=${`#/audit?key=${key.id}`}>What this key did</a></p>`,
  ]
}

/**
 * @param {string | null} account
 * @param {() => Promise<void>} redraw
 */
async function create(account, redraw) {
  const accounts = /** @type {Api.ServiceAccount[]} */ (await all('/v1/service-accounts', 'service_accounts').catch(() => []))
  const made = await ask({
    title: 'New API key', action: 'Make the key', failed: 'The key could not be made.',
    body: [
      field('Name', html`<input name="name" required maxlength="255" autocomplete="off">`, 'For people: the program or the person that has it.'),
      html`<fieldset><legend>Scopes</legend>${Object.entries(SCOPES).map(([scope, words]) => html`<label class="tick"><input type="checkbox" name="scopes" value=${scope}> <span>${words} <small class="soft">${scope}</small></span></label>`)}</fieldset>`,
      field('Account', html`<select name="account"><option value="">None: it stands for itself</option>${accounts.map(({ id, name }) => html`<option value=${id} ?selected=${id === account}>${name}</option>`)}</select>`),
      field('Ends after', html`<select name="ends">${ends().map(([end, words, isUsual]) => html`<option value=${end} ?selected=${isUsual}>${words}</option>`)}</select>`, who().creates_until && SHORT_LIVED),
    ],
    run: async (form, headers) => {
      if (!form.has('scopes')) throw new ApiError(400, 'invalid_request', 'Choose what the key may do.', null)
      return post('/v1/api-keys', {
        name: form.get('name'), scopes: form.getAll('scopes'),
        service_account_id: form.get('account') || null, expires_at: form.get('ends') || null,
      }, { headers })
    },
  })
  if (made) await handOver(/** @type {Api.CreatedApiKey} */ (made), redraw)
}

/**
 * @param {Api.CreatedApiKey} made
 * @param {() => Promise<void>} redraw
 */
async function handOver(made, redraw) {
  await Promise.all([redraw(), showSecret('Store this key now', made.key, html`It is the secret of <bdi>${made.name}</bdi>, which ${inWords(made.scopes)}.`)])
}

const SHORT_LIVED = 'A key cannot make one that ends after itself. For a longer one, sign in with an API key that lasts longer.'

/**
 * The ends that a new key may have: none after the end of the key that makes it.
 * @returns {[string, string, boolean][]} the time, in words, and whether it is the usual one
 */
function ends() {
  const own = who().creates_until
  const last = own ? Date.parse(own) : Infinity
  /** @type {[number, string][]} */
  const lengths = [[30, '30 days'], [90, '90 days'], [365, 'a year']]
  const found = lengths.map(([days, words]) => /** @type {const} */ ([now() + days * DAY * 1000, words, days === 90])).filter(([end]) => end <= last)
  /** @type {[string, string, boolean]} */
  const longest = own ? [own, `${left(own)}, with the key that you are signed in with`, found.length < 2] : ['', 'never', false]
  return [...found.map(([end, words, isUsual]) => /** @type {[string, string, boolean]} */ ([`${new Date(end).toISOString().slice(0, 19)}Z`, words, isUsual])), longest]
}

/**
 * Whether a key that gets as much time as another one would end after the key that makes it.
 * @param {Key} key
 */
function wouldOutlive({ created_at, expires_at }) {
  const own = who().creates_until
  const length = expires_at ? Date.parse(expires_at) - Date.parse(created_at) : Infinity
  return own !== null && now() + length > Date.parse(own)
}

/**
 * @param {Key} key
 * @param {() => Promise<void>} redraw
 */
async function rotate(key, redraw) {
  const graces = [[0, 'at once'], [3600, 'in 1 h'], [DAY, 'in 1 day'], [7 * DAY, 'in 7 days']]
  const made = await ask({
    title: 'Replace this key', action: 'Make the new key', failed: 'The key could not be replaced.',
    body: [html`<p>A new key takes the place of <bdi>${key.name}</bdi>, with the same scopes and as much time as it was made with.</p>`,
      field('The old key ends', html`<select name="grace">${graces.map(([seconds, words]) => html`<option value=${seconds} ?selected=${seconds === DAY}>${words}</option>`)}</select>`, 'Until then both are accepted.')],
    run: (form, headers) => post(`/v1/api-keys/${key.id}/rotate`, { grace_seconds: Number(form.get('grace')) }, { headers }),
  })
  if (made) await handOver(/** @type {Api.RotatedApiKey} */ (made), redraw)
}

/**
 * @param {Key} key
 * @param {() => Promise<void>} redraw
 */
async function revoke(key, redraw) {
  const own = key.id === who().api_key_id
  const done = await ask({
    title: 'Revoke this key', action: `Revoke ${key.name}`, danger: true, failed: 'The key could not be revoked.',
    body: [html`<p>The next request with <bdi>${key.name}</bdi> (${short(key.id)}) is refused. This cannot be undone.</p>`, own && banner('wait', 'You are signed in with this key. You will be signed out.')],
    run: (_form, headers) => post(`/v1/api-keys/${key.id}/revoke`, undefined, { headers }).then(() => true),
  })
  if (!done) return
  if (own) return signOut().finally(() => location.reload())
  announce('The key is revoked.')
  await redraw()
}

/**
 * @param {Key} key
 * @param {() => Promise<void>} redraw
 */
async function erase(key, redraw) {
  const done = await ask({
    title: 'Delete this key', action: `Delete ${key.name}`, danger: true, failed: 'The key could not be deleted.',
    body: html`<p><bdi>${key.name}</bdi> leaves this list. What it did stays in the audit log. This cannot be undone.</p>`,
    run: () => remove(`/v1/api-keys/${key.id}`).then(() => true),
  })
  if (!done) return
  announce('The key is deleted.')
  await redraw()
}
