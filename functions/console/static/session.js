/**
 * The session of the person.
 *
 * An API key is only in memory. The secret of a session is also in the `sessionStorage` of this tab, and other tabs of
 * this browser receive it.
 */

import { ApiError, at, call, events, get, leave, remove, renewBy, TOO_OLD, use } from './api.js'

/** @typedef {Pick<Api.IdentityProvider, 'id' | 'name' | 'issuer' | 'client_id' | 'authorization_endpoint'>} Provider */

const [SESSION, INPUT, TENANT] = ['rescind.session', 'rescind.input', 'rescind.tenant']
const CURRENT = '/v1/sessions/current'
const LOCK_MINUTES = 15

/** @type {Api.Caller | null} */
let caller = null
let touched = Date.now()
/** @type {Promise<boolean> | null} */
let renewing = null
let [notifyEnd, notifyChange] = [(/** @type {string} */ _why) => {}, () => {}]

// Messages: `who` requests a session. `input` reports user input. `why` signs out all tabs, after the session `ended`.
// `session` passes a session on, as a replacement for `instead`. `again` answers `signInAgain`.
export const tabs = new BroadcastChannel('rescind')

/** Return the caller. A page always has a caller. */
export function currentCaller() {
  if (!caller) throw new TypeError('No one is signed in.')
  return caller
}

/** Return whether a person is signed in. */
export const isOpen = () => caller !== null

/**
 * Return whether the key has any of these scopes; `admin` includes all.
 * @param {...Api.Scope} scopes
 */
export const hasScope = (...scopes) =>
  currentCaller().scopes.some((/** @type {Api.Scope} */ scope) => scope === 'admin' || scopes.includes(scope))

/**
 * Sign in with an API key or the secret of a session. Throws `ApiError` if the service refuses it.
 * @param {string} secret
 */
export async function open(secret) {
  const headers = { Authorization: `Bearer ${secret}` }
  caller = /** @type {Api.Caller} */ (await get('/v1/whoami', { final: true, headers }))
  use(secret, caller.person_id ?? caller.session_id ?? caller.api_key_id)
  if (caller.session_id) sessionStorage.setItem(SESSION, secret)
  else sessionStorage.removeItem(SESSION)
  touch()
  // Only machine identities end like this, and e-mail addresses of people do not.
  const handle = /@([a-z0-9-]+)\.svc$/.exec(caller.identity)?.[1]
  if (handle) rememberTenant(handle)
}

function touch() {
  touched = Date.now()
  if (sessionStorage.getItem(SESSION)) sessionStorage.setItem(INPUT, String(touched))
}

/** Return the tenant for the offered providers, if known: from the address, or from the last attempt. */
export const tenant = () => new URLSearchParams(location.search).get('tenant') ?? localStorage.getItem(TENANT) ?? ''

/** @param {string} handle of a tenant */
export const rememberTenant = (handle) => localStorage.setItem(TENANT, handle)

/** Return the identity providers of the tenant. Throws `ApiError`. @returns {Promise<Provider[]>} */
export const offered = async () =>
  tenant() === '' ? [] : (await ask(`/v1/sign-in?tenant=${encodeURIComponent(tenant())}`)).identity_providers

/**
 * Return the secret of the session that the service grants for a code or a ticket. Throws `ApiError` if it refuses.
 * @param {'/v1/token' | '/v1/sign-in/code'} path
 * @param {Record<string, string>} form
 * @returns {Promise<string>}
 */
export const exchangeCredential = async (path, form) =>
  (await ask(path, { method: 'POST', body: new URLSearchParams(form) })).access_token

/**
 * Send a request without credentials. Throws `ApiError`.
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
  const message = body.error_description ?? body.error?.message ?? `The service responded with status ${answer.status}.`
  if (!answer.ok) throw new ApiError(answer.status, body.error?.code ?? body.error ?? 'unknown', message)
  return body
}

/** Sign in with the session that this tab stored. Returns whether the service accepted it. */
export async function restoreSession() {
  const secret = sessionStorage.getItem(SESSION)
  if (secret === null) {
    tabs.postMessage('who')
    return false
  }
  use(secret)
  // The tab was closed, or unloaded, for too long.
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

/** Forget the secret and all data that was read with it. */
function forget() {
  use(null)
  caller = null
  sessionStorage.removeItem(SESSION)
  sessionStorage.removeItem(INPUT)
  events.dispatchEvent(new Event('out'))
}

/**
 * Delete the session, if any, without waiting for a response.
 * @param {string | null} [ended] the secret of a session that has already ended
 */
function lock(ended = null) {
  const stored = sessionStorage.getItem(SESSION)
  leave(stored === ended ? null : CURRENT).catch(() => undefined)
  forget()
  return false
}

/**
 * Request a reauthentication. Returns whether the person is the same.
 * @param {string} code the reason of the service's refusal
 */
async function signInAgain(code) {
  const [before, stored] = [caller, sessionStorage.getItem(SESSION)]
  const fresh = code === TOO_OLD
  if (!before || (fresh && !before.person_id)) return false
  const why = before.session_id ? 'Your session is no longer valid' : 'Your API key is no longer valid'
  const [{ again }, providers] = await Promise.all([
    import('./sign_in.js'),
    before.person_id ? offered().catch(() => []) : [],
  ])
  const enter = async (/** @type {string} */ secret) => {
    await open(secret)
    // The data on the page, and its pending calls, belong to another person.
    if (!isSame(before, currentCaller())) events.dispatchEvent(new Event('out'))
    const instead = sessionStorage.getItem(SESSION)
    if (instead && isSame(before, currentCaller())) tabs.postMessage({ session: instead, instead: stored })
  }
  const handed = (/** @type {any} */ { again: given, session, instead, identity }) =>
    given ?? (session && ((stored && instead === stored) || identity === before.identity) ? session : null)
  const isIn = await again(
    providers,
    {
      fresh,
      withKey: !fresh,
      title: fresh ? 'Confirm your identity' : why,
      why: fresh
        ? 'This action needs a sign-in within the last 15 minutes. A new window opens, and your input is kept.'
        : 'Sign in again to continue. Your input is kept, unless another person signs in.',
    },
    enter,
    handed,
  )
  if (!isIn) {
    const detail = before.session_id ? '' : ' It was revoked or has expired.'
    if (!fresh) end(`${why}.${detail}`)
    return false
  }
  if (!isSame(before, currentCaller())) {
    notifyChange()
    return false
  }
  if (fresh) remove(`/v1/sessions/${before.session_id}`).catch(() => undefined)
  return true
}

/**
 * Return whether both callers are the same person.
 *
 * The session may differ. A key may belong to the same account, or replace the earlier key.
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
 * @param {string | null} [before] the secret of a session that has already ended
 */
function end(why, before = null) {
  if (!isOpen()) return
  lock(before)
  notifyEnd(why)
}

/** Send a session that began here to tabs with the sign-in form. */
export const tellTabs = () =>
  tabs.postMessage({ session: sessionStorage.getItem(SESSION), instead: null, identity: currentCaller().identity })

/** Pass a session to the tab that requested it, and close this window. @param {string} secret */
export function sendToOpener(secret) {
  tabs.postMessage({ again: secret })
  close()
}

/** Sign out in all tabs, and delete the session, if any. */
export async function signOut() {
  const ended = sessionStorage.getItem(SESSION)
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
 * Report the end of the session, and a change of the person.
 *
 * A session ends after 15 minutes without input in any tab, after a refused key, or if another tab signed out. The
 * person changes if another tab passes on its session, or if another person replaces a refused key.
 * @param {(why: string) => void} onEnd
 * @param {() => void} onChange
 */
export function onSessionChange(onEnd, onChange) {
  // Once for all waiting calls.
  renewBy((code) => (renewing ??= signInAgain(code).finally(() => (renewing = null))))
  notifyEnd = onEnd
  notifyChange = onChange
  const recordInput = () => {
    if (Date.now() - touched < 1000) return
    touch()
    tabs.postMessage('input')
  }
  for (const input of ['pointerdown', 'keydown', 'wheel']) addEventListener(input, recordInput, { passive: true })
  // The wall clock, because timers stop while a computer sleeps.
  const lockIfIdle = () => {
    if (!isIdle(touched) || !isOpen()) return
    const why = `Locked after ${LOCK_MINUTES} minutes without input.`
    tabs.postMessage({ why, ended: sessionStorage.getItem(SESSION) })
    end(why)
  }
  setInterval(lockIfIdle, 5000)
  document.addEventListener('visibilitychange', lockIfIdle)
  tabs.addEventListener('message', async ({ data }) => {
    const stored = sessionStorage.getItem(SESSION)
    if (data.why) end(data.why, data.ended)
    else if (data === 'input') touch()
    else if (data === 'who' && stored) tabs.postMessage({ session: stored, instead: null })
    else if (data.session && !renewing && data.instead === stored && isOpen() === (stored !== null)) {
      try {
        await open(data.session)
        if (!stored) notifyChange()
      } catch (error) {
        if (!(error instanceof ApiError)) throw error
      }
    }
  })
}
