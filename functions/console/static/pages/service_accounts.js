/** Which programs call, and who stops one of them with all its keys? */

import { post, remove } from '../api.js'
import { html, put } from '../html.js'
import { ask, field } from '../parts/dialog.js'
import { announce, called, heading, named, panel, ready, when } from '../parts/panel.js'
import { empty, listing, table } from '../parts/table.js'
import { stateOf, tag } from '../parts/tag.js'
import { may } from '../session.js'

/** @typedef {Api.ServiceAccount} Account */

export const title = 'Accounts'

/**
 * @param {HTMLElement} main
 * @param {{signal: AbortSignal}} context
 */
export async function show(main, { signal }) {
  const list = panel(null, (redraw) => accounts(signal, redraw), { signal, what: 'The accounts', wide: true })
  const make = may() && html`<button type="button" class="main" @click=${() => create(list.redraw)}>New account…</button>`
  put(main, heading(title, 'An account stands for a program. Its keys come and go; in the audit log the name stays.', make), list.element)
  await list.drawn
  ready()
}

/**
 * @param {AbortSignal} signal
 * @param {() => Promise<void>} redraw
 */
const accounts = (signal, redraw) => listing('/v1/service-accounts', 'service_accounts', (rows) => table('Accounts', [
  { heading: 'Name', cell: (account) => html`${called(account.name)}${account.description && html`<small class="soft">${named(account.description)}</small>`}` },
  { heading: 'In the audit log', cell: (account) => html`<code>${account.email}</code>` },
  { heading: 'Status', cell: (account) => tag(stateOf(account.status), account.status) },
  { heading: 'Made', cell: (account) => when(account.created_at) },
  { heading: 'Keys', cell: (account) => html`<a href=${`#/api-keys?account=${account.id}`}>Keys of ${account.name}</a>` },
  { heading: '', kind: 'action', cell: (account) => may() && actions(account, redraw) },
], rows), { signal, nothing: empty('No accounts yet. Make one for each program that calls the API, then give it a key.') })

/**
 * @param {Account} account
 * @param {() => Promise<void>} redraw
 */
const actions = (account, redraw) => html`<span class="actions">${account.status === 'active'
  ? html`<button type="button" aria-label=${`Disable ${account.name}`} @click=${() => disable(account, redraw)}>Disable…</button>`
  : html`<button type="button" aria-label=${`Enable ${account.name}`} @click=${() => enable(account, redraw)}>Enable…</button>`}
  <button type="button" aria-label=${`Delete ${account.name}`} @click=${() => erase(account, redraw)}>Delete…</button></span>`

/** @param {() => Promise<void>} redraw */
async function create(redraw) {
  const made = await ask({
    title: 'New account', action: 'Make the account', failed: 'The account could not be made.',
    body: [
      field('Name', html`<input name="name" required pattern="[a-z0-9\\-]{1,63}" autocomplete="off" autocapitalize="none" spellcheck="false">`, 'Small letters, digits and dashes. It stays reserved, also when the account is deleted.'),
      field('What it is for', html`<textarea name="description" rows="2" maxlength="1024"></textarea>`, 'You may leave this empty.'),
    ],
    run: (form, headers) => post('/v1/service-accounts', { name: form.get('name'), description: String(form.get('description')).trim() || null }, { headers }),
  })
  if (!made) return
  announce('The account is made. It needs a key.')
  await redraw()
}

/**
 * @param {Account} account
 * @param {() => Promise<void>} redraw
 */
const disable = (account, redraw) => change(account, redraw, {
  title: 'Disable this account', action: `Disable ${account.name}`, path: 'disable', danger: false, said: 'The account is disabled.',
  text: 'The next request with any of its keys is refused, until the account is enabled again.',
})

/**
 * @param {Account} account
 * @param {() => Promise<void>} redraw
 */
const enable = (account, redraw) => change(account, redraw, {
  title: 'Enable this account', action: `Enable ${account.name}`, path: 'enable', danger: false, said: 'The account is enabled.',
  text: 'Those of its keys that are neither revoked nor expired are accepted again.',
})

/**
 * @param {Account} account
 * @param {() => Promise<void>} redraw
 */
const erase = (account, redraw) => change(account, redraw, {
  title: 'Delete this account', action: `Delete ${account.name}`, path: null, danger: true, said: 'The account is deleted.',
  text: 'Its keys must be deleted first. Its name stays reserved, as the audit log names it. This cannot be undone.',
})

/**
 * @param {Account} account
 * @param {() => Promise<void>} redraw
 * @param {{title: string, action: string, text: string, said: string, path: string | null, danger: boolean}} what
 */
async function change(account, redraw, { title: question, action, text, said, path, danger }) {
  const address = `/v1/service-accounts/${account.id}`
  const done = await ask({
    title: question, action, danger, body: html`<p><bdi>${account.name}</bdi>: ${text}</p>`,
    run: (_form, headers) => (path ? post(`${address}/${path}`, undefined, { headers }) : remove(address)).then(() => true),
  })
  if (!done) return
  announce(said)
  await redraw()
}
