/**
 * What authorizers said that they hold, and in which order a person looks at them. Who refuses a
 * warrant is said by the service only (FLEET-11); nothing here concludes it. Nothing here knows the
 * document.
 */

/** @typedef {Api.Authorizer} Authorizer */

/** What the service asks of authorizers at rest (FLEET-8): a heartbeat each so many seconds, and so many a second in all. */
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

/**
 * Whether it said that it holds an entry of the feed, or a later one.
 * @param {Pick<Authorizer, 'sequence' | 'foreign'>} authorizer
 * @param {number} entry
 */
export const holds = ({ sequence, foreign }, entry) => !foreign && sequence !== null && sequence >= entry

/**
 * By how many entries it said that it is behind: more than any number if it told nothing, or what
 * this service did not say.
 * @param {Pick<Authorizer, 'sequence' | 'foreign'>} authorizer
 * @param {number} newest
 */
export function behind({ sequence, foreign }, newest) {
  if (foreign) return Infinity
  return sequence === null ? Number.MAX_SAFE_INTEGER : Math.max(0, newest - sequence)
}

const names = new Intl.Collator('en', { numeric: true })

/**
 * Those that a person has to see to come first: the furthest behind, those that let warrants in with
 * an old state, those that were not heard. The others are in the order of their names.
 * @param {Authorizer[]} found
 * @param {number} newest
 * @param {number} now in milliseconds
 */
export function worstFirst(found, newest, now) {
  const ranks = new Map(found.map((each) => [each, [-behind(each, newest), -Number(each.allow_when_stale), -Number(isSilent(each, now, found.length))]]))
  return [...found].sort((one, other) => {
    const [first, second] = [/** @type {number[]} */ (ranks.get(one)), /** @type {number[]} */ (ranks.get(other))]
    const differs = first.findIndex((rank, index) => rank !== second[index])
    return differs < 0 ? names.compare(one.name, other.name) || names.compare(one.id, other.id) : first[differs] < second[differs] ? -1 : 1
  })
}

/**
 * Those whose name, program, relay or identifier has each of the words.
 * @param {Authorizer[]} found
 * @param {string} text
 */
export function matching(found, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean)
  if (!words.length) return found
  return found.filter(({ id, name, type, relay, owner }) => {
    const said = [id, name, type, relay, owner].join(' ').toLowerCase()
    return words.every((word) => said.includes(word))
  })
}
