/** The key hierarchy: its visible part, and the impact of a revocation. */

import { count, number, present } from './format.js'

/** @typedef {import('./components/tag.js').State} State */

/**
 * A key with its superseded versions, newest first, and its child keys.
 *
 * `blocked` is the nearest ancestor that is not active and therefore prevents signatures.
 * @typedef {object} Place
 * @property {Api.ListedSigningKey} key
 * @property {Place | null} parent
 * @property {Place[]} children
 * @property {Api.SigningKey[]} older
 * @property {number} depth
 * @property {Place | null} blocked
 */

/**
 * The visible form of a place: the key, or with `members` its notary keys as a group.
 *
 * `open` is null if there are no children to show. `position` of `size` counts it among its siblings.
 * @typedef {object} Item
 * @property {string} id
 * @property {Place} place
 * @property {Place[] | null} members
 * @property {Item | null} parent
 * @property {number} depth
 * @property {boolean | null} open
 * @property {number} position
 * @property {number} size
 */

/**
 * The keys that a person opened and closed, and the searched name.
 * @typedef {{folded: Set<string>, whole: Set<string>, found: string}} View
 */

/** @typedef {{roots: Place[], places: Map<string, Place>}} Forest */

/** If a key has more notary keys, they form a group until a person opens it. */
export const NOTARIES_SHOWN = 12

/**
 * Build the forest. Times are whole seconds, so only identifiers give the order of creation.
 * @param {Api.ListedSigningKey[]} keys
 * @returns {Forest}
 */
export function forest(keys) {
  const inOrder = [...keys].sort((one, other) => (one.id < other.id ? -1 : 1))
  const current = inOrder.filter((key) => !key.successor_id)
  /** @type {Map<string, Place>} */
  const places = new Map(
    current.map((key) => [key.id, { key, parent: null, children: [], older: [], depth: 0, blocked: null }]),
  )
  for (const key of inOrder) places.get(key.successor_id ?? '')?.older.unshift(key)
  const roots = []
  for (const each of places.values()) {
    each.parent = places.get(each.key.parent_id ?? '') ?? null
    if (each.parent) each.parent.children.push(each)
    else roots.push(each)
  }
  for (const root of roots) settle(root)
  return { roots, places }
}

/** @param {Place} above */
function settle(above) {
  for (const each of above.children) {
    each.depth = above.depth + 1
    each.blocked = above.key.status === 'active' ? above.blocked : above
    settle(each)
  }
}

/**
 * Return the place of a key, or of the key with a superseded version.
 * @param {Forest} all
 * @param {string | undefined} id
 */
export function find(all, id) {
  if (!id) return null
  const ofVersion = () => [...all.places.values()].find(({ older }) => older.some((key) => key.id === id))
  return all.places.get(id) ?? ofVersion() ?? null
}

/**
 * Return the display state of a key and its word.
 *
 * A key below an inactive key cannot sign, although its status is `active`.
 * @param {Place} place
 * @param {number} now in milliseconds
 * @returns {{state: State, word: string}}
 */
export function keyState({ key, blocked }, now) {
  if (key.status === 'revoked') return { state: 'revoked', word: 'revoked' }
  if (key.status === 'suspended') return { state: 'suspended', word: 'suspended' }
  if (key.expires_at && Date.parse(key.expires_at) <= now) return { state: 'expired', word: 'expired' }
  return blocked ? { state: 'blocked', word: 'cannot sign' } : { state: 'force', word: 'active' }
}

/**
 * Return why an ancestor prevents a key from signing, if any does.
 * @param {Place} place
 */
export const blockReason = ({ blocked }) => blocked && `cannot sign: ${blocked.key.name} is ${blocked.key.status}`

/** Return whether a key can get children, and be rotated. @param {Place} place @param {number} now */
export const isActive = (place, now) => place.key.status === 'active' && keyState(place, now).state !== 'expired'

/** @param {Place} place */
export const mayHaveChildren = ({ key }) => key.type !== 'notary'

/**
 * Yield all places from here down, the highest first.
 * @param {Place} top
 * @returns {Generator<Place>}
 */
export function* below(top) {
  yield top
  for (const child of top.children) yield* below(child)
}

/**
 * Return the places that a cascade would stop, without places that are already revoked.
 * @param {Place} top
 * @returns {Set<Place>}
 */
export const cascadeOf = (top) => new Set([...below(top)].filter(({ key }) => key.status !== 'revoked'))

/**
 * Return the visible items in reading order.
 * @param {Forest} all
 * @param {View} view
 * @returns {Item[]}
 */
export function visibleItems({ roots, places }, view) {
  const wanted = view.found.trim() ? matching(places, view.found) : null
  /** @type {Item[]} */
  const items = []
  /** @param {Place[]} siblings @param {Item | null} parent */
  const add = (siblings, parent) => {
    const entries =
      parent && !wanted ? grouped(siblings, parent.place, view) : siblings.filter((each) => wanted?.has(each) ?? true)
    entries.forEach((entry, index) => {
      const item = itemOf(entry, parent, index + 1, entries.length)
      items.push(item)
      if (item.members || !item.place.children.length) return
      item.open = wanted ? item.place.children.some((child) => wanted.has(child)) || null : !view.folded.has(item.id)
      if (item.open) add(item.place.children, item)
    })
  }
  add(roots, null)
  return items
}

/**
 * @param {Place | Place[]} entry
 * @param {Item | null} parent
 * @param {number} position
 * @param {number} size
 * @returns {Item}
 */
function itemOf(entry, parent, position, size) {
  const depth = parent ? parent.depth + 1 : 0
  if (!Array.isArray(entry))
    return { id: entry.key.id, place: entry, members: null, parent, depth, open: null, position, size }
  const { place: above } = /** @type {Item} */ (parent)
  return { id: `${above.key.id} notaries`, place: above, members: entry, parent, depth, open: false, position, size }
}

/**
 * @param {Place[]} siblings
 * @param {Place} parent
 * @param {View} view
 * @returns {(Place | Place[])[]}
 */
function grouped(siblings, parent, view) {
  const notaries = siblings.filter(({ key }) => key.type === 'notary')
  if (notaries.length <= NOTARIES_SHOWN) return siblings
  const others = siblings.filter(({ key }) => key.type !== 'notary')
  return view.whole.has(parent.key.id) ? [...others, ...notaries] : [...others, notaries]
}

/**
 * Return the places that match the searched name, and their ancestors.
 * @param {Forest['places']} places
 * @param {string} text
 */
function matching(places, text) {
  /** @type {Set<Place>} */
  const matches = new Set()
  for (const each of places.values()) {
    if (!isNamed(each, text)) continue
    for (let at = /** @type {Place | null} */ (each); at && !matches.has(at); at = at.parent) matches.add(at)
  }
  return matches
}

/**
 * Return whether a key's name contains a text, ignoring case, or its identifier ends with it.
 * @param {Place} place
 * @param {string} text
 */
export function isNamed({ key }, text) {
  const wanted = text.trim().toLowerCase()
  return wanted !== '' && (key.name.toLowerCase().includes(wanted) || key.id.endsWith(wanted))
}

/**
 * Open all ancestors of a place.
 * @param {Place} place
 * @param {View} view
 */
export function reveal(place, view) {
  if (place.parent && place.key.type === 'notary') view.whole.add(place.parent.key.id)
  for (let at = place.parent; at; at = at.parent) view.folded.delete(at.key.id)
}

/**
 * Describe a group of notary keys, with the most severe state among them.
 *
 * Revoked keys do not count, because they need no attention.
 * @param {Place[]} members
 * @param {number} now in milliseconds
 * @returns {{state: State, words: string, exceptions: string}}
 */
export function summary(members, now) {
  const states = members.map((each) => keyState(each, now))
  const sizeOf = (/** @type {string} */ word) => states.filter((each) => each.word === word).length
  const exceptions = ['suspended', 'expired', 'cannot sign', 'revoked'].filter(sizeOf)
  const [first = ''] = exceptions
  const worst = first !== 'revoked' || sizeOf(first) === members.length ? first : ''
  return {
    state: states.find(({ word }) => word === worst)?.state ?? 'force',
    words: count(members.length, 'notary', 'notaries'),
    exceptions: exceptions.map((word) => `${number(sizeOf(word))} ${word}`).join(', '),
  }
}

/**
 * Return how many warrants the keys of an item signed; null if unread.
 * @param {Item} item
 * @returns {number | null}
 */
export function warrantCount({ place, members }) {
  let sum = 0
  for (const { key } of members ?? [place]) {
    if (key.warrant_count === undefined) return null
    sum += key.warrant_count
  }
  return sum
}

/**
 * Return the screen reader label of an item: "notary Card desk, active, 4 versions".
 * @param {Item} item
 * @param {{now: number, dark: Set<Place>}} context
 */
export function label(item, { now, dark }) {
  const warrants = warrantCount(item)
  const signedText = warrants && `signed ${count(warrants, 'warrant')}`
  if (item.members) {
    const { words, exceptions } = summary(item.members, now)
    const affected = item.members.filter((each) => dark.has(each)).length
    return present([words, exceptions, signedText, affected && `${number(affected)} would be revoked`]).join(', ')
  }
  const { place } = item
  const { key, older } = place
  const { word } = keyState(place, now)
  return present([
    `${key.type} ${key.name}`,
    word === 'cannot sign' ? blockReason(place) : word,
    older.length && count(older.length + 1, 'version'),
    signedText,
    dark.has(place) && 'would be revoked',
  ]).join(', ')
}
