// Bytes and their text forms: hex, base64, UTF-8.

import { bytesToHex, hexToBytes } from "@noble/hashes/utils.js";
import { sha256 } from "@noble/hashes/sha2.js";

export type Bytes = Uint8Array<ArrayBuffer>;

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The UTF-8 encoding of a text. */
export const utf8 = (text: string): Bytes => encoder.encode(text);

/** The text in UTF-8 bytes. Throws a `TypeError` if they are invalid. */
export const textOf = (data: Uint8Array): string => decoder.decode(data);

/** Lower-case hexadecimal digits. */
export const hex = (data: Uint8Array): string => bytesToHex(data);

/** The bytes of hexadecimal digits. Throws an error if they are invalid. */
export const fromHex = (text: string): Bytes => new Uint8Array(hexToBytes(text));

export function concat(...parts: Uint8Array[]): Bytes {
  const joined = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    joined.set(part, at);
    at += part.length;
  }
  return joined;
}

/** SHA-256 of the concatenated parts. */
export function hash(...parts: Uint8Array[]): Bytes {
  const running = sha256.create();
  for (const part of parts) running.update(part);
  return new Uint8Array(running.digest());
}

/** Negative, zero or positive, by the first differing byte. */
export function compare(one: Uint8Array, other: Uint8Array): number {
  const size = Math.min(one.length, other.length);
  for (let at = 0; at < size; at += 1) {
    const difference = (one[at] ?? 0) - (other[at] ?? 0);
    if (difference) return difference;
  }
  return one.length - other.length;
}

export const equal = (one: Uint8Array, other: Uint8Array): boolean => compare(one, other) === 0;

const CHUNK = 0x8000;

/** Padded base64 of the standard alphabet. */
export function toBase64(data: Uint8Array): string {
  let binary = "";
  for (let at = 0; at < data.length; at += CHUNK) {
    binary += String.fromCharCode(...data.subarray(at, at + CHUNK));
  }
  return btoa(binary);
}

/** The bytes of padded standard base64, or null if the text is not the canonical encoding. */
export function fromBase64(text: unknown): Bytes | null {
  if (typeof text !== "string") return null;
  let binary: string;
  try {
    binary = atob(text);
  } catch {
    return null;
  }
  // The decoder ignores spaces, unused bits and missing padding.
  if (btoa(binary) !== text) return null;
  const data = new Uint8Array(binary.length);
  for (let at = 0; at < data.length; at += 1) data[at] = binary.charCodeAt(at);
  return data;
}
