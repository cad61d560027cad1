/** Verifies the current SRL with the pin that the person pasted. */

import { call } from '../api.js'
import { count, minute, number, second, span } from '../format.js'
import { html, one, put } from '../html.js'
import { resumeTrust, dropUnreadable, updateTrust, forget, remember, readRemembered, lastSeenList } from '../pinned.js'
import { findValidKeys, isPin, NoEd25519, Refused as NotTrusted } from '../vendor/rescind-trust.js'
import { CHECKS, Refused, verify } from '../verify.js'
import { exactInput, field, submitted, tick } from './dialog.js'
import { banner, problem } from './panel.js'
import { tag } from './tag.js'
import { REASONS } from './trust_reasons.js'

/** @typedef {import('../pinned.js').Believed} Believed */
/** @typedef {import('../pinned.js').Document} Document */
/** @typedef {import('../verify.js').Content} Content */
/** @typedef {'trust' | 'valid' | import('../verify.js').Check} Check */
/** @typedef {{check: Check, message: string, advice: string}} Failed */
/**
 * @typedef {object} Verification the trust state, the SRL seen before, and the SRL that passed
 * @property {Believed} state
 * @property {Believed['list']} list
 * @property {Content | null} content
 */

/** Longer SRLs are not fetched: on AWS they are at another address, which the page may not read. */
export const LONGEST = 20_000

/** In the order of the checks. @type {Check[]} */
const ORDER = ['trust', 'valid', ...CHECKS]

/**
 * Description of each check, and its message on success.
 * @type {Record<Check, [string, (held: Document, content: Content, list: Believed['list']) => string]>}
 */
const WORDS = {
  trust: [
    'The pin verifies the newest trust document',
    ({ version, roots }) =>
      `version ${version}, signed by ${roots.threshold} of ${count(roots.keys.length, 'root key')}`,
  ],
  valid: ['The trust document has not expired', ({ expiresAt }) => `valid until ${minute(expiresAt)} UTC`],
  form: ['The response has the form of an SRL', (_held, { size }) => `${number(size)} signed bytes`],
  signature: [
    'A key in the trust document signed the SRL',
    (_held, { signer }) => `Ed25519 over the exact bytes, by ${signer.slice(0, 12)}…`,
  ],
  members: ['The payload has the four members in order', (_held, { version }) => `version ${version}`],
  shown: ['The readable part matches the signed payload', (_held, { sha256 }) => `SHA-256 ${sha256.slice(0, 12)}…`],
  order: ['The warrants are sorted, without repetition', (_held, { ids }) => count(ids.length, 'warrant')],
  times: ['The times are plausible', (_held, { issuedAt }) => `issued ${second(issuedAt)} UTC`],
  expired: [
    'The SRL has not expired',
    (_held, { expiresAt }) => `${span((expiresAt - Date.now()) / 1000)} left by this computer’s clock`,
  ],
  version: [
    'The SRL is not older than the last one seen',
    (_held, _content, list) => (list ? `this browser has seen SRL ${list.version}` : 'this browser remembers no SRL'),
  ],
}

const CLOCK = 'Check the clock of this computer. If it is right,'
/** Advice if a check of the SRL fails. @type {Partial<Record<Check, string>>} */
const ADVICE = {
  signature:
    'Verify again in a minute. If it fails again, someone else created this SRL: contact the operator of the service.',
  shown: 'A system between the service and this browser modifies responses. Authorizers read only the signed payload.',
  times: `${CLOCK} the clock of the service is wrong.`,
  expired: `${CLOCK} SRLs are no longer published: see Overview.`,
  version:
    'The service was restored from a backup without a recovery, or someone replays an old SRL: ' +
    'contact the operator of the service.',
}
const REPORT = 'Contact the operator of the service: it never publishes such an SRL.'

/** @param {AbortSignal} signal */
export function verifyCard(signal) {
  const wasDropped = dropUnreadable()
  const before = readRemembered()
  const result = one(html`<div class="body" role="status"></div>`)
  const check = submitted(async (form) => {
    const pin = String(form.get('pin')).trim()
    const invalid = html`<strong>Invalid pin.</strong> A pin is 64 hexadecimal digits: 0–9 and a–f. The public key of an
      SRL signer is not a pin.`
    try {
      put(result, isPin(pin) ? await verifyCurrent(pin, form.has('keep'), signal) : banner('revoked', invalid))
    } catch (error) {
      if (!signal.aborted) put(result, problem(error, 'The SRL could not be loaded.'))
    }
  })
  return html` <p class="soft">
      Your browser verifies the SRL. The pin identifies the root keys, the root keys sign a trust document that names
      the SRL signers, and one of these signs the SRL. Paste a pin from another source: a pin on this page would come
      from the same server as the SRL.
    </p>
    ${
      wasDropped &&
      banner(
        'info',
        'This browser remembered the key of an SRL signer, or unreadable data, which was deleted. ' +
          'SRLs are now verified with the pin of the root keys. Ask the operator of the service for it.',
      )
    }
    <div class="panels">
      <form @submit=${check}>
        ${field('Trusted pin', exactInput('pin', { value: before?.pin }), '64 hexadecimal digits')}
        ${tick(
          html`<input type="checkbox" name="keep" ?checked=${before !== null} />`,
          'Remember the pin, the trust document and the SRL in this browser, to detect older ones.',
        )}
        <div class="actions"><button class="main">Verify</button></div>
      </form>
      ${result}
    </div>`
}

/**
 * @param {string} pin
 * @param {boolean} keep
 * @param {AbortSignal} signal
 */
async function verifyCurrent(pin, keep, signal) {
  const status = /** @type {Api.ListStatus} */ (
    (await call('GET', '/v1/revocations/srl/status', undefined, { signal })).body
  )
  if (status.count > LONGEST)
    return banner(
      'info',
      html`<strong>The SRL has ${number(status.count)} warrants.</strong> This page does not load SRLs with more than
        ${number(LONGEST)}. Use <code>rescind srl verify</code>.`,
    )
  const state = resumeTrust(pin)
  /** @type {Verification} */
  const verification = { state, list: null, content: null }
  try {
    await runChecks(verification, keep, signal)
  } catch (error) {
    if (error instanceof NoEd25519)
      return banner(
        'unknown',
        html`<strong>Nothing was checked.</strong> This browser cannot verify Ed25519 signatures at this address. It
          must be recent, and the address must begin with https or be local. Use <code>rescind srl verify</code>.`,
      )
    return results(verification, failure(error))
  }
  if (!verification.content)
    return banner('info', html`<strong>Nothing was checked.</strong> The service has no trust document yet.`)
  return results(verification, null)
}

/**
 * Follow the trust documents, then check the SRL. Throws the error that refuses it.
 * @param {Verification} verification is filled
 * @param {boolean} keep
 * @param {AbortSignal} signal
 */
async function runChecks(verification, keep, signal) {
  const keys = async () => {
    verification.state = await updateTrust(verification.state, signal)
    // Before it is used (TRUST-12).
    if (keep) remember(verification.state)
    const { held, list } = verification.state
    if (!held) return null
    verification.list = lastSeenList(held, list)
    return findValidKeys(held, 'lists', Date.now())
  }
  const first = await keys()
  if (!first) return
  const { body } = await call('GET', '/v1/revocations/srl/signed', undefined, { signal })
  try {
    verification.content = await verify(body, first, Date.now(), verification.list)
  } catch (error) {
    if (!(error instanceof Refused) || error.check !== 'signature') throw error
    // The signer may have been replaced during the request (TRUST-13).
    verification.content = await verify(body, (await keys()) ?? [], Date.now(), verification.list)
  }
  const { version, sha256, signer } = verification.content
  if (keep) remember({ ...verification.state, list: { version, sha256, signer } })
  else forget()
}

/**
 * Return the failed check. Rethrows other errors.
 * @param {unknown} error
 * @returns {Failed}
 */
function failure(error) {
  if (error instanceof NotTrusted) {
    const [message, advice] = REASONS[error.reason] ?? REASONS.malformed
    return { check: error.reason === 'trust_expired' ? 'valid' : 'trust', message, advice }
  }
  if (error instanceof Refused)
    return { check: error.check, message: error.message, advice: ADVICE[error.check] ?? REPORT }
  throw error
}

/**
 * Return a line for each check.
 * @param {Verification} verification
 * @param {Failed | null} failed
 */
function results({ state: { held }, list, content }, failed) {
  const last = failed ? ORDER.indexOf(failed.check) : ORDER.length
  const line = (/** @type {Check} */ check, /** @type {number} */ place) => {
    const [words, yes] = WORDS[check]
    // Without an earlier SRL, a rollback cannot be detected.
    const passed = check === 'version' && !list ? tag('unknown', 'unknown') : tag('force', 'passed')
    const [detail, mark] =
      place < last
        ? [held && content ? yes(held, content, list) : '', passed]
        : place === last
          ? [failed?.message, tag('revoked', 'failed')]
          : ['', tag('unknown', 'not checked')]
    return html`<div>
      <div>
        <p>${words}</p>
        ${detail && html`<p class="soft"><small>${detail}</small></p>`}
      </div>
      ${mark}
    </div>`
  }
  const verdict = content
    ? banner('force', html`<strong>SRL ${content.version} is genuine</strong>, provided that your pin is.`)
    : banner('revoked', html`<strong>Do not trust this SRL.</strong> ${failed?.advice}`)
  return [
    verdict,
    html`<div class="rowed">${ORDER.map(line)}</div>`,
    content && html`<p class="soft">Verified ${minute(Date.now())} UTC.</p>`,
  ]
}
