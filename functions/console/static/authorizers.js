/**
 * Rules about the reports of authorizers. Does not access the DOM.
 *
 * Only the service decides whether an authorizer refuses a warrant (FLEET-11). This module does not infer it.
 */

/** @typedef {Api.Authorizer} Authorizer */

/** The service's heartbeat interval in seconds at rest, and its total heartbeats per second (FLEET-8). */
const [REPORT_SECONDS, REPORTS_PER_SECOND] = [300, 50]
/** A heartbeat may be a quarter late, and takes time to be stored. */
const SLACK = { share: 1.25, seconds: 30 }

/**
 * Return the longest pause in seconds between two heartbeats, in a fleet of `size`.
 * @param {number} size
 */
export const quietAfter = (size) => Math.max(REPORT_SECONDS, size / REPORTS_PER_SECOND) * SLACK.share + SLACK.seconds

/**
 * Return whether an authorizer's heartbeat is missing.
 * @param {Pick<Authorizer, 'last_seen_at'>} authorizer
 * @param {number} now in milliseconds
 * @param {number} size of the fleet
 */
export const isSilent = ({ last_seen_at }, now, size) => now - Date.parse(last_seen_at) > quietAfter(size) * 1000
