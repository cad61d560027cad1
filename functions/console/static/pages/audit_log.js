/** The page of the audit log: its entries, and the check of its completeness. */

import { exported, now } from '../api.js'
import { date, instant, nameOf, number, second, short, stamp, formatTime } from '../format.js'
import { html, one, put } from '../html.js'
import { subscribe, memoizeLast, Pages } from '../store.js'
import { ACTIONS, collapseRuns, sentence } from '../components/audit_sentences.js'
import { showDetails } from '../components/dialog.js'
import { detailRows } from '../components/differences.js'
import { banner, button, objectName, facts, heading, userText, problem, ready } from '../components/panel.js'
import { advance, download } from '../components/progress.js'
import { icon } from '../components/tag.js'
import { readFilter, Table } from '../table.js'
import { showCheck } from '../components/log_check.js'

/** @typedef {Api.AuditEntry} Entry */
/** @typedef {import('../components/audit_sentences.js').Run} Run */
/** @typedef {Run & {id: string, who: string, did: string, what: string}} Line */

/** Parameters of the API by filter name. */
const PARAMETERS = /** @type {const} */ ({
  action: 'action',
  warrant: 'warrant_id',
  actor: 'actor',
  key: 'actor_key_id',
  person: 'actor_id',
  batch: 'batch_id',
  resource: 'resource_id',
})
const DAYS = 7
const DAY = 86_400_000
const FIRST = '2000-01-01T00:00:00Z'
/** Visible entries of one run; a file contains all entries. */
const SHOWN = 50

export const title = 'Audit log'

/** @type {import('../app.js').Page['show']} */
export const show = async (main, context) => {
  const { signal } = context
  opened = stamp(now() - DAYS * DAY)
  const place = one(html`<div class="body"></div>`)
  const file = (/** @type {'ndjson' | 'csv'} */ format) => ({
    title: `All filtered entries as ${format.toUpperCase()}`,
    run: () => void save(format, table.requestedFilter, place, signal),
  })
  /** @type {Table} */
  const table = new Table({ ...lines, files: [file('csv'), file('ndjson')] }, context)
  const pages = new Pages('audit_logs', 10)
  const check = button('Verify log…', () => showCheck(place, signal))
  subscribe(() => {
    const known = pages.read('/v1/audit-logs', { limit: '100', ...toQuery(table.requestedFilter) })
    const words = `Every change and its entry are written together. Entries ${windowOf(table.requestedFilter)}.`
    put(main, heading(title, words, check), place, table.element)
    table.draw(known, runs(known.data))
    if (known.at || known.error) ready()
  }, signal)
}

const runs = memoizeLast(
  (/** @type {Entry[] | null} */ data) =>
    data && collapseRuns(data).map((run) => ({ ...run, ...sentence(run), id: run.entries[0].id })),
)

/**
 * The entries of one warrant or batch are few, so the page shows them for all times.
 * @param {Record<string, string | undefined>} values
 */
const isOfAllTimes = ({ warrant, batch }) => Boolean(warrant || batch)

/** Start of the time window, constant while the page is open. */
let opened = ''

/**
 * Return the API query of a filter. An export has the same time window as the page.
 * @param {string} filter
 * @returns {Record<string, string | null>}
 */
function toQuery(filter) {
  const { values, words } = readFilter(filter, FIELDS)
  const end = values.to ? instant(values.to, true) : null
  const begin = values.from ? instant(values.from) : isOfAllTimes(values) ? FIRST : end ? null : opened
  return {
    ...Object.fromEntries(Object.entries(PARAMETERS).map(([name, parameter]) => [parameter, values[name] ?? null])),
    q: words.join(' '),
    from: begin,
    to: end,
  }
}

/** @param {string} filter */
function windowOf(filter) {
  const { values } = readFilter(filter, FIELDS)
  const until = values.to ? `until ${values.to.replace('T', ' ')} UTC` : ''
  if (values.from) return `since ${values.from.replace('T', ' ')} UTC${until && `, ${until}`}`
  if (isOfAllTimes(values)) return until || 'of all time'
  return until ? `of the ${DAYS} days ${until}` : `of the last ${DAYS} days`
}

/** @type {import('../table.js').Field[]} */
const FIELDS = [
  { id: 'action', title: 'Action', options: ACTIONS },
  { id: 'warrant', title: 'Warrant', hint: 'Warrant identifier.' },
  { id: 'actor', title: 'Actor', hint: 'For example admin@acme.svc, or the e-mail address of a person.' },
  { id: 'key', title: 'API key', hint: 'Identifier of the API key.' },
  {
    id: 'person',
    title: 'Person',
    hint: 'Identifier of the person. Unlike an e-mail address, it never changes its owner.',
  },
  { id: 'batch', title: 'Batch', hint: 'Batch identifier.' },
  { id: 'resource', title: 'Resource', hint: 'Identifier of the changed resource.' },
  { id: 'from', title: 'From (UTC)', type: 'datetime-local' },
  { id: 'to', title: 'To (UTC)', type: 'datetime-local' },
]

/** @type {import('../table.js').Spec} */
const lines = {
  id: 'audit',
  noun: 'entries',
  sort: '-time',
  mark: 'time',
  fields: FIELDS,
  show: (line) =>
    showDetails(
      html`<bdi>${line.who}</bdi> ${line.did} <bdi>${line.what}</bdi>`,
      html`<div class="scrolled body">
        ${line.entries.slice(0, SHOWN).map(fact)}
        ${
          line.entries.length > SHOWN &&
          html`<p class="soft">${number(line.entries.length - SHOWN)} more entries are in the export.</p>`
        }
      </div>`,
    ),
  columns: [
    {
      id: 'did',
      title: 'Entry',
      lead: true,
      width: 'minmax(220px, 3fr)',
      text: ({ who, did, what }) => `${who} ${did} ${what}`,
      cell: (line) =>
        html`<span class="line-of"
          >${mark(line.action)}<span class="cut">${line.did} <bdi>${line.what}</bdi></span></span
        >`,
    },
    {
      id: 'who',
      title: 'Actor',
      width: 'minmax(164px, 1fr)',
      from: 760,
      value: ({ who }) => who,
      cell: ({ who }) => html`<bdi title=${who}>${who}</bdi>`,
    },
    { id: 'act', title: 'Action', width: '172px', from: 1000, of: 'action', kind: 'code' },
    {
      id: 'where',
      title: 'Source IP',
      width: '124px',
      from: 1120,
      text: ({ entries: [{ source_ip: address }] }) => address ?? '',
    },
    { id: 'time', title: 'Time', width: '116px', kind: 'time', value: ({ entries: [{ timestamp }] }) => timestamp },
    { id: 'about', title: 'Resource', text: ({ entries: [{ resource_id: thing }] }) => thing },
  ],
  sub: ({ who }) => html`<bdi>${who}</bdi>`,
  facets: () => [
    { title: 'Revocations', query: 'action:revocation.create' },
    { title: 'Key revocations', query: 'action:key.revoke' },
    { title: 'Settings', query: 'action:tenant.update_settings' },
    { title: 'SRLs', query: 'action:srl.regenerate' },
  ],
  empty: html`<p>No entries in this period.</p>`,
}

/**
 * Return a symbol for irreversible actions and for actions that need attention; none for the others.
 * @param {string} action
 */
function mark(action) {
  if (/\.(revoke|revoke_key|remove|delete)$/.test(action) && action !== 'revocation.delete') return icon('revoked')
  return /\.(stale|expiring|repair|disable|suspend|start_generation)$/.test(action)
    ? icon('wait')
    : html`<span class="icon"></span>`
}

/** @param {Entry} entry */
function fact(entry) {
  const { actor, actor_id: id, actor_name: name, actor_key_id: key } = entry
  const link = key && html`<a href=${`#/api-keys/${key}`}>${objectName(name ?? short(key))}</a>`
  return html`<section>
    ${facts([
      ['Time', `${second(entry.timestamp)} UTC, ${formatTime(entry.timestamp, now())}`],
      ['Action', html`<code>${entry.action}</code>`],
      ['Actor', html`${userText(id ? nameOf(actor, name) : actor)}${link && html` with the API key ${link}`}`],
      ['Resource', html`<code>${entry.resource_id}</code>`],
      ['Source IP', entry.source_ip ?? 'the host of the service'],
      ['Request ID', entry.request_id ? html`<code>${entry.request_id}</code>` : 'none'],
      ['Entry ID', html`<code>${entry.id}</code>`],
      ...detailRows(entry.details).map(([name, value]) => /** @type {[string, unknown]} */ ([name, userText(value)])),
    ])}
  </section>`
}

/**
 * Save all entries that the filter finds to a file, part by part.
 * @param {'ndjson' | 'csv'} format
 * @param {string} filter
 * @param {Element} place
 * @param {AbortSignal} signal
 */
async function save(format, filter, place, signal) {
  /** @type {ArrayBuffer[]} */
  const parts = []
  const answers = exported({ ...toQuery(filter), format }, signal)
  const step = async () => {
    const { value } = await answers.next()
    if (!value) return null
    parts.push(value)
    const size = parts.reduce((sum, part) => sum + part.byteLength, 0)
    return { words: `${number(Math.round(size / 1024))} kB loaded` }
  }
  try {
    if (!(await advance(place, step, signal))) return put(place, banner('info', 'Stopped. No file was created.'))
    download(`audit-${date(now())}.${format}`, format === 'csv' ? 'text/csv' : 'application/x-ndjson', parts)
    put(place, banner('force', `The file is complete. It contains the entries ${windowOf(filter)}.`))
  } catch (error) {
    const again = () => save(format, filter, place, signal)
    put(place, problem(error, 'The log could not be exported. No file was created.', again))
  }
}
