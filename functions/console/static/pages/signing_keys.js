/** The page of signing keys: the key hierarchy as a tree or a table. */

import { now } from '../api.js'
import { count, number } from '../format.js'
import { html, one, put } from '../html.js'
import { aged, subscribe, memoizeLast, readCached } from '../store.js'
import { field } from '../components/dialog.js'
import { announce, banner, button, heading, problem, ready, skeleton } from '../components/panel.js'
import { change, create } from '../components/signing_key_dialogs.js'
import { icon, tag } from '../components/tag.js'
import { Tree } from '../components/tree.js'
import { layout, tree } from '../charts/signing_keys.js'
import { hasScope } from '../session.js'
import {
  find,
  forest,
  isActive,
  isNamed,
  mayHaveChildren,
  cascadeOf,
  reveal,
  visibleItems,
  keyState,
} from '../signing_keys.js'
import { Table } from '../table.js'
import { ChosenKey } from './signing_key.js'

/** @typedef {import('../signing_keys.js').Item} Item */
/** @typedef {import('../signing_keys.js').Place} Place */

export const title = 'Signing keys'

/** For more keys, warrant counts are not read, because each takes a query of the store. */
const NUMBERED = 500
/** Height of the bar at the foot of a phone. */
const BAR = 64

/** @type {import('../app.js').Page['show']} */
export const show = async (main, context) => {
  const { parts, query } = context.route
  return query.has('flat') ? showFlat(main, context) : void new Keys(main, parts[0], context.signal)
}

/** Return the links to the views as a tree and as a table. @param {boolean} isFlat */
const views = (isFlat) =>
  html`<div class="actions">
    <a class="button" href="#/keys" aria-current=${isFlat ? null : 'true'}>Tree</a>
    <a class="button" href="#/keys?flat=1" aria-current=${isFlat ? 'true' : null}>Table</a>
  </div>`

/**
 * Reads all keys, with warrant counts if they are few, and builds their forest.
 *
 * The forest is the same object until the data changes.
 */
class Known {
  forest = forest([])
  isMany = false
  /** Why the warrant counts could not be read. @type {import('../api.js').ApiError | null} */
  fault = null
  #planted = memoizeLast(forest)

  read() {
    const plain = readCached('/v1/keys?include=version', 30, 'keys')
    this.isMany = plain.data?.length > NUMBERED
    const counted = plain.at && !this.isMany ? readCached('/v1/keys?include=version,warrant_count', 60, 'keys') : plain
    this.fault = counted.error
    const entry = counted.at ? counted : plain
    if (entry.data) this.forest = this.#planted(entry.data)
    return entry
  }
}

/** Show the keys as a table. @type {import('../app.js').Page['show']} */
const showFlat = async (main, context) => {
  const known = new Known()
  const rows = memoizeLast((/** @type {import('../signing_keys.js').Forest} */ { places }) => [...places.values()])
  const make = async (/** @type {Place | null} */ parent) => {
    const key = await create(known.forest, parent)
    if (key) announce(`Signing key ${key.name} created.`)
  }
  const alter = async (/** @type {Place} */ place, /** @type {'rotate' | 'suspend' | 'enable'} */ action) => {
    const done = await change(place, action)
    if (done) announce(done)
  }
  const table = new Table(
    {
      ...flat,
      actions: (place) => {
        const { id, status } = place.key
        const isOpen = mayHaveChildren(place) && isActive(place, now())
        const toTree = () => void (location.hash = `#/keys/${id}`)
        return hasScope()
          ? [
              isOpen && { title: 'New child key…', run: () => make(place) },
              status === 'active' && { title: 'Rotate…', run: () => alter(place, 'rotate') },
              status === 'active' && { title: 'Suspend…', run: () => alter(place, 'suspend') },
              status === 'suspended' && { title: 'Enable…', run: () => alter(place, 'enable') },
              status !== 'revoked' && { title: 'Revoke in tree view…', danger: true, run: toTree },
            ]
          : []
      },
    },
    context,
  )
  subscribe(() => {
    const entry = known.read()
    put(
      main,
      heading(title, 'A key can sign only while it and all its ancestors are active.', [
        views(true),
        hasScope() && button('New signing key…', () => make(null)),
      ]),
      table.element,
    )
    table.draw(entry, entry.data && rows(known.forest))
    if (entry.at || entry.error) ready()
  }, context.signal)
}

/** @type {import('../table.js').Spec} */
const flat = {
  id: 'keys',
  noun: 'signing keys',
  sort: 'name',
  mark: 'state',
  key: ({ key }) => key.id,
  open: ({ key }) => `#/keys/${key.id}`,
  columns: [
    { id: 'name', title: 'Name', width: 'minmax(180px, 2fr)', kind: 'name', value: ({ key }) => key.name },
    {
      id: 'state',
      title: 'State',
      width: '136px',
      text: (place) => keyState(place, now()).word,
      cell: (place) => {
        const { state, word } = keyState(place, now())
        return tag(state, word)
      },
    },
    { id: 'type', title: 'Type', width: '88px', value: ({ key }) => key.type },
    {
      id: 'parent',
      title: 'Parent',
      width: 'minmax(140px, 1fr)',
      from: 820,
      value: ({ parent }) => parent?.key.name ?? '',
      cell: ({ parent }) =>
        parent
          ? html`<bdi dir="auto" title=${parent.key.name}>${parent.key.name}</bdi>`
          : html`<span class="soft">–</span>`,
    },
    {
      id: 'versions',
      title: 'Versions',
      width: '92px',
      from: 960,
      kind: 'number',
      value: ({ key, older }) => key.version ?? older.length + 1,
    },
    {
      id: 'warrants',
      title: 'Warrants',
      width: '92px',
      from: 860,
      kind: 'number',
      value: ({ key }) => key.warrant_count ?? null,
      text: ({ key }) => (key.warrant_count === undefined ? '' : number(key.warrant_count)),
    },
    { id: 'expires', title: 'Expires', width: '116px', from: 1040, kind: 'time', value: ({ key }) => key.expires_at },
    { id: 'created', title: 'Created', width: '116px', kind: 'time', value: ({ key }) => key.created_at },
    { id: 'public', title: 'Public key', text: ({ key }) => key.public_key },
  ],
  sub: ({ key, parent }) => html`${key.type}${parent && html` · parent <bdi>${parent.key.name}</bdi>`}`,
  facets: () => [
    { title: 'Suspended', query: 'state:suspended', state: 'suspended' },
    { title: 'Cannot sign', query: 'state:"cannot sign"', state: 'blocked' },
    { title: 'Revoked', query: 'state:revoked', state: 'revoked' },
    { title: 'Expired', query: 'state:expired', state: 'expired' },
    { title: 'Root keys', query: 'type:root' },
    { title: 'Issuer keys', query: 'type:issuer' },
    { title: 'Notary keys', query: 'type:notary' },
  ],
  empty: html`<h2>No signing keys yet</h2>
    <p>Create a root key first, then issuer and notary keys below it.</p>
    <pre>rescind signing-keys create root "Head office"</pre>`,
}

class Keys {
  /**
   * @param {HTMLElement} main
   * @param {string | undefined} chosenId the identifier of a key
   * @param {AbortSignal} signal
   */
  constructor(main, chosenId, signal) {
    this.main = main
    this.signal = signal
    this.chosenId = chosenId
    /** Whether to scroll to the requested key, and to focus it, after it is read. */
    this.goal = { isOpen: chosenId !== undefined, focus: false }
    this.known = new Known()
    this.forest = this.known.forest
    /** @type {import('../signing_keys.js').View} */
    this.view = { folded: new Set(), whole: new Set(), found: '' }
    /** @type {Item[]} */
    this.items = []
    /** @type {Place | null} */
    this.chosen = null
    this.placed = memoizeLast(layout)
    this.isDarkShown = false
    this.message = one(html`<div class="body"></div>`)
    this.matches = one(html`<p class="soft" role="status"></p>`)
    this.details = new ChosenKey(this)
    this.tree = new Tree(
      {
        items: () => this.items,
        choose: ({ place }) => this.choose(place),
        fold: (item, open) => this.fold(item, open),
        draw: (width, active, seen) =>
          tree(this.placed(this.items, width), {
            name: 'Signing keys',
            now: now(),
            dark: this.isDarkShown && this.chosen ? cascadeOf(this.chosen) : new Set(),
            cut: this.isDarkShown ? this.chosen : null,
            chosen: this.chosen,
            active,
            seen,
          }),
        free: () => this.free(),
      },
      signal,
    )
    subscribe(() => this.draw(), signal)
  }

  draw() {
    const entry = this.known.read()
    const { forest } = this.known
    const isNew = forest !== this.forest
    if (isNew) this.take(forest)
    const { places, roots } = forest
    const text = places.size
      ? `${count(places.size, 'key')}, of which ${count(roots.length, 'root key')}. ` +
        'A key can sign only while it and all its ancestors are active.'
      : null
    const make = hasScope() && button('New signing key…', () => this.make(this.chosen))
    put(
      this.main,
      heading(title, text, [views(false), make]),
      this.message,
      places.size > 0 && this.details.element,
      html`<section class="panel" aria-label="Key hierarchy">${this.hierarchy(entry)}</section>`,
    )
    this.details.drawHistory()
    if (isNew && this.goal.isOpen && this.chosen) {
      this.goToChosen(this.goal)
      this.goal.isOpen = false
    } else if (isNew) this.tree.redraw()
    if (entry.at || entry.error) ready()
  }

  /** Return the tree, or a message in its place. @param {import('../store.js').Entry} entry */
  hierarchy(entry) {
    const { forest, isMany, fault } = this.known
    if (!entry.data) return entry.error ? problem(entry.error, 'The signing keys could not be loaded.') : skeleton(6)
    if (!forest.places.size)
      return html`<div class="empty">
        <p>No signing keys yet. Create a root key first, then issuer and notary keys below it.</p>
        ${hasScope() && button('Create root key…', () => this.make(null), 'main')}
      </div>`
    const old = aged(entry)
    const note = isMany
      ? `Warrant counts are shown for up to ${number(NUMBERED)} keys. Select a key to see its count.`
      : fault
        ? 'The warrant counts could not be loaded.'
        : 'The number at the right of a key is its warrant count.'
    return [
      old && html`<p class="stale soft">${old}</p>`,
      this.filter,
      this.tree.element,
      legend(),
      html`<p class="legend soft">${note}</p>`,
    ]
  }

  /** Show a new forest. @param {import('../signing_keys.js').Forest} trees */
  take(trees) {
    this.forest = trees
    this.chosen = find(trees, this.chosenId)
    if (this.chosen && this.goal.isOpen) reveal(this.chosen, this.view)
    if (this.chosenId && !this.chosen)
      put(this.message, banner('info', html`Signing key <code>${this.chosenId}</code> not found.`))
    this.refresh()
    this.details.take(this.chosen)
  }

  /** Select a key after a change, as soon as it is read. @param {string} [id] */
  async reread(id = this.chosenId) {
    this.chosenId = id
    // The pressed button is drawn again, so the changed key gets the focus.
    this.goal = { isOpen: true, focus: true }
    if (id) history.replaceState(null, '', `#/keys/${id}`)
  }

  /** Compute the visible items. */
  refresh() {
    this.items = visibleItems(this.forest, this.view)
  }

  /** Field that finds keys by name. */
  get filter() {
    const look = (/** @type {Event} */ event) => {
      this.view.found = /** @type {HTMLInputElement} */ (event.target).value
      this.refresh()
      const matches = [...this.forest.places.values()].filter((each) => isNamed(each, this.view.found)).length
      put(this.matches, this.view.found.trim() && (matches ? `${count(matches, 'key')} found` : 'No matching keys.'))
      this.tree.redraw()
    }
    const input = html`<input type="search" autocomplete="off" spellcheck="false" @input=${look} />`
    return html`<div class="filters found">${field('Find by name', input)}${this.matches}</div>`
  }

  /** @param {Place | null} place */
  choose(place) {
    this.chosen = place
    this.chosenId = place?.key.id
    // Replace the address without a new page: the tree remains, and a reload selects the key again.
    history.replaceState(null, '', place ? `#/keys/${place.key.id}` : '#/keys')
    put(this.message)
    this.details.show(place)
    this.goToChosen()
    if (!place) this.tree.node()?.focus({ preventScroll: true })
  }

  /** Show a message, and scroll to it. @param {unknown[]} content */
  showMessage(...content) {
    put(this.message, ...content)
    this.message.scrollIntoView({ block: 'start' })
  }

  /** Scroll to the selected key, unless it is visible. @param {{focus?: boolean}} [options] */
  goToChosen({ focus = false } = {}) {
    if (!this.chosen) return this.tree.redraw()
    const item = this.items.find(({ place, members }) => place === this.chosen && !members)
    this.tree.go(item, { focus })
  }

  /** @param {Item} item @param {boolean} open */
  fold(item, open) {
    const { id } = item.place.key
    if (item.members) this.view.whole.add(id)
    else if (open) this.view.folded.delete(id)
    else {
      this.view.folded.add(id)
      this.view.whole.delete(id)
    }
    this.refresh()
  }

  /** @param {boolean} isShown */
  showDark(isShown) {
    this.isDarkShown = isShown
    this.tree.redraw()
  }

  /** @param {Place | null} parent */
  async make(parent) {
    // The forest may have changed since the button was drawn.
    const key = await create(this.forest, find(this.forest, parent?.key.id))
    if (!key) return
    announce(`Signing key ${key.name} created.`)
    await this.reread(key.id)
  }

  /** Return the part of the window outside the selected key and the bar of a phone. */
  free() {
    const { top, bottom } = this.details.element.getBoundingClientRect()
    if (getComputedStyle(this.details.element).position === 'fixed') return { top: 8, bottom: top - 8 }
    return { top: (top <= 0 ? Math.max(0, bottom) : 0) + 12, bottom: innerHeight - (innerWidth < 720 ? BAR : 0) - 12 }
  }
}

const legend = () =>
  html` <p class="legend soft">
    <span>${icon('force')} active</span>
    <span>${icon('suspended')} suspended</span>
    <span>${icon('revoked')} revoked</span>
    <span>${icon('expired')} expired</span>
    <span>${icon('blocked')} an ancestor is not active</span>
    <span
      ><svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
        <path class="behind" d="M2 6h9v8H2zM5 6V4h8v8h-2M7 4V2h7v8h-1"></path>
      </svg>
      superseded versions, cannot sign</span
    >
  </p>`
