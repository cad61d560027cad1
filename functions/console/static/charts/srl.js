/** Pictures of the SRLs, drawn for their width, and the computations for them. */

import { date, minute, span } from '../format.js'
import { html, svg } from '../html.js'

/** @typedef {{start: number, end: number}} Span in milliseconds */

const DAY = 86_400_000
const HEIGHT = 28
const SMALLEST = 3
const LABEL = 22

/**
 * Return the times without a valid SRL, in a period that ends now.
 * @param {{issued_at: string, expires_at: string}[]} versions newest first
 * @param {number} from
 * @param {number} now
 * @returns {{known: number, gaps: Span[]}} the start of the known period, and the gaps since, oldest first
 */
export function coverage(versions, from, now) {
  const oldest = versions.at(-1)
  const known = oldest ? Math.min(now, Math.max(from, Date.parse(oldest.issued_at))) : now
  /** @type {Span[]} */
  const gaps = []
  let valid = known
  for (const { issued_at, expires_at } of [...versions].reverse()) {
    const issued = Math.min(now, Date.parse(issued_at))
    if (issued > valid) gaps.push({ start: valid, end: issued })
    valid = Math.max(valid, Date.parse(expires_at))
  }
  if (oldest && valid < now) gaps.push({ start: valid, end: now })
  return { known, gaps }
}

/**
 * Compute the positions of the parts of the strip.
 * @param {{known: number, gaps: Span[]}} covered
 * @param {number} from
 * @param {number} now
 * @param {number} width
 */
export function stripLayout({ known, gaps }, from, now, width) {
  const at = (/** @type {number} */ time) => ((time - from) / (now - from)) * width
  const midnights = []
  for (let day = Math.ceil(from / DAY) * DAY; day < now; day += DAY) midnights.push(day)
  const every = Math.max(1, Math.ceil((LABEL * midnights.length) / width))
  return {
    unknown: at(known),
    gaps: gaps.map(({ start, end }) => {
      const w = Math.max(SMALLEST, at(end) - at(start))
      return { x: Math.min(at(start), width - w), w }
    }),
    days: midnights.map((day, index) => ({
      x: at(day),
      label: index % every || at(day) > width - LABEL ? '' : date(day).slice(8),
    })),
    height: HEIGHT + 24,
  }
}

/**
 * Describe the strip in words.
 * @param {{known: number, gaps: Span[]}} covered
 */
export function coverageWords({ known, gaps }) {
  const whole = gaps.reduce((sum, { start, end }) => sum + end - start, 0)
  const since = `${minute(known)} UTC`
  return gaps.length
    ? `Since ${since}, no SRL was valid for ${span(whole / 1000)} in total.`
    : `Since ${since}, there was always a valid SRL.`
}

/**
 * Return a strip of the times with and without a valid SRL.
 * @param {{known: number, gaps: Span[]}} covered
 * @param {number} from
 * @param {number} now
 * @param {number} width
 */
export function strip(covered, from, now, width) {
  const { unknown, gaps, days, height } = stripLayout(covered, from, now, width)
  return html`<svg
    class="picture"
    role="img"
    aria-label=${coverageWords(covered)}
    width=${width}
    height=${height}
    viewBox=${`0 0 ${width} ${height}`}
  >
    <defs>
      <pattern id="unheard" width="6" height="6" patternUnits="userSpaceOnUse">
        <circle class="fill unknown" cx="3" cy="3" r="1.2" />
      </pattern>
      <pattern id="hatching" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
        <rect class="fill revoked" width="3" height="6" />
      </pattern>
    </defs>
    ${
      unknown > 0 &&
      svg`<rect class="edge unknown" fill="url(#unheard)" x="0.5" y="0.5"
            width=${Math.max(0, unknown - 1)} height=${HEIGHT - 1}/>`
    }
    ${svg`<rect class="fill force" x=${unknown} y="0" width=${width - unknown} height=${HEIGHT}/>`}
    ${gaps.map(
      ({ x, w }) =>
        svg`<rect class="under" x=${x} y="0" width=${w} height=${HEIGHT}/>
              <rect class="edge revoked" fill="url(#hatching)" x=${x} y="0.5" width=${w} height=${HEIGHT - 1}/>`,
    )}
    ${days.map(
      ({ x, label }) =>
        svg`<path class="tick" d=${`M${x.toFixed(1)} ${HEIGHT}v6`}/>
              <text class="soft" x=${x + 2} y=${HEIGHT + 19}>${label}</text>`,
    )}
  </svg>`
}

/**
 * Return the lengths of the pieces of a row, in per cent of the longest.
 * @param {{count: number, added_count: number | null}} version
 * @param {number} most
 */
export function rowLayout({ count, added_count: added }, most) {
  const whole = most ? (count / most) * 100 : 0
  const fresh = Math.min(whole, ((added ?? 0) / Math.max(1, most)) * 100)
  return { old: whole - fresh, fresh }
}

/**
 * Return a bar with the number of warrants on an SRL; new warrants are at the end.
 * @param {{count: number, added_count: number | null}} version
 * @param {number} most on any displayed SRL
 * @param {boolean} current whether the signer of the current SRL signed it
 */
export function row(version, most, current) {
  const { old, fresh } = rowLayout(version, most)
  return html`<svg class="picture" aria-hidden="true" width="100%" height="8">
    ${svg`<rect class=${`fill ${current ? 'info' : 'superseded'}`} width=${`${old}%`} height="8"/>
      <rect class="fill wait" x=${`${old}%`} width=${`${fresh}%`} height="8"/>`}
  </svg>`
}

/**
 * Return the warrants on one SRL that are not on the other.
 * @param {string[]} one
 * @param {string[]} other
 */
export function difference(one, other) {
  const [before, after] = [new Set(one), new Set(other)]
  return { added: other.filter((id) => !before.has(id)), removed: one.filter((id) => !after.has(id)) }
}
