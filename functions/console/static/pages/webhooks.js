/** Where do events go, and did they arrive? */

import { ApiError, get, post, remove, repeat } from '../api.js'
import { count, number } from '../format.js'
import { html, put } from '../html.js'
import { ask, field, showSecret } from '../parts/dialog.js'
import { announce, called, heading, named, panel, ready, when } from '../parts/panel.js'
import { empty, facts, listing, table } from '../parts/table.js'
import { tag } from '../parts/tag.js'
import { may } from '../session.js'

/** @typedef {Api.Webhook} Webhook */
/** @typedef {() => Promise<void>} Redraw */

const DAY = 86_400
const BECAUSE = { requested: 'by a person', gone: 'it answered 410', failing: 'it accepted nothing for a day' }
/** How often and how many times a page looks for the outcome of what was sent just now. */
const [SECONDS, LOOKS] = [2, 15]
/** Groups of events that people want together, by the beginning of their names. */
const GROUPS = [['*', 'Everything, also what later releases add'], ['revocation.', 'Warrants are revoked, and taken back'], ['key.', 'Signing keys change, or are about to expire'], ['srl.', 'Lists are published, their signers change'], ['api_key.', 'API keys change, or are about to expire'], ['authorizer.', 'Authorizers register, or fall behind']]

export const title = 'Webhooks'

/**
 * @param {HTMLElement} main
 * @param {{route: {parts: string[]}, signal: AbortSignal}} context
 */
export async function show(main, { route, signal }) {
  const [id] = route.parts
  // What is sent now is tried at once: its outcome is shown as it comes.
  const follow = () => {
    let looks = LOOKS
    void repeat(SECONDS, async () => (await Promise.all([shown.redraw(), sent?.redraw()]), --looks > 0), signal)
  }
  const shown = panel(null, (redraw) => id ? one(id, signal, redraw, follow) : webhooks(signal), { signal, what: 'The webhooks', wide: true })
  const sent = id ? panel('Messages', () => deliveries(id, signal), { signal, what: 'The messages', wide: true }) : null
  const make = !id && may() && html`<button type="button" class="main" @click=${() => create(shown.redraw)}>New webhook…</button>`
  put(main, heading(title, id ? html`<a href="#/webhooks">All webhooks</a>` : 'Each change is sent to these addresses, signed, for a day until they take it. An event may come twice.', make), shown.element, sent?.element)
  await Promise.all([shown.drawn, sent?.drawn])
  ready()
}

/** @param {AbortSignal} signal */
const webhooks = (signal) => listing('/v1/webhooks', 'webhooks', (rows) => table('Webhooks', [
  { heading: 'Address', cell: (webhook) => html`<a href=${`#/webhooks/${webhook.id}`}>${called(webhook.url)}</a>${webhook.description && html`<small class="soft">${named(webhook.description)}</small>`}` },
  { heading: 'State', cell: state },
  { heading: 'Events', cell: ({ events }) => events.includes('*') ? 'all' : count(events.length, 'type') },
  { heading: 'Made', cell: ({ created_at }) => when(created_at) },
], rows), { signal, nothing: empty('No webhooks yet. Make one to hear of changes in your own programs, such as a chat or an alarm.') })

/** @param {Webhook} webhook */
function state({ status, disabled_because, failing_since, set_aside }) {
  if (status === 'disabled') return tag('suspended', `disabled: ${disabled_because ? BECAUSE[disabled_because] : 'not known why'}`)
  if (failing_since) return html`${tag('wait', 'accepts nothing')} <small class="soft">since ${when(failing_since)}</small>`
  return set_aside > 0 ? tag('wait', `refused ${count(set_aside, 'event')}`) : tag('force', 'enabled')
}

/**
 * @param {string} id
 * @param {AbortSignal} signal
 * @param {Redraw} redraw
 * @param {() => void} follow
 */
async function one(id, signal, redraw, follow) {
  const webhook = /** @type {Webhook} */ (await get(`/v1/webhooks/${id}`, { signal }))
  return [
    facts([
      ['Address', named(webhook.url)],
      ['What it is for', webhook.description ? named(webhook.description) : 'not told'],
      ['State', state(webhook)],
      ['Next attempt', webhook.waits_until ? when(webhook.waits_until) : 'with the next event'],
      ['Events', webhook.events.includes('*') ? 'all' : webhook.events.map((/** @type {string} */ event) => html`<code>${event}</code> `)],
      ['Sent up to', `event ${number(webhook.next_index)} of the log`],
      ['Made', when(webhook.created_at)],
    ]),
    may() && actions(webhook, redraw, follow),
  ]
}

/**
 * @param {Webhook} webhook
 * @param {Redraw} redraw
 * @param {() => void} follow shows what becomes of messages that are sent now
 */
function actions(webhook, redraw, follow) {
  const path = `/v1/webhooks/${webhook.id}`
  const toggle = webhook.status === 'enabled' ? 'disable' : 'enable'
  const tested = async () => {
    announce('A test event is on its way. Its outcome is shown below.')
    follow()
  }
  return html`<div class="actions">
    <button type="button" @click=${() => change({ title: 'Send a test event', action: 'Send', text: 'It is an event of its own type, rescind.test.', run: (headers) => post(`${path}/test`, undefined, { headers }) }, tested)}>Test…</button>
    <button type="button" @click=${() => replay(path, follow)}>Send again…</button>
    <button type="button" @click=${() => rotate(path)}>Replace the secret…</button>
    <button type="button" @click=${() => change({ title: `${toggle === 'enable' ? 'Enable' : 'Disable'} this webhook`, action: toggle === 'enable' ? 'Enable' : 'Disable', text: toggle === 'enable' ? 'It is sent what happened while it was disabled.' : 'Nothing is sent until it is enabled again. Then it is sent what happened meanwhile.', run: (headers) => post(`${path}/${toggle}`, undefined, { headers }) }, redraw)}>${toggle === 'enable' ? 'Enable…' : 'Disable…'}</button>
    <button type="button" @click=${() => change({ title: 'Delete this webhook', action: 'Delete', danger: true, text: 'What was not sent yet is not sent. This cannot be undone.', run: () => remove(path) }, async () => { location.hash = '#/webhooks' })}>Delete…</button>
  </div>`
}

/**
 * @param {{title: string, action: string, text: string, danger?: boolean, run: (headers: Record<string, string>) => Promise<unknown>}} what
 * @param {Redraw} redraw
 */
async function change({ run, text, ...question }, redraw) {
  const done = await ask({ ...question, body: html`<p>${text}</p>`, run: (_form, headers) => run(headers).then(() => true) })
  if (done) await redraw()
}

/** @param {Redraw} redraw */
async function create(redraw) {
  const made = await ask({
    title: 'New webhook', action: 'Make the webhook', failed: 'The webhook could not be made.',
    body: [
      field('Address', html`<input name="url" type="url" required placeholder="https://hooks.example.com/rescind" autocomplete="off">`, 'https, at port 443, of a host that others can reach too.'),
      html`<fieldset><legend>Events</legend>${GROUPS.map(([group, words], index) => html`<label class="tick"><input type="checkbox" name="events" value=${group} ?checked=${index === 0}> <span>${words}</span></label>`)}</fieldset>`,
      field('What it is for', html`<input name="description" maxlength="1024" autocomplete="off">`, 'You may leave this empty.'),
    ],
    run: async (form, headers) => post('/v1/webhooks', {
      url: form.get('url'), description: String(form.get('description')).trim() || null, events: await types(form.getAll('events').map(String)),
    }, { headers }),
  })
  if (made) await Promise.all([redraw(), secret(/** @type {Api.WebhookWithSecret} */ (made))])
}

/**
 * The types of events of the chosen groups.
 * @param {string[]} chosen
 */
async function types(chosen) {
  if (!chosen.length) throw new ApiError(400, 'invalid_request', 'Choose at least one kind of event.', null)
  if (chosen.includes('*')) return ['*']
  const { ACTIONS } = await import('../parts/audit_sentences.js')
  const known = ACTIONS.map((action) => action === 'srl.regenerate' ? 'srl.published' : action).filter((action) => action !== 'webhook.test')
  return known.filter((action) => chosen.some((group) => action.startsWith(group)))
}

/** @param {Api.WebhookWithSecret} webhook */
const secret = (webhook) => showSecret('Store this secret now', webhook.secret, 'Your program checks by it that a message comes from this service (standardwebhooks.com).')

/** @param {string} path */
async function rotate(path) {
  const made = await ask({
    title: 'Replace the secret', action: 'Make the new secret', failed: 'The secret could not be replaced.',
    body: field('Messages also bear a signature by the old secret', html`<select name="grace"><option value="0">no more</option><option value=${DAY} selected>for 1 day</option><option value=${7 * DAY}>for 7 days</option></select>`, 'Until then a program that knows either secret accepts them.'),
    run: (form, headers) => post(`${path}/rotate-secret`, { grace_seconds: Number(form.get('grace')) }, { headers }),
  })
  if (made) await secret(/** @type {Api.WebhookWithSecret} */ (made))
}

/**
 * @param {string} path
 * @param {() => void} follow
 */
async function replay(path, follow) {
  const done = await ask({
    title: 'Send events again', action: 'Send again', failed: 'They could not be sent again.',
    body: field('From the event with this number on', html`<input name="index" required inputmode="numeric" pattern="[0-9]+" autocomplete="off">`, 'Each message below has its number.'),
    run: (form, headers) => post(`${path}/replay`, { from_index: Number(form.get('index')) }, { headers }).then(() => true),
  })
  if (!done) return
  announce('They are sent again, with the same identifiers as the first time.')
  follow()
}

/**
 * @param {string} id
 * @param {AbortSignal} signal
 */
const deliveries = (id, signal) => listing(`/v1/webhooks/${id}/deliveries`, 'deliveries', (rows) => table('Messages', [
  { heading: 'Event', cell: (each) => html`<code>${each.type}</code><small class="soft">number ${each.index}</small>` },
  { heading: 'State', cell: (each) => tag(each.state === 'delivered' ? 'force' : each.state === 'failed' ? 'revoked' : 'wait', each.state) },
  { heading: 'Last answer', cell: (each) => html`${outcome(each)}${each.answer && html`<small class="soft">${named(each.answer)}</small>`}` },
  { heading: 'Attempts', kind: 'number', cell: (each) => number(each.attempts) },
  { heading: 'Last sent', cell: (each) => when(each.attempted_at) },
], rows), { signal, nothing: empty('Nothing was sent yet.') })

/** @param {Api.Delivery} delivery */
const outcome = ({ outcome: met, status, milliseconds }) => met === 'answered' ? `${status} after ${number(milliseconds)} ms` : met === 'refused' ? 'not sent: the name leads to an address that is not public' : 'no complete answer'
