/** The page of service accounts. An administrator can disable an account with all its keys. */

import { post, remove } from '../api.js'
import { html, put } from '../html.js'
import { subscribe } from '../store.js'
import { ask, confirm, field } from '../components/dialog.js'
import { announce, button, heading, userText, when } from '../components/panel.js'
import { stateOf, tag } from '../components/tag.js'
import { thing } from '../components/timeline.js'
import { hasScope } from '../session.js'
import { listPage } from '../table.js'

/** @typedef {Api.ServiceAccount} Account */

export const title = 'Service accounts'

/** @type {import('../app.js').Page['show']} */
export const show = async (main, context) => {
  const [id] = context.route.parts
  const of = { title, href: '#/accounts', noun: 'service account' }
  if (id) return subscribe(() => put(main, thing(`/v1/service-accounts/${id}`, 5, of, detail)), context.signal)
  const make = hasScope() && button('New service account…', create, 'main')
  const words = 'A service account represents a program. Its name stays in the audit log when its API keys change.'
  const source = { path: '/v1/service-accounts', list: 'service_accounts', seconds: 15 }
  listPage(main, context, accounts, source, () => heading(title, words, make))
}

/** @type {import('../table.js').Spec} */
const accounts = {
  id: 'accounts',
  noun: 'service accounts',
  sort: 'name',
  mark: 'state',
  open: ({ id }) => `#/accounts/${id}`,
  columns: [
    { id: 'name', title: 'Name', width: 'minmax(160px, 1fr)', kind: 'name' },
    { id: 'description', title: 'Description', width: 'minmax(160px, 2fr)', from: 760, of: 'description' },
    { id: 'identity', title: 'Identity', width: 'minmax(180px, 1fr)', from: 1000, of: 'email', kind: 'code' },
    { id: 'state', title: 'State', width: '116px', of: 'status', kind: 'status' },
    { id: 'created', title: 'Created', width: '124px', from: 860, of: 'created_at', kind: 'time' },
    {
      id: 'keys',
      title: 'API keys',
      width: '88px',
      text: () => '',
      cell: ({ id, name }) => html`<a href=${`#/api-keys?account=${id}`} aria-label=${`API keys of ${name}`}>View</a>`,
    },
  ],
  sub: ({ description, email }) => html`<bdi>${description ?? email}</bdi>`,
  facets: () => [{ title: 'Disabled', query: 'state:disabled', state: 'suspended' }],
  actions,
  empty: html`<p>No service accounts yet. Create one for each program that calls the API, then create its API key.</p>`,
}

/** @param {Account} account */
function actions(account) {
  const { id, name, email, status } = account
  const path = `/v1/service-accounts/${id}`
  /** @param {keyof typeof ACTS} act @returns {import('../table.js').Action} */
  const change = (act) => {
    const [words, text] = ACTS[act]
    const danger = act === 'delete'
    const run = async () => {
      const done = await confirm({
        title: `${words} service account`,
        action: `${words} ${name}`,
        danger,
        body: html`<p><bdi>${name}</bdi>: ${text}</p>`,
        run: (headers) => (danger ? remove(path) : post(`${path}/${act}`, undefined, { headers })),
        success: `Service account ${act}d.`,
      })
      if (done && danger) location.hash = '#/accounts'
    }
    return { title: `${words}…`, danger, run }
  }
  return [
    { title: 'View API keys', run: () => void (location.hash = `#/api-keys?account=${id}`) },
    { title: 'Audit log for this account', run: () => void (location.hash = `#/audit?actor=${email}`) },
    hasScope() && change(status === 'active' ? 'disable' : 'enable'),
    hasScope() && change('delete'),
  ]
}

/** Actions on an account, with their consequences. */
const ACTS = {
  disable: ['Disable', 'Requests with its API keys are refused until you enable the account again.'],
  enable: ['Enable', 'Its API keys are accepted again, unless they are revoked or expired.'],
  delete: ['Delete', 'Delete its API keys first. Its name stays reserved for the audit log. This cannot be undone.'],
}

/** @param {Account} account @returns {import('../components/timeline.js').Thing} */
const detail = (account) => ({
  name: account.name,
  actions: actions(account),
  known: [
    ['Description', account.description ? userText(account.description) : 'none'],
    ['Identifier', html`<code>${account.id}</code>`],
    ['Identity', html`<code>${account.email}</code>`],
    ['State', tag(stateOf(account.status), account.status)],
    ['Created', when(account.created_at)],
  ],
})

async function create() {
  const made = await ask({
    title: 'New service account',
    action: 'Create account',
    failed: 'The account could not be created.',
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
        'Lowercase letters, digits and dashes. The name stays reserved after the account is deleted.',
      ),
      field('Description', html`<textarea name="description" rows="2" maxlength="1024"></textarea>`, 'Optional.'),
    ],
    run: (form, headers) =>
      post(
        '/v1/service-accounts',
        { name: form.get('name'), description: String(form.get('description')).trim() || null },
        { headers },
      ),
  })
  if (made) announce('Service account created. Next, create an API key for it.')
}
