/** Checks the transparency log, as a part of the audit page. */

import { call, exported, now } from '../api.js'
import { count, number } from '../format.js'
import { html, put } from '../html.js'
import { resumeTrust, updateTrust, remember } from '../pinned.js'
import {
  CorruptLog,
  bundlePath,
  checkpoint,
  entryOf,
  isSignedBy,
  keyOf,
  leaf,
  records,
  Tree,
  WrongKey,
} from '../sealed_log.js'
import { madeAt } from '../ulid.js'
import { findValidKeys, isPin, NoEd25519, Refused as NotTrusted, toBase64 } from '../vendor/rescind-trust.js'
import { ask, field } from './dialog.js'
import { banner, problem } from './panel.js'
import { advance } from './progress.js'
import { REASONS } from './trust_reasons.js'

/** @typedef {import('../sealed_log.js').Checkpoint} Checkpoint */
/** @typedef {import('../sealed_log.js').Leaf} Leaf */
/** @typedef {import('../vendor/rescind-trust.js').LogAnchor} LogAnchor */
/** @typedef {import('../vendor/rescind-trust.js').Bytes} Bytes */

/** Seconds until an entry is in the log; before, a missing entry is no fault. */
const APPEND_SECONDS = 600

/**
 * Request the key of the log, check the log, and show the result.
 * @param {Element} place
 * @param {AbortSignal} signal
 */
export async function showCheck(place, signal) {
  put(place)
  const pin = await ask({
    title: 'Verify the audit log',
    action: 'Verify',
    run: async (form) => String(form.get('pin')).trim(),
    body: [
      html`<p>
        Your browser reads the transparency log and all entries, recomputes every hash, and verifies the signature.
        Nothing is changed.
      </p>`,
      field(
        'Pin or verifier key',
        html`<textarea name="pin" rows="3" required spellcheck="false"></textarea>`,
        html`The pin of the root keys, or the verifier key of the log (<code>rescind/…+47a6b6f2+AclzsyU2…</code>). Use
        your own copy: a key from this server cannot detect a forgery by this server.`,
      ),
    ],
  })
  if (pin === null) return
  const again = () => showCheck(place, signal)
  put(place, await check(pin, place, signal).catch((error) => failure(error, again)))
}

/**
 * Return why the check failed. Rethrows errors that are no result of it.
 * @param {unknown} error
 * @param {() => unknown} again
 */
function failure(error, again) {
  if (error instanceof WrongKey) return banner('wait', html`<strong>Nothing was checked.</strong> ${error.message}`)
  if (error instanceof NoEd25519)
    return banner(
      'unknown',
      html`<strong>Nothing was checked.</strong> This browser cannot verify Ed25519 signatures here: it needs a secure
        address and a browser of 2025.`,
    )
  if (error instanceof NotTrusted)
    return banner(
      'revoked',
      html`<strong>The trust document was rejected.</strong> ${(REASONS[error.reason] ?? REASONS.malformed).join(' ')}`,
    )
  if (error instanceof CorruptLog)
    return banner(
      'revoked',
      html`<strong>The log is not intact.</strong> ${error.message} Run <code>rescind audit-log verify</code> on another
        machine, and keep its output.`,
    )
  return problem(error, 'The log could not be verified.', again)
}

/**
 * @param {string} pin
 * @param {Element} place
 * @param {AbortSignal} signal
 */
async function check(pin, place, signal) {
  const note = new TextDecoder().decode((await call('GET', '/v1/audit-logs/checkpoint', undefined, { signal })).body)
  const signed = checkpoint(note)
  const { keys, anchor } = await trustedKeys(pin, signed, signal)
  if (!(await isSignedBy(signed, keys))) throw new CorruptLog('No trusted key signed the checkpoint.')
  /** @type {Map<string, Leaf>} */
  const leaves = new Map()
  const isRead = await readLeaves(signed, anchor, leaves, place, signal)
  const pending = isRead ? await readEntries(leaves, place, signal) : null
  if (pending === null) return banner('info', 'Stopped. The log was not verified.')
  const missing = [...leaves.values()].find(({ expires }) => expires > now() / 1000)
  if (missing) throw new CorruptLog(`Entry svc_evt_${missing.entry} was deleted before the end of its retention.`)
  const still = `${count(pending, 'entry', 'entries')} of the last ten minutes ${pending === 1 ? 'is' : 'are'}`
  return banner(
    'force',
    html`<strong>The log is intact</strong> from its first entry to entry ${number(signed.size)}: the signature, all
      hashes and all entries match.${pending > 0 && ` ${still} not in the log yet.`} This page came from the same
      server. <code>rescind audit-log verify</code> on another machine is independent of it, and remembers earlier
      checkpoints.`,
  )
}

/**
 * Return the keys that may have signed the checkpoint, and the anchor checkpoint of the trust document.
 *
 * The anchor counts only if it belongs to this log, because a recovery begins another log. Throws `WrongKey`,
 * `NotTrusted`, `NoEd25519`.
 * @param {string} pin or a verifier key
 * @param {Checkpoint} signed
 * @param {AbortSignal} signal
 * @returns {Promise<{keys: Bytes[], anchor: LogAnchor | null}>}
 */
async function trustedKeys(pin, { origin }, signal) {
  if (!isPin(pin)) return { keys: [keyOf(pin, origin)], anchor: null }
  const before = resumeTrust(pin)
  const after = await updateTrust(before, signal)
  // If an older document is remembered, the person chose to remember.
  if (before.held) remember(after)
  const { held } = after
  if (!held) throw new WrongKey('The service has no trust document yet. Use the verifier key of the log.')
  const anchor = held.log?.origin === origin ? held.log : null
  return { keys: findValidKeys(held, 'log', Date.now()), anchor }
}

/**
 * Read all leaves, and compare their root with the signed root, and with the anchor's root at its size.
 *
 * Throws `CorruptLog`. Returns whether the end was reached.
 * @param {Checkpoint} signed
 * @param {LogAnchor | null} anchor
 * @param {Map<string, Leaf>} leaves
 * @param {Element} place
 * @param {AbortSignal} signal
 */
async function readLeaves(signed, anchor, leaves, place, signal) {
  if (anchor && anchor.size > signed.size)
    throw new CorruptLog(
      `The trust document names ${count(anchor.size, 'leaf', 'leaves')}, and the log has ${number(signed.size)}: ` +
        'it was truncated.',
    )
  const tree = new Tree()
  let first = 0
  const whole = await advance(
    place,
    async () => {
      if (first >= signed.size) return null
      const bundle = new Uint8Array((await call('GET', bundlePath(first, signed.size), undefined, { signal })).body)
      for (const record of records(bundle)) {
        tree.add(record)
        if (tree.size === anchor?.size && tree.root() !== toBase64(anchor.root))
          throw new CorruptLog('The log does not begin with the tree that the trust document names: it was rewritten.')
        const appended = leaf(record)
        leaves.set(appended.entry, appended)
      }
      first += 256
      return { words: `${number(Math.min(first, signed.size))} of ${number(signed.size)} leaves` }
    },
    signal,
  )
  if (whole && tree.root() !== signed.root)
    throw new CorruptLog('The leaves do not match the signed root: a record was changed, removed, inserted or moved.')
  return whole
}

/**
 * Compare each entry with its leaf, and remove the leaf from `leaves`.
 *
 * Throws `CorruptLog`. Returns how many entries have no leaf yet, or null if it was stopped.
 * @param {Map<string, Leaf>} leaves
 * @param {Element} place
 * @param {AbortSignal} signal
 */
async function readEntries(leaves, place, signal) {
  let read = 0
  let pending = 0
  const parts = exported({ format: 'ndjson' }, signal)
  const whole = await advance(
    place,
    async () => {
      const { value } = await parts.next()
      if (!value) return null
      for (const line of new TextDecoder().decode(value).split('\n')) {
        const entry = entryOf(line)
        if (!entry) continue
        read++
        const { id, sha256 } = entry
        const name = id.replace('svc_evt_', '')
        const appended = leaves.get(name)
        if (!appended && madeAt(name) < now() / 1000 - APPEND_SECONDS)
          throw new CorruptLog(`Entry ${id} was never appended.`)
        if (appended && appended.sha256 !== sha256)
          throw new CorruptLog(`Entry ${id} was changed after it was appended.`)
        if (!leaves.delete(name)) pending++
      }
      return { words: `${count(read, 'entry', 'entries')} compared` }
    },
    signal,
  )
  return whole ? pending : null
}
