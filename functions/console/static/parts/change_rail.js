/**
 * How far a change of many warrants has come, such as the revocation of a signing key: by what the
 * service says of its feed and its list, and authorizers of themselves.
 */

import { ApiError, all, call, get, now, repeat } from '../api.js'
import { holds } from '../authorizers.js'
import { nameOf, number } from '../format.js'
import { html, one, put } from '../html.js'
import { rail, stages } from '../pictures/revocations.js'
import { who } from '../session.js'
import { advice, banner, picture } from './panel.js'

/** @typedef {{since: string, at: number, by: string | null}} Change since when it is recorded; by when all of it was, in milliseconds of the service's clock; who made it, if that is known */
/** @typedef {{status: Api.ListStatus, entry: number | null, listed: {version: number, at: string} | null, fleet: Api.Authorizer[] | null}} Progress `entry`: of the feed, which has the change; `fleet` is null if this API key may not read it */

/** Seconds between two looks; at least so many for each call of 100 authorizers. After so many looks, it is enough to look each half minute. */
const [SECONDS, A_CALL, LOOKS, SELDOM] = [2, 3, 90, 30]
/** Pages of 100 authorizers. */
const MOST = 200
/** A time of the API is cut to its second. */
const SECOND = 1000

/**
 * A change that the API says was recorded at a time.
 * @param {string} since
 * @param {string | null} [by]
 * @returns {Change}
 */
export const recorded = (since, by = null) => ({ since, at: Date.parse(since) + SECOND, by })

/**
 * A change that the caller has just made.
 * @param {string} [since]
 * @returns {Change}
 */
export const made = (since = new Date(now()).toISOString()) => ({ since, at: now(), by: nameOf(who().identity, who().name) })

/**
 * The rail of a change, which follows it until the page is left.
 * @param {Change} change
 * @param {AbortSignal} signal
 * @returns {Element}
 */
export function changeRail(change, signal) {
  /** @type {Progress | null} */
  let progress = null
  const shown = picture((width) => progress && rail(stages(known(change, progress)), width))
  const words = one(html`<div></div>`)
  let looks = 0
  const look = async () => {
    try {
      progress = await read(change, progress, signal)
      shown.redraw()
      put(words, html`<p class="soft"><small>${told(progress)} Those that have not registered are not counted.</small></p>`)
    } catch (error) {
      if (!signal.aborted && error instanceof ApiError) put(words, banner('wait', html`<strong>How far it has come is not known now.</strong> ${advice(error)} The page asks again.`))
      throw error
    }
    looks += 1
    return element.isConnected && !isDone(progress) && looks !== LOOKS
  }
  const follow = async () => {
    try {
      await look()
    } catch (error) {
      if (!signal.aborted && !(error instanceof ApiError)) throw error
    }
    const calls = Math.ceil((progress?.fleet?.length ?? 0) / 100)
    await repeat(Math.max(SECONDS, calls * A_CALL), look, signal)
    if (!progress || !isDone(progress)) await repeat(Math.max(SELDOM, calls * A_CALL), look, signal)
  }
  void follow()
  const element = one(html`<section class="panel"><h2>How far it has come</h2><div class="body">${shown.element}${words}</div></section>`)
  return element
}

/**
 * @param {Change} change
 * @param {Progress | null} before
 * @param {AbortSignal} signal
 * @returns {Promise<Progress>}
 */
async function read({ at }, before, signal) {
  // What the feed has is in the entry that is the newest afterwards.
  const isIn = before !== null && before.entry !== null || await isPublished(at, before?.status.feed_sequence ?? null, signal)
  const status = /** @type {Api.ListStatus} */ (await get('/v1/revocations/srl/status', { signal }))
  // A list is read after its time of issue.
  const listed = before?.listed ?? (Date.parse(status.issued_at) >= at ? { version: status.version, at: status.issued_at } : null)
  const fleet = /** @type {Api.Authorizer[] | null} */ (await orNull(403, all('/v1/authorizers', 'authorizers', { signal, most: MOST })))
  return { status, entry: before?.entry ?? (isIn ? status.feed_sequence : null), listed, fleet }
}

/**
 * Whether the feed has all that was recorded by a moment: an answer of it lacks nothing of before its
 * `Age` (FEED-12).
 * @param {number} at
 * @param {number | null} after an entry of the feed; earlier ones are not asked for
 * @param {AbortSignal} signal
 */
async function isPublished(at, after, signal) {
  const asked = now()
  const answer = await orNull(403, orNull(404, call('GET', '/v1/revocations/feed', undefined, { signal, query: { after } })))
  return answer !== null && asked - Number(answer.headers.get('Age') ?? NaN) * 1000 > at
}

/**
 * Null in place of a fault of this status.
 * @template T
 * @param {number} status
 * @param {Promise<T>} answer
 */
const orNull = (status, answer) => answer.catch((error) => {
  if (error instanceof ApiError && error.status === status) return null
  throw error
})

/** @param {Progress} progress */
const isDone = ({ entry, listed, fleet }) => listed !== null && (fleet === null || (entry !== null && fleet.every((each) => holds(each, entry))))

/**
 * @param {Change} change
 * @param {Progress} progress
 * @returns {import('../pictures/revocations.js').Known}
 */
function known({ since, by }, { status, entry, listed, fleet }) {
  const holding = fleet && entry !== null ? fleet.filter((each) => holds(each, entry)).length : 0
  const authorizers = fleet && { registered: fleet.length, holding, closed: 0, unknown: fleet.length - holding, unproven: fleet.filter(({ proven }) => !proven).length }
  return {
    by, status, listedAt: listed?.at ?? null, now: now(), what: 'them',
    propagation: {
      revoked_at: since, feed: entry !== null ? { issued_at: null } : null, list: listed && { version: listed.version },
      authorizers, complete: Boolean(authorizers?.registered && !authorizers.unknown),
    },
  }
}

/** @param {Progress} progress */
const told = ({ entry, fleet }) => !fleet ? '' : entry !== null ? `Counted are the authorizers that report entry ${number(entry)} of the feed, which has the change, or a later one.` : 'The feed does not have the change yet, so no authorizer does.'
