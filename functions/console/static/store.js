/**
 * Data store shared by all pages.
 *
 * One tab per credential polls the API under a browser lock. The other tabs subscribe to it.
 */

import { answers, ApiError, call, events, get, now } from './api.js'
import { clock, hex, nameOf } from './format.js'
import { advice } from './components/panel.js'
import { hasScope, tabs, currentCaller } from './session.js'

/**
 * @typedef {object} Entry
 * @property {any} data
 * @property {number} at time when the service confirmed the data; 0 if never
 * @property {ApiError | null} error reason of the last failed renewal
 * @property {string} tag changes with the data
 * @property {string | null} [etag]
 * @property {string | null} [since] cursor for changes since the last answer
 * @property {number} [took] seconds
 * @property {any} [answer] source of the rows in pages
 * @property {Pages} [pages] if the data has pages
 */
/**
 * @typedef {object} Want
 * @property {string} path
 * @property {string | null} list member with the records, if all pages are needed
 * @property {number} seconds
 * @property {string} [tag] of the tab's copy
 */
/** @typedef {{name: string, isHeld: boolean, stop: AbortController, release: () => void}} Lock */
/** @typedef {{draw: () => void, wants: Map<string, Want>}} View */
/**
 * @typedef {object} Turn the polls of a path, in milliseconds of `elapsed`
 * @property {ReturnType<typeof setTimeout>} [timer]
 * @property {boolean} isPolling
 * @property {number} polledAt
 * @property {number} failures
 */

/** Seconds between a tab's subscriptions, and their lifetime; the same for a hidden tab with late timers. */
const [ANNOUNCE_EVERY, WANT_TTL, HIDDEN_ANNOUNCE_EVERY, HIDDEN_WANT_TTL] = [10, 25, 60, 150]
/** Seconds: the longest pause after failures, the period of polls each second after a change, the first pause. */
const [MAX_BACKOFF, FAST_POLL_FOR, INITIAL_BACKOFF] = [30, 10, 1]
/** The largest share of the time that polls of a path may take. */
const MAX_DUTY_CYCLE = 1 / 4
/** Data older than this number of milliseconds shows its age even without a failure. */
const STALE_AFTER = 120_000
const TAB_ID = hex(crypto.getRandomValues(new Uint8Array(8)))
/** @type {Entry} */
const EMPTY = { data: null, at: 0, error: null, tag: '' }

/** @type {Map<string, Entry>} */
const store = new Map()
/**
 * Subscriptions of other tabs, with their expiry in milliseconds.
 * @type {Map<string, {wants: Want[], ends: number}>}
 */
const others = new Map()
/** @type {Map<string, Turn>} */
const turns = new Map()
/** @type {Set<View>} */
const views = new Set()
/** @type {View | null} */
let drawing = null
let frame = 0
let hurried = -Infinity
let versions = 0
/** The lock that this tab waits for or has. @type {Lock | null} */
let lock = null

/** Monotonic time in milliseconds, independent of the system clock. */
const elapsed = () => performance.now()

/**
 * Draw now, after each update, and each second, until the page is left.
 *
 * The store polls the paths that `draw` reads.
 * @param {() => void} draw
 * @param {AbortSignal} signal
 */
export function subscribe(draw, signal) {
  joinTabs()
  const view = { draw, wants: new Map() }
  views.add(view)
  render(view)
  const timers = [setInterval(scheduleRender, 1000), setInterval(announceWants, ANNOUNCE_EVERY * 1000)]
  const stop = () => {
    timers.forEach(clearInterval)
    if (views.delete(view)) announceWants()
  }
  signal.addEventListener('abort', stop, { once: true })
}

/**
 * Return the stored response of a path. A followed page keeps it at most `seconds` old.
 * @param {string} path
 * @param {number} seconds
 * @param {string | null} [list] member with the records, if all pages are needed
 * @returns {Entry}
 */
export function readCached(path, seconds, list = null) {
  drawing?.wants.set(path, { path, list, seconds })
  return store.get(path) ?? EMPTY
}

/**
 * Cache the last result while the arguments are the same, because pages draw each second.
 * @template {unknown[]} A
 * @template R
 * @param {(...of: A) => R} make
 * @returns {(...of: A) => R}
 */
export function memoizeLast(make) {
  /** @type {{of: A, result: R} | null} */
  let last = null
  return (...of) => {
    if (!last || of.some((each, index) => each !== last?.of[index])) last = { of, result: make(...of) }
    return last.result
  }
}

/** Rows of one load, calls of one load, and the maximum of loaded rows. */
const [A_PAGE, CALLS, MOST] = [100, 10, 10_000]

/**
 * Records that the service returns in pages.
 *
 * The store polls the first page. The other pages load on request.
 */
export class Pages {
  /** @type {any[]} */
  #first = []
  /** Rows of the other pages. @type {any[]} */
  #older = []
  /** @type {string | null} */
  #cursor = null
  #path = ''
  /** @type {Entry} */
  #entry = EMPTY
  #isStopped = false
  isLoading = false
  /** Whether the rows belong to the previous filter, because the answer is pending. */
  isBusy = false
  /** @type {number | null} */
  total = null
  /** @type {unknown} */
  fault = null

  /**
   * @param {string} list member with the records
   * @param {number} seconds
   * @param {(row: any) => string} [key]
   */
  constructor(list, seconds, key = ({ id }) => id) {
    this.list = list
    this.seconds = seconds
    this.key = key
  }

  /** Whether there are unread rows. */
  get more() {
    return this.#cursor !== null
  }

  /** Return how many rows can still be loaded; null if unknown. @param {number} size of the loaded rows */
  left(size) {
    return this.total === null ? null : Math.min(this.total, MOST) - size
  }

  /**
   * Return the loaded rows of a path.
   * @param {string} base
   * @param {Record<string, string | null | undefined>} [query] omits empty values
   * @returns {Entry}
   */
  read(base, query = {}) {
    const search = new URLSearchParams(Object.entries(query).flatMap(([name, value]) => (value ? [[name, value]] : [])))
    const path = search.size ? `${base}?${search}` : base
    const entry = readCached(path, this.seconds)
    this.isBusy = path !== this.#path && !entry.at && !entry.error && this.#entry.data !== null
    if (this.isBusy) return this.#entry
    if (path !== this.#path) {
      Object.assign(this, { total: null, fault: null })
      this.stop()
      this.#path = path
      ;[this.#first, this.#older, this.#cursor] = [[], [], null]
      this.#entry = { ...EMPTY, pages: this }
    }
    const isNew = entry.data !== null && entry.data !== this.#entry.answer
    if (isNew) this.#take(entry.data)
    const data = isNew ? [...this.#first, ...this.#older] : this.#entry.data
    this.#entry = { ...entry, data, answer: entry.data, pages: this }
    return this.#entry
  }

  /** @param {any} answer with the first page */
  #take(answer) {
    const rows = answer[this.list]
    if (this.#older.length) {
      // Newer rows have moved some out of the first page; others were removed.
      const known = new Set(rows.map(this.key))
      const last = this.#first.findLastIndex((row) => known.has(this.key(row)))
      this.#older = [...this.#first.slice(last + 1), ...this.#older].filter((row) => !known.has(this.key(row)))
    } else {
      this.#cursor = answer.cursor
    }
    this.#first = rows
    this.total = answer.total ?? null
    // The service examines a limited number of rows, so a page can be empty.
    if (!rows.length && this.#cursor && !this.isLoading) void this.load()
  }

  /** Load rows until a page's number has been added. @param {number} [wanted] */
  async load(wanted = A_PAGE) {
    const path = this.#path
    const begun = this.#older.length
    Object.assign(this, { isLoading: true, fault: null })
    this.#isStopped = false
    try {
      for (let call = 0; call < Math.max(CALLS, wanted / A_PAGE); call++) {
        scheduleRender()
        const cursor = this.#cursor
        if (cursor === null || this.#isStopped || this.#older.length >= begun + wanted) break
        const answer = /** @type {any} */ (await get(path, { query: { cursor } }))
        if (path !== this.#path) return
        this.#older = [...this.#older, ...answer[this.list]]
        this.#cursor = answer.cursor
        this.#entry = { ...this.#entry, data: [...this.#first, ...this.#older] }
      }
    } catch (error) {
      if (!(error instanceof ApiError)) throw error
      this.fault = error
    } finally {
      if (path === this.#path) this.isLoading = false
      scheduleRender()
    }
  }

  loadAll() {
    return this.load(MOST - this.#first.length - this.#older.length)
  }

  /** Stop loading. */
  stop() {
    this.#isStopped = true
    this.isLoading = false
  }
}

/** Return the names of API keys by identifier. */
const namesOf = memoizeLast(
  (/** @type {Api.ApiKeySummary[] | null} */ keys) => new Map(keys?.map(({ id, name }) => [id, name])),
)

/** Return the owner of a record for people. An API key without an account has its name. @param {string} identity */
export function ownerOf(identity) {
  const [id = ''] = identity.split('@')
  if (!id.startsWith('svc_ak_') || !hasScope('read-only', 'auditor')) return nameOf(identity)
  return nameOf(identity, namesOf(readCached('/v1/api-keys', 60, 'api_keys').data).get(id))
}

/** Return the age of data that could not be renewed. @param {Entry} entry */
export const aged = ({ at, error }) =>
  at && (error || now() - at > STALE_AFTER) ? `As of ${clock(at)} UTC. ${error ? advice(error) : ''}` : null

/** Return the oldest entry that could not be renewed, or any entry; null without entries. */
export function oldest() {
  const entries = wanted().flatMap(({ path }) => store.get(path) ?? [])
  const [old] = entries.filter(aged).sort((one, other) => one.at - other.at)
  return old ?? entries.find(({ at, error }) => !at && error?.status === 0) ?? entries.find(({ at }) => at) ?? null
}

/** @param {View} view */
function render(view) {
  const describeWants = () => [...view.wants.values()].map(({ path, seconds }) => `${path} ${seconds}`).join()
  const before = describeWants()
  view.wants.clear()
  drawing = view
  try {
    view.draw()
  } finally {
    drawing = null
  }
  if (before !== describeWants()) announceWants()
}

/** Draw in the next frame. */
export function scheduleRender() {
  frame ||= requestAnimationFrame(() => {
    frame = 0
    for (const view of views) render(view)
  })
}

/** Request the lock of this credential. Without locks, as on a page without HTTPS, each tab polls. */
function joinTabs() {
  const { tenant_id, identity, api_key_id, scopes } = currentCaller()
  const name = ['rescind-poll', tenant_id, identity, api_key_id, scopes].join(' ')
  if (lock?.name === name) return
  leaveTabs()
  const mine = { name, isHeld: !navigator.locks, stop: new AbortController(), release: () => {} }
  lock = mine
  const hold = () =>
    new Promise((resolve) => {
      Object.assign(mine, { isHeld: true, release: () => resolve(undefined) })
      send({ leads: true })
      schedulePolls()
    })
  // The request rejects with an abort when this tab releases the lock.
  navigator.locks?.request(name, { signal: mine.stop.signal }, hold).catch(() => undefined)
}

/** Release the lock to another tab. */
function leaveTabs() {
  for (const { timer } of turns.values()) clearTimeout(timer)
  turns.clear()
  lock?.stop.abort()
  lock?.release()
  lock = null
}

/** @param {Record<string, unknown>} message */
const send = (message) => lock && tabs.postMessage({ live: lock.name, from: TAB_ID, ...message })

/** Return the subscriptions of this tab. */
const wanted = () => [...views].flatMap(({ wants }) => [...wants.values()])

/** Poll the subscriptions of this tab, or send them to the tab that polls. */
function announceWants() {
  if (lock?.isHeld) return schedulePolls()
  const wants = wanted().map((want) => ({ ...want, tag: store.get(want.path)?.tag }))
  send({ wants, visible: !document.hidden, ends: document.hidden ? HIDDEN_WANT_TTL : WANT_TTL })
}

/** Schedule the next poll of each subscribed path, and cancel the others. */
function schedulePolls() {
  if (!lock?.isHeld) return
  for (const [tab, { ends }] of others) if (ends < elapsed()) others.delete(tab)
  /** @type {Map<string, Want>} */
  const all = new Map()
  for (const want of [...wanted(), ...[...others.values()].flatMap(({ wants }) => wants)]) {
    if (want.seconds < (all.get(want.path)?.seconds ?? Infinity)) all.set(want.path, want)
  }
  for (const [path, turn] of turns) {
    clearTimeout(turn.timer)
    if (!all.has(path) && !turn.isPolling) turns.delete(path)
  }
  for (const want of all.values()) {
    const turn = turns.get(want.path) ?? { isPolling: false, polledAt: -Infinity, failures: 0 }
    turns.set(want.path, turn)
    const left = turn.polledAt + pauseBefore(want, turn.failures) * 1000 - elapsed()
    if (!turn.isPolling) turn.timer = setTimeout(() => poll(want, turn), Math.max(0, left))
  }
}

/**
 * Return the seconds between two polls of a path.
 * @param {Want} want
 * @param {number} failures
 */
function pauseBefore({ path, seconds }, failures) {
  const isSoon = elapsed() - hurried < FAST_POLL_FOR * 1000
  // A path without an answer is retried soon.
  const often = store.get(path)?.at ? seconds : Math.min(seconds, INITIAL_BACKOFF)
  const visible = isSoon ? 1 : often * (0.9 + Math.random() * 0.2)
  const usual = document.hidden ? Math.max(HIDDEN_ANNOUNCE_EVERY, seconds) : visible
  const longest = Math.max(MAX_BACKOFF, usual)
  return Math.max(Math.min(longest, usual * 2 ** failures), (store.get(path)?.took ?? 0) / MAX_DUTY_CYCLE)
}

/**
 * @param {Want} want
 * @param {Turn} turn
 */
async function poll(want, turn) {
  const [begun, mine, before] = [elapsed(), lock, store.get(want.path) ?? EMPTY]
  turn.isPolling = true
  let entry
  try {
    const answer = await (want.list ? readList(want, before) : readDocument(want.path, before))
    entry = { ...answer, at: now(), error: null, took: (elapsed() - begun) / 1000 }
    turn.failures = 0
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    entry = { ...before, error }
    turn.failures++
  } finally {
    turn.isPolling = false
    turn.polledAt = elapsed()
  }
  // This tab was signed out during the call, or a different tab polls.
  if (mine !== lock) return
  const isNew = entry.data !== before.data
  if (isNew) entry.tag = `${TAB_ID} ${++versions}`
  store.set(want.path, entry)
  const isWanted = [...others.values()].some(({ wants }) => wants.some(({ path }) => path === want.path))
  sendEntry(want.path, entry, isNew && isWanted)
  scheduleRender()
  schedulePolls()
}

/**
 * @param {string} path
 * @param {Entry} before
 * @returns {Promise<Entry>}
 */
async function readDocument(path, before) {
  const { status, headers, body } = await call('GET', path, undefined, {
    headers: before.etag ? { 'If-None-Match': before.etag } : {},
  })
  if (status === 304) return before
  const isSame = JSON.stringify(body) === JSON.stringify(before.data)
  return { ...before, data: isSame ? before.data : body, etag: headers.get('ETag') }
}

/**
 * Return all records, or only the changes since the last answer if the service supports it.
 * @param {Want} want
 * @param {Entry} before
 * @returns {Promise<Entry>}
 */
async function readList({ path, list }, before) {
  const name = /** @type {string} */ (list)
  const known = before.since ? new Map(before.data.map((/** @type {{id: string}} */ row) => [row.id, row])) : new Map()
  let since
  let isNew = !before.since
  try {
    for await (const answer of answers(path, { query: { changed_since: before.since } })) {
      since ??= answer.changed_since
      isNew ||= answer[name].length > 0 || answer.removed?.length > 0
      for (const id of answer.removed ?? []) known.delete(id)
      for (const row of answer[name]) known.set(row.id ?? known.size, row)
    }
  } catch (error) {
    if (before.since && error instanceof ApiError && error.status === 410)
      return readList({ path, list, seconds: 0 }, EMPTY)
    throw error
  }
  const data = isNew ? [...known.values()] : before.data
  const isSame = !since && JSON.stringify(data) === JSON.stringify(before.data)
  return { ...before, data: isSame ? before.data : data, since }
}

/**
 * Send an entry to the other tabs.
 * @param {string} path
 * @param {Entry} entry
 * @param {boolean} withData
 */
function sendEntry(path, { data, error, ...entry }, withData) {
  const fault = error && [error.status, error.code, error.message, error.requestId]
  send({ path, entry, fault, ...(withData && { data }) })
}

/** @param {any} message of the tab that polls */
function applyEntry({ path, entry, fault, data }) {
  if (!wanted().some((want) => want.path === path)) return
  const before = store.get(path) ?? EMPTY
  const isKnown = before.tag === entry.tag
  if (!isKnown && data === undefined && !fault) return announceWants()
  const error = fault && new ApiError(.../** @type {ConstructorParameters<typeof ApiError>} */ (fault))
  const at = Math.max(before.at, isKnown ? entry.at : 0)
  store.set(path, isKnown || data === undefined ? { ...before, at, error } : { ...entry, data, error })
  scheduleRender()
}

/** @param {any} message of a tab that subscribes */
function onSubscription({ from, wants, ends, visible }) {
  others.set(from, { wants, ends: elapsed() + ends * 1000 })
  if (document.hidden && visible) {
    // The timers of a hidden tab are late, so a visible tab polls.
    leaveTabs()
    return joinTabs()
  }
  for (const { path, tag } of wants) {
    const entry = store.get(path)
    if (entry?.at && entry.tag !== tag) sendEntry(path, entry, true)
  }
  schedulePolls()
}

/** Poll a path now, even after failures. @param {string} path */
export function retry(path) {
  const turn = turns.get(path)
  if (turn) Object.assign(turn, { polledAt: -Infinity, failures: 0 })
  send({ retry: path })
  schedulePolls()
}

function pollSoon() {
  hurried = elapsed()
  schedulePolls()
}

tabs.addEventListener('message', ({ data }) => {
  if (!lock || data.live !== lock.name) return
  if (data.hurry) pollSoon()
  else if (data.retry && lock.isHeld) retry(data.retry)
  else if (data.leads) announceWants()
  else if (data.entry) applyEntry(data)
  else if (data.wants && lock.isHeld) onSubscription(data)
})
events.addEventListener('changed', () => (send({ hurry: true }), pollSoon()))
// Delete all data that was read with a former key.
events.addEventListener('out', () => {
  leaveTabs()
  for (const data of [store, others, views]) data.clear()
})
document.addEventListener('visibilitychange', () => (announceWants(), scheduleRender()))
