/** Reads warrants from a text: one per line, or a column of a CSV file. */

import { number } from '../format.js'
import { rows, Unreadable } from './csv.js'

/** @typedef {{line: number, id: string, reason: string | null}} Warrant */
/** @typedef {{line: number, text: string, why: string}} BadLine */
/**
 * @typedef {object} WarrantLines `unread`: columns without a heading that are not read
 * @property {Warrant[]} warrants
 * @property {BadLine[]} bad
 * @property {number} repeated
 * @property {boolean} hasReasons
 * @property {number} unread
 */

export const MOST = 10_000
export const MOST_BYTES = 5_000_000
const REASON_MAX = 1024
export const WARRANT = /^svc_wrt_[A-Za-z0-9_-]{1,64}$/
/** For the attribute `pattern` of a field. */
export const WARRANT_PATTERN = '\\s*svc_wrt_[A-Za-z0-9_\\-]{1,64}\\s*'
const HEADINGS = ['id', 'warrant', 'warrant_id', 'warrant id']

/**
 * Read the warrants. A repeated warrant counts once. Throws `Unreadable` if there is none or if there are too many.
 * @param {string} text
 * @returns {WarrantLines}
 */
export function read(text) {
  /** @type {Map<string, Warrant>} */
  const warrants = new Map()
  /** @type {WarrantLines} */
  const lines = { warrants: [], bad: [], repeated: 0, hasReasons: false, unread: 0 }
  let [column, reasons, hasHeadings, count] = [0, -1, false, 0]
  for (const { line, cells } of rows(text)) {
    const headings = cells.map((cell) => cell.toLowerCase())
    const first = headings.findIndex((each) => HEADINGS.includes(each))
    if (!count && !hasHeadings && first >= 0) {
      ;[column, reasons, hasHeadings] = [first, headings.indexOf('reason'), true]
      continue
    }
    count += 1
    if (count > MOST)
      throw new Unreadable(
        `The input has more than ${number(MOST)} rows. Split it into parts of at most ${number(MOST)} rows.`,
      )
    if (!hasHeadings) lines.unread = Math.max(lines.unread, cells.length - 1)
    const id = cells[column] ?? ''
    const reason = cells[reasons] || null
    const why = faultOf(id, reason)
    if (why) lines.bad.push({ line, text: id || cells.filter(Boolean).join(', '), why })
    else if (warrants.has(id)) lines.repeated += 1
    else warrants.set(id, { line, id, reason })
  }
  if (!count) throw new Unreadable('The input contains no warrants.')
  lines.warrants = [...warrants.values()]
  lines.hasReasons = lines.warrants.some(({ reason }) => reason !== null)
  return lines
}

/**
 * @param {string} id
 * @param {string | null} reason
 */
function faultOf(id, reason) {
  if (!WARRANT.test(id))
    return id ? 'An identifier is svc_wrt_ and 1 to 64 letters, digits, _ or -.' : 'The identifier is missing.'
  if (reason !== null && [...reason].length > REASON_MAX)
    return `The reason is longer than ${number(REASON_MAX)} characters.`
  return null
}
