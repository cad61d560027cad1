/**
 * Decides which trust documents are believed (docs/spec: TRUST-6 to TRUST-13), by a pin that the person
 * got by another way. It asks nobody; time and bytes are arguments.
 */

import { base64, isBefore, joined, sha256, text, toBase64 } from './bytes.js'
import { decode, moment, NotCbor } from './cbor.js'
import { isSafe, isSigned } from './ed25519.js'
import { hex } from './format.js'

/** @typedef {import('./bytes.js').Bytes} Bytes */
/**
 * @typedef {'too_large' | 'malformed' | 'tenant' | 'root' | 'equivocation' | 'rollback' | 'lifetime' |
 *   'future' | 'trust_expired'} Reason
 */
/** @typedef {{Payload: string, Signatures: {Key: string, Signature: string}[]}} Form a document as the API has it */
/** @typedef {{keys: Bytes[], threshold: number}} Roots */
/**
 * @typedef {object} Log the checkpoint of the sealed log that a document names, its root in base64
 * @property {string} origin
 * @property {number} size
 * @property {string} root
 */
/**
 * @typedef {object} Content times in milliseconds
 * @property {string} tenant
 * @property {number} version
 * @property {number} issuedAt
 * @property {number} expiresAt
 * @property {Roots} roots
 * @property {{key: Bytes, uses: string[]}[]} signers
 * @property {Log | null} log
 */
/** @typedef {Content & {form: Form, payload: Bytes}} Document none of its signatures is verified */
/**
 * @typedef {object} State what is believed: the roots of the held document, or those of the pin
 * before it
 * @property {string} tenant
 * @property {string} pin
 * @property {Document | null} held
 */

const DAY = 86_400_000
const LIFETIME = 400 * DAY
const AHEAD = 30_000
const ANSWER_BYTES = 6 * 2 ** 20
const DOCUMENT_BYTES = 65_536
const DOCUMENTS = 64
const SIGNATURES = 16
const ROOTS = 8
const SIGNERS = 256

/** Documents that must not be believed. What was believed before stays. */
export class NotTrusted extends Error {
  /** @param {Reason} reason */
  constructor(reason) {
    super(reason)
    this.reason = reason
  }
}

/**
 * @param {unknown} holds
 * @param {Reason} [reason]
 * @returns {asserts holds}
 */
function need(holds, reason = 'malformed') {
  if (!holds) throw new NotTrusted(reason)
}

/** @param {string} pin */
export const isPin = (pin) => /^[0-9a-f]{64}$/.test(pin)

/**
 * The state after an answer of `GET /v1/trust`; the same one if it has no news. Throws `NotTrusted`, and
 * then nothing of the answer counts; `NoEd25519`.
 * @param {State} state
 * @param {Bytes} answer
 * @param {number} now in milliseconds
 * @returns {Promise<State>}
 */
export async function follow(state, answer, now) {
  const documents = read(answer)
  need(
    documents.every(({ tenant }) => tenant === state.tenant),
    'tenant',
  )
  if (!documents.length) return state
  let { held } = state
  for (const each of documents) held = await after(held, each, state.pin)
  need(held, 'root')
  need(documents[documents.length - 1].version >= held.version, 'rollback')
  if (held === state.held) return state
  need(held.issuedAt < held.expiresAt && held.expiresAt - held.issuedAt <= LIFETIME, 'lifetime')
  need(held.issuedAt - now <= AHEAD, 'future')
  return { ...state, held }
}

/**
 * What is held after the next document of an answer.
 * @param {Document | null} held
 * @param {Document} next
 * @param {string} pin
 * @returns {Promise<Document | null>}
 */
async function after(held, next, pin) {
  if (!held) return (await pinOf(next.roots)) === pin ? signed(next, next.roots) : null
  if (next.version < held.version || next.form.Payload === held.form.Payload) return held
  await signed(next, held.roots)
  need(next.version > held.version, 'equivocation')
  return signed(next, next.roots)
}

/**
 * The document, if as many of these roots signed it as have to.
 * @param {Document} document
 * @param {Roots} roots
 */
async function signed(document, { keys, threshold }) {
  const data = joined('rescind-trust-v1\n', await sha256(document.payload))
  const signatures = new Map(document.form.Signatures.map(({ Key, Signature }) => [Key, base64(Signature)]))
  let left = threshold
  for (const key of keys) {
    const signature = signatures.get(toBase64(key))
    if (left && signature && (await isSigned(data, signature, key))) left--
  }
  need(left === 0, 'root')
  return document
}

/**
 * The pin of roots: 64 hexadecimal digits.
 * @param {Roots} roots
 */
export async function pinOf({ keys, threshold }) {
  // The CBOR of a map with a short array of keys, and a small number.
  const members = [
    [0xa2, 0x64],
    'Keys',
    [0x80 + keys.length],
    ...keys.flatMap((key) => [[0x58, 32], key]),
    [0x69],
    'Threshold',
    [threshold],
  ]
  return hex(await sha256(joined('rescind-roots-v1\n', ...members)))
}

/**
 * The keys that a document names for a use.
 * @param {Document} held
 * @param {string} use
 */
export const named = ({ signers }, use) => signers.filter(({ uses }) => uses.includes(use)).map(({ key }) => key)

/**
 * The same, unless the document has expired: then throws `NotTrusted`.
 * @param {Document} held
 * @param {string} use
 * @param {number} now in milliseconds
 */
export function believed(held, use, now) {
  need(now < held.expiresAt, 'trust_expired')
  return named(held, use)
}

/**
 * @param {Bytes} answer
 * @returns {Document[]}
 */
function read(answer) {
  need(answer.length <= ANSWER_BYTES, 'too_large')
  const { documents } = json(answer) ?? {}
  need(Array.isArray(documents))
  const given = documents.map(formOf)
  need(given.length <= DOCUMENTS, 'too_large')
  return given.map(opened)
}

/** @param {Bytes} data */
function json(data) {
  try {
    return JSON.parse(text(data))
  } catch {
    throw new NotTrusted('malformed')
  }
}

/**
 * @param {any} given
 * @returns {Form}
 */
function formOf(given) {
  const { Payload, Signatures } = given ?? {}
  need(base64(Payload) && Array.isArray(Signatures))
  const signatures = Signatures.map((each) => {
    const { Key, Signature } = each ?? {}
    need(base64(Key) && base64(Signature))
    return { Key, Signature }
  })
  need(new Set(signatures.map(({ Key }) => Key)).size === signatures.length)
  return { Payload, Signatures: signatures }
}

/**
 * The document in a form that is base64. Throws `NotTrusted`.
 * @param {Form} form
 * @returns {Document}
 */
export function opened(form) {
  const payload = base64(form.Payload)
  need(payload)
  need(payload.length <= DOCUMENT_BYTES && form.Signatures.length <= SIGNATURES, 'too_large')
  return { ...contentOf(payload), form, payload }
}

/**
 * @param {Bytes} payload
 * @returns {Content}
 */
function contentOf(payload) {
  const members = decoded(payload)
  const feed = members.map('Feed')
  feed.number('Sequence')
  feed.digest('Chain')
  if (members.has('Witnesses')) checkWitnesses(members.map('Witnesses'))
  if (members.has('SigningKeys')) members.digest('SigningKeys')
  const content = {
    tenant: members.string('Tenant'),
    version: members.number('Version'),
    issuedAt: members.time('IssuedAt'),
    expiresAt: members.time('ExpiresAt'),
    roots: rootsOf(members.map('Roots')),
    signers: members.list('Signers').map((each) => signerOf(new Members(each))),
    log: members.has('Log') ? logOf(members.map('Log')) : null,
  }
  need(content.version >= 1 && content.signers.length <= SIGNERS)
  need(isRising(content.signers.map(({ key }) => key)))
  const roots = content.roots.keys.map(hex)
  // A root signs nothing but documents.
  need(!content.signers.some(({ key }) => roots.includes(hex(key))))
  return content
}

/** @param {Bytes} payload */
function decoded(payload) {
  try {
    return new Members(decode(payload))
  } catch (error) {
    if (error instanceof NotCbor) throw new NotTrusted('malformed')
    throw error
  }
}

/**
 * @param {Members} members
 * @returns {Roots}
 */
function rootsOf(members) {
  const keys = members.list('Keys').map(key)
  const threshold = members.number('Threshold')
  need(threshold >= 1 && threshold <= keys.length && keys.length <= ROOTS && isRising(keys))
  // A member that changes what the roots mean must not be passed over.
  need(members.size === 2)
  return { keys, threshold }
}

/** @param {Members} members */
function signerOf(members) {
  const uses = members.strings('Uses')
  need(uses.length)
  return { key: key(members.get('Key')), uses }
}

/** @param {Members} log @returns {Log} */
const logOf = (log) => ({
  origin: log.string('Origin'),
  size: log.number('Size'),
  root: toBase64(log.digest('Root')),
})

/** @param {Members} witnesses */
function checkWitnesses(witnesses) {
  need(witnesses.number('Quorum') <= witnesses.strings('Keys').length)
}

/** A map of a document, whose members are read as what they have to be. Throws `NotTrusted`. */
class Members extends Map {
  /** @param {unknown} value */
  constructor(value) {
    need(value instanceof Map)
    super(value)
  }

  /** @param {string} name */
  map(name) {
    return new Members(this.get(name))
  }

  /** @param {string} name @returns {unknown[]} */
  list(name) {
    const value = this.get(name)
    need(Array.isArray(value))
    return value
  }

  /** @param {string} name */
  string(name) {
    return string(this.get(name))
  }

  /** Texts that are sorted by their UTF-8, each once. @param {string} name */
  strings(name) {
    const values = this.list(name).map(string)
    need(isRising(values.map((value) => joined(value))))
    return values
  }

  /** A number from 0 to 2^53: a larger one is a `bigint`. @param {string} name */
  number(name) {
    const value = this.get(name)
    need(typeof value === 'number' && value >= 0)
    return value
  }

  /** @param {string} name */
  digest(name) {
    const value = this.get(name)
    need(value instanceof Uint8Array && value.length === 32)
    return value
  }

  /** @param {string} name */
  time(name) {
    const value = moment(this.get(name))
    need(value !== null)
    return value
  }
}

/** @param {unknown} value */
function string(value) {
  need(typeof value === 'string')
  return value
}

/** @param {unknown} value */
function key(value) {
  need(value instanceof Uint8Array && isSafe(value))
  return /** @type {Bytes} */ (value)
}

/** @param {Uint8Array[]} values */
const isRising = (values) => values.every((value, index) => index === 0 || isBefore(values[index - 1], value))
