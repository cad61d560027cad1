/**
 * Who is signed in, until when. An API key is in memory only; the secret of a session is also in the
 * `sessionStorage` of this tab.
 */

import { ApiError, at, events, get, leave, remove, use } from './api.js'

const KEPT = 'rescind.session'
const CURRENT = '/v1/sessions/current'
const LOCK_MINUTES = 15

/** @type {Api.Caller | null} */
let caller = null
let touched = Date.now()

const tabs = new BroadcastChannel('rescind')

/** The caller. There is one while a page is shown. */
export function who() {
  if (!caller) throw new TypeError('Nobody is signed in.')
  return caller
}

/** Whether somebody is signed in. */
export const isOpen = () => caller !== null

/**
 * Whether the key has one of these scopes; `admin` may do everything.
 * @param {...Api.Scope} scopes
 */
export const may = (...scopes) => who().scopes.some((/** @type {Api.Scope} */ scope) => scope === 'admin' || scopes.includes(scope))

/**
 * Sign in with an API key or the secret of a session. Throws `ApiError` if the service refuses it.
 * @param {string} secret
 */
export async function open(secret) {
  use(secret)
  try {
    caller = /** @type {Api.Caller} */ (await get('/v1/whoami'))
  } catch (error) {
    use(null)
    throw error
  }
  touched = Date.now()
  if (caller.session_id) sessionStorage.setItem(KEPT, secret)
}

/**
 * Sign in with what `POST /v1/token` takes. Throws `ApiError` if it is refused.
 * @param {Record<string, string>} form
 */
export async function redeem(form) {
  const unanswered = (/** @type {unknown} */ error) => { throw new ApiError(0, 'no_answer', String(error), null) }
  const answer = await fetch(at('/v1/token'), {
    method: 'POST', body: new URLSearchParams(form),
    credentials: 'omit', redirect: 'error', cache: 'no-store',
  }).catch(unanswered)
  const body = await answer.json().catch(() => ({}))
  if (!answer.ok) throw new ApiError(answer.status, body.error ?? 'unknown', body.error_description ?? `The service answered ${answer.status}.`, null)
  await open(body.access_token)
}

/** Sign in with the session that this tab stored; whether there was one that is accepted. */
export async function reopen() {
  const secret = sessionStorage.getItem(KEPT)
  if (secret === null) return false
  try {
    await open(secret)
    return true
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) sessionStorage.removeItem(KEPT)
    return false
  }
}

/** Forget the secret and everything that was read with it. */
function forget() {
  use(null)
  caller = null
  sessionStorage.removeItem(KEPT)
}

/** End the session if there is one, without an answer. */
function lock() {
  leave(caller?.session_id ? CURRENT : null).catch(() => undefined)
  forget()
}

/** Sign out here and in all other tabs, and end the session if there is one. */
export async function signOut() {
  try {
    if (caller?.session_id) await remove(CURRENT)
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 401) throw error
  } finally {
    forget()
    tabs.postMessage('out')
  }
}

/**
 * Tell when the session ends by itself: no input for 15 minutes, the key was refused, or another tab
 * signed out.
 * @param {(why: string) => void} ended
 */
export function watch(ended) {
  const end = (/** @type {string} */ why) => {
    if (!isOpen()) return
    lock()
    ended(why)
  }
  for (const input of ['pointerdown', 'keydown', 'wheel']) addEventListener(input, () => { touched = Date.now() }, { passive: true })
  // The wall clock, as timers stand still while a computer sleeps.
  const look = () => Date.now() - touched > LOCK_MINUTES * 60_000 && end(`Locked after ${LOCK_MINUTES} minutes without input.`)
  setInterval(look, 5000)
  document.addEventListener('visibilitychange', look)
  events.addEventListener('locked', () => end(caller?.session_id ? 'The session has ended.' : 'This key no longer works. It may have been revoked, or it has expired.'))
  tabs.addEventListener('message', () => end('You signed out in another tab.'))
}
