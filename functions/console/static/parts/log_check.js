/** Checks the transparency log, as a part of the audit page. */

import { call, exported, now } from '../api.js'
import { count, number } from '../format.js'
import { html, put } from '../html.js'
import { begun, followed, remember } from '../pinned.js'
import {
  Broken,
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
const SEALING_SECONDS = 600

/**
 * Request the key of the log, check the log, and show the result.
 * @param {Element} place
 * @param {AbortSignal} signal
 */
export async function showCheck(place, signal) {
  put(place)
  const pin = await ask({
    title: 'Check the log',
    action: 'Check',
    run: async (form) => String(form.get('pin')).trim(),
    body: [
      html`<p>
        The browser reads the whole sealed log and all entries, computes every hash anew, and checks the signature.
        Nothing is changed.
      </p>`,
      field(
        'Pin, or verifier key',
        html`<textarea name="pin" rows="3" required spellcheck="false"></textarea>`,
        html`The pin of the roots, or the verifier key of the log (<code>rescind/…+47a6b6f2+AclzsyU2…</code>). Take it
        from where you keep it: one that comes from this server proves nothing against this server.`,
      ),
    ],
  })
  if (pin === null) return
  const again = () => showCheck(place, signal)
  const found = await check(pin, place, signal).catch((error) => failure(error, again))
  put(place, found)
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
      html`<strong>Nothing was checked.</strong> This browser cannot check Ed25519 here: it needs a secure address and a
        browser of 2025.`,
    )
  if (error instanceof NotTrusted)
    return banner(
      'revoked',
      html`<strong>The trust document is refused.</strong> ${(REASONS[error.reason] ?? REASONS.malformed).join(' ')}`,
    )
  if (error instanceof Broken)
    return banner(
      'revoked',
      html`<strong>The log is not whole.</strong> ${error.message} Run <code>rescind audit-log verify</code> from
        another machine, and keep what it prints.`,
    )
  return problem(error, 'The log could not be checked.', again)
}

/**
 * @param {string} pin
 * @param {Element} place
 * @param {AbortSignal} signal
 */
async function check(pin, place, signal) {
  const note = new TextDecoder().decode((await call('GET', '/v1/audit-logs/checkpoint', undefined, { signal })).body)
  const signed = checkpoint(note)
  const { keys, anchor } = await trusted(pin, signed, signal)
  if (!(await isSignedBy(signed, keys))) throw new Broken('No key that you trust signed the checkpoint.')
  /** @type {Map<string, Leaf>} */
  const leaves = new Map()
  if (!(await readLeaves(signed, anchor, leaves, place, signal))) return stopped()
  const unsealed = await readEntries(leaves, place, signal)
  if (unsealed === null) return stopped()
  const missing = [...leaves.values()].find(({ expires }) => expires > now() / 1000)
  if (missing) throw new Broken(`The entry svc_evt_${missing.entry} is gone before its retention is over.`)
  const still = `${count(unsealed, 'entry', 'entries')} of the last ten minutes ${unsealed === 1 ? 'is' : 'are'}`
  return banner(
    'force',
    html`<strong>The log is whole</strong> from its first entry to entry ${number(signed.size)}: the signature, every
      hash, and every entry agree.${unsealed > 0 && ` ${still} not sealed yet.`} This page came from the same server;
      <code>rescind audit-log verify</code> on another machine stays the judge, and remembers what it saw.`,
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
async function trusted(pin, { origin }, signal) {
  if (!isPin(pin)) return { keys: [keyOf(pin, origin)], anchor: null }
  const before = begun(pin)
  const after = await followed(before, signal)
  // If an older document is remembered, the person chose to remember.
  if (before.held) remember(after)
  const { held } = after
  if (!held) throw new WrongKey('The service has no trust document yet. Use the verifier key of the log.')
  const anchor = held.log?.origin === origin ? held.log : null
  return { keys: findValidKeys(held, 'log', Date.now()), anchor }
}

const stopped = () => banner('info', 'Stopped. Nothing is said about the log.')

/**
 * Read all leaves, and compare their root with the signed root, and with the anchor's root at its size.
 *
 * Throws `Broken`. Returns whether the end was reached.
 * @param {Checkpoint} signed
 * @param {LogAnchor | null} anchor
 * @param {Map<string, Leaf>} leaves
 * @param {Element} place
 * @param {AbortSignal} signal
 */
async function readLeaves(signed, anchor, leaves, place, signal) {
  if (anchor && anchor.size > signed.size)
    throw new Broken(
      `The trust document names ${count(anchor.size, 'leaf', 'leaves')}, and the log has ${number(signed.size)}: ` +
        'it was cut.',
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
          throw new Broken('The beginning of the log is another one than the trust document names: it was rewritten.')
        const found = leaf(record)
        leaves.set(found.entry, found)
      }
      first += 256
      return { words: `${number(Math.min(first, signed.size))} of ${number(signed.size)} leaves` }
    },
    signal,
  )
  if (whole && tree.root() !== signed.root)
    throw new Broken(
      'The leaves do not have the root that was signed: a record was changed, removed, inserted or moved.',
    )
  return whole
}

/**
 * Compare each entry with its leaf, and remove the leaf from `leaves`.
 *
 * Throws `Broken`. Returns how many entries have no leaf yet, or null if it was stopped.
 * @param {Map<string, Leaf>} leaves
 * @param {Element} place
 * @param {AbortSignal} signal
 */
async function readEntries(leaves, place, signal) {
  let read = 0
  let unsealed = 0
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
        unsealed += compare(entry, leaves)
      }
      return { words: `${count(read, 'entry', 'entries')} compared` }
    },
    signal,
  )
  return whole ? unsealed : null
}

/**
 * Return 1 for an entry that is too new for the log. Throws `Broken`.
 * @param {{id: string, sha256: string}} entry
 * @param {Map<string, Leaf>} leaves
 */
function compare({ id, sha256 }, leaves) {
  const name = id.replace('svc_evt_', '')
  const sealed = leaves.get(name)
  if (!sealed) {
    if (madeAt(name) < now() / 1000 - SEALING_SECONDS) throw new Broken(`The entry ${id} was never sealed.`)
    return 1
  }
  if (sealed.sha256 !== sha256) throw new Broken(`The entry ${id} was changed after it was sealed.`)
  leaves.delete(name)
  return 0
}
