/** The page of people: sign-ins, roles, and approvals. */

import { all, post, remove } from '../api.js'
import { number } from '../format.js'
import { html, put } from '../html.js'
import { subscribe, Pages, readCached } from '../store.js'
import { about, decide, use, words } from '../components/approvals.js'
import { ask, choice, confirm, field, showDetails } from '../components/dialog.js'
import { announce, heading, ready, when } from '../components/panel.js'
import { inWords } from '../components/scopes.js'
import { tag } from '../components/tag.js'
import { hasScope, currentCaller } from '../session.js'
import { Table, whole } from '../table.js'

/** @typedef {Api.Person} Person */
/** @typedef {Api.Approval} Approval */

export const title = 'People'

/** @type {import('../app.js').Page['show']} */
export const show = async (main, context) => {
  const [first, second, third] = [people, approvals, sessions].map((spec) => new Table(spec, context))
  const requests = new Pages('approvals', 10)
  subscribe(() => {
    const known = readCached('/v1/people', 15, 'people')
    first.draw(known)
    second.draw(requests.read('/v1/approvals?limit=100'))
    third.draw(readCached('/v1/sessions', 15, 'sessions'))
    put(
      main,
      heading(title, 'People sign in through an identity provider, which determines their roles.'),
      first.element,
      part('Approvals', 'Requests for protected actions, which need the approval of a second person.'),
      second.element,
      part('Sessions', 'Active sessions of people and programs.'),
      third.element,
    )
    if (known.at || known.error) ready()
  }, context.signal)
}

/** @param {string} name @param {string} text */
const part = (name, text) =>
  html`<div class="head">
    <div>
      <h2>${name}</h2>
      <p class="soft">${text}</p>
    </div>
  </div>`

/** @type {import('../table.js').Spec} */
const people = {
  id: 'people',
  noun: 'people',
  sort: 'name',
  mark: 'state',
  isLow: true,
  columns: [
    {
      id: 'name',
      title: 'Name',
      width: 'minmax(160px, 1fr)',
      value: ({ name, email }) => name || email,
      cell: ({ id, name, email }) =>
        html`<span class="line-of"
          >${whole(name || email)}${id === currentCaller().person_id && tag('info', 'you')}</span
        >`,
    },
    { id: 'email', title: 'E-mail', width: 'minmax(180px, 1fr)', from: 860, kind: 'name' },
    { id: 'role', title: 'Role', width: '128px' },
    { id: 'state', title: 'State', width: '124px', of: 'status', kind: 'status' },
    { id: 'since', title: 'First sign-in', width: '132px', from: 820, of: 'created_at', kind: 'time' },
    { id: 'issuer', title: 'Identity provider', width: 'minmax(160px, 1fr)', from: 1120 },
  ],
  sub: ({ email, role }) => html`${role} · <bdi>${email}</bdi>`,
  facets: () => [
    { title: 'Administrators', query: 'role:admin state:active' },
    { title: 'Disabled', query: 'state:disabled', state: 'suspended' },
  ],
  actions: (person) => [
    { title: 'Audit log for this person', run: () => void (location.hash = `#/audit?person=${person.id}`) },
    { title: 'API keys of this person', run: () => void (location.hash = `#/api-keys?maker=${person.id}`) },
    hasScope() && change(person, 'sign-out'),
    hasScope() && { title: 'Disable…', danger: true, run: () => disable(person) },
    hasScope() && person.status !== 'active' && change(person, 'enable'),
  ],
  empty: html`<h2>No one has signed in yet</h2>
    <p>Bind your identity provider. Until then, people use API keys.</p>
    <pre>rescind identity-providers add --help</pre>`,
}

/** Actions on a person: title, consequences, and the message after success. */
const ACTS = {
  'sign-out': [
    'Sign out',
    'All sessions of this person end, and approvals that this person requested or gave are canceled. ' +
      'This person can sign in again.',
    'is signed out',
  ],
  enable: ['Enable', 'This person can sign in again.', 'is enabled'],
}

/** People with the same name differ by e-mail. @param {Person} person */
const fullName = ({ name, email }) => (name && name !== email ? `${name} (${email})` : email)

/** @param {Person} person @param {keyof typeof ACTS} act @returns {import('../table.js').Action} */
function change(person, act) {
  const { id, name, email } = person
  const [action, text, after] = ACTS[act]
  const run = () =>
    confirm({
      title: html`${action} <bdi>${fullName(person)}</bdi>`,
      action,
      failed: 'The person could not be updated.',
      body: html`<p>${text}</p>`,
      run: (headers) => post(`/v1/people/${id}/${act}`, undefined, { headers }),
      success: `${name || email} ${after}.`,
    })
  return { title: `${action}…`, run }
}

/** Keys that a dialog lists at most. */
const LISTED = 20

/** Disable a person, and revoke or keep the person's keys, in parts. @param {Person} person */
async function disable(person) {
  const { id, name, email } = person
  let isBegun = false
  /** @type {Api.ApiKeySummary[]} */
  const created = await all(`/v1/api-keys?created_by_id=${id}`, 'api_keys')
  const keys = created.filter(({ status }) => status === 'active')
  const done = await ask({
    title: html`Disable <bdi>${fullName(person)}</bdi>`,
    action: 'Disable',
    danger: true,
    // After a server error, a part may be done.
    failed: ({ status }) => (isBegun || status >= 500 ? 'Some changes could not be made.' : 'Nothing was changed.'),
    body: [
      html`<p>All sessions of this person end, and this person can no longer sign in.</p>`,
      keys.length > 0 && [
        html`<p>API keys that this person, or one of these keys, created or rotated: ${number(keys.length)}</p>
          <ul>
            ${keys
              .slice(0, LISTED)
              .map((key) => html`<li><bdi>${key.name}</bdi>, ${inWords(key.scopes) || key.role}</li>`)}
            ${keys.length > LISTED && html`<li>and ${keys.length - LISTED} more</li>`}
          </ul>`,
        field(
          'These keys',
          choice('keys', [
            ['end', 'Revoke now'],
            ['keep', 'Keep'],
          ]),
          'Keys that you keep retain their scopes.',
        ),
      ],
    ],
    run: async (form) => {
      const body = { made_keys: form.get('keys') ?? 'end' }
      for (;;) {
        const part = /** @type {Api.DisabledPerson} */ (await post(`/v1/people/${id}/disable`, body))
        isBegun = true
        if (!part.keys_left || !part.keys_ended) return part
      }
    },
  })
  if (done) announce(`${name || email} is disabled.`)
}

/** @type {Record<string, import('../components/tag.js').State>} */
const DECISIONS = { approved: 'force', rejected: 'revoked', pending: 'wait' }

/** @type {import('../table.js').Spec} */
const approvals = {
  id: 'people',
  part: 'approvals',
  noun: 'approvals',
  sort: '-requested',
  mark: 'state',
  isLow: true,
  show: (approval) => showDetails('Approval', about(approval)),
  columns: [
    { id: 'action', title: 'Action', width: 'minmax(200px, 2fr)', text: ({ action, count }) => words(action, count) },
    {
      id: 'state',
      title: 'State',
      width: '128px',
      value: ({ status }) => status,
      cell: ({ status }) => tag(DECISIONS[status] ?? 'superseded', status),
    },
    { id: 'by', title: 'Requested by', width: 'minmax(120px, 1fr)', of: 'requested_by', kind: 'name' },
    { id: 'decided', title: 'Decided by', width: 'minmax(120px, 1fr)', from: 900, of: 'decided_by', kind: 'name' },
    { id: 'reason', title: 'Reason', width: 'minmax(140px, 2fr)', from: 1100, of: 'reason', kind: 'prose' },
    { id: 'requested', title: 'Requested', width: '116px', of: 'created_at', kind: 'time' },
    { id: 'left', title: 'Uses left', text: ({ remaining, count: times }) => `${remaining} of ${times}` },
  ],
  sub: ({ requested_by: by, reason }) => html`<bdi>${by}</bdi> · <bdi dir="auto">${reason}</bdi>`,
  facets: () => [{ title: 'Pending', query: 'state:pending', state: 'wait' }],
  actions: (/** @type {Approval} */ approval) => {
    const { status, remaining, requested_by_id: by } = approval
    const isOwn = by === currentCaller().person_id
    const isOpen = status === 'pending' || status === 'approved'
    const end = isOwn
      ? { title: 'Withdraw…', run: () => decide(approval, 'withdraw') }
      : { title: 'Reject…', run: () => decide(approval, 'reject') }
    return [
      status === 'pending' && !isOwn && hasScope() && { title: 'Approve…', run: () => decide(approval, 'approve') },
      status === 'approved' && isOwn && remaining > 0 && { title: 'Use approval…', run: () => use(approval) },
      isOpen && hasScope() && { ...end, danger: true },
    ]
  },
  empty: html`<p>No approval requests yet.</p>`,
}

/** @type {import('../table.js').Spec} */
const sessions = {
  id: 'people',
  part: 'sessions',
  noun: 'sessions',
  sort: '-since',
  mark: 'expires',
  isLow: true,
  columns: [
    {
      id: 'who',
      title: 'Identity',
      width: 'minmax(180px, 2fr)',
      value: ({ identity }) => identity,
      cell: ({ id, identity }) =>
        html`<span class="line-of"
          >${whole(identity)}${id === currentCaller().session_id && tag('info', 'this session')}</span
        >`,
    },
    { id: 'since', title: 'Started', width: '116px', of: 'created_at', kind: 'time' },
    { id: 'expires', title: 'Expires', width: '116px', of: 'expires_at', kind: 'time' },
    { id: 'owner', title: 'Owner', text: ({ owner }) => owner ?? '' },
  ],
  sub: ({ created_at: at }) => html`started ${when(at)}`,
  actions: (session) => [
    { title: 'Audit log for this session', run: () => void (location.hash = `#/audit?q=${session.id}`) },
    { title: 'Sign out…', danger: true, run: () => end(session) },
  ],
  empty: html`<p>No active sessions.</p>`,
}

/** @param {Api.Session} session */
const end = ({ id, identity }) =>
  confirm({
    title: 'Sign out this session',
    action: 'Sign out session',
    failed: 'The session could not be signed out.',
    danger: true,
    body: html`<p>Requests of <bdi>${identity}</bdi> with this session are refused from now on.</p>`,
    run: () => remove(`/v1/sessions/${id}`),
    success: 'Session signed out.',
  })
