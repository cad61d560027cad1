/** Signatures of Ed25519 (RFC 8032), and which public keys are safe to verify with. */

/** Ed25519 cannot be checked by this browser, or not at this address. */
export class NoEd25519 extends Error {}

/**
 * Whether the owner of a public key (32 bytes) signed just this. Throws `NoEd25519`.
 * @param {Uint8Array<ArrayBuffer>} data
 * @param {Uint8Array<ArrayBuffer>} signature
 * @param {Uint8Array<ArrayBuffer>} key
 */
export async function isSigned(data, signature, key) {
  const imported = await crypto.subtle.importKey('raw', key, 'Ed25519', false, ['verify']).catch(() => null)
  if (!imported) throw new NoEd25519('This browser cannot check Ed25519 here.')
  return crypto.subtle.verify('Ed25519', imported, signature, data)
}

const P = 2n ** 255n - 19n
const Y8 = 2707385501144840649318225287225658788936804267575313519463743609750303402022n
const WEAK = new Set([0n, 1n, P - 1n, Y8, P - Y8])

/**
 * Whether these are 32 bytes, and no point of small order: for such a key anybody could sign.
 * @param {Uint8Array} key
 */
export const isSafe = (key) =>
  key.length === 32 &&
  !WEAK.has((key.reduceRight((sum, byte) => sum * 256n + BigInt(byte), 0n) & (2n ** 255n - 1n)) % P)
