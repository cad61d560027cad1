/** Dialogs that revoke and unrevoke warrants. */

import { call, now, post, remove } from '../api.js'
import { count, tokenWords } from '../format.js'
import { html, one, put } from '../html.js'
import { MANIFESTS, UnrevokeRun } from './batch.js'
import { APPROVAL, ask, choice, confirm, exactInput, field, reasonField } from './dialog.js'
import { announce, banner, userText, problem } from './panel.js'
import { WARRANT_PATTERN } from './warrant_lines.js'

/** Kinds of revoked objects, and their words. @type {[string, string][]} */
const KINDS = [
  ['', 'One identifier'],
  ['jwt-subject', 'All tokens of a user (sub)'],
  ['jwt-session', 'One session (sid)'],
]

/**
 * Revoke one warrant, or tokens, and go to the change.
 * @param {string} [warrant]
 */
export async function revokeOne(warrant = '') {
  /** @type {HTMLFieldSetElement} */
  const ofWarrant = one(
    html`<fieldset class="body">
      ${field(
        'Warrant',
        exactInput('warrant', { value: warrant, pattern: WARRANT_PATTERN, maxlength: 200 }),
        'svc_wrt_ and 1 to 64 letters, digits, _ or -. Unknown identifiers are allowed.',
      )}
    </fieldset>`,
  )
  // Otherwise the choice before it would have the focus.
  ofWarrant.querySelector('input')?.toggleAttribute('autofocus', true)
  /** @type {HTMLFieldSetElement} */
  const ofToken = one(
    html`<fieldset class="body" hidden disabled>
      ${field('Issuer', exactInput('issuer', { maxlength: 1024 }), 'The claim iss of the tokens.')}
      ${field('Value', exactInput('value', { maxlength: 1024 }), 'The claim sub, for tokens until now, or sid.')}
    </fieldset>`,
  )
  const choose = (/** @type {Event} */ event) => {
    const isToken = /** @type {HTMLSelectElement} */ (event.target).value !== ''
    ofWarrant.hidden = ofWarrant.disabled = isToken
    ofToken.hidden = ofToken.disabled = !isToken
  }
  const answer = await ask({
    title: 'Revoke a warrant',
    action: 'Revoke warrant',
    failed: 'The warrant could not be revoked.',
    body: [
      html`<div @change=${choose}>${field('Type', choice('kind', KINDS))}</div>`,
      ofWarrant,
      ofToken,
      reasonField(),
      html`<p class="soft">
        Online checks refuse it immediately, authorizers once they receive the change. You can unrevoke it.
      </p>`,
    ],
    run: (form, headers) => {
      const [kind, issuer, value, warrant_id] = ['kind', 'issuer', 'value', 'warrant'].map((name) =>
        String(form.get(name) ?? '').trim(),
      )
      // The tokens of a user are the tokens issued until now.
      const issued_before = kind === 'jwt-subject' ? Math.ceil(now() / 1000) : undefined
      const target = kind ? { token: { kind, issuer, value, issued_before } } : { warrant_id }
      return call('POST', '/v1/revocations', { ...target, reason: String(form.get('reason')) }, { headers })
    },
  })
  if (!answer) return
  announce(answer.status === 200 ? 'The warrant was already revoked. This is its revocation.' : 'Revoked.')
  location.hash = `#/changes/${answer.body.id}`
}

/**
 * Unrevoke one warrant.
 * @param {Pick<Api.RevocationRecord, 'id' | 'warrant_id' | 'reason' | 'token_issuer' | 'token_value'>} record
 */
export async function unrevoke(record) {
  await confirm({
    title: 'Unrevoke this warrant?',
    action: 'Unrevoke',
    failed: 'The warrant could not be unrevoked.',
    body: [
      html`<p><strong>${tokenWords(record) || record.warrant_id}</strong></p>`,
      userText(record.reason),
      validAgain('The warrant is'),
    ],
    run: (headers) => remove(`/v1/revocations/${record.id}`, headers),
    success: 'Warrant unrevoked.',
  })
}

/** @param {string} what for example "The warrant is" */
const validAgain = (what) =>
  html`<p>${what} valid again. Online checks accept it immediately, authorizers once they receive the change.</p>
    <p>Warrants of a revoked signing key stay revoked.</p>`

/**
 * Unrevoke all warrants of a batch.
 * @param {Element} place place for messages
 * @param {string} batch
 * @param {AbortSignal} signal
 */
export async function unrevokeBatch(place, batch, signal) {
  const again = () => unrevokeBatch(place, batch, signal)
  const failed = (/** @type {unknown} */ error, /** @type {string} */ text) => {
    if (!signal.aborted) put(place, problem(error, text, again))
  }
  /** @type {Api.Manifest | void} */
  const manifest = await post(MANIFESTS, { batch_id: batch }, { signal }).catch((error) =>
    failed(error, 'The revocations of the batch could not be loaded. Nothing was changed.'),
  )
  if (!manifest) return
  const action = `Unrevoke ${count(manifest.count, 'warrant')}`
  const run = new UnrevokeRun(manifest, signal)
  const [first, ...rest] = run.parts
  const begun = await ask({
    title: `${action}?`,
    action,
    failed: 'Some warrants may still be revoked. You can safely try again.',
    // The first part shows whether an approval is necessary, which then covers all parts.
    run: async (form, all) => {
      const reason = String(form.get('reason')).trim()
      const headers = Object.fromEntries(Object.entries(all).filter(([name]) => name.startsWith(APPROVAL)))
      if (first) await run.apply(first, reason, headers)
      return { reason, headers }
    },
    body: [validAgain('Each of these warrants is'), reasonField('For the audit log.')],
  })
  if (!begun) return
  try {
    await run.go(place, rest, begun.reason, begun.headers)
  } catch (error) {
    return failed(error, `${count(run.unrevoked, 'warrant')} unrevoked, perhaps more. You can safely try again.`)
  }
  const { unrevoked } = run
  put(
    place,
    banner(
      'force',
      html`<strong>${count(unrevoked, 'warrant')} unrevoked.</strong> Online checks accept
        ${unrevoked === 1 ? 'it' : 'them'} immediately, authorizers once they receive the change.`,
      html`<a class="button" href=${`#/audit?batch=${manifest.unrevoke_batch_id}`}>View audit entries</a>`,
    ),
  )
}
