/**
 * Checks an SRL with the keys that a trust document names (docs/spec: VERIFY-1).
 *
 * It makes no request and does not access the DOM.
 */

import { hex } from './format.js'
import {
  areWarrantIds,
  decode,
  fromBase64,
  hash,
  isSigned,
  Malformed,
  moment,
  texts,
  toBase64,
} from './vendor/rescind-trust.js'

/** @typedef {import('./vendor/rescind-trust.js').Bytes} Bytes */
/** @typedef {'form' | 'signature' | 'members' | 'shown' | 'order' | 'times' | 'expired' | 'version'} Check */
/**
 * @typedef {object} Content times in milliseconds, size of the signed bytes, the signer's key in base64
 * @property {number} version
 * @property {number} issuedAt
 * @property {number} expiresAt
 * @property {string[]} ids
 * @property {number} size
 * @property {string} sha256
 * @property {string} signer
 */
/** @typedef {Pick<Content, 'version' | 'sha256'>} Seen the newest SRL that was accepted */

/** In the order of the checks; the first failure ends the verification. @type {Check[]} */
export const CHECKS = ['form', 'signature', 'members', 'shown', 'order', 'times', 'expired', 'version']

const DAY = 86_400_000
const AHEAD = 300_000
const VERSION_MAX = 999_999_999_999
const MEMBERS = ['Version', 'IssuedAt', 'ExpiresAt', 'RevokedIDs']

/** A check failed. */
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
 * Return the content of an SRL that passes each check. Throws `Refused`, or `NoEd25519`.
 * @param {any} answer parsed response of the service
 * @param {Bytes[]} keys any of them must have signed it, 32 bytes each
 * @param {number} now in milliseconds
 * @param {Seen | null} [seen]
 * @returns {Promise<Content>}
 */
export async function verify(answer, keys, now, seen = null) {
  need(
    isObject(answer, 'payload', 'srl') && isObject(answer.srl, 'Payload', 'Signature'),
    'form',
    'The response does not contain an SRL.',
  )
  const signed = fromBase64(answer.srl.Payload)
  const signature = fromBase64(answer.srl.Signature)
  need(signed && signature, 'form', 'The payload or the signature is not valid base64.')
  let signer = null
  for (const key of keys) if (!signer && (await isSigned(signed, signature, key))) signer = key
  need(signer, 'signature', 'None of the keys signed this SRL, or it was modified.')
  const { members, ...parts } = read(signed)
  const content = { ...parts, size: signed.length, sha256: hex(hash(signed)), signer: toBase64(signer) }
  need(isShown(answer.payload, members), 'shown', 'The readable part differs from the signed payload.')
  const { ids, version, issuedAt, expiresAt, sha256 } = content
  need(
    ids.every((id, index) => index === 0 || ids[index - 1] < id),
    'order',
    'The warrants are not sorted, or one is repeated.',
  )
  need(
    issuedAt < expiresAt && expiresAt - issuedAt <= 7 * DAY,
    'times',
    'It expires before it was issued, or more than 7 days after.',
  )
  need(issuedAt - now <= AHEAD, 'times', 'It was issued more than 5 minutes in the future.')
  need(now < expiresAt, 'expired', 'It has expired: authorizers that use it fail closed.')
  need(version <= VERSION_MAX, 'version', 'Its version is too high for any later SRL.')
  need(
    !seen || version >= seen.version,
    'version',
    `This browser has seen SRL ${seen?.version}. Older versions are not accepted.`,
  )
  need(
    !seen || version !== seen.version || sha256 === seen.sha256,
    'version',
    `This browser has seen a different SRL ${version}. Two SRLs of one version are never valid.`,
  )
  return content
}

/**
 * Return whether a value is an object with exactly these members.
 * @param {unknown} value
 * @param {...string} names
 */
function isObject(value, ...names) {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  return Object.keys(value).length === names.length && names.every((name) => Object.hasOwn(value, name))
}

/**
 * Return the content of an SRL, and its signed members. Throws `Refused`.
 * @param {Bytes} signed
 */
function read(signed) {
  try {
    const members = decode(signed)
    const version = members.get('Version')
    const ids = texts(members, 'RevokedIDs')
    need(members.size === MEMBERS.length, 'members', 'It has other members than an SRL.')
    need((typeof version === 'number' || typeof version === 'bigint') && version >= 1, 'members', 'It has no version.')
    need(!ids.length || areWarrantIds(ids), 'members', 'It contains an invalid warrant identifier.')
    const [issuedAt, expiresAt] = [moment(members, 'IssuedAt'), moment(members, 'ExpiresAt')]
    return { members, version: Number(version), issuedAt, expiresAt, ids }
  } catch (error) {
    if (error instanceof Malformed) throw new Refused('members', 'The payload is not encoded as an SRL.')
    throw error
  }
}

/**
 * @param {any} shown
 * @param {Map<string, any>} signed accepted by `read`
 */
function isShown(shown, signed) {
  if (!isObject(shown, ...MEMBERS)) return false
  const [ids, others] = [signed.get('RevokedIDs'), shown.RevokedIDs]
  if (!Array.isArray(others) || others.length !== ids.length) return false
  if (
    shown.Version !== Number(signed.get('Version')) ||
    shown.IssuedAt !== signed.get('IssuedAt') ||
    shown.ExpiresAt !== signed.get('ExpiresAt')
  )
    return false
  return others.every((id, index) => id === ids[index])
}
