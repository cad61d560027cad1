/** The pages of changes: the revoked object, its propagation, and the authorizers that may still admit it. */

import { ApiError, get, now } from '../api.js'
import {
  lagOf,
  exposureOf,
  isOver,
  KINDS,
  publicationEvents,
  shares,
  stages,
  summarize,
  titleOf,
  formatDuration,
  describeUnrevoke,
} from '../changes.js'
import { ago, count, nameOf, number, second, tokenWords } from '../format.js'
import { html, one, put, svg } from '../html.js'
import { aged, memoizeLast, subscribe, ownerOf, readCached } from '../store.js'
import {
  button,
  objectName,
  copy,
  facts,
  forbidden,
  heading,
  userText,
  person,
  picture,
  problem,
  ready,
  skeleton,
  when,
} from '../components/panel.js'
import { shape, tag } from '../components/tag.js'
import { exactTime, timeline } from '../components/timeline.js'
import { curve } from '../charts/changes.js'
import { hasScope } from '../session.js'
import { Table, whole } from '../table.js'
import { unrevoke, unrevokeBatch } from '../components/revocation_dialogs.js'

/** @typedef {import('../changes.js').Change} Change */
/** @typedef {import('../changes.js').Stage} Stage */
/** @typedef {Api.LaggingAuthorizer} Left */
/** @typedef {{route: {parts: string[], query: URLSearchParams}, signal: AbortSignal}} Context */

/** Seconds between polls: while a change propagates, and otherwise. */
const [OFTEN, SELDOM] = [2, 15]
/** Authorizers that add one second to the interval. */
const A_SECOND = 2000
/** Up to this number of rows, a filter is unnecessary. */
const FEW = 8
const HOOKS = '/v1/webhooks'

export const title = 'Changes'

/**
 * @param {HTMLElement} main
 * @param {Context} context
 */
export async function show(main, context) {
  const [id] = context.route.parts
  if (hasScope('revoker', 'auditor')) return id ? void new ChangePage(main, id, context) : showList(main, context)
  put(main, heading(title), forbidden('read changes', 'auditor, revoker or admin'))
  ready()
}

/**
 * @param {HTMLElement} main
 * @param {Context} context
 */
function showList(main, context) {
  const table = new Table(changesTable, context)
  // Each call of a batch is a change with the same identifier; show only the newest.
  const newest = memoizeLast((/** @type {{changes: Api.ListedChange[]} | null} */ data) => {
    const byId = new Map(data?.changes.toReversed().map((each) => [each.id, each]))
    return data && [...byId.values()]
  })
  subscribe(() => {
    const known = readCached('/v1/changes?limit=100', SELDOM)
    put(
      main,
      heading(title, 'Revocations of the last 7 days and their propagation.'),
      table.element,
      known.data?.cursor &&
        html`<p class="soft">Only the newest changes are listed. <a href="#/revocations">All revocations</a></p>`,
    )
    table.draw(known, newest(known.data))
    if (known.at || known.error) ready()
  }, context.signal)
}

/** @param {Api.ListedChange} change */
const actorName = ({ actor }) => (actor ? nameOf(actor.identity, actor.name) : '')

/** @type {import('../table.js').Spec} */
const changesTable = {
  id: 'changes',
  noun: 'changes',
  sort: '-at',
  mark: 'at',
  open: ({ id }) => `#/changes/${id}`,
  columns: [
    {
      id: 'name',
      title: 'Revoked',
      width: 'minmax(180px, 2fr)',
      value: (row) => titleOf(row),
      cell: (row) => whole(titleOf(row)),
    },
    {
      id: 'kind',
      title: 'Kind',
      width: '112px',
      from: 820,
      value: ({ kind }) => kind,
      cell: ({ kind }) => KINDS[/** @type {Change['kind']} */ (kind)],
    },
    { id: 'reason', title: 'Reason', width: 'minmax(120px, 2fr)', from: 900, kind: 'prose' },
    {
      id: 'by',
      title: 'Actor',
      width: 'minmax(100px, 1fr)',
      value: actorName,
      cell: (row) => html`<bdi dir="auto">${actorName(row)}</bdi>`,
    },
    { id: 'at', title: 'Recorded', width: '116px', of: 'recorded_at', kind: 'time' },
  ],
  sub: (row) => html`${KINDS[/** @type {Change['kind']} */ (row.kind)]} · <bdi>${actorName(row)}</bdi>`,
  facets: () => Object.entries(KINDS).map(([kind, words]) => ({ title: words, query: `kind:${kind}` })),
  empty: html`<h2>No revocations in the last 7 days</h2>`,
}

/** Page of one change. */
class ChangePage {
  /** @type {Change | null} */
  #change = null
  /** @type {Api.RevocationRecord | null} */
  #record = null
  #isAsked = false
  #curve = picture((width) => this.#change && curve(this.#change, width, now()))
  /** @type {Table | null} */
  #table = null
  #answer = one(html`<span role="status"></span>`)
  #undone = one(html`<div></div>`)

  /**
   * @param {HTMLElement} main
   * @param {string} id
   * @param {Context} context
   */
  constructor(main, id, context) {
    this.main = main
    this.id = id
    this.signal = context.signal
    this.context = context
    subscribe(() => this.#draw(), this.signal)
  }

  #draw() {
    // The cost of each poll grows with the fleet of the tenant.
    const soon = Math.max(OFTEN, (this.#change?.authorizers.total ?? 0) / A_SECOND)
    const seconds = this.#change && isOver(this.#change) ? SELDOM : soon
    const entry = readCached(`/v1/changes/${encodeURIComponent(this.id)}`, seconds)
    const change = entry.error?.status === 404 ? null : /** @type {Change | null} */ (entry.data)
    this.#change = change
    if (entry.at || entry.error) ready()
    if (!change) return put(this.main, crumbs(), this.#missing(entry.error))
    /** @type {Record<string, string>} */
    const about =
      change.kind === 'warrant'
        ? { warrant_id: change.name ?? '' }
        : change.kind === 'batch'
          ? { batch_id: change.id }
          : { resource_id: change.id }
    const old = aged(entry)
    const copyReport = () => {
      const lines = markdown(this.main)
        .join('\n')
        .replace(/\n{3,}/g, '\n\n')
      return copy(`${lines.trim()}\n\nTimes are UTC, as of ${second(now())}.\n`)
    }
    this.#table ??= new Table(laggingTable(change), this.context)
    put(
      this.main,
      crumbs(change.kind),
      head(change, this.#token(change), copyReport),
      old && html`<p class="stale soft">${old}</p>`,
      rail(stages(change, now())),
      this.#undone,
      html`<div class="change">
        <div class="body">${this.#deny(change)}${this.#left(change)}</div>
        <div class="body">
          ${impactPanel(change)}
          <section class="panel">
            <h2>Timeline</h2>
            ${timeline(about, change.name, publicationEvents(change))}
          </section>
          <section class="panel">
            <h2>Details</h2>
            ${this.#facts(change)}
          </section>
        </div>
      </div>`,
    )
    // The page shows the age above the table.
    if (change.lagging_authorizers.length)
      this.#table.draw({ ...entry, at: now(), error: null }, change.lagging_authorizers)
    this.#curve.redraw()
  }

  /** @param {ApiError | null} error */
  #missing(error) {
    if (!error) return html`<section class="panel">${skeleton(8)}</section>`
    if (error.status !== 404) return [heading('Change'), problem(error, 'The change could not be loaded.')]
    return [
      heading('Change not found', 'No revocation has this identifier, or its audit entries were deleted.'),
      html`<p><a href=${`#/audit?resource=${encodeURIComponent(this.id)}`}>Search the audit log</a></p>`,
    ]
  }

  /** @param {Change} change */
  #deny(change) {
    const { propagation_curve: points, is_upper_bound: isBound } = change
    const registered = change.authorizers.total
    if (change.kind === 'api_key' || change.unrevoked_at || change.feed?.total === 0) return null
    const open = (/** @type {string} */ words, /** @type {number | null} */ seconds) =>
      seconds !== null ? formatDuration(seconds) : words === 'all' ? html`<span class="state open">not yet</span>` : '–'
    return html`<section class="panel">
      <div class="head">
        <h2>Time to deny</h2>
        ${
          registered > 0 &&
          html`<dl class="shares">
            ${shares(change).map(
              ({ words, seconds }) =>
                html`<div>
                  <dt class="soft">${words}</dt>
                  <dd>${open(words, seconds)}</dd>
                </div>`,
            )}
          </dl>`
        }
      </div>
      ${
        registered
          ? [
              this.#curve.element,
              html`<p class="soft">
                  <small
                    >From the record of the change to the report of each
                    authorizer.${isBound && points.length > 0 && ' Some may have enforced it earlier.'} Unregistered
                    authorizers are not counted.</small
                  >
                </p>
                <p class="legend soft">
                  <span class="force"><i></i> enforced</span><span class="closed"><i></i> failing closed</span>
                </p>`,
            ]
          : html`<p class="soft">No authorizer is registered, so the time to deny is unknown.</p>`
      }
    </section>`
  }

  /** @param {Change} change */
  #left({ lagging_authorizers: lagging, feed, unrevoked_at: undone, kind, authorizers }) {
    const { total: registered, fail_closed: closed, unknown } = authorizers
    const isKey = kind === 'api_key'
    if (undone || feed?.total === 0 || (isKey && !registered)) return null
    return html`<section class=${lagging.length > FEW ? 'panel left' : 'panel left few'}>
      <div class="head">
        <h2>${isKey ? 'Authorizers with this key' : 'Lagging authorizers'}</h2>
        ${registered > 0 && html`<p class="soft">${number(unknown)} of ${number(registered)}</p>`}
      </div>
      ${
        lagging.length
          ? [this.#table?.element, printed(lagging)]
          : html`<p>
              ${registered ? 'No registered authorizer is lagging.' : 'Unknown: no authorizer is registered.'}
            </p>`
      }
      ${
        lagging.length < closed + unknown &&
        html`<p class="soft">The service lists ${number(lagging.length)} of ${number(closed + unknown)}.</p>`
      }
    </section>`
  }

  /**
   * Return the record of a token, the only source of issuer and value; null until it is read.
   * @param {Change} change
   */
  #token({ id, name, unrevoked_at: undone }) {
    if (!this.#isAsked && !undone && tokenWords({ warrant_id: name ?? '' })) {
      this.#isAsked = true
      const take = (/** @type {Api.RevocationRecord} */ record) => {
        this.#record = record
        if (!this.signal.aborted) this.#draw()
      }
      // The change itself reports the failure.
      void get(`/v1/revocations/${id}`).then(take, () => null)
    }
    return this.#record
  }

  /** @param {Change} change */
  #facts(change) {
    const { id, kind, name, actor, feed, srl } = change
    /** @type {Api.Webhook[]} */
    const hooks =
      (!change.unrevoked_at && hasScope('read-only', 'auditor') && readCached(HOOKS, SELDOM, 'webhooks').data) || []
    const ask = async () => {
      try {
        const { revoked } = /** @type {Api.RevocationCheck} */ (
          await get('/v1/revocations/check', { query: { warrant_id: name } })
        )
        put(
          this.#answer,
          revoked ? tag('force', 'refused') : tag('unknown', 'not revoked'),
          html` <small class="soft">at ${second(now()).slice(11)} UTC</small>`,
        )
      } catch (error) {
        put(this.#answer, problem(error, 'The check failed.'))
      }
    }
    const back = () =>
      kind === 'batch'
        ? unrevokeBatch(this.#undone, id, this.signal)
        : unrevoke({ ...record, id, warrant_id: name ?? '', reason: change.reason ?? '' })
    const record = this.#token(change)
    const isUndoable = change.can_unrevoke && !change.unrevoked_at && hasScope('revoker')
    const isPublished = feed?.total && !change.unrevoked_at
    const hookLink = (/** @type {Api.Webhook} */ { id: hook, url }) =>
      html`<p><a href=${`#/webhooks/${hook}?change=${id}`}>${objectName(new URL(url).host)}</a></p>`
    const by = actor && [person(actor.identity, actor.name), actor.key_id && html`<br /><code>${actor.key_id}</code>`]
    return facts([
      name && ['Name', html`<bdi class="whole" dir="auto">${name}</bdi>`],
      record && ['Token', html`<bdi dir="auto">${tokenWords(record)}</bdi>`],
      ['Identifier', html`<code>${id}</code>`],
      ['Actor', by ?? 'unknown'],
      isPublished && ['Feed entry', feed.sequence === null ? 'none yet' : number(feed.sequence)],
      isPublished && ['SRL', srl ? number(srl.version) : 'none yet'],
      hooks.length && ['Webhook deliveries', hooks.map(hookLink)],
      kind === 'warrant' && ['Online check', html`${button('Check now', ask)} ${this.#answer}`],
      [
        'Unrevoke',
        html`<p>${describeUnrevoke(change)}</p>
          ${isUndoable && button(kind === 'batch' ? 'Unrevoke batch…' : 'Unrevoke…', back)}`,
      ],
    ])
  }
}

/** @param {Change['kind']} [kind] */
const crumbs = (kind) =>
  html`<p class="crumbs soft"><a href="#/changes">Changes</a>${kind && html` / ${KINDS[kind]}`}</p>`

/**
 * @param {Change} change
 * @param {Api.RevocationRecord | null} record of a token
 * @param {() => unknown} copyReport
 */
function head(change, record, copyReport) {
  const { reason, actor, recorded_at: at } = change
  const { state, words } = summarize(change)
  return html`<header class="head">
    <div>
      <div class="named-change">
        <h1 tabindex="-1">${objectName(titleOf(change, record))} <span class="soft">revoked</span></h1>
        ${tag(state, words)}
      </div>
      <p class="soft">
        ${reason && html`<bdi dir="auto">${reason}</bdi> · `}${
          actor && html`${person(actor.identity, actor.name)} · `
        }${when(at)}
        · ${second(at)} UTC
      </p>
    </div>
    <div class="actions">
      ${button('Copy link', () => copy(location.href))} ${button('Print report', () => print())}
      ${button('Copy report', copyReport)}
    </div>
  </header>`
}

/** @param {Stage[]} all */
const rail = (all) =>
  html`<section class="panel" aria-label="Propagation">
    <ol class="stages">
      ${all.map(({ title: name, lines, state, since, share }, index) => {
        const next = all[index + 1]
        return html`<li class=${`${state} ${next?.isReached ? 'solid' : 'dotted'}`}>
          <svg viewBox="0 0 38 38" width="38" height="38" aria-hidden="true">
            <circle class=${share === undefined ? 'ring' : 'ring partly'} cx="19" cy="19" r="17" />
            ${
              share !== undefined &&
              svg`<circle class="ring force" cx="19" cy="19" r="17" pathLength="100" transform="rotate(-90 19 19)"
                stroke-dasharray=${`${100 * share} 100`}/>`
            }
            ${shape(state, 11, 11)}
          </svg>
          <div>
            <h3>${name}</h3>
            ${since && html`<p class="since soft">after ${since}</p>`}${lines.map(
              (line) => html`<p class="soft">${line}</p>`,
            )}
          </div>
        </li>`
      })}
    </ol>
  </section>`

/** @param {Change} change */
function impactPanel({ kind, id, name, reach: { keys, warrants }, authorizers: { total: registered } }) {
  const links = {
    warrant: [`#/revocations?warrant=${name}`, 'Warrant'],
    batch: [`#/revocations?batch=${id}`, 'Revocations of the batch'],
    signing_key: ['#/keys', 'Key hierarchy'],
    api_key: [`#/api-keys/${id}`, 'API key'],
    srl_signer: ['#/lists', 'SRL'],
  }
  const [address, words] = /** @type {[string, string]} */ (links[kind])
  const big = (/** @type {number} */ value, /** @type {string} */ noun) =>
    html`<div>
      <dt class="soft">${count(value, noun).replace(/^\S+ /, '')}</dt>
      <dd>${number(value)}</dd>
    </div>`
  return html`<section class="panel">
    <h2>Impact</h2>
    <dl class="reached">
      ${kind !== 'api_key' && kind !== 'srl_signer' && big(warrants, 'warrant')}
      ${keys > 0 && big(keys, KINDS[kind].toLowerCase().replace('api', 'API'))}${big(registered, 'authorizer')}
    </dl>
    <p><a href=${address}>${words}</a></p>
  </section>`
}

/**
 * Return the table of authorizers that may still admit the object.
 * @param {Change} change
 * @returns {import('../table.js').Spec}
 */
const laggingTable = ({ id, kind }) => ({
  id: `changes/${id}`,
  noun: 'authorizers',
  sort: 'state',
  groups: [
    kind === 'api_key' ? { title: 'Registered with it', state: 'wait' } : { title: 'May accept it', state: 'open' },
    { title: 'Failing closed', state: 'closed' },
  ],
  group: ({ enforcement }) => (enforcement === 'fail_closed' ? 1 : 0),
  open: (row) => `#/authorizers/${row.id}`,
  columns: [
    {
      id: 'state',
      title: 'State',
      width: '120px',
      from: 760,
      value: ({ enforcement }) => (enforcement === 'fail_closed' ? 1 : 0),
      text: ({ enforcement }) => enforcement,
      cell: stateOf,
    },
    { id: 'name', title: 'Name', lead: true, width: 'minmax(140px, 2fr)', kind: 'name' },
    { id: 'exposure', title: 'Exposure', width: 'minmax(150px, 2fr)', text: exposureOf, cell: end },
    { id: 'lag', title: 'Lag', width: '116px', value: ({ lag_entries: lag }) => lag ?? Infinity, text: lagOf },
    { id: 'last_seen', title: 'Last seen', width: '96px', of: 'last_seen_at', kind: 'time' },
    {
      id: 'owner',
      title: 'Owner',
      width: 'minmax(90px, 1fr)',
      from: 820,
      value: ({ owner }) => ownerOf(owner),
      cell: ({ owner }) => html`<bdi>${ownerOf(owner)}</bdi>`,
    },
  ],
  sub: (row) =>
    html`${kind !== 'api_key' && html`${end(row)} · `}<bdi>${ownerOf(row.owner)}</bdi> · lag: ${lagOf(row)} ·
      ${when(row.last_seen_at)}`,
  empty: null,
})

/** @param {Left} row */
const stateOf = ({ enforcement }) =>
  enforcement === 'fail_closed' ? tag('closed', 'failing closed') : tag('open', 'not enforcing')

/** @param {Left} row */
function end(row) {
  const { enforcement, fail_closed_at: from } = row
  if (from) return html`${enforcement === 'fail_closed' ? 'failing closed since' : 'until'} ${exactTime(from)}`
  return html`<span class=${enforcement === 'fail_closed' ? null : 'state open'} title=${exposureOf(row)}
    >${exposureOf(row)}</span
  >`
}

/** Return all rows for printing, because the table contains only visible rows. @param {Left[]} rows */
const printed = (rows) =>
  html`<table class="printed">
    <thead>
      <tr>
        ${['Authorizer', 'State', 'Exposure', 'Lag', 'Last seen', 'Owner'].map((each) => html`<th>${each}</th>`)}
      </tr>
    </thead>
    <tbody>
      ${rows.map(
        (row) =>
          html`<tr>
            <td>${userText(row.name)}</td>
            <td>${stateOf(row)}</td>
            <td>${exposureOf(row)}</td>
            <td>${lagOf(row)}</td>
            <td>${second(row.last_seen_at)}, ${ago(row.last_seen_at, now())}</td>
            <td>${ownerOf(row.owner)}</td>
          </tr>`,
      )}
    </tbody>
  </table>`

/** Elements with one line per child, and the Markdown prefixes of the others. */
const PARTED = ['DIV', 'SECTION', 'HEADER', 'FIGURE', 'OL', 'TABLE', 'THEAD', 'TBODY']
const BEFORE = /** @type {Record<string, string>} */ ({ H1: '# ', H2: '## ', LI: '- ' })

/**
 * Convert the readable content of an element to Markdown lines, in document order.
 * @param {Element} element
 * @returns {string[]}
 */
function markdown(element) {
  if (element.matches('button, .sheet, .legend, .actions')) return []
  const parts = [...element.children]
  if (PARTED.includes(element.tagName)) return parts.flatMap(markdown)
  if (element.tagName === 'DL') return parts.map((part) => `- ${[...part.children].map(markdownText).join(': ')}`)
  const line = `${BEFORE[element.tagName] ?? ''}${markdownText(element)}`
  if (element.tagName !== 'TR') return element.tagName === 'LI' ? [line] : ['', line, '']
  const row = (/** @type {string[]} */ cells) => `| ${cells.join(' | ')} |`
  return [row(parts.map(markdownText)), ...(element.matches('thead *') ? [row(parts.map(() => '---'))] : [])]
}

/**
 * Return the text of an element, escaped for Markdown.
 * @param {Element} element
 * @returns {string}
 */
function markdownText(element) {
  const label = element.getAttribute('aria-label') ?? ''
  if (element.matches('button, svg')) return safe(label)
  const words = [...element.childNodes].map((node) =>
    node instanceof Element ? markdownText(node) : node instanceof Text ? safe(node.data) : '',
  )
  const exact = element.matches('time[title]') ? ` (${element.getAttribute('title')})` : ''
  const end = element.matches('h3') ? ':' : exact
  return words.filter(Boolean).join(' ').replace(/\s+/g, ' ').trim() + end
}

const safe = (/** @type {string} */ text) => text.replace(/\s+/g, ' ').replace(/[\\`*{}[\]<>#|~]/g, '\\$&')
