/** The page of SRLs: their versions, signers and verification. */

import { now } from '../api.js'
import { count as warrants, date, minute, number, present, short, span } from '../format.js'
import { html, one, put } from '../html.js'
import { subscribe, memoizeLast, Pages, readCached } from '../store.js'
import { field, submitted } from '../components/dialog.js'
import { banner, heading, picture, problem, ready, skeleton, when } from '../components/panel.js'
import { tag } from '../components/tag.js'
import { coverage, coverageWords, difference, row, strip } from '../charts/srl.js'
import { Table } from '../table.js'
import { buttons, SIGNERS, signers } from '../components/srl_signers.js'
import { LONGEST, verifyCard } from '../components/srl_check.js'

export const title = 'SRL'

/** @typedef {Api.SrlVersion} Version */
/** @typedef {Parameters<import('../app.js').Page['show']>[1]} Context */

const VERSIONS = '/v1/revocations/srl/versions?limit=100'
const DAY = 86_400_000
const DAYS = 14
/** Versions that are read for the chart at most. */
const MOST = 2000
const GAPS = 5
const FAILED = 'The SRL versions could not be compared.'

/** @type {import('../app.js').Page['show']} */
export const show = async (main, context) => {
  const [compared] = context.route.parts
  return compared ? showDifference(main, compared, context) : showLists(main, context)
}

/** @type {import('../app.js').Page['show']} */
const showLists = async (main, context) => {
  const versions = new Pages('versions', 15, ({ version }) => version)
  const published = new Table(lists, context)
  const signing = new Table(signers, context)
  const card = memoizeLast(coverageCard)
  const check = one(
    html`<section class="panel wide body">
      <h2>Verify the SRL</h2>
      ${verifyCard(context.signal)}
    </section>`,
  )
  subscribe(() => {
    const known = versions.read(VERSIONS)
    const keys = readCached(SIGNERS, 15)
    const rows = /** @type {Version[] | null} */ (known.data)
    const oldest = rows?.at(-1)
    const isShort =
      rows && oldest && versions.more && rows.length < MOST && Date.parse(oldest.issued_at) > now() - DAYS * DAY
    if (isShort && !versions.isLoading && !versions.fault) void versions.load(MOST)
    published.draw(known)
    signing.draw(keys, keys.data?.keys ?? null)
    put(
      main,
      heading(title, 'Each SRL replaces the previous version. Versions only rise: authorizers reject older ones.'),
      rows && !isShort && card(rows, !versions.more),
      published.element,
      html`<div class="head">
        <h2>SRL signers</h2>
        <div class="actions">${buttons(keys.data?.keys ?? [])}</div>
      </div>`,
      signing.element,
      check,
    )
    if (known.at || known.error) ready()
  }, context.signal)
}

/**
 * @param {Version[]} versions
 * @param {boolean} isWhole
 */
function coverageCard(versions, isWhole) {
  const [from, until] = [now() - DAYS * DAY, now()]
  const covered = coverage(versions, from, until)
  const gaps = covered.gaps.toReversed()
  const line = (/** @type {{start: number, end: number}} */ { start, end }) => {
    // The end has its day if the start has another.
    const last = end === until ? 'now' : minute(end).slice(date(start) === date(end) ? 11 : 0)
    return html`<li>${minute(start)} – ${last}, ${span((end - start) / 1000)}</li>`
  }
  return one(
    html`<section class="panel wide body">
      <h2>Validity</h2>
      <p>
        ${versions.length ? coverageWords(covered) : 'No SRL is recorded.'}
        ${covered.gaps.length > 0 && 'During a gap, authorizers that use the SRL fail closed.'}
      </p>
      ${picture((width) => strip(covered, from, until, width)).element}
      <p class="legend">
        <span><i class="force"></i>valid SRL</span>${
          gaps.length > 0 && html`<span><i class="revoked striped"></i>no valid SRL</span>`
        }${
          covered.known > from &&
          html`<span><i class="unknown dotted"></i>${isWhole ? 'before the first recorded SRL' : 'not loaded'}</span>`
        }<span class="soft">days in UTC</span>
      </p>
      ${
        gaps.length > 0 &&
        html`<ul class="plain">
          ${gaps.slice(0, GAPS).map(line)}${
            gaps.length > GAPS && html`<li>${number(gaps.length - GAPS)} older gaps</li>`
          }
        </ul>`
      }
    </section>`,
  )
}

/** Scale of the bars: the longest SRL, and the signer of the newest. */
const scale = { most: 0, signer: '' }

/** @type {import('../table.js').Spec} */
const lists = {
  id: 'lists',
  noun: 'SRL versions',
  sort: '-version',
  mark: 'change',
  isLow: true,
  key: ({ version }) => String(version),
  open: ({ version }) => `#/lists/${Math.max(1, version - 1)}..${version}`,
  begin: (rows) => Object.assign(scale, { most: Math.max(...rows.map(({ count }) => count)), signer: rows[0]?.key_id }),
  columns: [
    { id: 'version', title: 'Version', width: '92px', of: 'version', text: ({ version }) => `v${version}` },
    { id: 'issued', title: 'Issued', width: '116px', of: 'issued_at', kind: 'time' },
    { id: 'size', title: 'Warrants', width: '100px', of: 'count', kind: 'number', text: ({ count }) => number(count) },
    {
      id: 'bar',
      title: 'Size and additions',
      width: 'minmax(160px, 1fr)',
      from: 900,
      text: () => '',
      cell: (version) => row(version, scale.most, version.key_id === scale.signer),
    },
    {
      id: 'change',
      title: 'Changes',
      width: '116px',
      value: ({ added_count: added, removed_count: removed }) => (added ?? 0) + (removed ?? 0),
      text: changed,
      cell: (version) => html`<span class=${changed(version) === 'none' ? 'soft' : null}>${changed(version)}</span>`,
    },
    {
      id: 'signer',
      title: 'Signer',
      width: '124px',
      from: 860,
      value: ({ key_id }) => key_id,
      cell: ({ key_id }) =>
        html`<code class=${key_id === scale.signer ? null : 'soft'} title=${key_id}>${short(key_id)}</code>`,
    },
    { id: 'expires', title: 'Expires', width: '116px', from: 1000, of: 'expires_at', kind: 'time' },
    { id: 'hash', title: 'SHA-256', text: ({ sha256 }) => sha256 },
  ],
  sub: ({ count, issued_at: at, key_id }) => html`${warrants(count, 'warrant')} · ${when(at)} · ${short(key_id)}`,
  bulk: [
    {
      title: 'Compare',
      run: (rows) => {
        const versions = rows.map(({ version }) => version)
        location.hash = `#/lists/${Math.min(...versions)}..${Math.max(...versions)}`
      },
    },
  ],
  empty: html`<p>No SRL versions are recorded yet.</p>`,
}

/** @param {Version} version */
function changed({ added_count: added, removed_count: removed }) {
  if (added === null || removed === null) return 'unknown'
  return present([added && `+${number(added)}`, removed && `−${number(removed)}`]).join(' ') || 'none'
}

/**
 * Show the difference between two SRLs.
 * @param {HTMLElement} main
 * @param {string} compared for example `6..7`
 * @param {Context} context
 */
function showDifference(main, compared, context) {
  const [from = 1, to = from] = (/^(\d{1,12})\.\.(\d{1,12})$/.exec(compared) ?? []).slice(1).map(Number)
  const table = new Table({ ...differing, id: `lists/${compared}` }, context)
  const compare = submitted((form) => void (location.hash = `#/lists/${form.get('from')}..${form.get('to')}`))
  const input = (/** @type {string} */ name, /** @type {string} */ words, /** @type {number} */ value) =>
    field(words, html`<input name=${name} type="number" min="1" max="999999999999" required value=${value} />`)
  const form = html`<form class="filters" @submit=${compare}>
    ${input('from', 'From version', from)}${input('to', 'To version', to)} <button>Compare</button>
  </form>`
  const differ = memoizeLast(lines)
  subscribe(() => {
    const published = readCached(VERSIONS, 60)
    const long = published.data?.versions.find(
      (/** @type {Version} */ { version, count }) => (version === from || version === to) && count > LONGEST,
    )
    // A published SRL is immutable.
    const ask = (/** @type {number} */ version) => readCached(`/v1/revocations/srl?version=${version}`, 3600)
    const [before, after] = !published.at || long ? [] : [ask(from), ask(to)]
    const size = long && html`<strong>SRL ${long.version} has ${number(long.count)} warrants.</strong>`
    const notice = !published.at
      ? published.error && problem(published.error, FAILED)
      : long
        ? banner('info', html`${size} This page does not load SRLs with more than ${number(LONGEST)}.`)
        : [before, after].map((each, index) => each?.error && missing(each.error, index ? to : from))
    const differences = before?.data && after?.data && differ(before.data, after.data)
    if (after && differences) table.draw(after, differences.rows)
    put(
      main,
      heading(`SRL ${from} and ${to}`, html`<a href="#/lists">All versions</a>. The service keeps the last 32.`),
      form,
      notice,
      differences
        ? [html`<p role="status">From version ${from} to ${to}: ${differences.words}</p>`, table.element]
        : !notice && skeleton(4),
    )
    if (differences || notice) ready()
  }, context.signal)
}

/**
 * @param {import('../api.js').ApiError} error
 * @param {number} version
 */
const missing = (error, version) =>
  error.status === 404 ? banner('info', html`The service does not have SRL ${version}.`) : problem(error, FAILED)

/**
 * Return the differing warrants, and a summary.
 * @param {Api.SignedRevocationList} before
 * @param {Api.SignedRevocationList} after
 */
function lines({ payload: before }, { payload: after }) {
  const { added, removed } = difference(before.RevokedIDs, after.RevokedIDs)
  const rows = (/** @type {string[]} */ ids, /** @type {string} */ change) => ids.map((id) => ({ id, change }))
  const stayed = number(after.RevokedIDs.length - added.length)
  return {
    rows: [...rows(added, 'added'), ...rows(removed, 'removed')],
    words: `${number(added.length)} added, ${number(removed.length)} removed, ${stayed} unchanged.`,
  }
}

/** @type {import('../table.js').Spec} */
const differing = {
  id: 'lists',
  noun: 'warrants',
  sort: 'id',
  mark: 'change',
  open: ({ id }) => `#/revocations?warrant=${id}`,
  columns: [
    { id: 'id', title: 'Warrant', width: 'minmax(200px, 1fr)', kind: 'name' },
    {
      id: 'change',
      title: 'Change',
      width: '140px',
      value: ({ change }) => change,
      cell: ({ change }) => (change === 'added' ? tag('wait', change) : tag('superseded', change)),
    },
  ],
  facets: () => [
    { title: 'Added', query: 'change:added' },
    { title: 'Removed', query: 'change:removed' },
  ],
  empty: html`<p>Both versions contain the same warrants.</p>`,
}
