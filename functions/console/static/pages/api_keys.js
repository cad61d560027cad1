/** The page of API keys: their scopes, use and expiry. */

import { all, ApiError, now, post, remove } from '../api.js'
import { count, date, short, stamp } from '../format.js'
import { html, put, svg } from '../html.js'
import { subscribe } from '../store.js'
import { ask, choice, confirm, field, showSecret, tick } from '../components/dialog.js'
import { banner, button, heading, left, when } from '../components/panel.js'
import { inWords, SCOPES } from '../components/scopes.js'
import { stateOf, tag } from '../components/tag.js'
import { thing } from '../components/timeline.js'
import { hasScope, signOut, currentCaller } from '../session.js'
import { listPage, whole } from '../table.js'

/** @typedef {Api.ApiKeySummary} Key */

const DAY = 86_400
/** Days that the full width of the bar represents. */
const BAR_DAYS = 30
const SOON_DAYS = 14

export const title = 'API keys'

/** @type {import('../app.js').Page['show']} */
export const show = async (main, context) => {
  const [id] = context.route.parts
  const of = { title, href: '#/api-keys', noun: 'API key' }
  if (id) return subscribe(() => put(main, thing(`/v1/api-keys/${id}`, 5, of, detail)), context.signal)
  const account = context.route.query.get('account')
  const maker = context.route.query.get('maker')
  const filter = account ? `?service_account_id=${account}` : maker ? `?created_by_id=${maker}` : ''
  const make = hasScope() && button('New API key…', () => create(account), 'main')
  const words = filter
    ? html`API keys ${account ? 'of one service account' : 'that one caller created'}.
        <a href="#/api-keys">Show all API keys</a>`
    : 'Create a separate key for each program and person. Its secret is shown once, when the key is created.'
  listPage(main, context, keys, { path: `/v1/api-keys${filter}`, list: 'api_keys', seconds: 15 }, () =>
    heading(title, words, make),
  )
}

/** @type {import('../table.js').Spec} */
const keys = {
  id: 'api-keys',
  noun: 'API keys',
  sort: 'name',
  mark: 'expires',
  open: ({ id }) => `#/api-keys/${id}`,
  columns: [
    { id: 'name', title: 'Name', width: 'minmax(180px, 2fr)', cell: nameOf },
    {
      id: 'permissions',
      title: 'Permissions',
      width: 'minmax(150px, 2fr)',
      from: 900,
      value: ({ scopes }) => inWords(scopes),
    },
    { id: 'scope', title: 'Scopes', text: ({ scopes }) => scopes.join(' ') },
    { id: 'used', title: 'Last used', width: '124px', of: 'last_used_at', kind: 'time' },
    { id: 'created', title: 'Created', width: '124px', from: 1000, of: 'created_at', kind: 'time' },
    {
      id: 'expires',
      title: 'Expires',
      width: '236px',
      value: ({ expires_at: at }) => at,
      text: ({ expires_at: at }) => at ?? 'never',
      cell: end,
    },
    { id: 'state', title: 'State', text: filterWords },
  ],
  sub: ({ scopes, last_used_at: at }) => html`${inWords(scopes)} · used ${when(at)}`,
  facets: () => [
    { title: 'Expires soon', query: 'state:soon', state: 'wait' },
    { title: 'Never expires', query: 'state:permanent' },
    { title: 'Revoked', query: 'state:revoked', state: 'revoked' },
    { title: 'Expired', query: 'state:expired', state: 'expired' },
    { title: 'Full access', query: 'scope:admin' },
  ],
  actions,
  empty: html`<p>No API keys yet.</p>`,
}

/** @param {Key} key */
function nameOf({ id, name }) {
  return html`<span class="line-of">${whole(name)}${id === currentCaller().api_key_id && tag('info', 'you')}</span>`
}

/** Return the filter words of a key. @param {Key} key */
function filterWords({ status, expires_at: expiry, last_used_at: used }) {
  const seconds = expiry ? (Date.parse(expiry) - now()) / 1000 : Infinity
  const soon = status === 'active' && seconds > 0 && seconds < SOON_DAYS * DAY && 'soon'
  return [seconds <= 0 ? 'expired' : status, soon, !expiry && 'permanent', !used && 'unused'].filter(Boolean).join(' ')
}

/**
 * Return the expiry of a key, as a bar of the remaining days (at most 30).
 * @param {Key} key
 */
function end(key) {
  if (key.status === 'revoked') return tag('revoked', 'revoked')
  if (!key.expires_at) return html`<span class="soft">never</span>`
  const seconds = (Date.parse(key.expires_at) - now()) / 1000
  if (seconds <= 0) return tag('expired', `expired ${date(key.expires_at)}`)
  const state = seconds < SOON_DAYS * DAY ? 'wait' : 'force'
  const width = Math.max(3, Math.min(1, seconds / (BAR_DAYS * DAY)) * 90)
  const words = `${left(key.expires_at)} left`
  return html`<span class="days"
    ><svg class="picture" viewBox="0 0 90 8" width="90" height="8" aria-hidden="true">
      <rect class="rail" width="90" height="8" rx="4" />
      ${svg`<rect class=${`fill ${state}`} width=${width} height="8" rx="4"/>`}</svg
    >${state === 'wait' ? tag('wait', words) : html`<span>${words}</span>`}</span
  >`
}

/** @param {Api.ApiKeyDetail} key @returns {import('../components/timeline.js').Thing} */
const detail = (key) => ({
  name: key.name,
  actions: actions(key),
  known: [
    ['Identifier', html`<code>${key.id}</code>`],
    ['Status', tag(stateOf(key.status), key.status)],
    ['Scopes', inWords(key.scopes)],
    ['Created', when(key.created_at)],
    ['Created by', key.created_by_id ? html`<code>${key.created_by_id}</code>` : 'an operator'],
    ['Last used', when(key.last_used_at)],
    ['Requests', count(key.request_count, 'request')],
    ['Expires', end(key)],
    ['Allowed networks', key.networks.length ? key.networks.join(', ') : 'all'],
  ],
  more: [
    hasScope() && key.status === 'active' && wouldOutlive(key) && html`<p class="soft">${OUTLIVED}</p>`,
    key.status === 'revoked' && html`<p><a href=${`#/changes/${key.id}`}>Propagation</a></p>`,
  ],
})

/** @param {Key} key */
function actions(key) {
  const isActive = key.status === 'active'
  const end = isActive ? { title: 'Revoke…', run: () => revoke(key) } : { title: 'Delete…', run: () => erase(key) }
  return [
    hasScope() && isActive && !wouldOutlive(key) && { title: 'Rotate…', run: () => rotate(key) },
    { title: 'Audit log for this key', run: () => void (location.hash = `#/audit?key=${key.id}`) },
    hasScope() && { ...end, danger: true },
  ]
}

const OUTLIVED =
  'To rotate this key, sign in with an API key that expires later. A key cannot create a key that outlives it.'

/** @param {string | null} account */
async function create(account) {
  /** @type {Api.ServiceAccount[]} */
  const accounts = await all('/v1/service-accounts', 'service_accounts').catch(() => [])
  /** @param {Api.ServiceAccount} each @returns {[string, string, boolean]} */
  const option = ({ id, name }) => [id, name, id === account]
  const scopeBox = (/** @type {string[]} */ [scope, words]) =>
    tick(
      html`<input type="checkbox" name="scopes" value=${scope} />`,
      html`${words} <small class="soft">${scope}</small>`,
    )
  const key = await ask({
    title: 'New API key',
    action: 'Create key',
    failed: 'The key could not be created.',
    body: [
      field(
        'Name',
        html`<input name="name" required maxlength="255" />`,
        'The program or the person that uses the key.',
      ),
      html`<fieldset>
        <legend>Scopes</legend>
        ${Object.entries(SCOPES).map(scopeBox)}
      </fieldset>`,
      field('Service account', choice('account', [['', 'None'], ...accounts.map(option)])),
      field(
        'Networks',
        html`<input name="networks" placeholder="192.0.2.0/24, 2001:db8::/32" autocomplete="off" />`,
        'Up to 10 networks that can use the key. If empty, all can.',
      ),
      endField('Expires after'),
    ],
    run: async (form, headers) => {
      if (!form.has('scopes')) throw new ApiError(400, 'invalid_request', 'Select at least one scope.')
      return post(
        '/v1/api-keys',
        {
          name: form.get('name'),
          scopes: form.getAll('scopes'),
          service_account_id: form.get('account') || null,
          expires_at: form.get('ends') || null,
          networks: String(form.get('networks'))
            .split(/[\s,]+/)
            .filter(Boolean),
        },
        { headers },
      )
    },
  })
  if (key) await showKey(/** @type {Api.CreatedApiKey} */ (key))
}

/** @param {Api.CreatedApiKey} created */
async function showKey({ name, scopes, key }) {
  await showSecret('Store this key now', key, html`Secret of <bdi>${name}</bdi>. Permissions: ${inWords(scopes)}.`)
}

/**
 * Return the field for the expiry of a new key. It ends no later than the key that creates it.
 * @param {string} label
 */
export function endField(label) {
  const own = currentCaller().can_create_until
  // For people the limit moves with time, and was read when the page was loaded.
  const last = own ? Date.parse(own) + (currentCaller().person_id ? DAY * 500 : 0) : Infinity
  /** @type {[string, string, boolean?][]} */
  const ends = []
  for (const [days, words] of /** @type {[number, string][]} */ ([
    [30, '30 days'],
    [90, '90 days'],
    [365, '1 year'],
  ])) {
    const end = now() + days * DAY * 1000
    if (end <= last) ends.push([stamp(end), words, days === 90])
  }
  let hint = null
  if (currentCaller().person_id) {
    if (!ends.length) ends.push([String(own), left(String(own)), true])
    hint = 'Keys that people create must expire: with full access, after at most 90 days.'
  } else if (own) {
    ends.push([own, `${left(own)}, together with your own key`, ends.length < 2])
    hint =
      'A key cannot create one that outlives it. For a longer lifetime, sign in with an API key that expires later.'
  } else ends.push(['', 'never'])
  return field(label, choice('ends', ends), hint)
}

/**
 * Return whether a replacement with the same lifetime would outlive the key that creates it.
 * @param {Key} key
 */
function wouldOutlive({ created_at, expires_at }) {
  const own = currentCaller().can_create_until
  const length = expires_at ? Date.parse(expires_at) - Date.parse(created_at) : Infinity
  return own !== null && now() + length > Date.parse(own)
}

/** @param {Key} key */
async function rotate(key) {
  const replacement = await ask({
    title: 'Rotate API key',
    action: 'Rotate key',
    failed: 'The key could not be rotated.',
    body: [
      html`<p>A new key replaces <bdi>${key.name}</bdi>, with the same scopes and the same lifetime.</p>`,
      field(
        'Old key expires',
        choice('grace', [
          [0, 'immediately'],
          [3600, 'in 1 h'],
          [DAY, 'in 1 day', true],
          [7 * DAY, 'in 7 days'],
        ]),
        'Both keys are accepted until then.',
      ),
    ],
    run: (form, headers) =>
      post(`/v1/api-keys/${key.id}/rotate`, { grace_seconds: Number(form.get('grace')) }, { headers }),
  })
  if (replacement) await showKey(/** @type {Api.RotatedApiKey} */ (replacement))
}

/** @param {Key} key */
async function revoke(key) {
  const own = key.id === currentCaller().api_key_id
  const done = await confirm({
    title: 'Revoke API key',
    action: `Revoke ${key.name}`,
    danger: true,
    failed: 'The key could not be revoked.',
    body: [
      html`<p>
        Requests with <bdi>${key.name}</bdi> (${short(key.id)}) are refused from now on. This cannot be undone.
      </p>`,
      own && banner('wait', 'You are signed in with this key. You will be signed out.'),
    ],
    run: (headers) => post(`/v1/api-keys/${key.id}/revoke`, undefined, { headers }),
    success: 'API key revoked.',
  })
  if (done && own) return signOut().finally(() => location.reload())
  if (done) location.hash = `#/changes/${key.id}`
}

/** @param {Key} key */
async function erase(key) {
  const done = await confirm({
    title: 'Delete API key',
    action: `Delete ${key.name}`,
    danger: true,
    failed: 'The key could not be deleted.',
    body: html`<p><bdi>${key.name}</bdi> is removed from this page. Its audit entries stay. This cannot be undone.</p>`,
    run: () => remove(`/v1/api-keys/${key.id}`),
    success: 'API key deleted.',
  })
  if (done) location.hash = '#/api-keys'
}
