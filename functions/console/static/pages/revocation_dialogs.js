/** Dialogs that revoke one warrant and take one revocation back. */

import { call, remove } from '../api.js'
import { html } from '../html.js'
import { ask, field } from '../parts/dialog.js'
import { announce, named } from '../parts/panel.js'
import { WARRANT_PATTERN } from '../parts/warrant_lines.js'

/**
 * Revoke one warrant, and go to its revocation.
 * @param {string} [warrant]
 */
export async function revokeOne(warrant = '') {
  const answer = await ask({
    title: 'Revoke a warrant', action: 'Revoke it', failed: 'The warrant is not revoked.',
    body: [
      field('Warrant', html`<input name="warrant" required value=${warrant} pattern=${WARRANT_PATTERN} autocomplete="off" spellcheck="false" maxlength="200">`, 'svc_wrt_ and 1 to 64 letters, digits, _ or -. The service need not know it.'),
      field('Reason', html`<textarea name="reason" required maxlength="1024" rows="2" dir="auto"></textarea>`, 'For people, and for the audit log.'),
      html`<p class="soft">Online checks refuse it at once, authorizers once they hold the change. You can take it back.</p>`,
    ],
    run: (form, headers) => call('POST', '/v1/revocations', { warrant_id: String(form.get('warrant')).trim(), reason: String(form.get('reason')) }, { headers }),
  })
  if (!answer) return
  announce(answer.status === 200 ? 'It was revoked before; this is its revocation.' : 'Revoked.')
  location.hash = `#/revocations/${answer.body.id}`
}

/**
 * Take one revocation back, and go to what holds of its warrant then.
 * @param {Pick<Api.RevocationRecord, 'id' | 'warrant_id' | 'reason'>} record
 */
export async function takeBack(record) {
  const done = await ask({
    title: 'Take this revocation back?', action: 'Take it back', failed: 'The revocation is not taken back.',
    body: [
      html`<p><strong>${record.warrant_id}</strong></p>${named(record.reason)}`,
      html`<p>The warrant is valid again: online checks let it in from the next request on, authorizers once they hold the change.</p>
        <p>This does not lift the revocation of a key: a warrant whose key is revoked stays refused.</p>`,
    ],
    run: async (_form, headers) => {
      await remove(`/v1/revocations/${record.id}`, headers)
      return true
    },
  })
  if (!done) return
  announce('Taken back.')
  location.hash = `#/revocations?warrant=${record.warrant_id}`
}
