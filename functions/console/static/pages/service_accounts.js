/** Which programs call, and who stops one of them with all its keys? */

import { post, remove } from '../api.js'
import { html, put } from '../html.js'
import { follow } from '../live.js'
import { ask, field } from '../parts/dialog.js'
import { announce, heading, named, when } from '../parts/panel.js'
import { stateOf, tag } from '../parts/tag.js'
import { thing } from '../parts/timeline.js'
import { may } from '../session.js'
import { listPage, whole } from '../table.js'

/** @typedef {Api.ServiceAccount} Account */

export const title = 'Accounts'

/**
 * @param {HTMLElement} main
 * @param {{route: {parts: string[], query: URLSearchParams}, signal: AbortSignal}} context
 */
export async function show(main, context) {
  const [id] = context.route.parts
  const of = { title, href: '#/accounts', noun: 'account' }
  if (id) return follow(() => put(main, thing(`/v1/service-accounts/${id}`, 5, of, detail)), context.signal)
  const make = may() && html`<button type="button" class="main" @click=${create}>New account…</button>`
  const words = 'An account stands for a program. Its keys come and go; in the audit log the name stays.'
  const source = { path: '/v1/service-accounts', list: 'service_accounts', seconds: 15 }
  listPage(main, context, accounts, source, () => heading(title, words, make))
}

/** @type {import('../table.js').Spec} */
const accounts = {
  id: 'accounts',
  noun: 'accounts',
  sort: 'name',
  mark: 'state',
  open: ({ id }) => `#/accounts/${id}`,
  columns: [
    {
      id: 'name',
      title: 'Name',
      width: 'minmax(160px, 1fr)',
      value: ({ name }) => name,
      cell: ({ name }) => whole(name),
    },
    {
      id: 'for',
      title: 'What it is for',
      width: 'minmax(160px, 2fr)',
      from: 760,
      value: ({ description }) => description ?? '',
    },
    {
      id: 'log',
      title: 'In the audit log',
      width: 'minmax(180px, 1fr)',
      from: 1000,
      value: ({ email }) => email,
      cell: ({ email }) => html`<code>${email}</code>`,
    },
    {
      id: 'state',
      title: 'State',
      width: '116px',
      value: ({ status }) => status,
      cell: ({ status }) => tag(stateOf(status), status),
    },
    {
      id: 'made',
      title: 'Made',
      width: '124px',
      from: 860,
      value: ({ created_at: at }) => at,
      cell: ({ created_at: at }) => when(at),
    },
    {
      id: 'keys',
      title: 'Keys',
      width: '80px',
      text: () => '',
      cell: ({ id, name }) => html`<a href=${`#/api-keys?account=${id}`} aria-label=${`Keys of ${name}`}>Keys</a>`,
    },
  ],
  sub: ({ description, email }) => html`<bdi>${description ?? email}</bdi>`,
  facets: () => [{ title: 'Disabled', query: 'state:disabled', state: 'suspended' }],
  actions,
  empty: html`<p>No accounts yet. Make one for each program that calls the API, then give it a key.</p>`,
}

/** @param {Account} account */
function actions(account) {
  return [
    { title: 'Its keys', run: () => void (location.hash = `#/api-keys?account=${account.id}`) },
    { title: 'What it did', run: () => void (location.hash = `#/audit?actor=${account.email}`) },
    may() &&
      (account.status === 'active'
        ? { title: 'Disable…', run: () => disable(account) }
        : { title: 'Enable…', run: () => enable(account) }),
    may() && { title: 'Delete…', run: () => erase(account), danger: true },
  ]
}

/** @param {Account} account @returns {import('../parts/timeline.js').Thing} */
const detail = (account) => ({
  name: account.name,
  actions: actions(account),
  known: [
    ['What it is for', account.description ? named(account.description) : 'not told'],
    ['Identifier', html`<code>${account.id}</code>`],
    ['In the audit log', html`<code>${account.email}</code>`],
    ['State', tag(stateOf(account.status), account.status)],
    ['Made', when(account.created_at)],
  ],
})

async function create() {
  const made = await ask({
    title: 'New account',
    action: 'Make the account',
    failed: 'The account could not be made.',
    body: [
      field(
        'Name',
        html`<input
          name="name"
          required
          pattern="[a-z0-9\\-]{1,63}"
          autocomplete="off"
          autocapitalize="none"
          spellcheck="false"
        />`,
        'Small letters, digits and dashes. It stays reserved, also when the account is deleted.',
      ),
      field(
        'What it is for',
        html`<textarea name="description" rows="2" maxlength="1024"></textarea>`,
        'You may leave this empty.',
      ),
    ],
    run: (form, headers) =>
      post(
        '/v1/service-accounts',
        { name: form.get('name'), description: String(form.get('description')).trim() || null },
        { headers },
      ),
  })
  if (!made) return
  announce('The account is made. It needs a key.')
}

/**
 * @param {Account} account
 */
const disable = (account) =>
  change(account, {
    title: 'Disable this account',
    action: `Disable ${account.name}`,
    path: 'disable',
    danger: false,
    said: 'The account is disabled.',
    text: 'The next request with any of its keys is refused, until the account is enabled again.',
  })

/**
 * @param {Account} account
 */
const enable = (account) =>
  change(account, {
    title: 'Enable this account',
    action: `Enable ${account.name}`,
    path: 'enable',
    danger: false,
    said: 'The account is enabled.',
    text: 'Those of its keys that are neither revoked nor expired are accepted again.',
  })

/**
 * @param {Account} account
 */
const erase = (account) =>
  change(account, {
    title: 'Delete this account',
    action: `Delete ${account.name}`,
    path: null,
    danger: true,
    said: 'The account is deleted.',
    text: 'Its keys must be deleted first. Its name stays reserved, as the audit log names it. This cannot be undone.',
  })

/**
 * @param {Account} account
 * @param {{title: string, action: string, text: string, said: string, path: string | null, danger: boolean}} what
 */
async function change(account, { title: question, action, text, said, path, danger }) {
  const address = `/v1/service-accounts/${account.id}`
  const done = await ask({
    title: question,
    action,
    danger,
    body: html`<p><bdi>${account.name}</bdi>: ${text}</p>`,
    run: (_form, headers) =>
      (path ? post(`${address}/${path}`, undefined, { headers }) : remove(address)).then(() => true),
  })
  if (!done) return
  announce(said)
  if (!path) location.hash = '#/accounts'
}
