/** Chart of a change: the number of authorizers that were known to refuse, by seconds. */

import { since, formatDuration } from '../changes.js'
import { number } from '../format.js'
import { one, html, svg } from '../html.js'
import { measure } from './text.js'

/** @typedef {import('../changes.js').Change} Change */
/** @typedef {{x: number, y: number, enforcement: string}} Dot */

const [TOP, BOTTOM, HEIGHT, RIGHT] = [22, 28, 236, 12]
const TICKS = [1, 5, 10, 30, 60, 300, 1800, 3600, 6 * 3600, 86_400, 7 * 86_400, 30 * 86_400, 365 * 86_400]
/** Up to this number, points are drawn as dots. */
const DOTS = 60
const LEAST_SECONDS = 60
const FONT = { size: 12 }

/**
 * Compute the layout. The axis is log(1 + seconds), because most events happen in the first seconds.
 * @param {Change} change
 * @param {number} width
 * @param {number} now in milliseconds
 */
export function layout(change, width, now) {
  const {
    propagation_curve: curve,
    is_complete: complete,
    authorizers: { total: registered, enforced, fail_closed: closed },
  } = change
  const known = enforced + closed
  const last = curve.at(-1)?.[0] ?? 0
  const end = Math.max(LEAST_SECONDS, last, complete ? 0 : since(change, now))
  const left = measure(number(registered), FONT) + 12
  const x = (/** @type {number} */ seconds) =>
    left + ((width - left - RIGHT) * Math.log1p(Math.max(0, seconds))) / Math.log1p(end)
  const y = (/** @type {number} */ count) =>
    HEIGHT - BOTTOM - ((HEIGHT - BOTTOM - TOP) * count) / Math.max(1, registered)
  /** @type {Dot[]} */
  const dots = curve.map(([seconds, enforcement], index) => {
    // Long curves contain an even selection of points.
    const rank = curve.length < 2 ? known : 1 + (index * (known - 1)) / (curve.length - 1)
    return { x: x(seconds), y: y(rank), enforcement }
  })
  const reached = TICKS.filter((seconds) => seconds <= end)
  const ticks = reached.map((seconds) => ({ x: x(seconds), text: formatDuration(seconds) }))
  // Leave out each tick that overlaps the previous tick.
  const room = (/** @type {string} */ text) => measure(text, FONT) / 2 + 6
  /** @type {typeof ticks} */
  const apart = []
  for (const [index, tick] of ticks.entries()) {
    const before = apart.at(-1)
    const isClear = !before || tick.x - before.x >= room(before.text) + room(tick.text)
    if (isClear && (index === 0 || tick.x > x(0))) apart.push(tick)
  }
  const levels = [0, registered, known].filter(
    (count, index, all) =>
      all.indexOf(count) === index &&
      (index < 2 || (Math.abs(y(count) - y(0)) > 14 && Math.abs(y(count) - y(registered)) > 14)),
  )
  return {
    left,
    right: x(complete ? last : end),
    end: x(end),
    bottom: y(0),
    known: y(known),
    dots,
    ticks: apart,
    levels: levels.map((count) => ({ y: y(count), text: number(count) })),
    x,
    isOpen: !complete,
  }
}

/**
 * Return the picture.
 * @param {Change} change
 * @param {number} width
 * @param {number} now in milliseconds
 * @returns {SVGElement}
 */
export function curve(change, width, now) {
  const at = layout(change, width, now)
  const line = [`M${at.left} ${at.bottom}`, ...at.dots.map((dot) => `H${dot.x}V${dot.y}`), `H${at.right}`].join('')
  const fed = change.feed?.issued_at ? at.x(since(change, change.feed.issued_at)) : null
  const old = at.dots.find(({ enforcement }) => enforcement === 'fail_closed')?.x ?? null
  const { total: registered, enforced, fail_closed: closed } = change.authorizers
  const points = change.propagation_curve.length <= DOTS ? change.propagation_curve : []
  const ends = points.map(([seconds]) => formatDuration(seconds)).join(', ')
  const refuse = `${number(enforced + closed)} of ${number(registered)} authorizers are known to refuse it`
  const label = `${refuse}${ends && `, after ${ends}`}`
  return one(
    html` <svg
      class="picture"
      role="img"
      aria-label=${label}
      width=${width}
      height=${HEIGHT}
      viewBox=${`0 0 ${width} ${HEIGHT}`}
    >
      ${at.levels.map(
        ({ y, text }) => svg`<path class="grid" d=${`M${at.left} ${y}H${width - RIGHT}`}/>
        <text class="soft" x=${at.left - 8} y=${y + 4} text-anchor="end">${text}</text>`,
      )}
      ${at.ticks.map(
        ({ x, text }) => svg`<path class="tick" d=${`M${x} ${at.bottom}v5`}/>
        <text class="soft" text-anchor="middle"
          x=${Math.min(x, width - measure(text, FONT) / 2)} y=${at.bottom + 19}>${text}</text>`,
      )}
      <g class="force">
        <path class="area" d=${`${line}V${at.bottom}Z`} />
        <path class="curve" d=${line} />
      </g>
      ${fed !== null && mark(fed, at.bottom, 'in the feed', TOP - 8, width)}
      ${old !== null && mark(old, at.bottom, 'failing closed', at.bottom - 8, width)}
      ${
        at.dots.length <= DOTS &&
        at.dots.map(
          ({ x, y, enforcement }) =>
            svg`<circle class=${`fill ${enforcement === 'fail_closed' ? 'closed' : 'force'}`} cx=${x} cy=${y} r="3"/>`,
        )
      }
      ${at.isOpen && svg`<circle class="ring force" cx=${at.end} cy=${at.known} r="4.5"/>`}
    </svg>`,
  )
}

/**
 * Return a marked time, with words on the side with room.
 * @param {number} x
 * @param {number} bottom
 * @param {string} words
 * @param {number} y of the words
 * @param {number} width
 */
function mark(x, bottom, words, y, width) {
  const isLeft = x + measure(words, FONT) + 12 > width
  return svg`<path class="mark-line" d=${`M${x} ${TOP - 14}V${bottom}`}/>
    <text class="soft over" x=${x + (isLeft ? -6 : 6)} y=${y} text-anchor=${isLeft ? 'end' : 'start'}>${words}</text>`
}
