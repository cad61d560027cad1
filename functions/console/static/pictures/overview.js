/** The pictures of the overview, drawn for the width that they get, and what they are reckoned from. */

import { holds, isSilent, quietAfter } from '../authorizers.js'
import { clock, count, date, number, span } from '../format.js'
import { html, one, svg } from '../html.js'

/** @typedef {import('../parts/tag.js').State} State */
/** @typedef {{state: State, words: string, count: number}} Piece */
/** @typedef {{date: string, created: number | null}} Day */
/** @typedef {{pending: number, since: string}} Waiting how many changes no list has yet, and the day of the oldest */

const MINUTE = 60_000
/** By how much a list may come later than it is due before the schedule counts as late: on AWS it may run each two minutes. */
const LATE = 2 * MINUTE

/**
 * How much of a list's life has passed, and what that means.
 * @param {{issued_at: string, expires_at: string}} list
 * @param {number} now in milliseconds
 * @returns {{fraction: number, left: number, state: State}} left in seconds
 */
export function life({ issued_at, expires_at }, now) {
  const [issued, expires] = [Date.parse(issued_at), Date.parse(expires_at)]
  const fraction = Math.min(1, Math.max(0, (now - issued) / (expires - issued)))
  /** @type {State} */
  let state = 'force'
  if (now >= expires) state = 'expired'
  else if (fraction >= 0.9) state = 'revoked'
  else if (now > (issued + expires) / 2 + LATE) state = 'wait'
  return { fraction, left: Math.max(0, (expires - now) / 1000), state }
}

/**
 * The place of things on the dial.
 * @param {number} width
 */
export function dialLayout(width) {
  const radius = Math.max(60, Math.min(115, width / 2 - 44))
  const [x, y] = [width / 2, radius + 42]
  const at = (/** @type {number} */ fraction, /** @type {number} */ far) => [x - far * Math.cos(Math.PI * fraction), y - far * Math.sin(Math.PI * fraction)]
  const arc = (/** @type {number} */ from, /** @type {number} */ to, /** @type {number} */ far) => {
    const [start, end] = [at(from, far), at(to, far)]
    return `M${start.map(places).join(' ')}A${places(far)} ${places(far)} 0 0 1 ${end.map(places).join(' ')}`
  }
  return { radius, x, y, height: y + 42, at, arc }
}

/** @param {number} value */
const places = (value) => value.toFixed(1)

/**
 * How long the list is still valid, as a dial.
 * @param {{version: number, issued_at: string, expires_at: string}} list
 * @param {number} now
 * @param {number} width
 * @returns {SVGElement}
 */
export function dial(list, now, width) {
  const { fraction, left, state } = life(list, now)
  const { radius, x, y, height, at, arc } = dialLayout(width)
  const [from, to] = [at(fraction, radius - 20), at(fraction, radius + 20)].map((point) => point.map(places))
  const over = state === 'expired'
  const end = (/** @type {string} */ word, /** @type {string} */ time, /** @type {number} */ place) => svg`
    <text class="soft" x=${place} y=${y + 20} text-anchor="middle">${word}</text><text class="soft" x=${place} y=${y + 35} text-anchor="middle">${hour(time, now)}</text>`
  const words = over ? `List ${list.version} has expired.` : `List ${list.version} is valid for ${span(left)} more.`
  return /** @type {SVGElement} */ (one(html`
    <svg class="picture" role="img" aria-label=${`${words} Issued ${hour(list.issued_at, now)}, expires ${hour(list.expires_at, now)} UTC.`} width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`}>
      <path class="groove" stroke-width="22" d=${arc(0, 1, radius)}/>
      ${svg`<path class=${`band ${state}`} stroke-width="22" d=${arc(0, over ? 1 : fraction, radius)}/>`}
      <path class="band wait" stroke-width="3" d=${arc(0.5, 0.9, radius + 16)}/>
      <path class="band revoked" stroke-width="3" d=${arc(0.9, 1, radius + 16)}/>
      <text class="soft" x=${x} y=${y - radius - 24} text-anchor="middle">renew from here</text>
      <path class="hand" d=${`M${from.join(' ')}L${to.join(' ')}`}/>
      <text class="reading" x=${x} y=${y - 18} text-anchor="middle">${over ? 'expired' : span(left)}</text>
      <text class="soft" x=${x} y=${y} text-anchor="middle">${over ? 'all who use it refuse all' : 'until it expires'}</text>
      ${end('issued, UTC', list.issued_at, x - radius)}${end('expires, UTC', list.expires_at, x + radius)}
    </svg>`))
}

/**
 * @param {string} time
 * @param {number} now
 */
const hour = (time, now) => date(time) === date(now) ? clock(time) : `${date(time).slice(5)} ${clock(time)}`

/**
 * What the authorizers said that they hold; each is in one piece.
 * @param {Pick<Api.Authorizer, 'sequence' | 'seen_at' | 'foreign'>[]} authorizers
 * @param {number} newest entry of the feed
 * @param {number} now
 * @returns {Piece[]}
 */
export function holders(authorizers, newest, now) {
  const found = { newest: 0, older: 0, nothing: 0, foreign: 0, quiet: 0 }
  for (const each of authorizers) {
    if (each.foreign) found.foreign++
    else if (isSilent(each, now, authorizers.length)) found.quiet++
    else if (each.sequence === null) found.nothing++
    else found[holds(each, newest) ? 'newest' : 'older']++
  }
  /** @type {Piece[]} */
  const pieces = [
    { state: 'force', words: 'hold every change', count: found.newest },
    { state: 'wait', words: 'hold an older state', count: found.older },
    { state: 'suspended', words: 'hold nothing yet', count: found.nothing },
    { state: 'revoked', words: 'hold what another service said', count: found.foreign },
    { state: 'unknown', words: `not heard for ${span(quietAfter(authorizers.length))}`, count: found.quiet },
  ]
  return pieces.filter((piece) => piece.count)
}

const GAP = 2
const SMALLEST = 6

/**
 * Where the pieces of a bar are: each wide enough to be seen, and in all as wide as the bar.
 * @param {number[]} counts none of them 0
 * @param {number} width
 * @returns {{x: number, w: number}[]}
 */
export function barLayout(counts, width) {
  const room = width - GAP * (counts.length - 1)
  const total = counts.reduce((sum, each) => sum + each, 0)
  const small = counts.filter((each) => (each / total) * room < SMALLEST)
  const rest = total - small.reduce((sum, each) => sum + each, 0)
  let x = 0
  return counts.map((each) => {
    const w = small.includes(each) ? SMALLEST : (each / rest) * (room - SMALLEST * small.length)
    const piece = { x, w }
    x += w + GAP
    return piece
  })
}

/**
 * One bar, of which each piece is as long as its count.
 * @param {Piece[]} pieces
 * @param {number} width
 * @returns {SVGElement}
 */
export function bar(pieces, width) {
  const places = barLayout(pieces.map((piece) => piece.count), width)
  return /** @type {SVGElement} */ (one(html`
    <svg class="picture" role="img" aria-label=${pieces.map((piece) => `${number(piece.count)} ${piece.words}`).join(', ')} width=${width} height="30" viewBox=${`0 0 ${width} 30`}>
      <defs>${dots()}</defs>
      ${pieces.map(({ state }, index) => svg`<rect class=${`fill ${state}`} fill=${state === 'unknown' ? 'url(#dots)' : null} x=${places[index].x + 0.5} y="0.5" width=${Math.max(0, places[index].w - 1)} height="29" rx="3"/>`)}
    </svg>`))
}

const dots = () => svg`<pattern id="dots" width="6" height="6" patternUnits="userSpaceOnUse"><circle class="fill unknown" cx="3" cy="3" r="1.2"/></pattern>`
const stripes = () => svg`<pattern id="stripes" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="fill wait" width="3" height="6"/></pattern>`

const AXIS = 36
const TOP = 20
const LETTER = 7.4

/**
 * The highest line of a scale of three: 0, half, and a round number that is not below.
 * @param {number} most
 */
export function scale(most) {
  if (most <= 2) return 2
  const unit = 10 ** Math.floor(Math.log10(most))
  return [1, 2, 4, 6, 8, 10].map((each) => each * unit).find((each) => each >= most && each % 2 === 0) ?? 10 * unit
}

/**
 * Where the bars of the days are.
 * @param {Day[]} days oldest first
 * @param {Waiting} waits
 * @param {number} width
 */
export function daysLayout(days, waits, width) {
  const top = scale(Math.max(...days.map(({ created }) => created ?? 0)))
  const slot = (width - AXIS) / days.length
  const plot = Math.round(Math.min(320, Math.max(180, width / 2)))
  let waiting = waits.pending
  const bars = days.map((day, index) => ({ day, x: AXIS + slot * index + slot * 0.12, w: slot * 0.76, h: ((day.created ?? 0) / top) * plot, waits: 0 }))
  for (const each of [...bars].reverse()) {
    const taken = each.day.date < waits.since ? 0 : Math.min(waiting, each.day.created ?? 0)
    waiting -= taken
    each.waits = (taken / top) * plot
  }
  return { top, slot, plot, bars, height: TOP + plot + 24 }
}

/**
 * A number that fits a bar: 950, 1.2k, or none.
 * @param {number} value
 * @param {number} room
 */
export function label(value, room) {
  const short = value < 10_000 ? `${(value / 1000).toFixed(1)}k` : `${Math.round(value / 1000)}k`
  return [number(value), value < 1000 ? '' : short].find((text) => text.length * LETTER <= room) ?? ''
}

/**
 * Revocations per day.
 * @param {Day[]} days oldest first
 * @param {Waiting} waits
 * @param {number} width
 * @returns {SVGElement}
 */
export function bars(days, waits, width) {
  const { pending } = waits
  const { top, slot, plot, bars, height } = daysLayout(days, waits, width)
  const floor = TOP + plot
  const line = (/** @type {number} */ value) => {
    const y = floor - (value / top) * plot
    return svg`<path class="grid" d=${`M${AXIS} ${y}H${width}`}/><text class="soft" x=${AXIS - 8} y=${y + 4} text-anchor="end">${label(value, AXIS)}</text>`
  }
  const column = (/** @type {typeof bars[number]} */ { day, x, w, h, waits }) => svg`
    <rect class="fill superseded" x=${x} y=${floor - h + waits} width=${w} height=${h - waits} rx="2"/>
    ${waits > 0 && svg`<rect class="edge wait" fill="url(#stripes)" x=${x + 0.5} y=${floor - h + 0.5} width=${w - 1} height=${Math.max(1, waits - 1)} rx="2"/>`}
    <text class="over" x=${x + w / 2} y=${floor - h - 6} text-anchor="middle">${day.created === null ? '?' : day.created === 0 ? '' : label(day.created, slot)}</text>
    <text class="soft" x=${x + w / 2} y=${floor + 17} text-anchor="middle">${day.date.slice(8)}</text>`
  const words = days.map(({ date, created }) => `${date.slice(5)}: ${created ?? 'not known'}`).join(', ')
  return /** @type {SVGElement} */ (one(html`
    <svg class="picture" role="img" aria-label=${`Revocations per day. ${words}. ${pending ? `${count(pending, 'change')} not in the list yet.` : ''}`} width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`}>
      <defs>${stripes()}</defs>${[0, top / 2, top].map(line)}${bars.map(column)}
    </svg>`))
}

/**
 * Whether the schedule should have made a list by now.
 * @param {Pick<Api.ListStatus, 'next_due_at'>} list
 * @param {number} now in milliseconds
 */
export const isLate = ({ next_due_at }, now) => now > Date.parse(next_due_at) + LATE

/**
 * What is wrong with the list, the worst first; null if nothing is.
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
 * The same in words. They change each minute at most, as they are read out when they change.
 * @param {'expired' | 'late' | 'waiting'} kind
 * @param {Api.ListStatus} list
 * @param {number} now
 */
export function warning(kind, list, now) {
  const since = (/** @type {string} */ time) => now - Date.parse(time) < MINUTE ? 'less than a minute' : span((now - Date.parse(time)) / 1000)
  if (kind === 'expired') return html`<strong>List ${list.version} expired ${since(list.expires_at)} ago. Every authorizer that works from the list refuses every warrant.</strong> Publish a list now. If that fails, the runbook says what to look at: “Expired lists”.`
  const { version, pending, pending_truncated, oldest_pending_at } = list
  const changes = pending ? `${pending_truncated ? 'At least ' : ''}${count(pending, 'change')} ${pending === 1 ? 'is' : 'are'}` : 'Changes are'
  const what = pending || pending_truncated
    ? html`<strong>${changes} recorded but not in the list yet.</strong> An authorizer that works from the list alone still lets warrants in that were revoked since. ${oldest_pending_at && `The oldest has waited for ${since(oldest_pending_at)}.`}`
    : html`<strong>List ${version} should have been renewed.</strong>`
  if (kind === 'late') return html`${what} A list was due ${since(list.next_due_at)} ago, so <strong>the schedule is late</strong>. The runbook says what to look at: “Late lists”.`
  return html`${what} The next list is due within ${span(Math.max(60, (Date.parse(list.next_due_at) - now) / 1000))}.`
}

/**
 * Whether nothing was revoked yet.
 * @param {Api.ListStatus} list
 */
export const isNew = ({ count, pending, pending_truncated }) => count === 0 && pending === 0 && !pending_truncated

/**
 * Whether to draw in this second: each second in the last two minutes of the list, else each tenth.
 * @param {Api.ListStatus} list
 * @param {number} now
 */
export function isDue(list, now) {
  const seconds = life(list, now).left
  return seconds < 120 || Math.floor(seconds) % 10 === 0
}
