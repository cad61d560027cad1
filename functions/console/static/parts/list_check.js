/** Verifies the current SRL with the pin that the person pasted. */

import { call } from '../api.js'
import { count, minute, number, second, span } from '../format.js'
import { html, one, put } from '../html.js'
import { begun, dropUnreadable, followed, forget, remember, remembered, seen } from '../pinned.js'
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
 * @typedef {object} Found the trust state, the SRL seen before, and the SRL that passed
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
    'Your pin leads to the newest trust document',
    ({ version, roots }) =>
      `document ${version}, which ${roots.threshold} of ${count(roots.keys.length, 'root')} signed`,
  ],
  valid: ['The document has not expired', ({ expiresAt }) => `valid until ${minute(expiresAt)} UTC`],
  form: ['Has the form of a list', (_held, { size }) => `${number(size)} bytes are signed`],
  signature: [
    'Signed by a key that the document names',
    (_held, { signer }) => `Ed25519 over the exact bytes, by ${signer.slice(0, 12)}…`,
  ],
  members: ['Has the four members in order', (_held, { version }) => `version ${version}`],
  shown: ['The readable part is what was signed', (_held, { sha256 }) => `SHA-256 ${sha256.slice(0, 12)}…`],
  order: ['Sorted, nothing twice', (_held, { ids }) => count(ids.length, 'warrant')],
  times: ['Its times are possible', (_held, { issuedAt }) => `issued ${second(issuedAt)} UTC`],
  expired: [
    'Not expired',
    (_held, { expiresAt }) => `${span((expiresAt - Date.now()) / 1000)} left by this computer’s clock`,
  ],
  version: [
    'Not older than one you have seen',
    (_held, _content, list) => (list ? `you saw list ${list.version} here` : 'this browser remembers no list'),
  ],
}

const CLOCK = 'Check the clock of this computer. If it is right,'
/** Advice if a check of the SRL fails. @type {Partial<Record<Check, string>>} */
const ADVICE = {
  signature:
    'Verify again in a minute. If it stays so, somebody else made this list: tell the people who run the service.',
  shown: 'Something between the service and this browser changes answers. Authorizers read only what is signed.',
  times: `${CLOCK} that of the service is wrong.`,
  expired: `${CLOCK} no list is published any more: see Overview.`,
  version:
    'The service was restored from a backup without a recovery, or somebody answers with an old list: ' +
    'tell the people who run it.',
}
const REPORT = 'Tell the people who run the service: it never publishes such a list.'

/** @param {AbortSignal} signal */
export function verifyCard(signal) {
  const dropped = dropUnreadable()
  const before = remembered()
  const result = one(html`<div class="body" role="status"></div>`)
  const check = submitted(async (form) => {
    const pin = String(form.get('pin')).trim()
    try {
      put(
        result,
        isPin(pin)
          ? await checked(pin, form.has('keep'), signal)
          : banner(
              'revoked',
              html`<strong>That is no pin.</strong> A pin is 64 hexadecimal digits: 0–9 and a–f. The public key of a
                list signer is none.`,
            ),
      )
    } catch (error) {
      if (!signal.aborted) put(result, problem(error, 'The list could not be read.'))
    }
  })
  return html` <p class="soft">
      This browser checks the list itself: your pin names the roots, the roots sign a document with the keys of the list
      signers, and one of these signs the list. Paste the pin that you were given by another way: one on this page would
      come from the same server as the list.
    </p>
    ${
      dropped &&
      banner(
        'info',
        'This browser remembered the key of a list signer, or something that cannot be read. It was forgotten. ' +
          'Lists are now checked with the pin of the roots: ask the people who run the service for it.',
      )
    }
    <div class="panels">
      <form @submit=${check}>
        ${field('Pin that you trust', exactInput('pin', { value: before?.pin }), '64 hexadecimal digits')}
        ${tick(
          html`<input type="checkbox" name="keep" ?checked=${before !== null} />`,
          'Remember the pin, the document and the list in this browser, so that older ones are noticed.',
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
async function checked(pin, keep, signal) {
  const status = /** @type {Api.ListStatus} */ (
    (await call('GET', '/v1/revocations/srl/status', undefined, { signal })).body
  )
  if (status.count > LONGEST)
    return banner(
      'info',
      html`<strong>The list has ${number(status.count)} warrants.</strong> The page does not fetch lists of more than
        ${number(LONGEST)}. Use <code>rescind srl verify</code>.`,
    )
  const state = begun(pin)
  /** @type {Found} */
  const found = { state, list: null, content: null }
  try {
    await find(found, keep, signal)
  } catch (error) {
    if (error instanceof NoEd25519)
      return banner(
        'unknown',
        html`<strong>Nothing was checked.</strong> This browser cannot check Ed25519 at this address. It must be new
          enough, and the address must begin with https or be this machine’s. Use <code>rescind srl verify</code>.`,
      )
    return results(found, failure(error))
  }
  if (!found.content)
    return banner(
      'info',
      html`<strong>Nothing was checked.</strong> The service has no trust document yet: its roots have signed none.`,
    )
  return results(found, null)
}

/**
 * Follow the trust documents, then check the SRL. Throws the error that refuses it.
 * @param {Found} found is filled
 * @param {boolean} keep
 * @param {AbortSignal} signal
 */
async function find(found, keep, signal) {
  const keys = async () => {
    found.state = await followed(found.state, signal)
    // Before it is used (TRUST-12).
    if (keep) remember(found.state)
    const { held, list } = found.state
    if (!held) return null
    found.list = seen(held, list)
    return findValidKeys(held, 'lists', Date.now())
  }
  const first = await keys()
  if (!first) return
  const { body } = await call('GET', '/v1/revocations/srl/signed', undefined, { signal })
  try {
    found.content = await verify(body, first, Date.now(), found.list)
  } catch (error) {
    if (!(error instanceof Refused) || error.check !== 'signature') throw error
    // The signer may have been replaced during the request (TRUST-13).
    found.content = await verify(body, (await keys()) ?? [], Date.now(), found.list)
  }
  const { version, sha256, signer } = found.content
  if (keep) remember({ ...found.state, list: { version, sha256, signer } })
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
 * @param {Found} found
 * @param {Failed | null} failed
 */
function results({ state: { held }, list, content }, failed) {
  const stopped = failed ? ORDER.indexOf(failed.check) : ORDER.length
  const line = (/** @type {Check} */ check, /** @type {number} */ place) => {
    const [words, yes] = WORDS[check]
    // Without an earlier SRL, a rollback cannot be detected.
    const passed = check === 'version' && !list ? tag('unknown', 'not known') : tag('force', 'yes')
    const [detail, mark] =
      place < stopped
        ? [held && content ? yes(held, content, list) : '', passed]
        : place === stopped
          ? [failed?.message, tag('revoked', 'no')]
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
    ? banner('force', html`<strong>List ${content.version} is genuine</strong>, as far as the pin that you gave is.`)
    : banner('revoked', html`<strong>Do not trust this list.</strong> ${failed?.advice}`)
  return [
    verdict,
    html`<div class="rowed">${ORDER.map(line)}</div>`,
    content && html`<p class="soft">Checked ${minute(Date.now())} UTC.</p>`,
  ]
}
