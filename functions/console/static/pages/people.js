/** The page of people: sign-ins, roles, and approvals. */

import { all, post, remove } from '../api.js'
import { count } from '../format.js'
import { html, put } from '../html.js'
import { follow, Pages, read } from '../live.js'
import { about, decide, use, words } from '../parts/approvals.js'
import { ask, choice, confirm, field, tell } from '../parts/dialog.js'
import { announce, heading, ready, when } from '../parts/panel.js'
import { inWords } from '../parts/scopes.js'
import { tag } from '../parts/tag.js'
import { may, who } from '../session.js'
import { Table, whole } from '../table.js'

/** @typedef {Api.Person} Person */
/** @typedef {Api.Approval} Approval */

export const title = 'People'

/** @type {import('../app.js').Page['show']} */
export const show = async (main, context) => {
  const tables = [people, approvals, sessions].map((spec) => new Table(spec, context))
  const asked = new Pages('approvals', 10)
  follow(() => {
    const known = read('/v1/people', 15, 'people')
    const sources = [known, asked.read('/v1/approvals?limit=100'), read('/v1/sessions', 15, 'sessions')]
    tables.forEach((table, index) => table.draw(/** @type {import('../live.js').Entry} */ (sources[index])))
    const [first, second, third] = tables.map(({ element }) => element)
    put(
      main,
      heading(title, 'They sign in with the account that an identity provider gives them, and have its role.'),
      first,
      part('Approvals', 'What one person asks for, and another approves or rejects.'),
      second,
      part('Sessions', 'Who is signed in now, people and programs.'),
      third,
    )
    if (known.at || known.error) ready()
  }, context.signal)
}

/** @param {string} name @param {string} words_ */
const part = (name, words_) =>
  html`<div class="head">
    <div>
      <h2>${name}</h2>
      <p class="soft">${words_}</p>
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
        html`<span class="line-of">${whole(name || email)}${id === who().person_id && tag('info', 'you')}</span>`,
    },
    { id: 'email', title: 'E-mail', width: 'minmax(180px, 1fr)', from: 860, kind: 'name' },
    { id: 'role', title: 'Role', width: '128px' },
    { id: 'state', title: 'State', width: '124px', of: 'status', kind: 'status' },
    { id: 'since', title: 'First signed in', width: '132px', from: 820, of: 'created_at', kind: 'time' },
    { id: 'issuer', title: 'Identity provider', width: 'minmax(160px, 1fr)', from: 1120 },
  ],
  sub: ({ email, role }) => html`${role} · <bdi>${email}</bdi>`,
  facets: () => [
    { title: 'Administrators', query: 'role:admin state:active' },
    { title: 'Disabled', query: 'state:disabled', state: 'suspended' },
  ],
  actions: (person) => [
    { title: 'What this person did', run: () => void (location.hash = `#/audit?person=${person.id}`) },
    { title: 'Keys of this person', run: () => void (location.hash = `#/api-keys?maker=${person.id}`) },
    may() && change(person, 'sign-out'),
    may() && { title: 'Disable…', danger: true, run: () => disable(person) },
    may() && person.status !== 'active' && change(person, 'enable'),
  ],
  empty: html`<h2>Nobody has signed in with an account yet</h2>
    <p>Bind the identity provider of your company; until then, people use API keys.</p>
    <pre>rescind identity-providers add --help</pre>`,
}

/** Actions on a person: title, consequences, and the message after success. */
const ACTS = {
  'sign-out': [
    'Sign out',
    'All sessions of this person end. Approvals that this person asked for or gave end, too. ' +
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
  const question = {
    title: html`${action} <bdi>${fullName(person)}</bdi>`,
    action,
    failed: 'That was not done.',
    body: html`<p>${text}</p>`,
    run: (/** @type {Record<string, string>} */ headers) => post(`/v1/people/${id}/${act}`, undefined, { headers }),
    said: `${name || email} ${after}.`,
  }
  return { title: `${action}…`, run: () => confirm(question) }
}

/** Keys that a dialog lists at most. */
const LISTED = 20

/** @param {Api.ApiKeySummary} key */
const keyLine = ({ name, scopes, role }) => html`<li><bdi>${name}</bdi>, ${inWords(scopes) || role}</li>`

/** Disable a person, and revoke or keep the person's keys, in parts. @param {Person} person */
async function disable(person) {
  const { id, name, email } = person
  let isBegun = false
  /** @type {Api.ApiKeySummary[]} */
  const made = await all(`/v1/api-keys?created_by_id=${id}`, 'api_keys')
  const keys = made.filter(({ status }) => status === 'active')
  const done = await ask({
    title: html`Disable <bdi>${fullName(person)}</bdi>`,
    action: 'Disable',
    danger: true,
    // After a server error, a part may be done.
    failed: ({ status }) => (isBegun || status >= 500 ? 'Not everything was done.' : 'Nothing was changed.'),
    body: [
      html`<p>All sessions of this person end, and nobody can sign in by this account.</p>`,
      keys.length > 0 && [
        html`<p>API keys that this person made or rotated, or that such keys made: ${count(keys.length, 'key')}</p>
          <ul>
            ${keys.slice(0, LISTED).map(keyLine)}
            ${keys.length > LISTED && html`<li>and ${keys.length - LISTED} more</li>`}
          </ul>`,
        field(
          'These keys',
          choice('keys', [
            ['end', 'end now'],
            ['keep', 'stay'],
          ]),
          'A key that stays can do all that its scopes allow.',
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

/** @param {Approval} approval */
const isOwn = ({ requested_by_id: by }) => by === who().person_id

/** @type {import('../table.js').Spec} */
const approvals = {
  id: 'people',
  part: 'approvals',
  noun: 'approvals',
  sort: '-asked',
  mark: 'state',
  isLow: true,
  show: (approval) => tell('Approval', about(approval)),
  columns: [
    {
      id: 'what',
      title: 'What',
      width: 'minmax(200px, 2fr)',
      text: ({ action, count: times }) => words(action, times),
    },
    {
      id: 'state',
      title: 'State',
      width: '128px',
      value: ({ status }) => status,
      cell: ({ status }) =>
        tag(
          status === 'approved'
            ? 'force'
            : status === 'rejected'
              ? 'revoked'
              : status === 'pending'
                ? 'wait'
                : 'superseded',
          status,
        ),
    },
    { id: 'by', title: 'Asked by', width: 'minmax(120px, 1fr)', of: 'requested_by', kind: 'name' },
    { id: 'decided', title: 'Decided by', width: 'minmax(120px, 1fr)', from: 900, of: 'decided_by', kind: 'name' },
    { id: 'why', title: 'Why', width: 'minmax(140px, 2fr)', from: 1100, of: 'reason', kind: 'prose' },
    { id: 'asked', title: 'Asked', width: '116px', of: 'created_at', kind: 'time' },
    { id: 'left', title: 'Left', text: ({ remaining, count: times }) => `${remaining} of ${count(times, 'time')}` },
  ],
  sub: ({ requested_by: by, reason }) => html`<bdi>${by}</bdi> · <bdi dir="auto">${reason}</bdi>`,
  facets: () => [{ title: 'Wait', query: 'state:pending', state: 'wait' }],
  actions: (approval) => [
    approval.status === 'pending' &&
      !isOwn(approval) &&
      may() && { title: 'Approve…', run: () => decide(approval, 'approve') },
    approval.status === 'approved' &&
      isOwn(approval) &&
      approval.remaining > 0 && { title: 'Use approval…', run: () => use(approval) },
    ['pending', 'approved'].includes(approval.status) &&
      may() &&
      (isOwn(approval)
        ? { title: 'Withdraw…', run: () => decide(approval, 'withdraw'), danger: true }
        : { title: 'Reject…', run: () => decide(approval, 'reject'), danger: true }),
  ],
  empty: html`<p>Nobody has asked for an approval.</p>`,
}

/** @type {import('../table.js').Spec} */
const sessions = {
  id: 'people',
  part: 'sessions',
  noun: 'sessions',
  sort: '-since',
  mark: 'ends',
  isLow: true,
  columns: [
    {
      id: 'who',
      title: 'Who',
      width: 'minmax(180px, 2fr)',
      value: ({ identity }) => identity,
      cell: ({ id, identity }) =>
        html`<span class="line-of">${whole(identity)}${id === who().session_id && tag('info', 'this one')}</span>`,
    },
    { id: 'since', title: 'Began', width: '116px', of: 'created_at', kind: 'time' },
    { id: 'ends', title: 'Ends', width: '116px', of: 'expires_at', kind: 'time' },
    { id: 'owner', title: 'Of', text: ({ owner }) => owner ?? '' },
  ],
  sub: ({ created_at: at }) => html`began ${when(at)}`,
  actions: (session) => [
    { title: 'What this session did', run: () => void (location.hash = `#/audit?q=${session.id}`) },
    { title: 'End…', danger: true, run: () => end(session) },
  ],
  empty: html`<p>Nobody is signed in with a session.</p>`,
}

/** @param {Api.Session} session */
const end = ({ id, identity }) =>
  confirm({
    title: 'End this session',
    action: 'End it',
    failed: 'The session was not ended.',
    danger: true,
    body: html`<p>The next request of <bdi>${identity}</bdi> with it is refused.</p>`,
    run: () => remove(`/v1/sessions/${id}`),
    said: 'The session is ended.',
  })
