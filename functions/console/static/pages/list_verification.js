/** The check of the list in force with a key that the person pasted. */

import { call } from '../api.js'
import { count, minute, number, second, short, span } from '../format.js'
import { html, one, put } from '../html.js'
import { banner, problem } from '../parts/panel.js'
import { tag } from '../parts/tag.js'
import { who } from '../session.js'
import { CHECKS, NoEd25519, Refused, verify } from '../verify.js'

/** @typedef {import('../verify.js').Check} Check */
/** @typedef {import('../verify.js').Content} Content */
/** @typedef {{pin: string, version: number, sha256: string}} Remembered */

/** Longer lists are not fetched: on AWS they are at another address, which the page may not read. */
export const LONGEST = 20_000

/** @type {Record<Exclude<Check, 'key'>, {words: string, yes: (content: Content, seen: Remembered | null) => string}>} */
const WORDS = {
  form: { words: 'Has the form of a list', yes: ({ size }) => `${number(size)} bytes are signed` },
  signature: { words: 'Signed by the key you gave', yes: () => 'Ed25519 over the exact bytes' },
  members: { words: 'Has the four members in order', yes: ({ version }) => `version ${version}` },
  shown: { words: 'The readable part is what was signed', yes: ({ sha256 }) => `SHA-256 ${sha256.slice(0, 12)}…` },
  order: { words: 'Sorted, nothing twice', yes: ({ ids }) => count(ids.length, 'warrant') },
  times: { words: 'Its times are possible', yes: ({ issuedAt }) => `issued ${second(issuedAt)} UTC` },
  expired: { words: 'Not expired', yes: ({ expiresAt }) => `${span((expiresAt - Date.now()) / 1000)} left by this computer’s clock` },
  version: { words: 'Not older than one you have seen', yes: (_content, seen) => seen ? `you saw list ${seen.version} here` : 'this browser remembers no list' },
}

/** @param {AbortSignal} signal */
export function verifyCard(signal) {
  const before = remembered()
  const result = one(html`<div class="body" role="status"></div>`)
  const check = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault()
    const form = new FormData(/** @type {HTMLFormElement} */ (event.target))
    const pin = String(form.get('pin')).trim()
    try {
      put(result, await checked(pin, form.has('keep'), signal))
    } catch (error) {
      if (!signal.aborted) put(result, problem(error, 'The list could not be read.'))
    }
  }
  return html`
    <p class="soft">This browser checks the list itself. Paste the public key that you were given by another way: a key on this page would come from the same server as the list.</p>
    <div class="panels"><form @submit=${check}>
      <label class="field"><span>Public key that you trust</span><input name="pin" required spellcheck="false" autocomplete="off" aria-describedby="pin-form" value=${before?.pin}><small id="pin-form" class="soft">32 bytes in base64: 44 characters</small></label>
      <label class="tick"><input type="checkbox" name="keep" ?checked=${before !== null}> <span>Remember the key and the list in this browser, so that an older list is noticed.</span></label>
      <div class="actions"><button class="main">Verify</button></div>
    </form>${result}</div>`
}

/**
 * @param {string} pin
 * @param {boolean} keep
 * @param {AbortSignal} signal
 */
async function checked(pin, keep, signal) {
  const status = /** @type {Api.ListStatus} */ ((await call('GET', '/v1/revocations/srl/status', undefined, { signal })).body)
  if (status.count > LONGEST) return banner('info', html`<strong>The list has ${number(status.count)} warrants.</strong> The page does not fetch lists of more than ${number(LONGEST)}. Use <code>rescind list verify</code>.`)
  const { headers, body } = await call('GET', '/v1/revocations/srl/signed', undefined, { signal })
  const last = remembered()
  const seen = last?.pin === pin ? last : null
  try {
    const content = await verify(body, pin, Date.now(), seen)
    remember(keep ? { pin, version: content.version, sha256: content.sha256 } : null)
    return results(content, seen, null)
  } catch (error) {
    if (error instanceof NoEd25519) return banner('unknown', html`<strong>Nothing was checked.</strong> This browser cannot check Ed25519 at this address. It must be new enough, and the address must begin with https or be this machine’s. Use <code>rescind list verify</code>.`)
    if (!(error instanceof Refused)) throw error
    if (error.check === 'key') return banner('revoked', html`<strong>That is no key.</strong> ${error.message}`)
    return [results(null, seen, error), error.check === 'signature' && html`<p class="soft">The service says that its signer ${short(headers.get('X-SRL-Key-Id') ?? '')} signed it. If the signer was changed since you got your key, <code>rescind list verify</code> follows its statements.</p>`]
  }
}

/**
 * A line for each check.
 * @param {Content | null} content if all passed
 * @param {Remembered | null} seen
 * @param {Refused | null} failed
 */
function results(content, seen, failed) {
  const stopped = failed ? CHECKS.indexOf(failed.check) : CHECKS.length
  const line = (/** @type {Exclude<Check, 'key'>} */ check) => {
    const place = CHECKS.indexOf(check)
    const { words, yes } = WORDS[check]
    // With nothing to compare with, it is not known whether an older list came back.
    const passed = check === 'version' && !seen ? tag('unknown', 'not known') : tag('force', 'yes')
    const [detail, mark] = place < stopped ? [content ? yes(content, seen) : '', passed] : place === stopped ? [failed?.message, tag('revoked', 'no')] : ['', tag('unknown', 'not checked')]
    return html`<div><div><p>${words}</p>${detail && html`<p class="soft"><small>${detail}</small></p>`}</div>${mark}</div>`
  }
  const verdict = content ? banner('force', html`<strong>List ${content.version} is genuine</strong>, as far as the key that you gave is.`) : banner('revoked', html`<strong>Do not trust this list.</strong> An authorizer with this key refuses it.`)
  return [verdict, html`<div class="rowed">${/** @type {Exclude<Check, 'key'>[]} */ (CHECKS.slice(1)).map(line)}</div>`, content && html`<p class="soft">Checked ${minute(Date.now())} UTC. The list names no tenant: the key must be that of ${html`<bdi dir="auto">${who().tenant_name}</bdi>`}.</p>`]
}

const name = () => `rescind.seen.${who().tenant_id}`

/** @returns {Remembered | null} */
function remembered() {
  try {
    return JSON.parse(localStorage.getItem(name()) ?? 'null')
  } catch {
    return null
  }
}

/** @param {Remembered | null} seen */
function remember(seen) {
  if (seen) localStorage.setItem(name(), JSON.stringify(seen))
  else localStorage.removeItem(name())
}
