// Identifiers of tokens that others issue: each has a warrant identifier of its own (docs/tokens.md).

import { hash, toBase64, utf8 } from "./bytes.js";

const PREFIX = "rescind-token-v1";
const PART_MAX = 1024;

// The issuer and the value of each kind. Another spelling of one token would have another identifier.
const FORMS = {
  jwt: /^[^\n]+\n[^\n]+$/,
  biscuit: /^\n([0-9a-f]{2})+$/,
  ucan: /^\nb[a-z2-7]+$/,
  x509: /^[0-9a-f]{64}\n[1-9a-f][0-9a-f]*$/,
  other: /^[^\n]*\n[^\n]+$/,
} as const;

export type TokenKind = keyof typeof FORMS;

/**
 * The warrant identifier of a token, for `check`. It proves nothing: verify the token first. Throws a
 * `TypeError` if issuer and value are not those of the kind.
 */
export function tokenId(kind: TokenKind, issuer: string, value: string): string {
  if (!Object.hasOwn(FORMS, kind)) throw new TypeError(`kind must be one of ${Object.keys(FORMS).join(", ")}`);
  for (const part of [issuer, value]) {
    if (utf8(part).length > PART_MAX || /[\u0000-\u001f]|\p{Surrogate}/u.test(part)) {
      throw new TypeError(`issuer and value must be text of at most ${PART_MAX} bytes without control characters`);
    }
  }
  const named = `${issuer}\n${value}`;
  if (!FORMS[kind].test(named)) throw new TypeError(`issuer and value have not the form of the kind ${kind}`);
  const digest = toBase64(hash(utf8(`${PREFIX}\n${kind}\n${named}`)));
  return `svc_wrt_${kind}-${digest.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")}`;
}
