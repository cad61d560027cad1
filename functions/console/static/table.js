/**
 * The one table: sorted, filtered and grouped, of which the rows in view are in the document. What a
 * person made of it is in the address of the page.
 */

import { count, number } from './format.js'
import { html, one, put, svg } from './html.js'
import { aged, follow, read } from './live.js'
import { written } from './parts/csv.js'
import { problem, ready, skeleton } from './parts/panel.js'
import { download } from './parts/progress.js'
import { icon } from './parts/tag.js'
import { repeat } from './vendor/lit-html/directives/repeat.js'

/**
 * @typedef {object} Column
 * @property {string} id as in a filter, `id:value`, and in the address
 * @property {string} title
 * @property {string} [width] as in `grid-template-columns`; a column without is for filters and files
 * @property {number} [from] pixels of the table from which it is shown
 * @property {'number'} [kind]
 * @property {boolean} [lead] whether it is the name of a row, which is never cut at its end; otherwise the first
 * @property {(row: any) => string | number | null} [value] to sort by; otherwise its text
 * @property {(row: any) => string} [text] to filter, and for files; otherwise its value
 * @property {(row: any) => unknown} [cell] what is shown; otherwise its text
 * @property {(row: any, wanted: string) => boolean} [is] whether a filter finds a row; otherwise if its text has it
 */
/** @typedef {{title: string, run: () => unknown, danger?: boolean}} Action */
/** @typedef {{title: string, state: import('./parts/tag.js').State, note?: string}} Group */
/** @typedef {{title: string, query: string, state?: import('./parts/tag.js').State}} Facet */
/**
 * @typedef {object} Spec
 * @property {string} id the page in the address, and the name of files
 * @property {string} noun of many rows
 * @property {Column[]} columns
 * @property {string} sort a column, with `-` before it from the most to the least
 * @property {string} [mark] the column that a narrow table has at the end of a row
 * @property {(row: any) => unknown} [sub] the second line of a row in a narrow table
 * @property {(row: any) => string} [key]
 * @property {Group[]} [groups] in their order
 * @property {(row: any) => number} [group] which of them a row is in
 * @property {(rows: any[]) => Facet[]} [facets] filters at hand
 * @property {{title: string, run: (rows: any[]) => unknown}[]} [bulk] what is done with all that are chosen
 * @property {(row: any) => (Action | false | null)[]} [actions]
 * @property {(row: any) => string} [open] the address of a row
 * @property {unknown} empty in the place of rows
 */
/** @typedef {{group: Group, size: number, row?: undefined} | {row: any, group?: undefined}} Line */

/** Pixels of a row, of one with two lines, and of a group. */
const [ROW, TWO_LINES, GROUP] = [40, 60, 36]
/** Pixels below which a row has two lines; rows beside those in view. */
const [NARROW, BESIDE] = [760, 6]
/** Letters at the end of a name that are never cut. */
const ENDING = 10
const KEYS = [
  ['/', 'filter'], ['j', 'next row'], ['k', 'row before'], ['Enter', 'open'], ['x', 'choose'],
  ['Esc', 'leave the filter'], ['?', 'these keys'],
]
const ARROWS = { none: '', ascending: ' ↑', descending: ' ↓' }
const SILENCED = 'rescind.keys'
const order = new Intl.Collator('en', { numeric: true })

const GLYPHS = {
  search: 'M7 2.5a4.5 4.5 0 1 0 .01 0M10.5 10.5 14 14',
  view: 'M2.5 3h11v10h-11zM6.2 3v10M9.8 3v10',
  download: 'M8 2v8M4.5 7 8 10.5 11.5 7M3 13.5h10',
  more: 'M3 8h.01M8 8h.01M13 8h.01',
}
const glyph = (/** @type {keyof typeof GLYPHS} */ name) =>
  html`<svg class="glyph" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">${svg`<path
    d=${GLYPHS[name]}/>`}</svg>`

/** Not before the first table is needed. */
const sheet = one(html`<link rel="stylesheet">`)
sheet.setAttribute('href', new URL('table.css', import.meta.url).href)
document.head.append(sheet)
await new Promise((resolve) => ['load', 'error'].forEach((end) => sheet.addEventListener(end, resolve)))

/** A name of which the end stays whole: by it people tell names apart. @param {string} name */
export function whole(name) {
  const letters = [...name]
  const at = letters.length > 2 * ENDING ? letters.length - ENDING : letters.length
  const [start, end] = [letters.slice(0, at).join(''), letters.slice(at).join('')]
  return html`<bdi class="ended" dir="auto" title=${name}><span>${start}</span><span>${end}</span></bdi>`
}

/** The text of a cell. @param {Column} column @param {any} row */
const textOf = ({ text, value }, row) => (text ? text(row) : String(value?.(row) ?? ''))

export class Table {
  /** @type {any[] | null} */
  #rows = null
  /** @type {import('./live.js').Entry | null} */
  #entry = null
  /** The rows that the filter finds. @type {any[]} */
  #found = []
  /** Those in their groups. @type {Line[]} */
  #lines = []
  #arranged = { rows: /** @type {any[] | null} */ (null), by: '' }
  /** @type {Map<string, any>} */
  #chosen = new Map()
  /** @type {WeakMap<any, string>} */
  #texts = new WeakMap()
  #query = ''
  #sort = ''
  #flat = false
  /** @type {Set<string>} */
  #hidden = new Set()
  #width = 0

  /**
   * @param {Spec} spec
   * @param {{route: {query: URLSearchParams}, signal: AbortSignal}} context
   */
  constructor(spec, { route: { query }, signal }) {
    this.spec = spec
    this.#query = query.get('q') ?? ''
    this.#sort = query.get('sort') ?? spec.sort
    this.#hidden = new Set(query.get('hide')?.split(',') ?? [])
    this.#flat = query.has('flat')
    this.query = [...query].filter(([name]) => !['q', 'sort', 'hide', 'flat'].includes(name))
    this.signal = signal
    this.element = /** @type {HTMLElement} */ (
      one(html`<section class="sheet" aria-label=${spec.noun}><div class="padded">${skeleton(6)}</div></section>`)
    )
    const seen = new ResizeObserver(() => this.#paint())
    seen.observe(this.element)
    signal.addEventListener('abort', () => seen.disconnect())
    document.addEventListener('keydown', (event) => this.#press(event), { signal })
  }

  /**
   * Show these rows, which are those of an answer of the service.
   * @param {import('./live.js').Entry} entry
   * @param {any[] | null} [rows]
   */
  draw(entry, rows = entry.data) {
    this.#entry = entry
    this.#rows = rows
    this.#paint()
  }

  /** Draw again what is in view. */
  #paint() {
    this.#width = this.element.clientWidth
    if (!this.#width || !this.#entry) return
    this.#arrange()
    const focus = /** @type {HTMLElement | null} */ (this.element.querySelector(':focus'))
    put(this.element, this.#tools(), this.#body(), this.#foot())
    this.#measure()
    // A row that was moved has lost the focus; one that is out of view gives it to the table.
    const isLost = focus && document.activeElement !== focus
    if (isLost) (focus.isConnected ? focus : this.#scroll)?.focus({ preventScroll: true })
  }

  get #lead() {
    return /** @type {Column} */ (this.spec.columns.find(({ lead }) => lead) ?? this.spec.columns[0])
  }

  get #isNarrow() {
    return this.#width < NARROW
  }

  get #scroll() {
    return /** @type {HTMLElement | null} */ (this.element.querySelector('.scroll'))
  }

  /** The columns for which there is room. */
  get #shown() {
    const fits = (/** @type {Column} */ { id, from = 0 }) => from <= this.#width && !this.#hidden.has(id)
    return this.spec.columns.filter((column) => column.width && (column === this.#lead || fits(column)))
  }

  /** Filter, sort and group, if rows or wishes are others than before. */
  #arrange() {
    const by = [this.#query, this.#sort, this.#flat].join(' ')
    if (this.#arranged.rows === this.#rows && this.#arranged.by === by) return
    this.#arranged = { rows: this.#rows, by }
    const rows = this.#rows ?? []
    const chosen = this.#chosen.size ? rows.filter((row) => this.#chosen.has(this.#key(row))) : []
    this.#chosen = new Map(chosen.map((row) => [this.#key(row), row]))
    const found = this.#found = this.#sorted(rows.filter(this.#finder(this.#query)))
    const { groups, group } = this.spec
    if (!groups || !group || this.#flat) {
      this.#lines = found.map((row) => ({ row }))
      return
    }
    const parted = groups.map(() => /** @type {any[]} */ ([]))
    for (const row of found) parted[group(row)]?.push(row)
    this.#lines = groups.flatMap((each, index) => {
      const own = parted[index] ?? []
      return own.length ? [{ group: each, size: own.length }, ...own.map((row) => ({ row }))] : []
    })
  }

  /** @param {any[]} rows */
  #sorted(rows) {
    const [isDown, id] = this.#sort.startsWith('-') ? [true, this.#sort.slice(1)] : [false, this.#sort]
    const column = this.spec.columns.find((each) => each.id === id) ?? this.#lead
    const worth = (/** @type {Column} */ of) =>
      new Map(rows.map((row) => [row, of.value ? of.value(row) : textOf(of, row)]))
    const [first, second] = [worth(column), worth(this.#lead)]
    return [...rows].sort((left, right) => {
      const compared = compare(first.get(left) ?? null, first.get(right) ?? null)
      return (isDown ? -compared : compared) || compare(second.get(left) ?? null, second.get(right) ?? null)
    })
  }

  /**
   * What tells whether a query finds a row: it has each word, and `column:value` in that column.
   * @param {string} query
   * @returns {(row: any) => boolean}
   */
  #finder(query) {
    const tests = query.toLowerCase().split(/\s+/).filter(Boolean).map((word) => {
      const [id, ...rest] = word.split(':')
      const wanted = rest.join(':')
      const column = rest.length && this.spec.columns.find((each) => each.id === id)
      if (!column) return (/** @type {any} */ row) => this.#text(row).includes(word)
      const is = column.is ?? ((row) => textOf(column, row).toLowerCase().includes(wanted))
      return (/** @type {any} */ row) => is(row, wanted)
    })
    return (row) => tests.every((test) => test(row))
  }

  /** @param {any} row */
  #text(row) {
    const words = () => [this.#key(row), ...this.spec.columns.map((column) => textOf(column, row))]
    const known = this.#texts.get(row) ?? words().join('\n').toLowerCase()
    this.#texts.set(row, known)
    return known
  }

  /** @param {any} row */
  #key(row) {
    return this.spec.key ? this.spec.key(row) : row.id
  }

  /** The name of a row, in words. @param {any} row */
  #name(row) {
    return textOf(this.#lead, row)
  }

  /** Filter, which is kept in the address. @param {string} query */
  #ask(query) {
    this.#query = query
    const field = /** @type {HTMLInputElement | null} */ (this.element.querySelector('[type=search]'))
    if (field && field.value !== query) field.value = query
    if (this.#scroll) this.#scroll.scrollTop = 0
    this.#keep()
  }

  #keep() {
    const kept = new URLSearchParams(this.query)
    if (this.#query.trim()) kept.set('q', this.#query.trim())
    if (this.#sort !== this.spec.sort) kept.set('sort', this.#sort)
    if (this.#hidden.size) kept.set('hide', [...this.#hidden].join())
    if (this.#flat) kept.set('flat', '1')
    history.replaceState(null, '', `#/${this.spec.id}${kept.size ? `?${kept}` : ''}`)
    this.#paint()
  }

  #tools() {
    const words = `Filter ${this.spec.noun}`
    const typed = (/** @type {InputEvent} */ { target }) => this.#ask(/** @type {HTMLInputElement} */ (target).value)
    return html`<div class=${this.#isNarrow ? 'tools narrow' : 'tools'}>
      <label class="search">${glyph('search')}<input type="search" aria-label=${words} placeholder=${words}
        value=${this.#query} autocomplete="off" spellcheck="false"
        @input=${typed}><kbd aria-hidden="true">/</kbd></label>
      <div class="facets">${this.#chosen.size ? this.#bulk() : this.#facets()}</div>
      <button type="button" class="flat" aria-label="Columns and filters" title="Columns and filters"
        @click=${(/** @type {MouseEvent} */ event) => this.#choose(event)}>${glyph('view')}</button>
      <button type="button" class="flat" aria-label="Keep as CSV" title="Keep as CSV"
        @click=${() => this.#export()}>${glyph('download')}</button>
    </div>`
  }

  #facets() {
    return (this.spec.facets?.(this.#rows ?? []) ?? []).map(({ title, query, state }) => {
      const isOn = this.#query.split(/\s+/).includes(query)
      const size = this.#size(query)
      const words = this.#query.split(/\s+/).filter((word) => word !== query)
      const turn = () => this.#ask((isOn ? words : [...words, query]).join(' ').trim())
      return (size > 0 || isOn) && html`<button type="button" class="facet" aria-pressed=${String(isOn)}
        @click=${turn}>${state && icon(state)}${title} <b>${number(size)}</b></button>`
    })
  }

  #sizes = { rows: /** @type {any[] | null} */ (null), of: /** @type {Map<string, number>} */ (new Map()) }

  /** How many rows a query finds. @param {string} query */
  #size(query) {
    if (this.#sizes.rows !== this.#rows) this.#sizes = { rows: this.#rows, of: new Map() }
    const size = this.#sizes.of.get(query) ?? (this.#rows ?? []).filter(this.#finder(query)).length
    this.#sizes.of.set(query, size)
    return size
  }

  #bulk() {
    const rows = [...this.#chosen.values()]
    const clear = () => {
      this.#chosen.clear()
      this.#paint()
    }
    const button = (/** @type {string} */ title, /** @type {() => unknown} */ run) =>
      html`<button type="button" class="facet" @click=${run}>${title}</button>`
    return html`<span role="status">${number(rows.length)} chosen</span>
      ${(this.spec.bulk ?? []).map(({ title, run }) => button(title, () => run(rows)))}${button('Choose none', clear)}`
  }

  #body() {
    const entry = /** @type {import('./live.js').Entry} */ (this.#entry)
    const failed = entry.error && problem(entry.error, `The ${this.spec.noun} could not be shown.`)
    if (!this.#rows) return html`<div class="padded">${failed ?? skeleton(6)}</div>`
    const old = aged(entry)
    if (!this.#rows.length) return html`<div class="padded nothing">${this.spec.empty}</div>`
    const [from, to] = this.#inView()
    const lines = this.#lines.slice(from, to)
    const key = (/** @type {Line} */ line) => line.group ? line.group.title : this.#key(line.row)
    const draw = (/** @type {Line} */ line, /** @type {number} */ index) =>
      line.group ? this.#groupLine(line.group, line.size, from + index) : this.#row(line.row, from + index)
    return html`${old && html`<p class="stale padded soft">${old}</p>`}
      <div class=${this.#isNarrow ? 'scroll two' : 'scroll'} role="table" tabindex="0" aria-label=${this.spec.noun}
        aria-rowcount=${this.#lines.length + 1} @scroll=${{ handleEvent: () => this.#paint(), passive: true }}>
        <div role="rowgroup" class="heads"><div role="row" class="row" aria-rowindex="1">${this.#heads()}</div></div>
        <div role="rowgroup" class="lines">${repeat(lines, key, draw)}</div>
        ${!this.#lines.length && html`<div class="padded nothing"><p>Nothing matches the filter.</p>
          <button type="button" @click=${() => this.#ask('')}>Show all ${number(this.#rows.length)}</button></div>`}
      </div>`
  }

  #heads() {
    if (this.#isNarrow) return html`<div role="columnheader">${this.#lead.title}</div>`
    const found = this.#found
    const all = found.length > 0 && found.every((row) => this.#chosen.has(this.#key(row)))
    const toggle = () => {
      this.#chosen = all ? new Map() : new Map(found.map((row) => [this.#key(row), row]))
      this.#paint()
    }
    return html`<div role="columnheader" class="pick"><input type="checkbox"
      aria-label=${`Choose all ${this.spec.noun} shown`} .checked=${all} @change=${toggle}></div>
      ${this.#shown.map(({ id, title, kind }) => {
        const sorted = this.#sort === id ? 'ascending' : this.#sort === `-${id}` ? 'descending' : 'none'
        const turn = () => {
          const isDown = sorted === 'none' ? kind === 'number' : sorted === 'ascending'
          this.#sort = isDown ? `-${id}` : id
          this.#keep()
        }
        return html`<div role="columnheader" class=${kind ?? null} aria-sort=${sorted}><button type="button"
          class="sorter" @click=${turn}>${title}<span aria-hidden="true">${ARROWS[sorted]}</span></button></div>`
      })}
      <div role="columnheader"><span class="unseen">Actions</span></div>`
  }

  /**
   * @param {Group} group
   * @param {number} size
   * @param {number} index
   */
  #groupLine({ title, state, note }, size, index) {
    const more = !this.#isNarrow && note && html`<small class="soft">${note}</small>`
    return html`<div role="row" class="group" aria-rowindex=${index + 2}>
      <div role="cell">${icon(state)}<b>${title}</b> <span class="soft">${number(size)}</span>${more}</div></div>`
  }

  /**
   * @param {any} row
   * @param {number} index
   */
  #row(row, index) {
    const { mark, sub, actions } = this.spec
    const picked = this.#chosen.has(this.#key(row))
    const shown = (/** @type {Column} */ column) => (column.cell ? column.cell(row) : textOf(column, row))
    // Where it is narrow, the page of a row has its actions.
    const more = actions && !(this.#isNarrow && this.spec.open) && html`<button type="button" class="flat"
        aria-label=${`Actions of ${this.#name(row)}`} aria-haspopup="menu"
        @click=${(/** @type {MouseEvent} */ event) => this.#act(event, row)}>${glyph('more')}</button>`
    const name = this.#named(row, shown(this.#lead))
    if (this.#isNarrow) {
      const at = this.spec.columns.find(({ id }) => id === mark)
      return html`<div role="row" class="row" aria-rowindex=${index + 2}>
        <div role="cell" class="two-lines">${name}<div class="sub soft">${sub?.(row)}</div></div>
        <div role="cell" class="marked">${at && shown(at)}</div><div role="cell">${more}</div></div>`
    }
    return html`<div role="row" class=${picked ? 'row picked' : 'row'} aria-rowindex=${index + 2}>
      <div role="cell" class="pick"><input type="checkbox" aria-label=${`Choose ${this.#name(row)}`} .checked=${picked}
        @change=${() => this.#pick(row)}></div>
      ${this.#shown.map((column) =>
        html`<div role="cell" class=${column.kind ?? null}>${column === this.#lead ? name : shown(column)}</div>`)}
      <div role="cell" class="more">${more}</div></div>`
  }

  /**
   * @param {any} row
   * @param {unknown} content
   */
  #named(row, content) {
    return this.spec.open
      ? html`<a class="lead" aria-label=${this.#name(row)} href=${this.spec.open(row)}>${content}</a>`
      : html`<span class="lead" tabindex="-1">${content}</span>`
  }

  /** @param {any} row */
  #pick(row) {
    const key = this.#key(row)
    if (!this.#chosen.delete(key)) this.#chosen.set(key, row)
    this.#paint()
  }

  #foot() {
    const [all, found] = [this.#rows?.length ?? 0, this.#found.length]
    const size = found === all ? count(all, 'row') : `${number(found)} of ${number(all)}`
    const hint = (/** @type {string} */ key, /** @type {string} */ words) =>
      html`<span><kbd>${key}</kbd> ${words}</span>`
    return this.#rows && html`<div class="sheet-foot soft"><span role="status">${size}</span>
      ${!localStorage.getItem(SILENCED) && html`<span class="hints">
        ${hint('j', '')}${hint('k', 'move')}${hint('x', 'choose')}${this.spec.open && hint('↵', 'open')}</span>`}
      <button type="button" class="flat" aria-label="Keys" @click=${keys}><kbd>?</kbd></button></div>`
  }

  /** Pixels of a line. @param {Line} line */
  #height(line) {
    return line.group ? GROUP : this.#isNarrow ? TWO_LINES : ROW
  }

  /** The first line in view and the one after the last, with some beside. */
  #inView() {
    const scroll = this.#scroll
    const [top, height] = [scroll?.scrollTop ?? 0, scroll?.clientHeight || innerHeight]
    let [from, at] = [0, 0]
    while (from < this.#lines.length && at + this.#height(/** @type {Line} */ (this.#lines[from])) <= top)
      at += this.#height(/** @type {Line} */ (this.#lines[from++]))
    let to = from
    while (to < this.#lines.length && at < top + height) at += this.#height(/** @type {Line} */ (this.#lines[to++]))
    return [Math.max(0, from - BESIDE), Math.min(this.#lines.length, to + BESIDE)]
  }

  /** What a style sheet cannot know: the place of the lines that are not drawn, and the columns. */
  #measure() {
    const scroll = this.#scroll
    const lines = /** @type {HTMLElement | null} */ (scroll?.querySelector('.lines') ?? null)
    if (!scroll || !lines) return
    const sum = (/** @type {Line[]} */ of) => of.reduce((all, line) => all + this.#height(line), 0)
    const [from, to] = this.#inView()
    lines.style.paddingTop = `${sum(this.#lines.slice(0, from))}px`
    lines.style.paddingBottom = `${sum(this.#lines.slice(to))}px`
    const widths = this.#shown.map(({ width }) => width).join(' ')
    scroll.style.setProperty('--columns', this.#isNarrow ? 'minmax(0, 1fr) auto auto' : `44px ${widths} 48px`)
  }

  /** @param {MouseEvent} event @param {any} row */
  #act(event, row) {
    const actions = (this.spec.actions?.(row) ?? []).filter((each) => each !== false && each !== null)
    const item = (/** @type {Action} */ { title, danger }, /** @type {() => void} */ act) =>
      html`<button type="button" role="menuitem" class=${danger ? 'item revoked' : 'item'}
        @click=${act}>${title}</button>`
    popup(event, this.signal, (close) => actions.map((each) => item(each, () => (close(), void each.run()))), 'menu')
  }

  /** Which columns are shown, how they are sorted, and the filters that were saved. @param {MouseEvent} event */
  #choose(event) {
    const kept = saved(this.spec.id)
    const show = (/** @type {string} */ id) => {
      if (!this.#hidden.delete(id)) this.#hidden.add(id)
      this.#keep()
    }
    const sort = (/** @type {Event} */ { target }) => {
      this.#sort = /** @type {HTMLSelectElement} */ (target).value
      this.#keep()
    }
    const flat = () => {
      this.#flat = !this.#flat
      this.#keep()
    }
    popup(event, this.signal, (close) => {
      const keep = (/** @type {SubmitEvent} */ submitted) => {
        submitted.preventDefault()
        const name = String(new FormData(/** @type {HTMLFormElement} */ (submitted.target)).get('name'))
        localStorage.setItem(filters(this.spec.id), JSON.stringify({ ...kept, [name]: location.hash }))
        close()
      }
      const forget = (/** @type {string} */ name) => {
        const { [name]: _, ...rest } = kept
        localStorage.setItem(filters(this.spec.id), JSON.stringify(rest))
        close()
      }
      const seen = this.spec.columns.filter(({ width }) => width)
      const sorts = seen.flatMap(({ id, title }) => [[id, `${title}, upwards`], [`-${id}`, `${title}, downwards`]])
      return html`<form class="view" @submit=${keep}>
        <fieldset><legend>Columns</legend>
          ${seen.filter((each) => each !== this.#lead).map(({ id, title }) =>
            tick(title, !this.#hidden.has(id), () => show(id)))}
          ${this.spec.groups && tick('Groups', !this.#flat, flat)}</fieldset>
        <label class="field"><span>Order</span><select @change=${sort}>
          ${sorts.map(([id, title]) => html`<option value=${id} ?selected=${id === this.#sort}>${title}</option>`)}
        </select></label>
        ${Object.keys(kept).length > 0 && html`<fieldset><legend>Saved filters</legend>
          ${Object.entries(kept).map(([name, address]) => html`<span class="saved">
            <a href=${address} @click=${close}>${name}</a>
            <button type="button" class="flat" aria-label=${`Forget ${name}`}
              @click=${() => forget(name)}>×</button></span>`)}
        </fieldset>`}
        <label class="field"><span>Save this filter as</span><input name="name" required maxlength="60"></label>
        <button>Save</button>
      </form>`
    })
  }

  /** Let the person keep what is chosen, or else what the filter finds. */
  #export() {
    const { columns, id } = this.spec
    const rows = this.#chosen.size ? [...this.#chosen.values()] : this.#found
    const texts = rows.map((row) => [this.#key(row), ...columns.map((column) => textOf(column, row))])
    download(`${id}.csv`, 'text/csv', [written([['id', ...columns.map(({ title }) => title)], ...texts])])
  }

  /** @param {KeyboardEvent} event */
  #press(event) {
    const target = /** @type {HTMLElement} */ (event.target)
    if (event.key === 'Escape' && target.matches('[type=search]')) return this.#scroll?.focus()
    const isField = target.matches('input:not([type=checkbox]), textarea, select')
    if (isField || event.ctrlKey || event.metaKey || event.altKey || localStorage.getItem(SILENCED)) return
    if (document.querySelector('dialog[open], [popover]')) return
    const filter = () => this.element.querySelector('input')?.focus()
    const [next, before, pick] = [() => this.#move(1), () => this.#move(-1), () => this.#pickFocused()]
    const act = { '/': filter, j: next, k: before, x: pick, '?': keys }[event.key]
    if (!act) return
    event.preventDefault()
    act()
  }

  /** The index of the line that has the focus, or -1. */
  get #at() {
    const index = document.activeElement?.closest('.sheet [aria-rowindex]')?.getAttribute('aria-rowindex')
    return index ? Number(index) - 2 : -1
  }

  /** Move the focus by so many rows. @param {1 | -1} by */
  #move(by) {
    let index = this.#at + by
    while (this.#lines[index]?.group) index += by
    const scroll = this.#scroll
    if (!this.#lines[index] || !scroll) return
    const top = this.#lines.slice(0, index).reduce((sum, line) => sum + this.#height(line), 0)
    const heads = this.#isNarrow ? 0 : ROW
    if (top < scroll.scrollTop) scroll.scrollTop = top
    else if (top + heads + TWO_LINES > scroll.scrollTop + scroll.clientHeight)
      scroll.scrollTop = top + heads + TWO_LINES - scroll.clientHeight
    this.#paint()
    const lead = /** @type {HTMLElement | null} */ (this.element.querySelector(`[aria-rowindex="${index + 2}"] .lead`))
    lead?.focus({ preventScroll: true })
  }

  #pickFocused() {
    const line = this.#lines[this.#at]
    if (line?.row) this.#pick(line.row)
  }
}

/**
 * Show a page that is one table of a list of the API.
 * @param {HTMLElement} main
 * @param {{route: {query: URLSearchParams}, signal: AbortSignal}} context
 * @param {Spec} spec
 * @param {{path: string, list: string, seconds: number}} source
 * @param {() => unknown} head
 */
export function listPage(main, context, spec, { path, list, seconds }, head) {
  const table = new Table(spec, context)
  follow(() => {
    const known = read(path, seconds, list)
    put(main, head(), table.element)
    table.draw(known)
    if (known.at || known.error) ready()
  }, context.signal)
}

/**
 * Nothing comes last when upwards.
 * @param {string | number | null} left
 * @param {string | number | null} right
 */
function compare(left, right) {
  if (left === right) return 0
  if (left === null || right === null) return left === null ? 1 : -1
  if (typeof left === 'number' && typeof right === 'number') return left - right
  return order.compare(String(left), String(right))
}

const filters = (/** @type {string} */ id) => `rescind.filters.${id}`

/** The saved filters of a table: addresses by name. @param {string} id @returns {Record<string, string>} */
const saved = (id) => JSON.parse(localStorage.getItem(filters(id)) ?? '{}')

/**
 * @param {string} words
 * @param {boolean} isOn
 * @param {(event: Event) => void} change
 */
const tick = (words, isOn, change) =>
  html`<label class="tick"><input type="checkbox" .checked=${isOn} @change=${change}> <span>${words}</span></label>`

/**
 * Show something at a button until the person turns to something else.
 * @param {MouseEvent} event
 * @param {AbortSignal} signal
 * @param {(close: () => void) => unknown} content
 * @param {string | null} [role]
 */
function popup({ currentTarget }, signal, content, role = null) {
  const button = /** @type {HTMLElement} */ (currentTarget)
  const place = /** @type {HTMLElement} */ (one(html`<div popover class="popup" role=${role}></div>`))
  const close = () => place.hidePopover()
  put(place, content(close))
  document.body.append(place)
  place.showPopover()
  const { right, bottom } = button.getBoundingClientRect()
  place.style.left = `${Math.max(8, right - place.offsetWidth)}px`
  place.style.top = `${Math.max(8, Math.min(bottom + 4, innerHeight - place.offsetHeight - 8))}px`
  const items = /** @type {HTMLElement[]} */ ([...place.querySelectorAll('button, input, select')])
  items[0]?.focus()
  place.addEventListener('keydown', ({ key }) => {
    const by = key === 'ArrowDown' ? 1 : key === 'ArrowUp' ? -1 : 0
    const at = items.indexOf(/** @type {HTMLElement} */ (document.activeElement))
    if (by && role) items[(at + by + items.length) % items.length]?.focus()
  })
  place.addEventListener('toggle', () => place.matches(':popover-open') || place.remove())
  signal.addEventListener('abort', () => place.remove(), { once: true })
}

/** The keys that move in a table, which a person can switch off. */
function keys() {
  const toggle = (/** @type {Event} */ { target }) =>
    /** @type {HTMLInputElement} */ (target).checked
      ? localStorage.removeItem(SILENCED)
      : localStorage.setItem(SILENCED, 'off')
  const dialog = /** @type {HTMLDialogElement} */ (
    one(html`
    <dialog aria-labelledby="keys-title" closedby="any" @close=${() => dialog.remove()}><form method="dialog">
      <h2 id="keys-title">Keys</h2>
      <dl class="facts">${KEYS.map(([key, words]) => html`<div><dt><kbd>${key}</kbd></dt><dd>${words}</dd></div>`)}</dl>
      ${tick('Single letters are keys, outside of fields', !localStorage.getItem(SILENCED), toggle)}
      <div class="actions"><button>Close</button></div>
    </form></dialog>`)
  )
  document.body.append(dialog)
  dialog.showModal()
}
