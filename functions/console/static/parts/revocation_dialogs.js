/** Dialogs that revoke one warrant, and take revocations back. */

import { all, ApiError, call, now, remove } from '../api.js'
import { count } from '../format.js'
import { html, put } from '../html.js'
import { batchId, change, parts } from './batch.js'
import { APPROVAL, ask, confirm, exactInput, field, reasonField } from './dialog.js'
import { announce, banner, named, problem } from './panel.js'
import { work } from './progress.js'
import { WARRANT_PATTERN } from './warrant_lines.js'

/**
 * Revoke one warrant, and go to its change.
 * @param {string} [warrant]
 */
export async function revokeOne(warrant = '') {
  const answer = await ask({
    title: 'Revoke a warrant',
    action: 'Revoke it',
    failed: 'The warrant is not revoked.',
    body: [
      field(
        'Warrant',
        exactInput('warrant', { value: warrant, pattern: WARRANT_PATTERN, maxlength: 200 }),
        'svc_wrt_ and 1 to 64 letters, digits, _ or -. The service need not know it.',
      ),
      reasonField(),
      html`<p class="soft">
        Online checks refuse it at once, authorizers once they hold the change. You can take it back.
      </p>`,
    ],
    run: (form, headers) =>
      call(
        'POST',
        '/v1/revocations',
        { warrant_id: String(form.get('warrant')).trim(), reason: String(form.get('reason')) },
        { headers },
      ),
  })
  if (!answer) return
  announce(answer.status === 200 ? 'It was revoked before; this is its revocation.' : 'Revoked.')
  location.hash = `#/changes/${answer.body.id}`
}

/**
 * Take one revocation back.
 * @param {Pick<Api.RevocationRecord, 'id' | 'warrant_id' | 'reason'>} record
 */
export async function takeBack(record) {
  await confirm({
    title: 'Take this revocation back?',
    action: 'Take it back',
    failed: 'The revocation is not taken back.',
    body: [html`<p><strong>${record.warrant_id}</strong></p>`, named(record.reason), validAgain('The warrant is')],
    run: (headers) => remove(`/v1/revocations/${record.id}`, headers),
    said: 'Taken back.',
  })
}

/** @param {string} what as in "The warrant is" */
const validAgain = (what) =>
  html`<p>
      ${what} valid again: online checks let it in from the next request on, authorizers once they hold the change.
    </p>
    <p>This does not lift the revocation of a key: a warrant whose key is revoked stays refused.</p>`

/**
 * Take back all revocations of a batch.
 * @param {Element} place where it is told
 * @param {string} batch
 * @param {AbortSignal} signal
 */
export async function takeBackBatch(place, batch, signal) {
  const again = () => takeBackBatch(place, batch, signal)
  const failed = (/** @type {unknown} */ error, /** @type {string} */ text) => {
    if (!signal.aborted) put(place, problem(error, text, again))
  }
  /** @type {Api.RevocationRecord[] | void} */
  const records = await all('/v1/revocations', 'revocations', {
    signal,
    query: { batch_id: batch },
    most: Infinity,
  }).catch((error) => failed(error, 'The revocations of the batch could not be read. Nothing was changed.'))
  if (!records) return
  const ids = records.map(({ id }) => id)
  const words = count(ids.length, 'revocation')
  const own = batchId(now())
  const [first = [], ...rest] = parts(ids)
  let taken = 0
  const take = async (
    /** @type {string[]} */ some,
    /** @type {string} */ reason,
    /** @type {Record<string, string>} */ headers,
  ) => {
    const results = await change({ action: 'take_back', revocation_ids: some, batch_id: own, reason }, signal, headers)
    taken += results.filter(({ outcome }) => outcome === 'taken_back').length
  }
  const begun = await ask({
    title: `Take ${words} back?`,
    action: `Take ${words} back`,
    failed: 'Perhaps not all are taken back. To try again is safe: it changes nothing twice.',
    // The first call shows whether it needs another person, whose approval is for its members.
    run: async (form, given) => {
      const reason = String(form.get('reason')).trim()
      const headers = Object.fromEntries(Object.entries(given).filter(([name]) => name.startsWith(APPROVAL)))
      if (headers[APPROVAL] && rest.length)
        throw new ApiError(409, 'too_many', 'An approval is for one call. Take fewer revocations back at once.')
      if (first.length) await take(first, reason, headers)
      return { reason, headers }
    },
    body: [validAgain('Each of these warrants is'), reasonField('For the audit log.')],
  })
  if (!begun) return
  try {
    await work(place, 'revocations', rest, (some) => take(some, begun.reason, begun.headers), {
      size: (some) => some.length,
      signal,
    })
  } catch (error) {
    return failed(
      error,
      `${count(taken, 'revocation is', 'revocations are')} taken back, perhaps more. To try again is safe: ` +
        'it changes nothing twice.',
    )
  }
  put(
    place,
    banner(
      'force',
      html`<strong>${count(taken, 'revocation is', 'revocations are')} taken back.</strong> Online checks let
        ${taken === 1 ? 'its warrant' : 'their warrants'} in from now on, authorizers once they hold the change.`,
      html`<a class="button" href=${`#/audit?batch=${own}`}>The entries of the audit log</a>`,
    ),
  )
}
