/** The page of service accounts. An administrator can disable an account with all its keys. */

import { post, remove } from '../api.js'
import { html, put } from '../html.js'
import { follow } from '../live.js'
import { ask, confirm, field } from '../parts/dialog.js'
import { announce, heading, named, when } from '../parts/panel.js'
import { stateOf, tag } from '../parts/tag.js'
import { thing } from '../parts/timeline.js'
import { may } from '../session.js'
import { listPage } from '../table.js'

/** @typedef {Api.ServiceAccount} Account */

export const title = 'Accounts'

/** @type {import('../app.js').Page['show']} */
export const show = async (main, context) => {
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
    { id: 'name', title: 'Name', width: 'minmax(160px, 1fr)', kind: 'name' },
    { id: 'for', title: 'What it is for', width: 'minmax(160px, 2fr)', from: 760, of: 'description' },
    { id: 'log', title: 'In the audit log', width: 'minmax(180px, 1fr)', from: 1000, of: 'email', kind: 'code' },
    { id: 'state', title: 'State', width: '116px', of: 'status', kind: 'status' },
    { id: 'made', title: 'Made', width: '124px', from: 860, of: 'created_at', kind: 'time' },
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
  const { id, name, email, status } = account
  const path = `/v1/service-accounts/${id}`
  /**
   * @param {string} words
   * @param {string} text
   * @param {string} said
   * @param {(headers: Record<string, string>) => Promise<unknown>} run
   * @returns {import('../table.js').Action}
   */
  const change = (words, text, said, run) => {
    const danger = words === 'Delete'
    const question = { title: `${words} this account`, action: `${words} ${name}`, danger, run, said }
    const ask_ = async () => {
      const done = await confirm({ ...question, body: html`<p><bdi>${name}</bdi>: ${text}</p>` })
      if (done && danger) location.hash = '#/accounts'
    }
    return { title: `${words}…`, danger, run: ask_ }
  }
  return [
    { title: 'Its keys', run: () => void (location.hash = `#/api-keys?account=${id}`) },
    { title: 'What it did', run: () => void (location.hash = `#/audit?actor=${email}`) },
    may() &&
      (status === 'active'
        ? change(
            'Disable',
            'The next request with any of its keys is refused, until the account is enabled again.',
            'The account is disabled.',
            (headers) => post(`${path}/disable`, undefined, { headers }),
          )
        : change(
            'Enable',
            'Those of its keys that are neither revoked nor expired are accepted again.',
            'The account is enabled.',
            (headers) => post(`${path}/enable`, undefined, { headers }),
          )),
    may() &&
      change(
        'Delete',
        'Its keys must be deleted first. Its name stays reserved, as the audit log names it. This cannot be undone.',
        'The account is deleted.',
        () => remove(path),
      ),
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
  if (made) announce('The account is made. It needs a key.')
}
