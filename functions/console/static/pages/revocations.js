/** The page of revocations, with their state in the SRL. */

import { now } from '../api.js'
import { ago, instant, nameOf, number, tokenWords } from '../format.js'
import { html, put } from '../html.js'
import { subscribe, memoizeLast, Pages, readCached } from '../store.js'
import { banner, button, forbidden, heading, userText, person, ready, when } from '../components/panel.js'
import { icon, tag } from '../components/tag.js'
import { WARRANT } from '../components/warrant_lines.js'
import { isLate } from '../charts/overview.js'
import { hasScope, currentCaller } from '../session.js'
import { readFilter, Table } from '../table.js'
import { showMany } from '../components/many_revocations.js'
import { revokeOne, unrevoke } from '../components/revocation_dialogs.js'

/** @typedef {Api.RevocationRecord} Revocation */

export const title = 'Revocations'

const STATUS = '/v1/revocations/srl/status'
const WHOLE = /^svc_(wrt|bat|rev)_/

/** @type {import('../app.js').Page['show']} */
export const show = async (main, context) => {
  const [part] = context.route.parts
  if (!hasScope('revoker', 'auditor')) {
    put(main, heading(title), forbidden('read revocations', 'auditor, revoker or admin'))
    return ready()
  }
  if (part === 'many') return showMany(main, context.signal)
  if (part) return location.replace(`#/changes/${part}`)
  return showList(main, context)
}

/** @type {import('../app.js').Page['show']} */
const showList = async (main, context) => {
  const table = new Table(revocations, context)
  const pages = new Pages('revocations', 10)
  const buttons = hasScope('revoker') && [
    button('Revoke a warrant…', () => revokeOne(), 'main'),
    html`<a class="button" href="#/revocations/many">Revoke many…</a>`,
  ]
  subscribe(() => {
    const { revocation, warrant, batch, query } = toQuery(table.requestedFilter)
    if (revocation) location.hash = `#/changes/${revocation}`
    const known = pages.read('/v1/revocations', query)
    const status = readCached(STATUS, 5).data
    table.draw(known, rowsOf(known.data, status))
    put(
      main,
      heading(title, 'Revoked warrants, and whether the SRL contains them.', buttons),
      batch ? batchNotice(batch) : pendingNotice(status),
      WARRANT.test(warrant) && known.data && onlineCheck(warrant, known.data),
      table.element,
    )
    if (known.at || known.error) ready()
  }, context.signal)
}

/** Rows with their state in the SRL. */
const rowsOf = memoizeLast(
  (/** @type {Revocation[] | null} */ data, /** @type {Api.ListStatus | null} */ status) =>
    data &&
    data.map((row) => ({ ...row, srl_state: !status ? 'unknown' : waits(row, status) ? 'pending' : 'published' })),
)

/**
 * Return the API query of a filter.
 * @param {string} filter
 */
function toQuery(filter) {
  const { values, words } = readFilter(filter, FIELDS)
  const identifier = words.find((word) => WHOLE.test(word)) ?? ''
  const name = values.warrant || (identifier.startsWith('svc_wrt_') ? `${identifier}*` : '')
  const warrant = name && !name.startsWith('svc_') ? `svc_wrt_${name}` : name
  const batch = values.batch || (identifier.startsWith('svc_bat_') ? identifier : '')
  const { by, reason, from = '', to = '', key } = values
  const query = {
    limit: '100',
    include: 'names',
    [warrant.endsWith('*') ? 'warrant_prefix' : 'warrant_id']: warrant.replaceAll('*', ''),
    batch_id: batch,
    reason: [reason, ...words.filter((word) => word !== identifier)].filter(Boolean).join(' '),
    from: instant(from),
    to: instant(to, true),
    created_by: by && !by.includes('@') ? `${by}@${currentCaller().identity.split('@')[1]}` : by,
    actor_key_id: key,
  }
  const isRevocation = /^svc_rev_[0-9a-z]{26}$/.test(identifier)
  return { revocation: isRevocation && identifier, warrant: warrant.replaceAll('*', ''), batch, query }
}

/** @type {import('../table.js').Field[]} */
const FIELDS = [
  {
    id: 'warrant',
    title: 'Warrant',
    hint: 'Warrant identifier, which is also checked online. End with * to match a prefix.',
  },
  { id: 'reason', title: 'Reason contains' },
  { id: 'by', title: 'Actor', hint: 'A service account, a person or an API key, as in the audit log.' },
  { id: 'key', title: 'API key', hint: 'Identifier of the API key.' },
  { id: 'batch', title: 'Batch', hint: 'Batch identifier.' },
  { id: 'from', title: 'From (UTC)', type: 'datetime-local' },
  { id: 'to', title: 'To (UTC)', type: 'datetime-local' },
]

/** @type {import('../table.js').Spec} */
const revocations = {
  id: 'revocations',
  noun: 'revocations',
  sort: '-revoked',
  mark: 'srl',
  open: ({ id }) => `#/changes/${id}`,
  fields: FIELDS,
  columns: [
    {
      id: 'name',
      title: 'Warrant',
      width: 'minmax(200px, 2fr)',
      kind: 'name',
      value: (row) => tokenWords(row) || row.warrant_id,
    },
    { id: 'srl', title: 'SRL', width: '132px', of: 'srl_state', cell: srlCell },
    { id: 'why', title: 'Reason', width: 'minmax(140px, 2fr)', from: 860, of: 'reason', kind: 'prose' },
    { id: 'revoked', title: 'Revoked', width: '116px', of: 'created_at', kind: 'time' },
    {
      id: 'maker',
      title: 'Actor',
      width: 'minmax(130px, 1fr)',
      value: ({ created_by: by, created_by_name: name }) => nameOf(by, name),
      cell: ({ created_by: by, created_by_name: name }) => person(by, name),
    },
    { id: 'warrant_id', title: 'warrant_id' },
    { id: 'with', title: 'Batch', text: ({ batch_id }) => batch_id ?? '' },
  ],
  sub: ({ reason, created_at: at }) => html`${when(at)} · <bdi dir="auto">${reason}</bdi>`,
  actions: (row) => [
    row.batch_id && { title: 'View batch', run: () => void (location.hash = `#/changes/${row.batch_id}`) },
    { title: 'Audit log for this warrant', run: () => void (location.hash = `#/audit?warrant=${row.warrant_id}`) },
    hasScope('revoker') && { title: 'Unrevoke…', run: () => unrevoke(row), danger: true },
  ],
  empty: html`<h2>No revoked warrants</h2>
    <p>Revoke a warrant to follow its propagation from the record to the last authorizer.</p>
    <pre>rescind revoke svc_wrt_laptop-17 --reason "laptop stolen"</pre>`,
}

/** @param {{srl_state: string}} row */
function srlCell({ srl_state: word }) {
  if (word === 'published') return html`<span class="soft line-of">${icon('force')} published</span>`
  return word === 'pending' ? tag('wait', word) : html`<span class="soft">${word}</span>`
}

/** @param {string} batch */
const batchNotice = (batch) =>
  html`<p>
    Revocations of the batch <code>${batch}</code>.
    <a href=${`#/changes/${batch}`}>View its propagation, or unrevoke it</a>. Unrevoked warrants are in the
    <a href=${`#/audit?batch=${batch}`}>audit log</a>.
  </p>`

/**
 * Return the online check of a warrant that the filter names completely.
 * @param {string} warrant
 * @param {Revocation[]} rows
 */
function onlineCheck(warrant, rows) {
  const isKnown = rows.some((row) => row.warrant_id === warrant)
  // A prefix of other warrants would get no answer.
  if (rows.length && !isKnown) return null
  const answer = /** @type {Api.RevocationCheck | null} */ (
    readCached(`/v1/revocations/check?warrant_id=${warrant}`, 5).data
  )
  if (!answer) return null
  if (!answer.revoked) {
    return banner(
      'unknown',
      html`<strong>Online checks accept this warrant.</strong> <code>${warrant}</code> is not revoked. The result is the
        same for unknown identifiers.`,
      hasScope('revoker') && button('Revoke…', () => revokeOne(warrant)),
    )
  }
  const why =
    !isKnown &&
    html`It has no revocation of its own: <strong>its signing key is revoked.</strong> ${userText(answer.reason)}`
  const since = answer.revoked_at && ` since ${ago(answer.revoked_at, now())}`
  return banner('force', html`<strong>Online checks refuse this warrant</strong>${since}. ${why}`)
}

/**
 * Return a sentence on the warrants that wait for the next SRL.
 * @param {Api.ListStatus | null} status
 */
function pendingNotice(status) {
  if (!status) return null
  const { pending, pending_truncated: isMore, oldest_pending_at: oldest, version } = status
  if (!pending && !isMore)
    return html`<p class="soft">${icon('force')} SRL ${number(version)} contains all of them.</p>`
  const words = html`<strong
      >${isMore ? `At least ${number(pending)}` : number(pending)} ${pending === 1 ? 'change is' : 'changes are'}
      pending for SRL ${number(version + 1)}.</strong
    >
    ${oldest && `The oldest was recorded ${ago(oldest, now())}.`}`
  if (isLate(status, now()))
    return banner('wait', html`${words} The SRL is overdue. <a href="#/overview">Publish it on the overview.</a>`)
  return html`<p>${icon('wait')} ${words}</p>`
}

/**
 * Return whether a record waits for the next SRL, as far as its time shows.
 *
 * An SRL is read after its time of issue.
 * @param {Revocation} record
 * @param {Api.ListStatus} status
 */
const waits = (
  { created_at: created },
  { pending, pending_truncated: isMore, oldest_pending_at: oldest, issued_at: issued },
) => (pending > 0 || isMore) && created >= issued && (!oldest || created >= oldest)
