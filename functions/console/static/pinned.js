/** The trust documents that a person's pin leads to, and what this browser remembers of them and of lists. */

import { call } from './api.js'
import { who } from './session.js'
import * as trust from './vendor/rescind-trust.js'

/** @typedef {import('./vendor/rescind-trust.js').SignedDocument} Document */
/** @typedef {import('./vendor/rescind-trust.js').Belief} Belief */
/** @typedef {{version: number, sha256: string, signer: string}} SeenList the key of its signer in base64 */
/** @typedef {{pin: string, held: Document, list: SeenList | null}} Remembered */
/** @typedef {Belief & {list: SeenList | null}} Believed with the newest list that was seen */

const name = () => `rescind.seen.${who().tenant_id}`

/**
 * What this browser remembers of the tenant; null if that is nothing, or cannot be read.
 * @returns {Remembered | null}
 */
export function remembered() {
  try {
    const { pin, document, list } = JSON.parse(localStorage.getItem(name()) ?? '')
    const [held] = trust.readDocuments(trust.utf8(document))
    return trust.isPin(pin) && held ? { pin, held, list: list ?? null } : null
  } catch {
    return null
  }
}

/** Forget what is remembered but cannot be read, such as the key of a list signer; whether there was such a thing. */
export function dropUnreadable() {
  if (remembered() || localStorage.getItem(name()) === null) return false
  forget()
  return true
}

export const forget = () => localStorage.removeItem(name())

/**
 * Remember the document that is held, and the newest list.
 * @param {Believed} believed
 */
export function remember({ pin, held, list }) {
  if (held) localStorage.setItem(name(), JSON.stringify({ pin, document: trust.writeDocument(held), list }))
}

/**
 * What is believed by a pin before the service is asked.
 * @param {string} pin
 * @returns {Believed}
 */
export function begun(pin) {
  const last = remembered()
  const belief = trust.pinned(who().tenant_id, pin)
  const { held } = last ? trust.resumeBelief(belief, last) : belief
  return { ...belief, held, list: held && last ? last.list : null }
}

/**
 * What is believed after the service was asked. Throws `Refused`, `NoEd25519`, `ApiError`.
 * @param {Believed} before
 * @param {AbortSignal} signal
 * @returns {Promise<Believed>}
 */
export async function followed(before, signal) {
  const { body } = await call('GET', '/v1/trust', undefined, {
    signal,
    query: { after: before.held?.version ?? 0 },
    raw: true,
  })
  return { ...before, ...(await trust.followed(before, trust.readDocuments(new Uint8Array(body)), Date.now())) }
}

/**
 * The newest list that was seen, unless the document no longer names its signer (TRUST-14): whatever
 * version a thief of that key made, the genuine lists go on.
 * @param {Document} held
 * @param {SeenList | null} list
 */
export const seen = (held, list) =>
  list && trust.findKeys(held, 'lists').some((key) => trust.toBase64(key) === list.signer) ? list : null
