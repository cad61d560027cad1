/** How far has one revocation come, and who may still let the warrant in? */

import { ApiError, get, now, repeat } from '../api.js'
import { clock, count, date, minute, nameOf, number, second } from '../format.js'
import { html, one, put } from '../html.js'
import { banner, heading, named, person, picture, problem, ready } from '../parts/panel.js'
import { facts } from '../parts/table.js'
import { tag } from '../parts/tag.js'
import { isLate } from '../pictures/overview.js'
import { rail, stages } from '../pictures/revocations.js'
import { may } from '../session.js'
import { takeBack } from './revocation_dialogs.js'

/** @typedef {{propagation: Api.RevocationPropagation, status: Api.ListStatus | null, listedAt: string | null}} Progress */

const SECONDS = 2
/** After so many looks, one each half minute is enough. */
const LOOKS = 90
const SHOWN = 8

const back = () => html`<p><a href="#/revocations">Revocations</a></p>`

/**
 * @param {HTMLElement} main
 * @param {string} id
 * @param {AbortSignal} signal
 */
export async function showOne(main, id, signal) {
  put(main, back(), heading('Revocation'))
  const path = `/v1/revocations/${encodeURIComponent(id)}`
  try {
    const [record, progress] = await Promise.all([
      /** @type {Promise<Api.FollowedRevocation>} */ (get(path, { signal })), read(path, null, signal),
    ])
    const view = new View(main, record, progress)
    ready()
    void follow(main, path, view, progress, signal)
  } catch (error) {
    if (signal.aborted) return
    put(main, missing(error, () => showOne(main, id, signal)))
    ready()
  }
}

/**
 * Look again until every authorizer refuses the warrant and a list has it.
 * @param {HTMLElement} main
 * @param {string} path
 * @param {View} view
 * @param {Progress} progress
 * @param {AbortSignal} signal
 */
async function follow(main, path, view, progress, signal) {
  let looks = 0
  const look = async () => {
    if (isDone(progress)) return false
    try {
      progress = await read(path, progress, signal)
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) {
        put(main, missing(error, null))
        return false
      }
      if (!signal.aborted) view.say(error)
      throw error
    }
    view.draw(progress)
    looks += 1
    return !isDone(progress) && looks !== LOOKS
  }
  await repeat(SECONDS, look, signal)
  await repeat(30, look, signal)
}

/** @param {Progress} progress */
const isDone = ({ propagation: { complete, list, ended_at } }) => Boolean(ended_at || (complete && list))

/**
 * @param {string} path
 * @param {Progress | null} before
 * @param {AbortSignal} signal
 * @returns {Promise<Progress>}
 */
async function read(path, before, signal) {
  const [propagation, status] = await Promise.all([
    /** @type {Promise<Api.RevocationPropagation>} */ (get(`${path}/propagation`, { signal })), statusOf(signal),
  ])
  const version = propagation.list?.version
  const isKnown = before?.listedAt && before.propagation.list?.version === version
  return { propagation, status, listedAt: isKnown ? before.listedAt : await publishedAt(version, status, signal) }
}

/**
 * The list in force, or null if that is not known: the rest of a page is worth showing without it.
 * @param {AbortSignal} signal
 * @returns {Promise<Api.ListStatus | null>}
 */
export const statusOf = (signal) => get('/v1/revocations/srl/status', { signal }).catch(unknown)

/**
 * When a list was published, if that is still known.
 * @param {number | undefined} version
 * @param {Api.ListStatus | null} status
 * @param {AbortSignal} signal
 * @returns {Promise<string | null>}
 */
async function publishedAt(version, status, signal) {
  if (!version || !status) return null
  if (version === status.version) return status.issued_at
  const limit = Math.min(100, status.version - version + 2)
  const found = /** @type {Api.SrlVersionList | null} */ (await get('/v1/revocations/srl/versions', { signal, query: { limit } }).catch(unknown))
  return found?.versions.find((each) => each.version === version)?.issued_at ?? null
}

/** @param {unknown} error */
function unknown(error) {
  if (!(error instanceof ApiError)) throw error
  return null
}

/**
 * @param {unknown} error
 * @param {(() => unknown) | null} again
 */
function missing(error, again) {
  if (!(error instanceof ApiError) || ![400, 404].includes(error.status)) return [back(), heading('Revocation'), problem(error, 'The revocation could not be shown.', again)]
  return [back(), heading('There is no such revocation', 'It was taken back, or the address is wrong. The audit log has what was revoked and taken back.'),
    html`<p><a href="#/audit">Look in the audit log</a></p>`]
}

/** What is shown of one revocation; only what changes is drawn again. */
class View {
  #progress
  #record
  #said = ''
  #fault = one(html`<div></div>`)
  #list = one(html`<div class="body"></div>`)
  #rail = picture((width) => rail(stages({ ...this.#progress, by: nameOf(this.#record.created_by, this.#record.created_by_name), now: now() }), width))
  #isAll = false

  /**
   * @param {HTMLElement} main
   * @param {Api.FollowedRevocation} record
   * @param {Progress} progress
   */
  constructor(main, record, progress) {
    this.#record = record
    this.#progress = progress
    const button = may('revoker') && html`<button type="button" @click=${() => takeBack(record)}>Take back…</button>`
    put(main, back(), heading(record.warrant_id, named(record.reason), button), this.#fault,
      html`<section class="panel"><h2>How far it has come</h2><div class="body">
        <p class="soft"><small>Solid: it has happened. Dotted: it has not, or nobody has told the service.</small></p>${this.#rail.element}</div></section>`,
      html`<div class="panels">
        <section class="panel"><h2>Who may still let it in</h2>${this.#list}</section>
        <section class="panel"><h2>Facts</h2><div class="body">${about(record)}</div></section></div>`)
    this.draw(progress)
  }

  /** @param {Progress} progress */
  draw(progress) {
    this.#progress = progress
    put(this.#fault)
    this.#rail.redraw()
    const said = JSON.stringify(progress)
    if (said === this.#said) return
    this.#said = said
    put(this.#list, open(progress), this.#stragglers(), html`<p class="soft"><small>This rests on what authorizers report of themselves. Those that have not registered are not counted.</small></p>`)
  }

  /** @param {unknown} error */
  say(error) {
    put(this.#fault, banner('wait', html`<strong>This is how it was at ${clock(now())} UTC or before.</strong> ${error instanceof ApiError && error.status === 0 ? 'The service does not answer; the page asks again.' : 'The service cannot tell now; the page asks again.'}`))
  }

  #stragglers() {
    const { feed, stragglers, authorizers: { closed, unknown: unheard } } = this.#progress.propagation
    const shown = this.#isAll ? stragglers : stragglers.filter(({ proof }) => proof === 'unknown').slice(0, SHOWN)
    const all = () => {
      this.#isAll = true
      this.#said = ''
      this.draw(this.#progress)
    }
    return [
      shown.length > 0 && html`<div class="rowed">${shown.map((each) => straggler(each, feed?.sequence ?? Infinity))}</div>`,
      shown.length < stragglers.length && html`<p><button type="button" @click=${all}>Show all ${number(stragglers.length)}</button></p>`,
      closed > 0 && html`<p class="soft">${count(closed, 'more refuses', 'more refuse')} everything, as ${closed === 1 ? 'its' : 'their'} state is too old.</p>`,
      this.#isAll && stragglers.length < closed + unheard && html`<p class="soft">Of ${number(closed + unheard)}, these ${number(stragglers.length)} are told by the service.</p>`,
    ]
  }
}

/** @param {Progress} progress */
function open({ propagation: { authorizers: { registered, unknown: unheard }, complete, ended_at, list, stragglers }, status }) {
  if (ended_at) return html`<p><strong>Nobody.</strong> The warrant itself has ended, so it needs no list.</p>`
  const ends = stragglers.filter(({ proof }) => proof === 'unknown').map(({ denies_all_from: end }) => end)
  const last = ends.length === unheard && ends.every(Boolean) ? ends.sort().at(-1) : null
  return [
    !list && html`<p><strong>Every authorizer that works from the list alone</strong>, until it holds ${status ? `list ${number(status.version + 1)}` : 'the next list'}.
      ${status && `List ${number(status.version)} ends at ${at(status.expires_at)} UTC; whoever holds no newer one then refuses everything.`}</p>`,
    !list && status && isLate(status, now()) && banner('wait', html`<strong>The schedule is late.</strong> <a href="#/overview">Publish a list now on the overview.</a>`),
    complete && html`<p><strong>No registered authorizer.</strong> ${count(registered, 'authorizer')} of ${number(registered)} refuse it.</p>`,
    !registered && html`<p><strong>That is not known:</strong> no authorizer has registered, so none tells what it holds. <a href="#/authorizers">Authorizers</a></p>`,
    unheard > 0 && html`<p><strong>${count(unheard, 'authorizer')}</strong>, until ${unheard === 1 ? 'it reports' : 'they report'} the revocation${last ? `, and until ${at(last)} UTC at the latest` : ''}.</p>`,
  ]
}

/**
 * @param {Api.Straggler} each
 * @param {number} sequence of the entry that says so
 */
function straggler({ name, proof, holds, seen_at: seen, denies_all_from: end }, sequence) {
  const [state, held] = holds === null ? [tag('unknown', 'nothing heard'), 'has reported nothing']
    : holds < sequence ? [tag('wait', 'older state'), `holds entry ${number(holds)}`]
      : [tag('unknown', 'other history'), `reports entry ${number(holds)} of another history of the feed`]
  const isClosed = proof === 'closed'
  const until = isClosed ? 'too old a state to let anything in' : end ? `refuses everything from ${at(end)} UTC on, unless it has it by then` : 'no end is known'
  return html`<div><div>${named(name)}<small class="soft">${held}, seen ${at(seen)} UTC; ${until}</small></div>${isClosed ? tag('superseded', 'refuses all') : state}</div>`
}

/**
 * A time of today, or a time with its date; in UTC.
 * @param {string} time
 */
const at = (time) => date(time) === date(now()) ? clock(time) : minute(time)

/** @param {Api.FollowedRevocation} record */
const about = ({ id, warrant_id: warrant, created_at: created, created_by: by, created_by_name: name, reason, batch_id: batch }) => facts([
  ['Revocation', html`<code>${id}</code>`],
  ['Recorded', `${second(created)} UTC`],
  ['By', person(by, name)],
  ['Reason', html`<bdi class="whole" dir="auto">${reason}</bdi>`],
  ...batch ? [/** @type {[string, unknown]} */ (['Batch', html`<a href=${`#/revocations?batch=${batch}`}>Revoked with others</a>`])] : [],
  ['Online check', online(warrant)],
])

/**
 * A button that asks the service as an authorizer does.
 * @param {string} warrant
 */
function online(warrant) {
  const answer = one(html`<div role="status"></div>`)
  const ask = async () => {
    try {
      const found = /** @type {Api.RevocationCheck} */ (await get('/v1/revocations/check', { query: { warrant_id: warrant } }))
      put(answer, found.revoked ? tag('force', 'refused') : tag('unknown', 'not revoked'), html` <small class="soft">at ${second(now()).slice(11)} UTC</small>`)
    } catch (error) {
      put(answer, problem(error, 'The service could not be asked.'))
    }
  }
  return html`<div class="actions"><button type="button" @click=${ask}>Ask now</button>${answer}</div>`
}
