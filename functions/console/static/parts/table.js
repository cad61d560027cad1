/** Tables for people, and long lists of which only the rows in view are in the document. */

import { count, number } from '../format.js'
import { html, one, put } from '../html.js'

/** @typedef {{heading: string, cell: (row: any) => unknown, kind?: 'number' | 'action'}} Column */

/**
 * A table. Where it is narrow each row is a card, whose cells say their heading.
 * @param {string} caption read by screen readers
 * @param {Column[]} columns
 * @param {any[]} rows
 */
export const table = (caption, columns, rows) => frame(caption, columns, rows.map((row) => html`<tr>${cells(columns, row)}</tr>`))

/**
 * @param {string} caption
 * @param {Column[]} columns
 * @param {unknown} [rows]
 */
const frame = (caption, columns, rows = null) => html`
  <div class="tabled"><table>
    <caption class="unseen">${caption}</caption>
    <thead><tr>${columns.map(({ heading, kind }) => html`<th scope="col" class=${kind ?? null}>${heading || html`<span class="unseen">Actions</span>`}</th>`)}</tr></thead>
    <tbody>${rows}</tbody>
  </table></div>`

/**
 * @param {Column[]} columns
 * @param {any} row
 */
const cells = (columns, row) => columns.map(({ heading, cell, kind }) => one(html`<td class=${kind ?? null} data-heading=${heading}><div>${cell(row)}</div></td>`))

/**
 * A list of very many rows of one height, of which those in view are drawn.
 * @param {string} label
 * @param {any[]} rows
 * @param {(row: any, index: number) => unknown} draw
 * @param {{height?: number, visible?: number, headings?: unknown}} [options] pixels of a row, rows in view
 * @returns {HTMLElement}
 */
export function longList(label, rows, draw, { height = 44, visible = 12, headings = null } = {}) {
  const inner = /** @type {HTMLElement} */ (one(html`<div class="rows"></div>`))
  // The row of headings counts, too.
  const above = headings ? 1 : 0
  const element = /** @type {HTMLElement} */ (one(html`<div class="long" role="table" tabindex="0" aria-label=${`${label}, ${count(rows.length, 'row')}`} aria-rowcount=${above + rows.length}>${headings}${inner}</div>`))
  element.style.maxHeight = `${visible * height}px`
  inner.style.height = `${rows.length * height}px`
  const paint = () => {
    const first = Math.max(0, Math.floor(element.scrollTop / height) - 20)
    const shown = rows.slice(first, first + visible + 40)
    put(inner, shown.map((row, offset) => {
      const line = /** @type {HTMLElement} */ (one(html`<div class="row" role="row" aria-rowindex=${above + first + offset + 1}>${draw(row, first + offset)}</div>`))
      line.style.top = `${(first + offset) * height}px`
      line.style.height = `${height}px`
      return line
    }))
  }
  element.addEventListener('scroll', paint, { passive: true })
  paint()
  return element
}

/** Pixels below which a table has no room for its columns, as in console.css. */
const NARROW = 720

/**
 * A table of very many rows, of which those in view are drawn. Where it is narrow a row is higher and
 * its cells stand below each other, two in a line.
 * @param {string} label
 * @param {Column[]} columns
 * @param {any[]} rows
 * @param {string} widths of the columns, as in `grid-template-columns`
 * @returns {HTMLElement}
 */
export function longTable(label, columns, rows, widths) {
  const place = /** @type {HTMLElement} */ (one(html`<div class="tabled"></div>`))
  const grid = (/** @type {string} */ role, /** @type {(column: Column) => unknown} */ content) => columns.map((column) => html`<div role=${role} class=${column.kind ?? null}>${content(column)}</div>`)
  const headings = () => html`<div class="row headings" role="row" aria-rowindex="1">${grid('columnheader', ({ heading }) => heading)}</div>`
  /** @type {boolean | null} */
  let drawn = null
  const draw = () => {
    const isNarrow = place.clientWidth < NARROW
    if (isNarrow === drawn || !place.clientWidth) return
    drawn = isNarrow
    const size = isNarrow ? { height: 92, visible: 6 } : { height: 44, visible: 14 }
    const element = longList(label, rows, (row) => grid('cell', ({ cell }) => cell(row)), { ...size, headings: headings() })
    element.classList.add('columns')
    element.style.setProperty('--widths', widths)
    put(place, element)
  }
  new ResizeObserver(draw).observe(place)
  return place
}

/**
 * "Showing 200 of 1,034", and a button that loads more.
 * @param {number} shown
 * @param {number | null} total
 * @param {(() => unknown) | null} more
 */
export const footer = (shown, total, more) => html`
  <p class="soft foot">${total !== null && total > shown ? `Showing ${number(shown)} of ${number(total)}.` : count(shown, 'row')} ${more && html`<button type="button" @click=${more}>Load the next 100</button>`}</p>`

/**
 * What to do when there is nothing yet.
 * @param {unknown} text
 * @param {unknown} [action]
 */
export const empty = (text, action = null) => html`<div class="empty"><p>${text}</p>${action}</div>`

/**
 * Facts: names and values.
 * @param {[string, unknown][]} entries
 */
export const facts = (entries) => html`<dl class="facts">${entries.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`
