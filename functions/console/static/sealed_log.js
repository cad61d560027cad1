/**
 * Checks the sealed log of audit entries (docs/spec/sealed-log.md) in the browser: the signature of
 * its checkpoint against a key that the person has, the hash of every leaf, and the entries.
 */

import { hex } from './format.js'
import { ulid } from './ulid.js'
import { base64, ed25519 } from './verify.js'

const RECORD_BYTES = 56

/** What is wrong with the log, in a sentence. */
export class Broken extends Error {}

/** The verifier key cannot be used for this log. */
export class WrongKey extends Error {}

/** @typedef {{origin: string, size: number, root: string, text: string, signatures: {name: string, hash: string, signature: Uint8Array}[]}} Checkpoint */
/** @typedef {{entry: string, expires: number, sha256: string}} Leaf of a sealed entry: its ULID, the end of its retention in seconds, the hash of its line */

/** @param {Uint8Array<ArrayBuffer>} data */
const sha256 = async (data) => new Uint8Array(await crypto.subtle.digest('SHA-256', data))

/**
 * Read a signed note of three lines. Throws `Broken`.
 * @param {string} note
 * @returns {Checkpoint}
 */
export function checkpoint(note) {
  const end = note.lastIndexOf('\n\n')
  const text = note.slice(0, end + 1)
  const [origin = '', size = '', root = '', ...rest] = text.split('\n')
  const lines = note.slice(end + 2).trimEnd().split('\n')
  if (end < 0 || !/^\d+$/.test(size) || rest.join('') !== '') throw new Broken('The checkpoint has another form.')
  const signatures = lines.map((line) => {
    const [, name, value] = /^— (\S+) (\S+)$/.exec(line) ?? []
    const data = base64(value)
    if (!name || !data) throw new Broken('The checkpoint has another form.')
    return { name, hash: hex(data.subarray(0, 4)), signature: data.slice(4) }
  })
  return { origin, size: Number(size), root, text, signatures }
}

/**
 * Whether the owner of a verifier key (`name+hash+base64`) signed a checkpoint. Throws `WrongKey` if
 * the key has another form or does not belong to this log.
 * @param {Checkpoint} signed
 * @param {string} verifierKey
 */
export async function isSigned(signed, verifierKey) {
  const [, name, hash, encoded] = /^(\S+)\+([0-9a-f]{8})\+(\S+)$/.exec(verifierKey.trim()) ?? []
  if (!name || !hash || !encoded) throw new WrongKey('This is no verifier key. It looks like rescind/…+47a6b6f2+AclzsyU2….')
  if (name !== signed.origin) throw new WrongKey(`This key is of another log: ${name}.`)
  const key = await publicKey(encoded)
  const mine = signed.signatures.find((each) => each.name === name && each.hash === hash)
  if (!mine) return false
  return crypto.subtle.verify('Ed25519', key, new Uint8Array(mine.signature), new TextEncoder().encode(signed.text))
}

/**
 * The Ed25519 key after the byte that says so. Throws `WrongKey`, also if the browser knows no Ed25519.
 * @param {string} encoded
 */
async function publicKey(encoded) {
  try {
    return await ed25519(/** @type {Uint8Array<ArrayBuffer>} */ (base64(encoded)).slice(1))
  } catch {
    throw new WrongKey('This is no key of Ed25519, or this browser cannot check Ed25519: it needs a secure address and a browser of 2025.')
  }
}

/**
 * The records of a bundle: each after its length in two bytes. Throws `Broken`.
 * @param {Uint8Array<ArrayBuffer>} bundle
 * @returns {Uint8Array<ArrayBuffer>[]}
 */
export function records(bundle) {
  const found = []
  for (let at = 0; at < bundle.length; at += 2 + RECORD_BYTES) {
    if (bundle[at] !== 0 || bundle[at + 1] !== RECORD_BYTES || at + 2 + RECORD_BYTES > bundle.length) throw new Broken('A bundle of the log has another form.')
    found.push(bundle.slice(at + 2, at + 2 + RECORD_BYTES))
  }
  return found
}

/**
 * What a record commits to.
 * @param {Uint8Array} record
 * @returns {Leaf}
 */
export function leaf(record) {
  const expires = record.subarray(16, 24).reduce((sum, byte) => sum * 256 + byte, 0)
  return { entry: ulid(record.subarray(0, 16)), expires, sha256: hex(record.subarray(24)) }
}

/** The tree of RFC 6962 over leaves that come one by one: the roots of its full subtrees, largest first. */
export class Tree {
  /** @type {{size: number, hash: Uint8Array<ArrayBuffer>}[]} */
  #subtrees = []

  /** @param {Uint8Array<ArrayBuffer>} record */
  async add(record) {
    let subtree = { size: 1, hash: await sha256(prefixed(0, record)) }
    for (let last = this.#subtrees.at(-1); last?.size === subtree.size; last = this.#subtrees.at(-1)) {
      this.#subtrees.pop()
      subtree = { size: 2 * subtree.size, hash: await sha256(prefixed(1, last.hash, subtree.hash)) }
    }
    this.#subtrees.push(subtree)
  }

  /** The hash of all leaves, in base64. */
  async root() {
    const [last, ...rest] = this.#subtrees.map(({ hash }) => hash).reverse()
    let root = last ?? await sha256(new Uint8Array())
    for (const hash of rest) root = await sha256(prefixed(1, hash, root))
    return btoa(String.fromCharCode(...root))
  }
}

/**
 * @param {number} prefix
 * @param {...Uint8Array} parts
 */
function prefixed(prefix, ...parts) {
  const data = new Uint8Array(1 + parts.reduce((sum, part) => sum + part.length, 0))
  data[0] = prefix
  let at = 1
  for (const part of parts) {
    data.set(part, at)
    at += part.length
  }
  return data
}

/**
 * The path of the bundle with the leaves from `first` on, as far as the log goes.
 * @param {number} first a multiple of 256
 * @param {number} size of the log
 */
export function bundlePath(first, size) {
  const number = first / 256
  const groups = [number % 1000]
  for (let rest = Math.floor(number / 1000); rest > 0; rest = Math.floor(rest / 1000)) groups.unshift(rest % 1000)
  const name = groups.map((group, place) => `${place < groups.length - 1 ? 'x' : ''}${String(group).padStart(3, '0')}`).join('/')
  const width = Math.min(256, size - first)
  return `/v1/audit-logs/tile/entries/${name}${width < 256 ? `.p/${width}` : ''}`
}

/**
 * The identifier and the SHA-256 of an entry in a line of an export, `{"entry":…}`; null of other lines.
 * @param {string} line
 */
export async function exported(line) {
  const text = /^\{"entry":(.*)\}$/s.exec(line)?.[1]
  if (text === undefined) return null
  return { id: String(JSON.parse(text).id), sha256: hex(await sha256(new TextEncoder().encode(text))) }
}
