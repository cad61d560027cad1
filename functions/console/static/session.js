/**
 * Who is signed in, until when. An API key is in memory only; the secret of a session is also in the
 * `sessionStorage` of this tab, and other tabs of this browser get it.
 */

import { ApiError, at, call, events, get, holds, leave, remove, renewBy, TOO_OLD, use } from './api.js'

/** @typedef {Pick<Api.IdentityProvider, 'id' | 'name' | 'issuer' | 'client_id' | 'authorization_endpoint'>} Provider */

const [KEPT, INPUT, TENANT] = ['rescind.session', 'rescind.input', 'rescind.tenant']
const CURRENT = '/v1/sessions/current'
const LOCK_MINUTES = 15

/** @type {Api.Caller | null} */
let caller = null
let touched = Date.now()
/** @type {Promise<boolean> | null} */
let renewing = null
let [ended, begun] = [(/** @type {string} */ _why) => {}, () => {}]

// Messages: `who` asks for a session, `input` tells of some; `why` ends all tabs, after the session
// `ended`; `session` hands one over, in the place of `instead`; `again` answers `signInAgain`.
export const tabs = new BroadcastChannel('rescind')

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
export const may = (...scopes) =>
  who().scopes.some((/** @type {Api.Scope} */ scope) => scope === 'admin' || scopes.includes(scope))

/**
 * Sign in with an API key or the secret of a session. Throws `ApiError` if the service refuses it.
 * @param {string} secret
 */
export async function open(secret) {
  const headers = { Authorization: `Bearer ${secret}` }
  caller = /** @type {Api.Caller} */ (await get('/v1/whoami', { final: true, headers }))
  use(secret)
  holds(caller.person_id ?? caller.session_id ?? caller.api_key_id)
  if (caller.session_id) sessionStorage.setItem(KEPT, secret)
  else sessionStorage.removeItem(KEPT)
  touch()
  // Not that of a person, whose e-mail does not end like this.
  const handle = /@([a-z0-9-]+)\.svc$/.exec(caller.identity)?.[1]
  if (handle) remember(handle)
}

function touch() {
  touched = Date.now()
  if (sessionStorage.getItem(KEPT)) sessionStorage.setItem(INPUT, String(touched))
}

/** The name of the tenant whose providers are offered, if it is known: by the address, or by the last attempt. */
export const tenant = () => new URLSearchParams(location.search).get('tenant') ?? localStorage.getItem(TENANT) ?? ''

/** @param {string} handle of a tenant */
export const remember = (handle) => localStorage.setItem(TENANT, handle)

/** The identity providers of the tenant. Throws `ApiError`. @returns {Promise<Provider[]>} */
export const offered = async () =>
  tenant() === '' ? [] : (await ask(`/v1/sign-in?tenant=${encodeURIComponent(tenant())}`)).identity_providers

/**
 * The secret of the session that the service grants for a code or a ticket. Throws `ApiError` if it refuses.
 * @param {'/v1/token' | '/v1/sign-in/code'} path
 * @param {Record<string, string>} form
 * @returns {Promise<string>}
 */
export const granted = async (path, form) =>
  (await ask(path, { method: 'POST', body: new URLSearchParams(form) })).access_token

/**
 * What the service answers to somebody who is not signed in. Throws `ApiError`.
 * @param {string} path
 * @param {RequestInit} [more]
 */
async function ask(path, more = {}) {
  const unanswered = (/** @type {unknown} */ error) => {
    throw new ApiError(0, 'no_answer', String(error))
  }
  const answer = await fetch(at(path), { ...more, credentials: 'omit', redirect: 'error', cache: 'no-store' }).catch(
    unanswered,
  )
  const body = await answer.json().catch(() => ({}))
  const said = body.error_description ?? body.error?.message ?? `The service answered ${answer.status}.`
  if (!answer.ok) throw new ApiError(answer.status, body.error?.code ?? body.error ?? 'unknown', said)
  return body
}

/** Sign in with the session that this tab stored; whether there was one that is accepted. */
export async function reopen() {
  const secret = sessionStorage.getItem(KEPT)
  if (secret === null) {
    tabs.postMessage('who')
    return false
  }
  use(secret)
  // The tab was closed, or not in memory, for too long.
  if (isIdle(Number(sessionStorage.getItem(INPUT)))) return lock()
  try {
    await open(secret)
    return true
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) forget()
    return false
  }
}

/** @param {number} since */
const isIdle = (since) => Date.now() - since > LOCK_MINUTES * 60_000

/** Forget the secret and everything that was read with it. */
function forget() {
  use(null)
  caller = null
  sessionStorage.removeItem(KEPT)
  sessionStorage.removeItem(INPUT)
  events.dispatchEvent(new Event('out'))
}

/**
 * End the session if there is one, without an answer.
 * @param {string | null} [ended] the secret of a session that has ended already
 */
function lock(ended = null) {
  const kept = sessionStorage.getItem(KEPT)
  leave(kept === ended ? null : CURRENT).catch(() => undefined)
  forget()
  return false
}

/**
 * Have the person sign in again, once for all calls that wait; whether the same one goes on.
 * @param {string} code why the service refused
 */
function renewed(code) {
  return (renewing ??= signInAgain(code).finally(() => {
    renewing = null
  }))
}

/** @param {string} code */
async function signInAgain(code) {
  const [before, kept] = [caller, sessionStorage.getItem(KEPT)]
  const fresh = code === TOO_OLD
  if (!before || (fresh && !before.person_id)) return false
  const why = before.session_id ? 'Your session has ended' : 'This key no longer works'
  const [{ again }, providers] = await Promise.all([
    import('./sign_in.js'),
    before.person_id ? offered().catch(() => []) : [],
  ])
  const enter = async (/** @type {string} */ secret) => {
    await open(secret)
    // What the page shows, and would send again, is somebody else's.
    if (!isSame(before, who())) events.dispatchEvent(new Event('out'))
    const instead = sessionStorage.getItem(KEPT)
    if (instead && isSame(before, who())) tabs.postMessage({ session: instead, instead: kept })
  }
  const handed = (/** @type {any} */ { again: given, session, instead, identity }) =>
    given ?? (session && ((kept && instead === kept) || identity === before.identity) ? session : null)
  const isIn = await again(
    providers,
    {
      fresh,
      withKey: !fresh,
      title: fresh ? 'Confirm that it is you' : why,
      why: fresh
        ? 'This needs a sign-in of the last 15 minutes. A window opens for it, and what you typed here stays.'
        : 'Sign in again to go on. What you typed stays here. If somebody else signs in, it is dropped.',
    },
    enter,
    handed,
  )
  if (!isIn) {
    if (!fresh)
      end(
        before.session_id
          ? 'The session has ended.'
          : 'This key no longer works. It may have been revoked, or it has expired.',
      )
    return false
  }
  if (!isSame(before, who())) {
    begun()
    return false
  }
  if (fresh) remove(`/v1/sessions/${before.session_id}`).catch(() => undefined)
  return true
}

/**
 * Whether this is one person: with another session, or with a key of the same account, or with one that took the
 * place of the key before.
 * @param {Api.Caller} one
 * @param {Api.Caller} other
 */
const isSame = (one, other) =>
  one.tenant_id === other.tenant_id &&
  one.person_id === other.person_id &&
  one.name === other.name &&
  (one.identity === other.identity ||
    (!one.session_id && !other.session_id && one.scopes.join() === other.scopes.join()))

/**
 * @param {string} why
 * @param {string | null} [before] the secret of a session that has ended already
 */
function end(why, before = null) {
  if (!isOpen()) return
  lock(before)
  ended(why)
}

/** Tell the tabs that wait at a door of a session that began here. */
export const tellTabs = () =>
  tabs.postMessage({ session: sessionStorage.getItem(KEPT), instead: null, identity: who().identity })

/** Hand a session over to the tab that asked for it, and close this window. @param {string} secret */
export function handOver(secret) {
  tabs.postMessage({ again: secret })
  close()
}

/** Sign out here and in all other tabs, and end the session if there is one. */
export async function signOut() {
  const ended = sessionStorage.getItem(KEPT)
  try {
    if (caller?.session_id) await call('DELETE', CURRENT, undefined, { final: true })
  } catch (error) {
    if (!(error instanceof ApiError) || ![401, 404].includes(error.status)) throw error
  } finally {
    forget()
    tabs.postMessage({ why: 'You signed out in another tab.', ended })
  }
}

/**
 * Tell when the session ends by itself: no input in any tab for 15 minutes, the key was refused, or
 * another tab signed out. And tell when somebody else is signed in: another tab handed its session over,
 * or another person took the place of one whose key was refused.
 * @param {(why: string) => void} ended_
 * @param {() => void} begun_
 */
export function watch(ended_, begun_) {
  renewBy(renewed)
  ended = ended_
  begun = begun_
  const tell = () => {
    if (Date.now() - touched < 1000) return
    touch()
    tabs.postMessage('input')
  }
  for (const input of ['pointerdown', 'keydown', 'wheel']) addEventListener(input, tell, { passive: true })
  // The wall clock, as timers stand still while a computer sleeps.
  const look = () => {
    if (!isIdle(touched) || !isOpen()) return
    const why = `Locked after ${LOCK_MINUTES} minutes without input.`
    tabs.postMessage({ why, ended: sessionStorage.getItem(KEPT) })
    end(why)
  }
  setInterval(look, 5000)
  document.addEventListener('visibilitychange', look)
  tabs.addEventListener('message', async ({ data }) => {
    const kept = sessionStorage.getItem(KEPT)
    if (data.why) end(data.why, data.ended)
    else if (data === 'input') touch()
    else if (data === 'who' && kept) tabs.postMessage({ session: kept, instead: null })
    else if (data.session && !renewing && data.instead === kept && isOpen() === (kept !== null)) {
      try {
        await open(data.session)
        if (!kept) begun()
      } catch (error) {
        if (!(error instanceof ApiError)) throw error
      }
    }
  })
}
