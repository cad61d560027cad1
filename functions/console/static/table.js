/**
 * The table of all pages, with sorting, filters and groups.
 *
 * Only visible rows are in the document. The state of the table is in the address of the page.
 */

import { count, number, present } from './format.js'
import { html, one, put } from './html.js'
import { aged, subscribe, memoizeLast, readCached, scheduleRender } from './store.js'
import { formatCsv } from './components/csv.js'
import { choice, exactInput, field, submitted, tick } from './components/dialog.js'
import { isHeard, isSilent } from './components/keyboard.js'
import { button, loadSheet, problem, ready, skeleton, when } from './components/panel.js'
import { download } from './components/progress.js'
import { glyph, icon, stateOf, tag } from './components/tag.js'
import { repeat } from './vendor/lit-html/directives/repeat.js'

/**
 * @typedef {object} Column
 * @property {string} id in a filter, `id:value`, and in the address
 * @property {string} title
 * @property {string} [width] as in `grid-template-columns`; a column without a width is only for filters and files
 * @property {number} [from] minimum width of the table in pixels
 * @property {boolean} [lead] whether it is the name of a row, which is never cut at its end; default: the first column
 * @property {string} [of] member of a row; default: the id
 * @property {'number' | keyof typeof CELLS} [kind] format of the value
 * @property {(row: any) => string | number | null} [value] to sort by; default: the member, or its text
 * @property {(row: any) => string} [text] for filters and files; default: the sort value
 * @property {(row: any) => unknown} [cell] displayed content; default: the value in its format, or its text
 * @property {(row: any, wanted: string) => boolean} [is] whether a filter matches a row; default: its text contains the
 *   filter
 */
/** @typedef {{title: string, run: () => unknown, danger?: boolean}} Action */
/** @typedef {{title: string, state: import('./components/tag.js').State, note?: string}} Group */
/** @typedef {{id: string, title: string, type?: string, options?: string[], hint?: string}} Field */
/** @typedef {{id: string | null, value: string, text: string}} Term part of a filter: `column:value`, or a word */
/** @typedef {{title: string, query: string, state?: import('./components/tag.js').State}} Facet */
/**
 * @typedef {object} Spec
 * @property {string} id page in the address, and name of files
 * @property {string} [part] prefix of its parameters in the address, if the page has another table
 * @property {string} noun plural, of the rows
 * @property {Column[]} columns
 * @property {string} sort a column, with `-` before it for descending order
 * @property {string} [mark] the column at the end of a row in a narrow table
 * @property {(row: any) => unknown} [sub] the second line of a row in a narrow table
 * @property {(row: any) => string} [key]
 * @property {Group[]} [groups] in their order
 * @property {(row: any) => number} [group] index of the row's group
 * @property {(rows: any[]) => Facet[]} [facets] quick filters
 * @property {{title: string, run: (rows: any[]) => unknown}[]} [bulk] actions on all selected rows
 * @property {{title: string, run: () => unknown}[]} [files] files that the service creates from all rows
 * @property {(row: any) => (Action | false | null | undefined | '')[]} [actions]
 * @property {(row: any) => string} [open] the address of a row
 * @property {(row: any) => unknown} [show] shows a row without an address
 * @property {Field[]} [fields] filters of the service; without them, the page filters
 * @property {(rows: any[]) => unknown} [begin] called with the rows before they are drawn
 * @property {boolean} [isLow] whether it leaves room for content below it
 * @property {unknown} empty in place of rows
 */
/** @typedef {{group: Group, size: number, row?: undefined} | {row: any, group?: undefined}} Line */

/** Heights in pixels: a row, a row with two lines, a group. */
const [ROW, TWO_LINES, GROUP] = [40, 60, 36]
/** Width in pixels below which a row has two lines; number of rows drawn outside the view. */
const [NARROW, BESIDE] = [760, 6]
/** Heights in pixels: the minimum, a low table, and the space below: its foot, and the bar of a phone. */
const [LEAST, LOW, BELOW, BAR] = [300, 396, 76, 64]
/** Letters at the end of a name that are never cut. */
const ENDING = 10
/** Milliseconds after the last letter until the request. */
const TYPED = 300
const ARROWS = { none: '', ascending: '↑', descending: '↓' }
/** Whether the person permits animations. */
const STIRS = matchMedia('(prefers-reduced-motion: no-preference)')
const order = new Intl.Collator('en', { numeric: true })

const GLYPHS = {
  filter: 'M2 3.5h12M4.5 8h7M7 12.5h2',
  search: 'M7 2.5a4.5 4.5 0 1 0 .01 0M10.5 10.5 14 14',
  view: 'M2.5 3h11v10h-11zM6.2 3v10M9.8 3v10',
  download: 'M8 2v8M4.5 7 8 10.5 11.5 7M3 13.5h10',
  more: 'M3 8h.01M8 8h.01M13 8h.01',
}
/**
 * Return a button with only an icon.
 * @param {string} words
 * @param {keyof typeof GLYPHS} picture
 * @param {(event: MouseEvent) => unknown} run
 * @param {'menu'} [opens]
 */
const tool = (words, picture, run, opens) =>
  html`<button type="button" class="flat" aria-label=${words} title=${words} aria-haspopup=${opens} @click=${run}>
    ${glyph(GLYPHS[picture])}
  </button>`

/**
 * Return a checkbox that selects a row, or all.
 * @param {string} role
 * @param {string} words
 * @param {boolean} isOn
 * @param {() => void} run
 */
const picker = (role, words, isOn, run) =>
  html`<div role=${role} class="pick">
    <label><input type="checkbox" aria-label=${words} .checked=${isOn} @change=${run} /></label>
  </div>`

await loadSheet('table.css')

/** Return a name with an uncut end, because people distinguish names by it. @param {string} name */
export function whole(name) {
  const letters = [...name]
  const at = letters.length > 2 * ENDING ? letters.length - ENDING : letters.length
  const [start, end] = [letters.slice(0, at).join(''), letters.slice(at).join('')]
  return html`<bdi class="ended" dir="auto" title=${name}><span>${start}</span><span>${end}</span></bdi>`
}

/**
 * Split a filter into terms. A value in quotation marks may have spaces: `reason:"card stolen"`.
 * @param {string} query
 * @returns {Term[]}
 */
export const terms = (query) =>
  (query.match(/(?:[^\s"]|"[^"]*"?)+/g) ?? []).map((text) => {
    const [, id = null, value = ''] = /^(?:([a-z_]+):)?(.*)$/s.exec(text) ?? []
    return { id, value: value.replaceAll('"', ''), text }
  })

/**
 * Return the values of these fields in a filter, and its other words.
 * @param {string} query
 * @param {Field[]} fields
 */
export function readFilter(query, fields) {
  const isField = (/** @type {Term} */ { id }) => fields.some((field) => field.id === id)
  const { known = [], others = [] } = Object.groupBy(terms(query), (each) => (isField(each) ? 'known' : 'others'))
  /** @type {Record<string, string | undefined>} */
  const values = Object.fromEntries(known.map(({ id, value }) => [id, value]))
  return { values, words: others.map(({ text }) => text.replaceAll('"', '')) }
}

/** Format a term. @param {string} id @param {string} value */
const term = (id, value) => `${id}:${/\s/.test(value) ? `"${value.replaceAll('"', '')}"` : value}`

/** Return the sort value of a column. @param {Column} column @param {any} row */
function valueOf({ id, of, value, text }, row) {
  if (value) return value(row)
  return text && !of ? text(row) : (row[of ?? id] ?? null)
}

/** Return the text of a cell. @param {Column} column @param {any} row */
const textOf = (column, row) => (column.text ? column.text(row) : String(valueOf(column, row) ?? ''))

/** Formats of values. */
const CELLS = {
  time: (/** @type {string | null} */ value) => when(value),
  name: (/** @type {string | null} */ value) => whole(value ?? ''),
  prose: (/** @type {string} */ value) => html`<bdi dir="auto" title=${value}>${value}</bdi>`,
  code: (/** @type {string} */ value) => html`<code>${value}</code>`,
  status: (/** @type {string} */ value) => tag(stateOf(value), value),
}

/** Return the content of a cell. @param {Column} column @param {any} row */
function renderCell(column, row) {
  const { kind, cell } = column
  if (cell) return cell(row)
  const value = /** @type {any} */ (valueOf(column, row))
  return kind && kind !== 'number' ? CELLS[kind](value) : textOf(column, row)
}

export class Table {
  /** @type {any[] | null} */
  #rows = null
  /** @type {import('./store.js').Entry | null} */
  #entry = null
  /** Rows that match the filter. @type {any[]} */
  #matching = []
  /** Matching rows in their groups. @type {Line[]} */
  #lines = []
  #arranged = { rows: /** @type {any[] | null} */ (null), by: '' }
  /** @type {Map<string, any>} */
  #chosen = new Map()
  /** @type {WeakMap<any, string>} */
  #texts = new WeakMap()
  #query = ''
  /** Filter of the current request. */
  requestedFilter = ''
  #typing = 0
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
    const own = (/** @type {string} */ name) => query.get(this.#parameter(name))
    // A parameter with the name of a column filters, too.
    const given = [...query].filter(([name, value]) => value && this.#filters.includes(name))
    this.#query = [own('q'), ...given.map(([name, value]) => term(name, value))].filter(Boolean).join(' ')
    this.requestedFilter = this.#query
    this.#sort = own('sort') ?? spec.sort
    this.#hidden = new Set(own('hide')?.split(',') ?? [])
    this.#flat = own('flat') !== null
    this.signal = signal
    this.element = one(
      html`<section class=${spec.isLow ? 'sheet low' : 'sheet'} aria-label=${spec.noun}>
        <div class="padded">${skeleton(6)}</div>
      </section>`,
    )
    const seen = new ResizeObserver(() => this.#paint())
    seen.observe(this.element)
    signal.addEventListener('abort', () => seen.disconnect())
    document.addEventListener('keydown', (event) => this.#press(event), { signal })
  }

  /**
   * Show rows of a response.
   * @param {import('./store.js').Entry} entry
   * @param {any[] | null} [rows]
   */
  draw(entry, rows = entry.data) {
    const isNew = this.#rows !== null && rows !== this.#rows && STIRS.matches
    this.#entry = entry
    this.#rows = rows
    const before = isNew && this.#tops()
    this.#paint()
    if (!before) return
    // Animate the rows from their earlier positions, to show the moved rows.
    for (const [row, top] of this.#tops()) {
      const by = (before.get(row) ?? top) - top
      if (by) row.animate({ transform: [`translateY(${by}px)`, 'none'] }, { duration: 240, easing: 'ease-out' })
    }
  }

  /** Return the positions of the visible rows. */
  #tops() {
    const rows = /** @type {HTMLElement[]} */ ([...this.element.querySelectorAll('.lines .row')])
    return new Map(rows.map((row) => [row, row.getBoundingClientRect().top]))
  }

  /** Draw the visible part again. */
  #paint() {
    this.#width = this.element.clientWidth
    if (!this.#width || !this.#entry) return
    this.#arrange()
    const focus = /** @type {HTMLElement | null} */ (this.element.querySelector(':focus'))
    const isBare = this.spec.isLow && this.#rows?.length === 0 && !this.#query.trim()
    put(this.element, !isBare && this.#tools(), this.#body(), !isBare && this.#foot())
    this.#measure()
    // A moved row has lost the focus. If it is out of view, the table gets the focus.
    const isLost = focus && document.activeElement !== focus
    if (isLost) (focus.isConnected ? focus : this.#scroll)?.focus({ preventScroll: true })
  }

  /** @param {string} name */
  #parameter(name) {
    return this.spec.part ? `${this.spec.part}.${name}` : name
  }

  /** Names of columns and fields in `column:value`. */
  get #filters() {
    return [...this.spec.columns, ...(this.spec.fields ?? [])].map(({ id }) => id)
  }

  /** Whether the service filters and returns pages. */
  get #isRemote() {
    return this.spec.fields !== undefined
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

  /** Columns that fit. */
  get #shown() {
    const fits = (/** @type {Column} */ { id, from = 0 }) => from <= this.#width && !this.#hidden.has(id)
    return this.spec.columns.filter((column) => column.width && (column === this.#lead || fits(column)))
  }

  /** Filter, sort and group, if the rows or the options changed. */
  #arrange() {
    const by = [this.#isRemote || this.#query, this.#sort, this.#flat].join(' ')
    if (this.#arranged.rows === this.#rows && this.#arranged.by === by) return
    this.#arranged = { rows: this.#rows, by }
    const rows = this.#rows ?? []
    this.spec.begin?.(rows)
    const chosen = this.#chosen.size ? rows.filter((row) => this.#chosen.has(this.#key(row))) : []
    this.#chosen = new Map(chosen.map((row) => [this.#key(row), row]))
    const matching = (this.#matching = this.#sorted(this.#isRemote ? rows : rows.filter(this.#finder(this.#query))))
    const { groups, group } = this.spec
    if (!groups || !group || this.#flat) {
      this.#lines = matching.map((row) => ({ row }))
      return
    }
    const parted = Map.groupBy(matching, group)
    this.#lines = groups.flatMap((each, index) => {
      const own = parted.get(index) ?? []
      return own.length ? [{ group: each, size: own.length }, ...own.map((row) => ({ row }))] : []
    })
  }

  /** @param {any[]} rows */
  #sorted(rows) {
    const [isDown, id] = this.#sort.startsWith('-') ? [true, this.#sort.slice(1)] : [false, this.#sort]
    const column = this.spec.columns.find((each) => each.id === id) ?? this.#lead
    const worth = (/** @type {Column} */ of) => new Map(rows.map((row) => [row, valueOf(of, row)]))
    const [first, second] = [worth(column), worth(this.#lead)]
    return [...rows].sort((left, right) => {
      const compared = compare(first.get(left) ?? null, first.get(right) ?? null)
      // The service's order decides between equal rows.
      return (
        (isDown ? -compared : compared) ||
        (this.#isRemote ? 0 : compare(second.get(left) ?? null, second.get(right) ?? null))
      )
    })
  }

  /**
   * Return a predicate for a query: a row matches each word, and each `column:value` in that column.
   * @param {string} query
   * @returns {(row: any) => boolean}
   */
  #finder(query) {
    const tests = terms(query.toLowerCase()).map(({ id, value: wanted, text }) => {
      const column = this.spec.columns.find((each) => each.id === id)
      const word = text.replaceAll('"', '')
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

  /** Return the name of a row, in words. @param {any} row */
  #name(row) {
    return textOf(this.#lead, row)
  }

  /** Apply a filter, and store it in the address. @param {string} query */
  #ask(query) {
    this.#query = query
    const field = /** @type {HTMLInputElement | null} */ (this.element.querySelector('[type=search]'))
    if (field && field.value !== query) field.value = query
    if (this.#scroll) this.#scroll.scrollTop = 0
    clearTimeout(this.#typing)
    const ask = () => {
      this.requestedFilter = query
      scheduleRender()
    }
    this.#typing = setTimeout(ask, TYPED)
    this.#keep()
  }

  #keep() {
    const [, before] = location.hash.split('?')
    const own = ['q', 'sort', 'hide', 'flat'].map((name) => this.#parameter(name))
    // Initial parameters with the name of a column are now part of the filter.
    const others = [...new URLSearchParams(before)].filter(([name]) => ![...own, ...this.#filters].includes(name))
    const parameters = new URLSearchParams(others)
    const set = (/** @type {string} */ name, /** @type {string | false} */ value) =>
      value && parameters.set(this.#parameter(name), value)
    set('q', this.#query.trim())
    set('sort', this.#sort !== this.spec.sort && this.#sort)
    set('hide', [...this.#hidden].join())
    set('flat', this.#flat && '1')
    history.replaceState(null, '', `#/${this.spec.id}${parameters.size ? `?${parameters}` : ''}`)
    this.#paint()
  }

  #tools() {
    const { files, noun } = this.spec
    const words = `Filter ${noun}`
    const filter = (/** @type {InputEvent} */ { target }) => this.#ask(/** @type {HTMLInputElement} */ (target).value)
    const own = { title: 'Loaded rows as CSV', run: () => this.#export() }
    const save = (/** @type {MouseEvent} */ event) => (files ? menu(event, this.signal, [...files, own]) : own.run())
    return html`<div class=${this.#isNarrow ? 'tools narrow' : 'tools'}>
      <label class="search"
        >${glyph(GLYPHS.search)}<input
          type="search"
          aria-label=${words}
          placeholder=${words}
          value=${this.#query}
          autocomplete="off"
          spellcheck="false"
          @input=${filter}
        /><kbd aria-hidden="true">/</kbd></label
      >
      <div class="facets">${this.#chosen.size ? this.#bulk() : this.#facets()}</div>
      ${this.#isRemote && tool('Filter by', 'filter', (event) => this.#fill(event))}
      ${tool('Columns and filters', 'view', (event) => this.#choose(event))}
      ${tool('Download CSV', 'download', save, files && 'menu')}
    </div>`
  }

  #facets() {
    return (this.spec.facets?.(this.#rows ?? []) ?? []).map(({ title, query, state }) => {
      const [known, own] = [this.#query, query].map((each) => terms(each).map(({ text }) => text))
      const isOn = own.every((word) => known.includes(word))
      const size = this.#isRemote ? 0 : this.#size(query)
      const words = known.filter((word) => !own.includes(word))
      const turn = () => this.#ask((isOn ? words : [...words, query]).join(' ').trim())
      return (
        (size > 0 || isOn || this.#isRemote) &&
        html`<button type="button" class="facet" aria-pressed=${String(isOn)} @click=${turn}>
          ${state && icon(state)}${title} ${!this.#isRemote && html`<b>${number(size)}</b>`}
        </button>`
      )
    })
  }

  #sizes = memoizeLast((/** @type {any[] | null} */ _rows) => /** @type {Map<string, number>} */ (new Map()))

  /** Return the number of rows that match a query. @param {string} query */
  #size(query) {
    const known = this.#sizes(this.#rows)
    const size = known.get(query) ?? (this.#rows ?? []).filter(this.#finder(query)).length
    known.set(query, size)
    return size
  }

  #bulk() {
    const rows = [...this.#chosen.values()]
    const clear = () => {
      this.#chosen.clear()
      this.#paint()
    }
    const bulk = this.spec.bulk ?? []
    return html`<span role="status">${number(rows.length)} selected</span>
      ${bulk.map(({ title, run }) => button(title, () => run(rows), 'facet'))}${button('Clear', clear, 'facet')}`
  }

  #body() {
    const entry = /** @type {import('./store.js').Entry} */ (this.#entry)
    const failed = entry.error && problem(entry.error, `The ${this.spec.noun} could not be loaded.`)
    if (!this.#rows) return html`<div class="padded">${failed ?? skeleton(6)}</div>`
    const old = aged(entry)
    const isAll = !this.#isRemote || !this.requestedFilter.trim()
    if (!this.#rows.length && isAll && !entry.pages?.more)
      return html`<div class="padded nothing">${this.spec.empty}</div>`
    const [from, to] = this.#inView()
    const lines = this.#lines.slice(from, to)
    const key = (/** @type {Line} */ line) => (line.group ? line.group.title : this.#key(line.row))
    const draw = (/** @type {Line} */ line, /** @type {number} */ index) =>
      line.group ? this.#groupLine(line.group, line.size, from + index) : this.#row(line.row, from + index)
    const busy = entry.pages?.isBusy
    return html`${old && html`<p class="stale padded soft">${old}</p>`}
      <div
        class=${`scroll${this.#isNarrow ? ' two' : ''}${busy ? ' busy' : ''}`}
        role="table"
        tabindex="0"
        aria-label=${this.spec.noun}
        aria-busy=${String(Boolean(busy))}
        aria-rowcount=${this.#lines.length + 1}
        @scroll=${{ handleEvent: () => this.#paint(), passive: true }}
      >
        <div role="rowgroup" class="heads"><div role="row" class="row" aria-rowindex="1">${this.#heads()}</div></div>
        <div role="rowgroup" class="lines">${repeat(lines, key, draw)}</div>
      </div>
      ${
        !this.#lines.length &&
        html`<div class="padded nothing">
          <p>No ${entry.pages?.more ? 'loaded ' : ''}${this.spec.noun} match the filter.</p>
          ${button(`Show all ${this.#isRemote ? '' : number(this.#rows.length)}`, () => this.#ask(''))}
        </div>`
      }`
  }

  #heads() {
    if (this.#isNarrow) return html`<div role="columnheader">${this.#lead.title}</div>`
    const rows = this.#matching
    const all = rows.length > 0 && rows.every((row) => this.#chosen.has(this.#key(row)))
    const toggle = () => {
      this.#chosen = all ? new Map() : new Map(rows.map((row) => [this.#key(row), row]))
      this.#paint()
    }
    return html`${picker('columnheader', `Select all visible ${this.spec.noun}`, all, toggle)}
      ${this.#shown.map(({ id, title, kind }) => {
        const sorted = this.#sort === id ? 'ascending' : this.#sort === `-${id}` ? 'descending' : 'none'
        const turn = () => {
          const isDown = sorted === 'none' ? kind === 'number' : sorted === 'ascending'
          this.#sort = isDown ? `-${id}` : id
          this.#keep()
        }
        return html`<div role="columnheader" class=${kind === 'number' && kind} aria-sort=${sorted}>
          <button type="button" class="sorter" @click=${turn}>
            ${title}<span aria-hidden="true">${ARROWS[sorted]}</span>
          </button>
        </div>`
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
      <div role="cell">${icon(state)}<b>${title}</b> <span class="soft">${number(size)}</span>${more}</div>
    </div>`
  }

  /**
   * @param {any} row
   * @param {number} index
   */
  #row(row, index) {
    const { mark, sub, actions, open, show } = this.spec
    const picked = this.#chosen.has(this.#key(row))
    // In a narrow table, the page of a row has its actions.
    const more =
      actions &&
      !(this.#isNarrow && open) &&
      tool(`Actions for ${this.#name(row)}`, 'more', (event) => menu(event, this.signal, present(actions(row))), 'menu')
    const content = renderCell(this.#lead, row)
    const name = open
      ? html`<a class="lead" aria-label=${this.#name(row)} href=${open(row)}>${content}</a>`
      : show
        ? html`<button type="button" class="lead" aria-haspopup="dialog" @click=${() => show(row)}>${content}</button>`
        : html`<span class="lead" tabindex="-1">${content}</span>`
    if (this.#isNarrow) {
      const at = this.spec.columns.find(({ id }) => id === mark)
      return html`<div role="row" class="row" aria-rowindex=${index + 2}>
        <div role="cell" class="two-lines">
          ${name}
          <div class="sub soft">${sub?.(row)}</div>
        </div>
        <div role="cell" class="marked">${at && renderCell(at, row)}</div>
        <div role="cell">${more}</div>
      </div>`
    }
    return html`<div role="row" class=${picked ? 'row picked' : 'row'} aria-rowindex=${index + 2}>
      ${picker('cell', `Select ${this.#name(row)}`, picked, () => this.#pick(row))}
      ${this.#shown.map(
        (column) =>
          html`<div role="cell" class=${column.kind === 'number' && 'number'}>
            ${column === this.#lead ? name : renderCell(column, row)}
          </div>`,
      )}
      <div role="cell" class="more">${more}</div>
    </div>`
  }

  /** @param {any} row */
  #pick(row) {
    const key = this.#key(row)
    if (!this.#chosen.delete(key)) this.#chosen.set(key, row)
    this.#paint()
  }

  #foot() {
    // A page may combine several records into one row.
    const all = (this.#isRemote ? this.#entry?.data?.length : this.#rows?.length) ?? 0
    const matches = this.#isRemote ? all : this.#matching.length
    const pages = this.#entry?.pages
    const total = pages?.total ?? all
    const [more, shown] = [Boolean(pages?.more), pages ? total : all]
    const size =
      matches < shown ? `${number(matches)} of ${number(shown)}` : `${count(matches, 'row')}${more ? ', and more' : ''}`
    const hint = (/** @type {string} */ key, /** @type {string} */ words) =>
      html`<span><kbd>${key}</kbd> ${words}</span>`
    const open = (this.spec.open || this.spec.show) && hint('↵', 'open')
    return (
      this.#rows &&
      html`${pages?.fault && html`<div class="padded">${problem(pages.fault, 'More rows could not be loaded.')}</div>`}
        <div class="sheet-foot soft">
          <span role="status">${size}</span>${pages && this.#more(pages)}
          ${
            !isSilent() &&
            !this.spec.part &&
            html`<span class="hints">
              ${hint('j', '')}${hint('k', 'move')}${hint('x', 'select')}${open}${hint('?', 'all shortcuts')}</span
            >`
          }
        </div>`
    )
  }

  /** Return the buttons that load more rows. @param {import('./store.js').Pages} pages */
  #more(pages) {
    if (pages.isLoading) return html`<span>Loading …</span>${button('Stop', () => pages.stop(), 'flat')}`
    const left = pages.left(this.#entry?.data?.length ?? 0)
    const all = left === null ? 'Load all' : `Load all ${number(left)}`
    return (
      pages.more &&
      html`${button('Load more', () => pages.load(), 'flat')}
      ${(left === null || left > 100) && button(all, () => pages.loadAll(), 'flat')}
      ${this.#sort !== this.spec.sort && html`<span>Only loaded rows are sorted.</span>`}`
    )
  }

  /** Return the height of a line in pixels. @param {Line} line */
  #height(line) {
    return line.group ? GROUP : this.#isNarrow ? TWO_LINES : ROW
  }

  /** Return the first visible line and the line after the last, with a margin. */
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

  /** Set the styles that a style sheet cannot compute: the space of undrawn lines, and the columns. */
  #measure() {
    const scroll = this.#scroll
    const lines = /** @type {HTMLElement | null} */ (scroll?.querySelector('.lines') ?? null)
    if (!scroll || !lines) return
    const sum = (/** @type {Line[]} */ of) => of.reduce((all, line) => all + this.#height(line), 0)
    const [from, to] = this.#inView()
    lines.style.paddingTop = `${sum(this.#lines.slice(0, from))}px`
    lines.style.paddingBottom = `${sum(this.#lines.slice(to))}px`
    const above = scroll.getBoundingClientRect().top + scrollY
    const room = innerHeight - above - BELOW - (innerWidth < 640 ? BAR : 0)
    scroll.style.maxHeight = `${this.spec.isLow ? LOW : Math.max(LEAST, room)}px`
    const widths = this.#shown.map(({ width }) => width).join(' ')
    scroll.style.setProperty(
      '--columns',
      this.#isNarrow ? 'minmax(0, 1fr) fit-content(45%) auto' : `44px ${widths} 48px`,
    )
  }

  /** Open the menu of columns, order and saved filters. @param {MouseEvent} event */
  #choose(event) {
    const key = `rescind.filters.${this.spec.id}`
    /** Addresses by name. @type {Record<string, string>} */
    const filters = JSON.parse(localStorage.getItem(key) ?? '{}')
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
      const save = submitted((form) => {
        filters[String(form.get('name'))] = location.hash
        localStorage.setItem(key, JSON.stringify(filters))
        close()
      })
      const forget = (/** @type {string} */ name) => {
        delete filters[name]
        localStorage.setItem(key, JSON.stringify(filters))
        close()
      }
      const columns = this.spec.columns.filter(({ width }) => width)
      const box = (/** @type {string} */ words, /** @type {boolean} */ isOn, /** @type {() => void} */ change) =>
        tick(html`<input type="checkbox" .checked=${isOn} @change=${change} />`, words)
      const sorts = columns.flatMap(({ id, title }) => [
        [id, `${title}, ascending`],
        [`-${id}`, `${title}, descending`],
      ])
      return html`<form class="view" @submit=${save}>
        <fieldset>
          <legend>Columns</legend>
          ${columns
            .filter((each) => each !== this.#lead)
            .map(({ id, title }) => box(title, !this.#hidden.has(id), () => show(id)))}
          ${this.spec.groups && box('Groups', !this.#flat, flat)}
        </fieldset>
        <label class="field"
          ><span>Sort by</span
          ><select @change=${sort}>
            ${sorts.map(([id, title]) => html`<option value=${id} ?selected=${id === this.#sort}>${title}</option>`)}
          </select></label
        >
        ${
          Object.keys(filters).length > 0 &&
          html`<fieldset>
            <legend>Saved filters</legend>
            ${Object.entries(filters).map(
              ([name, address]) =>
                html`<span class="saved">
                  <a href=${address} @click=${close}>${name}</a>
                  <button type="button" class="flat" aria-label=${`Delete ${name}`} @click=${() => forget(name)}>
                    ×
                  </button></span
                >`,
            )}
          </fieldset>`
        }
        ${field('Save filter as', html`<input name="name" required maxlength="60" />`)}
        <button>Save</button>
      </form>`
    })
  }

  /** Open the filter as a form. @param {MouseEvent} event */
  #fill(event) {
    const fields = this.spec.fields ?? []
    const known = terms(this.#query)
    const free = known.filter(({ id }) => !fields.some((field) => field.id === id)).map(({ text }) => text)
    const valueOf = (/** @type {string} */ id, type = 'text') => {
      const value = known.find((each) => each.id === id)?.value ?? ''
      return type === 'datetime-local' && value.length === 10 ? `${value}T00:00` : value
    }
    popup(event, this.signal, (close) => {
      const filter = submitted((form) => {
        const given = [...form].map(([id, value]) => [id, String(value).trim()])
        this.#ask(
          [...free, ...given.filter(([, value]) => value).map(([id = '', value = '']) => term(id, value))].join(' '),
        )
        close()
      })
      return html`<form class="view" @submit=${filter}>
        ${fields.map(({ id, title, type = 'text', options, hint }) =>
          field(
            title,
            options
              ? choice(id, [
                  ['', 'all'],
                  ...options.map((each) => /** @type {const} */ ([each, each, each === valueOf(id)])),
                ])
              : exactInput(id, { type, value: valueOf(id, type), required: false }),
            hint,
          ),
        )}
        <button class="main">Filter</button>
      </form>`
    })
  }

  /** Download the selected rows, or else the matching rows. */
  #export() {
    const { columns, id } = this.spec
    const rows = this.#chosen.size ? [...this.#chosen.values()] : this.#matching
    const texts = rows.map((row) => [this.#key(row), ...columns.map((column) => textOf(column, row))])
    download(`${id}.csv`, 'text/csv', [formatCsv([['id', ...columns.map(({ title }) => title)], ...texts])])
  }

  /** @param {KeyboardEvent} event */
  #press(event) {
    const target = /** @type {HTMLElement} */ (event.target)
    if ((target.closest('.sheet') ?? document.querySelector('.sheet')) !== this.element) return
    if (event.key === 'Escape' && target.matches('[type=search]')) return this.#scroll?.focus()
    if (!isHeard(event)) return
    const filter = () => this.element.querySelector('input')?.focus()
    const pick = () => {
      const line = this.#lines[this.#at]
      if (line?.row) this.#pick(line.row)
    }
    const act = { '/': filter, j: () => this.#move(1), k: () => this.#move(-1), x: pick }[event.key]
    if (!act) return
    event.preventDefault()
    act()
  }

  /** Index of the focused line, or -1. */
  get #at() {
    const index = document.activeElement?.closest('.sheet [aria-rowindex]')?.getAttribute('aria-rowindex')
    return index ? Number(index) - 2 : -1
  }

  /** Move the focus by a number of rows. @param {1 | -1} by */
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
}

/**
 * Show a page with one table of API records.
 * @param {HTMLElement} main
 * @param {{route: {query: URLSearchParams}, signal: AbortSignal}} context
 * @param {Spec} spec
 * @param {{path: string, list: string, seconds: number}} source
 * @param {() => unknown} head
 */
export function listPage(main, context, spec, { path, list, seconds }, head) {
  const table = new Table(spec, context)
  subscribe(() => {
    const known = readCached(path, seconds, list)
    put(main, head(), table.element)
    table.draw(known)
    if (known.at || known.error) ready()
  }, context.signal)
}

/**
 * In ascending order, null is last.
 * @param {string | number | null} left
 * @param {string | number | null} right
 */
function compare(left, right) {
  if (left === right) return 0
  if (left === null || right === null) return left === null ? 1 : -1
  if (typeof left === 'number' && typeof right === 'number') return left - right
  return order.compare(String(left), String(right))
}

/**
 * @param {MouseEvent} event
 * @param {AbortSignal} signal
 * @param {Action[]} actions
 */
function menu(event, signal, actions) {
  const item = (/** @type {Action} */ { title, danger, run }, /** @type {() => void} */ close) =>
    html`<button
      type="button"
      role="menuitem"
      class=${danger ? 'item revoked' : 'item'}
      @click=${() => (close(), run())}
    >
      ${title}
    </button>`
  popup(event, signal, (close) => actions.map((each) => item(each, close)), 'menu')
}

/**
 * Show content at a button until the person moves to another element.
 * @param {MouseEvent} event
 * @param {AbortSignal} signal
 * @param {(close: () => void) => unknown} content
 * @param {string | null} [role]
 */
function popup({ currentTarget }, signal, content, role = null) {
  const button = /** @type {HTMLElement} */ (currentTarget)
  const place = one(html`<div popover class="popup" role=${role}></div>`)
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
