/** Changes many revocations in calls of up to 1,000. A repeated call changes each revocation once. */

import { ApiError, get, now, post, sleep } from '../api.js'
import { newUlid } from '../ulid.js'
import { work } from './progress.js'

/** @typedef {import('./warrant_lines.js').Warrant} Warrant */
/**
 * `no_answer`: the call was made, and may have been executed.
 * @typedef {{outcome: string} & Partial<Pick<Api.RevocationChange, 'message' | 'revocation_id' | 'code'>>} Outcome
 */
/** @typedef {{reason: string, warrants: Warrant[]}} Call */

export const MANIFESTS = '/v1/unrevoke-manifests'
const MOST = 1000
/** Revocations in a part of a manifest. */
const PART = 500
const TRIES = 3

/**
 * Create a batch identifier.
 * @param {number} time in milliseconds
 */
export const batchId = (time) => `svc_bat_${newUlid(time)}`

/**
 * Split items into parts of at most a thousand.
 * @template T
 * @param {T[]} items
 * @returns {T[][]}
 */
export const parts = (items) =>
  Array.from({ length: Math.ceil(items.length / MOST) }, (_, index) => items.slice(index * MOST, (index + 1) * MOST))

/**
 * Make one call, and repeat it while its response is lost or a result is unavailable.
 *
 * Throws `ApiError`; the call may then have been executed or not.
 * @param {string} path
 * @param {Partial<Api.BatchRevocations>} body
 * @param {AbortSignal} signal ends a pause, never a call
 * @param {Record<string, string>} [headers]
 * @returns {Promise<Api.RevocationChange[]>}
 */
export async function change(path, body, signal, headers) {
  for (let attempt = 1; ; attempt++) {
    try {
      const { results } = /** @type {Api.RevocationChanges} */ (await post(path, body, { headers }))
      if (attempt === TRIES || !results.some(({ code }) => code === 'unavailable')) return results
    } catch (error) {
      if (!(error instanceof ApiError) || attempt === TRIES || (error.status !== 0 && error.status < 500)) throw error
    }
    await sleep(attempt, signal)
  }
}

/** Applies the parts of a manifest, which unrevoke its warrants. */
export class UnrevokeRun {
  /** Number of unrevoked warrants. */
  unrevoked = 0

  /** @param {Api.Manifest} manifest @param {AbortSignal} signal */
  constructor({ id, count, parts }, signal) {
    this.path = `${MANIFESTS}/${id}/parts`
    this.count = count
    this.parts = Array.from({ length: parts }, (_, index) => index + 1)
    this.signal = signal
  }

  /**
   * Apply a part. Throws `ApiError`.
   * @param {number} part
   * @param {string} reason
   * @param {Record<string, string>} headers
   */
  async apply(part, reason, headers) {
    const results = await change(`${this.path}/${part}/apply`, { reason }, this.signal, headers)
    this.unrevoked += results.filter(({ outcome }) => outcome === 'unrevoked').length
  }

  /**
   * Apply these parts. Returns whether all were applied. Throws `ApiError`.
   * @param {Element} place of the progress
   * @param {number[]} parts
   * @param {string} reason
   * @param {Record<string, string>} headers
   */
  go(place, parts, reason, headers) {
    return work(place, 'revocations', parts, (part) => this.apply(part, reason, headers), {
      size: (part) => (part < this.parts.length ? PART : this.count - PART * (part - 1)),
      signal: this.signal,
    })
  }
}

/** @param {string} id @returns {Promise<Api.Manifest>} */
export const readManifest = (id) => get(`${MANIFESTS}/${id}`)

/** Revokes warrants under one batch, or checks them in a dry run. */
export class Run {
  batch = batchId(now())
  /** By warrant. @type {Map<string, Outcome>} */
  outcomes = new Map()

  /**
   * @param {Warrant[]} warrants
   * @param {string} reason for warrants without a reason
   * @param {{dry: boolean, signal: AbortSignal}} options
   */
  constructor(warrants, reason, { dry, signal }) {
    this.warrants = warrants
    this.dry = dry
    this.signal = signal
    this.calls = calls(warrants, reason)
  }

  /**
   * Make the remaining calls: all calls, or the rest after a failure or a stop.
   *
   * Returns whether all were made. Throws `ApiError`.
   * @param {Element} place of the progress
   */
  go(place) {
    const open = this.calls.filter(({ warrants }) => warrants.some((each) => !this.#isSettled(each)))
    return work(place, 'warrants', open, (call) => this.#make(call), {
      size: ({ warrants }) => warrants.length,
      signal: this.signal,
    })
  }

  /** @param {Call} call */
  async #make({ reason, warrants }) {
    const ids = warrants.map(({ id }) => id)
    for (const id of ids) this.outcomes.set(id, { outcome: 'no_answer' })
    try {
      const results = await change(
        '/v1/revocations/batch',
        { action: 'revoke', warrant_ids: ids, reason, batch_id: this.batch, dry_run: this.dry },
        this.signal,
      )
      for (const result of results) this.outcomes.set(result.id, result)
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 400) throw error
      // The call changed no revocation, and the service would refuse it again. Other calls have other reasons.
      for (const id of ids) this.outcomes.set(id, { outcome: 'failed', code: error.code, message: error.message })
    }
  }

  /** @param {Warrant} warrant */
  #isSettled({ id }) {
    const { outcome, code } = this.outcomes.get(id) ?? { outcome: 'not_begun', code: null }
    return outcome === 'failed' ? code !== 'unavailable' : outcome !== 'no_answer' && outcome !== 'not_begun'
  }

  /** Warrants that may be retried. */
  get open() {
    return this.warrants.filter((each) => !this.#isSettled(each))
  }

  /**
   * Return the number of warrants with an outcome.
   * @param {string} outcome
   */
  counted(outcome) {
    return this.warrants.filter(({ id }) => this.outcomes.get(id)?.outcome === outcome).length
  }

  /** Return the warrants that the service refused, with its messages. */
  failed() {
    return this.warrants.flatMap(({ line, id }) => {
      const result = this.outcomes.get(id)
      return result?.outcome === 'failed'
        ? [{ line, text: id, why: result.message ?? 'The service gave no reason.' }]
        : []
    })
  }
}

/**
 * Group warrants by reason into calls of at most a thousand.
 * @param {Warrant[]} warrants
 * @param {string} reason for warrants without a reason
 * @returns {Call[]}
 */
export function calls(warrants, reason) {
  /** @type {Map<string, Warrant[]>} */
  const groups = new Map()
  for (const each of warrants) {
    const own = each.reason ?? reason
    const group = groups.get(own) ?? []
    group.push(each)
    groups.set(own, group)
  }
  return [...groups].flatMap(([own, some]) => parts(some).map((part) => ({ reason: own, warrants: part })))
}
