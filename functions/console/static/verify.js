/**
 * Checks a list with a public key that the person got by another way (docs/spec: VERIFY-1). It asks
 * nobody, and knows no document. Statements about signers are not followed: the key is the pin.
 */

import { hex } from './format.js'

/** @typedef {'key' | 'form' | 'signature' | 'members' | 'shown' | 'order' | 'times' | 'expired' | 'version'} Check */
/** @typedef {{version: number, issuedAt: number, expiresAt: number, ids: string[], size: number, sha256: string}} Content times in milliseconds, size of what is signed in bytes */
/** @typedef {{version: number, sha256: string}} Seen the newest list that was accepted */

/** In the order in which they are made; the first that fails ends it. @type {Check[]} */
export const CHECKS = ['key', 'form', 'signature', 'members', 'shown', 'order', 'times', 'expired', 'version']

const DAY = 86_400_000
const AHEAD = 300_000
const VERSION_MAX = 999_999_999_999
const DEPTH = 2
const MEMBERS = ['Version', 'IssuedAt', 'ExpiresAt', 'RevokedIDs']
const WARRANT = /^svc_wrt_[A-Za-z0-9_-]{1,64}$/
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/

/** A check that failed. */
export class Refused extends Error {
  /**
   * @param {Check} check
   * @param {string} message a sentence
   */
  constructor(check, message) {
    super(message)
    this.check = check
  }
}

/** Ed25519 cannot be checked by this browser, or not at this address. */
export class NoEd25519 extends Error {}

/**
 * @param {unknown} holds
 * @param {Check} check
 * @param {string} message
 * @returns {asserts holds}
 */
function need(holds, check, message) {
  if (!holds) throw new Refused(check, message)
}

/**
 * The content of a list that passes each check. Throws `Refused`, or `NoEd25519`.
 * @param {any} answer of the service, as it was parsed
 * @param {string} pin 32 bytes in base64
 * @param {number} now in milliseconds
 * @param {Seen | null} [seen]
 * @returns {Promise<Content>}
 */
export async function verify(answer, pin, now, seen = null) {
  const key = await publicKey(pin)
  need(isObject(answer, 'payload', 'srl') && isObject(answer.srl, 'Payload', 'Signature'), 'form', 'This is not an answer with a list.')
  const signed = base64(answer.srl.Payload)
  const signature = base64(answer.srl.Signature)
  need(signed && signature, 'form', 'What is signed is not in base64.')
  need(await crypto.subtle.verify('Ed25519', key, signature, signed), 'signature', 'The key you gave did not sign this list, or the list was changed.')
  const members = decode(signed)
  const content = { ...read(members), size: signed.length, sha256: await sha256(signed) }
  need(isShown(answer.payload, members), 'shown', 'The readable part of the answer differs from what was signed.')
  checkContent(content, now, seen)
  return content
}

/**
 * @param {Content} content
 * @param {number} now
 * @param {Seen | null} seen
 */
function checkContent({ ids, version, issuedAt, expiresAt, sha256 }, now, seen) {
  need(ids.every((id, index) => index === 0 || ids[index - 1] < id), 'order', 'The warrants are not sorted, or one is named twice.')
  need(issuedAt < expiresAt && expiresAt - issuedAt <= 7 * DAY, 'times', 'It ends before it was issued, or more than 7 days after.')
  need(issuedAt - now <= AHEAD, 'times', 'It was issued more than 5 minutes after now.')
  need(now < expiresAt, 'expired', 'Its end has passed: an authorizer refuses everything.')
  need(version <= VERSION_MAX, 'version', 'Its version is so high that no list could follow it.')
  need(!seen || version >= seen.version, 'version', `You have seen list ${seen?.version} here. An older one must not come back.`)
  need(!seen || version !== seen.version || sha256 === seen.sha256, 'version', `You have seen another list ${version} here. Two lists of one version are never right.`)
}

/**
 * @param {string} pin
 * @returns {Promise<CryptoKey>}
 */
async function publicKey(pin) {
  const bytes = base64(pin)
  need(bytes?.length === 32, 'key', 'A public key is 32 bytes in base64: 44 characters that end with “=”.')
  need(!isWeak(bytes), 'key', 'Anybody could sign for this key: it is a point of small order.')
  return ed25519(bytes)
}

/**
 * A public key to verify with. Throws `NoEd25519`, also if these are not 32 bytes.
 * @param {Uint8Array<ArrayBuffer>} bytes
 * @returns {Promise<CryptoKey>}
 */
export async function ed25519(bytes) {
  try {
    return await crypto.subtle.importKey('raw', bytes, 'Ed25519', false, ['verify'])
  } catch {
    throw new NoEd25519('This browser cannot check Ed25519 here.')
  }
}

const P = 2n ** 255n - 19n
const Y8 = 2707385501144840649318225287225658788936804267575313519463743609750303402022n
const WEAK = new Set([0n, 1n, P - 1n, Y8, P - Y8])

/** @param {Uint8Array} key */
const isWeak = (key) => WEAK.has(([...key].reduceRight((sum, byte) => sum * 256n + BigInt(byte), 0n) & (2n ** 255n - 1n)) % P)

/**
 * The bytes of padded base64 of the standard alphabet, of which each text has one spelling; else null.
 * @param {unknown} text
 * @returns {Uint8Array<ArrayBuffer> | null}
 */
export function base64(text) {
  if (typeof text !== 'string') return null
  try {
    const bytes = atob(text)
    return btoa(bytes) === text ? Uint8Array.from(bytes, (letter) => letter.charCodeAt(0)) : null
  } catch {
    return null
  }
}

/** @param {Uint8Array<ArrayBuffer>} bytes */
async function sha256(bytes) {
  return hex(new Uint8Array(await crypto.subtle.digest('SHA-256', bytes)))
}

/**
 * Whether a value is an object with exactly these members.
 * @param {unknown} value
 * @param {...string} names
 */
function isObject(value, ...names) {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  return Object.keys(value).length === names.length && names.every((name) => Object.hasOwn(value, name))
}

/**
 * @param {unknown} members
 * @returns {Pick<Content, 'version' | 'issuedAt' | 'expiresAt' | 'ids'>}
 */
function read(members) {
  const values = members instanceof Map && members.size === MEMBERS.length ? MEMBERS.map((name) => members.get(name)) : []
  const [version, issuedAt, expiresAt, ids] = values
  need(typeof version === 'number' && version >= 1, 'members', 'It has no version.')
  need(Array.isArray(ids) && ids.every((id) => typeof id === 'string' && WARRANT.test(id)), 'members', 'It names something that is no warrant.')
  return { version, issuedAt: moment(issuedAt), expiresAt: moment(expiresAt), ids }
}

/** @param {unknown} text */
function moment(text) {
  const time = typeof text === 'string' && TIME.test(text) ? new Date(text) : new Date(NaN)
  need(!Number.isNaN(time.getTime()) && time.toISOString().replace('.000Z', 'Z') === text, 'members', 'One of its times is no time.')
  return time.getTime()
}

/**
 * @param {unknown} shown
 * @param {unknown} signed of which `read` has seen that it is a map
 */
function isShown(shown, signed) {
  if (!isObject(shown, ...MEMBERS)) return false
  const { RevokedIDs, ...others } = /** @type {Record<string, any>} */ (shown)
  const { RevokedIDs: ids, ...rest } = Object.fromEntries(/** @type {Map<string, any>} */ (signed))
  if (!Array.isArray(RevokedIDs) || RevokedIDs.length !== ids.length) return false
  return Object.entries(rest).every(([name, value]) => others[name] === value) && ids.every((/** @type {string} */ id, /** @type {number} */ index) => RevokedIDs[index] === id)
}

/**
 * A value from CBOR in deterministic encoding (RFC 8949, 4.2.1), of those kinds that lists use:
 * unsigned integers, texts, arrays and maps with texts as keys, which become a `Map`. Throws `Refused`.
 * @param {Uint8Array} data
 * @returns {number | string | unknown[] | Map<string, unknown>}
 */
function decode(data) {
  let at = 0
  const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  const check = (/** @type {boolean} */ holds) => need(holds, 'members', 'What is signed is not encoded as lists are.')
  const argument = (/** @type {number} */ short) => {
    if (short < 24) return short
    const size = 2 ** (short - 24)
    check(size <= Math.min(8, data.length - at))
    const value = data.subarray(at, at += size).reduce((sum, byte) => sum * 256 + byte, 0)
    // A shorter head would have done.
    check(value >= (size === 1 ? 24 : 2 ** (4 * size)))
    return value
  }
  const text = (/** @type {number} */ size) => {
    check(size <= data.length - at)
    try {
      return utf8.decode(data.subarray(at, at += size))
    } catch {
      throw new Refused('members', 'A text in it is not UTF-8.')
    }
  }
  const map = (/** @type {number} */ size, /** @type {number} */ depth) => {
    const members = new Map()
    /** @type {Uint8Array} */
    let last = new Uint8Array()
    for (; size > 0; size--) {
      const start = at
      const name = item(depth)
      const key = data.subarray(start, at)
      check(typeof name === 'string' && isBefore(last, key))
      members.set(name, item(depth))
      last = key
    }
    return members
  }
  /** @type {(depth: number) => any} */
  const item = (depth) => {
    check(at < data.length && depth <= DEPTH)
    const head = data[at++]
    const size = argument(head & 31)
    if (head >> 5 === 0) return size
    if (head >> 5 === 3) return text(size)
    // An element has at least a byte: no enormous array is made for a short text.
    check((head >> 5 === 4 || head >> 5 === 5) && size <= data.length - at)
    return head >> 5 === 5 ? map(size, depth + 1) : Array.from({ length: size }, () => item(depth + 1))
  }
  const value = item(0)
  check(at === data.length)
  return value
}

/**
 * Whether bytes come before others, bytewise.
 * @param {Uint8Array} one
 * @param {Uint8Array} other
 */
function isBefore(one, other) {
  const differs = one.findIndex((byte, index) => byte !== other[index])
  return differs < 0 ? one.length < other.length : one[differs] < other[differs]
}
