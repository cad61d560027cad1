// @rescind/authorizer: follows the revocations of a tenant, using only WebCrypto and standard web
// APIs.

export { AuthorizerClient, type ClientOptions, type Status } from "./client.js";
export { StateError, MemoryStateStore, type StateStore } from "./saved_state.js";
export type { ClientEvent } from "./follower.js";
export type { Reporting } from "./reports.js";
export { tokenId, type TokenKind } from "./tokens.js";
export type { Policy, Verdict } from "./view.js";
export type { Reason } from "./wire.js";
