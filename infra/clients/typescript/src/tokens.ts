// Warrant identifiers for tokens that others issue (docs/tokens.md).

import { hash, toBase64, utf8 } from "./bytes.js";

const PREFIX = "rescind-token-v1";
const PART_MAX = 1024;

// The issuer and value of each kind. They allow one spelling only, because another spelling would
// have another identifier.
const FORMS = {
  jwt: /^[^\n]+\n[^\n]+$/,
  "jwt-session": /^[^\n]+\n[^\n]+$/,
  "jwt-subject": /^[^\n]+\n[^\n]+$/,
  biscuit: /^\n([0-9a-f]{2})+$/,
  ucan: /^\nb[a-z2-7]+$/,
  x509: /^[0-9a-f]{64}\n[1-9a-f][0-9a-f]*$/,
  other: /^[^\n]*\n[^\n]+$/,
} as const;

export type TokenKind = keyof typeof FORMS;

// Shorter words for identifiers, which have at most 72 bytes.
const WORDS: Partial<Record<TokenKind, string>> = { "jwt-session": "sid", "jwt-subject": "sub" };
/** The last second of the year 9999. */
const MOMENT_MAX = 253_402_300_799;

/**
 * The warrant identifier of a token, for `check`. It does not verify the token, so verify the token
 * first. Throws a `TypeError` if issuer or value are invalid for the kind. `issuedBefore` is
 * required with `jwt-subject` and invalid with other kinds. It is the `iat` of the token, rounded
 * up, or 0 without `iat`.
 */
export function tokenId(kind: TokenKind, issuer: string, value: string, issuedBefore?: number): string {
  if (!Object.hasOwn(FORMS, kind)) throw new TypeError(`kind must be one of ${Object.keys(FORMS).join(", ")}`);
  for (const part of [issuer, value]) {
    if (utf8(part).length > PART_MAX || /[\u0000-\u001f]|\p{Surrogate}/u.test(part)) {
      throw new TypeError(`issuer and value must be text of at most ${PART_MAX} bytes without control characters`);
    }
  }
  const named = `${issuer}\n${value}`;
  if (!FORMS[kind].test(named)) throw new TypeError(`issuer and value do not have the form of the kind ${kind}`);
  if ((kind === "jwt-subject") !== (issuedBefore !== undefined)) {
    throw new TypeError("issuedBefore is required with the kind jwt-subject, and with no other");
  }
  if (issuedBefore !== undefined && !(Number.isInteger(issuedBefore) && issuedBefore >= 0 && issuedBefore <= MOMENT_MAX)) {
    throw new TypeError("issuedBefore must be whole seconds from 1970 to 9999");
  }
  const end = issuedBefore === undefined ? "" : `-${String(issuedBefore).padStart(12, "0")}`;
  const digest = toBase64(hash(utf8(`${PREFIX}\n${kind}\n${named}`)));
  const text = digest.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  return `svc_wrt_${WORDS[kind] ?? kind}-${text}${end}`;
}
