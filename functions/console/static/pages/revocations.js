/** The page of revocations, with their state in the SRL. */

import { now } from '../api.js'
import { ago, instant, nameOf, number, tokenWords } from '../format.js'
import { html, put } from '../html.js'
import { follow, latest, Pages, read } from '../live.js'
import { banner, forbidden, heading, named, person, ready, when } from '../parts/panel.js'
import { icon, tag } from '../parts/tag.js'
import { WARRANT } from '../parts/warrant_lines.js'
import { isLate } from '../pictures/overview.js'
import { may, who } from '../session.js'
import { readFilter, Table } from '../table.js'
import { showMany } from '../parts/many_revocations.js'
import { revokeOne, takeBack } from '../parts/revocation_dialogs.js'

/** @typedef {Api.RevocationRecord} Revocation */

export const title = 'Revocations'

const STATUS = '/v1/revocations/srl/status'
const WHOLE = /^svc_(wrt|bat|rev)_/

/** @type {import('../app.js').Page['show']} */
export const show = async (main, context) => {
  const [part] = context.route.parts
  if (!may('revoker', 'auditor')) {
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
  const buttons =
    may('revoker') &&
    html`<button type="button" class="main" @click=${() => revokeOne()}>Revoke a warrant…</button
      ><a class="button" href="#/revocations/many">Revoke many…</a>`
  follow(() => {
    const { revocation, warrant, batch, query } = asked(table.asked)
    if (revocation) location.hash = `#/changes/${revocation}`
    const known = pages.read('/v1/revocations', query)
    const status = read(STATUS, 5).data
    table.draw(known, rowsOf(known.data, status))
    put(
      main,
      heading(title, 'Which warrants are revoked, and whether the list says so yet.', buttons),
      batch ? ofBatch(batch) : standing(status),
      WARRANT.test(warrant) && known.data && checked(warrant, known.data),
      table.element,
    )
    if (known.at || known.error) ready()
  }, context.signal)
}

/** Rows with their state in the SRL. */
const rowsOf = latest(
  (/** @type {Revocation[] | null} */ data, /** @type {Api.ListStatus | null} */ status) =>
    data &&
    data.map((row) => ({ ...row, listed: !status ? 'not known' : waits(row, status) ? 'waiting' : 'published' })),
)

/**
 * Return the API query of a filter.
 * @param {string} filter
 */
function asked(filter) {
  const { values, words } = readFilter(filter, FIELDS)
  const identifier = words.find((word) => WHOLE.test(word)) ?? ''
  const named_ = values.warrant || (identifier.startsWith('svc_wrt_') ? `${identifier}*` : '')
  const warrant = named_ && !named_.startsWith('svc_') ? `svc_wrt_${named_}` : named_
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
    created_by: by && !by.includes('@') ? `${by}@${who().identity.split('@')[1]}` : by,
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
    hint: 'Its identifier, which is also checked online. With * at its end: all that begin so.',
  },
  { id: 'reason', title: 'Reason contains' },
  { id: 'by', title: 'By', hint: 'An account, a person, or an API key, as in the audit log.' },
  { id: 'key', title: 'With the API key', hint: 'Its identifier.' },
  { id: 'batch', title: 'Batch', hint: 'Its identifier.' },
  { id: 'from', title: 'From (UTC)', type: 'datetime-local' },
  { id: 'to', title: 'To (UTC)', type: 'datetime-local' },
]

/** @type {import('../table.js').Spec} */
const revocations = {
  id: 'revocations',
  noun: 'revocations',
  sort: '-revoked',
  mark: 'list',
  open: ({ id }) => `#/changes/${id}`,
  fields: FIELDS,
  columns: [
    { id: 'name', title: 'Warrant', width: 'minmax(200px, 2fr)', kind: 'name', value: called },
    { id: 'list', title: 'List', width: '132px', of: 'listed', cell: listed },
    { id: 'why', title: 'Reason', width: 'minmax(140px, 2fr)', from: 860, of: 'reason', kind: 'prose' },
    { id: 'revoked', title: 'Revoked', width: '116px', of: 'created_at', kind: 'time' },
    {
      id: 'maker',
      title: 'By',
      width: 'minmax(130px, 1fr)',
      value: ({ created_by: by, created_by_name: name }) => nameOf(by, name),
      cell: ({ created_by: by, created_by_name: name }) => person(by, name),
    },
    { id: 'warrant_id', title: 'warrant_id' },
    { id: 'with', title: 'With', text: ({ batch_id }) => batch_id ?? '' },
  ],
  sub: ({ reason, created_at: at }) => html`${when(at)} · <bdi dir="auto">${reason}</bdi>`,
  actions: (row) => [
    row.batch_id && { title: 'Its batch', run: () => void (location.hash = `#/changes/${row.batch_id}`) },
    { title: 'Its entries in the audit log', run: () => void (location.hash = `#/audit?warrant=${row.warrant_id}`) },
    may('revoker') && { title: 'Take back…', run: () => takeBack(row), danger: true },
  ],
  empty: html`<h2>No warrant is revoked</h2>
    <p>Revoke a warrant to see it happen: from its record, through the list, to the last authorizer that refuses it.</p>
    <pre>rescind revoke svc_wrt_laptop-17 --reason "laptop stolen"</pre>`,
}

/** @param {Revocation} row */
function called(row) {
  return tokenWords(row) || row.warrant_id
}

/** @param {{listed: string}} row */
function listed({ listed: word }) {
  if (word === 'published') return html`<span class="soft line-of">${icon('force')} published</span>`
  return word === 'waiting' ? tag('wait', word) : html`<span class="soft">${word}</span>`
}

/** @param {string} batch */
const ofBatch = (batch) =>
  html`<p>
    Revoked together in the batch <code>${batch}</code>.
    <a href=${`#/changes/${batch}`}>How far it has come, and taking it back</a>. What was taken back is in the
    <a href=${`#/audit?batch=${batch}`}>audit log</a>.
  </p>`

/**
 * Return the online check of a warrant that the filter names completely.
 * @param {string} warrant
 * @param {Revocation[]} rows
 */
function checked(warrant, rows) {
  const isKnown = rows.some((row) => row.warrant_id === warrant)
  // A prefix of other warrants would get no answer.
  if (rows.length && !isKnown) return null
  const answer = /** @type {Api.RevocationCheck | null} */ (read(`/v1/revocations/check?warrant_id=${warrant}`, 5).data)
  if (!answer) return null
  if (!answer.revoked) {
    return banner(
      'unknown',
      html`<strong>Online checks let this warrant in.</strong> <code>${warrant}</code> is not revoked. The service says
        so of an identifier that it does not know, too.`,
      may('revoker') && html`<button type="button" @click=${() => revokeOne(warrant)}>Revoke it…</button>`,
    )
  }
  const why =
    !isKnown && html`It has no revocation of its own: <strong>its key is revoked.</strong> ${named(answer.reason)}`
  return banner(
    'force',
    html`<strong>Online checks refuse this warrant</strong>${
        answer.revoked_at && ` since ${ago(answer.revoked_at, now())}`
      }.
      ${why}`,
  )
}

/**
 * Return a sentence on the warrants that wait for the next SRL.
 * @param {Api.ListStatus | null} status
 */
function standing(status) {
  if (!status) return null
  const { pending, pending_truncated: isMore, oldest_pending_at: oldest, version } = status
  if (!pending && !isMore) return html`<p class="soft">${icon('force')} List ${number(version)} has all of them.</p>`
  const words = html`<strong
      >${isMore ? `At least ${number(pending)}` : number(pending)} ${pending === 1 ? 'change waits' : 'changes wait'}
      for list ${number(version + 1)}.</strong
    >
    ${oldest && `The oldest was recorded ${ago(oldest, now())}.`}`
  if (isLate(status, now()))
    return banner(
      'wait',
      html`${words} The schedule is late. <a href="#/overview">Publish a list now on the overview.</a>`,
    )
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
