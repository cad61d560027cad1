/** What was published, by whom, and is it genuine? */

import { ApiError, get, now, pages } from '../api.js'
import { count, minute, number, short, span } from '../format.js'
import { html, one, put } from '../html.js'
import { banner, heading, panel, picture, problem, ready } from '../parts/panel.js'
import { empty, footer, longList } from '../parts/table.js'
import { coverage, coverageWords, difference, row, strip } from '../pictures/srl.js'
import { signersCard } from './list_signers.js'
import { LONGEST, verifyCard } from './list_verification.js'

export const title = 'Lists'

/** @typedef {Api.SrlVersion} Version */
/** @typedef {{versions: Version[], whole: boolean}} Published newest first; whether these are all that are kept */

const DAY = 86_400_000
const DAYS = 14
/** Pages of 100 versions that are read at most. */
const PAGES = 20
const ROWS = 15
const GAPS = 5

/**
 * @param {HTMLElement} main
 * @param {{route: {parts: string[]}, signal: AbortSignal}} context
 */
export async function show(main, { route, signal }) {
  const published = readVersions(signal)
  published.catch(() => null)
  let first = true
  const read = () => first ? (first = false, published) : readVersions(signal)
  const compare = comparison(signal)
  const versions = panel('Published lists', async () => versionsCard(await read(), compare.open), { signal, what: 'What was published', wide: true })
  const strip = panel('When was a list valid?', async () => coverageCard(await published), { signal, what: 'When a list was valid', wide: true, lines: 2 })
  const verified = panel('Verify the list here', async () => verifyCard(signal), { signal, what: 'The check', wide: true })
  const compared = panel('Compare two lists', async () => compare.start((await published).versions, route.parts[0]), { signal, what: 'The difference', wide: true, lines: 2 })
  const signers = panel('Who signs lists', (redraw) => signersCard(signal, redraw), { signal, what: 'The list signers', wide: true })
  const all = [strip, versions, verified, compared, signers]
  put(main, heading(title, 'Each list replaces the one before. Versions only go up: an authorizer refuses an older one.'), html`<div class="panels">${all.map(({ element }) => element)}</div>`)
  await Promise.all(all.map(({ drawn }) => drawn))
  if (!signal.aborted) ready()
  if (route.parts[0]) compared.element.scrollIntoView()
}

/**
 * The lists of the last days.
 * @param {AbortSignal} signal
 * @returns {Promise<Published>}
 */
async function readVersions(signal) {
  /** @type {Version[]} */
  const versions = []
  let most = PAGES
  for await (const page of pages('/v1/revocations/srl/versions', 'versions', { signal })) {
    versions.push(.../** @type {Version[]} */ (page))
    const oldest = versions.at(-1)
    if (--most === 0 || (oldest && Date.parse(oldest.issued_at) < now() - DAYS * DAY)) return { versions, whole: false }
  }
  return { versions, whole: true }
}

/** @param {Published} published */
function coverageCard({ versions, whole }) {
  const [from, until] = [now() - DAYS * DAY, now()]
  const found = coverage(versions, from, until)
  const gaps = [...found.gaps].reverse()
  return html`
    <p>${versions.length ? coverageWords(found) : 'No record of a list is kept.'} ${found.gaps.length > 0 && 'In a gap, every authorizer that works from the list refuses everything.'}</p>
    ${picture((width) => strip(found, from, until, width)).element}
    <p class="legend"><span><i class="force"></i>a list was valid</span>${gaps.length > 0 && html`<span><i class="revoked striped"></i>no list was valid</span>`}${found.known > from && html`<span><i class="unknown dotted"></i>${whole ? 'no record: before the first list that is kept' : 'not read'}</span>`}<span class="soft">days in UTC</span></p>
    ${gaps.length > 0 && html`<ul class="plain">${gaps.slice(0, GAPS).map(({ start, end }) => html`<li>${minute(start)} – ${end === until ? 'now' : minute(end).slice(minute(start).slice(0, 10) === minute(end).slice(0, 10) ? 11 : 0)}, ${span((end - start) / 1000)}</li>`)}${gaps.length > GAPS && html`<li>${number(gaps.length - GAPS)} older gaps</li>`}</ul>`}`
}

/**
 * @param {Published} published
 * @param {(from: number, to: number) => void} compare
 */
function versionsCard({ versions }, compare) {
  if (!versions.length) return empty('No record of a published list is kept yet. The next list is shown here.')
  const place = one(html`<div class="body"></div>`)
  let shown = ROWS
  const draw = () => {
    const rows = versions.slice(0, shown)
    const more = shown < versions.length ? () => { shown += 100; draw() } : null
    const signers = new Set(rows.map(({ key_id }) => key_id))
    put(place, html`
      <p class="soft">Length: warrants refused. End piece: added since the list before.</p>
      <ol class="listed">${rows.map((each, index) => versionRow(each, rows, index, compare))}</ol>
      <p class="legend">${[...signers].map((id, index) => html`<span><i class=${index ? 'superseded' : 'info'}></i>signed by ${short(id)}</span>`)}<span><i class="wait"></i>added</span></p>
      ${more && footer(rows.length, versions.length, more)}`)
  }
  draw()
  return place
}

/**
 * @param {Version} version
 * @param {Version[]} rows
 * @param {number} index
 * @param {(from: number, to: number) => void} compare
 */
function versionRow(version, rows, index, compare) {
  const most = Math.max(...rows.map(({ count }) => count))
  const { version: name, added, removed } = version
  const changes = [added && `+${number(added)}`, removed && `−${number(removed)}`].filter(Boolean).join(' ')
  const change = added === null || removed === null ? 'unknown' : changes || 'same'
  const other = index > 0 && rows[index - 1].key_id !== version.key_id
  const open = (/** @type {Event} */ event) => { event.preventDefault(); compare(name - 1, name) }
  return html`<li class=${other ? 'ruled' : null}>
    ${name > 1 ? html`<a href=${`#/lists/${name - 1}..${name}`} aria-label=${`v${name}: compare it with the list before`} @click=${open}>v${name}</a>` : html`<span>v1</span>`}
    <time class="soft" datetime=${version.issued_at}>${minute(version.issued_at).slice(5)}</time>
    ${row(version, most, version.key_id === rows[0].key_id)}
    <span>${number(version.count)} <span class="soft">(${change})</span></span>
  </li>`
}

/**
 * The form that asks for two lists, and what differs.
 * @param {AbortSignal} signal
 */
function comparison(signal) {
  /** @type {Version[]} */
  let versions = []
  const result = one(html`<div class="body"></div>`)
  const [from, to] = ['List', 'with list'].map((label) => one(html`<label class="field"><span>${label}</span><input type="number" min="1" max="999999999999" required></label>`))
  const input = (/** @type {Element} */ field) => /** @type {HTMLInputElement} */ (field.querySelector('input'))
  const draw = async () => {
    const [one, other] = [from, to].map((field) => Number(input(field).value))
    history.replaceState(null, '', `#/lists/${one}..${other}`)
    try {
      put(result, await differenceOf(one, other, versions, signal))
    } catch (error) {
      if (!signal.aborted) put(result, problem(error, 'The lists could not be compared.', draw))
    }
    form.scrollIntoView({ block: 'nearest' })
  }
  const fill = (/** @type {(number | string)[]} */ values) => [from, to].forEach((field, index) => { input(field).value = String(values[index]) })
  const open = async (/** @type {number} */ one, /** @type {number} */ other) => {
    fill([one, other])
    await draw()
    result.scrollIntoView({ block: 'nearest' })
  }
  const form = one(html`<form class="filters" @submit=${(/** @type {Event} */ event) => { event.preventDefault(); draw() }}>${from}${to}<button>Compare</button></form>`)
  const start = async (/** @type {Version[]} */ found, /** @type {string | undefined} */ wanted) => {
    versions = found
    const newest = versions[0]?.version ?? 1
    const named = /^(\d{1,12})\.\.(\d{1,12})$/.exec(wanted ?? '')
    fill(named ? named.slice(1) : [Math.max(1, newest - 1), newest])
    if (named) await draw()
    return [form, html`<p class="soft">The service has the last 32 lists.</p>`, result]
  }
  return { open, start }
}

/**
 * @param {number} from
 * @param {number} to
 * @param {Version[]} versions
 * @param {AbortSignal} signal
 */
async function differenceOf(from, to, versions, signal) {
  const long = versions.find(({ version, count }) => (version === from || version === to) && count > LONGEST)
  if (long) return banner('info', html`<strong>List ${long.version} has ${number(long.count)} warrants.</strong> The page does not fetch lists of more than ${number(LONGEST)}.`)
  const [before, after] = await Promise.all([from, to].map((version) => idsOf(version, signal)))
  if (!before || !after) return banner('info', html`The service no longer has list ${before ? to : from}, or never had it.`)
  const { added, removed } = difference(before, after)
  const part = (/** @type {string} */ words, /** @type {string[]} */ ids) => html`
    <div class="body"><h3>${words}: ${number(ids.length)}</h3>${ids.length > 0 && longList(words, ids, (id) => html`<span role="cell"><code>${id}</code></span>`, { height: 32, visible: 8 })}</div>`
  return html`
    <p role="status">From list ${from} to list ${to}, ${count(added.length, 'warrant')} ${added.length === 1 ? 'was' : 'were'} added and ${number(removed.length)} removed. ${number(after.length - added.length)} stayed.</p>
    <div class="panels">${part('Added', added)}${part('Removed', removed)}</div>`
}

/**
 * What a list names; null if the service does not have the list.
 * @param {number} version
 * @param {AbortSignal} signal
 * @returns {Promise<string[] | null>}
 */
async function idsOf(version, signal) {
  try {
    const list = /** @type {Api.SignedRevocationList} */ (await get('/v1/revocations/srl', { signal, query: { version } }))
    return list.payload.RevokedIDs
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return null
    throw error
  }
}
