// @rescind/authorizer: knows which warrants of a tenant are revoked, with WebCrypto and standard web APIs alone.

export { AuthorizerClient, type ClientOptions, type Status } from "./client.js";
export { StateError, MemoryStateStore, type StateStore } from "./floor.js";
export type { ClientEvent } from "./follower.js";
export type { Reporting } from "./reports.js";
export { tokenId, type TokenKind } from "./tokens.js";
export type { Policy, Verdict } from "./view.js";
export type { Reason } from "./wire.js";
