/** Which warrants are revoked, and is each in the list? */

import { ApiError, get, now, repeat } from '../api.js'
import { ago, dayBegins, dayEnds, number } from '../format.js'
import { html, one, put } from '../html.js'
import { field } from '../parts/dialog.js'
import { announce, banner, called, heading, named, person, problem, ready, when } from '../parts/panel.js'
import { work } from '../parts/progress.js'
import { empty, longTable, table } from '../parts/table.js'
import { icon, tag } from '../parts/tag.js'
import { WARRANT } from '../parts/warrant_lines.js'
import { isLate } from '../pictures/overview.js'
import { may, who } from '../session.js'
import { showMany } from './revocation_batch.js'
import { revokeOne } from './revocation_dialogs.js'

/** @typedef {{warrant: string, batch: string, reason: string, by: string, from: string, to: string}} Filters as in the address */
/** @typedef {{rows: Api.RevocationRecord[], total: number | null, cursor: string | null}} Found */

export const title = 'Revocations'

const PAGE = 100
/** A page of the service reads 1,000 records; so many pages are asked for before a person is. */
const CALLS = 10
const MOST = 10_000
/** From so many rows on, only those in view are in the document. */
const LONG = 200
const NONE = { warrant: '', batch: '', reason: '', by: '', from: '', to: '' }

/**
 * @param {HTMLElement} main
 * @param {{route: import('../app.js').Route, signal: AbortSignal}} context
 */
export async function show(main, { route: { parts: [part], query }, signal }) {
  if (!may('revoker', 'auditor')) {
    put(main, heading(title), banner('info', html`<strong>This key cannot read revocations.</strong> Ask an administrator for one with the scope auditor, revoker or admin.`))
    return ready()
  }
  if (part === 'many') return showMany(main, signal)
  if (part) return location.replace(`#/changes/${part}`)
  const filters = /** @type {Filters} */ ({ ...NONE, ...Object.fromEntries(query) })
  await showList(main, filters, signal)
  ready()
}

/**
 * @param {HTMLElement} main
 * @param {Filters} filters
 * @param {AbortSignal} signal
 */
async function showList(main, filters, signal) {
  const place = one(html`<div class="body"></div>`)
  /** @type {List} */
  let list
  const search = (/** @type {Filters} */ wanted) => {
    list = new List(place, wanted, signal)
    return list.begin()
  }
  const buttons = may('revoker') && html`<button type="button" class="main" @click=${() => revokeOne()}>Revoke a warrant…</button><a class="button" href="#/revocations/many">Revoke many…</a>`
  put(main, heading(title, 'Which warrants are revoked, and whether the list says so yet.', buttons),
    html`<section class="panel">${form(filters, async (wanted) => {
      history.pushState(null, '', address(wanted))
      await search(wanted)
    })}</section>`,
    html`<section class="panel" aria-label="Revocations">${place}</section>`)
  await search(filters)
  void repeat(10, () => list.refresh(), signal)
}

/**
 * The list in force, or null if that is not known: the rest of the page is worth showing without it.
 * @param {AbortSignal} signal
 * @returns {Promise<Api.ListStatus | null>}
 */
const statusOf = (signal) => get('/v1/revocations/srl/status', { signal }).catch((error) => {
  if (!(error instanceof ApiError)) throw error
  return null
})

/** @param {Partial<Filters>} filters */
function address(filters) {
  const query = new URLSearchParams(Object.entries(filters).filter(([, value]) => value)).toString()
  return query ? `#/revocations?${query}` : '#/revocations'
}

/**
 * @param {Filters} filters
 * @param {(filters: Filters) => Promise<void>} search
 */
function form(filters, search) {
  const submit = (/** @type {SubmitEvent} */ event) => {
    event.preventDefault()
    const given = Object.fromEntries([...new FormData(/** @type {HTMLFormElement} */ (event.target))].map(([name, value]) => [name, String(value).trim()]))
    const what = given.what && !given.what.startsWith('svc_') ? `svc_wrt_${given.what}` : given.what
    if (/^svc_rev_/.test(what)) location.hash = `#/changes/${what}`
    else void search({ ...NONE, reason: given.reason, by: given.by, from: given.from, to: given.to, [/^svc_bat_/.test(what) ? 'batch' : 'warrant']: what })
  }
  return html`
    <form class="filters" role="search" @submit=${submit}>
      ${field('Warrant', html`<input name="what" value=${filters.warrant || filters.batch} autocomplete="off" spellcheck="false" placeholder="svc_wrt_laptop-17">`)}
      ${field('Reason contains', html`<input name="reason" value=${filters.reason} dir="auto" maxlength="256">`)}
      ${field('By', html`<input name="by" value=${filters.by} autocomplete="off" spellcheck="false" placeholder="fraud-desk">`)}
      ${field('From (UTC)', html`<input name="from" type="date" value=${filters.from}>`)}
      ${field('To (UTC)', html`<input name="to" type="date" value=${filters.to}>`)}
      <div class="actions"><button class="main">Search</button><a class="button" href="#/revocations">Clear</a></div>
      <p class="soft hint">A whole identifier is also checked online. With <code>*</code> at its end: all that begin so. A batch or a revocation can be given too.</p>
    </form>`
}

/** The rows that were found, of which a person loads more. */
class List {
  /** @type {Found} */
  #found = { rows: [], total: null, cursor: null }
  /** @type {Api.ListStatus | null} */
  #status = null
  #head = one(html`<div></div>`)
  #rows = one(html`<div></div>`)
  #more = /** @type {HTMLButtonElement} */ (one(html`<button type="button" @click=${() => this.#load()}>Load the next ${PAGE}</button>`))
  #all = /** @type {HTMLButtonElement} */ (one(html`<button type="button" @click=${() => this.#loadAll()}></button>`))
  #words = one(html`<span></span>`)
  #progress = one(html`<div class="body"></div>`)

  /**
   * @param {Element} place
   * @param {Filters} filters
   * @param {AbortSignal} signal
   */
  constructor(place, filters, signal) {
    this.place = place
    this.filters = filters
    this.signal = signal
  }

  /** Show the first rows. */
  async begin() {
    const { warrant } = this.filters
    if (warrant && !WARRANT.test(warrant.replace(/\*$/, warrant === 'svc_wrt_*' ? '-' : ''))) {
      return put(this.place, banner('wait', html`<strong>No warrant is named so.</strong> An identifier is svc_wrt_ and 1 to 64 letters, digits, _ or -; at its end, * stands for the rest.`))
    }
    try {
      const [status] = await Promise.all([statusOf(this.signal), this.#read()])
      this.#status = status
      const checked = await this.#checked()
      put(this.#head, this.#heading())
      put(this.place, this.#head, checked, this.#rows, this.#progress,
        html`<p class="soft foot">${this.#words}<span class="actions">${this.#more}${this.#all}</span></p>`)
      this.#draw()
    } catch (error) {
      if (!this.signal.aborted) put(this.place, problem(error, 'The revocations could not be shown.', () => this.begin()))
    }
  }

  /** Tell what waits for a list now. Rows stay as they are while a person is among them. */
  async refresh() {
    const status = await statusOf(this.signal)
    if (JSON.stringify(status) === JSON.stringify(this.#status)) return
    this.#status = status
    const isFree = (/** @type {Element} */ part) => !part.contains(document.activeElement)
    if (this.#head.isConnected && isFree(this.#head)) put(this.#head, this.#heading())
    if (isFree(this.#rows)) this.#draw()
  }

  async #read() {
    const begun = this.#found.rows.length
    for (let call = 0; call < CALLS; call++) {
      const answer = /** @type {Api.RevocationList} */ (await get('/v1/revocations', { signal: this.signal, query: { limit: PAGE, include: 'names', ...asked(this.filters), cursor: this.#found.cursor } }))
      this.#found = { rows: [...this.#found.rows, ...answer.revocations], total: answer.total, cursor: answer.cursor }
      if (!answer.cursor || this.#found.rows.length >= begun + PAGE) return
    }
  }

  async #load() {
    this.#more.disabled = true
    try {
      await this.#read()
      this.#draw()
      announce(`${number(this.#found.rows.length)} revocations are shown.`)
    } catch (error) {
      if (!this.signal.aborted) put(this.#progress, problem(error, 'The next revocations could not be loaded.'))
    } finally {
      this.#more.disabled = false
    }
  }

  async #loadAll() {
    this.#more.hidden = this.#all.hidden = true
    try {
      const steps = Array.from({ length: Math.ceil(this.#left() / PAGE) }, () => PAGE)
      await work(this.#progress, 'revocations', steps, async () => this.#found.cursor && this.#read(), { size: (step) => step, signal: this.signal })
    } catch (error) {
      if (!this.signal.aborted) put(this.#progress, problem(error, 'Not all revocations could be loaded.'))
    } finally {
      this.#draw()
    }
  }

  /** How many can still be loaded at once. */
  #left() {
    const { rows, total } = this.#found
    return total === null ? 0 : Math.min(total, MOST) - rows.length
  }

  #draw() {
    const { rows, total, cursor } = this.#found
    const columns = columnsOf(this.#status)
    const before = this.#rows.querySelector('.long')?.scrollTop ?? 0
    const caption = this.filters.batch || this.filters.warrant ? 'Revocations' : 'Revocations, the newest first'
    put(this.#rows, !rows.length ? this.#nothing() : rows.length <= LONG ? html`<div class="compact">${table(caption, columns, rows)}</div>` : [
      html`<p class="soft">Only the rows in view are in the page: search with the fields above, not with the search of the browser.</p>`,
      longTable(caption, columns, rows, '2.2fr 1.2fr 2.4fr 1fr 1.2fr'),
    ])
    const long = this.#rows.querySelector('.long')
    if (long) long.scrollTop = before
    this.#more.hidden = !cursor
    this.#all.hidden = !cursor || this.#left() <= PAGE
    put(this.#all, `Load ${number(this.#left())} more`)
    put(this.#words, !rows.length ? '' : total !== null && total > rows.length ? `Showing ${number(rows.length)} of ${number(total)}` : cursor ? `Showing ${number(rows.length)}; there may be more` : rows.length === 1 ? '1 revocation' : `All ${number(rows.length)} are shown`)
  }

  #heading() {
    const { batch } = this.filters
    if (batch) {
      return html`<p>Revoked together in the batch <code>${batch}</code>. <a href=${`#/changes/${batch}`}>How far it has come, and taking it back</a></p>`
    }
    return this.#found.rows.length > 0 && standing(this.#status)
  }

  #nothing() {
    const { warrant } = this.filters
    if (Object.values(this.filters).every((value) => !value)) {
      return empty('No warrant is revoked. Revoke a warrant to see it happen: from its record, through the list, to the last authorizer that refuses it.',
        may('revoker') && html`<button type="button" class="main" @click=${() => revokeOne()}>Revoke a warrant…</button>`)
    }
    if (this.filters.batch) {
      return empty(html`No revocation of this batch ${this.#found.cursor ? 'is among the newest that were read' : 'is in force'}. What was taken back is in the <a href=${`#/audit?batch=${this.filters.batch}`}>audit log</a>.`)
    }
    if (this.#found.cursor) return html`<p class="soft">Nothing yet among the newest that were read; there are older ones.</p>`
    const beginning = warrant && !warrant.endsWith('*') && html`<a href=${address({ ...this.filters, warrant: `${warrant}*` })}>Search for all that begin with it</a>`
    return empty('No revocation matches.', beginning)
  }

  /** What the online check says of a warrant that was asked for by its whole name. */
  async #checked() {
    const { warrant } = this.filters
    if (!WARRANT.test(warrant)) return null
    const { revoked, revoked_at: since, reason } = /** @type {Api.RevocationCheck} */ (await get('/v1/revocations/check', { signal: this.signal, query: { warrant_id: warrant } }))
    const isKnown = this.#found.rows.some((row) => row.warrant_id === warrant)
    if (!revoked) {
      return banner('unknown', html`<strong>Online checks let this warrant in.</strong> It is not revoked. The service says so of an identifier that it does not know, too.`,
        may('revoker') && html`<button type="button" @click=${() => revokeOne(warrant)}>Revoke it…</button>`)
    }
    return banner('force', html`<strong>Online checks refuse this warrant</strong>${since && ` since ${ago(since, now())}`}. ${!isKnown && html`It has no revocation of its own: <strong>its key is revoked.</strong> ${named(reason)}`}`)
  }
}

/**
 * The query of the API.
 * @param {Filters} filters
 */
function asked({ warrant, batch, reason, by, from, to }) {
  const isBeginning = warrant.endsWith('*')
  return {
    warrant_id: isBeginning ? null : warrant, warrant_prefix: isBeginning ? warrant.slice(0, -1) : null,
    batch_id: batch, reason, created_by: by && !by.includes('@') ? `${by}@${who().identity.split('@')[1]}` : by, from: from && dayBegins(from), to: to && dayEnds(to),
  }
}

/**
 * What waits for the next list.
 * @param {Api.ListStatus | null} status
 */
function standing(status) {
  if (!status) return html`<p class="soft">The service cannot tell now which of them are in the list.</p>`
  const { pending, pending_truncated: isMore, oldest_pending_at: oldest, version } = status
  if (!pending && !isMore) return html`<p>${icon('force')} List ${number(version)} has all of them.</p>`
  const words = html`<strong>${isMore ? `At least ${number(pending)}` : number(pending)} ${pending === 1 ? 'change waits' : 'changes wait'} for list ${number(version + 1)}.</strong> ${oldest && `The oldest was recorded ${ago(oldest, now())}.`}`
  if (isLate(status, now())) return banner('wait', html`${words} The schedule is late. <a href="#/overview">Publish a list now on the overview.</a>`)
  return html`<p>${icon('wait')} ${words}</p>`
}

/**
 * Whether a record waits for the next list, as far as that is known from its time. A list is read after its time of issue.
 * @param {Api.RevocationRecord} record
 * @param {Api.ListStatus} status
 */
const waits = ({ created_at: created }, { pending, pending_truncated: isMore, oldest_pending_at: oldest, issued_at: issued }) =>
  (pending > 0 || isMore) && created >= issued && (!oldest || created >= oldest)

/**
 * @param {Api.ListStatus | null} status
 * @returns {import('../parts/table.js').Column[]}
 */
const columnsOf = (status) => [
  { heading: 'Warrant', cell: ({ id, warrant_id: warrant }) => html`<a href=${`#/changes/${id}`}>${called(warrant)}</a>` },
  { heading: 'List', cell: (row) => !status ? html`<span class="soft">not known</span>` : waits(row, status) ? tag('wait', 'waiting') : html`<span class="soft line">${icon('force')} published</span>` },
  { heading: 'Reason', cell: ({ reason }) => named(reason) },
  { heading: 'Revoked', cell: ({ created_at: created }) => html`<span class="line">${when(created)}</span>` },
  { heading: 'By', cell: ({ created_by: by, created_by_name: name }) => person(by, name) },
]
