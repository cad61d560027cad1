/**
 * Calls the API with the key of the person.
 *
 * The key exists only in this module. No other module can read it, and no address or message contains it.
 */

import { hex } from './format.js'

/**
 * @typedef {object} Options `keepalive`: make the call even if the tab is closed; `raw`: return bytes, even for JSON;
 *   `final`: do not renew the session after a refusal
 * @property {AbortSignal} [signal]
 * @property {Record<string, string | number | null | undefined>} [query]
 * @property {Record<string, string>} [headers]
 * @property {boolean} [keepalive]
 * @property {boolean} [raw]
 * @property {boolean} [final]
 */

const ONCE = 'Idempotency-Key'
const AT_ONCE = 4
const TRIES = 6

// The session is valid, but the call requires a more recent sign-in (RFC 9470).
export const TOO_OLD = 'reauthentication_required'

/** @type {string | null} */
let key = null
/** @type {(code: string) => Promise<boolean>} requests a reauthentication; returns whether there is a new session */
let renew = async () => false
/** How far the service's clock is ahead of this computer's, in milliseconds. */
let ahead = 0
/** @type {string | null} */
let holder = null
/** Increments at each sign-out, so that another person cannot continue a call. */
let era = 0
/** `Idempotency-Key` values of changes with a lost response. @type {Set<string>} */
const unknown = new Set()
let calls = 0
/** @type {(() => void)[]} */
const queue = []

/**
 * Dispatches `out` (the key is forgotten or belongs to another person), `changed` (after a call), and `waiting`
 * (`detail`: seconds).
 */
export const events = new EventTarget()
events.addEventListener('out', () => era++)

/** An error response. `status` is 0 if there was no response. */
export class ApiError extends Error {
  /**
   * @param {number} status
   * @param {string} code of the contract, for example `not_found`
   * @param {string} message
   * @param {string | null} [requestId]
   */
  constructor(status, code, message, requestId = null) {
    super(message)
    this.status = status
    this.code = code
    this.requestId = requestId
  }
}

/** The call requested an approval and changed no data. Another person decides. */
export class Asked extends Error {
  /** @param {Api.ApprovalRequest} approval */
  constructor(approval) {
    super(`${approval.approval_id} is pending.`)
    this.approval = approval
  }
}

/**
 * Use this key for all later calls. Without a key, refuse calls.
 * @param {string | null} secret
 * @param {string | null} [id] the scope of idempotency keys: a person, a session without a person, or an API key
 */
export function use(secret, id = holder) {
  key = secret
  holder = id
}

/**
 * Set the function that renews the session after a 401. The call is then repeated.
 * @param {typeof renew} ask
 */
export function renewBy(ask) {
  renew = ask
}

/**
 * Return the address of a service path, without its first slash. It is relative, so it works below a base path.
 * @param {string} path for example `/v1/keys`
 */
export const at = (path) => path.slice(1)

/** Return the service's time in milliseconds, derived from the `Date` of its responses. */
export const now = () => Date.now() + ahead

/** Return how far this computer's clock is behind the service's, in seconds; negative if it is ahead. */
export const behind = () => Math.round(ahead / 1000)

/**
 * @template T
 * @param {string} path
 * @param {Options} [options]
 * @returns {Promise<T>}
 */
export const get = async (path, options = {}) => (await call('GET', path, undefined, options)).body

/**
 * @template T
 * @param {string} path
 * @param {unknown} [body]
 * @param {Options} [options]
 * @returns {Promise<T>}
 */
export async function post(path, body, options = {}) {
  return (await call('POST', path, body, { ...options, headers: { ...once(), ...options.headers } })).body
}

/**
 * @template T
 * @param {string} path
 * @param {unknown} body
 * @param {Options} [options]
 * @returns {Promise<T>}
 */
export async function patch(path, body, options = {}) {
  return (await call('PATCH', path, body, { ...options, headers: { ...once(), ...options.headers } })).body
}

/**
 * Delete a resource.
 *
 * A 404 counts as success, because the response to an earlier call may have been lost.
 * @param {string} path
 * @param {Record<string, string>} [headers]
 */
export async function remove(path, headers) {
  try {
    await call('DELETE', path, undefined, { headers })
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 404) throw error
  }
}

/**
 * Forget the key. Before that, send a DELETE of `path`, if given, without using its response.
 * @param {string | null} path
 */
export async function leave(path) {
  // `send` reads the key before it returns.
  const answer = path && send('DELETE', path, undefined, { keepalive: true })
  use(null)
  await answer
}

/**
 * Yield the response of each page.
 * @param {string} path
 * @param {Options} [options]
 * @returns {AsyncGenerator<Record<string, any>>}
 */
export async function* answers(path, options = {}) {
  /** @type {string | null} */
  let cursor = null
  do {
    const answer = /** @type {Record<string, any>} */ (
      await get(path, { ...options, query: { limit: 100, ...options.query, cursor } })
    )
    yield answer
    cursor = answer.cursor
  } while (cursor)
}

/**
 * Yield the parts of an export of the audit log.
 * @param {Options['query']} query
 * @param {AbortSignal} signal
 * @returns {AsyncGenerator<ArrayBuffer, undefined>}
 */
export async function* exported(query, signal) {
  /** @type {string | null} */
  let cursor = null
  do {
    const { body, headers } = await call('GET', '/v1/audit-logs/export', undefined, {
      signal,
      query: { ...query, cursor },
    })
    yield body
    cursor = headers.get('X-Next-Cursor')
  } while (cursor !== null)
}

/**
 * Return all records of up to `most` pages.
 * @template T
 * @param {string} path
 * @param {string} name member of the response that contains the records
 * @param {Options & {most?: number}} [options]
 * @returns {Promise<T[]>}
 */
export async function all(path, name, { most = 50, ...options } = {}) {
  /** @type {T[]} */
  const records = []
  for await (const answer of answers(path, options)) {
    records.push(...answer[name])
    if (--most === 0) break
  }
  return records
}

/**
 * Return an unmodified response with its headers. A 304 has no body.
 *
 * Throws `ApiError`, and `Asked` if the call requested an approval.
 * @param {string} method
 * @param {string} path
 * @param {unknown} [body]
 * @param {Options} [options]
 * @returns {Promise<{status: number, headers: Headers, body: any}>}
 */
export async function call(method, path, body, options = {}) {
  const begun = era
  for (let attempt = 1; ; attempt++) {
    const [sentWith, by] = [key, holder]
    const response = await turn(() => {
      if (era !== begun) throw signedOut()
      return send(method, path, body, options)
    }, options.signal)
    if (response.status === 429 && attempt < TRIES) {
      const seconds = Number(response.headers.get('Retry-After')) || 1
      events.dispatchEvent(new CustomEvent('waiting', { detail: seconds }))
      await sleep(seconds, options.signal)
      continue
    }
    if (response.ok || response.status === 304) {
      const isJson = !options.raw && response.headers.get('Content-Type')?.startsWith('application/json')
      const body = await (isJson ? response.json() : response.arrayBuffer())
      if (response.status === 202 && body.approval_id) throw new Asked(body)
      if (method !== 'GET') events.dispatchEvent(new Event('changed'))
      return { status: response.status, headers: response.headers, body }
    }
    const error = await failure(response)
    if (error.status !== 401 || options.final) throw error
    // Repeat the call if a new session has replaced this one, or replaces it now.
    if (key === null || era !== begun || !(key !== sentWith || (await renew(error.code)))) throw error
    if (holder !== by && unknown.delete(options.headers?.[ONCE] ?? ''))
      throw new ApiError(
        409,
        'not_known',
        'The response to your first attempt was lost, and you now use another key. ' +
          'Check whether the change was made before you try again.',
      )
  }
}

/**
 * @param {string} method
 * @param {string} path
 * @param {unknown} body
 * @param {Options} options
 */
async function send(method, path, body, { signal, query = {}, headers = {}, keepalive = false }) {
  if (key === null && !headers.Authorization) throw signedOut()
  const parameters = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== '')
  const search = new URLSearchParams(parameters.map(([name, value]) => [name, String(value)])).toString()
  /** @type {Record<string, string>} */
  const sent = { Authorization: `Bearer ${key}`, ...headers }
  if (body !== undefined) sent['Content-Type'] = 'application/json'
  try {
    const response = await fetch(search ? `${at(path)}${path.includes('?') ? '&' : '?'}${search}` : at(path), {
      method,
      headers: sent,
      signal,
      keepalive,
      body: body === undefined ? null : JSON.stringify(body),
      credentials: 'omit',
      redirect: 'error',
      referrerPolicy: 'no-referrer',
      cache: 'no-store',
    })
    const date = Date.parse(response.headers.get('Date') ?? '')
    if (date) ahead = Math.abs(date - Date.now()) < 1500 ? 0 : date - Date.now()
    return response
  } catch (error) {
    if (signal?.aborted) throw signal.reason
    if (headers[ONCE]) unknown.add(headers[ONCE])
    throw new ApiError(0, 'no_answer', String(error))
  }
}

const signedOut = () => new ApiError(401, 'unauthorized', 'You are signed out.')

/** @param {Response} response */
async function failure(response) {
  const body = await response.json().catch(() => ({}))
  const { code = 'unknown', message = `The service responded with status ${response.status}.` } = body.error ?? {}
  return new ApiError(response.status, code, message, response.headers.get('X-Request-Id'))
}

/**
 * Run when fewer than `AT_ONCE` calls are in progress.
 * @template T
 * @param {() => Promise<T>} run
 * @param {AbortSignal} [signal]
 */
async function turn(run, signal) {
  if (calls >= AT_ONCE) await new Promise((resolve) => queue.push(() => resolve(undefined)))
  calls++
  try {
    signal?.throwIfAborted()
    return await run()
  } finally {
    calls--
    queue.shift()?.()
  }
}

/**
 * Wait. Rejects if the signal is aborted.
 * @param {number} seconds
 * @param {AbortSignal} [signal]
 */
export function sleep(seconds, signal) {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer)
      reject(signal?.reason)
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop)
      resolve(undefined)
    }, seconds * 1000)
    signal?.addEventListener('abort', stop, { once: true })
  })
}

/** Return an `Idempotency-Key` header, so that a repeated call makes its change once. */
export const once = () => ({ [ONCE]: hex(crypto.getRandomValues(new Uint8Array(16))) })
