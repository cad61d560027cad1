/** State of the SRL, and labels of bars. Does not access the DOM. */

import { count, number, span } from '../format.js'
import { html } from '../html.js'

const MINUTE = 60_000
/** Longest normal delay of an SRL. A later SRL is overdue: on AWS the schedule may run every two minutes. */
const LATE = 2 * MINUTE
/** The width of a digit. */
const LETTER = 7.4

/**
 * Format a number to fit a bar: 950, 1.2k, or none.
 * @param {number} value
 * @param {number} room
 */
export function label(value, room) {
  const short = value < 10_000 ? `${(value / 1000).toFixed(1)}k` : `${Math.round(value / 1000)}k`
  return [number(value), value < 1000 ? '' : short].find((text) => text.length * LETTER <= room) ?? ''
}

/**
 * Return whether an SRL is overdue.
 * @param {Pick<Api.ListStatus, 'next_due_at'>} list
 * @param {number} now in milliseconds
 */
export const isLate = ({ next_due_at }, now) => now > Date.parse(next_due_at) + LATE

/**
 * Return the most severe problem of the SRL; null without a problem.
 * @param {Api.ListStatus} list
 * @param {number} now
 * @returns {'expired' | 'late' | 'waiting' | null}
 */
export function trouble(list, now) {
  if (now >= Date.parse(list.expires_at)) return 'expired'
  if (isLate(list, now)) return 'late'
  return list.pending || list.pending_truncated ? 'waiting' : null
}

/**
 * Describe the problem in words. They change each minute at most, because screen readers announce each change.
 * @param {'expired' | 'late' | 'waiting'} kind
 * @param {Api.ListStatus} list
 * @param {number} now
 */
export function warning(kind, list, now) {
  const since = (/** @type {string} */ time) =>
    now - Date.parse(time) < MINUTE ? 'less than a minute' : span((now - Date.parse(time)) / 1000)
  if (kind === 'expired')
    return html`<strong
        >SRL ${list.version} expired ${since(list.expires_at)} ago. Authorizers that use the SRL fail closed.</strong
      >
      Publish an SRL now. If that fails, see “SRLs expired” in the runbook.`
  const { version, pending, pending_truncated, oldest_pending_at } = list
  const changes = pending
    ? `${pending_truncated ? 'At least ' : ''}${count(pending, 'change')} ${pending === 1 ? 'is' : 'are'}`
    : 'Changes are'
  const what =
    pending || pending_truncated
      ? html`<strong>${changes} recorded but not in the SRL yet.</strong> Authorizers that use only the SRL still accept
          the warrants that were revoked since.
          ${oldest_pending_at && `The oldest has been pending for ${since(oldest_pending_at)}.`}`
      : html`<strong>SRL ${version} should have been replaced.</strong>`
  if (kind === 'late')
    return html`${what} An SRL was due ${since(list.next_due_at)} ago: <strong>publication is overdue</strong>. See
      “SRLs overdue” in the runbook.`
  return html`${what} The next SRL is due within ${span(Math.max(60, (Date.parse(list.next_due_at) - now) / 1000))}.`
}

/**
 * Return whether the tenant has no revocations yet.
 * @param {Api.ListStatus} list
 */
export const isNew = ({ count, pending, pending_truncated }) => count === 0 && pending === 0 && !pending_truncated
