/** The rail: how far a revocation has come, from its record to the last authorizer. */

import { clock, count, date, number, second, span } from '../format.js'
import { html, one, svg } from '../html.js'
import { shape } from '../parts/tag.js'
import { isLate } from './overview.js'
import { wrapped } from './text.js'

/** @typedef {import('../parts/tag.js').State} State */
/** @typedef {{title: string, lines: string[], state: State, isReached: boolean, share?: number, since?: string}} Stage `share`: how much of its ring is drawn, from 0 to 1; `since`: what stands on the line that leads to it */
/** @typedef {{x: number, y: number, stage: Stage, title: Line[], lines: Line[], since: Line | null}} Point the middle of its ring, and its texts */
/** @typedef {{x: number, y: number, text: string}} Line its start, at the base of the letters */
/** @typedef {{width: number, height: number, isUpright: boolean, points: Point[]}} Layout */
/** @typedef {Pick<Api.RevocationPropagation, 'revoked_at' | 'list' | 'ended_at' | 'complete'> & {feed: {issued_at: string | null} | null, authorizers: Api.RevocationPropagation['authorizers'] | null}} Propagation `authorizers` is null if this API key may not read what they hold */
/** @typedef {{propagation: Propagation, by: string | null, status: Api.ListStatus | null, listedAt: string | null, now: number, what?: 'it' | 'them'}} Known */

const UPRIGHT_BELOW = 600
const RING = 17
const TITLE = { size: 15, weight: 600 }
const TEXT = { size: 12.5, weight: 400 }

/**
 * The four stages of a revocation.
 * @param {Known} known
 * @returns {Stage[]}
 */
export const stages = (known) => [recorded(known), listed(known), held(known), refused(known)]

/** @param {Known} known @returns {Stage} */
const recorded = ({ propagation, by, what = 'it' }) => ({
  title: 'Recorded', state: 'force', isReached: true,
  lines: [`${second(propagation.revoked_at)} UTC`, ...by ? [`by ${by}`] : [], `From here on, online checks refuse ${what}.`],
})

/** @param {Known} known @returns {Stage} */
function listed({ propagation: { feed, list, ended_at, revoked_at }, status, listedAt, now, what = 'it' }) {
  if (ended_at) return { title: 'Left the list', state: 'superseded', isReached: true, lines: [`${second(ended_at)} UTC`, 'The warrant itself ended then.'] }
  const inFeed = feed ? [feed.issued_at ? `In the feed since ${date(feed.issued_at) === date(revoked_at) ? second(feed.issued_at).slice(11) : second(feed.issued_at)} UTC.` : 'In the feed.'] : []
  const seconds = (/** @type {number} */ until) => (until - Date.parse(revoked_at)) / 1000
  if (list) {
    const since = listedAt ? span(seconds(Date.parse(listedAt))) : undefined
    return { title: `In list ${number(list.version)}`, state: 'force', isReached: true, since, lines: [...listedAt ? [`${second(listedAt)} UTC`] : [], ...inFeed] }
  }
  const due = status && (isLate(status, now) ? 'The schedule is late.' : `Due by ${clock(status.next_due_at)} UTC.`)
  return {
    title: status ? `Waits for list ${number(status.version + 1)}` : 'Waits for the next list', state: 'wait', isReached: false,
    since: seconds(now) < 1 ? 'just now' : `${span(seconds(now))} so far`,
    lines: [...due ? [due] : [], `Authorizers that use the list alone still let ${what} in.`, ...inFeed],
  }
}

/** @param {Known} known @returns {Stage} */
function held({ propagation: { authorizers, ended_at } }) {
  if (!authorizers) return { title: 'Held by', state: 'unknown', isReached: false, lines: ['This API key may not read what authorizers hold.'] }
  const { registered, holding, closed, unknown } = authorizers
  if (ended_at) return { title: 'Needs no list', state: 'superseded', isReached: true, lines: ['Authorizers refuse a warrant that has ended.'] }
  if (!registered) return { title: 'Held by', state: 'unknown', isReached: false, lines: ['No authorizer has registered, so none tells what it holds.'] }
  const rest = [closed && `${number(closed)} ${closed === 1 ? 'refuses' : 'refuse'} everything`, unknown && `${number(unknown)} ${unknown === 1 ? 'has' : 'have'} not told yet`].filter(Boolean)
  return {
    title: holding ? `Held by ${number(holding)} of ${number(registered)}` : `Held by none of ${number(registered)} yet`,
    state: holding === registered ? 'force' : holding ? 'wait' : 'unknown', isReached: holding > 0, share: holding / registered,
    lines: rest.length ? [`${rest.join(', ')}.`] : ['All that have registered.'],
  }
}

/** @param {Known} known @returns {Stage} */
function refused({ propagation: { authorizers, complete, ended_at }, what = 'it' }) {
  const title = 'Refused everywhere'
  const { registered, unknown } = authorizers ?? { registered: 0, unknown: 0 }
  if (ended_at) return { title, state: 'superseded', isReached: true, lines: ['As it has ended.'] }
  if (complete) return { title, state: 'force', isReached: true, lines: ['By what the authorizers report.'] }
  if (!registered) return { title, state: 'unknown', isReached: false, lines: ['This cannot be known.'] }
  return { title, state: 'unknown', isReached: false, lines: [`Not yet: ${count(unknown, 'authorizer')} may let ${what} in.`] }
}

/**
 * Where everything stands: side by side, or one below the other if that is too narrow.
 * @param {Stage[]} all
 * @param {number} width
 * @returns {Layout}
 */
export function layout(all, width) {
  const isUpright = width < UPRIGHT_BELOW
  const column = width / all.length
  let top = 0
  const points = all.map((stage, index) => {
    const [x, y] = isUpright ? [RING + 2, top + RING + 2] : [index * column + RING + 2, RING + 24]
    const left = isUpright ? 2 * RING + 18 : index * column + 2
    const room = isUpright ? width - left - 2 : column - 20
    const title = placed(wrapped(stage.title, room, TITLE), left, isUpright ? y + 5 : y + RING + 26, 20)
    const lines = placed(stage.lines.flatMap((line) => wrapped(line, room, TEXT)), left, (title.at(-1)?.y ?? y) + 20, 17)
    const bottom = Math.max(y + RING, title.at(-1)?.y ?? 0, lines.at(-1)?.y ?? 0)
    top = bottom + (all[index + 1]?.since ? 34 : 16)
    return { x, y, stage, title, lines, since: null }
  })
  const bottoms = points.map(({ y, title, lines }) => Math.max(y + RING + 2, title.at(-1)?.y ?? 0, lines.at(-1)?.y ?? 0))
  const rail = { width, height: Math.ceil(Math.max(...bottoms) + 6), isUpright, points }
  points.forEach((point, index) => place(point, points[index - 1], bottoms[index - 1], isUpright))
  return rail
}

/**
 * Put the text on the line that leads to a point.
 * @param {Point} point
 * @param {Point | undefined} before
 * @param {number | undefined} bottom of the texts of the point before
 * @param {boolean} isUpright
 */
function place(point, before, bottom = 0, isUpright) {
  const { since } = point.stage
  if (!before || !since) return
  point.since = isUpright ? { x: 2 * RING + 18, y: bottom + 20, text: point.stage.isReached ? `${since} until the next step` : since } : { x: (before.x + point.x) / 2, y: point.y - 12, text: since }
}

/**
 * @param {string[]} texts
 * @param {number} x
 * @param {number} y of the first
 * @param {number} height of a line
 * @returns {Line[]}
 */
const placed = (texts, x, y, height) => texts.map((text, index) => ({ x, y: y + index * height, text }))

/**
 * The picture.
 * @param {Stage[]} all
 * @param {number} width
 * @returns {SVGElement}
 */
export function rail(all, width) {
  const { height, isUpright, points } = layout(all, width)
  const said = all.map(({ title, lines }) => [title, ...lines].join(', ')).join('; ')
  return one(html`
    <svg class="picture" role="img" aria-label=${said} width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`}>
      ${points.slice(1).map((point, index) => track(points[index], point, isUpright))}
      ${points.map((point) => drawn(point, isUpright))}
    </svg>`)
}

/**
 * @param {Point} from
 * @param {Point} to
 * @param {boolean} isUpright
 */
function track(from, to, isUpright) {
  const gap = RING + 8
  const path = isUpright ? `M${from.x} ${from.y + gap}V${to.y - gap}` : `M${from.x + gap} ${from.y}H${to.x - gap}`
  return svg`<path class=${`track ${to.stage.isReached ? 'force' : to.stage.state}`} d=${path} stroke-dasharray=${to.stage.isReached ? null : '1 10'}/>`
}

/**
 * @param {Point} point
 * @param {boolean} isUpright
 */
function drawn({ x, y, stage, title, lines, since }, isUpright) {
  const ring = (/** @type {string} */ kind, /** @type {number | null} */ share = null) => svg`
    <circle class=${`ring ${kind}`} cx=${x} cy=${y} r=${RING} pathLength=${share === null ? null : 100} stroke-dasharray=${share === null ? null : `${100 * share} 100`} transform=${`rotate(-90 ${x} ${y})`}/>`
  const isPartly = Boolean(stage.share && stage.share < 1)
  return svg`
    <g class=${stage.state}>${ring(isPartly ? 'partly' : '')}${isPartly && ring('force', stage.share ?? 0)}${shape(stage.state, x - 8, y - 8)}</g>
    ${title.map((line) => written(line, 'title'))}
    ${lines.map((line) => written(line, 'soft'))}
    ${since && written(since, 'soft', isUpright ? 'start' : 'middle')}`
}

/**
 * @param {Line} line
 * @param {string} kind
 * @param {'start' | 'middle'} [anchor]
 */
const written = ({ x, y, text }, kind, anchor = 'start') => svg`<text class=${kind} x=${x} y=${y} text-anchor=${anchor}>${text}</text>`
