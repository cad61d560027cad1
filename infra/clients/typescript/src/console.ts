// The part of this client that the console serves as
// functions/console/static/vendor/rescind-trust.js (`make vendor`).

export { concat, fromBase64, hash, toBase64, utf8, type Bytes } from "./bytes.js";
export { decode, Malformed, moment, texts, type Members } from "./cbor.js";
export { isSafe, isSigned, NoEd25519 } from "./ed25519.js";
export {
  findKeys, findValidKeys, followed, isPin, pinned, readDocuments, resumeBelief, writeDocument,
  type Belief, type LogAnchor, type SignedDocument,
} from "./trust.js";
export { areWarrantIds, Refused, type Reason } from "./wire.js";
