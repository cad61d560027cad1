// Ed25519 with WebCrypto: verification of signatures, and checks of public keys.

import { bytes, need, type Members } from "./cbor.js";
import { hex, type Bytes } from "./bytes.js";

const P = 2n ** 255n - 19n;
// The y coordinates of the points of order 8. The points of order 1, 2 and 4 have 1, -1 and 0.
const Y8 = 2707385501144840649318225287225658788936804267575313519463743609750303402022n;
const SMALL = new Set([0n, 1n, P - 1n, Y8, P - Y8]);

/** WebCrypto lacks Ed25519, so signatures cannot be verified. */
export class NoEd25519 extends Error {
  constructor(cause: unknown) {
    super("this runtime cannot check Ed25519: use a newer one, and in a browser https or localhost", { cause });
  }
}

/** Whether the key has 32 bytes, and only its owner can sign for it. */
export function isSafe(key: Uint8Array): boolean {
  if (key.length !== 32) return false;
  const y = BigInt(`0x${hex(key.slice().reverse())}`) & (2n ** 255n - 1n);
  return !SMALL.has(y % P);
}

/** The key of 32 bytes in a member. Throws `Malformed`. */
export function keyOf(members: Members, name: string): Bytes {
  const key = bytes(members, name, 32);
  need(isSafe(key), `${name} is of small order`);
  return key;
}

/** Whether `signature` over `data` verifies with this public key. Throws `NoEd25519`. */
export async function isSigned(data: Bytes, signature: Bytes, key: Bytes): Promise<boolean> {
  let imported: CryptoKey;
  try {
    imported = await crypto.subtle.importKey("raw", key, { name: "Ed25519" }, false, ["verify"]);
  } catch (error) {
    // Some implementations reject an invalid point at import, others at verification.
    if ((error as Error).name === "DataError") return false;
    throw new NoEd25519(error);
  }
  return crypto.subtle.verify({ name: "Ed25519" }, imported, signature, data);
}
