/** A tree for mouse and keyboard. The document contains only items near the view. */

import { html, one, put } from '../html.js'

/** @typedef {import('../signing_keys.js').Item} Item */
/** @typedef {{top: number, bottom: number}} Seen pixels from the top of the picture */

/**
 * @typedef {object} Owner
 * @property {() => Item[]} items visible items in reading order
 * @property {(width: number, active: string | null, seen: Seen) => Element} draw the picture; its items have `data-id`
 * @property {(item: Item) => void} choose
 * @property {(item: Item, open: boolean) => void} fold
 * @property {() => {top: number, bottom: number}} free the uncovered part of the window
 */

const FORGET_TYPED = 800
/** Pixels of scrolling within the area that was drawn ahead. */
const REDRAW = 200
/** Pixels at the right of an item that open it. */
const MARK = 26

export class Tree {
  /**
   * @param {Owner} owner
   * @param {AbortSignal} signal
   */
  constructor(owner, signal) {
    this.owner = owner
    this.element = one(
      html`<figure
        class="grown"
        @keydown=${(/** @type {KeyboardEvent} */ event) => this.press(event)}
        @click=${(/** @type {MouseEvent} */ event) => this.click(event)}
        @focusin=${(/** @type {Event} */ { target }) => {
          // A screen reader may focus any item.
          this.active = /** @type {Element} */ (target).getAttribute('data-id') ?? this.active
        }}
        @pointerdown=${() => void (this.isHeld = true)}
      ></figure>`,
    )
    /** Item with the keyboard focus. @type {string | null} */
    this.active = null
    this.typed = ''
    this.forgetting = 0
    this.drawnAt = 0
    this.width = 0
    /** Whether a pointer is down. A redraw of its item would suppress the click. */
    this.isHeld = false
    this.isDue = false
    const observer = new ResizeObserver(() => this.element.clientWidth !== this.width && this.redraw())
    observer.observe(this.element)
    signal.addEventListener('abort', () => observer.disconnect())
    const options = { passive: true, signal }
    const release = () => {
      this.isHeld = false
      // Draw after a deferred redraw, once the click has been handled.
      setTimeout(() => this.isDue && this.redraw())
    }
    for (const name of ['pointerup', 'pointercancel']) addEventListener(name, release, options)
    addEventListener('scroll', () => Math.abs(this.seen().top - this.drawnAt) > REDRAW && this.redraw(), options)
  }

  /** Draw the visible items now, or after a click. The focus remains if its item is still visible. */
  redraw() {
    this.isDue = this.isHeld
    if (this.isHeld) return
    this.width = this.element.clientWidth
    if (!this.width) return
    const items = this.owner.items()
    if (!items.some(({ id }) => id === this.active)) this.active = items[0]?.id ?? null
    const isFocused = this.element.contains(document.activeElement)
    const seen = this.seen()
    this.drawnAt = seen.top
    put(this.element, this.owner.draw(this.width, this.active, seen))
    if (isFocused) this.node()?.focus({ preventScroll: true })
  }

  /** @returns {Seen} */
  seen() {
    const { top } = this.element.getBoundingClientRect()
    return { top: -top, bottom: innerHeight - top }
  }

  /** Return the element of the focused item. @returns {SVGGElement | null} */
  node() {
    return this.active === null ? null : this.element.querySelector(`[data-id="${CSS.escape(this.active)}"]`)
  }

  /**
   * Focus an item, and scroll until it is visible.
   * @param {Item | undefined} item
   * @param {{focus?: boolean}} [options]
   */
  go(item, { focus = true } = {}) {
    if (!item) return
    this.active = item.id
    this.redraw()
    const node = this.node()
    if (!node) return
    if (focus) node.focus({ preventScroll: true })
    const [place, free] = [node.getBoundingClientRect(), this.owner.free()]
    if (place.top < free.top) scrollBy(0, place.top - free.top)
    else if (place.bottom > free.bottom) scrollBy(0, Math.min(place.bottom - free.bottom, place.top - free.top))
  }

  /** @param {MouseEvent} event */
  click(event) {
    const node = /** @type {Element} */ (event.target).closest('[data-id]')
    const item = node && this.owner.items().find(({ id }) => id === node.getAttribute('data-id'))
    if (!node || !item) return
    this.active = item.id
    if (item.members || (item.open !== null && event.clientX > node.getBoundingClientRect().right - MARK))
      this.fold(item, !item.open)
    else this.owner.choose(item)
  }

  /** @param {KeyboardEvent} event */
  press(event) {
    const { key } = event
    const items = this.owner.items()
    const index = items.findIndex(({ id }) => id === this.active)
    const item = items[index]
    if (!item || event.ctrlKey || event.metaKey || event.altKey) return
    if (key === 'ArrowDown') this.go(items[index + 1])
    else if (key === 'ArrowUp') this.go(items[index - 1])
    else if (key === 'Home') this.go(items[0])
    else if (key === 'End') this.go(items.at(-1))
    else if (key === 'ArrowRight') item.open === false ? this.fold(item, true) : item.open && this.go(items[index + 1])
    else if (key === 'ArrowLeft') item.open ? this.fold(item, false) : this.go(item.parent ?? undefined)
    else if (key === 'Enter' || (key === ' ' && !this.typed))
      item.members ? this.fold(item, true) : this.owner.choose(item)
    else if ([...key].length === 1) this.type(key, items, index)
    else return
    event.preventDefault()
  }

  /**
   * Open or close an item. Opened notaries replace their group.
   * @param {Item} item
   * @param {boolean} open
   */
  fold(item, open) {
    this.owner.fold(item, open)
    if (item.members) this.active = item.members[0].key.id
    this.redraw()
    this.go(this.owner.items().find(({ id }) => id === this.active))
  }

  /**
   * Go to the next item with a name that begins with the typed letters.
   * @param {string} letter
   * @param {Item[]} items
   * @param {number} index
   */
  type(letter, items, index) {
    this.typed += letter.toLowerCase()
    clearTimeout(this.forgetting)
    this.forgetting = setTimeout(() => {
      this.typed = ''
    }, FORGET_TYPED)
    // The first letter goes to another item. With more letters the current item may still match.
    const from = index + (this.typed.length === 1 ? 1 : 0)
    const around = [...items.slice(from), ...items.slice(0, from)]
    this.go(around.find(({ place, members }) => !members && place.key.name.toLowerCase().startsWith(this.typed)))
  }
}
