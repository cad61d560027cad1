/** The page of webhooks: their events and deliveries. */

import { ApiError, post, remove } from '../api.js'
import { count, number } from '../format.js'
import { html, put } from '../html.js'
import { subscribe, Pages } from '../store.js'
import { ask, choice, confirm, field, showSecret, tick } from '../components/dialog.js'
import { announce, button, heading, userText, when } from '../components/panel.js'
import { tag } from '../components/tag.js'
import { thing } from '../components/timeline.js'
import { hasScope } from '../session.js'
import { listPage, Table, terms } from '../table.js'

/** @typedef {Api.Webhook} Webhook */

const DAY = 86_400
const BECAUSE = { requested: 'by a person', gone: 'responded with 410', failing: 'failed for a day' }
/** Common groups of events, by prefix of their names. */
const GROUPS = [
  ['*', 'All events, including future types'],
  ['revocation.', 'Warrants are revoked or unrevoked'],
  ['key.', 'Signing keys change or are about to expire'],
  ['srl.', 'SRLs are published, or SRL signers change'],
  ['api_key.', 'API keys change or are about to expire'],
  ['authorizer.', 'Authorizers register or lag'],
]

export const title = 'Webhooks'

/** @type {import('../app.js').Page['show']} */
export const show = async (main, context) => {
  const [id] = context.route.parts
  if (id) {
    const sent = new Table({ ...messages, id: `webhooks/${id}` }, context)
    const pages = new Pages('deliveries', 5, keyOf)
    return subscribe(() => {
      const change = terms(sent.requestedFilter).find(({ id: name }) => name === 'change')?.value
      const draw = (/** @type {Webhook} */ webhook) => ({
        ...detail(webhook),
        parts: [html`<h2>Deliveries</h2>`, sent.element],
      })
      put(main, thing(`/v1/webhooks/${id}`, 5, { title, href: '#/webhooks', noun: 'webhook' }, draw))
      sent.draw(pages.read(`/v1/webhooks/${id}/deliveries`, { limit: '100', change }))
    }, context.signal)
  }
  const make = hasScope() && button('New webhook…', create, 'main')
  const words = 'Events are signed and sent to these URLs, with retries for a day. An event may be delivered twice.'
  const source = { path: '/v1/webhooks', list: 'webhooks', seconds: 10 }
  listPage(main, context, webhooks, source, () => heading(title, words, make))
}

/** @type {import('../table.js').Spec} */
const webhooks = {
  id: 'webhooks',
  noun: 'webhooks',
  sort: 'url',
  mark: 'state',
  open: ({ id }) => `#/webhooks/${id}`,
  columns: [
    { id: 'url', title: 'URL', width: 'minmax(200px, 2fr)', kind: 'name' },
    { id: 'state', title: 'State', width: 'minmax(200px, 1fr)', text: filterWords, cell: state },
    { id: 'description', title: 'Description', width: 'minmax(140px, 1fr)', from: 900, of: 'description' },
    { id: 'events', title: 'Event types', width: '88px', value: ({ events }) => typeCount(events) ?? 'all' },
    { id: 'created', title: 'Created', width: '124px', from: 1000, of: 'created_at', kind: 'time' },
  ],
  sub: ({ description, events }) =>
    html`${typeCount(events) ?? 'all events'}${description && html` · <bdi>${description}</bdi>`}`,
  facets: () => [
    { title: 'Failing', query: 'state:failing', state: 'wait' },
    { title: 'Disabled', query: 'state:disabled', state: 'suspended' },
  ],
  actions: (webhook) => (hasScope() ? actions(webhook) : []),
  empty: html`<p>No webhooks yet. Create one to receive changes in your own systems, such as chat or alerting.</p>`,
}

/** Return the number of event types; null for all. @param {string[]} events */
const typeCount = (events) => (events.includes('*') ? null : count(events.length, 'type'))

/** Return the filter words of a webhook. @param {Webhook} webhook */
function filterWords({ status, failing_since: failing, deferred_events }) {
  return [status, failing && 'failing', deferred_events > 0 && 'deferred'].filter(Boolean).join(' ')
}

/** @param {Webhook} webhook */
function state({ status, disabled_reason, failing_since, deferred_events }) {
  if (status === 'disabled')
    return tag('suspended', `disabled: ${disabled_reason ? BECAUSE[disabled_reason] : 'unknown reason'}`)
  if (failing_since) return html`${tag('wait', 'failing')} <span class="soft">since ${when(failing_since)}</span>`
  return deferred_events > 0 ? tag('wait', count(deferred_events, 'deferred event')) : tag('force', 'enabled')
}

/** @param {Webhook} webhook @returns {import('../components/timeline.js').Thing} */
const detail = (webhook) => ({
  name: webhook.url,
  actions: hasScope() ? actions(webhook) : [],
  known: [
    ['Description', webhook.description ? userText(webhook.description) : 'none'],
    ['State', state(webhook)],
    ['Next attempt', webhook.next_attempt_at ? when(webhook.next_attempt_at) : 'with the next event'],
    ['Event types', webhook.events.includes('*') ? 'all' : webhook.events.map((event) => html`<code>${event}</code> `)],
    ['Next event', number(webhook.next_index)],
    ['Created', when(webhook.created_at)],
  ],
})

/** @param {Webhook} webhook @returns {import('../table.js').Action[]} */
function actions({ id, status }) {
  const path = `/v1/webhooks/${id}`
  /** @param {keyof typeof ACTS} act */
  const change = async (act) => {
    const [title, action, text, success] = ACTS[act]
    const isEnd = act === 'delete'
    const done = await confirm({
      title,
      action,
      danger: isEnd,
      body: html`<p>${text}</p>`,
      success,
      run: (headers) => (isEnd ? remove(path) : post(`${path}/${act}`, undefined, { headers })),
    })
    if (done && isEnd) location.hash = '#/webhooks'
  }
  return [
    { title: 'Send test event…', run: () => change('test') },
    { title: 'Replay…', run: () => replay(path) },
    { title: 'Rotate secret…', run: () => rotate(path) },
    status === 'enabled'
      ? { title: 'Disable…', run: () => change('disable') }
      : { title: 'Enable…', run: () => change('enable') },
    { title: 'Delete…', danger: true, run: () => change('delete') },
  ]
}

/** Actions on a webhook: title of the dialog, button, consequences, and the message after success. */
const ACTS = {
  test: [
    'Send test event',
    'Send',
    'The event has its own type, rescind.test.',
    'Test event queued. Its result appears under Deliveries.',
  ],
  disable: [
    'Disable webhook',
    'Disable',
    'No events are sent until you enable it again. Then it receives the events that it missed.',
    'Webhook disabled.',
  ],
  enable: [
    'Enable webhook',
    'Enable',
    'It receives the events that it missed while it was disabled.',
    'Webhook enabled.',
  ],
  delete: [
    'Delete webhook',
    'Delete',
    'Events that are not delivered yet are discarded. This cannot be undone.',
    'Webhook deleted.',
  ],
}

async function create() {
  const placeholder = 'https://hooks.example.com/rescind'
  const url = html`<input name="url" type="url" required placeholder=${placeholder} autocomplete="off" />`
  const webhook = await ask({
    title: 'New webhook',
    action: 'Create webhook',
    failed: 'The webhook could not be created.',
    body: [
      field('URL', url, 'An https URL on port 443 of a public host.'),
      html`<fieldset>
        <legend>Event types</legend>
        ${GROUPS.map(([group, words], index) =>
          tick(html`<input type="checkbox" name="events" value=${group} ?checked=${index === 0} />`, words),
        )}
      </fieldset>`,
      field('Description', html`<input name="description" maxlength="1024" autocomplete="off" />`, 'Optional.'),
    ],
    run: async (form, headers) =>
      post(
        '/v1/webhooks',
        {
          url: form.get('url'),
          description: String(form.get('description')).trim() || null,
          events: await types(form.getAll('events').map(String)),
        },
        { headers },
      ),
  })
  if (webhook) await showSigningSecret(/** @type {Api.WebhookWithSecret} */ (webhook))
}

/**
 * Return the event types of the selected groups.
 * @param {string[]} chosen
 */
async function types(chosen) {
  if (!chosen.length) throw new ApiError(400, 'invalid_request', 'Select at least one event type.', null)
  if (chosen.includes('*')) return ['*']
  const { ACTIONS } = await import('../components/audit_sentences.js')
  const known = ACTIONS.map((action) => (action === 'srl.regenerate' ? 'srl.published' : action))
  return known.filter((type) => type !== 'webhook.test' && chosen.some((group) => type.startsWith(group)))
}

/** @param {Api.WebhookWithSecret} webhook */
const showSigningSecret = ({ secret }) =>
  showSecret(
    'Store this secret now',
    secret,
    'Your program uses it to verify that an event comes from this service (standardwebhooks.com).',
  )

/** @param {string} path */
async function rotate(path) {
  const webhook = await ask({
    title: 'Rotate secret',
    action: 'Generate secret',
    failed: 'The secret could not be rotated.',
    body: field(
      'The old secret also signs events',
      choice('grace', [
        [0, 'no longer'],
        [DAY, 'for 1 day', true],
        [7 * DAY, 'for 7 days'],
      ]),
      'Programs with either secret can verify events until then.',
    ),
    run: (form, headers) => post(`${path}/rotate-secret`, { grace_seconds: Number(form.get('grace')) }, { headers }),
  })
  if (webhook) await showSigningSecret(/** @type {Api.WebhookWithSecret} */ (webhook))
}

/** @param {string} path */
const replay = (path) =>
  ask({
    title: 'Replay events',
    action: 'Replay events',
    failed: 'The events could not be replayed.',
    body: field(
      'First event',
      html`<input name="index" required inputmode="numeric" pattern="[0-9]+" autocomplete="off" />`,
      'The number of the event, as listed under Deliveries.',
    ),
    run: async (form, headers) => {
      await post(`${path}/replay`, { from_index: Number(form.get('index')) }, { headers })
      announce('The replay has started. Events keep their identifiers.')
    },
  })

/** @param {Api.Delivery} delivery */
const keyOf = ({ id, index }) => `${id} ${index}`

/** @type {import('../table.js').Spec} */
const messages = {
  id: 'webhooks',
  noun: 'deliveries',
  sort: '-sent',
  mark: 'state',
  key: keyOf,
  isLow: true,
  columns: [
    { id: 'event', title: 'Event type', width: 'minmax(170px, 1fr)', of: 'type', kind: 'code' },
    { id: 'number', title: 'Number', width: '92px', kind: 'number', of: 'index' },
    {
      id: 'state',
      title: 'State',
      width: '116px',
      value: ({ state }) => state,
      cell: ({ state }) => tag(state === 'delivered' ? 'force' : state === 'failed' ? 'revoked' : 'wait', state),
    },
    {
      id: 'response',
      title: 'Last response',
      width: 'minmax(180px, 2fr)',
      text: (each) => `${outcome(each)} ${each.response ?? ''}`,
    },
    { id: 'attempts', title: 'Attempts', width: '92px', from: 860, kind: 'number' },
    { id: 'change', title: 'Change', text: () => '', is: () => true },
    { id: 'sent', title: 'Last attempt', width: '116px', of: 'attempted_at', kind: 'time' },
  ],
  sub: (each) => html`${outcome(each)} · ${when(each.attempted_at)}`,
  facets: () => [
    { title: 'Failed', query: 'state:failed', state: 'revoked' },
    { title: 'Retrying', query: 'state:retrying', state: 'wait' },
  ],
  empty: html`<p>No deliveries yet.</p>`,
}

/** @param {Api.Delivery} delivery */
const outcome = ({ outcome: met, status, duration_ms }) =>
  met === 'response'
    ? `${status} after ${number(duration_ms)} ms`
    : met === 'blocked'
      ? 'blocked: the host has no public address'
      : 'no complete response'
