/** States: each has a shape, a word and a colour. */

import { html, svg } from '../html.js'

/**
 * @typedef {'force' | 'wait' | 'revoked' | 'suspended' | 'superseded' | 'expired' | 'info' | 'unknown' |
 *   'blocked' | 'open' | 'closed'} State
 */

/** Paths in a square of 16 px, stroked. @type {Record<State, string>} */
const SHAPES = {
  force: 'M3 8.5 6.5 12 13 4.5',
  wait: 'M8 2a6 6 0 1 0 .01 0M8 4.5V8l2.5 1.5',
  revoked: 'M4 4l8 8M12 4l-8 8',
  suspended: 'M5.5 3v10M10.5 3v10',
  superseded: 'M12.5 8a4.5 4.5 0 1 1-1.5-3.4M12.5 2v3h-3',
  expired: 'M4 2h8M4 14h8M5 2c0 4 6 4 6 12M11 2c0 4-6 4-6 12',
  info: 'M8 7v6M8 3.5v.5',
  unknown: 'M5.5 6a2.5 2.5 0 1 1 3.6 2.2c-.8.4-1.1.9-1.1 1.8M8 12.5v.5',
  open: 'M8 2.5 14 13.5H2zM8 6.5v3.5M8 11.8v.1',
  closed: 'M3.5 7.5h9v6h-9zM5.5 7.5V5a2.5 2.5 0 0 1 5 0v2.5',
  blocked: 'M6.5 9.5l3-3M7 5l1.5-1.5a2.8 2.8 0 0 1 4 4L11 9M9 11l-1.5 1.5a2.8 2.8 0 0 1-4-4L5 7',
}

/**
 * Return the shape of a state as SVG at (x, y), 16 px wide.
 * @param {State} state
 * @param {number} [x]
 * @param {number} [y]
 */
export const shape = (state, x = 0, y = 0) =>
  svg`<path class=${`shape ${state}`} d=${SHAPES[state]} transform=${`translate(${x} ${y})`}/>`

/**
 * Return the shape of a state for use in text.
 * @param {State} state
 */
export const icon = (state) =>
  html`<svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">${shape(state)}</svg>`

/**
 * Return the icon of a button or a page.
 * @param {string} path in a square of 16 px, stroked
 */
export const glyph = (path) =>
  html`<svg class="glyph" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">${svg`<path d=${path}/>`}</svg>`

/**
 * Return a state with its word.
 * @param {State} state
 * @param {unknown} word
 */
export const tag = (state, word) => html`<span class=${`tag ${state}`}>${icon(state)}<span>${word}</span></span>`

/**
 * Return the display state of an API status.
 * @param {string} status
 * @returns {State}
 */
export function stateOf(status) {
  if (status === 'active' || status === 'enabled') return 'force'
  if (status === 'rotated' || status === 'retired') return 'superseded'
  if (status === 'pending') return 'wait'
  if (status === 'disabled') return 'suspended'
  return status === 'revoked' || status === 'suspended' || status === 'expired' ? status : 'unknown'
}
