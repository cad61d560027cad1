/**
 * Checks the transparency log of audit entries (docs/spec/sealed-log.md) in the browser.
 *
 * It verifies the signature of the checkpoint with keys that the person trusts, the hash of every leaf, and the
 * entries.
 */

import { hex } from './format.js'
import { ulid } from './ulid.js'
import { fromBase64, hash, isSafe, isSigned, toBase64, utf8 } from './vendor/rescind-trust.js'

const RECORD_BYTES = 56
/** First bytes of the hash input for a leaf and for a node (RFC 6962). */
const [LEAF, NODE] = [Uint8Array.of(0), Uint8Array.of(1)]

/** The log is damaged. The message is a sentence. */
export class CorruptLog extends Error {}

/** The verifier key cannot be used for this log. */
export class WrongKey extends Error {}

/**
 * @typedef {object} Checkpoint
 * @property {string} origin
 * @property {number} size
 * @property {string} root
 * @property {string} text
 * @property {{name: string, signature: Uint8Array<ArrayBuffer>}[]} signatures
 */
/**
 * @typedef {object} Leaf of an appended entry: its ULID, the end of its retention in seconds, the hash of its line
 * @property {string} entry
 * @property {number} expires
 * @property {string} sha256
 */

/**
 * Read a signed note of three lines. Throws `CorruptLog`.
 * @param {string} note
 * @returns {Checkpoint}
 */
export function checkpoint(note) {
  const end = note.lastIndexOf('\n\n')
  const text = note.slice(0, end + 1)
  const [origin = '', size = '', root = '', ...rest] = text.split('\n')
  const lines = note
    .slice(end + 2)
    .trimEnd()
    .split('\n')
  if (end < 0 || !/^\d+$/.test(size) || rest.join('') !== '') throw new CorruptLog('The checkpoint is malformed.')
  const signatures = lines.map((line) => {
    const [, name, value] = /^— (\S+) (\S+)$/.exec(line) ?? []
    const data = fromBase64(value)
    if (!name || !data) throw new CorruptLog('The checkpoint is malformed.')
    return { name, signature: data.slice(4) }
  })
  return { origin, size: Number(size), root, text, signatures }
}

/**
 * Return whether any of these keys (32 bytes each) signed a checkpoint. Throws `NoEd25519`.
 * @param {Checkpoint} checkpoint
 * @param {Uint8Array<ArrayBuffer>[]} keys
 */
export async function isSignedBy({ origin, text, signatures }, keys) {
  for (const { name, signature } of signatures) {
    for (const key of keys) if (name === origin && (await isSigned(utf8(text), signature, key))) return true
  }
  return false
}

/**
 * Return the public key (32 bytes) in a verifier key, `name+hash+base64`.
 *
 * Throws `WrongKey` if it has another form, or belongs to another log.
 * @param {string} verifierKey
 * @param {string} origin of the log
 */
export function keyOf(verifierKey, origin) {
  const [, name = '', id, encoded] = /^(\S+)\+([0-9a-f]{8})\+(\S+)$/.exec(verifierKey) ?? []
  const typed = fromBase64(encoded)
  const named = typed && hex(hash(utf8(`${name}\n`), typed)).slice(0, 8)
  if (typed?.[0] !== 1 || !isSafe(typed.subarray(1)) || named !== id)
    throw new WrongKey(
      'This is neither a pin (64 hexadecimal digits) nor a verifier key (rescind/…+47a6b6f2+AclzsyU2…).',
    )
  if (name !== origin) throw new WrongKey(`This key belongs to another log: ${name}.`)
  return typed.slice(1)
}

/**
 * Split a bundle into records: each follows its length in two bytes. Throws `CorruptLog`.
 * @param {Uint8Array<ArrayBuffer>} bundle
 * @returns {Uint8Array<ArrayBuffer>[]}
 */
export function records(bundle) {
  const list = []
  for (let at = 0; at < bundle.length; at += 2 + RECORD_BYTES) {
    if (bundle[at] !== 0 || bundle[at + 1] !== RECORD_BYTES || at + 2 + RECORD_BYTES > bundle.length)
      throw new CorruptLog('A bundle of the log is malformed.')
    list.push(bundle.slice(at + 2, at + 2 + RECORD_BYTES))
  }
  return list
}

/**
 * Return the content that a record commits to.
 * @param {Uint8Array} record
 * @returns {Leaf}
 */
export function leaf(record) {
  const expires = record.subarray(16, 24).reduce((sum, byte) => sum * 256 + byte, 0)
  return { entry: ulid(record.subarray(0, 16)), expires, sha256: hex(record.subarray(24)) }
}

/** The tree of RFC 6962, built leaf by leaf. It stores the roots of its full subtrees, largest first. */
export class Tree {
  /** @type {{size: number, hash: Uint8Array<ArrayBuffer>}[]} */
  #subtrees = []
  size = 0

  /** @param {Uint8Array<ArrayBuffer>} record */
  add(record) {
    let subtree = { size: 1, hash: hash(LEAF, record) }
    for (let last = this.#subtrees.at(-1); last?.size === subtree.size; last = this.#subtrees.at(-1)) {
      this.#subtrees.pop()
      subtree = { size: 2 * subtree.size, hash: hash(NODE, last.hash, subtree.hash) }
    }
    this.#subtrees.push(subtree)
    this.size++
  }

  /** Return the root hash, in base64. */
  root() {
    const [last = hash(), ...rest] = this.#subtrees.map((each) => each.hash).reverse()
    return toBase64(rest.reduce((root, each) => hash(NODE, each, root), last))
  }
}

/**
 * Return the path of the bundle with the leaves from `first` on, up to the size of the log.
 * @param {number} first a multiple of 256
 * @param {number} size of the log
 */
export function bundlePath(first, size) {
  const number = first / 256
  const groups = [number % 1000]
  for (let rest = Math.floor(number / 1000); rest > 0; rest = Math.floor(rest / 1000)) groups.unshift(rest % 1000)
  const name = groups
    .map((group, place) => `${place < groups.length - 1 ? 'x' : ''}${String(group).padStart(3, '0')}`)
    .join('/')
  const width = Math.min(256, size - first)
  return `/v1/audit-logs/tile/entries/${name}${width < 256 ? `.p/${width}` : ''}`
}

/**
 * Return the identifier and the SHA-256 of an entry in a line of an export, `{"entry":…}`; null for other lines.
 * @param {string} line
 */
export function entryOf(line) {
  const text = /^\{"entry":(.*)\}$/s.exec(line)?.[1]
  if (text === undefined) return null
  return { id: String(JSON.parse(text).id), sha256: hex(hash(utf8(text))) }
}
