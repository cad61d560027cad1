/** Describes the propagation of a change in words and numbers. Does not access the DOM. */

import { count, date, minute, number, present, second, short, span, tokenWords } from './format.js'

/** @typedef {Api.Change} Change */
/** @typedef {import('./components/tag.js').State} State */
/**
 * @typedef {object} Stage `since`: the time from the change to this stage; `share`: the drawn part of its ring, from 0
 *   to 1
 * @property {string} title
 * @property {string[]} lines
 * @property {State} state
 * @property {boolean} isReached
 * @property {string} [since]
 * @property {number} [share]
 */
/** @typedef {{time: string, text: string, state: State}} Happened */

export const KINDS = {
  warrant: 'Warrant',
  batch: 'Batch',
  signing_key: 'Signing key',
  api_key: 'API key',
  srl_signer: 'SRL signer',
}
/** Object of "admits" for each kind. */
const WHAT = { warrant: 'it', batch: 'them', signing_key: 'its warrants', api_key: 'it', srl_signer: 'its SRLs' }
const SHARES = /** @type {const} */ ([
  ['50 %', 0.5],
  ['90 %', 0.9],
  ['99 %', 0.99],
  ['all', 1],
])
/** A due SRL is late after this number of milliseconds. */
const LATE = 120_000

/**
 * Return the name of the revoked object.
 * @param {Pick<Change, 'id' | 'kind' | 'name'> & {reach?: Change['reach']}} change
 * @param {Api.RevocationRecord | null} [record] has the subject or the session of tokens
 */
export function titleOf({ id, kind, name, reach }, record = null) {
  if (kind === 'batch' && reach) return count(reach.warrants, 'warrant')
  const value = record?.token_value
  return tokenWords({ warrant_id: name ?? '', token_value: value }) || (name ?? `${KINDS[kind]} ${short(id)}`)
}

/**
 * Format a duration, rounded up because it may be late but never early: "59 s", "1 min 59 s", "2 h 1 min".
 * @param {number} seconds
 */
export function formatDuration(seconds) {
  const [s, m, h] = [1, 60, 3600].map((size) => Math.max(0, Math.ceil(seconds / size)))
  const two = (
    /** @type {number} */ units,
    /** @type {number} */ size,
    /** @type {string} */ large,
    /** @type {string} */ small,
  ) => `${number(Math.floor(units / size))} ${large}${units % size ? ` ${units % size} ${small}` : ''}`
  if (s < 60) return `${s} s`
  if (s < 3600) return two(s, 60, 'min', 's')
  if (m < 1440) return two(m, 60, 'h', 'min')
  return two(h, 24, h < 48 ? 'day' : 'days', 'h')
}

/** Return the seconds from the record of a change to a time. @param {Change} change @param {string | number} time */
export const since = ({ recorded_at: at }, time) =>
  ((typeof time === 'number' ? time : Date.parse(time)) - Date.parse(at)) / 1000

/** Return whether a change is final. @param {Change} change */
export const isOver = ({ is_complete: complete, srl, feed, unrevoked_at: undone }) =>
  Boolean(undone || (complete && (srl || !feed)))

/**
 * Return when each share of all registered authorizers was known to refuse, in seconds; null if not reached.
 * @param {Change} change
 * @returns {{words: string, seconds: number | null}[]}
 */
export function shares({
  propagation_curve: curve,
  authorizers: { total: registered, enforced, fail_closed: closed },
}) {
  const known = enforced + closed
  return SHARES.map(([words, share]) => {
    const rank = Math.ceil(share * registered)
    if (!rank || rank > known || !curve.length) return { words, seconds: null }
    // Long curves omit some points, so use the next one.
    const index = known > curve.length ? Math.ceil(((rank - 1) * (curve.length - 1)) / (known - 1)) : rank - 1
    return { words, seconds: curve[Math.min(index, curve.length - 1)][0] }
  })
}

/**
 * Return the state of a change and its word.
 * @param {Change} change
 * @returns {{state: State, words: string}}
 */
export function summarize({
  kind,
  is_complete: complete,
  feed,
  unrevoked_at: undone,
  authorizers: { total: registered, enforced, fail_closed: closed },
}) {
  if (undone) return { state: 'superseded', words: 'unrevoked' }
  if (feed?.total === 0) return { state: 'superseded', words: 'no revocations left' }
  if (kind === 'api_key')
    return complete
      ? { state: 'force', words: 'refused' }
      : { state: 'wait', words: `${count(registered, 'authorizer')} registered with it` }
  if (complete) return { state: 'force', words: 'refused everywhere' }
  if (!registered) return { state: 'unknown', words: 'no registered authorizers' }
  if (feed?.sequence === null) return { state: 'wait', words: 'not in the feed yet' }
  return { state: 'open', words: `in progress: ${number(enforced + closed)} of ${number(registered)}` }
}

/**
 * Return the stages of a change.
 * @param {Change} change
 * @param {number} now in milliseconds
 * @returns {Stage[]}
 */
export function stages(change, now) {
  const { recorded_at: recorded, unrevoked_at: undone, kind, authorizers } = change
  const at = `${second(recorded)} UTC`
  if (undone)
    return [
      reached('Recorded', [at]),
      {
        ...reached('Unrevoked', [`${second(undone)} UTC`, 'Online checks accept it again.'], change, undone),
        state: 'superseded',
      },
    ]
  if (change.feed?.total === 0) {
    const last = reached('No revocations left', ['All its warrants have expired or were unrevoked.'])
    return [reached('Recorded', [at]), { ...last, state: 'superseded' }]
  }
  if (kind === 'api_key') {
    const amount = count(authorizers.total, 'authorizer')
    const words = `${amount} registered with it cannot report or receive changes without another key.`
    return [
      reached('Recorded', [at, 'The service refuses it from the next request.']),
      authorizers.total
        ? pending('Authorizers need another key', [words])
        : reached('No authorizers affected', ['No authorizer is registered with it.']),
    ]
  }
  const effect = kind === 'srl_signer' ? 'Trust documents name it as revoked.' : `Online checks refuse ${WHAT[kind]}.`
  return [
    reached('Recorded', [at, effect]),
    feedStage(change, now),
    srlStage(change, now),
    enforcementStage(change, now),
  ]
}

/**
 * Return a stage that a change has reached, with the time that it took.
 * @param {string} title
 * @param {string[]} lines
 * @param {Change | null} [change]
 * @param {string | null} [time]
 * @returns {Stage}
 */
const reached = (title, lines, change = null, time = null) => ({
  title,
  state: 'force',
  isReached: true,
  lines,
  ...(change && time && { since: formatDuration(since(change, time)) }),
})

/** Return a stage that a change has not reached. @param {string} title @param {string[]} lines @returns {Stage} */
const pending = (title, lines) => ({ title, state: 'wait', isReached: false, lines })

/** @param {Change} change @param {number} now @returns {Stage} */
function feedStage(change, now) {
  const { sequence, issued_at: issued, published, total } = /** @type {NonNullable<Change['feed']>} */ (change.feed)
  if (sequence !== null && issued)
    return reached(`In the feed, entry ${number(sequence)}`, [brief(issued, now)], change, issued)
  const some = `${number(published)} of ${number(total)} warrants are published.`
  const words = total > 1 ? some : 'Authorizers have not received it.'
  return { ...pending('Not in the feed yet', [words]), share: published / total }
}

/** @param {Change} change @param {number} now @returns {Stage} */
function srlStage(change, now) {
  const { srl, srl_due_at: due, kind } = change
  if (srl) return reached(`In SRL ${number(srl.version)}`, [brief(srl.issued_at, now)], change, srl.issued_at)
  const isLate = due && now > Date.parse(due) + LATE
  const lines = present([
    due && (isLate ? 'The SRL is overdue.' : `Due by ${brief(due, now)}.`),
    `Authorizers that use only the SRL still accept ${WHAT[kind]}.`,
  ])
  return pending('Not in the SRL yet', lines)
}

/** @param {Change} change @param {number} now @returns {Stage} */
function enforcementStage(change, now) {
  const { completed_at: completed, kind, authorizers } = change
  const { total: registered, enforced, fail_closed: closed, unknown } = authorizers
  if (!registered)
    return {
      ...pending('Enforcement', ['No authorizer is registered, so none reports enforcement.']),
      state: 'unknown',
    }
  const some = `Enforced by ${enforced ? number(enforced) : 'none'} of ${number(registered)}`
  const refusing =
    closed > 0 && `${number(closed)} ${enforced ? 'more ' : ''}${closed === 1 ? 'fails' : 'fail'} closed.`
  if (change.is_complete) {
    const lines = present([completed && brief(completed, now), refusing])
    return reached(closed ? some : `Enforced by all ${number(registered)}`, lines, change, completed)
  }
  const open = `${count(unknown, 'authorizer')} may accept ${WHAT[kind]}.`
  const lines = present([open, refusing, `${span(since(change, now))} so far`])
  return { ...pending(some, lines), state: enforced ? 'open' : 'wait', share: enforced / registered }
}

/**
 * Return the time until which an authorizer may admit the revoked object.
 * @param {Api.LaggingAuthorizer} left
 */
export function exposureOf({ enforcement, sequence, fail_open: isOpen, fail_closed_at: from }) {
  if (enforcement === 'fail_closed') return from ? `failing closed since ${second(from)}` : 'failing closed'
  if (enforcement === 'unsupported') return 'does not support subject tokens'
  if (from) return `until ${second(from)}`
  if (sequence === null) return 'never reported: no limit known'
  return isOpen ? 'fails open: no limit' : 'staleness limit not reported'
}

/** Entries that a discontinuity of the feed skips. */
const SEQUENCE_JUMP = 2 ** 20

/** Return by how many entries an authorizer lags. @param {Api.LaggingAuthorizer} left */
export function lagOf({ sequence, lag_entries: lag }) {
  if (sequence === null) return 'never reported'
  if (lag !== null && lag >= SEQUENCE_JUMP) return `at entry ${number(sequence)}, before a discontinuity`
  return lag === null ? `at entry ${number(sequence)}` : lag ? count(lag, 'entry', 'entries') : 'conflicting entries'
}

/** Return the publications in feed and SRL, for the timeline. @param {Change} change @returns {Happened[]} */
export function publicationEvents({ feed, srl, is_complete: complete, completed_at: completed }) {
  const event = (/** @type {string} */ time, /** @type {string} */ text) =>
    /** @type {Happened} */ ({ time, text, state: 'force' })
  return present([
    feed?.issued_at && event(feed.issued_at, `Published in feed entry ${number(feed.sequence ?? 0)}`),
    srl && event(srl.issued_at, `Published in SRL ${number(srl.version)}`),
    complete && completed && event(completed, 'Refused by all authorizers'),
  ])
}

/** Return whether and how the contract permits to undo a change. @param {Change} change */
export function describeUnrevoke({ kind, can_unrevoke, unrevoked_at: undone, feed }) {
  if (kind === 'api_key' || kind === 'signing_key') return 'The revocation of a key is permanent.'
  if (kind === 'srl_signer') return 'The revocation of an SRL signer is permanent.'
  if (undone) return `Unrevoked ${second(undone)} UTC.`
  if (!can_unrevoke || feed?.total === 0) return 'No warrant is left to unrevoke.'
  return kind === 'batch' ? `${count(feed?.total ?? 0, 'warrant')} can be unrevoked.` : 'The warrant can be unrevoked.'
}

/** Format a time of today to the second, or any other time with its date. @param {string} time @param {number} now */
export const brief = (time, now) => (date(time) === date(now) ? second(time).slice(11) : minute(time))
