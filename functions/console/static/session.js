/**
 * Who is signed in, until when. The key is in memory; only if the person asked for it, also in the
 * `sessionStorage` of this tab.
 */

import { ApiError, at, events, get, leave, post, use } from './api.js'

const KEPT = 'rescind.key'
const LOCK_MINUTES = 15

/** @type {Api.Caller | null} */
let caller = null
/** A key that was made for this page, to be revoked when the session ends. */
let ours = false
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
 * Sign in with a key. Throws `ApiError` if the service refuses it.
 * @param {string} key
 * @param {{keep?: boolean}} [options] whether this tab may store it until it is closed
 */
export async function open(key, { keep = false } = {}) {
  use(key)
  try {
    caller = /** @type {Api.Caller} */ (await get('/v1/whoami'))
  } catch (error) {
    use(null)
    throw error
  }
  touched = Date.now()
  if (keep) sessionStorage.setItem(KEPT, key)
}

/**
 * Sign in with the code that the server printed. Throws `ApiError` if the server refuses it.
 * @param {string} code
 */
export async function openByCode(code) {
  const unanswered = (/** @type {unknown} */ error) => { throw new ApiError(0, 'no_answer', String(error), null) }
  const answer = await fetch(at('/console/session'), {
    method: 'POST', body: JSON.stringify({ code }), headers: { 'Content-Type': 'application/json' },
    credentials: 'omit', redirect: 'error', cache: 'no-store',
  }).catch(unanswered)
  if (!answer.ok) throw new ApiError(answer.status, answer.status === 401 ? 'code_refused' : 'unknown', `The service answered ${answer.status}.`, null)
  await open((await answer.json()).key)
  ours = true
}

/** Sign in with the key that this tab stored; whether there was one that works. */
export async function reopen() {
  const key = sessionStorage.getItem(KEPT)
  if (key === null) return false
  try {
    await open(key, { keep: true })
    return true
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) sessionStorage.removeItem(KEPT)
    return false
  }
}

/**
 * Forget the key and everything that was read with it; other tabs stay. A key that was made for this
 * page is revoked; if that fails, nobody has it any more.
 */
function lock() {
  leave(ours && caller ? revocation(caller) : null).catch(() => undefined)
  caller = null
  // The next key may be a person's own.
  ours = false
  sessionStorage.removeItem(KEPT)
}

/** @param {Api.Caller} of */
const revocation = (of) => `/v1/api-keys/${of.api_key_id}/revoke`

/** Sign out here and in all other tabs; a key that was made for this page is revoked. */
export async function signOut() {
  try {
    if (ours && caller) await post(revocation(caller))
  } finally {
    ours = false
    lock()
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
  events.addEventListener('locked', () => end('This key no longer works. It may have been revoked, or it has expired.'))
  tabs.addEventListener('message', () => end('You signed out in another tab.'))
}
