/** Trust documents that follow from a person's pin, and the SRLs and documents that this browser remembers. */

import { call } from './api.js'
import { currentCaller } from './session.js'
import * as trust from './vendor/rescind-trust.js'

/** @typedef {import('./vendor/rescind-trust.js').SignedDocument} Document */
/** @typedef {import('./vendor/rescind-trust.js').Belief} Belief */
/** @typedef {{version: number, sha256: string, signer: string}} SeenList the key of its signer in base64 */
/** @typedef {{pin: string, held: Document, list: SeenList | null}} Remembered */
/** @typedef {Belief & {list: SeenList | null}} Believed with the newest SRL that was seen */

const name = () => `rescind.seen.${currentCaller().tenant_id}`

/**
 * Return the stored state of the tenant; null if it is missing or unreadable.
 * @returns {Remembered | null}
 */
export function readRemembered() {
  try {
    const { pin, document, list } = JSON.parse(localStorage.getItem(name()) ?? '')
    const [held] = trust.readDocuments(trust.utf8(document))
    return trust.isPin(pin) && held ? { pin, held, list: list ?? null } : null
  } catch {
    return null
  }
}

/** Delete an unreadable stored state, for example the key of an SRL signer. Returns whether there was any. */
export function dropUnreadable() {
  if (readRemembered() || localStorage.getItem(name()) === null) return false
  forget()
  return true
}

export const forget = () => localStorage.removeItem(name())

/**
 * Store the verified document and the newest SRL.
 * @param {Believed} believed
 */
export function remember({ pin, held, list }) {
  if (held) localStorage.setItem(name(), JSON.stringify({ pin, document: trust.writeDocument(held), list }))
}

/**
 * Return the trust state for a pin before a request to the service.
 * @param {string} pin
 * @returns {Believed}
 */
export function resumeTrust(pin) {
  const last = readRemembered()
  const belief = trust.pinned(currentCaller().tenant_id, pin)
  const { held } = last ? trust.resumeBelief(belief, last) : belief
  return { ...belief, held, list: held && last ? last.list : null }
}

/**
 * Return the trust state after a request to the service. Throws `Refused`, `NoEd25519`, `ApiError`.
 * @param {Believed} before
 * @param {AbortSignal} signal
 * @returns {Promise<Believed>}
 */
export async function updateTrust(before, signal) {
  const { body } = await call('GET', '/v1/trust', undefined, {
    signal,
    query: { after: before.held?.version ?? 0 },
    raw: true,
  })
  return { ...before, ...(await trust.followed(before, trust.readDocuments(new Uint8Array(body)), Date.now())) }
}

/**
 * Return the newest SRL that was seen, unless the document no longer names its signer (TRUST-14).
 *
 * A thief of that key may have published any version, and the genuine SRLs continue below it.
 * @param {Document} held
 * @param {SeenList | null} list
 */
export const lastSeenList = (held, list) =>
  list && trust.findKeys(held, 'lists').some((key) => trust.toBase64(key) === list.signer) ? list : null
