/** Picture of the key hierarchy: columns by depth if there is room, else indented rows. */

import { number, present } from '../format.js'
import { html, one, svg } from '../html.js'
import { shape } from '../components/tag.js'
import { label, warrantCount, keyState, summary } from '../signing_keys.js'
import { cut, measure } from './text.js'

/** @typedef {import('../signing_keys.js').Item} Item */
/** @typedef {import('../signing_keys.js').Place} Place */
/** @typedef {{item: Item, x: number, y: number, w: number}} Box */
/** @typedef {{boxes: Box[], width: number, height: number, trunk: (parent: Box) => number}} Layout */

/**
 * Options of the drawn part of a layout.
 *
 * `dark` would be revoked, from `cut` down. In an interactive tree, `active` has the keyboard focus; without it the
 * picture is static.
 * @typedef {object} Drawing
 * @property {string} name
 * @property {number} now
 * @property {Set<Place>} dark
 * @property {Place | null} cut
 * @property {Place | null} [chosen]
 * @property {string | null} [active]
 * @property {{top: number, bottom: number}} [seen]
 */

export const HEIGHT = 44
const ROW = 60
/** At this width and above, columns show the depth. */
export const WIDE = 860
const GAP = 44
const BETWEEN_ROOTS = 0.25
/**
 * If the descendants of a key are taller, the key is next to the first of them, because the middle would be out of
 * view.
 */
const TALL = 12 * ROW
const INDENT = 22
/** Room above and on the right for cards behind, on the left for a cut that leads to a hidden key. */
const MARGIN = { top: 14, right: 14, cut: 26 }
const NARROWEST = 170
const WIDEST = 260
/** Boxes in the document at most: each has at most ten elements, and a picture 400. */
export const MOST = 39
/** Pixels beyond the visible part that are drawn ahead of scrolling. */
const AHEAD = 8 * ROW

const NAME = { size: 14, weight: 650 }

/**
 * Compute the position of each item, for a width in CSS pixels.
 * @param {Item[]} items in reading order
 * @param {number} width
 * @returns {Layout}
 */
export function layout(items, width) {
  const depths = Math.max(0, ...items.map(({ depth }) => depth)) + 1
  const each = (width - MARGIN.right - left(items) - (depths - 1) * GAP) / depths
  return width >= WIDE && each >= NARROWEST ? columns(items, width, Math.min(WIDEST, each)) : rows(items, width, depths)
}

/** @param {Item[]} items */
const left = (items) => (items[0]?.place.parent ? MARGIN.cut : 0)

/**
 * Place each depth in a column; a key is in the middle of its descendants, if they are few.
 * @param {Item[]} items
 * @param {number} width
 * @param {number} w of a box
 * @returns {Layout}
 */
export function columns(items, width, w) {
  const boxes = items.map((item) => ({ item, x: left(items) + item.depth * (w + GAP), y: 0, w }))
  /** @type {Map<Item, {first: number, last: number}>} */
  const spans = new Map()
  let [row, top] = [0, 0]
  // From the last to the first, because the descendants of a key come before it.
  for (const box of [...boxes].reverse()) {
    const { item } = box
    const span = spans.get(item)
    box.y = !span ? row-- * ROW : span.last - span.first > TALL ? span.first : (span.first + span.last) / 2
    top = Math.min(top, box.y)
    if (item.parent) spans.set(item.parent, { first: box.y, last: spans.get(item.parent)?.last ?? box.y })
    else row -= BETWEEN_ROOTS
  }
  for (const box of boxes) box.y += MARGIN.top - top
  const height = items.length ? MARGIN.top - top + HEIGHT + 2 : 0
  return { boxes, width, height, trunk: (parent) => parent.x + w + GAP / 2 }
}

/**
 * Place each item in a row, indented by its depth.
 * @param {Item[]} items
 * @param {number} width
 * @param {number} depths
 * @returns {Layout}
 */
export function rows(items, width, depths) {
  const step = Math.min(INDENT, Math.max(0, width - MARGIN.right - left(items) - NARROWEST) / depths)
  const boxes = items.map((item, index) => {
    const x = left(items) + item.depth * step
    return { item, x, y: MARGIN.top + index * ROW, w: width - MARGIN.right - x }
  })
  return {
    boxes,
    width,
    height: MARGIN.top + items.length * ROW - ROW + HEIGHT + 2,
    trunk: (parent) => parent.x + step / 2,
  }
}

/**
 * Return the boxes to draw: visible boxes, boxes near them, and the focused box.
 * @param {Layout} layout
 * @param {Pick<Drawing, 'seen' | 'active'>} drawing
 */
export function near({ boxes }, { seen, active }) {
  if (!seen || boxes.length <= MOST) return boxes.slice(0, MOST)
  const middle = (seen.top + seen.bottom - HEIGHT) / 2
  const around = boxes.filter(
    ({ y, item }) => (y + HEIGHT > seen.top - AHEAD && y < seen.bottom + AHEAD) || item.id === active,
  )
  if (around.length <= MOST) return around
  const distance = (/** @type {Box} */ box) => (box.item.id === active ? 0 : Math.abs(box.y - middle))
  const nearest = new Set([...around].sort((a, b) => distance(a) - distance(b)).slice(0, MOST))
  return around.filter((box) => nearest.has(box))
}

/**
 * Return the picture.
 * @param {Layout} layout
 * @param {Drawing} drawing
 * @returns {SVGSVGElement}
 */
export function tree(layout, drawing) {
  const drawn = near(layout, drawing)
  const isOperated = drawing.active !== undefined
  const hatching = isOperated ? 'hatching' : 'hatching-looked-at'
  return one(
    html` <svg
      class="picture tree"
      width=${layout.width}
      height=${layout.height}
      viewBox=${`0 0 ${layout.width} ${layout.height}`}
      role=${isOperated ? 'tree' : 'img'}
      aria-label=${drawing.name}
    >
      <defs>
        <pattern id=${hatching} width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
          <rect class="ground" width="8" height="8"></rect>
          <path class="line" d="M1 0v8"></path>
        </pattern>
      </defs>
      ${edges(layout, drawing, drawn)} ${drawn.map((box) => node(box, drawing, hatching))}
    </svg>`,
  )
}

/**
 * Return the lines: between keys that stay, between keys that would be revoked, and at the cut.
 * @param {Layout} layout
 * @param {Drawing} drawing
 * @param {Box[]} drawn
 */
function edges({ boxes, trunk }, { dark, cut: top }, drawn) {
  const places = new Map(boxes.map((box) => [box.item, box]))
  /** @type {Map<string, {from: Box, x: number, isDark: boolean, ys: number[]}>} */
  const trunks = new Map()
  const twigs = { plain: '', dark: '' }
  const isDrawn = new Set(drawn)
  for (const box of boxes) {
    const from = box.item.parent && places.get(box.item.parent)
    if (!from) continue
    const { members, place } = box.item
    const isDark = members ? members.some((each) => dark.has(each)) : place !== top && dark.has(place)
    const key = `${from.item.id} ${isDark}`
    const line = trunks.get(key) ?? { from, x: trunk(from), isDark, ys: [] }
    trunks.set(key, line)
    line.ys.push(middleOf(box))
    if (isDrawn.has(box)) twigs[isDark ? 'dark' : 'plain'] += `M${line.x} ${middleOf(box)}H${box.x}`
  }
  for (const { from, x, isDark, ys } of trunks.values()) {
    const isBeside = x > from.x + from.w
    const begin = isBeside ? middleOf(from) : from.y + HEIGHT
    const [first, last] = [Math.min(begin, ys[0]), Math.max(begin, ys[ys.length - 1])]
    twigs[isDark ? 'dark' : 'plain'] +=
      `${isBeside && isDrawn.has(from) ? `M${from.x + from.w} ${begin}H${x}` : ''}M${x} ${first}V${last}`
  }
  const mark = drawn.find(({ item }) => top && dark.has(top) && item.place === top && !item.members)
  return svg`<g aria-hidden="true">
    <path class="edge" d=${twigs.plain}/>
    <path class="edge dark" d=${twigs.dark}/>
    ${mark && top?.parent && svg`<path class="cut" d=${cutAt(mark)}/>`}
  </g>`
}

/** Return two slanting strokes through the line that leads to a box. @param {Box} box */
function cutAt(box) {
  const y = middleOf(box)
  const line = box.item.parent ? '' : `M${box.x - 22} ${y}H${box.x}`
  return `${line}M${box.x - 16} ${y + 9}l5-18M${box.x - 9} ${y + 9}l5-18`
}

/** Return the circle at the right end of a box, with a plus or a minus. @param {number} w @param {boolean} isOpen */
const foldAt = (w, isOpen) => `M${w - 8} 22a8 8 0 1 0 16 0a8 8 0 1 0-16 0M${w - 4} 22h8${isOpen ? '' : `M${w} 18v8`}`

/** @param {{y: number}} box */
const middleOf = ({ y }) => y + HEIGHT / 2

/**
 * @param {Box} box
 * @param {Drawing} drawing
 * @param {string} hatching
 */
function node({ item, x, y, w }, drawing, hatching) {
  const { state, name, note } = words(item, drawing.now)
  const isDark = (item.members ?? [item.place]).some((each) => drawing.dark.has(each))
  const isChosen = !item.members && item.place === drawing.chosen
  const isEnded = !item.members && item.place.key.status === 'revoked'
  const looks = [isDark && 'dark', isEnded && 'ended', isChosen && 'chosen', item.members && 'many']
  const classes = present(['node', state, ...looks]).join(' ')
  const edge = (/** @type {number} */ by) =>
    `M${by + 1} ${4 - by}q0-4 5-4H${w + by - 6}a6 6 0 0 1 6 6V${HEIGHT - by - 5}q0 4-4 5`
  // A card for each superseded version, three at most.
  const behind = [4, 8, 12]
    .slice(0, item.members ? 0 : item.place.older.length)
    .map(edge)
    .join('')
  const amount = number(warrantCount(item) ?? 0)
  const room = amount === '0' ? 0 : measure(amount) + 8
  const isOperated = drawing.active !== undefined
  // Attributes for the keyboard and a screen reader.
  const attr = (/** @type {unknown} */ value) => (isOperated && value !== null ? String(value) : null)
  return svg`
    <g class=${classes} transform=${`translate(${x} ${y})`} role=${attr('treeitem')} data-id=${attr(item.id)}
      tabindex=${attr(item.id === drawing.active ? 0 : -1)} aria-label=${attr(label(item, drawing))}
      aria-level=${attr(item.depth + 1)} aria-posinset=${attr(item.position)} aria-setsize=${attr(item.size)}
      aria-selected=${attr(isChosen)} aria-expanded=${attr(item.open)}>
      ${behind && svg`<path class="behind" d=${behind}/>`}
      <rect class="box" width=${w} height=${HEIGHT} rx="6" fill=${isDark ? `url(#${hatching})` : null}></rect>
      <rect class="strip" y="6" width="5" height=${HEIGHT - 12} rx="1.5"></rect>
      ${shape(state, 10, 5)}
      <text class="name" aria-hidden="true" x="30" y="18">${cut(name, w - 30 - 14 - room, NAME)}</text>
      ${room > 0 && svg`<text class="soft" aria-hidden="true" x=${w - 14} y="18" text-anchor="end">${amount}</text>`}
      <text class="soft" aria-hidden="true" x="12" y="36">${cut(note, w - 12 - 14)}</text>
      ${isOperated && item.open !== null && svg`<path class="fold" d=${foldAt(w, item.open)}/>`}
    </g>`
}

/**
 * Return the text of a box.
 * @param {Item} item
 * @param {number} now
 */
function words(item, now) {
  if (item.members) {
    const { state, words: name, exceptions } = summary(item.members, now)
    return { state, name, note: exceptions || 'all active' }
  }
  const { key } = item.place
  const { state, word } = keyState(item.place, now)
  const version = key.version ? ` · v${key.version}` : ''
  return { state, name: key.name, note: `${key.type} · ${word}${version}` }
}
