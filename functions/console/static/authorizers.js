/**
 * What authorizers said that they hold. Who refuses a warrant is said by the service only (FLEET-11); nothing
 * here concludes it. Nothing here knows the document.
 */

/** @typedef {Api.Authorizer} Authorizer */

/**
 * What the service asks of authorizers at rest (FLEET-8): a heartbeat each so many seconds, and so
 * many a second in all.
 */
const [REPORT_SECONDS, REPORTS_PER_SECOND] = [300, 50]
/** A client may take a quarter more, and its heartbeat some time to be stored. */
const SLACK = { share: 1.25, seconds: 30 }

/**
 * The seconds after which a heartbeat is missing, in a fleet of so many.
 * @param {number} size
 */
export const quietAfter = (size) => Math.max(REPORT_SECONDS, size / REPORTS_PER_SECOND) * SLACK.share + SLACK.seconds

/**
 * Whether a heartbeat of an authorizer is missing.
 * @param {Pick<Authorizer, 'seen_at'>} authorizer
 * @param {number} now in milliseconds
 * @param {number} size of the fleet
 */
export const isSilent = ({ seen_at }, now, size) => now - Date.parse(seen_at) > quietAfter(size) * 1000
